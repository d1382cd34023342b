/* SPDX-License-Identifier: Apache-2.0 */
#include "build_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/must.h"

#define REPROCESS_LIMIT 3
#define REJECTED_WAIT   5000
#define KILLS_MAX       60 /* in one world, so that it comes to an end */

/* --- events --- */

struct event {
    struct list node;
    bool lives_on; /* on its way to a real part: a kill does not stop it, but may lose it */
    bool orphan;   /* its worker is gone: nobody is called back */
    void (*happen)(struct world *w, struct event *e);
    struct message *message;
    struct delivery *delivery;
    struct str build;
    void (*done)(void *ctx);
    build_kube_answered *answered;
    void *ctx;
    struct kept_update *update;
    uint32_t epoch;
    char text[512];
};

struct message {
    struct list node;
    enum build_channel channel;
    uint32_t failures, looks;
    instant started, due;
    bool unacked, gone, seen;
    struct world_build *stops; /* the API has ended the build before it says so */
    size_t len;
    char body[];
};

struct delivery {
    struct build_delivery base;
    struct list node;
    struct message *message;
    uint32_t epoch;
};

struct kept_timer {
    struct list node;
    struct build_timer t;
    char text[2048];
};

struct kept_update {
    size_t build;
    char status[16], message[512], hostname[64];
};

struct world_parts {
    struct build_broker broker;
    struct build_kube kube;
    struct build_status status;
    struct world *w;
    struct list events, messages, deliveries, timers;
    uint32_t epoch; /* of the worker */
};

static struct world *the_world; /* for parts that get no context */

static struct event *soon(void (*happen)(struct world *w, struct event *e), bool lives_on)
{
    struct event *e = ALLOC(struct event);
    e->happen = happen;
    e->lives_on = lives_on;
    e->epoch = the_world->parts->epoch;
    list_append(&the_world->parts->events, &e->node);
    return e;
}

static size_t index_of(struct str build)
{
    char digits[16] = {0};
    must(build.len > 3 && build.len < 16); /* "sd-7" */
    memcpy(digits, build.at, build.len);
    return (size_t)atoi(strchr(digits, '-') ? strchr(digits, '-') + 1 : digits);
}

static void keep_build(struct event *e, struct str build)
{
    must(build.len < sizeof e->text);
    memcpy(e->text, build.at, build.len);
    e->build = (struct str){e->text, build.len};
}

/* --- the broker --- */

static struct message *message_new(struct world *w, enum build_channel channel, struct str body)
{
    struct message *m = alloc_zero(sizeof *m + body.len);
    m->channel = channel;
    m->started = INSTANT_NONE;
    m->due = w->now;
    m->len = body.len;
    memcpy(m->body, body.at, body.len);
    list_append(&w->parts->messages, &m->node);
    return m;
}

static struct delivery *take_delivery(struct build_delivery *base)
{
    struct delivery *d = (struct delivery *)base;
    list_unlink(&d->node);
    return d;
}

static bool is_live(const struct delivery *d)
{
    return d->epoch == the_world->parts->epoch && !d->message->gone;
}

static void settle(struct delivery *d, bool gone)
{
    if (is_live(d)) {
        d->message->unacked = false;
        d->message->gone = gone;
    }
    free(d);
}

static void broker_ack(struct build_broker *b, struct build_delivery *base)
{
    (void)b;
    settle(take_delivery(base), true);
}

static void tell_exhausted(struct world *w, struct event *e)
{
    if (!e->orphan)
        build_worker_user().exhausted(w->worker, &e->delivery->base, "the cluster is away");
}

static void broker_retry(struct build_broker *b, struct build_delivery *base, const char *why)
{
    struct delivery *d = (struct delivery *)base;
    (void)b;
    (void)why;
    if (base->failures >= REPROCESS_LIMIT) {
        soon(tell_exhausted, false)->delivery = d;
        return;
    }
    list_unlink(&d->node);
    if (is_live(d)) {
        d->message->failures++;
        d->message->due = instant_add(the_world->now, (span){REJECTED_WAIT});
    }
    settle(d, false);
}

