/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_TABLE_H
#define CLIENT_TABLE_H

/* Tables for people: columns as wide as their contents, measured in terminal cells. Foreign text is
 * sanitised: the name of a queue must not be able to move the user's cursor. */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

enum table_style {
    TABLE_PLAIN,
    TABLE_GOOD, /* green */
    TABLE_BUSY, /* cyan */
    TABLE_WAIT, /* yellow */
    TABLE_BAD,  /* red */
    TABLE_FAINT,
};

#define TABLE_COLUMNS_MAX 16

struct table {
    size_t columns, cells;
    struct buf text; /* of all cells, concatenated */
    struct table_cell *cell;
    size_t cap;
    bool right[TABLE_COLUMNS_MAX];   /* numbers are right-aligned */
    size_t least[TABLE_COLUMNS_MAX]; /* a column of names may be cut to so many cells; 0: never */
};

struct table_cell {
    size_t start, len; /* in table.text */
    enum table_style style;
};

/* headers ends with NULL; a leading '>' right-aligns a column. */
void table_init(struct table *t, const char *const *headers);
void table_fini(struct table *t);
/* The next cell, row by row. */
void table_add(struct table *t, enum table_style style, struct str text);
void table_print(struct table *t, enum table_style style, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the table to b. With width > 0 it is cut to fit: names in the middle, where table.least
 * allows it, and the last column at its end. */
void table_write(const struct table *t, struct buf *b, bool colour, size_t width);

/* Cells that a terminal needs for this text. */
size_t table_width(struct str text);
/* Adds text with every control character and every malformed byte made visible. */
void table_harmless(struct buf *b, struct str text);

/* Whether f is a terminal whose user has not disabled colours. */
bool table_colour(FILE *f);
/* Width of the terminal behind f, or 0 if it is not a terminal. */
size_t table_terminal_width(FILE *f);
/* The escape sequences around a styled text; empty without colour. */
const char *table_on(enum table_style style, bool colour);
const char *table_off(enum table_style style, bool colour);

#endif
