// SPDX-License-Identifier: Apache-2.0
'use strict';

// HTTP itself: paths, methods, framing, limits, and clients that misbehave.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, rawGet, rawPost, until, useServer } = require('./harness');

function job(queue) {
    return JSON.stringify({ queue, type: 't', payload: 1 });
}

// Sends bytes on a connection of their own; the answer must be that error, and the last.
async function refused(server, bytes, status, code, sentence) {
    const wire = await server.wire();
    wire.send(bytes);
    const res = await wire.response();
    assertError(res, status, code, sentence);
    assert.equal(res.headers.connection, 'close');
    await wire.assertEnds();
    wire.close();
    await server.assertServes();
}

describe('a path', () => {
    const server = useServer();

    it('that_no_endpoint_has_is_not_found', async () => {
        const targets = ['/job', '/jobs/', '/jobs/x/y', '/jobs/x/errors/1/2', '/jobs//runs',
            '/Jobs',
            '/queues/x/y', '/health/', '/jobs/x/success/', '/%6Aobs/x/y', '//jobs'];
        for (const target of targets)
            assertError(await server.get(target), 404, 'no_such_path');
        assertError(await server.request('OPTIONS', '*'), 404, 'no_such_path');
    });

    it('with_another_method_says_which_are_allowed', async () => {
        const id = '0'.repeat(24) + '1';
        const cases = {
            '/jobs': ['GET, HEAD, POST, PATCH, DELETE', ['PUT', 'OPTIONS']],
            '/jobs/bulk': ['POST', ['PUT', 'GET', 'PATCH', 'DELETE']],
            '/jobs/claim': ['POST, DELETE', ['GET', 'PATCH']],
            '/jobs/count': ['GET, HEAD', ['DELETE', 'PATCH', 'POST']],
            '/jobs/take': ['GET', ['HEAD', 'DELETE']],
            '/events': ['GET', ['HEAD', 'POST']],
            '/retry-policies/simulate': ['POST', ['GET', 'PUT', 'DELETE']],
            [`/jobs/${id}`]: ['GET, HEAD, PATCH, DELETE', ['POST', 'PUT']],
            [`/jobs/${id}/cancel`]: ['POST', ['GET', 'DELETE']],
            [`/jobs/${id}/retry`]: ['POST', ['GET', 'PATCH']],
            '/jobs/retry': ['POST', ['PUT']],
            '/reset': ['POST', ['GET', 'DELETE']],
            [`/jobs/${id}/success`]: ['POST', ['GET', 'DELETE', 'HEAD']],
            [`/jobs/${id}/failure`]: ['POST', ['GET']],
            [`/jobs/${id}/renew`]: ['POST', ['GET']],
            [`/jobs/${id}/release`]: ['POST', ['GET']],
            [`/jobs/${id}/runs`]: ['GET, HEAD', ['POST', 'DELETE']],
            [`/jobs/${id}/errors`]: ['GET, HEAD', ['POST']],
            [`/jobs/${id}/errors/1`]: ['GET, HEAD', ['DELETE']],
            '/queues': ['GET, HEAD, POST', ['PUT', 'DELETE']],
            '/health': ['GET, HEAD', ['POST']],
            '/version': ['GET, HEAD', ['DELETE']],
        };
        for (const [target, [allow, methods]] of Object.entries(cases))
            for (const method of methods) {
                const res = await server.request(method, target);
                assert.equal(res.headers.allow, allow, `${method} ${target}`);
                if (method === 'HEAD')
                    assert.equal(res.status, 405);
                else
                    assertError(res, 405, 'method_not_allowed');
            }
    });

    it('with_a_method_that_nobody_has_is_answered_on_a_connection_that_stays', async () => {
        const wire = await server.wire();
        for (const method of ['BREW', 'PROPFIND', 'TRACE', 'get', 'X!']) {
            const head = `${method} /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n`;
            wire.send(head.slice(0, 3));
            wire.send(`${head.slice(3)}GET /`);
            assertError(await wire.response(), 501, 'not_supported');
        }
        wire.send('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
        assert.equal((await wire.response()).status, 200);
        wire.close();
    });

    it('that_cannot_be_decoded_is_refused', async () => {
        for (const target of ['/jobs/%', '/jobs/%4', '/jobs/%zz', '/jobs/%ff', '/jobs?queue=%',
            '/jobs?%zz=1', '/jobs/count?queue=%C3', '/jobs/take?queue=%e2%82'])
            assertError(await server.get(target), 400, 'bad_request');
    });

    it('may_be_encoded_where_it_need_not', async () => {
        const { id } = await server.enqueue({ queue: 'a+b c' });
        const coded = [...id].map((c) => `%${c.charCodeAt(0).toString(16)}`).join('');
        assert.equal((await server.job(coded)).id, id);
        for (const query of ['queue=a%2Bb+c', '%71ueue=a%2bb%20c'])
            assert.deepEqual((await server.get(`/jobs/count?${query}`)).json, { count: 1 });
    });

    it('may_be_a_whole_URL', async () => {
        const wire = await server.wire();
        wire.send('GET http://localhost:80/version HTTP/1.1\r\nHost: localhost\r\n\r\n');
        assert.equal((await wire.response()).status, 200);
        wire.close();
    });

    it('is_quoted_in_an_error_that_is_valid_JSON_whatever_it_is', async () => {
        const targets = [`/${'é'.repeat(120)}`, '/\xff\xfe', '/"quoted"', '/\\', '/<&>',
            `/jobs/${'é'.repeat(100)}`];
        for (const target of targets) {
            const wire = await server.wire();
            wire.send(Buffer.concat([Buffer.from('GET '),
                Buffer.from(target, target.includes('\xff') ? 'latin1' : 'utf8'),
                Buffer.from(' HTTP/1.1\r\nHost: localhost\r\n\r\n')]));
            const res = await wire.response(); // decodes strictly
            assert.ok([400, 404].includes(res.status), `${res.status} ${res.text}`);
            assert.equal(typeof res.json.error, 'string');
            wire.close();
        }
        for (const header of ['Accept: \xff', 'Accept: text/"\xe9',
            `Accept: ${'\xc3\xa9'.repeat(150)}`]) {
            const wire = await server.wire();
            wire.send(Buffer.from(rawGet('/health', `${header}\r\n`), 'latin1'));
            assertError(await wire.response(), 406, 'not_acceptable');
            wire.close();
        }
        const long = await server.get(`/jobs?status=${'%C3%A9'.repeat(200)}`);
        assertError(long, 400, 'bad_value');
        assertError(await server.delete(`/jobs?${'%E2%82%AC'.repeat(200)}=1`), 400,
            'unknown_field');
    });
});

describe('a connection', () => {
    const server = useServer();

    it('answers_requests_in_their_order', async () => {
        const queue = queueName();
        const wire = await server.wire();
        const requests = [];
        for (let i = 0; i < 50; i++)
            requests.push(rawPost('/jobs', job(queue)), Buffer.from(rawGet('/version')),
                rawPost('/jobs', '{"bad"'), Buffer.from(rawGet(`/jobs/count?queue=${queue}`)));
        wire.send(Buffer.concat(requests));
        for (let i = 0; i < 50; i++) {
            assert.equal((await wire.response()).status, 201);
            assert.equal((await wire.response()).json.server, 'tenax');
            assertError(await wire.response(), 400, 'bad_json');
            const { count } = (await wire.response()).json;
            assert.ok(count >= i + 1 && count <= 50, `${count} after ${i + 1}`);
        }
        wire.close();
    });

    it('answers_a_long_poll_before_what_was_asked_after_it', async () => {
        const queue = queueName();
        const wire = await server.wire();
        const claim = JSON.stringify({ queues: [queue], wait_ms: 60000 });
        await wire.sendAll(Buffer.concat([rawPost('/jobs/claim', claim),
            Buffer.from(rawGet('/version'))]));
        const { id } = await server.enqueue({ queue });
        assert.equal((await wire.response()).json.jobs[0].id, id);
        assert.equal((await wire.response()).json.server, 'tenax');
        wire.close();
    });

    it('takes_a_request_byte_by_byte', async () => {
        const queue = queueName();
        const wire = await server.wire();
        for (const byte of rawPost('/jobs', job(queue)))
            await wire.sendAll(Buffer.from([byte]));
        assert.equal((await wire.response()).status, 201);
        wire.close();
    });

    it('is_closed_after_a_request_that_asks_for_it', async () => {
        const wire = await server.wire();
        wire.send(rawGet('/version', 'Connection: close\r\n'));
        const res = await wire.response();
        assert.equal(res.headers.connection, 'close');
        await wire.assertEnds();
        wire.close();
    });

    it('of_HTTP_1.0_is_closed_after_its_answer', async () => {
        const wire = await server.wire();
        wire.send('GET /version HTTP/1.0\r\n\r\n');
        const res = await wire.response();
        assert.equal(res.status, 200);
        assert.equal(res.json.server, 'tenax');
        await wire.assertEnds();
        wire.close();
    });

    it('of_HTTP_1.0_for_a_stream_gets_its_first_job_at_once', async () => {
        const queue = queueName();
        const wire = await server.wire();
        wire.send(`GET /jobs/take?queue=${queue} HTTP/1.0\r\n\r\n`);
        const { headers } = await wire.head();
        assert.equal(headers['x-accel-buffering'], 'no');
        assert.equal(headers['transfer-encoding'], undefined, 'HTTP/1.0 has no chunks');
        assert.equal(headers.connection, 'close');
        const { id } = await server.enqueue({ queue });
        let line;
        do
            line = await wire.before('\n');
        while (line === '');
        assert.equal(JSON.parse(line).id, id);
        wire.close();
        await until(async () => (await server.job(id)).status === 'ready', 'the job is given back');
    });

    it('whose_client_shut_down_its_side_is_answered_still', async () => {
        const queue = queueName();
        const wire = await server.wire();
        wire.send(rawPost('/jobs', job(queue))).send(rawGet(`/jobs/count?queue=${queue}`)).end();
        assert.equal((await wire.response()).status, 201);
        assert.deepEqual((await wire.response()).json, { count: 1 });
        await wire.assertEnds();
        wire.close();
    });

    it('that_ends_inside_a_request_leaves_nothing', async () => {
        const queue = queueName();
        const whole = rawPost('/jobs', job(queue));
        for (const length of [1, 30, whole.length - 1])
            for (const leave of ['close', 'end']) {
                const wire = await server.wire();
                await wire.sendAll(whole.subarray(0, length));
                wire[leave]();
                if (leave === 'end')
                    await until(() => wire.over, 'the server ends it too');
                wire.close();
            }
        await server.assertServes();
        assert.deepEqual((await server.get(`/jobs/count?queue=${queue}`)).json, { count: 0 });
    });

    it('may_be_opened_and_closed_many_times', async () => {
        for (let i = 0; i < 200; i++)
            (await server.wire()).close();
        await server.assertServes();
    });
});

describe('a request', () => {
    const server = useServer();

    it('of_HEAD_is_answered_like_GET_without_the_body', async () => {
        const { id } = await server.enqueue({ queue: 'q' });
        for (const target of ['/jobs', `/jobs/${id}`, '/jobs/count', '/queues', '/version',
            `/jobs/${id}/runs`]) {
            const get = await server.get(target);
            const wire = await server.wire();
            wire.send(`HEAD ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`).send(rawGet('/version'));
            const res = await wire.response({ head: true });
            assert.equal(res.status, 200);
            assert.equal(Number(res.headers['content-length']), get.bytes.length, target);
            assert.equal((await wire.response()).json.server, 'tenax', 'no body lies in between');
            wire.close();
        }
        assert.equal((await server.request('HEAD', '/jobs/x')).status, 404);
    });

    it('that_expects_100_gets_it_before_its_body', async () => {
        const queue = queueName();
        const bytes = rawPost('/jobs', job(queue), 'Expect: 100-continue\r\n');
        const split = bytes.indexOf('\r\n\r\n') + 4;
        const wire = await server.wire();
        wire.send(bytes.subarray(0, split));
        assert.equal((await wire.response()).status, 100);
        wire.send(bytes.subarray(split));
        assert.equal((await wire.response()).status, 201);
        wire.close();
    });

    it('may_have_its_body_in_chunks', async () => {
        const queue = queueName();
        const body = job(queue);
        const head = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n' +
            'Content-Type: application/json\r\n\r\n';
        const chunks = [body.slice(0, 1), body.slice(1, 7), body.slice(7)]
            .map((part) => `${part.length.toString(16)};ext=1\r\n${part}\r\n`);
        const wire = await server.wire();
        for (const part of [head, ...chunks, '0\r\nTrailer: x\r\n\r\n'])
            await wire.sendAll(part);
        assert.equal((await wire.response()).status, 201);
        wire.send(`${head}${chunks.join('')}0\r\n\r\n${rawGet(`/jobs/count?queue=${queue}`)}`);
        assert.equal((await wire.response()).status, 201);
        assert.deepEqual((await wire.response()).json, { count: 2 });
        wire.close();
    });

    it('may_come_after_empty_lines', async () => {
        const wire = await server.wire();
        wire.send(`\r\n\r\n${rawGet('/version')}`);
        assert.equal((await wire.response()).status, 200);
        wire.close();
    });

    const malformed = {
        no_HTTP: 'hello\r\n\r\n',
        no_version: 'GET /version\r\n\r\n',
        another_version: 'GET /version HTTP/3.0\r\nHost: localhost\r\n\r\n',
        no_host: 'GET /version HTTP/1.1\r\n\r\n',
        two_hosts: 'GET /version HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n',
        a_space_before_the_colon: 'GET /version HTTP/1.1\r\nHost : x\r\n\r\n',
        a_folded_line: 'GET /version HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n',
        lines_without_CR: 'GET /version HTTP/1.1\nHost: x\n\n',
        a_header_without_colon: 'GET /version HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n',
        a_NUL: 'GET /version HTTP/1.1\r\nHost: localhost\r\nA: \0\r\n\r\n',
        a_length_that_is_none: 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n',
        a_negative_length: 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n',
        two_lengths: 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n' +
            'Content-Length: 2\r\n\r\n12',
        a_length_and_chunks: 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n' +
            'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
        a_chunk_length_that_is_none: 'POST /jobs HTTP/1.1\r\nHost: localhost\r\n' +
            'Transfer-Encoding: chunked\r\n\r\nxyz\r\n',
        no_path: 'GET version HTTP/1.1\r\nHost: localhost\r\n\r\n',
        a_fragment: 'GET /version#x HTTP/1.1\r\nHost: localhost\r\n\r\n',
        a_space_in_the_path: 'GET /ver sion HTTP/1.1\r\nHost: localhost\r\n\r\n',
        TLS: Buffer.from('160301020001000200', 'hex'),
    };
    for (const [name, bytes] of Object.entries(malformed))
        it(`with_${name}_is_refused`, async () => {
            await refused(server, bytes, 400, 'bad_request');
        });

    it('with_another_transfer_encoding_is_refused', async () => {
        const head = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n';
        await refused(server, head, 501, 'not_supported');
    });

    it('that_is_malformed_is_answered_after_those_before_it', async () => {
        const wire = await server.wire();
        wire.send(`${rawGet('/version')}${rawGet('/queues')}nonsense\r\n\r\n${rawGet('/version')}`);
        assert.equal((await wire.response()).status, 200);
        assert.equal((await wire.response()).status, 200);
        assertError(await wire.response(), 400, 'bad_request');
        await wire.assertEnds();
        wire.close();
    });
});

describe('a limit', () => {
    const server = useServer({ args: ['--max-body', '1000'] });

    // A job whose JSON has that many bytes.
    function sized(queue, bytes) {
        const text = JSON.stringify({ queue, type: 't', payload: '' });
        return text.replace('""', `"${'x'.repeat(bytes - text.length)}"`);
    }

    it('of_a_body_is_kept', async () => {
        const queue = queueName();
        assert.equal((await server.post('/jobs', sized(queue, 1000))).status, 201);
        await refused(server, rawPost('/jobs', sized(queue, 1001)), 413, 'body_too_large', /1000/);
        assert.deepEqual((await server.get(`/jobs/count?queue=${queue}`)).json, { count: 1 });
    });

    it('of_a_body_is_told_before_the_body_is_sent', async () => {
        const head = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\n' +
            'Content-Length: 18446744073709551615\r\n\r\n';
        await refused(server, head, 413, 'body_too_large');
        const expecting = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n' +
            'Expect: 100-continue\r\n\r\n';
        await refused(server, expecting, 413, 'body_too_large');
    });

    it('of_a_body_in_chunks_is_kept', async () => {
        const head = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
        const chunk = `12c\r\n${'x'.repeat(300)}\r\n`;
        await refused(server, head + chunk.repeat(4), 413, 'body_too_large');
        await refused(server, `${head}ffffffff\r\n`, 413, 'body_too_large');
    });

    it('of_header_lines_is_kept', async () => {
        const lines = Array.from({ length: 200 }, (_, i) => `X-${i}: y\r\n`).join('');
        await refused(server, rawGet('/version', lines), 431, 'headers_too_large');
    });

    it('of_header_bytes_is_kept', async () => {
        await refused(server, rawGet('/version', `X: ${'y'.repeat(40000)}\r\n`), 431,
            'headers_too_large');
    });

    it('of_header_bytes_is_kept_by_a_flood_without_end', async () => {
        const wire = await server.wire();
        wire.send('GET /version HTTP/1.1\r\nHost: localhost\r\nX: ');
        while (!wire.over && !wire.seen.length) {
            await wire.sendAll('y'.repeat(4096));
            await new Promise((resolve) => setImmediate(resolve)); // so that an answer is seen
        }
        assertError(await wire.response(), 431, 'headers_too_large');
        wire.close();
        await server.assertServes();
    });

    it('of_the_target_is_kept', async () => {
        const start = '/jobs/count?id=';
        const fits = start + '0'.repeat(25) + ',0000000000000000000000000'.repeat(2000)
            .padEnd(128 * 1024 - start.length - 25, '&');
        assert.equal((await server.get(fits)).status, 200);
        await refused(server, rawGet(`${fits}&`), 414, 'uri_too_long');
    });
});

describe('a list of ids in the address', () => {
    const server = useServer();

    it('may_name_two_thousand_jobs', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(Array.from({ length: 2000 }, () => ({ queue })));
        const list = `/jobs/count?id=${ids.join(',')}`;
        assert.deepEqual((await server.get(list)).json, { count: 2000 });
        const coded = `/jobs/count?id=${ids.join('%2C')}&queue=${queue}`;
        assert.deepEqual((await server.get(coded)).json, { count: 2000 });
    });
});