static void on_confirmed(struct world *w, struct event *e)
{
    (void)w;
    if (!e->orphan && e->delivery)
        settle(take_delivery(&e->delivery->base), true);
    if (!e->orphan && e->done)
        e->done(e->ctx);
}

static void on_arrived(struct world *w, struct event *e)
{
    e->message->due = instant_add(w->now, (span){e->message->due.ms});
    list_append(&w->parts->messages, &e->message->node);
    e->message = NULL;
    if (e->orphan)
        return;
    struct event *c = soon(on_confirmed, false);
    c->delivery = e->delivery;
    c->done = e->done;
    c->ctx = e->ctx;
}

static void publish(const struct build_order *o, struct delivery *d, build_broker_published *done,
                    void *ctx)
{
    struct buf body = {0};
    build_message_verify(&body, o->config);
    struct message *m = message_new(the_world, BUILD_CHANNEL_READY, buf_view(&body));
    buf_fini(&body);
    list_unlink(&m->node);
    m->started = o->started;
    m->looks = o->looks;
    m->due = (instant){o->after.ms}; /* counted from its arrival */
    struct event *e = soon(on_arrived, true);
    e->message = m;
    e->delivery = d;
    e->done = done;
    e->ctx = ctx;
}

static void broker_then(struct build_broker *b, struct build_delivery *d,
                        const struct build_order *o)
{
    (void)b;
    publish(o, (struct delivery *)d, NULL, NULL);
}

static void broker_publish(struct build_broker *b, const struct build_order *o,
                           build_broker_published *done, void *ctx)
{
    (void)b;
    publish(o, NULL, done, ctx);
}

static const struct build_broker_ops broker_ops = {
    .ack = broker_ack, .retry = broker_retry, .then = broker_then, .publish = broker_publish};

static void deliver(struct world *w, struct message *m)
{
    struct delivery *d = ALLOC(struct delivery);
    m->unacked = true;
    if (m->stops)
        m->stops->ended = true;
    d->message = m;
    d->epoch = w->parts->epoch;
    d->base = (struct build_delivery){.channel = m->channel,
                                      .body = {m->body, m->len},
                                      .failures = m->failures,
                                      .redelivered = m->seen,
                                      .looks = m->looks,
                                      .started = m->started};
    m->seen = true;
    list_append(&w->parts->deliveries, &d->node);
    build_worker_user().delivered(w->worker, &d->base);
}

/* --- the cluster --- */

static void answer(struct event *e, const struct build_kube_answer *a)
{
    if (!e->orphan)
        e->answered(e->ctx, a);
}

static void on_answer_done(struct world *w, struct event *e)
{
    (void)w;
    answer(e, &(struct build_kube_answer){.pods = NULL});
}

static void on_answer_failed(struct world *w, struct event *e)
{
    (void)w;
    answer(e, &(struct build_kube_answer){.result = BUILD_KUBE_FAILED,
                                          .why = "Failed to create pod: 503 later"});
}

static void on_answer_final(struct world *w, struct event *e)
{
    (void)w;
    answer(e, &(struct build_kube_answer){.result = BUILD_KUBE_FINAL,
                                          .why = "Failed to create pod: 403 forbidden"});
}

static void reply(struct event *e, void (*how)(struct world *, struct event *))
{
    if (e->orphan)
        return;
    struct event *r = soon(how, false);
    r->answered = e->answered;
    r->ctx = e->ctx;
    keep_build(r, e->build);
}

static bool breaks(struct world *w)
{
    return w->api_faults && rng_below(&w->rng, 100) < w->api_faults;
}

static void at_create(struct world *w, struct event *e)
{
    struct world_build *b = &w->builds[index_of(e->build)];
    b->posts++;
    if (b->fate == FATE_FORBIDDEN) {
        reply(e, on_answer_final);
        return;
    }
    if (breaks(w) || w->create_faults) {
        w->create_faults -= w->create_faults > 0;
        reply(e, on_answer_failed);
        return;
    }
    if (!b->pod) {
        b->pod = true;
        b->creates++;
        b->created = w->now;
    }
    /* The answer may be lost all the same. */
    reply(e, breaks(w) ? on_answer_failed : on_answer_done);
}

