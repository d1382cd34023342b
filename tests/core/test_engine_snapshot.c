/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of the indexes. The rig takes one all the time and restores from it at every restart,
 * comparing with an engine restored from all records: so all tests of the engine test this. Here
 * are random histories of jobs of all kinds, damaged bytes, and sizes. */

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "core/depend.h"
#include "rig.h"

#include <stdlib.h>

#define R     struct rig *r = *state
#define HOUR  ((span){3600000})
#define JOBS  25 /* at a time */
#define SEEDS 100
#define STEPS 800

static const struct policy_rule away = {
    .action = POLICY_RETRY,
    .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
    .retry_limit = POLICY_NO_LIMIT,
    .affinity = {POLICY_AFFINITY_NODE},
    .key = 5};

static const struct policy policy = {
    .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &away, .rule_count = 1};

static const char *const queues[] = {"q", "p", "o"};
static const char *const nodes[] = {"a", "b", ""};
static const char *const keys[] = {"k", "l"};

struct world {
    struct rig *r;
    struct rng rng;
    struct id jobs[JOBS];
    size_t count;
    uint64_t made;
    struct taker *takers[3]; /* streams by node; NULL: none there */
};

static size_t draw(struct world *w, size_t below)
{
    return rng_next(&w->rng) % below;
}

static bool one_in(struct world *w, size_t n)
{
    return draw(w, n) == 0;
}

/* --- commands --- */

static struct str name(struct world *w, const char *prefix, uint64_t n)
{
    struct buf b = {0};
    buf_print(&b, "%s%llu", prefix, (unsigned long long)n);
    struct str s = arena_copy(&w->r->strings, buf_view(&b));
    buf_fini(&b);
    return s;
}

static void vary_more(struct world *w, struct enqueue *spec)
{
    struct job_options *o = &spec->options;
    if (one_in(w, 8))
        o->alias = name(w, "alias", w->made);
    if (one_in(w, 8))
        o->deadline = instant_add(w->r->now, (span){1 + (int64_t)draw(w, 300)});
    if (one_in(w, 6))
        o->group = name(w, "group", draw(w, 3));
    if (one_in(w, 8))
        o->budgets = STR("b=1");
    if (one_in(w, 8))
        o->hold = 1;
    if (one_in(w, 6) && w->count) {
        o->depends_on = depend_new(&w->r->strings, 1);
        depend_add(&o->depends_on, w->jobs[draw(w, w->count)]);
        o->depend_death = draw(w, DEPEND_DEATHS);
    }
}

static void vary(struct world *w, struct enqueue *spec)
{
    struct rig *r = w->r;
    spec->priority = (uint16_t)draw(w, 3);
    spec->type = name(w, "type", draw(w, 5));
    spec->completed_retention = (span){one_in(w, 3) ? 0 : (int64_t)draw(w, 400)};
    spec->dead_retention = (span){one_in(w, 3) ? 0 : (int64_t)draw(w, 400)};
    if (one_in(w, 3))
        spec->ready_at = instant_add(r->now, (span){(int64_t)draw(w, 100)});
    if (one_in(w, 6)) {
        spec->unique_key = name(w, "unique", draw(w, 10));
        spec->unique_while = (enum unique)(UNIQUE_QUEUED + draw(w, 3));
    }
    if (one_in(w, 4))
        spec->options.concurrency_key = str_from(keys[draw(w, 2)]);
    if (one_in(w, 10) && !instant_is_set(spec->ready_at))
        spec->batch = (struct job_batch){name(w, "batch", w->made), STR("true"), STR("$new"), true};
    else if (one_in(w, 8)) {
        spec->options.gang = name(w, "gang", draw(w, 4));
        spec->options.gang_size = 2;
    } else if (one_in(w, 2))
        vary_more(w, spec);
}

