/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/crons.h"

#define START  ((instant){1767225600000}) /* 2026-01-01 00:00:00 UTC, a Thursday */
#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define MAX    16

/* What is stored; strings live in the rig's arena. */
struct disk {
    unsigned jobs;
    char types[64][16]; /* of the jobs, in order */
    struct cron_group groups[MAX];
    struct cron_entry entries[MAX];
    struct cron_clock clocks[MAX];
    struct id clock_ids[MAX];
};

struct rig {
    struct engine *e;
    struct engine_settings settings;
    instant now;
    uint64_t seed;
    struct disk disk;    /* with what the turn has written */
    struct disk durable; /* without */
    struct arena arena;
    unsigned writes;
    int64_t offset;    /* of the zone Test/Moving */
    bool moving_known; /* whether there is that zone */
};

/* --- the port --- */

#define FIND(list, wanted, field)                                                                  \
    __extension__({                                                                                \
        size_t i_ = 0;                                                                             \
        while (i_ < MAX && !id_eq((list)[i_] field, wanted))                                       \
            i_++;                                                                                  \
        assert_true(i_ < MAX);                                                                     \
        i_;                                                                                        \
    })

static bool put_job(void *ctx, const struct job *job)
{
    struct rig *r = ctx;
    r->writes++;
    assert_true(job->state.status == STATUS_READY && job->state.ready_at.ms == r->now.ms);
    assert_true(r->disk.jobs < 64);
    snprintf(r->disk.types[r->disk.jobs++], 16, "%.*s", STR_ARG(job->type));
    return false;
}

static struct err load_entry(void *ctx, struct id id, struct arena *a, struct cron_entry *out)
{
    struct rig *r = ctx;
    (void)a;
    *out = r->disk.entries[FIND(r->disk.entries, id, .id)];
    return err_none();
}

/* The slot of that id, or a free one. */
#define SLOT(list, wanted, field)                                                                  \
    __extension__({                                                                                \
        size_t i_ = 0, free_ = MAX;                                                                \
        for (; i_ < MAX && !id_eq((list)[i_] field, wanted); i_++)                                 \
            if (free_ == MAX && id_is_none((list)[i_] field))                                      \
                free_ = i_;                                                                        \
        i_ = i_ < MAX ? i_ : free_;                                                                \
        assert_true(i_ < MAX);                                                                     \
        i_;                                                                                        \
    })

static void put_group(void *ctx, const struct cron_group *group)
{
    struct rig *r = ctx;
    size_t at = SLOT(r->disk.groups, group->id, .id);
    r->writes++;
    r->disk.groups[at] = *group;
    r->disk.groups[at].name = arena_copy(&r->arena, group->name);
}

static void put_entry(void *ctx, const struct cron_entry *entry)
{
    struct rig *r = ctx;
    struct arena *a = &r->arena;
    size_t at = SLOT(r->disk.entries, entry->id, .id);
    r->writes++;
    struct cron_entry *c = &r->disk.entries[at];
    *c = *entry;
    c->name = arena_copy(a, entry->name);
    c->expression = arena_copy(a, entry->expression);
    c->zone = arena_copy(a, entry->zone);
    c->job.queue = arena_copy(a, entry->job.queue);
    c->job.type = arena_copy(a, entry->job.type);
    c->job.payload = arena_copy(a, entry->job.payload);
}

static void put_clock(void *ctx, struct id id, const struct cron_clock *clock)
{
    struct rig *r = ctx;
    size_t at = SLOT(r->disk.clock_ids, id, );
    r->writes++;
    r->disk.clock_ids[at] = id;
    r->disk.clocks[at] = *clock;
}

static void delete_group(void *ctx, struct id id)
{
    struct rig *r = ctx;
    r->writes++;
    r->disk.groups[FIND(r->disk.groups, id, .id)] = (struct cron_group){0};
}

