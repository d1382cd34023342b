/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/unknown.h"
#include "cli/work.h"
#include "worker/child.h"
#include "worker/executor_process.h"
#include "worker/report.h"
#include "worker/source_http.h"
#include "worker/worker.h"

#define AT(field) .offset = offsetof(struct work_args, field)

static const struct option_def options[] = {
    {"queue", "QUEUE[,QUEUE]", OPTION_TEXT, AT(queue), .env = "TENAX_QUEUE",
     .help = "the queues to take jobs from, in any order: priority, then age decides"},
    {"concurrency", "COUNT", OPTION_INT, AT(concurrency), .min = 1, .max = 1000,
     .env = "TENAX_CONCURRENCY", .def = "1", .help = "how many jobs to run at the same time"},
    {"timeout", "DURATION", OPTION_SPAN, AT(timeout), .def = "0",
     .help = "end a command that runs longer, and report a failure; 0: no limit"},
    {"max-run", "DURATION", OPTION_SPAN, AT(max_run), .def = "0",
     .help = "how long a run may take: then the server ends it, whatever this worker says, and the "
             "command is ended, too; of this limit, the job's and its queue's the shortest counts; "
             "0: no limit"},
    {"kill-exit", "CODE", OPTION_INT, AT(kill_exit), .min = 1, .max = 255,
     .help = "exit code by which a command says that retrying is pointless: the job is dead"},
    {"give-back-exit", "CODE", OPTION_INT, AT(give_back_exit), .min = 1, .max = 255,
     .help = "exit code by which a command gives the job back, for the time in the file "
             "TENAX_READY_AT if it has written one; the run does not count"},
    {"category-from", "TEXT", OPTION_CHOICE, AT(category_from),
     .choices = "stderr|termination-message",
     .help = "where a failing command names the failure's category, for retry policies: in "
             "the last line category=NAME or category=NAME/SUBCATEGORY of this text"},
    {"lease", "DURATION", OPTION_SPAN, AT(lease), .def = "30s",
     .help = "how long the server waits for a renewal before it gives the job to another "
             "worker; renewed after every third of it"},
    {"grace", "DURATION", OPTION_SPAN, AT(grace), .def = "30s",
     .help = "how long commands may continue when the worker ends, before SIGTERM, which SIGKILL "
             "follows "
             "after 5 s; for a single command that is ended, the time from SIGTERM to SIGKILL"},
    {"taskcluster", NULL, OPTION_SWITCH, AT(taskcluster),
     .help = "run the tasks of a Taskcluster queue instead; with this option:"},
    {"task-queue", "PROVISIONER/TYPE", OPTION_TEXT, AT(task_queue),
     .help = "the task queue to take tasks from"},
    {"worker-group", "NAME", OPTION_TEXT, AT(worker_group), .def = "tenax",
     .help = "the group of this worker"},
    {"worker-id", "NAME", OPTION_TEXT, AT(worker_id),
     .help = "its name in the group [default: host and process id]"},
    {"poll-urls", NULL, OPTION_SWITCH, AT(poll_urls),
     .help = "find tasks by poll URLs and claim them one by one, instead of by claimWork"},
    {"artifact-storage", "TYPE", OPTION_CHOICE, AT(storage), .choices = "s3|object", .def = "s3",
     .help = "the storage type of the artifacts to create"},
    {"once", NULL, OPTION_SWITCH, AT(once), .help = "end after one job"},
    {"drain", NULL, OPTION_SWITCH, AT(drain),
     .help = "end when no job is ready and none is running"},
    {"name", "NAME", OPTION_TEXT, AT(name),
     .help = "the name of this worker on the server [default: host and process id]"},
    {"node", "NAME", OPTION_TEXT, AT(node), .env = "TENAX_NODE",
     .help = "the machine that the commands run on: jobs that must avoid it are left to others"},
    CLIENT_URL_OPTION(struct work_args),
    {0},
};

