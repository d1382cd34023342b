// SPDX-License-Identifier: Apache-2.0
'use strict';

// An API server that loses watches, forgets history, is away, or whose clock is wrong; a lease that
// runs out while the executor is held up; a template.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { describe, it } = require('node:test');
const { until } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');

const FOREVER = ['running', 'pause'];

describe('an API server in trouble', { skip: onlyDouble }, () => {
    const bed = useBed();

    for (const [what, trouble] of [
        ['breaks_all_watches', (double) => double.dropWatches()],
        ['breaks_them_in_the_middle_of_a_line', (double) => double.dropWatches({ half: true })],
        ['forgets_its_history', (double) => { double.compact(); double.dropWatches(); }],
        ['is_started_again', (double) => double.restart({ away: 200 })],
    ])
        it(`that_${what}_is_caught_up_with`, async () => {
            const executor = bed.executor().start();
            const { id } = await bed.enqueue(executor, pod(FOREVER));
            const p = await bed.pod(id, 0, 'Running');
            await trouble(bed.double);
            await bed.phase(p, 'succeeded');
            assert.equal((await bed.status(id, 'completed')).attempts, 0);
            await executor.stop();
        });

    it('that_is_away_at_the_start_is_waited_for', async () => {
        const gone = bed.double.restart({ away: 1500 });
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(['running', 'succeeded']));
        await gone;
        await bed.status(id, 'completed');
        await executor.stop();
    });
});

describe('a token in a file', { skip: onlyDouble }, () => {
    const bed = useBed();

    it('that_is_refused_until_it_is_replaced_costs_no_job_an_attempt', async () => {
        bed.double.user({ name: 'robot', token: 'first-token', groups: ['system:masters'] });
        const kubeconfig = bed.double.kubeconfig({ user: 'robot', auth: 'tokenFile',
            namespace: bed.namespace });
        const [, name] = /tokenFile: "?([^"\n]*)/.exec(fs.readFileSync(kubeconfig, 'utf8'));
        const file = path.resolve(path.dirname(kubeconfig), name);
        const executor = bed.executor({ args: ['--kubeconfig', kubeconfig] }).start();
        const first = await bed.enqueue(executor, pod(['running', 'succeeded']));
        await bed.status(first.id, 'completed');
        // The watch of before goes on: only who asks anew is refused.
        bed.double.user({ name: 'robot', token: 'second-token', groups: ['system:masters'] });
        const second = await bed.enqueue(executor, pod(['running', 'succeeded']));
        await executor.says(/may not create pods in namespace .*Unauthorized/);
        fs.writeFileSync(file, 'second-token\n');
        assert.equal((await bed.status(second.id, 'completed')).attempts, 0);
        assert.equal((await bed.server.runs(second.id))[0].outcome, 'returned');
        await executor.stop();
    });
});

describe('a cluster whose clock is an hour off', { skip: onlyDouble }, () => {
    for (const [words, clockOffset] of [['ahead', 3600000], ['behind', -3600000]])
        describe(words, () => {
            const bed = useBed({ cluster: { clockOffset } });

            it('changes_no_deadline', async () => {
                const executor = bed.executor({ args: ['--scheduling-timeout', '2s'] }).start();
                const good = await bed.enqueue(executor,
                    pod(['unschedulable', { do: 'running', after: 800 }, 'succeeded']));
                const bad = await bed.enqueue(executor, pod(['unschedulable', 'pause']),
                    { when_no_policy: 'fail' });
                await bed.status(good.id, 'completed');
                await bed.status(bad.id, 'dead');
                const run = await bed.run(bad.id);
                assert.equal(run.condition, 'Unschedulable');
                assert.ok(run.ended_at - run.taken_at < 600000);
                // A restarted executor does not take old pods for older than they are.
                const kept = await bed.enqueue(executor, pod(FOREVER));
                await bed.pod(kept.id, 0, 'Running');
                await executor.kill();
                executor.start();
                await executor.says(/runs jobs of[^]*runs jobs of/);
                await bed.phase(await bed.podOf(kept.id), 'succeeded');
                await bed.status(kept.id, 'completed');
                await executor.stop();
            });
        });
});

describe('an executor that is held up', () => {
    const bed = useBed();

    it('for_longer_than_its_lease_deletes_the_pod_and_begins_the_next_run_after_that', async () => {
        const executor = bed.executor({ args: ['--lease', '5s', '--max-pods', '1'] }).start();
        const payload = pod({ steps: FOREVER, onDelete: { after: 300 } },
            { spec: { terminationGracePeriodSeconds: 30 } });
        const { id } = await bed.enqueue(executor, payload, { retry_limit: 3 });
        await bed.pod(id, 0, 'Running');
        executor.child.kill('SIGSTOP');
        await bed.status(id, 'ready');
        executor.child.kill('SIGCONT');
        let most = 0;
        const end = bed.observe((pods) => { most = Math.max(most, pods.filter((p) =>
            ['Running', 'Pending'].includes(p.status.phase)).length); });
        await bed.pod(id, 1, 'Running');
        await end();
        assert.equal(most, 1);
        assert.equal((await bed.run(id)).outcome, 'claim-expired');
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id, 1);
        await executor.stop();
    });

    it('and_ends_gives_back_what_has_no_pod', async () => {
        const executor = bed.executor().start();
        await executor.says(/runs jobs of/);
        const holder = bed.executor({ args: ['--max-pods', '1'] }).start();
        const first = await bed.enqueue(holder, pod(FOREVER));
        const second = await bed.enqueue(holder, pod(FOREVER));
        await bed.pod(first.id, 0, 'Running');
        await holder.stop();
        assert.equal((await bed.server.job(second.id)).status, 'ready');
        assert.equal((await bed.server.job(first.id)).status, 'in_flight');
        await bed.server.post(`/jobs/${first.id}/cancel`);
        holder.start();
        await bed.gone(first.id);
        await bed.server.post(`/jobs/${second.id}/cancel`);
        await executor.stop();
    });
});

