/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues that may be repeated (core/idempotency.h). What one was answered is an entry beside
 * those of front ends, in the batch that adds its jobs: either both are there after a crash or
 * neither. It is looked for when a request comes, before anything could refuse it, and again when
 * one that took several turns is about to be applied, because the same request may have come a
 * second time meanwhile. */

#include <string.h>

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"

#define SPACE STR("idempotency-keys")

static bool is_on(const struct embedded *b, const struct idempotency *once)
{
    return once && b->settings.idempotency_retention.ms > 0;
}

static struct err key_reused(void)
{
    return err_make(ERR_KEY_REUSED, "this Idempotency-Key was sent with another request, on "
                                    "another path or with another body; use a new key");
}

/* Reads the answer of the first time; *found is false if there was none. */
static struct err find(struct embedded *b, const struct idempotency *once, struct reply *r,
                       bool *found)
{
    struct arena *a = &b->building->arena;
    struct record_answer answer;
    struct kv_entry e;
    TRY(embedded_kv_load(b, SPACE, once->key, a, &e));
    *found = e.version > 0;
    if (!*found)
        return err_none();
    TRY(record_read_answer(e.value, a, &answer));
    if (memcmp(answer.request, once->request, sizeof answer.request) != 0)
        return key_reused();
    r->enqueued = arena_get(a, answer.count * sizeof *r->enqueued + 1);
    memcpy(r->enqueued, answer.jobs, answer.count * sizeof *r->enqueued);
    r->count = answer.count;
    r->repeated = true;
    return err_none();
}

bool embedded_idempotency_answer(struct embedded *b, const struct idempotency *once, reply_fn done,
                                 void *ctx)
{
    if (!is_on(b, once))
        return false;
    struct reply r = {0};
    bool found = false;
    size_t before = arena_used(&b->building->arena);
    struct err err = find(b, once, &r, &found);
    b->gathered += arena_used(&b->building->arena) - before;
    if (err.code == ERR_OK && !found)
        return false;
    struct reply *to = embedded_effect(b, done, ctx);
    *to = r;
    to->err = err.code == ERR_OK ? err : embedded_met(b, &err);
    return true;
}

void embedded_idempotency_keep(struct embedded *b, const struct idempotency *once,
                               const struct reply *r)
{
    if (!is_on(b, once))
        return;
    struct arena scratch = {0};
    struct record_answer answer = {.jobs = r->enqueued, .count = r->count};
    memcpy(answer.request, once->request, sizeof answer.request);
    struct kv_entry e = {.space = SPACE,
                         .key = once->key,
                         .value = record_write_answer(&answer, &scratch),
                         .expires = instant_add(b->now, b->settings.idempotency_retention)};
    must(!r->repeated);
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
