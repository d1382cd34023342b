/* SPDX-License-Identifier: Apache-2.0 */

/* Which jobs have lost a part. Ids are known from the other records of a job, and from the event
 * log; RocksDB says whether the missing record ever existed: a key that is not in the filter of the
 * damaged table is not lost. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/eventlog.h"
#include "store/rocks_gap.h"
#include "store/rocks_mend_internal.h"

#define ID_LEN 16

static const struct id LAST = {UINT64_MAX, UINT64_MAX};

struct ids {
    struct id from, to; /* inclusive */
};

/* The ids whose keys of that kind lie in the gap; false if there are none. */
static bool ids_in(const struct mend_gap *g, char kind, struct ids *ids)
{
    if (g->from.at[0] > kind || g->to.at[0] < kind)
        return false;
    uint8_t bytes[ID_LEN] = {0};
    *ids = (struct ids){{0, 0}, LAST};
    if (g->from.at[0] == kind) {
        size_t len = g->from.len - 1;
        memcpy(bytes, g->from.at + 1, len < ID_LEN ? len : ID_LEN);
        ids->from = id_decode(bytes);
    }
    if (g->to.at[0] == kind) {
        size_t len = g->to.len - 1;
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, g->to.at + 1, len < ID_LEN ? len : ID_LEN);
        ids->to = id_decode(bytes);
    }
    return true;
}

static bool is_within(const struct ids *ids, struct id id)
{
    return id_cmp(id, ids->from) >= 0 && id_cmp(id, ids->to) <= 0;
}

static struct err set_apart(struct mend *m, struct id id, enum apart_part part)
{
    struct record_key key = record_apart_key(id);
    if (batch_find(&m->batch, record_key_view(&key)))
        return err_none();
    struct record_apart apart = {part, m->table};
    record_put_apart(&m->batch, id, &apart);
    if (m->jobs < MEND_NAMED_MAX)
        m->named[m->jobs] = id;
    m->jobs++;
    return mend_write(m, (size_t)4 << 20);
}

static struct err look_for(struct mend *m, struct id id, enum apart_part part)
{
    struct record_key key = part == APART_JOB     ? record_job_key(id)
                            : part == APART_STATE ? record_state_key(id)
                                                  : record_payload_key(id);
    if (mend_get(m, record_key_view(&key), NULL) != MEND_LOST)
        return err_none();
    return set_apart(m, id, part);
}

/* --- known from other records --- */

typedef bool (*is_fn)(struct str key, struct str value, struct id *id);

static bool is_job(struct str key, struct str value, struct id *id)
{
    (void)value;
    return record_key_is_job(key, id);
}

static bool has_payload_apart(struct str key, struct str value, struct id *id)
{
    struct job job;
    bool apart = false;
    return record_key_is_job(key, id) && record_read_job(value, *id, &job, &apart).code == ERR_OK &&
           apart;
}

static bool is_part(struct str key, struct str value, struct id *id)
{
    uint32_t run;
    enum note_kind kind;
    (void)value;
    return record_key_is_state(key, id) || record_key_is_payload(key, id) ||
           record_key_is_run(key, id, &run) || record_key_is_note(key, id, &kind);
}

/* If a table on the first level cannot be opened, all of the level is a gap; records of the other
 * tables are found without it. */
static struct err walk_view(struct mend *m, rocksdb_t *view, char kind, const struct ids *ids,
                            is_fn is, enum apart_part part, bool *whole)
{
    char from[1 + ID_LEN], end[2 + ID_LEN];
    from[0] = end[0] = kind;
    id_encode(ids->from, (uint8_t *)from + 1);
    id_encode(ids->to, (uint8_t *)end + 1);
    end[1 + ID_LEN] = (char)0xff; /* after everything that belongs to that id */
    struct rocks_gap_walk w;
    struct str key, value;
    struct id id, last = {0};
    struct err err = err_none();
    bool any = false;
    *whole = true;
    rocks_gap_begin(&w, view, m->reading, (struct str){from, sizeof from},
                    (struct str){end, sizeof end});
    for (; err.code == ERR_OK && rocks_gap_at(&w, &key, &value); rocks_gap_step(&w)) {
        *whole &= !w.in_gap;
        if (w.in_gap || !is(key, value, &id) || (any && id_eq(id, last)))
            continue;
        last = id;
        any = true;
        err = look_for(m, id, part);
    }
    rocks_gap_end(&w);
    return err;
}