describe('a client that is slow', () => {
    const server = useServer({
        args: ['--header-timeout', '2s', '--body-timeout', '2s', '--idle-timeout', '3s'],
        keepAlive: false,
    });

    it('with_the_head_of_a_request_is_refused', async () => {
        await refused(server, 'GET /version HTTP/1.1\r\nHo', 408, 'request_timeout', /headers/);
    });

    it('with_a_body_is_refused', async () => {
        const bytes = rawPost('/jobs', job('q'));
        await refused(server, bytes.subarray(0, bytes.length - 5), 408, 'request_timeout', /body/);
        assert.deepEqual((await server.get('/jobs/count')).json, { count: 0 });
    });

    it('with_chunks_is_refused', async () => {
        const head = 'POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab';
        await refused(server, head, 408, 'request_timeout');
    });

    it('that_drips_header_bytes_is_refused_all_the_same', async () => {
        const wire = await server.wire();
        wire.send('GET /version HTTP/1.1\r\n');
        const drip = setInterval(() => wire.send('X: y\r\n'), 40);
        try {
            assertError(await wire.response(), 408, 'request_timeout');
        } finally {
            clearInterval(drip);
            wire.close();
        }
        await server.assertServes();
    });

    it('to_ask_again_is_disconnected', async () => {
        const wire = await server.wire();
        wire.send(rawGet('/version'));
        assert.equal((await wire.response()).status, 200);
        await wire.assertEnds();
        wire.close();
    });

    it('but_waits_for_a_long_poll_is_not', async () => {
        const queue = queueName();
        const jobs = await server.claim({ queues: [queue], wait_ms: 4000 });
        assert.deepEqual(jobs, []);
        const taker = await server.take(`?queue=${queue}`);
        await new Promise((resolve) => {
            // The wait of another claim is the clock: longer than every timeout above.
            server.claim({ queues: [queueName()], wait_ms: 4000 }).then(resolve);
        });
        const { id } = await server.enqueue({ queue });
        assert.equal((await taker.next()).id, id);
        taker.close();
    });
});

describe('more connections than allowed', () => {
    const server = useServer({ args: ['--max-connections', '3'] });

    it('are_refused_until_one_is_closed', async () => {
        const wires = [];
        for (let i = 0; i < 3; i++) {
            const wire = await server.wire();
            wire.send(rawGet('/version'));
            assert.equal((await wire.response()).status, 200);
            wires.push(wire);
        }
        const over = await server.wire();
        assertError(await over.response(), 503, 'busy');
        await over.assertEnds();
        over.close();
        wires.forEach((wire) => wire.close());
        await until(async () => {
            const wire = await server.wire();
            wire.send(rawGet('/version'));
            const { status } = await wire.response();
            wire.close();
            return status === 200;
        }, 'there is room again');
    });
});
