/* SPDX-License-Identifier: Apache-2.0 */

/* Which gangs may be handed out, and to which takers.
 *
 * Gangs whose members need the same (numbers of jobs per queue, and per node to avoid) have one
 * shape: if one of them finds no room, the others do not either, so only the first of a shape is
 * ever planned. A shape that found no room is blocked. It is planned again when one of the queues
 * in question gets a taker with more room, or when the limit in question rises: however many gangs
 * wait, they cost nobody else anything.
 *
 * A plan is a flow: from parts (equal members of a shape) to takers. If all takers that may have a
 * member are full, members already assigned to them move to other takers, which may displace
 * further ones in turn: takers differ in their queues and nodes, and a member that could go
 * anywhere must not exclude one that could not. So a gang is handed out exactly when it fits. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/must.h"
#include "core/engine_gang_internal.h"

/* Steps of one pass over the shapes: each examines a taker or a shape. The rest is done in the next
 * turn. */
#define STEPS_MAX 50000

/* The number of members of a part that go to that taker. */
struct gang_share {
    struct gang_part *part;
    struct taker *taker;
    uint32_t count;
    struct gang_share *next_of_part, *next_of_taker;
};

static bool is_same(const struct btree_entry *a, const struct btree_entry *b)
{
    return a->major == b->major && a->hi == b->hi && a->lo == b->lo;
}

static struct gang *first_of(const struct gang_shape *s)
{
    struct btree_entry first;
    return btree_first(&s->gangs, &first) ? (struct gang *)(uintptr_t)first.val : NULL;
}

/* --- due or blocked --- */

/* Keeps engine->gangs_due in step with the shape's first gang. */
static void refresh_due(struct engine *e, struct gang_shape *s, bool due)
{
    const struct gang *first = first_of(s);
    bool has = due && first;
    if (s->is_due && has && is_same(&s->due, &first->place))
        return;
    if (s->is_due)
        must(btree_remove(&e->gangs_due, s->due, NULL));
    s->is_due = has;
    if (!has)
        return;
    s->due = first->place;
    s->due.val = (uint64_t)(uintptr_t)s;
    must(btree_put(&e->gangs_due, s->due));
}

static void wait_for(struct gang_watch *w, struct gang_wait *wait)
{
    wait->seen = w->changes;
    list_append(&w->waits, &wait->node);
}

static void block_in_flight(struct engine *e, struct gang_shape *s)
{
    refresh_due(e, s, false);
    wait_for(&e->gang_in_flight, &s->wait);
}

static void wait_no_more(struct engine *e, struct gang_shape *s)
{
    engine_budget_wait_end(e, &s->budgets);
    list_unlink(&s->wait.node);
    for (size_t i = 0; i < s->part_count; i++)
        list_unlink(&s->parts[i].wait.node);
}

static void make_due(struct engine *e, struct gang_shape *s)
{
    wait_no_more(e, s);
    refresh_due(e, s, true);
}

void engine_gang_plan_paid(struct engine *e, struct budget_wait *w)
{
    make_due(e, LIST_OF(w, struct gang_shape, budgets));
}

/* After a plan that found no room: the shape waits for everything that the search found too
 * small. */
static void block(struct engine *e, struct gang_shape *s)
{
    refresh_due(e, s, false);
    wait_for(&e->gang_watch, &s->wait);
    for (size_t i = 0; i < s->part_count; i++)
        if (s->parts[i].search == e->plan_search)
            wait_for(&s->parts[i].queue->gang_watch, &s->parts[i].wait);
}

static void changed(struct engine *e, struct gang_watch *w)
{
    if (list_is_empty(&w->waits))
        return;
    w->changes++;
    if (list_is_empty(&w->changed))
        list_append(&e->gang_changes, &w->changed);
}

void engine_gangs_room(struct engine *e, const struct taker *t)
{
    if (e->gang_shapes.count == 0)
        return;
    for (size_t i = 0; i < t->sub_count; i++) {
        struct queue *q = t->subs[i].queue;
        changed(e, q ? &q->gang_watch : &e->gang_watch);
    }
}

void engine_gangs_limits(struct engine *e, struct queue *q)
{
    changed(e, &q->gang_watch);
}

