/* SPDX-License-Identifier: Apache-2.0 */

/* tenax failures: GET /failure-groups, and GET /failure-groups/GROUP. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/unknown.h"
#include "client/client.h"
#include "client/jobtext.h"
#include "client/table.h"
#include "client/view.h"
#include "client/when.h"

struct failures_args {
    struct client_args client;
    const char *queue, *type, *error_type;
    span since;
    int order;
    int64_t limit;
};

#define AT(field) .offset = offsetof(struct failures_args, field)

static const struct option_def options[] = {
    {"queue", "QUEUE", OPTION_TEXT, AT(queue), .help = "only of jobs of these queues"},
    {"type", "TYPE", OPTION_TEXT, AT(type), .help = "only of jobs of these types"},
    {"error-type", "NAME", OPTION_TEXT, AT(error_type), .help = "only with this error type"},
    {"since", "DURATION", OPTION_SPAN, AT(since),
     .help = "only those that were seen in the last 2h, or whatever is given"},
    {"order", "ORDER", OPTION_CHOICE, AT(order), .choices = "last_seen|first_seen|count|last_hour",
     .def = "last_seen", .help = "those with the greatest come first"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 1000, .def = "50",
     .help = "how many to show"},
    CLIENT_OPTIONS(struct failures_args),
    {0},
};

const struct subcommand failures_command = {
    .name = "failures",
    .usage = "[GROUP] [OPTIONS]",
    .summary = "show failures that are alike, counted",
    .about =
        "Failures are of one group if queue, type, error type, exit code or signal, category and "
        "message are the same; numbers, ids, paths and quoted parts of the message do not count. "
        "Prints a line for each group, or all that is known of one: when it was seen first and "
        "last, how often in each of the last 60 minutes, and jobs that failed so. The jobs that "
        "did last are listed by `tenax jobs --failure-group GROUP`, and retried by `tenax retry "
        "--failure-group GROUP`.",
    .examples = "  tenax failures --order last_hour\n"
                "  tenax failures 5e0c9f6c2b7a1d43\n"
                "  tenax retry --failure-group 5e0c9f6c2b7a1d43 --dry-run\n",
    .options = options,
};

/* --- many --- */

static enum table_style style_of(struct str trend)
{
    return str_eq(trend, STR("new")) || str_eq(trend, STR("rising")) ? TABLE_BAD
           : str_eq(trend, STR("quiet"))                             ? TABLE_FAINT
                                                                     : TABLE_PLAIN;
}

/* "Timeout: no answer from <n>" */
static void write_what(struct client *c, struct buf *b, struct str group)
{
    struct str error_type = view_text(&c->arena, group, "error_type");
    buf_str(b, error_type);
    if (error_type.len)
        buf_lit(b, ": ");
    buf_str(b, view_text(&c->arena, group, "message"));
}

static void add_row(struct client *c, struct table *t, struct str group)
{
    struct arena *a = &c->arena;
    struct str trend = view_text(a, group, "trend");
    struct buf seen = {0}, what = {0};
    when_relative(&seen, view_time(group, "last_seen"), c->now);
    write_what(c, &what, group);
    table_add(t, TABLE_PLAIN, view_text(a, group, "group"));
    table_add(t, TABLE_PLAIN, view_text(a, group, "count"));
    table_add(t, TABLE_PLAIN, view_text(a, group, "last_hour"));
    table_add(t, style_of(trend), trend);
    table_add(t, TABLE_PLAIN, buf_view(&seen));
    table_add(t, TABLE_PLAIN, view_text(a, group, "queue"));
    table_add(t, TABLE_PLAIN, view_text(a, group, "type"));
    table_add(t, TABLE_PLAIN, buf_view(&what));
    buf_fini(&seen);
    buf_fini(&what);
}

