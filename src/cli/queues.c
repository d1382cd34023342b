/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/view.h"

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
    .about = "Prints a line for each queue with its number of jobs in each status. A queue exists "
             "while it holds jobs; there is nothing to create.",
    .examples = "  tenax queues\n"
                "  tenax queues --output json | jq '.[] | select(.dead > 0)'\n",
    .options = options,
};

static const char *const statuses[] = {"blocked",   "scheduled", "ready",
                                       "in_flight", "completed", "dead"};
#define STATUSES (sizeof statuses / sizeof *statuses)

struct queue_line {
    struct str name; /* in the client's arena */
    int64_t counts[STATUSES];
};

static int count_jobs(struct client *c, struct queue_line *q)
{
    char *name = alloc_text(q->name.at, q->name.len);
    int code = CLI_OK;
    for (size_t i = 0; i < STATUSES && code == CLI_OK; i++) {
        struct buf path = {0};
        buf_lit(&path, "/jobs/count");
        client_query(&path, "queue", name);
        client_query(&path, "status", statuses[i]);
        code = client_ask(c, "GET", client_path(&path));
        if (code == CLI_OK && !view_int(client_answer(c), "count", &q->counts[i]))
            q->counts[i] = 0;
        buf_fini(&path);
    }
    free(name);
    return code;
}

static void write_table(struct client *c, const struct queue_line *lines, size_t n, struct buf *out)
{
    struct table t;
    static const char *const headers[] = {"QUEUE",      ">BLOCKED",   ">SCHEDULED", ">READY",
                                          ">IN FLIGHT", ">COMPLETED", ">DEAD",      NULL};
    table_init(&t, headers);
    for (size_t i = 0; i < n; i++) {
        table_add(&t, TABLE_PLAIN, lines[i].name);
        for (size_t s = 0; s < STATUSES; s++)
            table_print(
                &t, lines[i].counts[s] ? client_status_style(str_from(statuses[s])) : TABLE_FAINT,
                "%lld", (long long)lines[i].counts[s]);
    }
    table_write(&t, out, c->colour, 0);
    table_fini(&t);
}

static void write_json(const struct queue_line *lines, size_t n, struct buf *out)
{
    buf_lit(out, "[");
    for (size_t i = 0; i < n; i++) {
        buf_str(out, i ? STR(",\n {\"queue\":") : STR("{\"queue\":"));
        json_write_string(out, lines[i].name);
        for (size_t s = 0; s < STATUSES; s++)
            buf_print(out, ",\"%s\":%lld", statuses[s], (long long)lines[i].counts[s]);
        buf_lit(out, "}");
    }
    buf_lit(out, "]\n");
}

static size_t collect(struct client *c, struct queue_line **lines)
{
    size_t n = 0, cap = 0;
    struct view_list l = view_list(view_get(client_answer(c), "queues"));
    for (struct str item; view_next(&l, &item);) {
        struct json_cursor cursor = json_open(item);
        struct json_string s;
        struct str name;
        if (json_read_string(&cursor, &s).code != ERR_OK ||
            json_text(s, &c->arena, &name).code != ERR_OK)
            continue;
        if (n == cap)
            *lines = alloc_resize(*lines, (cap = cap ? cap * 2 : 16) * sizeof **lines);
        /* Copied, as the next answer takes this one's place. */
        (*lines)[n++] = (struct queue_line){.name = arena_copy(&c->arena, name)};
    }
    return n;
}

static int list_queues(struct client *c)
{
    struct queue_line *lines = NULL;
    int code = client_ask(c, "GET", "/queues");
    size_t n = code == CLI_OK ? collect(c, &lines) : 0;
    for (size_t i = 0; i < n && code == CLI_OK; i++)
        code = count_jobs(c, &lines[i]);
    struct buf out = {0};
    if (code == CLI_OK && c->args.output == CLIENT_JSON)
        write_json(lines, n, &out);
    else if (code == CLI_OK && n)
        write_table(c, lines, n, &out);
    else if (code == CLI_OK)
        fputs("There are no jobs in any queue.\n", stderr);
    command_print(stdout, &out);
    buf_fini(&out);
    free(lines);
    return code;
}

int queues_main(int argc, char **argv)
{
    struct queues_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!command_begin(&queues_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return command_usage(&queues_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &queues_command, &args.client);
    if (code != CLI_OK)
        return code;
    code = list_queues(&c);
    client_close(&c);
    return code;
}
