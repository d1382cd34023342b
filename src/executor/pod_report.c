/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_report.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"

/* --- logs --- */

void pod_report_logs_fini(struct pod_report_logs *l)
{
    for (size_t i = 0; i < l->count; i++) {
        buf_fini(&l->at[i].container);
        buf_fini(&l->at[i].text);
    }
    l->count = 0;
}

size_t pod_report_level(const size_t *lengths, size_t count, size_t total)
{
    size_t level = 0;
    for (;;) {
        size_t left = total, longer = 0;
        for (size_t i = 0; i < count; i++) {
            left -= lengths[i] < level ? lengths[i] : level;
            longer += lengths[i] > level;
        }
        if (longer == 0 || left / longer == 0)
            return longer ? level : SIZE_MAX;
        level += left / longer;
    }
}

/* Keeps the end of the text. */
static void cut(struct buf *text, size_t most)
{
    struct str end = pod_mask_tail(buf_view(text), most);
    buf_drop(text, text->len - end.len);
}

/* Later logs only lower the level, so that what is cut now would be cut at the end, too. */
static void share(struct pod_report_logs *l)
{
    size_t lengths[POD_REPORT_LOGS_MAX];
    for (size_t i = 0; i < l->count; i++)
        lengths[i] = l->at[i].text.len;
    size_t level = pod_report_level(lengths, l->count, POD_REPORT_BYTES_MAX);
    for (size_t i = 0; i < l->count; i++)
        cut(&l->at[i].text, level);
}

void pod_report_logs_add(struct pod_report_logs *l, struct str container, struct str text,
                         bool cut_end, const struct pod_mask *mask)
{
    must(l->count < POD_REPORT_LOGS_MAX);
    struct pod_report_log *log = &l->at[l->count++];
    struct str end = pod_mask_tail(text, POD_REPORT_LOG_MAX);
    *log = (struct pod_report_log){0};
    buf_str(&log->container, container);
    pod_mask_apply(mask, end, end.len < text.len, cut_end, &log->text);
    cut(&log->text, POD_REPORT_LOG_MAX); /* what replaces bytes that are no text is longer */
    share(l);
}

struct str pod_report_logs_get(const struct pod_report_logs *l, struct str container)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(buf_view(&l->at[i].container), container))
            return buf_view(&l->at[i].text);
    return (struct str){0};
}

const struct kube_pod_container *pod_report_next(const struct kube_pod *p, size_t *at)
{
    for (; *at < 2 * p->container_count; ++*at) {
        const struct kube_pod_container *c = &p->containers[*at % p->container_count];
        bool failed = kube_pod_has_failed(c);
        bool wanted = *at < p->container_count ? failed : !failed;
        if (!wanted || (!c->end.is && !c->running && !c->last.is))
            continue;
        ++*at;
        return c;
    }
    return NULL;
}

/* --- secrets --- */

static void mask_text(struct str *text, const struct pod_mask *mask, struct arena *a)
{
    struct buf b = {0};
    if (text->len == 0)
        return;
    /* A termination message may be the end of a log, and what is long is cut somewhere. */
    pod_mask_apply(mask, *text, true, true, &b);
    *text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
}

void pod_report_mask(struct kube_pod *p, const struct pod_mask *mask, struct arena *a)
{
    struct kube_pod_container *containers =
        arena_get(a, p->container_count * sizeof *containers + 1);
    struct kube_pod_condition *conditions =
        arena_get(a, p->condition_count * sizeof *conditions + 1);
    mask_text(&p->message, mask, a);
    for (size_t i = 0; i < p->container_count; i++) {
        containers[i] = p->containers[i];
        mask_text(&containers[i].end.message, mask, a);
        mask_text(&containers[i].last.message, mask, a);
        mask_text(&containers[i].waiting_message, mask, a);
    }
    for (size_t i = 0; i < p->condition_count; i++) {
        conditions[i] = p->conditions[i];
        mask_text(&conditions[i].message, mask, a);
    }
    p->containers = containers;
    p->conditions = conditions;
}

void pod_report_mask_event(struct kube_pod_event *e, const struct pod_mask *mask, struct arena *a)
{
    mask_text(&e->message, mask, a);
}

/* --- writing --- */

