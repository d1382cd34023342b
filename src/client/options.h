/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_OPTIONS_H
#define CLIENT_OPTIONS_H

/* Options of every command, `serve` included, from one kind of table: a row says how an option is
 * spelled, what it takes, where else its value may come from, and where in the caller's struct it
 * is stored. Parsing, the help text and the table in the documentation all use the same rows, so
 * they cannot contradict each other.
 *
 * A value comes from the flag, or else from the TENAX_ variable, or else from the alias variable,
 * or else from a configuration file, or else from the default. An empty variable counts as not
 * set. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum option_type {
    OPTION_TEXT,   /* const char *, NULL when absent */
    OPTION_INT,    /* int64_t in [min, max] */
    OPTION_DOUBLE, /* double, finite, in [min, max] */
    OPTION_SPAN,   /* span, see base/duration.h */
    OPTION_SIZE,   /* uint64_t of bytes */
    OPTION_CHOICE, /* int: the index of the word in choices */
    OPTION_SWITCH, /* bool */
    OPTION_LIST,   /* struct option_list: each use of the flag adds one */
};

#define OPTION_LIST_MAX 32

struct option_list {
    const char *at[OPTION_LIST_MAX];
    size_t count;
};

struct option_def {
    const char *flag;  /* without its dashes; NULL ends a table */
    const char *value; /* the name of the value in the help; NULL for a switch */
    enum option_type type;
    size_t offset;       /* of the value in the caller's struct */
    int64_t min, max;    /* of OPTION_INT and OPTION_DOUBLE; min, in ms, of OPTION_SPAN */
    const char *choices; /* "fsync|buffered" */
    const char *env;     /* TENAX_…, or NULL */
    const char *alias;   /* ZIZQ_…, or NULL */
    const char *def;     /* the default, as a user would write it, or NULL */
    const char *implied; /* its value if only the flag is given, or NULL: then a value is needed;
                          * with it, a value is given as --flag=value */
    const char *help;    /* a phrase without a full stop */
    bool live;           /* for the server: read again on SIGHUP; others need a restart */
    char letter;         /* the short option: 'f' for -f; 0: none */
};

enum option_source {
    OPTION_ABSENT, /* not given, and there is no default */
    OPTION_FROM_DEFAULT,
    OPTION_FROM_FILE,
    OPTION_FROM_ALIAS,
    OPTION_FROM_ENV,
    OPTION_FROM_FLAG,
};

#define OPTIONS_MAX 112

struct options {
    const struct option_def *defs;
    enum option_source source[OPTIONS_MAX]; /* by row of the table */
    bool help;                              /* -h or --help was given; nothing else was read */
    int rest_count;
    char **rest; /* the words that are not options, in order, and a NULL; points into argv */
};

enum option_order {
    OPTIONS_ANYWHERE, /* options and words may be mixed, as in `job ID --delete` */
    OPTIONS_FIRST,    /* the first word ends the options: it begins another command's line */
};

/* Fills the struct at values. argv[0], the command's name, is skipped; argv, which ends with a
 * NULL, is reordered so that rest is contiguous. ERR_USAGE names the option or variable, the value,
 * and what is accepted. */
NODISCARD struct err options_parse(const struct option_def *defs, enum option_order order, int argc,
                                   char **argv, void *values, struct options *out);

/* Sets an option by its name, unless a flag or a variable has; NULL: the file's value is not a
 * single value. The text must live as long as the values. ERR_UNKNOWN_FIELD: there is no such
 * option. */
NODISCARD struct err options_from_file(struct options *o, const char *name, const char *text,
                                       void *values);
/* The source of the option with this name. */
enum option_source options_source_of(const struct options *o, const char *name);

/* Whether two structs have different values for the option of this row. */
bool options_differ(const struct option_def *d, const void *a, const void *b);
/* Copies the value of the option of this row. */
void options_copy(const struct option_def *d, void *to, const void *from);

/* The source of the option whose value has this offset. */
enum option_source options_source(const struct options *o, size_t offset);
/* Whether the user gave it, as opposed to its default. */
#define OPTION_GIVEN(o, type, field)                                                               \
    (options_source((o), offsetof(type, field)) > OPTION_FROM_DEFAULT)

/* The rows as aligned help text, wrapped to the width. */
void options_help(struct buf *b, const struct option_def *defs, size_t width);
/* The rows as a Markdown table. */
void options_markdown(struct buf *b, const struct option_def *defs);

/* The next word of a '|'-separated list; false at its end, and of NULL. */
bool options_next_word(const char **list, struct str *word);

/* The word of a '|'-separated list that was probably meant, or an empty string: the typed text is a
 * prefix of it, or at most two typing errors away. */
struct str options_closest(const char *typed, const char *words);

/* Adds text broken at spaces so that no line passes the width; lines after the
 * first start with indent spaces. at is the column where the text starts. */
void options_wrap(struct buf *b, struct str text, size_t at, size_t indent, size_t width);

#endif
