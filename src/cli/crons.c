/* SPDX-License-Identifier: Apache-2.0 */

/* crons, cron: jobs that the server enqueues by the clock. */

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "client/input.h"
#include "client/view.h"
#include "client/when.h"

struct crons_args {
    struct client_args client;
    bool del, reset_clock;
};

static const struct option_def crons_options[] = {
    {"delete", NULL, OPTION_SWITCH, offsetof(struct crons_args, del),
     .help = "delete all groups with all their entries, instead of showing them"},
    {"reset-clock", NULL, OPTION_SWITCH, offsetof(struct crons_args, reset_clock),
     .help = "set the time that all jobs and cron entries of the server go by back to its system's "
             "clock, instead of showing the groups: after that clock was ahead and has been put "
             "right"},
    CLIENT_LIST_OPTIONS(struct crons_args),
    {0},
};

const struct subcommand crons_command = {
    .name = "crons",
    .usage = "[--delete | --reset-clock]",
    .summary = "list the groups of jobs that are enqueued by the clock",
    .about =
        "Prints a line for each cron group: how many entries it has, and when the next of "
        "them is due. `tenax cron GROUP` shows one group.\n"
        "--reset-clock is for after the system's clock was wrong and has been put right: the "
        "time of the server, which never goes back by itself, is that of the clock again. What "
        "came true by the wrong time stays true. Retries, leases and retention that are under "
        "way keep the rest of their wait, and every cron entry ticks next at its first time "
        "after the present one. Changes of many jobs can no longer be undone. Streams are "
        "closed, as at a restart; claimed jobs stay with their workers. It prints both times, "
        "and how many jobs had times that were yet to come.",
    .examples = "  tenax crons\n"
                "  tenax crons --reset-clock\n"
                "  tenax crons --output json | jq '.[].entries[] | select(.paused)'\n"
                "  tenax crons --watch=10s\n",
    .options = crons_options,
};

struct cron_args {
    struct client_args client;
    bool pause, resume, del;
    const char *put;
};

#define AT(field) .offset = offsetof(struct cron_args, field)

static const struct option_def cron_options[] = {
    {"pause", NULL, OPTION_SWITCH, AT(pause), .help = "skip ticks, until it is resumed"},
    {"resume", NULL, OPTION_SWITCH, AT(resume), .help = "enqueue again, from the next tick on"},
    {"delete", NULL, OPTION_SWITCH, AT(del), .help = "delete the group, or the entry"},
    {"put", "FILE", OPTION_TEXT, AT(put),
     .help = "create or replace the group, or the entry, by this JSON file; - is standard input"},
    CLIENT_LIST_OPTIONS(struct cron_args),
    {0},
};

const struct subcommand cron_command = {
    .name = "cron",
    .usage = "GROUP [ENTRY] [--pause | --resume | --delete | --put FILE]",
    .summary = "show, put, pause or delete a cron group or one of its entries",
    .about = "A group is a list of entries; each has a name, a cron expression, a time zone (the "
             "server's unless stated) and the job that is enqueued at its ticks.\n"
             "--put may be repeated any number of times, for example each time that a program "
             "starts: unchanged entries keep their clocks, entries that the file does "
             "not name are deleted.",
    .examples =
        "  tenax cron nightly\n"
        "  tenax cron nightly --put crons.json\n"
        "  tenax cron nightly refresh --pause\n"
        "  echo '{\"entries\": [{\"name\": \"tick\", \"expression\": \"*/15 * * * *\",\n"
        "      \"job\": {\"queue\": \"mail\", \"type\": \"digest\", \"payload\": {}}}]}' |\n"
        "    tenax cron mail --put -\n",
    .options = cron_options,
};

/* --- shared --- */

static bool is_paused(struct str object)
{
    return str_eq(view_get(object, "paused"), STR("true"));
}

/* "in 5 min", or a dash. */
static enum table_style write_when(struct client *c, struct buf *text, instant at)
{
    if (instant_is_set(at))
        when_relative(text, at, c->now);
    else
        buf_lit(text, "-");
    return instant_is_set(at) ? TABLE_PLAIN : TABLE_FAINT;
}

static enum table_style read_state(struct client *c, struct str object, struct buf *text)
{
    bool paused = is_paused(object);
    (void)c;
    buf_str(text, paused ? STR("paused") : STR("running"));
    return paused ? TABLE_WAIT : TABLE_GOOD;
}

/* --- crons --- */

