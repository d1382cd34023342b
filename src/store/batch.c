/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

#define BLOCK_SIZE ((size_t)256 * 1024)
/* A batch that held more than this frees its memory when it is reset: one burst of large payloads
 * must not occupy memory for good. */
#define KEEP_MAX      ((size_t)32 * 1024 * 1024)
#define OPS_KEEP_MAX  ((size_t)1 << 18)
#define INDEX_CAP_MIN ((size_t)1024)
#define SHORT_KEY_MAX 21 /* all of a job's are not longer */

struct batch_block {
    struct batch_block *next;
    size_t used, cap;
    char bytes[];
};

/* Free unless it has the batch's generation; so a reset need not clear the index, which is still
 * large after a large batch. */
struct batch_slot {
    uint32_t generation;
    uint32_t op;
};

void batch_fini(struct batch *b)
{
    while (b->first) {
        struct batch_block *next = b->first->next;
        free(b->first);
        b->first = next;
    }
    free(b->ops);
    free(b->index);
    *b = (struct batch){0};
}

void batch_reset(struct batch *b)
{
    if (b->held > KEEP_MAX || b->cap > OPS_KEEP_MAX) {
        batch_fini(b);
        return;
    }
    b->count = 0;
    b->bytes = 0;
    b->filling = b->first;
    if (b->first)
        b->first->used = 0;
    if (b->index && ++b->generation == 0) {
        memset(b->index, 0, b->index_cap * sizeof *b->index);
        b->generation = 1;
    }
}

/* Adds a new block after the one being filled, before the spare ones. */
static void add_block(struct batch *b, size_t len)
{
    size_t cap = len > BLOCK_SIZE ? len : BLOCK_SIZE;
    struct batch_block *fresh = alloc_get(sizeof *fresh + cap);
    fresh->cap = cap;
    fresh->used = 0;
    struct batch_block **link = b->filling ? &b->filling->next : &b->first;
    fresh->next = *link;
    *link = fresh;
    b->filling = fresh;
    b->held += cap;
}

/* len bytes that stay until batch_reset; never NULL, because NULL means delete. */
static char *take_room(struct batch *b, size_t len)
{
    if (!b->filling || b->filling->cap - b->filling->used < len) {
        struct batch_block *spare = b->filling ? b->filling->next : NULL;
        if (spare && spare->cap >= len) {
            spare->used = 0;
            b->filling = spare;
        } else {
            add_block(b, len);
        }
    }
    char *room = b->filling->bytes + b->filling->used;
    b->filling->used += len;
    return room;
}

