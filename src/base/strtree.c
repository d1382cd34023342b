/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strtree.h"

#include <stddef.h>

#include "base/must.h"
#include "base/strmap.h"

/* Names of two nodes may have one weight; then either may be above the other. */
static struct strtree_node **place_of(struct strtree *t, struct str key, uint64_t weight)
{
    struct strtree_node **at = &t->root;
    while (*at && (*at)->weight > weight)
        at = str_cmp(key, (*at)->key) < 0 ? &(*at)->left : &(*at)->right;
    return at;
}

void strtree_put(struct strtree *t, struct strtree_node *n, struct str key)
{
    n->key = key;
    n->weight = strmap_hash(t->seed, key);
    struct strtree_node **at = place_of(t, key, n->weight), *rest = *at;
    struct strtree_node **less = &n->left, **greater = &n->right;
    *at = n;
    while (rest) {
        int order = str_cmp(rest->key, key);
        must(order != 0);
        struct strtree_node ***side = order < 0 ? &less : &greater;
        **side = rest;
        *side = order < 0 ? &rest->right : &rest->left;
        rest = **side;
    }
    *less = *greater = NULL;
}

void strtree_remove(struct strtree *t, struct strtree_node *n)
{
    struct strtree_node **at = &t->root, *less = n->left, *greater = n->right;
    while (*at != n) {
        must(*at != NULL);
        at = str_cmp(n->key, (*at)->key) < 0 ? &(*at)->left : &(*at)->right;
    }
    while (less && greater) {
        struct strtree_node **top = less->weight > greater->weight ? &less : &greater;
        *at = *top;
        at = top == &less ? &less->right : &greater->left;
        *top = *at;
    }
    *at = less ? less : greater;
}

struct strtree_node *strtree_first(const struct strtree *t)
{
    struct strtree_node *n = t->root;
    while (n && n->left)
        n = n->left;
    return n;
}

struct strtree_node *strtree_after(const struct strtree *t, struct str key)
{
    struct strtree_node *found = NULL;
    for (struct strtree_node *n = t->root; n;) {
        bool greater = str_cmp(n->key, key) > 0;
        found = greater ? n : found;
        n = greater ? n->left : n->right;
    }
    return found;
}
