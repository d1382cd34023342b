/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client/client.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/listing.h"
#include "cli/unknown.h"
#include "client/jobtext.h"
#include "client/view.h"

struct jobs_args {
    struct client_args client;
    struct filter_args filter;
    int order;
    int64_t limit;
    bool all;
    bool none; /* none was found */
};

#define AT(field) .offset = offsetof(struct jobs_args, field)

static const struct option_def options[] = {
    FILTER_OPTIONS(struct jobs_args),
    {"order", "ORDER", OPTION_CHOICE, AT(order), .choices = "asc|desc", .def = "asc",
     .help = "oldest or newest first"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 2000, .def = "50",
     .help = "how many to show; with --all, how many per request"},
    {"all", NULL, OPTION_SWITCH, AT(all), .help = "show all, page by page"},
    CLIENT_LIST_OPTIONS(struct jobs_args),
    {0},
};

const struct subcommand jobs_command = {
    .name = "jobs",
    .usage = "[OPTIONS]",
    .summary = "list jobs",
    .about = "Prints a line for each job: its status, how often it was attempted, and, if an "
             "attempt failed, why. `tenax job ID` shows everything about one of them.\n"
             "With --output json they are one array, with --output jsonl each is one line of JSON, "
             "with its payload; --output name prints their ids.",
    .examples = "  tenax jobs --status dead\n"
                "  tenax jobs --since 2h --error timeout --worker mail-1\n"
                "  tenax jobs --queue mail,sms --order desc --limit 10\n"
                "  tenax jobs --all --output jsonl | jq -r .type\n"
                "  tenax jobs --status ready --watch\n"
                "  tenax jobs --group build-42 --all -o name | xargs tenax cancel\n",
    .options = options,
};

/* --- columns --- */

static enum table_style read_status(struct client *c, struct str job, struct buf *text)
{
    struct str status = view_text(&c->arena, job, "status");
    buf_str(text, status);
    return client_status_style(status);
}

static enum table_style read_when(struct client *c, struct str job, struct buf *text)
{
    jobtext_when(text, &c->arena, job, c->now);
    return TABLE_PLAIN;
}

static enum table_style read_why(struct client *c, struct str job, struct buf *text)
{
    jobtext_why(text, &c->arena, job);
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"ID", .member = "id"},
    {"STATUS", .read = read_status},
    {"QUEUE", .member = "queue", .least = 12},
    {"TYPE", .member = "type", .least = 12},
    {">PRIORITY", .member = "priority", .wide = true},
    {">ATTEMPTS", .member = "attempts"},
    {">RETRIES", .member = "retry_limit", .wide = true},
    {"WHEN", .read = read_when},
    {"GROUP", .member = "group", .wide = true},
    {"PAYLOAD", .member = "payload", .wide = true},
    {"WHY", .read = read_why},
    {0},
};

static const struct listing_kind kind = {columns, "id", "There are no such jobs."};

/* --- listing --- */

/* The path of the next page, from the answer; empty after the last page. */
static void next_page(struct client *c, struct buf *path)
{
    path->len = 0;
    struct str next = view_text(&c->arena, view_get(client_answer(c), "pages"), "next");
    if (next.len && next.at[0] == '/' && !memchr(next.at, '\0', next.len))
        buf_str(path, next);
}

static void first_page(const struct client *c, const struct jobs_args *args, struct buf *path)
{
    char limit[24];
    snprintf(limit, sizeof limit, "%lld", (long long)args->limit);
    buf_lit(path, "/jobs");
    filter_query(path, &args->filter, c->now);
    client_query(path, "order", args->order ? "desc" : "asc");
    client_query(path, "limit", limit);
}

/* Page by page: for programs, a million jobs need no memory. */
static int fetch(struct listing *l, void *ctx)
{
    struct jobs_args *args = ctx;
    struct client *c = l->client;
    struct buf path = {0};
    int code;
    first_page(c, args, &path);
    do {
        code = client_ask(c, "GET", client_path(&path));
        if (code != CLI_OK)
            break;
        listing_add_all(l, view_get(client_answer(c), "jobs"));
        next_page(c, &path);
    } while (args->all && path.len && !ferror(stdout));
    if (code == CLI_OK && l->count && path.len)
        listing_note(l, "There are more; --all shows them.");
    args->none = l->count == 0;
    buf_fini(&path);
    return code;
}

int jobs_main(int argc, char **argv)
{
    struct jobs_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&jobs_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&jobs_command, "unexpected '%s'; to show one job: tenax job %s",
                                o.rest[0], o.rest[0]);
    struct err err = filter_check(&args.filter);
    if (err.code != ERR_OK)
        return subcommand_usage(&jobs_command, "%s", err.msg);
    code = client_open(&c, &jobs_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = listing_run(&c, &kind, fetch, &args);
    if (code == CLI_OK && args.none && client_for_people(&c) && !args.client.watch.ms)
        unknown_queues_warn(&c, "jobs", args.filter.queue);
    client_close(&c);
    return code;
}
