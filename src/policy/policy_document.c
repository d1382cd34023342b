/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_document.h"

#include <stdio.h>

#include "base/array.h"
#include "base/must.h"
#include "base/quantity.h"
#include "policy/armada_document.h"
#include "policy/fields.h"
#include "policy/policy_warning.h"

#define MULTIPLIER_MAX 1000

/* --- backoff and affinity: of a policy and of a rule --- */

static struct err read_multiplier(struct json_cursor *c, struct arena *a, void *v)
{
    (void)a;
    return fields_double(c, 1.0, MULTIPLIER_MAX, v);
}

static struct err read_jitter(struct json_cursor *c, struct arena *a, void *curve)
{
    struct curve *out = curve;
    struct json_cursor word = *c;
    struct str text;
    size_t at = c->pos;
    bool is_text = field_text(&word, a, &text).code == ERR_OK;
    bool full = is_text && str_eq(text, STR("full"));
    out->shape = full ? CURVE_FULL_JITTER : CURVE_EXPONENTIAL;
    if (full || (is_text && str_eq(text, STR("none")))) {
        *c = word;
        return err_none();
    }
    struct err err = fields_span(c, a, &out->jitter);
    if (err.code == ERR_OK)
        return err;
    return fields_refuse(c, at, err.code, "full, none or " FIELDS_SPAN_EXPECTED);
}

static const struct field backoff_table[] = {
    {"initialDelay", true, fields_span, offsetof(struct curve, base), .doc = "Duration"},
    {"maxDelay", false, fields_span, offsetof(struct curve, most), .doc = "Duration"},
    {"multiplier", false, read_multiplier, offsetof(struct curve, exponent), .doc = "number 1..$",
     .most = MULTIPLIER_MAX},
    {"jitter", false, read_jitter, 0, .doc = "BackoffJitter"},
};

struct err policy_document_backoff(struct json_cursor *c, struct arena *a, void *curve)
{
    const span unset = {-1};
    struct curve *out = curve;
    const struct fields *f = c->context;
    size_t at = c->pos;
    (void)a;
    *out = (struct curve){.shape = f->exact_delays ? CURVE_EXPONENTIAL : CURVE_FULL_JITTER,
                          .exponent = POLICY_DOCUMENT_MULTIPLIER,
                          .most = unset};
    TRY(fields_read(c, backoff_table, COUNT(backoff_table), out));
    if (out->base.ms == 0)
        out->shape = CURVE_EXPONENTIAL; /* there is nothing to draw from */
    if (out->most.ms == unset.ms)
        out->most.ms = out->base.ms > POLICY_DOCUMENT_MAX_DELAY_MS ? out->base.ms
                                                                   : POLICY_DOCUMENT_MAX_DELAY_MS;
    if (out->most.ms >= out->base.ms)
        return err_none();
    return fields_refuse(c, fields_member(c, at, "maxDelay"), ERR_BAD_VALUE,
                         "at least as much as initialDelay");
}

static const char *const modes[] = {"none", "node", NULL};

static struct err read_mode(struct json_cursor *c, struct arena *a, void *mode)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, modes, "none or node", &which));
    *(enum policy_affinity_mode *)mode = which ? POLICY_AFFINITY_NODE : POLICY_AFFINITY_NONE;
    return err_none();
}

static struct err read_required(struct json_cursor *c, struct arena *a, void *affinity)
{
    struct policy_affinity *p = affinity;
    p->has_required = true;
    return fields_span(c, a, &p->required_for);
}

static const struct field affinity_table[] = {
    {"mode", true, read_mode, offsetof(struct policy_affinity, mode), .doc = "string (*)",
     .words = modes},
    {"requiredFor", false, read_required, 0, .doc = "Duration"},
};

static struct err read_affinity(struct json_cursor *c, struct arena *a, void *affinity)
{
    struct policy_affinity *p = affinity;
    size_t at = c->pos;
    (void)a;
    *p = (struct policy_affinity){0};
    TRY(fields_read(c, affinity_table, COUNT(affinity_table), p));
    if (p->mode == POLICY_AFFINITY_NODE || !p->has_required)
        return err_none();
    return fields_refuse(c, fields_member(c, at, "requiredFor"), ERR_BAD_VALUE,
                         "nothing here: with mode none no node is avoided");
}

