/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/executor_task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/duration.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "client/view.h"
#include "client/when.h"
#include "worker/child.h"
#include "worker/notes.h"
#include "worker/report.h"
#include "worker/source_taskcluster.h"

struct executor_task {
    struct executor executor;
    const struct executor_task_args *args;
    char base[NOTES_DIR_MAX]; /* where the directories and logs of tasks are */
    int base_dir;
};

enum task_state {
    TASK_RUNNING,   /* a command is */
    TASK_UPLOADING, /* the artifacts are */
    TASK_LOGGING,   /* the log is */
    TASK_OVER,
};

struct task {
    struct execution execution;
    struct executor_task *owner;
    const struct source_job *job;
    struct arena arena;
    struct task_payload payload;
    instant expires;
    enum task_state state;
    size_t command; /* the one that runs */
    struct child child;
    char **env;
    char name[64], log_name[72]; /* of its directory and its log, in the executor's */
    int dir;
    struct task_log log;
    struct task_items items;
    struct task_item log_item;
    struct task_upload upload;
    bool told_to_end, over_time;
    bool cut;              /* not all could be published */
    const char *exception; /* its reason; NULL: none */
    struct buf message;    /* why it is no success, for the worker's own log */
    bool has_status;
    int status;
};

static struct task *task_of(const struct execution *x)
{
    return (struct task *)x;
}

/* --- the end of the commands --- */

static void begin_uploads(struct task *t);

