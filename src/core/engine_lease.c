/* SPDX-License-Identifier: Apache-2.0 */

/* Leases as they are stored. The job's own state is that from before its run, as with streams; what
 * the run adds to it is in a record that all leases share that one turn granted or renewed, and
 * that goes with the last of them. A renewal moves the lease to the record of its own turn, so that
 * a long run does not keep the record of many short ones.
 *
 * And leases as they are counted: see engine_lease.h. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_grace.h"
#include "core/engine_internal.h"

/* --- counting --- */

instant engine_steady(const struct engine *e, instant now)
{
    return instant_add(now, (span){-e->lead.ms});
}

void engine_set_lead(struct engine *e, span lead)
{
    e->lead = lead;
}

instant engine_lease_end(const struct engine *e, const struct live *l)
{
    return instant_is_set(l->lease_due) ? instant_add(l->lease_due, e->lead) : INSTANT_NONE;
}

static struct btree_entry entry_of(const struct live *l)
{
    return (struct btree_entry){(uint64_t)l->lease_due.ms, l->id.hi, l->id.lo, 0};
}

void engine_lease_drop(struct engine *e, struct live *l)
{
    if (instant_is_set(l->lease_due))
        must(btree_remove(&e->lease_ends, entry_of(l), NULL));
    l->lease_due = INSTANT_NONE;
}

static void set_due(struct engine *e, struct live *l, instant due)
{
    engine_lease_drop(e, l);
    l->lease_due = engine_overtime_cut(l, instant_max(due, (instant){0}));
    must(btree_put(&e->lease_ends, entry_of(l)));
}

void engine_lease_set(struct engine *e, instant now, struct live *l, span lease)
{
    l->lease = lease;
    set_due(e, l, instant_add(engine_steady(e, now), lease));
}

/* Stored for one that the answer to its claim could have missed: a restart must know it. */
void engine_lease_confirm(struct engine *e, struct live *l)
{
    if (l->confirmed)
        return;
    l->confirmed = true;
    engine_repeat_remove(e, l);
    if (instant_is_set(l->lease_due))
        engine_lease_store(e, l);
}

struct err engine_leases_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry first;
    while (btree_first(&e->lease_ends, &first) &&
           (int64_t)first.major <= engine_steady(e, now).ms) {
        if (*most == 0) {
            *more = true;
            return err_none();
        }
        --*most;
        TRY(engine_expire(e, now, idmap_get(&e->live, (struct id){first.hi, first.lo})));
    }
    return err_none();
}

bool engine_leases_due(const struct engine *e, instant *at)
{
    struct btree_entry first;
    if (!btree_first(&e->lease_ends, &first))
        return false;
    at->ms = (int64_t)first.major + e->lead.ms;
    return true;
}

void engine_leases_grace(struct engine *e, instant now, span most)
{
    instant at = engine_steady(e, now);
    struct btree_entry next;
    /* Nobody's grace ends later than this; those that end later anyway need none. */
    int64_t last = instant_add(at, most).ms;
    size_t count = 0, cap = 0;
    struct live **list = NULL;
    for (bool any = btree_first(&e->lease_ends, &next); any && (int64_t)next.major < last;
         any = btree_after(&e->lease_ends, next, &next)) {
        ALLOC_GROW(list, count, cap, 64);
        list[count++] = idmap_get(&e->live, (struct id){next.hi, next.lo});
    }
    for (size_t i = 0; i < count; i++) {
        struct live *l = list[i];
        int64_t grace = l->lease.ms < most.ms ? l->lease.ms : most.ms;
        set_due(e, l, instant_max(l->lease_due, (instant){at.ms + grace}));
    }
    free(list);
}

/* --- storing --- */

void engine_lease_store(struct engine *e, struct live *l)
{
    must(instant_is_set(l->lease_due) && !l->taker);
    if (!e->leases) {
        e->leases = ALLOC(struct take_group);
        e->leases->seq = e->take_seq++;
    }
    if (l->group == e->leases)
        return;
    engine_take_leave(e, l);
    l->group = e->leases;
    e->leases->live++;
    list_append(&e->leased, &l->held);
}

static struct str name_of(const struct worker_name *w)
{
    return (struct str){w->bytes, w->len};
}

static struct lease lease_of(const struct engine *e, const struct live *l)
{
    return (struct lease){.id = l->id,
                          .run = l->run,
                          .token = l->token,
                          .taken_at = l->taken_at,
                          .end = engine_lease_end(e, l),
                          .length = l->lease,
                          .confirmed = l->confirmed,
                          .key = engine_repeat_key(l),
                          .max_run = l->max_run,
                          .limit = engine_overtime_at(e, l),
                          .limited_by = l->limited_by,
                          .worker = name_of(l->worker),
                          .node = l->extras ? l->extras->node : (struct str){0}};
}

void engine_leases_flush(struct engine *e, instant now)
{
    struct take_group *g = e->leases;
    size_t count = 0;
    if (!g)
        return;
    e->leases = NULL;
    if (g->live == 0) {
        free(g);
        return;
    }
    struct lease *list = alloc_get(g->live * sizeof *list);
    while (!list_is_empty(&e->leased)) {
        struct live *l = LIST_OF(e->leased.next, struct live, held);
        list_unlink(&l->held);
        list[count++] = lease_of(e, l);
    }
    must(count == g->live);
    e->port.put_leases(e->port.ctx, g->seq, now, list, count);
    free(list);
}

