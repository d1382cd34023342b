/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_view.h"

#include "kube/kube_failure.h"

enum plan_pod pod_view_state(const struct kube_pod *p, enum kube_verdict_mode mode)
{
    if (p->phase == KUBE_POD_SUCCEEDED)
        return PLAN_POD_SUCCEEDED;
    if (p->phase == KUBE_POD_FAILED)
        return PLAN_POD_FAILED;
    if (kube_failure_is_node_lost(p))
        return PLAN_POD_NODE_LOST;
    switch (kube_verdict(p, mode).start) {
    case KUBE_VERDICT_WAITING:
        return PLAN_POD_WAITING;
    case KUBE_VERDICT_INITIALIZING:
        return PLAN_POD_INITIALIZING;
    case KUBE_VERDICT_STARTED:
        return PLAN_POD_RUNNING;
    case KUBE_VERDICT_FAILED:
        break;
    }
    return PLAN_POD_DOOMED;
}

const char *pod_view_phase(const struct kube_pod *p, enum kube_verdict_mode mode)
{
    enum plan_pod state = pod_view_state(p, mode);
    return instant_is_set(p->deleted_at) && exec_plan_alive(state) ? "ending"
                                                                   : exec_plan_pod_name(state);
}

struct str pod_view_waits_for(const struct kube_pod *p)
{
    for (size_t i = 0; i < p->container_count; i++)
        if (p->containers[i].waiting)
            return p->containers[i].waiting_reason;
    return (struct str){0};
}

static void add_line(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_byte(b, (unsigned char)text.at[i] < 0x20 ? ' ' : text.at[i]);
}

/* The condition, or what the cluster says, or how the first container that failed ended. */
static void add_failure(const struct kube_pod *p, enum kube_verdict_mode mode, struct buf *b)
{
    struct arena a = {0};
    struct kube_failure f = kube_failure(p, KUBE_FAILURE_ENDED, mode, (span){0}, NULL, 0, &a);
    if (f.condition || f.pod_error.len) {
        buf_str(b, f.condition ? str_from(f.condition) : f.pod_error);
        arena_fini(&a);
        return;
    }
    for (size_t i = 0; i < f.container_count && !b->len; i++) {
        const struct kube_failure_container *c = &f.containers[i];
        if (c->exit_code == 0 && c->signal == 0)
            continue;
        add_line(b, c->name);
        if (c->signal)
            buf_print(b, ": signal %d", (int)c->signal);
        else
            buf_print(b, ": exit code %d", (int)c->exit_code);
    }
    arena_fini(&a);
}

void pod_view_reason(const struct kube_pod *p, enum kube_verdict_mode mode, struct buf *b)
{
    const struct kube_pod_condition *scheduled = kube_pod_condition(p, "PodScheduled");
    struct kube_verdict v;
    switch (pod_view_state(p, mode)) {
    case PLAN_POD_WAITING:
        if (scheduled)
            add_line(b, scheduled->message);
        break;
    case PLAN_POD_INITIALIZING:
        add_line(b, pod_view_waits_for(p));
        break;
    case PLAN_POD_DOOMED:
        v = kube_verdict(p, mode);
        kube_verdict_write(&v, b);
        break;
    case PLAN_POD_FAILED:
    case PLAN_POD_NODE_LOST:
        add_failure(p, mode, b);
        break;
    default:
        break;
    }
}
