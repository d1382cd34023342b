/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/category_document.h"

#include "base/array.h"
#include "core/builtin_category.h"
#include "policy/armada_categories.h"
#include "policy/fields.h"
#include "policy/policy_warning.h"

#define HINT_MAX 1024
/* As in Armada. Documents of before may have longer names. */
#define CATEGORY_MAX 63

/* --- rules --- */

struct err category_document_subname(struct json_cursor *c, struct arena *a, void *str)
{
    const struct fields *f = c->context;
    (void)a;
    return fields_text(c, f->stored ? FIELDS_TEXT_MAX : CATEGORY_MAX, str);
}

struct err category_document_name(struct json_cursor *c, struct arena *a, void *str)
{
    const struct fields *f = c->context;
    size_t at = c->pos;
    TRY(category_document_subname(c, a, str));
    if (f->stored || !builtin_category_is(*(const struct str *)str))
        return err_none();
    return fields_refuse(c, at, ERR_BAD_VALUE,
                         "another name: " BUILTIN_CATEGORY_NAME " is for built-in categories");
}

const char *const category_document_actions[] = {"Delete", "Retain", NULL};

struct err category_document_action(struct json_cursor *c, struct arena *a, void *action)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, category_document_actions, "Delete or Retain", &which));
    *(enum categorize_action *)action = which ? CATEGORIZE_RETAIN : CATEGORIZE_DELETE;
    return err_none();
}

struct err category_document_hint(struct json_cursor *c, struct arena *a, void *str)
{
    (void)a;
    return fields_text(c, HINT_MAX, str);
}

#define RULE(member) offsetof(struct categorize_rule, member)

static const struct field rule_table[] = {
    {"category", true, category_document_name, RULE(category), .doc = "string 1..$",
     .most = CATEGORY_MAX},
    {"subcategory", false, category_document_subname, RULE(subcategory), .doc = "string 1..$",
     .most = CATEGORY_MAX},
    {"hint", false, category_document_hint, RULE(hint), .doc = "string 1..$: what to do about it",
     .most = HINT_MAX},
    FIELDS_ON_EXIT_CODES,
    FIELDS_ON_CONDITIONS,
    FIELDS_ON_PATTERN("onTerminationMessage", message),
    FIELDS_ON_ERROR,
    FIELDS_ON_PATTERN("onPodError", pod_error),
    FIELDS_ON_PATTERN("onPodEvent", pod_event),
    FIELDS_ON_POD_EVENTS,
    {"action", false, category_document_action, RULE(action),
     .doc = "string (*): kept, and without effect", .words = category_document_actions},
    FIELDS_CONTAINER,
};

bool category_document_states(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->message || m->error ||
           m->error_type_count || m->pod_error || m->pod_event || m->event_message ||
           m->event_reason.len || m->event_type != MATCHER_ANY_EVENT;
}

static struct err spec_rules(struct json_cursor *c, struct arena *a, void *into)
{
    struct categorizer *out = into;
    struct fields_rules rules = {
        .size = sizeof(struct categorize_rule),
        .table = rule_table,
        .table_count = COUNT(rule_table),
        .states = category_document_states,
        .what_to_state = "at least one of onExitCodes, onConditions, onTerminationMessage, "
                         "onError, onPodError, onPodEvent and onPodEvents",
    };
    (void)a;
    if (fields_node(c)->type == DOCUMENT_LIST && fields_node(c)->count == 0)
        return json_skip(c, NULL); /* see read_spec */
    TRY(fields_rules(c, &rules));
    out->rules = rules.rules;
    out->rule_count = rules.count;
    return err_none();
}

/* --- the categorizer --- */

#define SPEC(member) offsetof(struct categorizer, member)

struct err category_document_enabled(struct json_cursor *c, struct arena *a, void *disabled)
{
    bool enabled = true;
    TRY(fields_bool(c, a, &enabled));
    *(bool *)disabled = !enabled;
    return err_none();
}

static const struct field spec_table[] = {
    {"enabled", false, category_document_enabled, SPEC(disabled),
     .doc = "boolean: false: its rules rest"},
    {"defaultCategory", false, category_document_name, SPEC(default_category),
     .doc = "string 1..$: of failures that no rule matches", .most = CATEGORY_MAX},
    {"defaultSubcategory", false, category_document_subname, SPEC(default_subcategory),
     .doc = "string 1..$", .most = CATEGORY_MAX},
    {"rules", true, spec_rules, 0, .doc = "CategoryRule[1..$]", .most = FIELDS_RULES_MAX},
};
static const struct field document_table[] = {
    FIELDS_FRAME(CATEGORY_DOCUMENT_KIND, "FailureCategoriesSpec"),
};

