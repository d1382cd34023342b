/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/duration.h"
#include "client/client.h"
#include "cli/commands.h"
#include "client/view.h"

struct queues_args {
    struct client_args client;
};

static const struct option_def options[] = {
    CLIENT_OPTIONS(struct queues_args),
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
                "  tenax queues --output json | jq '.[] | select(.dead > 0)'\n",
    .options = options,
};

static const char *const statuses[] = {"blocked",   "scheduled", "ready",
                                       "in_flight", "completed", "dead"};
#define STATUSES COUNT(statuses)

struct queue_line {
    struct str name;                               /* these in the client's arena */
    struct str paused, concurrency, per_key, rate; /* JSON, or empty */
    int64_t counts[STATUSES];
};

struct queue_lines {
    struct queue_line *at;
    size_t count, cap;
};

static void write_rate(struct buf *b, struct str rate)
{
    int64_t count = 0, per = 0;
    if (!view_int(rate, "count", &count) || !view_int(rate, "per_ms", &per))
        return;
    buf_print(b, "%s%lld per ", b->len ? ", " : "", (long long)count);
    duration_write(b, (span){per});
}

/* "paused, 20 at once, 2 per key, 100 per 1 s" */
static void write_limits(struct buf *b, const struct queue_line *q)
{
    if (str_eq(q->paused, STR("true")))
        buf_lit(b, "paused");
    if (q->concurrency.len)
        buf_print(b, "%s%.*s at once", b->len ? ", " : "", STR_ARG(q->concurrency));
    if (q->per_key.len)
        buf_print(b, "%s%.*s per key", b->len ? ", " : "", STR_ARG(q->per_key));
    if (q->rate.len)
        write_rate(b, q->rate);
}

static void write_table(struct client *c, const struct queue_lines *l, struct buf *out)
{
    struct table t;
    struct buf limits = {0};
    static const char *const headers[] = {"QUEUE",  ">BLOCKED",   ">SCHEDULED",
                                          ">READY", ">IN FLIGHT", ">COMPLETED",
                                          ">DEAD",  "LIMITS",     NULL};
    table_init(&t, headers);
    for (size_t i = 0; i < l->count; i++) {
        const struct queue_line *q = &l->at[i];
        table_add(&t, TABLE_PLAIN, q->name);
        for (size_t s = 0; s < STATUSES; s++)
            table_print(&t, q->counts[s] ? client_status_style(str_from(statuses[s])) : TABLE_FAINT,
                        "%lld", (long long)q->counts[s]);
        limits.len = 0;
        write_limits(&limits, q);
        table_add(&t, str_eq(q->paused, STR("true")) ? TABLE_WAIT : TABLE_PLAIN, buf_view(&limits));
    }
    table_write(&t, out, c->colour, 0);
    table_fini(&t);
    buf_fini(&limits);
}

static void write_member(struct buf *out, const char *name, struct str json)
{
    buf_print(out, ",\"%s\":", name);
    buf_str(out, json.len ? json : STR("null"));
}

static void write_json(const struct queue_lines *l, struct buf *out)
{
    buf_lit(out, "[");
    for (size_t i = 0; i < l->count; i++) {
        const struct queue_line *q = &l->at[i];
        buf_str(out, i ? STR(",\n {\"queue\":") : STR("{\"queue\":"));
        json_write_string(out, q->name);
        for (size_t s = 0; s < STATUSES; s++)
            buf_print(out, ",\"%s\":%lld", statuses[s], (long long)q->counts[s]);
        write_member(out, "paused", q->paused);
        write_member(out, "concurrency", q->concurrency);
        write_member(out, "concurrency_per_key", q->per_key);
        write_member(out, "rate", q->rate);
        buf_lit(out, "}");
    }
    buf_lit(out, "]\n");
}

/* Copies, because the next answer overwrites this one. */
static struct str keep(struct client *c, struct str item, const char *name)
{
    return arena_copy(&c->arena, view_get(item, name));
}

static void collect(struct client *c, struct queue_lines *l)
{
    struct view_list list = view_list(view_get(client_answer(c), "queues"));
    for (struct str item; view_next(&list, &item);) {
        ALLOC_GROW(l->at, l->count, l->cap, 16);
        struct queue_line *q = &l->at[l->count++];
        *q = (struct queue_line){.name = arena_copy(&c->arena, view_text(&c->arena, item, "name")),
                                 .paused = keep(c, item, "paused"),
                                 .concurrency = keep(c, item, "concurrency"),
                                 .per_key = keep(c, item, "concurrency_per_key"),
                                 .rate = keep(c, item, "rate")};
        struct str jobs = view_get(item, "jobs");
        for (size_t s = 0; s < STATUSES; s++)
            if (!view_int(jobs, statuses[s], &q->counts[s]))
                q->counts[s] = 0;
    }
}

/* All pages. */
static int fetch(struct client *c, struct queue_lines *l)
{
    struct buf path = {0};
    buf_lit(&path, "/queues?details=true&limit=1000");
    int code = CLI_OK;
    while (path.len && code == CLI_OK) {
        code = client_ask(c, "GET", client_path(&path));
        path.len = 0;
        if (code != CLI_OK)
            break;
        collect(c, l);
        buf_str(&path, view_text(&c->arena, view_get(client_answer(c), "pages"), "next"));
    }
    buf_fini(&path);
    return code;
}

static int list_queues(struct client *c)
{
    struct queue_lines l = {0};
    struct buf out = {0};
    int code = fetch(c, &l);
    if (code == CLI_OK && c->args.output == CLIENT_JSON)
        write_json(&l, &out);
    else if (code == CLI_OK && l.count)
        write_table(c, &l, &out);
    else if (code == CLI_OK)
        fputs("There are no jobs in any queue.\n", stderr);
    subcommand_print(stdout, &out);
    buf_fini(&out);
    free(l.at);
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
    code = list_queues(&c);
    client_close(&c);
    return code;
}
