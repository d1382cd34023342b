// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax top` in a real terminal: tmux runs it, types, and shows its screen.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, afterEach, before, describe, it } = require('node:test');
const { Server, ownAddress, queueName, run, useServer } = require('./harness');
const { Screen, closeTerminals, openTerminals } = require('./terminal');

// Stands between top and a server: answers as told, or passes on.
class Between {
    constructor(server) {
        this.answer = () => false;
        this.http = http.createServer((req, res) => {
            if (this.answer(req, res))
                return;
            const on = http.request({ host: server.host, port: server.port, path: req.url,
                method: req.method, headers: req.headers }, (from) => {
                res.writeHead(from.statusCode, from.headers);
                from.pipe(res);
            });
            on.on('error', () => res.destroy());
            res.on('close', () => on.destroy());
            req.pipe(on);
        });
    }

    async start() {
        await new Promise((resolve) => this.http.listen(0, '127.0.0.1', resolve));
        this.url = `http://127.0.0.1:${this.http.address().port}`;
        return this;
    }

    stop() {
        this.http.closeAllConnections?.();
        this.http.close();
    }
}

describe('tenax top', () => {
    const server = useServer();
    let screen;
    afterEach(() => {
        screen?.close();
        screen = null;
    });
    before(openTerminals);
    after(closeTerminals);

    async function reset() {
        assert.equal((await server.post('/reset')).status, 204);
    }

    async function dead(queue) {
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue, { worker: 'w-1' });
        const res = await server.post(`/jobs/${id}/failure`,
            { message: 'smtp is down', kill: true });
        assert.equal(res.status, 200, res.text);
        return id;
    }

    it('shows_counts_and_jobs_on_80_by_24_and_follows_what_happens', async () => {
        await reset();
        screen = new Screen(server.url());
        await screen.shows(/in flight 0 +ready 0 +scheduled 0 +dead 0/, /nothing/);
        const { id } = await server.enqueue({ queue: 'mail', type: 'welcome' });
        await screen.shows(/ready 1 /);
        screen.keys('2');
        const text = await screen.shows(new RegExp(`^ ${id} mail +welcome +0 `, 'm'));
        const lines = text.split('\n').slice(0, 24);
        assert.match(lines[0], /^ tenax top {2}http:/);
        assert.match(lines[3], /^\[=+\]$/);
        assert.equal(lines[3].length, 80);
        assert.match(lines[23], /^ q quit .*\? help/);
        await server.claimOne('mail');
        await screen.shows(/in flight 1 +ready 0/, /^ +nothing/m);
        screen.keys('1');
        await screen.shows(new RegExp(`^ ${id} mail .* for \\d`, 'm'));
        await server.enqueue({ queue: 'later', ready_at: Date.now() + 3600000 });
        screen.keys('3');
        await screen.shows(/^ \w{25} later +test +0 +in (59|60) min|in 1 h/m, /scheduled 1/);
    });

    it('shows_the_runs_of_a_job_with_their_reasons', async () => {
        await reset();
        const id = await dead('mail');
        screen = new Screen(server.url());
        screen.keys('4');
        await screen.shows(new RegExp(id));
        screen.keys('Enter');
        const text = await screen.shows(new RegExp(`job ${id}`), /run 0 +failed/);
        assert.match(text, /^ status +dead$/m);
        assert.match(text, /run 0 +failed.*smtp is down/);
        assert.match(text, /dead: killed by the worker/);
        screen.keys('Escape');
        await screen.shows(/^(?![^]*status +dead)/);
    });

    it('deletes_only_what_is_confirmed', async () => {
        await reset();
        const id = await dead('mail');
        screen = new Screen(server.url());
        screen.keys('4');
        await screen.shows(new RegExp(id));
        screen.keys('d');
        await screen.shows(new RegExp(`Delete job ${id}\\? \\(y/n\\)`));
        screen.keys('n');
        await screen.shows(/nothing was changed/);
        assert.equal((await server.job(id)).status, 'dead');
        screen.keys('d');
        await screen.shows(/Delete job/);
        screen.keys('y');
        await screen.shows(new RegExp(`deleted ${id}`), /dead 0/, /^ +nothing/m);
        assert.equal((await server.get(`/jobs/${id}`)).status, 404);
    });

    it('retries_dead_jobs_after_a_question', async () => {
        await reset();
        const ids = [await dead('mail'), await dead('mail')];
        screen = new Screen(server.url());
        screen.keys('4');
        await screen.shows(new RegExp(ids[0]), new RegExp(ids[1]));
        screen.keys('r');
        await screen.shows(new RegExp(`Retry job ${ids[1]}`)); // the newest is the first
        screen.keys('y');
        await screen.shows(new RegExp(`retried ${ids[1]}`), /ready 1 .*dead 1/);
        assert.equal((await server.job(ids[1])).status, 'ready');
        screen.keys('2');
        await screen.shows(/\[2 Ready\]/, new RegExp(`^ ${ids[1]}`, 'm'));
        screen.keys('r');
        await screen.shows(/only dead jobs are retried/);
        screen.keys('5');
        await screen.shows(/^ mail/m);
        screen.keys('r');
        await screen.shows(/Retry all dead jobs of mail\?/);
        screen.keys('y');
        await screen.shows(/ready 2 .*dead 0/);
    });

    it('searches_by_queue_type_id_and_payload', async () => {
        await reset();
        const jobs = {};
        for (const [queue, type] of [['alpha', 'one'], ['beta', 'two']])
            jobs[queue] = (await server.enqueue({ queue, type, payload: { to: queue } })).id;
        screen = new Screen(server.url());
        screen.keys('2');
        await screen.shows(new RegExp(jobs.alpha), new RegExp(jobs.beta));
        const only = (queue) => screen.shows(
            new RegExp(`^(?=[^]*${jobs[queue]})(?![^]*${jobs[queue === 'alpha' ? 'beta' : 'alpha']})`));
        for (const [words, queue] of [['alpha', 'alpha'], ['type:two', 'beta'],
            ['.to == "alpha"', 'alpha'], [jobs.beta, 'beta']]) {
            screen.keys('/', 'C-u');
            screen.type(words);
            await screen.shows(new RegExp(`^ /${words.slice(0, 5)}.*_$`, 'm'));
            screen.keys('Enter');
            await only(queue);
        }
        screen.keys('/', 'C-u');
        screen.type('nobody');
        screen.keys('Enter');
        await screen.shows(/nothing matches; queue:NAME/);
        screen.keys('Escape');
        await screen.shows(new RegExp(jobs.alpha), new RegExp(jobs.beta));
        screen.keys('/', 'C-u');
        screen.type('.[');
        screen.keys('Enter');
        await screen.shows(/HTTP 400/);
    });

    it('lists_queues_and_leads_to_their_jobs', async () => {
        await reset();
        const { id } = await server.enqueue({ queue: 'alpha' });
        await server.enqueue({ queue: 'beta' });
        screen = new Screen(server.url());
        screen.keys('5');
        await screen.shows(/^ alpha/m, /^ beta/m);
        screen.keys('Enter');
        const text = await screen.shows(new RegExp(id), /\/queue:alpha/);
        assert.doesNotMatch(text, /beta/);
    });

    it('moves_through_long_lists_and_pages', async () => {
        await reset();
        const jobs = Array.from({ length: 150 }, (_, i) => ({ queue: 'long', type: `t${i}`,
            payload: null }));
        assert.equal((await server.post('/jobs/bulk', { jobs })).status, 201);
        screen = new Screen(server.url());
        screen.keys('2');
        const at = (type) => screen.shows(new RegExp(`long +${type} `));
        await at('t0');
        screen.keys('End');
        await at('t99');
        screen.keys('n');
        await at('t100');
        screen.keys('n');
        await screen.shows(/this is the last page/);
        screen.keys('p');
        await at('t0');
        screen.keys('p');
        await screen.shows(/this is the first page/);
    });

    it('shows_who_has_a_job_for_how_long_and_how_far_it_is', async () => {
        await reset();
        const { id } = await server.enqueue({ queue: 'video', type: 'encode' });
        const { token } = await server.claimOne('video', { worker: 'render-7' });
        await server.post(`/jobs/${id}/progress`, { token, progress: { value: 0.4, note: 'page 40' } });
        screen = new Screen(server.url(), { width: 100 });
        const text = await screen.shows(new RegExp(
            `^ ${id} video +encode +0 +for \\d+ m?s +render-7 40 % page 40`, 'm'), /JOB .* WORKER/);
        assert.match(text, /for \d+ m?s/);
        await screen.shows(/for [1-9]\d* s +render-7/);
    });

    it('shows_blocked_and_completed_jobs', async () => {
        await reset();
        const keep = { completed_ms: 600000 };
        const { id } = await server.enqueue({ queue: 'a', retention: keep });
        const blocked = await server.enqueue({ queue: 'b', depends_on: [id] });
        screen = new Screen(server.url());
        await screen.shows(/blocked 1 +done 0/);
        screen.keys('6');
        await screen.shows(/\[6 Blocked\]/, new RegExp(`^ ${blocked.id} b `, 'm'));
        const { token } = await server.claimOne('a');
        await server.post(`/jobs/${id}/success`, { token });
        await screen.shows(/blocked 0 +done 1/);
        screen.keys('7');
        await screen.shows(/\[7 Done\]/, new RegExp(`^ ${id} a .* completed at`, 'm'));
    });

    it('cancels_jobs_and_stops_queues_after_a_question', async () => {
        await reset();
        const { id } = await server.enqueue({ queue: 'mail' });
        screen = new Screen(server.url());
        screen.keys('2');
        await screen.shows(new RegExp(id));
        screen.keys('s');
        await screen.shows(/Pause the queue mail\? \(y\/n\)/);
        screen.keys('y');
        await screen.shows(/paused mail/);
        assert.equal((await server.get('/queues/mail')).json.paused, true);
        screen.keys('5');
        await screen.shows(/^ mail .* paused/m);
        screen.keys('s');
        await screen.shows(/Resume the queue mail\?/);
        screen.keys('y');
        await screen.shows(/resumed mail/);
        assert.equal((await server.get('/queues/mail')).json.paused, false);
        screen.keys('2');
        await screen.shows(new RegExp(id));
        screen.keys('c');
        await screen.shows(new RegExp(`Cancel job ${id}\\?`));
        screen.keys('y');
        await screen.shows(new RegExp(`canceled ${id}`), /dead 1/);
        assert.equal((await server.job(id)).resolution, 'canceled');
    });

    // A worker that has asked for the queue, and has one job of it.
    async function working(queue, worker) {
        await server.enqueue({ queue });
        const res = await server.post('/jobs/claim', { worker, queues: [queue], count: 1, wait_ms: 0 },
            { 'user-agent': 'mailer/2.1' });
        assert.equal(res.json.jobs.length, 1, res.text);
        return res.json.jobs[0];
    }

    it('shows_workers_and_leads_to_their_jobs', async () => {
        await reset();
        const [queue, names] = [queueName(), ['top-show-a', 'top-show-b']];
        screen = new Screen(server.url());
        screen.keys('8');
        await screen.shows(/ 2 Ready .*\[8 Workers\]$/m, /WORKER +STATE +IN FLIGHT +LAST SEEN +ADDRESS +VERSION +QUEUES/,
            /1-8 tabs .* s quiet, resume +x stop/);
        const jobs = [];
        for (const name of names)
            jobs.push(await working(queue, name));
        await screen.shows(...names.map((name) => new RegExp(
            `^ ${name} +works +1 +(just now|\\d+ s ago) +${server.host} +mailer/2\\.1 +${queue.slice(0, 4)}`, 'm')));
        const [{ id, token }] = jobs;
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
        await screen.shows(/^ top-show-a +works +0 /m);
        // One that comes without any event is shown, too.
        await server.post('/jobs/claim', { worker: 'top-show-c', queues: [queue], count: 1, wait_ms: 0 });
        await screen.shows(/^ top-show-c +works +0 /m);
        screen.keys('/');
        screen.type('show-b');
        screen.keys('Enter');
        await screen.shows(/^(?![^]*top-show-a)[^]*^ top-show-b /m);
        screen.keys('Enter');
        await screen.shows(/\[1 In flight\]/, /\/worker:top-show-b/, new RegExp(`^ ${jobs[1].id}`, 'm'));
        screen.keys('W');
        await screen.shows(/\[8 Workers\]/, /^ top-show-b /m);
        screen.resize(40, 10);
        const text = await screen.shows(/WORKER +STATE +RUN +LAST SEEN/, /^ top-show-b +works 1 /m);
        assert.ok(text.split('\n').every((line) => line.length <= 40), text);
        screen.resize(80, 24);
        screen.keys('Escape');
        await screen.shows(/^ top-show-a /m, /^ top-show-b /m);
    });

    it('makes_workers_quiet_lets_them_go_on_and_stops_them_after_a_question', async () => {
        await reset();
        const [queue, name] = [queueName(), 'top-act/1'];
        const worker = async () => (await server.get(`/workers/${encodeURIComponent(name)}`)).json;
        const { id } = await working(queue, name);
        screen = new Screen(server.url());
        screen.keys('8', '/');
        screen.type(name);
        screen.keys('Enter');
        await screen.shows(/^ top-act\/1 +works +1 /m);
        screen.keys('s');
        await screen.shows(/Give nothing more to top-act\/1\? \(y\/n\)/);
        screen.keys('n');
        await screen.shows(/nothing was changed/);
        assert.equal((await worker()).quiet, false);
        screen.keys('s', 'y');
        await screen.shows(/top-act\/1 is quiet/, /^ top-act\/1 +quiet +1 /m);
        assert.equal((await worker()).quiet, true);
        screen.keys('s');
        await screen.shows(/Give jobs again to top-act\/1\?/);
        screen.keys('y');
        await screen.shows(/top-act\/1 is given jobs again/, /^ top-act\/1 +works +1 /m);
        assert.equal((await worker()).quiet, false);
        for (const [key, verb] of [['d', 'deleted'], ['c', 'canceled'], ['r', 'retried']]) {
            screen.keys(key);
            await screen.shows(new RegExp(`a job is ${verb}, not a worker`));
        }
        screen.keys('x');
        await screen.shows(/Stop top-act\/1, so that its jobs go back\? \(y\/n\)/);
        screen.keys('n');
        await screen.shows(/nothing was changed/);
        assert.equal((await server.job(id)).status, 'in_flight');
        screen.keys('x', 'y');
        await screen.shows(/top-act\/1 is stopped/, /^ top-act\/1 +quiet +0 /m);
        assert.equal((await server.job(id)).status, 'ready');
        screen.keys('2', 'x');
        await screen.shows(/x stops a worker: 8 shows them/);
    });

    it('is_readable_on_40_by_10', async () => {
        await reset();
        const id = await dead('mail');
        await server.enqueue({ queue: 'mail', type: 'welcome' });
        screen = new Screen(server.url(), { width: 40, height: 10 });
        screen.keys('4');
        let text = await screen.shows(new RegExp(`^ ${id.slice(-7)} mail .*failed`, 'm'));
        const lines = text.split('\n');
        assert.ok(lines.every((line) => line.length <= 40));
        assert.match(lines[1], /^ in f 0 read 1 sche 0 dead 1 bloc 0 done/);
        assert.match(lines[4], /^ 1 {2,3}2 {2,3}3 {1,3}\[4 Dead\] {1,3}5 {2,3}6 {2,3}7 {2,3}8/);
        assert.match(lines[9], /^ q quit.*\? help/);
        assert.match(text, /dead: k/, 'the reason has what is left');
        screen.keys('5');
        text = await screen.shows(/^ mail +1 +0 +0/m);
        assert.match(text, /READY +RUN/);
    });

    it('gives_the_reason_the_width_that_is_free', async () => {
        await reset();
        await dead('mail');
        screen = new Screen(server.url(), { width: 132 });
        screen.keys('4');
        await screen.shows(/dead: killed by the worker \(smtp is down\)/);
    });

    it('fits_each_size_of_the_window', async () => {
        await reset();
        const { id } = await server.enqueue({ queue: 'wide', type: 'a-rather-long-name-of-a-type' });
        screen = new Screen(server.url());
        screen.keys('2');
        await screen.shows(new RegExp(id));
        screen.resize(132, 40);
        let text = await screen.shows(/a-rather-long-name-of-a-type/, /^\[=+\]$/m);
        assert.equal(text.split('\n')[3].length, 132);
        assert.match(text.split('\n')[39], /^ q quit/);
        screen.resize(30, 8);
        await screen.shows(/too small/);
        screen.resize(80, 24);
        text = await screen.shows(new RegExp(id), /^\[=+\]$/m);
        assert.equal(text.split('\n')[3].length, 80);
    });

    it('explains_its_keys_and_ends_in_good_order', async () => {
        screen = new Screen(server.url());
        screen.keys('?');
        await screen.shows(/retry the dead job/);
        screen.keys('x');
        await screen.shows(/^(?![^]*retry the dead job)[^]*\[1 In flight\]/);
        screen.keys('q');
        await screen.shows(/ended with 0/);
        const piped = await run(['top', '--url', server.url()]);
        assert.equal(piped.code, 2);
        assert.match(piped.stderr, /needs a terminal/);
    });

    it('goes_on_while_the_server_is_away_and_when_it_is_back', async () => {
        const host = ['--host', ownAddress()]; // it comes back to its port
        const other = new Server({ args: host });
        try {
            await other.start();
            const { port } = other;
            await other.enqueue({ queue: 'kept' });
            screen = new Screen(other.url());
            await screen.shows(/ready 1 /);
            await other.stop();
            await screen.shows(/NO ANSWER, trying again/, /connection refused/);
            screen.keys('?'); // it is not frozen
            await screen.shows(/retry the dead job/);
            screen.keys('x');
            await other.start({ args: [...host, '--port', `${port}`] });
            await screen.shows(/connected again/, /ready 1 /);
            await other.enqueue({ queue: 'kept' });
            await screen.shows(/ready 2 /);
            assert.doesNotMatch(screen.text(), /NO ANSWER/);
        } finally {
            await other.clean();
        }
    });

    it('does_not_freeze_when_answers_take_long', async () => {
        await reset();
        const between = await new Between(server).start();
        try {
            const held = [];
            between.answer = (req, res) => held.push([req, res]) > 0;
            screen = new Screen(between.url);
            await screen.shows(/waiting for the server, [1-9]/);
            screen.keys('4');
            screen.keys('?');
            await screen.shows(/retry the dead job/);
            screen.keys('x');
            await screen.shows(/\[4 Dead\]/);
            screen.keys('q');
            await screen.shows(/ended with 0/);
            for (const [, res] of held)
                res.destroy();
        } finally {
            between.stop();
        }
    });

    it('reads_all_again_when_events_were_missed', async () => {
        await reset();
        const between = await new Between(server).start();
        try {
            let stream;
            const asked = [];
            between.answer = (req, res) => {
                if (!req.url.startsWith('/events'))
                    return false;
                asked.push(req.url);
                res.writeHead(200, { 'content-type': 'application/x-ndjson' });
                res.write('\n');
                stream = res;
                return true;
            };
            screen = new Screen(between.url);
            await screen.shows(/ live$/m, /in 0\.0\/s +taken 0\.0\/s +done 0\.0\/s +failed 0\.0\/s/);
            for (let i = 0; i < 90; i++)
                stream.write(`{"event":"job_enqueued","number":${i + 1},"cursor":"abc-${i + 1}","id":"x","to":"ready"}\n`);
            await screen.shows(/in [1-9]\d*\.\d\/s/);
            stream.write('{"event":"gap","from":91,"to":500,"cursor":"abc-500"}\n');
            await screen.shows(/some events were missed; reading everything again/);
            stream.end();
            const { id } = await server.enqueue({ queue: queueName() });
            screen.keys('2');
            await screen.shows(new RegExp(id), / live$/m);
            assert.equal(asked.at(-1), '/events?since=abc-500');
        } finally {
            between.stop();
        }
    });
});
