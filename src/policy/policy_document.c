/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_document.h"

#include <stdio.h>

#include "base/array.h"
#include "base/must.h"
#include "base/quantity.h"
#include "policy/armada_document.h"
#include "policy/document_internal.h"
#include "policy/fields.h"
#include "policy/policy_warning.h"

#define MULTIPLIER_MOST 1000.0

/* --- backoff and affinity: of a policy and of a rule --- */

static bool read_initial(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_span(f, at, &((struct curve *)into)->base);
}

static bool read_max(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_span(f, at, &((struct curve *)into)->most);
}

static bool read_jitter(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_span(f, at, &((struct curve *)into)->jitter);
}

static bool read_multiplier(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_double(f, at, 1.0, MULTIPLIER_MOST, &((struct curve *)into)->exponent);
}

bool policy_document_backoff(struct fields *f, const struct fields_at *at, struct curve *c)
{
    static const struct field table[] = {{"initialDelay", read_initial, true},
                                         {"maxDelay", read_max, false},
                                         {"multiplier", read_multiplier, false},
                                         {"jitter", read_jitter, false}};
    *c = (struct curve){.shape = CURVE_EXPONENTIAL,
                        .exponent = POLICY_DOCUMENT_MULTIPLIER,
                        .most = {POLICY_DOCUMENT_MAX_DELAY_MS}};
    if (!fields_read(f, at, table, COUNT(table), c))
        return false;
    const struct document_node *max = document_member(at->node, "maxDelay");
    if (!max && c->most.ms < c->base.ms)
        c->most = c->base;
    struct fields_at place = {at, STR("maxDelay"), 0, max};
    return c->most.ms >= c->base.ms ||
           fields_refuse(f, &place, ERR_BAD_VALUE, "at least as much as initialDelay");
}

static bool read_mode(struct fields *f, const struct fields_at *at, void *into)
{
    static const char *const words[] = {"none", "node"};
    size_t which;
    if (!fields_word(f, at, words, 2, "none or node", &which))
        return false;
    ((struct policy_affinity *)into)->mode = which ? POLICY_AFFINITY_NODE : POLICY_AFFINITY_NONE;
    return true;
}

static bool read_required(struct fields *f, const struct fields_at *at, void *into)
{
    struct policy_affinity *a = into;
    a->has_required = true;
    return fields_span(f, at, &a->required_for);
}

static bool read_affinity(struct fields *f, const struct fields_at *at, struct policy_affinity *a)
{
    static const struct field table[] = {{"mode", read_mode, true},
                                         {"requiredFor", read_required, false}};
    *a = (struct policy_affinity){0};
    if (!fields_read(f, at, table, COUNT(table), a))
        return false;
    struct fields_at place = {at, STR("requiredFor"), 0, document_member(at->node, "requiredFor")};
    return a->mode == POLICY_AFFINITY_NODE || !a->has_required ||
           fields_refuse(f, &place, ERR_BAD_VALUE,
                         "nothing here: with mode none no node is avoided");
}

static bool read_action(struct fields *f, const struct fields_at *at, enum policy_action *v)
{
    static const char *const words[] = {"Retry", "Fail"};
    size_t which;
    if (!fields_word(f, at, words, 2, "Retry or Fail", &which))
        return false;
    *v = which ? POLICY_FAIL : POLICY_RETRY;
    return true;
}

/* --- rules --- */

static bool rule_action(struct fields *f, const struct fields_at *at, void *into)
{
    return read_action(f, at, &((struct policy_rule *)into)->action);
}

static bool rule_limit(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_int(f, at, 0, POLICY_RETRIES_MAX, &((struct policy_rule *)into)->retry_limit);
}

static bool rule_backoff(struct fields *f, const struct fields_at *at, void *into)
{
    return policy_document_backoff(f, at, &((struct policy_rule *)into)->backoff);
}

