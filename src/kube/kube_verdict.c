/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_verdict.h"

#include "base/array.h"
#include "base/must.h"

enum meaning { BY_PHASE, HEALTHY, IMAGE, ADMINISTRATOR };

static const char *const meaning_names[] = {[BY_PHASE] = "by-phase",
                                            [HEALTHY] = "healthy",
                                            [IMAGE] = "image",
                                            [ADMINISTRATOR] = "administrator"};

static const struct {
    struct str reason;
    enum meaning by_mode[2];
} reasons[] = {
#define REASON(reason, by_node, pending_is_healthy) {STR(#reason), {by_node, pending_is_healthy}},
#include "kube/kube_reasons.def"
#undef REASON
};

static enum meaning meaning_of(struct str reason, enum kube_verdict_mode mode)
{
    for (size_t i = 0; i < COUNT(reasons); i++)
        if (str_eq(reasons[i].reason, reason))
            return reasons[i].by_mode[mode];
    return BY_PHASE;
}

bool kube_verdict_is_fault(struct str reason, enum kube_verdict_mode mode)
{
    enum meaning m = meaning_of(reason, mode);
    return m == IMAGE || m == ADMINISTRATOR;
}

/* Of a container that has not begun to work: why. */
static struct str reason_of(const struct kube_pod_container *c)
{
    return c->waiting ? c->waiting_reason : c->end.is ? c->end.reason : (struct str){0};
}

static struct str message_of(const struct kube_pod_container *c)
{
    return c->waiting ? c->waiting_message : c->end.is ? c->end.message : (struct str){0};
}

static struct kube_verdict failed_by(const struct kube_pod_container *c,
                                     enum kube_verdict_advice advice)
{
    return (struct kube_verdict){KUBE_VERDICT_FAILED, advice, c, reason_of(c), message_of(c)};
}

/* A pod that has failed: its own reason, or the first container that failed. */
static struct kube_verdict failed(const struct kube_pod *p)
{
    struct kube_verdict v = {
        .start = KUBE_VERDICT_FAILED, .reason = p->reason, .message = p->message};
    for (size_t i = 0; v.reason.len == 0 && i < p->container_count; i++) {
        const struct kube_pod_container *c = &p->containers[i];
        if (kube_pod_has_failed(c))
            return failed_by(c, KUBE_VERDICT_NO_ADVICE);
    }
    return v;
}

static struct kube_verdict by_phase(const struct kube_pod *p)
{
    switch (p->phase) {
    case KUBE_POD_PENDING:
        return (struct kube_verdict){.start = p->node.len ? KUBE_VERDICT_INITIALIZING
                                                          : KUBE_VERDICT_WAITING};
    case KUBE_POD_RUNNING:
    case KUBE_POD_SUCCEEDED:
        return (struct kube_verdict){.start = KUBE_VERDICT_STARTED};
    case KUBE_POD_FAILED:
        return failed(p);
    case KUBE_POD_UNKNOWN:
        break;
    }
    struct kube_verdict v = failed(p);
    if (v.reason.len == 0 && !v.container)
        v.reason = p->phase_name;
    return v;
}

/* What has started once does not fail to start: a sidecar that is started again beside a main
 * container at work, or one whose own policy is to be started again. */
static bool has_started(const struct kube_pod_container *c, const struct kube_pod_container *main)
{
    bool at_work = main && c != main && (main->running || main->end.is);
    bool again = c->restart_count > 0 || c->last.is || c->end.is;
    return (at_work && (again || (c->init && c->sidecar))) || (c->restarts && !c->init && again);
}

struct kube_verdict kube_verdict(const struct kube_pod *p, enum kube_verdict_mode mode)
{
    bool healthy = false;
    const struct kube_pod_container *main = kube_pod_main(p);
    if (p->phase == KUBE_POD_SUCCEEDED) /* what its containers went through does not matter */
        return by_phase(p);
    for (size_t i = 0; i < p->container_count; i++) {
        const struct kube_pod_container *c = &p->containers[i];
        enum meaning m = meaning_of(reason_of(c), mode);
        if (p->phase == KUBE_POD_RUNNING && has_started(c, main))
            continue;
        if (m == IMAGE || m == ADMINISTRATOR)
            return failed_by(c, m == IMAGE ? KUBE_VERDICT_IMAGE : KUBE_VERDICT_ADMINISTRATOR);
        healthy = healthy || m == HEALTHY;
    }
    struct kube_verdict v = by_phase(p);
    if (healthy && p->phase == KUBE_POD_PENDING)
        v.start = KUBE_VERDICT_STARTED;
    return v;
}

