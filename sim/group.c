/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs. GROUP: the numbers of a group are those of the jobs that are read, it is sealed
 * as long as one of its jobs is kept, takes no further jobs then, and each time that its last job
 * ends, and only then, the next event says so. */

#include "sim.h"
#include "trace.h"

static const struct str names[GROUPS + 1] = {{"", 0}, {"g1", 2}, {"g2", 2}, {"g3", 2}};

static unsigned number_of(struct str name)
{
    return name.len == 2 && name.at[0] == 'g' ? (unsigned)(name.at[1] - '0') : 0;
}

void group_join(struct sim *s, struct enqueue *spec)
{
    if (sim_chance(s, 40))
        spec->options.group = names[1 + sim_draw(s, GROUPS)];
}

bool group_may_refuse(const struct ticket *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->jobs[i]->member_of && t->sim->grouped[t->jobs[i]->member_of].seal_asked)
            return true;
    return false;
}

/* --- what clients do --- */

static bool is_refused(const struct ticket *t, enum err_code code)
{
    if (ticket_is_in_doubt(t, code))
        return true;
    PROMISE(code == ERR_OK || code == ERR_NOT_FOUND, "REPLY", "#%lu: answer %s", t->serial,
            err_wire(code));
    return code != ERR_OK;
}

static void judge(struct ticket *t, const struct reply *r)
{
    if (is_refused(t, r->err.code))
        return;
    const struct group_view *v = r->group;
    PROMISE(v->jobs > 0 && v->unended <= v->jobs, "GROUP", "#%lu: %lu jobs, %lu have not ended",
            t->serial, v->jobs, v->unended);
    PROMISE(number_of(v->record.name) == t->queues, "GROUP", "#%lu: another group", t->serial);
    PROMISE(t->kind == CMD_GROUP_READ || instant_is_set(v->record.sealed_at), "GROUP",
            "#%lu: it is not sealed", t->serial);
}

static void judge_list(struct ticket *t, const struct reply *r)
{
    if (is_refused(t, r->err.code))
        return;
    for (size_t i = 0; i < r->count; i++) {
        const struct mjob *m = ledger_see(&t->sim->ledger, &r->jobs[i], true, t->sim->now);
        PROMISE(m->member_of == t->queues, "GROUP", "#%lu: job %lu is in no such group", t->serial,
                m->serial);
    }
}

/* Each of them was canceled or had ended; which ones is looked up when all is silent. */
static void judge_cancel(struct ticket *t, const struct reply *r)
{
    for (size_t i = 0; i < t->count; i++)
        ledger_end_refused(t->jobs[i], t->ends[i], false);
    if (is_refused(t, r->err.code))
        return;
    PROMISE(r->count <= t->count && r->sampled == r->count, "GROUP",
            "#%lu: %zu jobs of %zu were canceled, and %zu are named", t->serial, r->count, t->count,
            r->sampled);
    for (size_t i = 0; i < r->sampled; i++) {
        const struct mjob *m = ledger_find(&t->sim->ledger, r->ids[i]);
        PROMISE(m && m->member_of == t->queues, "GROUP", "#%lu: another job was canceled",
                t->serial);
    }
}

/* Those of a group that are known: others would be canceled without the ledger knowing of it. */
static void cancel_some(struct sim *s, unsigned g)
{
    struct ledger *l = &s->ledger;
    struct mjob *jobs[30];
    struct id ids[30];
    size_t n = 0;
    for (size_t i = l->count; i > 0 && n < 30; i--) {
        struct mjob *m = l->jobs[i - 1];
        if (m->member_of == g && !id_is_none(m->id) && !m->gone_seq)
            jobs[n++] = m;
    }
    if (n == 0)
        return;
    struct ticket *t = ticket_new(s, CMD_CANCEL_WHERE, n);
    for (size_t i = 0; i < n; i++) {
        ids[i] = jobs[i]->id;
        ticket_about(t, i, jobs[i], 0);
        jobs[i]->ends[t->ends[i]].later = true;
    }
    t->queues = g;
    t->then = judge_cancel;
    struct command c = {
        .list = {.filter = {.group = names[g], .ids = ids, .id_count = n}, .ids_max = 30}};
    ticket_submit(t, &c);
}

static void judge_told(struct ticket *t, const struct reply *r)
{
    (void)is_refused(t, r->err.code);
}

static void tell_priority(struct sim *s, unsigned g)
{
    struct ticket *t = ticket_new(s, CMD_GROUP_REPRIORITIZED, 0);
    struct command c = {
        .group_reprioritized = {names[g], (uint16_t)sim_draw(s, 100), sim_draw(s, 30)}};
    t->queues = g;
    t->then = judge_told;
    ticket_submit(t, &c);
}