static void say_why(struct task *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The first reason counts, and is in the task's log. */
static void say_why(struct task *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    must(n >= 0);
    task_log_error(&t->log, "%s", text);
    if (!t->message.len)
        buf_str(&t->message, str_from(text));
    free(text);
}

static void except(struct task *t, const char *reason, const char *why)
{
    t->exception = reason;
    say_why(t, "%s: %s", reason, why);
}

static const char *reason_of_error(enum err_code code)
{
    return code == ERR_DISK_FULL ? "resource-unavailable" : "internal-error";
}

/* --- commands --- */

static void take_output(void *ctx, struct str bytes)
{
    task_log_output(&((struct task *)ctx)->log, bytes);
}

static void log_command(struct task *t)
{
    struct buf line = {0};
    for (char **word = t->payload.commands[t->command]; *word && line.len < 2000; word++)
        buf_print(&line, " %.1000s", *word);
    task_log_line(&t->log, "command %zu of %zu:%.*s", t->command + 1, t->payload.command_count,
                  STR_ARG(buf_view(&line)));
    buf_fini(&line);
}

/* A first command that is not there makes the payload one that this kind of worker cannot run;
 * later ones may be missing because an earlier one failed to make them. */
static void no_start(struct task *t, const char *why)
{
    int e = t->child.failure;
    if (e == EAGAIN || e == ENOMEM || e == EMFILE || e == ENFILE)
        except(t, "resource-unavailable", why);
    else if (t->command == 0)
        except(t, "malformed-payload", why);
    else
        say_why(t, "%s", why);
}

/* False if it could not be started. */
static bool start_command(struct task *t)
{
    log_command(t);
    struct err e =
        child_start_as(&t->child, &(struct child_setting){.argv = t->payload.commands[t->command],
                                                          .env = t->env,
                                                          .dir = t->dir,
                                                          .has_dir = true,
                                                          .output = take_output,
                                                          .ctx = t});
    if (e.code != ERR_OK)
        no_start(t, e.msg);
    return e.code == ERR_OK;
}

static void judge_failure(struct task *t)
{
    struct buf how = {0};
    if (t->told_to_end)
        return; /* that is the reason */
    report_ending(&how, t->status);
    if (WIFEXITED(t->status) && task_payload_retries(&t->payload, WEXITSTATUS(t->status))) {
        buf_lit(&how, ", one of onExitStatus.retry");
        buf_byte(&how, '\0');
        except(t, "intermittent-task", how.at);
    } else {
        say_why(t, "%.*s", STR_ARG(buf_view(&how)));
    }
    buf_fini(&how);
}

/* Runs the next command, or ends the run. */
static void command_ended(struct task *t)
{
    t->status = t->child.status;
    t->has_status = true;
    bool fine = WIFEXITED(t->status) && WEXITSTATUS(t->status) == 0;
    bool last = t->command + 1 == t->payload.command_count;
    if (fine && !last && !t->told_to_end) {
        t->command++;
        if (start_command(t))
            return;
    } else if (!fine) {
        judge_failure(t);
    }
    if (t->over_time)
        say_why(t, "the commands took longer than maxRunTime, %" PRId64 " s",
                t->payload.max_run_time.ms / 1000);
    else if (t->told_to_end && !(fine && last))
        say_why(t, "the worker was told to end the task");
    begin_uploads(t);
}

/* --- uploads --- */

static void begin_uploads(struct task *t)
{
    t->execution.delivering = true;
    t->state = TASK_UPLOADING;
    if (t->has_status) /* otherwise nothing was run, and there is nothing to publish */
        task_items_gather(&t->items, &t->payload, t->dir, t->expires, &t->arena);
    task_upload_begin(&t->upload, t->items.at, t->items.count);
}

static bool is_success(const struct task *t)
{
    return !t->exception && !t->message.len;
}

static void log_end(struct task *t)
{
    struct buf took = {0};
    duration_write(&took, (span){when_ms_between(when_mono(), t->execution.started)});
    task_log_line(&t->log, "%s after %.*s",
                  is_success(t)                                       ? "completed"
                  : t->exception || (t->told_to_end && !t->over_time) ? "exception"
                                                                      : "failed",
                  STR_ARG(buf_view(&took)));
    buf_fini(&took);
}

/* The log is published last, so that it says what became of the artifacts. */
static void begin_log(struct task *t)
{
    if (t->upload.failed && !t->message.len) /* the log has them all */
        buf_str(&t->message, str_from(t->upload.trouble));
    log_end(t);
    t->state = TASK_LOGGING;
    t->upload.log = NULL; /* nobody would read it there */
    t->log_item.expires = t->expires;
    task_upload_begin(&t->upload, &t->log_item, t->log.fd >= 0);
}

static void finish(struct task *t)
{
    t->state = TASK_OVER;
    t->execution.ended = when_mono();
    t->execution.decided = !t->told_to_end && !t->cut;
    t->execution.succeeded = is_success(t) && !t->cut;
}

static bool poll_task(struct execution *x, bool sweep)
{
    struct task *t = task_of(x);
    (void)sweep; /* what a task leaves running is killed in any case */
    if (t->state == TASK_RUNNING) {
        child_pump(&t->child);
        if (child_reap(&t->child, true))
            command_ended(t);
    }
    if (t->state == TASK_UPLOADING && t->upload.done && !t->cut)
        begin_log(t);
    if (t->state != TASK_RUNNING && t->state != TASK_OVER && t->upload.done)
        finish(t);
    return t->state == TASK_OVER;
}

static void send_signal(struct execution *x, enum execution_signal what)
{
    struct task *t = task_of(x);
    if (t->state == TASK_RUNNING) {
        t->over_time |= !t->told_to_end && when_ms_between(when_mono(), t->execution.started) >=
                                               t->payload.max_run_time.ms;
        t->told_to_end = true;
        child_signal(&t->child, what == EXECUTION_TERM ? SIGTERM : SIGKILL);
    } else if (what == EXECUTION_KILL) {
        t->cut = true;
        task_upload_abort(&t->upload);
    }
}

/* --- the start --- */

static char *variable(struct arena *a, const char *name, struct str value)
{
    size_t n = strlen(name);
    char *text = arena_get(a, n + value.len + 2);
    memcpy(text, name, n);
    text[n] = '=';
    if (value.len)
        memcpy(text + n + 1, value.at, value.len);
    text[n + 1 + value.len] = '\0';
    return text;
}

/* Of the worker's environment only what every program may need: the rest may hold its secrets. */
static const char *const passed_on[] = {"PATH", "USER", "LOGNAME", "SHELL",
                                        "LANG", "TZ",   "LC_ALL",  "LC_CTYPE"};

/* Later ones replace earlier ones of the same name: the payload has the last word. */
static void add_variable(char **env, size_t *count, char *text)
{
    size_t n = strcspn(text, "=") + 1;
    for (size_t i = 0; i < *count; i++) {
        if (strncmp(env[i], text, n) == 0) {
            env[i] = text;
            return;
        }
    }
    env[(*count)++] = text;
}

static void make_environment(struct task *t)
{
    const struct task_payload *p = &t->payload;
    struct arena *a = &t->arena;
    char dir[PATH_MAX], run[24];
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s/%s", t->owner->base, t->name);
    snprintf(run, sizeof run, "%" PRId64, t->job->run);
    t->env = arena_get(a, (COUNT(passed_on) + 10 + p->env_count) * sizeof *t->env);
    for (size_t i = 0; i < COUNT(passed_on); i++)
        if (getenv(passed_on[i]))
            t->env[n++] = variable(a, passed_on[i], str_from(getenv(passed_on[i])));
    add_variable(t->env, &n, variable(a, "HOME", str_from(dir)));
    add_variable(t->env, &n, variable(a, "TASK_WORKDIR", str_from(dir)));
    add_variable(t->env, &n, variable(a, "TASK_ID", t->job->id));
    add_variable(t->env, &n, variable(a, "RUN_ID", str_from(run)));
    add_variable(t->env, &n,
                 variable(a, "TASK_GROUP_ID", view_text(a, t->job->payload, "taskGroupId")));
    add_variable(t->env, &n,
                 variable(a, "TASKCLUSTER_ROOT_URL", str_from(t->owner->args->root_url)));
    for (size_t i = 0; i < p->env_count; i++)
        add_variable(t->env, &n, p->env[i]);
    t->env[n] = NULL;
}

static struct err read_payload(struct task *t)
{
    struct str task = t->job->payload;
    struct task_limits limits = {.run_time = t->owner->args->run_time_max};
    if (!rfc3339_parse(view_text(&t->arena, task, "deadline"), &limits.deadline) ||
        !rfc3339_parse(view_text(&t->arena, task, "expires"), &limits.expires))
        return err_make(ERR_BAD_VALUE, "the task has no deadline, or does not say when it expires");
    t->expires = limits.expires;
    return task_payload_read(view_get(task, "payload"), &limits, &t->arena, &t->payload);
}

static struct err open_log(struct task *t)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", t->owner->base, t->log_name);
    return task_log_open(&t->log, path);
}

