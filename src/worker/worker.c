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
#include "client/client.h"
#include "client/command.h"
#include "worker/report.h"
#include "client/view.h"
#include "client/when.h"

#define CLAIM_WAIT   ((span){10000}) /* how long a claim may wait for a job */
#define CLAIM_EXTRA  ((span){15000}) /* what is allowed on top for its answer */
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

/* What waited for the server need not wait any longer: leases are running out. */
static void hurry(struct worker *w)
{
    w->claim_at = w->now;
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i].state != SLOT_FREE)
            w->slots[i].renew_at = w->slots[i].report_at = w->now;
}

void worker_note(struct worker *w, const struct call *c, enum call_result r)
{
    bool down = r == CALL_UNREACHABLE || r == CALL_TRY_LATER;
    if (down == w->down)
        return;
    w->down = down;
    if (!down) {
        report_line(TABLE_GOOD, "up", "%s answers again", w->args->url);
        hurry(w);
        return;
    }
    struct buf why = {0};
    call_explain(c, &why);
    report_line(TABLE_WAIT, "down", "%.*s; trying again until it answers", STR_ARG(buf_view(&why)));
    buf_fini(&why);
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

/* "a,b" as "a","b" */
static void write_queues(struct buf *b, const char *list)
{
    const char *between = "";
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n) {
            buf_str(b, str_from(between));
            json_write_string(b, (struct str){list, n});
            between = ",";
        }
        list += n + (list[n] == ',');
    }
}

static void claim(struct worker *w, size_t count)
{
    const struct worker_args *a = w->args;
    struct buf *b = &w->claim.body;
    /* To drain means to take what is there, not to wait for more. */
    span wait = a->drain ? (span){0} : CLAIM_WAIT;
    b->len = 0;
    buf_lit(b, "{\"queues\":[");
    write_queues(b, a->queues);
    buf_print(b, "],\"count\":%zu,\"lease_ms\":%" PRId64 ",\"worker\":", count, a->lease.ms);
    json_write_string(b, str_from(a->name));
    if (a->node && *a->node) {
        buf_lit(b, ",\"node\":");
        json_write_string(b, str_from(a->node));
    }
    buf_print(b, ",\"wait_ms\":%" PRId64 "}", wait.ms);
    call_start(&w->claim, w->multi, "POST", "/jobs/claim", (span){wait.ms + CLAIM_EXTRA.ms});
}