void group_step(struct sim *s)
{
    uint64_t choice = sim_draw(s, 10);
    unsigned g = 1 + (unsigned)sim_draw(s, GROUPS);
    if (choice == 9) {
        cancel_some(s, g);
        return;
    }
    if (choice == 8) {
        tell_priority(s, g);
        return;
    }
    enum command_kind kind = choice < 2 ? CMD_GROUP_SEAL : choice < 5 ? CMD_GROUP_READ : CMD_LIST;
    struct command c = {.group = names[g]};
    if (kind == CMD_LIST)
        c = (struct command){
            .list = {.filter.group = names[g], .limit = 1 + (uint32_t)sim_draw(s, 30)}};
    struct ticket *t = ticket_new(s, kind, 0);
    t->queues = g;
    t->then = kind == CMD_LIST ? judge_list : judge;
    s->grouped[g].seal_asked |= kind == CMD_GROUP_SEAL;
    ticket_submit(t, &c);
}

/* --- in silence --- */

struct tally {
    struct sim *sim;
    uint64_t jobs, unended;
    bool goes_on;  /* a job is there that was there at the last audit */
    size_t newest; /* serial of the newest job */
    struct mgroup *model;
};

static struct tally tally_of(struct sim *s, unsigned g)
{
    struct tally n = {.sim = s, .model = &s->grouped[g]};
    for (size_t i = 0; i < s->ledger.count; i++) {
        const struct mjob *m = s->ledger.jobs[i];
        if (!m->seen || m->member_of != g)
            continue;
        n.jobs++;
        n.unended += !lifecycle_is_terminal(m->status);
        n.goes_on |= m->serial < n.model->audited;
        n.newest = m->serial;
    }
    return n;
}

static void compare(struct ticket *t, const struct reply *r)
{
    const struct tally *n = t->ctx;
    struct mgroup *g = n->model;
    PROMISE(r->err.code == (n->jobs ? ERR_OK : ERR_NOT_FOUND), "GROUP",
            "group g%u has %lu jobs, and is answered %s", t->queues, n->jobs,
            r->err.code == ERR_OK ? "ok" : err_wire(r->err.code));
    bool was_sealed = g->sealed && n->goes_on && n->sim->settings.sync;
    g->sealed = false;
    if (r->err.code != ERR_OK)
        return;
    const struct group_view *v = r->group;
    PROMISE(v->jobs == n->jobs && v->unended == n->unended, "GROUP",
            "group g%u has %lu jobs, of which %lu have not ended, and says %lu and %lu", t->queues,
            n->jobs, n->unended, v->jobs, v->unended);
    g->sealed = instant_is_set(v->record.sealed_at);
    PROMISE(!g->sealed || g->seal_asked, "GROUP", "group g%u is sealed by nobody", t->queues);
    if (!was_sealed)
        return;
    PROMISE(v->record.sealed_at.ms == g->sealed_at.ms, "GROUP", "group g%u is not sealed any more",
            t->queues);
    PROMISE(n->newest < g->audited, "GROUP", "job %zu came into group g%u, which was sealed",
            n->newest, t->queues);
}

static void take_sealed_at(struct ticket *t, const struct reply *r)
{
    compare(t, r);
    if (r->err.code == ERR_OK)
        t->sim->grouped[t->queues].sealed_at = r->group->record.sealed_at;
}

void group_audit(struct sim *s)
{
    for (unsigned g = 1; s->profile.groups && g <= GROUPS; g++) {
        struct tally n = tally_of(s, g);
        struct ticket *t = ticket_new(s, CMD_GROUP_READ, 0);
        struct command c = {.group = names[g]};
        t->then = take_sealed_at;
        t->ctx = &n;
        t->queues = g;
        ticket_submit(t, &c);
        sim_pump(s);
        s->grouped[g].audited = s->ledger.count;
    }
}

/* --- what events say --- */

static bool has_ended(enum status s)
{
    return s == STATUS_GONE || lifecycle_is_terminal(s);
}

static void see_resolved(struct group_replay *g, const struct job_event *ev)
{
    PROMISE(id_eq(g->last, ev->id) && (g->any || g->due == number_of(ev->group)), "GROUP",
            "event %lu resolves a group with jobs that have not ended", ev->number);
    g->due = 0;
    g->any = false;
}

/* Jobs whose answers were lost may be unknown: while one of them has not ended, nothing is sure. */
void group_replay(const struct ledger *l, struct group_replay *g, const struct job_event *ev)
{
    if (ev->event == EVENT_GROUP_RESOLVED) {
        see_resolved(g, ev);
        return;
    }
    group_replay_close(g);
    if (event_is_of_group(ev->event))
        return;
    bool was = !has_ended(ev->from), is = !has_ended(ev->removed ? STATUS_GONE : ev->to);
    const struct mjob *m = ledger_find(l, ev->id);
    unsigned of = m ? m->member_of : 0;
    uint64_t *unended = m ? &g->unended[of] : &g->unknown;
    *unended += (uint64_t)is - (uint64_t)was;
    if (!was || is)
        return;
    g->last = ev->id;
    g->any = !m;
    g->due = g->unended[of] == 0 ? of : 0;
    g->certain = g->unknown == 0;
}

void group_replay_close(struct group_replay *g)
{
    PROMISE(!g->due || !g->certain, "GROUP", "no event says that group g%u is resolved", g->due);
    g->due = 0;
    g->any = false;
}
