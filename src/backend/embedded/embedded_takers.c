/* SPDX-License-Identifier: Apache-2.0 */

/* Streams and claims: who waits for jobs, and what the engine hands out to them. */

#include "backend/embedded/embedded.h"

#include <stdlib.h>

#include "backend/embedded/embedded_crew.h"
#include "backend/embedded/embedded_reach.h"
#include "base/alloc.h"
#include "base/mark.h"
#include "base/must.h"

static struct embedded *self(struct backend *b)
{
    return (struct embedded *)b;
}

/* Handed to a stream and not durable yet: with more it waits, for nobody knows whether its peer
 * reads them. */
#define STREAM_AHEAD_BYTES ((uint64_t)1 << 20)

/* --- what the engine hands out --- */

static void pause_taker(struct embedded *b, struct backend_stream *s)
{
    if (!s->taker)
        return;
    bool paused = s->paused || s->ahead || s->quiet;
    engine_taker_pause(b->engine, s->taker, paused);
    b->wake_needed |= !paused;
}

static void on_deliver(void *ctx, void *taker_ctx, const struct handout *h)
{
    struct embedded *b = ctx;
    struct backend_stream *s = taker_ctx;
    if (s->reach.count) {
        struct handout *shown = ARENA_NEW(&b->building->arena, struct handout);
        *shown = *h;
        embedded_reach_handouts(b, s->reach, shown, 1);
        h = shown;
    }
    struct effect *fx = embedded_effect_add(b);
    fx->stream = s;
    fx->handout = h; /* in the arena of this turn, as its effects */
    s->pending++;
    s->pending_bytes += handout_bytes(h);
    b->building->handed_out += handout_bytes(h);
    s->ahead = s->pending_bytes >= STREAM_AHEAD_BYTES;
    if (s->ahead)
        pause_taker(b, s);
}

/* The worker has one stream or claim less, if it was counted. */
static void uncount(struct embedded *b, struct str worker, bool counted, bool stream)
{
    struct worker *w = counted ? workers_find(&b->workers, worker) : NULL;
    if (!w)
        return;
    uint32_t *open = stream ? &w->streams : &w->claims;
    must(*open > 0);
    --*open;
    workers_heard(&b->workers, worker, b->now);
}

static struct id key_of(const struct backend_claim *c)
{
    return (struct id){0, c->key};
}

static void on_claim_reply(void *ctx, const struct reply *r)
{
    struct backend_claim *c = ctx;
    const struct reply nothing = {0};
    list_unlink(&c->node);
    if (c->key && idmap_get(&c->b->keyed_claims, key_of(c)) == c)
        idmap_remove(&c->b->keyed_claims, key_of(c));
    uncount(c->b, c->worker, c->counted, false);
    c->done(c->ctx, c->repeated && r->err.code == ERR_OK ? &nothing : r);
    free(c);
}

static void answer_claim(struct embedded *b, struct backend_claim *c, struct handout *h,
                         size_t count)
{
    embedded_reach_handouts(b, c->reach, h, count);
    struct reply *r = embedded_effect(b, on_claim_reply, c);
    r->count = count;
    r->handouts = h;
    for (size_t i = 0; i < count; i++)
        b->building->handed_out += handout_bytes(&h[i]);
}

static void on_claimed(void *ctx, void *taker_ctx, struct handout *h, size_t count)
{
    struct backend_claim *c = taker_ctx;
    c->taker = NULL;
    answer_claim(ctx, c, h, count);
}

struct engine_sink embedded_sink(struct embedded *b)
{
    return (struct engine_sink){.ctx = b,
                                .deliver = on_deliver,
                                .claimed = on_claimed,
                                .tick = embedded_fold_tick,
                                .members = embedded_workers_of};
}

/* --- streams and claims --- */

static void drop_stream_if_done(struct backend_stream *s)
{
    if (s->open || s->opening || s->pending)
        return;
    uncount(s->b, s->worker, s->counted, true);
    list_unlink(&s->node);
    free(s);
}

