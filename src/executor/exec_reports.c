/* SPDX-License-Identifier: Apache-2.0 */

/* Decisions. Each is a record of the journal before anything follows from it, and stays one until
 * the server has answered it. They are delivered in the order in which they were made, several at a
 * time, of one job one after the other. A decision that the server refuses as such is replaced by a
 * plain failure, for the job must not hang.
 *
 * Records, as JSON:
 *   {"is":"report","job":ID,"run":N,"token":T,"verb":"failure","held":B,"preempted":B,
 *    "postpone":MS,"body":MEMBERS}
 *   {"is":"pod","job":ID,"run":N,"at":MS,"uid":U,"namespace":NS,"name":NAME} */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define CALL_TIMEOUT ((span){15000})
#define SENDING_MAX  ((size_t)32)

/* How long a job that has no room stays away. */
#define POSTPONED_MIN_MS  1500
#define POSTPONED_STEP_MS 50
#define POSTPONED_MAX_MS  15000

static const char *const verbs[] = {"success", "failure", "release"};

static void forget(struct executor *x, struct exec_report *p)
{
    if (p->run_of)
        p->run_of->report = NULL;
    if (p->record)
        journal_remove(x->journal, p->record);
    list_unlink(&p->node);
    free(p);
}

/* --- what the journal has --- */

static bool is_true(struct str json, const char *key)
{
    return str_eq(view_get(json, key), STR("true"));
}

static void attach(struct exec_report *p, struct exec_run *r)
{
    p->run_of = r;
    r->report = p;
    r->plan.lease = PLAN_DECIDED;
    r->plan.held_back = p->held_back;
    r->plan.was_preempted = p->preempted;
    r->plan.kept = p->record->kept;
    memcpy(r->token, p->token, sizeof r->token);
}

static void load_report(struct executor *x, struct journal_record *record, struct id job,
                        int64_t run, struct arena *a)
{
    struct str json = journal_text(record), verb = view_text(a, json, "verb");
    struct str token = view_text(a, json, "token");
    struct exec_report *p = ALLOC(struct exec_report);
    *p = (struct exec_report){.record = record, .job = job, .run = run, .verb = verbs[1]};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (str_eq(verb, str_from(verbs[i])))
            p->verb = verbs[i];
    if (token.len == EXEC_TOKEN_LEN)
        memcpy(p->token, token.at, EXEC_TOKEN_LEN);
    p->held_back = is_true(json, "held");
    p->preempted = is_true(json, "preempted");
    if (!view_int(json, "postpone", &p->postponed_ms))
        p->postponed_ms = 0;
    list_init(&p->node);
    list_append(&x->reports, &p->node);
    struct exec_run *r = exec_runs_find(x, job, run);
    attach(p, r ? r : exec_runs_add(x, job, run));
}

static char *copy_text(struct str s)
{
    return s.len ? alloc_text(s.at, s.len) : NULL;
}

/* When the pod was first seen, so that a restart gives it no more time to find a node. A clock that
 * was set back meanwhile says nothing. */
static mono seen_at(struct str json)
{
    int64_t at;
    mono now = when_mono();
    if (!view_int(json, "at", &at) || at <= 0)
        return (mono){0};
    int64_t ago = when_now().ms - at;
    if (ago < 0)
        return (mono){0};
    return (mono){ago < now.ns / 1000000 ? now.ns - ago * 1000000 : 1};
}

static void load_pod(struct executor *x, struct journal_record *record, struct id job, int64_t run,
                     struct arena *a)
{
    struct exec_run *r = exec_runs_find(x, job, run);
    struct str json = journal_text(record), uid = view_text(a, json, "uid");
    if (!r)
        r = exec_runs_add(x, job, run);
    if (r->pod_record || uid.len > EXEC_UID_MAX) {
        journal_remove(x->journal, record);
        return;
    }
    r->pod_record = record;
    r->plan.created = seen_at(json);
    r->adopted = true;
    r->ready = EXEC_READY_ASKED;
    memcpy(r->uid, uid.at, uid.len);
    r->name = copy_text(view_text(a, json, "name"));
    r->namespace = copy_text(view_text(a, json, "namespace"));
}

