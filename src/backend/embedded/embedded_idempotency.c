/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues that may be repeated (core/idempotency.h). What one was answered is an entry beside
 * those of front ends, in the batch that adds its jobs: either both are there after a crash or
 * neither. It is looked for when a request comes, before anything could refuse it that has changed
 * since the first time, and again when one that took several turns is about to be applied, because
 * the same request may have come a second time meanwhile. A retention that is shorter by now, or 0,
 * does not matter: each answer is kept for as long as was said when it was given.
 *
 * Of old answers little more than the ids of the jobs is kept (embedded_answers.c). The rest is
 * made of the request, which is the same, as its digest proves: that gives a job that was added as
 * it was then. One that was there before, or had to wait for others, is read again. */

#include <string.h>

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"
#include "core/depend.h"
#include "core/job_fields.h"

/* Jobs of one answer that are read again, which takes some milliseconds. */
#define READ_AGAIN_MAX 1000

static struct err key_reused(void)
{
    return err_make(ERR_KEY_REUSED, "this Idempotency-Key was sent with another request, on "
                                    "another path or with another body; use a new key");
}

/* --- a brief answer and its request --- */

/* Those of the same request have ids by now. */
static struct str depends_of(const struct enqueue *spec, const struct record_answer *answer,
                             struct arena *a)
{
    struct str own = spec->options.depends_on, ids = depend_new(a, depend_count(own));
    uint32_t index;
    for (size_t i = 0; i < depend_count(own); i++) {
        struct id id = depend_at(own, i);
        bool earlier = depend_is_earlier(id, &index) && index < answer->count;
        depend_add(&ids, earlier ? answer->jobs[index].job.id : id);
    }
    return ids;
}

static void own_names(struct arena *a, struct job *job)
{
    job->payload = (struct str){0};
    job->queue = arena_copy(a, job->queue);
    job->type = arena_copy(a, job->type);
    job->unique_key = arena_copy(a, job->unique_key);
    job->batch.key = arena_copy(a, job->batch.key);
    job->batch.when = arena_copy(a, job->batch.when);
    job->batch.fold = arena_copy(a, job->batch.fold);
    job->options = job_options_copy(a, &job->options);
}

/* The job as the request says, with what was kept of it. */
static void make_of_request(const struct enqueue *spec, const struct record_answer *answer,
                            size_t i, struct arena *a, struct enqueued *out)
{
    const struct job *kept = &answer->jobs[i].job;
    struct job *job = &out->job;
    *out = answer->jobs[i];
    engine_job_of(spec, kept->id, kept->state.ready_at, kept->state.status, job);
    own_names(a, job);
    job->options.depends_on = depends_of(spec, answer, a);
    if (job->state.status == STATUS_BLOCKED)
        job->state.extras.waits_for = job->options.depends_on;
}

/* It may lie in another queue by now, one that the sender may not see. */
static struct err read_again(struct embedded *b, const struct command *c, struct arena *a,
                             struct enqueued *out)
{
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(b->engine, b->now, out->job.id, false, a, &job, &extent);
    out->as_requested = err.code != ERR_OK || !glob_list_matches(c->reach, job.queue);
    if (!out->as_requested)
        out->job = job;
    bool gone = err.code == ERR_NOT_FOUND || embedded_is_apart(b, out->job.id);
    return gone ? err_none() : err;
}

static struct err complete(struct embedded *b, const struct command *c,
                           const struct record_answer *answer, struct enqueued *out)
{
    struct arena *a = &b->building->arena;
    size_t read = 0;
    if (answer->count != c->enqueue.count)
        return err_make(ERR_CORRUPT, "an answer of %zu jobs is kept of a request with %zu",
                        answer->count, c->enqueue.count);
    for (size_t i = 0; i < answer->count; i++) {
        make_of_request(&c->enqueue.specs[i], answer, i, a, &out[i]);
        enum status s = out[i].job.state.status;
        if (!out[i].duplicate && !out[i].folded && (s == STATUS_READY || s == STATUS_SCHEDULED))
            continue;
        out[i].as_requested = true;
        if (read++ < READ_AGAIN_MAX)
            TRY(read_again(b, c, a, &out[i]));
    }
    return err_none();
}

/* Reads the answer of the first time; *found is false if there was none. */
static struct err find(struct embedded *b, const struct command *c, struct reply *r, bool *found)
{
    const struct idempotency *once = c->enqueue.once;
    struct arena *a = &b->building->arena;
    struct record_answer answer;
    struct kv_entry e;
    TRY(embedded_kv_load(b, EMBEDDED_ANSWERS, once->key, a, &e));
    *found = e.version > 0;
    if (!*found)
        return err_none();
    TRY(record_read_answer(e.value, a, &answer));
    if (memcmp(answer.request, once->request, sizeof answer.request) != 0)
        return key_reused();
    r->enqueued = arena_get(a, answer.count * sizeof *r->enqueued + 1);
    r->count = answer.count;
    r->repeated = true;
    if (answer.brief)
        return complete(b, c, &answer, r->enqueued);
    memcpy(r->enqueued, answer.jobs, answer.count * sizeof *r->enqueued);
    return err_none();
}

bool embedded_idempotency_answer(struct embedded *b, const struct command *c)
{
    if (!c->enqueue.once)
        return false;
    struct reply r = {0};
    bool found = false;
    size_t before = arena_used(&b->building->arena);
    struct err err = find(b, c, &r, &found);
    b->gathered += arena_used(&b->building->arena) - before;
    if (err.code == ERR_OK && !found)
        return false;
    struct reply *to = embedded_effect(b, c->done, c->ctx);
    *to = r;
    to->err = err.code == ERR_OK ? err : embedded_met(b, &err);
    return true;
}

void embedded_idempotency_keep(struct embedded *b, const struct idempotency *once,
                               const struct reply *r)
{
    if (!once || b->settings.idempotency_retention.ms <= 0)
        return;
    struct arena scratch = {0};
    struct record_answer answer = {.jobs = r->enqueued, .count = r->count};
    memcpy(answer.request, once->request, sizeof answer.request);
    struct kv_entry e = {.space = EMBEDDED_ANSWERS,
                         .key = once->key,
                         .value = record_write_answer(&answer, &scratch),
                         .expires = instant_add(b->now, b->settings.idempotency_retention)};
    must(!r->repeated);
    embedded_answers_fit(b, &e, &scratch);
    embedded_kv_keep(b, &e);
    arena_fini(&scratch);
}

const struct idempotency *embedded_idempotency_own(struct arena *a, const struct idempotency *once)
{
    if (!once)
        return NULL;
    struct idempotency *own = ARENA_NEW(a, struct idempotency);
    *own = *once;
    own->key = arena_copy(a, once->key);
    return own;
}
