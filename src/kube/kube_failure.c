/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_failure.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/duration.h"
#include "base/must.h"

static const struct {
    const char *name, *condition;
} causes[] = {
    [KUBE_FAILURE_CONTAINER] = {"PodContainerFailed", NULL},
    [KUBE_FAILURE_OOM_KILLED] = {"PodOOMKilled", "OOMKilled"},
    [KUBE_FAILURE_EVICTED] = {"PodEvicted", "Evicted"},
    [KUBE_FAILURE_PREEMPTED] = {"PodPreempted", "Preempted"},
    [KUBE_FAILURE_DEADLINE_EXCEEDED] = {"PodDeadlineExceeded", "DeadlineExceeded"},
    [KUBE_FAILURE_UNSCHEDULABLE] = {"PodUnschedulable", "Unschedulable"},
    [KUBE_FAILURE_START] = {"PodStartFailed", NULL},
    [KUBE_FAILURE_NODE_LOST] = {"PodNodeLost", NULL},
    [KUBE_FAILURE_DELETED] = {"PodDeleted", NULL},
    [KUBE_FAILURE_POD] = {"PodFailed", NULL},
};

const char *kube_failure_name(enum kube_failure_cause cause)
{
    must(cause < COUNT(causes));
    return causes[cause].name;
}

/* What is being said of one pod. */
struct report {
    const struct kube_pod *pod;
    enum kube_verdict_mode mode;
    span waited;
    struct arena *arena;
    struct kube_failure out;
};

/* --- texts --- */

