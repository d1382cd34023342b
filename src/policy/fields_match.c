/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "policy/fields.h"

#define EXIT_CODE_MOST 255

/* --- reading --- */

static bool read_operator(struct fields *f, const struct fields_at *at, void *into)
{
    static const char *const words[] = {"In", "NotIn"};
    size_t which;
    if (!fields_word(f, at, words, 2, "In or NotIn", &which))
        return false;
    ((struct matcher *)into)->exit_operator = which ? MATCHER_NOT_IN : MATCHER_IN;
    return true;
}

/* A list that is not empty; *n says how many. */
static bool expect_list(struct fields *f, const struct fields_at *at, const char *expected,
                        size_t most)
{
    if (!fields_expect(f, at, DOCUMENT_LIST, expected))
        return false;
    if (at->node->count == 0)
        return fields_refuse(f, at, ERR_BAD_VALUE, "%s", expected);
    return at->node->count <= most ||
           fields_refuse(f, at, ERR_TOO_MANY, "%s; at most %zu", expected, most);
}

static bool read_code(struct fields *f, const struct fields_at *at, int32_t *code)
{
    int64_t v;
    if (!fields_int(f, at, 1, EXIT_CODE_MOST, &v))
        return false;
    *code = (int32_t)v;
    return true;
}

static bool read_values(struct fields *f, const struct fields_at *at, void *into)
{
    struct matcher *m = into;
    if (!expect_list(f, at, "a list of exit codes from 1 to 255", EXIT_CODE_MOST))
        return false;
    int32_t *codes = arena_get(f->arena, at->node->count * sizeof *codes);
    for (struct fields_at each = {0}; fields_each(at, &each);) {
        if (!read_code(f, &each, &codes[each.index]))
            return false;
        for (size_t i = 0; i < each.index; i++)
            if (codes[i] == codes[each.index])
                return fields_refuse(f, &each, ERR_BAD_VALUE, "every exit code once");
    }
    m->exit_codes = codes;
    m->exit_code_count = at->node->count;
    return true;
}

bool fields_exit_codes(struct fields *f, const struct fields_at *at, void *rule)
{
    static const struct field table[] = {{"operator", read_operator, true},
                                         {"values", read_values, true}};
    return fields_read(f, at, table, 2, (struct matcher *)rule);
}

#define CONDITIONS "OOMKilled, Evicted, Preempted, DeadlineExceeded, Unschedulable or LeaseExpired"

bool fields_conditions(struct fields *f, const struct fields_at *at, void *rule)
{
    struct matcher *m = rule;
    if (!expect_list(f, at, "a list of " CONDITIONS, CONDITION_COUNT))
        return false;
    for (struct fields_at each = {0}; fields_each(at, &each);) {
        enum condition c;
        if (!fields_expect(f, &each, DOCUMENT_STRING, CONDITIONS))
            return false;
        if (!job_condition_parse(each.node->text, &c))
            return fields_refuse(f, &each, ERR_BAD_VALUE, CONDITIONS);
        if (m->conditions & MATCHER_CONDITION(c))
            return fields_refuse(f, &each, ERR_BAD_VALUE, "every condition once");
        m->conditions |= MATCHER_CONDITION(c);
    }
    return true;
}

/* What a list of names is called in refusals. */
struct naming {
    const char *list, *once;
};

static bool read_names(struct fields *f, const struct fields_at *at, const struct naming *naming,
                       const struct str **names, size_t *n)
{
    if (!expect_list(f, at, naming->list, FIELDS_CATEGORIES_MAX))
        return false;
    struct str *list = arena_get(f->arena, at->node->count * sizeof *list);
    for (struct fields_at each = {0}; fields_each(at, &each);) {
        if (!fields_text(f, &each, FIELDS_TEXT_MAX, &list[each.index]))
            return false;
        for (size_t i = 0; i < each.index; i++)
            if (str_eq(list[i], list[each.index]))
                return fields_refuse(f, &each, ERR_BAD_VALUE, "%s", naming->once);
    }
    *names = list;
    *n = at->node->count;
    return true;
}

bool fields_categories(struct fields *f, const struct fields_at *at, void *rule)
{
    static const struct naming naming = {"a list of categories", "every category once"};
    struct matcher *m = rule;
    return read_names(f, at, &naming, &m->categories, &m->category_count);
}

bool fields_subcategories(struct fields *f, const struct fields_at *at, void *rule)
{
    static const struct naming naming = {"a list of subcategories", "every subcategory once"};
    struct matcher *m = rule;
    return read_names(f, at, &naming, &m->subcategories, &m->subcategory_count);
}

static bool error_types(struct fields *f, const struct fields_at *at, void *rule)
{
    static const struct naming naming = {"a list of error types", "every error type once"};
    struct matcher *m = rule;
    return read_names(f, at, &naming, &m->error_types, &m->error_type_count);
}

static bool error_pattern(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_regex(f, at, &((struct matcher *)rule)->error);
}

bool fields_error(struct fields *f, const struct fields_at *at, void *rule)
{
    static const struct field table[] = {{"types", error_types, false},
                                         {"pattern", error_pattern, false}};
    const struct matcher *m = rule;
    return fields_read(f, at, table, 2, rule) &&
           (m->error_type_count || m->error ||
            fields_refuse(f, at, ERR_MISSING_FIELD, "types, or a pattern, or both"));
}

bool fields_message(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_pattern(f, at, &((struct matcher *)rule)->message);
}

bool fields_pod_error(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_pattern(f, at, &((struct matcher *)rule)->pod_error);
}

