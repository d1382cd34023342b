/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/must.h"
#include "client/subcommand.h"
#include "worker/report.h"
#include "client/when.h"

#define CLAIM_WAIT   ((span){10000}) /* how long a claim may wait for a job */
#define TERM_TO_KILL ((span){5000})
#define CLAIM_GRACE  ((span){2000}) /* for the answer to a claim that was withdrawn */
#define BACKOFF_MAX  ((span){2000})
#define FAR          ((span){3600 * 1000})

span worker_backoff(struct worker *w, unsigned tries)
{
    int64_t full = (int64_t)100 << (tries < 6 ? tries : 6);
    if (full > BACKOFF_MAX.ms)
        full = BACKOFF_MAX.ms;
    return (span){full / 2 + (int64_t)rng_below(&w->rng, (uint64_t)full / 2 + 1)};
}

/* Skips the waits for the server: leases are running out. */
static void hurry(struct worker *w)
{
    w->claim_at = w->now;
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i].state != SLOT_FREE)
            w->slots[i].renew_at = w->slots[i].report_at = w->now;
}

void worker_note(struct worker *w, const struct source_answer *a)
{
    bool down = a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
    if (down == w->down)
        return;
    w->down = down;
    if (!down) {
        report_line(TABLE_GOOD, "up", "%s answers again", w->source->name);
        hurry(w);
        return;
    }
    report_line(TABLE_WAIT, "down", "%.*s; trying again until it answers", STR_ARG(a->why));
}

static size_t count_taken(const struct worker *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->slot_count; i++)
        n += w->slots[i].state != SLOT_FREE;
    return n;
}

static int64_t count_done(const struct worker *w)
{
    return w->succeeded + w->failed + w->lost + w->released;
}

/* ---- claiming ------------------------------------------------------------- */

static void claim(struct worker *w, size_t count)
{
    /* Draining means taking what is there, not waiting for more. */
    source_claim(w->source,
                 &(struct source_claim){.count = count,
                                        .lease = w->args->lease,
                                        .wait = w->args->drain ? (span){0} : CLAIM_WAIT});
}

static bool may_claim(const struct worker *w, size_t taken)
{
    if (w->stop != STOP_NO || w->refused || w->source->claiming || taken == w->slot_count)
        return false;
    if (w->args->once && count_done(w) + (int64_t)taken > 0)
        return false;
    return !(w->args->drain && w->idle);
}

static struct slot *free_slot(struct worker *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i].state == SLOT_FREE)
            return &w->slots[i];
    return NULL;
}

/* Finds a seat for the next job of the answer; the jobs are read even if there is none. */
static bool take_job(struct worker *w, struct slot *s)
{
    struct arena spare = {0};
    struct source_job job;
    enum source_next next = source_next(w->source, s ? &s->arena : &spare, s ? &s->job : &job);
    arena_fini(&spare);
    if (next == SOURCE_NONE)
        return false;
    if (next == SOURCE_BAD && s)
        arena_reset(&s->arena);
    if (next == SOURCE_BAD)
        report_line(TABLE_BAD, "LOST", "the server sent a job without an id or a token");
    else if (s)
        slot_begin(s);
    else
        report_line(TABLE_BAD, "LOST", "the server sent more jobs than were asked for");
    return true;
}

static void take_jobs(struct worker *w)
{
    size_t n = 0;
    while (take_job(w, free_slot(w)))
        n++;
    w->idle = n == 0;
}

static void withdraw_claim(struct worker *w)
{
    if (!w->source->claiming)
        return;
    source_withdraw(w->source, CLAIM_GRACE);
    w->claim_end = when_after(w->now, CLAIM_GRACE);
}

/* What the last claim may have got is asked for once more, to be given back. */
static void resolve_claim(struct worker *w)
{
    size_t room = w->slot_count - count_taken(w);
    if (!w->source->unsure || w->source->claiming || room == 0)
        return;
    source_claim(w->source, &(struct source_claim){.count = room, .lease = w->args->lease});
    w->claim_end = when_after(w->now, CLAIM_GRACE);
}

static void claimed(void *ctx, const struct source_answer *a)
{
    struct worker *w = ctx;
    if (w->stop != STOP_NO && a->result != CALL_DONE)
        return;
    worker_note(w, a);
    if (a->result == CALL_DONE) {
        w->claim_tries = 0;
        w->claim_at = w->now;
        take_jobs(w);
    } else if (a->result == CALL_REFUSED || a->result == CALL_GONE) {
        report_line(TABLE_BAD, "STOP", "%.*s", STR_ARG(a->why));
        w->refused = true;
    } else {
        w->claim_at = when_after(w->now, worker_backoff(w, w->claim_tries++));
    }
}

static void answered(void *ctx, size_t seat, const struct source_answer *a)
{
    slot_answered(&((struct worker *)ctx)->slots[seat], a);
}

/* ---- stopping ------------------------------------------------------------- */

static void end_all(struct worker *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        slot_end(&w->slots[i], ENDING_STOP, TERM_TO_KILL);
}

static void kill_all(struct worker *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        slot_kill(&w->slots[i]);
}

