/* SPDX-License-Identifier: Apache-2.0 */

/* Who may be handed out by what is left in the budgets, and who waits for tokens.
 *
 * Who waits is a line of jobs that are alike (engine_line.c), or the gangs of a shape
 * (engine_gang_plan.c), by the place of the first of them in the ready order. Tokens of a budget
 * are for the first who waits for it: others that draw on the same budget and come after that place
 * wait, too, or a costly job would never find enough. Who finds all of its budgets but one in
 * tokens waits for that one only, and does not hold up others at the rest. It might never find all
 * of them at once, so after some moves from one to another it waits for all: as everybody waits
 * only for who comes before, the first of all is always paid in the end.
 *
 * When there are tokens, who was first is offered to takers again, and holds up nobody any more:
 * there may be no taker for it, or its queue be paused. If it is chosen when they are gone it waits
 * again at its place. So the work of a release is in proportion to what is handed out. */

#include <stdlib.h>

#include "base/must.h"
#include "core/engine_budget_internal.h"

/* Moves from one budget to another after which it waits for all. */
#define MOVES_MAX 16

/* Passes after which all may be offered. */
#define DOUBLINGS_MAX 20

static struct budget_wait *of_entry(struct btree_entry entry)
{
    return (struct budget_wait *)(uintptr_t)entry.val;
}

static struct btree_entry entry_of(const struct budget_wait *w)
{
    struct btree_entry entry = w->place;
    entry.val = (uint64_t)(uintptr_t)w;
    return entry;
}

static bool is_timed(const struct pool *p)
{
    return p->budget.policy.strategy == BUDGET_TIME_BASED;
}

/* --- tokens --- */

int64_t engine_budget_tokens(struct pool *p, instant now)
{
    if (!is_timed(p))
        return (int64_t)p->budget.policy.allocation - (int64_t)p->in_flight;
    struct rate rate = budgets_rate(&p->budget.policy);
    bucket_refill(&p->bucket, &rate, now);
    return bucket_tokens(&p->bucket, &rate);
}

instant engine_budget_next(struct pool *p, instant now, uint64_t cost)
{
    if (!is_timed(p) || cost > budgets_capacity(&p->budget.policy))
        return INSTANT_NONE;
    struct rate rate = budgets_rate(&p->budget.policy);
    bucket_refill(&p->bucket, &rate, now);
    return bucket_next(&p->bucket, &rate, (uint32_t)cost);
}

static bool has(struct pool *p, instant now, uint64_t cost)
{
    int64_t tokens = engine_budget_tokens(p, now);
    return tokens > 0 && (uint64_t)tokens >= cost;
}

/* Somebody else waits for it at an earlier place. */
static bool is_held(const struct pool *p, const struct btree_entry *place,
                    const struct budget_wait *self)
{
    struct btree_entry first;
    return btree_first(&p->waits, &first) && of_entry(first) != self &&
           engine_is_before(&first, place);
}

bool engine_budget_lacks(instant now, const struct budget_set *set, const struct btree_entry *place,
                         const struct budget_wait *self, size_t *part)
{
    for (*part = 0; *part < set->count; ++*part) {
        const struct budget_part *b = &set->parts[*part];
        if (!has(b->pool, now, b->cost) || is_held(b->pool, place, self))
            return true;
    }
    return false;
}

uint64_t engine_budget_units(instant now, const struct budget_set *set,
                             const struct btree_entry *place)
{
    size_t part;
    uint64_t least = UINT64_MAX;
    if (engine_budget_lacks(now, set, place, NULL, &part))
        return 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct budget_part *b = &set->parts[i];
        uint64_t units = (uint64_t)engine_budget_tokens(b->pool, now) / b->cost;
        least = units < least ? units : least;
    }
    return least;
}

