// SPDX-License-Identifier: Apache-2.0
'use strict';

// Two tenants, each with credentials for its own queues, that give everything the same names. Whatever
// the one does, the other is answered byte for byte as if it were alone: only ids, times, tokens of runs
// and the numbers of events, which count for the whole server, are compared by what they stand for.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError } = require('./harness');
const { guarded, idOf } = require('./access');

const ROLES = { roles: ['producer', 'worker', 'operator'] };

// What stands for something that no two servers have alike, by the order in which it was met.
class Names {
    constructor() {
        this.met = new Map();
    }

    plain(text) {
        const name = (kind) => (what) => {
            if (!this.met.has(what))
                this.met.set(what, `${kind}${this.met.size}`);
            return this.met.get(what);
        };
        return text.replace(/\b[0-9a-z]{25}\b/g, name('ID'))
            .replace(/"token":"[0-9a-f]{16}"/g, '"token":"RUN"')
            .replace(/"(number|operation)":\d+/g, '"$1":N')
            .replace(/"cursor":"[0-9a-f]+-\d+"/g, '"cursor":"C-N"')
            .replace(/"fingerprint":"[0-9a-f]+"/g, name('PRINT'))
            .replace(/\b1[0-9]{12}\b/g, 'TIME')
            .replace(/"(\w+_ms)":\d+/g, '"$1":SPAN')
            .replace(/\b\d+(\.\d+)? ?(ms|s)\b/g, 'SPAN');
    }
}

// One tenant: its queues begin with its name, all other names are those of everybody. `strange` changes
// what can be changed of them.
class Tenant {
    constructor(name, ask, strange, streams) {
        Object.assign(this, { name, ask, strange, streams, names: new Names(), answers: [], ids: {}, tokens: {} });
    }

    // Streams that are open while everything else is done.
    async open() {
        this.feed = await this.streams.events('?since=0');
        this.taken = await this.streams.take(`?queue=${this.name}-s&prefetch=2`);
    }

    // A claim that finds nothing, and waits.
    async wait() {
        this.waiting = this.say('POST', '/jobs/claim', { queues: [`${this.name}-p`], worker: 'w', wait_ms: 30000 });
    }

    // What each is given, and that nothing else came before.
    async deliver() {
        await this.enqueue('polled');
        await this.waiting;
        await this.enqueue('streamed', { unique_key: 's' });
        await this.enqueue('streamed2', { payload: this.strange ? 1 : 2 });
        for (let n = 0; n < 2; n++) {
            const { id } = await this.taken.next();
            await this.say('POST', `/jobs/${id}/success`, {});
        }
        const told = (event) => event.id === this.ids.streamed2 && event.event === 'job_completed';
        await this.feed.until(() => this.feed.lines.some((line) => told(JSON.parse(line))), 'the last event');
        for (const line of [...this.taken.lines, ...this.feed.lines])
            this.answers.push(this.names.plain(line));
        this.taken.close();
        this.feed.close();
    }

    async say(method, target, body, key) {
        const res = await this.ask(method, target, body, key ? { 'idempotency-key': key } : {});
        this.answers.push(`${method} ${this.names.plain(target)} ${res.status} ${this.names.plain(res.text)}`);
        return res.json;
    }

    async enqueue(as, fields, key) {
        const job = await this.say('POST', '/jobs', { queue: `${this.name}-${as[0]}`, type: 't', payload: 1, ...fields }, key);
        this.ids[as] = job?.id;
    }

    async claim(letter, count = 1) {
        const { jobs = [] } = await this.say('POST', '/jobs/claim',
            { queues: [`${this.name}-${letter}`], worker: 'w', node: 'n', count, wait_ms: 0 });
        for (const job of jobs)
            this.tokens[job.id] = job.token;
        return jobs;
    }

