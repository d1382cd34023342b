/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_SCOPES_H
#define ACCESS_SCOPES_H

/* Scopes as in Taskcluster: a scope is a text of printable ASCII characters that permits one thing
 * or, if it ends in '*', everything that begins with the text before the star. There is no other
 * pattern.
 *
 * A scope a satisfies b if they are equal, or if a is P* and b begins with P. This is transitive,
 * so a set only needs to keep those of its scopes that no other satisfies. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define SCOPE_LENGTH_MAX 2048 /* bytes: the name of an artifact, which has up to 1024, fits */
#define SCOPES_MAX       4096 /* in a set */

/* Normalised: sorted, and none satisfies another. All zero is the empty set. */
struct scope_set {
    const struct str *at;
    size_t count;
};

/* ERR_BAD_VALUE, with the offset of the fault, if it has a character that is not printable ASCII,
 * ends in more than one star (it would permit more when handed on than it does itself), or is too
 * long. The empty scope is valid. */
NODISCARD struct err scope_check(struct str scope);
bool scope_satisfies(struct str have, struct str want);

/* A set of scopes given in any order, possibly with duplicates. Its array lives in the arena, its
 * texts stay where they are. ERR_TOO_MANY if there are more than SCOPES_MAX, or the error of
 * scope_check; *bad, if wanted, is then the index of the faulty scope. */
NODISCARD struct err scope_set_make(const struct str *scopes, size_t count, struct arena *a,
                                    struct scope_set *out, size_t *bad);
/* Reads a JSON array of scopes, in their order, into the arena. ERR_TOO_MANY, an error of the
 * cursor, or one of scope_check with its offset in the cursor's text. */
NODISCARD struct err scopes_read(struct json_cursor *c, struct arena *a, const struct str **scopes,
                                 size_t *count);
/* A set that owns copies of its texts. */
struct scope_set scope_set_copy(const struct scope_set *s, struct arena *a);

/* Whether a scope of the set satisfies it. O(log n). */
bool scope_set_satisfies(const struct scope_set *s, struct str want);
/* Whether each scope of `want` is satisfied. */
bool scope_set_covers(const struct scope_set *s, const struct scope_set *want);

#endif
