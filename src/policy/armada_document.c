/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/armada_document.h"

#include "base/array.h"
#include "base/quantity.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"

/* --- what a retry is changed by --- */

static bool read_avoid(struct fields *f, const struct fields_at *at, void *into)
{
    bool avoid = false;
    if (!fields_bool(f, at, &avoid))
        return false;
    if (avoid)
        ((struct policy_rule *)into)->affinity.mode = POLICY_AFFINITY_NODE;
    return true;
}

static bool read_affinity(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"avoidSameNode", read_avoid, false}};
    return fields_read(f, at, table, COUNT(table), into);
}

static bool read_factor(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_factor(f, at, &((struct policy_rule *)into)->memory.factor);
}

static bool read_static(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_quantity(f, at, &((struct policy_rule *)into)->memory.add);
}

static bool read_memory(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"factor", read_factor, false},
                                         {"static", read_static, false}};
    struct policy_memory *m = &((struct policy_rule *)into)->memory;
    if (!fields_read(f, at, table, COUNT(table), into))
        return false;
    m->max = QUANTITY_MAX; /* this format has no bound but the nodes */
    return (m->factor > 0) != (m->add > 0) ||
           fields_refuse(f, at, ERR_BAD_VALUE, "factor or static, and not both");
}

static bool read_resources(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"memory", read_memory, false}};
    return fields_read(f, at, table, COUNT(table), into);
}

static bool rule_mutate(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"affinity", read_affinity, false},
                                         {"resources", read_resources, false}};
    return fields_read(f, at, table, COUNT(table), into);
}

/* --- rules --- */

/* Its clients take the short name in whatever case, and the long one. */
static bool read_action(struct fields *f, const struct fields_at *at, enum policy_action *v)
{
    static const char *const words[] = {"Retry", "retry", "RETRY", "RETRY_ACTION_RETRY",
                                        "Fail",  "fail",  "FAIL",  "RETRY_ACTION_FAIL"};
    size_t which;
    if (!fields_word(f, at, words, COUNT(words), "Retry or Fail", &which))
        return false;
    *v = which < COUNT(words) / 2 ? POLICY_RETRY : POLICY_FAIL;
    return true;
}

static bool rule_action(struct fields *f, const struct fields_at *at, void *into)
{
    return read_action(f, at, &((struct policy_rule *)into)->action);
}

static bool read_one(struct fields *f, const struct fields_at *at, const struct str **list,
                     size_t *n)
{
    struct str *one = ARENA_NEW(f->arena, struct str);
    *list = one;
    *n = 1;
    return fields_text(f, at, FIELDS_TEXT_MAX, one);
}

static bool rule_category(struct fields *f, const struct fields_at *at, void *into)
{
    struct matcher *m = into;
    return read_one(f, at, &m->categories, &m->category_count);
}

static bool rule_subcategory(struct fields *f, const struct fields_at *at, void *into)
{
    struct matcher *m = into;
    return read_one(f, at, &m->subcategories, &m->subcategory_count);
}

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

static bool read_as_checked(struct fields *f, const struct fields_at *at, void *into)
{
    (void)f;
    (void)at;
    (void)into;
    return true;
}

static bool read_name(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_label(f, at, &((struct policy *)into)->name);
}

static bool read_limit(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_int(f, at, 0, POLICY_RETRIES_MAX, &((struct policy *)into)->retry_limit);
}

static bool read_default(struct fields *f, const struct fields_at *at, void *into)
{
    return read_action(f, at, &((struct policy *)into)->default_action);
}

static bool read_rules(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"action", rule_action, true},
                                         {"onCategory", rule_category, true},
                                         {"onSubcategory", rule_subcategory, false},
                                         {"mutate", rule_mutate, false}};
    struct policy *p = into;
    struct fields_rules rules = {.path = "rules",
                                 .size = sizeof(struct policy_rule),
                                 .table = table,
                                 .table_count = COUNT(table),
                                 .begin = begin_rule,
                                 .end = end_rule,
                                 .states = states,
                                 .what_to_state = "onCategory"};
    if (at->node->type == DOCUMENT_LIST && at->node->count == 0)
        return true; /* its defaultAction alone decides */
    bool good = fields_rules(f, at, &rules);
    p->rules = rules.rules;
    p->rule_count = rules.count;
    return good;
}

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
            (r->affinity.mode == POLICY_AFFINITY_UNSET && !r->memory.max))
            continue;
        r->affinity = (struct policy_affinity){0};
        r->memory = (struct policy_memory){0};
        policy_warning_add(warnings, a, "rules[%zu].mutate has no effect: the action is Fail", i);
    }
}

bool armada_document_read(struct fields *f, const struct fields_at *at, struct policy *p,
                          struct document_node *warnings)
{
    static const struct field table[] = {{"apiVersion", read_as_checked, true},
                                         {"kind", read_as_checked, true},
                                         {"name", read_name, true},
                                         {"retryLimit", read_limit, false},
                                         {"defaultAction", read_default, true},
                                         {"rules", read_rules, false}};
    if (!fields_read(f, at, table, COUNT(table), p))
        return false;
    p->counts_together = true;
    if (p->retry_limit == POLICY_NO_LIMIT) {
        p->retry_limit = 0;
        policy_warning_add(warnings, f->arena,
                           "retryLimit is not stated, which in this format means 0: nothing is "
                           "retried");
    }
    drop_mutations(p, warnings, f->arena);
    return true;
}
