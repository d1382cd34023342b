/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine_window.h"

#include <stdlib.h>

#include "base/glob.h"
#include "base/must.h"
#include "core/engine_internal.h"

#define CHUNK     64    /* places of a queue that are looked at at once */
#define STEPS_MAX 50000 /* entries of other kinds among the deadlines that are passed over */

static bool is_within(const struct queue *q, struct glob_list reach)
{
    return q && (!reach.count || glob_list_matches(reach, q->name));
}

static int compare(const void *left, const void *right)
{
    const struct window_place *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return id_cmp(a->id, b->id);
}

/* Merges two lists in order into the first, which keeps what comes first; returns its length. From
 * the back, so that nothing is overwritten before it is moved. */
static size_t merge(struct window_place *places, size_t n, size_t most,
                    const struct window_place *more, size_t count)
{
    size_t sum = n + count;
    for (size_t at = sum; count > 0; at--) {
        bool old = n > 0 && compare(&places[n - 1], &more[count - 1]) > 0;
        struct window_place next = old ? places[--n] : more[--count];
        if (at - 1 < most)
            places[at - 1] = next;
    }
    return sum < most ? sum : most;
}

/* --- ready --- */

static size_t add_queue(const struct engine *e, const struct queue *q, struct window_place *places,
                        size_t n, size_t most)
{
    struct ready_place found[CHUNK];
    struct window_place more[CHUNK];
    struct peek_command ask = {.queue = q->name};
    for (;;) {
        size_t count = engine_peek(e, &ask, CHUNK, found);
        for (size_t i = 0; i < count; i++)
            more[i] = (struct window_place){found[i].rank, found[i].id, q->index};
        if (!count || (n == most && compare(&more[0], &places[n - 1]) > 0))
            return n;
        n = merge(places, n, most, more, count);
        if (count < CHUNK || (n == most && compare(&more[count - 1], &places[n - 1]) > 0))
            return n;
        ask.from = found[count - 1];
    }
}

static size_t add_ready(const struct engine *e, struct glob_list reach, struct window_place *places,
                        size_t most)
{
    size_t n = 0;
    for (uint32_t i = 0; i < e->queue_count; i++) {
        const struct queue *q = e->queues[i];
        if (q && q->counts[STATUS_READY] && is_within(q, reach))
            n = add_queue(e, q, places, n, most);
    }
    return n;
}

/* --- scheduled --- */

static size_t add_scheduled(const struct engine *e, struct glob_list reach,
                            struct window_place *places, size_t most)
{
    struct btree_entry page[CHUNK];
    size_t n = 0, got, steps = 0;
    const struct btree_entry *after = NULL;
    struct btree_entry last;
    while (n < most && steps < STEPS_MAX && (got = btree_page(&e->deadlines, after, page, CHUNK))) {
        for (size_t i = 0; i < got && n < most; i++) {
            uint32_t queue = DUE_VAL_QUEUE(page[i].val);
            if (DUE_VAL_KIND(page[i].val) == DUE_READY && is_within(e->queues[queue], reach))
                places[n++] = (struct window_place){page[i].major, {page[i].hi, page[i].lo}, queue};
        }
        steps += got;
        last = page[got - 1];
        after = &last;
    }
    return n;
}

/* --- in flight --- */

static size_t add_in_flight(const struct engine *e, struct glob_list reach,
                            struct window_place *places, size_t most)
{
    struct btree_entry page[CHUNK];
    size_t n = 0, got;
    const struct btree_entry *after = NULL;
    struct btree_entry last;
    while (n < most && (got = btree_page(&e->live_order, after, page, CHUNK))) {
        for (size_t i = 0; i < got && n < most; i++) {
            const struct live *l = idmap_get(&e->live, (struct id){page[i].hi, page[i].lo});
            must(l);
            if (is_within(l->queue, reach))
                places[n++] =
                    (struct window_place){(uint64_t)l->taken_at.ms, l->id, l->queue->index};
        }
        last = page[got - 1];
        after = &last;
    }
    qsort(places, n, sizeof *places, compare);
    return n;
}

size_t engine_window(const struct engine *e, enum status status, struct glob_list reach,
                     struct window_place *places, size_t most)
{
    must(status == STATUS_READY || status == STATUS_SCHEDULED || status == STATUS_IN_FLIGHT);
    return status == STATUS_READY       ? add_ready(e, reach, places, most)
           : status == STATUS_SCHEDULED ? add_scheduled(e, reach, places, most)
                                        : add_in_flight(e, reach, places, most);
}

uint64_t engine_window_total(const struct engine *e, enum status status, struct glob_list reach)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < e->queue_count; i++)
        if (is_within(e->queues[i], reach))
            total += e->queues[i]->counts[status];
    return total;
}

struct str engine_window_queue(const struct engine *e, const struct window_place *place)
{
    return e->queues[place->queue]->name;
}