void engine_gangs_in_flight(struct engine *e)
{
    changed(e, &e->gang_in_flight);
}

void engine_gang_watch_init(struct gang_watch *w)
{
    list_init(&w->waits);
    list_init(&w->changed);
}

static bool budget_spent(const struct engine *e, uint64_t began)
{
    return e->gang_steps - began >= STEPS_MAX;
}

/* Shapes that wait for what has changed become due. Those that began to wait since are behind
 * them. */
static void take_notice(struct engine *e, uint64_t began)
{
    while (!list_is_empty(&e->gang_changes)) {
        struct gang_watch *w = LIST_OF(e->gang_changes.next, struct gang_watch, changed);
        while (!list_is_empty(&w->waits)) {
            struct gang_wait *wait = LIST_OF(w->waits.next, struct gang_wait, node);
            if (wait->seen == w->changes)
                break;
            if (budget_spent(e, began))
                return;
            e->gang_steps++;
            make_due(e, wait->shape);
        }
        list_unlink(&w->changed);
    }
}

/* --- gangs come and go --- */

static struct btree_entry place_of(const struct gang *g)
{
    struct btree_entry place = LIST_OF(g->members.next, const struct gang_member, node)->entry;
    for (const struct list *n = g->members.next; n != &g->members; n = n->next) {
        const struct gang_member *m = LIST_OF(n, const struct gang_member, node);
        if (engine_is_before(&m->entry, &place))
            place = m->entry;
    }
    place.val = (uint64_t)(uintptr_t)g;
    return place;
}

void engine_gang_plan_add(struct engine *e, struct gang *g)
{
    must(!g->shape && g->count > 0);
    e->gang_steps += g->count;
    struct gang_shape *s = engine_gang_shape(e, g);
    bool is_new = s->gangs.count == 0;
    g->shape = s;
    g->place = place_of(g);
    must(btree_put(&s->gangs, g->place));
    refresh_due(e, s, s->is_due || is_new);
    if (engine_budget_waits(&s->budgets))
        engine_budget_wait_move(e, &s->budgets, &first_of(s)->place);
}

void engine_gang_plan_remove(struct engine *e, struct gang *g)
{
    struct gang_shape *s = g->shape;
    if (!s)
        return;
    g->shape = NULL;
    must(btree_remove(&s->gangs, g->place, NULL));
    refresh_due(e, s, s->is_due);
    if (s->gangs.count > 0 && engine_budget_waits(&s->budgets))
        engine_budget_wait_move(e, &s->budgets, &first_of(s)->place);
    if (s->gangs.count > 0)
        return;
    wait_no_more(e, s);
    if (s->budgets.set)
        engine_budget_set_unref(e, s->budgets.set);
    must(strmap_remove(&e->gang_shapes, s->key) == s);
    free(s);
}

struct budget_set *engine_gang_plan_cost(const struct gang *g)
{
    return g->shape ? g->shape->budgets.set : NULL;
}

/* --- plans --- */

/* A search for takers for the gangs of a shape. */
struct plan {
    struct engine *e;
    struct gang_shape *shape;
    /* Takers and limits reserve room for everything before that place; NULL: for nothing. */
    const struct btree_entry *place;
    bool reserved; /* this made a difference to some taker or limit */
    struct arena *shares;
    struct taker *last; /* reached in this search */
};

/* How many jobs that t could have from that queue come before the place, but at most `most`. */
static uint64_t older_in(const struct queue *q, const struct taker *t,
                         const struct btree_entry *place, uint64_t most)
{
    struct str node = {t->node->bytes, t->node->len};
    struct btree_entry first;
    if (!engine_ready_first(q, t->kind, node, &first) || !engine_is_before(&first, place))
        return 0;
    uint64_t room = q->limits ? engine_limits_room(q->limits) : most;
    return engine_ready_rank(q, t->kind, node, *place, room < most ? room : most);
}

