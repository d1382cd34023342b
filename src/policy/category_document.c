/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/category_document.h"

#include "base/array.h"
#include "policy/fields.h"

#define HINT_MAX 1024

/* --- rules --- */

static bool rule_category(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_text(f, at, FIELDS_TEXT_MAX, &((struct categorize_rule *)into)->category);
}

static bool rule_subcategory(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_text(f, at, FIELDS_TEXT_MAX, &((struct categorize_rule *)into)->subcategory);
}

static bool rule_hint(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_text(f, at, HINT_MAX, &((struct categorize_rule *)into)->hint);
}

static const struct field rule_fields[] = {
    {"category", rule_category, true},
    {"subcategory", rule_subcategory, false},
    {"hint", rule_hint, false},
    {"onExitCodes", fields_exit_codes, false},
    {"onConditions", fields_conditions, false},
    {"onTerminationMessage", fields_message, false},
    {"onError", fields_error, false},
    {"onPodError", fields_pod_error, false},
    {"onPodEvent", fields_pod_event, false},
    {"containerName", fields_container, false},
    {"includeInitContainers", fields_include_init, false},
};

static bool states(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->message || m->error ||
           m->error_type_count || m->pod_error || m->pod_event;
}

static bool spec_rules(struct fields *f, const struct fields_at *at, void *into)
{
    struct categorizer *c = into;
    struct fields_rules rules = {
        .size = sizeof(struct categorize_rule),
        .table = rule_fields,
        .table_count = COUNT(rule_fields),
        .states = states,
        .what_to_state = "at least one of onExitCodes, onConditions, onTerminationMessage, "
                         "onError, onPodError and onPodEvent",
        .empty = "at least one rule",
    };
    bool good = fields_rules(f, at, &rules);
    c->rules = rules.rules;
    c->rule_count = rules.count;
    return good;
}

/* --- the categorizer --- */

static void own_texts(struct categorizer *c, struct arena *a)
{
    c->name = arena_copy(a, c->name);
    struct categorize_rule *rules = (struct categorize_rule *)c->rules;
    for (size_t i = 0; i < c->rule_count; i++) {
        struct categorize_rule *r = &rules[i];
        r->category = arena_copy(a, r->category);
        r->subcategory = arena_copy(a, r->subcategory);
        r->hint = arena_copy(a, r->hint);
        fields_own_matcher(&r->match, a);
    }
}

bool category_document_read(const struct document_node *root, struct category_document *out,
                            struct document_fault *fault)
{
    static const struct field table[] = {{"rules", spec_rules, true}};
    *out = (struct category_document){0};
    struct fields f = {.arena = &out->memory, .fault = fault};
    struct fields_at at = {.node = root};
    struct fields_frame frame = {.kind = CATEGORY_DOCUMENT_KIND};
    bool good = fields_frame(&f, &at, &frame) &&
                fields_read(&f, &frame.spec, table, COUNT(table), &out->categorizer);
    out->patterns = f.patterns;
    if (!good) {
        category_document_free(out);
        return false;
    }
    out->categorizer.name = frame.name;
    out->resource_version = frame.resource_version;
    own_texts(&out->categorizer, &out->memory);
    return true;
}

bool category_document_parse(struct str text, enum document_format format,
                             struct category_document *out, struct document_fault *fault)
{
    struct arena tree = {0};
    struct document_list list;
    const struct document_node *root = NULL;
    bool good = document_read(text, format, &tree, &list, fault) &&
                document_only(&list, &root, fault) && category_document_read(root, out, fault);
    arena_fini(&tree);
    return good;
}

void category_document_free(struct category_document *d)
{
    fields_free_patterns(d->patterns);
    arena_fini(&d->memory);
    *d = (struct category_document){0};
}

static void add_text(struct document_node *to, const char *name, struct str text, struct arena *a)
{
    if (text.len)
        document_add(to, name, document_string(a, text));
}

struct document_node *category_document_tree(const struct categorizer *c, int64_t resource_version,
                                             struct arena *a)
{
    struct document_node *root = document_map(a);
    struct fields_frame frame = {
        .kind = CATEGORY_DOCUMENT_KIND, .name = c->name, .resource_version = resource_version};
    struct document_node *spec = fields_frame_tree(a, root, &frame);
    struct document_node *rules = document_add(spec, "rules", document_list(a));
    for (size_t i = 0; i < c->rule_count; i++) {
        const struct categorize_rule *r = &c->rules[i];
        struct document_node *rule = document_add(rules, "", document_map(a));
        add_text(rule, "category", r->category, a);
        add_text(rule, "subcategory", r->subcategory, a);
        add_text(rule, "hint", r->hint, a);
        fields_add_matchers(a, rule, &r->match);
    }
    return root;
}
