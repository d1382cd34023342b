/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_JSON_WRITER_H
#define WIRE_JSON_WRITER_H

/* Members of an object that is being written into a struct buf, each with a comma before it: the
 * first member of an object is written by hand, for it is always there. Names are literals, so that
 * a member costs one copy. */

#include "base/buf.h"
#include "base/json.h"
#include "base/units.h"

#define KEY(b, name) buf_lit(b, ",\"" name "\":")

#define INT_MEMBER(b, name, v)                                                                     \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        buf_int(b, (int64_t)(v));                                                                  \
    } while (0)

#define INSTANT_MEMBER(b, name, t)                                                                 \
    do {                                                                                           \
        if (instant_is_set(t))                                                                     \
            INT_MEMBER(b, name, (t).ms);                                                           \
    } while (0)

#define TEXT_MEMBER(b, name, s)                                                                    \
    do {                                                                                           \
        if ((s).len) {                                                                             \
            KEY(b, name);                                                                          \
            json_write_string(b, s);                                                               \
        }                                                                                          \
    } while (0)

/* Present with the value null where an optional member is part of the shape. */
#define INSTANT_OR_NULL(b, name, t)                                                                \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        if (instant_is_set(t))                                                                     \
            buf_int(b, (t).ms);                                                                    \
        else                                                                                       \
            buf_lit(b, "null");                                                                    \
    } while (0)

#define TEXT_OR_NULL(b, name, s)                                                                   \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        if ((s).len)                                                                               \
            json_write_string(b, s);                                                               \
        else                                                                                       \
            buf_lit(b, "null");                                                                    \
    } while (0)

#endif