static uint32_t older_for(struct engine *e, const struct taker *t, const struct btree_entry *place,
                          uint32_t most)
{
    uint64_t n = 0;
    struct btree_entry head;
    if (t->sub_count == 1 && !t->subs[0].queue) {
        const struct btree *heads = &e->heads[t->kind];
        bool more = btree_first(heads, &head);
        for (; more && n < most && engine_is_before(&head, place); e->gang_steps++) {
            n += older_in(e->queues[head.val], t, place, most - n);
            more = btree_after(heads, head, &head);
        }
        return (uint32_t)n;
    }
    for (size_t i = 0; i < t->sub_count && n < most; i++, e->gang_steps++)
        n += older_in(t->subs[i].queue, t, place, most - n);
    return (uint32_t)n;
}

/* How many more jobs it can get. */
static uint32_t room_of(struct plan *p, struct taker *t)
{
    if (t->plan_round != p->e->plan_round) {
        t->plan_round = p->e->plan_round;
        t->plan_shares = NULL;
        t->plan_room = engine_taker_room(t);
        uint32_t older = p->place ? older_for(p->e, t, p->place, t->plan_room) : 0;
        p->reserved |= older > 0;
        t->plan_room -= older;
    }
    return t->plan_room;
}

static struct gang_share *share_get(struct plan *p, struct gang_part *part, struct taker *t)
{
    struct gang_share *s = t->plan_shares;
    while (s && s->part != part)
        s = s->next_of_taker;
    if (s)
        return s;
    s = ARENA_NEW(p->shares, struct gang_share);
    *s = (struct gang_share){.part = part, .taker = t, .next_of_taker = t->plan_shares};
    t->plan_shares = s;
    if (part->shares)
        part->last_share->next_of_part = s;
    else
        part->shares = s;
    return part->last_share = s;
}

static bool may_have(const struct taker *t, const struct gang_part *part)
{
    return t->kind == KIND_JOB &&
           (part->node.len == 0 || !str_eq((struct str){t->node->bytes, t->node->len}, part->node));
}

/* The next taker of a queue: first those that name it, then those of all queues. */
static struct sub *next_taker(const struct engine *e, const struct queue *q, const struct sub *s)
{
    const struct list *n = s ? s->all.next : q->takers.next;
    if (n == &q->takers)
        n = e->any_takers.next;
    return n == &e->any_takers ? NULL : LIST_OF(n, struct sub, all);
}

/* Gives the rest of the part to takers with room. */
static void fill(struct plan *p, struct gang_part *part)
{
    struct sub *s = next_taker(p->e, part->queue, NULL);
    for (; s && part->left > 0; s = next_taker(p->e, part->queue, s)) {
        struct taker *t = s->taker;
        p->e->gang_steps++;
        if (engine_taker_room(t) == 0 || !may_have(t, part))
            continue;
        uint32_t room = room_of(p, t), n = room < part->left ? room : part->left;
        if (n == 0)
            continue;
        share_get(p, part, t)->count += n;
        t->plan_room -= n;
        part->left -= n;
    }
}

/* Examines the takers that may have this part and were not yet reached in this search, and appends
 * them. Returns the first with room, or NULL. */
static struct taker *reach(struct plan *p, struct gang_part *part, struct taker *via)
{
    part->search = p->e->plan_search;
    part->via = via;
    struct sub *s = next_taker(p->e, part->queue, NULL);
    for (; s; s = next_taker(p->e, part->queue, s)) {
        struct taker *t = s->taker;
        p->e->gang_steps++;
        if (t->plan_search == p->e->plan_search || engine_taker_room(t) == 0 || !may_have(t, part))
            continue;
        t->plan_search = p->e->plan_search;
        t->plan_for = part;
        t->plan_next = NULL;
        if (room_of(p, t) > 0)
            return t;
        p->last->plan_next = t;
        p->last = t;
    }
    return NULL;
}

/* The taker that has room for one more of the part, if members on the way there move on. */
static struct taker *search(struct plan *p, struct gang_part *part)
{
    struct taker first = {0};
    p->e->plan_search++;
    p->last = &first;
    struct taker *found = reach(p, part, NULL);
    for (struct taker *full = first.plan_next; full && !found; full = full->plan_next)
        for (struct gang_share *s = full->plan_shares; s && !found; s = s->next_of_taker)
            if (s->count > 0 && s->part->search != p->e->plan_search)
                found = reach(p, s->part, full);
    p->last = NULL;
    return found;
}

