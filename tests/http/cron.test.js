// SPDX-License-Identifier: Apache-2.0
'use strict';

// /crons: groups and entries, what they enqueue, and what a restart does to them.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { BIN, Server, assertError, makeDir, notOn, queueName, run, until, useServer } = require('./harness');

const HOUR = 3600000;

// An entry that does not tick while the tests run, unless they are run on New Year's Eve.
function entry(fields = {}) {
    return {
        name: 'e', expression: '0 0 1 1 *',
        job: { queue: 'never', type: 'test', payload: null }, ...fields,
    };
}

function everySecond(queue, fields = {}) {
    return entry({
        expression: '* * * * * *', job: { queue, type: 'test', payload: null }, ...fields,
    });
}

const put = (server, target, body) => server.request('PUT', target, body);
const patch = (server, target, body) => server.request('PATCH', target, body);

async function putGroup(server, group, entries, more = {}) {
    const res = await put(server, `/crons/${group}`, { entries, ...more });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function getGroup(server, group) {
    const res = await server.get(`/crons/${group}`);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function jobs(server, queue) {
    const res = await server.get(`/jobs?queue=${queue}&limit=2000`);
    assert.equal(res.status, 200, res.text);
    return res.json.jobs;
}

// Waits until the entry has enqueued something later than `after` and returns its new state.
function ticked(server, target, after = 0) {
    return until(async () => {
        const res = await server.get(target);
        assert.equal(res.status, 200, res.text);
        return (res.json.last_enqueue_at || 0) > after && res.json;
    }, `${target} ticks`);
}

describe('cron groups', () => {
    const server = useServer();

    it('are_shown_as_they_were_put_with_what_the_server_adds', async () => {
        const from = Date.now();
        const job = {
            queue: 'never', type: 'report', priority: 5, retry_limit: 3,
            backoff: { base_ms: 100, exponent: 2.5, jitter_ms: 50 },
            retention: { completed_ms: 60000, dead_ms: 120000 },
            unique_key: 'report', unique_while: 'active', payload: { a: [1, null] },
        };
        const answer = await putGroup(server, 'shown', [
            { name: 'full', expression: '0 6 1 1 *', timezone: 'Europe/Rome', paused: false, job },
            entry({ name: 'bare' }),
        ]);
        const [full, bare] = answer.entries;
        const { next_enqueue_at: fullNext, ...fullRest } = full;
        const { next_enqueue_at: bareNext, ...bareRest } = bare;
        assert.deepEqual(fullRest, {
            name: 'full', expression: '0 6 1 1 *', timezone: 'Europe/Rome', paused: false, job,
        });
        assert.deepEqual(bareRest, {
            name: 'bare', expression: '0 0 1 1 *', paused: false,
            job: { queue: 'never', type: 'test', priority: 32768, payload: null },
        });
        assert.equal(new Date(fullNext).toISOString().slice(4), '-01-01T05:00:00.000Z');
        assert.ok(fullNext > from && bareNext > from);
        assert.deepEqual({ name: answer.name, paused: answer.paused },
            { name: 'shown', paused: false });
        assert.deepEqual(Object.keys(answer).sort(), ['entries', 'name', 'paused']);
        assert.deepEqual(await getGroup(server, 'shown'), answer);
        const one = await server.get('/crons/shown/entries/full');
        assert.equal(one.status, 200);
        assert.deepEqual(one.json, full);
        assert.ok((await server.get('/crons')).json.crons.includes('shown'));
    });

    it('give_the_payload_back_byte_for_byte', async () => {
        const payload = '{"n": 12345678901234567890, "s":"\\u00e9" }';
        const res = await put(server, '/crons/bytes',
            `{"entries":[{"name":"a","expression":"0 0 1 1 *","job":{"queue":"never",` +
            `"type":"t","payload":${payload}}}]}`);
        assert.equal(res.status, 200, res.text);
        assert.ok(res.text.includes(`"payload":${payload}`), res.text);
    });

    it('enqueue_at_their_ticks', async () => {
        const queue = queueName('ticks');
        await putGroup(server, 'ticking', [everySecond(queue, { name: 'a' })]);
        const first = await ticked(server, '/crons/ticking/entries/a');
        const second = await ticked(server, '/crons/ticking/entries/a', first.last_enqueue_at);
        assert.equal(second.next_enqueue_at % 1000, 0);
        assert.ok(second.next_enqueue_at > second.last_enqueue_at);
        assert.equal((await server.delete('/crons/ticking')).status, 204);
        const made = await jobs(server, queue);
        assert.ok(made.length >= 2);
        const seconds = made.map((job) => Math.floor(job.ready_at / 1000));
        assert.equal(new Set(seconds).size, made.length, `a tick each: ${seconds}`);
        for (const job of made)
            assert.ok(job.status === 'ready' && job.type === 'test' && job.payload === null);
    });

    it('enqueue_no_second_job_while_the_first_holds_its_unique_key', async () => {
        const queue = queueName('unique');
        const job = { queue, type: 'test', payload: null, unique_key: queue };
        await putGroup(server, 'unique', [everySecond(queue, { name: 'a', job })]);
        const first = await ticked(server, '/crons/unique/entries/a');
        await ticked(server, '/crons/unique/entries/a', first.last_enqueue_at);
        assert.equal((await jobs(server, queue)).length, 1);
        assert.equal((await server.delete('/crons/unique')).status, 204);
    });

    it('keep_unchanged_entries_when_they_are_put_again', async () => {
        const queue = queueName('again');
        const a = everySecond(queue, { name: 'a' });
        await putGroup(server, 'again', [a, entry({ name: 'b' }), entry({ name: 'c' })]);
        await ticked(server, '/crons/again/entries/a');
        await patch(server, '/crons/again/entries/b', { paused: true });
        const before = await getGroup(server, 'again');
        const changed = entry({ name: 'c', expression: '0 0 2 1 *' });
        const after = await putGroup(server, 'again', [changed, a, entry({ name: 'b' })]);
        assert.deepEqual(after.entries.map((e) => e.name), ['c', 'a', 'b']);
        assert.ok(after.entries[1].last_enqueue_at >= before.entries[0].last_enqueue_at);
        assert.deepEqual(after.entries[2], before.entries[1]);
        assert.equal(after.entries[0].expression, '0 0 2 1 *');
        const fewer = await putGroup(server, 'again', [entry({ name: 'b' })]);
        assert.deepEqual(fewer.entries, [before.entries[1]]);
        assertError(await server.get('/crons/again/entries/a'), 404, 'not_found');
    });

    it('stay_paused_whatever_else_of_them_is_put', async () => {
        await putGroup(server, 'still', [entry()]);
        const paused = (await patch(server, '/crons/still/entries/e', { paused: true })).json;
        const job = { queue: 'never', type: 'other', payload: 1 };
        const other = (await putGroup(server, 'still', [entry({ job })])).entries[0];
        assert.deepEqual(other, { ...paused, job: { ...paused.job, ...job } });
        const later = await put(server, '/crons/still/entries/e',
            entry({ expression: '0 0 2 1 *' }));
        assert.equal(later.json.paused_at, paused.paused_at);
        assert.ok(later.json.paused && later.json.next_enqueue_at > paused.next_enqueue_at);
        const on = await putGroup(server, 'still', [entry({ paused: false })]);
        assert.equal(on.entries[0].paused, false);
        await server.delete('/crons/still');
    });

    it('are_paused_and_resumed', async () => {
        const queue = queueName('paused');
        const before = Date.now();
        const created = await putGroup(server, 'paused', [everySecond(queue)], { paused: true });
        assert.equal(created.paused, true);
        assert.ok(created.paused_at >= before && created.paused_at <= Date.now());
        const next = created.entries[0].next_enqueue_at;
        // The clock goes on, and nothing is enqueued.
        await until(async () =>
            (await getGroup(server, 'paused')).entries[0].next_enqueue_at > next, 'time goes on');
        assert.deepEqual(await jobs(server, queue), []);
        const resumed = await patch(server, '/crons/paused', { paused: false });
        assert.equal(resumed.status, 200);
        assert.equal(resumed.json.paused, false);
        assert.equal(resumed.json.paused_at, created.paused_at);
        assert.ok(resumed.json.resumed_at >= created.paused_at);
        await ticked(server, '/crons/paused/entries/e');
        const one = await patch(server, '/crons/paused/entries/e', { paused: true });
        assert.equal(one.status, 200);
        assert.equal(one.json.name, 'e');
        assert.equal(one.json.paused, true);
        assert.ok(one.json.paused_at > 0);
        await server.delete('/crons/paused');
    });

    it('get_and_lose_single_entries', async () => {
        const res = await put(server, '/crons/single/entries/b', entry({ name: 'b' }));
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.name, 'b');
        await put(server, '/crons/single/entries/a', entry({ name: 'a' }));
        assert.deepEqual((await getGroup(server, 'single')).entries.map((e) => e.name), ['b', 'a']);
        const gone = await server.delete('/crons/single/entries/b');
        assert.equal(gone.status, 204);
        assert.equal(gone.text, '');
        assertError(await server.delete('/crons/single/entries/b'), 404, 'not_found');
        assert.deepEqual((await getGroup(server, 'single')).entries.map((e) => e.name), ['a']);
        assert.equal((await server.delete('/crons/single')).status, 204);
        assertError(await server.delete('/crons/single'), 404, 'not_found');
    });

    it('are_added_but_never_replaced_by_a_post', async () => {
        const post = (fields) => server.post('/crons/added/entries', entry(fields));
        const res = await post({ name: 'b' });
        assert.equal(res.status, 201, res.text);
        assert.deepEqual(res.json, (await server.get('/crons/added/entries/b')).json);
        assert.equal((await post({ name: 'a', paused: true })).json.paused, true);

        const other = { name: 'b', expression: '1 1 1 1 *' };
        assertError(await post(other), 409, 'conflict', /'b'/);
        const group = await getGroup(server, 'added');
        assert.deepEqual(group.entries.map((one) => one.name), ['b', 'a']);
        assert.deepEqual(group.entries[0], res.json);

        assertError(await post({ name: '' }), 400, 'bad_name');
        assertError(await post({ expression: 'x' }), 400, 'bad_cron');
        assertError(await server.post('/crons/%01/entries', entry()), 400, 'bad_name');
    });

    it('have_the_name_of_the_path_whatever_the_body_says', async () => {
        const res = await put(server, '/crons/named/entries/e', entry({ name: 'f' }));
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.name, 'e');
        const group = await getGroup(server, 'named');
        assert.deepEqual(group.entries.map((one) => one.name), ['e']);
        const other = await putGroup(server, 'named', [], { name: 'other' });
        assert.equal(other.name, 'named');
        assertError(await server.get('/crons/other'), 404, 'not_found');
    });

    it('tick_in_the_zone_of_the_group_unless_they_have_their_own', async () => {
        const year = new Date().getUTCFullYear() + 1, utc = Date.UTC(year, 0, 1);
        const entries = [entry({ name: 'tokyo' }), entry({ name: 'rome', timezone: 'Europe/Rome' })];
        const next = (group) => group.entries.map((one) => one.next_enqueue_at);
        const made = await putGroup(server, 'zoned', entries, { timezone: 'Asia/Tokyo' });
        assert.equal(made.timezone, 'Asia/Tokyo');
        assert.deepEqual(made.entries.map((one) => one.timezone), [undefined, 'Europe/Rome']);
        assert.deepEqual(next(made), [utc - 9 * HOUR, utc - HOUR]);
        const change = async (body) => {
            const res = await patch(server, '/crons/zoned', body);
            assert.equal(res.status, 200, res.text);
            return res.json;
        };
        assert.deepEqual(next(await change({ paused: true })), next(made));
        const moved = await change({ timezone: 'UTC' });
        assert.deepEqual([moved.timezone, moved.paused, ...next(moved)],
            ['UTC', true, utc, utc - HOUR]);
        const one = await put(server, '/crons/zoned/entries/third', entry({ name: 'third' }));
        assert.equal(one.json.next_enqueue_at, utc);
        assertError(await patch(server, '/crons/zoned', { timezone: 'Mars/Olympus' }), 400,
            'bad_time_zone');
        assertError(await patch(server, '/crons/zoned', { timezone: '' }), 400, 'bad_time_zone');
        assertError(await put(server, '/crons/zoned', { entries, timezone: 'Mars/Olympus' }), 400,
            'bad_time_zone', /^timezone: /);
        assert.equal((await getGroup(server, 'zoned')).timezone, 'UTC');
        assert.equal((await change({ timezone: null })).timezone, undefined);
        await change({ timezone: 'Asia/Tokyo' });
        assert.equal((await putGroup(server, 'zoned', entries)).timezone, undefined);
    });

    it('may_have_names_of_text_without_reserved_characters', async () => {
        const group = encodeURIComponent('größe/1 & 2'), name = 'täglich (um 6)';
        await putGroup(server, group, [entry({ name })]);
        const target = `/crons/${group}/entries/${encodeURIComponent(name)}`;
        assert.equal((await server.get(target)).json.name, name);
        assert.equal((await server.delete(target)).status, 204);
        await server.delete(`/crons/${group}`);
    });

    it('are_not_found_where_there_are_none', async () => {
        await putGroup(server, 'there', []);
        for (const target of ['/crons/none', '/crons/none/entries/e', '/crons/there/entries/e']) {
            assertError(await server.get(target), 404, 'not_found');
            assertError(await server.delete(target), 404, 'not_found');
            assertError(await patch(server, target, { paused: true }), 404, 'not_found');
        }
        assertError(await server.post('/crons/there', {}), 405, 'method_not_allowed');
    });
});