static void add(struct world *w)
{
    struct rig *r = w->r;
    struct enqueue spec = rig_spec(queues[draw(w, 3)]);
    if (w->count == JOBS)
        return;
    if (one_in(w, 2))
        vary(w, &spec);
    if (engine_gang_check(r->e, &spec, 1).code != ERR_OK ||
        engine_group_check(r->e, r->now, &spec, 1).code != ERR_OK ||
        engine_depend_check(r->e, r->now, &spec, 1).code != ERR_OK)
        return;
    struct enqueued out;
    assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &out));
    w->made++;
    if (!out.duplicate)
        w->jobs[w->count++] = out.job.id;
}

static void end_run(struct world *w, struct id id)
{
    struct rig *r = w->r;
    const struct failure f = {.message = STR("evicted"),
                              .run_time = {-1},
                              .condition = one_in(w, 2) ? CONDITION_EVICTED : CONDITION_NONE,
                              .node = str_from(nodes[draw(w, 2)])};
    size_t how = draw(w, 4);
    if (how == 0)
        rig_release(r, id);
    else if (how == 1)
        rig_fail_with(r, id, &f);
    else
        rig_succeed(r, id);
}

static void change(struct world *w, struct id id)
{
    struct rig *r = w->r;
    struct job job;
    const struct patch patch = {
        .set = one_in(w, 2) ? PATCH_QUEUE : PATCH_PRIORITY | PATCH_READY_AT,
        .queue = str_from(queues[draw(w, 3)]),
        .priority = (uint16_t)draw(w, 3),
        .ready_at = instant_add(r->now, (span){(int64_t)draw(w, 50)}),
    };
    struct err err = err_none();
    switch (draw(w, 5)) {
    case 0:
        err = engine_remove(r->e, r->now, id);
        break;
    case 1:
        err = engine_cancel(r->e, r->now, id, &r->strings, &job);
        break;
    case 2: {
        struct foldable f;
        bool found;
        if (rig_read(r, id)->batch.key.len) /* further ones are kept out */
            assert_ok(engine_fold_find(r->e, r->now, rig_read(r, id)->batch.key, &r->strings, &f,
                                       &found));
        if (rig_read(r, id)->batch.key.len && found) {
            f.stored.batch.open = false;
            engine_fold_rewrite(r->e, &f.stored);
        }
        err = engine_rerun(r->e, r->now, id, (struct rerun){r->now, true}, &r->strings, &job);
        break;
    }
    default:
        err = engine_patch(r->e, r->now, id, &patch, &r->strings, &job);
    }
    assert_true(err.code == ERR_OK || err.code == ERR_UNPROCESSABLE);
}

static void come_or_go(struct world *w)
{
    size_t n = draw(w, 3);
    if (w->takers[n])
        engine_taker_close(w->r->e, w->r->now, w->takers[n], one_in(w, 2));
    w->takers[n] = w->takers[n] ? NULL : rig_stream_on(w->r, nodes[n], NULL, 4);
}

static void ask(struct world *w)
{
    if (w->r->claim_count > 0)
        return;
    struct taker_spec spec = {.limit = 1 + (uint32_t)draw(w, 3),
                              .claim = true,
                              .lease = {1 + (int64_t)draw(w, 200)},
                              .wait_end = w->r->now,
                              .node = str_from(nodes[draw(w, 3)])};
    engine_taker_open(w->r->e, &spec, w);
}

static void step(struct world *w)
{
    struct rig *r = w->r;
    struct id id = w->count ? w->jobs[draw(w, w->count)] : (struct id){0};
    enum status status = w->count ? rig_status(r, id) : STATUS_GONE;
    size_t what = draw(w, 40);
    if (what < 14)
        add(w);
    else if (what < 24 && status == STATUS_IN_FLIGHT)
        end_run(w, id);
    else if (what < 29 && status != STATUS_GONE)
        change(w, id);
    else if (what == 29)
        ask(w);
    else if (what == 30)
        rig_set(r, queues[draw(w, 3)], .concurrency_per_key = (uint32_t)draw(w, 3));
    else if (what == 31)
        come_or_go(w);
    else if (what == 32) {
        rig_restart(r);
        memset(w->takers, 0, sizeof w->takers);
    }
}

