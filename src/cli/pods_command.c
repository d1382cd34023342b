/* SPDX-License-Identifier: Apache-2.0 */

/* pods: the pods that executors run jobs in, as the cluster shows them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "client/client.h"
#include "client/when.h"
#include "executor/exec_identity.h"
#include "executor/pod_list.h"

struct pods_args {
    const char *kubeconfig, *context, *namespace, *executor;
    struct option_list namespaces, queues;
    bool insecure;
    int mode, output;
};

#define AT(field) .offset = offsetof(struct pods_args, field)

static const struct option_def options[] = {
    {"kubeconfig", "FILE", OPTION_TEXT, AT(kubeconfig), .env = "KUBECONFIG",
     .help = "how the cluster is reached; in a pod as its service account, else by "
             "~/.kube/config, unless it is given"},
    {"context", "NAME", OPTION_TEXT, AT(context),
     .help = "which context of that file [default: its current one]"},
    {"insecure-skip-tls-verify", NULL, OPTION_SWITCH, AT(insecure),
     .help = "do not verify the certificate of the cluster's API server"},
    {"namespace", "NAME", OPTION_TEXT, AT(namespace),
     .help = "only pods of this namespace; if none is given of all, or where that is not allowed "
             "of that of the context"},
    {"allow-namespace", "NAME", OPTION_LIST, AT(namespaces),
     .help = "and of this one, as `tenax executor` has it; may be repeated"},
    {"executor", "NAME", OPTION_TEXT, AT(executor), .env = "TENAX_EXECUTOR",
     .help = "only pods of this executor"},
    {"queue", "NAME", OPTION_LIST, AT(queues),
     .help = "only pods of jobs of this queue; may be repeated"},
    {"verdict", "MODE", OPTION_CHOICE, AT(mode), .choices = "by-node|pending-is-healthy",
     .def = "by-node", .help = "how a pod that has not started is judged"},
    {"output", "FORMAT", OPTION_CHOICE, AT(output), .choices = "table|json", .env = "TENAX_OUTPUT",
     .def = "table", .help = "for people or for programs", .letter = 'o'},
    {0},
};

const struct subcommand pods_command = {
    .name = "pods",
    .usage = "[OPTIONS]",
    .summary = "list the pods that executors run jobs in",
    .about =
        "Asks a Kubernetes cluster for the pods that executors have created there, and shows each "
        "as its executor sees it: waiting (for a node), initializing, running, ending, failing (it "
        "will never start), succeeded, failed, node lost. The oldest comes first. The executors "
        "need not run, and Tenax's server is not asked.",
    .examples = "  tenax pods\n"
                "  tenax pods --namespace jobs --queue batch\n"
                "  tenax pods --output json | jq '.[] | select(.phase == \"waiting\")'\n",
    .options = options,
};

/* --- output --- */

static enum table_style style_of(const char *phase)
{
    static const struct {
        const char *phase;
        enum table_style style;
    } styles[] = {{"waiting", TABLE_WAIT},
                  {"initializing", TABLE_WAIT},
                  {"running", TABLE_BUSY},
                  {"succeeded", TABLE_GOOD},
                  {"ending", TABLE_FAINT}};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].phase, phase) == 0)
            return styles[i].style;
    return TABLE_BAD;
}

static void add_row(struct table *t, const struct pod_list_row *p, instant now)
{
    struct buf age = {0};
    table_add(t, TABLE_PLAIN, p->job);
    if (p->run >= 0)
        table_print(t, TABLE_PLAIN, "%lld", (long long)p->run);
    else
        table_add(t, TABLE_PLAIN, (struct str){0});
    table_add(t, TABLE_PLAIN, p->pod);
    table_add(t, TABLE_PLAIN, p->namespace);
    table_add(t, style_of(p->phase), str_from(p->phase));
    table_add(t, TABLE_PLAIN, p->node);
    /* The cluster's clock may be ahead of ours. */
    if (instant_is_set(p->created_at))
        duration_write(
            &age,
            (span){instant_diff(instant_max(now, p->created_at), p->created_at).ms / 1000 * 1000});
    table_add(t, TABLE_PLAIN, buf_view(&age));
    table_add(t, TABLE_PLAIN, p->reason);
    buf_fini(&age);
}

