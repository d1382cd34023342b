/* SPDX-License-Identifier: Apache-2.0 */
/* RabbitMQ, by rabbitmq-c: persistent messages to a durable queue, with confirms; consumers
 * acknowledge each message. */
#include <stdlib.h>
#include <sys/time.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "base/alloc.h"
#include "broker.h"

#define CHANNEL 1

struct rabbit {
    amqp_connection_state_t at;
    amqp_bytes_t queue;
    struct buf body; /* of the message that is arriving */
    uint64_t tag, size;
    bool arriving;
};

static void must_succeed(amqp_rpc_reply_t r, const char *what)
{
    if (r.reply_type == AMQP_RESPONSE_NORMAL)
        return;
    if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *c = r.reply.decoded;
        crew_fail("rabbitmq: %s: %.*s", what, (int)c->reply_text.len, (char *)c->reply_text.bytes);
    }
    crew_fail("rabbitmq: %s: %s", what,
              r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(r.library_error)
                                                              : "refused");
}

static void declare(struct rabbit *r, const char *type)
{
    amqp_table_entry_t entry = {
        .key = amqp_cstring_bytes("x-queue-type"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(type)},
    };
    amqp_table_t args = {.num_entries = 1, .entries = &entry};
    amqp_queue_declare(r->at, CHANNEL, r->queue, 0, 1, 0, 0, args);
    must_succeed(amqp_get_rpc_reply(r->at), "queue.declare");
}

static void open_typed(struct broker_link *l, const char *type)
{
    const struct load_options *o = l->broker->o;
    struct rabbit *r = ALLOC(struct rabbit);
    l->state = r;
    r->queue = amqp_cstring_bytes(o->queue);
    r->at = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(r->at);
    if (!socket || amqp_socket_open(socket, o->to.host, o->to.port) != AMQP_STATUS_OK)
        crew_fail("rabbitmq: cannot connect to %s:%d", o->to.host, o->to.port);
    must_succeed(amqp_login(r->at, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"),
                 "login");
    amqp_channel_open(r->at, CHANNEL);
    must_succeed(amqp_get_rpc_reply(r->at), "channel.open");
    declare(r, type);
    amqp_confirm_select(r->at, CHANNEL);
    must_succeed(amqp_get_rpc_reply(r->at), "confirm.select");
    l->fd = amqp_get_sockfd(r->at);
}

static void quorum_open(struct broker_link *l)
{
    open_typed(l, "quorum");
}

static void classic_open(struct broker_link *l)
{
    open_typed(l, "classic");
}

static void rabbit_close(struct broker_link *l)
{
    struct rabbit *r = l->state;
    amqp_connection_close(r->at, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(r->at);
    buf_fini(&r->body);
    free(r);
}

static void rabbit_put(struct broker_link *l, struct str payload)
{
    struct rabbit *r = l->state;
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
    };
    amqp_bytes_t body = {.len = payload.len, .bytes = (void *)(uintptr_t)payload.at};
    int status =
        amqp_basic_publish(r->at, CHANNEL, amqp_empty_bytes, r->queue, 1, 0, &properties, body);
    if (status != AMQP_STATUS_OK)
        crew_fail("rabbitmq: basic.publish: %s", amqp_error_string2(status));
}

static void rabbit_consume(struct broker_link *l)
{
    struct rabbit *r = l->state;
    amqp_basic_qos(r->at, CHANNEL, 0, 1000, 0);
    must_succeed(amqp_get_rpc_reply(r->at), "basic.qos");
    amqp_basic_consume(r->at, CHANNEL, r->queue, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    must_succeed(amqp_get_rpc_reply(r->at), "basic.consume");
}

static void on_method(struct broker_link *l, const amqp_method_t *m)
{
    struct rabbit *r = l->state;
    if (m->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = m->decoded;
        (ack->multiple ? broker_stored_up_to : broker_stored)(l, ack->delivery_tag);
    } else if (m->id == AMQP_BASIC_DELIVER_METHOD) {
        r->tag = ((const amqp_basic_deliver_t *)m->decoded)->delivery_tag;
        r->body.len = 0;
        r->arriving = true;
    } else {
        crew_fail("rabbitmq: unexpected: %s", amqp_method_name(m->id));
    }
}

static void on_frame(struct broker_link *l, const amqp_frame_t *f)
{
    struct rabbit *r = l->state;
    if (f->frame_type == AMQP_FRAME_METHOD)
        on_method(l, &f->payload.method);
    else if (f->frame_type == AMQP_FRAME_HEADER)
        r->size = f->payload.properties.body_size;
    else if (f->frame_type == AMQP_FRAME_BODY)
        buf_add(&r->body, f->payload.body_fragment.bytes, f->payload.body_fragment.len);
    if (!r->arriving || f->frame_type == AMQP_FRAME_METHOD || r->body.len < r->size)
        return;
    r->arriving = false;
    broker_job(l, buf_view(&r->body));
    /* The broker does not answer an acknowledgement. */
    int status = amqp_basic_ack(r->at, CHANNEL, r->tag, 0);
    if (status != AMQP_STATUS_OK)
        crew_fail("rabbitmq: basic.ack: %s", amqp_error_string2(status));
    l->broker->deleted++;
}

static void rabbit_receive(struct broker_link *l)
{
    struct rabbit *r = l->state;
    for (;;) {
        amqp_frame_t frame;
        struct timeval none = {0};
        int status = amqp_simple_wait_frame_noblock(r->at, &frame, &none);
        if (status == AMQP_STATUS_TIMEOUT)
            break;
        if (status != AMQP_STATUS_OK)
            crew_fail("rabbitmq: %s", amqp_error_string2(status));
        l->broker->now = crew_clock();
        on_frame(l, &frame);
    }
    amqp_maybe_release_buffers(r->at);
}

static uint64_t rabbit_count(struct broker_link *l)
{
    struct rabbit *r = l->state;
    amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(r->at, CHANNEL, r->queue, 1, 0, 0, 0, amqp_empty_table);
    must_succeed(amqp_get_rpc_reply(r->at), "queue.declare");
    return ok->message_count;
}

const struct broker_kind broker_rabbitmq_quorum = {
    "rabbitmq-quorum", quorum_open,    rabbit_close, rabbit_put,
    rabbit_consume,    rabbit_receive, rabbit_count,
};

const struct broker_kind broker_rabbitmq_classic = {
    "rabbitmq-classic", classic_open,   rabbit_close, rabbit_put,
    rabbit_consume,     rabbit_receive, rabbit_count,
};
