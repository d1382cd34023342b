/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/listing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/strmap.h"
#include "cli/watch.h"
#include "client/view.h"
#include "client/yaml_text.h"

/* From so many bytes on, what is complete is printed. */
#define FLUSH_BYTES 65536

void listing_init(struct listing *l, struct client *c, const struct listing_kind *kind)
{
    const char *headers[TABLE_COLUMNS_MAX + 1];
    size_t n = 0;
    *l = (struct listing){.client = c, .kind = kind};
    for (const struct listing_column *col = kind->columns; col && col->name; col++) {
        if (col->wide && c->args.output != CLIENT_WIDE)
            continue;
        must(n < TABLE_COLUMNS_MAX);
        l->shown[n] = col;
        headers[n++] = col->name;
    }
    headers[n] = NULL;
    table_init(&l->table, headers);
    for (size_t i = 0; i < n; i++)
        l->table.least[i] = l->shown[i]->least;
}

void listing_fini(struct listing *l)
{
    table_fini(&l->table);
    buf_fini(&l->out);
    buf_fini(&l->notes);
}

void listing_note(struct listing *l, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    if (!client_for_people(l->client))
        return;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    must(n >= 0);
    buf_print(&l->notes, "%s\n", text);
    free(text);
}

/* --- items --- */

static void add_row(struct listing *l, struct str item)
{
    struct client *c = l->client;
    struct buf text = {0};
    for (size_t i = 0; i < l->table.columns; i++) {
        const struct listing_column *col = l->shown[i];
        enum table_style style = TABLE_PLAIN;
        text.len = 0;
        if (col->read)
            style = col->read(c, item, &text);
        else
            buf_str(&text, view_text(&c->arena, item, col->member));
        table_add(&l->table, style, buf_view(&text));
    }
    buf_fini(&text);
}

/* A line that a shell can read, whatever a name has in it. */
static void write_name(struct listing *l, struct str item)
{
    const char *id = l->kind->id, *dot = strchr(id, '.');
    char outer[32];
    if (dot) {
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - id), id);
        item = view_get(item, outer);
        id = dot + 1;
    }
    struct str name = view_text(&l->client->arena, item, id);
    if (!name.len)
        return;
    table_harmless(&l->out, name);
    buf_byte(&l->out, '\n');
}

static void print_all(FILE *f, struct buf *b)
{
    subcommand_print(f, b);
    fflush(f);
}

void listing_add(struct listing *l, struct str item)
{
    bool first = l->count++ == 0;
    l->seen = strmap_hash(l->seen, item);
    switch ((enum client_output)l->client->args.output) {
    case CLIENT_TABLE:
    case CLIENT_WIDE:
        add_row(l, item);
        return;
    case CLIENT_JSON:
        buf_str(&l->out, first ? STR("[") : STR(",\n "));
        json_write_one_line(&l->out, item);
        break;
    case CLIENT_JSONL:
        json_write_one_line(&l->out, item);
        buf_byte(&l->out, '\n');
        break;
    case CLIENT_YAML:
        yaml_text_item(&l->out, item);
        break;
    case CLIENT_NAME:
        write_name(l, item);
        break;
    }
    if (l->streams && l->out.len > FLUSH_BYTES)
        print_all(stdout, &l->out);
}

void listing_add_all(struct listing *l, struct str array)
{
    struct view_list list = view_list(array);
    for (struct str item; view_next(&list, &item);)
        listing_add(l, item);
}

void listing_show(struct listing *l, struct str item, listing_writer *write)
{
    bool people = client_for_people(l->client);
    l->one = true;
    l->count++;
    l->seen = strmap_hash(l->seen, item);
    if (people && write)
        write(l->client, &l->out, item);
    else if (people && l->table.columns)
        add_row(l, item);
    else if (l->client->args.output == CLIENT_NAME)
        write_name(l, item);
    else if (l->client->args.output == CLIENT_JSON && l->kind->keeps_lines)
        buf_print(&l->out, "%.*s\n", STR_ARG(item));
    else
        client_write_value(l->client, &l->out, item);
}

void listing_finish(struct listing *l)
{
    struct client *c = l->client;
    bool wide = c->args.output == CLIENT_WIDE;
    if (client_for_people(c)) {
        if (l->table.cells > l->table.columns)
            table_write(&l->table, &l->out, c->colour, wide ? 0 : c->width);
        else if (!l->count && l->kind->none)
            listing_note(l, "%s", l->kind->none);
    } else if (c->args.output == CLIENT_JSON && !l->one) {
        buf_str(&l->out, l->count ? STR("]\n") : STR("[]\n"));
    } else if (c->args.output == CLIENT_YAML && !l->count) {
        buf_lit(&l->out, "[]\n");
    }
}

void listing_end(struct listing *l)
{
    listing_finish(l);
    print_all(stdout, &l->out);
    subcommand_print(stderr, &l->notes);
    listing_fini(l);
}

/* --- running --- */

static int run_once(struct client *c, const struct listing_kind *kind, listing_fetch *fetch,
                    void *ctx)
{
    struct listing l;
    listing_init(&l, c, kind);
    l.streams = true;
    int code = fetch(&l, ctx);
    /* An array that is not whole stays open, so that nobody takes it for all. */
    if (code == CLI_OK || (l.count && client_for_people(c))) {
        listing_end(&l);
        return code;
    }
    print_all(stdout, &l.out);
    listing_fini(&l);
    return code;
}

int listing_run(struct client *c, const struct listing_kind *kind, listing_fetch *fetch, void *ctx)
{
    return c->args.watch.ms ? watch_run(c, kind, fetch, ctx) : run_once(c, kind, fetch, ctx);
}

struct given {
    struct str item;
    listing_writer *write;
};

static int show_given(struct listing *l, void *ctx)
{
    const struct given *g = ctx;
    listing_show(l, g->item, g->write);
    return CLI_OK;
}

int listing_print(struct client *c, const struct listing_kind *kind, struct str item,
                  listing_writer *write)
{
    return run_once(c, kind, show_given, &(struct given){item, write});
}
