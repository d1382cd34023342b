/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client/client.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/unknown.h"
#include "client/jobtext.h"
#include "client/view.h"

struct jobs_args {
    struct client_args client;
    struct filter_args filter;
    int order;
    int64_t limit;
    bool all;
};

#define AT(field) .offset = offsetof(struct jobs_args, field)

static const struct option_def options[] = {
    FILTER_OPTIONS(struct jobs_args),
    {"order", "ORDER", OPTION_CHOICE, AT(order), .choices = "asc|desc", .def = "asc",
     .help = "oldest or newest first"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 2000, .def = "50",
     .help = "how many to show; with --all, how many per request"},
    {"all", NULL, OPTION_SWITCH, AT(all), .help = "show all, page by page"},
    CLIENT_OPTIONS(struct jobs_args),
    {0},
};

const struct subcommand jobs_command = {
    .name = "jobs",
    .usage = "[OPTIONS]",
    .summary = "list jobs",
    .about = "Prints a line for each job: its status, how often it was attempted, and, if an "
             "attempt failed, why. `tenax job ID` shows everything about one of them.\n"
             "With --output json each job is one line of JSON, with its payload.",
    .examples = "  tenax jobs --status dead\n"
                "  tenax jobs --since 2h --error timeout --worker mail-1\n"
                "  tenax jobs --queue mail,sms --order desc --limit 10\n"
                "  tenax jobs --all --output json | jq -r .id\n",
    .options = options,
};

static const char *const headers[] = {"ID",        "STATUS", "QUEUE", "TYPE",
                                      ">ATTEMPTS", "WHEN",   "WHY",   NULL};

static void add_row(struct client *c, struct table *t, struct str job)
{
    struct arena *a = &c->arena;
    struct str status = view_text(a, job, "status");
    struct buf when = {0}, why = {0};
    jobtext_when(&when, a, job, c->now);
    table_add(t, TABLE_PLAIN, view_text(a, job, "id"));
    table_add(t, client_status_style(status), status);
    table_add(t, TABLE_PLAIN, view_text(a, job, "queue"));
    table_add(t, TABLE_PLAIN, view_text(a, job, "type"));
    table_add(t, TABLE_PLAIN, view_text(a, job, "attempts"));
    table_add(t, TABLE_PLAIN, buf_view(&when));
    jobtext_why(&why, a, job);
    table_add(t, TABLE_PLAIN, buf_view(&why));
    buf_fini(&why);
    buf_fini(&when);
}

/* One page of the answer: into the table, or as lines of JSON to out. */
static size_t take_page(struct client *c, struct table *t, struct buf *out)
{
    size_t n = 0;
    struct view_list l = view_list(view_get(client_answer(c), "jobs"));
    for (struct str job; view_next(&l, &job); n++) {
        if (c->args.output == CLIENT_JSON) {
            json_write_one_line(out, job);
            buf_byte(out, '\n');
        } else {
            add_row(c, t, job);
        }
    }
    return n;
}

/* The path of the next page, from the answer; empty after the last page. */
static void next_page(struct client *c, struct buf *path)
{
    path->len = 0;
    struct str next = view_text(&c->arena, view_get(client_answer(c), "pages"), "next");
    if (next.len && next.at[0] == '/' && !memchr(next.at, '\0', next.len))
        buf_str(path, next);
}

/* JSON is written page by page, so that a million jobs need no memory. */
static int list_jobs(struct client *c, struct buf *path, const struct jobs_args *args)
{
    struct table t;
    struct buf out = {0};
    size_t n = 0;
    table_init(&t, headers);
    int code;
    do {
        code = client_ask(c, "GET", client_path(path));
        if (code != CLI_OK)
            break;
        n += take_page(c, &t, &out);
        next_page(c, path);
        subcommand_print(stdout, &out);
    } while (args->all && path->len && !ferror(stdout));
    if (n && c->args.output == CLIENT_TABLE)
        table_write(&t, &out, c->colour, c->width);
    subcommand_print(stdout, &out);
    fflush(stdout);
    if (code == CLI_OK && c->args.output == CLIENT_TABLE && (!n || path->len))
        fputs(n ? "There are more; --all shows them.\n" : "There are no such jobs.\n", stderr);
    if (code == CLI_OK && c->args.output == CLIENT_TABLE && !n)
        unknown_queues_warn(c, "jobs", args->filter.queue);
    table_fini(&t);
    buf_fini(&out);
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
    struct buf path = {0};
    char limit[24];
    snprintf(limit, sizeof limit, "%lld", (long long)args.limit);
    buf_lit(&path, "/jobs");
    filter_query(&path, &args.filter, c.now);
    client_query(&path, "order", args.order ? "desc" : "asc");
    client_query(&path, "limit", limit);
    code = list_jobs(&c, &path, &args);
    buf_fini(&path);
    client_close(&c);
    return code;
}
