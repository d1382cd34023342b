/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "base/quantity.h"
#include "core/culprit_ledger.h"
#include "core/job_fields.h"
#include "core/tally.h"

_Static_assert(sizeof((struct retry_verdict){0}.reason) == sizeof((struct verdict){0}.reason) &&
                   sizeof((struct policy_verdict){0}.reason) == sizeof((struct verdict){0}.reason),
               "all reasons have the same room");

/* Continues a reason, as far as there is room. */
static void add_words(char reason[RETRY_REASON_MAX], const char *words)
{
    size_t n = strlen(reason);
    if (n + strlen(words) < RETRY_REASON_MAX)
        memcpy(reason + n, words, strlen(words) + 1);
}

const char *verdict_decider_name(enum decider d)
{
    static const char *const names[DECIDER_COUNT] = {
        [DECIDER_KILL] = "kill",
        [DECIDER_RETRY_AT] = "retry_at",
        [DECIDER_RULE] = "rule",
        [DECIDER_NO_RULE] = "no_rule",
        [DECIDER_RULE_LIMIT] = "rule_limit",
        [DECIDER_NO_POLICY] = "no_policy",
        [DECIDER_RETRY_LIMIT] = "retry_limit",
        [DECIDER_GLOBAL_MAX] = "global_max",
        [DECIDER_CULPRIT] = "culprit",
        [DECIDER_RETRY_FOR] = "retry_for",
        [DECIDER_FAIL_FAST] = "fail_fast",
        [DECIDER_DEADLINE] = "deadline",
    };
    must(d < DECIDER_COUNT);
    return names[d];
}

/* --- what a policy's retry brings with it --- */

static void adopt(struct verdict *v, const struct policy_verdict *by, const struct policy *p,
                  const struct failure *f, span avoid_required, instant now, struct arena *a)
{
    v->retry = by->retry;
    v->over_match_limit = by->over_match_limit;
    v->steps = by->steps;
    v->ruling =
        (struct ruling){p ? p->name : (struct str){0}, by->rule, by->count, by->limit, by->decider};
    memcpy(v->reason, by->reason, sizeof v->reason);
    if (!by->retry) {
        v->resolution = RESOLUTION_FAILED;
        return;
    }
    const struct tally t = {p->name, by->slot.rule, by->slot.count};
    v->at = instant_add(now, by->delay);
    v->extras.granted = 1;
    v->extras.retry_counts = tally_set(v->extras.retry_counts, &t, a);
    if (!by->avoid_node || f->node.len == 0)
        return;
    span required = by->avoid_for.ms >= 0 ? by->avoid_for : avoid_required;
    v->extras.avoid_node = arena_copy(a, f->node); /* it may be the run's, which ends now */
    v->extras.avoid_until = instant_add(v->at, required);
    add_words(v->reason, ", not on the same node");
}

/* Where a job keeps a resource. */
struct resource_place {
    uint64_t asked; /* when it was enqueued */
    uint64_t *grown, *fleeting;
};

static struct resource_place place_of(struct job_extras *x, const struct job *job,
                                      enum policy_resource what)
{
    if (what == POLICY_MEMORY)
        return (struct resource_place){job->options.memory, &x->memory, &x->memory_fleeting};
    return (struct resource_place){job->options.cpu, &x->cpu, &x->cpu_fleeting};
}

/* A resource of the retry. What was grown is kept over retries by other rules (a preemption, say)
 * unless the rule that grew it said otherwise. */
