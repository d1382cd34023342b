/* SPDX-License-Identifier: Apache-2.0 */

/* What retry policies must have decided, by a model of its own: the runs of a job are replayed, and
 * each verdict is compared with that of the first matching rule, under any of the settings that may
 * have been in force then. POLICY: no rule's limit and no total is ever exceeded, the first match
 * wins, counts survive everything but a rerun. */

#include "ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/policy.h"
#include "trace.h"

#define DEFAULT_SLOT POLICY_RULES

/* --- settings --- */

size_t ledger_setting_asked(struct ledger *l, const struct msetting *setting, instant now)
{
    ALLOC_GROW(l->settings_seen, l->setting_count, l->setting_cap, 16);
    l->settings_seen[l->setting_count] = *setting;
    l->settings_seen[l->setting_count].at = now;
    l->settings_seen[l->setting_count].seq = 0;
    return l->setting_count++;
}

void ledger_setting_acked(struct ledger *l, size_t setting)
{
    l->settings_seen[setting].seq = l->seq++;
}

void ledger_settings_lost(struct ledger *l)
{
    for (size_t i = 0; i < l->setting_count; i++)
        if (l->settings_seen[i].seq > l->safe_seq)
            l->settings_seen[i].seq = 0;
}

/* Whether nothing certain had replaced the i-th by then. */
static bool may_be_in_force(const struct ledger *l, size_t i, instant at)
{
    if (l->settings_seen[i].at.ms > at.ms)
        return false;
    for (size_t k = i + 1; k < l->setting_count; k++)
        if (l->settings_seen[k].seq && l->settings_seen[k].at.ms < at.ms)
            return false;
    return true;
}

/* --- the model --- */

/* Retries so far, by rule and by other causes. */
struct counts {
    int64_t by[POLICIES][POLICY_RULES + 1];
    int64_t asked, expired, own;
};

static int64_t sum(const struct counts *c)
{
    int64_t n = 0;
    for (unsigned p = 0; p < POLICIES; p++)
        for (unsigned r = 0; r <= POLICY_RULES; r++)
            n += c->by[p][r];
    return n;
}

/* Those to which the maximum applies. */
static int64_t total(const struct counts *c, const struct msetting *s)
{
    return sum(c) + c->asked + (s->exempt & POLICY_EXEMPT_OWN ? 0 : c->own) +
           (s->exempt & POLICY_EXEMPT_EXPIRED ? 0 : c->expired);
}

static bool holds(unsigned matcher, const struct failure *f)
{
    int32_t code = f->exit_code;
    switch (matcher) {
    case 0:
        return code == 1;
    case 1:
        return code == 2 || code == 137;
    case 2:
        return code != 0 && code != 1;
    case 3:
        return f->condition == CONDITION_EVICTED;
    case 4:
        return f->condition == CONDITION_PREEMPTED || f->condition == CONDITION_OOM_KILLED;
    case 5:
        return code == 137 && f->condition == CONDITION_OOM_KILLED;
    default:
        return f->condition == CONDITION_LEASE_EXPIRED;
    }
}

struct effective {
    unsigned list[4], count; /* indexes */
};

static void add(struct effective *e, unsigned from_one)
{
    for (unsigned i = 0; i < e->count; i++)
        if (e->list[i] + 1 == from_one)
            return;
    if (from_one)
        e->list[e->count++] = from_one - 1;
}

static struct effective effective(const struct ledger *l, const struct mjob *m)
{
    struct effective e = {0};
    add(&e, l->queue_policies[m->queue][0]);
    add(&e, l->queue_policies[m->queue][1]);
    add(&e, m->adds_policy);
    if (e.count == 0)
        add(&e, l->default_policy);
    return e;
}

struct decision {
    bool retry;
    int policy; /* -1: none of them stated anything */
    unsigned slot;
    int64_t count, limit; /* for a retry */
    int64_t delay, delay_least;
};

static int64_t delay_of(const struct mbackoff *b, int64_t n)
{
    int64_t ms = b->initial;
    for (int64_t i = 1; i < n && ms < b->most; i++)
        ms *= 2;
    return ms < b->most ? ms : b->most;
}

