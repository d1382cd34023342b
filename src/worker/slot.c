/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"
#include "base/must.h"
#include "client/view.h"
#include "client/when.h"
#include "worker/report.h"
#include "worker/worker.h"

/* Between the end of a run's time and SIGKILL: the next run may begin at any moment. */
#define OVERRUN_GRACE ((span){5000})

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
    source_abort(s->worker->source, s->seat);
    execution_free(s->execution);
    s->execution = NULL;
    s->calling = SLOT_NO_CALL;
    s->state = SLOT_FREE;
    s->members.len = 0;
    arena_reset(&s->arena);
    s->worker->idle = false;
}

/* Prints one line about the run: "ok   03fq… send_mail 0.2 s …". */
static void tell(const struct slot *s, enum table_style style, const char *word, struct str more)
{
    const struct execution *x = s->execution;
    struct buf took = {0};
    if (x) {
        buf_byte(&took, ' ');
        mono end = x->ended.ns ? x->ended : s->worker->now;
        duration_write(&took, (span){when_ms_between(end, x->started)});
    }
    report_line(style, word, "%.*s %.*s%.*s%s%.*s", STR_ARG(s->job.id), STR_ARG(s->job.type),
                STR_ARG(buf_view(&took)), more.len ? " " : "", STR_ARG(more));
    buf_fini(&took);
}

static void lose(struct slot *s, const char *why)
{
    s->worker->lost++;
    tell(s, TABLE_BAD, "LOST", str_from(why));
}

/* It keeps running until it is ended, but no report of it will be accepted. */
static void lose_running(struct slot *s, const char *why)
{
    lose(s, why);
    slot_end(s, ENDING_LOST, s->worker->args->grace);
}

/* Its run is over for the server, which has ended it or will when it is back. */
static void overrun(struct slot *s)
{
    struct buf why = {0};
    mono killed = s->kill_at;
    buf_lit(&why, "it took longer than its max_run_ms, ");
    duration_write(&why, s->job.max_run);
    buf_lit(&why, "; ending the command");
    s->worker->failed++;
    tell(s, TABLE_BAD, "FAIL", buf_view(&why));
    buf_fini(&why);
    source_abort(s->worker->source, s->seat);
    s->calling = SLOT_NO_CALL;
    span grace = s->worker->args->grace;
    slot_end(s, ENDING_LOST, grace.ms < OVERRUN_GRACE.ms ? grace : OVERRUN_GRACE);
    if (killed.ns && killed.ns < s->kill_at.ns)
        s->kill_at = killed;
}

/* ---- the start ------------------------------------------------------------ */

static void begin_report(struct slot *s, enum source_report report)
{
    s->state = SLOT_REPORTING;
    s->report = report;
    s->report_at = s->worker->now;
    s->tries = 0;
    if (s->execution && report != SOURCE_SUCCESS)
        execution_news(s->execution, &s->members);
    else if (s->execution)
        execution_result(s->execution, &s->members);
}

/* After a quarter to a third of the lease: slots renew together, which may be one request. */
static mono renew_after(mono since, span lease)
{
    return when_gather(when_after(since, (span){lease.ms / 3}), (span){lease.ms / 12});
}