/* --- images --- */

static bool says(struct str text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text.at && memmem(text.at, text.len, words[i], strlen(words[i])))
            return true;
    return false;
}

bool kube_verdict_registry_is_away(const struct kube_verdict *v)
{
    static const char *const away[] = {
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service",
        "504 Gateway",
        "429 Too Many Requests",
        "toomanyrequests",
        "i/o timeout",
        "TLS handshake timeout",
        "connection refused",
        "connection reset",
        "context deadline",
        "Client.Timeout",
        "no route to host",
        "server misbehaving",
        "unexpected EOF",
        "network is unreachable",
        "status code 5",
    };
    static const char *const final[] = {"not found", "denied", "manifest unknown", "unauthorized"};
    if (v->start != KUBE_VERDICT_FAILED || v->advice != KUBE_VERDICT_IMAGE)
        return false;
    if (str_eq(v->reason, STR("RegistryUnavailable")))
        return true;
    bool pulls =
        str_eq(v->reason, STR("ErrImagePull")) || str_eq(v->reason, STR("ImagePullBackOff"));
    return pulls && says(v->message, away, COUNT(away)) && !says(v->message, final, COUNT(final));
}

bool kube_verdict_awaits_image(const struct kube_verdict *v)
{
    return v->start == KUBE_VERDICT_FAILED && str_eq(v->reason, STR("ImagePullBackOff"));
}

/* --- in words --- */

const char *kube_verdict_name(enum kube_verdict_start start)
{
    static const char *const names[] = {[KUBE_VERDICT_WAITING] = "waiting",
                                        [KUBE_VERDICT_INITIALIZING] = "initializing",
                                        [KUBE_VERDICT_STARTED] = "running",
                                        [KUBE_VERDICT_FAILED] = "failed"};
    must(start < COUNT(names));
    return names[start];
}

const char *kube_verdict_mode_name(enum kube_verdict_mode mode)
{
    static const char *const names[] = {"by-node", "pending-is-healthy"};
    return mode < COUNT(names) ? names[mode] : NULL;
}

static void add_after(struct buf *b, size_t start, const char *between, struct str text)
{
    if (text.len == 0)
        return;
    if (b->len > start)
        buf_str(b, str_from(between));
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        buf_byte(b, c < 0x20 || c == 0x7f ? ' ' : text.at[i]);
    }
}

void kube_verdict_write(const struct kube_verdict *v, struct buf *b)
{
    static const char *const advice[] = {[KUBE_VERDICT_NO_ADVICE] = "",
                                         [KUBE_VERDICT_IMAGE] = "check your image",
                                         [KUBE_VERDICT_ADMINISTRATOR] =
                                             "contact your administrator"};
    size_t start = b->len;
    must(v->start == KUBE_VERDICT_FAILED);
    if (v->container)
        buf_print(b, "%s %.*s", v->container->init ? "init container" : "container",
                  STR_ARG(v->container->name));
    else
        buf_lit(b, "the pod failed");
    add_after(b, start, ": ", v->reason);
    if (v->container && v->container->end.is && v->container->end.exit_code)
        buf_print(b, " (exit code %d)", v->container->end.exit_code);
    else if (v->container && v->container->end.is && v->container->end.signal)
        buf_print(b, " (signal %d)", v->container->end.signal);
    add_after(b, start, ": ", v->message);
    add_after(b, start, "; ", str_from(advice[v->advice]));
}

span kube_verdict_recheck(enum kube_verdict_start start, uint32_t n)
{
    int64_t more = start == KUBE_VERDICT_INITIALIZING ? (int64_t)n * 10000 : 0;
    return (span){30000 + more};
}

bool kube_verdict_row(size_t i, struct kube_verdict_row *row)
{
    if (i >= COUNT(reasons))
        return false;
    *row = (struct kube_verdict_row){
        reasons[i].reason.at,
        {meaning_names[reasons[i].by_mode[0]], meaning_names[reasons[i].by_mode[1]]}};
    return true;
}
