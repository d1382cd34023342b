/* SPDX-License-Identifier: Apache-2.0 */

/* budgets: what jobs of several queues share. */

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/unknown.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

struct budgets_args {
    struct client_args client;
    int64_t allocation, burst;
    span per;
    bool in_flight, no_burst;
};

#define AT(field) offsetof(struct budgets_args, field)
#define TOKENS    .min = 1, .max = INT32_MAX

static const struct option_def options[] = {
    {"allocation", "TOKENS", OPTION_INT, AT(allocation), TOKENS,
     .help = "set: how many tokens it has, or gets in each --per"},
    {"while-in-flight", NULL, OPTION_SWITCH, AT(in_flight),
     .help = "set: a job's tokens come back when its run ends; so it is for a new budget, too"},
    {"per", "DURATION", OPTION_SPAN, AT(per),
     .help = "set: tokens come back with time instead, evenly, so many in each such time"},
    {"burst", "TOKENS", OPTION_INT, AT(burst), TOKENS,
     .help = "set: with --per, how many are saved up at most; as many as the allocation by "
             "default"},
    {"no-burst", NULL, OPTION_SWITCH, AT(no_burst), .help = "set: the default again"},
    CLIENT_LIST_OPTIONS(struct budgets_args),
    {0},
};

const struct subcommand budgets_command = {
    .name = "budgets",
    .usage = "[list] | show KEY | set KEY OPTIONS | delete KEY",
    .summary = "list, show, set or delete budgets, whose tokens jobs share",
    .about =
        "A job that draws on budgets (`tenax enqueue --budget`) is handed out when all of them "
        "can pay; until then other jobs pass it.\n"
        "set makes the budget if it is not there; of one that is there, what is not given stays "
        "as it is. It counts at once. What unfinished jobs cost must be possible, and a budget "
        "that they or cron entries draw on cannot be deleted.",
    .examples = "  tenax budgets set images --allocation 10\n"
                "  tenax budgets set push --allocation 1000 --per 1m --burst 100\n"
                "  tenax budgets\n"
                "  tenax delete --budget push && tenax budgets delete push\n",
    .options = options,
    .words = "list|show|set|delete",
};

/* --- showing --- */

/* "while in flight", or "per 1m" with its burst */
static enum table_style read_strategy(struct client *c, struct str budget, struct buf *b)
{
    int64_t per, burst;
    struct str strategy = view_get(budget, "strategy");
    struct str type = view_text(&c->arena, strategy, "type");
    if (!view_int(strategy, "duration_ms", &per)) {
        buf_str(b, str_eq(type, STR("while_in_flight")) ? STR("while in flight") : type);
        return TABLE_PLAIN;
    }
    buf_lit(b, "per ");
    duration_write(b, (span){per});
    if (view_int(strategy, "burst", &burst))
        buf_print(b, ", burst %lld", (long long)burst);
    return TABLE_PLAIN;
}

static enum table_style read_usage(struct str budget, const char *name, struct buf *text)
{
    int64_t n = 0;
    if (!view_int(view_get(budget, "usage"), name, &n))
        n = 0;
    buf_int(text, n);
    return n > 0 ? TABLE_PLAIN : n < 0 ? TABLE_WAIT : TABLE_FAINT;
}

static enum table_style read_available(struct client *c, struct str budget, struct buf *text)
{
    (void)c;
    return read_usage(budget, "available", text);
}

static enum table_style read_in_flight(struct client *c, struct str budget, struct buf *text)
{
    (void)c;
    return read_usage(budget, "in_flight", text);
}

static enum table_style read_jobs(struct client *c, struct str budget, struct buf *text)
{
    (void)c;
    return read_usage(budget, "jobs", text);
}

static enum table_style read_changed(struct client *c, struct str budget, struct buf *text)
{
    instant at = view_time(budget, "updated_at");
    if (instant_is_set(at))
        when_relative(text, at, c->now);
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"KEY", .member = "key", .least = 16},
    {">ALLOCATION", .member = "allocation"},
    {"STRATEGY", .read = read_strategy},
    {">AVAILABLE", .read = read_available},
    {">IN FLIGHT", .read = read_in_flight},
    {">JOBS", .read = read_jobs},
    {"CHANGED", .read = read_changed, .wide = true},
    {0},
};

static const struct listing_kind kind = {columns, "key", "There are no budgets."};

/* ctx: the path of one, or NULL. */
static int fetch(struct listing *l, void *ctx)
{
    const char *path = ctx;
    int code = client_ask(l->client, "GET", path ? path : "/budgets");
    if (code == CLI_OK && path)
        listing_show(l, client_answer(l->client), NULL);
    else if (code == CLI_OK)
        listing_add_all(l, view_get(client_answer(l->client), "budgets"));
    return code;
}

