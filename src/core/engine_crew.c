/* SPDX-License-Identifier: Apache-2.0 */

/* Names of workers, and who works on a queue. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* A new measurement has this share of the average. */
#define PACE_SHARE 8

/* Workers that are looked through about as fast as one thing is looked at. */
#define MEMBERS_PER_STEP 8

/* --- names --- */

struct worker_name *engine_worker_ref(struct engine *e, struct str name)
{
    struct worker_name *w = name.len ? strmap_get(&e->worker_names, name) : NULL;
    if (w) {
        w->refs++;
        return w;
    }
    w = alloc_get(sizeof *w + name.len);
    *w = (struct worker_name){.refs = 1, .len = name.len};
    if (name.len) {
        memcpy(w->bytes, name.at, name.len);
        strmap_put(&e->worker_names, name, w);
    }
    return w;
}

void engine_worker_unref(struct engine *e, struct worker_name *w)
{
    must(w->refs > 0);
    if (--w->refs > 0)
        return;
    if (w->len)
        must(strmap_remove(&e->worker_names, (struct str){w->bytes, w->len}) == w);
    free(w);
}

void engine_crew_fini(struct engine *e)
{
    must(e->worker_names.count == 0);
    strmap_fini(&e->worker_names);
}

/* --- runs --- */

void engine_crew_begin(struct queue *q, struct live *l)
{
    l->worker->runs++;
    list_append(&q->pace.runs, &l->beside);
}

void engine_crew_end(struct live *l)
{
    must(l->worker->runs > 0);
    l->worker->runs--;
    list_unlink(&l->beside);
}

void engine_crew_move(struct queue *to, struct live *l)
{
    list_unlink(&l->beside);
    list_append(&to->pace.runs, &l->beside);
}

void engine_crew_check(const struct queue *q)
{
    uint64_t runs = 0;
    LIST_EACH (node, &q->pace.runs) {
        must(LIST_OF(node, const struct live, beside)->queue == q);
        runs++;
    }
    must(runs == q->counts[STATUS_IN_FLIGHT]);
}

void engine_crew_measure(struct live *l, instant now)
{
    struct queue_pace *p = &l->queue->pace;
    int64_t took = instant_diff(instant_max(now, l->taken_at), l->taken_at).ms;
    p->usual.ms = p->measured ? p->usual.ms + (took - p->usual.ms) / PACE_SHARE : took;
    p->measured = true;
}

/* --- who works on a queue --- */

struct look {
    struct engine *e;
    struct arena *arena;
    struct crew *crew;
    instant now;
    struct strmap seen; /* names of those who hold runs of the queue */
    size_t steps;
};

static void see_run(struct look *k, const struct queue_pace *p, const struct live *l)
{
    struct crew *c = k->crew;
    struct str name = {l->worker->bytes, l->worker->len};
    int64_t left = l->taken_at.ms + p->usual.ms - k->now.ms;
    if (!instant_is_set(c->oldest) || l->taken_at.ms < c->oldest.ms)
        c->oldest = l->taken_at;
    if (p->measured && left >= 0 && (c->left.ms < 0 || left < c->left.ms))
        c->left.ms = left;
    if (strmap_get(&k->seen, name))
        return;
    strmap_put(&k->seen, name, k);
    c->worker = c->busy++ ? (struct str){0} : arena_copy(k->arena, name);
}

static void see_runs(struct look *k, const struct queue *q)
{
    const struct list *n = q->pace.runs.next;
    k->crew->runs = q->counts[STATUS_IN_FLIGHT];
    if (q->pace.measured)
        k->crew->usual = q->pace.usual;
    for (size_t i = 0; n != &q->pace.runs && i < CREW_LOOK_MAX; n = n->next, i++, k->steps++)
        see_run(k, &q->pace, LIST_OF(n, const struct live, beside));
    k->crew->cut = n != &q->pace.runs;
}

static void excuse(struct look *k, const struct crew_member *m)
{
    struct crew *c = k->crew;
    if (c->excused.len && m->last_seen.ms <= c->excused_at.ms)
        return;
    c->excused = arena_copy(k->arena, m->name);
    c->excuse = arena_copy(k->arena, m->notice);
    c->excused_at = m->last_seen;
}

static void see_member(void *ctx, const struct crew_member *m)
{
    struct look *k = ctx;
    struct crew *c = k->crew;
    const struct worker_name *w = strmap_get(&k->e->worker_names, m->name);
    if (strmap_get(&k->seen, m->name))
        return;
    if (w && w->runs) {
        c->elsewhere++;
        c->elsewhere_runs += w->runs;
        return;
    }
    bool lately =
        instant_is_set(m->last_seen) && instant_diff(k->now, m->last_seen).ms < CREW_LATELY.ms;
    if (lately && m->notice.len) {
        excuse(k, m);
        return;
    }
    if (!lately || (c->asker.len && m->last_seen.ms <= c->asked_at.ms))
        return;
    c->asker = arena_copy(k->arena, m->name);
    c->asked_at = m->last_seen;
}

uint64_t engine_kind_runs(const struct queue *q, enum job_kind kind)
{
    uint64_t tasks = q->tasks[STATUS_IN_FLIGHT];
    return kind == KIND_TASK ? tasks : q->counts[STATUS_IN_FLIGHT] - tasks;
}

size_t engine_crew_of(struct engine *e, const struct queue *q, instant now, struct arena *a,
                      struct crew *c)
{
    struct look k = {.e = e, .arena = a, .crew = c, .now = now, .seen.seed = e->queue_names.seed};
    *c = crew_none();
    see_runs(&k, q);
    if (e->sink.members)
        k.steps += e->sink.members(e->sink.ctx, q->name, see_member, &k) / MEMBERS_PER_STEP;
    strmap_fini(&k.seen);
    return k.steps;
}