/* The rig keeps a limited number of runs per job. */
static void forget_old(struct world *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct job *job = rig_read(w->r, w->jobs[i]);
        if (job && job->state.runs > RIG_RUNS_MAX - 4)
            assert_ok(engine_remove(w->r->e, w->r->now, w->jobs[i]));
        else if (job)
            w->jobs[kept++] = w->jobs[i];
    }
    w->count = kept;
}

static void set_up(struct world *w)
{
    struct rig *r = w->r;
    r->settings.avoid_required = (span){60};
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 10000};
    r->budgets[0] = (struct budget){
        .key = STR("b"), .policy = {.allocation = 2}, .created_at = r->now, .updated_at = r->now};
    rig_restart(r);
}

static unsigned run_seed(uint64_t seed)
{
    struct world w = {.rng = rng_from_seed(seed)};
    assert_int_equal(rig_setup((void **)&w.r), 0);
    set_up(&w);
    for (int i = 0; i < STEPS; i++) {
        rig_clear(w.r);
        for (size_t n = 1 + draw(&w, 3); n > 0; n--)
            step(&w);
        rig_turn_after(w.r, (int64_t)draw(&w, 20));
        forget_old(&w);
    }
    rig_restart(w.r);
    unsigned restarts = w.r->restored_from_snapshot;
    rig_teardown((void **)&w.r);
    return restarts;
}

static void a_snapshot_restores_what_all_records_do(void **state)
{
    (void)state;
    unsigned restarts = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        restarts += run_seed(seed);
    assert_true(restarts > SEEDS * STEPS / 40);
}

/* Parked jobs are looked at after those in order, and this one leaves them at whatever moment. */
static void a_job_whose_key_has_room_meanwhile_is_not_passed_by(void **state)
{
    (void)state;
    for (unsigned steps = 0; steps < 30; steps++) {
        struct rig *r;
        assert_int_equal(rig_setup((void **)&r), 0);
        struct enqueue spec = rig_spec("q");
        spec.options.concurrency_key = STR("k");
        rig_set(r, "q", .concurrency_per_key = 1);
        struct id first = rig_add_spec(r, &spec);
        rig_add_spec(r, &spec);
        rig_claim(r, "w", "q", 2, (span){0});
        rig_turn(r);
        rig_assert_got(r, first);
        rig_snapshot_fini(r);
        for (unsigned i = 0; i < steps; i++)
            rig_snapshot_turn(r);
        rig_succeed(r, first);
        rig_turn(r);
        rig_restart(r);
        assert_int_equal(rig_count(r, "q", STATUS_READY), 1);
        rig_teardown((void **)&r);
    }
}

/* --- bytes --- */

static void fill(struct rig *r)
{
    for (int i = 0; i < 5; i++) {
        rig_add(r, i % 2 ? "q" : "p");
        rig_add_later(r, "q", (span){1000 + i});
        struct enqueue spec = rig_spec("e");
        spec.completed_retention = HOUR;
        spec.unique_key = STR("u");
        spec.unique_while = i ? UNIQUE_NONE : UNIQUE_EXISTS;
        rig_add_spec(r, &spec);
    }
    rig_claim(r, "claimer", "e", 4, (span){0});
    rig_turn(r);
    for (size_t i = 0; i < 3; i++)
        rig_succeed(r, r->got[i].id);
}

static struct buf whole(struct rig *r, size_t most)
{
    struct buf b = {0};
    engine_snapshot_begin(r->e);
    while (engine_snapshot_step(r->e, most, &b))
        assert_true(engine_snapshot_is_under_way(r->e));
    assert_false(engine_snapshot_is_under_way(r->e));
    return b;
}

