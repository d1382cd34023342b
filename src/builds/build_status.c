/* SPDX-License-Identifier: Apache-2.0 */

/* Updates are kept in a store and told over HTTP, at the same time. Those of a build stand in one
 * chain, whose first is told before the others. A chain is in exactly one of these places: under
 * way (a request), delayed (its first update is to be tried again), or in the line of an API.
 *
 * Several APIs may be told at a time. One that fails is asked less: with each failure half as many
 * requests are under way to it, in the end one, and that only after a pause; each answer doubles
 * them. So an API that is down gets no storm, and once it is back, what waits is told at once. */

#include "builds/build_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "base/strmap.h"
#include "builds/build_due.h"
#include "builds/build_store.h"
#include "builds/build_update.h"
#include "client/when.h"
#include "kube/kube_answer.h"
#include "net/fetch.h"

#define SENDING_MAX     32u
#define BYTES_MAX       ((size_t)256 << 20) /* of updates on disk */
#define HINTS_MAX       1000
#define ANSWER_MAX      ((size_t)16 << 10)
#define RETRY_AFTER_MAX 600000 /* ms that an API may ask for */
#define SWEEP_MAX       60000
#define GRACE           60000 /* ms for which old updates are tried after a restart */

struct update {
    struct list node;            /* in its chain */
    struct build_record *record; /* NULL: a hint */
    char *text;                  /* of a hint */
    size_t len;
    struct peer *peer;
    mono deadline;
    uint32_t tries;
    build_status_kept *kept; /* of a hint */
    void *ctx;
};

/* The updates of a build; never empty. What waits for a time is its first member, here and below.
 */
struct chain {
    struct build_due due; /* set: it is delayed */
    struct sender *s;
    struct list node; /* in s->chains */
    struct list line; /* in its peer's line; or in none */
    struct list updates;
    struct str key;
    bool sending;
    struct fetch *fetch;
};

/* An API. */
struct peer {
    struct build_due due; /* set: nothing is sent before */
    struct list node;     /* in s->ready, or in none */
    struct list line;     /* chains that may be sent */
    struct str key;
    size_t updates; /* that are for it */
    unsigned sending, width;
    unsigned failures; /* since the last answer */
};

struct sender {
    struct build_status base;
    uv_loop_t *loop;
    struct build_status_settings settings;
    char *ca_file;
    struct rng rng;
    struct build_store *store;
    struct fetcher *fetcher;
    struct strmap by_build, peers;
    struct list chains;
    struct list ready;                  /* peers of which a chain can be sent now */
    struct build_dues delayed, pausing; /* chains; peers */
    unsigned sending;
    size_t hints;
    struct build_status_stats stats;
    uv_timer_t turn, sweep;
};

/* --- times --- */

/* Half of it is chance, so that those that failed together do not come together again. */
static span jittered(struct sender *s, int64_t ms)
{
    return (span){ms / 2 + (int64_t)rng_below(&s->rng, (uint64_t)ms / 2 + 1)};
}

static span backoff(struct sender *s, uint32_t tries)
{
    int64_t ms = s->settings.delay.ms;
    for (uint32_t i = 1; i < tries && ms < s->settings.delay_max.ms; i++)
        ms *= 2;
    return jittered(s, ms < s->settings.delay_max.ms ? ms : s->settings.delay_max.ms);
}

/* --- APIs --- */

static struct peer *peer_of(struct sender *s, struct str api)
{
    struct peer *p = strmap_get(&s->peers, api);
    if (!p) {
        p = ALLOC(struct peer);
        p->width = SENDING_MAX;
        list_init(&p->node);
        list_init(&p->line);
        p->key = strmap_put(&s->peers, api, p);
    }
    p->updates++;
    return p;
}

static void free_peer(struct sender *s, struct peer *p)
{
    build_due_unset(&s->pausing, &p->due);
    strmap_remove(&s->peers, p->key);
    free(p);
}

/* One that failed last is remembered for a while, so that hints alone do not try it all the time.
 */
static void leave_peer(struct sender *s, struct peer *p)
{
    must(p->updates > 0);
    if (--p->updates)
        return;
    must(list_is_empty(&p->line));
    list_unlink(&p->node);
    if (!p->failures)
        free_peer(s, p);
    else if (!p->due.set)
        build_due_set(&s->pausing, &p->due, s->settings.delay);
}

