/* SPDX-License-Identifier: Apache-2.0 */

/* tenax workers: GET /workers, and what is done with one. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/unknown.h"
#include "client/client.h"
#include "client/jobtext.h"
#include "client/table.h"
#include "client/view.h"
#include "client/when.h"
#include "client/workertext.h"

struct workers_args {
    struct client_args client;
    bool quiet, resume, stop;
};

#define AT(field) .offset = offsetof(struct workers_args, field)

static const struct option_def options[] = {
    {"quiet", NULL, OPTION_SWITCH, AT(quiet),
     .help = "give this worker nothing more; what it has it may finish"},
    {"resume", NULL, OPTION_SWITCH, AT(resume), .help = "give it jobs again"},
    {"stop", NULL, OPTION_SWITCH, AT(stop),
     .help = "make it quiet, give its jobs to others, attempts unchanged, and end its streams"},
    CLIENT_OPTIONS(struct workers_args),
    {0},
};

const struct subcommand workers_command = {
    .name = "workers",
    .usage = "[NAME [--quiet | --resume | --stop]]",
    .summary = "show workers, quiet or stop one",
    .about = "Prints a line for each worker that has asked for jobs in the last hour, or that has "
             "jobs: its version, its queues, how many jobs it has, and when it was heard of last. "
             "Workers without a name (--worker, Worker-Id) are not known.",
    .examples = "  tenax workers\n"
                "  tenax workers mail-1 --quiet\n"
                "  tenax workers mail-1 --stop && tenax workers mail-1 --resume\n",
    .options = options,
};

static void add_row(struct client *c, struct table *t, struct str worker)
{
    struct arena *a = &c->arena;
    struct buf seen = {0}, queues = {0};
    struct str state = workertext_state(worker);
    bool quiet = str_eq(state, STR("quiet"));
    instant last = view_time(worker, "last_seen");
    if (instant_is_set(last))
        when_relative(&seen, last, c->now);
    workertext_queues(&queues, worker);
    table_add(t, TABLE_PLAIN, view_text(a, worker, "name"));
    table_add(t, quiet ? TABLE_WAIT : TABLE_GOOD, state);
    table_add(t, TABLE_PLAIN, view_text(a, worker, "in_flight"));
    table_add(t, TABLE_PLAIN, buf_view(&seen));
    table_add(t, TABLE_PLAIN, view_text(a, worker, "address"));
    table_add(t, TABLE_PLAIN, view_text(a, worker, "version"));
    table_add(t, TABLE_PLAIN, buf_view(&queues));
    buf_fini(&seen);
    buf_fini(&queues);
}

static void print_rows(struct client *c, struct table *t, struct buf *out, size_t rows)
{
    if (rows)
        table_write(t, out, c->colour, c->width);
    subcommand_print(stdout, out);
    fflush(stdout);
    if (!rows)
        fputs("There are no workers.\n", stderr);
}

static const char *const headers[] = {"NAME",    "STATE",   ">IN FLIGHT", "LAST SEEN",
                                      "ADDRESS", "VERSION", "QUEUES",     NULL};

/* All of them, page by page. */
static int list(struct client *c)
{
    struct table t;
    struct buf path = {0}, out = {0};
    size_t rows = 0;
    int code;
    table_init(&t, headers);
    buf_lit(&path, "/workers");
    do {
        code = client_ask(c, "GET", client_path(&path));
        if (code != CLI_OK)
            break;
        struct view_list l = view_list(view_get(client_answer(c), "workers"));
        for (struct str each; view_next(&l, &each); rows++) {
            if (c->args.output == CLIENT_JSON) {
                json_write_one_line(&out, each);
                buf_byte(&out, '\n');
            } else {
                add_row(c, &t, each);
            }
        }
        path.len = 0;
        struct str next = view_text(&c->arena, client_answer(c), "next");
        if (next.len && next.at[0] == '/' && !memchr(next.at, '\0', next.len))
            buf_str(&path, next);
    } while (path.len);
    if (code == CLI_OK && c->args.output != CLIENT_JSON)
        print_rows(c, &t, &out, rows);
    subcommand_print(stdout, &out);
    table_fini(&t);
    buf_fini(&path);
    buf_fini(&out);
    return code;
}

static void print_worker(struct client *c)
{
    struct table t;
    struct buf out = {0};
    table_init(&t, headers);
    add_row(c, &t, client_answer(c));
    print_rows(c, &t, &out, 1);
    table_fini(&t);
    buf_fini(&out);
}

static int act(struct client *c, const struct workers_args *args, const char *name)
{
    struct buf path = {0};
    buf_lit(&path, "/workers");
    client_segment(&path, str_from(name));
    buf_str(&path, args->quiet    ? STR("/quiet")
                   : args->resume ? STR("/resume")
                   : args->stop   ? STR("/stop")
                                  : STR(""));
    bool change = args->quiet || args->resume || args->stop;
    bool unknown = change && unknown_worker(c, name);
    int code = client_ask(c, change ? "POST" : "GET", client_path(&path));
    if (code == CLI_OK && c->args.output == CLIENT_JSON && !args->resume)
        client_print_answer(c);
    else if (code == CLI_OK && args->stop)
        printf("%.*s jobs went back\n",
               STR_ARG(view_text(&c->arena, client_answer(c), "returned")));
    else if (code == CLI_OK && !args->resume)
        print_worker(c);
    if (code == CLI_OK && unknown)
        unknown_worker_warn(c, name);
    buf_fini(&path);
    return code;
}

int workers_main(int argc, char **argv)
{
    struct workers_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&workers_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    int actions = args.quiet + args.resume + args.stop;
    if (o.rest_count > 1 || (o.rest_count && !*o.rest[0]))
        return subcommand_usage(&workers_command, "one worker at a time");
    if (actions > 1 || (actions && !o.rest_count))
        return subcommand_usage(&workers_command, actions > 1
                                                      ? "--quiet, --resume and --stop exclude each "
                                                        "other"
                                                      : "which worker?");
    code = client_open(&c, &workers_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = o.rest_count ? act(&c, &args, o.rest[0]) : list(&c);
    client_close(&c);
    return code;
}
