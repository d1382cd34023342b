/* SPDX-License-Identifier: Apache-2.0 */

/* The check of what must hold between the indexes of the engine. */

#include "base/must.h"
#include "core/depend.h"
#include "core/engine_internal.h"

/* Whether one of them waits although the queue has a job for it. */
static bool is_awaited(const struct queue *q, const struct list *waiters)
{
    for (const struct list *n = waiters->next; n != waiters; n = n->next) {
        struct btree_entry first;
        const struct taker *t = LIST_OF(n, const struct sub, node)->taker;
        if (engine_ready_first(q, t->kind, (struct str){t->node->bytes, t->node->len}, &first))
            return true;
    }
    return false;
}

static void check_queue(const struct engine *e, const struct queue *q)
{
    must(e->queues[q->index] == q);
    engine_line_check(e, q);
    for (enum job_kind k = 0; k < JOB_KINDS; k++) {
        struct btree_entry first;
        bool has = engine_ready_first(q, k, (struct str){0}, &first);
        must(has == q->has_head[k]);
        must(!has || (first.hi == q->head[k].hi && first.lo == q->head[k].lo));
        must(q->dirty || !is_awaited(q, &q->waiters[k]));
        must(q->dirty || !is_awaited(q, &e->all_waiters[k]));
    }
    btree_check(&q->ready);
    engine_limits_check(q);
    engine_keys_check(q);
    engine_crew_check(q);
}

/* Whoever changes a status without an event is found out here. */
static void check_totals(const struct engine *e)
{
    uint64_t counts[STATUS_COUNT] = {0};
    for (uint32_t i = 0; i < e->queue_cap; i++)
        if (e->queues[i])
            for (int s = 0; s < STATUS_COUNT; s++)
                counts[s] += e->queues[i]->counts[s];
    for (int s = 0; s < STATUS_COUNT; s++)
        must(counts[s] == e->totals[s]);
}

static void check_order_of_queues(const struct engine *e)
{
    uint64_t bytes = 0;
    uint32_t count = 0;
    const struct queue *q = engine_queue_after(e, (struct str){0}), *next;
    for (; q; q = next, count++) {
        next = engine_queue_after(e, q->name);
        must(!next || str_cmp(q->name, next->name) < 0);
        bytes += q->ready.bytes + q->parked.bytes + engine_line_bytes(q);
    }
    must(count == e->queue_count && bytes == e->order_bytes);
}

/* Whether the end of that job is to come, and the one that waits for it will be told; or, if it is
 * dead, keeps it waiting until somebody brings it back. One that dies with others waits so, too,
 * once it was brought back itself. */
static bool is_to_come(const struct engine *e, struct id id, const struct job_options *o)
{
    enum depend_end end = DEPEND_GONE;
    bool ended = false;
    struct err err = engine_awaited_end(e, id, &ended, &end);
    bool keeps = o->depend_when == DEPEND_ALL_COMPLETED && o->depend_death != DEPEND_RUN;
    return err.code != ERR_OK || !ended || (end == DEPEND_DEAD && keeps);
}

/* What a blocked job waits for can still end that: somebody may free it, which has a limit; or what
 * it waits for is to come, or was deleted, which can be undone. */
static void check_blocked(const struct engine *e, struct id id)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, id, PORT_STATE, &scratch, &job, &extent);
    bool blocked = err.code == ERR_OK && job.state.status == STATUS_BLOCKED;
    must(!blocked || engine_waits_has(e, &job));
    if (blocked && !job.state.extras.held && job_kind(&job) != KIND_TASK) {
        struct str ids = job.state.extras.waits_for;
        bool deleted = job.state.reason.len > 0 &&
                       (!e->port.keeps_deleted || e->port.keeps_deleted(e->port.ctx));
        bool waits = deleted || engine_orphans_come(e);
        for (size_t i = 0; i < depend_count(ids) && !waits; i++)
            waits = is_to_come(e, depend_at(ids, i), &job.options);
        must(waits);
    }
    arena_fini(&scratch);
}

#define BLOCKED_CHECKED 200

/* What is due first is known to whoever makes the turns. */
static void check_times(const struct engine *e, uint64_t times)
{
    uint64_t scheduled = 0;
    instant at;
    for (uint32_t i = 0; i < e->queue_cap; i++)
        scheduled += e->queues[i] ? e->queues[i]->counts[STATUS_SCHEDULED] : 0;
    must(scheduled == times);
    must(engine_next_due(e, &at) || (times == 0 && e->open_waits.gangs.count == 0) ||
         (times == 0 && e->settings.gang_wait_max.ms == 0));
}

/* Every job that has not ended waits for something that can come. A ready one has a place in an
 * order, a line, a full key or a gang (engine_line_check counts them), a scheduled one a deadline,
 * one in flight the end of a lease or of a stream; a blocked one another job, or somebody. */
static void check_reasons(const struct engine *e)
{
    struct btree_entry at;
    uint64_t blocked = 0, times = 0;
    for (bool any = btree_first(&e->odd, &at); any; any = btree_after(&e->odd, at, &at))
        blocked += (at.val & ODD_BLOCKED) != 0;
    for (bool any = btree_first(&e->deadlines, &at); any; any = btree_after(&e->deadlines, at, &at))
        times += DUE_VAL_KIND(at.val) == DUE_READY;
    must(blocked == e->totals[STATUS_BLOCKED]);
    check_times(e, times);
    int left = BLOCKED_CHECKED;
    bool more = list_is_empty(&e->settling) && btree_first(&e->odd, &at);
    for (; more && left > 0; more = btree_after(&e->odd, at, &at)) {
        if (!(at.val & ODD_BLOCKED))
            continue;
        check_blocked(e, (struct id){at.hi, at.lo});
        left--;
    }
}

void engine_check(const struct engine *e)
{
    size_t in_flight = 0, held = 0, ended = 0, heads[JOB_KINDS] = {0};
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        if (!e->queues[i])
            continue;
        check_queue(e, e->queues[i]);
        in_flight += e->queues[i]->counts[STATUS_IN_FLIGHT];
        for (enum job_kind k = 0; k < JOB_KINDS; k++)
            heads[k] += e->queues[i]->has_head[k];
        ended += e->queues[i]->counts[STATUS_COMPLETED] + e->queues[i]->counts[STATUS_DEAD];
    }
    check_order_of_queues(e);
    must(in_flight == e->live.count && in_flight == e->live_order.count);
    btree_check(&e->live_order);
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        must(heads[k] == e->heads[k].count);
    must(ended == e->ended[0].count + e->ended[1].count);
    must(e->surplus.count <= e->ended[0].count);
    btree_check(&e->surplus);
    for (const struct list *n = e->takers.next; n != &e->takers; n = n->next) {
        const struct taker *t = LIST_OF(n, const struct taker, all);
        must(t->held_count <= t->limit);
        held += t->held_count;
    }
    must(held <= in_flight);
    btree_check(&e->deadlines);
    must(e->lease_ends.count + held <= in_flight);
    btree_check(&e->lease_ends);
    must(e->run_limits.count <= in_flight);
    btree_check(&e->run_limits);
    engine_end_by_check(e);
    check_totals(e);
    btree_check(&e->waiting_for);
    btree_check(&e->odd);
    engine_crons_check(e);
    engine_gang_checks(e);
    engine_groups_check(e);
    engine_makers_check(e);
    engine_budget_checks(e);
    engine_waits_check(e);
    check_reasons(e);
}
