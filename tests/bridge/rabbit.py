# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ as somebody else's client sees it, for tests: orders as lines of JSON on standard input,
an answer each on standard output. A connection that broke is made again by the next order."""
import base64
import json
import sys

import pika

connection = None
channel = None


def connect():
    global connection, channel
    if connection is None or connection.is_closed or channel.is_closed:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters('127.0.0.1', int(sys.argv[1]), heartbeat=0))
        channel = connection.channel()
        channel.confirm_delivery()


def plain(value):
    if isinstance(value, bytes):
        return {'bytes': base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return {'other': str(value)}


def shown(method, properties, body):
    known = {k: plain(v) for k, v in vars(properties).items() if v is not None}
    return {'exchange': method.exchange, 'routingKey': method.routing_key,
            'redelivered': method.redelivered, 'properties': known,
            'body': base64.b64encode(body).decode()}


def publish(o):
    for m in o['messages']:
        channel.basic_publish(m.get('exchange', ''), m['routingKey'],
                              base64.b64decode(m['body']),
                              pika.BasicProperties(**m.get('properties', {})), mandatory=True)
    return len(o['messages'])


def drain(o):
    found = []
    while len(found) < o.get('max', 1 << 30):
        method, properties, body = channel.basic_get(o['queue'])
        if method is None:
            break
        found.append(shown(method, properties, body))
        channel.basic_ack(method.delivery_tag)
    return found


def queue(o):
    channel.queue_declare(o['queue'], durable=True, arguments=o.get('arguments'))
    for exchange, key in o.get('bindings', []):
        channel.queue_bind(o['queue'], exchange, key)


def exchange(o):
    channel.exchange_declare(o['exchange'], o.get('type', 'topic'), durable=True)


def count(o):
    return channel.queue_declare(o['queue'], passive=True).method.message_count


def delete(o):
    channel.queue_delete(o['queue'])


orders = {f.__name__: f for f in (publish, drain, queue, exchange, count, delete)}

for line in sys.stdin:
    order = json.loads(line)
    try:
        connect()
        answer = {'is': orders[order['do']](order)}
    except Exception as error:  # whatever it is, the test has to hear of it
        answer = {'error': f'{type(error).__name__}: {error}'}
        try:
            connection.close()
        except Exception:
            pass
        connection = None
    print(json.dumps(answer), flush=True)