/* The first bytes of it, not splitting a character. */
static struct str cut(struct str text)
{
    if (text.len <= KUBE_FAILURE_TEXT_MAX)
        return text;
    text.len = KUBE_FAILURE_TEXT_MAX;
    while (text.len && ((unsigned char)text.at[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

static void add_line(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        buf_byte(b, c < 0x20 || c == 0x7f ? ' ' : text.at[i]);
    }
}

static struct str keep(struct buf *b, struct arena *a)
{
    struct str text = arena_copy(a, cut(buf_view(b)));
    buf_fini(b);
    return text;
}

/* "reason: message", or what there is of it. */
static struct str reason_and_message(struct str reason, struct str message, struct arena *a)
{
    struct buf b = {0};
    add_line(&b, reason);
    if (reason.len && message.len)
        buf_lit(&b, ": ");
    add_line(&b, message);
    return keep(&b, a);
}

/* --- the cause --- */

static bool is(struct str text, const char *word)
{
    return str_eq(text, str_from(word));
}

/* Only announced, it may never come: the scheduler changes its mind. */
static const struct kube_pod_condition *disruption(const struct kube_pod *p)
{
    bool happens = instant_is_set(p->deleted_at) || p->phase == KUBE_POD_FAILED ||
                   p->phase == KUBE_POD_UNKNOWN;
    return happens ? kube_pod_is(p, "DisruptionTarget") : NULL;
}

static const struct end {
    const char *reason;
    enum kube_failure_cause cause;
    const char *culprit;
} ends[] = {
#define END(reason, cause, culprit) {reason, KUBE_FAILURE_##cause, culprit},
#include "kube/kube_ends.def"
#undef END
};

static const struct end *end_of(struct str reason)
{
    for (size_t i = 0; i < COUNT(ends); i++)
        if (is(reason, ends[i].reason))
            return &ends[i];
    return NULL;
}

bool kube_failure_is_preempted(const struct kube_pod *p)
{
    const struct kube_pod_condition *c = disruption(p);
    return is(p->reason, "Preempting") || is(p->reason, "Preempted") ||
           (c && is(c->reason, "PreemptionByScheduler"));
}

bool kube_failure_is_node_lost(const struct kube_pod *p)
{
    const struct kube_pod_condition *c = disruption(p);
    if (p->node.len == 0 || p->phase == KUBE_POD_SUCCEEDED)
        return false;
    return is(p->reason, "NodeLost") || p->phase == KUBE_POD_UNKNOWN ||
           (c && is(c->reason, "DeletionByPodGC"));
}

/* What the pod says of itself; false if it says nothing. */
static bool own_cause(const struct kube_pod *p, enum kube_failure_cause *cause)
{
    const struct end *end = end_of(p->reason);
    if (kube_failure_is_preempted(p))
        return *cause = KUBE_FAILURE_PREEMPTED, true;
    if (end && end->cause != KUBE_FAILURE_POD)
        return *cause = end->cause, true;
    if (kube_failure_is_node_lost(p))
        return *cause = KUBE_FAILURE_NODE_LOST, true;
    if (disruption(p)) /* by the eviction API, a taint, or its kubelet */
        return *cause = KUBE_FAILURE_EVICTED, true;
    return false;
}

static const struct kube_pod_container *first_failed(const struct kube_pod *p, bool init,
                                                     bool sidecar)
{
    for (size_t i = 0; i < p->container_count; i++) {
        const struct kube_pod_container *c = &p->containers[i];
        if (c->init == init && c->sidecar == sidecar && kube_pod_has_failed(c))
            return c;
    }
    return NULL;
}

const struct kube_pod_container *kube_failure_decider(const struct kube_pod *p)
{
    const struct kube_pod_container *main = kube_pod_main(p), *c = first_failed(p, true, false);
    if (!c && main && kube_pod_has_failed(main))
        c = main;
    if (!c)
        c = first_failed(p, false, false);
    if (!c)
        c = first_failed(p, false, true);
    return c ? c : first_failed(p, true, true);
}

#define SIGTERM_CODE 143
#define SIGKILL_CODE 137

/* A failure of its own that came before somebody deleted it. */
static bool failed_before_deletion(const struct kube_pod *p)
{
    const struct kube_pod_container *c = kube_failure_decider(p);
    if (!c || !instant_is_set(c->end.ended_at) || c->end.exit_code == SIGTERM_CODE ||
        c->end.exit_code == SIGKILL_CODE)
        return false;
    return c->end.ended_at.ms < p->deleted_at.ms - p->grace.ms;
}

/* Of one that has ended by itself. */
static enum kube_failure_cause ended_cause(const struct report *r)
{
    struct kube_verdict v = kube_verdict(r->pod, r->mode);
    if (v.start == KUBE_VERDICT_FAILED && v.advice != KUBE_VERDICT_NO_ADVICE)
        return KUBE_FAILURE_START;
    const struct kube_pod_container *c = kube_failure_decider(r->pod);
    if (c && is(c->end.reason, "OOMKilled"))
        return KUBE_FAILURE_OOM_KILLED;
    return c ? KUBE_FAILURE_CONTAINER : KUBE_FAILURE_POD;
}

static enum kube_failure_cause cause_of(const struct report *r, enum kube_failure_found found)
{
    enum kube_failure_cause cause;
    bool ended = r->pod->phase == KUBE_POD_FAILED;
    if (found == KUBE_FAILURE_OVERDUE && !ended)
        return KUBE_FAILURE_NODE_LOST;
    if (own_cause(r->pod, &cause))
        return cause;
    if (ended && found == KUBE_FAILURE_ENDED_ALIEN && instant_is_set(r->pod->deleted_at) &&
        !failed_before_deletion(r->pod))
        return KUBE_FAILURE_DELETED;
    if (ended)
        return ended_cause(r);
    switch (found) {
    case KUBE_FAILURE_NOT_STARTED:
    case KUBE_FAILURE_SLOW:
        return KUBE_FAILURE_START;
    case KUBE_FAILURE_NO_NODE:
        return KUBE_FAILURE_UNSCHEDULABLE;
    case KUBE_FAILURE_GONE:
        return KUBE_FAILURE_DELETED;
    case KUBE_FAILURE_OVERDUE:
    case KUBE_FAILURE_ENDED:
    case KUBE_FAILURE_ENDED_ALIEN:
        break;
    }
    return ended_cause(r);
}

/* --- in words --- */

/* The first container that keeps the pod from starting, and why. */
static const struct kube_pod_container *first_waiting(const struct kube_pod *p)
{
    for (size_t i = 0; i < p->container_count; i++)
        if (p->containers[i].waiting && p->containers[i].waiting_reason.len)
            return &p->containers[i];
    return NULL;
}

static void explain_start(struct report *r, struct buf *b)
{
    struct kube_verdict v = kube_verdict(r->pod, r->mode);
    if (v.start == KUBE_VERDICT_FAILED) {
        r->out.pod_error = reason_and_message(v.reason, v.message, r->arena);
        buf_lit(b, " cannot start: ");
        kube_verdict_write(&v, b);
        return;
    }
    const struct kube_pod_container *c = first_waiting(r->pod);
    buf_lit(b, " did not start within ");
    duration_write(b, r->waited);
    if (!c)
        return;
    r->out.pod_error = reason_and_message(c->waiting_reason, c->waiting_message, r->arena);
    buf_print(b, ": container %.*s: ", STR_ARG(c->name));
    buf_str(b, r->out.pod_error);
}

static void explain_unschedulable(struct report *r, struct buf *b)
{
    const struct kube_pod_condition *c = kube_pod_condition(r->pod, "PodScheduled");
    bool known = c && !is(c->status, "True") && c->reason.len;
    r->out.pod_error =
        known ? reason_and_message(c->reason, c->message, r->arena) : STR("Unschedulable");
    buf_lit(b, " found no node within ");
    duration_write(b, r->waited);
    if (known) {
        buf_lit(b, ": ");
        buf_str(b, r->out.pod_error);
    }
}

static void explain_end(const struct kube_pod_container *c, struct buf *b)
{
    if (is(c->end.reason, "OOMKilled"))
        buf_print(b, " ran out of memory (OOMKilled, exit code %d)", c->end.exit_code);
    else if (c->end.exit_code == 0)
        buf_print(b, " was killed by signal %d", c->end.signal);
    else
        buf_print(b, " exited with code %d", c->end.exit_code);
    if (c->end.message.len) {
        buf_lit(b, ": ");
        add_line(b, c->end.message);
    }
}

static void add_node(const struct report *r, struct buf *b)
{
    if (r->pod->node.len == 0)
        return;
    buf_lit(b, " on node ");
    add_line(b, r->pod->node);
}

/* What the pod, or what disrupts it, says. */
static void add_own_words(struct report *r, struct buf *b)
{
    const struct kube_pod *p = r->pod;
    const struct kube_pod_condition *c = disruption(p);
    if (p->reason.len || p->message.len)
        r->out.pod_error = reason_and_message(p->reason, p->message, r->arena);
    else if (c)
        r->out.pod_error = reason_and_message(c->reason, c->message, r->arena);
    if (r->out.pod_error.len) {
        buf_lit(b, ": ");
        buf_str(b, r->out.pod_error);
    }
}

static const char *const happened[] = {
    [KUBE_FAILURE_EVICTED] = " was evicted",
    [KUBE_FAILURE_PREEMPTED] = " was preempted",
    [KUBE_FAILURE_DEADLINE_EXCEEDED] = " ran longer than its activeDeadlineSeconds",
    [KUBE_FAILURE_DELETED] = " was deleted, and not by its executor,",
    [KUBE_FAILURE_POD] = " failed",
};

static void explain_container(struct report *r, struct buf *b)
{
    const struct kube_pod_container *c = kube_failure_decider(r->pod);
    buf_print(b, "%s %.*s of pod ", c->init ? "init container" : "container", STR_ARG(c->name));
    add_line(b, r->pod->name);
    add_node(r, b);
    explain_end(c, b);
}

static struct str explain(struct report *r)
{
    struct buf b = {0};
    enum kube_failure_cause cause = r->out.cause;
    if (cause == KUBE_FAILURE_CONTAINER || cause == KUBE_FAILURE_OOM_KILLED) {
        explain_container(r, &b);
        return keep(&b, r->arena);
    }
    if (cause == KUBE_FAILURE_NODE_LOST) {
        buf_lit(&b, "node ");
        add_line(&b, r->pod->node.len ? r->pod->node : STR("(not known)"));
        buf_lit(&b, " was lost with pod ");
        add_line(&b, r->pod->name);
        add_own_words(r, &b);
        return keep(&b, r->arena);
    }
    buf_lit(&b, "pod ");
    add_line(&b, r->pod->name);
    if (cause == KUBE_FAILURE_START) {
        add_node(r, &b);
        explain_start(r, &b);
    } else if (cause == KUBE_FAILURE_UNSCHEDULABLE) {
        explain_unschedulable(r, &b);
    } else {
        buf_str(&b, str_from(happened[cause]));
        add_node(r, &b);
        add_own_words(r, &b);
    }
    return keep(&b, r->arena);
}

/* --- containers --- */

/* Shells and container runtimes say 128 and the number of the signal that ended a process. */
static int32_t signal_of(const struct kube_pod_end *e)
{
    if (e->signal)
        return e->signal;
    return e->exit_code > 128 && e->exit_code < 160 ? e->exit_code - 128 : 0;
}

static bool describe(const struct report *r, const struct kube_pod_container *c,
                     struct kube_failure_container *to)
{
    const struct kube_pod_end *e = c->end.is ? &c->end : &c->last;
    if (!c->end.is && !(c->waiting && kube_verdict_is_fault(c->waiting_reason, r->mode)))
        return false;
    *to = (struct kube_failure_container){.name = c->name,
                                          .init = c->init,
                                          .ended = e->is,
                                          .reason = c->end.is ? e->reason : c->waiting_reason,
                                          .message = cut(e->message)};
    if (e->is) {
        to->exit_code = e->exit_code;
        to->signal = signal_of(e);
    }
    if (!c->end.is && to->message.len == 0)
        to->message = cut(c->waiting_message);
    return true;
}

/* Of a pod that has ended: who decided; of one that cannot start, which container cannot. */
static void name_decided(struct report *r)
{
    const struct kube_pod_container *c = kube_failure_decider(r->pod);
    for (size_t i = 0; i < r->out.container_count && !r->out.decided; i++) {
        const struct kube_failure_container *f = &r->out.containers[i];
        if (c ? str_eq(f->name, c->name) : f->exit_code != 0 || f->signal != 0)
            r->out.decided = f;
    }
    if (!r->out.decided)
        return;
    r->out.exit_code = r->out.decided->exit_code;
    r->out.signal = r->out.decided->signal;
}

static void describe_all(struct report *r)
{
    const struct kube_pod *p = r->pod;
    struct kube_failure_container *list = NULL;
    size_t count = 0, cap = 0;
    for (size_t i = 0; i < p->container_count && count < KUBE_FAILURE_CONTAINERS_MAX; i++) {
        struct kube_failure_container one;
        if (!describe(r, &p->containers[i], &one))
            continue;
        ARENA_GROW(r->arena, list, count, cap, 4);
        list[count++] = one;
    }
    r->out.containers = list;
    r->out.container_count = count;
    name_decided(r);
}

/* --- events --- */

bool kube_failure_is_about(const struct kube_pod *p, const struct kube_pod_event *e)
{
    if (!e->about_pod)
        return false;
    if (p->uid.len && e->uid.len)
        return str_eq(p->uid, e->uid);
    return str_eq(p->name, e->pod) &&
           (p->namespace.len == 0 || e->namespace.len == 0 || str_eq(p->namespace, e->namespace));
}

/* Warnings, and what is normal for a cluster but not for a pod. */
static bool matters(const struct kube_pod_event *e)
{
    static const char *const normal[] = {"Killing", "Preempted", "Evicted", "TaintManagerEviction",
                                         "NotTriggerScaleUp"};
    for (size_t i = 0; i < COUNT(normal); i++)
        if (is(e->reason, normal[i]))
            return true;
    return e->warning;
}

static int by_time(const void *a, const void *b)
{
    const struct kube_pod_event *const *x = a, *const *y = b;
    int64_t d = (*x)->at.ms - (*y)->at.ms;
    return d ? (d > 0) - (d < 0) : (*x > *y) - (*x < *y); /* else as they were given: one array */
}

static struct str event_text(const struct kube_pod_event *e, struct arena *a)
{
    struct buf b = {0};
    add_line(&b, cut(e->reason));
    buf_lit(&b, ": ");
    add_line(&b, cut(e->message));
    if (e->count > 1)
        buf_print(&b, " (%d times)", e->count);
    return keep(&b, a);
}

static void tell_events(struct report *r, const struct kube_pod_event *events, size_t count)
{
    const struct kube_pod_event **some = arena_get(r->arena, (count + 1) * sizeof(*some));
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (kube_failure_is_about(r->pod, &events[i]) && matters(&events[i]))
            some[n++] = &events[i];
    qsort(some, n, sizeof *some, by_time);
    size_t from = n > KUBE_FAILURE_EVENTS_MAX ? n - KUBE_FAILURE_EVENTS_MAX : 0;
    struct str *texts = arena_get(r->arena, (n - from + 1) * sizeof *texts);
    for (size_t i = from; i < n; i++)
        texts[i - from] = event_text(some[i], r->arena);
    r->out.events = texts;
    r->out.event_count = n - from;
}

/* --- whose fault it is --- */

static const char *culprit_of(const struct report *r)
{
    const struct end *end = end_of(r->pod->reason);
    const struct kube_pod_container *c;
    switch (r->out.cause) {
    case KUBE_FAILURE_EVICTED:
    case KUBE_FAILURE_PREEMPTED:
        return end ? end->culprit : "disruption";
    case KUBE_FAILURE_DELETED:
        return "disruption";
    case KUBE_FAILURE_NODE_LOST:
        return "node";
    case KUBE_FAILURE_POD:
        return end ? end->culprit : NULL;
    case KUBE_FAILURE_CONTAINER: /* its node lost sight of it: nothing is known of its code */
        c = kube_failure_decider(r->pod);
        return end                                                ? end->culprit
               : c && is(c->end.reason, "ContainerStatusUnknown") ? "node"
                                                                  : NULL;
    case KUBE_FAILURE_START: {
        struct kube_verdict v = kube_verdict(r->pod, r->mode);
        return kube_verdict_registry_is_away(&v) ? "dependency" : NULL;
    }
    default:
        return NULL;
    }
}

struct kube_failure kube_failure(const struct kube_pod *p, enum kube_failure_found found,
                                 enum kube_verdict_mode mode, span waited,
                                 const struct kube_pod_event *events, size_t event_count,
                                 struct arena *a)
{
    struct report r = {.pod = p, .mode = mode, .waited = waited, .arena = a};
    r.out.cause = cause_of(&r, found);
    r.out.condition = causes[r.out.cause].condition;
    r.out.node = p->node;
    r.out.culprit = culprit_of(&r);
    if (r.out.cause == KUBE_FAILURE_PREEMPTED)
        r.out.grace = p->grace;
    r.out.message = explain(&r);
    describe_all(&r);
    tell_events(&r, events, event_count);
    return r.out;
}
