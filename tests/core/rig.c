/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_fields.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/engine_budget.h"

#define START ((instant){1700000000000})

/* --- the sink --- */

static void note(struct rig *r, void *taker, const struct handout *h)
{
    assert_true(r->got_count < sizeof r->got / sizeof *r->got);
    assert_int_equal(h->job.state.status, STATUS_IN_FLIGHT);
    assert_true(h->token != 0);
    struct rig_handout *g = &r->got[r->got_count++];
    *g = (struct rig_handout){.taker = taker,
                              .id = h->job.id,
                              .run = h->run,
                              .token = h->token,
                              .lease_end = h->lease_end};
    assert_true(h->job.payload.len < sizeof g->payload);
    memcpy(g->payload, h->job.payload.at, h->job.payload.len);
    assert_true(h->checkpoint.text.len < sizeof g->checkpoint);
    if (h->checkpoint.text.len)
        memcpy(g->checkpoint, h->checkpoint.text.at, h->checkpoint.text.len);
    g->checkpoint_run = h->checkpoint.run;
}

static void deliver(void *ctx, void *taker, const struct handout *h)
{
    note(ctx, taker, h);
}

static void claimed(void *ctx, void *taker, struct handout *h, size_t count)
{
    struct rig *r = ctx;
    assert_true(r->claim_count < sizeof r->claims / sizeof *r->claims);
    r->claims[r->claim_count] = taker;
    r->claim_sizes[r->claim_count++] = count;
    for (size_t i = 0; i < count; i++)
        note(r, taker, &h[i]);
}

/* --- life --- */

static void start_engine(struct rig *r)
{
    const struct port port = rig_port(r);
    struct engine_sink sink = {.ctx = r, .deliver = deliver, .claimed = claimed};
    r->e = engine_new(&r->settings, &port, &sink, rng_from_seed(r->seed++));
    engine_restore_events(r->e, r->event_count + 1, r->mark);
}

int rig_setup(void **state)
{
    struct rig *r = ALLOC(struct rig);
    r->now = START;
    r->seed = 1;
    r->mark.at = INSTANT_NONE;
    r->settings.retry = retry_defaults();
    r->settings.completed_retention = (span){0};
    r->settings.dead_retention = (span){7 * 24 * 3600 * 1000LL};
    start_engine(r);
    *state = r;
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *r = *state;
    rig_snapshot_fini(r);
    engine_free(r->e);
    for (size_t i = 0; i < r->records.cap; i++)
        free(r->records.slots[i].val);
    for (size_t i = 0; i < r->replayed.cap; i++)
        free(r->replayed.slots[i].val);
    idmap_fini(&r->records);
    idmap_fini(&r->replayed);
    free(r->events);
    arena_fini(&r->strings);
    arena_fini(&r->turn);
    free(r);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct rig_record *x = *(struct rig_record *const *)a;
    const struct rig_record *y = *(struct rig_record *const *)b;
    return id_cmp(x->job.id, y->job.id);
}

static void restore_job(struct rig *r, const struct rig_record *record)
{
    struct job job = record->job;
    job.payload = (struct str){0};
    if (record->has_state)
        job.state = record->state;
    struct job_extent extent = {.has_state = record->has_state, .runs_ended = job.state.runs};
    engine_restore_job(r->e, &job, &extent, r->now);
}

static void restore_all_jobs(struct rig *r)
{
    struct rig_record **all = alloc_zero((r->records.count + 1) * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < r->records.cap; i++)
        if (r->records.slots[i].val)
            all[n++] = r->records.slots[i].val;
    qsort(all, n, sizeof *all, by_id);
    for (size_t i = 0; i < n; i++)
        restore_job(r, all[i]);
    free(all);
}

static void restore_record(struct rig *r, const struct rig_takes *t, bool leases)
{
    for (size_t i = 0; t->is_leases == leases && i < t->count; i++)
        if (leases)
            engine_restore_lease(r->e, t->seq, &t->leases[i]);
        else
            engine_restore_take(r->e, t->seq, t->at, t->takes[i]);
}

