/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_lost.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"

#define RUNS_MAX 32 /* that one claim hands out */

struct tc_handed {
    struct taskcluster *tc;
    struct list node; /* in taskcluster.lost while it is lost */
    struct arena strings;
    struct str queue, group, id;
    struct tc_handed_run runs[RUNS_MAX];
    size_t count, next;
};

struct tc_handed *tc_handed_new(struct taskcluster *t, struct str queue, struct str group,
                                struct str id)
{
    struct tc_handed *h = ALLOC(struct tc_handed);
    h->tc = t;
    list_init(&h->node);
    h->queue = arena_copy(&h->strings, queue);
    h->group = arena_copy(&h->strings, group);
    h->id = arena_copy(&h->strings, id);
    return h;
}

static void discard(struct tc_handed *h)
{
    list_unlink(&h->node);
    arena_fini(&h->strings);
    free(h);
}

void tc_handed_add(struct tc_handed *h, struct tc_handed_run run)
{
    must(h->count < COUNT(h->runs));
    run.task_id = arena_copy(&h->strings, run.task_id);
    h->runs[h->count++] = run;
}

static bool is_over(const struct tc_handed *h, instant now)
{
    for (size_t i = h->next; i < h->count; i++)
        if (h->runs[i].lease_end.ms > now.ms)
            return false;
    return true;
}

/* Workers that never ask again leave nothing behind. */
static void drop_old(struct taskcluster *t)
{
    instant now = tc_now(t);
    for (struct list *at = t->lost.next, *next; at != &t->lost; at = next) {
        struct tc_handed *h = LIST_OF(at, struct tc_handed, node);
        next = at->next;
        if (is_over(h, now))
            discard(h);
    }
}

static void on_settled(void *ctx, bool lost)
{
    struct tc_handed *h = ctx;
    if (!lost) {
        discard(h);
        return;
    }
    drop_old(h->tc);
    list_append(&h->tc->lost, &h->node);
}

void tc_handed_watch(struct tc_handed *h, struct http_exchange *x)
{
    http_on_settled(x, on_settled, h);
}

struct tc_handed *tc_lost_take(struct taskcluster *t, struct str queue, struct str group,
                               struct str id)
{
    LIST_EACH (at, &t->lost) {
        struct tc_handed *h = LIST_OF(at, struct tc_handed, node);
        if (!str_eq(h->queue, queue) || !str_eq(h->group, group) || !str_eq(h->id, id))
            continue;
        list_unlink(&h->node);
        return h;
    }
    return NULL;
}

const struct tc_handed_run *tc_handed_next(struct tc_handed *h)
{
    return h->next < h->count ? &h->runs[h->next++] : NULL;
}

void tc_lost_give_back(struct tc_handed *h)
{
    if (h->next < h->count)
        list_append(&h->tc->lost, &h->node);
    else
        discard(h);
}

void tc_lost_free(struct taskcluster *t)
{
    while (!list_is_empty(&t->lost))
        discard(LIST_OF(t->lost.next, struct tc_handed, node));
}
