/* SPDX-License-Identifier: Apache-2.0 */
#include "store/memory.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/batch_bytes.h"

/* The keys lie in a treap whose nodes are shared between versions: to change a node that someone
 * else also holds, a copy is made. So a version of the whole store is one pointer, and a cursor's
 * snapshot, what is visible and what is synced are three of them. Priorities are hashes of the
 * keys: the shape depends only on the keys. */

struct item {
    unsigned holders;
    struct str key, value; /* both in bytes */
    char bytes[];
};

struct node {
    unsigned holders;
    uint64_t priority;
    struct item *item;
    struct node *left, *right;
};

struct memory {
    struct store base;
    struct node *visible; /* what reads see */
    struct node *synced;  /* what a crash cannot destroy */
    struct memory_faults faults;
    const struct batch *batch; /* in progress or failed, until it is reaped */
    bool batch_sync, ended;
    struct err result;
    bool broken;        /* a commit failed; reopen is due */
    struct err failure; /* iff broken */
    struct node *kept;  /* there after the reopen although its commit failed */
    bool has_kept;
    /* What recovery has read is not synced. Syncs of later commits do not cover it, because it lies
     * in other files, and recovery would stop where it is missing. */
    bool adrift;
    int64_t free_space;
    uint64_t number, synced_number; /* of the last batch in visible, and in synced */
    uint64_t held;                  /* batches after it are kept for a replay */
    struct buf *batches;            /* the last ones up to `number` */
    size_t batch_count, batch_cap;
    struct buf kept_batch; /* iff has_kept */
};

struct store_cursor {
    struct node *root;
    const struct item *at; /* NULL: past the end; held by root */
};

static struct memory *memory_of(struct store *s)
{
    return (struct memory *)s;
}

/* --- items and nodes --- */

static struct item *item_new(const struct batch_op *op)
{
    struct item *it = alloc_get(sizeof *it + op->key.len + op->value.len);
    it->holders = 1;
    it->key = (struct str){it->bytes, op->key.len};
    it->value = (struct str){it->bytes + op->key.len, op->value.len};
    if (op->key.len)
        memcpy(it->bytes, op->key.at, op->key.len);
    if (op->value.len)
        memcpy(it->bytes + op->key.len, op->value.at, op->value.len);
    return it;
}

static void item_drop(struct item *it)
{
    if (--it->holders == 0)
        free(it);
}

static uint64_t priority_of(struct str key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ (unsigned char)key.at[i]) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static struct node *hold(struct node *n)
{
    if (n)
        n->holders++;
    return n;
}

static void drop(struct node *n)
{
    if (!n || --n->holders > 0)
        return;
    drop(n->left);
    drop(n->right);
    item_drop(n->item);
    free(n);
}

/* Trades a reference to n for a node that nobody else holds. */
static struct node *own(struct node *n)
{
    if (n->holders == 1)
        return n;
    struct node *copy = alloc_get(sizeof *copy);
    *copy = *n;
    copy->holders = 1;
    copy->item->holders++;
    hold(copy->left);
    hold(copy->right);
    drop(n);
    return copy;
}

static struct node *rotate_right(struct node *n)
{
    struct node *up = n->left;
    n->left = up->right;
    up->right = n;
    return up;
}

static struct node *rotate_left(struct node *n)
{
    struct node *up = n->right;
    n->right = up->left;
    up->left = n;
    return up;
}

/* Trades a reference to n, and one to the item, for the tree that has the item. */
static struct node *tree_put(struct node *n, struct item *it)
{
    if (!n) {
        n = ALLOC(struct node);
        *n = (struct node){.holders = 1, .priority = priority_of(it->key), .item = it};
        return n;
    }
    n = own(n);
    int c = str_cmp(it->key, n->item->key);
    if (c == 0) {
        item_drop(n->item);
        n->item = it;
    } else if (c < 0) {
        n->left = tree_put(n->left, it);
        if (n->left->priority > n->priority)
            return rotate_right(n);
    } else {
        n->right = tree_put(n->right, it);
        if (n->right->priority > n->priority)
            return rotate_left(n);
    }
    return n;
}

/* Trades references to both for one tree; every key of a is below those of b. */
static struct node *join(struct node *a, struct node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a = own(a);
        a->right = join(a->right, b);
        return a;
    }
    b = own(b);
    b->left = join(a, b->left);
    return b;
}

static const struct item *tree_find(const struct node *n, struct str key)
{
    while (n) {
        int c = str_cmp(key, n->item->key);
        if (c == 0)
            return n->item;
        n = c < 0 ? n->left : n->right;
    }
    return NULL;
}

/* Trades a reference to n for the tree without key, which is in it. */
static struct node *tree_remove(struct node *n, struct str key)
{
    must(n != NULL);
    n = own(n);
    int c = str_cmp(key, n->item->key);
    if (c < 0) {
        n->left = tree_remove(n->left, key);
        return n;
    }
    if (c > 0) {
        n->right = tree_remove(n->right, key);
        return n;
    }
    struct node *rest = join(n->left, n->right);
    n->left = n->right = NULL;
    drop(n);
    return rest;
}

