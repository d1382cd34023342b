/* SPDX-License-Identifier: Apache-2.0 */

/* Restoring from a snapshot. First all that is named is gathered: queues, types, and the jobs that
 * are to be read. Then the entries of all others go into trees, which are built in their order, and
 * only when everything was sound the engine gets them. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_snapshot.h"
#include "core/engine_snapshot_internal.h"

#define RANK_MAX   ((1u << RANK_BITS) - 1)
#define GAP_STEPS  4
#define MISSES_MAX 64

/* What a queue of the snapshot gets. */
struct place {
    struct queue *queue;
    struct btree ready;
    struct btree_build build;
    uint64_t counts[STATUS_COUNT];
};

/* A ready job that was elsewhere: among the deadlines, or parked. */
struct late {
    struct place *place;
    struct btree_entry entry;
};

struct load {
    struct engine *e;
    instant now;
    struct idmap places; /* struct place by index in the snapshot, as place_key says */
    struct place *last;  /* that of last_index, or NULL */
    uint64_t last_index;
    struct str types[TYPES_MAX + 1];
    uint32_t type_index[TYPES_MAX + 1]; /* in the engine; 0: not looked up yet */
    struct snapshot_ids rest;
    size_t rest_cap;
    size_t gap;       /* all before it in rest are less than the id that was looked for last */
    unsigned misses;  /* ids that were somewhere else */
    uint64_t *filter; /* a bit for each hash of an id in rest */
    unsigned filter_shift;
    struct btree deadlines, ended[2], surplus;
    struct btree_build due_build, ended_build[2], surplus_build;
    struct late *late;
    size_t late_count, late_cap;
    struct id newest;
    struct str name; /* of the last queue so far */
};

/* --- blocks --- */

struct block {
    unsigned kind;
    uint32_t number, count;
    struct str items;
};

