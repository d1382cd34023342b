/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of status. Each of them goes through engine_changed, which numbers it and puts it into
 * the batch of the change itself: so no event is lost, and none says what did not become durable.
 *
 * A scheduled job becomes ready without a write but that of its event. Deadlines fire in the order
 * of (time, id); the mark, which is stored with the events, says up to which one they have. From it
 * a restart knows which of the jobs that are due were announced as ready. */

#include "base/must.h"
#include "base/utf8.h"
#include "core/engine_internal.h"
#include "core/trace.h"

struct job_event engine_event(enum event event, enum status from, const struct job *job)
{
    return (struct job_event){.id = job->id,
                              .queue = job->queue,
                              .type = job->type,
                              .group = job->options.group,
                              .event = event,
                              .from = from,
                              .run = -1,
                              .ready_at = INSTANT_NONE,
                              .since = INSTANT_NONE,
                              .lease_end = INSTANT_NONE,
                              .priority = job->state.priority,
                              .runs = job->state.runs,
                              .traceparent = job->options.traceparent,
                              .waited_from = INSTANT_NONE,
                              .ruling = RULING_NONE};
}

struct job_event engine_live_event(const struct engine *e, enum event event, const struct live *l)
{
    return (struct job_event){.id = l->id,
                              .queue = l->queue->name,
                              .type = e->types[l->type],
                              .group = engine_group_name(l->member_of),
                              .event = event,
                              .from = STATUS_IN_FLIGHT,
                              .run = l->run,
                              .attempt = l->attempts + 1,
                              .ready_at = INSTANT_NONE,
                              .since = l->taken_at,
                              .worker = {l->worker->bytes, l->worker->len},
                              .lease_end = INSTANT_NONE,
                              .priority = l->priority,
                              .runs = l->run + 1,
                              .traceparent = {l->trace, l->trace ? TRACE_PARENT_LEN : 0},
                              .waited_from = INSTANT_NONE,
                              .ruling = RULING_NONE};
}

void engine_total_move(struct engine *e, enum status from, enum status to)
{
    if (from != STATUS_GONE) {
        must(e->totals[from] > 0);
        e->totals[from]--;
    }
    if (to != STATUS_GONE)
        e->totals[to]++;
}

/* Numbers an event and gives it away. */
static void tell(struct engine *e, instant now, struct job_event *ev)
{
    ev->number = e->next_event++;
    ev->at = now;
    e->port.put_event(e->port.ctx, ev);
    if (e->port.meter && ev->queue.len)
        meter_event(e->port.meter, ev);
}

struct job_event engine_group_event(enum event event, struct str group)
{
    return (struct job_event){.event = event,
                              .group = group,
                              .from = STATUS_GONE,
                              .run = -1,
                              .ready_at = INSTANT_NONE,
                              .since = INSTANT_NONE,
                              .lease_end = INSTANT_NONE,
                              .priority = -1,
                              .waited_from = INSTANT_NONE,
                              .ruling = RULING_NONE};
}

void engine_group_changed(struct engine *e, instant now, struct job_event *ev)
{
    ev->to = lifecycle_move(ev->from, ev->event);
    tell(e, now, ev);
}

/* By the end of its last job that had not ended. */
static void tell_resolved(struct engine *e, instant now, struct str group,
                          const struct job_event *by)
{
    struct job_event ev = engine_group_event(EVENT_GROUP_RESOLVED, group);
    ev.id = by->id;
    ev.queue = by->queue;
    ev.type = by->type;
    ev.from = by->removed ? STATUS_GONE : by->to;
    engine_group_changed(e, now, &ev);
}

/* What a change of a job's status is for its group. */
static void tell_group(struct engine *e, instant now, const struct job_event *ev)
{
    bool resolved;
    struct job_group *g = engine_group_moved(e, ev, &resolved);
    if (resolved)
        tell_resolved(e, now, engine_group_name(g), ev);
    if (g)
        engine_group_drop_if_empty(e, g);
}

static int32_t exit_code_of(const struct failure *f)
{
    int32_t code = f->exit_code;
    for (size_t i = 0; i < f->container_count && code == 0; i++)
        code = f->containers[i].exit_code;
    return code;
}

