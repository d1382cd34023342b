/* SPDX-License-Identifier: Apache-2.0 */

/* Parts of the lists that operators watch (CMD_WINDOW). A list is looked at as far as its first
 * WINDOW_REACH jobs; only those that are shown are read, and those that a search is about. */

#include "backend/embedded/embedded_internal.h"
#include "base/glob.h"
#include "base/must.h"
#include "core/engine_window.h"

/* Jobs that a search reads, for their types are in no index. */
#define SEARCH_MAX 1000
#define BYTES_MAX  ((size_t)8 << 20)

struct window {
    struct embedded *b;
    const struct window_command *ask;
    struct reply *reply;
    struct window_place *places;
    size_t count;
};

static bool find_id(const struct window *w, size_t *at)
{
    for (*at = 0; *at < w->count; ++*at)
        if (id_eq(w->places[*at].id, w->ask->id))
            return true;
    return false;
}

static bool is_named(const struct str *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(names[i], name))
            return true;
    return count == 0;
}

static bool matches(const struct window *w, size_t at, size_t *reads)
{
    const struct window_command *ask = w->ask;
    const struct window_place *place = &w->places[at];
    struct job job;
    struct job_extent extent;
    if (!is_named(ask->queues, ask->queue_count, engine_window_queue(w->b->engine, place)))
        return false;
    if (!ask->type_count)
        return true;
    ++*reads;
    return engine_read(w->b->engine, w->b->now, place->id, false, &w->b->building->arena, &job,
                       &extent)
                   .code == ERR_OK &&
           is_named(ask->types, ask->type_count, job.type);
}

/* The nearest job that matches, behind or before that of the command, which itself is not looked
 * at; without it from the beginning, or the end. */
static bool search(const struct window *w, bool back, size_t *at)
{
    size_t reads = 0, from;
    bool found = find_id(w, &from);
    size_t left = back ? (found ? from : w->count) : w->count - (found ? from + 1 : 0);
    for (*at = back ? left : w->count - left; left > 0 && reads < SEARCH_MAX; left--) {
        *at -= back;
        if (matches(w, *at, &reads))
            return true;
        *at += !back;
    }
    return false;
}

/* Where the job of the command is, or the one that it looks for; false: nowhere. */
static bool find_anchor(const struct window *w, size_t *at)
{
    switch (w->ask->anchor) {
    case WINDOW_AROUND:
        return find_id(w, at);
    case WINDOW_NEXT:
    case WINDOW_PREVIOUS:
        return search(w, w->ask->anchor == WINDOW_PREVIOUS, at);
    case WINDOW_HEAD:
    case WINDOW_TAIL:
    case WINDOW_OFFSET:
    case WINDOW_NOWHERE:
        break;
    }
    return false;
}

static size_t no_later(size_t first, const struct window *w)
{
    size_t last = w->count > w->ask->limit ? w->count - w->ask->limit : 0;
    return first < last ? first : last;
}

static size_t begin_at(const struct window *w, enum window_anchor anchor)
{
    size_t offset = w->ask->offset < w->count ? (size_t)w->ask->offset : w->count;
    return anchor == WINDOW_TAIL      ? no_later(w->count, w)
           : anchor == WINDOW_OFFSET  ? no_later(offset, w)
           : anchor == WINDOW_NOWHERE ? w->count
                                      : 0;
}

static size_t begin_around(const struct window *w, size_t at)
{
    size_t half = w->ask->limit / 2;
    return no_later(at > half ? at - half : 0, w);
}

static bool names_a_job(const struct window_command *ask)
{
    return ask->anchor == WINDOW_AROUND || ask->anchor == WINDOW_NEXT ||
           ask->anchor == WINDOW_PREVIOUS;
}

/* Places that have to be known. */
static size_t needed(const struct window_command *ask)
{
    uint64_t end = ask->anchor == WINDOW_HEAD     ? ask->limit
                   : ask->anchor == WINDOW_OFFSET ? ask->offset + ask->limit
                                                  : WINDOW_REACH;
    return end < WINDOW_REACH ? (size_t)end : WINDOW_REACH;
}

static void read_jobs(const struct window *w, size_t first)
{
    struct arena *a = &w->b->building->arena;
    struct reply *r = w->reply;
    size_t bytes = 0;
    r->jobs = arena_get(a, w->ask->limit * sizeof *r->jobs);
    for (size_t i = first; i < w->count && r->count < w->ask->limit && bytes < BYTES_MAX; i++) {
        struct job *job = &r->jobs[r->count];
        struct job_extent extent;
        struct err err = engine_read(w->b->engine, w->b->now, w->places[i].id, w->ask->with_payload,
                                     a, job, &extent);
        if (err.code == ERR_NOT_FOUND)
            continue;
        if (err.code != ERR_OK) {
            r->err = err;
            return;
        }
        if (!w->ask->with_payload)
            job->payload = (struct str){0}; /* a small one comes with its job */
        bytes += job->payload.len;
        r->count++;
    }
}

void embedded_window(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct window_command *ask = &command->window;
    must(ask->limit > 0 && ask->limit <= WINDOW_MAX);
    size_t most = needed(ask), at;
    struct window w = {.b = b, .ask = ask, .reply = r};
    w.places = arena_get(&b->building->arena, most * sizeof *w.places);
    w.count = engine_window(b->engine, ask->status, command->reach, w.places, most);
    r->window.total = engine_window_total(b->engine, ask->status, command->reach);
    r->window.found = find_anchor(&w, &at);
    size_t first = r->window.found    ? begin_around(&w, at)
                   : names_a_job(ask) ? begin_at(&w, ask->fallback)
                                      : begin_at(&w, ask->anchor);
    if (r->window.found) {
        r->window.at = at;
        r->window.id = w.places[at].id;
    }
    r->window.first = first < w.count ? first : 0;
    read_jobs(&w, first);
}
