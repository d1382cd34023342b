/* SPDX-License-Identifier: Apache-2.0 */

/* audit: who changed what. GET /audit. */

#include <inttypes.h>
#include <stdio.h>

#include "cli/commands.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

struct audit_args {
    struct client_args client;
    const char *actor, *operation;
    int64_t limit, before;
    span since;
};

#define AT(field) offsetof(struct audit_args, field)

static const struct option_def options[] = {
    {"actor", "WHO", OPTION_TEXT, AT(actor),
     .help = "only of this id or name, or of this kind: token, certificate, jwt, hawk, anonymous, "
             "server"},
    {"operation", "NAME", OPTION_TEXT, AT(operation),
     .help = "only this one, as docs/rights.md lists them: cancelJobs"},
    {"since", "DURATION", OPTION_SPAN, AT(since), .help = "only what is not older: 2h, 30d"},
    {"limit", "COUNT", OPTION_INT, AT(limit), .min = 1, .max = 500, .def = "50",
     .help = "how many at most"},
    {"before", "NUMBER", OPTION_INT, AT(before), .min = 1, .max = INT64_MAX,
     .help = "only entries with smaller numbers"},
    CLIENT_OPTIONS(struct audit_args),
    {0},
};

const struct subcommand audit_command = {
    .name = "audit",
    .usage = "[OPTIONS]",
    .summary = "list who changed what",
    .about = "Lists, the newest first, what people and programs changed that is not a job's normal "
             "life: jobs that they canceled, retried, patched or deleted, queues, crons, budgets, "
             "policies, tokens, backups. Needs the right to administer (docs/access.md).",
    .examples = "  tenax audit\n"
                "  tenax audit --actor 0f3c8a91d2b4e675 --since 7d\n"
                "  tenax audit --operation deleteJobs -o json\n",
    .options = options,
};

static const char *path_of(const struct audit_args *args, instant now, struct buf *path)
{
    char text[24];
    buf_lit(path, "/audit");
    snprintf(text, sizeof text, "%" PRId64, args->limit);
    client_query(path, "limit", text);
    snprintf(text, sizeof text, "%" PRId64, args->before);
    client_query(path, "before", args->before ? text : NULL);
    snprintf(text, sizeof text, "%" PRId64,
             args->since.ms < now.ms ? now.ms - args->since.ms : INT64_C(0));
    client_query(path, "since", args->since.ms ? text : NULL);
    client_query(path, "actor", args->actor);
    client_query(path, "operation", args->operation);
    return client_path(path);
}

static void add_actor(struct client *c, struct table *t, struct str entry)
{
    struct str actor = view_get(entry, "actor");
    struct str kind = view_text(&c->arena, actor, "kind"), id = view_text(&c->arena, actor, "id");
    struct str name = view_text(&c->arena, actor, "name");
    if (id.len == 0)
        table_add(t, TABLE_FAINT, kind);
    else
        table_print(t, TABLE_PLAIN, "%.*s %.*s%s%.*s", STR_ARG(kind), STR_ARG(id),
                    name.len ? " " : "", STR_ARG(name));
}

static void add_what(struct client *c, struct table *t, struct str entry)
{
    struct str path = view_text(&c->arena, entry, "path"),
               query = view_text(&c->arena, entry, "query");
    struct str body = view_text(&c->arena, entry, "body");
    table_print(t, TABLE_PLAIN, "%.*s%s%.*s%s%.*s", STR_ARG(path), query.len ? "?" : "",
                STR_ARG(query), body.len ? " " : "", STR_ARG(body));
}

static void add_row(struct client *c, struct table *t, struct str entry)
{
    struct buf at = {0};
    int64_t count;
    bool finished = str_eq(view_get(entry, "finished"), STR("true"));
    when_absolute(&at, view_time(entry, "at"));
    table_add(t, TABLE_FAINT, view_text(&c->arena, entry, "number"));
    table_add(t, TABLE_PLAIN, buf_view(&at));
    table_add(t, TABLE_PLAIN, view_text(&c->arena, entry, "operation"));
    add_actor(c, t, entry);
    table_add(t, TABLE_PLAIN, view_text(&c->arena, entry, "address"));
    if (view_int(entry, "count", &count))
        table_print(t, TABLE_PLAIN, "%" PRId64, count);
    else
        table_add(t, TABLE_WAIT, finished ? (struct str){0} : STR("unfinished"));
    add_what(c, t, entry);
    buf_fini(&at);
}

static void print_entries(struct client *c)
{
    static const char *const headers[] = {">NO",  "AT",    "OPERATION", "WHO",
                                          "FROM", ">JOBS", "WHAT",      NULL};
    struct table t;
    struct buf out = {0};
    table_init(&t, headers);
    struct view_list l = view_list(view_get(client_answer(c), "entries"));
    for (struct str entry; view_next(&l, &entry);)
        add_row(c, &t, entry);
    table_write(&t, &out, c->colour, c->width);
    subcommand_print(stdout, &out);
    table_fini(&t);
    buf_fini(&out);
}

static void print(struct client *c)
{
    int64_t next;
    if (c->args.output == CLIENT_JSON) {
        client_print_answer(c);
        return;
    }
    print_entries(c);
    if (view_int(client_answer(c), "next", &next))
        fprintf(stderr, "There may be more: --before %" PRId64 "\n", next);
}

int audit_main(int argc, char **argv)
{
    struct audit_args args = {0};
    struct options o;
    struct client c;
    struct buf path = {0};
    int code;
    if (!subcommand_begin(&audit_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&audit_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &audit_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = client_ask(&c, "GET", path_of(&args, c.now, &path));
    if (code == CLI_OK)
        print(&c);
    client_close(&c);
    buf_fini(&path);
    return code;
}