static struct node *tree_apply(struct node *n, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_op *op = &b->ops[i];
        if (op->value.at)
            n = tree_put(n, item_new(op));
        else if (tree_find(n, op->key))
            n = tree_remove(n, op->key);
    }
    return n;
}

/* The first item with a key > key (or == if or_equal); backwards, the last with a key < key. */
static const struct item *tree_next(const struct node *n, struct str key, bool or_equal,
                                    bool backwards)
{
    const struct item *best = NULL;
    while (n) {
        int c = str_cmp(n->item->key, key);
        bool fits = backwards ? c < 0 : c > 0 || (c == 0 && or_equal);
        if (fits)
            best = n->item;
        n = fits == backwards ? n->right : n->left;
    }
    return best;
}

/* --- numbers --- */

static uint64_t before_batches(const struct memory *m)
{
    return m->number - m->batch_count;
}

/* The bytes are its from now on. */
static void number_batch(struct memory *m, struct buf bytes)
{
    m->number++;
    if (m->held == STORE_HOLD_NONE) {
        buf_fini(&bytes);
        return;
    }
    ALLOC_GROW(m->batches, m->batch_count, m->batch_cap, 16);
    m->batches[m->batch_count++] = bytes;
}

/* Of the batches that are kept, those after that number were lost. */
static void cut_batches(struct memory *m, uint64_t number)
{
    while (m->batch_count && m->number > number) {
        buf_fini(&m->batches[--m->batch_count]);
        m->number--;
    }
    m->number = number;
}

static void memory_hold(struct store *s, uint64_t number)
{
    struct memory *m = memory_of(s);
    size_t gone = 0;
    while (gone < m->batch_count && before_batches(m) + gone < number)
        buf_fini(&m->batches[gone++]);
    m->batch_count -= gone;
    if (gone)
        memmove(m->batches, m->batches + gone, m->batch_count * sizeof *m->batches);
    m->held = number;
}

struct replay {
    store_replay_fn fn;
    void *ctx;
    uint64_t number;
};

static struct err replay_op(void *ctx, const struct batch_op *op)
{
    const struct replay *r = ctx;
    return r->fn(r->ctx, r->number, op);
}

static struct err memory_replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx)
{
    const struct memory *m = memory_of(s);
    struct replay r = {.fn = fn, .ctx = ctx};
    if (from <= m->number && from <= before_batches(m))
        return err_make(ERR_NOT_FOUND, "batch %llu is not kept", (unsigned long long)from);
    for (r.number = from; r.number <= m->number; r.number++) {
        const struct buf *bytes = &m->batches[r.number - before_batches(m) - 1];
        TRY(batch_bytes_read(buf_view(bytes), replay_op, &r));
    }
    return err_none();
}

/* --- commits --- */

/* Makes root what reads see and, if sync, what a crash leaves: a sync covers everything that was
 * committed before it, since the last recovery. */
static void publish(struct memory *m, struct node *root, bool sync)
{
    drop(m->visible);
    m->visible = root;
    if (sync && !m->adrift) {
        drop(m->synced);
        m->synced = hold(root);
        m->synced_number = m->number;
    }
}

static void apply(struct memory *m, bool sync)
{
    struct buf bytes = {0};
    batch_bytes_write(m->batch, &bytes);
    number_batch(m, bytes);
    publish(m, tree_apply(hold(m->visible), m->batch), sync);
}

static void keep_for_reopen(struct memory *m)
{
    must(!m->has_kept);
    m->kept = tree_apply(hold(m->visible), m->batch);
    batch_bytes_write(m->batch, &m->kept_batch);
    m->has_kept = true;
}

static void end_batch(struct memory *m)
{
    must(m->batch && !m->ended);
    m->ended = true;
    m->result = err_none();
    if (m->broken) {
        m->result = err_make(ERR_STORE, "the store has failed and was not reopened yet");
    } else if (m->faults.fail != ERR_OK) {
        m->result = err_make(m->faults.fail, "the commit failed, as instructed");
        if (m->faults.fail_but_keep)
            keep_for_reopen(m);
        m->faults.fail = ERR_OK;
        m->faults.fail_but_keep = false;
        m->broken = true;
        m->failure = m->result;
    } else {
        apply(m, m->batch_sync);
    }
}

static void memory_commit(struct store *s, const struct batch *b, bool sync)
{
    struct memory *m = memory_of(s);
    must(!m->batch);
    m->batch = b;
    m->batch_sync = sync;
    m->ended = false;
    if (!m->faults.hold)
        end_batch(m);
}

static bool is_durable(const struct memory *m)
{
    return m->batch && m->ended && m->result.code == ERR_OK;
}

static bool memory_durable(struct store *s)
{
    return is_durable(memory_of(s));
}

/* A batch counts when it is reaped. */
static uint64_t memory_number(const struct store *s)
{
    const struct memory *m = (const struct memory *)s;
    return m->number - is_durable(m);
}

static bool memory_reap(struct store *s, struct err *result)
{
    struct memory *m = memory_of(s);
    if (!m->batch || !m->ended)
        return false;
    *result = m->result;
    m->batch = NULL;
    return true;
}