static const char *const actions[] = {"Retry", "Fail", NULL};

static struct err read_action(struct json_cursor *c, struct arena *a, void *action)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, actions, "Retry or Fail", &which));
    *(enum policy_action *)action = which ? POLICY_FAIL : POLICY_RETRY;
    return err_none();
}

static struct err read_retry_for(struct json_cursor *c, struct arena *a, void *retry_for)
{
    size_t at = c->pos;
    TRY(fields_span(c, a, retry_for));
    if (((span *)retry_for)->ms > 0)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_VALUE, "more than 0s (retryLimit: 0 allows no retry)");
}

/* --- rules --- */

static struct err read_sticky(struct json_cursor *c, struct arena *a, void *fleeting)
{
    bool sticky = true;
    TRY(fields_bool(c, a, &sticky));
    *(bool *)fleeting = !sticky;
    return err_none();
}

/* Armada's word for add is read as well. */
#define GROWTH_TABLE(read_amount, quantity)                                                        \
    {                                                                                              \
        {"factor",                                                                                 \
         false,                                                                                    \
         fields_factor,                                                                            \
         offsetof(struct policy_growth, factor),                                                   \
         .doc = "number 1..$: by which it is multiplied",                                          \
         .most = FIELDS_FACTOR_MAX},                                                               \
            {"add", false, read_amount, offsetof(struct policy_growth, add), .doc = quantity},     \
            {"static", false, read_amount, offsetof(struct policy_growth, add),                    \
             .doc = quantity ": the same as add"},                                                 \
            {"max", true, read_amount, offsetof(struct policy_growth, max),                        \
             .doc = quantity ": its upper limit"},                                                 \
            {"sticky", false, read_sticky, offsetof(struct policy_growth, fleeting),               \
             .doc = "boolean"},                                                                    \
    }
static const struct field memory_table[] = GROWTH_TABLE(fields_quantity, "Quantity");
static const struct field cpu_table[] = GROWTH_TABLE(fields_cpu, "CpuQuantity");

static struct err read_growth(struct json_cursor *c, const struct field *table, size_t count,
                              struct policy_growth *g)
{
    size_t at = c->pos;
    TRY(fields_read(c, table, count, g));
    return (g->factor > 0) != (g->add > 0)
               ? err_none()
               : fields_refuse(c, at, ERR_BAD_VALUE, "factor or add, and not both");
}

static struct err read_memory(struct json_cursor *c, struct arena *a, void *growth)
{
    (void)a;
    return read_growth(c, memory_table, COUNT(memory_table),
                       &((struct policy_growth *)growth)[POLICY_MEMORY]);
}

static struct err read_cpu(struct json_cursor *c, struct arena *a, void *growth)
{
    (void)a;
    return read_growth(c, cpu_table, COUNT(cpu_table),
                       &((struct policy_growth *)growth)[POLICY_CPU]);
}

static const struct field mutations_table[] = {
    {"memory", false, read_memory, 0, .doc = "MemoryMutation"},
    {"cpu", false, read_cpu, 0, .doc = "CpuMutation"},
};

static struct err rule_mutations(struct json_cursor *c, struct arena *a, void *growth)
{
    struct policy_growth *g = growth;
    size_t at = c->pos;
    (void)a;
    if (g[POLICY_MEMORY].max || g[POLICY_CPU].max)
        return fields_refuse(c, at, ERR_BAD_VALUE, "mutations or mutate, and not both");
    TRY(fields_read(c, mutations_table, COUNT(mutations_table), growth));
    return g[POLICY_MEMORY].max || g[POLICY_CPU].max
               ? err_none()
               : fields_refuse(c, at, ERR_BAD_VALUE, "memory or cpu, or both");
}

/* Armada's way to write it. */
static const struct field mutate_table[] = {
    {"resources", true, rule_mutations, 0, .doc = "RuleMutations"},
};

static struct err rule_mutate(struct json_cursor *c, struct arena *a, void *growth)
{
    (void)a;
    return fields_read(c, mutate_table, COUNT(mutate_table), growth);
}

