/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STRTREE_H
#define BASE_STRTREE_H

/* An ordered set of names that are part of something else: a treap, whose shape follows from the
 * hashes of the names, so that no order of arrival makes it deep. Whoever knows a name finds it in
 * a strmap; this is for pages, in the order of str_cmp. Zero-initialised is an empty set; the seed
 * keeps who chooses the names from choosing the shape. Owns nothing. Not thread-safe. */

#include <stdint.h>

#include "base/str.h"

struct strtree_node {
    struct str key; /* as long as it is in the set it must not change */
    uint64_t weight;
    struct strtree_node *left, *right;
};

struct strtree {
    struct strtree_node *root;
    uint64_t seed;
};

/* Adds the node under a name that is not in the set. */
void strtree_put(struct strtree *t, struct strtree_node *n, struct str key);
/* Takes out a node that is in the set. */
void strtree_remove(struct strtree *t, struct strtree_node *n);
/* The first of all, and the first whose name is greater than the key; NULL: there is none. */
struct strtree_node *strtree_first(const struct strtree *t);
struct strtree_node *strtree_after(const struct strtree *t, struct str key);

#endif