void exec_reports_load(struct executor *x)
{
    struct list *records = journal_records(x->journal);
    for (struct list *n = records->next, *next; n != records; n = next) {
        struct journal_record *record = LIST_OF(n, struct journal_record, node);
        struct arena a = {0};
        struct str json = journal_text(record), is = view_text(&a, json, "is");
        struct id job;
        int64_t run;
        next = n->next;
        if (id_parse(view_text(&a, json, "job"), &job).code != ERR_OK ||
            !view_int(json, "run", &run))
            journal_remove(x->journal, record);
        else if (str_eq(is, STR("pod")))
            load_pod(x, record, job, run, &a);
        else
            load_report(x, record, job, run, &a);
        arena_fini(&a);
    }
}

/* --- new records --- */

static void begin_record(struct buf *b, const char *is, const struct exec_run *r)
{
    char job[ID_TEXT_LEN];
    id_format(r->job, job);
    buf_print(b, "{\"is\":\"%s\",\"job\":\"%.25s\",\"run\":%" PRId64, is, job, r->run);
}

void exec_reports_pod(struct executor *x, struct exec_run *r)
{
    struct buf b = {0};
    if (r->pod_record || !r->name || !*r->uid)
        return;
    begin_record(&b, "pod", r);
    buf_print(&b, ",\"at\":%" PRId64 ",\"uid\":", when_now().ms);
    json_write_string(&b, str_from(r->uid));
    buf_lit(&b, ",\"namespace\":");
    json_write_string(&b, str_from(r->namespace));
    buf_lit(&b, ",\"name\":");
    json_write_string(&b, str_from(r->name));
    buf_byte(&b, '}');
    r->pod_record = journal_add(x->journal, buf_view(&b));
    buf_fini(&b);
}

static void write_report(const struct exec_report *p, const struct exec_run *r, struct str members,
                         struct buf *b)
{
    begin_record(b, "report", r);
    if (*p->token)
        buf_print(b, ",\"token\":\"%s\"", p->token);
    buf_print(b, ",\"verb\":\"%s\"", p->verb);
    if (p->held_back)
        buf_lit(b, ",\"held\":true");
    if (p->preempted)
        buf_lit(b, ",\"preempted\":true");
    if (p->postponed_ms)
        buf_print(b, ",\"postpone\":%" PRId64, p->postponed_ms);
    buf_lit(b, ",\"body\":{\"run\":");
    buf_int(b, r->run);
    if (*p->token)
        buf_print(b, ",\"token\":\"%s\"", p->token);
    buf_str(b, members);
    buf_lit(b, "}}");
}

static void count(struct executor *x, enum plan_result result)
{
    if (result == PLAN_SUCCESS)
        x->counters.succeeded++;
    else if (result == PLAN_RELEASE)
        x->counters.released++;
    else
        x->counters.failed++;
    x->counters.vanished += result == PLAN_VANISHED;
}

/* The more pods have no room, the less often each is tried, so that the cluster is not asked in
 * vain all the time. */
static int64_t postponement(struct executor *x, const struct exec_run *r)
{
    uint32_t streak = r->plan.refusal == PLAN_DENIED    ? x->access.denied
                      : r->plan.refusal == PLAN_FAULTED ? x->access.faults
                                                        : x->no_room_streak;
    int64_t ms =
        r->too_large ? POSTPONED_MAX_MS : POSTPONED_MIN_MS + POSTPONED_STEP_MS * (int64_t)streak;
    ms = ms < POSTPONED_MAX_MS ? ms : POSTPONED_MAX_MS;
    return ms - (int64_t)rng_below(&x->rng, (uint64_t)ms / 4);
}

/* Writes why the job goes back; returns for how long. */
static int64_t give_back(struct executor *x, const struct exec_run *r, struct buf *members)
{
    const char *why = r->refusal ? r->refusal : r->plan.suspended ? x->access.why : NULL;
    if (why) {
        buf_lit(members, ",\"message\":");
        json_write_string(members, str_from(why));
    }
    bool refused = r->plan.refusal != PLAN_ACCEPTED;
    return refused || r->plan.suspended ? postponement(x, r) : 0;
}

