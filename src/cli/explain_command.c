/* SPDX-License-Identifier: Apache-2.0 */

/* explain ID: why a job is not running, or how it ended. */

#include <stdio.h>

#include "client/client.h"
#include "cli/commands.h"
#include "client/jobtext.h"
#include "client/view.h"

struct explain_args {
    struct client_args client;
};

static const struct option_def options[] = {
    CLIENT_OPTIONS(struct explain_args),
    {0},
};

const struct subcommand explain_command = {
    .name = "explain",
    .usage = "ID",
    .summary = "explain why a job is not running",
    .about =
        "Says what a job waits for (its time, other jobs, its place in the queue, a worker), "
        "since when, and when nothing would hold it back; for one in flight which worker has it "
        "and until when; for a dead one why, and what would bring it back.",
    .examples = "  tenax explain 03fr82s077azjmurys29qjch4\n",
    .options = options,
};

static void write_place(struct client *c, struct buf *out, struct str answer)
{
    struct arena *a = &c->arena;
    struct str position = view_text(a, answer, "position");
    bool exact = str_eq(view_text(a, answer, "position_exact"), STR("true"));
    struct str workers = view_get(answer, "workers");
    if (!position.len)
        return;
    buf_print(out, "%-10s %s%.*s in its queue\n", "place", exact ? "" : "later than ",
              STR_ARG(position));
    buf_print(out, "%-10s %.*s ask for jobs of its queue, %.*s of them with room\n", "workers",
              STR_ARG(view_text(a, workers, "asking")),
              STR_ARG(view_text(a, workers, "with_room")));
}

static void write_answer(struct client *c, struct buf *out, struct str answer)
{
    struct arena *a = &c->arena;
    struct str status = view_text(a, answer, "status");
    enum table_style style = client_status_style(status);
    jobtext_fact(out, "job", view_text(a, answer, "id"));
    buf_print(out, "%-10s %s", "status", table_on(style, c->colour));
    table_harmless(out, status);
    buf_print(out, "%s\n", table_off(style, c->colour));
    jobtext_fact(out, "why", view_text(a, answer, "summary"));
    jobtext_fact_time(out, "since", view_time(answer, "since"), c->now);
    jobtext_fact(out, "queue", view_text(a, answer, "queue"));
    jobtext_fact(out, "progress", view_text(a, view_get(answer, "progress"), "note"));
    write_place(c, out, answer);
    struct view_list l = view_list(view_get(answer, "waits_for"));
    for (struct str each; view_next(&l, &each);)
        jobtext_fact(out, "waits for", view_text(a, each, "reason"));
    jobtext_fact_time(out, "earliest", view_time(answer, "earliest_at"), c->now);
    jobtext_fact(out, "decided", view_text(a, answer, "reason"));
    jobtext_fact(out, "hint", view_text(a, answer, "hint"));
    jobtext_fact(out, "remedy", view_text(a, answer, "remedy"));
    jobtext_fact_time(out, "deleted", view_time(answer, "purge_at"), c->now);
}

int explain_main(int argc, char **argv)
{
    struct explain_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&explain_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1 || !*o.rest[0])
        return subcommand_usage(&explain_command, "which job? `tenax jobs` lists them");
    code = client_open(&c, &explain_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf path = {0}, out = {0};
    buf_lit(&path, "/jobs");
    client_segment(&path, str_from(o.rest[0]));
    buf_lit(&path, "/explain");
    code = client_ask(&c, "GET", client_path(&path));
    if (code == CLI_OK && c.args.output == CLIENT_JSON) {
        client_print_answer(&c);
    } else if (code == CLI_OK) {
        write_answer(&c, &out, client_answer(&c));
        subcommand_print(stdout, &out);
    }
    buf_fini(&path);
    buf_fini(&out);
    client_close(&c);
    return code;
}
