/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/category_document.h"

#include "policy/fields.h"

#define HINT_MAX     1024
#define COUNT(array) (sizeof(array) / sizeof *(array))

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

static bool rule_exit_codes(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_exit_codes(f, at, &((struct categorize_rule *)into)->match);
}

static bool rule_conditions(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_conditions(f, at, &((struct categorize_rule *)into)->match);
}

static bool rule_message(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_pattern(f, at, &((struct categorize_rule *)into)->match.message);
}

static bool rule_pod_error(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_pattern(f, at, &((struct categorize_rule *)into)->match.pod_error);
}

static bool rule_pod_event(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_pattern(f, at, &((struct categorize_rule *)into)->match.pod_event);
}

static bool rule_container(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_label(f, at, &((struct categorize_rule *)into)->match.container);
}

static bool rule_include_init(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_bool(f, at, &((struct categorize_rule *)into)->match.include_init);
}

static const struct field rule_fields[] = {
    {"category", rule_category, true},
    {"subcategory", rule_subcategory, false},
    {"hint", rule_hint, false},
    {"onExitCodes", rule_exit_codes, false},
    {"onConditions", rule_conditions, false},
    {"onTerminationMessage", rule_message, false},
    {"onPodError", rule_pod_error, false},
    {"onPodEvent", rule_pod_event, false},
    {"containerName", rule_container, false},
    {"includeInitContainers", rule_include_init, false},
};

static bool read_rule(struct fields *f, const struct fields_at *at, struct categorize_rule *rules)
{
    struct categorize_rule *rule = &rules[at->index];
    const struct matcher *m = &rule->match;
    *rule = (struct categorize_rule){0};
    if (!fields_read(f, at, rule_fields, COUNT(rule_fields), rule))
        return false;
    if (m->exit_operator == MATCHER_NO_CODES && !m->conditions && !m->message && !m->pod_error &&
        !m->pod_event)
        return fields_refuse(f, at, ERR_MISSING_FIELD,
                             "at least one of onExitCodes, onConditions, onTerminationMessage, "
                             "onPodError and onPodEvent");
    uint64_t key = matcher_key(m);
    for (size_t i = 0; i < at->index; i++)
        if (matcher_key(&rules[i].match) == key)
            return fields_refuse(f, at, ERR_BAD_VALUE,
                                 "matchers of its own: spec.rules[%zu] has the same, so this rule "
                                 "would never be reached",
                                 i);
    return true;
}

static bool spec_rules(struct fields *f, const struct fields_at *at, void *into)
{
    struct categorizer *c = into;
    if (!fields_expect(f, at, DOCUMENT_LIST, "a list of rules"))
        return false;
    if (at->node->count == 0)
        return fields_refuse(f, at, ERR_BAD_VALUE, "at least one rule");
    if (at->node->count > FIELDS_RULES_MAX)
        return fields_refuse(f, at, ERR_TOO_MANY, "at most %d rules", FIELDS_RULES_MAX);
    struct categorize_rule *rules = arena_get(f->arena, at->node->count * sizeof *rules);
    for (struct fields_at each = {0}; fields_each(at, &each);)
        if (!read_rule(f, &each, rules))
            return false;
    c->rules = rules;
    c->rule_count = at->node->count;
    return true;
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
        r->match.container = arena_copy(a, r->match.container);
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
