/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/executor_process.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "worker/child.h"
#include "worker/notes.h"
#include "worker/report.h"

struct executor_process {
    struct executor executor;
    const struct executor_process_args *args;
    char notes_base[NOTES_DIR_MAX];
};

struct process {
    struct execution execution;
    struct executor_process *owner;
    struct child child;
    struct notes notes;
};

static struct process *process_of(const struct execution *x)
{
    return (struct process *)x;
}

static char *variable(struct arena *a, const char *name, struct str value)
{
    struct buf b = {0};
    buf_print(&b, "%s=%.*s", name, STR_ARG(value));
    buf_byte(&b, '\0'); /* a NUL inside a name truncates it; nothing worse */
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

static struct err start_child(struct process *p, const struct source_job *job, struct arena *a)
{
    const struct executor_process_args *args = p->owner->args;
    char *extra[10 + NOTES_VARIABLES] = {
        variable(a, "TENAX_JOB_ID", job->id),
        variable(a, "TENAX_JOB_QUEUE", job->queue),
        variable(a, "TENAX_JOB_TYPE", job->type),
        number(a, "TENAX_JOB_ATTEMPT", job->attempts + 1),
        number(a, "TENAX_JOB_RUN", job->run),
        number(a, "TENAX_JOB_PRIORITY", job->priority),
        variable(a, "TENAX_WORKER", str_from(args->worker)),
        variable(a, "TENAX_URL", str_from(args->url)),
        variable(a, "TRACEPARENT", job->traceparent), /* and not the worker's own */
        variable(a, "TRACESTATE", job->tracestate),
    };
    TRY(notes_open(&p->notes, p->owner->notes_base, job->id, job->run, job->checkpoint));
    notes_environment(&p->notes, a, extra + 10);
    char **env = child_environment(extra, COUNT(extra));
    struct err e = child_start(&p->child, args->command, env, job->payload);
    free(env);
    return e;
}

static void process_free(struct execution *x)
{
    struct process *p = process_of(x);
    child_fini(&p->child);
    notes_close(&p->notes);
    free(p);
}

static struct err start(struct executor *e, const struct source_job *job, struct execution **out)
{
    struct executor_process *owner = (struct executor_process *)e;
    struct process *p = ALLOC(struct process);
    struct arena a = {0};
    *p = (struct process){.execution.vt = e->vt, .owner = owner, .child = {.in = -1, .err = -1}};
    struct err err = start_child(p, job, &a);
    arena_fini(&a);
    if (err.code != ERR_OK) {
        process_free(&p->execution);
        return err;
    }
    p->execution.started = p->child.started;
    *out = &p->execution;
    return err_none();
}

static void send_signal(struct execution *x, enum execution_signal what)
{
    child_signal(&process_of(x)->child, what == EXECUTION_TERM ? SIGTERM : SIGKILL);
}

static bool poll_child(struct execution *x, bool sweep)
{
    struct child *c = &process_of(x)->child;
    child_pump(c);
    if (!child_reap(c, sweep))
        return false;
    x->ended = c->ended;
    int64_t back = process_of(x)->owner->args->give_back_exit;
    x->succeeded = WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0;
    x->returned = back && WIFEXITED(c->status) && WEXITSTATUS(c->status) == back;
    return true;
}

static size_t fds(const struct execution *x, struct pollfd fds[EXECUTION_FDS_MAX])
{
    const struct child *c = &process_of(x)->child;
    size_t n = 0;
    if (c->in >= 0)
        fds[n++] = (struct pollfd){.fd = c->in, .events = POLLOUT};
    if (c->err >= 0)
        fds[n++] = (struct pollfd){.fd = c->err, .events = POLLIN};
    return n;
}

static void news(struct execution *x, struct buf *members)
{
    notes_write_news(&process_of(x)->notes, members);
}

static void news_taken(struct execution *x)
{
    notes_taken(&process_of(x)->notes);
}

static void result(struct execution *x, struct buf *members)
{
    notes_write_result(&process_of(x)->notes, members);
}

static void add_category(const struct process *p, struct buf *members)
{
    struct buf message = {0};
    enum executor_category from = p->owner->args->category_from;
    if (from == CATEGORY_STDERR)
        report_category(members, buf_view(&p->child.tail));
    if (from == CATEGORY_MESSAGE && notes_read_message(&p->notes, &message))
        report_category(members, buf_view(&message));
    buf_fini(&message);
}

static void failure(struct execution *x, span timeout, struct buf *members)
{
    struct process *p = process_of(x);
    int status = p->child.status;
    int64_t kill_exit = p->owner->args->kill_exit;
    report_failure(members, &p->child, timeout,
                   kill_exit && WIFEXITED(status) && WEXITSTATUS(status) == kill_exit);
    notes_write_message(&p->notes, members);
    add_category(p, members);
}

static void giving_back(struct execution *x, instant now, struct buf *members)
{
    notes_write_ready_at(&process_of(x)->notes, now, members);
    notes_write_why(&process_of(x)->notes, members);
}

static void close_executor(struct executor *e)
{
    struct executor_process *x = (struct executor_process *)e;
    rmdir(x->notes_base);
    free(x);
}

struct err executor_process_new(const struct executor_process_args *args, struct executor **out)
{
    static const struct executor_vt vt = {.start = start,
                                          .signal = send_signal,
                                          .poll = poll_child,
                                          .fds = fds,
                                          .news = news,
                                          .news_taken = news_taken,
                                          .result = result,
                                          .failure = failure,
                                          .giving_back = giving_back,
                                          .free = process_free,
                                          .close = close_executor};
    struct executor_process *x = ALLOC(struct executor_process);
    *x = (struct executor_process){.executor.vt = &vt, .args = args};
    struct err e = notes_base(x->notes_base);
    if (e.code != ERR_OK) {
        free(x);
        return e;
    }
    *out = &x->executor;
    return err_none();
}
