/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the event log with the store: replaying all of it gives the status of every job. */

#include "base/alloc.h"
#include "base/must.h"
#include "sim.h"
#include "store/eventlog.h"
#include "trace.h"

#include <stdlib.h>

struct known {
    enum status status;
    int32_t priority; /* as the newest event says that tells it; negative: none did */
    bool listed;
};

static void replay(struct idmap *jobs, const struct job_event *ev)
{
    struct known *k = idmap_get(jobs, ev->id);
    PROMISE(ev->from == (k ? k->status : STATUS_GONE), "EVENTS",
            "event %lu says that its job was %u, the events before say %u", ev->number, ev->from,
            k ? k->status : STATUS_GONE);
    bool of_group = event_is_of_group(ev->event);
    PROMISE((ev->queue.len && ev->type.len) || of_group, "EVENTS", "event %lu has no names",
            ev->number);
    if (of_group)
        return;
    if (!k) {
        k = ALLOC(struct known);
        k->priority = -1;
        idmap_put(jobs, ev->id, k);
    }
    if (ev->event == EVENT_REPRIORITIZE) {
        PROMISE(k->priority < 0 || k->priority == ev->old_priority, "EVENTS",
                "event %lu says that a priority was %d", ev->number, ev->old_priority);
    } else {
        PROMISE(ev->priority < 0 || k->priority < 0 || k->priority == ev->priority, "EVENTS",
                "event %lu says that a priority is %d", ev->number, ev->priority);
    }
    if (ev->priority >= 0)
        k->priority = ev->priority;
    k->status = ev->removed ? STATUS_GONE : ev->to;
    if (k->status == STATUS_GONE)
        free(idmap_remove(jobs, ev->id));
}

static void replay_record(struct events_audit *a, uint64_t first, struct str value, uint64_t *next)
{
    struct eventlog_head head;
    struct eventlog_reader r;
    PROMISE(*next == 0 || first == *next, "EVENTS", "event %lu follows %lu", first, *next - 1);
    must(eventlog_open(value, first, &head, &r).code == ERR_OK);
    for (;;) {
        struct job_event ev;
        bool more;
        must(eventlog_next(&r, &more, &ev).code == ERR_OK);
        if (!more)
            break;
        if (a->all) {
            replay(&a->jobs, &ev);
            history_expect(&a->history, &ev);
            group_replay(a->ledger, &a->groups, &ev);
        }
    }
    *next = first + head.count;
}

/* Returns the number of records. */
static size_t read_log(struct sim *s, struct events_audit *a)
{
    struct store_cursor *c = store_cursor_new(s->disk);
    struct record_key start = eventlog_key(0);
    struct str key, value;
    uint64_t first, next = a->all ? 1 : 0;
    size_t records = 0;
    for (store_cursor_seek(c, s->disk, record_key_view(&start), false);
         store_cursor_at(c, s->disk, &key, &value) && eventlog_key_is(key, &first);
         store_cursor_step(c, s->disk, false), records++)
        replay_record(a, first, value, &next);
    must(store_cursor_free(c, s->disk).code == ERR_OK);
    PROMISE(records == 0 || next == engine_next_event(embedded_engine(s->backend)), "EVENTS",
            "the next event would not be %lu", next);
    return records;
}

void events_open(struct sim *s, struct events_audit *a)
{
    *a = (struct events_audit){.ledger = &s->ledger, .all = s->settings.event_retention.ms > 0};
    a->history.all = a->all;
    size_t records = read_log(s, a);
    PROMISE(a->all || records <= 1, "EVENTS", "%zu records that are too old are left", records);
}

void events_see(struct events_audit *a, const struct job *job)
{
    struct known *k = a->all ? idmap_get(&a->jobs, job->id) : NULL;
    PROMISE(!a->all || k, "EVENTS", "no event tells of a job that is there");
    if (!k)
        return;
    PROMISE(k->status == job->state.status, "EVENTS", "events say that a job is %u, and it is %u",
            k->status, job->state.status);
    PROMISE(k->priority < 0 || k->priority == job->state.priority, "EVENTS",
            "events say that a priority is %d, and it is %u", k->priority, job->state.priority);
    k->listed = true;
}

void events_close(struct events_audit *a)
{
    group_replay_close(&a->groups);
    for (size_t i = 0; i < a->jobs.cap; i++) {
        struct known *k = a->jobs.slots[i].val;
        /* A job whose retention is over is not listed any more. */
        PROMISE(!k || k->listed || lifecycle_is_terminal(k->status), "EVENTS",
                "events report a job that does not exist");
        free(k);
    }
    idmap_fini(&a->jobs);
}