void memory_release(struct store *s)
{
    struct memory *m = memory_of(s);
    if (m->batch && !m->ended)
        end_batch(m);
}

static void memory_wait(struct store *s)
{
    must(memory_of(s)->batch);
    memory_release(s);
}

static void sync_all(struct memory *m)
{
    drop(m->synced);
    m->synced = hold(m->visible);
    m->synced_number = m->number;
    m->adrift = false;
}

/* Recovery syncs what it finds before anyone can see it. */
static void recover(struct memory *m)
{
    m->batch = NULL;
    m->broken = false;
    if (m->has_kept) {
        number_batch(m, m->kept_batch);
        publish(m, m->kept, false);
    }
    m->kept_batch = (struct buf){0};
    m->kept = NULL;
    m->has_kept = false;
    m->adrift |= m->visible != m->synced;
    if (!m->faults.recover_unsynced)
        sync_all(m);
}

static struct err memory_reopen(struct store *s)
{
    memory_release(s);
    recover(memory_of(s));
    return err_none();
}

void memory_crash(struct store *s, bool apply_batch, bool lose_unsynced)
{
    struct memory *m = memory_of(s);
    if (m->batch && !m->ended && apply_batch && !m->broken)
        apply(m, lose_unsynced && m->batch_sync);
    if (lose_unsynced) {
        cut_batches(m, m->synced_number);
        publish(m, hold(m->synced), false);
        drop(m->kept);
        buf_fini(&m->kept_batch);
        m->kept = NULL;
        m->has_kept = m->adrift = false;
    }
    recover(m);
}

static struct err memory_failure(const struct store *s)
{
    const struct memory *m = (const struct memory *)s;
    return m->broken ? m->failure : err_none();
}

void memory_break(struct store *s, enum err_code code)
{
    struct memory *m = memory_of(s);
    must(!m->batch);
    m->broken = true;
    m->failure = err_make(code, "nothing can be written, as instructed");
}

void memory_sync(struct store *s)
{
    sync_all(memory_of(s));
}

void memory_set_free_space(struct store *s, int64_t bytes)
{
    memory_of(s)->free_space = bytes;
}

void memory_set_faults(struct store *s, struct memory_faults f)
{
    must(f.fail != ERR_OK || !f.fail_but_keep);
    memory_of(s)->faults = f;
}

/* --- reads --- */

static struct err memory_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    const struct item *it = tree_find(memory_of(s)->visible, key);
    value->len = 0;
    *found = it != NULL;
    if (it)
        buf_str(value, it->value);
    return err_none();
}

static struct store_cursor *memory_cursor_new(struct store *s)
{
    struct store_cursor *c = ALLOC(struct store_cursor);
    c->root = hold(memory_of(s)->visible);
    return c;
}

static void memory_cursor_seek(struct store_cursor *c, struct str key, bool backwards)
{
    c->at = tree_next(c->root, key, true, backwards);
}

static bool memory_cursor_at(const struct store_cursor *c, struct str *key, struct str *value)
{
    if (!c->at)
        return false;
    *key = c->at->key;
    *value = c->at->value;
    return true;
}

static void memory_cursor_step(struct store_cursor *c, bool backwards)
{
    if (c->at)
        c->at = tree_next(c->root, c->at->key, false, backwards);
}

static struct err memory_cursor_free(struct store_cursor *c)
{
    drop(c->root);
    free(c);
    return err_none();
}

static int64_t memory_free_space(struct store *s)
{
    return memory_of(s)->free_space;
}

static uint64_t tree_bytes(const struct node *n)
{
    if (!n)
        return 0;
    return n->item->key.len + n->item->value.len + tree_bytes(n->left) + tree_bytes(n->right);
}

static uint64_t memory_disk_bytes(struct store *s)
{
    return tree_bytes(memory_of(s)->visible);
}

static void memory_close(struct store *s)
{
    struct memory *m = memory_of(s);
    drop(m->visible);
    drop(m->synced);
    drop(m->kept);
    buf_fini(&m->kept_batch);
    for (size_t i = 0; i < m->batch_count; i++)
        buf_fini(&m->batches[i]);
    free(m->batches);
    free(m);
}

struct store *memory_new(void)
{
    static const struct store_vt vt = {
        .get = memory_get,
        .commit = memory_commit,
        .durable = memory_durable,
        .reap = memory_reap,
        .wait = memory_wait,
        .reopen = memory_reopen,
        .number = memory_number,
        .hold = memory_hold,
        .replay = memory_replay,
        .failure = memory_failure,
        .cursor_new = memory_cursor_new,
        .cursor_seek = memory_cursor_seek,
        .cursor_at = memory_cursor_at,
        .cursor_step = memory_cursor_step,
        .cursor_free = memory_cursor_free,
        .free_space = memory_free_space,
        .disk_bytes = memory_disk_bytes,
        .close = memory_close,
    };
    struct memory *m = ALLOC(struct memory);
    m->base.vt = &vt;
    m->free_space = INT64_MAX;
    m->held = STORE_HOLD_NONE;
    return &m->base;
}
