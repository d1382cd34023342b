/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/must.h"
#include "worker/report.h"
#include "client/view.h"
#include "client/when.h"
#include "worker/worker.h"

#define CALL_TIMEOUT ((span){10000})

static bool due(mono t, mono now)
{
    return t.ns <= now.ns;
}

static void sooner(mono *next, mono t)
{
    if (t.ns < next->ns)
        *next = t;
}

static void set_free(struct slot *s)
{
    call_abort(&s->call, s->worker->multi);
    s->calling = SLOT_NO_CALL;
    s->state = SLOT_FREE;
    s->body.len = 0;
    notes_close(&s->notes);
    arena_reset(&s->arena);
    s->worker->idle = false;
}

/* One line about the run: "ok   03fq… send_mail 0.2 s …". */
static void tell(const struct slot *s, enum table_style style, const char *word, struct str more)
{
    struct buf took = {0};
    if (s->child.started.ns) {
        buf_byte(&took, ' ');
        mono end = s->child.ended.ns ? s->child.ended : s->worker->now;
        duration_write(&took, (span){when_ms_between(end, s->child.started)});
    }
    report_line(style, word, "%.*s %.*s%.*s%s%.*s", STR_ARG(s->id), STR_ARG(s->type),
                STR_ARG(buf_view(&took)), more.len ? " " : "", STR_ARG(more));
    buf_fini(&took);
}

static void lose(struct slot *s, const char *why)
{
    s->worker->lost++;
    tell(s, TABLE_BAD, "LOST", str_from(why));
}

/* The command runs on, but for nothing: nobody will take its report. */
static void lose_running(struct slot *s, const char *why)
{
    lose(s, why);
    slot_end(s, ENDING_LOST, s->worker->args->grace);
}

/* ---- the start ------------------------------------------------------------ */

/* The lease as granted: the server may have shortened what was asked for. Both
 * times are of its clock; ours may be off. */
static span granted(const struct slot *s, struct str job)
{
    instant end = view_time(job, "lease_expires_at"), start = view_time(job, "dequeued_at");
    span asked = s->worker->args->lease;
    if (!instant_is_set(end) || !instant_is_set(start))
        return asked;
    span d = instant_diff(end, start);
    return d.ms > 0 && d.ms < asked.ms ? d : asked;
}

static bool read_job(struct slot *s, struct str job)
{
    struct arena *a = &s->arena;
    struct id id;
    job = arena_copy(a, job);
    s->id = view_text(a, job, "id");
    s->queue = view_text(a, job, "queue");
    s->type = view_text(a, job, "type");
    s->token = view_get(job, "token");
    s->payload = view_get(job, "payload");
    if (!s->payload.len)
        s->payload = STR("null");
    s->checkpoint = view_get(job, "checkpoint");
    s->attempts = s->run = s->priority = 0;
    view_int(job, "attempts", &s->attempts);
    view_int(job, "run", &s->run);
    view_int(job, "priority", &s->priority);
    s->lease = granted(s, job);
    return id_parse(s->id, &id).code == ERR_OK && s->token.len;
}

static char *variable(struct arena *a, const char *name, struct str value)
{
    struct buf b = {0};
    buf_print(&b, "%s=%.*s", name, STR_ARG(value));
    buf_byte(&b, '\0'); /* a NUL inside a name ends it early; nothing worse */
    char *text = arena_get(a, b.len);
    memcpy(text, b.at, b.len);
    buf_fini(&b);
    return text;
}

static char *number(struct arena *a, const char *name, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, v);
    return variable(a, name, (struct str){text, (size_t)n});
}

static struct err start_command(struct slot *s)
{
    struct arena *a = &s->arena;
    const struct worker_args *args = s->worker->args;
    char *extra[8 + NOTES_VARIABLES] = {
        variable(a, "TENAX_JOB_ID", s->id),
        variable(a, "TENAX_JOB_QUEUE", s->queue),
        variable(a, "TENAX_JOB_TYPE", s->type),
        number(a, "TENAX_JOB_ATTEMPT", s->attempts + 1),
        number(a, "TENAX_JOB_RUN", s->run),
        number(a, "TENAX_JOB_PRIORITY", s->priority),
        variable(a, "TENAX_WORKER", str_from(args->name)),
        variable(a, "TENAX_URL", str_from(args->url)),
    };
    TRY(notes_open(&s->notes, s->worker->notes_base, s->id, s->run, s->checkpoint));
    notes_environment(&s->notes, a, extra + 8);
    char **env = child_environment(extra, sizeof extra / sizeof *extra);
    struct err e = child_start(&s->child, args->command, env, s->payload);
    free(env);
    return e;
}