static struct err walk_kind(struct mend *m, char kind, const struct ids *ids, is_fn is,
                            enum apart_part part)
{
    bool whole;
    TRY(walk_view(m, m->all, kind, ids, is, part, &whole));
    return whole ? err_none() : walk_view(m, m->rest, kind, ids, is, part, &whole);
}

/* --- known from events --- */

struct seen {
    struct id id;
    uint64_t number; /* of the event */
    bool removed;
};

/* Ids whose first record may be lost. */
struct ids_list {
    struct ids *list;
    size_t count;
};

static bool is_within_any(const struct ids_list *all, struct id id)
{
    for (size_t i = 0; i < all->count; i++)
        if (is_within(&all->list[i], id))
            return true;
    return false;
}

struct seen_list {
    struct seen *list;
    size_t count, cap;
};

static void add_seen(struct seen_list *s, const struct job_event *ev)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->list = alloc_resize(s->list, s->cap * sizeof *s->list);
    }
    s->list[s->count++] = (struct seen){ev->id, ev->number, ev->removed};
}

static int compare_seen(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    int order = id_cmp(x->id, y->id);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* What does not decode names no jobs. */
static void read_events(struct seen_list *s, const struct ids_list *ids, uint64_t first,
                        struct str value)
{
    struct eventlog_head head;
    struct eventlog_reader r;
    struct job_event ev;
    bool more = true;
    struct err err = eventlog_open(value, first, &head, &r);
    while (err.code == ERR_OK && more) {
        err = eventlog_next(&r, &more, &ev);
        if (err.code == ERR_OK && more && is_within_any(ids, ev.id))
            add_seen(s, &ev);
    }
}

static bool walk_events_of(struct mend *m, rocksdb_t *view, const struct ids_list *ids,
                           struct seen_list *s)
{
    struct rocks_gap_walk w;
    struct str key, value;
    uint64_t first;
    bool whole = true;
    rocks_gap_begin(&w, view, m->reading, STR("V"), STR("W"));
    for (; rocks_gap_at(&w, &key, &value); rocks_gap_step(&w)) {
        whole &= !w.in_gap;
        if (!w.in_gap && eventlog_key_is(key, &first))
            read_events(s, ids, first, value);
    }
    rocks_gap_end(&w);
    return whole;
}

static struct err walk_events(struct mend *m, const struct ids_list *ids)
{
    struct seen_list s = {0};
    struct err err = err_none();
    if (!walk_events_of(m, m->all, ids, &s))
        walk_events_of(m, m->rest, ids, &s);
    if (s.count)
        qsort(s.list, s.count, sizeof *s.list, compare_seen);
    for (size_t i = 0; i < s.count && err.code == ERR_OK; i++) {
        bool newest = i + 1 == s.count || !id_eq(s.list[i].id, s.list[i + 1].id);
        if (newest && !s.list[i].removed)
            err = look_for(m, s.list[i].id, APART_JOB);
    }
    free(s.list);
    return err;
}

static struct err look_at_gap(struct mend *m, const struct mend_gap *g)
{
    static const char parts[] = {'S', 'P', 'R', 'O'};
    struct ids ids;
    if (ids_in(g, 'J', &ids)) {
        for (size_t i = 0; i < sizeof parts; i++)
            TRY(walk_kind(m, parts[i], &ids, is_part, APART_JOB));
    }
    if (ids_in(g, 'S', &ids))
        TRY(walk_kind(m, 'J', &ids, is_job, APART_STATE));
    if (ids_in(g, 'P', &ids))
        TRY(walk_kind(m, 'J', &ids, has_payload_apart, APART_PAYLOAD));
    return err_none();
}

struct err mend_jobs(struct mend *m)
{
    struct ids_list lost = {alloc_get(m->gap_count * sizeof *lost.list + 1), 0};
    struct err err = err_none();
    for (size_t i = 0; i < m->gap_count && err.code == ERR_OK; i++) {
        err = look_at_gap(m, &m->gaps[i]);
        lost.count += ids_in(&m->gaps[i], 'J', &lost.list[lost.count]);
    }
    if (err.code == ERR_OK && lost.count)
        err = walk_events(m, &lost);
    free(lost.list);
    return err;
}