static void grow(struct verdict *v, const struct policy_rule *rule, const struct job *job,
                 enum policy_resource what)
{
    struct resource_place at = place_of(&v->extras, job, what);
    const struct policy_growth *g = rule ? &rule->growth[what] : NULL;
    if (!g || g->max == 0) {
        if (*at.fleeting)
            *at.grown = *at.fleeting = 0;
        return;
    }
    struct buf words = {0};
    uint64_t before = *at.grown ? *at.grown : at.asked;
    uint64_t after = before ? policy_grow(g, what, before) : 0;
    buf_print(&words, ", %s ", policy_resource_name(what));
    if (before == 0) {
        buf_lit(&words, "as it was: the job states none");
    } else if (after > before) {
        buf_lit(&words, "from ");
        policy_resource_write(&words, what, before);
        buf_lit(&words, " to ");
        policy_resource_write(&words, what, after);
        *at.grown = after;
        *at.fleeting = g->fleeting;
    } else {
        buf_lit(&words, "stays ");
        policy_resource_write(&words, what, before);
        buf_lit(&words, ", the most");
    }
    buf_byte(&words, '\0');
    add_words(v->reason, words.at);
    buf_fini(&words);
}

static void grow_all(struct verdict *v, const struct policy_rule *rule, const struct job *job)
{
    for (int i = 0; i < POLICY_RESOURCES; i++)
        grow(v, rule, job, (enum policy_resource)i);
}

/* The run that was preempted may still be at work: the next one waits for its end, but no longer
 * than the grace period (a graceful shutdown). */
static void wait_for_end(struct verdict *v, instant now, uint64_t token, span grace)
{
    struct job_extras *x = &v->extras;
    x->grace_token = token;
    x->grace_end = instant_add(now, grace);
    x->backoff_end = v->at;
    if (x->grace_end.ms <= v->at.ms)
        return;
    if (x->avoid_node.len)
        x->avoid_until = instant_add(x->avoid_until, instant_diff(x->grace_end, v->at));
    v->at = x->grace_end;
    struct buf words = {0};
    buf_lit(&words, ", but not before the preempted run has ended or ");
    duration_write(&words, grace);
    buf_lit(&words, " are over");
    buf_byte(&words, '\0');
    add_words(v->reason, words.at);
    buf_fini(&words);
}

/* --- globalMaxRetries --- */

/* The retries that a job has had, by whom. */
struct had {
    uint32_t by_rules, asked, expired, own;
    struct culprit_ledger ledger; /* those of them after failures that others are to blame for */
};

static uint32_t take_from(uint32_t *left, uint64_t part)
{
    uint32_t n = part < *left ? (uint32_t)part : *left;
    *left -= n;
    return n;
}

/* What is stored of the parts is believed, but not trusted. */
static struct had count_retries(const struct job_state *s, uint32_t by_rules)
{
    must(s->forgiven <= s->attempts);
    struct had h = {.own = s->attempts - s->forgiven};
    h.by_rules = take_from(&h.own, by_rules);
    h.asked = take_from(&h.own, s->extras.asked_retries);
    h.expired = take_from(&h.own, s->extras.expired_retries);
    if (s->extras.culprit_counts.len)
        h.ledger = culprit_ledger_read(s->extras.culprit_counts);
    return h;
}

static int64_t counted(const struct culprit_counts *c, bool own, bool expired)
{
    return (int64_t)c->granted + (own ? c->own : 0) + (expired ? c->expired : 0);
}

/* Those of them that count towards the maximum, but for those by rules, of which some may not
 * count: then it may be negative. */
static int64_t others_of(const struct had *h, const struct policy_settings *s)
{
    bool own = !(s->exempt & POLICY_EXEMPT_OWN), expired = !(s->exempt & POLICY_EXEMPT_EXPIRED);
    int64_t n = (int64_t)h->asked + (own ? h->own : 0) + (expired ? h->expired : 0);
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++)
        if (s->exempt & POLICY_EXEMPT_CULPRIT(i))
            n -= counted(&h->ledger.of[i], own, expired);
    if (s->exempt & POLICY_EXEMPT_CULPRIT(CULPRIT_DISRUPTION))
        return n; /* the parts are in it */
    if (s->exempt & POLICY_EXEMPT_PREEMPTED)
        n -= counted(&h->ledger.preempted, own, expired);
    if (s->exempt & POLICY_EXEMPT_EVICTED)
        n -= counted(&h->ledger.evicted, own, expired);
    return n;
}