static void print_list(struct client *c, const char *queue)
{
    static const char *const headers[] = {"GROUP", ">COUNT", ">LAST HOUR", "TREND", "LAST SEEN",
                                          "QUEUE", "TYPE",   "ERROR",      NULL};
    struct table t;
    struct buf out = {0};
    int64_t total = 0, shown = 0;
    table_init(&t, headers);
    struct view_list l = view_list(view_get(client_answer(c), "failure_groups"));
    for (struct str group; view_next(&l, &group); shown++)
        add_row(c, &t, group);
    if (shown)
        table_write(&t, &out, c->colour, c->width);
    subcommand_print(stdout, &out);
    fflush(stdout);
    if (!shown)
        fputs("There are no such failures.\n", stderr);
    else if (view_int(client_answer(c), "total", &total) && total > shown)
        fprintf(stderr, "There are %lld in all; --limit shows more.\n", (long long)total);
    if (!shown)
        unknown_queues_warn(c, "failures", queue);
    table_fini(&t);
    buf_fini(&out);
}

/* --- one --- */

static int64_t number_of(struct str text)
{
    struct json_cursor c = json_open(text);
    int64_t n;
    return json_read_int(&c, 0, INT64_MAX / 8, &n).code == ERR_OK ? n : 0;
}

/* A bar for each minute, the present one last. */
static void write_minutes(struct buf *out, struct str counts)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int64_t most = 1;
    struct str each;
    for (struct view_list l = view_list(counts); view_next(&l, &each);)
        most = number_of(each) > most ? number_of(each) : most;
    buf_print(out, "%-10s ", "minutes");
    for (struct view_list l = view_list(counts); view_next(&l, &each);)
        buf_str(out, str_from(bars[(number_of(each) * 7 + most - 1) / most]));
    buf_print(out, "  at most %lld\n", (long long)most);
}

static void write_group(struct client *c, struct buf *out, struct str group)
{
    static const char *const facts[] = {
        "group",  "queue",     "type",     "outcome", "error_type", "message",  "exit_code",
        "signal", "condition", "category", "count",   "last_hour",  "last_day", "trend"};
    struct arena *a = &c->arena;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        jobtext_fact(out, facts[i], view_text(a, group, facts[i]));
    jobtext_fact_time(out, "first", view_time(group, "first_seen"), c->now);
    jobtext_fact_time(out, "last", view_time(group, "last_seen"), c->now);
    write_minutes(out, view_get(group, "per_minute"));
    struct view_list l = view_list(view_get(group, "samples"));
    for (struct str each; view_next(&l, &each);)
        jobtext_fact(out, "job", view_text(a, each, "job"));
}

/* --- the command --- */

static const char *const orders[] = {"last_seen", "first_seen", "count", "last_hour"};

static int show(struct client *c, const struct failures_args *args, const char *group)
{
    struct buf path = {0}, out = {0};
    char text[24];
    buf_lit(&path, "/failure-groups");
    if (group) {
        client_segment(&path, str_from(group));
    } else {
        client_query(&path, "queue", args->queue);
        client_query(&path, "type", args->type);
        client_query(&path, "error_type", args->error_type);
        client_query(&path, "order", orders[args->order]);
        snprintf(text, sizeof text, "%lld", (long long)args->limit);
        client_query(&path, "limit", text);
        snprintf(text, sizeof text, "%lld", (long long)(c->now.ms - args->since.ms));
        client_query(&path, "since",
                     args->since.ms > 0 && args->since.ms < c->now.ms ? text : NULL);
    }
    int code = client_ask(c, "GET", client_path(&path));
    if (code == CLI_OK && c->args.output == CLIENT_JSON)
        client_print_answer(c);
    else if (code == CLI_OK && !group)
        print_list(c, args->queue);
    else if (code == CLI_OK)
        write_group(c, &out, client_answer(c));
    subcommand_print(stdout, &out);
    buf_fini(&path);
    buf_fini(&out);
    return code;
}

int failures_main(int argc, char **argv)
{
    struct failures_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&failures_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count > 1 || (o.rest_count && !*o.rest[0]))
        return subcommand_usage(&failures_command, "one group at a time");
    code = client_open(&c, &failures_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = show(&c, &args, o.rest_count ? o.rest[0] : NULL);
    client_close(&c);
    return code;
}
