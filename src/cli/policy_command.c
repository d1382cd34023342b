/* SPDX-License-Identifier: Apache-2.0 */

/* policy: managing and trying out retry policies. */

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/policy_plan.h"
#include "cli/apply.h"
#include "client/view.h"

struct policy_args {
    struct client_args client;
    struct policy_plan plan;
};

#define AT(field) .offset = offsetof(struct policy_args, plan.field)

static const struct option_def options[] = {
    {"file", "FILE", OPTION_LIST, AT(files),
     .help = "YAML or JSON with one policy or more; - is standard input", .letter = 'f'},
    {"queue", "NAMES", OPTION_TEXT, AT(queue),
     .help = "simulate: only failures of jobs of these queues"},
    {"type", "NAMES", OPTION_TEXT, AT(type),
     .help = "simulate: only failures of jobs of these types"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 1000, .def = "100",
     .help = "simulate: how many failures; those of jobs that failed most recently come first"},
    {"failures", "FILE", OPTION_TEXT, AT(failures),
     .help = "simulate: the failures in this JSON list instead of known ones; - is standard input"},
    {"global-max-retries", "LIMIT", OPTION_INT, AT(global_max), .min = -1, .max = 1000000,
     .def = "-1",
     .help =
         "simulate, schedule, lint: assume this globalMaxRetries; -1 is the server's, for schedule "
         "and lint 20"},
    {"backoff", "B,E,J", OPTION_TEXT, AT(backoff),
     .help = "schedule: a job's own backoff instead of policies, as 15s,4,30s"},
    {"retry-limit", "COUNT", OPTION_INT, AT(retry_limit), .max = 1000000, .def = "25",
     .help = "schedule: its retry limit"},
    {"strict", NULL, OPTION_SWITCH, AT(strict), .help = "lint: end with 1 if there are warnings"},
    CLIENT_OPTIONS_IN(struct policy_args, CLIENT_LIST_FORMATS),
    {0},
};

const struct subcommand policy_command = {
    .name = "policy",
    .usage = "simulate | schedule | lint | apply -f FILE\n"
             "  tenax policy get [NAME] | delete NAME",
    .summary = "put, show, delete or try out retry policies",
    .about =
        "apply and delete are `tenax apply` and `tenax delete retrypolicy`; get prints JSON.\n"
        "simulate evaluates failures that the server knows, including those of jobs that succeeded "
        "and were "
        "deleted since (serve --failure-history), by the policies of a file and by those in effect "
        "today, side by side: which rule decides, how many more attempts that means, and how long "
        "they take. A policy of the file replaces the one with its name, or is otherwise appended "
        "to each "
        "queue. Nothing changes on the server.\n"
        "schedule shows the waits before the retries of each rule until its limit, without a "
        "server; for a job's own backoff the shortest and the longest.\n"
        "lint names what is valid but probably not meant, without a server: rules that never "
        "match, limits that are never reached, retries without delay or jitter, very often at "
        "short intervals, or for more than 30 days.",
    .examples = "  tenax policy simulate -f policies.yaml --queue render\n"
                "  tenax policy schedule -f policies.yaml\n"
                "  tenax policy lint --strict -f policies.yaml\n"
                "  tenax policy schedule --backoff 15s,4,30s --retry-limit 25\n"
                "  tenax policy get nightly\n",
    .options = options,
    .words = "simulate|schedule|lint|apply|get|delete",
    .rest = "POLICY",
};

static const struct listing_kind kind = {NULL, "metadata.name", NULL};

/* All pages; for people as the server gives them. */
static int get_all(struct listing *l)
{
    struct client *c = l->client;
    struct buf path = {0};
    int code;
    buf_lit(&path, "/retry-policies");
    do {
        code = client_ask(c, "GET", client_path(&path));
        path.len = 0;
        if (code != CLI_OK)
            break;
        if (client_for_people(c))
            listing_show(l, client_answer(c), NULL);
        else
            listing_add_all(l, view_get(client_answer(c), "items"));
        buf_str(&path, view_text(&c->arena, view_get(client_answer(c), "pages"), "next"));
    } while (path.len);
    buf_fini(&path);
    return code;
}

static int fetch(struct listing *l, void *ctx)
{
    const char *name = ctx;
    struct buf path = {0};
    if (!name)
        return get_all(l);
    buf_lit(&path, "/retry-policies");
    client_segment(&path, str_from(name));
    int code = client_ask(l->client, "GET", client_path(&path));
    if (code == CLI_OK)
        listing_show(l, client_answer(l->client), NULL);
    buf_fini(&path);
    return code;
}

static int delete (struct client *c, const char *name)
{
    struct resources list = {0};
    resource_add(&list, resource_kind_of(STR("retrypolicy")), str_from(name), &c->arena);
    return resources_do(c, RESOURCES_DELETE, &list, false);
}

static bool is(const struct options *o, const char *verb)
{
    return strcmp(o->rest_count ? o->rest[0] : "", verb) == 0;
}

/* NULL if the words fit together, otherwise the fault. */
static const char *check(const struct policy_plan *p, const struct options *o)
{
    if (p->strict && !is(o, "lint"))
        return "--strict is for lint";
    if (is(o, "apply") || is(o, "simulate") || is(o, "lint"))
        return p->files.count && o->rest_count == 1 ? NULL : "which file? -f FILE";
    if (is(o, "schedule"))
        return !p->files.count == !p->backoff || o->rest_count > 1
                   ? "schedule of what? -f FILE, or --backoff"
                   : NULL;
    if (p->files.count)
        return "--file is for apply, simulate, schedule and lint";
    if (is(o, "get"))
        return o->rest_count <= 2 ? NULL : "get takes one name or none";
    if (is(o, "delete"))
        return o->rest_count == 2 && *o->rest[1] ? NULL : "delete which policy?";
    return "expected simulate, schedule, lint, apply, get or delete";
}

int policy_main(int argc, char **argv)
{
    struct policy_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&policy_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *wrong = check(&args.plan, &o);
    if (wrong)
        return subcommand_usage(&policy_command, "%s", wrong);
    if (args.client.output == CLIENT_NAME &&
        (is(&o, "simulate") || is(&o, "schedule") || is(&o, "lint")))
        return subcommand_usage(&policy_command,
                                "--output name is for get; %s gives table, json, jsonl, yaml "
                                "and wide",
                                o.rest[0]);
    code = client_open(&c, &policy_command, &args.client);
    if (code != CLI_OK)
        return code;
    if (is(&o, "simulate"))
        code = policy_plan_simulate(&c, &args.plan);
    else if (is(&o, "schedule"))
        code = policy_plan_schedule(&c, &args.plan);
    else if (is(&o, "lint"))
        code = policy_lint(&c, &args.plan);
    else if (is(&o, "apply"))
        code = resources_files(&c, RESOURCES_APPLY, &args.plan.files, NULL, false);
    else if (is(&o, "get"))
        code = listing_run(&c, &kind, fetch, o.rest[1]);
    else
        code = delete (&c, o.rest[1]);
    client_close(&c);
    return code;
}