/* Whether the maximum does not concern retries after such a failure, whoever grants them. */
static bool is_of_exempt(const struct failure *f, const struct policy_settings *s)
{
    unsigned bits = f->culprit ? POLICY_EXEMPT_CULPRIT(f->culprit) : 0;
    if (f->culprit == CULPRIT_DISRUPTION && f->condition == CONDITION_PREEMPTED)
        bits |= POLICY_EXEMPT_PREEMPTED;
    if (f->culprit == CULPRIT_DISRUPTION && f->condition == CONDITION_EVICTED)
        bits |= POLICY_EXEMPT_EVICTED;
    return s->exempt & bits;
}

/* The same for rules: the maximum does not concern a retry after a failure of an exempt culprit. */
static int64_t others_for(const struct verdict_request *r, const struct had *h,
                          const struct policy_settings *s)
{
    return is_of_exempt(r->failure, s) ? INT64_MIN / 2 : others_of(h, s);
}

static bool is_exempt(const struct verdict_request *r, const struct policy_settings *s)
{
    if (instant_is_set(r->retry_at))
        return false;
    if (is_of_exempt(r->failure, s))
        return true;
    return s->exempt & (r->outcome == OUTCOME_EXPIRED ? POLICY_EXEMPT_EXPIRED : POLICY_EXEMPT_OWN);
}

/* The last word about a retry that no rule has granted. */
static void limit_all(const struct verdict_request *r, const struct verdict_rules *rules,
                      const struct had *h, struct verdict *v)
{
    const struct policy_settings *s = rules->settings;
    if (!v->retry || !s || !s->enabled || is_exempt(r, s))
        return;
    int64_t sum = h->by_rules + others_of(h, s);
    if (sum < s->global_max_retries)
        return;
    uint32_t total = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    bool expired = r->outcome == OUTCOME_EXPIRED;
    struct buf words = {0};
    buf_str(&words, expired ? STR("dead: the lease ran out and ") : STR("dead: "));
    policy_say_total(&words, total, s->global_max_retries);
    buf_byte(&words, '\0');
    v->retry = false;
    v->at = INSTANT_NONE;
    v->resolution = expired ? RESOLUTION_CLAIM_EXPIRED : RESOLUTION_FAILED;
    v->reason[0] = '\0';
    add_words(v->reason, words.at);
    v->ruling = (struct ruling){
        .rule = -1, .count = total, .limit = s->global_max_retries, .by = DECIDER_GLOBAL_MAX};
    buf_fini(&words);
}

/* --- who decides --- */

/* What retry_decide went by, unless it was a word of the worker. */
static struct ruling ruling_of_limits(const struct retry_request *r,
                                      const struct retry_defaults *defaults,
                                      const struct retry_verdict *v)
{
    struct ruling word = RULING_NONE;
    word.by = r->kill ? DECIDER_KILL : DECIDER_RETRY_AT;
    if (r->kill || instant_is_set(r->retry_at))
        return word;
    if (v->free)
        return (struct ruling){
            .rule = -1, .count = r->free_had + 1, .limit = r->free_max, .by = DECIDER_CULPRIT};
    int64_t own = r->job->retry_limit;
    return (struct ruling){.rule = -1,
                           .count = retry_failures(r) - (v->retry ? 0 : 1),
                           .limit = own == RETRY_LIMIT_DEFAULT ? defaults->limit : own,
                           .by = DECIDER_RETRY_LIMIT};
}

/* Whether retries after such a failure can be free. A worker that took a job and then fell silent
 * costs it a retry: the job may be what silenced it. A task's retries are counted as Taskcluster
 * counts them. */
