/* SPDX-License-Identifier: Apache-2.0 */

/* The world of two tenants: one clock, one disk, one server. Who acts when, how time passes and
 * when the server starts again is drawn apart from what they do, so that it is the same whether
 * one of them is there or not. */

#include "tenants.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "fake_http.h"
#include "trace.h"

#define TURNS_MAX   2000
#define WAITING_MAX 3
#define STREAMS_MAX 2
/* Seldom many, so that they cost little. */
#define STEPS_MAX 150

struct world {
    struct rng rng; /* of what is neither's */
    instant now;
    struct store *disk;
    struct backend_settings settings;
    struct backend *backend;
    struct tokens *tokens;
    struct identities *identities;
    struct holders *holders;
    struct api *api;
    struct router *router;
    uv_loop_t loop;
    uv_idle_t alive;  /* the handles of the api alone would not keep the loop going */
    struct list asks; /* without an answer */
    struct tenant a, b;
};

struct ask {
    struct list node;
    struct world *w;
    struct tenant *of;
    size_t number;
    bool stream;
    size_t read; /* of what came over it */
    struct http_exchange *x;
};

static bool chance(struct world *w, unsigned percent)
{
    return rng_below(&w->rng, 100) < percent;
}

static instant clock_now(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static int64_t clock_ticks(void *ctx)
{
    return ((struct world *)ctx)->now.ms * 1000;
}

/* --- the life of the server --- */

static void on_idle(uv_idle_t *h)
{
    (void)h;
}

static void boot(struct world *w)
{
    const struct env env = {.now = clock_now,
                            .ticks = clock_ticks,
                            .boot = 1,
                            .ctx = w,
                            .rng = rng_from_seed(rng_next(&w->rng)),
                            .store = w->disk};
    const struct identities_settings who = {.tokens = w->tokens, .seed = 1};
    struct err err = embedded_new(&w->settings, &env, &w->backend);
    PROMISE(err.code == ERR_OK, "I2", "recovery failed: %s", err.msg);
    must(uv_loop_init(&w->loop) == 0 && uv_idle_init(&w->loop, &w->alive) == 0);
    uv_idle_start(&w->alive, on_idle);
    w->identities = identities_new(&who);
    w->holders = holders_new();
    const struct api_settings settings = {.tokens = w->tokens,
                                          .identities = w->identities,
                                          .holders = w->holders,
                                          .loop = &w->loop,
                                          .now = clock_now,
                                          .now_ctx = w};
    w->api = api_new(w->backend, &settings);
    w->router = router_new();
    router_mount(w->router, api_front_end(w->api));
}

static void drop(struct ask *a)
{
    list_unlink(&a->node);
    --*(a->stream ? &a->of->streams : &a->of->waiting);
    free(a);
}

static void close_handle(uv_handle_t *h, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

/* What has come over its streams since it last looked. */
static void read_streams(struct world *w, struct tenant *t)
{
    LIST_EACH (node, &w->asks) {
        struct ask *a = LIST_OF(node, struct ask, node);
        struct str sent = a->stream && a->of == t ? fake_sent(a->x) : (struct str){0};
        struct buf line = {0};
        if (sent.len == a->read || !a->stream || a->of != t)
            continue;
        buf_print(&line, "what came over the stream of request %zu", a->number);
        tenants_note_request(t, buf_view(&line));
        tenants_keep_answer(t, t->asked - 1, 200,
                            (struct str){sent.at + a->read, sent.len - a->read});
        trace_line("%.*s", STR_ARG(t->answers[t->asked - 1]));
        a->read = sent.len;
        buf_fini(&line);
    }
}

static void leave(struct ask *a)
{
    struct http_exchange *x = a->x;
    fake_leave(x);
    fake_step(x);
}

/* The oldest stream of the tenant, or of anybody. */
static struct ask *some_stream(struct world *w, const struct tenant *t)
{
    LIST_EACH (node, &w->asks) {
        struct ask *a = LIST_OF(node, struct ask, node);
        if (a->stream && (!t || a->of == t))
            return a;
    }
    return NULL;
}

static void down(struct world *w)
{
    for (struct ask *a = some_stream(w, NULL); a; a = some_stream(w, NULL))
        leave(a);
    api_stop(w->api);
    backend_free(w->backend);
    while (!list_is_empty(&w->asks)) {
        struct ask *a = LIST_OF(w->asks.next, struct ask, node);
        tenants_keep_loss(a->of, a->number);
        fake_forget(a->x);
        drop(a);
    }
    uv_walk(&w->loop, close_handle, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&w->loop) == 0);
    router_free(w->router);
    api_free(w->api);
    identities_free(w->identities);
    holders_free(w->holders);
}

static void turn(struct world *w)
{
    struct err err = backend_turn(w->backend);
    PROMISE(err.code == ERR_OK, "I5", "a turn failed: %s", err.msg);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* Until nothing is left to do but to wait. */
static void settle(struct world *w)
{
    turn(w);
    for (unsigned n = 0; !backend_is_idle(w->backend); n++) {
        PROMISE(n < TURNS_MAX, "I5", "the loop spins");
        turn(w);
    }
}

static void pass(struct world *w, span d)
{
    instant until = instant_add(w->now, d), at;
    for (unsigned stuck = 0;
         stuck < 20 && backend_next_due(w->backend, &at) && at.ms <= until.ms;) {
        stuck = at.ms > w->now.ms ? 0 : stuck + 1;
        w->now = instant_max(w->now, at);
        settle(w);
    }
    w->now = until;
    settle(w);
}

/* --- requests --- */

static void answered(void *ctx, int status, struct str body)
{
    struct ask *a = ctx;
    tenants_keep_answer(a->of, a->number, status, body);
    trace_line("%.*s", STR_ARG(a->of->answers[a->number]));
    drop(a);
}

static bool is_open(const struct world *w, const struct tenant *t, size_t number)
{
    LIST_EACH (node, &w->asks) {
        const struct ask *a = LIST_OF(node, struct ask, node);
        if (a->of == t && a->number == number)
            return true;
    }
    return false;
}

static void ask(struct world *w, struct tenant *t, const struct tenant_request *r)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",     [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
        [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE", [HTTP_HEAD] = "HEAD"};
    struct ask *a = ALLOC(struct ask);
    const struct fake_request asked = {.method = r->method,
                                       .target = r->target,
                                       .body = r->body,
                                       .authorization = str_from(t->authorization),
                                       .idempotency_key = r->key};
    struct buf line = {0};
    *a = (struct ask){.w = w, .of = t, .number = t->asked, .stream = r->stream};
    buf_print(&line, "%zu %s %.*s %.*s", t->asked, names[r->method], STR_ARG(r->target),
              STR_ARG(r->body));
    tenants_note_request(t, buf_view(&line));
    buf_fini(&line);
    list_init(&a->node);
    list_append(&w->asks, &a->node);
    ++*(r->stream ? &t->streams : &t->waiting);
    fake_ask(w->router, &asked, answered, a, &a->x);
    settle(w);
    for (unsigned n = 0; !r->waits && is_open(w, t, t->asked - 1); n++) {
        PROMISE(n < TURNS_MAX, "REPLY", "a request is not answered: %.*s",
                STR_ARG(t->answers[t->asked - 1]));
        if (n > 2)
            uv_sleep(1); /* streams of events make room for others, by the real clock */
        turn(w);
    }
}

static void act(struct world *w, struct tenant *t)
{
    struct tenant_request r;
    read_streams(w, t);
    if (t->streams && rng_below(&t->rng, 8) == 0) {
        leave(some_stream(w, t));
        settle(w);
        return;
    }
    r = tenants_some_request(t);
    if (!r.waits || (r.stream ? t->streams < STREAMS_MAX : t->waiting < WAITING_MAX))
        ask(w, t, &r);
}

/* --- two runs --- */

static void tenant_begin(struct world *w, struct tenant *t, char letter, uint64_t seed)
{
    char pattern[] = {letter, '-', '*', '\0'}, text[TOKEN_TEXT_LEN];
    const struct str queues = str_from(pattern);
    const struct token_spec spec = {.roles = 1u << ROLE_PRODUCER | 1u << ROLE_WORKER |
                                             1u << ROLE_OPERATOR,
                                    .queues = &queues,
                                    .queue_count = 1,
                                    .created = w->now,
                                    .expires = INSTANT_NONE};
    struct token *token;
    struct err err = token_new(&spec, &token, text);
    must(err.code == ERR_OK);
    tokens_add(w->tokens, token);
    *t = (struct tenant){.letter = letter, .rng = rng_from_seed(seed)};
    snprintf(t->authorization, sizeof t->authorization, "Bearer %.*s", TOKEN_TEXT_LEN, text);
}

/* Without an admin nobody needs a token. */
static void add_admin(struct world *w)
{
    char text[TOKEN_TEXT_LEN];
    const struct token_spec spec = {
        .roles = 1u << ROLE_ADMIN, .created = w->now, .expires = INSTANT_NONE};
    struct token *token;
    struct err err = token_new(&spec, &token, text);
    must(err.code == ERR_OK);
    tokens_add(w->tokens, token);
}

static void begin(struct world *w, uint64_t seed)
{
    *w = (struct world){.rng = rng_from_seed(seed ^ 0x7e4a47), .now = {1700000000000}};
    /* What is limited for the server as a whole is so large that nobody meets it; and chance in a
     * backoff would be another for each of the runs. */
    w->settings = (struct backend_settings){
        .engine = {.retry = {.limit = 3,
                             .backoff = {.shape = CURVE_POWER, .base = {5000}, .exponent = 2}},
                   .completed_retention = {chance(w, 50) ? 0 : 60 * 1000},
                   .dead_retention = {86400 * 1000},
                   .retries_share = 50},
        .sync = true,
        .event_retention = {86400 * 1000},
        .event_max_bytes = UINT64_MAX / 2,
        .failure_history = 1000,
        .failure_groups_max = 1000,
        .failure_group_retention = {24 * 3600000},
        .idempotency_retention = {3600000},
        .idempotency_bytes = chance(w, 50) ? 0 : 1 << 20,
        .undo_max = {3600000},
        .undo_max_bytes = 1 << 20,
        .metrics_queues = 100,
        .clock_jump_limit = {INT64_C(86400) * 1000 * 365},
        .lease_grace = {chance(w, 50) ? 0 : 10000}};
    list_init(&w->asks);
    w->disk = disk_new(seed, true);
    w->tokens = tokens_new();
    add_admin(w);
    tenant_begin(w, &w->a, 'a', seed ^ 0xa);
    tenant_begin(w, &w->b, 'b', seed ^ 0xb);
    w->a.tries = &w->b;
    boot(w);
    settle(w);
}

static void tenant_end(struct tenant *t)
{
    strmap_fini(&t->met);
    arena_fini(&t->arena);
}

static void restart(struct world *w)
{
    trace_line("restart");
    disk_crash(w->disk, true, false);
    down(w);
    boot(w);
    settle(w);
}

static void step(struct world *w, bool beside)
{
    static const int64_t most[] = {0, 100, 2000, 20000};
    bool first = chance(w, 50);
    span d = {0};
    if (first)
        act(w, &w->b);
    else if (beside)
        act(w, &w->a);
    int64_t longest = most[rng_below(&w->rng, 4)];
    if (longest)
        d.ms = (int64_t)rng_below(&w->rng, (uint64_t)longest);
    bool starts = chance(w, 2);
    pass(w, d);
    if (starts)
        restart(w);
}

/* The answers of b are left in *b, which is the caller's. */
static void run(uint64_t seed, uint64_t steps, bool beside, struct tenant *b)
{
    struct tenant_request r;
    struct world w;
    begin(&w, seed);
    for (uint64_t i = 1; i <= steps; i++) {
        trace_step(i);
        step(&w, beside);
    }
    for (size_t n = 0; tenants_next_read(&w.b, n, &r); n++)
        ask(&w, &w.b, &r);
    down(&w);
    store_close(w.disk);
    tokens_free(w.tokens);
    fake_free_all();
    tenant_end(&w.a);
    *b = w.b;
}

static void compare(const struct tenant *alone, const struct tenant *beside)
{
    for (size_t i = 0; i < alone->asked && i < beside->asked; i++) {
        struct str x = alone->answers[i], y = beside->answers[i];
        size_t same = 0, from;
        while (same < x.len && same < y.len && x.at[same] == y.at[same])
            same++;
        from = same > 60 ? same - 60 : 0;
        PROMISE(str_eq(x, y), "I9",
                "b is answered as if it were not alone: request %.*s\n"
                "  alone:    …%.200s\n  beside a: …%.200s\n",
                (int)(x.len < 160 ? x.len : 160), x.at, x.at + from, y.at + from);
    }
    PROMISE(alone->asked == beside->asked, "I9", "b asks %zu times, not %zu", beside->asked,
            alone->asked);
}

void tenants_simulate(uint64_t seed, uint64_t steps, bool print)
{
    struct tenant alone, beside;
    trace_begin(seed, print);
    if (steps > STEPS_MAX)
        steps = STEPS_MAX;
    run(seed, steps, false, &alone);
    trace_line("and beside a:");
    run(seed, steps, true, &beside);
    compare(&alone, &beside);
    tenant_end(&alone);
    tenant_end(&beside);
}