static void look_at_peer(struct sender *s, struct peer *p)
{
    if (list_is_empty(&p->node) && !list_is_empty(&p->line) && !p->due.set && p->sending < p->width)
        list_append(&s->ready, &p->node);
}

/* Its pause is over. */
static void open_peer(struct sender *s, struct peer *p)
{
    if (p->updates)
        look_at_peer(s, p);
    else
        free_peer(s, p);
}

static void peer_answered(struct sender *s, struct peer *p)
{
    if (p->failures)
        log_info("Screwdriver's API answers again, after %u failures", p->failures);
    p->failures = 0;
    build_due_unset(&s->pausing, &p->due);
    p->width = p->width * 2 < SENDING_MAX ? p->width * 2 : SENDING_MAX;
}

static void warn_of_failure(const struct sender *s, const struct fetch_answer *a)
{
    char what[400];
    if (a->fault == FETCH_ANSWERED)
        snprintf(what, sizeof what, "answers with status %ld", a->status);
    else
        snprintf(what, sizeof what, "does not answer: %s", a->why);
    log_warn("Screwdriver's API %s; %" PRIu64 " updates of builds wait, trying again", what,
             s->stats.waiting);
}

static void peer_failed(struct sender *s, struct peer *p, const struct fetch_answer *a)
{
    if (p->failures++ == 0)
        warn_of_failure(s, a);
    p->width = p->width > 1 ? p->width / 2 : 1;
    if (p->width == 1) {
        build_due_set(&s->pausing, &p->due, jittered(s, s->settings.delay.ms));
        list_unlink(&p->node);
    }
}

/* --- chains --- */

static struct update *first_of(const struct chain *c)
{
    return LIST_OF(c->updates.next, struct update, node);
}

static struct str text_of(const struct update *u)
{
    return u->record ? build_store_text(u->record) : (struct str){u->text, u->len};
}

/* It was told, or is of no use. */
static void drop(struct sender *s, struct update *u)
{
    if (u->record) {
        build_store_remove(s->store, u->record);
    } else {
        build_store_call(s->store, u->kept, u->ctx);
        s->hints--;
    }
    s->stats.waiting--;
    list_unlink(&u->node);
    leave_peer(s, u->peer);
    free(u->text);
    free(u);
}

/* Of what is not under way. */
static void drop_hints(struct sender *s, struct chain *c)
{
    struct list *from = c->sending ? c->updates.next->next : c->updates.next;
    for (struct list *n = from, *next; n != &c->updates; n = next) {
        struct update *u = LIST_OF(n, struct update, node);
        next = n->next;
        if (!u->record)
            drop(s, u);
    }
}

/* Before its first update changes. */
static void leave_line(struct sender *s, struct chain *c)
{
    struct peer *p = first_of(c)->peer;
    build_due_unset(&s->delayed, &c->due);
    list_unlink(&c->line);
    if (list_is_empty(&p->line))
        list_unlink(&p->node);
}

static void stand_in_line(struct sender *s, struct chain *c)
{
    struct peer *p = first_of(c)->peer;
    list_append(&p->line, &c->line);
    look_at_peer(s, p);
}

static void end_chain(struct sender *s, struct chain *c)
{
    list_unlink(&c->node);
    strmap_remove(&s->by_build, c->key);
    free(c);
}

/* The chain is in no place, and may be empty. */
static void go_on(struct sender *s, struct chain *c)
{
    if (list_is_empty(&c->updates))
        end_chain(s, c);
    else
        stand_in_line(s, c);
}

static struct chain *chain_of(struct sender *s, struct str build)
{
    struct chain *c = strmap_get(&s->by_build, build);
    if (c)
        return c;
    c = ALLOC(struct chain);
    c->s = s;
    list_init(&c->line);
    list_init(&c->updates);
    list_init(&c->node);
    list_append(&s->chains, &c->node);
    c->key = strmap_put(&s->by_build, build, c);
    return c;
}