/* Bytes that are no characters are replaced. */
static void add_valid(struct buf *b, struct str text)
{
    while (text.len) {
        size_t good = utf8_check(text);
        buf_add(b, text.at, good);
        if (good == text.len)
            return;
        buf_lit(b, "\xef\xbf\xbd");
        text = (struct str){text.at + good + 1, text.len - good - 1};
    }
}

static void write_string(struct buf *b, struct str text)
{
    struct buf valid = {0};
    add_valid(&valid, text);
    json_write_string(b, buf_view(&valid));
    buf_fini(&valid);
}

void pod_report_text(struct buf *b, const char *name, struct str text)
{
    if (!text.len)
        return;
    buf_print(b, ",\"%s\":", name);
    write_string(b, text);
}

static const struct kube_failure_container *find(const struct kube_failure *f, struct str name)
{
    for (size_t i = 0; i < f->container_count; i++)
        if (str_eq(f->containers[i].name, name))
            return &f->containers[i];
    return NULL;
}

/* failed: how it ended, or why it cannot start; NULL: it was still running. */
static void write_container(struct buf *b, const struct kube_pod_container *c,
                            const struct kube_failure_container *ended, struct str log)
{
    buf_lit(b, "{\"name\":");
    write_string(b, c->name);
    buf_print(b, ",\"init\":%s", c->init ? "true" : "false");
    if (ended && ended->ended)
        buf_print(b, ",\"exit_code\":%d", (int)ended->exit_code);
    if (ended && ended->signal)
        buf_print(b, ",\"signal\":%d", (int)ended->signal);
    if (ended) {
        pod_report_text(b, "reason", ended->reason);
        pod_report_text(b, "message", ended->message);
    }
    pod_report_text(b, "log", log);
    buf_byte(b, '}');
}

/* Those that have ended, cannot start, or have written something. */
static void write_containers(struct buf *b, const struct kube_failure *f, const struct kube_pod *p,
                             const struct pod_report_logs *logs)
{
    size_t count = 0;
    for (size_t i = 0; i < p->container_count && count < KUBE_FAILURE_CONTAINERS_MAX; i++) {
        const struct kube_pod_container *c = &p->containers[i];
        const struct kube_failure_container *ended = find(f, c->name);
        struct str log = pod_report_logs_get(logs, c->name);
        if (!ended && !log.len)
            continue;
        buf_str(b, count++ ? STR(",") : STR(",\"containers\":["));
        write_container(b, c, ended, log);
    }
    if (count)
        buf_byte(b, ']');
}

static void write_events(struct buf *b, const struct kube_failure *f)
{
    for (size_t i = 0; i < f->event_count; i++) {
        buf_str(b, i ? STR(",") : STR(",\"pod_events\":["));
        write_string(b, f->events[i]);
    }
    if (f->event_count)
        buf_byte(b, ']');
}

static void write_culprit(struct buf *b, const struct kube_failure *f)
{
    if (!f->culprit)
        return;
    buf_print(b, ",\"culprit\":\"%s\",\"culprit_evidence\":", f->culprit);
    write_string(b, f->pod_error.len ? f->pod_error : f->message);
}

void pod_report_write(const struct kube_failure *f, const struct kube_pod *p,
                      const struct pod_report_logs *logs, bool alive, struct buf *b)
{
    pod_report_text(b, "message", f->message);
    buf_print(b, ",\"error_type\":\"%s\"", kube_failure_name(f->cause));
    if (f->exit_code)
        buf_print(b, ",\"exit_code\":%d", (int)f->exit_code);
    if (f->signal)
        buf_print(b, ",\"signal\":%d", (int)f->signal);
    if (f->condition)
        buf_print(b, ",\"condition\":\"%s\"", f->condition);
    pod_report_text(b, "node", f->node);
    pod_report_text(b, "pod_error", f->pod_error);
    if (f->decided)
        pod_report_text(b, "termination_message", f->decided->message);
    write_culprit(b, f);
    write_events(b, f);
    write_containers(b, f, p, logs);
    if (f->cause == KUBE_FAILURE_PREEMPTED)
        buf_print(b, ",\"grace_period_ms\":%" PRId64, alive ? f->grace.ms : INT64_C(0));
}
