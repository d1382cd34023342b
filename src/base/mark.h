/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MARK_H
#define BASE_MARK_H

/* Marks in front of names. Senders that may not hear of each other give the same names to different
 * things: inside the server such a name begins with the mark of those who gave it. No text that is
 * written as JSON has a mark (base/json.h leaves them out), so nobody sees one. A mark begins with
 * two control characters, which no name may have. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

#define MARK_ID_LEN 16                /* of A-Z a-z 0-9 - _ */
#define MARK_LEN    (MARK_ID_LEN + 3) /* bytes of a mark */
#define MARK_FIRST  '\x1e'

/* Makes a mark of an id of MARK_ID_LEN bytes. */
void mark_make(const char id[MARK_ID_LEN], char mark[MARK_LEN]);
/* Whether a mark begins here; `end` is where the text ends. */
bool mark_is_at(const char *at, const char *end);
/* The mark in front of the name, or an empty text. */
struct str mark_of(struct str name);
/* The name without it. */
struct str mark_bare(struct str name);
/* The name with this mark, in the arena; an empty mark adds nothing. */
struct str mark_add(struct str mark, struct str name, struct arena *a);

#endif