    steps() {
        const s = this.strange;
        const get = (...targets) => targets.map((target) => () => this.say('GET', target()));
        const budget = { allocation: s ? 1 : 3, strategy: { type: 'while_in_flight' } };
        return [
            () => this.open(),
            () => this.enqueue('gang1', { gang: { id: 'g', cardinality: s ? 3 : 2 } }),
            () => this.enqueue('gang2', { gang: { id: 'g', cardinality: s ? 3 : 2 } }),
            ...get(() => `/jobs/${this.ids.gang1}`, () => `/jobs/${this.ids.gang1}/explain`),
            () => this.claim('g', 2),
            () => this.enqueue('gang3', { gang: { id: 'g', cardinality: s ? 3 : 2 } }),
            () => this.enqueue('unique', { unique_key: 'k', unique_while: 'exists' }),
            () => this.enqueue('unique2', { unique_key: 'k', unique_while: 'exists', payload: s ? 2 : 3 }),
            () => this.enqueue('alias', { alias: 'a' }),
            ...get(() => '/jobs/alias:a', () => '/jobs/alias:a/explain'),
            () => this.say('PATCH', '/jobs/alias:a', { priority: s ? 5 : 7 }),
            () => this.enqueue('batch', { payload: [s ? 8 : 9],
                batch: { key: 'b', when: 'true', fold: '$existing + $new' } }),
            () => this.enqueue('batch2', { payload: [s ? 8 : 9],
                batch: { key: 'b', when: 'true', fold: '$existing + $new' } }),
            () => this.enqueue('owned', { group: 'group', group_owner: s ? 'x' : 'y' }),
            () => this.enqueue('other', { group: 'group', group_owner: 'z' }),
            ...get(() => '/jobs?group=group', () => '/jobs/count?group=group', () => '/groups/group'),
            () => this.enqueue('money', { budgets: [{ key: 'm', cost: s ? 1 : 2, create_with: budget }] }),
            () => this.enqueue('money2', { budgets: [{ key: 'm', cost: 3 }] }),
            () => this.enqueue('money3', { budgets: [{ key: 'none', cost: 1 }] }),
            ...get(() => '/budgets', () => '/budgets/m', () => '/explain'),
            () => this.claim('m', 3),
            ...get(() => `/jobs/${this.ids.money2}/explain`),
            () => this.enqueue('once', { payload: s ? 1 : 2 }, 'key'),
            () => this.enqueue('once2', { payload: s ? 1 : 2 }, 'key'),
            () => this.enqueue('line', { concurrency_key: 'c' }),
            () => this.enqueue('line2', { concurrency_key: 'c' }),
            () => this.say('PUT', `/queues/${this.name}-l`, { concurrency_per_key: 1 }),
            () => this.claim('l', 2),
            ...get(() => `/jobs/${this.ids.line2}/explain`, () => '/workers', () => '/workers/w', () => '/jobs?worker=w'),
            () => this.enqueue('fails', { retry_limit: 0 }),
            () => this.claim('f'),
            () => this.say('POST', `/jobs/${this.ids.fails}/failure`,
                { message: 'the same', token: this.tokens[this.ids.fails] }),
            ...get(() => '/failure-groups', () => `/jobs/${this.ids.fails}/runs`, () => `/jobs/${this.ids.fails}/errors`),
            () => this.enqueue('dep', { depends_on: [this.ids.fails], on_dependency_death: 'die' }),
            () => this.enqueue('dep2', { depends_on: [this.ids.line2] }),
            ...get(() => `/jobs/${this.ids.dep}`, () => `/jobs/${this.ids.dep2}/explain`),
            () => this.enqueue('policy', { retry_policies: ['none'] }),
            () => this.say('DELETE', '/jobs/claim?worker=w'),
            () => this.say('POST', '/jobs/cancel?group=group'),
            () => this.wait(),
            ...get(() => '/queues', () => '/queues?details=true', () => '/jobs', () => '/jobs?look_max=1', () => '/jobs/count',
                () => '/explain', () => '/crons', () => '/settings/retry', () => '/events?since=0&follow=false', () => '/audit'),
            () => this.deliver(),
            () => this.say('DELETE', '/jobs?status=dead'),
        ];
    }
}

// A small generator of numbers, so that a seed repeats what was done.
function random(seed) {
    let x = seed;
    return (n) => {
        x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff;
        return (x >> 8) % n;
    };
}

// What b is answered; with a, that one does its part in between, in the order of its steps.
async function answersOf(t, seed) {
    const { server, tokens } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, b: { ...ROLES, queues: ['b-*'] } });
    const as = (who) => (method, target, body, headers) =>
        server.request(method, target, body, { authorization: `Bearer ${tokens[who]}`, ...headers });
    const streams = (who) => {
        const headers = { authorization: `Bearer ${tokens[who]}` };
        return { take: (query) => server.take(query, { ...headers, 'worker-id': 'w' }), events: (query) => server.events(query, headers) };
    };
    const b = new Tenant('b', as('b'), false, streams('b')), a = new Tenant('a', as('a'), true, streams('a'));
    const pick = random(seed);
    const others = seed ? a.steps() : [];
    for (const step of b.steps()) {
        for (let n = pick(4); n > 0 && others.length; n--)
            await others.shift()();
        await step();
    }
    for (const step of others)
        await step();
    b.answers.push(...await changesBy(server, tokens, 'b', b.names));
    return { b: b.answers, a: a.answers };
}