bool fields_pod_event(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_pattern(f, at, &((struct matcher *)rule)->pod_event);
}

bool fields_container(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_label(f, at, &((struct matcher *)rule)->container);
}

bool fields_include_init(struct fields *f, const struct fields_at *at, void *rule)
{
    return fields_bool(f, at, &((struct matcher *)rule)->include_init);
}

/* --- rules --- */

static void *rule_at(const struct fields_rules *r, size_t i)
{
    return (char *)r->rules + i * r->size;
}

static bool read_rule(struct fields *f, const struct fields_at *at, const struct fields_rules *r)
{
    void *rule = rule_at(r, at->index);
    if (r->begin)
        r->begin(rule);
    if (!fields_read(f, at, r->table, r->table_count, rule))
        return false;
    if (!r->states(rule))
        return fields_refuse(f, at, ERR_MISSING_FIELD, "%s", r->what_to_state);
    uint64_t key = matcher_key(rule);
    for (size_t i = 0; i < at->index; i++)
        if (matcher_key(rule_at(r, i)) == key)
            return fields_refuse(f, at, ERR_BAD_VALUE,
                                 "matchers of its own: %s[%zu] has the same, so this rule "
                                 "would never be reached",
                                 r->path ? r->path : "spec.rules", i);
    if (r->end)
        r->end(rule);
    return true;
}

bool fields_rules(struct fields *f, const struct fields_at *at, struct fields_rules *r)
{
    if (!fields_expect(f, at, DOCUMENT_LIST, "a list of rules"))
        return false;
    if (at->node->count == 0)
        return fields_refuse(f, at, ERR_BAD_VALUE, "%s", r->empty);
    if (at->node->count > FIELDS_RULES_MAX)
        return fields_refuse(f, at, ERR_TOO_MANY, "at most %d rules", FIELDS_RULES_MAX);
    r->rules = arena_zero(f->arena, at->node->count * r->size);
    for (struct fields_at each = {0}; fields_each(at, &each);)
        if (!read_rule(f, &each, r))
            return false;
    r->count = at->node->count;
    return true;
}

static void own_names(const struct str *list, size_t n, struct arena *a)
{
    for (size_t i = 0; i < n; i++)
        ((struct str *)list)[i] = arena_copy(a, list[i]);
}

void fields_own_matcher(struct matcher *m, struct arena *a)
{
    m->container = arena_copy(a, m->container);
    own_names(m->categories, m->category_count, a);
    own_names(m->subcategories, m->subcategory_count, a);
    own_names(m->error_types, m->error_type_count, a);
}

/* --- writing --- */

static void add_exit_codes(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    struct document_node *n = document_add(rule, "onExitCodes", document_map(a));
    document_add(n, "operator",
                 document_string(a, m->exit_operator == MATCHER_IN ? STR("In") : STR("NotIn")));
    struct document_node *values = document_add(n, "values", document_list(a));
    for (size_t i = 0; i < m->exit_code_count; i++)
        document_add(values, "", document_int(a, m->exit_codes[i]));
}

static void add_conditions(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    struct document_node *n = document_add(rule, "onConditions", document_list(a));
    for (int c = CONDITION_NONE + 1; c < CONDITION_COUNT; c++)
        if (m->conditions & MATCHER_CONDITION(c))
            document_add(n, "",
                         document_string(a, str_from(job_condition_name((enum condition)c))));
}

static void add_pattern(struct arena *a, struct document_node *rule, const char *name,
                        const struct pattern *p)
{
    if (!p)
        return;
    struct document_node *n = document_add(rule, name, document_map(a));
    document_add(n, "pattern", document_string(a, pattern_text(p)));
}

static void add_names(struct arena *a, struct document_node *to, const char *name,
                      const struct str *list, size_t count)
{
    if (!count)
        return;
    struct document_node *n = document_add(to, name, document_list(a));
    for (size_t i = 0; i < count; i++)
        document_add(n, "", document_string(a, list[i]));
}

static void add_error(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    if (!m->error && !m->error_type_count)
        return;
    struct document_node *n = document_add(rule, "onError", document_map(a));
    add_names(a, n, "types", m->error_types, m->error_type_count);
    if (m->error)
        document_add(n, "pattern", document_string(a, pattern_text(m->error)));
}

void fields_add_matchers(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    if (m->container.len)
        document_add(rule, "containerName", document_string(a, m->container));
    if (m->include_init)
        document_add(rule, "includeInitContainers", document_bool(a, true));
    if (m->exit_operator != MATCHER_NO_CODES)
        add_exit_codes(a, rule, m);
    if (m->conditions)
        add_conditions(a, rule, m);
    add_pattern(a, rule, "onTerminationMessage", m->message);
    add_pattern(a, rule, "onPodError", m->pod_error);
    add_pattern(a, rule, "onPodEvent", m->pod_event);
    add_names(a, rule, "onFailureCategory", m->categories, m->category_count);
    add_names(a, rule, "onFailureSubcategory", m->subcategories, m->subcategory_count);
    add_error(a, rule, m);
}

struct document_node *fields_span_tree(struct arena *a, span d)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    struct buf b = {0};
    int64_t rest = d.ms;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (rest / units[i].ms > 0)
            buf_print(&b, "%lld%s", (long long)(rest / units[i].ms), units[i].name);
        rest %= units[i].ms;
    }
    struct str text = b.len ? arena_copy(a, buf_view(&b)) : STR("0s");
    buf_fini(&b);
    return document_string(a, text);
}