static struct err load(struct rig *r, struct str bytes, size_t *rest)
{
    struct rig other = {.now = r->now, .settings = r->settings};
    const struct port port = rig_port(&other);
    const struct engine_sink sink = {.ctx = &other};
    struct snapshot_ids ids = {0};
    struct engine *e = engine_new(&r->settings, &port, &sink, rng_from_seed(3));
    engine_restore_events(e, r->event_count + 1, r->mark);
    struct err err = engine_snapshot_load(e, r->now, &bytes, 1, (struct snapshot_ids){0}, &ids);
    *rest = ids.count;
    free(ids.ids);
    if (err.code != ERR_OK) { /* nothing is left behind */
        uint64_t counts[STATUS_COUNT];
        engine_count(e, (struct str){0}, counts);
        for (int s = 0; s < STATUS_COUNT; s++)
            assert_int_equal(counts[s], 0);
        assert_int_equal(engine_queue_name_after(e, (struct str){0}).len, 0);
        engine_check(e);
    }
    engine_free(e);
    return err;
}

static void what_is_cut_off_is_refused(void **state)
{
    R;
    size_t rest;
    fill(r);
    struct buf b = whole(r, 4);
    assert_ok(load(r, buf_view(&b), &rest));
    assert_int_equal(rest, 2); /* a job in flight, and one with a unique key that has ended */
    for (size_t len = 0; len < b.len; len++) {
        char *copy = alloc_text(b.at, len); /* of its own, so that a read beyond it is found */
        assert_code(load(r, (struct str){copy, len}, &rest), ERR_CORRUPT);
        free(copy);
    }
    buf_byte(&b, 0);
    assert_code(load(r, buf_view(&b), &rest), ERR_CORRUPT);
    buf_fini(&b);
}

/* Checksums are the file's; but whatever comes, it decodes to something or is refused. */
static void no_damage_does_harm(void **state)
{
    R;
    size_t rest, refused = 0;
    fill(r);
    struct buf b = whole(r, 4);
    for (size_t i = 0; i < b.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            b.at[i] = (char)(b.at[i] ^ 1 << bit);
            refused += load(r, buf_view(&b), &rest).code != ERR_OK;
            b.at[i] = (char)(b.at[i] ^ 1 << bit);
        }
    assert_true(refused > b.len);
    assert_ok(load(r, buf_view(&b), &rest));
    buf_fini(&b);
}

static void a_waiting_job_takes_about_a_dozen_bytes(void **state)
{
    R;
    const int count = 100000;
    r->forgetful = true;
    for (int i = 0; i < count; i++) {
        rig_add(r, "q");
        r->now.ms += i % 3 == 0;
    }
    struct buf b = whole(r, 1000);
    assert_in_range(b.len / (size_t)count, 6, 13);
    size_t rest;
    assert_ok(load(r, buf_view(&b), &rest));
    assert_int_equal(rest, 0);
    buf_fini(&b);
}

/* A step copies pages of entries, however many there are. */
static void a_step_is_as_large_as_was_asked_for(void **state)
{
    R;
    r->forgetful = true;
    for (int i = 0; i < 20000; i++)
        rig_add(r, i % 2 ? "q" : "p");
    struct buf b = {0};
    size_t steps = 0;
    engine_snapshot_begin(r->e);
    for (bool more = true; more; steps++) {
        b.len = 0;
        more = engine_snapshot_step(r->e, 100, &b);
        assert_true(b.len < 100 * 14 + 500);
    }
    assert_in_range(steps, 200, 210);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_restores_what_all_records_do),
        cmocka_unit_test(a_job_whose_key_has_room_meanwhile_is_not_passed_by),
        TEST(what_is_cut_off_is_refused),
        TEST(no_damage_does_harm),
        TEST(a_waiting_job_takes_about_a_dozen_bytes),
        TEST(a_step_is_as_large_as_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
