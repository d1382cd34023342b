/* SPDX-License-Identifier: Apache-2.0 */

/* explain: why a job is not running, or how it ended; and what the jobs of queues wait for. */

#include <stdio.h>

#include "client/client.h"
#include "cli/commands.h"
#include "cli/unknown.h"
#include "cli/jobid.h"
#include "cli/listing.h"
#include "client/jobtext.h"
#include "client/view.h"

struct explain_args {
    struct client_args client;
    const char *queue;
    bool all;
};

static const struct option_def options[] = {
    {"queue", "QUEUE", OPTION_TEXT, offsetof(struct explain_args, queue),
     .help = "what the waiting jobs of this queue wait for, counted", .letter = 'q'},
    {"all-queues", NULL, OPTION_SWITCH, offsetof(struct explain_args, all),
     .help = "the same of each queue in which jobs wait"},
    CLIENT_LIST_OPTIONS(struct explain_args),
    {0},
};

const struct subcommand explain_command = {
    .name = "explain",
    .usage = "ID | --queue QUEUE | --all-queues",
    .summary = "explain why a job, or a queue, does not move",
    .about =
        "Says what a job waits for (its time, other jobs, its place in the queue, a worker), "
        "since when, and when nothing would hold it back; for one in flight which worker has it "
        "and until when; for a dead one why, and what would bring it back. Of a queue it counts "
        "the waiting jobs by what keeps them back.",
    .examples = "  tenax explain 03fr82s077azjmurys29qjch4\n"
                "  tenax explain --queue mail\n",
    .options = options,
    .rest = "ID",
};

static void write_workers(struct client *c, struct buf *out, struct str workers, const char *jobs)
{
    struct arena *a = &c->arena;
    buf_print(out, "%-10s %.*s ask for %s, %.*s of them with room; %.*s busy with %.*s of them\n",
              "workers", STR_ARG(view_text(a, workers, "asking")), jobs,
              STR_ARG(view_text(a, workers, "with_room")), STR_ARG(view_text(a, workers, "busy")),
              STR_ARG(view_text(a, workers, "in_flight")));
}

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
    write_workers(c, out, workers, "jobs of its queue");
}

/* Whose fault that was, and how it is known: "dependency: 503 from payments". */
static void write_culprit(struct client *c, struct buf *out, struct str run)
{
    struct str culprit = view_text(&c->arena, run, "culprit");
    struct buf both = {0};
    if (culprit.len)
        buf_print(&both, "%.*s: %.*s", STR_ARG(culprit),
                  STR_ARG(view_text(&c->arena, run, "culprit_evidence")));
    jobtext_fact(out, "culprit", buf_view(&both));
    buf_fini(&both);
}

/* How its newest run failed, in the words of who ran it: "PodStartFailed: pod x cannot start". */
static void write_error(struct client *c, struct buf *out, struct str run)
{
    struct str type = view_text(&c->arena, run, "error_type");
    struct str message = view_text(&c->arena, run, "message");
    struct buf both = {0};
    buf_print(&both, "%.*s%s%.*s", STR_ARG(type), type.len && message.len ? ": " : "",
              STR_ARG(message));
    jobtext_fact(out, "error", buf_view(&both));
    write_culprit(c, out, run);
    buf_fini(&both);
}

/* About what judges the failures, of a job or of a queue. */
static void write_warnings(struct client *c, struct buf *out, struct str answer)
{
    struct view_list l = view_list(view_get(answer, "warnings"));
    for (struct str each; view_next(&l, &each);)
        jobtext_fact(out, "warning", view_own_text(&c->arena, each));
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
    write_error(c, out, view_get(answer, "newest_run"));
    jobtext_fact(out, "judged by", view_text(a, answer, "judged_by"));
    write_warnings(c, out, answer);
    jobtext_fact(out, "hint", view_text(a, answer, "hint"));
    jobtext_fact(out, "remedy", view_text(a, answer, "remedy"));
    jobtext_fact_time(out, "deleted", view_time(answer, "purge_at"), c->now);
}

/* --- queues --- */

