/* SPDX-License-Identifier: Apache-2.0 */
#include "base/btree.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

#define LEAF_MAX  63 /* a leaf and malloc's header are 2 KiB together */
#define INNER_MAX 64
/* Every level multiplies the insertions behind it by 32 at least, so 2^64 of
 * them stay below this. */
#define HEIGHT_MAX 16
/* Entries slide to the other end of their leaf only if that frees so many
 * places: the cost is then spread over as many insertions. */
#define SLIDE_MIN 16

struct key {
    uint64_t major, hi, lo;
};

struct btree_node {
    uint16_t count;  /* entries or children; never 0 */
    uint16_t start;  /* leaf: the slot of its first entry */
    uint16_t newest; /* leaf: where the newest entry was put; a hint only */
};

struct leaf {
    struct btree_node head;
    struct leaf *prev, *next;
    struct btree_entry slots[LEAF_MAX];
};

/* Keys in child[i] are < keys[i], those in child[i + 1] are >= keys[i]. */
struct inner {
    struct btree_node head;
    struct key keys[INNER_MAX - 1];
    struct btree_node *child[INNER_MAX];
};

/* The way from the root to a leaf: child at[d] was taken in node[d]. */
struct path {
    struct inner *node[HEIGHT_MAX];
    unsigned at[HEIGHT_MAX];
};

static struct key key_of(const struct btree_entry *e)
{
    return (struct key){e->major, e->hi, e->lo};
}

/* Without branches: the processor could not predict them in a search. */
static bool less(struct key a, struct key b)
{
    unsigned __int128 x = (unsigned __int128)a.hi << 64 | a.lo;
    unsigned __int128 y = (unsigned __int128)b.hi << 64 | b.lo;
    return (a.major < b.major) | ((a.major == b.major) & (x < y));
}

static bool same(struct key a, struct key b)
{
    return a.major == b.major && a.hi == b.hi && a.lo == b.lo;
}

static void *node_new(struct btree *t, size_t size)
{
    struct btree_node *n = alloc_get(size);
    *n = (struct btree_node){0};
    t->bytes += size;
    return n;
}

static void node_free(struct btree *t, void *n, size_t size)
{
    t->bytes -= size;
    free(n);
}

/* ---- Leaves ---- */

static struct btree_entry *first_of(struct leaf *l)
{
    return l->slots + l->head.start;
}

static struct leaf *first_leaf(const struct btree *t)
{
    return (struct leaf *)t->first_leaf;
}

/* How many entries of the leaf are < key. */
static unsigned rank(struct leaf *l, struct key key)
{
    const struct btree_entry *at = first_of(l);
    unsigned n = l->head.count;
    /* The two ends first: that is where queues work. */
    if (less(key_of(&at[n - 1]), key))
        return n;
    if (!less(key_of(&at[0]), key))
        return 0;
    const struct btree_entry *base = at;
    while (n > 1) {
        unsigned half = n / 2;
        base = less(key_of(&base[half]), key) ? base + half : base;
        n -= half;
    }
    return (unsigned)(base - at) + 1;
}

static void slide(struct leaf *l, unsigned start)
{
    memmove(l->slots + start, first_of(l), l->head.count * sizeof *l->slots);
    l->head.start = (uint16_t)start;
}

/* Puts an entry at index i of a leaf with room, moving the shorter side if
 * there is a choice. */
static void place(struct leaf *l, unsigned i, const struct btree_entry *e)
{
    unsigned count = l->head.count, end = l->head.start + count;
    struct btree_entry *at = first_of(l) + i;
    if (end < LEAF_MAX && (i * 2 >= count || l->head.start == 0)) {
        memmove(at + 1, at, (count - i) * sizeof *at);
    } else {
        memmove(first_of(l) - 1, first_of(l), i * sizeof *at);
        l->head.start--;
        at--;
    }
    *at = *e;
    l->head.count++;
    l->head.newest = (uint16_t)i;
}

