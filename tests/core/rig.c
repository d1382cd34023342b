/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_fields.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/engine_budget.h"

#define START ((instant){1700000000000})

/* --- the port --- */

static struct err load_job(void *ctx, struct id id, unsigned want, struct arena *a, struct job *out,
                           struct job_extent *extent)
{
    (void)a;
    struct rig *r = ctx;
    r->reads++;
    const struct rig_record *record = idmap_get(&r->records, id);
    if (!record)
        return err_make(ERR_NOT_FOUND, "not there");
    *out = record->job;
    *extent = (struct job_extent){0};
    if (!(want & PORT_PAYLOAD))
        out->payload = (struct str){0};
    if ((want & PORT_STATE) && record->has_state) {
        out->state = record->state;
        extent->has_state = true;
    }
    extent->runs_ended = out->state.runs;
    extent->notes = out->state.extras.notes;
    return err_none();
}

static void keep_job(struct rig *r, struct rig_record *record, const struct job *job)
{
    record->job = *job;
    record->job.queue = arena_copy(&r->strings, job->queue);
    record->job.type = arena_copy(&r->strings, job->type);
    record->job.payload = arena_copy(&r->strings, job->payload);
    record->job.options = job_options_copy(&r->strings, &job->options);
    record->job.unique_key = arena_copy(&r->strings, job->unique_key);
    record->job.state.extras = job_extras_copy(&r->strings, &job->state.extras);
}

static bool put_job(void *ctx, const struct job *job)
{
    struct rig *r = ctx;
    r->writes++;
    if (r->forgetful)
        return false;
    struct rig_record *record = ALLOC(struct rig_record);
    keep_job(r, record, job);
    assert_null(idmap_get(&r->records, job->id));
    idmap_put(&r->records, job->id, record);
    return false;
}

static void rewrite_job(void *ctx, const struct job *job)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, job->id);
    assert_non_null(record);
    assert_non_null(job->payload.at); /* otherwise it would be lost */
    keep_job(r, record, job);
}

static void put_state(void *ctx, struct id id, const struct job_state *state)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, id);
    assert_non_null(record);
    record->has_state = true;
    record->state = *state;
    record->state.reason = arena_copy(&r->strings, state->reason);
    record->state.worker = arena_copy(&r->strings, state->worker);
    record->state.extras = job_extras_copy(&r->strings, &state->extras);
}

static void put_run(void *ctx, struct id id, const struct run *run)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, id);
    assert_non_null(record);
    assert_true(run->index < RIG_RUNS_MAX);
    assert_false(record->has_run[run->index]); /* a run ends once */
    record->has_run[run->index] = true;
    struct run *copy = &record->runs[run->index];
    *copy = *run;
    copy->worker = arena_copy(&r->strings, run->worker);
    copy->reason = arena_copy(&r->strings, run->reason);
    copy->failure.node = arena_copy(&r->strings, run->failure.node);
    copy->failure.message = arena_copy(&r->strings, run->failure.message);
    copy->failure.error_type = arena_copy(&r->strings, run->failure.error_type);
    copy->failure.backtrace = arena_copy(&r->strings, run->failure.backtrace);
}

static void put_note(void *ctx, struct id id, enum note_kind kind, const struct note *note)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, id);
    assert_non_null(record);
    record->notes[kind] = *note;
    record->notes[kind].text = arena_copy(&r->strings, note->text);
    record->has_notes |= NOTE_BIT(kind);
}

static void delete_note(void *ctx, struct id id, enum note_kind kind)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, id);
    assert_non_null(record);
    assert_true(record->has_notes & NOTE_BIT(kind));
    record->has_notes &= ~NOTE_BIT(kind);
}

static struct err load_note(void *ctx, struct id id, enum note_kind kind, struct arena *a,
                            struct note *out)
{
    (void)a;
    struct rig *r = ctx;
    const struct rig_record *record = idmap_get(&r->records, id);
    assert_true(record && record->has_notes & NOTE_BIT(kind));
    *out = record->notes[kind];
    return err_none();
}

static struct rig_takes *find_takes(struct rig *r, uint64_t seq)
{
    for (size_t i = 0; i < RIG_TAKES_MAX; i++)
        if (r->takes[i].seq == seq)
            return &r->takes[i];
    return NULL;
}

static void put_takes(void *ctx, uint64_t seq, instant at, const struct take *takes, size_t count)
{
    struct rig *r = ctx;
    r->writes++;
    assert_true(seq != 0 && !find_takes(r, seq));
    struct rig_takes *t = find_takes(r, 0);
    assert_non_null(t);
    assert_in_range(count, 1, RIG_TAKES_MAX);
    t->seq = seq;
    t->at = at;
    t->count = count;
    memcpy(t->takes, takes, count * sizeof *takes);
}

