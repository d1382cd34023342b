/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/array.h"
#include "base/duration.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "client/view.h"

struct queues_args {
    struct client_args client;
};

static const struct option_def options[] = {
    CLIENT_LIST_OPTIONS(struct queues_args),
    {0},
};

const struct subcommand queues_command = {
    .name = "queues",
    .usage = "[OPTIONS]",
    .summary = "list the queues and how many jobs they hold",
    .about = "Prints a line for each queue with its number of jobs in each status and its limits. "
             "A queue need not be created: it exists while it has jobs or `tenax queue` has "
             "set something for it.",
    .examples = "  tenax queues\n"
                "  tenax queues --watch=5s\n"
                "  tenax queues --output json | jq '.[] | select(.dead > 0)'\n",
    .options = options,
};

static const char *const statuses[] = {"blocked",   "scheduled", "ready",
                                       "in_flight", "completed", "dead"};

/* --- columns --- */

static void write_rate(struct buf *b, struct str rate)
{
    int64_t count = 0, per = 0;
    if (!view_int(rate, "count", &count) || !view_int(rate, "per_ms", &per))
        return;
    buf_print(b, "%s%lld per ", b->len ? ", " : "", (long long)count);
    duration_write(b, (span){per});
}

/* "paused, 20 at once, 2 per key, 100 per 1 s" */
static enum table_style read_limits(struct client *c, struct str queue, struct buf *b)
{
    bool paused = str_eq(view_get(queue, "paused"), STR("true"));
    struct str concurrency = view_get(queue, "concurrency");
    struct str per_key = view_get(queue, "concurrency_per_key");
    (void)c;
    if (paused)
        buf_lit(b, "paused");
    if (concurrency.len)
        buf_print(b, "%s%.*s at once", b->len ? ", " : "", STR_ARG(concurrency));
    if (per_key.len)
        buf_print(b, "%s%.*s per key", b->len ? ", " : "", STR_ARG(per_key));
    write_rate(b, view_get(queue, "rate"));
    return paused ? TABLE_WAIT : TABLE_PLAIN;
}

static enum table_style read_count(struct str queue, const char *status, struct buf *text)
{
    int64_t n = 0;
    if (!view_int(queue, status, &n))
        n = 0;
    buf_int(text, n);
    return n ? client_status_style(str_from(status)) : TABLE_FAINT;
}

#define COUNT_READER(status)                                                                       \
    static enum table_style read_##status(struct client *c, struct str queue, struct buf *text)    \
    {                                                                                              \
        (void)c;                                                                                   \
        return read_count(queue, #status, text);                                                   \
    }

COUNT_READER(blocked)
COUNT_READER(scheduled)
COUNT_READER(ready)
COUNT_READER(in_flight)
COUNT_READER(completed)
COUNT_READER(dead)

static enum table_style read_oldest(struct client *c, struct str queue, struct buf *text)
{
    int64_t age;
    (void)c;
    if (view_int(queue, "oldest_ready_age_ms", &age))
        duration_write(text, (span){age / 1000 * 1000});
    return TABLE_PLAIN;
}

static const struct listing_column columns[] = {
    {"QUEUE", .member = "queue", .least = 12},
    {">BLOCKED", .read = read_blocked},
    {">SCHEDULED", .read = read_scheduled},
    {">READY", .read = read_ready},
    {">IN FLIGHT", .read = read_in_flight},
    {">COMPLETED", .read = read_completed},
    {">DEAD", .read = read_dead},
    {">OLDEST READY", .read = read_oldest, .wide = true},
    {">RETRIES", .member = "retry_limit", .wide = true},
    {"POLICIES", .member = "retry_policies", .wide = true},
    {"LIMITS", .read = read_limits},
    {0},
};

static const struct listing_kind kind = {columns, "queue", "There are no jobs in any queue."};

/* --- listing --- */

/* The server's queue with its numbers of jobs beside its other members. */
static void write_item(struct buf *out, struct str queue)
{
    static const char *const members[] = {
        "paused",      "concurrency",    "concurrency_per_key", "rate",
        "retry_limit", "retry_policies", "oldest_ready_age_ms",
    };
    struct str jobs = view_get(queue, "jobs"), name = view_get(queue, "name");
    out->len = 0;
    buf_print(out, "{\"queue\":%.*s", STR_ARG(name));
    for (size_t s = 0; s < COUNT(statuses); s++) {
        struct str n = view_get(jobs, statuses[s]);
        buf_print(out, ",\"%s\":%.*s", statuses[s], STR_ARG(n.len ? n : STR("0")));
    }
    for (size_t i = 0; i < COUNT(members); i++) {
        struct str value = view_get(queue, members[i]);
        buf_print(out, ",\"%s\":%.*s", members[i], STR_ARG(value.len ? value : STR("null")));
    }
    buf_byte(out, '}');
}

/* All pages. */
static int fetch(struct listing *l, void *ctx)
{
    struct client *c = l->client;
    struct buf path = {0}, item = {0};
    int code = CLI_OK;
    (void)ctx;
    buf_lit(&path, "/queues?details=true&limit=1000");
    while (path.len && (code = client_ask(c, "GET", client_path(&path))) == CLI_OK) {
        struct view_list list = view_list(view_get(client_answer(c), "queues"));
        for (struct str queue; view_next(&list, &queue);) {
            write_item(&item, queue);
            listing_add(l, buf_view(&item));
        }
        path.len = 0;
        buf_str(&path, view_text(&c->arena, view_get(client_answer(c), "pages"), "next"));
    }
    buf_fini(&path);
    buf_fini(&item);
    return code;
}

int queues_main(int argc, char **argv)
{
    struct queues_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&queues_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&queues_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &queues_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = listing_run(&c, &kind, fetch, NULL);
    client_close(&c);
    return code;
}
