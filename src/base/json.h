/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

/* The scanner for the envelope of a job: the full grammar of RFC 8259 and a
 * UTF-8 check in one pass, giving spans into the input, so that a payload comes
 * back byte for byte. It allocates nothing and copies nothing. Documents of people are
 * trees first (wire/document.h).
 *
 * A cursor walks one text. Every function either moves past what it read or
 * returns an error (ERR_BAD_JSON, ERR_BAD_UTF8, ERR_TOO_DEEP, ERR_BAD_TYPE,
 * ERR_BAD_VALUE) with the byte offset from the start of the text; after an
 * error the cursor must not be used again.
 *
 *     struct json_cursor c = json_open(text);
 *     TRY(json_enter_object(&c));
 *     for (;;) {
 *         bool more;
 *         struct json_string key;
 *         TRY(json_next_member(&c, &more, &key));
 *         if (!more) break;
 *         ... exactly one json_read_*, json_enter_*, or json_skip ...
 *     }
 *     TRY(json_close(&c));                     // nothing may follow
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define JSON_DEPTH_MAX 128

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_cursor {
    struct str text;
    size_t pos;
    unsigned depth;
    bool first;          /* no member or element of the innermost container was read yet */
    bool sound;          /* the whole text was validated before: json_skip looks for ends alone */
    const void *context; /* for readers, of whoever opened it; NULL: none */
    uint32_t unknown;    /* members that a reader passed over, as it counts them */
};

/* A string as it stands in the text: between its quotes, escapes unresolved. */
struct json_string {
    struct str raw;
    bool escaped;  /* raw holds at least one backslash */
    size_t offset; /* of raw in the text */
};

static inline struct json_cursor json_open(struct str text)
{
    return (struct json_cursor){.text = text.at ? text : STR(""), .first = true};
}

/* For a text that json_skip and json_close have passed, or that was stored after they had: values
 * that nobody looks into are passed at many times the speed. */
static inline struct json_cursor json_open_sound(struct str text)
{
    struct json_cursor c = json_open(text);
    c.sound = true;
    return c;
}

/* Succeeds iff only white space is left. Every container must have been left. */
NODISCARD struct err json_close(struct json_cursor *c);

/* The type of the value that comes next, judged by its first byte. */
NODISCARD struct err json_peek(struct json_cursor *c, enum json_type *type);

/* Enter the container that comes next; ERR_BAD_TYPE if it is another value. */
NODISCARD struct err json_enter_object(struct json_cursor *c);
NODISCARD struct err json_enter_array(struct json_cursor *c);
/* Moves to the next member's value, or leaves the object (*more == false). The
 * key is a view into the text, or, if it holds escapes, still escaped: keys that
 * a server knows have none, so a comparison of raw bytes is right for them. */
NODISCARD struct err json_next_member(struct json_cursor *c, bool *more, struct json_string *key);
/* Moves to the next element, or leaves the array (*more == false). */
NODISCARD struct err json_next_element(struct json_cursor *c, bool *more);

/* Reads a value of that type; another type is ERR_BAD_TYPE that says what was
 * found ("expected a string, found a number"). */
NODISCARD struct err json_read_string(struct json_cursor *c, struct json_string *s);
NODISCARD struct err json_read_bool(struct json_cursor *c, bool *v);
/* A whole number in [lo, hi]. 1.0 and 1e3 are whole numbers too; 1.5 is
 * ERR_BAD_VALUE, as is anything outside the range, however many digits it has. */
NODISCARD struct err json_read_int(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *v);
/* A finite number in [lo, hi]. */
NODISCARD struct err json_read_double(struct json_cursor *c, double lo, double hi, double *v);
/* If null comes next, reads it and says so. */
NODISCARD struct err json_take_null(struct json_cursor *c, bool *was_null);
/* Validates and passes any value; *raw (if wanted) is its exact bytes without
 * the white space around it. A string with an escaped lone surrogate ("\ud800")
 * passes, as the grammar of RFC 8259 §7 has it; only json_text refuses it. */
NODISCARD struct err json_skip(struct json_cursor *c, struct str *raw);
/* Of a text that is one object, the exact bytes of its member of that name, the last one if there
 * are several; empty if there is none. A key that is spelled with escapes is not found. */
NODISCARD struct err json_member(struct str object, struct str name, struct str *raw);

/* The characters that a string stands for. Without escapes this is s.raw itself;
 * otherwise the copy lives in the arena. \u0000 is allowed; a lone surrogate is
 * ERR_BAD_UTF8. */
NODISCARD struct err json_text(struct json_string s, struct arena *a, struct str *text);

/* Adds text as a JSON string with its quotes; text must be valid UTF-8. Escapes
 * only what RFC 8259 §7 demands: quote, backslash and control characters. */
void json_write_string(struct buf *b, struct str text);
/* The same without the quotes: a piece of a string that ends between two characters. */
void json_write_text(struct buf *b, struct str text);
/* Adds a finite double in the shortest form that reads back the same. */
void json_write_double(struct buf *b, double v);
/* Adds a valid JSON value on one line: the line breaks outside of strings become
 * spaces, so that its length and its meaning stay the same (for NDJSON). */
void json_write_one_line(struct buf *b, struct str value);

#endif