describe('days as croner has them', () => {
    const server = useServer();
    const UTC = { timezone: 'UTC' };

    it('names_and_letters_have_the_ticks_that_they_say', async () => {
        const day = (e) => new Date(e.next_enqueue_at);
        const lengthOf = (d) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() + 1, 0)).getUTCDate();
        const expressions = ['@daily', '0 0 L * *', '0 0 * * 5L', '0 0 ? * FRI#2', '0 0 15W * *'];
        const group = await putGroup(server, 'letters',
            expressions.map((expression, i) => entry({ name: `e${i}`, expression })), UTC);
        const [daily, last, friday, second, near] = group.entries.map(day);
        for (const d of [daily, last, friday, second, near])
            assert.equal(d.getTime() % (24 * HOUR), 0);
        assert.ok(daily - Date.now() <= 24 * HOUR);
        assert.equal(last.getUTCDate(), lengthOf(last));
        assert.equal(friday.getUTCDay(), 5);
        assert.ok(friday.getUTCDate() + 7 > lengthOf(friday));
        assert.equal(second.getUTCDay(), 5);
        assert.equal(Math.ceil(second.getUTCDate() / 7), 2);
        assert.ok(near.getUTCDay() % 6 !== 0 && Math.abs(near.getUTCDate() - 15) <= 1);
        assert.deepEqual(group.entries.map((e) => e.warnings), expressions.map(() => undefined));
    });

    it('an_expression_that_meant_something_else_before_has_a_warning', async () => {
        const { entries } = await putGroup(server, 'warned', [
            entry({ name: 'either', expression: '0 0 */2 * mon' }),
            entry({ name: 'both', expression: '0 0 13 * +fri' }),
            entry({ name: 'plain', expression: '0 0 13 * fri' })], UTC);
        assert.match(entries[0].warnings.join(), /either of the two days will do/);
        assert.equal(entries[1].warnings, undefined);
        assert.equal(entries[2].warnings, undefined);
        const both = new Date(entries[1].next_enqueue_at);
        assert.deepEqual([both.getUTCDate(), both.getUTCDay()], [13, 5]);
    });
});

