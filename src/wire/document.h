/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_DOCUMENT_H
#define WIRE_DOCUMENT_H

/* Resources written by people (kubectl's form: apiVersion, kind, metadata, spec) as a tree, read
 * from YAML or JSON and written back as either. Of YAML 1.2 only what JSON can express as well: no
 * anchors, aliases or tags, so that a small text is a small tree. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define DOCUMENT_TEXT_MAX    ((size_t)1 << 20) /* bytes of a text with all its documents */
#define DOCUMENT_DEPTH_MAX   32
#define DOCUMENT_MEMBERS_MAX 1024  /* of a mapping, whose names are compared with each other */
#define DOCUMENT_ENTRIES_MAX 32768 /* of a list */
#define DOCUMENT_COUNT_MAX   1024  /* documents in a text */

/* The format of a text. */
enum document_format {
    DOCUMENT_ANY, /* JSON if it begins with { and is valid JSON, otherwise YAML */
    DOCUMENT_YAML,
    DOCUMENT_JSON,
};

enum document_type {
    DOCUMENT_NULL,
    DOCUMENT_BOOL,
    DOCUMENT_NUMBER,
    DOCUMENT_STRING,
    DOCUMENT_LIST,
    DOCUMENT_MAP,
};

struct document_node {
    enum document_type type;
    uint32_t line, column;         /* where it begins, from 1; 0: it was not read from a text */
    struct str text;               /* BOOL, NUMBER: in JSON's spelling; STRING: its characters */
    struct str key;                /* of a member of a MAP */
    uint32_t key_line, key_column; /* likewise */
    struct document_node *first;   /* LIST, MAP: the children, in order */
    struct document_node *last, *next;
    size_t count;
};

/* The roots of the documents of one text, linked by next, without empty ones. */
struct document_list {
    struct document_node *first, *last;
    size_t count;
};

/* Why a text is refused: the first fault in it. */
struct document_fault {
    enum err_code code;
    char path[128];        /* "spec.rules[2].onExitCodes.operator"; empty: the text as a whole */
    uint32_t line, column; /* from 1; 0: none */
    char expected[320];    /* "In or NotIn" */
    char found[160];       /* "\"in\"", "a list"; may be empty */
};

/* Reads every document of a text. The tree lives in the arena. */
NODISCARD bool document_read(struct str text, enum document_format format, struct arena *a,
                             struct document_list *out, struct document_fault *fault);

/* Adds the bytes of a file to the buffer, stopping somewhere beyond DOCUMENT_TEXT_MAX, which
 * document_read then refuses. ERR_USAGE says why it cannot be read. */
NODISCARD struct err document_load(const char *file, struct buf *text);

/* The only document of a text; a fault if there is none, or more. */
NODISCARD bool document_only(const struct document_list *list, const struct document_node **root,
                             struct document_fault *fault);

/* The member of a MAP with that key, or NULL (also if it is not a MAP). */
const struct document_node *document_member(const struct document_node *map, const char *key);
/* The text of a STRING member, or the empty string. */
struct str document_text(const struct document_node *map, const char *key);

/* On one line, as JSON. */
void document_write_json(const struct document_node *n, struct buf *b);
/* In block style, ending with a line feed. */
void document_write_yaml(const struct document_node *n, struct buf *b);

/* Fills in a fault of the text as such and returns false. */
bool document_refuse(struct document_fault *fault, enum err_code code, uint32_t line,
                     uint32_t column, const char *expected, ...)
    __attribute__((format(printf, 5, 6)));
/* Copies text into a fixed field: cut between characters, with nothing in it that a
 * terminal would obey. */
void document_quote(char *to, size_t size, struct str text);
/* "line 7, column 15: spec.rules[2].onExitCodes.operator: expected In or NotIn, found "in"". */
void document_fault_write(const struct document_fault *f, struct buf *b);
/* The same as an error, prefixed by the name of a file (NULL: none). If it is too long for an
 * error, the position stays, and what was expected and found is truncated. */
NODISCARD struct err document_fault_in(const char *file, const struct document_fault *f);
NODISCARD struct err document_fault_err(const struct document_fault *f);

/* --- building a tree, to be written --- */

struct document_node *document_map(struct arena *a);
struct document_node *document_list(struct arena *a);
struct document_node *document_string(struct arena *a, struct str text); /* not copied */
struct document_node *document_null(struct arena *a);
struct document_node *document_bool(struct arena *a, bool v);
struct document_node *document_int(struct arena *a, int64_t v);
struct document_node *document_double(struct arena *a, double v);
/* Appends a child; key is that of a member, or empty. Returns the child. */
struct document_node *document_add(struct document_node *to, const char *key,
                                   struct document_node *child);
/* The same for a child that has its key. */
void document_attach(struct document_node *to, struct document_node *child);
/* The same for a MAP, where it takes the place of the member with that key, if there is one. */
struct document_node *document_set(struct document_node *map, const char *key,
                                   struct document_node *child);

#endif
