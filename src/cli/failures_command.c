/* SPDX-License-Identifier: Apache-2.0 */

/* tenax failures: GET /failure-groups, and GET /failure-groups/GROUP. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/unknown.h"
#include "cli/listing.h"
#include "client/client.h"
#include "client/jobtext.h"
#include "client/view.h"
#include "client/when.h"

struct failures_args {
    struct client_args client;
    const char *queue, *type, *error_type, *culprit;
    const char *group; /* the one to show, or NULL */
    bool none;         /* none was found */
    span since;
    int order;
    int64_t limit;
};

#define AT(field) .offset = offsetof(struct failures_args, field)

static const struct option_def options[] = {
    {"queue", "QUEUE", OPTION_TEXT, AT(queue), .help = "only of jobs of these queues"},
    {"type", "TYPE", OPTION_TEXT, AT(type), .help = "only of jobs of these types"},
    {"error-type", "NAME", OPTION_TEXT, AT(error_type), .help = "only with this error type"},
    {"culprit", "CULPRIT", OPTION_TEXT, AT(culprit),
     .help = "only with failures that are its fault, as node or dependency"},
    {"since", "DURATION", OPTION_SPAN, AT(since),
     .help = "only those that were seen in the last 2h, or whatever is given"},
    {"order", "ORDER", OPTION_CHOICE, AT(order), .choices = "last_seen|first_seen|count|last_hour",
     .def = "last_seen", .help = "those with the greatest come first"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 1000, .def = "50",
     .help = "how many to show"},
    CLIENT_LIST_OPTIONS(struct failures_args),
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

/* --- columns --- */

static enum table_style read_trend(struct client *c, struct str group, struct buf *text)
{
    struct str trend = view_text(&c->arena, group, "trend");
    buf_str(text, trend);
    return str_eq(trend, STR("new")) || str_eq(trend, STR("rising")) ? TABLE_BAD
           : str_eq(trend, STR("quiet"))                             ? TABLE_FAINT
                                                                     : TABLE_PLAIN;
}

static enum table_style read_seen(struct client *c, struct str group, struct buf *text)
{
    when_relative(text, view_time(group, "last_seen"), c->now);
    return TABLE_PLAIN;
}

static enum table_style read_first(struct client *c, struct str group, struct buf *text)
{
    when_relative(text, view_time(group, "first_seen"), c->now);
    return TABLE_PLAIN;
}

/* "Timeout: no answer from <n>" */
static enum table_style read_what(struct client *c, struct str group, struct buf *text)
{
    struct str error_type = view_text(&c->arena, group, "error_type");
    buf_str(text, error_type);
    if (error_type.len)
        buf_lit(text, ": ");
    buf_str(text, view_text(&c->arena, group, "message"));
    return TABLE_PLAIN;
}

/* "dependency", or "dependency 7, job 2" if there are several. */
static enum table_style read_culprits(struct client *c, struct str group, struct buf *text)
{
    struct view_list l = view_list(view_get(group, "culprits"));
    struct str first, each;
    if (!view_next(&l, &first))
        return TABLE_PLAIN;
    buf_str(text, view_text(&c->arena, first, "culprit"));
    if (!view_next(&l, &each))
        return TABLE_PLAIN;
    buf_print(text, " %.*s", STR_ARG(view_text(&c->arena, first, "count")));
    do
        buf_print(text, ", %.*s %.*s", STR_ARG(view_text(&c->arena, each, "culprit")),
                  STR_ARG(view_text(&c->arena, each, "count")));
    while (view_next(&l, &each));
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"GROUP", .member = "group"},
    {">COUNT", .member = "count"},
    {">LAST HOUR", .member = "last_hour"},
    {">LAST DAY", .member = "last_day", .wide = true},
    {"TREND", .read = read_trend},
    {"FIRST SEEN", .read = read_first, .wide = true},
    {"LAST SEEN", .read = read_seen},
    {"QUEUE", .member = "queue", .least = 12},
    {"TYPE", .member = "type", .least = 12},
    {"CATEGORY", .member = "category", .wide = true},
    {"CULPRIT", .read = read_culprits},
    {"ERROR", .read = read_what},
    {0},
};

static const struct listing_kind kind = {columns, "group", "There are no such failures."};

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
    struct buf culprits = {0};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        jobtext_fact(out, facts[i], view_text(a, group, facts[i]));
    (void)read_culprits(c, group, &culprits);
    jobtext_fact(out, "culprit", buf_view(&culprits));
    buf_fini(&culprits);
    jobtext_fact_time(out, "first", view_time(group, "first_seen"), c->now);
    jobtext_fact_time(out, "last", view_time(group, "last_seen"), c->now);
    write_minutes(out, view_get(group, "per_minute"));
    struct view_list l = view_list(view_get(group, "samples"));
    for (struct str each; view_next(&l, &each);)
        jobtext_fact(out, "job", view_text(a, each, "job"));
}

/* --- the command --- */

static const char *const orders[] = {"last_seen", "first_seen", "count", "last_hour"};

static void write_query(struct buf *path, const struct failures_args *args, instant now)
{
    char text[24];
    client_query(path, "queue", args->queue);
    client_query(path, "type", args->type);
    client_query(path, "error_type", args->error_type);
    client_query(path, "culprit", args->culprit);
    client_query(path, "order", orders[args->order]);
    snprintf(text, sizeof text, "%lld", (long long)args->limit);
    client_query(path, "limit", text);
    snprintf(text, sizeof text, "%lld", (long long)(now.ms - args->since.ms));
    client_query(path, "since", args->since.ms > 0 && args->since.ms < now.ms ? text : NULL);
}

static void add_groups(struct listing *l, struct failures_args *args, struct str answer)
{
    int64_t total;
    listing_add_all(l, view_get(answer, "failure_groups"));
    args->none = l->count == 0;
    if (l->count && view_int(answer, "total", &total) && total > (int64_t)l->count)
        listing_note(l, "There are %lld in all; --limit shows more.", (long long)total);
}

static int fetch(struct listing *l, void *ctx)
{
    struct failures_args *args = ctx;
    struct client *c = l->client;
    struct buf path = {0};
    buf_lit(&path, "/failure-groups");
    if (args->group)
        client_segment(&path, str_from(args->group));
    else
        write_query(&path, args, c->now);
    int code = client_ask(c, "GET", client_path(&path));
    if (code == CLI_OK && args->group)
        listing_show(l, client_answer(c), write_group);
    else if (code == CLI_OK)
        add_groups(l, args, client_answer(c));
    buf_fini(&path);
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
    args.group = o.rest[0];
    code = listing_run(&c, &kind, fetch, &args);
    if (code == CLI_OK && args.none && client_for_people(&c) && !args.client.watch.ms)
        unknown_queues_warn(&c, "failures", args.queue);
    client_close(&c);
    return code;
}