// What the audit has of one of them, but the numbers of entries, which count for the whole server.
async function changesBy(server, tokens, who, names) {
    const res = await server.request('GET', '/audit?limit=500', undefined, { authorization: `Bearer ${tokens.admin}` });
    assert.equal(res.status, 200, res.text);
    const id = idOf(tokens[who]);
    const own = res.json.entries.filter((entry) => entry.actor.id === id).reverse();
    assert.ok(own.length >= 4, 'its changes are there');
    return own.map((entry) => names.plain(JSON.stringify({ ...entry, actor: who })));
}

describe('two tenants that give everything the same names', () => {
    it('are_answered_as_if_each_were_alone', async (t) => {
        const alone = await answersOf(t, 0);
        assert.ok(alone.b.some((answer) => / 20[01] /.test(answer)));
        for (const seed of [1, 2, 3]) {
            const beside = await answersOf(t, seed);
            assert.ok(beside.a.length > 40, 'the other one was there');
            for (const [i, answer] of alone.b.entries())
                assert.equal(beside.b[i], answer, `seed ${seed}`);
            assert.ok(!beside.b.some((answer) => /"a-|\\u001/.test(answer)));
        }
    });

    it('share_what_an_operator_of_all_has_made', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, op: { roles: ['operator'] } });
        const job = { queue: 'a-x', type: 't', payload: 1 };
        const create_with = { allocation: 9, strategy: { type: 'while_in_flight' } };
        assert.equal((await as('op').post('/budgets/m', { allocation: 2, strategy: { type: 'while_in_flight' } })).status, 201);
        assert.equal((await as('a').post('/jobs', { ...job, budgets: [{ key: 'm', cost: 1, create_with }] })).status, 201);
        assert.deepEqual((await as('op').get('/budgets')).json.budgets.map(({ key, usage }) => [key, usage.jobs]), [['m', 1]]);
        // A key that a job of its queues has from somebody who is not limited is that key.
        const { id } = (await as('op').post('/jobs', { ...job, unique_key: 'k', alias: 'al' })).json;
        assert.equal((await as('a').post('/jobs', { ...job, unique_key: 'k' })).json.id, id);
        assert.equal((await as('a').get('/jobs/alias:al')).json.id, id);
        assert.equal((await as('op').post('/jobs', { ...job, group: 'gr' })).status, 201);
        assert.equal((await as('a').get('/jobs/count?group=gr')).json.count, 1);
    });

    it('have_workers_that_operators_can_quiet', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, op: { roles: ['operator'] } });
        const claim = () => as('a').post('/jobs/claim', { queues: ['a-x'], worker: 'w', wait_ms: 0 });
        await claim();
        assert.equal((await as('op').post('/workers/w/quiet')).status, 200);
        assert.deepEqual((await as('op').get('/workers')).json.workers.map(({ name, quiet }) => [name, quiet]), [['w', true]]);
        await as('a').post('/jobs', { queue: 'a-x', type: 't', payload: 1 });
        assert.deepEqual((await claim()).json.jobs, []);
        assert.equal((await as('op').post('/workers/w/resume')).status, 204);
        assert.equal((await claim()).json.jobs.length, 1);
    });

    it('have_names_that_leave_room_for_whose_they_are', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] } });
        const job = (alias) => ({ queue: 'a-x', type: 't', payload: 1, alias });
        assert.equal((await as('a').post('/jobs', job('x'.repeat(236)))).status, 201);
        assertError(await as('a').post('/jobs', job('y'.repeat(237))), 400, 'bad_value', /236/);
    });
});