static struct update *add_update(struct sender *s, struct str api, struct str build, span age_left)
{
    struct chain *c = chain_of(s, build);
    bool was_empty = list_is_empty(&c->updates);
    struct update *u = ALLOC(struct update);
    u->peer = peer_of(s, api);
    u->deadline = when_after(when_mono(), age_left);
    list_init(&u->node);
    list_append(&c->updates, &u->node);
    s->stats.waiting++;
    if (was_empty)
        stand_in_line(s, c);
    return u;
}

/* --- requests --- */

static void name_of(const struct chain *c, char out[128])
{
    struct buf b = {0};
    build_update_name(&b, c->key);
    snprintf(out, 128, "%.*s", STR_ARG(buf_view(&b)));
    buf_fini(&b);
}

static void count_end(struct sender *s, const struct chain *c, enum build_update_end end,
                      long status)
{
    char name[128];
    name_of(c, name);
    if (end == BUILD_UPDATE_TOLD) {
        s->stats.told++;
        log_debug("build %s: told", name);
    } else if (end == BUILD_UPDATE_ENDED) {
        s->stats.ended++;
        log_info("build %s: over for Screwdriver's API, or unknown to it (%ld); left as it is",
                 name, status);
    } else {
        s->stats.refused++;
        log_error("build %s: Screwdriver's API refuses an update with status %ld; given up", name,
                  status);
    }
}

static void give_up(struct sender *s, struct chain *c)
{
    char name[128];
    name_of(c, name);
    log_warn("build %s: an update could not be told for too long; given up", name);
    s->stats.expired++;
    drop(s, first_of(c));
}

static bool is_too_old(const struct update *u)
{
    return when_ms_between(when_mono(), u->deadline) >= 0;
}

/* The hints of the chain do not wait for another try, and all of it waits for the first one. */
static void try_later(struct sender *s, struct chain *c, span asked)
{
    drop_hints(s, c);
    if (!list_is_empty(&c->updates) && is_too_old(first_of(c)))
        give_up(s, c);
    if (list_is_empty(&c->updates)) {
        end_chain(s, c);
        return;
    }
    span after = backoff(s, ++first_of(c)->tries);
    if (asked.ms > after.ms)
        after.ms = asked.ms < RETRY_AFTER_MAX ? asked.ms : RETRY_AFTER_MAX;
    build_due_set(&s->delayed, &c->due, after);
}

static void pump(struct sender *s);

static void on_done(void *ctx, const struct fetch_answer *a)
{
    struct chain *c = ctx;
    struct sender *s = c->s;
    struct peer *p = first_of(c)->peer;
    enum build_update_end end = build_update_end(a);
    c->sending = false;
    s->sending--;
    p->sending--;
    if (end == BUILD_UPDATE_AGAIN) {
        span asked = kube_answer_retry_after(fetch_header(c->fetch, "retry-after"),
                                             fetch_header(c->fetch, "date"), s->settings.now());
        s->stats.failures++;
        peer_failed(s, p, a);
        p->updates++; /* it must outlive what follows */
        try_later(s, c, asked);
    } else {
        count_end(s, c, end, a->status);
        peer_answered(s, p);
        p->updates++;
        drop(s, first_of(c));
        go_on(s, c);
    }
    look_at_peer(s, p);
    leave_peer(s, p);
    pump(s);
}

static void ask(struct sender *s, struct chain *c, const struct build_update_record *r)
{
    struct buf url = {0}, token = {0};
    const struct fetch_tls tls = {.ca_file = s->ca_file};
    build_update_url(&url, r->api, r->build);
    buf_byte(&url, '\0');
    buf_print(&token, "Authorization: Bearer %.*s", STR_ARG(r->token));
    buf_byte(&token, '\0');
    const char *headers[] = {"Content-Type: application/json", r->token.len ? token.at : NULL,
                             NULL};
    const struct fetch_spec spec = {
        .method = "PUT",
        .url = url.at,
        .headers = headers,
        .body = r->body,
        .has_body = true,
        .tls = &tls,
        .connect_timeout = s->settings.timeout,
        .timeout = s->settings.timeout,
        .answer_max = ANSWER_MAX,
        .done = on_done,
        .ctx = c,
    };
    c->fetch = fetch_start(s->fetcher, &spec);
    buf_fini(&url);
    buf_fini(&token);
}