static void restore_from_snapshot(struct rig *r)
{
    struct snapshot_ids rest = rig_snapshot_load(r);
    for (size_t i = 0; i < rest.count; i++) {
        const struct rig_record *record = idmap_get(&r->records, rest.ids[i]);
        if (record)
            restore_job(r, record);
    }
    free(rest.ids);
}

/* Of streams, or of leases. */
static void restore_takes(struct rig *r, bool leases)
{
    for (uint64_t after = 0;;) {
        const struct rig_takes *next = NULL;
        for (size_t i = 0; i < RIG_TAKES_MAX; i++)
            if (r->takes[i].seq > after && (!next || r->takes[i].seq < next->seq))
                next = &r->takes[i];
        if (!next)
            return;
        restore_record(r, next, leases);
        after = next->seq;
    }
}

/* All that writes nothing. */
static void restore(struct rig *r, bool snapshot)
{
    start_engine(r);
    for (size_t i = 0; i < sizeof r->budgets / sizeof *r->budgets; i++)
        if (r->budgets[i].key.len)
            engine_restore_budget(r->e, &r->budgets[i], r->now);
    for (size_t i = 0; i < sizeof r->queues / sizeof *r->queues; i++)
        if (r->queues[i].name.len)
            engine_restore_queue(r->e, r->queues[i].name, &r->queues[i].record, r->now);
    for (size_t i = 0; i < sizeof r->groups / sizeof *r->groups; i++)
        if (r->groups[i].name.len)
            engine_restore_group(r->e, &r->groups[i]);
    restore_takes(r, true);
    if (snapshot)
        restore_from_snapshot(r);
    else
        restore_all_jobs(r);
    restore_takes(r, false);
    for (size_t i = 0; i < sizeof r->ended / sizeof *r->ended; i++)
        if (!id_is_none(r->ended[i].id))
            engine_restore_ended(r->e, r->ended[i].seq, r->ended[i].id, r->ended[i].end);
}

static void assert_lines(const struct buf *got, const struct buf *want)
{
    struct str a = buf_view(got), b = buf_view(want);
    if (str_eq(a, b))
        return;
    while (a.len || b.len) {
        const char *ea = a.len ? memchr(a.at, '\n', a.len) : NULL;
        const char *eb = b.len ? memchr(b.at, '\n', b.len) : NULL;
        struct str la = {a.at, ea ? (size_t)(ea - a.at) + 1 : 0};
        struct str lb = {b.at, eb ? (size_t)(eb - b.at) + 1 : 0};
        int order = !la.len ? 1 : !lb.len ? -1 : str_cmp(la, lb);
        if (order < 0)
            print_message("got  %.*s", STR_ARG(la));
        if (order > 0)
            print_message("want %.*s", STR_ARG(lb));
        if (order <= 0)
            a = (struct str){a.at + la.len, a.len - la.len};
        if (order >= 0)
            b = (struct str){b.at + lb.len, b.len - lb.len};
    }
    fail_msg("restored from a snapshot it differs");
}

/* Restores once more, from the snapshot: the result is the same. */
static void restore_again(struct rig *r)
{
    struct buf want = {0}, got = {0};
    engine_dump(r->e, &want);
    engine_free(r->e);
    r->seed--;
    restore(r, true);
    engine_dump(r->e, &got);
    assert_lines(&got, &want);
    buf_fini(&want);
    buf_fini(&got);
    r->restored_from_snapshot++;
}

void rig_restart(struct rig *r)
{
    engine_flush(r->e, r->now);
    bool more, snapshot = rig_snapshot_complete(r);
    engine_free(r->e);
    restore(r, false);
    if (snapshot)
        restore_again(r);
    rig_snapshot_fini(r);
    assert_ok(engine_restored(r->e, r->now, SIZE_MAX, &more));
    engine_check(r->e);
}

/* --- jobs --- */

