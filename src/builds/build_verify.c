/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_verify.h"

#include <stdio.h>

#define AGAIN_MAX_MS (INT64_C(40) * 24 * 3600 * 1000) /* no broker keeps a message for ever */

struct build_verify_limits build_verify_defaults(void)
{
    return (struct build_verify_limits){
        .mode = KUBE_VERDICT_BY_NODE,
        .delay = {30000},
        .step = {10000},
        .scheduling_timeout = {180000},
        .looks_max = 6,
    };
}

static struct build_verify again(span after)
{
    return (struct build_verify){.step = BUILD_VERIFY_AGAIN, .after = after};
}

/* In the original's words, which users know, and Kubernetes' own after them. */
static struct build_verify fail(const struct kube_verdict *v)
{
    static const char *const advice[] = {
        [KUBE_VERDICT_NO_ADVICE] = "Build failed to start.",
        [KUBE_VERDICT_IMAGE] = "Build failed to start. Please check if your image is valid.",
        [KUBE_VERDICT_ADMINISTRATOR] =
            "Build failed to start. Please reach out to your cluster admin for help.",
    };
    struct build_verify out = {.step = BUILD_VERIFY_FAIL};
    struct kube_verdict plain = *v;
    struct buf why = {0};
    plain.advice = KUBE_VERDICT_NO_ADVICE; /* it is said in the original's words */
    kube_verdict_write(&plain, &why);
    snprintf(out.message, sizeof out.message, "%s (%.*s)", advice[v->advice],
             STR_ARG(buf_view(&why)));
    buf_fini(&why);
    return out;
}

static struct build_verify stop(enum build_verify_step step, const char *message)
{
    struct build_verify out = {.step = step};
    snprintf(out.message, sizeof out.message, "%s", message);
    return out;
}

/* A start that is unknown, or in the future because clocks differ, has taken no time yet. */
static bool too_late(const struct build_verify_limits *l, const struct build_verify_look *k)
{
    return instant_is_set(k->started) &&
           instant_diff(k->now, k->started).ms >= l->scheduling_timeout.ms;
}

struct build_verify build_verify(const struct build_verify_limits *l,
                                 const struct build_verify_look *k)
{
    if (!k->pod || k->verdict.start == KUBE_VERDICT_STARTED)
        return (struct build_verify){.step = BUILD_VERIFY_DONE};
    if (k->verdict.start == KUBE_VERDICT_FAILED)
        return fail(&k->verdict);
    /* Seed 001 looks once: a pod that has a node may take as long as it needs. */
    if (k->verdict.start == KUBE_VERDICT_INITIALIZING && l->mode == KUBE_VERDICT_PENDING_IS_HEALTHY)
        return (struct build_verify){.step = BUILD_VERIFY_DONE};
    if (k->verdict.start == KUBE_VERDICT_WAITING && too_late(l, k))
        return stop(BUILD_VERIFY_STOP, "Pod scheduling timeout exceeded");
    /* The original fails the build without this last look, even if its pod runs by now. */
    if (k->count >= l->looks_max)
        return stop(BUILD_VERIFY_FAIL, "Build failed to start: its pod was not ready in time");
    if (k->verdict.start == KUBE_VERDICT_WAITING)
        return again(l->delay);
    int64_t ms = l->delay.ms + (int64_t)k->count * l->step.ms;
    return again((span){ms < AGAIN_MAX_MS ? ms : AGAIN_MAX_MS});
}
