/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bulk.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "cli/listing.h"
#include "client/view.h"
#include "client/when.h"

/* A batch is sent early when its body reaches this size, so that it stays below the server's
 * default limit. */
#define BODY_ENOUGH    ((size_t)8 << 20)
#define PROGRESS_EVERY ((span){200})

struct bulk {
    struct client *client;
    struct listing created; /* for programs */
    const struct newjob_defaults *defaults;
    int64_t batch_max;
    int64_t line;       /* number of the last line read, from 1 */
    int64_t first_line; /* of the batch being filled; 0: it is empty */
    int64_t *lines;     /* of the jobs in it */
    int64_t in_batch, sent;
    bool progress;
    mono started, shown;
};

static void write_rate(struct buf *b, const struct bulk *k)
{
    int64_t ms = when_ms_between(when_mono(), k->started);
    buf_print(b, "%lld jobs enqueued in ", (long long)k->sent);
    duration_write(b, (span){ms});
    if (ms > 0 && k->sent)
        buf_print(b, ", %lld per second", (long long)(k->sent * 1000 / ms));
}

/* Overwrites the line of progress; an empty text clears it. */
static void show_progress(struct bulk *k, bool final)
{
    mono now = when_mono();
    if (!k->progress || (!final && when_ms_between(now, k->shown) < PROGRESS_EVERY.ms))
        return;
    struct buf b = {0};
    k->shown = now;
    buf_lit(&b, "\r\x1b[K");
    if (!final)
        write_rate(&b, k);
    subcommand_print(stderr, &b);
    buf_fini(&b);
}

/* The server counts jobs from the beginning of the batch; the user needs the line. */
static void print_bad_line(const struct bulk *k)
{
    struct arena a = {0};
    struct str error = view_text(&a, client_answer(k->client), "error");
    char text[40], *end;
    snprintf(text, sizeof text, "%.*s", error.len < 39 ? (int)error.len : 39, error.at);
    if (strncmp(text, "jobs[", 5) == 0) {
        long long at = strtoll(text + 5, &end, 10);
        if (*end == ']' && at >= 0 && at < k->in_batch)
            fprintf(stderr, "jobs[%lld] is line %lld. ", at, (long long)k->lines[at]);
    }
    arena_fini(&a);
}

static int send_batch(struct bulk *k)
{
    struct buf *body = &k->client->call.body;
    if (!k->in_batch)
        return CLI_OK;
    buf_lit(body, "]}");
    int code = client_ask(k->client, "POST", "/jobs/bulk");
    if (code != CLI_OK) {
        show_progress(k, true);
        if (code == CLI_REFUSED)
            print_bad_line(k);
        fprintf(stderr, "Lines %lld to %lld %s.\n", (long long)k->first_line, (long long)k->line,
                code == CLI_UNREACHABLE && k->client->call.code != CURLE_COULDNT_CONNECT
                    ? "may have been stored or not"
                    : "were not stored");
        return code;
    }
    if (!client_for_people(k->client))
        listing_add_all(&k->created, view_get(client_answer(k->client), "jobs"));
    k->sent += k->in_batch;
    k->in_batch = k->first_line = 0;
    body->len = 0;
    show_progress(k, false);
    return CLI_OK;
}

static int bad_line(struct bulk *k, struct str line, const struct err *e)
{
    show_progress(k, true);
    fprintf(stderr, "tenax enqueue: line %lld", (long long)k->line);
    if (e->offset >= 0) {
        size_t row, column;
        view_position(line, (size_t)e->offset, &row, &column);
        fprintf(stderr, ", column %zu", column);
    }
    fprintf(stderr, ": %s\n", e->msg);
    if (k->in_batch)
        fprintf(stderr, "Lines %lld to %lld, in the same batch, were not sent either.\n",
                (long long)k->first_line, (long long)(k->line - 1));
    return CLI_USAGE;
}

static bool is_blank(struct str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] != ' ' && line.at[i] != '\t' && line.at[i] != '\r')
            return false;
    return true;
}

static int take_line(struct bulk *k, struct str line)
{
    struct buf *body = &k->client->call.body;
    k->line++;
    if (is_blank(line))
        return CLI_OK;
    buf_str(body, k->in_batch ? STR(",\n") : STR("{\"jobs\":["));
    struct err e = newjob_from_line(body, k->defaults, line);
    if (e.code != ERR_OK)
        return bad_line(k, line, &e);
    if (!k->in_batch)
        k->first_line = k->line;
    k->lines[k->in_batch++] = k->line;
    if (k->in_batch >= k->batch_max || body->len >= BODY_ENOUGH)
        return send_batch(k);
    return CLI_OK;
}

int bulk_run(struct client *c, const struct enqueue_args *args, const struct newjob_defaults *d,
             FILE *in)
{
    struct bulk k = {
        .client = c,
        .defaults = d,
        .batch_max = args->batch,
        .lines = alloc_get((size_t)args->batch * sizeof(int64_t)),
        .progress = isatty(STDERR_FILENO) == 1,
        .started = when_mono(),
    };
    static const struct listing_kind kind = {NULL, "id", NULL};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int code = CLI_OK;
    listing_init(&k.created, c, &kind);
    k.created.streams = true;
    while (code == CLI_OK && (n = getline(&line, &cap, in)) >= 0)
        code = take_line(&k, (struct str){line, (size_t)n - (n && line[n - 1] == '\n')});
    if (code == CLI_OK && ferror(in)) {
        fprintf(stderr, "tenax enqueue: cannot read the input: %s\n", strerror(errno));
        code = CLI_USAGE;
    }
    free(line);
    if (code == CLI_OK)
        code = send_batch(&k);
    show_progress(&k, true);
    listing_end(&k.created);
    struct buf summary = {0};
    write_rate(&summary, &k);
    fprintf(stderr, "%.*s%s\n", STR_ARG(buf_view(&summary)),
            code == CLI_OK ? "" : "; stopped by the error above");
    buf_fini(&summary);
    free(k.lines);
    return code;
}
