/* SPDX-License-Identifier: Apache-2.0 */

/* tenax workers: GET /workers, and what is done with one. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/unknown.h"
#include "cli/listing.h"
#include "client/client.h"
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
    CLIENT_LIST_OPTIONS(struct workers_args),
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
                "  tenax workers --watch\n"
                "  tenax workers mail-1 --quiet\n"
                "  tenax workers mail-1 --stop && tenax workers mail-1 --resume\n",
    .options = options,
};

/* --- columns --- */

static enum table_style read_state(struct client *c, struct str worker, struct buf *text)
{
    struct str state = workertext_state(worker);
    (void)c;
    buf_str(text, state);
    return str_eq(state, STR("quiet")) ? TABLE_WAIT : TABLE_GOOD;
}

static enum table_style read_time(struct client *c, struct str worker, const char *member,
                                  struct buf *text)
{
    instant at = view_time(worker, member);
    if (instant_is_set(at))
        when_relative(text, at, c->now);
    return TABLE_PLAIN;
}

static enum table_style read_seen(struct client *c, struct str worker, struct buf *text)
{
    return read_time(c, worker, "last_seen", text);
}

static enum table_style read_since(struct client *c, struct str worker, struct buf *text)
{
    return read_time(c, worker, "since", text);
}

static enum table_style read_queues(struct client *c, struct str worker, struct buf *text)
{
    (void)c;
    workertext_queues(text, worker);
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"NAME", .member = "name", .least = 16},
    {"STATE", .read = read_state},
    {">IN FLIGHT", .member = "in_flight"},
    {"LAST SEEN", .read = read_seen},
    {"SINCE", .read = read_since, .wide = true},
    {"ADDRESS", .member = "address"},
    {"NODE", .member = "node", .wide = true},
    {"VERSION", .member = "version", .least = 12},
    {">STREAMS", .member = "streams", .wide = true},
    {">CLAIMS", .member = "claims", .wide = true},
    {"QUEUES", .read = read_queues},
    {0},
};

static const struct listing_kind kind = {columns, "name", "There are no workers."};

/* --- listing --- */

/* All of them, page by page. */
static int fetch_all(struct listing *l)
{
    struct client *c = l->client;
    struct buf path = {0};
    int code;
    buf_lit(&path, "/workers");
    do {
        code = client_ask(c, "GET", client_path(&path));
        if (code != CLI_OK)
            break;
        listing_add_all(l, view_get(client_answer(c), "workers"));
        path.len = 0;
        struct str next = view_text(&c->arena, client_answer(c), "next");
        if (next.len && next.at[0] == '/' && !memchr(next.at, '\0', next.len))
            buf_str(&path, next);
    } while (path.len);
    buf_fini(&path);
    return code;
}

static int ask(struct client *c, const char *name, const char *verb)
{
    struct buf path = {0};
    buf_lit(&path, "/workers");
    client_segment(&path, str_from(name));
    buf_str(&path, str_from(verb));
    int code = client_ask(c, *verb ? "POST" : "GET", client_path(&path));
    buf_fini(&path);
    return code;
}

static int fetch(struct listing *l, void *ctx)
{
    const char *name = ctx;
    if (!name)
        return fetch_all(l);
    int code = ask(l->client, name, "");
    if (code == CLI_OK)
        listing_show(l, client_answer(l->client), NULL);
    return code;
}

static void write_returned(struct client *c, struct buf *out, struct str answer)
{
    buf_print(out, "%.*s jobs went back\n", STR_ARG(view_text(&c->arena, answer, "returned")));
}

static int act(struct client *c, const struct workers_args *args, const char *name)
{
    bool unknown = unknown_worker(c, name);
    int code = ask(c, name, args->quiet ? "/quiet" : args->resume ? "/resume" : "/stop");
    if (code == CLI_OK && !args->resume)
        listing_print(c, &kind, client_answer(c), args->stop ? write_returned : NULL);
    if (code == CLI_OK && unknown)
        unknown_worker_warn(c, name);
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
    if (actions && args.client.watch.ms)
        return subcommand_usage(&workers_command, "--watch shows; it changes nothing");
    code = client_open(&c, &workers_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = actions ? act(&c, &args, o.rest[0]) : listing_run(&c, &kind, fetch, o.rest[0]);
    client_close(&c);
    return code;
}
