/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SHAPE_H
#define WIRE_SHAPE_H

/* JSON objects written from tables. Each row gives a member's name, the field of a struct that its
 * value comes from, when the member is present, and its description. docs/openapi.json is generated
 * from the same tables (api/api_describe.c), so it cannot contradict the answers.
 *
 *     static const struct shape_member run_members[] = {
 *         {MEMBER(struct run, index, "run", ALWAYS, "its index, from 0")},
 *         {MEMBER(struct run, worker, "worker", OR_NULL, NULL)},
 *         {MEMBER_WORD(struct run, outcome, "outcome", ALWAYS, &api_outcome_words, NULL)},
 *     };
 *     const struct shape api_run_shape = {.name = "Run", SHAPE_MEMBERS(run_members)};
 *
 *     shape_write(b, &api_run_shape, &run, SHAPE_AS_IT_IS); */

#include "base/buf.h"
#include "base/id.h"
#include "base/str.h"
#include "base/units.h"

/* The type of a value: how it is written, and when it counts as set. */
enum shape_kind {
    SHAPE_BOOL, /* true */
    SHAPE_U16,  /* numbers: not 0 */
    SHAPE_U32,
    SHAPE_U64,
    SHAPE_I32,
    SHAPE_I64,
    SHAPE_DOUBLE,
    SHAPE_INSTANT, /* instant_is_set */
    SHAPE_SPAN,    /* not negative */
    SHAPE_ID,      /* always */
    SHAPE_TEXT,    /* a struct str that is not empty */
    SHAPE_JSON,    /* likewise; it is a JSON text */
    SHAPE_WORD,    /* an enum that has a word */
    SHAPE_WORD64,  /* likewise, kept in 64 bits */
    SHAPE_OBJECT,  /* a struct with a table of its own; always */
    SHAPE_PART,    /* likewise, but its members become members of the enclosing object */
    SHAPE_OTHER,   /* written by a function */
};

/* When a member is present. */
enum shape_when {
    ALWAYS,
    IF_SET,  /* left out if its value is not set */
    OR_NULL, /* null if its value is not set */
};

/* The words of an enum; they need no escaping in JSON. */
struct shape_words {
    const char *name; /* of its schema; NULL: its words are listed where it is used */
    const char *doc;
    int count;
    const char *(*word)(int value); /* NULL: it has none, and counts as not set */
};

/* A key is copied with this size whatever its length: a fixed size takes a few instructions, a
 * variable one a call. */
#define SHAPE_KEY_MAX 32

struct shape_member {
    char key[SHAPE_KEY_MAX]; /* as it is written: ,"name": */
    uint8_t key_len;
    uint8_t kind, when;
    uint8_t set_kind;                  /* the kind that says when it is set */
    bool is_list;                      /* of such values; set iff there are any */
    bool by_pointer;                   /* the field points to the value */
    uint16_t offset;                   /* of the field in the struct */
    uint16_t count_offset, stride;     /* of a list: of its size_t count; of its items */
    bool (*is_set)(const void *owner); /* NULL: as its kind says */
    union {
        const struct shape *shape;                       /* OBJECT, PART */
        const struct shape_words *words;                 /* WORD */
        void (*write)(struct buf *b, const void *field); /* OTHER: one JSON value */
    };
    const char *type; /* as in wire/field.h; NULL: what the kind says */
    const char *doc;
};

struct shape {
    const char *name; /* of its schema; NULL: it is written out where it is used */
    const struct shape_member *members;
    size_t count;
    const char *doc;
    /* Writes the members, each with a comma before it, as the table says but faster; or NULL. */
    void (*write)(struct buf *b, const void *owner);
};

#define SHAPE_MEMBERS(table) .members = (table), .count = sizeof(table) / sizeof *(table)

#define SHAPE_KEY(name)           .key = ",\"" name "\":", .key_len = sizeof(",\"" name "\":") - 1
#define SHAPE_FIELD(owner, field) (((const owner *)0)->field)
/* clang-format off */
#define SHAPE_BY_TYPE(value, ...)                                                                  \
    _Generic((value),                                                                              \
        bool: SHAPE_BOOL,                                                                          \
        uint16_t: SHAPE_U16,                                                                       \
        uint32_t: SHAPE_U32,                                                                       \
        uint64_t: SHAPE_U64,                                                                       \
        int32_t: SHAPE_I32,                                                                        \
        int64_t: SHAPE_I64,                                                                        \
        double: SHAPE_DOUBLE,                                                                      \
        instant: SHAPE_INSTANT,                                                                    \
        span: SHAPE_SPAN,                                                                          \
        struct id: SHAPE_ID,                                                                       \
        struct str: SHAPE_TEXT __VA_ARGS__)
#define SHAPE_TYPE_OR_OTHER(value) SHAPE_BY_TYPE(value, , default: SHAPE_OTHER)
/* clang-format on */