static void on_answer_list(struct world *w, struct event *e)
{
    const struct world_build *b = &w->builds[index_of(e->build)];
    struct arena arena = {0};
    struct buf text = {0};
    struct kube_pod pod;
    struct build_kube_answer a = {.result = BUILD_KUBE_DONE, .pods = &pod};
    if (b->pod && !b->pod_deleted) {
        world_pod_write(w, b, &text);
        struct err err = kube_pod_read(buf_view(&text), &arena, &pod);
        must(err.code == ERR_OK);
        a.count = 1;
    }
    answer(e, &a);
    arena_fini(&arena);
    buf_fini(&text);
}

static void at_list(struct world *w, struct event *e)
{
    reply(e, breaks(w) ? on_answer_failed : on_answer_list);
}

static void at_remove(struct world *w, struct event *e)
{
    struct world_build *b = &w->builds[index_of(e->build)];
    if (!breaks(w) && b->pod)
        b->pod_deleted = true;
    reply(e, breaks(w) ? on_answer_failed : on_answer_done);
}

static void ask(struct str build, build_kube_answered *done, void *ctx,
                void (*at)(struct world *, struct event *))
{
    struct event *e = soon(at, true);
    keep_build(e, build);
    e->answered = done;
    e->ctx = ctx;
}

static void kube_create(struct build_kube *k, struct str build, struct str manifest,
                        build_kube_answered *done, void *ctx)
{
    (void)k;
    must(manifest.len > 100);
    ask(build, done, ctx, at_create);
}

static void kube_list(struct build_kube *k, struct str build, build_kube_answered *done, void *ctx)
{
    (void)k;
    ask(build, done, ctx, at_list);
}

static void kube_remove(struct build_kube *k, struct str build, build_kube_answered *done,
                        void *ctx)
{
    (void)k;
    ask(build, done, ctx, at_remove);
}

static const struct build_kube_ops kube_ops = {
    .create = kube_create, .list = kube_list, .remove = kube_remove};

/* --- Screwdriver's API --- */