static bool is_others_fault(const struct verdict_request *r, const struct verdict_rules *rules)
{
    enum culprit c = r->failure->culprit;
    if (!c || !rules->bounds || !rules->bounds->free[c])
        return false;
    bool silent = r->outcome == OUTCOME_EXPIRED && c == CULPRIT_WORKER;
    return !silent && job_kind(r->job) != KIND_TASK;
}

static struct retry_request request_of(const struct verdict_request *r,
                                       const struct verdict_rules *rules, const struct had *h)
{
    enum culprit c = r->failure->culprit;
    struct retry_request q = {.job = r->job,
                              .outcome = r->outcome,
                              .kill = r->kill,
                              .retry_at = r->retry_at,
                              .uncharged = h->by_rules};
    uint32_t left = UINT32_MAX - q.uncharged;
    q.uncharged += take_from(&left, culprit_ledger_free(&h->ledger));
    if (!is_others_fault(r, rules))
        return q;
    q.culprit = culprit_name(c);
    q.free_had = h->ledger.of[c].free;
    q.free_max = rules->bounds->free[c];
    return q;
}

/* By a word of the worker, or the job's own limits, the queue's and the server's. */
static void decide_by_limits(const struct verdict_request *r, const struct verdict_rules *rules,
                             struct had *h, instant now, struct rng *rng, struct verdict *v)
{
    const struct retry_request own = request_of(r, rules, h);
    struct retry_verdict by = retry_decide(&own, &rules->defaults, now, rng);
    struct culprit_counts *counts = &h->ledger.of[r->failure->culprit];
    v->retry = by.retry;
    v->at = by.retry ? by.at : INSTANT_NONE;
    v->resolution = by.resolution;
    memcpy(v->reason, by.reason, sizeof v->reason);
    v->ruling = ruling_of_limits(&own, &rules->defaults, &by);
    grow_all(v, NULL, r->job);
    limit_all(r, rules, h, v);
    if (!v->retry)
        return;
    counts->free += by.free;
    if (instant_is_set(r->retry_at)) {
        v->extras.asked_retries++;
    } else if (r->outcome == OUTCOME_EXPIRED) {
        v->extras.expired_retries++;
        counts->expired++;
    } else {
        counts->own++;
    }
}

/* Whether the retry is worth a line of the ledger: what the job did itself is counted as it is. */
static void keep_ledger(const struct verdict_request *r, struct had *h, struct arena *a,
                        struct verdict *v)
{
    enum culprit c = r->failure->culprit;
    if (!v->retry || !c || c == CULPRIT_JOB || instant_is_set(r->retry_at))
        return;
    if (v->extras.granted)
        h->ledger.of[c].granted++;
    struct culprit_counts *part = culprit_ledger_part(&h->ledger, r->failure);
    if (part && v->extras.granted)
        part->granted++;
    else if (part)
        part->own++; /* no lease that ran out is one */
    v->extras.culprit_counts = culprit_ledger_write(&h->ledger, a);
}

/* --- until when --- */

/* How long whoever granted the retry retries; 0: for any time. */
static span retry_for_of(const struct verdict *v, const struct verdict_rules *rules)
{
    for (size_t i = 0; v->extras.granted && i < rules->policy_count; i++) {
        const struct policy *p = rules->policies[i];
        if (str_eq(p->name, v->ruling.policy))
            return policy_retry_for(p, v->ruling.rule >= 0 ? &p->rules[v->ruling.rule] : NULL);
    }
    return (span){0};
}

/* How long retries go on, and whether the job says so or who granted the retry. */
struct retry_time {
    span most; /* 0: for any time */
    bool own;
};

static struct retry_time shorter_time(span granted, const struct job *job)
{
    int64_t own = (int64_t)job->options.retry_for;
    bool is_own = own && (!granted.ms || own < granted.ms);
    return (struct retry_time){is_own ? (span){own} : granted, is_own};
}