static void stop_further(struct worker *w)
{
    size_t taken = count_taken(w);
    struct buf grace = {0};
    switch (++w->stop) {
    case STOP_WAITING:
        withdraw_claim(w);
        resolve_claim(w);
        w->stop_at = when_after(w->now, w->args->grace);
        duration_write(&grace, w->args->grace);
        if (taken)
            report_line(TABLE_WAIT, "stop", "waiting up to %.*s for %zu running; again to hurry",
                        STR_ARG(buf_view(&grace)), taken);
        break;
    case STOP_TERM:
        w->stop_at = when_after(w->now, TERM_TO_KILL);
        end_all(w);
        break;
    case STOP_KILL:
        w->stop_at = when_after(w->now, TERM_TO_KILL);
        kill_all(w);
        break;
    default:
        w->stop = STOP_NOW;
        source_claim_abort(w->source);
        for (size_t i = 0; i < w->slot_count; i++)
            slot_abandon(&w->slots[i]);
    }
    buf_fini(&grace);
}

static void read_signals(struct worker *w)
{
    struct signalfd_siginfo info;
    while (read(w->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            stop_further(w);
}

static void turn_stop(struct worker *w, mono *next)
{
    if (w->stop != STOP_NO && w->source->claiming) {
        if (w->claim_end.ns <= w->now.ns)
            source_claim_abort(w->source);
        else if (w->claim_end.ns < next->ns)
            *next = w->claim_end;
    }
    /* After SIGKILL only reports are left, which end with their leases. */
    if (w->stop != STOP_WAITING && w->stop != STOP_TERM)
        return;
    if (w->stop_at.ns <= w->now.ns)
        stop_further(w);
    else if (w->stop_at.ns < next->ns)
        *next = w->stop_at;
}

/* ---- the loop ------------------------------------------------------------- */

/* Starts what is due; returns when something will be due next. */
static mono turn(struct worker *w)
{
    mono next = when_after(w->now, FAR);
    for (size_t i = 0; i < w->slot_count; i++)
        slot_attend(&w->slots[i]);
    turn_stop(w, &next);
    for (size_t i = 0; i < w->slot_count; i++)
        slot_turn(&w->slots[i], &next);
    size_t taken = count_taken(w);
    if (may_claim(w, taken)) {
        if (w->claim_at.ns <= w->now.ns)
            claim(w, w->slot_count - taken);
        else if (w->claim_at.ns < next.ns)
            next = w->claim_at;
    }
    return next;
}

static bool is_done(const struct worker *w)
{
    if (count_taken(w) || (w->stop != STOP_NO && w->source->claiming))
        return false;
    return w->stop != STOP_NO || w->refused || (w->args->once && count_done(w)) ||
           (w->args->drain && w->idle);
}

static void wait_until(struct worker *w, mono t, struct pollfd *fds)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = w->signals, .events = POLLIN};
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i].state == SLOT_RUNNING)
            n += execution_fds(w->slots[i].execution, fds + n);
    /* Rounded up, because otherwise the last millisecond would be spent spinning. */
    int64_t ms = (t.ns - when_mono().ns + 999999) / 1000000;
    source_wait(w->source, fds, n, ms < 0 ? 0 : (int)ms);
}

static void loop(struct worker *w)
{
    struct pollfd *fds = alloc_get((EXECUTION_FDS_MAX * w->slot_count + 1) * sizeof *fds);
    for (;;) {
        w->now = when_mono();
        read_signals(w);
        mono next = turn(w);
        bool again = source_poll(w->source);
        if (is_done(w))
            break;
        /* An answer may have made something due. */
        if (!again)
            wait_until(w, next, fds);
    }
    free(fds);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    must(fd >= 0);
    return fd;
}

static void open_worker(struct worker *w, const struct worker_args *args, struct source *source,
                        struct executor *executor)
{
    static const struct source_user user = {.claimed = claimed, .answered = answered};
    uint64_t seed = 0;
    ssize_t got = getrandom(&seed, sizeof seed, 0);
    must(got == sizeof seed);
    *w = (struct worker){.args = args,
                         .source = source,
                         .executor = executor,
                         .signals = open_signals(),
                         .rng = rng_from_seed(seed),
                         .slot_count = (size_t)args->concurrency};
    source->user = &user;
    source->ctx = w;
    w->slots = alloc_zero(w->slot_count * sizeof *w->slots);
    for (size_t i = 0; i < w->slot_count; i++)
        w->slots[i] = (struct slot){.worker = w, .seat = i};
}

static void close_worker(struct worker *w)
{
    source_claim_abort(w->source);
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = &w->slots[i];
        source_abort(w->source, i);
        execution_free(s->execution);
        arena_fini(&s->arena);
        buf_fini(&s->members);
    }
    free(w->slots);
    close(w->signals);
}

static void say_goodbye(const struct worker *w)
{
    struct buf b = {0};
    buf_print(&b, "%" PRId64 " ok, %" PRId64 " failed", w->succeeded, w->failed);
    if (w->released)
        buf_print(&b, ", %" PRId64 " returned", w->released);
    if (w->lost)
        buf_print(&b, ", %" PRId64 " lost", w->lost);
    report_line(TABLE_PLAIN, "end", "%.*s", STR_ARG(buf_view(&b)));
    buf_fini(&b);
}

int worker_run(const struct worker_args *args, struct source *source, struct executor *executor)
{
    struct worker w;
    open_worker(&w, args, source, executor);
    report_line(TABLE_PLAIN, "work", "%s takes jobs of %s from %s, %" PRId64 " at a time",
                args->name, args->queues, source->name, args->concurrency);
    loop(&w);
    say_goodbye(&w);
    int code = CLI_OK;
    if (w.refused || ((args->once || args->drain) && w.failed + w.lost > 0))
        code = CLI_REFUSED;
    close_worker(&w);
    return code;
}
