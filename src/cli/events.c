/* SPDX-License-Identifier: Apache-2.0 */

/* Prints events as they happen. They come as server-sent events, which carry their numbers: after a
 * broken connection the command resumes where it was. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/client.h"
#include "base/event_cursor.h"
#include "cli/commands.h"
#include "cli/jobid.h"
#include "cli/unknown.h"
#include "cli/listing.h"
#include "client/view.h"
#include "client/when.h"

#define RETRY_MS 1000

struct events_args {
    struct client_args client;
    const char *since, *queue, *type, *job, *event, *messages;
    bool follow;
};

#define AT(field) .offset = offsetof(struct events_args, field)

static const struct option_def options[] = {
    {"follow", NULL, OPTION_SWITCH, AT(follow), .letter = 'f',
     .help = "continue with new events until interrupted; without --since, only new ones"},
    {"since", "CURSOR", OPTION_TEXT, AT(since),
     .help = "begin after the event with this cursor or number; 0: with the oldest that is kept"},
    {"queue", "NAME,…", OPTION_TEXT, AT(queue), .help = "only of jobs in these queues"},
    {"type", "NAME,…", OPTION_TEXT, AT(type), .help = "only of jobs of these types"},
    {"job", "ID,…", OPTION_TEXT, AT(job),
     .help = "only of these jobs; the first 6 letters of an id may do"},
    {"event", "NAME,…", OPTION_TEXT, AT(event),
     .help =
         "only these: job_enqueued, job_blocked, job_unblocked, job_ready, job_postponed, "
         "job_taken, job_completed, "
         "job_requeued, job_returned, job_dead, job_rerun, job_priority_changed, "
         "job_deleted, job_restored, job_progress, artifact_created, group_resolved, group_sealed, "
         "group_priority_changed"},
    {"messages", "NAME", OPTION_TEXT, AT(messages),
     .help = "of taskcluster: its messages about each event; shown with --output jsonl and json"},
    CLIENT_OPTIONS_IN(struct events_args, CLIENT_LIST_FORMATS),
    {0},
};

const struct subcommand events_command = {
    .name = "events",
    .usage = "[OPTIONS]",
    .summary = "show what happens to jobs",
    .about =
        "Prints a line for each change of a job's status: when, which job, its new status and why. "
        "Without --follow it ends with the newest. The server keeps events for a while "
        "(--event-retention, --event-max-bytes); a line says so where some are gone. If the "
        "connection breaks, --follow resumes where it was once the server is back.\n"
        "With --output jsonl each event is one line of JSON. --output json gives one array, which "
        "has an end: it does not go with --follow.",
    .examples = "  tenax events --follow --queue mail\n"
                "  tenax events --event job_requeued,job_dead\n"
                "  tenax events --output jsonl --since 0 | jq -r .reason\n",
    .options = options,
};

struct reader {
    struct client client;
    struct listing listing; /* for programs */
    struct buf line;        /* an incomplete line of the answer */
    struct buf out;
    char last[EVENT_CURSOR_MAX]; /* the cursor of the newest event seen; or empty */
};

/* --- showing --- */

static void add_text(struct reader *r, struct str event, const char *key, const char *before)
{
    struct str text = view_text(&r->client.arena, event, key);
    if (text.len == 0)
        return;
    buf_str(&r->out, str_from(before));
    table_harmless(&r->out, text);
}

/* The new one, in the colour that it has in tables. */
static void add_status(struct reader *r, struct str event)
{
    bool colour = r->client.colour;
    struct str to = view_text(&r->client.arena, event, "to");
    enum table_style style = client_status_style(to);
    if (to.len == 0)
        return;
    buf_print(&r->out, "%s%s", view_get(event, "from").len ? " -> " : "  ",
              table_on(style, colour));
    table_harmless(&r->out, to);
    buf_print(&r->out, "%s", table_off(style, colour));
}

static void show_gap(struct reader *r, struct str event)
{
    int64_t from = 0, to = 0;
    if (view_int(event, "from", &from) && view_int(event, "to", &to))
        buf_print(&r->out, "events %lld to %lld are no longer kept", (long long)from,
                  (long long)to);
    else
        table_harmless(&r->out, view_text(&r->client.arena, event, "reason"));
    buf_byte(&r->out, '\n');
    arena_reset(&r->client.arena);
}

static void show(struct reader *r, struct str event)
{
    struct arena *a = &r->client.arena;
    struct str kind = view_text(a, event, "event");
    if (str_eq(kind, STR("gap"))) {
        show_gap(r, event);
        return;
    }
    when_clock(&r->out, view_time(event, "at"));
    buf_print(&r->out, "  %-13.*s  ", STR_ARG(kind));
    table_harmless(&r->out, view_text(a, event, "id"));
    add_text(r, event, "queue", "  ");
    add_text(r, event, "type", " ");
    add_text(r, event, "group", "  group ");
    add_text(r, event, "from", "  ");
    add_status(r, event);
    add_text(r, event, "run", "  run ");
    add_text(r, event, "worker", " by ");
    add_text(r, event, "reason", ": ");
    add_text(r, event, "culprit", "; culprit ");
    buf_byte(&r->out, '\n');
    arena_reset(a);
}

/* --- reading --- */

static void take_line(struct reader *r, struct str line)
{
    if (line.len > 4 && memcmp(line.at, "id: ", 4) == 0)
        snprintf(r->last, sizeof r->last, "%.*s", (int)line.len - 4, line.at + 4);
    if (line.len <= 6 || memcmp(line.at, "data: ", 6) != 0)
        return;
    struct str event = {line.at + 6, line.len - 6};
    if (view_check(event, NULL).code != ERR_OK)
        return;
    if (client_for_people(&r->client)) {
        show(r, event);
        return;
    }
    listing_add(&r->listing, event);
    buf_str(&r->out, buf_view(&r->listing.out));
    r->listing.out.len = 0;
    arena_reset(&r->client.arena);
}

