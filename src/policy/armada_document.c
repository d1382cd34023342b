/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/armada_document.h"

#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/quantity.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"

/* --- mutations of a retry --- */

static struct err read_avoid(struct json_cursor *c, struct arena *a, void *mode)
{
    bool avoid = false;
    TRY(fields_bool(c, a, &avoid));
    if (avoid)
        *(enum policy_affinity_mode *)mode = POLICY_AFFINITY_NODE;
    return err_none();
}

#define RULE(member) offsetof(struct policy_rule, member)

static const struct field affinity_table[] = {
    {"avoidSameNode", false, read_avoid, RULE(affinity.mode), .doc = "boolean"},
};

static struct err read_affinity(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return fields_read(c, affinity_table, COUNT(affinity_table), rule);
}

#define GROWTH(what, member) RULE(growth[what].member)

/* max is not of this format, which has no limit but the nodes; nor is cpu. Both are safe. */
static const struct field memory_table[] = {
    {"factor", false, fields_factor, GROWTH(POLICY_MEMORY, factor), .doc = "number 1..$",
     .most = FIELDS_FACTOR_MAX},
    {"static", false, fields_quantity, GROWTH(POLICY_MEMORY, add), .doc = "Quantity"},
    {"max", false, fields_quantity, GROWTH(POLICY_MEMORY, max), .doc = "Quantity: its upper limit"},
};
static const struct field cpu_table[] = {
    {"factor", false, fields_factor, GROWTH(POLICY_CPU, factor), .doc = "number 1..$",
     .most = FIELDS_FACTOR_MAX},
    {"static", false, fields_cpu, GROWTH(POLICY_CPU, add), .doc = "CpuQuantity"},
    {"max", false, fields_cpu, GROWTH(POLICY_CPU, max), .doc = "CpuQuantity: its upper limit"},
};

static struct err read_growth(struct json_cursor *c, const struct field *table, size_t count,
                              void *rule, enum policy_resource what)
{
    struct policy_growth *g = &((struct policy_rule *)rule)->growth[what];
    size_t at = c->pos;
    TRY(fields_read(c, table, count, rule));
    if (g->max == 0)
        g->max = policy_resource_max(what);
    return (g->factor > 0) != (g->add > 0)
               ? err_none()
               : fields_refuse(c, at, ERR_BAD_VALUE, "factor or static, and not both");
}

static struct err read_memory(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return read_growth(c, memory_table, COUNT(memory_table), rule, POLICY_MEMORY);
}

static struct err read_cpu(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return read_growth(c, cpu_table, COUNT(cpu_table), rule, POLICY_CPU);
}

static const struct field resources_table[] = {
    {"memory", false, read_memory, 0, .doc = "ArmadaMemoryMutation"},
    {"cpu", false, read_cpu, 0, .doc = "ArmadaCpuMutation"},
};

static struct err read_resources(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return fields_read(c, resources_table, COUNT(resources_table), rule);
}

static const struct field mutate_table[] = {
    {"affinity", false, read_affinity, 0, .doc = "ArmadaAffinityMutation"},
    {"resources", false, read_resources, 0, .doc = "ArmadaResourcesMutation"},
};

static struct err rule_mutate(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return fields_read(c, mutate_table, COUNT(mutate_table), rule);
}

/* --- rules --- */

/* Its clients accept the short name and the long one in any case, and the number of the long one.
 */
static const struct {
    const char *name, *long_name, *number;
    enum policy_action action;
} actions[] = {{"Fail", "RETRY_ACTION_FAIL", "1", POLICY_FAIL},
               {"Retry", "RETRY_ACTION_RETRY", "2", POLICY_RETRY}};
#define ACTION_DOC "ArmadaAction"

