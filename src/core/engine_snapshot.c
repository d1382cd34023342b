/* SPDX-License-Identifier: Apache-2.0 */

/* Taking a snapshot of the indexes while they change.
 *
 * Of a job whose records nobody writes it must have the right entry, or its id. Such a job may
 * still move from one index to another: its time comes, its key is full or has room, it may run on
 * any node again, a stream is given it. Where it goes is looked at later than where it was, or its
 * id is added to the snapshot as it moves (engine_snapshot_moved). */

#include "core/engine_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_snapshot_internal.h"

#define PAGE       512 /* entries copied at a time */
#define QUEUE_COST 8   /* a queue takes about as long as so many entries */
#define TEXT_MAX   255 /* bytes of a name */

/* In this order. */
enum stage {
    STAGE_HEAD,
    STAGE_LIVE,
    STAGE_UNIQUE,
    STAGE_ALIASES,
    STAGE_MADE,
    STAGE_END_BY,
    STAGE_GROUPS,
    STAGE_ODD,
    STAGE_DUE,
    STAGE_COMPLETED,
    STAGE_DEAD,
    STAGE_QUEUES,
    STAGE_TYPES,
    STAGE_END,
};

struct snapshot {
    enum stage stage;
    bool begun; /* `at` is the last entry of its tree so far */
    struct btree_entry at;
    bool in_queue, parked; /* in the queue of that name; in its parked jobs */
    struct buf name;
    uint32_t type;
    struct btree_entry *moved; /* ids */
    size_t moved_count, moved_cap;
};

_Static_assert(JOB_NAME_MAX <= TEXT_MAX, "a name fits");

/* --- bytes --- */

static void add_number(struct buf *out, uint64_t v, size_t bytes)
{
    char text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(v >> (8 * i));
    buf_add(out, text, bytes);
}

/* Returns where its items begin, for end_block. */
static size_t begin_block(struct buf *out, enum snapshot_block kind, uint32_t number, size_t count)
{
    buf_byte(out, (char)kind);
    add_number(out, number, 4);
    add_number(out, count, 4);
    add_number(out, 0, 4);
    return out->len;
}

static void end_block(struct buf *out, size_t items)
{
    size_t end = out->len;
    must(end - items <= UINT32_MAX);
    out->len = items - 4;
    add_number(out, end - items, 4);
    out->len = end;
}

static void add_text(struct buf *out, struct str s)
{
    must(s.len <= TEXT_MAX);
    buf_byte(out, (char)(unsigned char)s.len);
    buf_str(out, s);
}

static uint64_t zigzag(uint64_t d)
{
    return d << 1 ^ (0 - (d >> 63));
}

/* Which of its sizes is enough: the first one is no byte, the last one eight or as many as there
 * are. */
static unsigned choose(int part, uint64_t v)
{
    const uint8_t *sizes = entry_sizes[part];
    return (unsigned)(v != 0) + (unsigned)(v >> (8 * sizes[1]) != 0) +
           (unsigned)(v >> (8 * sizes[2]) != 0);
}

/* Writes eight bytes for each part, however long it is: there must be room for that. */
static char *write_entry(char *at, const struct btree_entry *e, const struct btree_entry *before)
{
    const uint64_t parts[PARTS] = {e->major - before->major, zigzag(e->hi - before->hi),
                                   zigzag(e->lo - before->lo), e->val ^ before->val};
    char *sizes = at++;
    unsigned bits = 0;
    for (int p = 0; p < PARTS; p++) {
        unsigned n = choose(p, parts[p]);
        uint64_t bytes = parts[p];
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        bytes = __builtin_bswap64(bytes);
#endif
        memcpy(at, &bytes, sizeof bytes);
        at += entry_sizes[p][n];
        bits |= n << (2 * p);
    }
    *sizes = (char)bits;
    return at;
}