static enum table_style read_entries(struct client *c, struct str group, struct buf *text)
{
    int64_t n = 0;
    struct view_list l = view_list(view_get(group, "entries"));
    (void)c;
    for (struct str entry; view_next(&l, &entry);)
        n++;
    buf_int(text, n);
    return n ? TABLE_PLAIN : TABLE_FAINT;
}

static enum table_style read_next(struct client *c, struct str group, struct buf *text)
{
    instant next = INSTANT_NONE;
    struct view_list l = view_list(view_get(group, "entries"));
    for (struct str entry; view_next(&l, &entry);) {
        instant at = view_time(entry, "next_enqueue_at");
        if (instant_is_set(at) && (!instant_is_set(next) || at.ms < next.ms) && !is_paused(entry))
            next = at;
    }
    return write_when(c, text, is_paused(group) ? INSTANT_NONE : next);
}

static enum table_style read_last(struct client *c, struct str group, struct buf *text)
{
    instant last = INSTANT_NONE;
    struct view_list l = view_list(view_get(group, "entries"));
    for (struct str entry; view_next(&l, &entry);)
        last = instant_max(last, view_time(entry, "last_enqueue_at"));
    return write_when(c, text, last);
}

static enum table_style read_zone(struct client *c, struct str group, struct buf *text)
{
    struct str zone = view_text(&c->arena, group, "timezone");
    buf_str(text, zone.len ? zone : STR("server's"));
    return zone.len ? TABLE_PLAIN : TABLE_FAINT;
}

static const struct listing_column group_columns[] = {
    {"GROUP", .member = "name", .least = 16},
    {"STATE", .read = read_state},
    {">ENTRIES", .read = read_entries},
    {"ZONE", .read = read_zone, .wide = true},
    {"NEXT", .read = read_next},
    {"LAST", .read = read_last},
    {0},
};

static const struct listing_kind group_kind = {group_columns, "name", "There are no cron groups."};

/* A group may have been deleted since it was listed; then it is skipped. */
static int ask_group(struct client *c, struct str name, bool *found)
{
    struct buf path = {0};
    buf_lit(&path, "/crons");
    client_segment(&path, name);
    int code = client_find(c, client_path(&path), found);
    buf_fini(&path);
    return code;
}

/* The answer's names, in the client's arena, because the next answer overwrites this one. */
static size_t take_names(struct client *c, struct str **names)
{
    size_t n = 0;
    struct str copy = arena_copy(&c->arena, view_get(client_answer(c), "crons"));
    struct view_list l = view_list(copy);
    for (struct str item; view_next(&l, &item);)
        n++;
    *names = arena_get(&c->arena, n * sizeof **names + 1);
    l = view_list(copy);
    n = 0;
    for (struct str item; view_next(&l, &item);) {
        struct json_cursor cursor = json_open(item);
        struct json_string s;
        if (json_read_string(&cursor, &s).code == ERR_OK &&
            json_text(s, &c->arena, &(*names)[n]).code == ERR_OK)
            n++;
    }
    return n;
}

static int fetch_groups(struct listing *l, void *ctx)
{
    struct client *c = l->client;
    struct str *names;
    int code = client_ask(c, "GET", "/crons");
    size_t n = code == CLI_OK ? take_names(c, &names) : 0;
    (void)ctx;
    for (size_t i = 0; i < n && code == CLI_OK; i++) {
        bool found;
        code = ask_group(c, names[i], &found);
        if (code == CLI_OK && found)
            listing_add(l, client_answer(c));
    }
    return code;
}

static int delete_all(struct client *c)
{
    int64_t n = 0;
    int code = client_ask(c, "DELETE", "/crons");
    if (code != CLI_OK || !view_int(client_answer(c), "deleted", &n))
        return code;
    if (!client_for_people(c))
        client_print_answer(c);
    else
        fprintf(stderr, "Deleted %lld cron group%s.\n", (long long)n, n == 1 ? "" : "s");
    return code;
}

static int reset_clock(struct client *c)
{
    int64_t from = 0, to = 0, corrected = 0;
    int code = client_ask(c, "POST", "/clock/reset");
    struct str is = client_answer(c);
    if (code != CLI_OK)
        return code;
    if (!client_for_people(c) || !view_int(is, "from", &from) || !view_int(is, "to", &to) ||
        !view_int(is, "corrected", &corrected)) {
        client_print_answer(c);
        return code;
    }
    struct buf out = {0};
    buf_lit(&out, "The time of jobs and cron entries was ");
    buf_str(&out, from > to ? STR("set back from ") : STR("right already: "));
    when_absolute(&out, (instant){from});
    if (from > to) {
        buf_lit(&out, " to ");
        when_absolute(&out, (instant){to});
    }
    buf_print(&out, ".\n%lld job%s had times that were yet to come.\n", (long long)corrected,
              corrected == 1 ? "" : "s");
    subcommand_print(stdout, &out);
    buf_fini(&out);
    return code;
}