static struct decision decide(const struct ledger *l, const struct effective *e,
                              const struct msetting *s, const struct counts *used,
                              const struct failure *f)
{
    struct decision d = {.policy = -1, .slot = DEFAULT_SLOT};
    enum maction action = ACTION_NONE;
    for (unsigned i = 0; i < e->count && d.policy < 0; i++)
        for (unsigned r = 0; r < l->policies[e->list[i]].rule_count && d.policy < 0; r++)
            if (holds(l->policies[e->list[i]].rules[r].matcher, f)) {
                d.policy = (int)e->list[i];
                d.slot = r;
                action = l->policies[e->list[i]].rules[r].action;
            }
    for (unsigned i = 0; i < e->count && d.policy < 0 && f->condition != CONDITION_LEASE_EXPIRED;
         i++)
        if (l->policies[e->list[i]].default_action) {
            d.policy = (int)e->list[i];
            action = l->policies[e->list[i]].default_action;
        }
    if (action != ACTION_RETRY)
        return d;
    const struct mpolicy *p = &l->policies[d.policy];
    const struct mrule *rule = d.slot == DEFAULT_SLOT ? NULL : &p->rules[d.slot];
    d.limit = rule && rule->limit >= 0 ? rule->limit : p->limit >= 0 ? p->limit : s->most;
    d.count = used->by[d.policy][d.slot] + 1;
    const struct mbackoff *b = rule && rule->backoff.stated ? &rule->backoff : &p->backoff;
    d.delay = b->stated ? delay_of(b, d.count) : 0;
    d.delay_least = b->stated && b->full ? 1 : d.delay;
    d.retry = d.count <= d.limit && total(used, s) < s->most;
    return d;
}

/* --- what was decided --- */

/* What the reason of a run says about a retry by a policy. */
struct said {
    bool by_policy;
    unsigned policy, slot;
    long count, limit;
};

static struct said read_reason(const struct run *run)
{
    char text[200] = {0};
    struct said s = {0};
    if (run->reason.len == 0)
        return s; /* there is more text */
    memcpy(text, run->reason.at, run->reason.len < sizeof text ? run->reason.len : sizeof text - 1);
    unsigned rule;
    if (sscanf(text, "retry %ld of %ld by rule %u of policy p%u", &s.count, &s.limit, &rule,
               &s.policy) == 4) {
        s.by_policy = true;
        s.slot = rule - 1;
    } else if (sscanf(text, "retry %ld of %ld by the default of policy p%u", &s.count, &s.limit,
                      &s.policy) == 3) {
        s.by_policy = true;
        s.slot = DEFAULT_SLOT;
    }
    return s;
}

static bool has_words(const struct run *run, const char *words)
{
    return run->reason.len && memmem(run->reason.at, run->reason.len, words, strlen(words)) != NULL;
}

static bool is_asked(const struct run *run)
{
    return has_words(run, "when the worker asked");
}

/* Whether the settings allow a retry of that kind that no rule granted. */
static bool allows(const struct msetting *s, const struct counts *used, unsigned kind)
{
    return !s->enabled || s->exempt & kind || total(used, s) < s->most;
}

static unsigned kind_of(const struct run *run)
{
    return is_asked(run)                     ? 0
           : run->outcome == OUTCOME_EXPIRED ? POLICY_EXEMPT_EXPIRED
                                             : POLICY_EXEMPT_OWN;
}

/* A policy that is switched off may be named all the same, with what it would have said. */
static bool names_policy(const struct run *run, const struct msetting *s)
{
    return has_words(run, "policy") && (s->enabled || !has_words(run, "but policies are off"));
}

/* The job's own retries are those that no policy granted. */
static bool is_by_limits(const struct ledger *l, const struct mjob *m, const struct msetting *s,
                         const struct counts *used, const struct run *run)
{
    bool retry = instant_is_set(run->retry_at);
    if (read_reason(run).by_policy || names_policy(run, s))
        return false;
    if (has_words(run, "globalMaxRetries"))
        return !retry && !allows(s, used, kind_of(run));
    if (ledger_is_final(run->outcome))
        return !retry;
    int64_t limit =
        m->retry_limit == RETRY_LIMIT_DEFAULT ? l->settings.retry.limit : (int64_t)m->retry_limit;
    bool within = run->attempt - sum(used) <= limit;
    return m->patched & PATCH_RETRY_LIMIT ||
           (retry ? within && allows(s, used, kind_of(run)) : !within);
}