const struct subcommand work_command = {
    .name = "work",
    .usage = "--queue QUEUE[,QUEUE] [OPTIONS] [--] COMMAND [ARGUMENT...]\n"
             "  tenax work --taskcluster --task-queue PROVISIONER/TYPE [OPTIONS]",
    .summary = "run a command for each job of a queue, or Taskcluster's tasks",
    .about =
        "Takes jobs and runs the command once for each. The payload is its standard input; "
        "TENAX_JOB_ID, TENAX_JOB_QUEUE, TENAX_JOB_TYPE, TENAX_JOB_ATTEMPT (from 1), TENAX_JOB_RUN "
        "(from 0), TENAX_JOB_PRIORITY, TENAX_WORKER, TENAX_URL and, of its trace, TRACEPARENT and "
        "TRACESTATE are in its "
        "environment.\n"
        "Exit status 0 means that the job is done. Anything else is a failure: the server records "
        "the status or signal, the end of what the command wrote to standard error and how long "
        "it ran, and decides whether and when to retry.\n"
        "Files named by TENAX_PROGRESS (a number from 0 to 1, a space, a note), "
        "TENAX_CHECKPOINT_OUT and TENAX_RESULT may be written: the first two are read, if they "
        "have changed, whenever the lease is renewed and at the end; the result when the command "
        "succeeds. TENAX_CHECKPOINT_IN contains the checkpoint of an earlier run of the job, "
        "or is empty. Write to a temporary file and rename it, so that no half is read.\n"
        "A command that ends with the code of --give-back-exit may say in the file TENAX_READY_AT "
        "when the job is to be handed out again: after a duration, as 10m, or at a time, as "
        "2030-01-31T09:00:00Z; and why in TENAX_TERMINATION_MESSAGE.\n"
        "What a failing command has written to the file TENAX_TERMINATION_MESSAGE (up to 4 KiB) "
        "is "
        "its termination message, which rules of retry policies can match. A command killed by a "
        "signal "
        "ended "
        "has, for their exit codes, 128 plus the signal.\n"
        "A restart of the server does no harm: commands continue, and their results are reported "
        "when it is back, as long as their leases last. Ctrl-C or SIGTERM stops taking jobs, "
        "waits for those that run, then ends them and returns them to their queue; a second one "
        "shortens the wait.\n"
        "With --taskcluster there is no command: each task of the queue brings its own, as "
        "docs/taskcluster.md says. The server is --url or else TASKCLUSTER_ROOT_URL, and requests "
        "are signed if TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN (and "
        "TASKCLUSTER_CERTIFICATE) are set. Tasks run with the rights of whoever started the "
        "worker. --timeout is then the longest maxRunTime that a task may ask for; --queue, "
        "--kill-exit, --give-back-exit, --category-from, --lease, --name and --node are for jobs "
        "only.",
    .examples = "  tenax work --queue mail -- ./send-mail\n"
                "  tenax work --queue img --concurrency 4 --timeout 5m -- python3 resize.py\n"
                "  tenax work --queue mail,sms --drain -- sh -c 'jq -r .to >> sent.txt'\n"
                "  tenax work --taskcluster --task-queue ci/linux --concurrency 2\n",
    .options = options,
    .rest = "COMMAND",
};

/* A flag that has no meaning without, or with, --taskcluster; variables are for both kinds. */
static int refuse_flags(const struct work_args *args, const struct options *o)
{
    static const char *const for_jobs[] = {
        "queue", "kill-exit", "give-back-exit", "category-from", "lease", "name", "node"};
    static const char *const for_tasks[] = {"task-queue", "worker-group", "worker-id", "poll-urls",
                                            "artifact-storage"};
    for (size_t i = 0; args->taskcluster && i < COUNT(for_jobs); i++)
        if (options_source_of(o, for_jobs[i]) == OPTION_FROM_FLAG)
            return subcommand_usage(
                &work_command, "option '--%s' is for jobs, not for --taskcluster%s", for_jobs[i],
                strcmp(for_jobs[i], "queue") == 0  ? "; see --task-queue"
                : strcmp(for_jobs[i], "name") == 0 ? "; see --worker-id"
                                                   : "");
    for (size_t i = 0; !args->taskcluster && i < COUNT(for_tasks); i++)
        if (options_source_of(o, for_tasks[i]) == OPTION_FROM_FLAG)
            return subcommand_usage(&work_command, "option '--%s' needs --taskcluster",
                                    for_tasks[i]);
    return CLI_OK;
}

