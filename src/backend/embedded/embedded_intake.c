/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues of jobs that wait for very many others, or that are there already, by their keys, in
 * very large numbers. Those others are looked at in slices, over several turns; then the request is
 * applied in one step like any other.
 *
 * Jobs that hold keys are part of the answer: what was read of them is kept, by one enqueue at a
 * time, and dropped when it changes, so that the one step finds them in memory. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "backend/embedded/embedded_reach.h"
#include "base/alloc.h"
#include "base/idmap.h"
#include "core/job_fields.h"

/* So many are looked at in one turn, which takes some milliseconds. Of dependencies a tenth is
 * looked at without waiting, of keys all of it. */
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
    bool counted;      /* how many jobs hold keys */
    bool reads;        /* they are very many: it is, or is to be, b->reader */
    size_t keys_at;    /* iff reads: keys before were looked at */
    struct idmap kept; /* struct kept, in the arena */
    const struct idempotency *once;
    const struct enqueue_quota *quota;
    struct glob_list reach; /* of the sender, if that is limited */
    reply_fn done;
    void *ctx;
};

/* A job that was read, without its payload. */
struct kept {
    struct job job;
    struct job_extent extent;
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
    struct budget_create *creates = arena_get(a, spec->budget_create_count * sizeof *creates + 1);
    for (size_t i = 0; i < spec->budget_create_count; i++)
        creates[i] = (struct budget_create){arena_copy(a, spec->budget_creates[i].key),
                                            spec->budget_creates[i].policy};
    own.budget_creates = creates;
    return own;
}

struct cron_put *embedded_own_put(struct arena *a, const struct cron_put *put)
{
    struct cron_put *own = ARENA_NEW(a, struct cron_put);
    struct cron_spec *entries = arena_get(a, put->count * sizeof *entries);
    *own = *put;
    own->group = arena_copy(a, put->group);
    own->zone = arena_copy(a, put->zone);
    own->entries = entries;
    for (size_t i = 0; i < put->count; i++) {
        entries[i] = put->entries[i];
        entries[i].name = arena_copy(a, put->entries[i].name);
        entries[i].expression = arena_copy(a, put->entries[i].expression);
        entries[i].zone = arena_copy(a, put->entries[i].zone);
        entries[i].job = embedded_own_spec(a, &put->entries[i].job);
    }
    return own;
}

static size_t bytes_of(const struct enqueue *spec)
{
    const struct job_batch *b = &spec->batch;
    return sizeof *spec + spec->payload.len + b->key.len + b->when.len + b->fold.len +
           spec->options.depends_on.len + spec->options.budgets.len;
}

static size_t slice(const struct embedded *b)
{
    return b->settings.depend_slice ? b->settings.depend_slice : SLICE;
}

bool embedded_intake_is_wanted(const struct embedded *b, const struct command *c)
{
    const struct enqueue *specs = c->enqueue.specs;
    return engine_depend_total(specs, c->enqueue.count) > slice(b) / 10 ||
           (c->enqueue.count > slice(b) &&
            engine_unique_total(b->engine, specs, c->enqueue.count) > slice(b));
}

/* --- what was read --- */

struct job embedded_own_job(struct arena *a, const struct job *from)
{
    struct job job = *from;
    job.queue = arena_copy(a, from->queue);
    job.type = arena_copy(a, from->type);
    job.payload = (struct str){0};
    job.unique_key = arena_copy(a, from->unique_key);
    job.batch.key = arena_copy(a, from->batch.key);
    job.batch.when = arena_copy(a, from->batch.when);
    job.batch.fold = arena_copy(a, from->batch.fold);
    job.options = job_options_copy(a, &from->options);
    job.state.reason = arena_copy(a, from->state.reason);
    job.state.worker = arena_copy(a, from->state.worker);
    job.state.extras = job_extras_copy(a, &from->state.extras);
    return job;
}