static void say_whose_time(struct buf *b, const struct verdict *v, struct retry_time time)
{
    if (time.own)
        buf_lit(b, "the job, by its retry_for_ms,");
    else if (v->ruling.rule >= 0)
        buf_print(b, "rule %d of policy %.*s", v->ruling.rule + 1, STR_ARG(v->ruling.policy));
    else
        buf_print(b, "the default of policy %.*s", STR_ARG(v->ruling.policy));
    buf_lit(b, " retries for no longer than ");
    duration_write(b, time.most);
}

/* The time for retries, which began `since`, ends before the one at `at` would begin. */
static void say_too_late(struct buf *b, const struct verdict *v, struct retry_time time,
                         instant since, instant now, instant at)
{
    bool failed_before = since.ms < now.ms;
    buf_lit(b, "dead: ");
    if (failed_before) {
        buf_lit(b, "failed for ");
        duration_write(b, instant_diff(now, since));
        buf_str(b, at.ms > now.ms ? STR(", and the retry would begin in ") : STR(""));
    } else {
        buf_lit(b, "the retry would begin in ");
    }
    if (at.ms > now.ms)
        duration_write(b, instant_diff(at, now));
    buf_lit(b, "; ");
    say_whose_time(b, v, time);
    buf_byte(b, '\0');
}

/* Nothing of the retry is kept. */
static void refuse(struct verdict *v, const struct verdict_request *r, enum decider by,
                   const char *why, struct arena *a)
{
    v->retry = false;
    v->at = INSTANT_NONE;
    v->resolution = job_outcome_resolution(r->outcome);
    v->extras = job_extras_copy(a, &r->job->state.extras);
    v->extras.avoid_node = (struct str){0};
    v->extras.avoid_until = (instant){0};
    v->extras.granted = 0;
    v->ruling.count -= v->ruling.count > 0;
    v->ruling.by = by;
    v->reason[0] = '\0';
    add_words(v->reason, why);
}

/* What the job itself says is no decision of a policy. */
static void disown(struct verdict *v)
{
    enum decider by = v->ruling.by;
    v->ruling = RULING_NONE;
    v->ruling.by = by;
}

static void limit_time(const struct verdict_request *r, const struct verdict_rules *rules,
                       instant now, span grace, struct arena *a, struct verdict *v)
{
    const struct job_state *s = &r->job->state;
    span granted = retry_for_of(v, rules);
    bool others = v->ruling.by == DECIDER_CULPRIT ||
                  (v->extras.granted && !granted.ms && is_others_fault(r, rules));
    instant *since = &v->extras.first_failed_at;
    if (s->attempts == s->forgiven)
        *since = (instant){0};
    if (!v->retry || others)
        return;
    if (!since->ms)
        *since = now;
    struct retry_time time = {granted};
    if (v->ruling.by != DECIDER_RETRY_AT && !(granted.ms && is_others_fault(r, rules)))
        time = shorter_time(granted, r->job);
    instant at = instant_max(v->at, instant_add(now, grace));
    if (!time.most.ms || instant_diff(at, *since).ms <= time.most.ms)
        return;
    struct buf why = {0};
    say_too_late(&why, v, time, *since, now, at);
    refuse(v, r, DECIDER_RETRY_FOR, why.at, a);
    if (time.own)
        disown(v);
    buf_fini(&why);
}

/* Waiting for a retry that cannot be would hide from the job's author that it has failed. A retry
 * at once is left to the deadline itself. */
static void limit_deadline(const struct verdict_request *r, instant now, span grace,
                           struct arena *a, struct verdict *v)
{
    instant end = r->job->options.deadline, at = instant_max(v->at, instant_add(now, grace));
    if (!v->retry || !end.ms || at.ms <= now.ms || at.ms < end.ms)
        return;
    struct buf why = {0};
    buf_lit(&why, "dead: the retry would begin at ");
    rfc3339_write(&why, at);
    buf_lit(&why, ", and the job's deadline is ");
    rfc3339_write(&why, end);
    buf_byte(&why, '\0');
    refuse(v, r, DECIDER_DEADLINE, why.at, a);
    disown(v);
    v->resolution = RESOLUTION_DEADLINE;
    buf_fini(&why);
}

