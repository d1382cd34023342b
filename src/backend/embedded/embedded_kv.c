/* SPDX-License-Identifier: Apache-2.0 */

/* The entries that front ends keep. They are read from the disk, and from the two batches that are
 * not there yet: these have no order, so each turn has the keys of its entries in order beside it.
 * What expires lies in a second index of the store, by time; the earliest time is known, so nobody
 * looks there before something is due. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/must.h"

#define EXPIRE_PER_TURN 256
#define REMOVE_AT_ONCE  256
/* Entries that a list walks over, and bytes of their values, before it ends early. */
#define LOOK_MAX   4096
#define PAGE_BYTES ((size_t)4 << 20)

/* --- keys of a turn --- */

/* The first that is not before that key. */
static size_t place_of(const struct kv_keys *k, struct str key)
{
    size_t lo = 0, hi = k->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (str_cmp(k->list[mid], key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The batch has a copy of the key, which stays where it is. */
static void note_key(struct turn *t, struct str key)
{
    struct kv_keys *k = &t->kv;
    bool last = k->count && str_cmp(k->list[k->count - 1], key) < 0;
    size_t at = last ? k->count : place_of(k, key);
    if (at < k->count && str_eq(k->list[at], key))
        return;
    ALLOC_GROW(k->list, k->count, k->cap, 16);
    memmove(k->list + at + 1, k->list + at, (k->count - at) * sizeof *k->list);
    k->list[at] = batch_find(&t->batch, key)->key;
    k->count++;
}

/* --- one entry --- */

static bool is_live(const struct embedded *b, const struct kv_entry *e)
{
    return !instant_is_set(e->expires) || e->expires.ms > b->now.ms;
}

/* In the arena; its version is 0 if there is none, or its time is over. What has expired is still
 * *stored, with its time. */
static struct err load(struct embedded *b, struct str space, struct str key, struct arena *a,
                       struct kv_entry *e, struct kv_entry *stored)
{
    char room[RECORD_KV_KEY_MAX];
    struct str value;
    bool found;
    *e = (struct kv_entry){.space = space, .key = key, .expires = INSTANT_NONE};
    *stored = *e;
    TRY(embedded_read_at(b, record_kv_key(space, key, room), a, &found, &value));
    if (!found)
        return err_none();
    TRY(record_read_kv(value, stored));
    if (is_live(b, stored))
        *e = *stored;
    return err_none();
}

static void drop(struct embedded *b, const struct kv_entry *stored)
{
    if (!stored->version)
        return;
    record_delete_kv(&b->building->batch, stored);
    embedded_answers_drop(b, stored);
}

static instant sooner(instant a, instant b)
{
    if (!instant_is_set(a) || !instant_is_set(b))
        return instant_is_set(a) ? a : b;
    return instant_min(a, b);
}

static void put(struct embedded *b, struct kv_entry *e)
{
    struct turn *t = b->building;
    char room[RECORD_KV_KEY_MAX];
    e->version = ++b->kv.newest;
    record_put_kv(&t->batch, e);
    record_put_kv_newest(&t->batch, e->version);
    note_key(t, record_kv_key(e->space, e->key, room));
    b->kv.due = sooner(b->kv.due, e->expires);
    b->kv.due_unsealed = sooner(b->kv.due_unsealed, e->expires);
    embedded_answers_put(b, e);
}

void embedded_kv_keep(struct embedded *b, struct kv_entry *e)
{
    struct arena scratch = {0};
    struct kv_entry present, stored;
    struct err err = load(b, e->space, e->key, &scratch, &present, &stored);
    if (err.code == ERR_OK)
        drop(b, &stored);
    put(b, e);
    arena_fini(&scratch);
}

void embedded_kv_forget(struct embedded *b, const struct kv_entry *e)
{
    struct arena scratch = {0};
    struct kv_entry present, stored;
    struct err err = load(b, e->space, e->key, &scratch, &present, &stored);
    if (err.code == ERR_OK)
        drop(b, &stored);
    arena_fini(&scratch);
}

static struct kv_entry own(struct arena *a, const struct kv_entry *e)
{
    return (struct kv_entry){arena_copy(a, e->space), arena_copy(a, e->key),
                             arena_copy(a, e->value), e->expires, e->version};
}

struct err embedded_kv_load(struct embedded *b, struct str space, struct str key, struct arena *a,
                            struct kv_entry *e)
{
    struct kv_entry stored;
    return load(b, space, key, a, e, &stored);
}

/* --- changes --- */

static bool allows(const struct kv_change *c, const struct kv_entry *present)
{
    switch (c->when) {
    case KV_ANY:
        return true;
    case KV_ABSENT:
        return present->version == 0;
    case KV_VERSION:
        return present->version == c->entry.version;
    }
    must(false);
    return false;
}

static void refuse(struct reply *r, size_t index, struct arena *a, const struct kv_entry *present)
{
    r->err = err_make(ERR_CONFLICT, "entry %zu is not as the change asks: %s", index,
                      present->version ? "it is there, with another version" : "there is none");
    r->kv = ARENA_NEW(a, struct kv_entry);
    r->kv[0] = own(a, present);
    r->count = 1;
    r->kv_refused = index;
}

/* Reads all that is there before anything is changed, for a read may fail, too. */
static bool check_present(struct embedded *b, const struct kv_put *c, struct arena *a,
                          struct reply *r, struct kv_entry *stored)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct kv_change *change = &c->changes[i];
        struct kv_entry present;
        r->err = load(b, change->entry.space, change->entry.key, a, &present, &stored[i]);
        if (r->err.code == ERR_OK && !allows(change, &present))
            refuse(r, i, a, &present);
        if (r->err.code != ERR_OK)
            return false;
    }
    return true;
}

void embedded_kv_put(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct kv_put *c = &command->kv_put;
    struct arena *a = &b->building->arena;
    struct kv_entry stored[KV_CHANGES_MAX];
    r->err = kv_check_put(c);
    if (r->err.code != ERR_OK || !check_present(b, c, a, r, stored))
        return;
    if (c->artifact)
        r->err = engine_artifact(b->engine, b->now, c->artifact->job, c->artifact->run,
                                 c->artifact->name);
    if (r->err.code != ERR_OK)
        return;
    b->building->syncs |= c->sync;
    r->kv = arena_get(a, c->count * sizeof *r->kv);
    r->count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        struct kv_entry *e = &r->kv[i];
        const struct kv_entry none = {
            .space = stored[i].space, .key = stored[i].key, .expires = INSTANT_NONE};
        drop(b, &stored[i]);
        *e = own(a, c->changes[i].remove ? &none : &c->changes[i].entry);
        if (!c->changes[i].remove)
            put(b, e);
    }
}