static void write_queue(struct client *c, struct buf *out, struct str queue)
{
    struct arena *a = &c->arena;
    struct str workers = view_get(queue, "workers");
    struct view_list l = view_list(view_get(queue, "waits_for"));
    jobtext_fact(out, "queue", view_text(a, queue, "queue"));
    buf_print(out, "%-10s %.*s ready, %.*s scheduled, %.*s blocked\n", "jobs",
              STR_ARG(view_text(a, queue, "ready")), STR_ARG(view_text(a, queue, "scheduled")),
              STR_ARG(view_text(a, queue, "blocked")));
    write_workers(c, out, workers, "its jobs");
    for (struct str each; view_next(&l, &each);)
        jobtext_fact(out, "why", view_text(a, each, "reason"));
    write_warnings(c, out, queue);
}

static const struct listing_kind queues_kind = {NULL, "queue", "No job waits in any queue."};
static const struct listing_kind job_kind = {NULL, "id", NULL};

/* All pages. */
static int fetch_queues(struct listing *l, void *ctx)
{
    struct client *c = l->client;
    struct buf path = {0};
    int code = CLI_OK;
    buf_str(&path, str_from(ctx));
    while (path.len && (code = client_ask(c, "GET", client_path(&path))) == CLI_OK) {
        struct view_list list = view_list(view_get(client_answer(c), "queues"));
        path.len = 0;
        buf_str(&path, view_text(&c->arena, view_get(client_answer(c), "pages"), "next"));
        for (struct str queue; view_next(&list, &queue);) {
            bool text = client_for_people(c);
            if (text && l->count)
                buf_lit(&l->out, "\n");
            if (text)
                listing_show(l, queue, write_queue);
            else
                listing_add(l, queue);
        }
    }
    buf_fini(&path);
    return code;
}

static int fetch_job(struct listing *l, void *ctx)
{
    int code = client_ask(l->client, "GET", ctx);
    if (code == CLI_OK)
        listing_show(l, client_answer(l->client), write_answer);
    return code;
}

/* What is wrong with the arguments; NULL: nothing. */
static const char *check(const struct explain_args *args, const struct options *o)
{
    bool queues = args->queue || args->all;
    if (queues && (o->rest_count || (args->queue && args->all)))
        return "only one of a job, --queue and --all-queues";
    if (!queues && (o->rest_count != 1 || !*o->rest[0]))
        return "which job? `tenax jobs` lists them";
    return NULL;
}

static void write_path(const struct explain_args *args, const struct options *o, struct buf *path)
{
    if (args->all) {
        buf_lit(path, "/explain?limit=1000");
    } else if (args->queue) {
        buf_lit(path, "/explain");
        client_query(path, "queue", args->queue);
    } else {
        buf_lit(path, "/jobs");
        client_segment(path, str_from(o->rest[0]));
        buf_lit(path, "/explain");
    }
}

static int explain(struct client *c, const struct explain_args *args, const struct options *o)
{
    struct buf path = {0};
    write_path(args, o, &path);
    (void)client_path(&path);
    int code = args->queue || args->all ? listing_run(c, &queues_kind, fetch_queues, path.at)
                                        : listing_run(c, &job_kind, fetch_job, path.at);
    if (code == CLI_OK && args->queue && client_for_people(c) && !args->client.watch.ms)
        unknown_queues_warn(c, "explain", args->queue);
    buf_fini(&path);
    return code;
}

int explain_main(int argc, char **argv)
{
    struct explain_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&explain_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *wrong = check(&args, &o);
    if (wrong)
        return subcommand_usage(&explain_command, "%s", wrong);
    code = client_open(&c, &explain_command, &args.client);
    if (code != CLI_OK)
        return code;
    char id[ID_TEXT_LEN + 1];
    if (o.rest_count && jobid_is_possible(o.rest[0])) {
        code = jobid_find(&c, o.rest[0], id);
        o.rest[0] = id;
    }
    if (code == CLI_OK)
        code = explain(&c, &args, &o);
    client_close(&c);
    return code;
}
