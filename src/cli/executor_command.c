/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "client/client.h"
#include "executor/exec_check.h"
#include "executor/exec_identity.h"
#include "executor/exec_loop.h"
#include "executor/pod_manifest.h"
#include "kube/kube_config.h"

struct executor_args {
    struct client_args client;
    struct option_list queues, queue_limits, namespaces;
    const char *kubeconfig, *context, *namespace, *prefix, *template, *name, *state_dir;
    const char *cpu_max, *memory_max, *metrics_host;
    int64_t pods_max, log_lines, metrics_port;
    span scheduling, starting, image_patience, lease, keep_succeeded, keep_failed;
    int mode, logs, log_level, log_format;
    bool insecure, check;
};

#define AT(field) .offset = offsetof(struct executor_args, field)

static const struct option_def options[] = {
    {"server", "URL", OPTION_TEXT, AT(client.url), .env = "TENAX_URL", .alias = "ZIZQ_URL",
     .def = "http://127.0.0.1:7890", .help = "Tenax's server"},
    CLIENT_CONTEXT_OPTION(struct executor_args, "server-context"),
    CLIENT_TLS_OPTIONS(struct executor_args),
    {"queue", "NAME", OPTION_LIST, AT(queues),
     .help = "a queue to take jobs from; repeat it, or write NAME,NAME, for several"},
    {"queue-limit", "NAME=COUNT", OPTION_LIST, AT(queue_limits),
     .help = "most pods of that queue at the same time; may be repeated"},
    {"kubeconfig", "FILE", OPTION_TEXT, AT(kubeconfig), .env = "KUBECONFIG",
     .help = "how the cluster is reached [default: as the service account of this pod]"},
    {"context", "NAME", OPTION_TEXT, AT(context),
     .help = "which context of that file [default: its current one]"},
    {"insecure-skip-tls-verify", NULL, OPTION_SWITCH, AT(insecure),
     .help = "do not verify the certificate of the cluster's API server"},
    {"namespace", "NAME", OPTION_TEXT, AT(namespace),
     .help = "where pods are created [default: that of the context]"},
    {"allow-namespace", "NAME", OPTION_LIST, AT(namespaces),
     .help = "another namespace that payloads may name; may be repeated"},
    {"prefix", "TEXT", OPTION_TEXT, AT(prefix), .def = "tenax",
     .help = "what the names of pods begin with; armada, for example"},
    {"template", "FILE", OPTION_TEXT, AT(template),
     .help = "make pods from this YAML, with the values of payloads in place of {{NAME}}, instead "
             "of the podSpec of payloads"},
    {"max-pods", "COUNT", OPTION_INT, AT(pods_max), .min = 1, .max = 100000,
     .env = "TENAX_MAX_PODS", .def = "100", .help = "how many pods at the same time"},
    {"max-cpu", "AMOUNT", OPTION_TEXT, AT(cpu_max),
     .help = "most processors that pods may request together, such as 64 or 500m [default: no "
             "limit]"},
    {"max-memory", "AMOUNT", OPTION_TEXT, AT(memory_max),
     .help = "most memory that pods may request together, such as 256Gi [default: no limit]"},
    {"scheduling-timeout", "DURATION", OPTION_SPAN, AT(scheduling), .def = "3m",
     .help = "how long a pod may wait for a node, from its creation; 0: for ever"},
    {"start-timeout", "DURATION", OPTION_SPAN, AT(starting), .def = "0",
     .help = "how long a pod that has a node may take to start; 0: for ever"},
    {"image-patience", "DURATION", OPTION_SPAN, AT(image_patience), .def = "5m",
     .help = "how long a registry that is away (5xx, time-outs) is waited for; an image that does "
             "not exist or may not be had fails its pod at once"},
    {"verdict", "MODE", OPTION_CHOICE, AT(mode), .choices = "by-node|pending-is-healthy",
     .def = "by-node", .help = "how a pod that has not started is judged"},
    {"lease", "DURATION", OPTION_SPAN, AT(lease), .def = "2m",
     .help = "how long the server waits for a renewal before it gives a job to another worker; "
             "renewed after every third of it, and every 20 s"},
    {"keep-finished", "DURATION", OPTION_SPAN, AT(keep_succeeded), .def = "3m",
     .help = "how long pods that succeeded are kept"},
    {"keep-failed", "DURATION", OPTION_SPAN, AT(keep_failed), .def = "10m",
     .help = "how long pods that failed are kept"},
    {"logs", "WHICH", OPTION_CHOICE, AT(logs), .choices = "failed|none", .def = "failed",
     .help = "of which pods the ends of the logs are kept with the run"},
    {"log-lines", "COUNT", OPTION_INT, AT(log_lines), .min = 1, .max = 10000, .def = "50",
     .help = "how many lines of each container's log"},
    {"name", "NAME", OPTION_TEXT, AT(name), .env = "TENAX_EXECUTOR",
     .help =
         "the name of this executor, the same after a restart; made from the working directory, "
         "HOME and the flags that say where and for which queues, unless it is given"},
    {"state-dir", "DIR", OPTION_TEXT, AT(state_dir), .env = "TENAX_STATE_DIR",
     .help = "where reports are kept until the server has them; $XDG_STATE_HOME/tenax/NAME or "
             "~/.local/state/tenax/NAME, unless it is given"},
    {"metrics-port", "PORT", OPTION_INT, AT(metrics_port), .min = 0, .max = 65535,
     .env = "TENAX_EXECUTOR_METRICS_PORT",
     .help = "answer GET /metrics and GET /health there; 0 picks a free port [default: nowhere]"},
    {"metrics-host", "ADDRESS", OPTION_TEXT, AT(metrics_host), .def = "127.0.0.1",
     .env = "TENAX_EXECUTOR_METRICS_HOST", .help = "at this address"},
    {"check", NULL, OPTION_SWITCH, AT(check),
     .help = "do not run: say whether the cluster is reached and allows what an executor does in "
             "each namespace, and print the Roles that grant what is missing"},
    {"log-level", "LEVEL", OPTION_CHOICE, AT(log_level), .choices = "error|warn|info|debug",
     .env = "TENAX_LOG_LEVEL", .def = "info", .help = "what is logged"},
    {"log-format", "FORMAT", OPTION_CHOICE, AT(log_format), .choices = "text|json",
     .env = "TENAX_LOG_FORMAT", .def = "text", .help = "for people or for programs"},
    {0},
};

