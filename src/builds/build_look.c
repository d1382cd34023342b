/* SPDX-License-Identifier: Apache-2.0 */

/* A verify message: the build's pod is looked at, and the build goes on, is looked at again, or
 * ends. And the timers of seed 001, which come before that. */

#include "base/log.h"
#include "builds/build_work.h"

/* --- verification --- */

static void on_rearmed(void *ctx)
{
    build_work_done(ctx);
}

/* In seed 001 there is no wait queue: the build's timer does it. */
static void rearm(struct build_work *k)
{
    const struct build_worker_settings *s = k->w->s;
    struct build_timer t = {.build = k->label,
                            .at = instant_add(s->now(), s->init_timeout),
                            .length = s->init_timeout,
                            .started = k->started,
                            .config = k->m.config_json};
    build_timers_set(k->w->p.timers, &t, on_rearmed, k);
}

static void look_again(struct build_work *k, const struct build_verify_look *look, span after)
{
    const struct build_worker_settings *s = k->w->s;
    k->w->count.looks_again++;
    if (s->timer) {
        log_info("build %.*s is %s: again in %lld ms", NAME_ARG(k->m.build),
                 kube_verdict_name(look->verdict.start), (long long)s->init_timeout.ms);
        rearm(k);
        return;
    }
    struct build_order o = {.config = k->m.config_json,
                            .started = instant_is_set(k->started) ? k->started : s->now(),
                            .looks = look->count + 1,
                            .after = after};
    log_info("build %.*s is %s (look %u): again in %lld ms", NAME_ARG(k->m.build),
             kube_verdict_name(look->verdict.start), look->count + 1, (long long)after.ms);
    build_work_then(k, &o);
}

/* Its page says where it runs, and since when its image was being pulled. */
static void is_running(struct build_work *k, const struct kube_pod *p)
{
    struct build_update u = build_work_update(k);
    k->w->count.builds_running++;
    if (k->w->p.timers)
        build_timers_clear(k->w->p.timers, k->label);
    log_info("build %.*s runs on node %.*s", NAME_ARG(k->m.build), STR_ARG(p->node));
    build_work_set_node(&u, p, k->w->s->now());
    if (u.token.len && u.hostname.len)
        build_work_tell(k, &u);
    else
        build_work_done(k);
}

/* Of a build that was stopped, nothing is left to be said. But a pod may also have been evicted, or
 * deleted by hand, before it ran; a build that has ended otherwise takes no status any more. */
static void is_gone(struct build_work *k)
{
    bool last = k->d->looks >= k->w->s->limits.looks_max;
    k->w->count.builds_gone++;
    if (build_work_is_over(k) || (!instant_is_set(k->d->started) && !last)) {
        log_info("build %.*s has no pod any more: there is nothing to verify",
                 NAME_ARG(k->m.build));
        build_work_done(k);
        return;
    }
    build_work_fail(k, "Build failed to start: its pod is gone");
}

static void is_waiting(struct build_work *k)
{
    struct build_update u = build_work_update(k);
    u.hint = true;
    u.message = STR("Waiting for resources to be available.");
    if (u.token.len)
        k->w->p.status->ops->put(k->w->p.status, &u, NULL, NULL);
}

static void conclude(struct build_work *k, const struct kube_pod *p,
                     const struct build_verify_look *look)
{
    struct build_verify v = build_verify(&k->w->s->limits, look);
    switch (v.step) {
    case BUILD_VERIFY_DONE:
        if (p)
            is_running(k, p);
        else
            is_gone(k);
        break;
    case BUILD_VERIFY_AGAIN:
        if (!k->w->s->timer && look->verdict.start == KUBE_VERDICT_WAITING && look->count == 0)
            is_waiting(k);
        look_again(k, look, v.after);
        break;
    case BUILD_VERIFY_STOP:
        k->removes_pods = true;
        build_work_fail(k, v.message);
        break;
    case BUILD_VERIFY_FAIL:
        build_work_fail(k, v.message);
        break;
    }
}

static void on_look(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    const struct build_worker_settings *s = k->w->s;
    if (a->result != BUILD_KUBE_DONE) {
        build_work_retry(k, a->why);
        return;
    }
    const struct kube_pod *p = build_work_pod(a);
    struct build_verify_look look = {
        .pod = p != NULL, .count = k->d->looks, .started = k->started, .now = s->now()};
    if (p)
        look.verdict = kube_verdict(p, s->limits.mode);
    conclude(k, p, &look);
}

void build_look_begin(struct build_work *k)
{
    k->w->count.verifies++;
    k->w->p.kube->ops->list(k->w->p.kube, k->label, on_look, k);
}

/* --- timers --- */

static void on_ordered(void *ctx)
{
    struct build_work *k = ctx;
    build_timers_clear(k->w->p.timers, k->label);
    build_work_done(k);
}

static void order(void *ctx)
{
    struct build_work *k = ctx;
    struct build_order o = {.config = k->m.config_json, .started = k->started};
    if (k->w->s->verify)
        k->w->p.broker->ops->publish(k->w->p.broker, &o, on_ordered, k);
    else
        on_ordered(k);
}

/* The original says so of each build; here a pod that runs is not called delayed. */
static void on_late_look(void *ctx, const struct build_kube_answer *a)
{
    struct build_work *k = ctx;
    const struct kube_pod *p = a->result == BUILD_KUBE_DONE ? build_work_pod(a) : NULL;
    bool runs = p && kube_verdict(p, KUBE_VERDICT_BY_NODE).start == KUBE_VERDICT_STARTED;
    if (runs || (a->result == BUILD_KUBE_DONE && !p) || k->m.token.len == 0) {
        order(k);
        return;
    }
    struct build_update u = build_work_update(k);
    if (k->m.api_uri.len)
        u.api = k->m.api_uri;
    u.message = STR("Build initialization delayed");
    log_warn("build %.*s: its initialization is delayed", NAME_ARG(k->m.build));
    k->w->p.status->ops->put(k->w->p.status, &u, order, k);
}

void build_look_late(struct build_work *k)
{
    k->w->p.kube->ops->list(k->w->p.kube, k->label, on_late_look, k);
}
