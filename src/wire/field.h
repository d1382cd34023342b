/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_FIELD_H
#define WIRE_FIELD_H

/* JSON objects whose members are known by name, read by tables: a row per member says how its value
 * is read and where it goes. Errors say which member they are about ("jobs[3]: priority: …"), and
 * where it stands in the text. */

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/units.h"

/* Fields of one body that are in no table, and are passed over: each costs a look at the table. */
#define FIELD_UNKNOWN_MAX 500000

struct field {
    const char *name;
    bool required;
    /* Reads exactly one value into out. */
    struct err (*read)(struct json_cursor *c, struct arena *a, void *out);
    size_t offset;   /* of the field in out */
    bool nullable;   /* null means the same as absent */
    const char *doc; /* "TYPE: MEANING" or "TYPE", for the description of the API; see below */
    int64_t most;    /* the number that $ stands for in doc, so that it is the one in force */
    const char *const *words; /* those that * stands for in doc; the last one is NULL */
};

/* A table that others refer to by a name. */
struct field_table {
    const char *name;
    const struct field *fields;
    size_t count;
    const char *doc;
    const char *rules; /* what members have to do with each other; see below */
};
#define FIELD_TABLE(table) .fields = (table), .count = sizeof(table) / sizeof *(table)

/* How tables say of what type a value is; tools/openapi.py turns it into a schema.
 *
 *   any, boolean, object, string, integer, number, null; with a comma between them: one of these
 *   integer 1..1000, integer 0.., number 0..1       limits
 *   string 1..255                                   its length
 *   string (a|b)                                    one of these words
 *   string /^[0-9a-f]{16}$/                         a pattern
 *   Name                                            the schema of that name
 *   Name or integer 0..                             either of two types
 *   Name[], string[], Name[1..100]                  a list of such values, of so many
 *   name 1..255                                     a name without reserved characters
 *   names, ids, texts, words (a|b)                  in a query: a list a,b of such
 *   range 0..9                                      in a query: N, A..B, A.., ..B or ..
 *   string @jq                                      a format that no pattern describes
 *   Name?, string 1..255?                           such a value or null
 *
 * That a field is required or nullable is said by its row, not here. Rules of a table, separated by
 * semicolons: "a needs b c", "a excludes b c", "any a b?", "without a b", "off a"
 * (a is not true), "a off b" (with a, b is not true); null counts as absent, unless a ? follows. */

/* Reads the next value, an object, by a table of at most 64 fields. An unknown member is
 * ERR_UNKNOWN_FIELD if strict, and is ignored if not. Also ERR_DUPLICATE_FIELD, ERR_MISSING_FIELD,
 * and the errors of the readers. */
NODISCARD struct err field_read_object(bool strict, struct json_cursor *c, struct arena *arena,
                                       const struct field *fields, size_t count, void *out);
/* Likewise; bit i of *given says whether row i was given a value other than null. */
NODISCARD struct err field_read_given(bool strict, struct json_cursor *c, struct arena *arena,
                                      const struct field *fields, size_t count, void *out,
                                      uint64_t *given);
/* Puts the name of the field before the error's message; continues a path that is there. */
struct err field_in(struct err e, const char *name);

/* Readers for the tables. Texts lie in the arena or in the text that is read. */
struct err field_text(struct json_cursor *c, struct arena *a, void *str);
struct err field_bool(struct json_cursor *c, struct arena *a, void *b);
struct err field_i32(struct json_cursor *c, struct arena *a, void *i32);
/* Milliseconds. */
struct err field_instant(struct json_cursor *c, struct arena *a, void *t);
struct err field_span(struct json_cursor *c, struct arena *a, void *d);
/* Any value, as it stands. */
struct err field_any(struct json_cursor *c, struct arena *a, void *raw_str);
/* A value that is read afterwards, from `at` on: an object by a table of its own, or a list. */
struct field_part {
    struct json_cursor at;
    bool given;
};
struct err field_part(struct json_cursor *c, struct arena *a, void *field_part);
/* Reads a part that is an object, if it was given; name is for errors. */
NODISCARD struct err field_read_part(bool strict, struct field_part *part, struct arena *arena,
                                     const struct field *fields, size_t count, const char *name,
                                     void *out);

#endif