static bool rule_affinity(struct fields *f, const struct fields_at *at, void *into)
{
    return read_affinity(f, at, &((struct policy_rule *)into)->affinity);
}

static bool read_factor(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_factor(f, at, &((struct policy_memory *)into)->factor);
}

static bool read_add(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_quantity(f, at, &((struct policy_memory *)into)->add);
}

static bool read_most(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_quantity(f, at, &((struct policy_memory *)into)->max);
}

static bool read_sticky(struct fields *f, const struct fields_at *at, void *into)
{
    bool sticky = true;
    if (!fields_bool(f, at, &sticky))
        return false;
    ((struct policy_memory *)into)->fleeting = !sticky;
    return true;
}

static bool read_memory(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"factor", read_factor, false},
                                         {"add", read_add, false},
                                         {"max", read_most, true},
                                         {"sticky", read_sticky, false}};
    struct policy_memory *m = into;
    if (!fields_read(f, at, table, COUNT(table), m))
        return false;
    return (m->factor > 0) != (m->add > 0) ||
           fields_refuse(f, at, ERR_BAD_VALUE, "factor or add, and not both");
}

static bool rule_mutations(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"memory", read_memory, true}};
    return fields_read(f, at, table, 1, &((struct policy_rule *)into)->memory);
}

/* What is done to a retry of a rule that never retries. */
static bool check_mutations(struct fields *f, const struct fields_at *at,
                            const struct policy_rule *rule)
{
    struct fields_at place = {at, STR("mutations"), 0, document_member(at->node, "mutations")};
    return rule->action == POLICY_RETRY || rule->memory.max == 0 ||
           fields_refuse(f, &place, ERR_BAD_VALUE, "nothing here: the action is Fail");
}

static const struct field rule_fields[] = {
    {"action", rule_action, true},
    {"onExitCodes", fields_exit_codes, false},
    {"onConditions", fields_conditions, false},
    {"onTerminationMessage", fields_message, false},
    {"onFailureCategory", fields_categories, false},
    {"onFailureSubcategory", fields_subcategories, false},
    {"onError", fields_error, false},
    {"containerName", fields_container, false},
    {"includeInitContainers", fields_include_init, false},
    {"retryLimit", rule_limit, false},
    {"backoff", rule_backoff, false},
    {"antiAffinity", rule_affinity, false},
    {"mutations", rule_mutations, false},
};

static void begin_rule(void *rule)
{
    *(struct policy_rule *)rule = (struct policy_rule){.retry_limit = POLICY_NO_LIMIT};
}

static void end_rule(void *rule)
{
    ((struct policy_rule *)rule)->key = policy_rule_key(rule);
}

/* Without one it would match every failure, and no later rule would ever be asked. */
static bool states(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->message ||
           m->category_count || m->subcategory_count || m->error_type_count || m->error;
}

static bool spec_rules(struct fields *f, const struct fields_at *at, void *into)
{
    struct policy *p = into;
    struct fields_rules rules = {
        .size = sizeof(struct policy_rule),
        .table = rule_fields,
        .table_count = COUNT(rule_fields),
        .begin = begin_rule,
        .end = end_rule,
        .states = states,
        .what_to_state = "at least one of onExitCodes, onConditions, onTerminationMessage, "
                         "onFailureCategory, onFailureSubcategory and onError (what to do with any "
                         "other failure is "
                         "spec.defaultAction)",
        .empty = "at least one rule (leave rules out if only defaultAction is to decide)",
    };
    bool good = fields_rules(f, at, &rules);
    p->rules = rules.rules;
    p->rule_count = rules.count;
    for (struct fields_at each = {0}; good && fields_each(at, &each);)
        good = check_mutations(f, &each, &p->rules[each.index]);
    return good;
}

/* --- the policy --- */

static bool spec_limit(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_int(f, at, 0, POLICY_RETRIES_MAX, &((struct policy *)into)->retry_limit);
}