static void displace(struct leaf *l, unsigned i)
{
    unsigned count = l->head.count;
    struct btree_entry *at = first_of(l);
    if (i * 2 < count) {
        memmove(at + 1, at, i * sizeof *at);
        l->head.start++;
    } else {
        memmove(at + i, at + i + 1, (count - i - 1) * sizeof *at);
    }
    l->head.count--;
}

/* Makes room at one end of the leaf if an entry is to go there. */
static void slide_for(struct leaf *l, unsigned i)
{
    unsigned count = l->head.count, start = l->head.start;
    if (i == count && start + count == LEAF_MAX && start >= SLIDE_MIN)
        slide(l, 0);
    else if (i == 0 && start == 0 && LEAF_MAX - count >= SLIDE_MIN)
        slide(l, LEAF_MAX - count);
}

/* Whether an entry at index i wants another leaf: because this one is full, or
 * because it lies at an end of the tree, where a new leaf is cheaper than moving
 * nearly a full one for each entry. */
static bool must_divide(const struct leaf *l, unsigned i)
{
    unsigned count = l->head.count, start = l->head.start;
    return count == LEAF_MAX || (!l->next && i == count && start + count == LEAF_MAX) ||
           (!l->prev && i == 0 && start == 0);
}

/* How many entries of a leaf stay left when it is divided for one at index i.
 * Beyond the ends of the tree nothing moves. Where entries came in order (one
 * priority among others) the cut goes behind them, so that they too leave full
 * leaves behind; only otherwise is half and half best. */
static unsigned cut_for(const struct leaf *l, unsigned i)
{
    unsigned count = l->head.count;
    if (i == count && !l->next)
        return count;
    if (i == 0 && !l->prev)
        return 0;
    return i == l->head.newest + 1u ? i : count / 2;
}

static struct leaf *leaf_after(struct btree *t, struct leaf *l)
{
    struct leaf *n = node_new(t, sizeof *n);
    n->prev = l;
    n->next = l->next;
    if (n->next)
        n->next->prev = n;
    l->next = n;
    return n;
}

static struct leaf *leaf_before_all(struct btree *t)
{
    struct leaf *n = node_new(t, sizeof *n);
    n->head.start = LEAF_MAX;
    n->prev = NULL;
    n->next = first_leaf(t);
    if (n->next)
        n->next->prev = n;
    t->first_leaf = &n->head;
    return n;
}

static void unlink_leaf(struct btree *t, struct leaf *l)
{
    if (l->prev)
        l->prev->next = l->next;
    else
        t->first_leaf = l->next ? &l->next->head : NULL;
    if (l->next)
        l->next->prev = l->prev;
    node_free(t, l, sizeof *l);
}

/* ---- Inner nodes ---- */

/* Which child holds key: how many separators are <= key. */
static unsigned child_for(const struct inner *in, struct key key)
{
    unsigned n = in->head.count - 1u;
    if (n == 0 || less(key, in->keys[0]))
        return 0;
    if (!less(key, in->keys[n - 1]))
        return n;
    const struct key *base = in->keys;
    while (n > 1) {
        unsigned half = n / 2;
        base = less(key, base[half]) ? base : base + half;
        n -= half;
    }
    return (unsigned)(base - in->keys) + 1;
}

static struct leaf *descend(const struct btree *t, struct key key, struct path *p)
{
    struct btree_node *n = t->root;
    for (unsigned d = 0; d + 1 < t->height; d++) {
        p->node[d] = (struct inner *)n;
        p->at[d] = child_for(p->node[d], key);
        n = p->node[d]->child[p->at[d]];
    }
    return (struct leaf *)n;
}

/* Puts a child at i > 0 with the separator before it, into a node with room. */
static void adopt(struct inner *in, unsigned i, struct key key, struct btree_node *child)
{
    unsigned after = in->head.count - i;
    memmove(in->child + i + 1, in->child + i, after * sizeof *in->child);
    memmove(in->keys + i, in->keys + i - 1, after * sizeof *in->keys);
    in->child[i] = child;
    in->keys[i - 1] = key;
    in->head.count++;
}