/* --- policies --- */

/* False if a lease ran out that no rule names: then nothing was decided, and nothing drawn. */
static bool decide_by_policies(const struct verdict_request *r, const struct verdict_rules *rules,
                               const struct policy_count *counts, size_t used, int64_t others,
                               instant now, struct rng *rng, struct arena *a, struct verdict *v)
{
    bool expired = r->outcome == OUTCOME_EXPIRED;
    const struct rng before = *rng;
    struct policy_verdict by =
        policy_evaluate(rules->policies, rules->policy_count, rules->settings, r->failure, counts,
                        used, others, rng);
    if (expired && by.policy < 0) {
        *rng = before;
        return false;
    }
    const struct policy *p = by.policy >= 0 ? rules->policies[by.policy] : NULL;
    adopt(v, &by, p, r->failure, rules->avoid_required, now, a);
    if (v->retry)
        grow_all(v, by.rule >= 0 ? &p->rules[by.rule] : NULL, r->job);
    else if (expired)
        v->resolution = RESOLUTION_CLAIM_EXPIRED;
    return true;
}

/* What the job itself says counts also while policies are switched off. */
static bool is_to_fail(const struct job *job, const struct verdict_rules *rules, bool enabled)
{
    enum retry_fallback f = rules->when_no_policy;
    if (job->options.when_no_policy != RETRY_FALLBACK_UNSET)
        return job->options.when_no_policy == RETRY_FALLBACK_FAIL;
    if (!enabled)
        return false;
    return (f != RETRY_FALLBACK_UNSET ? f : rules->settings->when_no_policy) !=
           RETRY_FALLBACK_DEFAULT;
}

/* False if that is not to be: then nothing was decided, and nothing drawn. */
static bool fail_without_policy(const struct job *job, const struct verdict_rules *rules,
                                bool enabled, struct rng *rng, struct verdict *v)
{
    bool own = job->options.when_no_policy != RETRY_FALLBACK_UNSET;
    if (!is_to_fail(job, rules, enabled))
        return false;
    (void)rng_unit(rng);
    v->resolution = RESOLUTION_FAILED;
    v->ruling = RULING_NONE;
    v->ruling.by = DECIDER_NO_POLICY;
    add_words(v->reason,
              own ? "dead: no retry policy is in effect, and the job's when_no_policy says fail"
                  : "dead: no retry policy is in effect, and whenNoPolicy says fail");
    return true;
}

/* Draws once, as whoever else decides. */
static void fail_fast(struct rng *rng, struct verdict *v)
{
    (void)rng_unit(rng);
    v->resolution = RESOLUTION_FAILED;
    v->ruling = RULING_NONE;
    v->ruling.by = DECIDER_FAIL_FAST;
    add_words(v->reason, "dead: the job's fail_fast says that its first failure is final");
}

static void say_missing(struct str missing, struct verdict *v)
{
    bool many = memchr(missing.at, ',', missing.len) != NULL;
    char words[RETRY_REASON_MAX];
    snprintf(words, sizeof words,
             many ? "; retry policies %.*s are missing" : "; retry policy %.*s is missing",
             STR_ARG(missing));
    add_words(v->reason, words);
}

/* Policies that are switched off decide nothing; whoever wrote one is told so, and what it would
 * have said. Draws nothing. */