static void add_entries(struct buf *out, enum snapshot_block kind, uint32_t number,
                        const struct btree_entry *list, size_t count)
{
    struct btree_entry before = {0};
    if (count == 0)
        return;
    size_t items = begin_block(out, kind, number, count);
    char *at = buf_room(out, count * SNAPSHOT_ENTRY_MAX + sizeof(uint64_t)), *from = at;
    for (size_t i = 0; i < count; i++) {
        at = write_entry(at, &list[i], &before);
        before = list[i];
    }
    out->len += (size_t)(at - from);
    end_block(out, items);
}

/* --- trees --- */

/* The next page of a tree; 0 and back to the beginning at its end. */
static size_t next_page(struct snapshot *s, const struct btree *t, struct btree_entry page[PAGE],
                        size_t most)
{
    size_t n = btree_page(t, s->begun ? &s->at : NULL, page, most < PAGE ? most : PAGE);
    s->begun = n > 0;
    if (n > 0)
        s->at = page[n - 1];
    return n;
}

static size_t step_ids(struct snapshot *s, const struct btree *t, size_t most, struct buf *out)
{
    struct btree_entry page[PAGE];
    size_t n = next_page(s, t, page, most);
    for (size_t i = 0; i < n; i++)
        page[i].major = page[i].val = 0;
    add_entries(out, SNAPSHOT_READ, 0, page, n);
    return n;
}

static size_t step_due(struct snapshot *s, const struct engine *e, size_t most, struct buf *out)
{
    struct btree_entry page[PAGE];
    size_t n = next_page(s, &e->deadlines, page, most), jobs = 0;
    for (size_t i = 0; i < n; i++) {
        enum due_kind kind = DUE_VAL_KIND(page[i].val);
        if (kind == DUE_READY || kind == DUE_PURGE)
            page[jobs++] = page[i];
    }
    add_entries(out, SNAPSHOT_DUE, 0, page, jobs);
    return n;
}

static size_t step_ended(struct snapshot *s, const struct engine *e, bool dead, size_t most,
                         struct buf *out)
{
    struct btree_entry page[PAGE];
    size_t n = next_page(s, &e->ended[dead], page, most);
    add_entries(out, dead ? SNAPSHOT_DEAD : SNAPSHOT_COMPLETED, 0, page, n);
    return n;
}

/* --- queues --- */

/* The next queue by name; NULL at the end. */
static const struct queue *enter_queue(struct snapshot *s, const struct engine *e, struct buf *out)
{
    const struct queue *q = engine_queue_after(e, buf_view(&s->name));
    if (!q)
        return NULL;
    s->name.len = 0;
    buf_str(&s->name, q->name);
    s->in_queue = true;
    s->parked = s->begun = false;
    size_t items = begin_block(out, SNAPSHOT_QUEUES, 0, 1);
    add_number(out, q->index, 4);
    add_text(out, q->name);
    end_block(out, items);
    return q;
}

/* A queue that was dropped meanwhile has left nothing that is not touched. */
static size_t step_queues(struct snapshot *s, const struct engine *e, size_t most, struct buf *out)
{
    struct btree_entry page[PAGE];
    const struct queue *q;
    if (!s->in_queue)
        return enter_queue(s, e, out) ? QUEUE_COST : 0;
    q = engine_queue_find(e, buf_view(&s->name));
    size_t n = q ? next_page(s, s->parked ? &q->parked : &q->ready, page, most) : 0;
    for (size_t i = 0; i < n; i++) {
        page[i].val &= READY_VAL_STATE;
        if (s->parked)
            page[i].major &= (1u << RANK_BITS) - 1;
    }
    if (n > 0)
        add_entries(out, s->parked ? SNAPSHOT_PARKED : SNAPSHOT_READY, q->index, page, n);
    else if (!s->parked && q)
        s->parked = true;
    else
        s->in_queue = false;
    return n + 1;
}

static size_t step_types(struct snapshot *s, const struct engine *e, size_t most, struct buf *out)
{
    uint32_t left = e->type_count - s->type, n = most < left ? (uint32_t)most : left;
    if (n == 0)
        return 0;
    size_t items = begin_block(out, SNAPSHOT_TYPES, s->type + 1, n);
    for (uint32_t i = 0; i < n; i++)
        add_text(out, e->types[++s->type]);
    end_block(out, items);
    return n;
}

