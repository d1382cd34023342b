/* SPDX-License-Identifier: Apache-2.0 */

/* How patches and reruns affect what is known about a job. While one has no answer, or its answer
 * was lost, what it may have changed is not judged; the next audit tells what happened. */

#include "ledger.h"
#include "trace.h"

void ledger_patch_asked(struct mjob *m, const struct patch *p, unsigned queue)
{
    m->patching++;
    m->loose |= p->set;
    m->patched |= p->set;
    m->freed |= (p->set & PATCH_FREE) != 0;
    if (p->set & PATCH_QUEUE)
        m->queues_asked |= 1u << queue;
    if (p->set & PATCH_PRIORITY)
        m->priorities_asked |= 1u << p->priority;
}

void ledger_patch_over(struct ledger *l, struct mjob *m, const struct patch *p, unsigned queue,
                       bool done)
{
    m->patching--;
    if (!done)
        return;
    if (p->set & PATCH_QUEUE)
        m->queue = queue;
    if (p->set & PATCH_PRIORITY)
        m->priority = p->priority;
    if (p->set & PATCH_RETRY_LIMIT)
        m->retry_limit = p->retry_limit;
    m->patch_seq = l->seq++;
    if (m->patching == 0)
        m->loose &= ~p->set;
}

/* As the audit says, if anybody requested it. */
static void adopt_patches(struct mjob *m, const struct job *job)
{
    unsigned queue = (unsigned)(job->queue.at[1] - '0');
    uint16_t priority = job->state.priority;
    PROMISE(queue == m->queue || m->queues_asked >> queue & 1, "PATCH",
            "job %lu came into queue %u", m->serial, queue);
    PROMISE(priority == m->priority || priority == m->first_priority ||
                (priority < 4 && m->priorities_asked >> priority & 1),
            "PATCH", "job %lu came to priority %u", m->serial, priority);
    m->queue = queue;
    m->priority = priority;
    m->retry_limit = job->retry_limit;
    m->loose = 0;
}

void ledger_rerun_asked(struct mjob *m)
{
    m->reruns++;
    m->rerun_ever = true;
}

void ledger_rerun_over(struct mjob *m, bool doubt)
{
    m->reruns--;
    m->rerun_doubt |= doubt;
}

bool ledger_is_foggy(const struct mjob *m)
{
    return m->reruns > 0 || m->rerun_doubt;
}

void ledger_bulk_join(const struct ledger *l, struct mjob *m)
{
    if (!l->bulk.running || m->type != l->bulk.type || m->gone_seq)
        return;
    m->in_bulk = true;
    if (l->bulk.reruns)
        ledger_rerun_asked(m);
    else
        ledger_patch_asked(m, &l->bulk.patch, l->bulk.queue);
}

void ledger_bulk_begin(struct ledger *l, const struct patch *p, unsigned queue, unsigned type)
{
    l->bulk.running = true;
    l->bulk.reruns = !p;
    l->bulk.type = type;
    l->bulk.queue = queue;
    if (p)
        l->bulk.patch = *p;
    for (size_t i = 0; i < l->count; i++)
        ledger_bulk_join(l, l->jobs[i]);
}

void ledger_bulk_end(struct ledger *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (!m->in_bulk)
            continue;
        m->in_bulk = false;
        if (l->bulk.reruns)
            ledger_rerun_over(m, true);
        else
            m->patching--;
    }
    l->bulk.running = false;
}

void ledger_runs_over(struct ledger *l, struct mjob *m)
{
    for (size_t i = 0; i < m->run_count; i++)
        if (!m->runs[i].over_seq)
            m->runs[i].over_seq = l->seq++;
}

static void begin_anew(struct mjob *m, uint32_t runs, size_t ends)
{
    m->ended_seq = 0;
    m->first_run = runs;
    for (size_t i = 0; i < ends; i++)
        m->ends[i].old = true;
}

void ledger_rerun(struct ledger *l, struct mjob *m, const struct job_state *st, size_t ends)
{
    m->rerun_seq = l->seq++;
    if (ledger_is_foggy(m)) {
        m->rerun_doubt = true; /* whatever the other answer is */
        return;
    }
    PROMISE(st->attempts >= m->forgiven, "RERUN", "job %lu lost attempts", m->serial);
    m->forgiven = st->attempts;
    m->failures = 0;
    ledger_runs_over(l, m);
    begin_anew(m, st->runs, ends);
}

void ledger_clear_up(struct ledger *l, struct mjob *m, const struct job *job)
{
    const struct job_state *st = &job->state;
    if (m->loose) {
        adopt_patches(m, job);
        m->patch_seq = l->seq++; /* seen is not durable yet */
    }
    if (!ledger_is_foggy(m))
        return;
    PROMISE(m->reruns == 0, "REPLY", "job %lu: a rerun has no answer", m->serial);
    m->rerun_doubt = false;
    m->rerun_seq = l->seq++;
    m->forgiven = st->forgiven;
    if (lifecycle_is_terminal(st->status)) {
        m->ended_seq = 0;
        m->ended = st->status;
        m->ended_seq = l->seq++;
        m->purge_at = st->purge_at;
        m->first_run = m->failures = 0;
        for (size_t i = 0; i < m->end_count; i++)
            m->ends[i].old = false;
        ledger_runs_over(l, m);
        return;
    }
    bool live = st->status == STATUS_IN_FLIGHT;
    m->failures = st->attempts - st->forgiven;
    begin_anew(m, live ? st->runs - 1 : st->runs, m->end_count);
}

void ledger_changes_lost(struct ledger *l, struct mjob *m)
{
    if (m->patch_seq > l->safe_seq)
        m->loose |= m->patched;
    if (m->rerun_seq > l->safe_seq)
        m->rerun_doubt = m->may_vanish = true; /* it has ended long ago, then */
    m->may_vanish |= m->undeleted_seq > l->safe_seq;
    if (m->uncanceled_seq > l->safe_seq)
        ledger_ask_end(m, END_CANCEL, 0, m->uncanceled_at)->how = DOUBT;
    m->undeleted_seq = m->uncanceled_seq = 0;
}

void ledger_deletion_undone(struct ledger *l, unsigned type)
{
    uint64_t seq = l->seq++;
    for (size_t i = 0; i < l->count; i++)
        if (l->jobs[i]->type == type)
            l->jobs[i]->undeleted_seq = seq;
}

void ledger_cancel_undone(struct ledger *l, unsigned type, instant at, bool gangs)
{
    uint64_t seq = l->seq++;
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (m->type != type || m->ended_seq)
            continue;
        m->uncanceled_seq = seq;
        m->uncanceled_at = at;
        if (gangs && m->gang)
            ledger_ask_end(m, END_CANCEL, 0, at)->how = DOUBT;
    }
}