static void delete_takes(void *ctx, uint64_t seq)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_takes *t = find_takes(r, seq);
    assert_non_null(t);
    t->seq = 0;
}

static void put_ended(void *ctx, uint64_t seq, struct id id, enum depend_end end)
{
    struct rig *r = ctx;
    size_t i = 0;
    while (!id_is_none(r->ended[i].id))
        assert_true(++i < sizeof r->ended / sizeof *r->ended);
    r->ended[i] = (struct rig_ended){seq, id, end};
}

static void delete_ended(void *ctx, uint64_t seq)
{
    struct rig *r = ctx;
    size_t i = 0;
    while (id_is_none(r->ended[i].id) || r->ended[i].seq != seq)
        assert_true(++i < sizeof r->ended / sizeof *r->ended);
    r->ended[i].id = (struct id){0};
}

size_t rig_ended_count(const struct rig *r)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof r->ended / sizeof *r->ended; i++)
        n += !id_is_none(r->ended[i].id);
    return n;
}

/* The extent must name everything that exists, or bytes would stay in the store for ever. */
static void delete_job(void *ctx, struct id id, const struct job_extent *extent)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_remove(&r->records, id);
    assert_non_null(record);
    assert_true(extent->has_state || !record->has_state);
    assert_int_equal(extent->notes, record->has_notes);
    for (uint32_t i = 0; i < RIG_RUNS_MAX; i++)
        assert_true(i < extent->runs_ended || !record->has_run[i]);
    free(record);
}

static void put_queue(void *ctx, struct str name, const struct queue_record *record)
{
    struct rig *r = ctx;
    struct rig_queue *q = r->queues, *free_one = NULL;
    r->writes++;
    for (; q < r->queues + sizeof r->queues / sizeof *r->queues; q++) {
        if (str_eq(q->name, name))
            break;
        if (!q->name.len)
            free_one = q;
    }
    if (q == r->queues + sizeof r->queues / sizeof *r->queues)
        q = free_one;
    assert_non_null(q);
    assert_true(record || q->name.len);
    *q = (struct rig_queue){0};
    if (record)
        *q = (struct rig_queue){arena_copy(&r->strings, name), *record};
}

static struct group_record *group_place(struct rig *r, struct str name)
{
    for (size_t i = 0; i < sizeof r->groups / sizeof *r->groups; i++)
        if (str_eq(r->groups[i].name, name))
            return &r->groups[i];
    return NULL;
}

static void put_group(void *ctx, const struct group_record *group)
{
    struct rig *r = ctx;
    struct group_record *g = group_place(r, group->name);
    r->writes++;
    if (!g)
        g = group_place(r, (struct str){0});
    assert_non_null(g);
    *g = *group;
    g->name = arena_copy(&r->strings, group->name);
    g->owner = arena_copy(&r->strings, group->owner);
}

static void delete_group(void *ctx, struct str name)
{
    struct rig *r = ctx;
    struct group_record *g = group_place(r, name);
    r->writes++;
    assert_non_null(g);
    *g = (struct group_record){0};
}

const struct group_record *rig_group(const struct rig *r, const char *name)
{
    return group_place((struct rig *)r, str_from(name));
}

static void put_budget(void *ctx, struct str key, const struct budget *budget)
{
    struct rig *r = ctx;
    struct budget *b = r->budgets, *end = b + sizeof r->budgets / sizeof *b, *free_one = NULL;
    r->writes++;
    for (; b < end && !str_eq(b->key, key); b++)
        free_one = b->key.len ? free_one : b;
    if (b == end)
        b = free_one;
    assert_non_null(b);
    assert_true(budget || b->key.len);
    *b = budget ? *budget : (struct budget){0};
    b->key = budget ? arena_copy(&r->strings, key) : (struct str){0};
}

/* Every event continues what the earlier ones say about the job. */
static void replay(struct rig *r, const struct job_event *ev)
{
    struct rig_replay *p = idmap_get(&r->replayed, ev->id);
    assert_int_equal(ev->from, p ? p->status : STATUS_GONE);
    if (ev->event == EVENT_GROUP_RESOLVED || ev->event == EVENT_GROUP_SEALED)
        return;
    if (!p) {
        p = ALLOC(struct rig_replay);
        p->id = ev->id;
        idmap_put(&r->replayed, ev->id, p);
    }
    p->status = ev->removed ? STATUS_GONE : ev->to;
    if (p->status == STATUS_GONE)
        free(idmap_remove(&r->replayed, ev->id));
}