/* --- reading in order --- */

/* All entries whose keys begin in one way, in order: what is durable, being committed and being
 * built, put together. */
struct kv_walk {
    struct embedded *b;
    struct store_cursor *cursor;
    const struct turn *turns[2]; /* the one being built, the one being committed or NULL */
    size_t at[2];
    bool here[2], durable; /* which of them stand at the present key */
    char room[RECORD_KV_KEY_MAX];
    struct str prefix;
};

/* From the first key on that is not before `from`, or is after it. */
static void walk_begin(struct kv_walk *w, struct embedded *b, struct str prefix, struct str from,
                       bool after)
{
    struct str key, value;
    *w = (struct kv_walk){.b = b, .turns = {b->building, b->committing}};
    memcpy(w->room, prefix.at, prefix.len);
    w->prefix = (struct str){w->room, prefix.len};
    w->cursor = store_cursor_new(b->env.store);
    store_cursor_seek(w->cursor, b->env.store, from, false);
    w->durable =
        after && store_cursor_at(w->cursor, b->env.store, &key, &value) && str_eq(key, from);
    for (int i = 0; i < 2 && w->turns[i]; i++) {
        const struct kv_keys *k = &w->turns[i]->kv;
        w->at[i] = place_of(k, from);
        w->here[i] = after && w->at[i] < k->count && str_eq(k->list[w->at[i]], from);
    }
}

static struct err walk_end(struct kv_walk *w)
{
    return store_cursor_free(w->cursor, w->b->env.store);
}

static void walk_step(struct kv_walk *w)
{
    if (w->durable)
        store_cursor_step(w->cursor, w->b->env.store, false);
    for (int i = 0; i < 2; i++)
        w->at[i] += w->here[i];
    w->durable = w->here[0] = w->here[1] = false;
}

static bool begins_with(struct str key, struct str prefix)
{
    return key.len >= prefix.len && memcmp(key.at, prefix.at, prefix.len) == 0;
}

