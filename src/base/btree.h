/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BTREE_H
#define BASE_BTREE_H

/* An ordered set of 32-byte entries: the index behind the ready order and the
 * deadlines. A B+ tree because a million waiting jobs must cost tens of bytes
 * each and be walked in order; entries lie densely in their leaves, appending
 * at the end fills leaves completely, and taking from the front is O(1).
 * Not thread-safe. Zero-initialised is an empty tree that owns nothing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ordered by (major, hi, lo); val is carried along and not compared. */
struct btree_entry {
    uint64_t major;
    uint64_t hi, lo;
    uint64_t val;
};

struct btree_node;

struct btree {
    struct btree_node *root;
    struct btree_node *first_leaf;
    size_t count;
    size_t bytes; /* memory held by nodes */
    unsigned height;
};

void btree_fini(struct btree *t);
/* Adds an entry; false (and the old val is replaced) if its key was there. */
bool btree_put(struct btree *t, struct btree_entry e);
/* Removes the key of e; false if it was not there. *old (if wanted) receives
 * what was removed. */
bool btree_remove(struct btree *t, struct btree_entry e, struct btree_entry *old);
/* The smallest entry; false if the tree is empty. */
bool btree_first(const struct btree *t, struct btree_entry *out);
/* The smallest entry with a key >= key (or > key), the largest < key. */
bool btree_at_least(const struct btree *t, struct btree_entry key, struct btree_entry *out);
bool btree_after(const struct btree *t, struct btree_entry key, struct btree_entry *out);
bool btree_before(const struct btree *t, struct btree_entry key, struct btree_entry *out);
/* How many entries have a key < key, but no more than `most` are counted: the work is bounded by
 * that. */
size_t btree_rank(const struct btree *t, struct btree_entry key, size_t most);
/* Copies entries with a key > after, in order, at most `most`; after NULL: from the first on.
 * Returns their number, 0 at the end. One search for all of them. */
size_t btree_page(const struct btree *t, const struct btree_entry *after, struct btree_entry *out,
                  size_t most);

/* Builds a tree from entries in ascending order, without a search for each: leaves are full
 * afterwards. Between btree_build_begin and the last btree_build_add nothing else changes it. */
struct btree_build {
    struct btree *tree;
    struct btree_node *last; /* leaf; NULL: none yet */
};
/* The tree is empty. */
struct btree_build btree_build_begin(struct btree *t);
/* False, and nothing is added, unless its key is above all others. */
bool btree_build_add(struct btree_build *b, const struct btree_entry *e);

/* Checks every structural promise of the tree (order, counts, links) with
 * must(); for tests and the simulator. */
void btree_check(const struct btree *t);

#endif
