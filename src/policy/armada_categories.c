/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/armada_categories.h"

#include <string.h>

#include "base/array.h"
#include "policy/category_document.h"
#include "policy/policy_warning.h"

#define RULE(member) offsetof(struct categorize_rule, member)

static const struct field rule_table[] = {
    {"subcategory", false, category_document_subname, RULE(subcategory), .doc = "string 1..63"},
    {"hint", false, category_document_hint, RULE(hint), .doc = "string 1..1024"},
    FIELDS_ON_EXIT_CODES,
    FIELDS_ON_CONDITIONS,
    FIELDS_ON_PATTERN("onTerminationMessage", message),
    FIELDS_ON_PATTERN("onPodError", pod_error),
    FIELDS_ON_POD_EVENTS,
    {"containerName", false, fields_label, offsetof(struct matcher, container),
     .doc = "string 1..$: only this container", .most = FIELDS_LABEL_MAX},
};

/* A category with its rules. */
struct category {
    struct str name;
    enum categorize_action action;
    struct categorize_rule *rules;
    size_t count;
};

static struct err read_rules(struct json_cursor *c, struct arena *a, void *into)
{
    struct category *category = into;
    struct fields_rules rules = {.size = sizeof(struct categorize_rule),
                                 .table = rule_table,
                                 .table_count = COUNT(rule_table),
                                 .states = category_document_states,
                                 .what_to_state = "one of onExitCodes, onConditions, "
                                                  "onTerminationMessage, onPodError and "
                                                  "onPodEvents",
                                 .empty = "at least one rule"};
    (void)a;
    TRY(fields_rules(c, &rules));
    category->rules = rules.rules;
    category->count = rules.count;
    return err_none();
}

#define CATEGORY(member) offsetof(struct category, member)

static const struct field category_table[] = {
    {"name", true, category_document_name, CATEGORY(name), .doc = "string 1..63"},
    {"action", false, category_document_action, CATEGORY(action),
     .doc = "string (*): kept, and without effect", .words = category_document_actions},
    {"rules", true, read_rules, 0, .doc = "ArmadaCategoryRule[1..]"},
};

static void append(struct categorizer *out, const struct category *category, struct arena *a)
{
    size_t n = out->rule_count + category->count;
    struct categorize_rule *all = arena_get(a, n * sizeof *all);
    if (out->rule_count)
        memcpy(all, out->rules, out->rule_count * sizeof *all);
    for (size_t i = 0; i < category->count; i++) {
        all[out->rule_count + i] = category->rules[i];
        all[out->rule_count + i].category = category->name;
        all[out->rule_count + i].action = category->action;
    }
    out->rules = all;
    out->rule_count = n;
}

static struct err read_categories(struct json_cursor *c, struct arena *a, void *categorizer)
{
    const struct fields *f = c->context;
    size_t n;
    (void)a;
    TRY(fields_list(c, "a list of categories", &n));
    for (size_t i = 0; i < n; i++) {
        struct category one = {0};
        fields_next(c);
        TRY(fields_read(c, category_table, COUNT(category_table), &one));
        append(categorizer, &one, f->arena);
    }
    fields_end(c);
    return err_none();
}

#define SECTION(member) offsetof(struct categorizer, member)

static const struct field section_table[] = {
    {"enabled", false, category_document_enabled, SECTION(disabled), .doc = "boolean"},
    {"defaultCategory", false, category_document_name, SECTION(default_category),
     .doc = "string 1..63"},
    {"defaultSubcategory", false, category_document_subname, SECTION(default_subcategory),
     .doc = "string 1..63"},
    {"categories", false, read_categories, 0, .doc = "ArmadaCategory[]"},
};

static struct err skip(struct json_cursor *c, struct arena *a, void *into)
{
    (void)a;
    (void)into;
    return json_skip(c, NULL);
}

static const struct field application_table[] = {
    {"errorCategories", true, skip, 0, .doc = "ArmadaErrorCategories"},
};
static const struct field document_table[] = {
    {"application", true, skip, 0, .doc = "ArmadaExecutorApplication"},
};

const struct field_table armada_categories_tables[] = {
    {"ArmadaExecutor", FIELD_TABLE(document_table),
     .doc = "object: the configuration of an Armada executor; only this part of it is read"},
    {"ArmadaExecutorApplication", FIELD_TABLE(application_table)},
    {"ArmadaErrorCategories", FIELD_TABLE(section_table)},
    {"ArmadaCategory", FIELD_TABLE(category_table)},
    {"ArmadaCategoryRule", FIELD_TABLE(rule_table)},
};
const size_t armada_categories_table_count = COUNT(armada_categories_tables);

static const struct document_node *map_in(const struct document_node *n, const char *name)
{
    const struct document_node *m = n->type == DOCUMENT_MAP ? document_member(n, name) : NULL;
    return m && m->type == DOCUMENT_MAP ? m : NULL;
}

const struct document_node *armada_categories_of(const struct document_node *root)
{
    const struct document_node *application = map_in(root, "application");
    return application ? map_in(application, "errorCategories") : NULL;
}

static void warn_of_others(const struct document_node *map, const char *place, const char *used,
                           struct document_node *warnings, struct arena *a)
{
    for (const struct document_node *n = map->first; n; n = n->next)
        if (!str_eq(n->key, str_from(used)))
            policy_warning_add(warnings, a, "%s%.*s has no use here and is not kept", place,
                               STR_ARG(n->key));
}

struct err armada_categories_read(struct json_cursor *c, const struct document_node *root,
                                  struct categorizer *out, struct document_node *warnings)
{
    const struct fields *f = c->context;
    TRY(fields_read(c, section_table, COUNT(section_table), out));
    out->name = STR(ARMADA_CATEGORIES_NAME);
    warn_of_others(root, "", "application", warnings, f->arena);
    warn_of_others(map_in(root, "application"), "application.", "errorCategories", warnings,
                   f->arena);
    return err_none();
}
