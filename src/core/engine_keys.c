/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of jobs in flight that have the same concurrency key.
 *
 * A key costs memory only while a job with it is in flight or parked. The key of a waiting job is
 * not known before the job is the next to be handed out. If the key is full then, the job is
 * parked: it leaves the ready order, so that it does not block other jobs, and enters the order of
 * its key. Each end of a run of that key allows one parked job to be released, which moves it back
 * to the ready order; the next dispatch does that. So while jobs of a key are parked, at least as
 * many of its jobs as the limit are in flight, ready or to be released, and no parked job is
 * forgotten. A released job that must stay off a node, or draws on budgets, does not use up the
 * release, for there may be nobody who may have it. Keys are identified by a 64-bit hash with a
 * secret seed. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* Moves of parked jobs in one dispatch: each is a read or less. */
#define MOVES_MAX 1000

struct key_slot {
    struct queue *queue;
    struct list node;    /* in queue->slots */
    struct list release; /* in engine->releases iff to_release > 0 */
    uint64_t hash;
    uint64_t number; /* unlike that of any other slot; below 2^47 */
    uint32_t live;   /* jobs in flight */
    size_t parked;
    size_t to_release; /* parked jobs that are to be ready again; at most `parked` */
};

static struct id slot_key(const struct queue *q, uint64_t hash)
{
    return (struct id){(uint64_t)q->index + 1, hash};
}

static uint64_t hash_of(const struct engine *e, const struct job *job)
{
    return strmap_hash(e->unique_seed, job->options.concurrency_key);
}

static struct key_slot *find(const struct engine *e, const struct queue *q, const struct job *job)
{
    if (!job->options.concurrency_key.len || list_is_empty(&q->slots))
        return NULL;
    return idmap_get(&e->keys, slot_key(q, hash_of(e, job)));
}

static struct key_slot *slot_get(struct engine *e, struct queue *q, uint64_t hash)
{
    struct key_slot *k = idmap_get(&e->keys, slot_key(q, hash));
    if (k)
        return k;
    k = ALLOC(struct key_slot);
    k->queue = q;
    k->hash = hash;
    k->number = ++e->key_number;
    list_init(&k->node);
    list_init(&k->release);
    list_append(&q->slots, &k->node);
    idmap_put(&e->keys, slot_key(q, hash), k);
    return k;
}

static void drop_if_unused(struct engine *e, struct key_slot *k)
{
    if (k->live || k->parked)
        return;
    list_unlink(&k->node);
    list_unlink(&k->release);
    must(idmap_remove(&e->keys, slot_key(k->queue, k->hash)) == k);
    free(k);
}

static uint32_t limit_of(const struct queue *q)
{
    return q->limits ? q->limits->set.concurrency_per_key : 0;
}

static bool is_full(const struct key_slot *k)
{
    uint32_t limit = limit_of(k->queue);
    return limit && k->live >= limit;
}

static void release_later(struct engine *e, struct key_slot *k, size_t places)
{
    k->to_release += places;
    if (k->to_release > k->parked)
        k->to_release = k->parked;
    if (k->to_release && list_is_empty(&k->release))
        list_append(&e->releases, &k->release);
}

/* --- jobs in flight --- */

struct key_slot *engine_key_begin(struct engine *e, struct queue *q, const struct job *job)
{
    if (!job->options.concurrency_key.len)
        return NULL;
    struct key_slot *k = slot_get(e, q, hash_of(e, job));
    k->live++;
    q->full_keys += k->live == limit_of(q);
    return k;
}

void engine_key_end(struct engine *e, struct key_slot *k)
{
    must(k->live > 0);
    k->queue->full_keys -= k->live == limit_of(k->queue);
    k->live--;
    if (!is_full(k))
        release_later(e, k, 1);
    drop_if_unused(e, k);
}

struct key_slot *engine_key_move(struct engine *e, struct key_slot *from, struct queue *q)
{
    if (!from || from->queue == q)
        return from;
    struct key_slot *to = slot_get(e, q, from->hash);
    to->live++;
    q->full_keys += to->live == limit_of(q);
    engine_key_end(e, from);
    return to;
}

/* --- parking --- */

static struct btree_entry parked_entry(const struct key_slot *k, uint32_t rank, struct id id,
                                       uint64_t val)
{
    return (struct btree_entry){k->number << RANK_BITS | rank, id.hi, id.lo, val};
}

struct err engine_key_check(struct engine *e, struct queue *q, struct btree_entry entry,
                            bool *parked)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct id id = {entry.hi, entry.lo};
    *parked = false;
    if (q->full_keys == 0)
        return err_none();
    unsigned want = entry.val & READY_VAL_STATE ? PORT_STATE : 0;
    struct err err = e->port.load_job(e->port.ctx, id, want, &scratch, &job, &extent);
    struct key_slot *k = err.code == ERR_OK ? find(e, q, &job) : NULL;
    if (k && is_full(k)) {
        uint32_t rank = engine_rank(&job.state);
        must(engine_ready_remove(e, q, rank, id));
        must(engine_order_put(e, &q->parked,
                              parked_entry(k, rank, id, entry.val & READY_VAL_STATE)));
        q->counts[STATUS_READY]++;
        k->parked++;
        e->moves++;
        *parked = true;
    }
    arena_fini(&scratch);
    return err;
}

