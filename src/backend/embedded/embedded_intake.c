/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues of jobs that wait for very many others. Those are looked at in slices, over several
 * turns; then the request is applied in one step like any other. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "core/job_fields.h"

/* So many are looked at in one turn, which takes some milliseconds; a tenth of it at once. */
#define SLICE 1000

/* What may wait for that. */
#define INTAKES_MAX      1000
#define INTAKE_BYTES_MAX ((size_t)64 << 20)

struct intake {
    struct list node;
    struct arena arena;
    struct enqueue *specs;
    size_t count, bytes;
    struct depend_place at;
    reply_fn done;
    void *ctx;
};

struct enqueue embedded_own_spec(struct arena *a, const struct enqueue *spec)
{
    struct enqueue own = *spec;
    own.queue = arena_copy(a, spec->queue);
    own.type = arena_copy(a, spec->type);
    own.payload = arena_copy(a, spec->payload);
    own.unique_key = arena_copy(a, spec->unique_key);
    own.batch.key = arena_copy(a, spec->batch.key);
    own.batch.when = arena_copy(a, spec->batch.when);
    own.batch.fold = arena_copy(a, spec->batch.fold);
    own.options = job_options_copy(a, &spec->options);
    return own;
}

static size_t bytes_of(const struct enqueue *spec)
{
    const struct job_batch *b = &spec->batch;
    return sizeof *spec + spec->payload.len + b->key.len + b->when.len + b->fold.len +
           spec->options.depends_on.len;
}

static size_t slice(const struct embedded *b)
{
    return b->settings.depend_slice ? b->settings.depend_slice : SLICE;
}

bool embedded_intake_is_wanted(const struct embedded *b, const struct command *c)
{
    return engine_depend_total(c->enqueue.specs, c->enqueue.count) > slice(b) / 10;
}

/* The engine may be another one by now: then nothing is held any more. */
static void leave(struct embedded *b, struct intake *in)
{
    engine_depend_release(b->engine);
    b->intake_count--;
    b->intake_bytes -= in->bytes;
    list_unlink(&in->node);
    arena_fini(&in->arena);
    free(in);
}

static void refuse(struct embedded *b, struct intake *in, struct err why)
{
    embedded_effect(b, in->done, in->ctx)->err = why;
    leave(b, in);
}

void embedded_intake_start(struct embedded *b, const struct command *c)
{
    struct intake *in = ALLOC(struct intake);
    in->count = c->enqueue.count;
    in->done = c->done;
    in->ctx = c->ctx;
    in->specs = arena_get(&in->arena, in->count * sizeof *in->specs);
    for (size_t i = 0; i < in->count; i++) {
        in->specs[i] = embedded_own_spec(&in->arena, &c->enqueue.specs[i]);
        in->bytes += bytes_of(&in->specs[i]);
    }
    bool full = b->intake_count >= INTAKES_MAX ||
                (b->intake_count > 0 && b->intake_bytes + in->bytes > INTAKE_BYTES_MAX);
    list_init(&in->node);
    list_append(&b->intakes, &in->node);
    b->intake_count++;
    b->intake_bytes += in->bytes;
    engine_depend_hold(b->engine);
    if (full)
        refuse(b, in,
               err_make(ERR_BUSY, "%zu enqueues with many dependencies wait already",
                        b->intake_count - 1));
}

struct err embedded_intake_step(struct embedded *b)
{
    if (list_is_empty(&b->intakes))
        return err_none();
    struct intake *in = LIST_OF(b->intakes.next, struct intake, node);
    struct err err = engine_depend_look(b->engine, b->now, in->specs, in->count, &in->at, slice(b));
    if (err.code != ERR_OK) {
        refuse(b, in, embedded_met(b, &err));
        return err_none();
    }
    if (in->at.job < in->count) {
        /* In turn, so that one of very many does not hold up the others. */
        list_unlink(&in->node);
        list_append(&b->intakes, &in->node);
        return err_none();
    }
    struct command c = {.kind = CMD_ENQUEUE,
                        .enqueue = {.specs = in->specs, .count = in->count},
                        .done = in->done,
                        .ctx = in->ctx};
    embedded_enqueue_checked(b, &c);
    leave(b, in);
    return err_none();
}

void embedded_intake_abort_all(struct embedded *b, const struct err *why)
{
    while (!list_is_empty(&b->intakes))
        refuse(b, LIST_OF(b->intakes.next, struct intake, node), *why);
}

void embedded_intake_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->intakes))
        leave(b, LIST_OF(b->intakes.next, struct intake, node));
}