static void copy(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

static void told(struct world *w, struct event *e)
{
    struct kept_update *u = e->update;
    struct world_build *b = &w->builds[u->build];
    if (strcmp(u->status, "FAILURE") == 0 && b->ended) {
        b->late_failures++;
    } else if (strcmp(u->status, "FAILURE") == 0) {
        b->failures++;
        b->ended = true;
        copy(b->message, sizeof b->message, str_from(u->message));
    } else if (*u->hostname) {
        copy(b->hostname, sizeof b->hostname, str_from(u->hostname));
    } else if (strncmp(u->message, "Build initialization delayed", 28) == 0) {
        b->delayed++;
    }
}

/* It is on disk, and will be told whoever lives. */
static void at_disk(struct world *w, struct event *e)
{
    struct event *t = soon(told, true);
    (void)w;
    t->update = e->update;
    t->epoch = 0; /* never lost */
    e->update = NULL;
    if (e->orphan)
        return;
    struct event *k = soon(on_confirmed, false);
    k->done = e->done;
    k->ctx = e->ctx;
}

static void status_put(struct build_status *s, const struct build_update *u,
                       build_status_kept *kept, void *ctx)
{
    (void)s;
    struct kept_update *k = ALLOC(struct kept_update);
    k->build = (size_t)atoi(u->build.at);
    copy(k->status, sizeof k->status, u->status);
    copy(k->message, sizeof k->message, u->message);
    copy(k->hostname, sizeof k->hostname, u->hostname);
    struct event *e = soon(at_disk, true);
    e->update = k;
    e->done = kept;
    e->ctx = ctx;
}

static const struct build_status_ops status_ops = {.put = status_put};

/* --- timers: the worker's own names, with the world's memory --- */

void build_timers_set(struct build_timers *t, const struct build_timer *timer,
                      void (*kept)(void *ctx), void *ctx)
{
    struct kept_timer *k = ALLOC(struct kept_timer);
    build_timers_clear(t, timer->build);
    must(timer->config.len + timer->build.len < sizeof k->text);
    k->t = *timer;
    memcpy(k->text, timer->config.at, timer->config.len);
    memcpy(k->text + timer->config.len, timer->build.at, timer->build.len);
    k->t.config = (struct str){k->text, timer->config.len};
    k->t.build = (struct str){k->text + timer->config.len, timer->build.len};
    list_append(&the_world->parts->timers, &k->node);
    struct event *e = soon(on_confirmed, false);
    e->done = kept;
    e->ctx = ctx;
}

void build_timers_clear(struct build_timers *t, struct str build)
{
    (void)t;
    LIST_EACH (n, &the_world->parts->timers) {
        struct kept_timer *k = LIST_OF(n, struct kept_timer, node);
        if (str_eq(k->t.build, build)) {
            list_unlink(&k->node);
            free(k);
            return;
        }
    }
}

/* --- the world --- */

static char *variable(const char *name)
{
    static char yes[] = "true", prefix[] = "sd-", queue[] = "sd";
    return strcmp(name, "RABBITMQ_RETRYQUEUE_ENABLED") == 0 ? yes
           : strcmp(name, "EXECUTOR_PREFIX") == 0           ? prefix
           : strcmp(name, "RABBITMQ_QUEUE") == 0            ? queue
                                                            : NULL;
}

static instant clock_of_world(void)
{
    return the_world->now;
}

static void begin_worker(struct world *w)
{
    struct build_worker_ports ports = {
        .broker = &w->parts->broker,
        .kube = &w->parts->kube,
        .status = &w->parts->status,
        .timers = w->worker_settings.timer ? (struct build_timers *)(void *)w->parts : NULL};
    w->worker = build_worker_new(NULL, &w->worker_settings);
    build_worker_attach(w->worker, &ports);
}

void world_init(struct world *w, uint64_t seed, bool timer)
{
    *w = (struct world){.rng = rng_from_seed(seed), .now = {1800000000000}};
    the_world = w;
    w->parts = ALLOC(struct world_parts);
    *w->parts = (struct world_parts){.broker = {.ops = &broker_ops},
                                     .kube = {.ops = &kube_ops},
                                     .status = {.ops = &status_ops},
                                     .w = w,
                                     .epoch = 1};
    list_init(&w->parts->events);
    list_init(&w->parts->messages);
    list_init(&w->parts->deliveries);
    list_init(&w->parts->timers);
    must(build_settings_read(&w->settings, NULL, variable).code == ERR_OK);
    if (timer)
        must(build_settings_set(&w->settings, BUILD_VERIFICATION, "timer").code == ERR_OK);
    must(build_pod_template_read(&w->settings, &w->pods).code == ERR_OK);
    must(build_worker_settings_make(&w->settings, w->pods, &w->worker_settings).code == ERR_OK);
    w->worker_settings.now = clock_of_world;
    begin_worker(w);
}

static void free_event(struct event *e)
{
    list_unlink(&e->node);
    free(e->message);
    free(e->update);
    free(e);
}

void world_publish(struct world *w, const char *body)
{
    message_new(w, BUILD_CHANNEL_MAIN, str_from(body));
}

void world_publish_verify(struct world *w, const char *body, uint32_t looks)
{
    message_new(w, BUILD_CHANNEL_READY, str_from(body))->looks = looks;
}

size_t world_start(struct world *w, enum fate fate)
{
    size_t i = w->count++;
    char body[512];
    must(i < WORLD_BUILDS_MAX);
    w->builds[i] = (struct world_build){.fate = fate};
    snprintf(body, sizeof body,
             "{\"job\":\"start\",\"buildConfig\":{\"buildId\":%zu,\"jobId\":1,\"eventId\":3,"
             "\"jobName\":\"main\",\"container\":\"node:20\",\"apiUri\":\"http://api\","
             "\"token\":\"t\",\"pipeline\":{\"id\":9}}}",
             i);
    world_publish(w, body);
    if (fate == FATE_STOPPED) {
        snprintf(body, sizeof body, "{\"job\":\"stop\",\"buildConfig\":{\"buildId\":%zu}}", i);
        struct message *m = message_new(w, BUILD_CHANNEL_MAIN, str_from(body));
        m->due = instant_add(w->now, (span){60000});
        m->stops = &w->builds[i];
    }
    return i;
}

/* Everything in memory is gone; what was on its way arrives, or not. */
void world_kill(struct world *w)
{
    struct world_parts *p = w->parts;
    w->kills++;
    p->epoch++;
    for (struct list *n = p->events.next, *next; n != &p->events; n = next) {
        struct event *e = LIST_OF(n, struct event, node);
        next = n->next;
        bool lost = e->epoch != 0 && rng_below(&w->rng, 2);
        e->orphan = true;
        e->delivery = NULL;
        if (!e->lives_on || lost)
            free_event(e);
    }
    while (!list_is_empty(&p->deliveries)) {
        struct delivery *d = LIST_OF(p->deliveries.next, struct delivery, node);
        list_unlink(&d->node);
        d->message->unacked = false;
        free(d);
    }
    build_worker_free(w->worker);
    begin_worker(w);
}

static void sweep(struct world *w)
{
    struct list *head = &w->parts->messages;
    for (struct list *n = head->next, *next; n != head; n = next) {
        struct message *m = LIST_OF(n, struct message, node);
        next = n->next;
        if (m->gone) {
            list_unlink(n);
            free(m);
        }
    }
}

/* The n-th choice of all that may happen now: an event, a delivery, a timer. */
static bool happen(struct world *w)
{
    struct world_parts *p = w->parts;
    size_t choices = 0, pick;
    LIST_EACH (n, &p->events)
        choices++;
    LIST_EACH (n, &p->messages) {
        struct message *m = LIST_OF(n, struct message, node);
        choices += !m->unacked && m->due.ms <= w->now.ms;
    }
    LIST_EACH (n, &p->timers)
        choices += LIST_OF(n, struct kept_timer, node)->t.at.ms <= w->now.ms;
    if (!choices)
        return false;
    pick = rng_below(&w->rng, choices);
    LIST_EACH (n, &p->events)
        if (pick-- == 0) {
            struct event *e = LIST_OF(n, struct event, node);
            list_unlink(&e->node);
            e->happen(w, e);
            free_event(e);
            return true;
        }
    LIST_EACH (n, &p->messages) {
        struct message *m = LIST_OF(n, struct message, node);
        if (!m->unacked && m->due.ms <= w->now.ms && pick-- == 0) {
            deliver(w, m);
            return true;
        }
    }
    LIST_EACH (n, &p->timers) {
        struct kept_timer *t = LIST_OF(n, struct kept_timer, node);
        if (t->t.at.ms <= w->now.ms && pick-- == 0) {
            build_worker_fired(w->worker, &t->t);
            return true;
        }
    }
    return false;
}

static bool pass_time(struct world *w)
{
    instant next = INSTANT_NONE;
    LIST_EACH (n, &w->parts->messages) {
        struct message *m = LIST_OF(n, struct message, node);
        if (!m->unacked && (!instant_is_set(next) || m->due.ms < next.ms))
            next = m->due;
    }
    LIST_EACH (n, &w->parts->timers) {
        instant at = LIST_OF(n, struct kept_timer, node)->t.at;
        if (!instant_is_set(next) || at.ms < next.ms)
            next = at;
    }
    if (!instant_is_set(next))
        return false;
    w->now = instant_max(w->now, next);
    return true;
}

bool world_step(struct world *w)
{
    bool more = happen(w) || pass_time(w);
    sweep(w);
    if (more && w->kills < KILLS_MAX && w->kill_chance && rng_below(&w->rng, 1000) < w->kill_chance)
        world_kill(w);
    return more;
}

size_t world_messages(const struct world *w)
{
    size_t n = 0;
    LIST_EACH (node, &w->parts->messages)
        n++;
    return n;
}

void world_fini(struct world *w)
{
    struct world_parts *p = w->parts;
    w->kill_chance = 0;
    world_kill(w);
    while (!list_is_empty(&p->events))
        free_event(LIST_OF(p->events.next, struct event, node));
    while (!list_is_empty(&p->messages)) {
        struct message *m = LIST_OF(p->messages.next, struct message, node);
        list_unlink(&m->node);
        free(m);
    }
    while (!list_is_empty(&p->timers)) {
        struct kept_timer *t = LIST_OF(p->timers.next, struct kept_timer, node);
        list_unlink(&t->node);
        free(t);
    }
    build_worker_free(w->worker);
    build_pod_template_free(w->pods);
    build_settings_free(&w->settings);
    free(p);
}
