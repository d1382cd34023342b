/* SPDX-License-Identifier: Apache-2.0 */

/* A start message: the build's pod is created, and its verification arranged. */

#include "base/log.h"
#include "builds/build_work.h"

static void verify_soon(struct build_work *k, span after)
{
    const struct build_worker_settings *s = k->w->s;
    struct build_order o = {.config = k->m.config_json, .started = s->now(), .after = after};
    if (s->verify)
        build_work_then(k, &o);
    else
        build_work_done(k);
}

/* --- the first look, right after the creation (seed 001, and where nothing is verified) --- */

/* What the build's page shows until the build itself reports. */
static void tell_first(struct build_work *k, const struct kube_pod *p)
{
    struct build_update u = build_work_update(k);
    u.hint = true;
    if (p->node.len)
        build_work_set_node(&u, p, k->w->s->now());
    else
        u.message = STR("Waiting for resources to be available.");
    if (u.token.len)
        k->w->p.status->ops->put(k->w->p.status, &u, NULL, NULL);
}

static void on_first_look(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    const struct kube_pod *p = a->result == BUILD_KUBE_DONE ? build_work_pod(a) : NULL;
    if (p && kube_verdict(p, KUBE_VERDICT_PENDING_IS_HEALTHY).start != KUBE_VERDICT_FAILED) {
        tell_first(k, p);
        build_work_done(k);
        return;
    }
    /* It has failed, or nobody knows: verify says what follows. */
    if (k->w->p.timers)
        build_timers_clear(k->w->p.timers, k->label);
    verify_soon(k, (span){0});
}

/* --- the pod --- */

static void is_there(struct build_work *k, struct str pod)
{
    const struct build_worker_settings *s = k->w->s;
    build_last_add(&k->w->made, k->label);
    log_info("build %.*s: pod %.*s is there", NAME_ARG(k->m.build), STR_ARG(pod));
    if (s->timer || !s->verify)
        k->w->p.kube->ops->list(k->w->p.kube, k->label, on_first_look, k);
    else
        verify_soon(k, s->limits.delay);
}

static void on_created(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    if (a->result == BUILD_KUBE_FINAL) {
        build_work_fail(k, a->why);
        return;
    }
    if (a->result == BUILD_KUBE_FAILED) {
        if (k->w->p.timers)
            build_timers_clear(k->w->p.timers, k->label);
        build_work_retry(k, a->why);
        return;
    }
    k->w->count.pods_created++;
    is_there(k, k->pod.name);
}

static void create(struct build_work *k)
{
    k->w->p.kube->ops->create(k->w->p.kube, k->label, k->pod.json, on_created, k);
}

/* --- a message that comes again --- */

static void on_sought(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    const struct kube_pod *p = a->result == BUILD_KUBE_DONE ? build_work_pod(a) : NULL;
    if (a->result == BUILD_KUBE_FAILED)
        on_created(k, a);
    else if (p && !instant_is_set(p->deleted_at))
        is_there(k, p->name);
    else /* perhaps it may create pods, and not list them */
        create(k);
}

/* The pod's name alone keeps a second one away, if such a worker made the first. Screwdriver's own
 * draws names by chance: while it is being replaced, its messages come here. */
static void create_once(void *ctx)
{
    struct build_work *k = ctx;
    if (k->d->redelivered || k->d->failures > 0 || build_last_has(&k->w->made, k->label))
        k->w->p.kube->ops->list(k->w->p.kube, k->label, on_sought, k);
    else
        create(k);
}

void build_start_begin(struct build_work *k)
{
    const struct build_worker_settings *s = k->w->s;
    k->w->count.starts++;
    if (k->d->failures > 0 && build_work_is_over(k)) {
        log_info("build %.*s was stopped while its start waited to be tried again",
                 NAME_ARG(k->m.build));
        build_work_done(k);
        return;
    }
    build_last_remove(&k->w->over, k->label);
    struct err e = build_pod_make(s->pods, k->m.config, &k->arena, &k->pod);
    if (e.code != ERR_OK) {
        build_work_fail(k, e.msg);
        return;
    }
    if (!s->timer) {
        create_once(k);
        return;
    }
    k->started = s->now();
    struct build_timer t = {.build = k->label,
                            .at = instant_add(k->started, s->init_timeout),
                            .length = s->init_timeout,
                            .started = k->started,
                            .config = k->m.config_json};
    build_timers_set(k->w->p.timers, &t, create_once, k);
}