static uint64_t number_at(const char *at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

static bool take_text(struct str *bytes, struct str *text)
{
    size_t len = bytes->len ? (unsigned char)bytes->at[0] : 0;
    if (bytes->len < 1 + len)
        return false;
    *text = (struct str){bytes->at + 1, len};
    *bytes = (struct str){bytes->at + 1 + len, bytes->len - 1 - len};
    return true;
}

static const uint64_t masks[9] = {0,          0xff,         0xffff,         0xffffff,
                                  UINT32_MAX, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
                                  UINT64_MAX};

static uint64_t unzigzag(uint64_t z)
{
    return z >> 1 ^ (0 - (z & 1));
}

/* Reads eight bytes for each part, however long it is: there must be that many. */
static const char *read_parts(const char *at, struct btree_entry *e)
{
    unsigned bits = (unsigned char)*at++;
    uint64_t parts[PARTS];
    for (int p = 0; p < PARTS; p++, bits >>= 2) {
        unsigned size = entry_sizes[p][bits & 3];
        memcpy(&parts[p], at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        parts[p] = __builtin_bswap64(parts[p]);
#endif
        parts[p] &= masks[size];
        at += size;
    }
    e->major += parts[PART_MAJOR];
    e->hi += unzigzag(parts[PART_HI]);
    e->lo += unzigzag(parts[PART_LO]);
    e->val ^= parts[PART_VAL];
    return at;
}

/* Makes *e the next entry. */
static bool take_entry(struct str *bytes, struct btree_entry *e)
{
    char room[SNAPSHOT_ENTRY_MAX + 8] = {0};
    size_t used;
    if (bytes->len >= sizeof room) {
        used = (size_t)(read_parts(bytes->at, e) - bytes->at);
    } else {
        if (bytes->len)
            memcpy(room, bytes->at, bytes->len);
        used = (size_t)(read_parts(room, e) - room);
    }
    if (used > bytes->len)
        return false;
    *bytes = (struct str){bytes->at + used, bytes->len - used};
    return true;
}

static bool take_block(struct str *bytes, struct block *b)
{
    if (bytes->len < SNAPSHOT_HEAD_LEN)
        return false;
    b->kind = (unsigned char)bytes->at[0];
    b->number = (uint32_t)number_at(bytes->at + 1, 4);
    b->count = (uint32_t)number_at(bytes->at + 5, 4);
    size_t len = number_at(bytes->at + 9, 4);
    *bytes = (struct str){bytes->at + SNAPSHOT_HEAD_LEN, bytes->len - SNAPSHOT_HEAD_LEN};
    if (len > bytes->len)
        return false;
    b->items = (struct str){bytes->at, len};
    *bytes = (struct str){bytes->at + len, bytes->len - len};
    return true;
}

/* --- jobs to be read --- */

static void add_rest(struct load *l, struct id id)
{
    ALLOC_GROW(l->rest.ids, l->rest.count, l->rest_cap, 64);
    l->rest.ids[l->rest.count++] = id;
}

static int compare_ids(const void *a, const void *b)
{
    return id_cmp(*(const struct id *)a, *(const struct id *)b);
}

static bool is_ascending(const struct snapshot_ids *rest)
{
    for (size_t i = 1; i < rest->count; i++)
        if (id_cmp(rest->ids[i - 1], rest->ids[i]) > 0)
            return false;
    return true;
}

static uint64_t hash_of(struct id id)
{
    return (id.hi * 0x9e3779b97f4a7c15 ^ id.lo) * 0xd1b54a32d192ed03;
}

static void sort_rest(struct load *l)
{
    struct id *ids = l->rest.ids;
    size_t n = 0;
    if (l->rest.count == 0)
        return;
    if (!is_ascending(&l->rest))
        qsort(ids, l->rest.count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < l->rest.count; i++)
        if (n == 0 || !id_eq(ids[n - 1], ids[i]))
            ids[n++] = ids[i];
    l->rest.count = n;
    unsigned bits = 10;
    while (bits < 40 && (size_t)1 << bits < n * 16)
        bits++;
    l->filter_shift = 64 - bits;
    l->filter = alloc_zero(((size_t)1 << bits) / 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = hash_of(ids[i]) >> l->filter_shift;
        l->filter[h / 64] |= (uint64_t)1 << h % 64;
    }
}

/* The first id that is not less, of which there is one. */
static size_t lower_bound(const struct snapshot_ids *rest, struct id id)
{
    size_t low = 0, high = rest->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (id_cmp(rest->ids[middle], id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Anywhere. The filter takes one access to memory where a search takes twenty; but now and then it
 * is worth one to find the gap for those that follow. */
static bool look_up(struct load *l, struct id id)
{
    uint64_t h = hash_of(id) >> l->filter_shift;
    if (!(l->filter[h / 64] >> h % 64 & 1) && ++l->misses % MISSES_MAX != 0)
        return false;
    l->gap = lower_bound(&l->rest, id);
    return id_eq(l->rest.ids[l->gap], id);
}

/* Entries mostly come by their ids: then the place is the one before, or a little further. */
static bool is_rest(struct load *l, const struct btree_entry *e)
{
    const struct id id = {e->hi, e->lo}, *ids = l->rest.ids;
    size_t n = l->rest.count;
    if (n == 0 || id_cmp(id, ids[0]) < 0 || id_cmp(id, ids[n - 1]) > 0)
        return false;
    if (l->gap > 0 && id_cmp(id, ids[l->gap - 1]) <= 0)
        return look_up(l, id);
    for (size_t i = l->gap; i < n && i < l->gap + GAP_STEPS; i++) {
        if (id_cmp(id, ids[i]) > 0)
            continue;
        l->gap = i;
        return id_eq(id, ids[i]);
    }
    return look_up(l, id);
}

/* --- the first pass --- */

static struct id place_key(uint64_t index)
{
    return (struct id){1, index};
}

static struct place *place_of(struct load *l, uint64_t index)
{
    if (l->last && l->last_index == index)
        return l->last;
    l->last_index = index;
    l->last = idmap_get(&l->places, place_key(index));
    return l->last;
}

/* Each name comes once. */
static bool name_queue(struct load *l, uint64_t index, struct str name)
{
    if (str_cmp(l->name, name) >= 0)
        return false;
    l->name = name;
    struct place *p = idmap_get(&l->places, place_key(index));
    struct queue *was = p ? p->queue : NULL;
    if (!p) {
        p = ALLOC(struct place);
        idmap_put(&l->places, place_key(index), p);
    }
    p->queue = engine_queue_get(l->e, name);
    /* An index that was used again: of the queue that had it first nothing is left. */
    if (was)
        engine_queue_drop_if_unused(l->e, was);
    return true;
}

static bool gather_queues(struct load *l, struct block *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct str name;
        if (b->items.len < 4)
            return false;
        uint64_t index = number_at(b->items.at, 4);
        b->items = (struct str){b->items.at + 4, b->items.len - 4};
        if (!take_text(&b->items, &name) || !name_queue(l, index, name))
            return false;
    }
    return b->items.len == 0;
}

static bool gather_types(struct load *l, struct block *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct str name;
        uint64_t index = (uint64_t)b->number + i;
        if (index == 0 || index > TYPES_MAX || !take_text(&b->items, &name))
            return false;
        l->types[index] = name;
    }
    return b->items.len == 0;
}

static bool gather_ids(struct load *l, struct block *b)
{
    struct btree_entry e = {0};
    for (uint32_t i = 0; i < b->count; i++) {
        if (!take_entry(&b->items, &e))
            return false;
        add_rest(l, (struct id){e.hi, e.lo});
    }
    return b->items.len == 0;
}

static bool gather(struct load *l, struct block *b)
{
    switch ((enum snapshot_block)b->kind) {
    case SNAPSHOT_QUEUES:
        return gather_queues(l, b);
    case SNAPSHOT_TYPES:
        return gather_types(l, b);
    case SNAPSHOT_READ:
        return gather_ids(l, b);
    case SNAPSHOT_HEAD:
        return b->count == 1 && b->items.len == 1 && b->items.at[0] == SNAPSHOT_VERSION;
    case SNAPSHOT_DUE:
    case SNAPSHOT_COMPLETED:
    case SNAPSHOT_DEAD:
    case SNAPSHOT_READY:
    case SNAPSHOT_PARKED:
        return true;
    case SNAPSHOT_END:
        return b->count == 0 && b->items.len == 0;
    }
    return false;
}

/* --- the second pass --- */

static void add_late(struct load *l, struct place *p, const struct btree_entry *e)
{
    ALLOC_GROW(l->late, l->late_count, l->late_cap, 64);
    l->late[l->late_count++] = (struct late){p, *e};
}

static uint32_t type_of(struct load *l, uint32_t type)
{
    if (type && !l->type_index[type] && l->types[type].len)
        l->type_index[type] = engine_type_index(l->e, l->types[type]);
    return l->type_index[type];
}

/* A scheduled job, as restoring it from its records would leave it. */
static bool put_scheduled(struct load *l, struct place *p, const struct btree_entry *e)
{
    instant at = {(int64_t)e->major};
    struct id id = {e->hi, e->lo};
    uint32_t rank = DUE_VAL_RANK(e->val);
    uint64_t state = DUE_VAL_STATE(e->val);
    bool announced = (e->val & DUE_VAL_ANNOUNCED) || engine_was_announced(l->e, at, id);
    if (announced && at.ms <= l->now.ms) {
        add_late(l, p, &(struct btree_entry){rank, id.hi, id.lo, state ? READY_VAL_STATE : 0});
        return true;
    }
    p->counts[STATUS_SCHEDULED]++;
    return btree_build_add(
        &l->due_build, &(struct btree_entry){e->major, id.hi, id.lo,
                                             DUE_VAL(DUE_READY, state, rank, p->queue->index) |
                                                 DUE_VAL_OF_TYPE(type_of(l, DUE_VAL_TYPE(e->val))) |
                                                 (announced ? DUE_VAL_ANNOUNCED : 0)});
}

static bool put_due(struct load *l, const struct btree_entry *e)
{
    struct place *p = place_of(l, DUE_VAL_QUEUE(e->val));
    enum due_kind kind = DUE_VAL_KIND(e->val);
    if (!p || e->major > INT64_MAX || (kind != DUE_READY && kind != DUE_PURGE))
        return false;
    if (kind == DUE_READY)
        return put_scheduled(l, p, e);
    struct btree_entry due = *e, surplus = *e;
    due.val = DUE_VAL(DUE_PURGE, 1, 0, p->queue->index) | (e->val & DUE_VAL_SURPLUS);
    surplus.val = p->queue->index;
    return btree_build_add(&l->due_build, &due) &&
           (!(e->val & DUE_VAL_SURPLUS) || btree_build_add(&l->surplus_build, &surplus));
}

static bool put_ended(struct load *l, bool dead, const struct btree_entry *e)
{
    struct place *p = place_of(l, e->val);
    if (!p || e->major)
        return false;
    p->counts[dead ? STATUS_DEAD : STATUS_COMPLETED]++;
    struct btree_entry ended = {.hi = e->hi, .lo = e->lo, .val = p->queue->index};
    return btree_build_add(&l->ended_build[dead], &ended);
}

static bool put_ready(struct load *l, const struct block *b, const struct btree_entry *e)
{
    struct place *p = place_of(l, b->number);
    if (!p || e->major > RANK_MAX || e->val & ~(uint64_t)READY_VAL_STATE)
        return false;
    if (b->kind == SNAPSHOT_PARKED) {
        add_late(l, p, e);
        return true;
    }
    if (!p->build.tree)
        p->build = btree_build_begin(&p->ready);
    return btree_build_add(&p->build, e);
}

static bool put(struct load *l, const struct block *b, const struct btree_entry *e)
{
    struct id id = {e->hi, e->lo};
    if (is_rest(l, e))
        return true;
    if (id_cmp(id, l->newest) > 0)
        l->newest = id;
    switch ((enum snapshot_block)b->kind) {
    case SNAPSHOT_DUE:
        return put_due(l, e);
    case SNAPSHOT_COMPLETED:
    case SNAPSHOT_DEAD:
        return put_ended(l, b->kind == SNAPSHOT_DEAD, e);
    case SNAPSHOT_READY:
    case SNAPSHOT_PARKED:
        return put_ready(l, b, e);
    case SNAPSHOT_HEAD:
    case SNAPSHOT_READ:
    case SNAPSHOT_QUEUES:
    case SNAPSHOT_TYPES:
    case SNAPSHOT_END:
        break;
    }
    return false;
}

static bool has_entries(unsigned kind)
{
    return kind == SNAPSHOT_DUE || kind == SNAPSHOT_COMPLETED || kind == SNAPSHOT_DEAD ||
           kind == SNAPSHOT_READY || kind == SNAPSHOT_PARKED;
}

static bool build(struct load *l, struct block *b)
{
    struct btree_entry e = {0};
    if (!has_entries(b->kind))
        return true;
    for (uint32_t i = 0; i < b->count; i++)
        if (!take_entry(&b->items, &e) || !put(l, b, &e))
            return false;
    return b->items.len == 0;
}

/* --- handing over --- */

/* One that came from the deadlines may have been seen in the ready order, too. */
static void put_late(struct load *l)
{
    for (size_t i = 0; i < l->late_count; i++)
        btree_put(&l->late[i].place->ready, l->late[i].entry);
}

/* The deadlines of what is no job are there already, and few. */
static void merge_deadlines(struct load *l)
{
    struct btree_entry e;
    for (bool more = btree_first(&l->e->deadlines, &e); more;
         more = btree_after(&l->e->deadlines, e, &e))
        must(btree_put(&l->deadlines, e));
    btree_fini(&l->e->deadlines);
    l->e->deadlines = l->deadlines;
    l->deadlines = (struct btree){0};
}

static void hand_over_place(struct engine *e, struct place *p)
{
    struct queue *q = p->queue;
    must(!q->ready.root);
    q->ready = p->ready;
    e->order_bytes += q->ready.bytes;
    p->ready = (struct btree){0};
    p->counts[STATUS_READY] = q->ready.count;
    for (int s = 0; s < STATUS_COUNT; s++) {
        q->counts[s] += p->counts[s];
        e->totals[s] += p->counts[s];
    }
    if (q->ready.count)
        engine_queue_offers(e, q);
}

static void hand_over(struct load *l)
{
    struct engine *e = l->e;
    put_late(l);
    merge_deadlines(l);
    for (int dead = 0; dead < 2; dead++) {
        must(!e->ended[dead].root);
        e->ended[dead] = l->ended[dead];
        l->ended[dead] = (struct btree){0};
    }
    must(!e->surplus.root);
    e->surplus = l->surplus;
    l->surplus = (struct btree){0};
    for (size_t i = 0; i < l->places.cap; i++)
        if (l->places.slots[i].val)
            hand_over_place(e, l->places.slots[i].val);
    id_seen(&e->ids, l->newest);
}

/* --- all of it --- */

typedef bool (*pass_fn)(struct load *l, struct block *b);

/* It begins with a head and ends with an end. */
static bool pass(struct load *l, const struct str *chunks, size_t count, pass_fn fn)
{
    struct block b = {0};
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        struct str bytes = chunks[i];
        for (; bytes.len > 0; begun = true) {
            if (b.kind == SNAPSHOT_END || !take_block(&bytes, &b))
                return false;
            if (begun == (b.kind == SNAPSHOT_HEAD) || !fn(l, &b))
                return false;
        }
    }
    return b.kind == SNAPSHOT_END;
}

static void load_fini(struct load *l)
{
    for (size_t i = 0; i < l->places.cap; i++) {
        struct place *p = l->places.slots[i].val;
        if (!p)
            continue;
        btree_fini(&p->ready);
        engine_queue_drop_if_unused(l->e, p->queue);
        free(p);
    }
    idmap_fini(&l->places);
    btree_fini(&l->deadlines);
    btree_fini(&l->ended[0]);
    btree_fini(&l->ended[1]);
    btree_fini(&l->surplus);
    free(l->filter);
    free(l->late);
    free(l);
}

/* A lease is no record of the job. */
static void add_leased(struct load *l)
{
    const struct idmap *leases = &l->e->restored_leases;
    for (size_t i = 0; i < leases->cap; i++)
        if (leases->slots[i].val)
            add_rest(l, leases->slots[i].id);
}

struct err engine_snapshot_load(struct engine *e, instant now, const struct str *chunks,
                                size_t count, struct snapshot_ids touched,
                                struct snapshot_ids *rest)
{
    struct load *l = ALLOC(struct load);
    l->e = e;
    l->now = now;
    for (size_t i = 0; i < touched.count; i++)
        add_rest(l, touched.ids[i]);
    add_leased(l);
    bool good = pass(l, chunks, count, gather);
    sort_rest(l);
    l->due_build = btree_build_begin(&l->deadlines);
    l->ended_build[0] = btree_build_begin(&l->ended[0]);
    l->ended_build[1] = btree_build_begin(&l->ended[1]);
    l->surplus_build = btree_build_begin(&l->surplus);
    good = good && pass(l, chunks, count, build);
    if (good)
        hand_over(l);
    *rest = good ? l->rest : (struct snapshot_ids){0};
    if (!good)
        free(l->rest.ids);
    load_fini(l);
    return good ? err_none() : err_make(ERR_CORRUPT, "the snapshot of the indexes does not decode");
}