/* The body of a failure is there, but for what the command left in files. */
static void begin_report(struct slot *s, enum slot_report report)
{
    struct buf *b = &s->body;
    s->state = SLOT_REPORTING;
    s->report = report;
    s->report_at = s->worker->now;
    s->tries = 0;
    if (report == REPORT_FAILURE) {
        b->len--; /* its brace */
    } else {
        b->len = 0;
        buf_print(b, "{\"token\":%.*s", STR_ARG(s->token));
    }
    if (report == REPORT_FAILURE)
        notes_write_message(&s->notes, b);
    if (report == REPORT_SUCCESS)
        notes_write_result(&s->notes, b);
    else
        notes_write_news(&s->notes, b);
    buf_byte(b, '}');
}

void slot_begin(struct slot *s, struct str job)
{
    struct worker *w = s->worker;
    must(s->state == SLOT_FREE);
    s->ending = ENDING_NONE;
    s->kill_at = (mono){0};
    s->child.started = s->child.ended = (mono){0};
    if (!read_job(s, job)) {
        report_line(TABLE_BAD, "LOST", "the server sent a job without an id or a token");
        arena_reset(&s->arena);
        return;
    }
    s->state = SLOT_RUNNING;
    s->lease_end = when_after(w->now, s->lease);
    s->renew_at = when_after(w->now, (span){s->lease.ms / 3});
    if (w->stop != STOP_NO) {
        begin_report(s, REPORT_RELEASE);
        return;
    }
    struct err e = start_command(s);
    if (e.code != ERR_OK) {
        report_no_start(&s->body, s->token, e.msg);
        begin_report(s, REPORT_FAILURE);
    }
}

/* ---- the end -------------------------------------------------------------- */

void slot_end(struct slot *s, enum slot_ending why, span kill_after)
{
    if (s->state != SLOT_RUNNING)
        return;
    /* A lost run stays lost, whatever else happens to it. */
    if (s->ending != ENDING_LOST)
        s->ending = why;
    child_signal(&s->child, SIGTERM);
    s->kill_at = when_after(s->worker->now, kill_after);
}

static void conclude(struct slot *s)
{
    const struct worker_args *args = s->worker->args;
    int status = s->child.status;
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (s->ending == ENDING_LOST) {
        set_free(s);
    } else if (s->ending != ENDING_TIMEOUT && fine) {
        begin_report(s, REPORT_SUCCESS);
    } else if (s->ending == ENDING_STOP) {
        begin_report(s, REPORT_RELEASE);
    } else {
        bool kill = args->kill_exit && WIFEXITED(status) && WEXITSTATUS(status) == args->kill_exit;
        s->body.len = 0;
        report_failure(&s->body, s->token, &s->child,
                       s->ending == ENDING_TIMEOUT ? args->timeout : (span){0}, kill);
        begin_report(s, REPORT_FAILURE);
    }
}

void slot_attend(struct slot *s)
{
    if (s->state != SLOT_RUNNING)
        return;
    child_pump(&s->child);
    if (child_reap(&s->child, s->ending != ENDING_NONE))
        conclude(s);
}

void slot_abandon(struct slot *s)
{
    if (s->state == SLOT_FREE)
        return;
    child_signal(&s->child, SIGKILL);
    lose(s, "given up without a report; it will be handed out again when its lease ends");
    set_free(s);
}

/* ---- talking to the server ------------------------------------------------ */

static void call(struct slot *s, enum slot_call what, const char *verb)
{
    char path[64];
    snprintf(path, sizeof path, "/jobs/%.*s/%s", STR_ARG(s->id), verb);
    s->calling = what;
    call_start(&s->call, s->worker->multi, "POST", path, CALL_TIMEOUT);
}

static void renew(struct slot *s)
{
    s->call.body.len = 0;
    buf_print(&s->call.body, "{\"token\":%.*s,\"lease_ms\":%" PRId64, STR_ARG(s->token),
              s->worker->args->lease.ms);
    notes_write_news(&s->notes, &s->call.body);
    buf_byte(&s->call.body, '}');
    call(s, SLOT_RENEWS, "renew");
}

static void send_report(struct slot *s)
{
    static const char *const verbs[] = {"success", "failure", "release"};
    s->call.body.len = 0;
    buf_str(&s->call.body, buf_view(&s->body));
    call(s, SLOT_REPORTS, verbs[s->report]);
}

