/* SPDX-License-Identifier: Apache-2.0 */

/* audit: who changed what. GET /audit. */

#include <inttypes.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/listing.h"
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
    CLIENT_LIST_OPTIONS(struct audit_args),
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

/* --- columns --- */

static enum table_style read_at(struct client *c, struct str entry, struct buf *text)
{
    (void)c;
    when_absolute(text, view_time(entry, "at"));
    return TABLE_PLAIN;
}

static enum table_style read_actor(struct client *c, struct str entry, struct buf *text)
{
    struct str actor = view_get(entry, "actor");
    struct str kind = view_text(&c->arena, actor, "kind"), id = view_text(&c->arena, actor, "id");
    struct str name = view_text(&c->arena, actor, "name");
    buf_str(text, kind);
    if (id.len)
        buf_print(text, " %.*s%s%.*s", STR_ARG(id), name.len ? " " : "", STR_ARG(name));
    return id.len ? TABLE_PLAIN : TABLE_FAINT;
}

static enum table_style read_count(struct client *c, struct str entry, struct buf *text)
{
    int64_t count;
    bool has = view_int(entry, "count", &count);
    (void)c;
    if (has)
        buf_int(text, count);
    else if (!str_eq(view_get(entry, "finished"), STR("true")))
        buf_lit(text, "unfinished");
    return has ? TABLE_PLAIN : TABLE_WAIT;
}

static enum table_style read_what(struct client *c, struct str entry, struct buf *text)
{
    struct str path = view_text(&c->arena, entry, "path"),
               query = view_text(&c->arena, entry, "query");
    struct str body = view_text(&c->arena, entry, "body");
    buf_print(text, "%.*s%s%.*s%s%.*s", STR_ARG(path), query.len ? "?" : "", STR_ARG(query),
              body.len ? " " : "", STR_ARG(body));
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {">NO", .member = "number"},          {"AT", .read = read_at},
    {"OPERATION", .member = "operation"}, {"WHO", .read = read_actor, .least = 24},
    {"FROM", .member = "address"},        {">JOBS", .read = read_count},
    {"WHAT", .read = read_what},          {0},
};

static const struct listing_kind kind = {columns, "number", "Nothing was changed."};

static int fetch(struct listing *l, void *ctx)
{
    struct client *c = l->client;
    struct buf path = {0};
    int64_t next;
    int code = client_ask(c, "GET", path_of(ctx, c->now, &path));
    buf_fini(&path);
    if (code != CLI_OK)
        return code;
    listing_add_all(l, view_get(client_answer(c), "entries"));
    if (view_int(client_answer(c), "next", &next))
        listing_note(l, "There may be more: --before %" PRId64, next);
    return code;
}

int audit_main(int argc, char **argv)
{
    struct audit_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&audit_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&audit_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &audit_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = listing_run(&c, &kind, fetch, &args);
    client_close(&c);
    return code;
}
