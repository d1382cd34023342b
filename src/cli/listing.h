/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

/* How a command prints what it lists or shows: the same formats everywhere, and again and again
 * with --watch. Items are JSON (client/view.h).
 *
 * A list is a table, or one array (json), or a line for each item (jsonl), a list in YAML, or the
 * identifier of each (name). What is shown alone is a text of the command's, or its object.
 *
 *     static int fetch(struct listing *l, void *ctx)
 *     {
 *         int code = client_ask(l->client, "GET", "/budgets");
 *         if (code == CLI_OK)
 *             listing_add_all(l, view_get(client_answer(l->client), "budgets"));
 *         return code;
 *     }
 *     ...
 *     code = listing_run(&c, &kind, fetch, &args);
 */

#include <stdint.h>

#include "client/client.h"

/* Adds the text of a cell, and says in which style it is shown. */
typedef enum table_style listing_reader(struct client *c, struct str item, struct buf *text);

struct listing_column {
    const char *name;     /* the header; a leading '>' right-aligns */
    const char *member;   /* shown as it is, unless there is a reader */
    listing_reader *read; /* or NULL */
    size_t least;         /* names: to how many cells a narrow terminal may cut them; 0: never */
    bool wide;            /* only with --output wide */
};

struct listing_kind {
    const struct listing_column *columns; /* ends with an empty row; or NULL: never a table */
    const char *id;   /* the member that --output name prints; "job.id": of a member */
    const char *none; /* said instead of an empty table, or NULL */
    bool keeps_lines; /* --output json keeps the line breaks of what is shown alone */
};

struct listing {
    struct client *client;
    const struct listing_kind *kind;
    const struct listing_column *shown[TABLE_COLUMNS_MAX];
    struct table table;
    struct buf out, notes; /* for standard output, and for standard error after it */
    size_t count;
    bool one;      /* it is no list: listing_show was called */
    bool streams;  /* what is complete may be printed before the rest is known */
    uint64_t seen; /* a hash of all items */
};

/* Asks the server, and adds what it has; an enum cli_exit. Called again for each look: nothing may
 * stay in the client's arena. */
typedef int listing_fetch(struct listing *l, void *ctx);

/* Fetches and prints: once, or with --watch until SIGINT or SIGTERM. */
int listing_run(struct client *c, const struct listing_kind *kind, listing_fetch *fetch, void *ctx);

/* The next item of the list. */
void listing_add(struct listing *l, struct str item);
/* All of a JSON array. */
void listing_add_all(struct listing *l, struct str array);
/* What is shown alone; for people write adds it to the text, or, if that is NULL, it is a table of
 * one row, or indented JSON if the kind has no columns. */
typedef void listing_writer(struct client *c, struct buf *out, struct str item);
void listing_show(struct listing *l, struct str item, listing_writer *write);
/* A line that follows for people only. */
void listing_note(struct listing *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same by hand, where items come from changes that follow one another. */
void listing_init(struct listing *l, struct client *c, const struct listing_kind *kind);
void listing_fini(struct listing *l);
/* Completes the text in out. */
void listing_finish(struct listing *l);
/* Completes and prints it, and frees the listing. */
void listing_end(struct listing *l);

/* Prints what a change has answered, as listing_show does; CLI_OK. */
int listing_print(struct client *c, const struct listing_kind *kind, struct str item,
                  listing_writer *write);

#endif
