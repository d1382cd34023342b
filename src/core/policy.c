/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy.h"

#include <math.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/must.h"
#include "base/quantity.h"
#include "base/utf8.h"

/* Of what a rule matches, in a reason: beside a name of 63 bytes the verdict has room. */
#define DESCRIPTION_MAX 100

/* Who decides, and by what. */
struct choice {
    const struct policy *policy;    /* NULL: nobody stated anything */
    const struct policy_rule *rule; /* NULL: the policy's default action */
    enum policy_action action;
    /* The first policy with rules whose patterns were given up before; NULL: none. */
    const struct policy *unasked;
    size_t first_unasked, last_unasked;
};

static uint64_t off_reserved(uint64_t hash)
{
    return hash <= POLICY_DEFAULT_SLOT ? hash + POLICY_DEFAULT_SLOT + 1 : hash;
}

uint64_t policy_rule_key(const struct policy_rule *rule)
{
    must(rule->action != POLICY_ACTION_NONE);
    uint64_t action = rule->action == POLICY_RETRY ? 0 : 1;
    return off_reserved(matcher_mix(matcher_key(&rule->match) + action));
}

uint64_t policy_name_hash(struct str name)
{
    return off_reserved(matcher_hash(name));
}

/* --- growing --- */

static const struct {
    const char *name;
    uint64_t max;
    void (*write)(struct buf *b, uint64_t amount);
    uint64_t step; /* above which an amount is a multiple of it: nobody wants to read more digits */
} resources[] = {
    [POLICY_MEMORY] = {"memory", QUANTITY_MAX, quantity_write, 1 << 20},
    [POLICY_CPU] = {"cpu", QUANTITY_CPU_MAX, quantity_write_cpu, 1},
};

uint64_t policy_resource_max(enum policy_resource what)
{
    return resources[what].max;
}

const char *policy_resource_name(enum policy_resource what)
{
    return resources[what].name;
}

void policy_resource_write(struct buf *b, enum policy_resource what, uint64_t amount)
{
    resources[what].write(b, amount);
}

bool policy_rule_grows(const struct policy_rule *rule)
{
    for (size_t i = 0; i < POLICY_RESOURCES; i++)
        if (rule->growth[i].max)
            return true;
    return false;
}

static uint64_t round_up(double amount, uint64_t step)
{
    const double unit = amount > (double)step ? (double)step : 1;
    return (uint64_t)(ceil(amount / unit) * unit);
}

uint64_t policy_grow(const struct policy_growth *g, enum policy_resource what, uint64_t amount)
{
    must(g->max > 0 && g->max <= resources[what].max && amount <= resources[what].max);
    double most = (double)g->max;
    double grown = g->factor > 0 ? (double)amount * g->factor : (double)amount + (double)g->add;
    uint64_t next = grown >= most   ? g->max
                    : g->factor > 0 ? round_up(grown, resources[what].step)
                                    : amount + g->add;
    if (next > g->max)
        next = g->max;
    return next > amount ? next : amount;
}

/* --- who decides --- */

static bool is_expired(const struct failure *f)
{
    return f->condition == CONDITION_LEASE_EXPIRED;
}

/* Of a lease that ran out nobody knows that anything failed. */
static bool may_judge(const struct policy *p, const struct matcher *m, const struct failure *f)
{
    return !is_expired(f) || p->counts_together || matcher_is_for_expired(m);
}

static bool has_pattern(const struct matcher *m)
{
    return m->message || m->error || m->pod_error || m->pod_event;
}

static void note_unasked(struct choice *c, const struct policy *p, size_t rule)
{
    if (!c->unasked)
        c->first_unasked = rule;
    if (!c->unasked || c->unasked == p) {
        c->unasked = p;
        c->last_unasked = rule;
    }
}

static bool first_match(const struct policy *const *policies, size_t n, struct matcher_subject *s,
                        struct policy_verdict *v, struct choice *c)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < policies[i]->rule_count; j++) {
            const struct policy_rule *rule = &policies[i]->rules[j];
            unsigned before = s->gave_up;
            if (!may_judge(policies[i], &rule->match, s->failure))
                continue;
            bool holds = matcher_holds(&rule->match, s);
            if (!holds && has_pattern(&rule->match) &&
                (s->gave_up > before || before >= MATCHER_GIVE_UPS_MAX))
                note_unasked(c, policies[i], j);
            if (!holds)
                continue;
            c->policy = policies[i];
            c->rule = rule;
            c->action = rule->action;
            v->policy = (int)i;
            v->rule = (int)j;
            return true;
        }
    }
    return false;
}

static void first_default(const struct policy *const *policies, size_t n, bool expired,
                          struct policy_verdict *v, struct choice *c)
{
    for (size_t i = 0; i < n; i++) {
        if (policies[i]->default_action == POLICY_ACTION_NONE)
            continue;
        if (expired && !policies[i]->counts_together)
            continue;
        c->policy = policies[i];
        c->action = policies[i]->default_action;
        v->policy = (int)i;
        return;
    }
}