/* Moves the first parked job of the key back to the ready order. */
static void release_first(struct engine *e, struct key_slot *k)
{
    struct queue *q = k->queue;
    struct btree_entry first;
    must(btree_at_least(&q->parked, (struct btree_entry){k->number << RANK_BITS, 0, 0, 0}, &first));
    must(first.major >> RANK_BITS == k->number);
    must(engine_order_remove(e, &q->parked, first));
    struct id id = {first.hi, first.lo};
    q->counts[STATUS_READY]--;
    k->parked--;
    e->moves++;
    uint32_t rank = (uint32_t)first.major & ((1u << RANK_BITS) - 1);
    engine_ready_add(e, q, rank, id, (unsigned)(first.val & READY_VAL_BITS));
    if (!engine_line_is_for(e, id) || k->to_release > k->parked)
        k->to_release--;
}

void engine_keys_release(struct engine *e)
{
    e->moves = 0;
    while (!list_is_empty(&e->releases) && !engine_keys_budget_spent(e)) {
        struct key_slot *k = LIST_OF(e->releases.next, struct key_slot, release);
        while (k->to_release && !engine_keys_budget_spent(e))
            release_first(e, k);
        if (k->to_release)
            return;
        list_unlink(&k->release);
        drop_if_unused(e, k);
    }
}

bool engine_keys_budget_spent(const struct engine *e)
{
    return e->moves >= MOVES_MAX;
}

bool engine_key_unpark(struct engine *e, struct queue *q, const struct job *job)
{
    struct key_slot *k = find(e, q, job);
    if (!k ||
        !engine_order_remove(e, &q->parked, parked_entry(k, engine_rank(&job->state), job->id, 0)))
        return false;
    q->counts[STATUS_READY]--;
    k->parked--;
    if (k->to_release > k->parked)
        k->to_release = k->parked;
    if (!k->to_release)
        list_unlink(&k->release);
    drop_if_unused(e, k);
    return true;
}

void engine_key_left(struct engine *e, const struct queue *q, const struct job *job)
{
    struct key_slot *k = find(e, q, job);
    if (k && !is_full(k))
        release_later(e, k, 1);
}

bool engine_key_is_parked(const struct engine *e, const struct queue *q, const struct job *job)
{
    const struct key_slot *k = find(e, q, job);
    if (!k)
        return false;
    struct btree_entry key = parked_entry(k, engine_rank(&job->state), job->id, 0), found;
    return btree_at_least(&q->parked, key, &found) && found.major == key.major &&
           found.hi == key.hi && found.lo == key.lo;
}

size_t engine_key_rank(const struct engine *e, const struct queue *q, const struct job *job,
                       size_t most)
{
    const struct key_slot *k = find(e, q, job);
    if (!k)
        return 0;
    struct btree_entry place = parked_entry(k, engine_rank(&job->state), job->id, 0);
    struct btree_entry at = {k->number << RANK_BITS, 0, 0, 0};
    size_t n = 0;
    bool more = btree_at_least(&q->parked, at, &at);
    for (; more && n < most && engine_is_before(&at, &place); n++)
        more = btree_after(&q->parked, at, &at);
    return n;
}

bool engine_key_is_full(const struct engine *e, const struct queue *q, const struct job *job,
                        uint32_t *live)
{
    const struct key_slot *k = find(e, q, job);
    *live = k ? k->live : 0;
    return k && is_full(k);
}

size_t engine_keys_parked(const struct queue *q, struct key_parked *most, size_t limit, size_t look,
                          size_t *steps)
{
    size_t n = 0;
    for (const struct list *i = q->slots.next; i != &q->slots && look > 0; i = i->next, look--) {
        const struct key_slot *k = LIST_OF(i, const struct key_slot, node);
        struct btree_entry first;
        size_t at = n;
        ++*steps;
        while (at > 0 && most[at - 1].jobs < k->parked)
            at--;
        if (k->parked == 0 || at == limit)
            continue;
        must(btree_at_least(&q->parked, (struct btree_entry){k->number << RANK_BITS, 0, 0, 0},
                            &first));
        n += n < limit;
        memmove(&most[at + 1], &most[at], (n - at - 1) * sizeof *most);
        most[at] = (struct key_parked){{first.hi, first.lo}, k->parked};
    }
    return n;
}

/* --- another limit --- */

void engine_keys_limited(struct engine *e, struct queue *q)
{
    uint32_t limit = limit_of(q);
    q->full_keys = 0;
    for (struct list *n = q->slots.next; n != &q->slots; n = n->next) {
        struct key_slot *k = LIST_OF(n, struct key_slot, node);
        q->full_keys += limit && k->live >= limit;
        if (!is_full(k))
            release_later(e, k, limit ? limit - k->live : k->parked);
    }
}

/* --- the end, and the check --- */

void engine_keys_fini(struct engine *e)
{
    for (size_t i = 0; i < e->keys.cap; i++)
        free(e->keys.slots[i].val);
    idmap_fini(&e->keys);
}

uint64_t engine_keys_bytes(const struct engine *e)
{
    return e->keys.count * sizeof(struct key_slot) + e->keys.cap * sizeof(struct idmap_slot);
}

void engine_keys_check(const struct queue *q)
{
    size_t parked = 0, full = 0;
    for (const struct list *n = q->slots.next; n != &q->slots; n = n->next) {
        const struct key_slot *k = LIST_OF(n, const struct key_slot, node);
        must(k->live || k->parked);
        must(k->to_release <= k->parked && (k->to_release > 0) == !list_is_empty(&k->release));
        parked += k->parked;
        full += is_full(k);
    }
    must(parked == q->parked.count);
    must(full == q->full_keys);
    btree_check(&q->parked);
}