struct enqueue rig_spec(const char *queue)
{
    return (struct enqueue){.queue = str_from(queue),
                            .type = STR("t"),
                            .payload = STR("{\"n\":1}"),
                            .priority = JOB_PRIORITY_DEFAULT,
                            .ready_at = INSTANT_NONE,
                            .retry_limit = RETRY_LIMIT_DEFAULT,
                            .completed_retention = RETENTION_DEFAULT,
                            .dead_retention = RETENTION_DEFAULT};
}

struct id rig_add_spec(struct rig *r, const struct enqueue *spec)
{
    struct enqueued out;
    assert_ok(engine_enqueue(r->e, r->now, spec, 1, &r->strings, &out));
    return out.job.id;
}

struct id rig_add(struct rig *r, const char *queue)
{
    struct enqueue spec = rig_spec(queue);
    return rig_add_spec(r, &spec);
}

struct id rig_add_priority(struct rig *r, const char *queue, uint16_t priority)
{
    struct enqueue spec = rig_spec(queue);
    spec.priority = priority;
    return rig_add_spec(r, &spec);
}

struct id rig_add_later(struct rig *r, const char *queue, span delay)
{
    struct enqueue spec = rig_spec(queue);
    spec.ready_at = instant_add(r->now, delay);
    return rig_add_spec(r, &spec);
}

void rig_set_queue(struct rig *r, const char *queue, struct queue_settings settings)
{
    assert_ok(engine_queue_put(r->e, r->now, str_from(queue), &settings));
}

/* --- takers --- */

static struct taker *open_taker(struct rig *r, const char *name, const char *queue,
                                struct taker_spec *spec)
{
    struct str names[] = {str_from(queue)};
    spec->queues = names;
    spec->queue_count = queue ? 1 : 0;
    spec->worker = str_from(name);
    return engine_taker_open(r->e, spec, (void *)(uintptr_t)name);
}

struct taker *rig_stream(struct rig *r, const char *name, const char *queue, uint32_t prefetch)
{
    struct taker_spec spec = {.limit = prefetch};
    return open_taker(r, name, queue, &spec);
}

struct taker *rig_stream_on(struct rig *r, const char *node, const char *queue, uint32_t prefetch)
{
    struct taker_spec spec = {.limit = prefetch, .node = str_from(node)};
    return open_taker(r, node, queue, &spec);
}

struct taker *rig_claim(struct rig *r, const char *name, const char *queue, uint32_t count,
                        span wait)
{
    struct taker_spec spec = {
        .limit = count, .claim = true, .lease = RIG_LEASE, .wait_end = instant_add(r->now, wait)};
    return open_taker(r, name, queue, &spec);
}

struct taker *rig_claim_keyed(struct rig *r, const char *name, const char *queue, uint32_t count,
                              uint64_t key)
{
    struct taker_spec spec = {
        .limit = count, .claim = true, .lease = RIG_LEASE, .key = key, .wait_end = r->now};
    return open_taker(r, name, queue, &spec);
}

/* --- turns --- */

void rig_turn(struct rig *r)
{
    bool more;
    assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
    assert_false(more);
    assert_ok(engine_settle(r->e, r->now, r->settle_most ? r->settle_most : SIZE_MAX, &more));
    assert_int_equal(more, rig_ended_count(r) > 0);
    arena_reset(&r->turn);
    assert_ok(engine_dispatch(r->e, r->now, &r->turn));
    r->mark = engine_event_mark(r->e);
    engine_check(r->e);
    rig_check_replay(r);
    rig_snapshot_turn(r);
}

void rig_turn_after(struct rig *r, int64_t ms)
{
    r->now.ms += ms;
    rig_turn(r);
}

void rig_clear(struct rig *r)
{
    r->got_count = r->claim_count = 0;
}

