/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_BLOOM_H
#define STORE_BLOOM_H

/* A Bloom filter of keys: says that a key was added, rightly whenever it was, and wrongly once in a
 * few hundred times. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct bloom;

/* For so many keys, and a million at least: two bytes each. */
struct bloom *bloom_new(size_t keys);
/* NULL is fine. */
void bloom_free(struct bloom *b);
void bloom_add(struct bloom *b, struct str key);
bool bloom_has(const struct bloom *b, struct str key);
/* How many additions changed it, which is about how many keys it has. */
size_t bloom_count(const struct bloom *b);
/* Whether it has more keys than it was made for: then it is wrong more often. */
bool bloom_is_full(const struct bloom *b);

#endif