static void tell_failure(struct job_event *ev, const struct failure *f)
{
    ev->culprit = f->culprit;
    ev->culprit_evidence = f->culprit_evidence;
    ev->category = f->category;
    ev->subcategory = f->subcategory;
    ev->message = (struct str){f->message.at, utf8_whole(f->message, EVENT_MESSAGE_MAX)};
    ev->exit_code = exit_code_of(f);
}

void engine_changed(struct engine *e, instant now, const struct job_event *what)
{
    struct job_event ev = *what;
    struct arena scratch = {0};
    if (ev.ended)
        tell_failure(&ev, &ev.ended->failure);
    ev.to = lifecycle_move(ev.from, ev.event);
    engine_total_move(e, ev.from, ev.removed ? STATUS_GONE : ev.to);
    if (ev.type.len == 0) {
        struct job job;
        struct job_extent extent;
        if (e->port.load_job(e->port.ctx, ev.id, 0, &scratch, &job, &extent).code == ERR_OK)
            ev.type = job.type;
    }
    if (ev.removed || ev.to == STATUS_GONE || lifecycle_is_terminal(ev.to)) {
        engine_gang_leave(e, now, ev.id);
        engine_budget_leave(e, ev.id);
        engine_end_by_drop(e, ev.id);
    }
    engine_depend_changed(e, &ev);
    tell(e, now, &ev);
    tell_group(e, now, &ev);
    arena_fini(&scratch);
}

void engine_rescheduled(struct engine *e, instant now, enum status from, instant was,
                        const struct job *job)
{
    const struct job_state *s = &job->state;
    if (from == s->status && (from == STATUS_READY || was.ms == s->ready_at.ms))
        return;
    enum event event = s->status == STATUS_READY ? EVENT_DUE : EVENT_POSTPONE;
    struct job_event ev = engine_event(event, from, job);
    ev.ready_at = s->ready_at;
    engine_changed(e, now, &ev);
}

/* --- types --- */

uint32_t engine_type_index(struct engine *e, struct str name)
{
    uintptr_t at = (uintptr_t)strmap_get(&e->type_names, name);
    if (!at && e->type_count < TYPES_MAX) {
        at = ++e->type_count;
        e->types[at] = strmap_put(&e->type_names, name, (void *)at);
    }
    return (uint32_t)at;
}

uint32_t engine_type(struct engine *e, struct queue *q, struct str name)
{
    if (q->type && str_eq(e->types[q->type], name))
        return q->type;
    uint32_t at = engine_type_index(e, name);
    if (at)
        q->type = at;
    return at;
}

/* --- deadlines --- */

void engine_due_passed(struct engine *e, instant now, const struct queue *q, struct btree_entry due)
{
    if (due.val & DUE_VAL_ANNOUNCED) {
        engine_total_move(e, STATUS_SCHEDULED, STATUS_READY);
        return;
    }
    struct job job = {.id = {due.hi, due.lo}, .queue = q->name};
    job.type = e->types[DUE_VAL_TYPE(due.val)];
    struct job_event ev = engine_event(EVENT_DUE, STATUS_SCHEDULED, &job);
    ev.ready_at.ms = ev.since.ms = (int64_t)due.major;
    ev.priority = -1;
    engine_changed(e, now, &ev);
}

void engine_due_fired(struct engine *e, instant now, const struct queue *q, struct btree_entry due)
{
    engine_due_passed(e, now, q, due);
    struct event_mark m = {{(int64_t)due.major}, {due.hi, due.lo}};
    if (!engine_was_announced(e, m.at, m.id))
        e->mark = m;
}

bool engine_was_announced(const struct engine *e, instant ready_at, struct id id)
{
    if (ready_at.ms != e->mark.at.ms)
        return ready_at.ms < e->mark.at.ms;
    return id_cmp(id, e->mark.id) <= 0;
}

void engine_restore_events(struct engine *e, uint64_t next, struct event_mark mark)
{
    must(next > 0);
    e->next_event = next;
    e->mark = mark;
}

uint64_t engine_next_event(const struct engine *e)
{
    return e->next_event;
}

struct event_mark engine_event_mark(const struct engine *e)
{
    return e->mark;
}
