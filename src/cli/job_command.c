/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/array.h"
#include "base/duration.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/jobid.h"
#include "cli/listing.h"
#include "client/jobtext.h"
#include "client/view.h"
#include "client/when.h"

struct job_args {
    struct client_args client;
    bool del;
};

static const struct option_def options[] = {
    {"delete", NULL, OPTION_SWITCH, offsetof(struct job_args, del),
     .help = "delete the job and its history, instead of showing it"},
    CLIENT_LIST_OPTIONS(struct job_args),
    {0},
};

const struct subcommand job_command = {
    .name = "job",
    .usage = "ID [--delete]",
    .summary = "show one job with its payload and its history, or delete it",
    .about = "Prints what the server knows about a job: its settings, its payload, every run with "
             "its outcome and what was decided after it, and the errors in full. Here and in other "
             "commands, the first characters of an id will do, if no other job's begins so.",
    .examples = "  tenax job 03fr82s077azjmurys29qjch4\n"
                "  tenax job 03fr82s077azjmurys29qjch4 --delete\n"
                "  tenax job 03fr82s077azjmurys29qjch4 --output json | jq .job.payload\n",
    .options = options,
    .rest = "ID",
};

/* The job's own settings, which override the server's. */
static void write_overrides(struct buf *out, struct str job)
{
    struct str backoff = view_get(job, "backoff"), retention = view_get(job, "retention");
    int64_t base, jitter, keep;
    if (view_int(backoff, "base_ms", &base) && view_int(backoff, "jitter_ms", &jitter)) {
        struct str exponent = view_get(backoff, "exponent");
        buf_lit(out, "backoff    ");
        duration_write(out, (span){base});
        buf_print(out, " + attempts^%.*s s + attempts * rand(0..", STR_ARG(exponent));
        duration_write(out, (span){jitter});
        buf_lit(out, ")\n");
    }
    if (view_int(job, "max_run_ms", &keep)) {
        buf_lit(out, "max run    ");
        duration_write(out, (span){keep});
        buf_byte(out, '\n');
    }
    if (view_int(job, "retry_for_ms", &keep)) {
        buf_lit(out, "retry for  ");
        duration_write(out, (span){keep});
        buf_lit(out, " after its first failure\n");
    }
    if (view_int(retention, "completed_ms", &keep)) {
        buf_lit(out, "kept       ");
        duration_write(out, (span){keep});
        buf_lit(out, " once completed\n");
    }
    if (view_int(retention, "dead_ms", &keep)) {
        buf_lit(out, "kept       ");
        duration_write(out, (span){keep});
        buf_lit(out, " once dead\n");
    }
}

/* "03f… 03g…" */
static void write_waits(struct client *c, struct buf *out, struct str job)
{
    struct buf ids = {0};
    struct view_list l = view_list(view_get(job, "waits_for"));
    for (struct str item; view_next(&l, &item);) {
        if (ids.len)
            buf_byte(&ids, ' ');
        buf_add(&ids, item.at + 1, item.len - 2); /* an id needs no escapes */
    }
    jobtext_fact(out, "waits for", arena_copy(&c->arena, buf_view(&ids)));
    buf_fini(&ids);
}

static void write_value(struct buf *out, const char *name, struct str value)
{
    if (!value.len)
        return;
    buf_print(out, "%-10s ", name);
    view_pretty(out, value, 11);
    buf_byte(out, '\n');
}

/* The notes of its workers: "40 % page 4 of 10". */
static void write_notes(struct client *c, struct buf *out, struct str job)
{
    struct str progress = view_get(job, "progress");
    struct str value = view_text(&c->arena, progress, "value");
    if (value.len) {
        struct json_cursor cursor = json_open(value);
        double share = 0;
        if (json_read_double(&cursor, 0, 1, &share).code == ERR_OK)
            buf_print(out, "progress   %.0f %% ", share * 100);
        table_harmless(out, view_text(&c->arena, progress, "note"));
        buf_byte(out, '\n');
    }
    write_value(out, "checkpoint", view_get(job, "checkpoint"));
    write_value(out, "result", view_get(job, "result"));
}

