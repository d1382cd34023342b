// SPDX-License-Identifier: Apache-2.0

// Requests, against the server of TENAX_URL, which is behind a proxy that loses answers.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import * as tenax from '../src/index.js';

const client = new tenax.Client();
const plain = new tenax.Client({ idempotent: false });
after(() => [client, plain].forEach((one) => one.close()));
const drop = (path, count = 1) => client.request('POST', '/proxy/drop', { path, count });
const count = async (queue) => (await client.request('GET', `/jobs/count?queue=${queue}`)).count;

async function caught(promise, Kind) {
    let error;
    await assert.rejects(promise, (err) => {
        error = err;
        return true;
    });
    assert.ok(error instanceof Kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.name, error.constructor.name);
    return error;
}

describe('requests', () => {
    it('carry_all_options', async () => {
        const job = await client.enqueue('options', 't', { a: [1, 'ü', null] }, {
            priority: 7, ready_at: new Date('2100-01-02T00:00:00Z'), retry_limit: 3, alias: 'options-1',
            backoff: { base_ms: 1, exponent: 2, jitter_ms: 3 }, unique_key: undefined,
        });
        assert.equal(job.duplicate, false);
        const got = await client.job(job.id);
        assert.deepEqual(got.payload, { a: [1, 'ü', null] });
        assert.deepEqual([got.priority, got.retry_limit, got.alias, got.status, got.ready_at],
            [7, 3, 'options-1', 'scheduled', 4102531200000]);
        assert.deepEqual(got.backoff, { base_ms: 1, exponent: 2, jitter_ms: 3 });
        assert.deepEqual((await client.job('alias:options-1', { runs: true })).runs, []);
    });

    it('find_a_server_whose_scheme_is_left_out', async () => {
        const { host } = new URL(process.env.TENAX_URL);
        const bare = new tenax.Client({ url: `${host}/` });
        assert.ok((await bare.enqueue('bare', 't')).id);
        bare.close();
        for (const [url, meant] of [['example.org', 'http://example.org:7890'], ['[::1]:1', 'http://[::1]:1'],
            ['localhost:1/prefix/', 'http://localhost:1/prefix']])
            assert.equal(new tenax.Client({ url }).url, meant);
        for (const url of ['ftp://localhost', 'http:/localhost', 'http//localhost', 'localhost:', '::1', ':7890',
            'localhost:x', 'localhost:99999'])
            assert.throws(() => new tenax.Client({ url }), /or localhost:7890/, url);
    });

    it('find_the_job_that_has_the_unique_key', async () => {
        const first = await client.enqueue('unique', 't', null, { unique_key: 'k' });
        const again = await client.enqueue('unique', 't', null, { unique_key: 'k' });
        assert.deepEqual([again.duplicate, again.id], [true, first.id]);
    });

    it('in_bulk_are_all_or_none', async () => {
        const jobs = await client.enqueueBulk([0, 1, 2].map((payload) => (
            { queue: 'bulk', type: 't', payload })));
        for (const [i, { id }] of jobs.entries())
            assert.equal((await client.job(id)).payload, i);
        const bad = await caught(client.enqueueBulk([{ queue: 'bulk', type: 't' },
            { queue: 'bulk', type: 't', priority: -1 }]), tenax.BadRequest);
        assert.deepEqual([bad.status, bad.code, bad.where], [400, 'bad_value', 'jobs[1].priority']);
        assert.ok(bad.offset > 0);
        assert.equal(await count('bulk'), 3);
    });

    it('have_errors_of_a_type', async () => {
        const { id } = await client.enqueue('errors', 't');
        const nobody = '03fr82s077azjmurys29qjch4';
        await client.request('POST', '/queues', { name: 'errors-q' });
        for (const [Kind, status, code, ask] of [
            [tenax.NotFound, 404, 'not_found', () => client.job(nobody)],
            [tenax.BadRequest, 400, 'bad_name', () => client.enqueue('a,b', 't')],
            [tenax.Unprocessable, 422, 'unprocessable',
                () => client.enqueue('errors', 't', 1, { depends_on: [nobody] })],
            [tenax.NotFound, 404, 'not_in_flight', () => client.request('POST', `/jobs/${id}/success`, {})],
            [tenax.Conflict, 409, 'conflict', () => client.request('POST', '/queues', { name: 'errors-q' })],
        ]) {
            const error = await caught(ask(), Kind);
            assert.deepEqual([error.status, error.code], [status, code]);
            assert.match(error.message, new RegExp(code));
        }
    });

    it('to_enqueue_are_repeated_when_the_answer_is_lost_and_add_one_job', async () => {
        await drop('/jobs', 2);
        assert.equal((await client.enqueue('once', 't')).duplicate, false);
        await drop('/jobs/bulk');
        await client.enqueueBulk([{ queue: 'once', type: 't' }]);
        assert.equal(await count('once'), 2);
    });

    it('to_enqueue_may_have_an_idempotency_key', async () => {
        const ask = (payload) => client.enqueue('key', 't', payload, { idempotencyKey: 'node-1' });
        assert.deepEqual(await ask(1), await ask(1));
        assert.equal((await caught(ask(2), tenax.Unprocessable)).code, 'idempotency_key_reused');
    });

    it('to_enqueue_without_keys_are_not_repeated_blindly', async () => {
        await drop('/jobs');
        assert.equal((await caught(plain.enqueue('lost', 't'), tenax.ConnectionFailed)).sent, true);
        assert.equal(await count('lost'), 1);
    });

    it('to_enqueue_without_keys_are_repeated_if_the_server_recognises_the_job', async () => {
        await drop('/jobs', 2);
        assert.equal((await plain.enqueue('again', 't', 1, { alias: 'again-1' })).duplicate, true);
        await drop('/jobs/bulk');
        const [job] = await plain.enqueueBulk([
            { queue: 'again', type: 't', unique_key: 'again-2', unique_while: 'exists' }]);
        assert.equal(job.duplicate, true);
        assert.equal(await count('again'), 2);
    });

    it('with_a_misspelt_option_are_refused', async () => {
        for (const [wrong, right] of [['readyAt', 'ready_at'], ['retry_limt', 'retry_limit']]) {
            const err = await caught(client.enqueue('misspelt', 't', 1, { [wrong]: 1 }), tenax.BadRequest);
            assert.match(err.message, new RegExp(`did you mean '${right}'`));
        }
        for (const [call, words] of [
            [() => new tenax.Client({ timeout: 5 }), /Client has no option timeout; did you mean timeoutMs/],
            [() => new tenax.Worker(client, 'q', () => {}, { lease_ms: 5 }), /did you mean leaseMs/],
            [() => new tenax.Worker(client, 'q', () => {}, { colour: 5 }), /Worker has no option colour: it has/],
            [() => new tenax.GiveBack('x', { readyAt: 5 }), /GiveBack has no option readyAt/],
        ])
            assert.throws(call, words);
        assert.equal(await count('misspelt'), 0);
    });

    it('with_what_has_no_json_are_refused', async () => {
        for (const [payload, options, words] of [
            [NaN, {}, /payload: NaN/], [{ price: -Infinity }, {}, /price: -Infinity/], [1n, {}, /BigInt/],
            [{ at: new Date('soon') }, {}, /at: a Date/], [1, { ready_at: new Date('soon') }, /ready_at is a Date/],
            [1, { deadline: Date.now() / 1000 }, /deadline is in milliseconds/], [1, { priority: NaN }, /priority: NaN/],
        ])
            await assert.rejects(client.enqueue('no-json', 't', payload, options), words);
        assert.equal(await count('no-json'), 0);
        const { id } = await client.enqueue('no-json', 't', { a: null, b: [null], at: new Date(5) });
        assert.deepEqual((await client.job(id)).payload, { a: null, b: [null], at: '1970-01-01T00:00:00.005Z' });
    });

    it('read_a_token_file_again_whose_token_is_refused', async () => {
        const tokenFile = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-node-')), 'token');
        fs.writeFileSync(tokenFile, `tx_${'0'.repeat(40)}`);
        const secure = new tenax.Client({ url: process.env.TEST_SECURE_URL, caCert: process.env.TEST_CA_CERT, tokenFile });
        await caught(secure.enqueue('secure', 't'), tenax.Unauthorized);
        fs.copyFileSync(process.env.TEST_TOKEN_FILE, tokenFile);
        const all = await Promise.all(Array.from({ length: 8 }, () => secure.enqueue('secure', 't')));
        assert.ok(all.every((job) => job.status === 'ready'));
        secure.close();
        fs.rmSync(path.dirname(tokenFile), { recursive: true });
    });

    it('that_were_not_carried_out_are_repeated', async () => {
        await client.request('POST', '/proxy/refuse', { path: '/jobs', count: 2, status: 503, code: 'busy' });
        assert.equal((await client.enqueue('busy', 't')).duplicate, false);
    });

    it('to_a_server_that_is_not_there_say_so', async () => {
        const listener = net.createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => listener.once('listening', resolve));
        const { port } = listener.address();
        await new Promise((resolve) => listener.close(resolve));
        const nobody = new tenax.Client({ url: `http://127.0.0.1:${port}`, retryForMs: 300 });
        assert.equal((await caught(nobody.enqueue('q', 't'), tenax.ConnectionFailed)).sent, false);
    });

    it('need_a_url', () => {
        assert.throws(() => new tenax.Client({ url: 'ftp://localhost' }), tenax.TenaxError);
    });
});

