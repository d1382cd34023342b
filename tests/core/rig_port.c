/* SPDX-License-Identifier: Apache-2.0 */

/* The port of the rig: records in arrays, and the events replayed as they come. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/job_fields.h"
#include "rig.h"

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
    rig_snapshot_touch(r, job->id);
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
    assert_non_null(job->payload.at); /* otherwise it would be lost */
    rig_snapshot_touch(r, job->id);
    if (!record) { /* it was deleted, and is restored */
        record = ALLOC(struct rig_record);
        idmap_put(&r->records, job->id, record);
    }
    keep_job(r, record, job);
}

static void put_state(void *ctx, struct id id, const struct job_state *state)
{
    struct rig *r = ctx;
    r->writes++;
    struct rig_record *record = idmap_get(&r->records, id);
    assert_non_null(record);
    rig_snapshot_touch(r, id);
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
    copy->failure.culprit_evidence = arena_copy(&r->strings, run->failure.culprit_evidence);
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
    t->is_leases = false;
    t->count = count;
    memcpy(t->takes, takes, count * sizeof *takes);
}

static void put_leases(void *ctx, uint64_t seq, instant at, const struct lease *leases,
                       size_t count)
{
    struct rig *r = ctx;
    r->writes++;
    assert_true(seq != 0 && !find_takes(r, seq));
    struct rig_takes *t = find_takes(r, 0);
    assert_non_null(t);
    assert_in_range(count, 1, RIG_TAKES_MAX);
    *t = (struct rig_takes){.seq = seq, .at = at, .is_leases = true, .count = count};
    for (size_t i = 0; i < count; i++) {
        t->leases[i] = leases[i];
        t->leases[i].worker = arena_copy(&r->strings, leases[i].worker);
        t->leases[i].node = arena_copy(&r->strings, leases[i].node);
    }
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
    rig_snapshot_touch(r, id);
    struct rig_record *record = idmap_remove(&r->records, id);
    assert_non_null(record);
    assert_true(extent->has_state || !record->has_state);
    assert_int_equal(extent->notes, record->has_notes);
    for (uint32_t i = 0; i < RIG_RUNS_MAX; i++)
        assert_true(i < extent->runs_ended || !record->has_run[i]);
    free(record);
}

void rig_lose(struct rig *r, struct id id)
{
    struct rig_record *record = idmap_remove(&r->records, id);
    assert_non_null(record);
    struct rig_replay *p = idmap_get(&r->replayed, id);
    p->status = STATUS_GONE;
    r->snapshot.newest.ms = INT64_MAX; /* no snapshot of before is to be trusted */
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
    if (event_is_of_group(ev->event))
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
    assert_true((ev->queue.len && ev->type.len) ||
                (event_is_of_group(ev->event) && ev->event != EVENT_GROUP_RESOLVED));
    replay(r, ev);
    ALLOC_GROW(r->events, r->event_count, r->event_cap, 64);
    struct job_event *copy = &r->events[r->event_count++];
    *copy = *ev;
    copy->queue = arena_copy(&r->strings, ev->queue);
    copy->type = arena_copy(&r->strings, ev->type);
    copy->worker = arena_copy(&r->strings, ev->worker);
    copy->reason = arena_copy(&r->strings, ev->reason);
    copy->group = arena_copy(&r->strings, ev->group);
    copy->artifact = arena_copy(&r->strings, ev->artifact);
    copy->ruling.policy = arena_copy(&r->strings, ev->ruling.policy);
    r->mark = engine_event_mark(r->e);
}

/* The statuses by the events are those of the engine, except for jobs that wait again because the
 * clock went back across a restart. */
void rig_check_replay(struct rig *r)
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

struct port rig_port(struct rig *r)
{
    return (struct port){.ctx = r,
                         .load_job = load_job,
                         .keeps_deleted = r->keeps_deleted,
                         .put_job = put_job,
                         .rewrite_job = rewrite_job,
                         .put_state = put_state,
                         .put_first_state = put_state,
                         .put_run = put_run,
                         .put_note = put_note,
                         .delete_note = delete_note,
                         .load_note = load_note,
                         .put_takes = put_takes,
                         .put_leases = put_leases,
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
}
