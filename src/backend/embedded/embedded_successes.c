/* SPDX-License-Identifier: Apache-2.0 */

/* Reports of very many successes at once: some in each turn. They are not atomic; the answer comes
 * when the last is durable. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/must.h"

/* In one turn, of all such reports together: some milliseconds. */
#define SLICE 2000

struct successes {
    struct list node;
    struct arena arena;
    struct id *ids, *failed; /* failed: those that were not in flight */
    size_t count, at, failed_count;
    reply_fn done;
    void *ctx;
};

static void report(struct embedded *b, struct successes *s, struct err *err)
{
    struct id id = s->ids[s->at++];
    *err = engine_succeed(b->engine, b->now, (struct run_ref){.id = id});
    if (err->code != ERR_NOT_FOUND && err->code != ERR_NOT_IN_FLIGHT)
        return;
    s->failed[s->failed_count++] = id;
    *err = err_none();
}

static void leave(struct successes *s)
{
    list_unlink(&s->node);
    arena_fini(&s->arena);
    free(s);
}

static void answer(struct embedded *b, struct successes *s, struct err err)
{
    struct reply *r = embedded_effect(b, s->done, s->ctx);
    r->err = err;
    r->count = s->failed_count;
    r->ids = arena_get(&b->building->arena, s->failed_count * sizeof *r->ids + 1);
    if (s->failed_count)
        memcpy(r->ids, s->failed, s->failed_count * sizeof *r->ids);
    leave(s);
}

/* True if it was answered. */
static bool go_on(struct embedded *b, struct successes *s, size_t most)
{
    struct err err = embedded_refuse_to_store(b, CMD_SUCCEED_MANY);
    while (err.code == ERR_OK && s->at < s->count && most-- > 0)
        report(b, s, &err);
    if (err.code == ERR_OK && s->at < s->count)
        return false;
    answer(b, s, err);
    return true;
}

void embedded_succeed_many(struct embedded *b, const struct command *c, struct reply *r)
{
    must(!r);
    struct successes *s = ALLOC(struct successes);
    s->count = c->succeed_many.count;
    s->done = c->done;
    s->ctx = c->ctx;
    s->ids = arena_get(&s->arena, s->count * sizeof *s->ids + 1);
    s->failed = arena_get(&s->arena, s->count * sizeof *s->failed + 1);
    if (s->count)
        memcpy(s->ids, c->succeed_many.ids, s->count * sizeof *s->ids);
    list_init(&s->node);
    if (!go_on(b, s, SLICE))
        list_append(&b->successes, &s->node);
}

void embedded_successes_step(struct embedded *b)
{
    if (list_is_empty(&b->successes))
        return;
    struct successes *s = LIST_OF(b->successes.next, struct successes, node);
    /* In turn, so that a long one does not hold up the others. */
    list_unlink(&s->node);
    if (!go_on(b, s, SLICE))
        list_append(&b->successes, &s->node);
}

void embedded_successes_abort_all(struct embedded *b, const struct err *why)
{
    while (!list_is_empty(&b->successes))
        answer(b, LIST_OF(b->successes.next, struct successes, node), *why);
}

void embedded_successes_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->successes))
        leave(LIST_OF(b->successes.next, struct successes, node));
}