/* --- rule ?? policy ?? global --- */

int64_t policy_limit(const struct policy *policy, const struct policy_rule *rule,
                     const struct policy_settings *settings)
{
    if (rule && rule->retry_limit != POLICY_NO_LIMIT)
        return rule->retry_limit;
    if (policy && policy->retry_limit != POLICY_NO_LIMIT)
        return policy->retry_limit;
    return settings->global_max_retries;
}

const struct curve *policy_backoff(const struct policy *policy, const struct policy_rule *rule,
                                   const struct policy_settings *settings)
{
    if (rule && rule->backoff.shape != CURVE_NONE)
        return &rule->backoff;
    if (policy && policy->backoff.shape != CURVE_NONE)
        return &policy->backoff;
    return &settings->default_backoff;
}

span policy_retry_for(const struct policy *policy, const struct policy_rule *rule)
{
    return rule && rule->retry_for.ms ? rule->retry_for : policy->retry_for;
}

static void set_affinity(const struct choice *c, struct policy_verdict *v)
{
    static const struct policy_affinity none = {0};
    const struct policy_affinity *a = c->policy ? &c->policy->affinity : &none;
    if (c->rule && c->rule->affinity.mode != POLICY_AFFINITY_UNSET)
        a = &c->rule->affinity;
    v->avoid_node = a->mode == POLICY_AFFINITY_NODE;
    v->avoid_for = a->has_required ? a->required_for : (span){-1};
}

static span draw_delay(const struct curve *curve, uint32_t n, struct rng *rng)
{
    if (curve->shape == CURVE_NONE) {
        (void)rng_unit(rng);
        return (span){0};
    }
    return curve_delay(curve, n, rng);
}

/* --- counts --- */

static uint32_t add_total(uint32_t a, uint32_t b)
{
    uint32_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum == UINT32_MAX ? UINT32_MAX - 1 : sum;
}