const struct field_table category_document_tables[] = {
    {"AnyFailureCategories",
     .doc = "FailureCategoriesInput or ArmadaExecutor: in one of two formats"},
    {"FailureCategoriesInput", FIELD_TABLE(document_table)},
    {"FailureCategoriesSpec", FIELD_TABLE(spec_table)},
    {"CategoryRule", FIELD_TABLE(rule_table),
     .doc = "object: the category of a failure that all of its matchers hold for"},
};
const size_t category_document_table_count = COUNT(category_document_tables);

/* --- what has no effect --- */

static size_t first_like(const struct categorizer *c, size_t i)
{
    uint64_t key = matcher_key(&c->rules[i].match);
    size_t j = 0;
    while (j < i && matcher_key(&c->rules[j].match) != key)
        j++;
    return j;
}

/* Whoever writes so many rules has a program do it. */
#define COMPARED_MAX 512

static void warn_of_rule(struct category_document *d, size_t i)
{
    const struct categorizer *c = &d->categorizer;
    const struct categorize_rule *r = &c->rules[i];
    struct document_node *w = d->warnings;
    size_t before = i < COMPARED_MAX ? first_like(c, i) : i;
    if (before < i)
        policy_warning_add(w, &d->memory,
                           "rules[%zu] can never match: rules[%zu] has the same matchers", i,
                           before);
    if (r->match.include_init)
        policy_warning_add(w, &d->memory,
                           "rules[%zu].includeInitContainers has no effect: every container that "
                           "failed is examined",
                           i);
    if (r->action == CATEGORIZE_RETAIN)
        policy_warning_add(w, &d->memory,
                           "rules[%zu].action has no effect: the executor keeps failed pods by its "
                           "own settings",
                           i);
    for (size_t j = 0; j < r->match.exit_code_count; j++)
        if (r->match.exit_codes[j] == 0)
            policy_warning_add(w, &d->memory, "rules[%zu].onExitCodes: exit code 0 never matches",
                               i);
}

static void find_warnings(struct category_document *d)
{
    const struct categorizer *c = &d->categorizer;
    for (size_t i = 0; i < c->rule_count; i++)
        warn_of_rule(d, i);
    if (c->default_subcategory.len && !c->default_category.len)
        policy_warning_add(d->warnings, &d->memory,
                           "defaultSubcategory has no effect without a defaultCategory");
    if (c->disabled)
        policy_warning_add(d->warnings, &d->memory, "enabled is false: no rule is asked");
}

static struct err read_spec(struct json_cursor *c, struct categorizer *out)
{
    const struct fields *f = c->context;
    size_t at = c->pos;
    TRY(fields_read(c, spec_table, COUNT(spec_table), out));
    if (out->rule_count || out->default_category.len || f->stored)
        return err_none();
    return fields_refuse(c, fields_member(c, at, "rules"), ERR_BAD_VALUE,
                         "at least one rule, or a defaultCategory");
}

static struct err read_document(struct json_cursor *c, struct category_document *out)
{
    struct fields_frame frame = {.kind = CATEGORY_DOCUMENT_KIND};
    TRY(fields_read(c, document_table, COUNT(document_table), &frame));
    TRY(read_spec(&frame.spec.at, &out->categorizer));
    out->categorizer.name = frame.name;
    out->resource_version = frame.resource_version;
    return err_none();
}

static bool read_tree(const struct document_node *root, bool stored, struct category_document *out,
                      struct document_fault *fault)
{
    *out = (struct category_document){0};
    struct fields f;
    const struct document_node *section = armada_categories_of(root);
    struct json_cursor c =
        section ? fields_open_lenient(&f, section, ARMADA_CATEGORIES_PLACE, &out->memory, fault)
                : fields_open(&f, root, NULL, &out->memory, fault);
    f.stored = stored;
    f.re2 = !stored && (section || str_eq(document_text(root, "apiVersion"),
                                          str_from(fields_api_versions[1])));
    f.pattern_bytes = &out->pattern_bytes;
    out->warnings = document_list(&out->memory);
    struct err err = section ? armada_categories_read(&c, root, &out->categorizer, out->warnings)
                             : read_document(&c, out);
    if (err.code != ERR_OK) {
        category_document_free(out);
        return false;
    }
    find_warnings(out);
    return true;
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
    if (c->disabled)
        document_add(spec, "enabled", document_bool(a, false));
    add_text(spec, "defaultCategory", c->default_category, a);
    add_text(spec, "defaultSubcategory", c->default_subcategory, a);
    struct document_node *rules = document_add(spec, "rules", document_list(a));
    for (size_t i = 0; i < c->rule_count; i++) {
        const struct categorize_rule *r = &c->rules[i];
        struct document_node *rule = document_add(rules, "", document_map(a));
        add_text(rule, "category", r->category, a);
        add_text(rule, "subcategory", r->subcategory, a);
        add_text(rule, "hint", r->hint, a);
        if (r->action != CATEGORIZE_NO_ACTION)
            add_text(rule, "action", r->action == CATEGORIZE_DELETE ? STR("Delete") : STR("Retain"),
                     a);
        fields_add_matchers(a, rule, &r->match);
    }
    return root;
}