static void disown(struct inner *in, unsigned i)
{
    unsigned count = in->head.count, key = i ? i - 1 : 0;
    memmove(in->child + i, in->child + i + 1, (count - i - 1) * sizeof *in->child);
    if (count > 1)
        memmove(in->keys + key, in->keys + key + 1, (count - 2 - key) * sizeof *in->keys);
    in->head.count--;
}

/* Divides a full node to take a child at i > 0. Returns its new right
 * neighbour; *key becomes the separator between the two. */
static struct inner *divide_inner(struct btree *t, struct inner *in, unsigned i, struct key *key,
                                  struct btree_node *child)
{
    struct inner *right = node_new(t, sizeof *right);
    if (i == INNER_MAX) { /* ascending: leave full nodes behind */
        right->child[0] = child;
        right->head.count = 1;
        return right;
    }
    const unsigned half = INNER_MAX / 2;
    memcpy(right->child, in->child + half, half * sizeof *in->child);
    memcpy(right->keys, in->keys + half, (half - 1) * sizeof *in->keys);
    struct key between = in->keys[half - 1];
    in->head.count = half;
    right->head.count = half;
    if (i <= half)
        adopt(in, i, *key, child);
    else
        adopt(right, i - half, *key, child);
    *key = between;
    return right;
}

static void raise_root(struct btree *t, struct key key, struct btree_node *right)
{
    struct inner *root = node_new(t, sizeof *root);
    root->child[0] = t->root;
    root->child[1] = right;
    root->keys[0] = key;
    root->head.count = 2;
    t->root = &root->head;
    t->height++;
    must(t->height <= HEIGHT_MAX);
}

/* Hangs a node in to the right of the one at the end of the path. */
static void hang_in(struct btree *t, const struct path *p, struct key key, struct btree_node *n)
{
    for (unsigned d = t->height - 1; d-- > 0;) {
        struct inner *in = p->node[d];
        if (in->head.count < INNER_MAX) {
            adopt(in, p->at[d] + 1, key, n);
            return;
        }
        n = &divide_inner(t, in, p->at[d] + 1, &key, n)->head;
    }
    raise_root(t, key, n);
}

static void collapse_root(struct btree *t)
{
    while (t->height > 1 && t->root->count == 1) {
        struct inner *root = (struct inner *)t->root;
        t->root = root->child[0];
        node_free(t, root, sizeof *root);
        t->height--;
    }
}

/* Takes an empty leaf out of the tree, and every node that it leaves empty. */
static void drop_leaf(struct btree *t, const struct path *p, struct leaf *l)
{
    unlink_leaf(t, l);
    for (unsigned d = t->height - 1; d-- > 0;) {
        disown(p->node[d], p->at[d]);
        if (p->node[d]->head.count > 0) {
            collapse_root(t);
            return;
        }
        node_free(t, p->node[d], sizeof *p->node[d]);
    }
    t->root = NULL;
    t->height = 0;
}

/* ---- Adding and removing ---- */

/* Puts e at index i of a leaf by dividing the leaf. */
static void divide_leaf(struct btree *t, const struct path *p, struct leaf *l, unsigned i,
                        const struct btree_entry *e)
{
    unsigned cut = cut_for(l, i);
    struct leaf *left = l, *right = l;
    if (cut == 0) {
        /* The new leaf takes the old one's place in its parent, which in turn
         * is hung in to its right. */
        left = leaf_before_all(t);
        if (t->height > 1) {
            unsigned d = t->height - 2;
            p->node[d]->child[p->at[d]] = &left->head;
        } else {
            t->root = &left->head;
        }
    } else {
        unsigned moved = l->head.count - cut;
        right = leaf_after(t, l);
        memcpy(right->slots, first_of(l) + cut, moved * sizeof *l->slots);
        right->head.count = (uint16_t)moved;
        l->head.count = (uint16_t)cut;
    }
    if (i < cut || (i == cut && right->head.count > 0))
        place(left, i, e);
    else
        place(right, i - cut, e);
    hang_in(t, p, key_of(first_of(right)), &right->head);
}

