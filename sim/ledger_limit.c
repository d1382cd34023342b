/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of queues. LIMIT: nothing is handed out from a paused queue, no more jobs than its
 * concurrency are in flight, and in no period more jobs are handed out than its rate and burst
 * allow; over all queues no more are in flight than the settings say; what was acknowledged is in
 * force. A request whose answer was lost may or may not be. */

#include "ledger.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "trace.h"

size_t ledger_limit_asked(struct ledger *l, unsigned queue, const struct mlimit *limit, instant now)
{
    struct mlimits *q = &l->limits[queue];
    ALLOC_GROW(q->asked, q->count, q->cap, 16);
    q->asked[q->count] = *limit;
    q->asked[q->count].at = now;
    q->asked[q->count].seq = 0;
    q->taken_count = 0; /* from now on another rate may apply */
    return q->count++;
}

void ledger_limit_acked(struct ledger *l, unsigned queue, size_t limit)
{
    l->limits[queue].asked[limit].seq = l->seq++;
}

void ledger_limits_lost(struct ledger *l)
{
    for (unsigned q = 0; q < LIMITED; q++)
        for (size_t i = 0; i < l->limits[q].count; i++)
            if (l->limits[q].asked[i].seq > l->safe_seq)
                l->limits[q].asked[i].seq = 0;
}

void ledger_limits_free(struct ledger *l)
{
    for (unsigned q = 0; q < LIMITED; q++) {
        free(l->limits[q].asked);
        free(l->limits[q].taken);
    }
}

static bool may_be_in_force(const struct mlimits *q, size_t i, instant at)
{
    if (q->asked[i].at.ms > at.ms)
        return false;
    for (size_t k = i + 1; k < q->count; k++)
        if (q->asked[k].seq && q->asked[k].at.ms < at.ms)
            return false;
    return true;
}

/* Whether the first setting, which nobody requested, may be in force. */
static bool may_be_unset(const struct mlimits *q, instant at)
{
    for (size_t k = 0; k < q->count; k++)
        if (q->asked[k].seq && q->asked[k].at.ms < at.ms)
            return false;
    return true;
}

/* Jobs of the queue, with that key if it is not 0, that are certainly in flight, except those that
 * patches may have moved. */
static uint64_t in_flight(const struct ledger *l, unsigned queue, unsigned key, instant now)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->queue != queue || (key && m->ckey != key) || m->patched & PATCH_QUEUE ||
            !m->run_count)
            continue;
        n += ledger_live(m, &m->runs[m->run_count - 1], now) == YES;
    }
    return n;
}

static void check_in_flight(const struct ledger *l, instant now)
{
    uint64_t n = 0, most = l->settings.in_flight_max;
    for (size_t i = 0; most && i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        n += m->run_count && ledger_live(m, &m->runs[m->run_count - 1], now) == YES;
    }
    PROMISE(n <= most, "LIMIT", "%lu jobs are in flight in all; the limit is %lu", n, most);
}

static void check_rate(struct mlimits *q, unsigned queue, const struct mlimit *limit)
{
    const instant *taken = q->taken;
    int64_t last = taken[q->taken_count - 1].ms;
    for (size_t i = 0; i < q->taken_count; i++) {
        int64_t n = (int64_t)(q->taken_count - i), ms = last - taken[i].ms;
        PROMISE((n - limit->burst) * limit->per_ms <= ms * limit->rate, "LIMIT",
                "queue %u handed out %ld in %ld ms; its rate is %ld in %ld ms, at most %ld at once",
                queue, (long)n, (long)ms, (long)limit->rate, (long)limit->per_ms,
                (long)limit->burst);
    }
}

/* A gang takes as many tokens as are available, up to its size, and at least one. */
static bool is_free(const struct ledger *l, const struct mjob *m, instant at)
{
    for (size_t i = 0; m->gang && i < l->count; i++) {
        const struct mjob *o = l->jobs[i];
        if (o != m && o->gang == m->gang && o->run_count &&
            o->runs[o->run_count - 1].taken_at.ms == at.ms)
            return true;
    }
    return false;
}

/* Counted only while the rate is certain, and from when it is. */
static void note_taken(struct ledger *l, const struct mjob *m, unsigned queue, instant at)
{
    struct mlimits *q = &l->limits[queue];
    const struct mlimit *limit = q->count ? &q->asked[q->count - 1] : NULL;
    bool known = l->sync && limit && limit->seq && limit->at.ms < at.ms && limit->rate;
    if (!known || is_free(l, m, at) || (q->taken_count && q->taken[q->taken_count - 1].ms > at.ms))
        return;
    ALLOC_GROW(q->taken, q->taken_count, q->taken_cap, 64);
    q->taken[q->taken_count++] = at;
    check_rate(q, queue, limit);
}

bool ledger_limit_has_ready(const struct ledger *l, unsigned queue, const struct mlimit *limit,
                            instant now)
{
    uint64_t live[CKEYS + 1] = {0};
    bool ready[CKEYS + 1] = {0};
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (!m->seen || m->queue != queue)
            continue;
        live[m->ckey] += m->status == STATUS_IN_FLIGHT;
        bool waits = (m->gang && !m->gang_alone) || m->avoid_until.ms > now.ms || m->budget;
        ready[m->ckey] |= m->status == STATUS_READY && !waits;
    }
    bool any = ready[0];
    for (unsigned key = 1; key <= CKEYS; key++)
        any |= ready[key] && (!limit->per_key || live[key] < limit->per_key);
    return any;
}

void ledger_limit_handed(struct ledger *l, const struct mjob *m, unsigned queue, instant at,
                         instant now)
{
    const struct mlimits *q = &l->limits[queue];
    check_in_flight(l, now);
    if (q->count == 0)
        return;
    bool paused = !may_be_unset(q, at), full = paused, key_full = paused && m->ckey;
    uint64_t n = full ? in_flight(l, queue, 0, now) : 0;
    uint64_t of_key = key_full ? in_flight(l, queue, m->ckey, now) : 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct mlimit *limit = &q->asked[i];
        if (!may_be_in_force(q, i, at))
            continue;
        paused &= limit->paused;
        full &= limit->concurrency && n > limit->concurrency;
        key_full &= limit->per_key && of_key > limit->per_key;
    }
    PROMISE(!paused, "LIMIT", "queue %u is paused and a job of it was handed out", queue);
    PROMISE(!full, "LIMIT", "%lu jobs of queue %u are in flight", n, queue);
    PROMISE(!key_full, "LIMIT", "%lu jobs of queue %u and key %u are in flight", of_key, queue,
            m->ckey);
    note_taken(l, m, queue, at);
}

void ledger_limit_check(struct ledger *l, unsigned queue, const struct mlimit *is, instant now)
{
    const struct mlimits *q = &l->limits[queue];
    bool unset = !is->paused && !is->concurrency && !is->per_key && !is->rate;
    bool fits = unset && may_be_unset(q, now);
    for (size_t i = 0; i < q->count && !fits; i++) {
        const struct mlimit *limit = &q->asked[i];
        fits = may_be_in_force(q, i, now) && limit->paused == is->paused &&
               limit->concurrency == is->concurrency && limit->per_key == is->per_key &&
               limit->rate == is->rate &&
               (!is->rate || (limit->per_ms == is->per_ms && limit->burst == is->burst));
    }
    PROMISE(fits, "LIMIT", "queue %u has limits that are not in force", queue);
}
