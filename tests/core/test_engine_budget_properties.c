/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets among all that may happen to jobs: no budget is overspent, no stream with room is left
 * without a job that could be paid for unless an older one waits for the same tokens, and all come
 * to their end. */

#include "base/array.h"
#include "base/rng.h"
#include "core/engine_budget.h"
#include "rig.h"

#define JOBS   25 /* at a time; the rig takes no more handed out in a turn than RIG_TAKES_MAX */
#define STEPS  6000
#define POOLS  3
#define PERIOD 100

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
static const char *const pools[POOLS] = {"x", "y", "t"};
static const char *const bindings[] = {"1:x", "2:x", "3:x",     "1:y",         "1:x,1:y", "2:y,1:x",
                                       "1:t", "2:t", "1:t,1:y", "2:x,2:y,1:t", "",        ""};

struct world {
    struct rig *r;
    struct rng rng;
    struct id jobs[JOBS];
    size_t count;
    struct taker *takers[3]; /* streams by node; NULL: none there */
    /* Of the time-based budget, since it was full or changed. */
    instant since;
    int64_t drawn;
    uint32_t allocation, begun_with;
};

static size_t draw(struct world *w, size_t below)
{
    return rng_next(&w->rng) % below;
}

/* --- what is there --- */

static uint32_t cost_of(const struct job *job, const char *pool)
{
    struct str rest = job->options.budgets;
    struct budget_binding b;
    while (budgets_next(&rest, &b))
        if (str_eq(b.key, str_from(pool)))
            return b.cost;
    return 0;
}

static struct budget_view view(const struct world *w, const char *pool)
{
    struct budget_view v;
    assert_ok(engine_budget_read(w->r->e, w->r->now, str_from(pool), &v));
    return v;
}

static bool is_paid(const struct job *job, const struct budget_view *views)
{
    for (size_t i = 0; i < POOLS; i++)
        if ((int64_t)cost_of(job, pools[i]) > views[i].available && cost_of(job, pools[i]))
            return false;
    return true;
}

static bool is_before(const struct job *a, const struct job *b)
{
    unsigned x = a->state.priority * 2u + !a->state.extras.granted;
    unsigned y = b->state.priority * 2u + !b->state.extras.granted;
    return x != y ? x < y : id_cmp(a->id, b->id) < 0;
}

/* Whether a job that comes first waits for tokens of one of its budgets. */
static bool is_held_up(const struct world *w, const struct job *job,
                       const struct budget_view *views)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct job *o = rig_read(w->r, w->jobs[i]);
        if (!o || o->state.status != STATUS_READY || !is_before(o, job) || is_paid(o, views))
            continue;
        for (size_t k = 0; k < POOLS; k++)
            if (cost_of(o, pools[k]) && cost_of(job, pools[k]))
                return true;
    }
    return false;
}

static bool shuns(const struct world *w, const char *node, const struct job *job)
{
    const struct job_extras *x = &job->state.extras;
    return *node && str_eq(x->avoid_node, str_from(node)) && x->avoid_until.ms > w->r->now.ms;
}

static void check_waits(const struct world *w, const struct budget_view *views)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        if (!job || job->state.status != STATUS_READY || !is_paid(job, views))
            continue;
        for (size_t n = 0; n < COUNT(nodes); n++)
            if (w->takers[n] && !shuns(w, nodes[n], job))
                assert_true(is_held_up(w, job, views));
    }
}

static void check_tokens(struct world *w, const struct budget_view *views)
{
    for (size_t i = 0; i < POOLS; i++) {
        uint64_t drawn = 0, jobs = 0;
        for (size_t k = 0; k < w->count; k++) {
            const struct job *job = rig_read(w->r, w->jobs[k]);
            uint32_t cost = job ? cost_of(job, pools[i]) : 0;
            drawn += job && job->state.status == STATUS_IN_FLIGHT ? cost : 0;
            jobs += job && !lifecycle_is_terminal(job->state.status) && cost;
        }
        assert_int_equal(views[i].in_flight, drawn);
        assert_int_equal(views[i].jobs, jobs);
    }
    for (size_t i = 0; i < w->r->got_count; i++) {
        const struct job *job = rig_read(w->r, w->r->got[i].id);
        if (!job)
            continue;
        w->drawn += cost_of(job, "t");
        for (size_t k = 0; k < 2; k++) /* when it was handed out there was enough */
            assert_true(!cost_of(job, pools[k]) || views[k].available >= 0);
    }
    int64_t passed = w->r->now.ms - w->since.ms;
    assert_true(w->drawn <= w->begun_with + passed * w->allocation / PERIOD);
}

/* --- what happens --- */