void rig_assert_ids(const struct rig *r, const struct id *ids, size_t count, const char *file,
                    int line)
{
    bool same = r->got_count == count;
    for (size_t i = 0; same && i < count; i++)
        same = id_eq(r->got[i].id, ids[i]);
    if (same)
        return;
    print_message("%zu jobs were handed out, %zu expected:\n", r->got_count, count);
    for (size_t i = 0; i < r->got_count || i < count; i++) {
        char got[ID_TEXT_LEN + 1] = "-", want[ID_TEXT_LEN + 1] = "-";
        if (i < r->got_count)
            id_format(r->got[i].id, got);
        if (i < count)
            id_format(ids[i], want);
        print_message("  %.25s  %.25s\n", got, want);
    }
    _fail(file, line);
}

/* --- inspection --- */

const struct job *rig_read(struct rig *r, struct id id)
{
    struct job *job = ARENA_NEW(&r->strings, struct job);
    struct job_extent extent;
    struct err err = engine_read(r->e, r->now, id, true, &r->strings, job, &extent);
    if (err.code == ERR_NOT_FOUND)
        return NULL;
    assert_ok(err);
    return job;
}

enum status rig_status(struct rig *r, struct id id)
{
    const struct job *job = rig_read(r, id);
    return job ? job->state.status : STATUS_GONE;
}

const struct rig_record *rig_record(const struct rig *r, struct id id)
{
    return idmap_get(&r->records, id);
}

const struct run *rig_run(const struct rig *r, struct id id, uint32_t index)
{
    const struct rig_record *record = rig_record(r, id);
    assert_non_null(record);
    assert_true(index < RIG_RUNS_MAX && record->has_run[index]);
    return &record->runs[index];
}

size_t rig_takes_count(const struct rig *r)
{
    size_t n = 0;
    for (size_t i = 0; i < RIG_TAKES_MAX; i++)
        n += r->takes[i].seq != 0;
    return n;
}

size_t rig_live(struct rig *r, struct id **ids)
{
    struct id_place at = {0};
    size_t n = 0;
    *ids = arena_get(&r->strings, (rig_count(r, "", STATUS_IN_FLIGHT) + 1) * sizeof **ids);
    while (engine_next_of(r->e, STATUS_IN_FLIGHT, at, false, &at.id)) {
        at.set = true;
        (*ids)[n++] = at.id;
    }
    return n;
}

uint64_t rig_count(const struct rig *r, const char *queue, enum status s)
{
    uint64_t counts[STATUS_COUNT];
    engine_count(r->e, str_from(queue), counts);
    return counts[s];
}

const struct job_event *rig_event(const struct rig *r)
{
    assert_true(r->event_count > 0);
    return &r->events[r->event_count - 1];
}

void rig_assert_event_list(const struct rig *r, struct id id, const enum event *list, size_t count,
                           const char *file, int line)
{
    size_t at = r->event_count, left = count;
    while (at-- > 0 && left > 0) {
        const struct job_event *ev = &r->events[at];
        if (!id_eq(ev->id, id))
            continue;
        if (ev->event != list[--left]) {
            print_message("event %zu is %s, not %s\n", at + 1, lifecycle_event_name(ev->event),
                          lifecycle_event_name(list[left]));
            _fail(file, line);
        }
    }
    _assert_int_equal(left, 0, file, line);
}

/* --- reports --- */

struct run_ref rig_ref(struct rig *r, struct id id)
{
    struct run_ref ref = {.id = id};
    struct run run;
    engine_live_run(r->e, id, &run, &ref.token);
    return ref;
}

void rig_release(struct rig *r, struct id id)
{
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
}

void rig_confirm(struct rig *r, struct id id)
{
    instant end;
    assert_ok(engine_renew(r->e, r->now, rig_ref(r, id), RIG_LEASE, &end));
}

void rig_succeed(struct rig *r, struct id id)
{
    assert_ok(engine_succeed(r->e, r->now, rig_ref(r, id)));
}

struct job rig_fail(struct rig *r, struct id id)
{
    const struct failure f = {.message = STR("it broke"), .run_time = {-1}};
    return rig_fail_with(r, id, &f);
}

struct job rig_fail_with(struct rig *r, struct id id, const struct failure *f)
{
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, id), .failure = *f, .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    return job;
}