int crons_main(int argc, char **argv)
{
    struct crons_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&crons_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&crons_command, "unexpected '%s'; to show one group: tenax cron %s",
                                o.rest[0], o.rest[0]);
    if (args.del && args.reset_clock)
        return subcommand_usage(&crons_command, "--delete or --reset-clock, not both");
    if ((args.del || args.reset_clock) && args.client.watch.ms)
        return subcommand_usage(&crons_command, "--watch shows; it changes nothing");
    code = client_open(&c, &crons_command, &args.client);
    if (code != CLI_OK)
        return code;
    if (args.reset_clock)
        code = reset_clock(&c);
    else
        code = args.del ? delete_all(&c) : listing_run(&c, &group_kind, fetch_groups, NULL);
    client_close(&c);
    return code;
}

/* --- cron --- */

static const char *const entry_headers[] = {"ENTRY", "STATE", "EXPRESSION", "ZONE", "NEXT",
                                            "LAST",  "QUEUE", "TYPE",       NULL};

static void add_when(struct client *c, struct table *t, instant at)
{
    struct buf text = {0};
    enum table_style style = write_when(c, &text, at);
    table_add(t, style, buf_view(&text));
    buf_fini(&text);
}

/* own: the zone of the group, or empty. */
static void add_entry(struct client *c, struct table *t, struct str entry, struct str own)
{
    struct arena *a = &c->arena;
    struct str zone = view_text(a, entry, "timezone"), job = view_get(entry, "job");
    struct buf state = {0};
    enum table_style style = read_state(c, entry, &state);
    table_add(t, TABLE_PLAIN, view_text(a, entry, "name"));
    table_add(t, style, buf_view(&state));
    table_add(t, TABLE_PLAIN, view_text(a, entry, "expression"));
    table_add(t, zone.len ? TABLE_PLAIN : TABLE_FAINT,
              zone.len  ? zone
              : own.len ? own
                        : STR("server's"));
    add_when(c, t, view_time(entry, "next_enqueue_at"));
    add_when(c, t, view_time(entry, "last_enqueue_at"));
    table_add(t, TABLE_PLAIN, view_text(a, job, "queue"));
    table_add(t, TABLE_PLAIN, view_text(a, job, "type"));
    buf_fini(&state);
}

static void end_entries(struct client *c, struct table *t, struct buf *out)
{
    t->least[0] = t->least[6] = t->least[7] = 12;
    table_write(t, out, c->colour, c->args.output == CLIENT_WIDE ? 0 : c->width);
    table_fini(t);
}

static void write_group(struct client *c, struct buf *out, struct str group)
{
    struct table t;
    size_t n = 0;
    struct str zone = view_text(&c->arena, group, "timezone");
    struct view_list l = view_list(view_get(group, "entries"));
    if (is_paused(group))
        buf_lit(out, "The group is paused: none of its entries enqueues jobs.\n");
    table_init(&t, entry_headers);
    for (struct str entry; view_next(&l, &entry); n++)
        add_entry(c, &t, entry, zone);
    if (!n)
        buf_lit(out, "The group has no entries.\n");
    if (n)
        end_entries(c, &t, out);
    else
        table_fini(&t);
}

static void write_time(struct client *c, struct buf *out, const char *what, instant at)
{
    if (!instant_is_set(at))
        return;
    buf_print(out, "%-10s ", what);
    when_absolute(out, at);
    buf_lit(out, " (");
    when_relative(out, at, c->now);
    buf_lit(out, ")\n");
}

static void write_entry(struct client *c, struct buf *out, struct str entry)
{
    static const char *const times[][2] = {{"next", "next_enqueue_at"},
                                           {"last", "last_enqueue_at"},
                                           {"paused", "paused_at"},
                                           {"resumed", "resumed_at"}};
    struct table t;
    table_init(&t, entry_headers);
    add_entry(c, &t, entry, STR("the group's"));
    end_entries(c, &t, out);
    buf_byte(out, '\n');
    for (size_t i = 0; i < COUNT(times); i++)
        write_time(c, out, times[i][0], view_time(entry, times[i][1]));
    buf_lit(out, "job        ");
    struct buf pretty = {0};
    view_pretty(&pretty, view_get(entry, "job"), 11);
    buf_str(out, buf_view(&pretty));
    buf_fini(&pretty);
    buf_byte(out, '\n');
}

