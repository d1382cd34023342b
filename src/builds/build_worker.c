/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_worker.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"
#include "builds/build_cache.h"
#include "builds/build_work.h"

#define MESSAGE_MAX 1000 /* bytes of a statusMessage */
#define TOKEN_MIN   8    /* what is shorter is no secret, and may be part of any word */

static void run(struct build_work *k);

/* --- works and their lanes --- */

static struct build_work *work_new(struct build_worker *w, struct build_delivery *d)
{
    struct build_work *k = ALLOC(struct build_work);
    k->w = w;
    k->d = d;
    k->started = INSTANT_NONE;
    list_init(&k->node);
    w->busy++;
    return k;
}

static void lane_enter(struct build_work *k)
{
    struct build_worker *w = k->w;
    struct build_lane *l = strmap_get(&w->lanes, k->label);
    if (!l) {
        l = ALLOC(struct build_lane);
        list_init(&l->works);
        l->label = strmap_put(&w->lanes, k->label, l);
    }
    k->lane = l;
    list_append(&l->works, &k->node);
    if (l->works.next == &k->node)
        run(k);
}

/* Frees the work, and begins the next one of its build. */
static void work_free(struct build_work *k)
{
    struct build_worker *w = k->w;
    struct build_lane *l = k->lane;
    if (!k->d && k->label.len)
        strmap_remove(&w->firing, k->label);
    list_unlink(&k->node);
    arena_fini(&k->arena);
    free(k);
    w->busy--;
    if (!l)
        return;
    if (!list_is_empty(&l->works)) {
        run(LIST_OF(l->works.next, struct build_work, node));
        return;
    }
    strmap_remove(&w->lanes, l->label);
    free(l);
}

/* --- how a message ends --- */

void build_work_done(struct build_work *k)
{
    if (k->d)
        k->w->p.broker->ops->ack(k->w->p.broker, k->d);
    work_free(k);
}

void build_work_then(struct build_work *k, const struct build_order *o)
{
    k->w->p.broker->ops->then(k->w->p.broker, k->d, o);
    work_free(k);
}

/* An answer may quote the request, and with it the token of the build. */
static const char *hide_token(struct build_work *k, const char *why)
{
    struct str token = k->m.token, from = str_from(why);
    struct buf b = {0};
    const char *found;
    if (token.len < TOKEN_MIN)
        return why;
    while ((found = memmem(from.at, from.len, token.at, token.len))) {
        size_t before = (size_t)(found - from.at);
        buf_add(&b, from.at, before);
        buf_lit(&b, "(hidden)");
        from = (struct str){found + token.len, from.len - before - token.len};
    }
    buf_add(&b, from.at, from.len);
    buf_byte(&b, '\0');
    const char *out = arena_copy(&k->arena, buf_view(&b)).at;
    buf_fini(&b);
    return out;
}

void build_work_retry(struct build_work *k, const char *why)
{
    why = hide_token(k, why);
    log_warn("build %.*s: %s; it is tried again (failure %u)", NAME_ARG(k->m.build), why,
             k->d->failures + 1);
    k->w->count.retries++;
    k->w->p.broker->ops->retry(k->w->p.broker, k->d, why);
    work_free(k);
}

/* --- the last builds --- */

bool build_last_has(const struct build_last *l, struct str label)
{
    return strmap_get(&l->places, label) != NULL;
}

void build_last_add(struct build_last *l, struct str label)
{
    struct str *place = &l->ring[l->next];
    if (build_last_has(l, label))
        return;
    if (place->len)
        strmap_remove(&l->places, *place);
    *place = strmap_put(&l->places, label, place);
    l->next = (l->next + 1) % BUILD_LAST_MAX;
}

void build_last_remove(struct build_last *l, struct str label)
{
    struct str *place = strmap_get(&l->places, label);
    if (!place)
        return;
    strmap_remove(&l->places, label);
    *place = (struct str){0};
}

bool build_work_is_over(const struct build_work *k)
{
    return build_last_has(&k->w->over, k->label);
}

static void on_kept(void *ctx)
{
    build_work_done(ctx);
}

void build_work_tell(struct build_work *k, const struct build_update *u)
{
    k->w->p.status->ops->put(k->w->p.status, u, on_kept, k);
}

/* --- a build that fails --- */

static void on_cleaned(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    if (a->result == BUILD_KUBE_FAILED && !k->exhausted) {
        build_work_retry(k, a->why);
        return;
    }
    if (a->result != BUILD_KUBE_DONE)
        log_error("build %.*s: %s", NAME_ARG(k->m.build), a->why);
    build_work_done(k);
}

/* Only now: without its pod, a worker that begins again would take the build for over. */
static void on_failure_kept(void *ctx)
{
    struct build_work *k = ctx;
    if (k->removes_pods)
        build_last_add(&k->w->over, k->label);
    if (k->removes_pods)
        k->w->p.kube->ops->remove(k->w->p.kube, k->label, on_cleaned, k);
    else
        build_work_done(k);
}