void exec_reports_decide(struct executor *x, struct exec_run *r, const struct plan_step *s)
{
    struct exec_report *p = ALLOC(struct exec_report);
    struct buf members = {0}, json = {0}, line = {0};
    *p = (struct exec_report){.job = r->job,
                              .run = r->run,
                              .verb = verbs[s->result == PLAN_SUCCESS   ? 0
                                            : s->result == PLAN_RELEASE ? 2
                                                                        : 1],
                              .held_back = s->held_back,
                              .preempted = s->result == PLAN_PREEMPTED};
    memcpy(p->token, r->token, sizeof p->token);
    if (s->result == PLAN_RELEASE)
        p->postponed_ms = give_back(x, r, &members);
    else if (s->result != PLAN_SUCCESS)
        exec_finish_write(x, r, s->result, &members);
    write_report(p, r, buf_view(&members), &json);
    must(view_check(buf_view(&json), NULL).code == ERR_OK);
    json_write_one_line(&line, buf_view(&json));
    p->record = journal_add(x->journal, buf_view(&line));
    list_init(&p->node);
    list_append(&x->reports, &p->node);
    attach(p, r);
    count(x, s->result);
    exec_finish_free(r);
    if (r->gone)
        r->plan.pod = PLAN_POD_GONE;
    free(r->pod_text);
    r->pod_text = NULL;
    buf_fini(&members);
    buf_fini(&json);
    buf_fini(&line);
}

void exec_reports_deliver(struct executor *x, struct exec_run *r)
{
    must(r->report);
    r->plan.held_back = r->report->held_back = false;
    exec_wake(x);
}

void exec_reports_ended(struct executor *x, struct exec_run *r)
{
    r->plan.told_end = true;
    if (r->report)
        r->report->ended = true;
    exec_wake(x);
}

void exec_reports_kept(void *ctx)
{
    struct executor *x = ctx;
    LIST_EACH (n, &x->reports) {
        const struct exec_report *p = LIST_OF(n, struct exec_report, node);
        if (p->run_of && p->record)
            p->run_of->plan.kept = p->record->kept;
    }
    exec_wake(x);
}

/* --- delivery --- */

struct delivery {
    struct executor *x;
    struct exec_report *report;
};

static void sent(struct executor *x, struct exec_report *p, const struct remote_answer *a)
{
    char job[ID_TEXT_LEN];
    id_format(p->job, job);
    p->tries = 0;
    if (a->result == CALL_GONE)
        log_info("job %.25s: run %" PRId64 " is over for the server, its %s came too late: %.*s",
                 job, p->run, p->verb, STR_ARG(a->why));
    else
        x->counters.reports++;
    p->delivered = true;
    if (p->run_of)
        p->run_of->plan.delivered = true;
    /* Of a preempted run the end is still to be told, unless the server waits for it no more. */
    if (!p->preempted || p->told || a->result == CALL_GONE) {
        if (p->run_of)
            p->run_of->plan.told_end = true;
        forget(x, p);
    }
}

static void on_sent(void *ctx, const struct remote_answer *a)
{
    struct delivery *d = ctx;
    struct executor *x = d->x;
    struct exec_report *p = d->report;
    char job[ID_TEXT_LEN];
    free(d);
    x->sending--;
    p->sending = false;
    exec_wake(x);
    if (a->result == CALL_DONE || a->result == CALL_GONE) {
        sent(x, p, a);
        return;
    }
    if (a->result == CALL_REFUSED && !p->plain && p->delivered == false) {
        id_format(p->job, job);
        log_error("job %.25s: the server refuses the %s of run %" PRId64 ": %.*s; sending less",
                  job, p->verb, p->run, STR_ARG(a->why));
        p->plain = true;
        p->postponed = true;
        return;
    }
    p->told = false;
    p->not_before = when_after(when_mono(), exec_backoff(x, p->tries++));
}

static void post(struct executor *x, struct exec_report *p, const char *method, const char *verb,
                 struct str body, remote_answered *done)
{
    struct delivery *d = ALLOC(struct delivery);
    char path[80], job[ID_TEXT_LEN];
    *d = (struct delivery){x, p};
    id_format(p->job, job);
    snprintf(path, sizeof path, "/jobs/%.25s%s%s", job, verb ? "/" : "", verb ? verb : "");
    p->sending = true;
    x->sending++;
    remote_ask(x->server, method, path, body, CALL_TIMEOUT, done, d);
}