static bool is_to_fail(const struct ledger *l, const struct mjob *m, const struct msetting *s)
{
    enum retry_fallback own = l->queue_fallback[m->queue];
    if (m->no_policy)
        return m->no_policy == RETRY_FALLBACK_FAIL;
    return s->enabled && (own ? own : s->when_no_policy) == RETRY_FALLBACK_FAIL;
}

/* After the delay, or with the end of the grace period, whichever is later. */
static bool is_due(const struct run *run, const struct decision *d)
{
    int64_t ended = run->ended_at.ms, grace = run->grace_end.ms, at = run->retry_at.ms;
    if (at == grace)
        return ended + d->delay_least <= grace;
    return at > grace && at >= ended + d->delay_least && at <= ended + d->delay;
}

static bool is_by_policy(const struct ledger *l, const struct mjob *m, const struct msetting *s,
                         const struct counts *used, const struct run *run)
{
    struct effective e = effective(l, m);
    struct said said = read_reason(run);
    bool retry = instant_is_set(run->retry_at), expired = run->outcome == OUTCOME_EXPIRED;
    /* The request may have come from the worker, about which a run does not tell. */
    if (!retry && !expired && has_words(run, "globalMaxRetries"))
        return s->enabled && total(used, s) >= s->most;
    if ((!s->enabled || e.count == 0) && run->outcome == OUTCOME_FAILED && is_to_fail(l, m, s))
        return !retry &&
               has_words(run, m->no_policy ? "when_no_policy says fail" : "whenNoPolicy says fail");
    if (!s->enabled)
        return is_by_limits(l, m, s, used, run);
    struct decision d = decide(l, &e, s, used, &run->failure);
    if (e.count == 0 || (expired && d.policy < 0))
        return is_by_limits(l, m, s, used, run);
    if (!d.retry)
        return !retry && run->reason.len > 5 && memcmp(run->reason.at, "dead:", 5) == 0;
    return retry && said.by_policy && (int)said.policy == d.policy && said.slot == d.slot &&
           said.count == d.count && said.limit == d.limit && is_due(run, &d);
}

static bool is_right(const struct ledger *l, const struct mjob *m, const struct msetting *s,
                     const struct counts *used, const struct run *run)
{
    return is_asked(run) ? allows(s, used, 0) : is_by_policy(l, m, s, used, run);
}

bool ledger_is_too_late(const struct mjob *m, const struct run *run)
{
    return m->deadline.ms && !instant_is_set(run->retry_at) &&
           has_words(run, "and the job's deadline is ");
}

static void check_verdict(const struct ledger *l, const struct mjob *m, const struct run *run,
                          const struct counts *used)
{
    bool late = instant_is_set(run->retry_at) && run->retry_at.ms > run->ended_at.ms &&
                m->deadline.ms && run->retry_at.ms >= m->deadline.ms;
    PROMISE(!late, "DEADLINE", "job %lu: run %u is to be retried after the deadline", m->serial,
            run->index);
    if (ledger_is_too_late(m, run))
        return;
    for (size_t i = 0; i < l->setting_count; i++)
        if (may_be_in_force(l, i, run->ended_at) && is_right(l, m, &l->settings_seen[i], used, run))
            return;
    PROMISE(false, "POLICY", "job %lu: run %u (exit %d, condition %d): %.*s", m->serial, run->index,
            run->failure.exit_code, run->failure.condition, STR_ARG(run->reason));
}

/* Counts by policy as stored: a length, the name, 8 bytes of rule, 4 of count. */
static int64_t stored_count(const struct mjob *m, struct str bytes, unsigned policy)
{
    int64_t n = 0;
    for (size_t at = 0; at < bytes.len;) {
        size_t len = (unsigned char)bytes.at[at];
        PROMISE(len == 2 && at + 15 <= bytes.len, "POLICY", "job %lu has malformed counts",
                m->serial);
        const unsigned char *count = (const unsigned char *)bytes.at + at + 11;
        if (bytes.at[at + 2] == (char)('0' + policy))
            n += count[0] | count[1] << 8;
        at += 15;
    }
    return n;
}