static void delete_entry(void *ctx, struct id id)
{
    struct rig *r = ctx;
    r->writes++;
    r->disk.entries[FIND(r->disk.entries, id, .id)] = (struct cron_entry){0};
    r->disk.clock_ids[FIND(r->disk.clock_ids, id, )] = (struct id){0};
}

static struct cron_period moving(void *ctx, int64_t utc)
{
    (void)utc;
    return (struct cron_period){-CRON_EVER, CRON_EVER, ((struct rig *)ctx)->offset};
}

static const struct cron_zone *zone(void *ctx, struct str name)
{
    static struct cron_zone moving_zone = {NULL, moving};
    struct rig *r = ctx;
    moving_zone.ctx = r;
    if (name.len == 0 || str_eq(name, STR("UTC")))
        return &cron_utc;
    return r->moving_known && str_eq(name, STR("Test/Moving")) ? &moving_zone : NULL;
}

static void deliver(void *ctx, void *taker, const struct handout *h)
{
    (void)ctx;
    (void)taker;
    (void)h;
    fail_msg("nobody takes jobs here");
}

static void put_event(void *ctx, const struct job_event *event)
{
    (void)ctx;
    assert_string_equal(lifecycle_event_kind(event->event), "job_enqueued");
}

static void start_engine(struct rig *r)
{
    struct port port = {.ctx = r,
                        .put_job = put_job,
                        .load_cron_entry = load_entry,
                        .put_cron_group = put_group,
                        .put_cron_entry = put_entry,
                        .put_cron_clock = put_clock,
                        .delete_cron_group = delete_group,
                        .delete_cron_entry = delete_entry,
                        .put_event = put_event,
                        .zone = zone};
    struct engine_sink sink = {.ctx = r, .deliver = deliver};
    r->e = engine_new(&r->settings, &port, &sink, rng_from_seed(r->seed++));
}

static int setup(void **state)
{
    struct rig *r = ALLOC(struct rig);
    r->now = START;
    r->seed = 1;
    r->moving_known = true;
    r->settings.retry = retry_defaults();
    start_engine(r);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    engine_free(r->e);
    arena_fini(&r->arena);
    free(r);
    return 0;
}

/* --- steps --- */

#define assert_code(expr, want) assert_int_equal((expr).code, (want))
#define assert_ok(expr)         assert_code((expr), ERR_OK)

static void commit(struct rig *r)
{
    r->durable = r->disk;
}

/* Fires what is due, and makes it durable. */
static void turn(struct rig *r)
{
    bool more;
    assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
    engine_check(r->e);
    commit(r);
}

static void turn_after(struct rig *r, int64_t ms)
{
    r->now.ms += ms;
    turn(r);
}

static size_t recover(struct rig *r)
{
    size_t standing = 0;
    for (size_t i = 0; i < MAX; i++)
        if (!id_is_none(r->disk.groups[i].id))
            engine_restore_cron_group(r->e, &r->disk.groups[i]);
    for (size_t i = 0; i < MAX; i++) {
        struct cron_entry entry = r->disk.entries[i];
        bool ticks;
        if (id_is_none(entry.id))
            continue;
        entry.clock = r->disk.clocks[FIND(r->disk.clock_ids, entry.id, )];
        assert_ok(engine_restore_cron_entry(r->e, &entry, &ticks));
        standing += !ticks;
    }
    assert_ok(engine_restored(r->e, r->now));
    engine_check(r->e);
    return standing;
}

/* The process dies: what is not durable is gone. Returns how many entries stand still. */
static size_t crash(struct rig *r)
{
    r->disk = r->durable;
    engine_free(r->e);
    start_engine(r);
    return recover(r);
}

static struct cron_spec spec(const char *name, const char *expression)
{
    return (struct cron_spec){.name = str_from(name),
                              .expression = str_from(expression),
                              .job = {.queue = STR("q"),
                                      .type = str_from(name),
                                      .payload = STR("{}"),
                                      .priority = JOB_PRIORITY_DEFAULT,
                                      .ready_at = INSTANT_NONE,
                                      .retry_limit = RETRY_LIMIT_DEFAULT,
                                      .completed_retention = RETENTION_DEFAULT,
                                      .dead_retention = RETENTION_DEFAULT}};
}

