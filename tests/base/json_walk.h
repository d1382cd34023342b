/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BASE_JSON_WALK_H
#define TESTS_BASE_JSON_WALK_H

/* Reads one value by entering every container, the way that a caller does which
 * wants all of it. Must come to the same end as json_skip, which has code of its
 * own. Recursion is bounded by JSON_DEPTH_MAX. */

#include "base/json.h"

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

#endif
