/* SPDX-License-Identifier: Apache-2.0 */
#include "core/correction.h"

#include "base/array.h"
#include "base/must.h"

/* Of what has happened. */
static bool clamp(const struct correction *c, instant *t)
{
    if (t->ms <= c->to.ms)
        return false;
    *t = c->to;
    return true;
}

/* Of what is waited for. */
static bool keep_rest(const struct correction *c, instant *t)
{
    if (t->ms <= c->from.ms)
        return clamp(c, t);
    *t = instant_add(c->to, instant_diff(*t, c->from));
    return c->from.ms != c->to.ms;
}

void correction_lease(const struct correction *c, struct lease *lease)
{
    clamp(c, &lease->taken_at);
    keep_rest(c, &lease->end);
    keep_rest(c, &lease->limit);
}

bool correction_apply(const struct correction *c, struct job_state *s)
{
    must(c->to.ms <= c->from.ms);
    instant *happened[] = {&s->dequeued_at, &s->failed_at, &s->completed_at,
                           &s->extras.terminated_at, &s->extras.returned_at};
    instant *awaited[] = {&s->purge_at, &s->lease_end, &s->extras.avoid_until, &s->extras.grace_end,
                          &s->extras.backoff_end};
    bool changed = false;
    for (size_t i = 0; i < COUNT(happened); i++)
        changed |= clamp(c, happened[i]);
    for (size_t i = 0; i < COUNT(awaited); i++)
        changed |= keep_rest(c, awaited[i]);
    if (s->attempts > 0 || s->ready_at.ms <= c->from.ms)
        changed |= keep_rest(c, &s->ready_at);
    return changed;
}