const struct subcommand executor_command = {
    .name = "executor",
    .usage = "--queue NAME... --kubeconfig FILE [OPTIONS]",
    .summary = "run the jobs of queues as pods of a Kubernetes cluster",
    .about =
        "Takes jobs, creates a pod for each, and reports what became of it: exit codes, OOM kills, "
        "evictions, preemptions, pods that cannot start. The server decides whether a job is "
        "retried. A payload is {\"podSpec\": {...}} with, optional, namespace, labels and "
        "annotations; or whatever the template needs.\n"
        "A server that is away does no harm: pods continue, and reports are kept on disk until it "
        "is back. An executor that is started again with the same flags, working directory and "
        "HOME takes its pods over; limits and times may differ. Two executors with the same flags "
        "on two machines need names of their own (--name).\n"
        "SIGTERM or Ctrl-C ends the executor; its pods continue and wait for its next start.",
    .examples =
        "  tenax executor --queue batch --kubeconfig ~/.kube/config --namespace jobs\n"
        "  tenax executor --queue gpu,cpu --queue-limit gpu=8 --namespace jobs\n"
        "  tenax executor --check --kubeconfig executor.yaml --namespace jobs > role.yaml\n",
    .options = options,
};

/* --- lists --- */

struct names {
    const char **at;
    size_t count, cap;
};

static void add_name(struct names *n, const char *at, size_t len)
{
    for (size_t i = 0; i < n->count; i++)
        if (strlen(n->at[i]) == len && memcmp(n->at[i], at, len) == 0)
            return;
    ALLOC_GROW(n->at, n->count, n->cap, 8);
    n->at[n->count++] = alloc_text(at, len);
}

/* "a,b" */
static void add_names(struct names *n, const char *list)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        if (len)
            add_name(n, list, len);
        list += len + (list[len] == ',');
    }
}

static void free_names(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free((char *)n->at[i]);
    free(n->at);
}

static struct exec_queue *find_queue(struct exec_settings *s, const char *name, size_t len)
{
    for (size_t i = 0; i < s->queue_count; i++)
        if (strlen(s->queues[i].name) == len && memcmp(s->queues[i].name, name, len) == 0)
            return &s->queues[i];
    return NULL;
}

static int set_limit(struct exec_settings *s, const char *text)
{
    const char *eq = strrchr(text, '=');
    char *end = NULL;
    errno = 0;
    long long limit = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || end == eq + 1 || *end || errno || limit < 1 || limit > 100000)
        return subcommand_usage(&executor_command,
                                "option '--queue-limit': '%.200s' is not NAME=COUNT with a count "
                                "from 1 to 100000",
                                text);
    struct exec_queue *q = find_queue(s, text, (size_t)(eq - text));
    if (!q)
        return subcommand_usage(&executor_command,
                                "option '--queue-limit': there is no --queue '%.*s'",
                                (int)(eq - text), text);
    q->limit = limit;
    return CLI_OK;
}

