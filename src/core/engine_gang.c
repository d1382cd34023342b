/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs: jobs that are handed out together or not at all. A gang is identified by its id. It forms
 * when as many members as its cardinality says are ready and all of them are handed out in one
 * turn, and so in one batch. From then on the members that have not ended belong together: when the
 * run of one is to be retried, the runs of the others are ended too, and all come back as the next
 * generation.
 *
 * Ready members are not in the order of a queue but in their gang, which engine_gang_plan.c hands
 * out when all of them are ready. Each member costs memory, which jobs without a gang do not.
 *
 * On disk a member has its id, cardinality and generation; that its gang has formed follows from
 * the fact that a worker has had it. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_gang_internal.h"
#include "core/engine_grace.h"
#include "core/engine_undo_internal.h"

static struct gang_member *find(const struct engine *e, struct id id)
{
    return e->gang_members.count ? idmap_get(&e->gang_members, id) : NULL;
}

/* To be called when it has changed whether the gang may be handed out, or what it needs for
 * that. */
static void update(struct engine *e, struct gang *g)
{
    bool complete = g->formed || g->count == g->size;
    engine_gang_plan_remove(e, g);
    if (complete && g->count > 0 && g->ready == g->count)
        engine_gang_plan_add(e, g);
    engine_gang_wait_update(e, g);
}

/* --- members join and leave --- */

void engine_gang_join(struct engine *e, const struct job *job)
{
    const struct job_options *o = &job->options;
    const struct job_state *s = &job->state;
    if (o->gang.len == 0 || s->extras.gang_alone)
        return;
    struct gang *g = strmap_get(&e->gangs, o->gang);
    if (!g) {
        g = ALLOC(struct gang);
        g->name = strmap_put(&e->gangs, o->gang, g);
        g->size = o->gang_size;
        g->number = ++e->gang_number;
        list_init(&g->members);
    }
    struct gang_member *m = ALLOC(struct gang_member);
    m->gang = g;
    m->id = job->id;
    m->generation = s->extras.gang_generation;
    m->live = s->status == STATUS_IN_FLIGHT;
    list_init(&m->node);
    list_append(&g->members, &m->node);
    idmap_put(&e->gang_members, m->id, m);
    engine_odd_set(e, m->id, ODD_GANG);
    g->count++;
    g->live += m->live;
    if (m->generation > g->generation)
        g->generation = m->generation;
    if (instant_is_set(s->dequeued_at)) /* s->runs counts runs, too, that no worker had */
        g->formed = true;
    engine_gang_wait_since(e, g, id_time(m->id));
    update(e, g);
}

void engine_gang_rejoin(struct engine *e, instant now, const struct job *job)
{
    const struct gang_member *m;
    engine_gang_join(e, job);
    m = find(e, job->id);
    if (m)
        engine_gang_wait_since(e, m->gang, now);
}

void engine_gang_leave(struct engine *e, instant now, struct id id)
{
    struct gang_member *m = find(e, id);
    if (!m)
        return;
    must(!m->ready);
    struct gang *g = m->gang;
    must(idmap_remove(&e->gang_members, id) == m);
    engine_odd_clear(e, id, ODD_GANG);
    list_unlink(&m->node);
    g->count--;
    g->live -= m->live;
    free(m);
    engine_gang_wait_since(e, g, now);
    update(e, g);
    if (g->count > 0)
        return;
    must(strmap_remove(&e->gangs, g->name) == g);
    free(g);
}

bool engine_gang_add(struct engine *e, struct queue *q, struct btree_entry entry)
{
    struct gang_member *m = find(e, (struct id){entry.hi, entry.lo});
    if (!m)
        return false;
    must(!m->ready && !m->live);
    m->ready = true;
    m->queue = q;
    m->entry = entry;
    q->gang_ready++;
    m->gang->ready++;
    update(e, m->gang);
    return true;
}

bool engine_gang_remove(struct engine *e, struct queue *q, struct btree_entry entry)
{
    struct gang_member *m = find(e, (struct id){entry.hi, entry.lo});
    if (!m || !m->ready || m->queue != q || m->entry.major != entry.major)
        return false;
    m->ready = false;
    q->gang_ready--;
    m->gang->ready--;
    update(e, m->gang);
    return true;
}