static int check(const struct work_args *args, const struct options *o)
{
    if (!args->queue || !*args->queue || strspn(args->queue, ",") == strlen(args->queue))
        return subcommand_usage(&work_command, "which queue? give --queue");
    if (utf8_check(str_from(args->queue)) < strlen(args->queue) ||
        (args->name && utf8_check(str_from(args->name)) < strlen(args->name)) ||
        (args->node && utf8_check(str_from(args->node)) < strlen(args->node)))
        return subcommand_usage(&work_command,
                                "the names of queues, workers and nodes must be valid UTF-8");
    if (!o->rest_count)
        return subcommand_usage(&work_command, "which command? write it at the end, after '--'");
    if (args->kill_exit && args->kill_exit == args->give_back_exit)
        return subcommand_usage(&work_command, "--kill-exit and --give-back-exit name one code");
    if (args->lease.ms < 1000)
        return subcommand_usage(&work_command,
                                "option '--lease': at least 1s, or every hiccup of the "
                                "network would lose the job");
    if (!child_can_run(o->rest[0]))
        return subcommand_usage(&work_command, "there is no command '%.200s' that can be run",
                                o->rest[0]);
    const char *wrong = call_bad_url(args->client.url);
    if (wrong)
        return subcommand_usage(&work_command,
                                "option '--url': '%.200s' is not the URL of a server; %s",
                                args->client.url, wrong);
    return client_check_token(&work_command, &args->client.tls);
}

void work_block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static int work(const struct work_args *args, const struct options *o, const char *url)
{
    struct source_http_args from = {.url = url,
                                    .tls = args->client.tls,
                                    .queues = args->queue,
                                    .worker = args->name,
                                    .node = args->node,
                                    .max_run = args->max_run,
                                    .seats = (size_t)args->concurrency};
    struct executor_process_args by = {.command = o->rest,
                                       .worker = args->name,
                                       .url = url,
                                       .kill_exit = args->kill_exit,
                                       .give_back_exit = args->give_back_exit};
    if (OPTION_GIVEN(o, struct work_args, category_from))
        by.category_from = args->category_from ? CATEGORY_MESSAGE : CATEGORY_STDERR;
    struct worker_args w = {.queues = args->queue,
                            .name = args->name,
                            .concurrency = args->concurrency,
                            .lease = args->lease,
                            .grace = args->grace,
                            .timeout = args->timeout,
                            .once = args->once,
                            .drain = args->drain};
    struct executor *executor;
    struct err e = executor_process_new(&by, &executor);
    if (e.code != ERR_OK) {
        report_line(TABLE_BAD, "STOP", "%s", e.msg);
        return CLI_REFUSED;
    }
    struct source *source = source_http_new(&from);
    int code = worker_run(&w, source, executor);
    source_free(source);
    executor_free(executor);
    return code;
}

/* Jobs of a queue that is still to come are waited for; but the name may be a typing error. A
 * server that does not answer at once is asked no more: the worker says so itself. */
static void warn_of_queues(const struct work_args *args)
{
    struct client c;
    struct client_args to = args->client;
    to.timeout = (span){2000};
    if (client_open(&c, &work_command, &to) != CLI_OK)
        return;
    unknown_queues_warn(&c, "work", args->queue);
    client_close(&c);
}

int work_main(int argc, char **argv)
{
    struct work_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&work_command, OPTIONS_FIRST, argc, argv, &args, &o, &code))
        return code;
    code = refuse_flags(&args, &o);
    if (code == CLI_OK && args.taskcluster)
        return work_tasks(&args, &o);
    if (code == CLI_OK)
        code = check(&args, &o);
    if (code != CLI_OK)
        return code;
    char host[64] = "worker", name[96];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s-%d", host, (int)getpid());
    if (!args.name)
        args.name = name;
    if (args.once)
        args.concurrency = 1;
    char *url = call_url(args.client.url);
    warn_of_queues(&args);
    work_block_signals();
    code = work(&args, &o, url);
    free(url);
    return code;
}