bool btree_put(struct btree *t, struct btree_entry e)
{
    if (!t->root) {
        struct leaf *l = leaf_before_all(t);
        l->head.start = 0;
        place(l, 0, &e);
        t->root = &l->head;
        t->height = 1;
        t->count = 1;
        return true;
    }
    struct path p;
    struct leaf *l = descend(t, key_of(&e), &p);
    unsigned i = rank(l, key_of(&e));
    struct btree_entry *at = first_of(l) + i;
    if (i < l->head.count && same(key_of(at), key_of(&e))) {
        at->val = e.val;
        return false;
    }
    slide_for(l, i);
    if (must_divide(l, i))
        divide_leaf(t, &p, l, i, &e);
    else
        place(l, i, &e);
    t->count++;
    return true;
}

bool btree_remove(struct btree *t, struct btree_entry e, struct btree_entry *old)
{
    if (!t->root)
        return false;
    /* The usual removal is of the first entry, and needs no way down to it
     * unless its leaf goes too. */
    struct path p;
    struct leaf *l = first_leaf(t);
    if (l->head.count == 1 || !same(key_of(first_of(l)), key_of(&e)))
        l = descend(t, key_of(&e), &p);
    unsigned i = rank(l, key_of(&e));
    const struct btree_entry *at = first_of(l) + i;
    if (i == l->head.count || !same(key_of(at), key_of(&e)))
        return false;
    if (old)
        *old = *at;
    displace(l, i);
    t->count--;
    if (l->head.count == 0)
        drop_leaf(t, &p, l);
    return true;
}

static void free_below(struct btree *t, struct btree_node *n, unsigned height)
{
    if (height == 1) {
        node_free(t, n, sizeof(struct leaf));
        return;
    }
    struct inner *in = (struct inner *)n;
    for (unsigned i = 0; i < in->head.count; i++)
        free_below(t, in->child[i], height - 1);
    node_free(t, in, sizeof *in);
}

void btree_fini(struct btree *t)
{
    if (t->root)
        free_below(t, t->root, t->height);
    must(t->bytes == 0);
    *t = (struct btree){0};
}

/* ---- Looking up ---- */

bool btree_first(const struct btree *t, struct btree_entry *out)
{
    if (!t->root)
        return false;
    *out = *first_of(first_leaf(t));
    return true;
}

/* Entry i of a leaf, or if it has no more, the first of the next leaf. */
static bool entry_from(struct leaf *l, unsigned i, struct btree_entry *out)
{
    if (i < l->head.count)
        *out = first_of(l)[i];
    else if (l->next)
        *out = *first_of(l->next);
    else
        return false;
    return true;
}

bool btree_at_least(const struct btree *t, struct btree_entry key, struct btree_entry *out)
{
    if (!t->root)
        return false;
    struct path p;
    struct leaf *l = descend(t, key_of(&key), &p);
    return entry_from(l, rank(l, key_of(&key)), out);
}

bool btree_after(const struct btree *t, struct btree_entry key, struct btree_entry *out)
{
    if (!t->root)
        return false;
    struct path p;
    struct leaf *l = descend(t, key_of(&key), &p);
    unsigned i = rank(l, key_of(&key));
    bool found = i < l->head.count && same(key_of(first_of(l) + i), key_of(&key));
    return entry_from(l, i + found, out);
}

bool btree_before(const struct btree *t, struct btree_entry key, struct btree_entry *out)
{
    if (!t->root)
        return false;
    struct path p;
    struct leaf *l = descend(t, key_of(&key), &p);
    unsigned i = rank(l, key_of(&key));
    if (i > 0)
        *out = first_of(l)[i - 1];
    else if (l->prev)
        *out = first_of(l->prev)[l->prev->head.count - 1];
    else
        return false;
    return true;
}

