/* SPDX-License-Identifier: Apache-2.0 */

/* tenax release: POST /jobs/{id}/release. */

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/jobid.h"
#include "cli/listing.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

struct release_args {
    struct client_args client;
    const char *token, *at, *message;
    span delay;
    int64_t run;
};

#define AT(field) .offset = offsetof(struct release_args, field)

static const struct option_def options[] = {
    {"run-token", "TOKEN", OPTION_TEXT, AT(token),
     .help = "the token that the run was handed out with; the run of a claim is given back with "
             "it only"},
    {"run", "INDEX", OPTION_INT, AT(run), .max = UINT32_MAX, .help = "the run that is meant"},
    {"delay", "DURATION", OPTION_SPAN, AT(delay),
     .help = "not again before this much time has passed"},
    {"at", "TIME", OPTION_TEXT, AT(at),
     .help = "not again before this time: 2030-01-31T09:00:00Z or milliseconds since 1970"},
    {"message", "TEXT", OPTION_TEXT, AT(message), .help = "why, for the reason of the run"},
    CLIENT_OPTIONS_IN(struct release_args, CLIENT_LIST_FORMATS),
    {0},
};

const struct subcommand release_command = {
    .name = "release",
    .usage = "ID [--run-token TOKEN] [--run INDEX] [OPTIONS]",
    .summary = "give a job in flight back to its queue, at once or for later",
    .about = "For workers that are scripts: the run ends and does not count, and the job is ready "
             "again, or scheduled for the time given.",
    .examples = "  id=03fr82s077azjmurys29qjch4 token=2f1b5c0e9d3a4788\n"
                "  tenax release $id --run-token $token\n"
                "  tenax release $id --run-token $token --delay 10m\n",
    .options = options,
    .rest = "ID",
};

static void add_text(struct buf *b, const char *name, const char *text)
{
    if (!text)
        return;
    buf_print(b, "%s\"%s\":", b->len > 1 ? "," : "", name);
    json_write_string(b, str_from(text));
}

static void add_number(struct buf *b, const char *name, int64_t v)
{
    buf_print(b, "%s\"%s\":%" PRId64, b->len > 1 ? "," : "", name, v);
}

/* When it is to be ready again; INSTANT_NONE: at once. */
static int read_time(const struct release_args *args, const struct options *o, instant now,
                     instant *t)
{
    *t = INSTANT_NONE;
    bool delayed = OPTION_GIVEN(o, struct release_args, delay);
    if (delayed && args->at)
        return subcommand_usage(&release_command, "--delay and --at exclude each other");
    if (delayed)
        *t = instant_add(now, args->delay);
    else if (args->at && !when_parse(str_from(args->at), t))
        return subcommand_usage(&release_command,
                                "option '--at': '%.40s' is not a time; write "
                                "2030-01-31T09:00:00Z or milliseconds since 1970",
                                args->at);
    return CLI_OK;
}

static void print_released(struct client *c, const char *id, instant t)
{
    static const struct listing_kind kind = {NULL, "id", NULL};
    struct buf text = {0};
    if (!client_for_people(c)) {
        buf_print(&text, "{\"id\":\"%s\",\"released\":true}", id);
        listing_print(c, &kind, buf_view(&text), NULL);
    } else {
        if (instant_is_set(t) && t.ms > c->now.ms)
            when_relative(&text, t, c->now);
        printf("%s is given back%s%.*s\n", id, text.len ? "; ready " : "",
               STR_ARG(buf_view(&text)));
    }
    buf_fini(&text);
}

static int release(struct client *c, const struct release_args *args, const struct options *o,
                   const char *id)
{
    struct buf path = {0}, *body = &c->call.body;
    instant t;
    int code = read_time(args, o, c->now, &t);
    if (code != CLI_OK)
        return code;
    body->len = 0;
    buf_byte(body, '{');
    add_text(body, "token", args->token);
    add_text(body, "message", args->message);
    if (OPTION_GIVEN(o, struct release_args, run))
        add_number(body, "run", args->run);
    if (instant_is_set(t))
        add_number(body, "ready_at", t.ms);
    buf_byte(body, '}');
    buf_print(&path, "/jobs/%s/release", id);
    code = client_ask(c, "POST", client_path(&path));
    buf_fini(&path);
    if (code != CLI_OK)
        return code;
    print_released(c, id, t);
    return CLI_OK;
}

int release_main(int argc, char **argv)
{
    struct release_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&release_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1)
        return subcommand_usage(&release_command, "which job? give one id");
    if (!jobid_is_possible(o.rest[0]))
        return jobid_refuse(&release_command, o.rest[0]);
    code = client_open(&c, &release_command, &args.client);
    if (code != CLI_OK)
        return code;
    char id[ID_TEXT_LEN + 1];
    code = jobid_find(&c, o.rest[0], id);
    if (code == CLI_OK)
        code = release(&c, &args, &o, id);
    client_close(&c);
    return code;
}
