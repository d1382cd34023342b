/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_JSON_SAME_H
#define WIRE_JSON_SAME_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Whether two valid JSON texts mean the same: the members of objects in any order, numbers by
 * their value as doubles, strings by their characters. Of a member that is given twice the last
 * counts, as in JavaScript. Takes O(n log n), and memory of the arena. */
bool json_same(struct str a, struct str b, struct arena *mem);

#endif