/* --- setting --- */

static void add_key(struct buf *b, const char *name)
{
    buf_print(b, "%s\"%s\":", b->len && b->at[b->len - 1] != '{' ? "," : "", name);
}

/* Of a new budget the strategy is always said. */
static void write_strategy_of(const struct budgets_args *args, const struct options *o, bool found,
                              struct buf *b)
{
    bool per = OPTION_GIVEN(o, struct budgets_args, per);
    bool burst = OPTION_GIVEN(o, struct budgets_args, burst);
    if (found && !per && !burst && !args->no_burst && !args->in_flight)
        return;
    add_key(b, "strategy");
    buf_byte(b, '{');
    if (per || args->in_flight || !found) {
        add_key(b, "type");
        buf_str(b, per ? STR("\"time_based\"") : STR("\"while_in_flight\""));
    }
    if (per) {
        add_key(b, "duration_ms");
        buf_int(b, args->per.ms);
    }
    if (burst || args->no_burst) {
        add_key(b, "burst");
        if (burst)
            buf_int(b, args->burst);
        else
            buf_lit(b, "null");
    }
    buf_byte(b, '}');
}

static int set(struct client *c, const char *path, const char *key, const struct budgets_args *args,
               const struct options *o)
{
    bool found;
    int code = client_find(c, path, &found);
    if (code != CLI_OK)
        return code;
    if (!found && !OPTION_GIVEN(o, struct budgets_args, allocation))
        return subcommand_usage(&budgets_command, "a new budget needs --allocation");
    struct buf *b = &c->call.body;
    b->len = 0;
    buf_byte(b, '{');
    if (OPTION_GIVEN(o, struct budgets_args, allocation)) {
        add_key(b, "allocation");
        buf_int(b, args->allocation);
    }
    write_strategy_of(args, o, found, b);
    buf_byte(b, '}');
    code = client_ask(c, found ? "PATCH" : "POST", path);
    if (code == CLI_OK)
        listing_print(c, &kind, client_answer(c), NULL);
    if (code == CLI_OK && !found)
        unknown_budget_warn(c, key);
    return code;
}

/* --- the command --- */

static bool is(const struct options *o, const char *verb)
{
    return strcmp(o->rest_count ? o->rest[0] : "list", verb) == 0;
}

static const char *check(const struct budgets_args *args, const struct options *o)
{
    bool allocation = OPTION_GIVEN(o, struct budgets_args, allocation);
    bool per = OPTION_GIVEN(o, struct budgets_args, per);
    bool burst = OPTION_GIVEN(o, struct budgets_args, burst);
    bool any = allocation || per || burst || args->no_burst || args->in_flight;
    if (args->client.watch.ms && (is(o, "set") || is(o, "delete")))
        return "--watch shows; it changes nothing";
    if (is(o, "list"))
        return any ? "these options are for set" : o->rest_count > 1 ? "list takes no name" : NULL;
    if (!is(o, "show") && !is(o, "set") && !is(o, "delete"))
        return "list, show, set or delete is meant";
    if (o->rest_count != 2 || !*o->rest[1])
        return "which budget? `tenax budgets` lists them";
    if (!is(o, "set"))
        return any ? "these options are for set" : NULL;
    if (!any)
        return "what is to be set? --allocation, --per, --while-in-flight, --burst";
    if (args->in_flight && (per || burst || args->no_burst))
        return "--while-in-flight goes with no --per and no --burst";
    return burst && args->no_burst ? "--burst and --no-burst exclude each other" : NULL;
}

static int act(struct client *c, const struct budgets_args *args, const struct options *o)
{
    struct buf path = {0};
    int code;
    if (is(o, "list"))
        return listing_run(c, &kind, fetch, NULL);
    buf_lit(&path, "/budgets");
    client_segment(&path, str_from(o->rest[1]));
    if (is(o, "set")) {
        code = set(c, client_path(&path), o->rest[1], args, o);
    } else if (is(o, "show")) {
        (void)client_path(&path);
        code = listing_run(c, &kind, fetch, path.at);
    } else {
        code = client_ask(c, "DELETE", client_path(&path));
        if (code == CLI_OK)
            fprintf(stderr, "Deleted the budget %s.\n", o->rest[1]);
    }
    buf_fini(&path);
    return code;
}

int budgets_main(int argc, char **argv)
{
    struct budgets_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&budgets_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *wrong = check(&args, &o);
    if (wrong)
        return subcommand_usage(&budgets_command, "%s", wrong);
    code = client_open(&c, &budgets_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = act(&c, &args, &o);
    client_close(&c);
    return code;
}
