/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

#define TEXTS 5

void workers_init(struct workers *w, uint64_t seed)
{
    *w = (struct workers){.by_name.seed = seed};
    list_init(&w->order);
}

static struct worker *first_of(const struct workers *w)
{
    return LIST_OF(w->order.next, struct worker, order);
}

static void forget(struct workers *w, struct worker *one)
{
    w->quiet -= one->quiet;
    must(strmap_remove(&w->by_name, one->name) == one);
    list_unlink(&one->order);
    free(one->texts);
    free(one);
}

void workers_fini(struct workers *w)
{
    while (!list_is_empty(&w->order))
        forget(w, first_of(w));
    strmap_fini(&w->by_name);
}

struct worker *workers_find(const struct workers *w, struct str name)
{
    return name.len ? strmap_get(&w->by_name, name) : NULL;
}

static bool is_there(const struct worker *one)
{
    return one->streams || one->claims || one->quiet;
}

/* The one not heard of for the longest time makes room. */
static bool make_room(struct workers *w)
{
    if (w->by_name.count < WORKERS_MAX)
        return true;
    LIST_EACH (n, &w->order) {
        struct worker *one = LIST_OF(n, struct worker, order);
        if (is_there(one))
            continue;
        forget(w, one);
        return true;
    }
    return false;
}

static struct worker *get(struct workers *w, struct str name)
{
    struct worker *one = workers_find(w, name);
    if (one || !name.len || !make_room(w))
        return one;
    one = ALLOC(struct worker);
    one->name = strmap_put(&w->by_name, name, one);
    list_init(&one->order);
    list_append(&w->order, &one->order);
    return one;
}

static struct str cut(struct str text, size_t most)
{
    if (text.len <= most)
        return text;
    text.len = most;
    while (text.len && ((unsigned char)text.at[text.len] & 0xc0) == 0x80)
        text.len--; /* not inside a character */
    return text;
}

/* "a,b" in room, as much of it as fits, in whole names. */
static struct str join(const struct worker_greeting *g, char room[WORKERS_TEXT_MAX])
{
    size_t len = 0;
    for (size_t i = 0; i < g->queue_count; i++) {
        size_t comma = len > 0, n = g->queues[i].len;
        if (len + comma + n > WORKERS_TEXT_MAX)
            break;
        if (comma)
            room[len++] = ',';
        memcpy(room + len, g->queues[i].at, n);
        len += n;
    }
    return (struct str){room, len};
}

/* Most say the same each time: then nothing is copied. */
static void describe(struct worker *one, const struct worker_greeting *g)
{
    char room[WORKERS_TEXT_MAX];
    const struct str said[TEXTS] = {
        cut(g->node, WORKERS_TEXT_MAX), cut(g->address, WORKERS_TEXT_MAX),
        cut(g->agent, WORKERS_TEXT_MAX), join(g, room), cut(g->notice, WORKERS_NOTICE_MAX)};
    struct str *const known[TEXTS] = {&one->node, &one->address, &one->agent, &one->queues,
                                      &one->notice};
    size_t bytes = 0, same = 0;
    for (int i = 0; i < TEXTS; i++) {
        bytes += said[i].len;
        same += str_eq(said[i], *known[i]);
    }
    if (same == TEXTS)
        return;
    char *texts = alloc_get(bytes), *at = texts;
    for (int i = 0; i < TEXTS; i++) {
        if (said[i].len)
            memcpy(at, said[i].at, said[i].len);
        *known[i] = (struct str){at, said[i].len};
        at += said[i].len;
    }
    free(one->texts);
    one->texts = texts;
}

static void heard(struct workers *w, struct worker *one, instant now)
{
    if (!one->since.ms)
        one->since = now;
    one->last_seen = now;
    list_unlink(&one->order);
    list_append(&w->order, &one->order);
}

struct worker *workers_greet(struct workers *w, const struct worker_greeting *g, instant now)
{
    struct worker *one = get(w, g->name);
    if (!one)
        return NULL;
    describe(one, g);
    heard(w, one, now);
    return one;
}

void workers_heard(struct workers *w, struct str name, instant now)
{
    struct worker *one = workers_find(w, name);
    if (one)
        heard(w, one, now);
}

bool workers_is_quiet(const struct workers *w, struct str name)
{
    const struct worker *one = w->quiet ? workers_find(w, name) : NULL;
    return one && one->quiet;
}

bool workers_hush(struct workers *w, struct str name, bool quiet)
{
    struct worker *one = quiet ? get(w, name) : workers_find(w, name);
    if (!one)
        return !quiet;
    if (quiet && !one->quiet && w->quiet == WORKERS_QUIET_MAX)
        return false;
    w->quiet += quiet;
    w->quiet -= one->quiet;
    one->quiet = quiet;
    return true;
}

void workers_unhush_all(struct workers *w)
{
    LIST_EACH (n, &w->order)
        LIST_OF(n, struct worker, order)->quiet = false;
    w->quiet = 0;
}

void workers_trim(struct workers *w, instant now, size_t most)
{
    if (most > w->by_name.count)
        most = w->by_name.count; /* each is looked at once */
    while (most-- > 0 && !list_is_empty(&w->order)) {
        struct worker *oldest = first_of(w);
        if (instant_diff(now, oldest->last_seen).ms < WORKERS_KEPT_MS)
            return;
        if (!is_there(oldest)) {
            forget(w, oldest);
            continue;
        }
        list_unlink(&oldest->order);
        list_append(&w->order, &oldest->order);
    }
}