describe('a job that somebody who is not limited made wait', () => {
    it('names_none_of_another_queue_in_any_view', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, op: { roles: ['operator'] } });
        const enqueue = async (queue, fields) =>
            (await as('op').post('/jobs', { queue, type: 't', payload: 1, ...fields })).json.id;
        const foreign = await enqueue('other'), own = await enqueue('a-y');
        const waits = await enqueue('a-x', { depends_on: [foreign, own] });
        const dies = await enqueue('a-x', { depends_on: [foreign], on_dependency_death: 'die' });
        const stays = await enqueue('a-x', { depends_on: [foreign], unique_key: 'k' });
        const views = async () => {
            const all = [];
            for (const id of [waits, dies, stays])
                for (const target of [`/jobs/${id}`, `/jobs/${id}?runs=true`, `/jobs/${id}/explain`])
                    all.push(await as('a').get(target));
            for (const target of ['/jobs', '/jobs?queue=a-x', '/explain', '/events?since=0&follow=false'])
                all.push(await as('a').get(target));
            all.push(await as('a').post('/jobs', { queue: 'a-x', type: 't', payload: 1, unique_key: 'k' }));
            all.push(await as('a').patch(`/jobs/${waits}`, { priority: 3 }));
            for (const res of all)
                assert.ok(res.status < 300 && !res.text.includes(foreign), res.text);
            return all;
        };
        assert.deepEqual((await views())[0].json.waits_for, [own]);
        assert.match((await as('a').get(`/jobs/${waits}/explain`)).text, /jobs of other queues/);
        await as('op').post(`/jobs/${foreign}/cancel`);
        await views();
        assert.equal((await as('a').get(`/jobs/${dies}`)).json.status, 'dead');
        assert.ok((await as('op').get(`/jobs/${dies}`)).text.includes(foreign));
        await as('op').patch(`/jobs/${stays}`, { depends_on: null });
        const [{ id, token }] = (await as('a').post('/jobs/claim', { queues: ['a-x'] })).json.jobs;
        assert.equal(id, stays);
        assert.equal((await as('a').post(`/jobs/${id}/failure`, { message: 'no', token })).status, 200);
        await views();
    });
});

// What an operator of all does in a queue that nobody else may see, beside jobs of the tenant with the same gang, group,
// budget, keys and worker.
async function hideSome(as) {
    const enqueue = async (queue, fields) =>
        (await as('op').post('/jobs', { queue, type: queue === 'hidden-queue' ? 'hidden-type' : 't', payload: 1, ...fields })).json.id;
    await as('op').post('/budgets/m', { allocation: 1, strategy: { type: 'while_in_flight' } });
    const names = [{ gang: { id: 'g', cardinality: 3 } }, { budgets: [{ key: 'm', cost: 1 }] }, { group: 'gr' }];
    const hidden = [await enqueue('hidden-queue', { unique_key: 'k', unique_while: 'exists', alias: 'al' })], own = [];
    for (const fields of names) {
        hidden.push(await enqueue('hidden-queue', fields));
        own.push(await enqueue('a-x', fields));
    }
    own.push(await enqueue('a-x', { depends_on: [hidden[0]], on_dependency_death: 'die' }), await enqueue('a-y'));
    for (const queues of [['hidden-queue'], ['a-y', 'hidden-queue']])
        await as('op').post('/jobs/claim', { queues, count: 2,
            ...queues.length > 1 ? { worker: 'both', node: 'n' } : { worker: 'hidden-worker', node: 'hidden-node' } });
    await as('op').post(`/jobs/${hidden[0]}/failure`, { message: 'hidden-message', kill: true });
    return { hidden, own };
}