static bool is_word(struct str text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

static struct err read_action(struct json_cursor *c, struct arena *a, void *action)
{
    const struct document_node *n = fields_node(c);
    size_t at = c->pos;
    (void)a;
    for (size_t i = 0; i < COUNT(actions); i++) {
        bool named = n->type == DOCUMENT_STRING &&
                     (is_word(n->text, actions[i].name) || is_word(n->text, actions[i].long_name));
        bool numbered = n->type == DOCUMENT_NUMBER && is_word(n->text, actions[i].number);
        if (!named && !numbered)
            continue;
        *(enum policy_action *)action = actions[i].action;
        return json_skip(c, NULL);
    }
    return fields_refuse(c, at, n->type == DOCUMENT_STRING ? ERR_BAD_VALUE : ERR_BAD_TYPE,
                         "Retry or Fail");
}

static struct err read_one(struct json_cursor *c, struct arena *a, const struct str **list,
                           size_t *n)
{
    struct str *one = ARENA_NEW(a, struct str);
    *list = one;
    *n = 1;
    return fields_name(c, a, one);
}

static struct err rule_category(struct json_cursor *c, struct arena *a, void *rule)
{
    struct matcher *m = rule;
    return read_one(c, a, &m->categories, &m->category_count);
}

static struct err rule_subcategory(struct json_cursor *c, struct arena *a, void *rule)
{
    struct matcher *m = rule;
    return read_one(c, a, &m->subcategories, &m->subcategory_count);
}

static const struct field rule_table[] = {
    {"action", true, read_action, RULE(action), .doc = ACTION_DOC},
    {"onCategory", true, rule_category, 0, .doc = "string 1..$", .most = FIELDS_TEXT_MAX},
    {"onSubcategory", false, rule_subcategory, 0, .doc = "string 1..$", .most = FIELDS_TEXT_MAX},
    {"mutate", false, rule_mutate, 0, .doc = "ArmadaMutation"},
};

static void begin_rule(void *rule)
{
    *(struct policy_rule *)rule = (struct policy_rule){.retry_limit = POLICY_NO_LIMIT};
}

static void end_rule(void *rule)
{
    ((struct policy_rule *)rule)->key = policy_rule_key(rule);
}

static bool states(const struct matcher *m)
{
    return m->category_count > 0;
}

/* --- the policy --- */

static struct err read_as_checked(struct json_cursor *c, struct arena *a, void *into)
{
    (void)a;
    (void)into;
    return json_skip(c, NULL);
}

static struct err read_rules(struct json_cursor *c, struct arena *a, void *into)
{
    struct policy *p = into;
    struct fields_rules rules = {.size = sizeof(struct policy_rule),
                                 .table = rule_table,
                                 .table_count = COUNT(rule_table),
                                 .begin = begin_rule,
                                 .end = end_rule,
                                 .states = states,
                                 .what_to_state = "onCategory"};
    const struct document_node *n = fields_node(c);
    (void)a;
    if (n->type == DOCUMENT_LIST && n->count == 0)
        return json_skip(c, NULL); /* its defaultAction alone decides */
    TRY(fields_rules(c, &rules));
    p->rules = rules.rules;
    p->rule_count = rules.count;
    return err_none();
}

#define POLICY(member) offsetof(struct policy, member)

static const struct field document_table[] = {
    {"apiVersion", true, read_as_checked, 0, .doc = "string /^armadaproject\\.io/v1beta1$/"},
    {"kind", true, read_as_checked, 0, .doc = "string /^" POLICY_DOCUMENT_KIND "$/"},
    {"name", true, fields_label, POLICY(name), .doc = "string 1..$", .most = FIELDS_LABEL_MAX},
    {"retryLimit", false, fields_retries, POLICY(retry_limit),
     .doc = "integer 0..$: if it is omitted, "
            "nothing is retried",
     .most = POLICY_RETRIES_MAX},
    {"defaultAction", true, read_action, POLICY(default_action), .doc = ACTION_DOC},
    {"rules", false, read_rules, 0, .doc = "ArmadaPolicyRule[..$]", .most = FIELDS_RULES_MAX},
};

const struct field_table armada_document_tables[] = {
    {"ArmadaRetryPolicy", FIELD_TABLE(document_table),
     .doc = "object: a retry policy in the format of Armada's releases"},
    {"ArmadaAction",
     .doc = "string or integer 1..2: Retry or Fail in any case, also as RETRY_ACTION_RETRY and "
            "RETRY_ACTION_FAIL; or the number of one, 2 or 1"},
    {"ArmadaPolicyRule", FIELD_TABLE(rule_table)},
    {"ArmadaMutation", FIELD_TABLE(mutate_table)},
    {"ArmadaAffinityMutation", FIELD_TABLE(affinity_table)},
    {"ArmadaResourcesMutation", FIELD_TABLE(resources_table)},
    {"ArmadaCpuMutation", FIELD_TABLE(cpu_table), .doc = "object: factor or static, and not both"},
    {"ArmadaMemoryMutation", FIELD_TABLE(memory_table),
     .doc = "object: factor or static, and not both"},
};
const size_t armada_document_table_count = COUNT(armada_document_tables);

bool armada_document_is(const struct document_node *root)
{
    return str_eq(document_text(root, "apiVersion"), STR(ARMADA_DOCUMENT_VERSION)) &&
           str_eq(document_text(root, "kind"), STR(POLICY_DOCUMENT_KIND));
}

/* In this format they are allowed with Fail and ignored. */
static void drop_mutations(struct policy *p, struct document_node *warnings, struct arena *a)
{
    struct policy_rule *rules = (struct policy_rule *)p->rules;
    for (size_t i = 0; i < p->rule_count; i++) {
        struct policy_rule *r = &rules[i];
        if (r->action == POLICY_RETRY ||
            (r->affinity.mode == POLICY_AFFINITY_UNSET && !policy_rule_grows(r)))
            continue;
        r->affinity = (struct policy_affinity){0};
        memset(r->growth, 0, sizeof r->growth);
        policy_warning_add(warnings, a, "rules[%zu].mutate has no effect: the action is Fail", i);
    }
}

struct err armada_document_read(struct json_cursor *c, struct policy *p,
                                struct document_node *warnings)
{
    const struct fields *f = c->context;
    TRY(fields_read(c, document_table, COUNT(document_table), p));
    p->counts_together = true;
    if (p->retry_limit == POLICY_NO_LIMIT) {
        p->retry_limit = 0;
        policy_warning_add(warnings, f->arena,
                           "retryLimit is not stated, which in this format means 0: nothing is "
                           "retried");
    }
    drop_mutations(p, warnings, f->arena);
    return err_none();
}
