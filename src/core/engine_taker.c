/* SPDX-License-Identifier: Apache-2.0 */

/* Takers: streams and claims that are opened, wait, and are closed. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* Runs of closed streams that are ended in one turn: some milliseconds. */
#define LOSSES_MAX 1000

/* --- states of takers --- */

void engine_taker_idle(struct engine *e, struct taker *t)
{
    list_unlink(&t->pending);
    if (t->state == TAKER_WAITING) {
        for (size_t i = 0; i < t->sub_count; i++)
            list_unlink(&t->subs[i].node);
    }
    if (t->wait_armed) {
        engine_deadline_remove(e, t->wait_end, (struct id){0, t->ticket});
        must(idmap_remove(&e->waits, (struct id){0, t->ticket}) == t);
        t->wait_armed = false;
    }
    t->state = TAKER_IDLE;
}

bool engine_taker_has_room(const struct taker *t)
{
    return !t->paused && t->held_count + t->got_count < t->limit;
}

void engine_taker_pending(struct engine *e, struct taker *t)
{
    if (t->state != TAKER_IDLE || !engine_taker_has_room(t))
        return;
    t->state = TAKER_PENDING;
    list_append(&e->pending, &t->pending);
}

/* A claim waits for as long as it said, whatever for. */
void engine_taker_arm(struct engine *e, struct taker *t)
{
    t->ticket = ++e->tickets;
    if (!t->claim)
        return;
    struct id key = {0, t->ticket};
    engine_deadline_add(e, t->wait_end, key, DUE_VAL(DUE_WAIT, 0, 0, 0));
    idmap_put(&e->waits, key, t);
    t->wait_armed = true;
}

static void become_waiting(struct engine *e, struct taker *t)
{
    engine_taker_idle(e, t);
    t->state = TAKER_WAITING;
    engine_taker_arm(e, t);
    for (size_t i = 0; i < t->sub_count; i++) {
        struct sub *s = &t->subs[i];
        list_append(s->queue ? &s->queue->waiters[t->kind] : &e->all_waiters[t->kind], &s->node);
    }
}

uint32_t engine_taker_room(const struct taker *t)
{
    return engine_taker_has_room(t) ? t->limit - t->held_count - t->got_count : 0;
}

static void free_taker(struct engine *e, struct taker *t)
{
    engine_taker_idle(e, t);
    list_unlink(&t->all);
    list_unlink(&t->gone);
    for (size_t i = 0; i < t->sub_count; i++) {
        struct queue *q = t->subs[i].queue;
        list_unlink(&t->subs[i].all);
        if (!q)
            continue;
        q->subs--;
        engine_queue_drop_if_unused(e, q);
    }
    engine_worker_unref(e, t->worker);
    engine_worker_unref(e, t->node);
    free(t);
}

void engine_claim_answer(struct engine *e, struct taker *t)
{
    e->sink.claimed(e->sink.ctx, t->ctx, t->got, t->got_count);
    free_taker(e, t);
}

void engine_taker_rest(struct engine *e, instant now, struct taker *t)
{
    bool full = !engine_taker_has_room(t);
    if (t->claim && (full || t->got_count > 0 || t->wait_end.ms <= now.ms))
        engine_claim_answer(e, t);
    else if (!full)
        become_waiting(e, t);
}

void engine_taker_settle(struct engine *e, instant now, struct taker *t)
{
    engine_taker_idle(e, t);
    if (engine_taker_has_room(t))
        engine_taker_pending(e, t);
    else
        engine_taker_rest(e, now, t);
}

/* --- opening and closing --- */

struct taker *engine_taker_open(struct engine *e, const struct taker_spec *spec, void *taker_ctx)
{
    must(spec->limit > 0);
    size_t n = spec->queue_count ? spec->queue_count : 1;
    struct taker *t = alloc_zero(sizeof *t + n * sizeof(struct sub));
    t->ctx = taker_ctx;
    t->claim = spec->claim;
    t->kind = spec->kind;
    t->limit = spec->limit;
    t->lease = spec->lease;
    t->max_run = spec->max_run;
    t->key = spec->key;
    t->wait_end = spec->wait_end;
    t->worker = engine_worker_ref(e, spec->worker);
    t->node = engine_worker_ref(e, spec->node);
    t->sub_count = n;
    list_init(&t->pending);
    list_init(&t->held);
    list_init(&t->all);
    list_init(&t->gone);
    list_append(&e->takers, &t->all);
    for (size_t i = 0; i < n; i++) {
        struct sub *s = &t->subs[i];
        s->taker = t;
        list_init(&s->node);
        if (spec->queue_count) {
            s->queue = engine_queue_get(e, spec->queues[i]);
            s->queue->subs++;
        }
        list_init(&s->all);
        list_append(s->queue ? &s->queue->takers : &e->any_takers, &s->all);
    }
    engine_taker_pending(e, t);
    engine_gangs_room(e, t);
    return t;
}

/* How many runs of closed streams are ended in one turn. */
static size_t losses_max(const struct engine *e)
{
    return e->settings.hand_out_max ? e->settings.hand_out_max : LOSSES_MAX;
}

/* Ends runs of a closed stream, and frees it with the last of them. */
static void lose(struct engine *e, instant now, struct taker *t, size_t *most)
{
    for (; *most > 0 && !list_is_empty(&t->held); --*most)
        engine_lose(e, now, LIST_OF(t->held.next, struct live, held));
    if (list_is_empty(&t->held))
        free_taker(e, t);
}

void engine_taker_close(struct engine *e, instant now, struct taker *t, enum taker_end why)
{
    t->paused = true; /* so that ending its runs does not make it pending */
    engine_taker_idle(e, t);
    if (why == TAKER_GONE) {
        size_t most = losses_max(e);
        list_append(&e->gone, &t->gone);
        lose(e, now, t, &most);
        return;
    }
    while (!list_is_empty(&t->held))
        engine_return(e, now, LIST_OF(t->held.next, struct live, held), OUTCOME_LOST,
                      CULPRIT_SERVER, "the server stopped while a worker held it");
    free_taker(e, t);
}

bool engine_takers_lose(struct engine *e, instant now)
{
    size_t most = losses_max(e);
    while (most > 0 && !list_is_empty(&e->gone))
        lose(e, now, LIST_OF(e->gone.next, struct taker, gone), &most);
    return !list_is_empty(&e->gone);
}

void engine_taker_pause(struct engine *e, struct taker *t, bool paused)
{
    if (t->paused == paused)
        return;
    t->paused = paused;
    if (paused) {
        engine_taker_idle(e, t);
        return;
    }
    engine_taker_pending(e, t);
    engine_gangs_room(e, t);
}

void engine_wait_over(struct engine *e, uint64_t ticket)
{
    struct taker *t = idmap_remove(&e->waits, (struct id){0, ticket});
    must(t && t->claim && t->state != TAKER_IDLE && t->got_count == 0);
    t->wait_armed = false; /* the deadline is gone: it has just fired */
    engine_claim_answer(e, t);
}

void engine_takers_free(struct engine *e)
{
    while (!list_is_empty(&e->takers)) {
        struct taker *t = LIST_OF(e->takers.next, struct taker, all);
        list_unlink(&t->all);
        engine_worker_unref(e, t->worker);
        engine_worker_unref(e, t->node);
        free(t);
    }
}