void embedded_stream_release(struct embedded *b, struct backend_stream *s,
                             const struct handout *handout, bool failed)
{
    if (s->open && !failed)
        s->deliver(s->ctx, handout);
    s->pending--; /* only now: the receiver may have closed the stream */
    s->pending_bytes -= handout_bytes(handout);
    if (s->ahead && s->pending_bytes < STREAM_AHEAD_BYTES) {
        s->ahead = false;
        pause_taker(b, s);
    }
    drop_stream_if_done(s);
}

static struct err stopping(void)
{
    return err_make(ERR_STOPPING, "the server is shutting down");
}

static struct err refuse_taker(const struct embedded *b)
{
    if (b->stopping)
        return stopping();
    if (b->clock.reset_done)
        return err_make(ERR_BUSY, "the clock is being set back; try again");
    return b->health == HEALTH_FAILED ? b->failure : err_none();
}

/* Opening stores nothing, so a commit that failed does not refuse it: the stream is closed then,
 * as are all. */
static void on_stream_opened(void *ctx, const struct reply *r)
{
    (void)r;
    struct backend_stream *s = ctx;
    bool told = s->open;
    s->open &= s->refused.code == ERR_OK;
    if (told)
        s->opened(s->ctx, &s->refused);
    s->opening = false; /* only now: the receiver may have closed the stream */
    drop_stream_if_done(s);
}

/* Behind the struct of `size` bytes that it belongs to. */
static struct str own_name(void *at, size_t size, struct str name)
{
    char *to = (char *)at + size;
    if (name.len)
        memcpy(to, name.at, name.len);
    return (struct str){to, name.len};
}

struct backend_stream *embedded_stream_open(struct backend *base, const struct stream_spec *spec)
{
    struct embedded *b = self(base);
    struct backend_stream *s = alloc_zero(sizeof *s + spec->worker.len);
    const struct worker_greeting greeting = {spec->worker, spec->node,   spec->address,
                                             spec->agent,  spec->queues, spec->queue_count};
    struct worker *w = workers_greet(&b->workers, &greeting, b->now);
    s->b = b;
    s->worker = own_name(s, sizeof *s, spec->worker);
    s->reach = spec->reach;
    s->counted = w != NULL;
    s->quiet = embedded_worker_is_quiet(b, spec->worker);
    if (w)
        w->streams++;
    struct taker_spec taker = {.queues = spec->queues,
                               .queue_count = spec->queue_count,
                               .limit = spec->prefetch,
                               .worker = spec->worker,
                               .node = spec->node};
    s->opened = spec->opened;
    s->deliver = spec->deliver;
    s->closed = spec->closed;
    s->ctx = spec->ctx;
    s->open = s->opening = true;
    list_init(&s->node);
    list_append(&b->streams, &s->node);
    s->refused = refuse_taker(b);
    embedded_effect(b, on_stream_opened, s);
    if (s->refused.code == ERR_OK)
        s->taker = engine_taker_open(b->engine, &taker, s);
    pause_taker(b, s);
    b->wake_needed = true;
    return s;
}

void embedded_stream_close(struct backend *base, struct backend_stream *s)
{
    struct embedded *b = self(base);
    must(s->open);
    embedded_refresh_now(b);
    s->open = false;
    struct taker *t = s->taker;
    s->taker = NULL;
    drop_stream_if_done(s);
    if (t)
        engine_taker_close(b->engine, b->now, t, TAKER_GONE);
}

void embedded_stream_pause(struct backend *base, struct backend_stream *s, bool paused)
{
    s->paused = paused;
    pause_taker(self(base), s);
}

/* True if the claim is answered: it repeats one that got jobs. One that still waits, perhaps for a
 * peer that is gone, would get jobs that nobody reads. */
static bool repeat_claim(struct embedded *b, struct backend_claim *c, span lease)
{
    struct backend_claim *first = idmap_get(&b->keyed_claims, key_of(c));
    struct handout *list;
    size_t count;
    if (!c->key)
        return false;
    idmap_put(&b->keyed_claims, key_of(c), c);
    if (first)
        first->repeated = true;
    if (first && first->taker)
        embedded_claim_cancel(&b->backend, first);
    struct err err =
        engine_claim_again(b->engine, b->now, c->key, lease, &b->building->arena, &list, &count);
    if (err.code != ERR_OK)
        embedded_effect(b, on_claim_reply, c)->err = err;
    else if (count)
        answer_claim(b, c, list, count);
    return err.code != ERR_OK || count;
}