static void write_facts(struct client *c, struct buf *out, struct str job)
{
    static const struct {
        const char *name, *key;
    } times[] = {{"ready", "ready_at"},
                 {"taken", "dequeued_at"},
                 {"failed", "failed_at"},
                 {"done", "completed_at"},
                 {"deleted", "purge_at"}};
    struct arena *a = &c->arena;
    struct str status = view_text(a, job, "status");
    enum table_style style = client_status_style(status);
    jobtext_fact(out, "job", view_text(a, job, "id"));
    buf_print(out, "%-10s %s", "status", table_on(style, c->colour));
    table_harmless(out, status);
    buf_print(out, "%s\n", table_off(style, c->colour));
    jobtext_fact(out, "why", view_text(a, job, "reason"));
    jobtext_fact(out, "queue", view_text(a, job, "queue"));
    jobtext_fact(out, "type", view_text(a, job, "type"));
    jobtext_fact(out, "priority", view_text(a, job, "priority"));
    jobtext_fact(out, "attempts", view_text(a, job, "attempts"));
    jobtext_fact(out, "retries", view_text(a, job, "retry_limit"));
    for (size_t i = 0; i < COUNT(times); i++)
        jobtext_fact_time(out, times[i].name, view_time(job, times[i].key), c->now);
    write_overrides(out, job);
    jobtext_fact(out, "judged by", view_text(a, job, "judged_by"));
    write_waits(c, out, job);
    write_notes(c, out, job);
    struct str payload = view_get(job, "payload");
    write_value(out, "payload", payload.len ? payload : STR("null"));
}

static enum table_style outcome_style(struct str outcome)
{
    if (!outcome.len || str_eq(outcome, STR("running")))
        return TABLE_BUSY;
    if (str_eq(outcome, STR("completed")))
        return TABLE_GOOD;
    return str_eq(outcome, STR("returned")) ? TABLE_WAIT : TABLE_BAD;
}

static void add_run(struct client *c, struct table *t, struct str run)
{
    struct arena *a = &c->arena;
    struct buf text = {0};
    struct str outcome = view_text(a, run, "outcome");
    instant taken = view_time(run, "taken_at"), ended = view_time(run, "ended_at");
    table_add(t, TABLE_PLAIN, view_text(a, run, "run"));
    table_add(t, TABLE_PLAIN, view_text(a, run, "worker"));
    if (instant_is_set(taken))
        when_relative(&text, taken, c->now);
    table_add(t, TABLE_PLAIN, buf_view(&text));
    text.len = 0;
    if (instant_is_set(taken)) {
        instant end = instant_is_set(ended) ? ended : c->now;
        /* Our clock may be behind the server's. */
        duration_write(&text, instant_diff(instant_max(end, taken), taken));
    }
    table_add(t, TABLE_PLAIN, buf_view(&text));
    table_add(t, outcome_style(outcome), outcome.len ? outcome : STR("running"));
    struct str signal = view_text(a, run, "signal"), exit = view_text(a, run, "exit_code");
    if (signal.len)
        table_print(t, TABLE_PLAIN, "signal %.*s", STR_ARG(signal));
    else
        table_add(t, TABLE_PLAIN, exit);
    table_add(t, TABLE_PLAIN, view_text(a, run, "reason"));
    buf_fini(&text);
}

static void write_runs(struct client *c, struct buf *out, struct str runs)
{
    static const char *const headers[] = {">RUN",    "WORKER", "TAKEN", "TOOK",
                                          "OUTCOME", ">EXIT",  "WHY",   NULL};
    struct table t;
    table_init(&t, headers);
    struct view_list l = view_list(runs);
    for (struct str run; view_next(&l, &run);)
        add_run(c, &t, run);
    if (t.cells > t.columns) {
        buf_byte(out, '\n');
        table_write(&t, out, c->colour, c->width);
    }
    table_fini(&t);
}

/* A text of several lines, each indented and without control characters. */
static void write_block(struct buf *out, struct str text)
{
    while (text.len) {
        const char *nl = memchr(text.at, '\n', text.len);
        size_t n = nl ? (size_t)(nl - text.at) : text.len;
        buf_lit(out, "    ");
        table_harmless(out, (struct str){text.at, n});
        buf_byte(out, '\n');
        n += nl != NULL;
        text = (struct str){text.at + n, text.len - n};
    }
}