void embedded_intake_keep(struct embedded *b, const struct job *job,
                          const struct job_extent *extent)
{
    if (!b->reading)
        return;
    struct intake *in = b->reader;
    struct kept *kept = arena_get(&in->arena, sizeof *kept);
    *kept = (struct kept){embedded_own_job(&in->arena, job), *extent};
    idmap_put(&in->kept, job->id, kept);
}

bool embedded_intake_kept(const struct embedded *b, struct id id, struct arena *a, struct job *job,
                          struct job_extent *extent)
{
    const struct kept *kept = b->reading ? idmap_get(&b->reader->kept, id) : NULL;
    if (!kept)
        return false;
    *job = embedded_own_job(a, &kept->job);
    *extent = kept->extent;
    return true;
}

void embedded_intake_changed(struct embedded *b, struct id id)
{
    if (b->reader)
        idmap_remove(&b->reader->kept, id);
}

/* --- from the first turn to the last --- */

/* The engine may be another one by now: then nothing is held any more. */
static void leave(struct embedded *b, struct intake *in)
{
    engine_depend_release(b->engine);
    b->intake_count--;
    b->intake_bytes -= in->bytes;
    if (b->reader == in)
        b->reader = NULL;
    idmap_fini(&in->kept);
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
    in->once = embedded_idempotency_own(&in->arena, c->enqueue.once);
    in->reach = embedded_reach_own(&in->arena, c->reach);
    in->quota = embedded_own_quota(&in->arena, c->enqueue.quota);
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
               err_make(ERR_BUSY, "%zu enqueues about very many jobs wait already",
                        b->intake_count - 1));
}

/* The first one that may go on. If one keeps what it reads, that may. */
static struct intake *next_of(const struct embedded *b)
{
    struct intake *in = LIST_OF(b->intakes.next, struct intake, node);
    while (in->reads && b->reader && b->reader != in)
        in = LIST_OF(in->node.next, struct intake, node);
    return in;
}

static bool is_done(const struct intake *in)
{
    return in->at.job == in->count && (!in->reads || in->keys_at == in->count);
}

/* Dependencies first. What holds keys by now is counted when these are done. */
static struct err look(struct embedded *b, struct intake *in)
{
    size_t most = slice(b);
    if (in->at.job < in->count)
        TRY(engine_depend_look(b->engine, b->now, in->specs, in->count, &in->at, most));
    if (in->at.job < in->count)
        return err_none();
    if (!in->counted) {
        in->reads = engine_unique_total(b->engine, in->specs, in->count) > most;
        in->counted = true;
        return err_none();
    }
    b->reader = in;
    b->reading = true;
    struct err err =
        engine_unique_look(b->engine, b->now, in->specs, in->count, &in->keys_at, most);
    b->reading = false;
    return err;
}

static void apply(struct embedded *b, struct intake *in)
{
    struct command c = {.kind = CMD_ENQUEUE,
                        .enqueue = {in->specs, in->count, in->once, in->quota},
                        .reach = in->reach,
                        .done = in->done,
                        .ctx = in->ctx};
    /* Others of the sender's may have been applied since it came. */
    struct err err = in->quota ? embedded_quota_check(b, &c) : err_none();
    if (err.code != ERR_OK) {
        refuse(b, in, err);
        return;
    }
    b->reading = in->reads;
    embedded_enqueue_checked(b, &c);
    b->reading = false;
    leave(b, in);
}

struct err embedded_intake_step(struct embedded *b)
{
    if (list_is_empty(&b->intakes))
        return err_none();
    struct intake *in = next_of(b);
    struct err err = look(b, in);
    if (err.code != ERR_OK) {
        refuse(b, in, embedded_met(b, &err));
    } else if (is_done(in)) {
        apply(b, in);
    } else {
        /* In turn, so that one of very many does not hold up the others. */
        list_unlink(&in->node);
        list_append(&b->intakes, &in->node);
    }
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
