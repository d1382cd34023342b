/* SPDX-License-Identifier: Apache-2.0 */

/* tenax work --taskcluster */

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "cli/commands.h"
#include "cli/work.h"
#include "worker/executor_task.h"
#include "worker/report.h"
#include "worker/source_taskcluster.h"
#include "worker/worker.h"

#define NAME_MAX_LEN 38 /* of a provisioner, a worker type, a group, an id */

/* Until the server has said how long a claim holds. */
#define LEASE ((span){20 * 60 * 1000})

static size_t name_length(const char *s)
{
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
}

static bool is_name(const char *s)
{
    size_t n = name_length(s);
    return n > 0 && n <= NAME_MAX_LEN && !s[n];
}

static bool is_task_queue(const char *s)
{
    size_t n = name_length(s);
    return n > 0 && n <= NAME_MAX_LEN && s[n] == '/' && is_name(s + n + 1);
}

static const char *set_variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* The root URL: --url, or else TASKCLUSTER_ROOT_URL, or else where every command finds its server.
 */
static const char *root_url(const struct work_args *args, const struct options *o)
{
    const char *root = set_variable("TASKCLUSTER_ROOT_URL");
    return root && options_source_of(o, "url") != OPTION_FROM_FLAG ? root : args->client.url;
}

static int check(const struct work_args *args, const struct options *o)
{
    const char *url = root_url(args, o), *wrong = call_bad_url(url);
    if (!args->task_queue)
        return subcommand_usage(&work_command, "which task queue? give --task-queue");
    if (!is_task_queue(args->task_queue))
        return subcommand_usage(&work_command,
                                "option '--task-queue': '%.200s' is not like ci/linux: two names "
                                "of 1 to 38 letters, digits, '-' and '_'",
                                args->task_queue);
    if (!is_name(args->worker_group))
        return subcommand_usage(&work_command,
                                "option '--worker-group': '%.200s' is not 1 to 38 letters, "
                                "digits, '-' and '_'",
                                args->worker_group);
    if (args->worker_id && !is_name(args->worker_id))
        return subcommand_usage(&work_command,
                                "option '--worker-id': '%.200s' is not 1 to 38 letters, digits, "
                                "'-' and '_'",
                                args->worker_id);
    if (o->rest_count)
        return subcommand_usage(&work_command,
                                "with --taskcluster tasks bring their commands; '%.200s' is one "
                                "too many",
                                o->rest[0]);
    if (wrong)
        return subcommand_usage(&work_command, "'%.200s' is not the URL of a server; %s", url,
                                wrong);
    return CLI_OK;
}

/* Copies a variable, and removes it from where commands would inherit it, or read it in /proc. */
static struct str take_variable(const char *name)
{
    char *v = getenv(name);
    if (!v || !*v)
        return (struct str){0};
    struct str copy = {alloc_text(v, strlen(v)), strlen(v)};
    explicit_bzero(v, copy.len);
    unsetenv(name);
    return copy;
}

static int take_credentials(struct hawk_credentials *by)
{
    static const char *const names[] = {"TASKCLUSTER_CLIENT_ID", "TASKCLUSTER_ACCESS_TOKEN",
                                        "TASKCLUSTER_CERTIFICATE"};
    struct str *const parts[] = {&by->client_id, &by->access_token, &by->certificate};
    for (size_t i = 0; i < COUNT(names); i++)
        *parts[i] = take_variable(names[i]);
    if (!by->client_id.len && !by->access_token.len && !by->certificate.len)
        return CLI_OK;
    if (!by->client_id.len || !by->access_token.len)
        return subcommand_usage(&work_command,
                                "TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN belong "
                                "together; only one of them, or only a certificate, is set");
    const char *bad = hawk_client_bad(by);
    return bad ? subcommand_usage(&work_command, "the credentials cannot be used: %s", bad)
               : CLI_OK;
}

static void free_credentials(struct hawk_credentials *by)
{
    free((char *)by->client_id.at);
    free((char *)by->access_token.at);
    free((char *)by->certificate.at);
}

/* Host and process id, in the characters that an id may have. */
static void make_id(char id[NAME_MAX_LEN + 1])
{
    char host[64] = "worker", pid[16];
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "-%d", (int)getpid());
    size_t room = NAME_MAX_LEN - strlen(pid), n = 0;
    for (; n < room && host[n]; n++)
        id[n] = name_length((char[]){host[n], '\0'}) ? host[n] : '-';
    snprintf(id + n, NAME_MAX_LEN + 1 - n, "%s", pid);
}

static int run(const struct work_args *args, const char *url, const char *id,
               const struct hawk_credentials *own)
{
    struct taskqueue_args to = {.root_url = url, .tls = args->client.tls, .own = own};
    to.tls.no_token = true; /* that server is not Tenax's, or knows its own credentials */
    struct taskqueue *queue = taskqueue_new(&to);
    struct executor_task_args by = {.root_url = url,
                                    .worker_group = args->worker_group,
                                    .worker_id = id,
                                    .queue = queue,
                                    .run_time_max = args->timeout,
                                    .storage = (enum task_storage)args->storage};
    struct source_taskcluster_args from = {.root_url = url,
                                           .task_queue = args->task_queue,
                                           .worker_group = args->worker_group,
                                           .worker_id = id,
                                           .own = own,
                                           .seats = (size_t)args->concurrency,
                                           .poll_urls = args->poll_urls};
    struct worker_args w = {.queues = args->task_queue,
                            .name = id,
                            .concurrency = args->concurrency,
                            .lease = LEASE,
                            .grace = args->grace,
                            .once = args->once,
                            .drain = args->drain};
    struct executor *executor;
    struct err e = executor_task_new(&by, &executor);
    int code = CLI_REFUSED;
    if (e.code == ERR_OK) {
        struct source *source = source_taskcluster_new(&from, queue);
        code = worker_run(&w, source, executor);
        source_free(source);
        executor_free(executor);
    } else {
        report_line(TABLE_BAD, "STOP", "%s", e.msg);
    }
    taskqueue_free(queue);
    return code;
}

int work_tasks(const struct work_args *args, const struct options *o)
{
    struct hawk_credentials own;
    char made[NAME_MAX_LEN + 1];
    struct work_args with = *args;
    int code = check(args, o);
    if (code != CLI_OK)
        return code;
    make_id(made);
    if (args->once)
        with.concurrency = 1;
    char *url = call_url(root_url(args, o));
    code = take_credentials(&own);
    if (code == CLI_OK) {
        /* Tasks run as the same user: without this they could read the credentials in /proc. */
        prctl(PR_SET_DUMPABLE, 0);
        work_block_signals();
        code = run(&with, url, args->worker_id ? args->worker_id : made,
                   own.client_id.len ? &own : NULL);
    }
    free_credentials(&own);
    free(url);
    return code;
}
