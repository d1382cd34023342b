/* SPDX-License-Identifier: Apache-2.0 */

/* tenax servers, tenax step-down: the servers that share a PostgreSQL. */

#include <stdio.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/listing.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"
#include "postgres/pg.h"

struct servers_args {
    struct client_args client;
    span wait;
};

#define AT(field) .offset = offsetof(struct servers_args, field)
/* How often it is asked who the owner is. */
#define ASK_MS 50

static const struct option_def list_options[] = {
    CLIENT_LIST_OPTIONS(struct servers_args),
    {0},
};

const struct subcommand servers_command = {
    .name = "servers",
    .usage = "[OPTIONS]",
    .summary = "show the servers that share a PostgreSQL",
    .about = "Prints a line for each server that was started with --postgres on the same database: "
             "the owner, which keeps the jobs, and the standbys, which pass requests on to it and "
             "take its place when it is gone. Any of them may be asked.",
    .examples = "  tenax servers\n"
                "  tenax servers --url http://10.0.0.2:7890 -o json\n",
    .options = list_options,
};

static const struct option_def step_down_options[] = {
    {"wait", "DURATION", OPTION_SPAN, AT(wait), .def = "10s",
     .help = "how long to wait until another server has the jobs; 0: not at all"},
    CLIENT_OPTIONS(struct servers_args),
    {0},
};

const struct subcommand step_down_command = {
    .name = "step-down",
    .usage = "[OPTIONS]",
    .summary = "have the owner leave the jobs to another server",
    .about =
        "For an upgrade, or a machine that is to be stopped: the owner finishes its requests, ends "
        "its streams, and gives the jobs up, and one of the standbys takes them over. No job is "
        "lost or run twice; streams and claims connect again. The server goes on as a standby.",
    .examples = "  tenax step-down\n"
                "  tenax step-down --wait 0s\n",
    .options = step_down_options,
};

/* --- listing --- */

static enum table_style read_time(struct client *c, struct str server, const char *member,
                                  struct buf *text)
{
    instant at = view_time(server, member);
    if (instant_is_set(at))
        when_relative(text, at, c->now);
    return TABLE_PLAIN;
}

static enum table_style read_seen(struct client *c, struct str server, struct buf *text)
{
    return read_time(c, server, "last_seen", text);
}

static enum table_style read_started(struct client *c, struct str server, struct buf *text)
{
    return read_time(c, server, "started", text);
}

static enum table_style read_role(struct client *c, struct str server, struct buf *text)
{
    struct str role = view_text(&c->arena, server, "role");
    buf_str(text, role);
    return str_eq(role, STR("owner")) ? TABLE_GOOD : TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"NAME", .member = "name", .least = 16},
    {"ROLE", .read = read_role},
    {"LAST SEEN", .read = read_seen},
    {"STARTED", .read = read_started},
    {"VERSION", .member = "version"},
    {"ADDRESS", .member = "address"},
    {0},
};

static const struct listing_kind kind = {columns, "name", NULL};

static int fetch(struct listing *l, void *ctx)
{
    struct client *c = l->client;
    struct str answer;
    int code = client_ask(c, "GET", "/servers");
    (void)ctx;
    if (code != CLI_OK)
        return code;
    answer = client_answer(c);
    listing_add_all(l, view_get(answer, "servers"));
    listing_note(l, "epoch %.*s; %.*s", STR_ARG(view_text(&c->arena, answer, "epoch")),
                 STR_ARG(view_text(&c->arena, answer, "durability")));
    return code;
}

static int begin(const struct subcommand *command, int argc, char **argv, struct servers_args *args,
                 struct client *c)
{
    struct options o;
    int code;
    if (!subcommand_begin(command, OPTIONS_ANYWHERE, argc, argv, args, &o, &code))
        return code == CLI_OK ? -1 : code;
    if (o.rest_count)
        return subcommand_usage(command, "unexpected '%s'", o.rest[0]);
    return client_open(c, command, &args->client);
}

int servers_main(int argc, char **argv)
{
    struct servers_args args = {0};
    struct client c;
    int code = begin(&servers_command, argc, argv, &args, &c);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    code = listing_run(&c, &kind, fetch, NULL);
    client_close(&c);
    return code;
}

/* --- stepping down --- */

static int64_t now_ms(void)
{
    return pg_now().ns / 1000000;
}

/* The name of the owner if its epoch is another one; empty as long as there is none. */
static struct str new_owner(struct client *c, struct str epoch)
{
    c->call.body.len = 0;
    if (call_wait(&c->call, "GET", "/servers", c->args.timeout) != CALL_DONE ||
        str_eq(view_text(&c->arena, client_answer(c), "epoch"), epoch))
        return (struct str){0};
    struct view_list l = view_list(view_get(client_answer(c), "servers"));
    for (struct str each; view_next(&l, &each);)
        if (str_eq(view_text(&c->arena, each, "role"), STR("owner")))
            return view_text(&c->arena, each, "name");
    return (struct str){0};
}

static int await(struct client *c, span most)
{
    char before[32];
    int64_t from = now_ms();
    snprintf(before, sizeof before, "%.*s",
             STR_ARG(view_text(&c->arena, client_answer(c), "epoch")));
    while (now_ms() - from < most.ms) {
        struct str owner = new_owner(c, str_from(before));
        if (owner.len) {
            printf("%.*s has the jobs, after %lld ms\n", STR_ARG(owner),
                   (long long)(now_ms() - from));
            return CLI_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = ASK_MS * 1000000}, NULL);
    }
    fprintf(stderr, "tenax step-down: no other server has taken the jobs over within %lld ms\n",
            (long long)most.ms);
    return CLI_REFUSED;
}

int step_down_main(int argc, char **argv)
{
    struct servers_args args = {0};
    struct client c;
    int code = begin(&step_down_command, argc, argv, &args, &c);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    code = client_ask(&c, "POST", "/servers/step-down");
    if (code == CLI_OK && !client_for_people(&c))
        client_print_answer(&c);
    if (code == CLI_OK && args.wait.ms > 0)
        code = await(&c, args.wait);
    client_close(&c);
    return code;
}