/* How many can move along the path that led to t. */
static uint32_t width(struct plan *p, const struct gang_part *part, struct taker *t)
{
    uint32_t n = part->left < t->plan_room ? part->left : t->plan_room;
    for (struct gang_part *moved = t->plan_for; moved != part; moved = t->plan_for) {
        t = moved->via;
        uint32_t count = share_get(p, moved, t)->count;
        n = count < n ? count : n;
    }
    return n;
}

static void move_along(struct plan *p, struct gang_part *part, struct taker *t)
{
    uint32_t n = width(p, part, t);
    t->plan_room -= n;
    part->left -= n;
    for (;;) {
        struct gang_part *moved = t->plan_for;
        share_get(p, moved, t)->count += n;
        if (moved == part)
            return;
        t = moved->via;
        share_get(p, moved, t)->count -= n;
    }
}

/* Whether the limits of the part's queue have room for the members of all parts in it so far. */
static bool may_leave(struct plan *p, const struct gang_part *part)
{
    struct queue *q = part->queue;
    if (q->plan_round != p->e->plan_round)
        q->planned = 0;
    q->plan_round = p->e->plan_round;
    q->planned += part->count;
    if (!q->limits)
        return true;
    uint64_t room = engine_limits_room(q->limits), older = 0;
    if (p->place && room < UINT64_MAX)
        older = engine_ready_rank(q, KIND_JOB, (struct str){0}, *p->place, room);
    p->reserved |= older > 0;
    return engine_limits_gang_room(q->limits, older) >= q->planned;
}

static bool place_part(struct plan *p, struct gang_part *part)
{
    if (!may_leave(p, part)) {
        part->search = ++p->e->plan_search; /* only this is the cause */
        return false;
    }
    fill(p, part);
    while (part->left > 0) {
        struct taker *t = search(p, part);
        if (!t)
            return false;
        move_along(p, part, t);
    }
    return true;
}

/* Whether `count` more jobs may be in flight, after all that come before the place. */
static bool may_fly(struct plan *p, uint64_t count)
{
    struct engine *e = p->e;
    uint64_t room = engine_in_flight_room(e), older = 0;
    struct btree_entry head;
    if (room == UINT64_MAX)
        return true;
    if (room < count)
        return false;
    const struct btree *heads = &e->heads[KIND_JOB];
    bool more = p->place && btree_first(heads, &head);
    for (; more && older < room && engine_is_before(&head, p->place); e->gang_steps++) {
        const struct queue *q = e->queues[head.val];
        uint64_t most = q->limits ? engine_limits_room(q->limits) : UINT64_MAX;
        most = most < room - older ? most : room - older;
        older += engine_ready_rank(q, KIND_JOB, (struct str){0}, *p->place, most);
        more = btree_after(heads, head, &head);
    }
    p->reserved |= older > 0;
    return room - older >= count;
}

/* Finds takers for all parts, if there is room for all of them. */
static bool make_plan(struct plan *p)
{
    struct gang_shape *s = p->shape;
    p->e->plan_round++;
    arena_reset(p->shares);
    for (size_t i = 0; i < s->part_count; i++) {
        s->parts[i].left = s->parts[i].count;
        s->parts[i].shares = NULL;
    }
    for (size_t i = 0; i < s->part_count; i++, p->e->gang_steps++)
        if (!place_part(p, &s->parts[i]))
            return false;
    return true;
}

/* --- handing out --- */

/* Assigns a taker to each member. */
static void assign(struct gang *g)
{
    for (struct list *n = g->members.next; n != &g->members; n = n->next) {
        struct gang_member *m = LIST_OF(n, struct gang_member, node);
        struct gang_share *s = m->part->shares;
        while (s->count == 0)
            s = m->part->shares = s->next_of_part;
        s->count--;
        m->plan = s->taker;
    }
}

/* As soon as its first member is handed out, the gang has no shape any more. */
static struct err hand_out(struct engine *e, instant now, struct arena *a, struct gang *g)
{
    size_t count = 0;
    struct taker **takers = arena_get(a, g->count * sizeof *takers);
    assign(g);
    for (struct list *n = g->members.next; n != &g->members; n = n->next) {
        struct gang_member *m = LIST_OF(n, struct gang_member, node);
        struct taker *t = m->plan;
        if (t->plan_round == e->plan_round) /* seen for the first time */
            takers[count++] = t;
        t->plan_round = 0;
        TRY(engine_give(e, now, a, t, m->queue, m->entry));
    }
    for (size_t i = 0; i < count; i++)
        engine_taker_settle(e, now, takers[i]);
    return err_none();
}

