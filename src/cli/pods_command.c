/* SPDX-License-Identifier: Apache-2.0 */

/* pods: the pods that executors run jobs in, as the cluster shows them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "client/view.h"
#include "client/client.h"
#include "client/when.h"
#include "executor/exec_identity.h"
#include "executor/pod_list.h"

struct pods_args {
    const char *kubeconfig, *context, *namespace, *executor;
    struct option_list namespaces, queues;
    bool insecure;
    int mode;
    struct client_args client; /* only how it is shown */
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
    {"output", "FORMAT", OPTION_CHOICE, AT(client.output), .choices = CLIENT_LIST_FORMATS,
     .env = "TENAX_OUTPUT", .def = "table", .help = "for people or for programs", .letter = 'o'},
    CLIENT_WATCH(struct pods_args),
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

static enum table_style read_phase(struct client *c, struct str pod, struct buf *text)
{
    static const struct {
        const char *phase;
        enum table_style style;
    } styles[] = {{"waiting", TABLE_WAIT},
                  {"initializing", TABLE_WAIT},
                  {"running", TABLE_BUSY},
                  {"succeeded", TABLE_GOOD},
                  {"ending", TABLE_FAINT}};
    struct str phase = view_text(&c->arena, pod, "phase");
    buf_str(text, phase);
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (str_eq(phase, str_from(styles[i].phase)))
            return styles[i].style;
    return TABLE_BAD;
}

static enum table_style read_age(struct client *c, struct str pod, struct buf *text)
{
    instant created = view_time(pod, "created_at");
    /* The cluster's clock may be ahead of ours. */
    if (instant_is_set(created))
        duration_write(
            text, (span){instant_diff(instant_max(c->now, created), created).ms / 1000 * 1000});
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"JOB", .member = "job"},
    {">RUN", .member = "run"},
    {"POD", .member = "pod", .least = 24},
    {"NAMESPACE", .member = "namespace", .least = 12},
    {"EXECUTOR", .member = "executor", .wide = true},
    {"QUEUE", .member = "queue", .wide = true},
    {"TYPE", .member = "type", .wide = true},
    {"PHASE", .read = read_phase},
    {"NODE", .member = "node", .least = 12},
    {"AGE", .read = read_age},
    {"REASON", .member = "reason"},
    {0},
};

static const struct listing_kind kind = {columns, "pod", NULL};

static void write_member(struct buf *out, const char *name, struct str text)
{
    buf_print(out, ",\"%s\":", name);
    if (text.len)
        json_write_string(out, text);
    else
        buf_lit(out, "null");
}

static void write_item(const struct pod_list_row *p, struct buf *out)
{
    out->len = 0;
    buf_lit(out, "{\"job\":");
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

struct pods_request {
    const struct pods_args *args;
    struct exec_settings settings;
};

static int fetch(struct listing *l, void *ctx)
{
    const struct pods_request *r = ctx;
    const struct pods_args *args = r->args;
    struct arena a = {0};
    struct buf words = {0}, item = {0};
    struct pod_list list = {.settings = &r->settings,
                            .all = !args->namespace && !args->namespaces.count,
                            .executor = args->executor,
                            .arena = &a};
    int code = pod_list_read(&list, &words);
    /* A cluster that is away is one that may answer later. */
    l->client->result = code == CLI_UNREACHABLE ? CALL_UNREACHABLE : CALL_DONE;
    if (l->client->mute)
        buf_fini(&words);
    say(&words);
    keep_queues(&list, &args->queues);
    for (size_t i = 0; i < list.count && code == CLI_OK; i++) {
        write_item(&list.rows[i], &item);
        listing_add(l, buf_view(&item));
    }
    buf_fini(&item);
    arena_fini(&a);
    return code;
}

int pods_main(int argc, char **argv)
{
    struct pods_args args = {0};
    struct options o;
    struct buf path = {0};
    struct client c;
    int code;
    if (!subcommand_begin(&pods_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&pods_command, "'%.100s' is no option", o.rest[0]);
    if (args.executor && !exec_identity_is_name(str_from(args.executor)))
        return subcommand_usage(
            &pods_command, "option '--executor': '%.100s' is no executor's name", args.executor);
    struct pods_request r = {&args,
                             {.kubeconfig = kubeconfig_of(&args, &path),
                              .context = args.context,
                              .namespace = args.namespace,
                              .also_namespaces = args.namespaces.at,
                              .also_count = args.namespaces.count,
                              .insecure = args.insecure,
                              .name = "",
                              .prefix = "",
                              .mode = args.mode}};
    client_alone(&c, &pods_command, &args.client);
    code = listing_run(&c, &kind, fetch, &r);
    client_close(&c);
    buf_fini(&path);
    return code;
}
