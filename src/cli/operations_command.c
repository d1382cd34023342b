/* SPDX-License-Identifier: Apache-2.0 */

/* tenax operations: GET /operations, and stopping or undoing one. */

#include <stdio.h>

#include "cli/commands.h"
#include "client/client.h"
#include "client/table.h"
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
    CLIENT_OPTIONS(struct operations_args),
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

/* "in 59m", "done", or nothing. */
static void write_undo(struct client *c, struct buf *out, struct str operation)
{
    struct str undo = view_get(operation, "undo");
    if (!undo.len)
        return;
    struct str state = view_text(&c->arena, undo, "state");
    if (!str_eq(state, STR("available"))) {
        buf_str(out, state);
        return;
    }
    when_relative(out, view_time(undo, "until"), c->now);
}

static void add_row(struct client *c, struct table *t, struct str operation)
{
    struct arena *a = &c->arena;
    struct buf began = {0}, undo = {0};
    struct str state = view_text(a, operation, "state");
    bool failed = str_eq(state, STR("failed")), runs = str_eq(state, STR("running"));
    when_relative(&began, view_time(operation, "began_at"), c->now);
    write_undo(c, &undo, operation);
    table_add(t, TABLE_PLAIN, view_text(a, operation, "id"));
    table_add(t, TABLE_PLAIN, view_text(a, operation, "kind"));
    table_add(t, failed ? TABLE_BAD : runs ? TABLE_WAIT : TABLE_GOOD, state);
    table_add(t, TABLE_PLAIN, view_text(a, operation, "changed"));
    table_add(t, TABLE_PLAIN, buf_view(&began));
    table_add(t, TABLE_PLAIN, buf_view(&undo));
    buf_fini(&began);
    buf_fini(&undo);
}

static const char *const headers[] = {"ID", "KIND", "STATE", ">JOBS", "BEGAN", "UNDO UNTIL", NULL};

static int list(struct client *c)
{
    struct table t;
    struct buf out = {0};
    size_t rows = 0;
    int code = client_ask(c, "GET", "/operations");
    table_init(&t, headers);
    if (code == CLI_OK) {
        struct view_list l = view_list(view_get(client_answer(c), "operations"));
        for (struct str each; view_next(&l, &each); rows++) {
            if (c->args.output != CLIENT_JSON) {
                add_row(c, &t, each);
                continue;
            }
            json_write_one_line(&out, each);
            buf_byte(&out, '\n');
        }
        if (rows && c->args.output != CLIENT_JSON)
            table_write(&t, &out, c->colour, c->width);
        subcommand_print(stdout, &out);
        fflush(stdout);
        if (!rows)
            fputs("There are no operations.\n", stderr);
    }
    table_fini(&t);
    buf_fini(&out);
    return code;
}

static void print_one(struct client *c)
{
    struct table t;
    struct buf out = {0};
    table_init(&t, headers);
    add_row(c, &t, client_answer(c));
    table_write(&t, &out, c->colour, c->width);
    subcommand_print(stdout, &out);
    table_fini(&t);
    buf_fini(&out);
}

/* How many were undone, and how many were not, and why. */
static void print_undone(struct client *c)
{
    struct arena *a = &c->arena;
    struct str undo = view_get(client_answer(c), "undo");
    printf("%.*s undone, %.*s not undone\n", STR_ARG(view_text(a, undo, "undone")),
           STR_ARG(view_text(a, undo, "not_undone")));
    struct view_list l = view_list(view_get(undo, "reasons"));
    for (struct str each; view_next(&l, &each);)
        printf("  %.*s %.*s\n", STR_ARG(view_text(a, each, "jobs")),
               STR_ARG(view_text(a, each, "reason")));
}

static int act(struct client *c, const struct operations_args *args, const char *id)
{
    struct buf path = {0};
    buf_lit(&path, "/operations");
    client_segment(&path, str_from(id));
    buf_str(&path, args->stop ? STR("/stop") : args->undo ? STR("/undo") : STR(""));
    int code = client_ask(c, args->stop || args->undo ? "POST" : "GET", client_path(&path));
    if (code == CLI_OK && c->args.output == CLIENT_JSON)
        client_print_answer(c);
    else if (code == CLI_OK && args->undo)
        print_undone(c);
    else if (code == CLI_OK)
        print_one(c);
    buf_fini(&path);
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
    code = client_open(&c, &operations_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = o.rest_count ? act(&c, &args, o.rest[0]) : list(&c);
    client_close(&c);
    return code;
}