static bool may_claim(const struct worker *w, size_t taken)
{
    if (w->stop != STOP_NO || w->refused || w->claim.busy || taken == w->slot_count)
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

static void take_jobs(struct worker *w)
{
    struct view_list l = view_list(view_get(buf_view(&w->claim.answer), "jobs"));
    size_t n = 0;
    for (struct str job; view_next(&l, &job); n++) {
        struct slot *s = free_slot(w);
        if (!s) {
            report_line(TABLE_BAD, "LOST", "the server sent more jobs than were asked for");
            break;
        }
        slot_begin(s, job);
    }
    w->idle = n == 0;
}

/* Asks for the answer of the claim that waits: whatever it brings is given back. Just to hang up
 * might lose a job on its way here, until its lease ends. */
static void withdraw_claim(struct worker *w)
{
    struct buf path = {0};
    if (!w->claim.busy)
        return;
    buf_lit(&path, "/jobs/claim");
    client_query(&path, "worker", w->args->name);
    call_start(&w->withdraw, w->multi, "DELETE", client_path(&path), CLAIM_GRACE);
    buf_fini(&path);
    w->claim_end = when_after(w->now, CLAIM_GRACE);
}

static void claimed(struct worker *w, enum call_result r)
{
    if (w->stop != STOP_NO && r != CALL_DONE)
        return;
    worker_note(w, &w->claim, r);
    if (r == CALL_DONE) {
        w->claim_tries = 0;
        w->claim_at = w->now;
        take_jobs(w);
        return;
    }
    if (r == CALL_REFUSED || r == CALL_GONE) {
        struct buf why = {0};
        call_explain(&w->claim, &why);
        report_line(TABLE_BAD, "STOP", "%.*s", STR_ARG(buf_view(&why)));
        buf_fini(&why);
        w->refused = true;
        return;
    }
    w->claim_at = when_after(w->now, worker_backoff(w, w->claim_tries++));
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
        child_signal(&w->slots[i].child, SIGKILL);
}

static void stop_further(struct worker *w)
{
    size_t taken = count_taken(w);
    struct buf grace = {0};
    switch (++w->stop) {
    case STOP_WAITING:
        withdraw_claim(w);
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
        call_abort(&w->claim, w->multi);
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
    if (w->stop != STOP_NO && w->claim.busy) {
        if (w->claim_end.ns <= w->now.ns)
            call_abort(&w->claim, w->multi);
        else if (w->claim_end.ns < next->ns)
            *next = w->claim_end;
    }
    /* After SIGKILL nothing is left but reports, which end with their leases. */
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
    if (count_taken(w) || (w->stop != STOP_NO && w->claim.busy))
        return false;
    return w->stop != STOP_NO || w->refused || (w->args->once && count_done(w)) ||
           (w->args->drain && w->idle);
}

/* Hands finished calls to who made them; true if there was one. */
static bool finish_calls(struct worker *w)
{
    int left, running;
    bool any = false;
    curl_multi_perform(w->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(w->multi, &left));) {
        struct call *c;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        enum call_result r = call_finish(c, w->multi, code);
        any = true;
        if (c->owner)
            slot_called(c->owner, r);
        else if (c == &w->claim)
            claimed(w, r);
    }
    return any;
}

static void wait_until(struct worker *w, mono t, struct curl_waitfd *fds)
{
    unsigned n = 0;
    fds[n++] = (struct curl_waitfd){.fd = w->signals, .events = CURL_WAIT_POLLIN};
    for (size_t i = 0; i < w->slot_count; i++) {
        const struct child *c = &w->slots[i].child;
        if (w->slots[i].state != SLOT_RUNNING)
            continue;
        if (c->in >= 0)
            fds[n++] = (struct curl_waitfd){.fd = c->in, .events = CURL_WAIT_POLLOUT};
        if (c->err >= 0)
            fds[n++] = (struct curl_waitfd){.fd = c->err, .events = CURL_WAIT_POLLIN};
    }
    /* Rounded up, or the last millisecond would be spent spinning. */
    int64_t ms = (t.ns - when_mono().ns + 999999) / 1000000;
    curl_multi_poll(w->multi, fds, n, ms < 0 ? 0 : (int)ms, NULL);
}

static void loop(struct worker *w)
{
    struct curl_waitfd *fds = alloc_get((2 * w->slot_count + 1) * sizeof *fds);
    for (;;) {
        w->now = when_mono();
        read_signals(w);
        mono next = turn(w);
        bool again = finish_calls(w);
        if (is_done(w))
            break;
        /* A finished call may have made something due. */
        if (!again)
            wait_until(w, next, fds);
    }
    free(fds);
}

static void open_worker(struct worker *w, const struct worker_args *args)
{
    uint64_t seed = 0;
    sigset_t set;
    *w = (struct worker){.args = args, .multi = curl_multi_init()};
    must(w->multi);
    ssize_t got = getrandom(&seed, sizeof seed, 0);
    must(got == sizeof seed);
    w->rng = rng_from_seed(seed);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    w->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    must(w->signals >= 0);
    w->slot_count = (size_t)args->concurrency;
    w->slots = alloc_zero(w->slot_count * sizeof *w->slots);
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = &w->slots[i];
        s->worker = w;
        s->child.in = s->child.err = -1;
        call_init(&s->call, args->url, &args->tls);
        s->call.owner = s;
    }
    call_init(&w->claim, args->url, &args->tls);
    call_init(&w->withdraw, args->url, &args->tls);
}

static void close_worker(struct worker *w)
{
    for (size_t i = 0; i < w->slot_count; i++) {
        struct slot *s = &w->slots[i];
        call_abort(&s->call, w->multi);
        call_fini(&s->call);
        child_fini(&s->child);
        arena_fini(&s->arena);
        buf_fini(&s->body);
        notes_close(&s->notes);
    }
    rmdir(w->notes_base);
    call_abort(&w->claim, w->multi);
    call_abort(&w->withdraw, w->multi);
    call_fini(&w->claim);
    call_fini(&w->withdraw);
    free(w->slots);
    close(w->signals);
    curl_multi_cleanup(w->multi);
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

int worker_run(const struct worker_args *args)
{
    struct worker w;
    open_worker(&w, args);
    struct err e = notes_base(w.notes_base);
    if (e.code != ERR_OK) {
        report_line(TABLE_BAD, "STOP", "%s", e.msg);
        close_worker(&w);
        return CLI_REFUSED;
    }
    report_line(TABLE_PLAIN, "work", "%s takes jobs of %s from %s, %" PRId64 " at a time",
                args->name, args->queues, args->url, args->concurrency);
    loop(&w);
    say_goodbye(&w);
    int code = CLI_OK;
    if (w.refused || ((args->once || args->drain) && w.failed + w.lost > 0))
        code = CLI_REFUSED;
    close_worker(&w);
    return code;
}