static struct err try_put(struct rig *r, const struct cron_spec *specs, size_t count, bool whole,
                          struct cron_view *view)
{
    struct cron_put put = {.group = STR("g"), .entries = specs, .count = count, .whole = whole};
    struct err err = engine_cron_put(r->e, r->now, &put, &r->arena, view);
    engine_check(r->e);
    return err;
}

static struct cron_view put(struct rig *r, const struct cron_spec *specs, size_t count)
{
    struct cron_view view;
    assert_ok(try_put(r, specs, count, true, &view));
    assert_int_equal(view.count, count);
    commit(r);
    return view;
}

static struct cron_view put_one(struct rig *r, const char *name, const char *expression)
{
    struct cron_spec s = spec(name, expression);
    return put(r, &s, 1);
}

static struct cron_entry read_entry(struct rig *r, const char *name)
{
    struct cron_view view;
    assert_ok(engine_cron_read(r->e, STR("g"), str_from(name), &r->arena, &view));
    assert_int_equal(view.count, 1);
    return view.entries[0];
}

static void flip(struct rig *r, const char *entry, enum cron_switch to)
{
    struct cron_view view;
    struct str name = entry ? str_from(entry) : (struct str){0};
    assert_ok(engine_cron_switch(r->e, r->now, STR("g"), name, to, &r->arena, &view));
    commit(r);
}

#define assert_jobs(r, n)     assert_int_equal((r)->disk.jobs, (n))
#define assert_at(t, from, d) assert_int_equal((t).ms, (from).ms + (d))

/* --- ticks --- */

static void a_tick_enqueues_a_job_and_says_when_the_next_is(void **state)
{
    struct rig *r = *state;
    struct cron_view v = put_one(r, "a", "*/5 * * * *");
    assert_at(v.entries[0].clock.next_at, START, 5 * MINUTE);
    assert_false(instant_is_set(v.entries[0].clock.last_at));
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_at(due, START, 5 * MINUTE);
    turn_after(r, 5 * MINUTE - 1);
    assert_jobs(r, 0);
    turn_after(r, 4);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "a");
    struct cron_entry e = read_entry(r, "a");
    assert_at(e.clock.next_at, START, 10 * MINUTE);
    assert_at(e.clock.last_at, START, 5 * MINUTE + 3);
    turn(r);
    assert_jobs(r, 1);
}

static void a_put_right_on_a_tick_waits_for_the_one_after(void **state)
{
    struct rig *r = *state;
    struct cron_view v = put_one(r, "a", "0 * * * *");
    assert_at(v.entries[0].clock.next_at, START, HOUR);
}

static void a_late_turn_fires_once(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "* * * * * *");
    turn_after(r, 10 * MINUTE + 500);
    assert_jobs(r, 1);
    assert_at(read_entry(r, "a").clock.next_at, START, 10 * MINUTE + 1000);
}

static void a_crash_before_the_commit_loses_no_tick(void **state)
{
    struct rig *r = *state;
    bool more;
    put_one(r, "a", "0 * * * *");
    r->now.ms += HOUR;
    assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
    assert_jobs(r, 1);
    crash(r);
    assert_jobs(r, 0);
    turn(r);
    assert_jobs(r, 1);
    assert_at(read_entry(r, "a").clock.next_at, START, 2 * HOUR);
}

static void a_crash_after_the_commit_fires_nothing_again(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 * * * *");
    turn_after(r, HOUR);
    crash(r);
    turn(r);
    assert_jobs(r, 1);
    turn_after(r, HOUR);
    assert_jobs(r, 2);
}