void build_work_fail(struct build_work *k, const char *why)
{
    why = hide_token(k, why);
    struct str message = str_from(why);
    if (message.len > MESSAGE_MAX)
        message.len = utf8_check((struct str){message.at, MESSAGE_MAX});
    struct build_update u = {.api = k->m.api_uri,
                             .build = k->m.build,
                             .token = k->m.token,
                             .status = STR("FAILURE"),
                             .message = message,
                             .image_pull_start = INSTANT_NONE};
    k->w->count.builds_failed++;
    if (k->w->p.timers && k->label.len)
        build_timers_clear(k->w->p.timers, k->label);
    log_warn("build %.*s fails: %s", NAME_ARG(k->m.build), why);
    if (u.api.len && u.token.len) {
        k->w->p.status->ops->put(k->w->p.status, &u, on_failure_kept, k);
        return;
    }
    log_error("build %.*s: its message has no apiUri or no token, so nobody can be told",
              NAME_ARG(k->m.build));
    on_failure_kept(k);
}

struct build_update build_work_update(const struct build_work *k)
{
    return (struct build_update){.api = str_from(build_text(k->w->s->all, BUILD_API)),
                                 .build = k->m.build,
                                 .token = k->m.token,
                                 .image_pull_start = INSTANT_NONE};
}

void build_work_set_node(struct build_update *u, const struct kube_pod *p, instant now)
{
    struct kube_pod_times times = kube_pod_times(p);
    u->hostname = p->node;
    u->image_pull_start = instant_is_set(times.scheduled) ? times.scheduled : now;
}

static bool counts_more(const struct kube_pod *p, const struct kube_pod *than)
{
    bool p_lives = !instant_is_set(p->deleted_at), than_lives = !instant_is_set(than->deleted_at);
    return p_lives != than_lives ? p_lives : p->created_at.ms >= than->created_at.ms;
}

const struct kube_pod *build_work_pod(const struct build_kube_answer *a)
{
    const struct kube_pod *first = NULL;
    for (size_t i = 0; i < a->count; i++)
        if (!first || counts_more(&a->pods[i], first))
            first = &a->pods[i];
    return first;
}

/* --- stop --- */

static void on_removed(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    if (a->result == BUILD_KUBE_FAILED) {
        build_work_retry(k, a->why);
        return;
    }
    if (a->result == BUILD_KUBE_FINAL) {
        log_error("build %.*s: %s", NAME_ARG(k->m.build), a->why);
    } else {
        log_info("build %.*s was stopped: its pods are deleted", NAME_ARG(k->m.build));
        k->w->count.pods_deleted++;
    }
    build_work_done(k);
}

static void stop(struct build_work *k)
{
    k->w->count.stops++;
    build_last_add(&k->w->over, k->label);
    if (k->w->p.timers)
        build_timers_clear(k->w->p.timers, k->label);
    k->w->p.kube->ops->remove(k->w->p.kube, k->label, on_removed, k);
}

/* --- clear --- */

static void clear_on_thread(uv_work_t *t)
{
    struct build_work *k = t->data;
    k->cleared = build_cache_clear(build_text(k->w->s->all, BUILD_CACHE_PATH), &k->m);
}

static void on_cleared(uv_work_t *t, int status)
{
    struct build_work *k = t->data;
    must(status == 0);
    if (k->cleared.code == ERR_OK) {
        log_info("cache of %.*s %.*s is removed", NAME_ARG(k->m.cache.scope),
                 NAME_ARG(k->m.cache.pipeline));
        k->w->count.caches_cleared++;
    } else {
        log_error("cache of %.*s %.*s is not removed: %s", NAME_ARG(k->m.cache.scope),
                  NAME_ARG(k->m.cache.pipeline), k->cleared.msg);
        k->w->count.caches_refused++;
    }
    build_work_done(k);
}

static void clear(struct build_work *k)
{
    const struct build_settings *all = k->w->s->all;
    k->w->count.clears++;
    if (strcmp(build_text(all, BUILD_CACHE_STRATEGY), "disk") != 0 ||
        !*build_text(all, BUILD_CACHE_PATH)) {
        log_error("a cache is to be removed, but CACHE_STRATEGY is not disk, or CACHE_PATH empty");
        k->w->count.caches_refused++;
        build_work_done(k);
        return;
    }
    list_append(&k->w->loose, &k->node);
    k->thread.data = k;
    must(uv_queue_work(k->w->loop, &k->thread, clear_on_thread, on_cleared) == 0);
}

/* --- messages that cannot be worked on --- */

static void digest(struct str body, char out[17])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n;
    must(EVP_Digest(body.at, body.len, sum, &n, EVP_sha256(), NULL) == 1);
    for (int i = 0; i < 8; i++)
        snprintf(out + (size_t)i * 2, 3, "%02x", sum[i]);
}