/* The nearest key of the three, and what lies under it on the disk. */
static bool walk_find(struct kv_walk *w, struct str *key, struct str *value)
{
    struct str at[3] = {{0}};
    bool durable = store_cursor_at(w->cursor, w->b->env.store, &at[2], value);
    if (!durable || !begins_with(at[2], w->prefix))
        at[2] = (struct str){0};
    *key = at[2];
    for (int i = 0; i < 2 && w->turns[i]; i++) {
        const struct kv_keys *k = &w->turns[i]->kv;
        if (w->at[i] == k->count || !begins_with(k->list[w->at[i]], w->prefix))
            continue;
        at[i] = k->list[w->at[i]];
        if (!key->len || str_cmp(at[i], *key) < 0)
            *key = at[i];
    }
    if (!key->len)
        return false;
    for (int i = 0; i < 2; i++)
        w->here[i] = str_eq(at[i], *key);
    w->durable = str_eq(at[2], *key);
    return true;
}

/* The next entry that is stored, expired or not. It is valid until the next call. */
static bool walk_next(struct kv_walk *w, struct kv_entry *e, struct err *err)
{
    struct str key, value;
    for (;;) {
        walk_step(w);
        if (!walk_find(w, &key, &value) || !record_key_is_kv(key, &e->space, &e->key))
            return false;
        const struct batch_op *op = NULL;
        for (int i = 0; i < 2 && w->turns[i] && !op; i++)
            op = batch_find(&w->turns[i]->batch, key);
        if (op && !op->value.at)
            continue;
        *err = record_read_kv(op ? op->value : value, e);
        return err->code == ERR_OK;
    }
}

/* --- reads --- */

void embedded_kv_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct kv_entry e, stored;
    r->err = kv_check_query(&c->kv);
    if (r->err.code == ERR_OK)
        r->err = load(b, c->kv.space, c->kv.key, a, &e, &stored);
    if (r->err.code == ERR_OK && e.version == 0)
        r->err = err_make(ERR_NOT_FOUND, "there is no such entry");
    if (r->err.code != ERR_OK)
        return;
    r->kv = ARENA_NEW(a, struct kv_entry);
    r->kv[0] = own(a, &e);
    r->count = 1;
}

/* Adds one to the page; false if the page is full, or has taken long enough, before it. */
static bool add(const struct kv_query *q, const struct kv_entry *e, struct arena *a,
                struct reply *r, size_t *bytes)
{
    *bytes += e->key.len + e->value.len;
    if (r->count == q->limit || (r->count > 0 && *bytes > PAGE_BYTES))
        return false;
    r->kv[r->count++] = own(a, e);
    r->kv_after = r->kv[r->count - 1].key;
    return true;
}

static void list(struct kv_walk *w, const struct kv_query *q, struct reply *r)
{
    struct arena *a = &w->b->building->arena;
    struct kv_entry e;
    size_t bytes = 0;
    for (int looked = 0; !r->more && walk_next(w, &e, &r->err); looked++) {
        if (looked == LOOK_MAX) {
            r->kv_after = arena_copy(a, e.key);
            r->more = true;
        } else if (is_live(w->b, &e)) {
            r->more = !add(q, &e, a, r, &bytes);
        }
    }
}

void embedded_kv_list(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct kv_query *q = &c->kv;
    struct arena *a = &b->building->arena;
    char room[RECORD_KV_KEY_MAX], from[RECORD_KV_KEY_MAX];
    struct kv_walk w;
    r->err = kv_check_query(q);
    if (r->err.code != ERR_OK)
        return;
    must(q->limit > 0 && q->space.len);
    struct str prefix = record_kv_key(q->space, q->key, room), start = prefix;
    bool after = q->after.len && str_cmp(q->after, q->key) >= 0;
    if (after)
        start = record_kv_key(q->space, q->after, from);
    r->kv = arena_get(a, q->limit * sizeof *r->kv);
    walk_begin(&w, b, prefix, start, after);
    list(&w, q, r);
    struct err read = walk_end(&w);
    if (r->err.code == ERR_OK)
        r->err = read;
}

/* --- removing --- */

static void remove_one(struct embedded *b, const struct kv_query *q, struct reply *r)
{
    struct kv_entry e, stored;
    r->err = load(b, q->space, q->key, &b->building->arena, &e, &stored);
    if (r->err.code != ERR_OK)
        return;
    r->count = e.version > 0;
    drop(b, &stored);
}