/* The category of the failure, and the hint. */
static void write_category(struct buf *out, struct arena *a, struct str error)
{
    struct str category = view_text(a, error, "category");
    struct str sub = view_text(a, error, "subcategory"), hint = view_text(a, error, "hint");
    if (category.len == 0)
        return;
    buf_lit(out, "    category ");
    table_harmless(out, category);
    if (sub.len) {
        buf_byte(out, '/');
        table_harmless(out, sub);
    }
    if (hint.len) {
        buf_lit(out, ": ");
        table_harmless(out, hint);
    }
    buf_byte(out, '\n');
}

/* Whose fault it was, and how that is known. */
static void write_culprit(struct buf *out, struct arena *a, struct str error)
{
    struct str culprit = view_text(a, error, "culprit");
    if (culprit.len == 0)
        return;
    buf_lit(out, "    culprit ");
    table_harmless(out, culprit);
    buf_lit(out, ": ");
    table_harmless(out, view_text(a, error, "culprit_evidence"));
    buf_byte(out, '\n');
}

/* The first line: what rules of retry policies match. */
static void write_termination(struct buf *out, struct arena *a, struct str error)
{
    struct str text = view_text(a, error, "termination_message");
    const char *nl = text.len ? memchr(text.at, '\n', text.len) : NULL;
    if (text.len == 0)
        return;
    buf_lit(out, "    termination message: ");
    table_harmless(out, nl ? (struct str){text.at, (size_t)(nl - text.at)} : text);
    buf_byte(out, '\n');
}

/* A container of a pod: what became of it, and the end of its log. */
static void write_container(struct buf *out, struct arena *a, struct str container)
{
    bool init = str_eq(view_get(container, "init"), STR("true"));
    const struct {
        const char *before;
        struct str text;
    } parts[] = {{init ? "    init container " : "    container ", view_text(a, container, "name")},
                 {": exit code ", view_text(a, container, "exit_code")},
                 {", signal ", view_text(a, container, "signal")},
                 {", ", view_text(a, container, "reason")},
                 {": ", view_text(a, container, "message")}};
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (parts[i].text.len == 0)
            continue;
        buf_str(out, str_from(parts[i].before));
        table_harmless(out, parts[i].text);
    }
    buf_byte(out, '\n');
    struct buf log = {0};
    write_block(&log, view_text(a, container, "log"));
    for (struct str rest = buf_view(&log); rest.len;) {
        const char *nl = memchr(rest.at, '\n', rest.len);
        size_t n = nl ? (size_t)(nl - rest.at) + 1 : rest.len;
        buf_lit(out, "    ");
        buf_add(out, rest.at, n);
        rest = (struct str){rest.at + n, rest.len - n};
    }
    buf_fini(&log);
}

/* What a cluster says of the pod that ran the job. */
static void write_pod(struct buf *out, struct arena *a, struct str error)
{
    struct view_list containers = view_list(view_get(error, "containers"));
    for (struct str container; view_next(&containers, &container);)
        write_container(out, a, container);
    struct view_list events = view_list(view_get(error, "pod_events"));
    for (struct str event; view_next(&events, &event);) {
        struct json_cursor c = json_open(event);
        struct json_string s;
        struct str text;
        if (json_read_string(&c, &s).code != ERR_OK || json_text(s, a, &text).code != ERR_OK)
            continue;
        buf_lit(out, "    event: ");
        table_harmless(out, text);
        buf_byte(out, '\n');
    }
}

static void write_errors(struct client *c, struct buf *out, struct str errors)
{
    struct arena *a = &c->arena;
    struct view_list l = view_list(errors);
    for (struct str error; view_next(&l, &error);) {
        struct str type = view_text(a, error, "error_type");
        buf_print(out, "\n%serror of attempt %.*s%s", table_on(TABLE_BAD, c->colour),
                  STR_ARG(view_text(a, error, "attempt")), table_off(TABLE_BAD, c->colour));
        buf_str(out, type.len ? STR(", ") : STR(""));
        table_harmless(out, type);
        buf_lit(out, ": ");
        table_harmless(out, view_text(a, error, "message"));
        buf_byte(out, '\n');
        write_block(out, view_text(a, error, "backtrace"));
        write_termination(out, a, error);
        write_pod(out, a, error);
        write_category(out, a, error);
        write_culprit(out, a, error);
    }
}