describe('a server with TLS and tokens', () => {
    const url = process.env.TEST_SECURE_URL;
    const caCert = process.env.TEST_CA_CERT;
    const tokenFile = process.env.TEST_TOKEN_FILE;

    async function use(options, what) {
        const secure = new tenax.Client({ url, retryForMs: 0, ...options });
        try {
            return await what(secure);
        } finally {
            secure.close();
        }
    }

    const enqueue = (secure) => secure.enqueue('secure', 't');

    it('is_asked_with_a_ca_and_a_token_of_a_file', async () => {
        assert.ok((await use({ caCert, tokenFile }, enqueue)).id);
    });

    it('is_asked_as_the_environment_says', async (t) => {
        const token = fs.readFileSync(tokenFile, 'utf8').trim();
        for (const variables of [{ TENAX_TOKEN: token }, { TENAX_TOKEN_FILE: tokenFile }]) {
            const before = { ...process.env };
            t.after(() => { process.env = before; });
            Object.assign(process.env, { TENAX_URL: url, TENAX_CA_CERT: caCert, ...variables });
            assert.ok((await use({ url: undefined }, enqueue)).id);
            process.env = before;
        }
    });

    it('is_not_trusted_without_its_ca', async () => {
        const error = await use({ tokenFile }, (secure) => caught(enqueue(secure), tenax.ConnectionFailed));
        assert.equal(error.sent, false);
    });

    it('refuses_no_token_and_a_wrong_one', async () => {
        for (const [token, code] of [[undefined, 'credentials_required'], ['tnx_wrong', 'bad_credentials']])
            assert.equal((await use({ caCert, token },
                (secure) => caught(enqueue(secure), tenax.Unauthorized))).code, code);
    });

    it('refuses_what_the_token_does_not_allow', async () => {
        await use({ caCert, tokenFile },
            (secure) => caught(secure.request('GET', '/tokens'), tenax.Forbidden));
    });

    it('is_not_told_a_token_that_is_none', () => {
        assert.throws(() => new tenax.Client({ url, token: 'sec ret' }),
            (err) => err instanceof tenax.TenaxError && !err.message.includes('ret'));
    });
});