static void start(struct sender *s, struct chain *c)
{
    struct update *u = first_of(c);
    struct arena a = {0};
    struct build_update_record r;
    /* It was checked when it was put, or read. */
    must(build_update_read(text_of(u), &a, &r));
    c->sending = true;
    s->sending++;
    u->peer->sending++;
    ask(s, c, &r);
    arena_fini(&a);
}

static void on_turn(uv_timer_t *t);

static void arm(struct sender *s)
{
    uint64_t chain = build_due_wait(&s->delayed), peer = build_due_wait(&s->pausing);
    uint64_t ms = chain && (chain < peer || !peer) ? chain : peer;
    if (ms)
        uv_timer_start(&s->turn, on_turn, ms, 0);
}

/* Starts what may be started, in turn of the APIs. */
static void pump(struct sender *s)
{
    while (s->sending < SENDING_MAX && !list_is_empty(&s->ready)) {
        struct peer *p = LIST_OF(s->ready.next, struct peer, node);
        struct chain *c = LIST_OF(p->line.next, struct chain, line);
        list_unlink(&p->node);
        list_unlink(&c->line);
        start(s, c);
        look_at_peer(s, p);
    }
    arm(s);
}

static void on_turn(uv_timer_t *t)
{
    struct sender *s = t->data;
    struct build_due *d;
    mono now = when_mono();
    while ((d = build_due_take(&s->pausing, now)))
        open_peer(s, (struct peer *)d);
    while ((d = build_due_take(&s->delayed, now)))
        stand_in_line(s, (struct chain *)d);
    pump(s);
}

static void wake(struct sender *s)
{
    uv_timer_start(&s->turn, on_turn, 0, 0);
}

/* --- what is too old --- */

static void sweep_chain(struct sender *s, struct chain *c)
{
    if (c->sending || !is_too_old(first_of(c)))
        return;
    leave_line(s, c);
    while (!list_is_empty(&c->updates) && is_too_old(first_of(c)))
        give_up(s, c);
    go_on(s, c);
}

static void on_sweep(uv_timer_t *t)
{
    struct sender *s = t->data;
    for (struct list *n = s->chains.next, *next; n != &s->chains; n = next) {
        next = n->next;
        sweep_chain(s, LIST_OF(n, struct chain, node));
    }
    pump(s);
}

/* --- what is put --- */

static void put_hint(struct sender *s, const struct build_update *u, struct str text,
                     build_status_kept *kept, void *ctx)
{
    const struct chain *c = strmap_get(&s->by_build, u->build);
    const struct peer *p = strmap_get(&s->peers, u->api);
    if (s->hints >= HINTS_MAX || (c && c->due.set) || (p && p->failures)) {
        build_store_call(s->store, kept, ctx);
        return;
    }
    struct update *hint = add_update(s, u->api, u->build, s->settings.age_max);
    hint->text = alloc_text(text.at, text.len);
    hint->len = text.len;
    hint->kept = kept;
    hint->ctx = ctx;
    s->hints++;
}

static void put_update(struct sender *s, const struct build_update *u, struct str text,
                       build_status_kept *kept, void *ctx)
{
    struct chain *c = strmap_get(&s->by_build, u->build);
    struct update *new = add_update(s, u->api, u->build, s->settings.age_max);
    new->record = build_store_add(s->store, text, kept, ctx);
    if (!c || !s->hints)
        return;
    /* The first may be a hint, for another API. */
    bool in_line = !list_is_empty(&c->line);
    if (in_line)
        leave_line(s, c);
    drop_hints(s, c);
    if (in_line)
        stand_in_line(s, c);
}

static void refuse(struct sender *s, const struct build_update *u, const char *why)
{
    struct buf b = {0};
    build_update_name(&b, u->build);
    buf_byte(&b, '\0');
    log_error("build %.128s: an update cannot be told: %s; given up", b.at, why);
    s->stats.refused++;
    buf_fini(&b);
}

static void put(struct build_status *base, const struct build_update *u, build_status_kept *kept,
                void *ctx)
{
    struct sender *s = (struct sender *)base;
    const char *fault = build_update_fault(u);
    if (fault) {
        refuse(s, u, fault);
        build_store_call(s->store, kept, ctx);
        return;
    }
    struct buf text = {0};
    build_update_write(&text, u, s->settings.now());
    if (u->hint)
        put_hint(s, u, buf_view(&text), kept, ctx);
    else
        put_update(s, u, buf_view(&text), kept, ctx);
    buf_fini(&text);
    wake(s);
}