/* GETs the path; on success *text is the answer, or a member of it, in the client's arena, because
 * later answers overwrite this one. */
static int get(struct client *c, const char *id, const char *what, const char *member,
               struct str *text)
{
    struct buf path = {0};
    buf_print(&path, "/jobs/%s%s", id, what);
    int code = client_ask(c, "GET", client_path(&path));
    buf_fini(&path);
    if (code == CLI_OK) {
        struct str all = client_answer(c);
        *text = arena_copy(&c->arena, member ? view_get(all, member) : all);
    }
    return code;
}

/* Collects the errors of all pages into one JSON array. */
static int get_errors(struct client *c, const char *id, struct buf *list)
{
    struct buf path = {0};
    int code;
    buf_print(&path, "/jobs/%s/errors", id);
    buf_lit(list, "[");
    do {
        code = client_ask(c, "GET", client_path(&path));
        path.len = 0;
        if (code != CLI_OK)
            break;
        struct view_list l = view_list(view_get(client_answer(c), "errors"));
        for (struct str error; view_next(&l, &error);) {
            buf_str(list, list->len > 1 ? STR(",") : STR(""));
            buf_str(list, error);
        }
        struct str next = view_text(&c->arena, view_get(client_answer(c), "pages"), "next");
        if (next.len && next.at[0] == '/')
            buf_str(&path, next);
    } while (path.len);
    buf_lit(list, "]");
    buf_fini(&path);
    return code;
}

static void write_job(struct client *c, struct buf *out, struct str all)
{
    write_facts(c, out, view_get(all, "job"));
    write_runs(c, out, view_get(all, "runs"));
    write_errors(c, out, view_get(all, "errors"));
}

static const struct listing_kind kind = {NULL, "job.id", NULL, true};

static int fetch(struct listing *l, void *ctx)
{
    const char *id = ctx;
    struct client *c = l->client;
    struct str job, runs;
    struct buf errors = {0}, all = {0};
    int code = get(c, id, "", NULL, &job);
    if (code == CLI_OK)
        code = get(c, id, "/runs", "runs", &runs);
    if (code == CLI_OK)
        code = get_errors(c, id, &errors);
    if (code == CLI_OK) {
        buf_print(&all, "{\"job\":%.*s,\n\"runs\":%.*s,\n\"errors\":%.*s}", STR_ARG(job),
                  STR_ARG(runs.len ? runs : STR("[]")), STR_ARG(buf_view(&errors)));
        listing_show(l, buf_view(&all), write_job);
    }
    buf_fini(&errors);
    buf_fini(&all);
    return code;
}

static int delete_job(struct client *c, const char *id)
{
    struct buf path = {0};
    buf_print(&path, "/jobs/%s", id);
    int code = client_ask(c, "DELETE", client_path(&path));
    buf_fini(&path);
    if (code == CLI_OK && client_for_people(c))
        fprintf(stderr, "Deleted job %s.\n", id);
    return code;
}

int job_main(int argc, char **argv)
{
    struct job_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&job_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1)
        return subcommand_usage(&job_command,
                                o.rest_count ? "one job at a time" : "which job? give its id");
    if (!jobid_is_possible(o.rest[0]))
        return jobid_refuse(&job_command, o.rest[0]);
    if (args.del && args.client.watch.ms)
        return subcommand_usage(&job_command, "--watch shows; it changes nothing");
    code = client_open(&c, &job_command, &args.client);
    if (code != CLI_OK)
        return code;
    char id[ID_TEXT_LEN + 1];
    code = jobid_find(&c, o.rest[0], id);
    if (code == CLI_OK)
        code = args.del ? delete_job(&c, id) : listing_run(&c, &kind, fetch, id);
    client_close(&c);
    return code;
}
