/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/category_document.h"

#include "base/array.h"
#include "policy/fields.h"

#define HINT_MAX 1024

/* --- rules --- */

static struct err read_hint(struct json_cursor *c, struct arena *a, void *str)
{
    (void)a;
    return fields_text(c, HINT_MAX, str);
}

#define RULE(member) offsetof(struct categorize_rule, member)

static const struct field rule_table[] = {
    {"category", true, fields_name, RULE(category), .doc = "string 1..$", .most = FIELDS_TEXT_MAX},
    {"subcategory", false, fields_name, RULE(subcategory), .doc = "string 1..$",
     .most = FIELDS_TEXT_MAX},
    {"hint", false, read_hint, RULE(hint), .doc = "string 1..$: what to do about it",
     .most = HINT_MAX},
    FIELDS_ON_EXIT_CODES,
    FIELDS_ON_CONDITIONS,
    FIELDS_ON_PATTERN("onTerminationMessage", message),
    FIELDS_ON_ERROR,
    FIELDS_ON_PATTERN("onPodError", pod_error),
    FIELDS_ON_PATTERN("onPodEvent", pod_event),
    FIELDS_CONTAINER,
};

static bool states(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->message || m->error ||
           m->error_type_count || m->pod_error || m->pod_event;
}

static struct err spec_rules(struct json_cursor *c, struct arena *a, void *into)
{
    struct categorizer *out = into;
    struct fields_rules rules = {
        .size = sizeof(struct categorize_rule),
        .table = rule_table,
        .table_count = COUNT(rule_table),
        .states = states,
        .what_to_state = "at least one of onExitCodes, onConditions, onTerminationMessage, "
                         "onError, onPodError and onPodEvent",
        .empty = "at least one rule",
    };
    (void)a;
    TRY(fields_rules(c, &rules));
    out->rules = rules.rules;
    out->rule_count = rules.count;
    return err_none();
}

/* --- the categorizer --- */

static const struct field spec_table[] = {
    {"rules", true, spec_rules, 0, .doc = "CategoryRule[1..$]", .most = FIELDS_RULES_MAX},
};
static const struct field document_table[] = {
    FIELDS_FRAME(CATEGORY_DOCUMENT_KIND, "FailureCategoriesSpec"),
};

const struct field_table category_document_tables[] = {
    {"NewFailureCategories", FIELD_TABLE(document_table)},
    {"FailureCategoriesSpec", FIELD_TABLE(spec_table)},
    {"CategoryRule", FIELD_TABLE(rule_table),
     .doc = "object: the category of a failure that all of its matchers hold for"},
};
const size_t category_document_table_count = COUNT(category_document_tables);

static struct err read_document(struct json_cursor *c, struct category_document *out)
{
    struct fields_frame frame = {.kind = CATEGORY_DOCUMENT_KIND};
    TRY(fields_read(c, document_table, COUNT(document_table), &frame));
    TRY(fields_read(&frame.spec.at, spec_table, COUNT(spec_table), &out->categorizer));
    out->categorizer.name = frame.name;
    out->resource_version = frame.resource_version;
    return err_none();
}

static bool read_tree(const struct document_node *root, bool stored, struct category_document *out,
                      struct document_fault *fault)
{
    *out = (struct category_document){0};
    struct fields f;
    struct json_cursor c = fields_open(&f, root, NULL, &out->memory, fault);
    f.stored = stored;
    f.pattern_bytes = &out->pattern_bytes;
    if (read_document(&c, out).code == ERR_OK)
        return true;
    category_document_free(out);
    return false;
}

bool category_document_read(const struct document_node *root, struct category_document *out,
                            struct document_fault *fault)
{
    return read_tree(root, false, out, fault);
}

static bool parse(struct str text, enum document_format format, bool stored,
                  struct category_document *out, struct document_fault *fault)
{
    struct arena tree = {0};
    struct document_list list;
    const struct document_node *root = NULL;
    bool good = document_read(text, format, &tree, &list, fault) &&
                document_only(&list, &root, fault) && read_tree(root, stored, out, fault);
    arena_fini(&tree);
    return good;
}

bool category_document_parse(struct str text, enum document_format format,
                             struct category_document *out, struct document_fault *fault)
{
    return parse(text, format, false, out, fault);
}

bool category_document_parse_stored(struct str text, struct category_document *out,
                                    struct document_fault *fault)
{
    return parse(text, DOCUMENT_JSON, true, out, fault);
}

void category_document_free(struct category_document *d)
{
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