static struct build_status_stats stats(const struct build_status *base)
{
    return ((const struct sender *)base)->stats;
}

/* --- beginning and end --- */

/* The wall clock may have been wrong when it was put, or be wrong now: what is old gets some time
 * all the same. */
static span age_left(const struct sender *s, instant at)
{
    int64_t age_max = s->settings.age_max.ms, least = age_max < GRACE ? age_max : GRACE;
    int64_t age = instant_is_set(at) ? instant_diff(s->settings.now(), at).ms : 0;
    int64_t left = age > 0 ? age_max - age : age_max;
    return (span){left > least ? left : least};
}

static void load(void *ctx, struct build_record *record)
{
    struct sender *s = ctx;
    struct arena a = {0};
    struct build_update_record r;
    if (build_update_read(build_store_text(record), &a, &r)) {
        struct update *u = add_update(s, r.api, r.build, age_left(s, r.at));
        u->record = record;
    } else {
        log_error("passed over a record of the state directory that is no update of a build");
        build_store_remove(s->store, record);
    }
    arena_fini(&a);
}

static void on_closed(uv_handle_t *h)
{
    struct sender *s = h->data;
    free(s->ca_file);
    free(s);
}

static void on_turn_closed(uv_handle_t *h)
{
    struct sender *s = h->data;
    uv_close((uv_handle_t *)&s->sweep, on_closed);
}

static void free_chain(struct chain *c)
{
    while (!list_is_empty(&c->updates)) {
        struct update *u = first_of(c);
        list_unlink(&u->node);
        free(u->text);
        free(u);
    }
    free(c);
}

static void free_all(struct sender *s)
{
    while (!list_is_empty(&s->chains)) {
        struct chain *c = LIST_OF(s->chains.next, struct chain, node);
        list_unlink(&c->node);
        free_chain(c);
    }
    for (size_t i = 0; i < s->peers.cap; i++)
        if (s->peers.slots[i].key)
            free(s->peers.slots[i].val);
    strmap_fini(&s->peers);
    strmap_fini(&s->by_build);
    build_dues_fini(&s->delayed);
    build_dues_fini(&s->pausing);
}

static void close_it(struct build_status *base)
{
    struct sender *s = (struct sender *)base;
    uv_timer_stop(&s->turn);
    uv_timer_stop(&s->sweep);
    fetcher_free(s->fetcher);
    build_store_close(s->store);
    free_all(s);
    uv_close((uv_handle_t *)&s->turn, on_turn_closed);
}

struct err build_status_new(uv_loop_t *loop, const struct build_status_settings *settings,
                            struct build_status **out)
{
    static const struct build_status_ops ops = {put, stats, close_it};
    struct build_store *store;
    TRY(build_store_open(loop, settings->dir, BYTES_MAX, &store));
    struct sender *s = ALLOC(struct sender);
    s->base.ops = &ops;
    s->loop = loop;
    s->settings = *settings;
    s->settings.dir = NULL; /* borrowed for the call */
    if (settings->ca_file)
        s->ca_file = alloc_text(settings->ca_file, strlen(settings->ca_file));
    s->rng = rng_from_seed(settings->seed);
    s->by_build.seed = rng_next(&s->rng);
    s->peers.seed = rng_next(&s->rng);
    s->store = store;
    s->fetcher = fetcher_new(loop);
    list_init(&s->chains);
    list_init(&s->ready);
    must(uv_timer_init(loop, &s->turn) == 0 && uv_timer_init(loop, &s->sweep) == 0);
    s->turn.data = s->sweep.data = s;
    build_store_each(store, load, s);
    int64_t sweep = settings->age_max.ms / 4;
    sweep = sweep < SWEEP_MAX ? sweep : SWEEP_MAX;
    uv_timer_start(&s->sweep, on_sweep, (uint64_t)sweep + 1, (uint64_t)sweep + 1);
    if (s->stats.waiting)
        log_info("%" PRIu64 " updates of builds are still to be told", s->stats.waiting);
    wake(s);
    *out = &s->base;
    return err_none();
}