struct backend_claim *embedded_claim(struct backend *base, const struct claim_spec *spec)
{
    struct embedded *b = self(base);
    embedded_refresh_now(b);
    struct backend_claim *c = alloc_zero(sizeof *c + spec->worker.len);
    const struct worker_greeting greeting = {spec->worker, spec->node,   spec->address,
                                             spec->agent,  spec->queues, spec->queue_count};
    struct worker *w = workers_greet(&b->workers, &greeting, b->now);
    bool quiet = embedded_worker_is_quiet(b, spec->worker);
    c->b = b;
    c->reach = spec->reach;
    c->worker = own_name(c, sizeof *c, spec->worker);
    c->counted = w != NULL;
    c->key = spec->key;
    if (w)
        w->claims++;
    c->done = spec->done;
    c->ctx = spec->ctx;
    list_init(&c->node);
    list_append(&b->claims, &c->node);
    struct err refused = refuse_taker(b);
    /* Without room for the lease's record nothing is handed out, and so nobody
     * would answer the claim either. */
    if (refused.code == ERR_OK)
        refused = embedded_refuse_to_store(b, CMD_RENEW);
    if (refused.code != ERR_OK) {
        embedded_effect(b, on_claim_reply, c)->err = refused;
        return c;
    }
    b->wake_needed = true;
    if (repeat_claim(b, c, spec->lease))
        return c;
    struct taker_spec taker = {.queues = quiet ? &embedded_nowhere : spec->queues,
                               .queue_count = quiet ? 1 : spec->queue_count,
                               .limit = spec->count,
                               .worker = spec->worker,
                               .node = spec->node,
                               .claim = true,
                               .kind = spec->kind,
                               .lease = spec->lease,
                               .max_run = spec->max_run,
                               .key = spec->key,
                               .wait_end = instant_add(b->now, spec->wait)};
    c->taker = engine_taker_open(b->engine, &taker, c);
    return c;
}

void embedded_claim_job(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    const struct job_claim *claim = &c->claim_job;
    const struct worker_greeting greeting = {.name = claim->worker, .node = claim->node};
    if (embedded_worker_is_quiet(b, claim->worker)) {
        r->err = err_make(ERR_CONFLICT, "the worker '%.*s' is quiet: it is given nothing more",
                          STR_ARG(claim->worker));
        return;
    }
    if (!workers_find(&b->workers, claim->worker))
        (void)workers_greet(&b->workers, &greeting, b->now);
    workers_heard(&b->workers, claim->worker, b->now);
    r->handouts = arena_get(a, sizeof *r->handouts);
    r->err = engine_claim_job(b->engine, b->now, &c->claim_job, a, r->handouts, &r->repeated);
    r->count = r->err.code == ERR_OK;
}

void embedded_claim_cancel(struct backend *base, struct backend_claim *c)
{
    struct embedded *b = self(base);
    if (!c->taker)
        return;
    embedded_refresh_now(b);
    engine_taker_close(b->engine, b->now, c->taker, TAKER_GONE);
    c->taker = NULL;
    embedded_effect(b, on_claim_reply, c);
}

/* --- quiet workers --- */

/* A claim is asked again by its worker, and then waits where nothing comes, or no longer does. */
void embedded_takers_hushed(struct embedded *b, struct str worker, bool quiet)
{
    LIST_EACH (n, &b->streams) {
        struct backend_stream *s = LIST_OF(n, struct backend_stream, node);
        if (!str_eq(mark_bare(s->worker), worker))
            continue;
        s->quiet = quiet;
        pause_taker(b, s);
    }
    LIST_EACH (n, &b->claims) {
        struct backend_claim *c = LIST_OF(n, struct backend_claim, node);
        if (c->taker && str_eq(mark_bare(c->worker), worker))
            embedded_claim_cancel(&b->backend, c);
    }
}

struct ending {
    struct embedded *b;
    struct str worker;
};

static struct backend_stream *find_stream(struct embedded *b, struct str worker)
{
    LIST_EACH (n, &b->streams) {
        struct backend_stream *s = LIST_OF(n, struct backend_stream, node);
        if (s->open && !s->opening && str_eq(mark_bare(s->worker), worker))
            return s;
    }
    return NULL;
}

