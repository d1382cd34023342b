/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_VIEW_H
#define CLIENT_VIEW_H

/* Access to JSON without building a tree: a member is a span of the text, so that a payload with
 * numbers of any size is shown unchanged. The text is known to be valid JSON (client.h checks what
 * a server sends). */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/units.h"

/* ERR_BAD_JSON and the like unless the text is exactly one JSON value; *raw (if wanted) is the
 * value without surrounding white space. */
NODISCARD struct err view_check(struct str text, struct str *raw);

/* The exact bytes of an object's member; empty if it is absent or null, or if this is not an
 * object. */
struct str view_get(struct str object, const char *key);
/* A member as text: a string is unescaped into the arena, other values are unchanged; empty if it
 * is absent or null. */
struct str view_text(struct arena *a, struct str object, const char *key);
/* The same of a value itself, as one of a list. */
struct str view_own_text(struct arena *a, struct str raw);
/* A member that is a whole number; false if it is absent or something else. */
bool view_int(struct str object, const char *key, int64_t *v);
/* A member that is a time; INSTANT_NONE if it is absent. */
instant view_time(struct str object, const char *key);

/* Walks an array: for (struct view_list l = view_list(x); view_next(&l, &item);) */
struct view_list {
    struct json_cursor cursor;
    bool ok;
};
struct view_list view_list(struct str array);
bool view_next(struct view_list *l, struct str *item);

/* Adds the value on several lines, indented by two spaces per level in addition to the first line's
 * indent; scalars keep their bytes. Text that is not JSON is added unchanged. */
void view_pretty(struct buf *b, struct str value, size_t indent);

/* Line and column (in characters), from 1, of a byte offset. */
void view_position(struct str text, size_t offset, size_t *line, size_t *column);

#endif
