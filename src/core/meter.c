/* SPDX-License-Identifier: Apache-2.0 */
#include "core/meter.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"

static const int64_t times[] = {1,      5,       10,      25,       50,      100,   250,
                                500,    1000,    2500,    5000,     10000,   30000, 60000,
                                300000, 1800000, 3600000, 21600000, 86400000};
const struct histogram_scale meter_times = HISTOGRAM_SCALE(times, 0.001);
_Static_assert(COUNT(times) <= HISTOGRAM_BUCKETS_MAX, "there is room");

struct meter *meter_new(uint32_t queues_max, uint64_t seed)
{
    struct meter *m = ALLOC(struct meter);
    m->queues_max = queues_max;
    m->queues = alloc_zero((queues_max + 1) * sizeof *m->queues);
    m->queue_names.seed = seed;
    return m;
}

void meter_free(struct meter *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->rule_count; i++)
        free((void *)(uintptr_t)m->rules[i].policy.at);
    for (uint32_t i = 0; i < m->missing_count; i++)
        free((void *)(uintptr_t)m->missing[i].policy.at);
    strmap_fini(&m->queue_names);
    free(m->queues);
    free(m);
}

struct meter_queue *meter_queue(struct meter *m, struct str name)
{
    if (m->last && str_eq(m->last->name, name))
        return m->last;
    struct meter_queue *q = strmap_get(&m->queue_names, name);
    if (!q && m->queue_count < m->queues_max) {
        q = &m->queues[m->queue_count++];
        q->name = strmap_put(&m->queue_names, name, q);
    }
    if (!q)
        return &m->queues[m->queues_max];
    m->last = q;
    return q;
}

bool meter_has_row(const struct meter *m, struct str name)
{
    return strmap_get(&m->queue_names, name) != NULL;
}

static enum meter_decision decision_of(const struct ruling *r, bool retry)
{
    return retry                         ? METER_RETRY
           : r->by == DECIDER_RULE_LIMIT ? METER_RULE_LIMIT
           : r->by == DECIDER_GLOBAL_MAX ? METER_GLOBAL_MAX
           : r->by == DECIDER_RETRY_FOR  ? METER_RETRY_FOR
                                         : METER_FAIL;
}

static struct str keep(struct str name)
{
    return (struct str){alloc_text(name.at, name.len), name.len};
}

static void count_verdict(struct meter *m, const struct ruling *r, bool retry)
{
    m->verdicts[retry][r->by]++;
    if (r->policy.len == 0)
        return;
    uint32_t i = 0;
    while (i < m->rule_count &&
           (m->rules[i].rule != r->rule || !str_eq(m->rules[i].policy, r->policy)))
        i++;
    if (i == m->rule_count && i < METER_RULES_MAX) {
        m->rules[i].policy = keep(r->policy);
        m->rules[i].rule = r->rule;
        m->rule_count++;
    }
    m->rules[i].decisions[decision_of(r, retry)]++;
}

static void count_missing(struct meter *m, struct str name)
{
    uint32_t i = 0;
    while (i < m->missing_count && !str_eq(m->missing[i].policy, name))
        i++;
    if (i == m->missing_count && i < METER_MISSING_MAX) {
        m->missing[i].policy = keep(name);
        m->missing_count++;
    }
    m->missing[i].failures++;
}

void meter_missing(struct meter *m, struct str names)
{
    while (names.len) {
        const char *comma = memchr(names.at, ',', names.len);
        size_t n = comma ? (size_t)(comma - names.at) : names.len, used = comma ? n + 1 : n;
        count_missing(m, (struct str){names.at, n});
        names = (struct str){names.at + used, names.len - used};
    }
}

void meter_event(struct meter *m, const struct job_event *ev)
{
    struct meter_queue *q = meter_queue(m, ev->queue);
    q->events[ev->event]++;
    q->lost += ev->lost;
    q->expired += ev->expired;
    m->culprits[ev->culprit]++;
    bool retry = ev->event == EVENT_RETRY || ev->event == EVENT_RETRY_NOW;
    if (retry || ev->event == EVENT_EXHAUST)
        count_verdict(m, &ev->ruling, retry);
    if (!instant_is_set(ev->since))
        return;
    /* An id keeps the time at which it was made, also if that clock was wrong. */
    int64_t took = ev->at.ms > ev->since.ms ? ev->at.ms - ev->since.ms : 0;
    if (ev->event == EVENT_DUE) {
        histogram_add(&m->lateness, &meter_times, took);
    } else if (ev->event == EVENT_TAKE) {
        histogram_add(&m->waits, &meter_times, took);
        q->waited_ms += (uint64_t)took;
        q->waits++;
    } else if (ev->from == STATUS_IN_FLIGHT && ev->event != EVENT_POSTPONE) {
        histogram_add(ev->event == EVENT_SUCCEED ? &m->runs_good : &m->runs_bad, &meter_times,
                      took);
    }
}