/* --- amounts --- */

/* Thousandths of a processor: "64", "1.5", "500m". */
static bool read_cpu(const char *text, uint64_t *milli)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    bool small = *end == 'm';
    if (end == text || end[small] != '\0' || errno || !(v > 0 && v < 1e9))
        return false;
    *milli = (uint64_t)(small ? v : v * 1000 + 0.5);
    return *milli > 0;
}

static int set_amounts(const struct executor_args *args, struct exec_settings *s)
{
    if (args->cpu_max && !read_cpu(args->cpu_max, &s->cpu_max))
        return subcommand_usage(&executor_command,
                                "option '--max-cpu': '%.100s' is not a number of processors, such "
                                "as 64, 1.5 or 500m",
                                args->cpu_max);
    if (args->memory_max && !quantity_parse_option(str_from(args->memory_max), &s->memory_max))
        return subcommand_usage(&executor_command, "option '--max-memory': '%.100s' is not %s",
                                args->memory_max, QUANTITY_EXPECTED);
    return CLI_OK;
}

/* --- who this is --- */

struct identity {
    char cwd[PATH_MAX], kubeconfig[PATH_MAX];
    struct buf name, dir;
};

static void name_it(const struct executor_args *args, const struct exec_settings *s,
                    const struct names *queues, struct identity *id)
{
    struct buf ca = {0};
    struct exec_identity e = {.cwd = id->cwd,
                              .home = getenv("HOME"),
                              .server = s->server,
                              .queues = queues->at,
                              .queue_count = queues->count,
                              .kubeconfig = args->kubeconfig ? id->kubeconfig : NULL,
                              .context = args->context,
                              .namespace = args->namespace,
                              .prefix = args->prefix};
    struct err err = err_none();
    /* A service account's folder is the same in every cluster, but not who has signed. */
    if (!args->kubeconfig)
        err = kube_config_read_file(KUBE_CONFIG_POD_FOLDER "/ca.crt", &ca);
    if (err.code == ERR_OK)
        e.cluster = buf_view(&ca);
    exec_identity_name(&e, &id->name);
    buf_fini(&ca);
}

static int identify(const struct executor_args *args, struct exec_settings *s,
                    const struct names *queues, struct identity *id)
{
    if (!getcwd(id->cwd, sizeof id->cwd))
        strcpy(id->cwd, "/");
    if (args->kubeconfig && *args->kubeconfig == '/')
        snprintf(id->kubeconfig, sizeof id->kubeconfig, "%s", args->kubeconfig);
    else if (args->kubeconfig)
        snprintf(id->kubeconfig, sizeof id->kubeconfig, "%s/%s", id->cwd, args->kubeconfig);
    if (args->name && !exec_identity_is_name(str_from(args->name)))
        return subcommand_usage(&executor_command,
                                "option '--name': 1 to 63 letters, digits, '-', '_' and '.', the "
                                "first and the last a letter or a digit");
    if (args->name)
        buf_str(&id->name, str_from(args->name));
    else
        name_it(args, s, queues, id);
    if (args->state_dir)
        buf_str(&id->dir, str_from(args->state_dir));
    else
        exec_identity_dir(getenv("XDG_STATE_HOME"), getenv("HOME"), id->cwd, buf_view(&id->name),
                          &id->dir);
    buf_byte(&id->name, '\0');
    buf_byte(&id->dir, '\0');
    s->name = id->name.at;
    s->state_dir = id->dir.at;
    return CLI_OK;
}

/* --- the command --- */

static int check_args(const struct executor_args *args, const struct names *queues)
{
    const char *wrong = call_bad_url(args->client.url);
    if (!queues->count && !args->check)
        return subcommand_usage(&executor_command, "which queue? give --queue");
    for (size_t i = 0; i < queues->count; i++)
        if (utf8_check(str_from(queues->at[i])) < strlen(queues->at[i]))
            return subcommand_usage(&executor_command, "names of queues must be valid UTF-8");
    if (wrong)
        return subcommand_usage(&executor_command,
                                "option '--server': '%.200s' is not the URL of a server; %s",
                                args->client.url, wrong);
    if (!pod_manifest_is_prefix(str_from(args->prefix)))
        return subcommand_usage(&executor_command,
                                "option '--prefix': 1 to %d lower-case letters, digits and '-', "
                                "the first and the last no '-'",
                                POD_PREFIX_MAX);
    if (args->lease.ms < 1000)
        return subcommand_usage(&executor_command, "option '--lease': at least 1s");
    return CLI_OK;
}