/* While single jobs may want tokens it waits for its own among them, at its place: so older ones
 * come first, and younger ones do not. */
static bool must_wait_for_tokens(struct engine *e, instant now, struct gang_shape *s, bool last)
{
    const struct btree_entry *place = &first_of(s)->place;
    size_t part = 0;
    if (!s->budgets.set)
        return false;
    if ((last || !e->open_lines) && !engine_budget_lacks(now, s->budgets.set, place, NULL, &part))
        return false;
    engine_budget_wait(e, &s->budgets, part, place);
    return true;
}

static struct err try_shape(struct engine *e, instant now, struct arena *a, struct gang_shape *s,
                            bool last)
{
    struct gang *g = first_of(s);
    struct plan p = {
        .e = e, .shape = s, .place = last ? NULL : &g->place, .shares = &e->gang_shares};
    if (must_wait_for_tokens(e, now, s, last)) {
        refresh_due(e, s, false);
        return err_none();
    }
    bool flies = may_fly(&p, g->count);
    if (flies && make_plan(&p))
        return hand_out(e, now, a, g);
    if (!flies && !p.reserved)
        block_in_flight(e, s);
    else if (!p.reserved)
        block(e, s);
    return err_none();
}

struct err engine_gangs_dispatch(struct engine *e, instant now, struct arena *a, bool last)
{
    uint64_t began = e->gang_steps;
    if (last)
        e->gangs_budget_spent = false;
    if (e->gang_shapes.count == 0)
        return err_none();
    take_notice(e, began);
    began = e->gang_steps;
    if (!last && e->heads[KIND_JOB].count == 0)
        return err_none(); /* there is no one to precede */
    /* Continues where the last incomplete pass stopped, because otherwise later gangs would never
     * be examined. */
    struct btree_entry *at = &e->gang_place[last];
    bool from_start = at->hi == 0;
    struct btree_entry next;
    while (btree_after(&e->gangs_due, *at, &next)) {
        if (budget_spent(e, began) || engine_hand_outs_budget_spent(e)) {
            e->gangs_budget_spent |= last;
            return err_none();
        }
        *at = next;
        e->gang_steps++;
        TRY(try_shape(e, now, a, (struct gang_shape *)(uintptr_t)next.val, last));
    }
    *at = (struct btree_entry){0};
    if (last)
        e->gangs_budget_spent = !from_start || !list_is_empty(&e->gang_changes);
    return err_none();
}

uint64_t engine_gang_steps(const struct engine *e)
{
    return e->gang_steps;
}

bool engine_gangs_budget_spent(const struct engine *e)
{
    return e->gangs_budget_spent;
}

/* --- the check, and the end --- */

void engine_gang_plan_check(const struct engine *e)
{
    size_t due = 0;
    btree_check(&e->gangs_due);
    for (size_t i = 0; i < e->gang_shapes.cap; i++) {
        const struct gang_shape *s =
            e->gang_shapes.slots[i].key ? e->gang_shapes.slots[i].val : NULL;
        if (!s)
            continue;
        const struct gang *first = first_of(s);
        btree_check(&s->gangs);
        must(first && (!s->is_due || is_same(&s->due, &first->place)));
        bool waits = engine_budget_waits(&s->budgets);
        must(s->is_due == (list_is_empty(&s->wait.node) && !waits));
        due += s->is_due;
    }
    must(due == e->gangs_due.count);
}

void engine_gang_plan_fini(struct engine *e)
{
    for (size_t i = 0; i < e->gang_shapes.cap; i++) {
        struct gang_shape *s = e->gang_shapes.slots[i].key ? e->gang_shapes.slots[i].val : NULL;
        if (!s)
            continue;
        btree_fini(&s->gangs);
        free(s);
    }
    strmap_fini(&e->gang_shapes);
    btree_fini(&e->gangs_due);
    arena_fini(&e->gang_shares);
}
