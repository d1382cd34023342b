/* SPDX-License-Identifier: Apache-2.0 */

/* tenax group: GET /groups/NAME, POST /groups/NAME/seal. */

#include <stdio.h>

#include "cli/commands.h"
#include "cli/listing.h"
#include "client/client.h"
#include "client/jobtext.h"
#include "client/view.h"

struct group_args {
    struct client_args client;
    bool seal;
};

static const struct option_def options[] = {
    {"seal", NULL, OPTION_SWITCH, offsetof(struct group_args, seal),
     .help = "take no further jobs into it; this cannot be undone"},
    CLIENT_LIST_OPTIONS(struct group_args),
    {0},
};

const struct subcommand group_command = {
    .name = "group",
    .usage = "NAME [--seal]",
    .summary = "show a group of jobs, or seal it",
    .about = "Jobs that were enqueued with the same --group belong together. Prints how many there "
             "are and how many of them have not ended. A group exists as long as one of its jobs "
             "does. Its jobs are listed by `tenax jobs --group NAME`, and canceled by `tenax "
             "cancel --group NAME`.",
    .examples = "  tenax group build-42\n"
                "  tenax group build-42 --seal\n",
    .options = options,
};

static void write_group(struct client *c, struct buf *out, struct str answer)
{
    struct arena *a = &c->arena;
    jobtext_fact(out, "group", view_text(a, answer, "name"));
    jobtext_fact(out, "owner", view_text(a, answer, "owner"));
    jobtext_fact(out, "jobs", view_text(a, answer, "jobs"));
    jobtext_fact(out, "unended", view_text(a, answer, "unended"));
    jobtext_fact_time(out, "sealed", view_time(answer, "sealed_at"), c->now);
    jobtext_fact_time(out, "retained", view_time(answer, "retain_until"), c->now);
}

static const struct listing_kind kind = {NULL, "name", NULL};

struct group_request {
    const char *method, *path;
};

static int fetch(struct listing *l, void *ctx)
{
    const struct group_request *r = ctx;
    int code = client_ask(l->client, r->method, r->path);
    if (code == CLI_OK)
        listing_show(l, client_answer(l->client), write_group);
    return code;
}

int group_main(int argc, char **argv)
{
    struct group_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&group_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1 || !*o.rest[0])
        return subcommand_usage(&group_command, "which group?");
    if (args.seal && args.client.watch.ms)
        return subcommand_usage(&group_command, "--watch shows; it changes nothing");
    code = client_open(&c, &group_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf path = {0};
    buf_lit(&path, "/groups");
    client_segment(&path, str_from(o.rest[0]));
    if (args.seal)
        buf_lit(&path, "/seal");
    struct group_request r = {args.seal ? "POST" : "GET", client_path(&path)};
    code = listing_run(&c, &kind, fetch, &r);
    buf_fini(&path);
    client_close(&c);
    return code;
}