static bool spec_limit_per(struct fields *f, const struct fields_at *at, void *into)
{
    static const char *const words[] = {"rule", "policy"};
    size_t which;
    if (!fields_word(f, at, words, 2, "rule or policy", &which))
        return false;
    ((struct policy *)into)->counts_together = which == 1;
    return true;
}

static bool spec_default(struct fields *f, const struct fields_at *at, void *into)
{
    return read_action(f, at, &((struct policy *)into)->default_action);
}

static bool spec_backoff(struct fields *f, const struct fields_at *at, void *into)
{
    return policy_document_backoff(f, at, &((struct policy *)into)->backoff);
}

static bool spec_affinity(struct fields *f, const struct fields_at *at, void *into)
{
    return read_affinity(f, at, &((struct policy *)into)->affinity);
}

/* A limit of a rule would be held against what other rules have used. */
static bool check_limits(struct fields *f, const struct fields_at *at, const struct policy *p)
{
    const struct document_node *rules = document_member(at->node, "rules");
    struct fields_at list = {at, STR("rules"), 0, rules};
    if (!p->counts_together || !rules)
        return true;
    for (struct fields_at each = {0}; fields_each(&list, &each);) {
        const struct document_node *limit = document_member(each.node, "retryLimit");
        struct fields_at place = {&each, STR("retryLimit"), 0, limit};
        if (limit)
            return fields_refuse(f, &place, ERR_BAD_VALUE,
                                 "nothing here: with retryLimitPer: policy there is one limit");
    }
    return true;
}

static bool read_spec(struct fields *f, const struct fields_at *at, struct policy *p)
{
    static const struct field table[] = {
        {"retryLimit", spec_limit, false},      {"retryLimitPer", spec_limit_per, false},
        {"defaultAction", spec_default, false}, {"backoff", spec_backoff, false},
        {"antiAffinity", spec_affinity, false}, {"rules", spec_rules, false}};
    if (!fields_read(f, at, table, COUNT(table), p) || !check_limits(f, at, p))
        return false;
    return p->rule_count > 0 || p->default_action != POLICY_ACTION_NONE ||
           fields_refuse(f, at, ERR_MISSING_FIELD, "rules, or a defaultAction, or both");
}

/* Copies what the policy keeps of the tree. */
static void own_texts(struct policy *p, struct arena *a)
{
    p->name = arena_copy(a, p->name);
    struct policy_rule *rules = (struct policy_rule *)p->rules;
    for (size_t i = 0; i < p->rule_count; i++)
        fields_own_matcher(&rules[i].match, a);
}

static bool read_framed(struct fields *f, const struct fields_at *at, struct policy_document *out)
{
    struct fields_frame frame = {.kind = POLICY_DOCUMENT_KIND};
    if (!fields_frame(f, at, &frame) || !read_spec(f, &frame.spec, &out->policy))
        return false;
    out->policy.name = frame.name;
    out->resource_version = frame.resource_version;
    return true;
}

bool policy_document_read(const struct document_node *root, struct policy_document *out,
                          struct document_fault *fault)
{
    *out = (struct policy_document){.policy = {.retry_limit = POLICY_NO_LIMIT}};
    struct fields f = {.arena = &out->memory, .fault = fault};
    struct fields_at at = {.node = root};
    bool flat = armada_document_is(root);
    out->warnings = document_list(&out->memory);
    bool good = flat ? armada_document_read(&f, &at, &out->policy, out->warnings)
                     : read_framed(&f, &at, out);
    out->patterns = f.patterns;
    if (!good) {
        policy_document_free(out);
        return false;
    }
    policy_warning_find(out->warnings, &out->memory, &out->policy, flat ? "" : "spec.");
    own_texts(&out->policy, &out->memory);
    return true;
}

bool policy_document_parse(struct str text, enum document_format format,
                           struct policy_document *out, struct document_fault *fault)
{
    struct arena tree = {0};
    struct document_list list;
    const struct document_node *root = NULL;
    bool good = document_read(text, format, &tree, &list, fault) &&
                document_only(&list, &root, fault) && policy_document_read(root, out, fault);
    arena_fini(&tree);
    return good;
}

