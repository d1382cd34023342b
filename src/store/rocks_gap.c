/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_gap.h"

#include <string.h>

#include "store/rocks_error.h"

/* --- keys as big-endian numbers --- */

#define WIDTH 24 /* the length of all keys of jobs; of longer keys only this much is compared */
#define BITS  (WIDTH * 8)

struct number {
    unsigned char bytes[WIDTH];
};

static struct number number_of(struct str key)
{
    struct number n = {{0}};
    memcpy(n.bytes, key.at, key.len < WIDTH ? key.len : WIDTH);
    return n;
}

static struct str view_of(const struct number *n)
{
    return (struct str){(const char *)n->bytes, WIDTH};
}

/* False on overflow. */
static bool add_bit(struct number *n, unsigned bit)
{
    unsigned carry = 1u << bit % 8;
    for (int i = WIDTH - 1 - (int)(bit / 8); i >= 0 && carry; i--) {
        carry += n->bytes[i];
        n->bytes[i] = (unsigned char)carry;
        carry >>= 8;
    }
    return carry == 0;
}

/* Requires a <= b. True if there is a number between them, which is stored in *mid. */
static bool halve(const struct number *a, const struct number *b, struct number *mid)
{
    unsigned carry = 0;
    unsigned char sum[WIDTH + 1];
    for (int i = WIDTH - 1; i >= 0; i--) {
        carry += (unsigned)a->bytes[i] + b->bytes[i];
        sum[i + 1] = (unsigned char)carry;
        carry >>= 8;
    }
    sum[0] = (unsigned char)carry;
    for (int i = 0; i < WIDTH; i++)
        mid->bytes[i] = (unsigned char)(sum[i] << 7 | sum[i + 1] >> 1);
    return memcmp(mid->bytes, a->bytes, WIDTH) != 0;
}

static int compare(struct str a, struct str b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* --- finding the end of a gap --- */

/* Whether the next key after this one can be read. */
static bool can_read(struct rocks_gap_walk *w, struct str key)
{
    rocksdb_iterator_t *it = rocksdb_create_iterator(w->db, w->reading);
    char *text = NULL;
    rocksdb_iter_seek(it, key.at, key.len);
    rocksdb_iter_get_error(it, &text);
    bool can = text == NULL;
    rocksdb_iter_destroy(it);
    rocksdb_free(text);
    return can;
}

/* The first key that can be read again is after *bad and not after *good. */
static void find_stride(struct rocks_gap_walk *w, struct number *bad, struct number *good)
{
    struct number from = *bad;
    for (unsigned bit = 0; bit < BITS; bit++) {
        struct number probe = from;
        if (!add_bit(&probe, bit) || memcmp(probe.bytes, good->bytes, WIDTH) >= 0)
            return;
        if (can_read(w, view_of(&probe))) {
            *good = probe;
            return;
        }
        *bad = probe;
    }
}

static void find_end(struct rocks_gap_walk *w)
{
    struct number bad = number_of(buf_view(&w->key)), good = number_of(w->end), mid;
    find_stride(w, &bad, &good);
    while (memcmp(bad.bytes, good.bytes, WIDTH) < 0 && halve(&bad, &good, &mid)) {
        if (can_read(w, view_of(&mid)))
            good = mid;
        else
            bad = mid;
    }
    struct str to = view_of(&good);
    if (compare(to, w->end) > 0 || memcmp(good.bytes, number_of(w->end).bytes, WIDTH) == 0)
        to = w->end;
    w->gap_to.len = 0;
    buf_str(&w->gap_to, to);
}

/* --- the walk --- */

static void look(struct rocks_gap_walk *w)
{
    char *text = NULL;
    w->in_gap = false;
    if (rocksdb_iter_valid(w->it)) {
        struct str key;
        key.at = rocksdb_iter_key(w->it, &key.len);
        w->key.len = 0;
        buf_str(&w->key, key);
        w->ended = compare(key, w->end) >= 0;
        return;
    }
    rocksdb_iter_get_error(w->it, &text);
    if (!text) {
        w->ended = true;
        return;
    }
    w->table = rocks_error_table(text);
    rocksdb_free(text);
    /* It begins after the key that was last read. */
    w->in_gap = true;
    find_end(w);
}

static void seek(struct rocks_gap_walk *w, struct str from)
{
    if (w->it)
        rocksdb_iter_destroy(w->it);
    w->it = rocksdb_create_iterator(w->db, w->reading);
    rocksdb_iter_seek(w->it, from.at, from.len);
}

void rocks_gap_begin(struct rocks_gap_walk *w, rocksdb_t *db, const rocksdb_readoptions_t *reading,
                     struct str from, struct str end)
{
    *w = (struct rocks_gap_walk){.db = db, .reading = reading, .end = end};
    buf_str(&w->key, from);
    w->ended = compare(from, end) >= 0;
    if (w->ended)
        return;
    seek(w, from);
    look(w);
}

bool rocks_gap_at(const struct rocks_gap_walk *w, struct str *key, struct str *value)
{
    if (w->ended)
        return false;
    *key = buf_view(&w->key);
    *value = (struct str){0};
    if (!w->in_gap)
        value->at = rocksdb_iter_value(w->it, &value->len);
    return true;
}

void rocks_gap_step(struct rocks_gap_walk *w)
{
    if (w->ended)
        return;
    if (w->in_gap) {
        w->key.len = 0;
        buf_str(&w->key, buf_view(&w->gap_to));
        w->ended = compare(buf_view(&w->key), w->end) >= 0;
        if (w->ended)
            return;
        seek(w, buf_view(&w->key));
    } else {
        buf_byte(&w->key, '\0'); /* where a gap would begin */
        rocksdb_iter_next(w->it);
    }
    look(w);
}

void rocks_gap_end(struct rocks_gap_walk *w)
{
    if (w->it)
        rocksdb_iter_destroy(w->it);
    buf_fini(&w->key);
    buf_fini(&w->gap_to);
}