static void ticks_missed_while_down_become_one(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 * * * *");
    turn_after(r, HOUR);
    r->now.ms += 5 * HOUR + MINUTE;
    crash(r);
    turn(r);
    assert_jobs(r, 2);
    assert_at(read_entry(r, "a").clock.next_at, START, 7 * HOUR);
    assert_at(read_entry(r, "a").clock.last_at, START, 6 * HOUR + MINUTE);
}

static void ticks_missed_while_down_are_passed_over_if_so_set(void **state)
{
    struct rig *r = *state;
    r->settings.cron_skip_missed = true;
    put_one(r, "a", "0 * * * *");
    r->now.ms += 5 * HOUR + MINUTE;
    crash(r);
    turn(r);
    assert_jobs(r, 0);
    assert_at(read_entry(r, "a").clock.next_at, START, 6 * HOUR);
    /* What is late though the server is up is not missed. */
    turn_after(r, 4 * HOUR);
    assert_jobs(r, 1);
}

static void a_clock_that_went_back_over_a_restart_repeats_nothing(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 * * * *");
    turn_after(r, HOUR + 5);
    r->now.ms -= MINUTE;
    crash(r);
    turn_after(r, 2 * MINUTE);
    assert_jobs(r, 1);
    assert_at(read_entry(r, "a").clock.next_at, START, 2 * HOUR);
}

static void a_zone_with_new_rules_is_heeded_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct cron_spec s = spec("a", "0 12 * * *");
    s.zone = STR("Test/Moving");
    struct cron_view v = put(r, &s, 1);
    assert_at(v.entries[0].clock.next_at, START, 12 * HOUR);
    r->offset = 3600;
    crash(r);
    assert_at(read_entry(r, "a").clock.next_at, START, 11 * HOUR);
    turn_after(r, 11 * HOUR);
    assert_jobs(r, 1);
}

static void an_entry_whose_zone_has_gone_stands_still_until_it_is_back(void **state)
{
    struct rig *r = *state;
    struct cron_spec s = spec("a", "0 12 * * *");
    s.zone = STR("Test/Moving");
    put(r, &s, 1);
    r->moving_known = false;
    assert_int_equal(crash(r), 1);
    turn_after(r, 13 * HOUR);
    assert_jobs(r, 0);
    struct cron_view v;
    assert_code(try_put(r, &s, 1, true, &v), ERR_BAD_ZONE);
    r->moving_known = true;
    /* The missed tick is made up, as after any downtime. */
    assert_int_equal(crash(r), 0);
    turn(r);
    assert_jobs(r, 1);
}

static void held_ticks_wait_and_become_one(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "* * * * *");
    engine_cron_hold(r->e, true);
    turn_after(r, MINUTE);
    turn_after(r, 3 * MINUTE);
    assert_jobs(r, 0);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_at(due, r->now, 1000);
    engine_cron_hold(r->e, false);
    turn_after(r, 1000);
    assert_jobs(r, 1);
    assert_at(read_entry(r, "a").clock.next_at, START, 5 * MINUTE);
}

/* Random turns, some of which are lost: never more nor fewer jobs than ticks that could be
 * fired, in the eyes of a model of two numbers. */
static void crashes_neither_lose_nor_double_ticks(void **state)
{
    struct rig *r = *state;
    struct rng rng = rng_from_seed(11);
    put_one(r, "a", "*/10 * * * * *");
    unsigned jobs = 0;
    int64_t next = START.ms + 10000;
    for (int i = 0; i < 3000; i++) {
        bool more;
        r->now.ms += (int64_t)rng_below(&rng, 12000);
        assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
        if (rng_below(&rng, 3) == 0) {
            crash(r);
        } else {
            commit(r);
            jobs += r->now.ms >= next;
            next = r->now.ms >= next ? r->now.ms / 10000 * 10000 + 10000 : next;
        }
        assert_jobs(r, jobs);
        assert_int_equal(read_entry(r, "a").clock.next_at.ms, next);
        if (r->disk.jobs > 60)
            jobs = r->disk.jobs = r->durable.jobs = 0;
    }
}