static void take_lines(struct reader *r)
{
    size_t taken = 0;
    const char *end;
    while ((end = memchr(r->line.at + taken, '\n', r->line.len - taken))) {
        struct str line = {r->line.at + taken, (size_t)(end - r->line.at) - taken};
        take_line(r, line);
        taken += line.len + 1;
    }
    buf_drop(&r->line, taken);
}

static bool is_stream(const struct reader *r)
{
    const char *type = NULL;
    curl_easy_getinfo(r->client.call.curl, CURLINFO_CONTENT_TYPE, &type);
    return type && strncmp(type, "text/event-stream", 17) == 0;
}

static size_t receive(char *at, size_t size, size_t n, void *to)
{
    struct reader *r = to;
    long status = 0;
    curl_easy_getinfo(r->client.call.curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 || !is_stream(r)) { /* a sentence that says why, or another's page */
        buf_add(&r->client.call.answer, at, size * n);
        return size * n;
    }
    buf_add(&r->line, at, size * n);
    take_lines(r);
    subcommand_print(stdout, &r->out);
    fflush(stdout);
    return ferror(stdout) ? 0 : size * n;
}

static void build_path(const struct reader *r, const struct events_args *args, struct buf *path)
{
    path->len = 0;
    buf_lit(path, "/events");
    client_query(path, "follow", args->follow ? "true" : "false");
    client_query(path, "queue", args->queue);
    client_query(path, "type", args->type);
    client_query(path, "job", args->job);
    client_query(path, "event", args->event);
    client_query(path, "messages", args->messages);
    client_query(path, "since", *r->last ? r->last : NULL);
}

/* Reads one stream, until the connection ends. */
static enum call_result read_stream(struct reader *r, const struct events_args *args)
{
    struct buf path = {0};
    build_path(r, args, &path);
    r->line.len = 0;
    enum call_result result = call_wait(&r->client.call, "GET", client_path(&path), (span){0});
    buf_fini(&path);
    return result;
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static int refuse(const struct reader *r, enum call_result result)
{
    struct buf why = {0};
    call_explain(&r->client.call, &why);
    fprintf(stderr, "tenax events: %.*s\n", STR_ARG(buf_view(&why)));
    buf_fini(&why);
    return result == CALL_UNREACHABLE ? CLI_UNREACHABLE : CLI_REFUSED;
}

/* Requests the stream again whenever it ends after it had begun. */
static int follow(struct reader *r, const struct events_args *args)
{
    bool told = false, connected = false;
    for (;;) {
        enum call_result result = read_stream(r, args);
        if (ferror(stdout))
            return CLI_OK; /* the reader of our output has closed it */
        connected |= r->client.call.status == 200 || *r->last;
        bool again = result == CALL_DONE || result == CALL_UNREACHABLE || result == CALL_TRY_LATER;
        if (result == CALL_DONE)
            told = false;
        if (!connected || !again)
            return refuse(r, result);
        if (!told)
            fprintf(stderr, "tenax events: the connection has ended; resuming after event %s\n",
                    r->last);
        told = true;
        pause_ms(RETRY_MS);
    }
}

static int show_history(struct reader *r, const struct events_args *args)
{
    enum call_result result = read_stream(r, args);
    return result == CALL_DONE || ferror(stdout) ? CLI_OK : refuse(r, result);
}

static void prepare(struct reader *r)
{
    CURL *curl = r->client.call.curl;
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, r);
    /* The server's heartbeats are more frequent than this. */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                     (long)((r->client.args.timeout.ms + 999) / 1000));
}

static const struct listing_kind kind = {NULL, "cursor", NULL};

/* Replaces the beginnings of ids by whole ones, which *ids then holds. */
static int find_jobs(struct reader *r, struct events_args *args, struct buf *ids)
{
    if (!args->job)
        return CLI_OK;
    int code = jobid_find_list(&r->client, args->job, ids);
    args->job = ids->at;
    return code;
}

static int events(struct reader *r, const struct events_args *args)
{
    prepare(r);
    call_accept(&r->client.call, "text/event-stream");
    listing_init(&r->listing, &r->client, &kind);
    int code = args->follow ? follow(r, args) : show_history(r, args);
    if (code == CLI_OK)
        listing_end(&r->listing);
    else
        listing_fini(&r->listing);
    return code;
}

int events_main(int argc, char **argv)
{
    struct events_args args = {0};
    struct options o;
    struct reader r = {0};
    int code;
    if (!subcommand_begin(&events_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&events_command, "unexpected '%s'", o.rest[0]);
    if (args.follow && args.client.output == CLIENT_JSON)
        return subcommand_usage(&events_command,
                                "--output json is one whole document, which --follow never has; "
                                "it gives table, jsonl, yaml, wide and name");
    code = client_open(&r.client, &events_command, &args.client);
    if (code != CLI_OK)
        return code;
    if (client_for_people(&r.client))
        unknown_queues_warn(&r.client, "events", args.queue);
    if (args.since || !args.follow)
        snprintf(r.last, sizeof r.last, "%s", args.since ? args.since : "0");
    struct buf ids = {0};
    code = find_jobs(&r, &args, &ids);
    if (code == CLI_OK)
        code = events(&r, &args);
    buf_fini(&ids);
    client_close(&r.client);
    buf_fini(&r.line);
    buf_fini(&r.out);
    return code;
}
