/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BASE_JSON_WALK_H
#define TESTS_BASE_JSON_WALK_H

/* Two ways to read a whole text, which must give the same result. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"

/* Reads one value by entering every container, as a caller does that wants all of it. Recursion is
 * bounded by JSON_DEPTH_MAX. */
static inline struct err json_walk(struct json_cursor *c);

static inline struct err json_walk_object(struct json_cursor *c)
{
    TRY(json_enter_object(c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            return err_none();
        TRY(json_walk(c));
    }
}

static inline struct err json_walk_array(struct json_cursor *c)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(json_walk(c));
    }
}

static inline struct err json_walk(struct json_cursor *c)
{
    enum json_type type;
    TRY(json_peek(c, &type));
    struct json_string s;
    bool v;
    switch (type) {
    case JSON_OBJECT:
        return json_walk_object(c);
    case JSON_ARRAY:
        return json_walk_array(c);
    case JSON_STRING:
        return json_read_string(c, &s);
    case JSON_BOOL:
        return json_read_bool(c, &v);
    case JSON_NULL:
        return json_take_null(c, &v);
    default:
        return json_skip(c, NULL);
    }
}

typedef struct err value_reader(struct json_cursor *c);

static inline struct err skip_value(struct json_cursor *c)
{
    return json_skip(c, NULL);
}

/* Reads text as one value with nothing after it. The text is copied to memory of exactly its size,
 * so that AddressSanitizer sees any access past its end. */
static inline struct err read_all(struct str text, value_reader *reader)
{
    char *copy = alloc_get(text.len + (text.len == 0));
    memcpy(copy, text.len ? text.at : "", text.len);
    struct json_cursor c = json_open((struct str){copy, text.len});
    struct err e = reader(&c);
    if (e.code == ERR_OK)
        e = json_close(&c);
    free(copy);
    return e;
}

#endif