void engine_gang_avoids_no_more(struct engine *e, struct id id)
{
    const struct gang_member *m = find(e, id);
    if (m && m->ready)
        update(e, m->gang);
}

bool engine_gang_is_ready(const struct engine *e, struct id id)
{
    const struct gang_member *m = find(e, id);
    return m && m->ready;
}

void engine_gang_taken(struct engine *e, struct id id)
{
    struct gang_member *m = find(e, id);
    if (!m)
        return;
    m->live = true;
    m->generation = m->gang->generation;
    m->gang->live++;
    m->gang->formed = true;
    engine_gang_wait_update(e, m->gang);
}

/* --- generations --- */

/* Ends the runs of the others in the generation that is over. */
static void recall_others(struct engine *e, instant now, struct gang *g,
                          const struct job_state *first)
{
    /* What else the first waits for, each of the others has of its own. */
    instant again = first->extras.grace_token ? first->extras.backoff_end : first->ready_at;
    g->retried = first;
    for (struct list *n = g->members.next; n != &g->members; n = n->next) {
        struct gang_member *o = LIST_OF(n, struct gang_member, node);
        struct live *l = o->live ? idmap_get(&e->live, o->id) : NULL;
        if (!l)
            continue;
        o->live = false;
        g->live--;
        l->ready_at = instant_max(l->ready_at, again);
        engine_return(e, now, l, OUTCOME_GANG, CULPRIT_GANG,
                      "another member of its gang is retried");
    }
    g->retried = NULL;
}

void engine_gang_back(struct engine *e, instant now, struct id id, struct job_state *s)
{
    struct gang_member *m = find(e, id);
    if (!m)
        return;
    struct gang *g = m->gang;
    g->live -= m->live;
    m->live = false;
    g->formed = true;
    engine_gang_wait_update(e, g);
    /* A member that comes back later than the first of its generation does not affect the
     * others. */
    if (m->generation == g->generation) {
        g->generation++;
        recall_others(e, now, g, s);
    }
    m->generation = g->generation;
    s->extras.gang_generation = g->generation;
}

/* A gang has one account of its retries: what one of it has spent, all have. */
static void share_account(struct job_state *s, const struct job_state *of)
{
    s->attempts = of->attempts;
    s->forgiven = of->forgiven;
    s->extras.retry_counts = of->extras.retry_counts;
    s->extras.culprit_counts = of->extras.culprit_counts;
    s->extras.asked_retries = of->extras.asked_retries;
    s->extras.expired_retries = of->extras.expired_retries;
    s->extras.first_failed_at = of->extras.first_failed_at;
}

void engine_gang_recalled(struct engine *e, instant now, const struct live *l, struct job_state *s)
{
    struct gang_member *m = find(e, l->id);
    must(m && !m->live && m->gang->retried);
    m->generation = m->gang->generation;
    share_account(s, m->gang->retried);
    s->extras.granted = 0; /* the retried job is another one, whose place the members share */
    s->extras.gang_generation = m->generation;
    s->extras.gang_token = l->token;
    engine_grace_recall(e, now, l, s);
}

/* --- reading --- */

struct seats {
    uint64_t size, taken;
};

static struct err check_seat(const struct engine *e, const struct job_options *o,
                             struct strmap *seen, struct arena *a)
{
    const struct gang *g = strmap_get(&e->gangs, o->gang);
    struct seats *s = strmap_get(seen, o->gang);
    if (!s) {
        s = ARENA_NEW(a, struct seats);
        s->size = g ? g->size : o->gang_size;
        s->taken = g ? g->count : 0;
        strmap_put(seen, o->gang, s);
    }
    if (g && g->formed)
        return err_make(
            ERR_UNPROCESSABLE,
            "gang '%.*s' has been handed out; its id can be used again when all its members "
            "have ended",
            STR_ARG(o->gang));
    if (s->size != o->gang_size)
        return err_make(ERR_UNPROCESSABLE, "gang '%.*s' has a cardinality of %llu, not %llu",
                        STR_ARG(o->gang), (unsigned long long)s->size,
                        (unsigned long long)o->gang_size);
    if (s->taken == s->size)
        return err_make(ERR_UNPROCESSABLE, "gang '%.*s' has all of its %llu members",
                        STR_ARG(o->gang), (unsigned long long)s->size);
    s->taken++;
    return err_none();
}

