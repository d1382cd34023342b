/* SPDX-License-Identifier: Apache-2.0 */
#include "cron_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* --- the port --- */

#define FIND(list, wanted, field)                                                                  \
    __extension__({                                                                                \
        size_t i_ = 0;                                                                             \
        while (i_ < CRON_RIG_MAX && !id_eq((list)[i_] field, wanted))                              \
            i_++;                                                                                  \
        assert_true(i_ < CRON_RIG_MAX);                                                            \
        i_;                                                                                        \
    })

static bool put_job(void *ctx, const struct job *job)
{
    struct cron_rig *r = ctx;
    r->writes++;
    assert_true(job->state.status == STATUS_READY && job->state.ready_at.ms == r->now.ms);
    assert_true(r->disk.jobs < 64);
    snprintf(r->disk.types[r->disk.jobs++], 16, "%.*s", STR_ARG(job->type));
    return false;
}

static struct err load_entry(void *ctx, struct id id, struct arena *a, struct cron_entry *out)
{
    struct cron_rig *r = ctx;
    (void)a;
    *out = r->disk.entries[FIND(r->disk.entries, id, .id)];
    return err_none();
}

/* The slot of that id, or a free one. */
#define SLOT(list, wanted, field)                                                                  \
    __extension__({                                                                                \
        size_t i_ = 0, free_ = CRON_RIG_MAX;                                                       \
        for (; i_ < CRON_RIG_MAX && !id_eq((list)[i_] field, wanted); i_++)                        \
            if (free_ == CRON_RIG_MAX && id_is_none((list)[i_] field))                             \
                free_ = i_;                                                                        \
        i_ = i_ < CRON_RIG_MAX ? i_ : free_;                                                       \
        assert_true(i_ < CRON_RIG_MAX);                                                            \
        i_;                                                                                        \
    })

static void put_group(void *ctx, const struct cron_group *group)
{
    struct cron_rig *r = ctx;
    size_t at = SLOT(r->disk.groups, group->id, .id);
    r->writes++;
    r->disk.groups[at] = *group;
    r->disk.groups[at].name = arena_copy(&r->arena, group->name);
}

static void put_entry(void *ctx, const struct cron_entry *entry)
{
    struct cron_rig *r = ctx;
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
    struct cron_rig *r = ctx;
    size_t at = SLOT(r->disk.clock_ids, id, );
    r->writes++;
    r->disk.clock_ids[at] = id;
    r->disk.clocks[at] = *clock;
}

static void delete_group(void *ctx, struct id id)
{
    struct cron_rig *r = ctx;
    r->writes++;
    r->disk.groups[FIND(r->disk.groups, id, .id)] = (struct cron_group){0};
}

static void delete_entry(void *ctx, struct id id)
{
    struct cron_rig *r = ctx;
    r->writes++;
    r->disk.entries[FIND(r->disk.entries, id, .id)] = (struct cron_entry){0};
    r->disk.clock_ids[FIND(r->disk.clock_ids, id, )] = (struct id){0};
}

static struct cron_period moving(void *ctx, int64_t utc)
{
    (void)utc;
    return (struct cron_period){-CRON_EVER, CRON_EVER, ((struct cron_rig *)ctx)->offset};
}

static const struct cron_zone *zone(void *ctx, struct str name)
{
    static struct cron_zone moving_zone = {NULL, moving};
    struct cron_rig *r = ctx;
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

static void start_engine(struct cron_rig *r)
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

int cron_rig_setup(void **state)
{
    struct cron_rig *r = ALLOC(struct cron_rig);
    r->now = CRON_RIG_START;
    r->seed = 1;
    r->moving_known = true;
    r->settings.retry = retry_defaults();
    start_engine(r);
    *state = r;
    return 0;
}

int cron_rig_teardown(void **state)
{
    struct cron_rig *r = *state;
    engine_free(r->e);
    arena_fini(&r->arena);
    free(r);
    return 0;
}

/* --- steps --- */

void cron_rig_commit(struct cron_rig *r)
{
    r->durable = r->disk;
}

void cron_rig_turn(struct cron_rig *r)
{
    bool more;
    assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
    engine_check(r->e);
    cron_rig_commit(r);
}

void cron_rig_turn_after(struct cron_rig *r, int64_t ms)
{
    r->now.ms += ms;
    cron_rig_turn(r);
}

static size_t recover(struct cron_rig *r)
{
    size_t standing = 0;
    for (size_t i = 0; i < CRON_RIG_MAX; i++)
        if (!id_is_none(r->disk.groups[i].id))
            engine_restore_cron_group(r->e, &r->disk.groups[i]);
    for (size_t i = 0; i < CRON_RIG_MAX; i++) {
        struct cron_entry entry = r->disk.entries[i];
        bool ticks;
        if (id_is_none(entry.id))
            continue;
        entry.clock = r->disk.clocks[FIND(r->disk.clock_ids, entry.id, )];
        assert_ok(engine_restore_cron_entry(r->e, r->now, &entry, &ticks));
        standing += !ticks;
    }
    bool more;
    assert_ok(engine_restored(r->e, r->now, SIZE_MAX, &more));
    engine_check(r->e);
    return standing;
}

size_t cron_rig_crash(struct cron_rig *r)
{
    r->disk = r->durable;
    engine_free(r->e);
    start_engine(r);
    return recover(r);
}

struct cron_spec cron_rig_spec(const char *name, const char *expression)
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

struct err cron_rig_try_put(struct cron_rig *r, const struct cron_spec *specs, size_t count,
                            bool whole, struct cron_view *view)
{
    struct cron_put put = {.group = STR("g"), .entries = specs, .count = count, .whole = whole};
    struct err err = engine_cron_put(r->e, r->now, &put, &r->arena, view);
    engine_check(r->e);
    return err;
}

struct cron_view cron_rig_put(struct cron_rig *r, const struct cron_spec *specs, size_t count)
{
    struct cron_view view;
    assert_ok(cron_rig_try_put(r, specs, count, true, &view));
    assert_int_equal(view.count, count);
    cron_rig_commit(r);
    return view;
}

struct cron_view cron_rig_put_one(struct cron_rig *r, const char *name, const char *expression)
{
    struct cron_spec s = cron_rig_spec(name, expression);
    return cron_rig_put(r, &s, 1);
}

struct cron_entry cron_rig_read_entry(struct cron_rig *r, const char *name)
{
    struct cron_view view;
    assert_ok(engine_cron_read(r->e, STR("g"), str_from(name), &r->arena, &view));
    assert_int_equal(view.count, 1);
    return view.entries[0];
}

void cron_rig_flip(struct cron_rig *r, const char *entry, enum cron_switch to)
{
    struct cron_view view;
    struct str name = entry ? str_from(entry) : (struct str){0};
    assert_ok(engine_cron_switch(r->e, r->now, STR("g"), name, to, &r->arena, &view));
    cron_rig_commit(r);
}