/* Whether it could be postponed or not, the job goes back. */
static void on_postponed(void *ctx, const struct remote_answer *a)
{
    struct delivery *d = ctx;
    struct executor *x = d->x;
    struct exec_report *p = d->report;
    free(d);
    x->sending--;
    p->sending = false;
    if (a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER)
        p->not_before = when_after(when_mono(), exec_backoff(x, p->tries++));
    else
        p->postponed = true;
    exec_wake(x);
}

/* A job that has no room in the cluster lets others pass for a while. */
static void postpone(struct executor *x, struct exec_report *p)
{
    struct buf b = {0};
    buf_print(&b, "{\"ready_at\":%" PRId64 "}", when_now().ms + p->postponed_ms);
    post(x, p, "PATCH", NULL, buf_view(&b), on_postponed);
    buf_fini(&b);
}

static void tell_end(struct executor *x, struct exec_report *p)
{
    struct buf b = {0};
    buf_print(&b, "{\"run\":%" PRId64 ",\"token\":\"%s\"}", p->run, p->token);
    p->told = true;
    post(x, p, "POST", "terminated", buf_view(&b), on_sent);
    buf_fini(&b);
}

/* Without what the server refused. */
static void write_plain(const struct exec_report *p, struct buf *b)
{
    buf_print(b, "{\"run\":%" PRId64, p->run);
    if (*p->token)
        buf_print(b, ",\"token\":\"%s\"", p->token);
    if (p->verb == verbs[1])
        buf_lit(b, ",\"message\":\"the pod failed; the report about it was refused by the server\","
                   "\"error_type\":\"PodFailed\",\"category\":\"internal\","
                   "\"subcategory\":\"issue-handler-error\"");
    buf_byte(b, '}');
}

/* As it was decided; the token may have become known since. */
static void write_kept(const struct exec_report *p, struct buf *b)
{
    struct str body = view_get(journal_text(p->record), "body");
    bool later = *p->token && !view_get(body, "token").len;
    if (later)
        buf_print(b, "{\"token\":\"%s\",", p->token);
    buf_add(b, body.at + later, body.len - later);
}

static void deliver(struct executor *x, struct exec_report *p)
{
    struct buf b = {0};
    if (p->delivered) {
        tell_end(x, p);
        return;
    }
    if (p->postponed_ms && !p->postponed) {
        postpone(x, p);
        return;
    }
    if (p->plain)
        write_plain(p, &b);
    else
        write_kept(p, &b);
    post(x, p, "POST", p->verb, buf_view(&b), on_sent);
    buf_fini(&b);
}

/* An older decision about the same job goes first. */
static bool is_next_of_job(const struct executor *x, const struct exec_report *p)
{
    for (const struct exec_run *o = idmap_get(&x->by_job, p->job); o; o = o->next)
        if (o->run < p->run && o->report && !o->report->delivered)
            return false;
    return true;
}

static bool is_due(const struct executor *x, const struct exec_report *p)
{
    if (p->sending || !p->record->kept || p->held_back || !is_next_of_job(x, p))
        return false;
    /* Who asks which of the jobs are ours is told the token. */
    if (!p->delivered && !*p->token && !holder_claims_have_adopted(x->claims.of))
        return false;
    return !p->delivered || (p->preempted && p->ended && *p->token);
}

void exec_reports_turn(struct executor *x, mono now, mono *next)
{
    for (struct list *n = x->reports.next, *after; n != &x->reports; n = after) {
        struct exec_report *p = LIST_OF(n, struct exec_report, node);
        after = n->next;
        if (p->delivered && p->preempted && p->ended && !*p->token) {
            forget(x, p); /* its end cannot be told without its token */
            continue;
        }
        if (!is_due(x, p))
            continue;
        if (p->not_before.ns > now.ns)
            exec_sooner(next, p->not_before);
        else if (x->sending < SENDING_MAX)
            deliver(x, p);
    }
}

bool exec_reports_idle(const struct executor *x)
{
    LIST_EACH (n, &x->reports) {
        const struct exec_report *p = LIST_OF(n, struct exec_report, node);
        if (!p->delivered && !p->held_back)
            return false;
    }
    return x->sending == 0;
}