describe('an entry of a version in which days had to agree',
    notOn('postgres', 'it is put into the tables of a root directory'), () => {
    const server = new Server();
    after(() => server.clean());

    // By this version: odd dates and Mondays. By that one: Mondays with an odd date.
    const expression = '0 0 */2 * mon';
    const isOldTick = (e) => {
        const d = new Date(e.next_enqueue_at);
        return d.getUTCDay() === 1 && d.getUTCDate() % 2 === 1;
    };

    async function assertOld(where) {
        const [e] = (await getGroup(where, 'old')).entries;
        assert.ok(isOldTick(e), e.next_enqueue_at);
        assert.match(e.warnings.join(), /both days must agree, as when this was put/);
        assert.match(where.stderr, /cron entry 'e': '0 0 \*\/2 \* mon' still means/);
    }

    it('keeps_its_meaning_over_restarts_and_a_restore_until_it_is_put_again', async () => {
        await server.start();
        await server.stop();
        const root = path.join(server.dir, 'root');
        execFileSync(path.join(path.dirname(BIN), 'tests/store/put_cron'), [root, expression]);
        await server.start();
        await assertOld(server);
        await server.signal('SIGKILL');
        await server.start();
        await assertOld(server);

        const file = path.join(server.dir, 'backup.tar.zst'), copy = makeDir();
        let end = await run(['backup', '--url', server.adminUrl, file]);
        assert.equal(end.code, 0, end.stderr);
        end = await run(['restore', file, '--root-dir', path.join(copy, 'root')]);
        assert.equal(end.code, 0, end.stderr);
        const restored = new Server({ dir: copy });
        try {
            await restored.start();
            await assertOld(restored);
        } finally {
            await restored.clean();
            fs.rmSync(copy, { recursive: true });
        }

        await putGroup(server, 'old', [entry({ name: 'e', expression, timezone: 'UTC' })]);
        await server.signal('SIGKILL');
        await server.start();
        const [e] = (await getGroup(server, 'old')).entries;
        assert.ok(e.next_enqueue_at - Date.now() <= 48 * HOUR);
        assert.match(e.warnings.join(), /either of the two days will do/);
    });
});