static bool is_namespace(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len &&
           name[0] != '-' && name[len - 1] != '-';
}

static int check_namespaces(const struct executor_args *args, const struct names *also)
{
    const char *wrong = args->namespace && !is_namespace(args->namespace) ? args->namespace : NULL;
    const char *option = wrong ? "namespace" : "allow-namespace";
    for (size_t i = 0; !wrong && i < also->count; i++)
        wrong = is_namespace(also->at[i]) ? NULL : also->at[i];
    if (!wrong)
        return CLI_OK;
    return subcommand_usage(&executor_command,
                            "option '--%s': '%.100s' is no name of a namespace: 1 to 63 lower-case "
                            "letters, digits and '-', the first and the last no '-'",
                            option, wrong);
}

/* Roles on standard output, so that they can be applied as they are. */
static int check_access(const struct exec_settings *s)
{
    struct buf out = {0}, words = {0};
    int code = exec_check(s, &out, &words);
    FILE *to = code == CLI_OK ? stdout : stderr;
    for (struct str rest = buf_view(&words); rest.len;) {
        size_t n = (size_t)((const char *)memchr(rest.at, '\n', rest.len) - rest.at);
        fprintf(to, "%s%.*s\n", code == CLI_OK ? "" : "tenax executor: ", (int)n, rest.at);
        rest = (struct str){rest.at + n + 1, rest.len - n - 1};
    }
    subcommand_print(stdout, &out);
    buf_fini(&out);
    buf_fini(&words);
    return code;
}

static int run(const struct executor_args *args, struct exec_settings *s,
               const struct names *queues)
{
    struct identity id = {0};
    int code = check_args(args, queues);
    s->image_patience = args->image_patience;
    s->queues = alloc_zero((queues->count + 1) * sizeof *s->queues);
    for (size_t i = 0; i < queues->count; i++)
        s->queues[s->queue_count++] = (struct exec_queue){.name = queues->at[i]};
    for (size_t i = 0; code == CLI_OK && i < args->queue_limits.count; i++)
        code = set_limit(s, args->queue_limits.at[i]);
    if (code == CLI_OK)
        code = set_amounts(args, s);
    if (code == CLI_OK)
        code = identify(args, s, queues, &id);
    if (code == CLI_OK)
        code = args->check ? check_access(s) : exec_loop_run(s);
    free(s->queues);
    buf_fini(&id.name);
    buf_fini(&id.dir);
    return code;
}

int executor_main(int argc, char **argv)
{
    struct executor_args args = {0};
    struct options o;
    struct names queues = {0}, namespaces = {0};
    int code;
    if (!subcommand_begin(&executor_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    code = client_check_token(&executor_command, &args.client.tls);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < args.queues.count; i++)
        add_names(&queues, args.queues.at[i]);
    for (int i = 0; i < o.rest_count && queues.count; i++)
        add_names(&queues, o.rest[i]); /* --queue a b */
    for (size_t i = 0; i < args.namespaces.count; i++)
        add_names(&namespaces, args.namespaces.at[i]);
    log_set((enum log_level)args.log_level, (enum log_format)args.log_format);
    char *url = call_url(args.client.url);
    struct exec_settings s = {.server = url,
                              .tls = args.client.tls,
                              .kubeconfig = args.kubeconfig,
                              .context = args.context,
                              .namespace = args.namespace,
                              .also_namespaces = namespaces.at,
                              .also_count = namespaces.count,
                              .insecure = args.insecure,
                              .prefix = args.prefix,
                              .template = args.template,
                              .pods_max = args.pods_max,
                              .lease = args.lease,
                              .limits = {.scheduling = args.scheduling,
                                         .initializing = args.starting,
                                         .keep_succeeded = args.keep_succeeded,
                                         .keep_failed = args.keep_failed},
                              .mode = args.mode,
                              .logs = args.logs,
                              .log_lines = args.log_lines,
                              .metrics_host = args.metrics_host,
                              .metrics_port = -1};
    if (OPTION_GIVEN(&o, struct executor_args, metrics_port))
        s.metrics_port = args.metrics_port;
    code = check_namespaces(&args, &namespaces);
    if (code == CLI_OK)
        code = run(&args, &s, &queues);
    free(url);
    free_names(&queues);
    free_names(&namespaces);
    return code;
}
