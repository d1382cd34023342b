/* SPDX-License-Identifier: Apache-2.0 */

/* Scans with an expression about payloads. Jobs that match in all else are collected
 * into a chunk; the evaluator judges the whole chunk while other scans go on; then each is looked
 * at again, for it may have changed meanwhile. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/must.h"

/* Slow expressions judge fewer payloads at a time, so that all requests have their turn. */
#define CHUNK_JOBS  64
#define CHUNK_FIRST 4
#define CHUNK_MS    100 /* what it is to take */
#define CHUNK_BYTES (1 << 20)

struct chunk {
    struct embedded *b;
    struct arena arena;
    struct id ids[CHUNK_JOBS];
    struct str payloads[CHUNK_JOBS];
    bool truths[CHUNK_JOBS];
    size_t most; /* to be judged at a time */
    size_t count, bytes;
    size_t judged;          /* of them; the rest is to be collected again */
    struct id_place before; /* where the scan stood when the first was collected */
    bool compiled, last;
    struct ask *ask;
};

struct chunk *embedded_chunk_new(struct embedded *b)
{
    struct chunk *c = ALLOC(struct chunk);
    c->b = b;
    c->most = CHUNK_FIRST;
    return c;
}

void embedded_chunk_free(struct chunk *c)
{
    if (!c)
        return;
    embedded_ask_cancel(c->ask);
    arena_fini(&c->arena);
    free(c);
}

bool embedded_chunk_is_full(const struct chunk *c)
{
    return c->count >= c->most || c->bytes >= CHUNK_BYTES;
}

struct arena *embedded_chunk_arena(struct chunk *c)
{
    return &c->arena;
}

void embedded_chunk_add(struct scan *scan, const struct job *job)
{
    struct chunk *c = scan->chunk;
    must(!embedded_chunk_is_full(c) && job->payload.at);
    if (c->count == 0)
        c->before = scan->at;
    c->ids[c->count] = job->id;
    c->payloads[c->count++] = job->payload;
    c->bytes += job->payload.len;
}

/* At most four times as many as the last time, for the next payloads may take longer. */
static void adapt(struct chunk *c, span spent)
{
    size_t fit = spent.ms > 0 ? c->count * CHUNK_MS / (size_t)spent.ms : CHUNK_JOBS;
    size_t most = c->most * 4 < CHUNK_JOBS ? c->most * 4 : CHUNK_JOBS;
    c->most = fit < 1 ? 1 : fit < most ? fit : most;
}

/* The scan goes on in the next turn, with the answer or to its end. */
static void on_judged(void *owner, const struct err *err, const struct eval_answer *answers,
                      size_t count, span spent)
{
    struct scan *scan = owner;
    struct chunk *c = scan->chunk;
    c->ask = NULL;
    list_unlink(&scan->node);
    list_append(&c->b->scans, &scan->node);
    scan->failed = *err;
    scan->spent.ms += spent.ms;
    if (err->code != ERR_OK) {
        /* What does not even compile is a mistake in the request. */
        if (!c->compiled && err->code == ERR_UNPROCESSABLE)
            scan->failed = err_make(ERR_BAD_VALUE, "filter: %.190s", err->msg);
        return;
    }
    c->compiled = true;
    must(count == c->count);
    for (size_t i = 0; i < count; i++)
        c->truths[i] = answers[i].truth;
    c->judged = count;
    if (count)
        adapt(c, spent);
}

bool embedded_chunk_is_due(const struct scan *scan)
{
    const struct chunk *c = scan->chunk;
    return !c->compiled || embedded_chunk_is_full(c) || (c->last && c->count > 0);
}

void embedded_chunk_at_end(struct scan *scan)
{
    scan->chunk->last = true;
    scan->ended = scan->chunk->count == 0;
}

struct err embedded_chunk_ask(struct embedded *b, struct scan *scan)
{
    struct chunk *c = scan->chunk;
    struct eval_request r = {.kind = EVAL_FILTER,
                             .exprs = {scan->list.filter.expression},
                             .inputs = c->payloads,
                             .count = c->count};
    TRY(embedded_ask(b, &r, scan->spent, scan, on_judged, &c->ask));
    list_unlink(&scan->node);
    list_append(&b->asking, &scan->node);
    return err_none();
}

/* Back to before the job at i, which is not what was judged any more. */
static void rewind_to(struct scan *scan, size_t i)
{
    struct chunk *c = scan->chunk;
    scan->at = i ? (struct id_place){true, c->ids[i - 1]} : c->before;
    c->last = false;
}

static void empty(struct chunk *c)
{
    c->count = c->bytes = c->judged = 0;
    arena_reset(&c->arena);
}

struct err embedded_chunk_use(struct embedded *b, struct scan *scan, struct arena *scratch)
{
    struct chunk *c = scan->chunk;
    struct err err = err_none();
    for (size_t i = 0; i < c->judged && !scan->ended && err.code == ERR_OK; i++) {
        struct job job;
        bool wanted;
        if (!c->truths[i])
            continue;
        err = embedded_scan_read(b, scan, c->ids[i], scratch, &job, &wanted);
        if (err.code != ERR_OK || !wanted)
            continue;
        if (!str_eq(job.payload, c->payloads[i])) {
            rewind_to(scan, i);
            break;
        }
        scan->ended = embedded_scan_use(b, scan, &job, scratch, &err);
    }
    if (c->judged) {
        if (c->last)
            scan->ended = true;
        empty(c);
    }
    return err;
}
