/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues of jobs with dependencies. */

#include "core/depend.h"
#include "sim.h"

#include <string.h>

/* One of the newest jobs that are known to have existed. */
static struct mjob *some_earlier(struct sim *s)
{
    struct ledger *l = &s->ledger;
    for (int tries = 0; tries < 4 && l->count; tries++) {
        size_t newest = s->profile.knots ? 10 : 20;
        size_t back = sim_draw(s, l->count < newest ? l->count : newest);
        struct mjob *m = l->jobs[l->count - 1 - back];
        if (!id_is_none(m->id) && (m->gang || !s->profile.knots))
            return m;
    }
    return NULL;
}

static bool is_kept_dead(const struct mjob *m)
{
    return m->ended_seq && m->ended == STATUS_DEAD && !m->gone_seq && !m->never;
}

/* One that is dead and may be purged while it is looked up. */
static struct mjob *some_dead(const struct sim *s)
{
    struct mjob *found = NULL;
    for (size_t i = 0; i < s->ledger.count; i++)
        if (is_kept_dead(s->ledger.jobs[i]))
            found = s->ledger.jobs[i];
    return found;
}

void depend_take_away(struct sim *s, const struct some_deps *deps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (unsigned n = 0; n < deps[i].count; n++)
            if (deps[i].jobs[n] && is_kept_dead(deps[i].jobs[n])) {
                client_remove(s, deps[i].jobs[n]);
                return;
            }
}

void depend_some(struct sim *s, struct ticket *t, struct enqueue *specs, size_t i,
                 struct some_deps *d)
{
    if (!sim_chance(s, s->profile.knots ? 60 : 40))
        return;
    unsigned most = s->profile.knots ? 1 : 1 + (unsigned)sim_draw(s, 3);
    for (unsigned n = 0; n < most; n++) {
        struct id id;
        d->jobs[d->count] = NULL;
        size_t place = i ? sim_draw(s, i) : 0;
        /* A duplicate would stand for the job that holds its key or alias. */
        bool own = !specs[place].unique_while && !specs[place].options.alias.len;
        if (i && sim_chance(s, 50) && own) {
            d->earlier[d->count] = place;
            id = depend_earlier((uint32_t)place);
        } else {
            struct mjob *m = s->settings.depend_slice && sim_chance(s, 30) ? some_dead(s) : NULL;
            m = m ? m : some_earlier(s);
            if (!m)
                continue;
            d->jobs[d->count] = m;
            id = m->id;
            /* Jobs that are looked up later may be gone by then. */
            t->needs_others |=
                s->settings.depend_slice > 0 || ledger_there(&s->ledger, m, s->now) != YES;
        }
        id_encode(id, d->bytes + d->count * DEPEND_ID_LEN);
        d->count++;
    }
    struct job_options *o = &specs[i].options;
    o->depends_on = (struct str){(const char *)d->bytes, d->count * DEPEND_ID_LEN};
    o->depend_when = sim_draw(s, 2);
    o->depend_death = sim_draw(s, 3);
}

void depend_note(struct ticket *t, const struct enqueue *spec, size_t i, const struct some_deps *d)
{
    struct mjob *m = t->jobs[i];
    for (unsigned n = 0; n < d->count; n++) {
        struct mjob *dep = d->jobs[n] ? d->jobs[n] : t->jobs[d->earlier[n]];
        bool twice = false;
        for (unsigned k = 0; k < m->dep_count; k++)
            twice |= m->deps[k] == dep;
        if (!twice) {
            m->deps[m->dep_count++] = dep;
            dep->awaited = true;
        }
    }
    m->depend_when = (unsigned)spec->options.depend_when;
    m->depend_death = (unsigned)spec->options.depend_death;
    if (m->dep_count || m->hold) {
        m->late = true;
        m->patched |= PATCH_READY_AT; /* it is not known in advance when they end */
    }
}