static void add(struct world *w)
{
    struct enqueue spec = rig_spec(queues[draw(w, 3) == 0]);
    spec.options.budgets = str_from(bindings[draw(w, COUNT(bindings))]);
    spec.priority = (uint16_t)draw(w, 3);
    if (w->count < JOBS && engine_budget_check(w->r->e, &spec, 1, "jobs").code == ERR_OK)
        w->jobs[w->count++] = rig_add_spec(w->r, &spec);
}

static void end_run(struct world *w, struct id id)
{
    struct rig *r = w->r;
    const struct failure f = {.message = STR("evicted"),
                              .run_time = {-1},
                              .condition = CONDITION_EVICTED,
                              .node = str_from(nodes[draw(w, 2)])};
    size_t how = draw(w, 6);
    if (how == 0)
        assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
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

/* What the time-based budget has now is what it begins with. */
static void begin_again(struct world *w)
{
    struct budget_view v = view(w, "t");
    w->since = w->r->now;
    w->drawn = 0;
    w->allocation = v.budget.policy.allocation;
    w->begun_with = (uint32_t)v.available + 1; /* and a part of a token */
}

static void put(struct world *w, size_t pool, uint32_t allocation)
{
    struct budget_policy p = {.allocation = allocation};
    struct budget_view v;
    if (pool == 2)
        p = (struct budget_policy){allocation, BUDGET_TIME_BASED, {PERIOD}, 2 + allocation % 3};
    struct err err = engine_budget_put(w->r->e, w->r->now, str_from(pools[pool]), &p, false, &v);
    assert_true(err.code == ERR_OK || err.code == ERR_UNPROCESSABLE);
    if (pool == 2)
        begin_again(w);
}

static void come_or_go(struct world *w)
{
    size_t n = draw(w, COUNT(nodes));
    if (w->takers[n])
        engine_taker_close(w->r->e, w->r->now, w->takers[n], TAKER_STOPPED);
    w->takers[n] = w->takers[n] ? NULL : rig_stream_on(w->r, nodes[n], NULL, 1000);
}

static void step(struct world *w)
{
    struct rig *r = w->r;
    size_t at = w->count ? draw(w, w->count) : 0;
    enum status status = w->count ? rig_status(r, w->jobs[at]) : STATUS_GONE;
    size_t what = draw(w, 40);
    if (what < 14)
        add(w);
    else if (what < 27 && status == STATUS_IN_FLIGHT)
        end_run(w, w->jobs[at]);
    else if (what < 31 && status != STATUS_GONE && !lifecycle_is_terminal(status))
        change(w, at);
    else if (what < 34)
        put(w, draw(w, POOLS), 1 + (uint32_t)draw(w, 5));
    else if (what < 37)
        come_or_go(w);
    else if (draw(w, 20) == 0) {
        rig_restart(r);
        memset(w->takers, 0, sizeof w->takers);
        begin_again(w);
    }
}

/* The rig keeps so many runs of a job, and no more. */
static void forget_old(struct world *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        if (job && (job->state.runs > RIG_RUNS_MAX - 2 || lifecycle_is_terminal(job->state.status)))
            assert_ok(engine_remove(w->r->e, w->r->now, w->jobs[i]));
        else if (job)
            w->jobs[kept++] = w->jobs[i];
    }
    w->count = kept;
}

static void turn(struct world *w)
{
    struct budget_view views[POOLS];
    rig_turn_after(w->r, (int64_t)draw(w, 20));
    for (size_t i = 0; i < POOLS; i++)
        views[i] = view(w, pools[i]);
    check_tokens(w, views);
    check_waits(w, views);
    forget_old(w);
    rig_clear(w->r);
}

/* Nobody adds or changes anything any more, and workers live. */
static void finish(struct world *w)
{
    for (size_t n = 0; n < COUNT(nodes); n++)
        if (!w->takers[n])
            come_or_go(w);
    while (!w->takers[0] || !w->takers[1] || !w->takers[2])
        come_or_go(w);
    for (int rounds = 0; w->count > 0; rounds++) {
        assert_in_range(rounds, 0, 2000);
        turn(w);
        for (size_t i = 0; i < w->count; i++)
            if (rig_status(w->r, w->jobs[i]) == STATUS_IN_FLIGHT)
                rig_succeed(w->r, w->jobs[i]);
        forget_old(w);
    }
}

static void no_budget_is_overspent_and_no_job_waits_without_a_reason(void **state)
{
    struct world w = {.r = *state, .rng = rng_from_seed(11)};
    w.r->settings.avoid_required = (span){200};
    w.r->policy = &policy;
    w.r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 10000};
    rig_restart(w.r);
    for (size_t i = 0; i < POOLS; i++)
        put(&w, i, 3);
    for (int i = 0; i < STEPS; i++) {
        for (size_t n = 1 + draw(&w, 3); n > 0; n--)
            step(&w);
        turn(&w);
        if (i % 1000 == 999)
            finish(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_budget_is_overspent_and_no_job_waits_without_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