struct err engine_gang_check(const struct engine *e, const struct enqueue *specs, size_t count)
{
    struct strmap seen = {.seed = e->gangs.seed};
    struct arena scratch = {0};
    struct err err = err_none();
    for (size_t i = 0; i < count && err.code == ERR_OK; i++)
        if (specs[i].options.gang.len)
            err = check_seat(e, &specs[i].options, &seen, &scratch);
    strmap_fini(&seen);
    arena_fini(&scratch);
    TRY(err);
    return engine_gang_check_circles(e, specs, count);
}

bool engine_gang_takes_back(const struct engine *e, const struct job *job)
{
    const struct job_options *o = &job->options;
    if (o->gang.len == 0 || job->state.extras.gang_alone)
        return true;
    const struct gang *g = strmap_get(&e->gangs, o->gang);
    return !g || (g->size == o->gang_size && g->count < g->size && g->live == 0);
}

void engine_gang_read(const struct engine *e, struct job *job)
{
    const struct gang_member *m = find(e, job->id);
    job->gang_members = m ? m->gang->count : 0;
    job->gang_active = m ? m->gang->live : 0;
}

bool engine_gang_view(const struct engine *e, struct id id, struct gang_view *v)
{
    const struct gang_member *m = find(e, id);
    if (!m || m->live)
        return false;
    const struct gang *g = m->gang;
    *v = (struct gang_view){.members = g->count,
                            .ready = g->ready,
                            .size = g->formed ? g->count : g->size,
                            .end = INSTANT_NONE};
    for (const struct list *n = g->members.next; n != &g->members; n = n->next) {
        const struct gang_member *o = LIST_OF(n, const struct gang_member, node);
        v->beside += m->ready && o->ready && o->queue == m->queue;
    }
    if (g->waits && g->count < g->size && e->settings.gang_wait_max.ms)
        v->end = engine_waits_end(e, g->since, e->settings.gang_wait_max);
    return true;
}

struct budget_set *engine_gang_cost(const struct engine *e, struct id id)
{
    const struct gang_member *m = find(e, id);
    return m ? engine_gang_plan_cost(m->gang) : NULL;
}

void engine_gang_stale(const struct job_extras *x, struct run_ref ref, struct err *err)
{
    if (ref.token && ref.token == x->gang_token)
        *err = err_make(ERR_STALE_GANG,
                        "this run was ended: another member of its gang is retried, and all "
                        "of them as generation %llu",
                        (unsigned long long)x->gang_generation);
}

void engine_gang_checks(const struct engine *e)
{
    size_t members = 0, waits = 0;
    for (size_t i = 0; i < e->gangs.cap; i++) {
        const struct gang *g = e->gangs.slots[i].key ? e->gangs.slots[i].val : NULL;
        if (!g)
            continue;
        uint32_t count = 0, ready = 0, live = 0;
        for (const struct list *n = g->members.next; n != &g->members; n = n->next, count++) {
            const struct gang_member *m = LIST_OF(n, const struct gang_member, node);
            must(m->live == (idmap_get(&e->live, m->id) != NULL));
            must(!m->live || m->generation == g->generation);
            ready += m->ready;
            live += m->live;
        }
        must(count > 0 && count == g->count && ready == g->ready && live == g->live);
        must(g->formed || live == 0);
        /* Together or not at all; but runs that were cut off end only when the store can be written
         * again. */
        must(live == 0 || ready == 0 || e->restored_count > 0);
        must((g->shape != NULL) == (ready == count && (g->formed || count == g->size)));
        engine_gang_wait_check(e, g);
        members += count;
        waits += g->waits;
    }
    must(members == e->gang_members.count && waits == e->open_waits.gangs.count);
    engine_gang_plan_check(e);
}

/* --- the end --- */

void engine_gang_fini(struct engine *e)
{
    engine_gang_plan_fini(e);
    for (size_t i = 0; i < e->gang_members.cap; i++)
        free(e->gang_members.slots[i].val);
    for (size_t i = 0; i < e->gangs.cap; i++)
        if (e->gangs.slots[i].key)
            free(e->gangs.slots[i].val);
    idmap_fini(&e->gang_members);
    strmap_fini(&e->gangs);
}