describe('what is wrong is refused with its place and changes nothing', () => {
    const server = useServer();
    const good = entry({ name: 'good' });

    async function refused(body, status, code, sentence) {
        const res = await put(server, '/crons/g', body);
        assertError(res, status, code, sentence);
        assertError(await server.get('/crons/g'), 404, 'not_found');
        return res;
    }

    it('expressions', async () => {
        for (const [expression, sentence] of [
            ['60 * * * *', /^entries\[1\]: expression: minute: 60 is outside 0-59$/],
            ['* * * *', /expression: the expression has 4 fields/],
            ['', /has 0 fields/],
            ['0 0 30 2 *', /never comes within the next 8 years/],
            ['0 0 0 1 1 * 2025', /never comes within the next 100 years/],
            ['0 0 0 1 1 * 2025 *', /more than 7 fields/],
            ['@reboot', /such a name is not known/],
            ['0 0 * * fri#6', /day of the week: 6 is outside 1-5/]])
            await refused({ entries: [good, entry({ expression })] }, 400, 'bad_cron', sentence);
        const text = JSON.stringify({ entries: [entry({ expression: '* 99 * * *' })] });
        const res = await refused(text, 400, 'bad_cron', /hour/);
        assert.equal(res.json.offset, text.indexOf('99'));
    });

    it('time_zones', async () => {
        const bad = ['Mars/Olympus', '../../etc/passwd', '/etc/localtime', '', 'zone.tab'];
        for (const timezone of bad)
            await refused({ entries: [good, entry({ timezone })] }, 400, 'bad_time_zone');
    });

    it('names', async () => {
        await refused({ entries: [good, good] }, 422, 'unprocessable', /one name, 'good'/);
        await refused({ entries: [entry({ name: '' })] }, 400, 'bad_name');
        await refused({ entries: [entry({ name: 'a\u0007' })] }, 400, 'bad_name');
        await refused({ entries: [entry({ name: 'x'.repeat(256) })] }, 400, 'bad_name');
        assertError(await put(server, '/crons/a%07', { entries: [] }), 400, 'bad_name');
        for (const c of [',', '*', '?', '[', ']', '{', '}', '\\']) {
            const name = `a${c}b`, target = `/crons/${encodeURIComponent(name)}`;
            await refused({ entries: [entry({ name })] }, 400, 'bad_name', /reserved/);
            assertError(await put(server, target, { entries: [] }), 400, 'bad_name', /reserved/);
            assertError(await put(server, `/crons/g/entries/${encodeURIComponent(name)}`, entry()),
                400, 'bad_name', /reserved/);
        }
    });

    it('members', async () => {
        await refused({}, 400, 'missing_field', /entries/);
        await refused({ entries: 5 }, 400, 'wrong_type', /^entries: /);
        await refused({ entries: [5] }, 400, 'wrong_type', /^entries\[0\]: /);
        await refused({ entries: [entry({ job: undefined })] }, 400, 'missing_field', /job/);
        await refused({ entries: [entry({ job: { queue: 'q', type: 't' } })] }, 400,
            'missing_field', /^entries\[0\]: job: payload/);
        await refused({ entries: [entry({ job: { queue: 'a,b', type: 't', payload: 1 } })] }, 400,
            'bad_name');
        await refused({ entries: [entry({ job: { ...good.job, ready_at: 5 } })] }, 400,
            'bad_value', /ready_at/);
        await refused({ entries: [entry({ paused: 'yes' })] }, 400, 'wrong_type');
        await refused({ entries: [entry({ job: { ...good.job, payload: 'x'.repeat(65535) } })] },
            400, 'bad_value', /65537 bytes; 65536 are allowed/);
        await refused('{"entries":[', 400, 'bad_json');
        await refused({ entries: Array(1001).fill(good) }, 400, 'too_many');
        await putGroup(server, 'h', [good]);
        assertError(await patch(server, '/crons/h', { paused: 1 }), 400, 'wrong_type');
        assertError(await patch(server, '/crons/h/entries/good', 'x'), 400, 'bad_json');
        for (const target of ['/crons/h', '/crons/h/entries/good'])
            for (const body of [{}, { paused: null }])
                assertError(await patch(server, target, body), 400, 'missing_field', /paused/);
        assertError(await patch(server, '/crons/h', { pause: true }), 400, 'unknown_field', /pause/);
    });

    it('parameters_of_a_deletion_of_everything', async () => {
        await putGroup(server, 'h', [good]);
        assertError(await server.delete('/crons?name=x'), 400, 'unknown_field');
        assert.deepEqual((await server.get('/crons')).json.crons, ['h']);
    });
});