static void write_table(const struct pod_list *l, struct buf *out)
{
    static const char *const headers[] = {"JOB",  ">RUN", "POD",    "NAMESPACE", "PHASE",
                                          "NODE", "AGE",  "REASON", NULL};
    struct table t;
    table_init(&t, headers);
    for (size_t i = 0; i < l->count; i++)
        add_row(&t, &l->rows[i], when_now());
    table_write(&t, out, table_colour(stdout), table_terminal_width(stdout));
    table_fini(&t);
}

static void write_member(struct buf *out, const char *name, struct str text)
{
    buf_print(out, ",\"%s\":", name);
    if (text.len)
        json_write_string(out, text);
    else
        buf_lit(out, "null");
}

static void write_json(const struct pod_list *l, struct buf *out)
{
    buf_lit(out, "[");
    for (size_t i = 0; i < l->count; i++) {
        const struct pod_list_row *p = &l->rows[i];
        buf_str(out, i ? STR(",\n {\"job\":") : STR("{\"job\":"));
        json_write_string(out, p->job);
        if (p->run >= 0)
            buf_print(out, ",\"run\":%lld", (long long)p->run);
        else
            buf_lit(out, ",\"run\":null");
        write_member(out, "pod", p->pod);
        write_member(out, "namespace", p->namespace);
        write_member(out, "executor", p->executor);
        write_member(out, "queue", p->queue);
        write_member(out, "type", p->type);
        write_member(out, "phase", str_from(p->phase));
        write_member(out, "node", p->node);
        if (instant_is_set(p->created_at))
            buf_print(out, ",\"created_at\":%lld", (long long)p->created_at.ms);
        else
            buf_lit(out, ",\"created_at\":null");
        write_member(out, "reason", p->reason);
        buf_byte(out, '}');
    }
    buf_lit(out, "]\n");
}

/* --- the command --- */

static void keep_queues(struct pod_list *l, const struct option_list *queues)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count && queues->count; i++)
        for (size_t k = 0; k < queues->count; k++)
            if (str_eq(l->rows[i].queue, str_from(queues->at[k]))) {
                l->rows[kept++] = l->rows[i];
                break;
            }
    l->count = queues->count ? kept : l->count;
}

/* Where kubectl looks, too; NULL: in a pod, or there is none. */
static const char *kubeconfig_of(const struct pods_args *args, struct buf *path)
{
    const char *home = getenv("HOME"), *host = getenv("KUBERNETES_SERVICE_HOST");
    if (args->kubeconfig || (host && *host) || !home || !*home)
        return args->kubeconfig;
    buf_print(path, "%s/.kube/config", home);
    buf_byte(path, '\0');
    return access(path->at, R_OK) == 0 ? path->at : NULL;
}

static void say(struct buf *words)
{
    for (struct str rest = buf_view(words); rest.len;) {
        size_t n = (size_t)((const char *)memchr(rest.at, '\n', rest.len) - rest.at);
        fprintf(stderr, "tenax pods: %.*s\n", (int)n, rest.at);
        rest = (struct str){rest.at + n + 1, rest.len - n - 1};
    }
    buf_fini(words);
}

int pods_main(int argc, char **argv)
{
    struct pods_args args = {0};
    struct options o;
    struct buf path = {0}, words = {0}, out = {0};
    struct arena a = {0};
    int code;
    if (!subcommand_begin(&pods_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&pods_command, "'%.100s' is no option", o.rest[0]);
    if (args.executor && !exec_identity_is_name(str_from(args.executor)))
        return subcommand_usage(
            &pods_command, "option '--executor': '%.100s' is no executor's name", args.executor);
    struct exec_settings s = {.kubeconfig = kubeconfig_of(&args, &path),
                              .context = args.context,
                              .namespace = args.namespace,
                              .also_namespaces = args.namespaces.at,
                              .also_count = args.namespaces.count,
                              .insecure = args.insecure,
                              .name = "",
                              .prefix = "",
                              .mode = args.mode};
    struct pod_list l = {.settings = &s,
                         .all = !args.namespace && !args.namespaces.count,
                         .executor = args.executor,
                         .arena = &a};
    code = pod_list_read(&l, &words);
    say(&words);
    keep_queues(&l, &args.queues);
    if (code == CLI_OK && args.output == CLIENT_JSON)
        write_json(&l, &out);
    else if (code == CLI_OK)
        write_table(&l, &out);
    subcommand_print(stdout, &out);
    buf_fini(&path);
    buf_fini(&out);
    arena_fini(&a);
    return code;
}
