/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_messages.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"

#define WINDOW       16                  /* events that are asked about at a time */
#define WINDOW_BYTES ((uint64_t)1 << 18) /* of jobs that were read for them */
#define PAGE_BYTES   ((size_t)1 << 19)   /* of messages: a page with more ends */

struct telling_item {
    struct api_telling *owner;
    struct buf text;
};

struct api_telling {
    struct api_tell tell;
    struct api_told told;
    struct arena arena;
    struct telling_item *items;
    size_t next, pending; /* event to be asked about; those that were and are not answered */
    size_t bytes;         /* of all messages so far */
};

static struct job_event copy_event(struct arena *a, const struct job_event *ev)
{
    struct job_event copy = *ev;
    copy.queue = arena_copy(a, ev->queue);
    copy.type = arena_copy(a, ev->type);
    copy.worker = arena_copy(a, ev->worker);
    copy.reason = arena_copy(a, ev->reason);
    copy.culprit_evidence = arena_copy(a, ev->culprit_evidence);
    copy.category = arena_copy(a, ev->category);
    copy.subcategory = arena_copy(a, ev->subcategory);
    copy.message = arena_copy(a, ev->message);
    copy.group = arena_copy(a, ev->group);
    copy.artifact = arena_copy(a, ev->artifact);
    copy.ruling.policy = arena_copy(a, ev->ruling.policy);
    copy.traceparent = arena_copy(a, ev->traceparent);
    copy.ended = NULL; /* it is valid during the call only */
    return copy;
}

static void finish(struct api_telling *t)
{
    struct event_page *p = &t->told.page;
    struct str *messages = arena_get(&t->arena, (t->next + 1) * sizeof *messages);
    for (size_t i = 0; i < t->next; i++)
        messages[i] = buf_view(&t->items[i].text);
    if (t->next < p->count) {
        p->count = t->next;
        p->last = p->events[t->next - 1].number;
        p->more = true;
    }
    t->told.messages = messages;
    t->tell.done(t->tell.ctx, &t->told);
    api_telling_free(t);
}

static void on_written(void *ctx);

static void ask(struct api_telling *t, size_t i)
{
    const struct api_messages *m = t->tell.messages;
    const struct job_event *ev = &t->told.page.events[i];
    if (!m->tells(ev) || !t->tell.wants(t->tell.ctx, ev))
        return;
    t->pending++;
    m->write(m->ctx, ev, &t->items[i].text, on_written, &t->items[i]);
}

/* The next few; what was asked is answered later, in any order. */
static void step(struct api_telling *t)
{
    uint64_t began = uv_hrtime(), gathered = backend_gathered(t->tell.backend);
    size_t count = t->told.page.count;
    while (t->next < count && t->pending < WINDOW && (t->next == 0 || t->bytes < PAGE_BYTES) &&
           backend_gathered(t->tell.backend) - gathered < WINDOW_BYTES)
        ask(t, t->next++);
    t->told.spent += uv_hrtime() - began;
    if (t->pending == 0)
        finish(t);
}

static void on_written(void *ctx)
{
    struct telling_item *item = ctx;
    struct api_telling *t = item->owner;
    t->bytes += item->text.len;
    if (--t->pending == 0)
        step(t);
}

void api_tell(const struct api_tell *tell, const struct event_page *page, struct api_telling **slot)
{
    struct api_telling *t = ALLOC(struct api_telling);
    struct job_event *events = arena_get(&t->arena, page->count * sizeof *events);
    t->tell = *tell;
    t->told.page = *page;
    t->told.page.events = events;
    t->items = arena_zero(&t->arena, page->count * sizeof *t->items);
    for (size_t i = 0; i < page->count; i++) {
        events[i] = copy_event(&t->arena, &page->events[i]);
        t->items[i].owner = t;
    }
    *slot = t;
    step(t);
}

void api_telling_free(struct api_telling *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->next; i++)
        buf_fini(&t->items[i].text);
    arena_fini(&t->arena);
    free(t);
}