/* The receiver may close others. */
static void on_ending(void *ctx, const struct reply *r)
{
    const struct ending *e = ctx;
    struct backend_stream *s;
    while (r->err.code == ERR_OK && (s = find_stream(e->b, e->worker))) {
        struct taker *t = s->taker;
        s->taker = NULL;
        s->open = false;
        s->closed(s->ctx);
        drop_stream_if_done(s);
        if (t)
            engine_taker_close(e->b->engine, e->b->now, t, TAKER_GONE);
    }
}

void embedded_takers_end(struct embedded *b, struct str worker)
{
    struct arena *a = &b->building->arena;
    struct ending *e = ARENA_NEW(a, struct ending);
    *e = (struct ending){b, arena_copy(a, worker)};
    embedded_effect(b, on_ending, e);
}

/* --- the end of some or all --- */

/* The claims are yet to be answered. */
static void close_claim_takers(struct embedded *b)
{
    LIST_EACH (n, &b->claims) {
        struct backend_claim *c = LIST_OF(n, struct backend_claim, node);
        if (c->taker)
            engine_taker_close(b->engine, b->now, c->taker, TAKER_STOPPED);
    }
}

/* Answers all claims that still wait. Their takers are gone or the caller's. */
static void answer_claims(struct embedded *b, const struct err *why)
{
    LIST_EACH (n, &b->claims) {
        struct backend_claim *c = LIST_OF(n, struct backend_claim, node);
        if (!c->taker)
            continue;
        c->taker = NULL;
        struct reply *r = embedded_effect(b, on_claim_reply, c);
        if (why)
            r->err = *why;
    }
}

/* Their takers are gone: whoever closes or pauses one from inside a callback must not
 * reach for it. */
static void forget_stream_takers(struct embedded *b)
{
    LIST_EACH (n, &b->streams)
        LIST_OF(n, struct backend_stream, node)->taker = NULL;
}

void embedded_streams_refuse(struct embedded *b, const struct err *why)
{
    LIST_EACH (n, &b->streams) {
        struct backend_stream *s = LIST_OF(n, struct backend_stream, node);
        if (s->opening && s->refused.code == ERR_OK)
            s->refused = *why;
    }
}

/* One at a time from a list of their own, since the receiver may close others. */
void embedded_streams_end(struct embedded *b)
{
    struct list open;
    list_init(&open);
    while (!list_is_empty(&b->streams)) {
        struct list *n = b->streams.next;
        list_unlink(n);
        list_append(&open, n);
    }
    while (!list_is_empty(&open)) {
        struct backend_stream *s = LIST_OF(open.next, struct backend_stream, node);
        list_unlink(&s->node);
        list_append(&b->streams, &s->node);
        if (s->opening && b->stopping)
            s->refused = stopping(); /* which it is told instead */
        if (!s->open || s->opening)
            continue;
        s->open = false;
        s->closed(s->ctx);
        drop_stream_if_done(s);
    }
}

void embedded_claims_refuse(struct embedded *b, const struct err *why)
{
    close_claim_takers(b);
    answer_claims(b, why);
}

void embedded_takers_forget(struct embedded *b, const struct err *why)
{
    answer_claims(b, why);
    forget_stream_takers(b);
}

void embedded_stop(struct backend *base)
{
    struct embedded *b = self(base);
    if (b->stopping)
        return;
    b->stopping = true;
    embedded_refresh_now(b);
    close_claim_takers(b);
    LIST_EACH (n, &b->streams) {
        struct backend_stream *s = LIST_OF(n, struct backend_stream, node);
        if (s->taker)
            engine_taker_close(b->engine, b->now, s->taker, TAKER_STOPPED);
    }
    embedded_takers_forget(b, NULL);
    embedded_streams_end(b);
}

void embedded_takers_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->streams)) {
        struct backend_stream *s = LIST_OF(b->streams.next, struct backend_stream, node);
        list_unlink(&s->node);
        free(s);
    }
    while (!list_is_empty(&b->claims)) {
        struct backend_claim *c = LIST_OF(b->claims.next, struct backend_claim, node);
        list_unlink(&c->node);
        free(c);
    }
    idmap_fini(&b->keyed_claims);
}