void policy_document_free(struct policy_document *d)
{
    fields_free_patterns(d->patterns);
    arena_fini(&d->memory);
    *d = (struct policy_document){0};
}

/* --- writing --- */

struct document_node *policy_document_backoff_tree(const struct curve *c, struct arena *a)
{
    must(c->shape == CURVE_EXPONENTIAL);
    struct document_node *n = document_map(a);
    document_add(n, "initialDelay", fields_span_tree(a, c->base));
    document_add(n, "maxDelay", fields_span_tree(a, c->most));
    document_add(n, "multiplier", document_double(a, c->exponent));
    if (c->jitter.ms)
        document_add(n, "jitter", fields_span_tree(a, c->jitter));
    return n;
}

static void add_action(struct document_node *to, const char *name, enum policy_action action,
                       struct arena *a)
{
    if (action != POLICY_ACTION_NONE)
        document_add(to, name,
                     document_string(a, action == POLICY_RETRY ? STR("Retry") : STR("Fail")));
}

static void add_overrides(struct document_node *to, int64_t limit, const struct curve *backoff,
                          const struct policy_affinity *affinity, struct arena *a)
{
    if (limit != POLICY_NO_LIMIT)
        document_add(to, "retryLimit", document_int(a, limit));
    if (backoff->shape != CURVE_NONE)
        document_add(to, "backoff", policy_document_backoff_tree(backoff, a));
    if (affinity->mode == POLICY_AFFINITY_UNSET)
        return;
    struct document_node *n = document_add(to, "antiAffinity", document_map(a));
    bool node = affinity->mode == POLICY_AFFINITY_NODE;
    document_add(n, "mode", document_string(a, node ? STR("node") : STR("none")));
    if (affinity->has_required)
        document_add(n, "requiredFor", fields_span_tree(a, affinity->required_for));
}

static void add_quantity(struct document_node *to, const char *name, uint64_t bytes,
                         struct arena *a)
{
    struct buf b = {0};
    quantity_write(&b, bytes);
    document_add(to, name, document_string(a, arena_copy(a, buf_view(&b))));
    buf_fini(&b);
}

static void add_mutations(struct document_node *to, const struct policy_memory *m, struct arena *a)
{
    struct document_node *n = document_add(to, "mutations", document_map(a));
    n = document_add(n, "memory", document_map(a));
    if (m->factor > 0)
        document_add(n, "factor", document_double(a, m->factor));
    else
        add_quantity(n, "add", m->add, a);
    add_quantity(n, "max", m->max, a);
    if (m->fleeting)
        document_add(n, "sticky", document_bool(a, false));
}

struct document_node *policy_document_tree(const struct policy *p, int64_t resource_version,
                                           struct arena *a)
{
    struct document_node *root = document_map(a);
    struct fields_frame frame = {
        .kind = POLICY_DOCUMENT_KIND, .name = p->name, .resource_version = resource_version};
    struct document_node *spec = fields_frame_tree(a, root, &frame);
    add_action(spec, "defaultAction", p->default_action, a);
    if (p->counts_together)
        document_add(spec, "retryLimitPer", document_string(a, STR("policy")));
    add_overrides(spec, p->retry_limit, &p->backoff, &p->affinity, a);
    if (p->rule_count == 0)
        return root;
    struct document_node *rules = document_add(spec, "rules", document_list(a));
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct policy_rule *r = &p->rules[i];
        struct document_node *rule = document_add(rules, "", document_map(a));
        add_action(rule, "action", r->action, a);
        fields_add_matchers(a, rule, &r->match);
        add_overrides(rule, r->retry_limit, &r->backoff, &r->affinity, a);
        if (r->memory.max)
            add_mutations(rule, &r->memory, a);
    }
    return root;
}