static void begin(struct task *t)
{
    struct err e = open_log(t);
    if (e.code == ERR_OK)
        e = task_files_make(t->owner->base, t->name, &t->dir);
    if (e.code != ERR_OK) {
        except(t, reason_of_error(e.code), e.msg);
        begin_uploads(t);
        return;
    }
    task_log_line(&t->log, "task %.*s, run %" PRId64 ", on worker %s/%s", STR_ARG(t->job->id),
                  t->job->run, t->owner->args->worker_group, t->owner->args->worker_id);
    e = read_payload(t);
    if (e.code != ERR_OK) {
        except(t, "malformed-payload", e.msg);
        begin_uploads(t);
        return;
    }
    t->execution.limit = t->payload.max_run_time;
    make_environment(t);
    if (!start_command(t))
        begin_uploads(t);
}

static void prepare_uploads(struct task *t)
{
    const struct executor_task *owner = t->owner;
    t->upload = (struct task_upload){.queue = owner->args->queue,
                                     .by = source_taskcluster_credentials(t->job),
                                     .task_id = t->job->id,
                                     .run = t->job->run,
                                     .storage = owner->args->storage,
                                     .log = &t->log};
    t->log_item = (struct task_item){.name = TASK_LOG_NAME,
                                     .content_type = "text/plain; charset=utf-8",
                                     .path = t->log_name,
                                     .dir = owner->base_dir};
}

static struct err start(struct executor *e, const struct source_job *job, struct execution **out)
{
    struct task *t = ALLOC(struct task);
    *t = (struct task){.execution = {.vt = e->vt, .started = when_mono()},
                       .owner = (struct executor_task *)e,
                       .job = job,
                       .child = {.in = -1, .err = -1},
                       .dir = -1,
                       .log.fd = -1};
    snprintf(t->name, sizeof t->name, "%.*s.%" PRId64, STR_ARG(job->id), job->run);
    snprintf(t->log_name, sizeof t->log_name, "%s.log", t->name);
    prepare_uploads(t);
    begin(t);
    *out = &t->execution;
    return err_none();
}

/* --- the rest of executor.h --- */

static size_t fds(const struct execution *x, struct pollfd fds[EXECUTION_FDS_MAX])
{
    const struct child *c = &((const struct task *)x)->child;
    size_t n = 0;
    if (c->in >= 0)
        fds[n++] = (struct pollfd){.fd = c->in, .events = POLLOUT};
    if (c->err >= 0)
        fds[n++] = (struct pollfd){.fd = c->err, .events = POLLIN};
    return n;
}

/* Tasks leave artifacts instead. */
static void news(struct execution *x, struct buf *members)
{
    (void)x;
    (void)members;
}
static void news_taken(struct execution *x)
{
    (void)x;
}

static void failure(struct execution *x, span timeout, struct buf *members)
{
    struct task *t = task_of(x);
    (void)timeout; /* the message says so */
    report_text(members, "message", buf_view(&t->message));
    if (t->exception)
        buf_print(members, ",\"exception\":\"%s\"", t->exception);
}

static void task_free(struct execution *x)
{
    struct task *t = task_of(x);
    task_upload_fini(&t->upload);
    child_fini(&t->child);
    if (t->log.fd >= 0)
        unlinkat(t->owner->base_dir, t->log_name, 0);
    task_log_fini(&t->log);
    if (t->dir >= 0) {
        close(t->dir);
        task_files_remove(t->owner->base, t->name);
    }
    buf_fini(&t->message);
    arena_fini(&t->arena);
    free(t);
}

static void close_executor(struct executor *e)
{
    struct executor_task *x = (struct executor_task *)e;
    close(x->base_dir);
    rmdir(x->base);
    free(x);
}

struct err executor_task_new(const struct executor_task_args *args, struct executor **out)
{
    static const struct executor_vt vt = {.start = start,
                                          .signal = send_signal,
                                          .poll = poll_task,
                                          .fds = fds,
                                          .news = news,
                                          .news_taken = news_taken,
                                          .result = news,
                                          .failure = failure,
                                          .free = task_free,
                                          .close = close_executor};
    struct executor_task *x = ALLOC(struct executor_task);
    *x = (struct executor_task){.executor.vt = &vt, .args = args, .base_dir = -1};
    struct err e = notes_base(x->base);
    if (e.code == ERR_OK)
        x->base_dir = open(x->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (e.code == ERR_OK && x->base_dir < 0)
        e = err_make(ERR_IO, "cannot open %.150s: %s", x->base, strerror(errno));
    if (e.code != ERR_OK) {
        free(x);
        return e;
    }
    *out = &x->executor;
    return err_none();
}