/* --- pausing --- */

static void paused_ticks_pass_without_a_job(void **state)
{
    struct rig *r = *state;
    struct cron_spec both[] = {spec("a", "0 * * * *"), spec("b", "0 * * * *")};
    put(r, both, 2);
    flip(r, "a", CRON_PAUSE);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "b");
    assert_at(read_entry(r, "a").clock.next_at, START, 2 * HOUR);
    assert_false(instant_is_set(read_entry(r, "a").clock.last_at));
    flip(r, NULL, CRON_PAUSE);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
    /* Each counts for itself. */
    flip(r, "a", CRON_RESUME);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
    flip(r, NULL, CRON_RESUME);
    turn(r);
    assert_jobs(r, 1);
    turn_after(r, HOUR);
    assert_jobs(r, 3);
}

static void a_pause_outlives_a_restart_and_makes_nothing_up(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 * * * *");
    flip(r, NULL, CRON_PAUSE);
    r->now.ms += 3 * HOUR + 1;
    crash(r);
    turn(r);
    flip(r, NULL, CRON_RESUME);
    crash(r);
    turn(r);
    assert_jobs(r, 0);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
}

static void a_pause_is_dated_once_and_a_resume_too(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 0 1 1 *");
    flip(r, "a", CRON_RESUME);
    assert_false(instant_is_set(read_entry(r, "a").clock.pause.resumed_at));
    r->now.ms += 10;
    flip(r, "a", CRON_PAUSE);
    r->now.ms += 10;
    flip(r, "a", CRON_PAUSE);
    r->now.ms += 10;
    flip(r, "a", CRON_AS_IS);
    struct cron_pause p = read_entry(r, "a").clock.pause;
    assert_true(p.paused);
    assert_at(p.paused_at, START, 10);
    assert_false(instant_is_set(p.resumed_at));
    flip(r, "a", CRON_RESUME);
    r->now.ms += 10;
    flip(r, "a", CRON_RESUME);
    p = read_entry(r, "a").clock.pause;
    assert_false(p.paused);
    assert_at(p.paused_at, START, 10);
    assert_at(p.resumed_at, START, 30);
    flip(r, "a", CRON_PAUSE);
    assert_at(read_entry(r, "a").clock.pause.paused_at, START, 40);
}

/* --- put --- */

static void the_same_put_again_writes_nothing(void **state)
{
    struct rig *r = *state;
    struct cron_spec both[] = {spec("a", "0 * * * *"), spec("b", "30 * * * *")};
    put(r, both, 2);
    turn_after(r, HOUR + 1);
    flip(r, "b", CRON_PAUSE);
    struct cron_entry a = read_entry(r, "a"), b = read_entry(r, "b");
    unsigned writes = r->writes;
    struct cron_view v = put(r, both, 2);
    assert_int_equal(r->writes, writes);
    assert_true(id_eq(v.entries[0].id, a.id) && id_eq(v.entries[1].id, b.id));
    assert_int_equal(v.entries[0].clock.last_at.ms, a.clock.last_at.ms);
    assert_true(v.entries[1].clock.pause.paused);
    crash(r);
    v = put(r, both, 2);
    assert_int_equal(r->writes, writes);
    assert_int_equal(v.entries[0].clock.last_at.ms, a.clock.last_at.ms);
}

static void a_put_pauses_and_resumes_what_it_keeps(void **state)
{
    struct rig *r = *state;
    struct cron_spec s = spec("a", "0 * * * *");
    s.paused = CRON_PAUSE;
    struct cron_view v = put(r, &s, 1);
    assert_true(v.entries[0].clock.pause.paused);
    turn_after(r, HOUR);
    assert_jobs(r, 0);
    s.paused = CRON_RESUME;
    v = put(r, &s, 1);
    assert_false(v.entries[0].clock.pause.paused);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
    struct cron_put whole = {
        .group = STR("g"), .paused = CRON_PAUSE, .entries = &s, .count = 1, .whole = true};
    assert_ok(engine_cron_put(r->e, r->now, &whole, &r->arena, &v));
    assert_true(v.group.pause.paused);
    whole.paused = CRON_AS_IS;
    assert_ok(engine_cron_put(r->e, r->now, &whole, &r->arena, &v));
    assert_true(v.group.pause.paused);
    assert_int_equal(v.entries[0].clock.last_at.ms, r->now.ms);
}