#define RULE(member) offsetof(struct policy_rule, member)

static const struct field rule_table[] = {
    {"action", true, read_action, RULE(action), .doc = "string (*)", .words = actions},
    FIELDS_ON_EXIT_CODES,
    FIELDS_ON_CONDITIONS,
    FIELDS_ON_CULPRIT,
    FIELDS_ON_PATTERN("onTerminationMessage", message),
    FIELDS_ON_NAMES("onFailureCategory", fields_categories),
    FIELDS_ON_NAMES("onFailureSubcategory", fields_subcategories),
    FIELDS_ON_ERROR,
    FIELDS_CONTAINER,
    {"retryLimit", false, fields_retries, RULE(retry_limit), .doc = "integer 0..$",
     .most = POLICY_RETRIES_MAX},
    {"retryFor", false, read_retry_for, RULE(retry_for),
     .doc = "Duration: how long after the job's first failure a retry may begin"},
    {"backoff", false, policy_document_backoff, RULE(backoff), .doc = "PolicyBackoff"},
    {"antiAffinity", false, read_affinity, RULE(affinity), .doc = "AntiAffinity"},
    {"mutations", false, rule_mutations, RULE(growth), .doc = "RuleMutations"},
    {"mutate", false, rule_mutate, RULE(growth), .doc = "RuleMutate: the same as mutations"},
};

static void begin_rule(void *rule)
{
    *(struct policy_rule *)rule = (struct policy_rule){.retry_limit = POLICY_NO_LIMIT};
}

static void end_rule(void *rule)
{
    ((struct policy_rule *)rule)->key = policy_rule_key(rule);
}

/* A rule without a matcher would match every failure, and no later rule would be reached. */
static bool states(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->culprits || m->message ||
           m->category_count || m->subcategory_count || m->error_type_count || m->error;
}

static size_t growth_at(const struct json_cursor *c, size_t rule)
{
    return fields_member(c, rule, fields_has(c, rule, "mutations") ? "mutations" : "mutate");
}

static struct err spec_rules(struct json_cursor *c, struct arena *a, void *into)
{
    struct policy *p = into;
    size_t at = c->pos;
    struct fields_rules rules = {
        .size = sizeof(struct policy_rule),
        .table = rule_table,
        .table_count = COUNT(rule_table),
        .begin = begin_rule,
        .end = end_rule,
        .states = states,
        .what_to_state = "at least one of onExitCodes, onConditions, onCulprit, "
                         "onTerminationMessage, onFailureCategory, onFailureSubcategory and "
                         "onError (what to do with any other failure is spec.defaultAction)",
        .empty = "at least one rule (omit rules if only defaultAction is to decide)",
    };
    (void)a;
    TRY(fields_rules(c, &rules));
    p->rules = rules.rules;
    p->rule_count = rules.count;
    for (size_t i = 0; i < p->rule_count; i++) /* members about a retry, in a rule that never
                                                * retries */
        if (p->rules[i].action != POLICY_RETRY && policy_rule_grows(&p->rules[i]))
            return fields_refuse(c, growth_at(c, fields_entry(c, at, i)), ERR_BAD_VALUE,
                                 "nothing here: the action is Fail");
    return err_none();
}

/* --- the policy --- */

static const char *const limits_per[] = {"rule", "policy", NULL};

static struct err spec_limit_per(struct json_cursor *c, struct arena *a, void *counts_together)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, limits_per, "rule or policy", &which));
    *(bool *)counts_together = which == 1;
    return err_none();
}

#define SPEC(member) offsetof(struct policy, member)

static const struct field spec_table[] = {
    {"retryLimit", false, fields_retries, SPEC(retry_limit), .doc = "integer 0..$",
     .most = POLICY_RETRIES_MAX},
    {"retryFor", false, read_retry_for, SPEC(retry_for),
     .doc = "Duration: how long after the job's first failure a retry may begin"},
    {"retryLimitPer", false, spec_limit_per, SPEC(counts_together), .doc = "string (*)",
     .words = limits_per},
    {"defaultAction", false, read_action, SPEC(default_action), .doc = "string (*)",
     .words = actions},
    {"backoff", false, policy_document_backoff, SPEC(backoff), .doc = "PolicyBackoff"},
    {"antiAffinity", false, read_affinity, SPEC(affinity), .doc = "AntiAffinity"},
    {"rules", false, spec_rules, 0, .doc = "PolicyRule[1..$]", .most = FIELDS_RULES_MAX},
};

