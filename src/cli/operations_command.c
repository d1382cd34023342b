/* SPDX-License-Identifier: Apache-2.0 */

/* tenax operations: GET /operations, and stopping or undoing one. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/listing.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

struct operations_args {
    struct client_args client;
    bool stop, undo;
};

#define AT(field) .offset = offsetof(struct operations_args, field)

static const struct option_def options[] = {
    {"stop", NULL, OPTION_SWITCH, AT(stop),
     .help = "end this operation where it is; what it has changed stays so"},
    {"undo", NULL, OPTION_SWITCH, AT(undo),
     .help = "undo this operation, which was begun with --undo; jobs that have gone on since are "
             "left as they are"},
    CLIENT_LIST_OPTIONS(struct operations_args),
    {0},
};

const struct subcommand operations_command = {
    .name = "operations",
    .usage = "[ID [--stop | --undo]]",
    .summary = "show changes of many jobs, stop or undo one",
    .about =
        "Prints a line for each change of many jobs that is under way, and for the newest that "
        "are over: how many jobs it has changed, and until when it can be undone.",
    .examples = "  tenax operations\n"
                "  tenax delete --queue mail --undo 1h\n"
                "  tenax operations 17 --undo\n",
    .options = options,
};

/* --- columns --- */

static enum table_style read_state(struct client *c, struct str operation, struct buf *text)
{
    struct str state = view_text(&c->arena, operation, "state");
    buf_str(text, state);
    return str_eq(state, STR("failed"))    ? TABLE_BAD
           : str_eq(state, STR("running")) ? TABLE_WAIT
                                           : TABLE_GOOD;
}

static enum table_style read_began(struct client *c, struct str operation, struct buf *text)
{
    when_relative(text, view_time(operation, "began_at"), c->now);
    return TABLE_PLAIN;
}

static enum table_style read_ended(struct client *c, struct str operation, struct buf *text)
{
    instant at = view_time(operation, "ended_at");
    if (instant_is_set(at))
        when_relative(text, at, c->now);
    return TABLE_PLAIN;
}

/* "in 59m", "done", or nothing. */
static enum table_style read_undo(struct client *c, struct str operation, struct buf *text)
{
    struct str undo = view_get(operation, "undo");
    struct str state = view_text(&c->arena, undo, "state");
    if (str_eq(state, STR("available")))
        when_relative(text, view_time(undo, "until"), c->now);
    else
        buf_str(text, state);
    return TABLE_PLAIN;
}

static enum table_style read_by(struct client *c, struct str operation, struct buf *text)
{
    struct str by = view_get(operation, "by"), name = view_text(&c->arena, by, "name");
    buf_str(text, view_text(&c->arena, by, "kind"));
    if (name.len)
        buf_print(text, " %.*s", STR_ARG(name));
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"ID", .member = "id"},
    {"KIND", .member = "kind"},
    {"STATE", .read = read_state},
    {">JOBS", .member = "changed"},
    {"BEGAN", .read = read_began},
    {"ENDED", .read = read_ended, .wide = true},
    {"BY", .read = read_by, .wide = true},
    {"UNDO UNTIL", .read = read_undo},
    {0},
};

static const struct listing_kind kind = {columns, "id", "There are no operations."};

/* --- asking --- */

static int ask(struct client *c, const char *id, const char *verb)
{
    struct buf path = {0};
    buf_lit(&path, "/operations");
    client_segment(&path, str_from(id));
    buf_str(&path, str_from(verb));
    int code = client_ask(c, *verb ? "POST" : "GET", client_path(&path));
    buf_fini(&path);
    return code;
}

static int fetch(struct listing *l, void *ctx)
{
    const char *id = ctx;
    int code = id ? ask(l->client, id, "") : client_ask(l->client, "GET", "/operations");
    if (code == CLI_OK && id)
        listing_show(l, client_answer(l->client), NULL);
    else if (code == CLI_OK)
        listing_add_all(l, view_get(client_answer(l->client), "operations"));
    return code;
}

/* How many were undone, and how many were not, and why. */
static void write_undone(struct client *c, struct buf *out, struct str answer)
{
    struct arena *a = &c->arena;
    struct str undo = view_get(answer, "undo");
    buf_print(out, "%.*s undone, %.*s not undone\n", STR_ARG(view_text(a, undo, "undone")),
              STR_ARG(view_text(a, undo, "not_undone")));
    struct view_list l = view_list(view_get(undo, "reasons"));
    for (struct str each; view_next(&l, &each);)
        buf_print(out, "  %.*s %.*s\n", STR_ARG(view_text(a, each, "jobs")),
                  STR_ARG(view_text(a, each, "reason")));
}

static int act(struct client *c, const struct operations_args *args, const char *id)
{
    int code = ask(c, id, args->stop ? "/stop" : "/undo");
    if (code == CLI_OK)
        listing_print(c, &kind, client_answer(c), args->undo ? write_undone : NULL);
    return code;
}

int operations_main(int argc, char **argv)
{
    struct operations_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&operations_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count > 1 || (o.rest_count && !*o.rest[0]))
        return subcommand_usage(&operations_command, "one operation at a time");
    if (args.stop && args.undo)
        return subcommand_usage(&operations_command, "--stop and --undo exclude each other");
    if ((args.stop || args.undo) && !o.rest_count)
        return subcommand_usage(&operations_command, "which operation?");
    bool acts = args.stop || args.undo;
    if (acts && args.client.watch.ms)
        return subcommand_usage(&operations_command, "--watch shows; it changes nothing");
    code = client_open(&c, &operations_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = acts ? act(&c, &args, o.rest[0]) : listing_run(&c, &kind, fetch, o.rest[0]);
    client_close(&c);
    return code;
}