describe('a tenant that asks about what it may not see', () => {
    it('learns_nothing_of_it_by_any_path', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, op: { roles: ['operator'] } });
        const { hidden, own } = await hideSome(as);
        const job = { queue: 'a-z', type: 't', payload: 1 };
        const events = '/events?follow=false&since=';
        const targets = [`${events}0`, `${events}999999`, `${events}0&job=${hidden[0]}`, `${events}0&type=hidden-type`, '/jobs', '/jobs?group=gr',
            `/jobs?id=${hidden[1]}`, '/jobs?worker=hidden-worker', '/jobs/count?worker=hidden-worker', '/jobs/alias:al', '/explain', '/queues',
            '/queues?details=true', '/queues/a-x/next', '/workers', '/workers/hidden-worker', '/workers/both', '/failure-groups', '/operations',
            '/operations/1', '/groups/gr', '/crons', '/budgets', '/budgets/m', '/metrics',
            ...own.flatMap((id) => ['', '?runs=true', '/explain', '/runs', '/errors'].map((part) => `/jobs/${id}${part}`))];
        const secrets = [...hidden, 'hidden-queue', 'hidden-worker', 'hidden-type', 'hidden-message', 'hidden-node'];
        const check = (what, res) => {
            const said = secrets.filter((secret) => !what.includes(secret) && res.text.includes(secret));
            assert.deepEqual(said, [], `${what} ${res.status} ${res.text}`);
        };
        assert.ok((await as('op').get(`${events}0`)).text.includes('hidden-worker'), 'it is there to be seen');
        for (const target of targets)
            check(target, await as('a').get(target));
        for (const fields of [{ unique_key: 'k', unique_while: 'exists' }, { alias: 'al' }, { gang: { id: 'g', cardinality: 3 } },
            { group: 'gr' }, { budgets: [{ key: 'm', cost: 5 }] }])
            check(JSON.stringify(fields), await as('a').post('/jobs', { ...job, ...fields }));
    });

    it('cannot_tell_a_hidden_job_from_one_that_never_was', async (t) => {
        const { as } = await guarded(t, { a: { ...ROLES, queues: ['a-*'] }, op: { roles: ['operator'] } });
        const { hidden } = await hideSome(as);
        const never = '03hbitzsrzdo2wwbqhc6yj8xz', token = '0123456789abcdef', without = { token: null };
        const asks = [['get', ''], ['get', '/explain'], ['get', '/runs'], ['get', '/errors'], ['delete', ''], ['patch', '', { priority: 1 }],
            ['post', '/cancel'], ['post', '/retry'], ['post', '/success', without], ['post', '/success', { token }],
            ['post', '/failure', { message: 'no', token }], ['post', '/renew', { token }], ['post', '/release', { token }],
            ['post', '/progress', { progress: { value: 1 }, token }], ['post', '/claim', { worker: 'w' }]];
        for (const [method, part, body] of asks) {
            const answer = async (id) => {
                const res = await as('a')[method](`/jobs/${id}${part}`, body);
                return `${res.status} ${res.text.replaceAll(id, 'ID')}`;
            };
            const expected = await answer(never);
            assert.match(expected, /^4/);
            for (const id of hidden)
                assert.equal(await answer(id), expected, `${method} ${part}`);
        }
    });
});

describe('a run whose job was moved to another queue', () => {
    it('is_reported_by_its_holder_in_every_way', async (t) => {
        const { as } = await guarded(t, { w: { roles: ['worker'], queues: ['a-*'] }, op: { roles: ['operator'] } });
        const reports = [
            (id, token) => ['POST', `/jobs/${id}/success`, { token }], (id, token) => ['POST', `/jobs/${id}/success`, { run: 0, token }],
            (id, token) => ['POST', `/jobs/${id}/failure`, { token, message: 'no' }],
            (id, token) => ['POST', `/jobs/${id}/release`, { token }],
            (id, token) => ['POST', `/jobs/${id}/renew`, { token }],
            (id, token) => ['POST', `/jobs/${id}/progress`, { token, progress: { value: 1 } }],
            (id, token) => ['POST', '/jobs/renew', { jobs: [{ id, token }] }],
            (id, token) => ['POST', '/jobs/success', { jobs: [{ id, token }] }],
            (id, token) => ['POST', '/jobs/reports', { reports: [{ id, token, outcome: 'success' }] }],
            (id, token) => ['POST', '/jobs/reports', { reports: [{ id, token, outcome: 'failure', message: 'no' }] }],
            (id, token) => ['POST', '/jobs/reports', { reports: [{ id, token, outcome: 'renew' }] }],
        ];
        for (const report of reports) {
            await as('op').post('/jobs', { queue: 'a-x', type: 't', payload: 1, retention: { completed_ms: 60000 } });
            const [{ id, token }] = (await as('w').post('/jobs/claim', { queues: ['a-x'] })).json.jobs;
            assert.equal((await as('op').patch(`/jobs/${id}`, { queue: 'other' })).status, 200);
            assertError(await as('w').get(`/jobs/${id}`), 404, 'not_found');
            const [, target, body] = report(id, token);
            const res = await as('w').post(target, body);
            assert.ok(res.status < 300 && !/"error"|not_found/.test(res.text), `${target} ${res.text}`);
            if (target.endsWith('/success') && target.length > 20)
                assert.equal((await as('w').post(target, { token })).status, 204, 'once more');
            const wrong = await as('w').post(`/jobs/${id}/success`, { token: '0123456789abcdef' });
            assertError(wrong, 404, 'not_found');
        }
    });
});