/* A limit of a rule would be compared with retries granted by other rules. */
static struct err check_limits(struct json_cursor *c, size_t at, const struct policy *p)
{
    for (size_t i = 0; p->counts_together && i < p->rule_count; i++) {
        if (p->rules[i].retry_limit == POLICY_NO_LIMIT)
            continue;
        size_t rule = fields_entry(c, fields_member(c, at, "rules"), i);
        return fields_refuse(c, fields_member(c, rule, "retryLimit"), ERR_BAD_VALUE,
                             "nothing here: with retryLimitPer: policy there is one limit");
    }
    return err_none();
}

static struct err read_spec(struct json_cursor *c, struct policy *p)
{
    size_t at = c->pos;
    TRY(fields_read(c, spec_table, COUNT(spec_table), p));
    TRY(check_limits(c, at, p));
    if (p->rule_count > 0 || p->default_action != POLICY_ACTION_NONE)
        return err_none();
    return fields_refuse(c, at, ERR_MISSING_FIELD, "rules, or a defaultAction, or both");
}

static const struct field document_table[] = {
    FIELDS_FRAME(POLICY_DOCUMENT_KIND, "RetryPolicySpec"),
};

static struct err read_framed(struct json_cursor *c, struct policy_document *out)
{
    struct fields_frame frame = {.kind = POLICY_DOCUMENT_KIND};
    TRY(fields_read(c, document_table, COUNT(document_table), &frame));
    TRY(read_spec(&frame.spec.at, &out->policy));
    out->policy.name = frame.name;
    out->resource_version = frame.resource_version;
    return err_none();
}

const struct field_table policy_document_tables[] = {
    {"AnyRetryPolicy", .doc = "RetryPolicyInput or ArmadaRetryPolicy: in one of two formats"},
    {"RetryPolicyInput", FIELD_TABLE(document_table)},
    {"RetryPolicySpec", FIELD_TABLE(spec_table),
     .doc = "object: rules, or a defaultAction, or both", .rules = "any rules defaultAction"},
    {"PolicyRule", FIELD_TABLE(rule_table),
     .doc = "object: what to do with a failure that all of its matchers match"},
    {"PolicyBackoff", FIELD_TABLE(backoff_table)},
    {"BackoffJitter",
     .doc = "string or integer 0..0: full (a random part of the delay is waited), none, or a "
            "duration like 30s, up to which a random time is added; omitted: full"},
    {"AntiAffinity", FIELD_TABLE(affinity_table)},
    {"RuleMutations", FIELD_TABLE(mutations_table)},
    {"RuleMutate", FIELD_TABLE(mutate_table)},
    {"MemoryMutation", FIELD_TABLE(memory_table), .doc = "object: factor or add, and not both"},
    {"CpuMutation", FIELD_TABLE(cpu_table), .doc = "object: factor or add, and not both"},
};
const size_t policy_document_table_count = COUNT(policy_document_tables);

/* Armada's documents know nothing of jitter: their authors mean the delays that they state. */
static bool is_of_armada(const struct document_node *root)
{
    return str_eq(document_text(root, "apiVersion"), str_from(fields_api_versions[1]));
}

static bool read_tree(const struct document_node *root, bool stored, struct policy_document *out,
                      struct document_fault *fault)
{
    *out = (struct policy_document){.policy = {.retry_limit = POLICY_NO_LIMIT}};
    struct fields f;
    bool flat = armada_document_is(root);
    struct json_cursor c = flat ? fields_open_lenient(&f, root, NULL, &out->memory, fault)
                                : fields_open(&f, root, NULL, &out->memory, fault);
    f.stored = stored;
    f.exact_delays = stored || flat || is_of_armada(root);
    f.re2 = !stored && is_of_armada(root);
    f.pattern_bytes = &out->pattern_bytes;
    out->of_armada = flat;
    out->warnings = document_list(&out->memory);
    struct err err =
        flat ? armada_document_read(&c, &out->policy, out->warnings) : read_framed(&c, out);
    if (err.code != ERR_OK) {
        policy_document_free(out);
        return false;
    }
    policy_warning_find(out->warnings, &out->memory, &out->policy, flat ? "" : "spec.");
    return true;
}

