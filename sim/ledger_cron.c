/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that no client requested: those of cron entries, recorded when they are first seen. */

#include "ledger.h"

#include <string.h>

#include "base/alloc.h"
#include "trace.h"

int64_t ledger_cron_period(unsigned entry)
{
    static const int64_t periods[] = {2 * 1000, 60 * 1000, 3600 * 1000};
    return periods[entry];
}

void ledger_booted(struct ledger *l, instant now)
{
    ALLOC_GROW(l->boots, l->boot_count, l->boot_cap, 16);
    l->boots[l->boot_count++] = now;
}

/* A tick that fired at that time is the newest one until then; it came after the newest start, if
 * missed ticks are skipped. */
static void check_not_missed(const struct ledger *l, unsigned entry, instant fired)
{
    int64_t period = ledger_cron_period(entry), tick = fired.ms / period * period;
    for (size_t i = 0; l->settings.cron_skip_missed && i < l->boot_count; i++)
        PROMISE(l->boots[i].ms >= fired.ms || tick > l->boots[i].ms, "CRON",
                "entry %u fired at %ld for a tick before the start at %ld", entry, (long)fired.ms,
                (long)l->boots[i].ms);
}

struct mjob *ledger_add_tick(struct ledger *l, unsigned entry, const struct job *job)
{
    struct enqueue spec = {.priority = job->state.priority,
                           .payload = job->payload,
                           .retry_limit = job->retry_limit,
                           .backoff = job->backoff,
                           .unique_key = job->unique_key,
                           .unique_while = job->unique_while,
                           .completed_retention = job->completed_retention,
                           .dead_retention = job->dead_retention};
    /* After a failure nothing shows any more when it was enqueued. */
    bool known = job->state.attempts == 0;
    spec.ready_at = known ? job->state.ready_at : (instant){0};
    if (known)
        check_not_missed(l, entry, spec.ready_at);
    for (size_t i = 0; known && i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        int64_t period = ledger_cron_period(entry);
        if (m->cron != entry + 1 || !m->ready_at.ms || m->exists != YES ||
            !(l->sync || m->seq <= l->safe_seq))
            continue;
        PROMISE(m->ready_at.ms / period != spec.ready_at.ms / period, "CRON",
                "entry %u fired twice for one tick, job %lu was the first", entry, m->serial);
    }
    struct mjob *m = ledger_add(l, &spec, 0, 0, UINT64_MAX - l->count, spec.ready_at);
    m->cron = entry + 1;
    m->ticks = job->batch.key.len != 0;
    m->ghosts = job->state.runs; /* claims whose answers were lost may have taken it */
    m->patched |= known ? 0 : PATCH_READY_AT;
    return m;
}

/* The number of items in a payload of {"c":0,"b":[0,...]}. */
static uint64_t count_items(const struct mjob *m, struct str payload)
{
    static const char head[] = "{\"c\":0,\"b\":[0", tail[] = "]}";
    const size_t ends = sizeof head - 1 + sizeof tail - 1;
    bool good = payload.len >= ends && (payload.len - ends) % 2 == 0 &&
                memcmp(payload.at, head, sizeof head - 1) == 0 &&
                memcmp(payload.at + payload.len - 2, tail, 2) == 0;
    for (size_t i = sizeof head - 1; good && i < payload.len - 2; i += 2)
        good = memcmp(payload.at + i, ",0", 2) == 0;
    PROMISE(good, "CRON", "job %lu, a batch of ticks, has a broken payload", m->serial);
    return 1 + (payload.len - ends) / 2;
}

void ledger_ticks_see(struct mjob *m, struct str payload, instant now)
{
    uint64_t n = count_items(m, payload);
    int64_t period = ledger_cron_period(m->cron - 1);
    uint64_t most = (uint64_t)(now.ms / period - m->ready_at.ms / period) + 1;
    PROMISE(!m->ready_at.ms || n <= most, "CRON", "job %lu has %lu ticks of %lu", m->serial, n,
            most);
    PROMISE(n <= m->ticks || !m->final_seq, "CRON", "job %lu got a tick after it was handed out",
            m->serial);
    m->ticks = n > m->ticks ? n : m->ticks;
}

void ledger_ticks_whole(struct mjob *m, struct str payload, instant now)
{
    if (!m->ticks)
        return;
    ledger_ticks_see(m, payload, now);
    PROMISE(count_items(m, payload) == m->ticks, "CRON", "job %lu lost ticks: %lu were there",
            m->serial, m->ticks);
}

void ledger_check_fired(const struct ledger *l, unsigned entry, instant at, instant now)
{
    bool found =
        now.ms - at.ms >= 3600 * 1000; /* it may have been deleted without ever being seen */
    for (size_t i = 0; i < l->count && !found; i++)
        found = l->jobs[i]->cron == entry + 1 &&
                (l->jobs[i]->ready_at.ms == at.ms || l->jobs[i]->ready_at.ms == 0 ||
                 l->jobs[i]->ticks > 0);
    PROMISE(found, "CRON", "entry %u fired and there is no job", entry);
}