void embedded_kv_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct kv_query *q = &c->kv;
    char room[RECORD_KV_KEY_MAX];
    struct kv_entry e;
    struct kv_walk w;
    r->err = kv_check_query(q);
    if (r->err.code != ERR_OK)
        return;
    if (!q->prefix) {
        remove_one(b, q, r);
        return;
    }
    struct str prefix = record_kv_key(q->space, q->key, room);
    walk_begin(&w, b, prefix, prefix, false);
    for (int i = 0; !r->more && walk_next(&w, &e, &r->err); i++) {
        if (q->space.len == 0 && e.space.at[0] == KV_LASTING)
            break; /* they come last */
        r->more = i == REMOVE_AT_ONCE;
        r->count += !r->more && is_live(b, &e);
        if (!r->more)
            drop(b, &e);
    }
    struct err read = walk_end(&w);
    if (r->err.code == ERR_OK)
        r->err = read;
}

/* --- expiry --- */

void embedded_kv_sealed(struct embedded *b)
{
    b->kv.due_unsealed = INSTANT_NONE;
}

bool embedded_kv_due(const struct embedded *b, instant *at)
{
    *at = b->kv.due;
    return instant_is_set(*at) && b->health == HEALTH_GOOD && !b->committing;
}

/* One that is due by the index, unless the entry has another time by now. */
static struct err expire(struct embedded *b, struct str index_key, const struct kv_entry *due)
{
    struct arena scratch = {0};
    struct kv_entry e, stored;
    struct err err = load(b, due->space, due->key, &scratch, &e, &stored);
    if (err.code == ERR_OK && stored.expires.ms == due->expires.ms)
        drop(b, &stored);
    else if (err.code == ERR_OK)
        batch_delete(&b->building->batch, index_key);
    arena_fini(&scratch);
    return err;
}

/* Deletes what is due, and finds out what is next; nothing is being committed. */
static struct err expire_some(struct embedded *b, struct store_cursor *c, bool *more)
{
    char room[RECORD_KV_KEY_MAX];
    struct str key, value, none = {0};
    struct kv_entry e;
    /* Nothing lies before: what did was deleted, and the store would have to pass over it. */
    store_cursor_seek(c, b->env.store, record_kv_expiry_key(b->kv.due, none, none, room), false);
    b->kv.due = b->kv.due_unsealed;
    for (int i = 0; store_cursor_at(c, b->env.store, &key, &value); i++) {
        if (!record_key_is_kv_expiry(key, &e.expires, &e.space, &e.key))
            break;
        *more = i == EXPIRE_PER_TURN;
        if (*more || e.expires.ms > b->now.ms) {
            b->kv.due = sooner(b->kv.due, e.expires);
            break;
        }
        TRY(expire(b, key, &e));
        store_cursor_step(c, b->env.store, false);
    }
    return err_none();
}

static struct err expire_due(struct embedded *b, bool *more)
{
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = expire_some(b, c, more);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}

struct err embedded_kv_tidy(struct embedded *b, bool *more)
{
    instant due;
    bool more_answers = false;
    *more = false;
    if (embedded_kv_due(b, &due) && due.ms <= b->now.ms)
        TRY(expire_due(b, more));
    TRY(embedded_answers_shorten(b, &more_answers));
    *more |= more_answers;
    return err_none();
}

/* --- recovery --- */

static struct err recover_due(struct embedded *b, struct store_cursor *c)
{
    char room[RECORD_KV_KEY_MAX];
    struct str key, value, space, none = {0};
    instant expires;
    store_cursor_seek(c, b->env.store, record_kv_expiry_key((instant){0}, none, none, room), false);
    if (store_cursor_at(c, b->env.store, &key, &value) &&
        record_key_is_kv_expiry(key, &expires, &space, &key))
        b->kv.due = expires;
    return store_cursor_free(c, b->env.store);
}

struct err embedded_kv_recover(struct embedded *b)
{
    struct record_key key = record_kv_newest_key();
    bool found;
    b->kv = (struct kv_state){.due = INSTANT_NONE, .due_unsealed = INSTANT_NONE};
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    if (found)
        TRY(record_read_kv_newest(buf_view(&b->scratch), &b->kv.newest));
    TRY(embedded_answers_recover(b));
    return recover_due(b, store_cursor_new(b->env.store));
}