/* --- all of it --- */

static size_t step_head(struct snapshot *s, struct buf *out)
{
    if (s->begun) {
        s->begun = false;
        return 0;
    }
    s->begun = true;
    size_t items = begin_block(out, SNAPSHOT_HEAD, 0, 1);
    buf_byte(out, SNAPSHOT_VERSION);
    end_block(out, items);
    return 1;
}

/* 0: this stage is over. */
static size_t step(struct snapshot *s, const struct engine *e, size_t most, struct buf *out)
{
    switch (s->stage) {
    case STAGE_HEAD:
        return step_head(s, out);
    case STAGE_LIVE:
        return step_ids(s, &e->live_order, most, out);
    case STAGE_UNIQUE:
        return step_ids(s, &e->unique, most, out);
    case STAGE_ALIASES:
        return step_ids(s, &e->aliases, most, out);
    case STAGE_MADE:
        return step_ids(s, &e->made, most, out);
    case STAGE_END_BY:
        return step_ids(s, &e->end_by, most, out);
    case STAGE_GROUPS:
        return step_ids(s, &e->group_members, most, out);
    case STAGE_ODD:
        return step_ids(s, &e->odd, most, out);
    case STAGE_DUE:
        return step_due(s, e, most, out);
    case STAGE_COMPLETED:
    case STAGE_DEAD:
        return step_ended(s, e, s->stage == STAGE_DEAD, most, out);
    case STAGE_QUEUES:
        return step_queues(s, e, most, out);
    case STAGE_TYPES:
        return step_types(s, e, most, out);
    case STAGE_END:
        break;
    }
    return 0;
}

void engine_snapshot_begin(struct engine *e)
{
    engine_snapshot_drop(e);
    e->snapshot = ALLOC(struct snapshot);
}

bool engine_snapshot_step(struct engine *e, size_t most, struct buf *out)
{
    struct snapshot *s = e->snapshot;
    must(s && most > 0);
    while (most > 0 && s->stage != STAGE_END) {
        size_t n = step(s, e, most, out);
        if (n == 0)
            s->stage++;
        most -= n < most ? n : most;
    }
    add_entries(out, SNAPSHOT_READ, 0, s->moved, s->moved_count);
    s->moved_count = 0;
    if (s->stage != STAGE_END)
        return true;
    end_block(out, begin_block(out, SNAPSHOT_END, 0, 0));
    engine_snapshot_drop(e);
    return false;
}

void engine_snapshot_drop(struct engine *e)
{
    struct snapshot *s = e->snapshot;
    if (!s)
        return;
    buf_fini(&s->name);
    free(s->moved);
    free(s);
    e->snapshot = NULL;
}

bool engine_snapshot_is_under_way(const struct engine *e)
{
    return e->snapshot != NULL;
}

uint64_t engine_snapshot_size(const struct engine *e)
{
    uint64_t jobs = 0;
    for (int s = 0; s < STATUS_COUNT; s++)
        jobs += e->totals[s];
    return jobs;
}

void engine_snapshot_add_moved(struct engine *e, struct id id)
{
    struct snapshot *s = e->snapshot;
    ALLOC_GROW(s->moved, s->moved_count, s->moved_cap, 64);
    s->moved[s->moved_count++] = (struct btree_entry){.hi = id.hi, .lo = id.lo};
}

/* --- jobs that need more than their entry --- */

void engine_odd_set(struct engine *e, struct id id, enum odd why)
{
    struct btree_entry entry = {.hi = id.hi, .lo = id.lo, .val = why}, old;
    if (btree_remove(&e->odd, entry, &old))
        entry.val |= old.val;
    must(btree_put(&e->odd, entry));
}

void engine_odd_clear(struct engine *e, struct id id, enum odd why)
{
    struct btree_entry entry = {.hi = id.hi, .lo = id.lo}, old;
    if (!btree_remove(&e->odd, entry, &old))
        return;
    old.val &= ~(uint64_t)why;
    if (old.val)
        must(btree_put(&e->odd, old));
}