/* Of its contents nothing is shown: there may be a token in it. */
static void reject(struct build_work *k, const char *why)
{
    char sum[17];
    digest(k->d->body, sum);
    log_error("a message of %zu bytes, SHA-256 %s…, is thrown away: %s", k->d->body.len, sum, why);
    k->w->count.malformed++;
    build_work_done(k);
}

/* What was tried too often. The pod may be there, if it is only the answers that were lost. */
static void give_up(struct build_work *k)
{
    if (k->m.job == BUILD_STOP) {
        log_error("build %.*s could not be stopped: %s", NAME_ARG(k->m.build), k->exhausted);
        build_work_done(k);
        return;
    }
    k->removes_pods = k->m.job == BUILD_START;
    build_work_fail(k, k->exhausted);
}

/* --- messages come in --- */

static void run(struct build_work *k)
{
    if (k->exhausted)
        give_up(k);
    else if (!k->d)
        build_look_late(k);
    else if (k->m.job == BUILD_START)
        build_start_begin(k);
    else if (k->m.job == BUILD_VERIFY_POD)
        build_look_begin(k);
    else
        stop(k);
}

static void take(struct build_worker *w, struct build_delivery *d, const char *exhausted)
{
    struct build_work *k = work_new(w, d);
    struct err e = build_message_read(d->body, &k->arena, &k->m);
    if (exhausted)
        k->exhausted = arena_copy(&k->arena, (struct str){exhausted, strlen(exhausted) + 1}).at;
    k->started = d->started;
    if (e.code == ERR_OK && k->m.job != BUILD_CLEAR)
        e = build_pod_label(w->s->all, k->m.build, &k->arena, &k->label);
    if (e.code != ERR_OK && k->m.token.len && k->m.api_uri.len) {
        /* It is known whose message this is, but no pod can have its name. */
        list_append(&w->loose, &k->node);
        build_work_fail(k, e.msg);
    } else if (e.code != ERR_OK)
        reject(k, e.msg);
    else if (k->m.job == BUILD_CLEAR)
        clear(k);
    else
        lane_enter(k);
}

static void on_delivered(void *ctx, struct build_delivery *d)
{
    take(ctx, d, NULL);
}

static void on_exhausted(void *ctx, struct build_delivery *d, const char *why)
{
    take(ctx, d, why);
}

static void on_refused(void *ctx, const char *why)
{
    const struct build_worker *w = ctx;
    if (w->s->refused)
        w->s->refused(w->s->refused_ctx, why);
}

struct build_broker_user build_worker_user(void)
{
    return (struct build_broker_user){
        .delivered = on_delivered, .exhausted = on_exhausted, .refused = on_refused};
}

/* A timer fires again and again until it is cleared. */
void build_worker_fired(void *worker, const struct build_timer *t)
{
    struct build_worker *w = worker;
    if (strmap_get(&w->firing, t->build))
        return;
    struct build_work *k = work_new(w, NULL);
    struct buf body = {0};
    build_message_verify(&body, t->config);
    struct err e = build_message_read(arena_copy(&k->arena, buf_view(&body)), &k->arena, &k->m);
    buf_fini(&body);
    if (e.code != ERR_OK) {
        log_error("the timer of build %.*s is dropped: %s", NAME_ARG(t->build), e.msg);
        build_timers_clear(w->p.timers, t->build);
        work_free(k);
        return;
    }
    w->count.timers_fired++;
    k->label = arena_copy(&k->arena, t->build);
    k->started = t->started;
    strmap_put(&w->firing, k->label, k);
    lane_enter(k);
}

/* --- life --- */

struct build_worker *build_worker_new(uv_loop_t *loop, const struct build_worker_settings *s)
{
    struct build_worker *w = ALLOC(struct build_worker);
    w->loop = loop;
    w->s = s;
    list_init(&w->loose);
    return w;
}

void build_worker_attach(struct build_worker *w, const struct build_worker_ports *ports)
{
    w->p = *ports;
}

size_t build_worker_busy(const struct build_worker *w)
{
    return w->busy;
}

const struct build_worker_counters *build_worker_counters(const struct build_worker *w)
{
    return &w->count;
}

static void drop_all(struct list *works)
{
    while (!list_is_empty(works)) {
        struct build_work *k = LIST_OF(works->next, struct build_work, node);
        list_unlink(&k->node);
        arena_fini(&k->arena);
        free(k);
    }
}

void build_worker_free(struct build_worker *w)
{
    for (size_t i = 0; i < w->lanes.cap; i++) {
        struct build_lane *l = w->lanes.slots[i].key ? w->lanes.slots[i].val : NULL;
        if (l)
            drop_all(&l->works);
        free(l);
    }
    strmap_fini(&w->lanes);
    strmap_fini(&w->firing);
    strmap_fini(&w->over.places);
    strmap_fini(&w->made.places);
    drop_all(&w->loose);
    free(w);
}