/* On standard error, so that JSON stays JSON. The texts are the server's, without escapes. */
static void warn(struct client *c, struct str entry)
{
    struct view_list l = view_list(view_get(entry, "warnings"));
    for (struct str text; view_next(&l, &text);)
        fprintf(stderr, "tenax cron: warning: entry '%.*s', '%.*s': %.*s\n",
                STR_ARG(view_text(&c->arena, entry, "name")),
                STR_ARG(view_text(&c->arena, entry, "expression")),
                (int)(text.len > 2 ? text.len - 2 : 0), text.at + 1);
}

static void warn_all(struct client *c, struct str answer, bool one)
{
    struct view_list l = view_list(view_get(answer, "entries"));
    if (one)
        warn(c, answer);
    for (struct str entry; !one && view_next(&l, &entry);)
        warn(c, entry);
}

static const struct listing_kind entry_kind = {NULL, "name", NULL};

static listing_writer *writer_of(bool one)
{
    return one ? write_entry : write_group;
}

/* Reads the JSON to be put. The server checks everything but its syntax. */
static int load(struct client *c, const char *file)
{
    struct buf raw = {0};
    int code = input_read(&cron_command, file, SIZE_MAX, &raw);
    struct str value;
    struct err e = code == CLI_OK ? view_check(buf_view(&raw), &value) : err_none();
    if (e.code != ERR_OK) {
        size_t line = 1, column = 1;
        if (e.offset >= 0)
            view_position(buf_view(&raw), (size_t)e.offset, &line, &column);
        fprintf(stderr, "tenax cron: %s is not valid JSON at line %zu, column %zu: %s\n", file,
                line, column, e.msg);
        code = CLI_USAGE;
    } else if (code == CLI_OK) {
        buf_str(&c->call.body, buf_view(&raw));
    }
    buf_fini(&raw);
    return code;
}

static int change(struct client *c, const struct cron_args *args, const char *path, bool one)
{
    int code = CLI_OK;
    if (args->put)
        code = load(c, args->put);
    else if (!args->del)
        buf_print(&c->call.body, "{\"paused\":%s}", args->pause ? "true" : "false");
    if (code == CLI_OK)
        code = client_ask(c, args->put ? "PUT" : args->del ? "DELETE" : "PATCH", path);
    if (code != CLI_OK)
        return code;
    if (!args->del) {
        listing_print(c, &entry_kind, client_answer(c), writer_of(one));
        warn_all(c, client_answer(c), one);
    } else if (client_for_people(c)) {
        fprintf(stderr, "Deleted the cron %s.\n", one ? "entry" : "group");
    }
    return code;
}

struct cron_place {
    const char *path;
    bool one; /* an entry, and not its group */
};

static int fetch_cron(struct listing *l, void *ctx)
{
    const struct cron_place *place = ctx;
    struct client *c = l->client;
    int code = client_ask(c, "GET", place->path);
    if (code == CLI_OK)
        listing_show(l, client_answer(c), writer_of(place->one));
    if (code == CLI_OK && !c->args.watch.ms)
        warn_all(c, client_answer(c), place->one);
    return code;
}

int cron_main(int argc, char **argv)
{
    struct cron_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&cron_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count < 1 || o.rest_count > 2)
        return subcommand_usage(&cron_command, o.rest_count
                                                   ? "expected a group and an entry, nothing more"
                                                   : "which group? `tenax crons` lists them");
    if (!*o.rest[0] || (o.rest_count == 2 && !*o.rest[1]))
        return subcommand_usage(&cron_command, "a name must not be empty");
    int changes = args.pause + args.resume + args.del + (args.put != NULL);
    if (changes > 1)
        return subcommand_usage(&cron_command,
                                "--pause, --resume, --delete and --put exclude each other");
    if (changes && args.client.watch.ms)
        return subcommand_usage(&cron_command, "--watch shows; it changes nothing");
    code = client_open(&c, &cron_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf path = {0};
    bool one = o.rest_count == 2;
    buf_lit(&path, "/crons");
    client_segment(&path, str_from(o.rest[0]));
    if (one) {
        buf_lit(&path, "/entries");
        client_segment(&path, str_from(o.rest[1]));
    }
    struct cron_place place = {client_path(&path), one};
    code = changes ? change(&c, &args, place.path, one)
                   : listing_run(&c, &entry_kind, fetch_cron, &place);
    buf_fini(&path);
    client_close(&c);
    return code;
}