static void put_event(void *ctx, const struct job_event *ev)
{
    struct rig *r = ctx;
    if (r->forgetful)
        return;
    assert_int_equal(ev->number, r->event_count + 1);
    assert_int_equal(ev->at.ms, r->now.ms);
    assert_true((ev->queue.len && ev->type.len) || ev->event == EVENT_GROUP_SEALED);
    replay(r, ev);
    ALLOC_GROW(r->events, r->event_count, r->event_cap, 64);
    struct job_event *copy = &r->events[r->event_count++];
    *copy = *ev;
    copy->queue = arena_copy(&r->strings, ev->queue);
    copy->type = arena_copy(&r->strings, ev->type);
    copy->worker = arena_copy(&r->strings, ev->worker);
    copy->reason = arena_copy(&r->strings, ev->reason);
    copy->group = arena_copy(&r->strings, ev->group);
    copy->ruling.policy = arena_copy(&r->strings, ev->ruling.policy);
    r->mark = engine_event_mark(r->e);
}

/* The statuses by the events are those of the engine, except for jobs that wait again because the
 * clock went back across a restart. */
static void check_replay(struct rig *r)
{
    unsigned reads = r->reads; /* its own reads do not count */
    for (size_t i = 0; i < r->replayed.cap; i++) {
        const struct rig_replay *p = r->replayed.slots[i].val;
        if (!p)
            continue;
        enum status now = rig_status(r, p->id);
        if (now != STATUS_SCHEDULED || p->status != STATUS_READY)
            assert_int_equal(now, p->status);
    }
    r->reads = reads;
}

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

static void claimed(void *ctx, void *taker, const struct handout *h, size_t count)
{
    struct rig *r = ctx;
    assert_true(r->claim_count < sizeof r->claims / sizeof *r->claims);
    r->claims[r->claim_count] = taker;
    r->claim_sizes[r->claim_count++] = count;
    for (size_t i = 0; i < count; i++)
        note(r, taker, &h[i]);
}

/* --- life --- */

static void policies(void *ctx, struct str queue, struct str added, struct arena *a,
                     struct verdict_rules *rules)
{
    struct rig *r = ctx;
    (void)queue, (void)added, (void)a;
    rules->policies = &r->policy;
    rules->policy_count = r->policy ? 1 : 0;
    rules->settings = &r->policy_settings;
    rules->missing = r->policy_missing;
}

static void start_engine(struct rig *r)
{
    struct port port = {.ctx = r,
                        .load_job = load_job,
                        .put_job = put_job,
                        .rewrite_job = rewrite_job,
                        .put_state = put_state,
                        .put_run = put_run,
                        .put_note = put_note,
                        .delete_note = delete_note,
                        .load_note = load_note,
                        .put_takes = put_takes,
                        .delete_takes = delete_takes,
                        .put_ended = put_ended,
                        .delete_ended = delete_ended,
                        .delete_job = delete_job,
                        .put_queue = put_queue,
                        .put_group = put_group,
                        .delete_group = delete_group,
                        .put_budget = put_budget,
                        .put_event = put_event,
                        .policies = policies};
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

static void restore_jobs(struct rig *r)
{
    struct rig_record **all = alloc_zero((r->records.count + 1) * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < r->records.cap; i++)
        if (r->records.slots[i].val)
            all[n++] = r->records.slots[i].val;
    qsort(all, n, sizeof *all, by_id);
    for (size_t i = 0; i < n; i++) {
        struct job job = all[i]->job;
        job.payload = (struct str){0};
        if (all[i]->has_state)
            job.state = all[i]->state;
        struct job_extent extent = {.has_state = all[i]->has_state, .runs_ended = job.state.runs};
        engine_restore_job(r->e, &job, &extent, r->now);
    }
    free(all);
}

static void restore_takes(struct rig *r)
{
    for (uint64_t after = 0;;) {
        const struct rig_takes *next = NULL;
        for (size_t i = 0; i < RIG_TAKES_MAX; i++)
            if (r->takes[i].seq > after && (!next || r->takes[i].seq < next->seq))
                next = &r->takes[i];
        if (!next)
            return;
        for (size_t i = 0; i < next->count; i++)
            engine_restore_take(r->e, next->seq, next->at, next->takes[i]);
        after = next->seq;
    }
}

void rig_restart(struct rig *r)
{
    engine_free(r->e);
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
    restore_jobs(r);
    restore_takes(r);
    for (size_t i = 0; i < sizeof r->ended / sizeof *r->ended; i++)
        if (!id_is_none(r->ended[i].id))
            engine_restore_ended(r->e, r->ended[i].seq, r->ended[i].id, r->ended[i].end);
    bool more;
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
    check_replay(r);
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

void rig_succeed(struct rig *r, struct id id)
{
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){.id = id}));
}

struct job rig_fail(struct rig *r, struct id id)
{
    const struct failure f = {.message = STR("it broke"), .run_time = {-1}};
    return rig_fail_with(r, id, &f);
}

struct job rig_fail_with(struct rig *r, struct id id, const struct failure *f)
{
    struct job job;
    struct failure_report report = {.ref = {.id = id}, .failure = *f, .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    return job;
}
