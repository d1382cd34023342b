/* SPDX-License-Identifier: Apache-2.0 */

/* The server's events about jobs of our queues: so a canceled job's pod goes at once, and not at
 * the next renewal of its lease. A stream that ended goes on after the last event that came; where
 * events are missing, all leases are renewed, which tells as much. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define PAUSE     ((span){120000}) /* the server sends heartbeats more often */
#define EVENT_MAX ((size_t)1 << 20)

struct exec_follow {
    struct executor *x;
    struct remote_call *stream;
    struct buf line; /* that has not ended */
    bool skips;      /* a line that is too long */
    bool began;      /* there has been a stream before */
    char last[64];   /* cursor of the newest event; empty: none came */
    mono not_before;
    uint32_t tries;
};

static const char *reason_of(struct str cause)
{
    if (str_eq(cause, STR("cancel")))
        return "the job was canceled";
    if (str_eq(cause, STR("remove")) || str_eq(cause, STR("purge")))
        return "the job was deleted";
    if (str_eq(cause, STR("overrun")))
        return "the deadline of the job is over";
    return "the server has ended it";
}

static void on_event(struct exec_follow *f, struct str event)
{
    struct executor *x = f->x;
    struct arena a = {0};
    struct id job;
    int64_t run;
    bool named = view_int(event, "run", &run);
    struct str cursor = view_text(&a, event, "cursor");
    if (cursor.len && cursor.len < sizeof f->last)
        snprintf(f->last, sizeof f->last, "%.*s", STR_ARG(cursor));
    if (str_eq(view_text(&a, event, "event"), STR("gap")))
        exec_leases_renew_all(x);
    else if (str_eq(view_text(&a, event, "from"), STR("in_flight")) &&
             !str_eq(view_text(&a, event, "to"), STR("in_flight")) &&
             id_parse(view_text(&a, event, "id"), &job).code == ERR_OK)
        for (struct exec_run *r = idmap_get(&x->by_job, job); r; r = r->next)
            if (!named || r->run == run)
                exec_runs_lose(x, r, reason_of(view_text(&a, event, "cause")));
    arena_fini(&a);
}

static void on_line(struct exec_follow *f)
{
    struct str line = buf_view(&f->line);
    if (line.len && view_check(line, NULL).code == ERR_OK)
        on_event(f, line);
    f->line.len = 0;
}

static void on_data(void *ctx, struct str bytes)
{
    struct exec_follow *f = ctx;
    f->tries = 0;
    while (bytes.len) {
        const char *nl = memchr(bytes.at, '\n', bytes.len);
        size_t n = nl ? (size_t)(nl - bytes.at) : bytes.len;
        f->skips |= f->line.len + n > EVENT_MAX;
        if (f->skips)
            f->line.len = 0;
        else
            buf_add(&f->line, bytes.at, n);
        if (nl && !f->skips)
            on_line(f);
        f->skips = f->skips && !nl;
        n += nl != NULL;
        bytes = (struct str){bytes.at + n, bytes.len - n};
    }
}

static void on_end(void *ctx, const struct remote_answer *a)
{
    struct exec_follow *f = ctx;
    f->stream = NULL;
    /* It does not know the cursor, as a server that is older than these. */
    if (a->result == CALL_REFUSED || a->result == CALL_GONE)
        f->last[0] = '\0';
    f->not_before = when_after(when_mono(), exec_backoff(f->x, f->tries++));
    exec_wake(f->x);
}

/* Only what ends a run, and only of our queues. */
static void begin(struct exec_follow *f)
{
    const struct exec_settings *s = f->x->settings;
    struct buf path = {0}, queues = {0};
    for (size_t i = 0; i < s->queue_count; i++) {
        if (i)
            buf_byte(&queues, ',');
        buf_str(&queues, str_from(s->queues[i].name));
    }
    buf_byte(&queues, '\0');
    buf_lit(&path, "/events");
    client_query(&path, "queue", queues.at);
    client_query(&path, "event", "job_dead,job_requeued,job_returned,job_completed,job_deleted");
    if (*f->last)
        client_query(&path, "since", f->last);
    else if (f->began)
        exec_leases_renew_all(f->x);
    f->began = true;
    f->line.len = 0;
    f->skips = false;
    f->stream = remote_stream(f->x->server, client_path(&path), NULL, PAUSE, on_data, on_end, f);
    buf_fini(&path);
    buf_fini(&queues);
}

void exec_follow_turn(struct executor *x, mono now, mono *next)
{
    if (!x->follow) {
        x->follow = ALLOC(struct exec_follow);
        x->follow->x = x;
    }
    struct exec_follow *f = x->follow;
    if (f->stream || x->stopping)
        return;
    if (f->not_before.ns > now.ns)
        exec_sooner(next, f->not_before);
    else
        begin(f);
}

void exec_follow_free(struct executor *x)
{
    if (!x->follow)
        return;
    remote_abort(x->follow->stream);
    buf_fini(&x->follow->line);
    free(x->follow);
    x->follow = NULL;
}