static void change_expression(struct cron_spec *s)
{
    s->expression = STR("30 * * * *");
}
static void change_zone(struct cron_spec *s)
{
    s->zone = STR("UTC");
}
static void change_queue(struct cron_spec *s)
{
    s->job.queue = STR("other");
}
static void change_type(struct cron_spec *s)
{
    s->job.type = STR("other");
}
static void change_payload(struct cron_spec *s)
{
    s->job.payload = STR("{ }");
}
static void change_priority(struct cron_spec *s)
{
    s->job.priority = 1;
}
static void change_retry_limit(struct cron_spec *s)
{
    s->job.retry_limit = 0;
}
static void change_backoff(struct cron_spec *s)
{
    s->job.backoff = (struct curve){CURVE_POWER, {1}, 2, {3}};
}
static void change_jitter(struct cron_spec *s)
{
    s->job.backoff = (struct curve){CURVE_POWER, {1}, 2, {4}};
}
static void change_retention(struct cron_spec *s)
{
    s->job.dead_retention = (span){1};
}
static void change_unique(struct cron_spec *s)
{
    s->job.unique_while = UNIQUE_ACTIVE;
    s->job.unique_key = STR("k");
}

static void an_entry_that_changed_begins_anew(void **state)
{
    struct rig *r = *state;
    static void (*const changes[])(struct cron_spec * s) = {
        change_expression, change_zone,      change_queue,       change_type,
        change_payload,    change_priority,  change_retry_limit, change_backoff,
        change_jitter,     change_retention, change_unique};
    struct cron_spec s = spec("a", "0 * * * *");
    put(r, &s, 1);
    struct id id = read_entry(r, "a").id;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        s = spec("a", "0 * * * *");
        put(r, &s, 1);
        turn_after(r, HOUR);
        flip(r, "a", CRON_PAUSE);
        assert_true(instant_is_set(read_entry(r, "a").clock.last_at));
        changes[i](&s);
        struct cron_entry e = put(r, &s, 1).entries[0];
        assert_true(id_eq(e.id, id));
        assert_false(instant_is_set(e.clock.last_at));
        assert_false(e.clock.pause.paused);
        assert_true(e.clock.next_at.ms > r->now.ms);
    }
}

static void entries_that_are_not_named_are_removed_and_the_order_is_that_of_the_put(void **state)
{
    struct rig *r = *state;
    struct cron_spec first[] = {spec("a", "0 * * * *"), spec("b", "0 * * * *"),
                                spec("c", "0 * * * *")};
    put(r, first, 3);
    struct cron_spec second[] = {spec("d", "0 * * * *"), spec("c", "0 * * * *"),
                                 spec("a", "0 * * * *")};
    put(r, second, 3);
    crash(r);
    struct cron_view v;
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(str_eq(v.entries[i].name, second[i].name));
    turn_after(r, HOUR);
    assert_jobs(r, 3);
    put(r, NULL, 0);
    turn_after(r, HOUR);
    assert_jobs(r, 3);
    instant due;
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 1);
    /* What is left among the deadlines belongs to no entry. */
    assert_false(engine_next_due(r->e, &due));
}