// Passes on what the server is asked, but breaks the connection instead of giving the answer to the
// first claim that is handed a job.
class LosingProxy {
    async start(server) {
        this.agent = new http.Agent({ keepAlive: true });
        this.lost = 0;
        this.http = http.createServer((req, res) => this.pass(server.port, req, res));
        await new Promise((resolve) => this.http.listen(0, '127.0.0.1', resolve));
        return this;
    }

    url() {
        return `http://127.0.0.1:${this.http.address().port}`;
    }

    pass(port, req, res) {
        const claims = req.method === 'POST' && req.url === '/jobs/claim';
        const up = http.request({ host: '127.0.0.1', port, method: req.method, path: req.url,
            headers: { ...req.headers, host: `127.0.0.1:${port}` }, agent: this.agent }, async (answer) => {
            res.writeHead(answer.statusCode, answer.headers);
            if (!claims)
                return answer.pipe(res);
            const parts = await answer.toArray().catch(() => []);
            const body = Buffer.concat(parts);
            if (this.lost === 0 && JSON.parse(body).jobs.length > 0) {
                this.lost++;
                return req.socket.destroy();
            }
            return res.end(body);
        });
        up.on('error', () => res.destroy());
        res.on('close', () => up.destroy());
        req.pipe(up);
    }

    stop() {
        this.agent.destroy();
        this.http.close();
        this.http.closeAllConnections();
    }
}

describe('a claim whose answer is lost', () => {
    const bed = useBed();

    it('is_learned_of_long_before_its_lease_is_over', async () => {
        const proxy = await new LosingProxy().start(bed.server);
        const executor = bed.executor({ server: proxy, args: ['--lease', '1h'] });
        const { id } = await bed.enqueue(executor, pod(['running', 'succeeded']));
        executor.start();
        await bed.status(id, 'completed');
        assert.equal(proxy.lost, 1);
        assert.equal((await bed.server.runs(id)).length, 1);
        await executor.stop();
        proxy.stop();
    });
});

describe('a server that is not as it should be', () => {
    const bed = useBed();

    async function answering(status, body) {
        const server = http.createServer((req, res) => {
            res.statusCode = status;
            res.end(body);
        }).listen(0, '127.0.0.1');
        await new Promise((resolve) => server.once('listening', resolve));
        const url = `http://127.0.0.1:${server.address().port}`;
        return { url: () => url, stop: () => { server.close(); server.closeAllConnections(); } };
    }

    it('because_it_refuses_the_executor_ends_it_and_it_says_why', async () => {
        const server = await answering(401, '{"error": "credentials are required", "code": "x"}');
        const executor = bed.executor({ server }).start();
        assert.equal((await executor.ended).code, 1);
        assert.ok(executor.stderr.includes(`Tenax's server ${server.url()} refuses this executor (401): ` +
            'credentials are required'), executor.stderr);
        server.stop();
    });

    for (const [status, body] of [[404, 'there is nothing here'], [503, 'busy'], [200, '<p>Hello</p>']])
        it(`because_it_answers_with_${status}_is_said_and_it_is_tried_again`, async () => {
            const server = await answering(status, body);
            const executor = bed.executor({ server }).start();
            await executor.says(new RegExp(`Tenax's server is away: ${server.url()} answers with status ${status}`));
            await executor.stop();
            server.stop();
        });
});

describe('a template', () => {
    const bed = useBed();

    it('makes_the_pod_with_the_values_of_the_payload', async () => {
        const executor = bed.executor();
        const file = path.join(executor.dir, 'pod.yaml');
        const spec = bed.cluster.podSpec({});
        fs.writeFileSync(file, `podSpec:
  ${spec.schedulerName ? `schedulerName: ${spec.schedulerName}` : 'priority: 0'}
  containers:
    - name: main
      image: "registry.example/{{image}}:1"
      args: ["--to={{to}}"]
annotations:
  double.tenax.dev/script: '["running", "succeeded"]'
`);
        executor.args = ['--template', file];
        executor.start();
        const { id } = await bed.enqueue(executor, { image: 'mail', to: 'a"]\n- b' });
        await until(async () => ['completed', 'dead'].includes((await bed.server.job(id)).status),
            'it has ended');
        const p = await bed.podOf(id);
        assert.ok(p, (await bed.run(id)).message);
        assert.equal(p.spec.containers[0].image, 'registry.example/mail:1');
        assert.deepEqual(p.spec.containers[0].args, ['--to=a"]\n- b']);
        const none = await bed.enqueue(executor, { image: 'mail' });
        await bed.status(none.id, 'dead');
        assert.match((await bed.run(none.id)).message, /to/);
        await executor.stop();
    });
});