struct budget_set *engine_budget_begin(struct engine *e, instant now, struct id id)
{
    struct budget_set *s = engine_budget_set_of(e, id);
    if (!s)
        return NULL;
    s->refs++;
    for (size_t i = 0; i < s->count; i++) {
        struct pool *p = s->parts[i].pool;
        p->in_flight += s->parts[i].cost;
        if (!instant_is_set(now) || !is_timed(p))
            continue;
        struct rate rate = budgets_rate(&p->budget.policy);
        must(has(p, now, s->parts[i].cost));
        bucket_take(&p->bucket, &rate, (uint32_t)s->parts[i].cost);
    }
    return s;
}

void engine_budget_end(struct engine *e, struct budget_set *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        struct pool *p = s->parts[i].pool;
        must(p->in_flight >= s->parts[i].cost);
        p->in_flight -= s->parts[i].cost;
        if (!is_timed(p))
            engine_budget_touch(e, p);
    }
    engine_budget_set_unref(e, s);
}

/* --- waiting --- */

void engine_budget_wait_init(struct budget_wait *w, struct budget_set *set, bool gang)
{
    *w = (struct budget_wait){.set = set, .gang = gang};
    list_init(&w->node);
}

void engine_budget_touch(struct engine *e, struct pool *p)
{
    if (list_is_empty(&p->change) && p->waits.count > 0)
        list_append(&e->budget_changes, &p->change);
}

/* Whether it waits for that part of its set. */
static bool is_at(const struct budget_wait *w, size_t part)
{
    return w->at == BUDGET_WAIT_ALL || (w->at == BUDGET_WAIT_ONE && w->part == part);
}

static void enter(struct engine *e, struct budget_wait *w)
{
    for (size_t i = 0; i < w->set->count; i++) {
        if (!is_at(w, i))
            continue;
        must(btree_put(&w->set->parts[i].pool->waits, entry_of(w)));
        engine_budget_touch(e, w->set->parts[i].pool);
    }
}

static void leave(struct engine *e, struct budget_wait *w)
{
    for (size_t i = 0; i < w->set->count; i++) {
        if (!is_at(w, i))
            continue;
        must(btree_remove(&w->set->parts[i].pool->waits, entry_of(w), NULL));
        engine_budget_touch(e, w->set->parts[i].pool);
    }
}

static bool fits(const struct budget_part *b)
{
    return b->cost <= budgets_capacity(&b->pool->budget.policy);
}

void engine_budget_wait(struct engine *e, struct budget_wait *w, size_t part,
                        const struct btree_entry *place)
{
    must(!engine_budget_waits(w));
    for (size_t i = 0; i < w->set->count; i++) {
        if (fits(&w->set->parts[i]))
            continue;
        w->at = BUDGET_WAIT_MISFIT; /* it must not hold up others for ever */
        w->part = i;
        list_append(&w->set->parts[i].pool->misfits, &w->node);
        return;
    }
    w->at = w->moves >= MOVES_MAX ? BUDGET_WAIT_ALL : BUDGET_WAIT_ONE;
    w->part = part;
    w->place = *place;
    enter(e, w);
}

void engine_budget_wait_end(struct engine *e, struct budget_wait *w)
{
    if (!engine_budget_waits(w))
        return;
    leave(e, w);
    list_unlink(&w->node);
    w->at = BUDGET_WAIT_NONE;
}

void engine_budget_wait_move(struct engine *e, struct budget_wait *w,
                             const struct btree_entry *place)
{
    if (w->at == BUDGET_WAIT_MISFIT)
        return;
    leave(e, w);
    w->place = *place;
    enter(e, w);
}

/* --- releases --- */

void engine_budget_disarm(struct engine *e, struct pool *p)
{
    if (instant_is_set(p->wake))
        engine_deadline_remove(e, p->wake, (struct id){3, p->number});
    p->wake = INSTANT_NONE;
}