static void one_entry_is_put_without_touching_the_others(void **state)
{
    struct rig *r = *state;
    struct cron_spec a = spec("a", "0 * * * *"), b = spec("b", "0 * * * *"),
                     c = spec("c", "0 * * * *");
    struct cron_view v;
    assert_ok(try_put(r, &b, 1, false, &v)); /* makes the group */
    assert_ok(try_put(r, &a, 1, false, &v));
    assert_ok(try_put(r, &c, 1, false, &v));
    assert_int_equal(v.count, 1);
    commit(r);
    turn_after(r, HOUR);
    b.job.payload = STR("2");
    assert_ok(try_put(r, &b, 1, false, &v));
    assert_true(str_eq(v.entries[0].job.payload, STR("2")));
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 3);
    assert_true(str_eq(v.entries[0].name, STR("b")) && str_eq(v.entries[1].name, STR("a")) &&
                str_eq(v.entries[2].name, STR("c")));
    assert_false(instant_is_set(v.entries[0].clock.last_at));
    assert_true(instant_is_set(v.entries[1].clock.last_at));
}

static void a_put_with_one_bad_entry_changes_nothing(void **state)
{
    struct rig *r = *state;
    put_one(r, "a", "0 * * * *");
    unsigned writes = r->writes;
    struct cron_view v;
    struct cron_spec specs[] = {spec("x", "0 * * * *"), spec("a", "1 * * * *")};
    specs[1].zone = STR("Test/None");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_ZONE);
    specs[1] = spec("y", "0 0 30 2 *");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_CRON);
    specs[1] = spec("y", "nonsense");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_CRON);
    specs[1] = spec("x", "1 * * * *");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_VALUE);
    specs[1] = spec("", "1 * * * *");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_NAME);
    specs[1] = spec("a\nb", "1 * * * *");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_NAME);
    specs[1] = spec("\xff", "1 * * * *");
    assert_code(try_put(r, specs, 2, true, &v), ERR_BAD_UTF8);
    assert_int_equal(r->writes, writes);
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 1);
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 1);
}

static void what_comes_every_28_years_is_refused_and_every_8_is_not(void **state)
{
    struct rig *r = *state;
    struct cron_view v;
    struct cron_spec s = spec("a", "0 0 29 2 */7"); /* a 29 February that is a Sunday: 2032 */
    assert_ok(try_put(r, &s, 1, true, &v));
    r->now.ms += INT64_C(7) * 366 * 24 * HOUR; /* January 2033: the next is 2060 */
    s.name = STR("b");
    assert_code(try_put(r, &s, 1, true, &v), ERR_BAD_CRON);
    s = spec("c", "0 0 29 2 *");
    assert_ok(try_put(r, &s, 1, true, &v));
}

static void too_many_entries_are_refused(void **state)
{
    struct rig *r = *state;
    size_t count = CRON_GROUP_ENTRIES_MAX + 1;
    struct cron_spec *specs = alloc_zero(count * sizeof *specs);
    struct cron_view v;
    for (size_t i = 0; i < count; i++)
        specs[i] = spec("a", "0 * * * *");
    assert_code(try_put(r, specs, count, true, &v), ERR_TOO_MANY);
    free(specs);
}

/* --- removing --- */

static void what_is_removed_does_not_tick(void **state)
{
    struct rig *r = *state;
    struct cron_spec both[] = {spec("a", "0 * * * *"), spec("b", "0 * * * *")};
    size_t removed;
    instant due;
    put(r, both, 2);
    assert_ok(engine_cron_remove(r->e, STR("g"), STR("a"), &removed));
    assert_code(engine_cron_remove(r->e, STR("g"), STR("a"), &removed), ERR_NOT_FOUND);
    turn_after(r, HOUR);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "b");
    assert_ok(engine_cron_remove(r->e, STR("g"), (struct str){0}, &removed));
    engine_check(r->e);
    assert_false(engine_next_due(r->e, &due));
    assert_code(engine_cron_remove(r->e, STR("g"), (struct str){0}, &removed), ERR_NOT_FOUND);
    commit(r);
    crash(r);
    struct cron_view v;
    assert_code(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v), ERR_NOT_FOUND);
}

