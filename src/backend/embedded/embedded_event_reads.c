/* SPDX-License-Identifier: Apache-2.0 */

/* Reads of the log of events. Old and new events are read in the same way: a page from the store,
 * of events that are durable. No reader costs memory between its pages. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/must.h"

/* Read in one turn, about; and what it costs to begin, as so many events. */
#define EVENTS_PER_TURN 8192
#define READ_COST       64

struct event_read {
    struct list node; /* in events.reads */
    struct event_read_spec spec;
};

static struct embedded *self(struct backend *b)
{
    return (struct embedded *)b;
}

void embedded_events_place(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct events *log = &b->events;
    const struct event_cursor at = {c->events_history, c->events_since};
    r->events_history = log->history.id;
    r->events_since = log->durable;
    if (b->stopping)
        r->err = err_make(ERR_STOPPING, "the server is shutting down");
    else if (at.number != EVENTS_NEWEST)
        r->events_since =
            event_history_place(&log->history, at, log->oldest, log->durable, &r->events_gap);
}

struct event_read *embedded_event_read(struct backend *base, const struct event_read_spec *spec)
{
    struct embedded *b = self(base);
    must(spec->limit > 0);
    struct event_read *r = ALLOC(struct event_read);
    r->spec = *spec;
    list_init(&r->node);
    list_append(&b->events.reads, &r->node);
    b->wake_needed |= !spec->wait || spec->since < b->events.durable || b->stopping;
    return r;
}

void embedded_event_read_cancel(struct backend *base, struct event_read *r)
{
    (void)base;
    list_unlink(&r->node);
    free(r);
}

void embedded_event_reads_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->events.reads)) {
        struct event_read *r = LIST_OF(b->events.reads.next, struct event_read, node);
        list_unlink(&r->node);
        free(r);
    }
    arena_fini(&b->events.page);
}

/* --- a page --- */

/* What of a record belongs into the page. */
static struct err read_record(struct embedded *b, uint64_t first, struct str value, uint64_t start,
                              uint32_t limit, struct event_page *p, struct job_event *list)
{
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more = true;
    TRY(eventlog_open(arena_copy(&b->events.page, value), first, &head, &r));
    while (p->count < limit && p->last < b->events.durable) {
        struct job_event *ev = &list[p->count];
        TRY(eventlog_next(&r, &more, ev));
        if (!more)
            break;
        if (ev->number < start)
            continue;
        p->last = ev->number;
        p->count++;
    }
    return err_none();
}

static struct err read_records(struct embedded *b, struct store_cursor *c, uint64_t start,
                               uint32_t limit, struct event_page *p)
{
    struct job_event *list = arena_get(&b->events.page, limit * sizeof *list);
    struct store *s = b->env.store;
    struct record_key after = eventlog_key(start + 1);
    struct str key, value;
    uint64_t first;
    p->events = list;
    /* The last record that begins at start or before it. */
    store_cursor_seek(c, s, record_key_view(&after), true);
    for (; p->count < limit && p->last < b->events.durable; store_cursor_step(c, s, false)) {
        if (!store_cursor_at(c, s, &key, &value) || !eventlog_key_is(key, &first)) {
            if (p->last >= b->events.lost)
                return err_make(ERR_CORRUPT, "the log of events ends before number %llu",
                                (unsigned long long)b->events.durable);
            if (p->count == 0)
                p->missed_to = p->last = b->events.lost;
            return err_none();
        }
        if (first > p->last + 1 && first > start) {
            /* What damage has taken is not kept any more. */
            if (p->count)
                return err_none();
            p->missed_to = p->last = first - 1;
            start = first;
        }
        TRY(read_record(b, first, value, start, limit, p, list));
    }
    return err_none();
}

static struct err read_page(struct embedded *b, const struct event_read_spec *spec,
                            struct event_page *p)
{
    const struct events *log = &b->events;
    uint64_t start = spec->since + 1;
    if (start > log->durable)
        return err_none();
    if (start < log->oldest) {
        p->missed_to = log->oldest - 1;
        start = log->oldest;
        p->last = p->missed_to;
    }
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = read_records(b, c, start, spec->limit, p);
    struct err read = store_cursor_free(c, b->env.store);
    p->more = p->last < log->durable;
    return read.code == ERR_OK ? err : read;
}

/* --- answering --- */

static void answer(struct embedded *b, struct event_read *r)
{
    struct event_page p = {.since = r->spec.since, .last = r->spec.since};
    struct event_read_spec spec = r->spec;
    list_unlink(&r->node);
    free(r);
    p.err = b->stopping ? err_make(ERR_STOPPING, "the server is shutting down")
            : b->blind  ? b->failure
                        : read_page(b, &spec, &p);
    embedded_met(b, &p.err);
    spec.done(spec.ctx, &p);
    arena_reset(&b->events.page);
}

/* Receivers may ask for the next page at once, or take back another's question. What is too much
 * for one turn is answered in the next. */
void embedded_event_reads_serve(struct embedded *b)
{
    uint32_t left = EVENTS_PER_TURN;
    struct list due;
    list_init(&due);
    for (struct list *n = b->events.reads.next, *next; n != &b->events.reads; n = next) {
        const struct event_read *r = LIST_OF(n, struct event_read, node);
        uint32_t limit = r->spec.limit < EVENTS_PER_TURN ? r->spec.limit : EVENTS_PER_TURN;
        uint32_t cost = READ_COST + limit;
        next = n->next;
        if (r->spec.wait && r->spec.since >= b->events.durable && !b->stopping)
            continue;
        if (left == 0) {
            b->wake_needed = true;
            break;
        }
        if (!b->stopping)
            left -= cost < left ? cost : left;
        list_unlink(n);
        list_append(&due, n);
    }
    while (!list_is_empty(&due))
        answer(b, LIST_OF(due.next, struct event_read, node));
}