static uint32_t sum_of(uint32_t total, int64_t others)
{
    int64_t n = total + others;
    return n < 0 ? 0 : n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

uint32_t policy_total(const struct policy_count *counts, size_t n)
{
    uint32_t total = 0;
    for (size_t i = 0; i < n; i++)
        total = add_total(total, counts[i].count);
    return total;
}

static void find_slot(const struct choice *c, const struct policy_count *counts, size_t n,
                      struct policy_verdict *v)
{
    if (!c->policy)
        return;
    v->slot.policy = policy_name_hash(c->policy->name);
    v->slot.rule = c->rule && !c->policy->counts_together ? c->rule->key : POLICY_DEFAULT_SLOT;
    for (size_t i = 0; i < n; i++)
        if (counts[i].policy == v->slot.policy && counts[i].rule == v->slot.rule)
            v->count = counts[i].count < UINT32_MAX ? counts[i].count : UINT32_MAX - 1;
}

/* --- words --- */

/* What was decided stands behind the decider: its words are the ones to be cut. */
static void add_decider(struct buf *b, const struct choice *c, const struct policy_verdict *v)
{
    if (!c->rule) {
        buf_print(b, "the default of policy %.*s", STR_ARG(c->policy->name));
        return;
    }
    buf_print(b, "rule %d of policy %.*s (", v->rule + 1, STR_ARG(c->policy->name));
    struct buf words = {0};
    matcher_describe(&c->rule->match, &words);
    size_t n = utf8_whole(buf_view(&words), DESCRIPTION_MAX);
    buf_print(b, "%.*s%s)", (int)n, words.at, n < words.len ? "..." : "");
    buf_fini(&words);
}

static void add_allowed(struct buf *b, int64_t limit)
{
    if (limit == 0)
        buf_lit(b, "no retries");
    else
        buf_print(b, "%lld %s", (long long)limit, limit == 1 ? "retry" : "retries");
}

static void say_retry(struct buf *b, const struct choice *c, const struct policy_verdict *v)
{
    buf_print(b, "retry %u of %lld by ", v->count, (long long)v->limit);
    add_decider(b, c, v);
    if (v->delay.ms == 0) {
        buf_lit(b, ", at once");
        return;
    }
    buf_lit(b, ", in ");
    duration_write(b, v->delay);
}

static void say_fail(struct buf *b, const struct choice *c, const struct policy_verdict *v)
{
    if (!c->policy) {
        buf_lit(b, "dead: no rule matched and no policy states a default action");
        return;
    }
    buf_lit(b, "dead: ");
    if (c->rule)
        add_decider(b, c, v);
    else
        buf_print(b, "no rule matched and policy %.*s", STR_ARG(c->policy->name));
    buf_lit(b, " says Fail");
}

void policy_say_total(struct buf *b, uint32_t total, int64_t most)
{
    if (most == 0)
        buf_lit(b, "globalMaxRetries is 0, which stops all retries");
    else if (total > most)
        buf_print(b, "%u retries in all, and globalMaxRetries now allows %lld", total,
                  (long long)most);
    else
        buf_print(b, "%u %s in all, as many as globalMaxRetries allows", total,
                  total == 1 ? "retry" : "retries");
}

static void say_used_up(struct buf *b, const struct choice *c, const struct policy_verdict *v)
{
    buf_lit(b, "dead: ");
    add_decider(b, c, v);
    buf_str(b, c->policy->counts_together ? STR(": the policy allows ") : STR(" allows "));
    add_allowed(b, v->limit);
    if (c->policy->counts_together)
        buf_lit(b, " in all");
}

/* The author of a policy reads a limit there that this job has not reached. An emergency stop is
 * not a matter of limits. */
static void say_allowed_more(struct buf *b, const struct choice *c, const struct policy_verdict *v,
                             const struct policy_settings *s)
{
    bool stated = (c->rule && c->rule->retry_limit != POLICY_NO_LIMIT) ||
                  (c->policy && c->policy->retry_limit != POLICY_NO_LIMIT);
    if (!stated || v->count >= v->limit || s->global_max_retries == 0)
        return;
    if (c->rule)
        buf_print(b, ", though rule %d of policy %.*s allows ", v->rule + 1,
                  STR_ARG(c->policy->name));
    else
        buf_print(b, ", though the default of policy %.*s allows ", STR_ARG(c->policy->name));
    buf_print(b, "%lld", (long long)v->limit);
}

static void set_reason(struct policy_verdict *v, const struct buf *words)
{
    /* Not in the middle of a character: the reason is stored and sent as text. */
    size_t n = utf8_whole(buf_view(words), sizeof v->reason - 1);
    memcpy(v->reason, words->at, n);
    v->reason[n] = '\0';
}

/* A pattern that was given up counts as no match: the rule may have been meant for this failure. */
static void say_unasked(struct buf *words, const struct choice *c)
{
    if (!c->unasked)
        return;
    buf_print(words, "; rule %zu", c->first_unasked + 1);
    if (c->last_unasked > c->first_unasked)
        buf_print(words, " to rule %zu", c->last_unasked + 1);
    buf_print(words, " of policy %.*s could not be asked in full: too much text for their patterns",
              STR_ARG(c->unasked->name));
}

/* --- the verdict --- */

struct policy_verdict policy_evaluate(const struct policy *const *policies, size_t policy_count,
                                      const struct policy_settings *settings,
                                      const struct failure *failure,
                                      const struct policy_count *counts, size_t count_count,
                                      int64_t others, struct rng *rng)
{
    must(settings->global_max_retries >= 0);
    struct policy_verdict v = {.policy = -1, .rule = -1};
    struct matcher_subject subject = {.failure = failure};
    struct choice c = {.action = POLICY_FAIL};
    if (!first_match(policies, policy_count, &subject, &v, &c))
        first_default(policies, policy_count, is_expired(failure), &v, &c);
    v.over_match_limit = subject.gave_up > 0;
    v.steps = subject.steps;
    v.limit = policy_limit(c.policy, c.rule, settings);
    v.total = sum_of(policy_total(counts, count_count), others);
    v.decider = c.rule ? DECIDER_RULE : DECIDER_NO_RULE;
    find_slot(&c, counts, count_count, &v);
    span delay = draw_delay(policy_backoff(c.policy, c.rule, settings), v.count + 1, rng);

    struct buf words = {0};
    if (c.action == POLICY_FAIL) {
        say_fail(&words, &c, &v);
    } else if (v.total >= settings->global_max_retries) {
        /* Before the rule's own limit: of two reasons the emergency stop is the one to tell. */
        v.decider = DECIDER_GLOBAL_MAX;
        buf_lit(&words, "dead: ");
        policy_say_total(&words, v.total, settings->global_max_retries);
        say_allowed_more(&words, &c, &v, settings);
    } else if (v.count >= v.limit) {
        v.decider = DECIDER_RULE_LIMIT;
        say_used_up(&words, &c, &v);
    } else {
        v.retry = true;
        v.delay = delay;
        set_affinity(&c, &v);
        v.slot.count = ++v.count;
        v.total++;
        say_retry(&words, &c, &v);
    }
    say_unasked(&words, &c);
    set_reason(&v, &words);
    buf_fini(&words);
    return v;
}

void policy_settings_change(struct policy_settings *s, const struct policy_change *c)
{
    if (c->set & POLICY_SET_ENABLED)
        s->enabled = c->to.enabled;
    if (c->set & POLICY_SET_MAX)
        s->global_max_retries = c->to.global_max_retries;
    if (c->set & POLICY_SET_EXEMPT)
        s->exempt = c->to.exempt;
    if (c->set & POLICY_SET_NO_POLICY)
        s->when_no_policy = c->to.when_no_policy;
    if (c->set & POLICY_SET_GRACE)
        s->preempted_grace = c->to.preempted_grace;
    if (c->set & POLICY_SET_DEFAULT)
        s->default_policy = c->to.default_policy;
    if (c->set & POLICY_SET_BACKOFF)
        s->default_backoff = c->to.default_backoff;
}