static void all_groups_are_listed_in_order_and_removed_together(void **state)
{
    struct rig *r = *state;
    static const char *const groups[] = {"beta", "alpha", "alphabet"};
    struct cron_view v;
    for (size_t i = 0; i < 3; i++) {
        struct cron_spec s = spec("a", "0 * * * *");
        struct cron_put p = {
            .group = str_from(groups[i]), .entries = &s, .count = 1, .whole = true};
        assert_ok(engine_cron_put(r->e, r->now, &p, &r->arena, &v));
    }
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 3);
    assert_true(str_eq(names[0], STR("alpha")) && str_eq(names[1], STR("alphabet")) &&
                str_eq(names[2], STR("beta")));
    size_t removed;
    assert_ok(engine_cron_remove(r->e, (struct str){0}, (struct str){0}, &removed));
    assert_int_equal(removed, 3);
    engine_check(r->e);
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 0);
    assert_ok(engine_cron_remove(r->e, (struct str){0}, (struct str){0}, &removed));
    assert_int_equal(removed, 0);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct rig *r = *state;
    struct cron_view v;
    put_one(r, "a", "0 * * * *");
    assert_code(engine_cron_read(r->e, STR("h"), STR("a"), &r->arena, &v), ERR_NOT_FOUND);
    assert_code(engine_cron_read(r->e, STR("g"), STR("b"), &r->arena, &v), ERR_NOT_FOUND);
    assert_code(engine_cron_switch(r->e, r->now, STR("h"), STR(""), CRON_PAUSE, &r->arena, &v),
                ERR_NOT_FOUND);
    assert_code(engine_cron_switch(r->e, r->now, STR("g"), STR("b"), CRON_PAUSE, &r->arena, &v),
                ERR_NOT_FOUND);
}

static void stored_nonsense_is_corrupt(void **state)
{
    struct rig *r = *state;
    bool ticks;
    struct cron_entry e = {.id = {1, 1}, .group = {9, 9}, .name = STR("a"), .expression = STR("*")};
    assert_code(engine_restore_cron_entry(r->e, &e, &ticks), ERR_CORRUPT);
    engine_restore_cron_group(r->e, &(struct cron_group){.id = {9, 9}, .name = STR("g")});
    assert_code(engine_restore_cron_entry(r->e, &e, &ticks), ERR_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tick_enqueues_a_job_and_says_when_the_next_is),
        TEST(a_put_right_on_a_tick_waits_for_the_one_after),
        TEST(a_late_turn_fires_once),
        TEST(a_crash_before_the_commit_loses_no_tick),
        TEST(a_crash_after_the_commit_fires_nothing_again),
        TEST(ticks_missed_while_down_become_one),
        TEST(ticks_missed_while_down_are_passed_over_if_so_set),
        TEST(a_clock_that_went_back_over_a_restart_repeats_nothing),
        TEST(a_zone_with_new_rules_is_heeded_after_a_restart),
        TEST(an_entry_whose_zone_has_gone_stands_still_until_it_is_back),
        TEST(held_ticks_wait_and_become_one),
        TEST(crashes_neither_lose_nor_double_ticks),
        TEST(paused_ticks_pass_without_a_job),
        TEST(a_pause_outlives_a_restart_and_makes_nothing_up),
        TEST(a_pause_is_dated_once_and_a_resume_too),
        TEST(the_same_put_again_writes_nothing),
        TEST(a_put_pauses_and_resumes_what_it_keeps),
        TEST(an_entry_that_changed_begins_anew),
        TEST(entries_that_are_not_named_are_removed_and_the_order_is_that_of_the_put),
        TEST(one_entry_is_put_without_touching_the_others),
        TEST(a_put_with_one_bad_entry_changes_nothing),
        TEST(what_comes_every_28_years_is_refused_and_every_8_is_not),
        TEST(too_many_entries_are_refused),
        TEST(what_is_removed_does_not_tick),
        TEST(all_groups_are_listed_in_order_and_removed_together),
        TEST(what_is_not_there_is_not_found),
        TEST(stored_nonsense_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