describe('all groups', () => {
    const server = useServer();

    it('are_listed_by_name_and_deleted_together', async () => {
        assert.deepEqual((await server.get('/crons')).json, { crons: [] });
        for (const group of ['b', 'c', 'a'])
            await putGroup(server, group, [entry()]);
        assert.deepEqual((await server.get('/crons')).json, { crons: ['a', 'b', 'c'] });
        const res = await server.delete('/crons');
        assert.equal(res.status, 200);
        assert.deepEqual(res.json, { deleted: 3 });
        assert.deepEqual((await server.get('/crons')).json, { crons: [] });
        assert.deepEqual((await server.delete('/crons')).json, { deleted: 0 });
    });
});

describe('10,000 entries of all groups together', () => {
    const server = useServer();

    it('are_the_most_whichever_groups_they_are_in', async () => {
        const entries = Array.from({ length: 1000 }, (_, i) => entry({ name: `e${i}` }));
        const putSome = (group, count) => put(server, `/crons/${group}`, { entries: entries.slice(0, count) });
        for (let group = 0; group < 10; group++)
            assert.equal((await putSome(`g${group}`, 1000)).status, 200);
        assertError(await putSome('g10', 1), 400, 'too_many', /together/);
        assert.equal((await putSome('g0', 1000)).status, 200); // instead of those that it has
        assert.equal((await putSome('g0', 999)).status, 200);
        assert.equal((await putSome('g10', 1)).status, 200);
        assertError(await putSome('g10', 2), 400, 'too_many', /together/);
    });
});