/* --- recovery --- */

struct restored_lease {
    struct take_group *group;
    uint32_t run;
    uint64_t token;
    instant taken_at, end;
    span length;
    bool confirmed;
    uint64_t key;
    span max_run;
    instant limit;
    unsigned limited_by;
    struct worker_name *worker, *node;
};

static void drop(struct engine *e, struct restored_lease *r)
{
    engine_worker_unref(e, r->worker);
    engine_worker_unref(e, r->node);
    free(r);
}

static struct take_group *group_of(struct engine *e, uint64_t seq)
{
    size_t n = e->lease_group_count;
    if (n && e->lease_groups[n - 1]->seq == seq)
        return e->lease_groups[n - 1];
    must(n == 0 || e->lease_groups[n - 1]->seq < seq);
    ALLOC_GROW(e->lease_groups, e->lease_group_count, e->lease_group_cap, 64);
    struct take_group *g = ALLOC(struct take_group);
    g->seq = seq;
    g->live = 1; /* until all is restored: runs may end before */
    e->lease_groups[e->lease_group_count++] = g;
    return g;
}

void engine_restore_lease(struct engine *e, uint64_t seq, const struct lease *lease)
{
    struct restored_lease *older = idmap_remove(&e->restored_leases, lease->id);
    if (older)
        drop(e, older);
    struct restored_lease *r = ALLOC(struct restored_lease);
    *r = (struct restored_lease){.group = group_of(e, seq),
                                 .run = lease->run,
                                 .token = lease->token,
                                 .taken_at = lease->taken_at,
                                 .end = lease->end,
                                 .length = lease->length,
                                 .confirmed = lease->confirmed,
                                 .key = lease->key,
                                 .max_run = lease->max_run,
                                 .limit = lease->limit,
                                 .limited_by = lease->limited_by,
                                 .worker = engine_worker_ref(e, lease->worker),
                                 .node = engine_worker_ref(e, lease->node)};
    idmap_put(&e->restored_leases, lease->id, r);
    if (seq >= e->take_seq)
        e->take_seq = seq + 1;
}

/* A lease may be of a run that has ended. The state of a job that was leased by an older version
 * says so itself; since then the lease may have been renewed. */
static bool goes_on(const struct restored_lease *r, const struct job_state *s)
{
    if (s->status == STATUS_IN_FLIGHT)
        return s->runs == r->run + 1 && s->token == r->token;
    return (s->status == STATUS_SCHEDULED || s->status == STATUS_READY) && s->runs == r->run;
}

struct take_group *engine_lease_resume(const struct engine *e, struct job *job)
{
    struct job_state *s = &job->state;
    const struct restored_lease *r = idmap_get(&e->restored_leases, job->id);
    if (!r || !goes_on(r, s))
        return NULL;
    s->status = STATUS_IN_FLIGHT;
    s->dequeued_at = r->taken_at;
    s->runs = r->run + 1;
    s->token = r->token;
    s->lease_end = r->end;
    s->worker = name_of(r->worker);
    s->extras.node = name_of(r->node);
    engine_grace_clear(&s->extras);
    return r->group;
}

/* One that an older version stored beside its job says neither for how long it was, nor whether
 * anybody confirmed it: then for as long as it could be. */
void engine_lease_revive(struct engine *e, instant now, struct live *l, instant end)
{
    const struct restored_lease *r = idmap_get(&e->restored_leases, l->id);
    bool same = r && r->run == l->run && r->token == l->token;
    l->restored = true;
    l->confirmed = !same || r->confirmed;
    l->lapsed = end.ms <= now.ms;
    l->lease = same ? r->length : instant_diff(end, l->taken_at);
    if (same && r->max_run.ms)
        engine_overtime_set(e, l, r->max_run, r->limit, (enum run_limit)r->limited_by);
    set_due(e, l, engine_steady(e, end));
    if (same)
        engine_repeat_add(e, l, r->key);
}

static void forget_restored(struct engine *e)
{
    for (size_t i = 0; i < e->restored_leases.cap; i++)
        if (e->restored_leases.slots[i].val)
            drop(e, e->restored_leases.slots[i].val);
    idmap_fini(&e->restored_leases);
    free(e->lease_groups);
    e->lease_groups = NULL;
    e->lease_group_count = e->lease_group_cap = 0;
}

void engine_leases_restored(struct engine *e)
{
    for (size_t i = 0; i < e->lease_group_count; i++) {
        struct take_group *g = e->lease_groups[i];
        if (--g->live > 0)
            continue;
        e->port.delete_takes(e->port.ctx, g->seq);
        free(g);
    }
    forget_restored(e);
}

void engine_leases_clock_back(struct engine *e)
{
    for (size_t i = 0; i < e->live.cap; i++) {
        struct live *l = e->live.slots[i].val;
        if (l && l->group && !l->taker)
            engine_lease_store(e, l);
    }
}

/* Groups with runs go with these. */
void engine_leases_fini(struct engine *e)
{
    if (e->leases && e->leases->live == 0)
        free(e->leases);
    for (size_t i = 0; i < e->lease_group_count; i++)
        if (--e->lease_groups[i]->live == 0)
            free(e->lease_groups[i]);
    forget_restored(e);
    engine_repeat_fini(e);
}