static void renewed(struct slot *s, enum call_result r)
{
    struct worker *w = s->worker;
    if (s->state != SLOT_RUNNING || s->ending == ENDING_LOST)
        return;
    if (r == CALL_DONE) {
        s->lease_end = when_after(s->call.sent, w->args->lease);
        s->renew_at = when_after(s->call.sent, (span){w->args->lease.ms / 3});
        s->tries = 0;
        notes_taken(&s->notes);
    } else if (r == CALL_GONE) {
        lose_running(s, "its run is over for the server; ending the command");
    } else {
        s->renew_at = when_after(w->now, worker_backoff(w, s->tries++));
    }
}

/* What the server decided after a failure, in its words. */
static void tell_failure(struct slot *s)
{
    struct str answer = buf_view(&s->call.answer);
    struct str message = view_text(&s->arena, buf_view(&s->body), "message");
    struct str reason = view_text(&s->arena, answer, "reason");
    struct buf more = {0};
    buf_str(&more, message);
    if (reason.len)
        buf_print(&more, " (%.*s)", STR_ARG(reason));
    tell(s, TABLE_BAD, "FAIL", buf_view(&more));
    buf_fini(&more);
}

static void report_taken(struct slot *s)
{
    struct worker *w = s->worker;
    if (s->report == REPORT_SUCCESS) {
        w->succeeded++;
        tell(s, TABLE_GOOD, "ok", STR(""));
    } else if (s->report == REPORT_FAILURE) {
        w->failed++;
        tell_failure(s);
    } else {
        w->released++;
        tell(s, TABLE_WAIT, "back", STR("returned unfinished to its queue"));
    }
    set_free(s);
}

static void reported(struct slot *s, enum call_result r)
{
    struct worker *w = s->worker;
    if (r == CALL_DONE) {
        report_taken(s);
    } else if (r == CALL_GONE) {
        lose(s, s->tries ? "its run was over when it was reported; an earlier try may have arrived"
                         : "its run was over when it was reported");
        set_free(s);
    } else if (r == CALL_REFUSED) {
        struct buf why = {0};
        buf_lit(&why, "the server refuses the report: ");
        call_explain(&s->call, &why);
        lose(s, "");
        report_line(TABLE_BAD, "LOST", "%.*s", STR_ARG(buf_view(&why)));
        buf_fini(&why);
        set_free(s);
    } else {
        s->report_at = when_after(w->now, worker_backoff(w, s->tries++));
    }
}

void slot_called(struct slot *s, enum call_result r)
{
    enum slot_call what = s->calling;
    s->calling = SLOT_NO_CALL;
    worker_note(s->worker, &s->call, r);
    if (what == SLOT_RENEWS)
        renewed(s, r);
    else if (what == SLOT_REPORTS)
        reported(s, r);
}

/* ---- what is due ---------------------------------------------------------- */

static void turn_running(struct slot *s, mono *next)
{
    struct worker *w = s->worker;
    mono timeout = when_after(s->child.started, w->args->timeout);
    if (s->ending != ENDING_LOST && due(s->lease_end, w->now)) {
        call_abort(&s->call, w->multi);
        s->calling = SLOT_NO_CALL;
        lose_running(s, "its lease ran out while the server did not answer; ending the command");
    }
    if (s->ending == ENDING_NONE && w->args->timeout.ms && due(timeout, w->now))
        slot_end(s, ENDING_TIMEOUT, w->args->grace);
    if (s->kill_at.ns && due(s->kill_at, w->now)) {
        child_signal(&s->child, SIGKILL);
        s->kill_at = (mono){0};
    }
    if (s->ending != ENDING_LOST && s->calling == SLOT_NO_CALL && due(s->renew_at, w->now))
        renew(s);
    if (s->ending != ENDING_LOST)
        sooner(next, s->lease_end);
    if (s->ending != ENDING_LOST && s->calling == SLOT_NO_CALL)
        sooner(next, s->renew_at);
    if (s->ending == ENDING_NONE && w->args->timeout.ms)
        sooner(next, timeout);
    if (s->kill_at.ns)
        sooner(next, s->kill_at);
}

static void turn_reporting(struct slot *s, mono *next)
{
    struct worker *w = s->worker;
    if (s->tries && due(s->lease_end, w->now)) {
        lose(s, "its lease ran out before the server took the report");
        set_free(s);
        return;
    }
    /* A renewal under way is waited for: one call at a time keeps them in order. */
    if (s->calling == SLOT_NO_CALL && due(s->report_at, w->now))
        send_report(s);
    if (s->calling == SLOT_NO_CALL)
        sooner(next, s->report_at);
    if (s->tries)
        sooner(next, s->lease_end);
}

void slot_turn(struct slot *s, mono *next)
{
    if (s->state == SLOT_RUNNING)
        turn_running(s, next);
    else if (s->state == SLOT_REPORTING)
        turn_reporting(s, next);
}