bool policy_document_read(const struct document_node *root, struct policy_document *out,
                          struct document_fault *fault)
{
    return read_tree(root, false, out, fault);
}

static bool parse(struct str text, enum document_format format, bool stored,
                  struct policy_document *out, struct document_fault *fault)
{
    struct arena tree = {0};
    struct document_list list;
    const struct document_node *root = NULL;
    bool good = document_read(text, format, &tree, &list, fault) &&
                document_only(&list, &root, fault) && read_tree(root, stored, out, fault);
    arena_fini(&tree);
    return good;
}

bool policy_document_parse(struct str text, enum document_format format,
                           struct policy_document *out, struct document_fault *fault)
{
    return parse(text, format, false, out, fault);
}

bool policy_document_parse_stored(struct str text, struct policy_document *out,
                                  struct document_fault *fault)
{
    return parse(text, DOCUMENT_JSON, true, out, fault);
}

void policy_document_free(struct policy_document *d)
{
    arena_fini(&d->memory);
    *d = (struct policy_document){0};
}

/* --- writing --- */

struct document_node *policy_document_backoff_tree(const struct curve *c, struct arena *a)
{
    must(c->shape == CURVE_EXPONENTIAL || c->shape == CURVE_FULL_JITTER);
    struct document_node *n = document_map(a);
    document_add(n, "initialDelay", fields_span_tree(a, c->base));
    document_add(n, "maxDelay", fields_span_tree(a, c->most));
    document_add(n, "multiplier", document_double(a, c->exponent));
    if (c->shape == CURVE_FULL_JITTER)
        document_add(n, "jitter", document_string(a, STR("full")));
    else if (c->base.ms || c->jitter.ms) /* always said, since what is not said means `full` */
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

static void add_overrides(struct document_node *to, int64_t limit, span retry_for,
                          const struct curve *backoff, const struct policy_affinity *affinity,
                          struct arena *a)
{
    if (limit != POLICY_NO_LIMIT)
        document_add(to, "retryLimit", document_int(a, limit));
    if (retry_for.ms)
        document_add(to, "retryFor", fields_span_tree(a, retry_for));
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

static void add_amount(struct document_node *to, const char *name, enum policy_resource what,
                       uint64_t amount, struct arena *a)
{
    struct buf b = {0};
    policy_resource_write(&b, what, amount);
    document_add(to, name, document_string(a, arena_copy(a, buf_view(&b))));
    buf_fini(&b);
}

static void add_mutations(struct document_node *to, const struct policy_growth *all,
                          struct arena *a)
{
    struct document_node *mutations = document_add(to, "mutations", document_map(a));
    for (int i = 0; i < POLICY_RESOURCES; i++) {
        enum policy_resource what = (enum policy_resource)i;
        const struct policy_growth *g = &all[i];
        if (g->max == 0)
            continue;
        struct document_node *n =
            document_add(mutations, policy_resource_name(what), document_map(a));
        if (g->factor > 0)
            document_add(n, "factor", document_double(a, g->factor));
        else
            add_amount(n, "add", what, g->add, a);
        add_amount(n, "max", what, g->max, a);
        if (g->fleeting)
            document_add(n, "sticky", document_bool(a, false));
    }
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
    add_overrides(spec, p->retry_limit, p->retry_for, &p->backoff, &p->affinity, a);
    if (p->rule_count == 0)
        return root;
    struct document_node *rules = document_add(spec, "rules", document_list(a));
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct policy_rule *r = &p->rules[i];
        struct document_node *rule = document_add(rules, "", document_map(a));
        add_action(rule, "action", r->action, a);
        fields_add_matchers(a, rule, &r->match);
        add_overrides(rule, r->retry_limit, r->retry_for, &r->backoff, &r->affinity, a);
        if (policy_rule_grows(r))
            add_mutations(rule, r->growth, a);
    }
    return root;
}
