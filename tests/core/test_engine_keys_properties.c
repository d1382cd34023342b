/* SPDX-License-Identifier: Apache-2.0 */

/* Concurrency keys together with everything else that can happen to jobs: in every turn no key has
 * more jobs in flight than its limit allowed when they were handed out, and no stream with room is
 * left without a job that it may have. */

#include "base/rng.h"
#include "rig.h"

#define JOBS  25 /* at a time; the rig takes no more handed out in a turn than RIG_TAKES_MAX */
#define STEPS 10000

static const struct policy_rule away = {
    .action = POLICY_RETRY,
    .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
    .retry_limit = POLICY_NO_LIMIT,
    .affinity = {POLICY_AFFINITY_NODE},
    .key = 5};

static const struct policy policy = {
    .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &away, .rule_count = 1};

static const char *const queues[] = {"q", "p"};
static const char *const nodes[] = {"a", "b", ""};
static const char *const keys[] = {"k", "k", "l", ""};

struct world {
    struct rig *r;
    struct rng rng;
    struct id jobs[JOBS];
    size_t count;
    uint32_t limits[2];
    struct taker *takers[3]; /* streams by node; NULL: none there */
    uint32_t asked[3];       /* jobs for a claim there, in this turn */
};

static size_t draw(struct world *w, size_t below)
{
    return rng_next(&w->rng) % below;
}

/* --- inspection --- */

static size_t live_with(const struct world *w, const struct job *like)
{
    size_t n = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        n += job && job->state.status == STATUS_IN_FLIGHT && str_eq(job->queue, like->queue) &&
             str_eq(job->options.concurrency_key, like->options.concurrency_key);
    }
    return n;
}

static uint32_t limit_of(const struct world *w, const struct job *job)
{
    uint32_t limit = w->limits[!str_eq(job->queue, STR("q"))];
    return job->options.concurrency_key.len ? limit : 0;
}

static bool may_have(const struct world *w, const char *node, const struct job *job)
{
    const struct job_extras *x = &job->state.extras;
    uint32_t limit = limit_of(w, job);
    bool shunned =
        *node && str_eq(x->avoid_node, str_from(node)) && x->avoid_until.ms > w->r->now.ms;
    return job->state.status == STATUS_READY && !shunned && (!limit || live_with(w, job) < limit);
}

/* All streams have room, and so had a claim that got less than it asked for: every job left waits
 * for a reason. */
static void check(const struct world *w)
{
    bool wants[3];
    for (size_t n = 0; n < 3; n++)
        wants[n] = w->takers[n] || (w->asked[n] && w->r->claim_sizes[0] < w->asked[n]);
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        for (size_t n = 0; job && n < 3; n++)
            assert_false(wants[n] && may_have(w, nodes[n], job));
    }
    for (size_t i = 0; i < w->r->got_count; i++) {
        const struct job *job = rig_read(w->r, w->r->got[i].id);
        if (job && job->state.status == STATUS_IN_FLIGHT && limit_of(w, job))
            assert_true(live_with(w, job) <= limit_of(w, job));
    }
}

/* --- commands --- */

static void add(struct world *w)
{
    struct enqueue spec = rig_spec(queues[draw(w, 4) == 0]);
    spec.options.concurrency_key = str_from(keys[draw(w, 4)]);
    spec.priority = (uint16_t)draw(w, 3);
    if (w->count < JOBS)
        w->jobs[w->count++] = rig_add_spec(w->r, &spec);
}

static void end_run(struct world *w, struct id id)
{
    struct rig *r = w->r;
    const struct failure f = {.message = STR("evicted"),
                              .run_time = {-1},
                              .condition = CONDITION_EVICTED,
                              .node = str_from(nodes[draw(w, 2)])};
    size_t how = draw(w, 4);
    if (how == 0)
        rig_release(r, id);
    else if (how == 1)
        rig_fail_with(r, id, &f);
    else
        rig_succeed(r, id);
}

static void change(struct world *w, size_t at)
{
    struct rig *r = w->r;
    struct job job;
    const struct patch patch = {
        .set = draw(w, 2) ? PATCH_QUEUE : PATCH_PRIORITY | PATCH_READY_AT,
        .queue = str_from(queues[draw(w, 2)]),
        .priority = (uint16_t)draw(w, 3),
        .ready_at = instant_add(r->now, (span){(int64_t)draw(w, 50)}),
    };
    if (draw(w, 3) == 0)
        assert_ok(engine_remove(r->e, r->now, w->jobs[at]));
    else
        assert_ok(engine_patch(r->e, r->now, w->jobs[at], &patch, &r->strings, &job));
}

static void come_or_go(struct world *w)
{
    size_t n = draw(w, 3);
    bool often = w->takers[n] || draw(w, 3) == 0;
    if (!often)
        return;
    if (w->takers[n])
        engine_taker_close(w->r->e, w->r->now, w->takers[n], TAKER_STOPPED);
    w->takers[n] = w->takers[n] ? NULL : rig_stream_on(w->r, nodes[n], NULL, 1000);
}

static void ask(struct world *w)
{
    size_t n = draw(w, 3);
    if (w->asked[0] || w->asked[1] || w->asked[2])
        return;
    w->asked[n] = 1 + (uint32_t)draw(w, 3);
    struct taker_spec spec = {.limit = w->asked[n],
                              .claim = true,
                              .lease = RIG_LEASE,
                              .wait_end = w->r->now,
                              .node = str_from(nodes[n])};
    engine_taker_open(w->r->e, &spec, w);
}

static void limit(struct world *w)
{
    size_t q = draw(w, 2);
    w->limits[q] = (uint32_t)(draw(w, 8) ? 1 + draw(w, 3) : 0);
    rig_set(w->r, queues[q], .concurrency_per_key = w->limits[q]);
}

static void step(struct world *w)
{
    struct rig *r = w->r;
    size_t at = w->count ? draw(w, w->count) : 0;
    enum status status = w->count ? rig_status(r, w->jobs[at]) : STATUS_GONE;
    size_t what = draw(w, 40);
    if (what < 12)
        add(w);
    else if (what < 22 && status == STATUS_IN_FLIGHT)
        end_run(w, w->jobs[at]);
    else if (what < 29 && status != STATUS_GONE)
        change(w, at);
    else if (what < 34)
        ask(w);
    else if (what < 38)
        limit(w);
    else if (what == 38)
        come_or_go(w);
    else if (draw(w, 20) == 0) {
        rig_restart(r);
        memset(w->asked, 0, sizeof w->asked);
        memset(w->takers, 0, sizeof w->takers);
    }
}

/* The rig keeps a limited number of runs per job. */
static void forget_old(struct world *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        if (job && job->state.runs > RIG_RUNS_MAX - 2)
            assert_ok(engine_remove(w->r->e, w->r->now, w->jobs[i]));
        else if (job)
            w->jobs[kept++] = w->jobs[i];
    }
    w->count = kept;
}

static void no_key_is_exceeded_and_no_job_waits_without_a_reason(void **state)
{
    struct world w = {.r = *state, .rng = rng_from_seed(11)};
    w.r->settings.avoid_required = (span){2000};
    w.r->policy = &policy;
    w.r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 10000};
    rig_restart(w.r);
    for (int i = 0; i < STEPS; i++) {
        rig_clear(w.r);
        memset(w.asked, 0, sizeof w.asked);
        for (size_t n = 1 + draw(&w, 3); n > 0; n--)
            step(&w);
        rig_turn_after(w.r, (int64_t)draw(&w, 20));
        check(&w);
        forget_old(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_key_is_exceeded_and_no_job_waits_without_a_reason,
                                        rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