size_t btree_rank(const struct btree *t, struct btree_entry key, size_t most)
{
    size_t n = 0;
    for (struct leaf *l = t->root ? first_leaf(t) : NULL; l && n < most; l = l->next) {
        unsigned here = rank(l, key_of(&key));
        n += here;
        if (here < l->head.count)
            break;
    }
    return n < most ? n : most;
}

size_t btree_page(const struct btree *t, const struct btree_entry *after, struct btree_entry *out,
                  size_t most)
{
    struct path p;
    unsigned i = 0;
    size_t n = 0;
    if (!t->root)
        return 0;
    struct leaf *l = after ? descend(t, key_of(after), &p) : first_leaf(t);
    if (after) {
        i = rank(l, key_of(after));
        i += i < l->head.count && same(key_of(first_of(l) + i), key_of(after));
    }
    for (; l && n < most; l = l->next, i = 0) {
        size_t here = l->head.count - i;
        here = here < most - n ? here : most - n;
        if (here)
            memcpy(out + n, first_of(l) + i, here * sizeof *out);
        n += here;
    }
    return n;
}

/* ---- Building ---- */

struct btree_build btree_build_begin(struct btree *t)
{
    must(!t->root);
    return (struct btree_build){.tree = t};
}

bool btree_build_add(struct btree_build *b, const struct btree_entry *e)
{
    struct leaf *l = (struct leaf *)b->last;
    struct path p;
    if (l) {
        unsigned count = l->head.count, end = l->head.start + count;
        if (!less(key_of(first_of(l) + count - 1), key_of(e)))
            return false;
        if (end < LEAF_MAX) {
            l->slots[end] = *e;
            l->head.count++;
            l->head.newest = (uint16_t)count;
            b->tree->count++;
            return true;
        }
    }
    must(btree_put(b->tree, *e));
    b->last = &descend(b->tree, key_of(e), &p)->head;
    return true;
}

/* ---- Checking ---- */

/* What a walk over all nodes has seen so far. */
struct census {
    size_t count, bytes;
    struct leaf *last;
};

/* Bounds of the keys below a node; NULL: none. */
struct bounds {
    const struct key *from, *below;
};

static void check_key(struct key k, struct bounds b)
{
    must(!b.from || !less(k, *b.from));
    must(!b.below || less(k, *b.below));
}

static void check_leaf(struct leaf *l, struct bounds b, struct census *c)
{
    must(l->head.count > 0 && l->head.start + l->head.count <= LEAF_MAX);
    for (unsigned i = 0; i < l->head.count; i++) {
        check_key(key_of(first_of(l) + i), b);
        must(i == 0 || less(key_of(first_of(l) + i - 1), key_of(first_of(l) + i)));
    }
    must(l->prev == c->last);
    must(!c->last || c->last->next == l);
    c->last = l;
    c->count += l->head.count;
    c->bytes += sizeof *l;
}

static void check_node(struct btree_node *n, unsigned height, struct bounds b, struct census *c)
{
    if (height == 1) {
        check_leaf((struct leaf *)n, b, c);
        return;
    }
    struct inner *in = (struct inner *)n;
    must(in->head.count > 0 && in->head.count <= INNER_MAX);
    for (unsigned i = 0; i < in->head.count; i++) {
        struct bounds sub = b;
        if (i > 0) {
            check_key(in->keys[i - 1], b);
            must(i == 1 || less(in->keys[i - 2], in->keys[i - 1]));
            sub.from = &in->keys[i - 1];
        }
        if (i + 1u < in->head.count)
            sub.below = &in->keys[i];
        check_node(in->child[i], height - 1, sub, c);
    }
    c->bytes += sizeof *in;
}

void btree_check(const struct btree *t)
{
    if (!t->root) {
        must(!t->first_leaf && t->count == 0 && t->bytes == 0 && t->height == 0);
        return;
    }
    must(t->height == 1 || t->root->count > 1);
    must(first_leaf(t) && !first_leaf(t)->prev);
    struct census c = {0};
    check_node(t->root, t->height, (struct bounds){0}, &c);
    must(!c.last->next);
    must(c.count == t->count && c.bytes == t->bytes);
}