static uint64_t load64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static uint64_t fold(uint64_t a, uint64_t z)
{
    unsigned __int128 product = (unsigned __int128)a * z;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Of names and other long keys, what comes before their last 16 bytes. */
static uint64_t hash_front(struct str key)
{
    uint64_t h = 0;
    for (size_t i = 0; i + 16 < key.len; i += 16)
        h = fold(load64(key.at + i) ^ h ^ 0xa0761d6478bd642fu,
                 load64(key.at + i + 8) ^ 0xe7037ed1a0b428dbu);
    return h;
}

/* Of short keys, 16 bytes from the end, where ids and runs differ, and the first byte, by which
 * the records of one job differ; of longer ones all bytes, for many names end alike. */
static size_t hash(struct str key)
{
    uint64_t a = 0, z = 0;
    if (key.len > SHORT_KEY_MAX)
        a = hash_front(key);
    if (key.len >= 16) {
        a ^= load64(key.at + key.len - 16);
        z = load64(key.at + key.len - 8);
    } else {
        char tail[16] = {0};
        if (key.len)
            memcpy(tail, key.at, key.len);
        a = load64(tail);
        z = load64(tail + 8);
    }
    uint64_t kind = key.len ? (unsigned char)key.at[0] : 0;
    /* Ids are big-endian: neighbours differ in the high bits of a loaded word. Only a
     * multiplication that keeps its upper half brings these differences down to the low bits. */
    a ^= (kind << 8 ^ key.len) * 0x9e3779b97f4a7c15u ^ 0x2d358dccaa6c78a5u;
    z ^= 0x8bb84b93962eacc9u;
    uint64_t h = fold(a, z);
    return (size_t)(h ^ (h >> 32));
}

/* The slot of key, or the free slot where it belongs. */
static struct batch_slot *find_slot(const struct batch *b, struct str key)
{
    size_t mask = b->index_cap - 1;
    for (size_t i = hash(key) & mask;; i = (i + 1) & mask) {
        struct batch_slot *slot = &b->index[i];
        if (slot->generation != b->generation || str_eq(b->ops[slot->op].key, key))
            return slot;
    }
}

static void grow_index(struct batch *b)
{
    free(b->index);
    b->index_cap = b->index_cap ? b->index_cap * 2 : INDEX_CAP_MIN;
    b->index = alloc_zero(b->index_cap * sizeof *b->index);
    b->generation = 1;
    for (size_t i = 0; i < b->count; i++)
        *find_slot(b, b->ops[i].key) = (struct batch_slot){b->generation, (uint32_t)i};
}

static struct batch_op *add_op(struct batch *b, struct str key)
{
    must(b->count < UINT32_MAX);
    ALLOC_GROW(b->ops, b->count, b->cap, INDEX_CAP_MIN / 2);
    char *copy = take_room(b, key.len);
    if (key.len)
        memcpy(copy, key.at, key.len);
    b->bytes += key.len;
    struct batch_op *op = &b->ops[b->count++];
    *op = (struct batch_op){.key = {copy, key.len}};
    return op;
}

/* The op on key, whose value the caller sets: an existing op without its value, or a new one. */
static struct batch_op *op_for(struct batch *b, struct str key)
{
    /* At most half full, so that probing stays short. */
    if (b->count * 2 >= b->index_cap)
        grow_index(b);
    struct batch_slot *slot = find_slot(b, key);
    if (slot->generation != b->generation) {
        *slot = (struct batch_slot){b->generation, (uint32_t)b->count};
        return add_op(b, key);
    }
    struct batch_op *op = &b->ops[slot->op];
    b->bytes -= op->value.len;
    op->value = (struct str){NULL, 0};
    return op;
}

char *batch_put_room(struct batch *b, struct str key, size_t len)
{
    struct batch_op *op = op_for(b, key);
    char *room = take_room(b, len);
    op->value = (struct str){room, len};
    b->bytes += len;
    return room;
}

void batch_put(struct batch *b, struct str key, struct str value)
{
    char *room = batch_put_room(b, key, value.len);
    if (value.len)
        memcpy(room, value.at, value.len);
}

void batch_put_new(struct batch *b, struct str key)
{
    size_t count = b->count;
    struct batch_op *op = op_for(b, key);
    op->is_new = b->count > count;
}

/* Frees the slot; those after it that would not be found any more move up. */
static void free_slot(struct batch *b, struct batch_slot *slot)
{
    size_t mask = b->index_cap - 1, hole = (size_t)(slot - b->index);
    for (size_t i = (hole + 1) & mask; b->index[i].generation == b->generation;
         i = (i + 1) & mask) {
        size_t home = hash(b->ops[b->index[i].op].key) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        b->index[hole] = b->index[i];
        hole = i;
    }
    b->index[hole].generation = b->generation - 1;
}

/* The last operation takes its place. */
static void remove_op(struct batch *b, struct batch_slot *slot)
{
    uint32_t at = slot->op;
    struct batch_op *op = &b->ops[at], *last = &b->ops[b->count - 1];
    b->bytes -= op->key.len + op->value.len;
    free_slot(b, slot);
    if (op != last) {
        find_slot(b, last->key)->op = at;
        *op = *last;
    }
    b->count--;
}

void batch_delete(struct batch *b, struct str key)
{
    struct batch_slot *slot = b->count > 0 ? find_slot(b, key) : NULL;
    if (slot && slot->generation == b->generation && b->ops[slot->op].is_new)
        remove_op(b, slot);
    else
        op_for(b, key);
}

const struct batch_op *batch_find(const struct batch *b, struct str key)
{
    if (b->count == 0)
        return NULL;
    const struct batch_slot *slot = find_slot(b, key);
    return slot->generation == b->generation ? &b->ops[slot->op] : NULL;
}