void slot_begin(struct slot *s)
{
    struct worker *w = s->worker;
    must(s->state == SLOT_FREE && !s->execution);
    s->ending = ENDING_NONE;
    s->kill_at = (mono){0};
    s->taken_away = false;
    s->state = SLOT_RUNNING;
    s->lease_end = when_after(w->now, s->job.lease);
    s->renew_at = renew_after(w->now, s->job.lease);
    s->limit_at = s->job.max_run.ms ? when_after(w->now, s->job.max_run) : (mono){0};
    if (w->stop != STOP_NO) {
        begin_report(s, SOURCE_RELEASE);
        return;
    }
    struct err e = executor_start(w->executor, &s->job, &s->execution);
    if (e.code != ERR_OK) {
        report_no_start(&s->members, e.msg);
        begin_report(s, SOURCE_FAILURE);
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
    execution_signal(s->execution, EXECUTION_TERM);
    s->kill_at = when_after(s->worker->now, kill_after);
}

static span time_limit(const struct slot *s)
{
    return s->execution->limit.ms ? s->execution->limit : s->worker->args->timeout;
}

static void conclude(struct slot *s)
{
    bool timeout = s->ending == ENDING_TIMEOUT, lost = s->ending == ENDING_LOST;
    bool cut = timeout || lost; /* what it said counts no more */
    if (lost && !s->taken_away) {
        set_free(s);
    } else if (!cut && s->execution->succeeded) {
        begin_report(s, SOURCE_SUCCESS);
    } else if (!cut && s->execution->returned) {
        execution_giving_back(s->execution, when_now(), &s->members);
        begin_report(s, SOURCE_RELEASE);
    } else if (lost || (s->ending == ENDING_STOP && !s->execution->decided)) {
        begin_report(
            s, SOURCE_RELEASE); /* of a run that was taken away: it has ended, its gang may wait */
    } else {
        execution_failure(s->execution, timeout ? time_limit(s) : (span){0}, &s->members);
        begin_report(s, SOURCE_FAILURE);
    }
}

void slot_attend(struct slot *s)
{
    if (s->state == SLOT_RUNNING && execution_poll(s->execution, s->ending != ENDING_NONE))
        conclude(s);
}

void slot_kill(struct slot *s)
{
    if (s->state != SLOT_RUNNING)
        return;
    execution_signal(s->execution, EXECUTION_KILL);
    slot_attend(s); /* no signal tells of the end of what was being delivered */
}

void slot_abandon(struct slot *s)
{
    if (s->state == SLOT_FREE)
        return;
    if (s->execution)
        execution_signal(s->execution, EXECUTION_KILL);
    lose(s, "given up without a report; it will be handed out again when its lease ends");
    set_free(s);
}

/* ---- talking to the server ------------------------------------------------ */

static void renew(struct slot *s)
{
    struct buf news = {0};
    execution_news(s->execution, &news);
    s->calling = SLOT_RENEWS;
    source_renew(s->worker->source, s->seat, &s->job, s->worker->args->lease, buf_view(&news));
    buf_fini(&news);
}

static void send_report(struct slot *s)
{
    s->calling = SLOT_REPORTS;
    source_report(s->worker->source, s->seat, &s->job, s->report, buf_view(&s->members));
}

static void renewed(struct slot *s, const struct source_answer *a)
{
    struct worker *w = s->worker;
    if (s->state != SLOT_RUNNING || s->ending == ENDING_LOST)
        return;
    if (a->result == CALL_DONE) {
        span lease = a->lease.ms > 0 ? a->lease : w->args->lease;
        s->lease_end = when_after(a->sent, lease);
        s->renew_at = renew_after(a->sent, lease);
        s->tries = 0;
        execution_news_taken(s->execution);
    } else if (a->result == CALL_GONE) {
        s->taken_away = true;
        lose_running(s, "its run is over for the server; ending the command");
    } else {
        s->renew_at = when_after(w->now, worker_backoff(w, s->tries++));
    }
}

/* Prints the server's decision after a failure, in its words. */
static void tell_failure(struct slot *s, struct str answer)
{
    struct str members = buf_view(&s->members); /* each preceded by a comma */
    struct buf body = {0}, more = {0};
    buf_print(&body, "{%.*s}", (int)members.len - 1, members.at + 1);
    struct str reason = view_text(&s->arena, answer, "reason");
    buf_str(&more, view_text(&s->arena, buf_view(&body), "message"));
    if (reason.len)
        buf_print(&more, " (%.*s)", STR_ARG(reason));
    tell(s, TABLE_BAD, "FAIL", buf_view(&more));
    buf_fini(&body);
    buf_fini(&more);
}

/* Since when it may be handed out again, if the command has said so. */
static void tell_return(struct slot *s)
{
    struct str members = buf_view(&s->members);
    struct buf body = {0}, more = {0};
    buf_print(&body, "{%.*s}", members.len ? (int)members.len - 1 : 0, members.at + 1);
    struct str at = view_get(buf_view(&body), "ready_at");
    buf_lit(&more, "returned unfinished to its queue");
    if (at.len) {
        buf_lit(&more, ", ready ");
        when_relative(&more, view_time(buf_view(&body), "ready_at"), when_now());
    }
    tell(s, TABLE_WAIT, "back", buf_view(&more));
    buf_fini(&body);
    buf_fini(&more);
}

static void report_taken(struct slot *s, struct str answer)
{
    struct worker *w = s->worker;
    if (s->report == SOURCE_SUCCESS) {
        w->succeeded++;
        tell(s, TABLE_GOOD, "ok", STR(""));
    } else if (s->report == SOURCE_FAILURE) {
        w->failed++;
        tell_failure(s, answer);
    } else {
        w->released++;
        tell_return(s);
    }
    set_free(s);
}

static void reported(struct slot *s, const struct source_answer *a)
{
    struct worker *w = s->worker;
    if (s->ending == ENDING_LOST) {
        set_free(s); /* whatever is said to that */
    } else if (a->result == CALL_DONE) {
        report_taken(s, a->body);
    } else if (a->result == CALL_GONE) {
        lose(s, s->tries ? "its run was over when it was reported; an earlier try may have arrived"
                         : "its run was over when it was reported");
        set_free(s);
    } else if (a->result == CALL_REFUSED) {
        lose(s, "");
        report_line(TABLE_BAD, "LOST", "the server refuses the report: %.*s", STR_ARG(a->why));
        set_free(s);
    } else {
        s->report_at = when_after(w->now, worker_backoff(w, s->tries++));
    }
}

void slot_answered(struct slot *s, const struct source_answer *a)
{
    enum slot_call what = s->calling;
    s->calling = SLOT_NO_CALL;
    worker_note(s->worker, a);
    if (what == SLOT_RENEWS)
        renewed(s, a);
    else if (what == SLOT_REPORTS)
        reported(s, a);
}

/* ---- what is due ---------------------------------------------------------- */

static void turn_running(struct slot *s, mono *next)
{
    struct worker *w = s->worker;
    span limit = time_limit(s);
    bool limited = limit.ms && s->ending == ENDING_NONE && !s->execution->delivering;
    mono timeout = when_after(s->execution->started, limit);
    if (s->ending != ENDING_LOST && s->limit_at.ns && due(s->limit_at, w->now))
        overrun(s);
    if (s->ending != ENDING_LOST && due(s->lease_end, w->now)) {
        source_abort(w->source, s->seat);
        s->calling = SLOT_NO_CALL;
        lose_running(s, "its lease ran out while the server did not answer; ending the command");
    }
    if (limited && due(timeout, w->now))
        slot_end(s, ENDING_TIMEOUT, w->args->grace);
    if (s->kill_at.ns && due(s->kill_at, w->now)) {
        s->kill_at = (mono){0};
        if (s->ending != ENDING_TIMEOUT || !s->execution->delivering)
            slot_kill(s);
        if (s->state != SLOT_RUNNING) {
            sooner(next, w->now);
            return;
        }
    }
    if (s->ending != ENDING_LOST && s->calling == SLOT_NO_CALL && due(s->renew_at, w->now))
        renew(s);
    if (s->ending != ENDING_LOST)
        sooner(next, s->lease_end);
    if (s->ending != ENDING_LOST && s->limit_at.ns)
        sooner(next, s->limit_at);
    if (s->ending != ENDING_LOST && s->calling == SLOT_NO_CALL)
        sooner(next, s->renew_at);
    if (limited && s->ending == ENDING_NONE)
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
    /* Waits for a renewal in progress: one call at a time keeps them in order. */
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