/* It is to be looked at again when it can pay its first waiter. */
static void arm(struct engine *e, instant now, struct pool *p, uint64_t cost)
{
    instant at = engine_budget_next(p, now, cost);
    if (at.ms == p->wake.ms || (instant_is_set(at) && at.ms <= now.ms))
        return;
    engine_budget_disarm(e, p);
    if (!instant_is_set(at))
        return;
    p->wake = at;
    uint64_t address = (uint64_t)(uintptr_t)p;
    must((address & 7) == 0);
    engine_deadline_add(e, at, (struct id){3, p->number}, address | DUE_BUDGET);
}

void engine_budget_due(struct engine *e, uint64_t val)
{
    struct pool *p = (struct pool *)(uintptr_t)(val & ~(uint64_t)7);
    p->wake = INSTANT_NONE; /* it has just fired */
    engine_budget_touch(e, p);
}

static void offer(struct engine *e, struct budget_wait *w)
{
    engine_budget_wait_end(e, w);
    e->moves++;
    if (w->gang)
        engine_gang_plan_paid(e, w);
    else
        engine_line_opened(e, LIST_OF(w, struct line, wait));
}

void engine_budget_changed(struct engine *e, struct pool *p)
{
    engine_budget_disarm(e, p);
    while (!list_is_empty(&p->misfits))
        offer(e, LIST_OF(p->misfits.next, struct budget_wait, node));
    engine_budget_touch(e, p);
}

/* Counts what the waiter takes among what this pass has offered; false if that is too much. */
static bool may_offer(const struct engine *e, instant now, const struct budget_set *s,
                      unsigned pass)
{
    pass = pass < DOUBLINGS_MAX ? pass : DOUBLINGS_MAX;
    for (size_t i = 0; i < s->count; i++) {
        struct pool *p = s->parts[i].pool;
        if (p->offer_round != e->offer_round)
            p->offered = 0;
        p->offer_round = e->offer_round;
        uint64_t most = (uint64_t)engine_budget_tokens(p, now) << pass;
        if (p->offered + s->parts[i].cost > most)
            return false;
    }
    for (size_t i = 0; i < s->count; i++)
        s->parts[i].pool->offered += s->parts[i].cost;
    return true;
}

/* Offers who waits for this budget and can be paid. True if it is to be looked at again in the next
 * pass, for others could be, if nobody wants these. */
static bool settle(struct engine *e, instant now, struct pool *p, unsigned pass)
{
    struct btree_entry first;
    size_t part;
    while (btree_first(&p->waits, &first)) {
        struct budget_wait *w = of_entry(first);
        if (engine_keys_budget_spent(e))
            return true;
        if (!engine_budget_lacks(now, w->set, &w->place, w, &part)) {
            if (!may_offer(e, now, w->set, pass))
                return true;
            offer(e, w);
            continue;
        }
        if (w->at == BUDGET_WAIT_ALL || w->set->parts[part].pool == p) {
            if (w->set->parts[part].pool == p)
                arm(e, now, p, w->set->parts[part].cost);
            return false;
        }
        engine_budget_wait_end(e, w);
        w->moves++;
        e->moves++;
        engine_budget_wait(e, w, part, &first);
    }
    return false;
}

bool engine_budgets_release(struct engine *e, instant now, unsigned pass)
{
    struct list kept;
    size_t before = e->moves;
    list_init(&kept);
    e->offer_round++;
    while (!list_is_empty(&e->budget_changes)) {
        struct pool *p = LIST_OF(e->budget_changes.next, struct pool, change);
        list_unlink(&p->change);
        if (!settle(e, now, p, pass))
            continue;
        list_unlink(&p->change);
        list_append(&kept, &p->change);
        if (engine_keys_budget_spent(e))
            break;
    }
    bool more = !list_is_empty(&kept) || e->moves > before;
    while (!list_is_empty(&kept)) {
        struct list *n = kept.next;
        list_unlink(n);
        list_append(&e->budget_changes, n);
    }
    return more;
}