/* Of a value that is written as it is: other types do not compile. */
#define SHAPE_KIND(value) .kind = SHAPE_BY_TYPE(value), .set_kind = SHAPE_BY_TYPE(value)
#define SHAPE_AS(kind_)   .kind = (kind_), .set_kind = (kind_)
#define SHAPE_ENUM(owner, field)                                                                   \
    SHAPE_AS(sizeof(SHAPE_FIELD(owner, field)) == sizeof(int) ? SHAPE_WORD : SHAPE_WORD64)
#define SHAPE_IS_POINTER(value) __builtin_types_compatible_p(typeof(value), typeof(&(value)[0]))
/* An array, or a pointer to values, and how many they are. */
#define SHAPE_LIST(owner, field, count_)                                                           \
    .is_list = true, .by_pointer = SHAPE_IS_POINTER(SHAPE_FIELD(owner, field)),                    \
    .offset = offsetof(owner, field), .count_offset = offsetof(owner, count_),                     \
    .stride = sizeof *SHAPE_FIELD(owner, field)
#define SHAPE_ROW(name, when_) SHAPE_KEY(name), .when = (when_)

/* Rows, to be put in braces. The last argument is the doc, NULL if the name says it all;
 * designators may follow. */
#define MEMBER(owner, field, name, when_, ...)                                                     \
    SHAPE_ROW(name, when_), SHAPE_KIND(SHAPE_FIELD(owner, field)),                                 \
        .offset = offsetof(owner, field), .doc = __VA_ARGS__
#define MEMBER_JSON(owner, field, name, when_, ...)                                                \
    SHAPE_ROW(name, when_), SHAPE_AS(SHAPE_JSON), .offset = offsetof(owner, field),                \
                                                  .doc = __VA_ARGS__
#define MEMBER_WORD(owner, field, name, when_, words_, ...)                                        \
    SHAPE_ROW(name, when_), SHAPE_ENUM(owner, field), .offset = offsetof(owner, field),            \
                                                      .words = (words_), .doc = __VA_ARGS__
#define MEMBER_OBJECT(owner, field, name, when_, shape_, ...)                                      \
    SHAPE_ROW(name, when_), SHAPE_AS(SHAPE_OBJECT), .offset = offsetof(owner, field),              \
                                                    .shape = (shape_), .doc = __VA_ARGS__
/* An object that is made of the same struct. */
#define MEMBER_INNER(name, when_, shape_, ...)                                                     \
    SHAPE_ROW(name, when_), SHAPE_AS(SHAPE_OBJECT), .shape = (shape_), .doc = __VA_ARGS__
/* A function that is given the field writes the value. */
#define MEMBER_OTHER(owner, field, name, when_, type_, write_, ...)                                \
    SHAPE_ROW(name, when_),                                                                        \
        .kind = SHAPE_OTHER, .set_kind = SHAPE_TYPE_OR_OTHER(SHAPE_FIELD(owner, field)),           \
        .offset = offsetof(owner, field), .write = (write_), .type = (type_), .doc = __VA_ARGS__
/* The same with the whole struct. */
#define MEMBER_MADE(name, when_, type_, write_, ...)                                               \
    SHAPE_ROW(name, when_), SHAPE_AS(SHAPE_OTHER), .write = (write_), .type = (type_),             \
                                                   .doc = __VA_ARGS__
#define MEMBER_LIST(owner, field, count_, name, when_, ...)                                        \
    SHAPE_ROW(name, when_), SHAPE_KIND(*SHAPE_FIELD(owner, field)),                                \
        SHAPE_LIST(owner, field, count_), .doc = __VA_ARGS__
#define MEMBER_OBJECTS(owner, field, count_, name, when_, shape_, ...)                             \
    SHAPE_ROW(name, when_), SHAPE_AS(SHAPE_OBJECT), SHAPE_LIST(owner, field, count_),              \
        .shape = (shape_), .doc = __VA_ARGS__
/* Members of another table: of a struct in this one, of one that it points to, or of this one.
 * If is_set is given they are there only if it says so. */
#define MEMBERS_OF(owner, field, shape_)                                                           \
    SHAPE_AS(SHAPE_PART), .offset = offsetof(owner, field), .shape = (shape_)
#define MEMBERS_AT(owner, pointer, shape_)                                                         \
    SHAPE_AS(SHAPE_PART), .by_pointer = true, .offset = offsetof(owner, pointer), .shape = (shape_)
#define MEMBERS_INNER(shape_) SHAPE_AS(SHAPE_PART), .shape = (shape_)

/* How values of SHAPE_JSON are written. */
enum shape_lines { SHAPE_AS_IT_IS, SHAPE_ONE_LINE };

/* Adds an object. Its struct is what the table is about. */
void shape_write(struct buf *b, const struct shape *s, const void *owner, enum shape_lines lines);
/* Adds its members only, each with a comma before it. */
void shape_write_members(struct buf *b, const struct shape *s, const void *owner,
                         enum shape_lines lines);

/* Adds an id as a string. */
void shape_write_id(struct buf *b, struct id id);
/* Likewise a word of an enum. */
void shape_write_word(struct buf *b, const char *word);

#endif