static void count(struct counts *used, const struct run *run, const struct said *said)
{
    if (!instant_is_set(run->retry_at))
        return;
    if (said->by_policy)
        used->by[said->policy][said->slot]++;
    else if (is_asked(run))
        used->asked++;
    else if (run->outcome == OUTCOME_EXPIRED)
        used->expired++;
    else
        used->own++;
}

/* How long the retry must avoid the node of that run; negative: it need not. */
static int64_t avoid_of(const struct ledger *l, const struct said *said, const struct run *run)
{
    const struct mpolicy *p = &l->policies[said->policy];
    if (!said->by_policy || !instant_is_set(run->retry_at) || run->failure.node.len == 0)
        return AVOID_NOT;
    bool stated = said->slot != DEFAULT_SLOT && p->rules[said->slot].avoid != AVOID_UNSTATED;
    return stated ? p->rules[said->slot].avoid : p->avoid;
}

/* Of the newest run, which has failed. */
static void check_avoids(const struct ledger *l, const struct mjob *m, const struct job *job,
                         const struct run *run)
{
    const struct said said = read_reason(run);
    const struct job_extras *x = &job->state.extras;
    int64_t avoid = avoid_of(l, &said, run);
    bool waits = job->state.status == STATUS_READY || job->state.status == STATUS_SCHEDULED;
    PROMISE(has_words(run, "not on the same node") == (avoid >= 0), "NODE",
            "job %lu: run %u: whether to avoid its node", m->serial, run->index);
    if (!waits)
        return;
    PROMISE(str_eq(x->avoid_node, avoid >= 0 ? run->failure.node : (struct str){0}), "NODE",
            "job %lu avoids another node than that of run %u", m->serial, run->index);
    PROMISE(avoid < 0 || m->patched & PATCH_READY_AT || instant_is_set(m->terminated_at) ||
                x->avoid_until.ms == run->retry_at.ms + avoid,
            "NODE", "job %lu avoids the node of run %u until %ld", m->serial, run->index,
            (long)x->avoid_until.ms);
}

void ledger_policy_audit(const struct ledger *l, const struct mjob *m, const struct job *job,
                         const struct reply *runs)
{
    struct counts used = {0};
    /* A rerun resets counts, and a patch may have moved the job to a queue with other policies. */
    /* A gang has one account, of which others have spent. */
    bool exact = !m->rerun_ever && !(m->patched & PATCH_QUEUE) && !m->gang, granted = false;
    if (!l->has_policies)
        return;
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->runs[i];
        struct said said = read_reason(run);
        PROMISE(!said.by_policy || said.count <= said.limit, "POLICY",
                "job %lu: run %u: retry %ld of %ld", m->serial, run->index, said.count, said.limit);
        bool worker = has_words(run, "killed by the") || has_words(run, "its worker was lost");
        bool failed = run->outcome == OUTCOME_FAILED ||
                      (run->outcome == OUTCOME_EXPIRED && run->attempt) ||
                      job_outcome_is_exception(run->outcome);
        if (failed || run->outcome == OUTCOME_GANG)
            granted = failed && said.by_policy;
        if (failed && !worker && i + 1 == runs->count && !m->rerun_ever)
            check_avoids(l, m, job, run);
        if (!failed || worker || !exact)
            continue;
        check_verdict(l, m, run, &used);
        count(&used, run, &said);
    }
    PROMISE(m->rerun_ever || lifecycle_is_terminal(job->state.status) ||
                granted == (job->state.extras.granted != 0),
            "POLICY", "job %lu: whether its retry was granted is lost", m->serial);
    for (unsigned p = 0; p < POLICIES && exact; p++) {
        int64_t stored = stored_count(m, job->state.extras.retry_counts, p), replayed = 0;
        for (unsigned r = 0; r <= POLICY_RULES; r++)
            replayed += used.by[p][r];
        PROMISE(stored == replayed, "POLICY", "job %lu: %ld retries by policy %u are stored of %ld",
                m->serial, (long)stored, p, (long)replayed);
    }
}