describe('a restart', () => {
    async function withServer(options, use) {
        const server = new Server({ dir: makeDir(), ...options });
        try {
            await server.start();
            await use(server);
        } finally {
            await server.clean();
            fs.rmSync(server.dir, { recursive: true, force: true });
        }
    }

    it('keeps_groups_with_all_their_state', () => withServer({}, async (server) => {
        const queue = queueName('kept');
        await putGroup(server, 'b', [entry({ name: 'z' }), entry({ name: 'a', paused: true })],
            { timezone: 'Asia/Tokyo' });
        await putGroup(server, 'a', [everySecond(queue)]);
        await ticked(server, '/crons/a/entries/e');
        const paused = (await patch(server, '/crons/a', { paused: true })).json;
        const other = await getGroup(server, 'b');
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.get('/crons')).json, { crons: ['a', 'b'] });
        assert.equal(other.timezone, 'Asia/Tokyo');
        assert.deepEqual(await getGroup(server, 'b'), other);
        const again = await getGroup(server, 'a');
        assert.equal(again.paused_at, paused.paused_at);
        assert.equal(again.entries[0].last_enqueue_at, paused.entries[0].last_enqueue_at);
    }));

    it('by_SIGKILL_doubles_no_tick_and_makes_up_for_what_was_missed_once',
        () => withServer({}, async (server) => {
            const queue = queueName('killed');
            await putGroup(server, 'g', [everySecond(queue)]);
            let last = 0;
            for (let round = 0; round < 4; round++) {
                last = (await ticked(server, '/crons/g/entries/e', last)).last_enqueue_at;
                // Right around a tick, where a crash could do harm.
                await until(() => Date.now() % 1000 > 990 - round, 'the end of a second');
                await server.signal('SIGKILL');
                const down = Date.now();
                if (round === 3)
                    await until(() => Date.now() > down + 3000, 'some ticks are missed');
                await server.start();
            }
            const up = Date.now();
            await ticked(server, '/crons/g/entries/e', Math.max(last, up - 1));
            await server.delete('/crons/g');
            const made = await jobs(server, queue);
            const seconds = made.map((job) => Math.floor(job.ready_at / 1000));
            assert.equal(new Set(seconds).size, seconds.length, `no tick twice: ${seconds}`);
            const gaps = seconds.slice(1).map((s, i) => s - seconds[i]);
            assert.ok(Math.max(...gaps) >= 3, `the ticks of the long stop are one: ${gaps}`);
        }));

    // An entry whose one tick of the day falls into a stop of the server.
    async function missOneTick(server, queue) {
        let due = 0;
        for (let ahead = 2000; due <= Date.now(); ahead *= 2) {
            if (due) { // it was not stopped in time, on a slow machine: once more, and later
                await server.start();
                await server.post('/reset');
            }
            due = Math.floor(Date.now() / 1000) * 1000 + 1000 + ahead;
            const at = new Date(due);
            const expression =
                `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
            await putGroup(server, 'g', [everySecond(queue, { expression, timezone: 'UTC' })]);
            await server.signal('SIGKILL');
        }
        await until(() => Date.now() > due + 50, 'the tick has passed');
        await server.start();
        return due;
    }

    it('makes_up_for_a_missed_tick_by_default', () => withServer({}, async (server) => {
        const queue = queueName('missed');
        const due = await missOneTick(server, queue);
        const after = await ticked(server, '/crons/g/entries/e');
        assert.equal(after.next_enqueue_at, due + 24 * HOUR);
        const made = await jobs(server, queue);
        assert.equal(made.length, 1);
        assert.ok(made[0].ready_at > due);
    }));

    it('passes_over_a_missed_tick_with_cron_missed_skip',
        () => withServer({ args: ['--cron-missed', 'skip'] }, async (server) => {
            const queue = queueName('skipped');
            const due = await missOneTick(server, queue);
            const after = (await server.get('/crons/g/entries/e')).json;
            assert.equal(after.next_enqueue_at, due + 24 * HOUR);
            assert.equal(after.last_enqueue_at, undefined);
            assert.deepEqual(await jobs(server, queue), []);
        }));

    it('cannot_be_told_to_treat_missed_ticks_in_an_unknown_way', async () => {
        const end = await run(['serve', '--cron-missed', 'often']);
        assert.equal(end.code, 2);
        assert.match(end.stderr, /once.*skip/);
    });
});

describe('the time zone of the server', () => {
    it('is_that_of_entries_that_name_none', async () => {
        const server = new Server({ env: { TZ: 'Asia/Kolkata' } });
        try {
            await server.start();
            const group = await putGroup(server, 'g', [entry({ expression: '0 12 * * *' })]);
            const next = new Date(group.entries[0].next_enqueue_at);
            assert.equal(next.toISOString().slice(11), '06:30:00.000Z');
            assert.ok(next - Date.now() <= 24 * HOUR);
        } finally {
            await server.clean();
        }
    });
});

describe('tenax cron', () => {
    const server = useServer();
    const cli = (...args) => run(args, { TENAX_URL: `http://127.0.0.1:${server.port}`, TZ: 'UTC' });

    it('puts_shows_pauses_and_deletes', async () => {
        const dir = makeDir();
        const file = path.join(dir, 'crons.json');
        fs.writeFileSync(file, JSON.stringify({
            entries: [entry({ name: 'n1', timezone: 'Europe/Rome' }), entry({ name: 'n/2' })],
        }));
        let end = await cli('cron', 'my group', '--put', file);
        fs.rmSync(dir, { recursive: true });
        assert.equal(end.code, 0, end.stderr);
        assert.equal(end.stderr, '');
        assert.match(end.stdout, /^ENTRY +STATE +EXPRESSION +ZONE/);
        assert.match(end.stdout, /n1 +running +0 0 1 1 \* +Europe\/Rome +in \d+/);
        assert.match(end.stdout, /n\/2 +running +0 0 1 1 \* +server's/);
        end = await cli('crons');
        assert.match(end.stdout, /my group +running +2 +in \d+/);
        end = await cli('cron', 'my group', 'n/2', '--pause');
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, /n\/2 +paused/);
        assert.equal((await server.get('/crons/my%20group/entries/n%2F2')).json.paused, true);
        end = await cli('cron', 'my group', 'n/2', '--resume', '--output', 'json');
        assert.equal(JSON.parse(end.stdout).paused, false);
        end = await cli('cron', 'my group', '--pause');
        assert.match(end.stdout, /^The group is paused/);
        end = await cli('cron', 'my group', 'n1', '--delete');
        assert.equal(end.code, 0, end.stderr);
        const left = (await getGroup(server, 'my%20group')).entries;
        assert.deepEqual(left.map((e) => e.name), ['n/2']);
        await putGroup(server, 'days', [entry({ name: 'd', expression: '0 0 */2 * mon' })]);
        for (const [target, output] of [[['days'], 'table'], [['days', 'd'], 'json']]) {
            end = await cli('cron', ...target, '--output', output);
            assert.match(end.stderr, /^tenax cron: warning: entry 'd', '0 0 \*\/2 \* mon': either of the two/);
        }
        await server.delete('/crons/days');
        end = await cli('crons', '--output', 'json');
        assert.equal(JSON.parse(end.stdout)[0].name, 'my group');
        end = await cli('crons', '--delete');
        assert.match(end.stderr, /Deleted 1 cron group\./);
        end = await cli('crons');
        assert.match(end.stderr, /There are no cron groups\./);
    });

    it('says_what_is_wrong', async () => {
        let end = await cli('cron', 'none');
        assert.equal(end.code, 4);
        assert.match(end.stderr, /there is no cron group 'none'/);
        end = await cli('cron');
        assert.equal(end.code, 2);
        end = await cli('cron', 'g', '--pause', '--resume');
        assert.equal(end.code, 2);
        assert.match(end.stderr, /exclude each other/);
        end = await cli('cron', 'g', '--put', '/nonexistent');
        assert.equal(end.code, 2);
        end = await cli('cron', 'g', '--put', '/dev/null');
        assert.match(end.stderr, /not valid JSON at line 1/);
    });
});