static void say_off(const struct verdict_request *r, const struct verdict_rules *rules,
                    const struct policy_count *counts, size_t used, int64_t others, struct rng rng,
                    struct verdict *v)
{
    struct policy_settings on = *rules->settings;
    on.enabled = true;
    struct policy_verdict by = policy_evaluate(rules->policies, rules->policy_count, &on,
                                               r->failure, counts, used, others, &rng);
    if (r->outcome == OUTCOME_EXPIRED && by.policy < 0)
        return;
    struct str name = rules->policies[by.policy >= 0 ? by.policy : 0]->name;
    char words[RETRY_REASON_MAX];
    snprintf(words, sizeof words, "; policy %.*s would have said %s, but policies are off",
             (int)(name.len < 64 ? name.len : 64), name.at, by.retry ? "Retry" : "Fail");
    add_words(v->reason, words);
}

static span grace_of(const struct verdict_request *r, const struct verdict_rules *rules)
{
    if (r->grace.ms >= 0)
        return r->grace;
    bool preempted = r->failure->condition == CONDITION_PREEMPTED;
    return preempted && rules->settings ? rules->settings->preempted_grace : (span){0};
}

struct verdict verdict_decide(const struct verdict_request *r, const struct verdict_rules *rules,
                              instant now, struct rng *rng, struct arena *a)
{
    const struct job_state *s = &r->job->state;
    struct verdict v = {.at = INSTANT_NONE, .extras = job_extras_copy(a, &s->extras)};
    v.extras.avoid_node = (struct str){0};
    v.extras.avoid_until = (instant){0};
    v.extras.granted = 0;
    bool word = r->kill || instant_is_set(r->retry_at), fast = !word && r->job->options.fail_fast;
    bool enabled = !word && !fast && rules->settings && rules->settings->enabled, decided = fast;
    struct policy_count *counts;
    size_t used = tally_counts(v.extras.retry_counts, a, &counts);
    struct had had = count_retries(s, policy_total(counts, used));
    if (fast)
        fail_fast(rng, &v);
    else if (enabled && rules->policy_count)
        decided = decide_by_policies(r, rules, counts, used, others_for(r, &had, rules->settings),
                                     now, rng, a, &v);
    else if (!word && r->outcome == OUTCOME_FAILED)
        decided = fail_without_policy(r->job, rules, enabled, rng, &v);
    if (!decided)
        decide_by_limits(r, rules, &had, now, rng, &v);
    span grace = grace_of(r, rules);
    limit_time(r, rules, now, grace, a, &v);
    limit_deadline(r, now, grace, a, &v);
    keep_ledger(r, &had, a, &v);
    if (v.resolution == RESOLUTION_FAILED)
        v.resolution = job_outcome_resolution(r->outcome);
    bool off = !word && !fast && !enabled && rules->settings && rules->policy_count;
    if (off && (r->outcome == OUTCOME_FAILED || r->outcome == OUTCOME_EXPIRED))
        say_off(r, rules, counts, used, others_for(r, &had, rules->settings), *rng, &v);
    if (enabled && rules->missing.len)
        say_missing(rules->missing, &v);
    if (v.retry && grace.ms > 0)
        wait_for_end(&v, now, r->token, grace);
    return v;
}

bool verdict_is_poison(uint32_t lost_worker_limit, uint32_t losses)
{
    return lost_worker_limit && losses >= lost_worker_limit;
}

struct verdict verdict_poison(const struct job_extras *x, uint32_t losses)
{
    struct verdict v = {
        .resolution = RESOLUTION_POISON, .at = INSTANT_NONE, .ruling = RULING_NONE, .extras = *x};
    v.extras.avoid_node = (struct str){0};
    v.extras.avoid_until = (instant){0};
    snprintf(v.reason, sizeof v.reason, "dead: its worker was lost in %u %s", losses,
             losses == 1 ? "run" : "runs in a row");
    return v;
}

enum event verdict_event(const struct verdict *v, instant now)
{
    if (v->resolution == RESOLUTION_POISON)
        return EVENT_POISON;
    if (!v->retry)
        return EVENT_EXHAUST;
    return v->at.ms <= now.ms ? EVENT_RETRY_NOW : EVENT_RETRY;
}
