/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "core/culprit.h"
#include "policy/fields.h"

#define EXIT_CODES_MAX 1024

/* --- reading --- */

static const char *const operators[] = {"In", "NotIn", NULL};

static struct err read_operator(struct json_cursor *c, struct arena *a, void *into)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, operators, "In or NotIn", &which));
    *(enum matcher_operator *)into = which ? MATCHER_NOT_IN : MATCHER_IN;
    return err_none();
}

/* Enters a list that is not empty. */
static struct err enter_list(struct json_cursor *c, const char *expected, size_t most, size_t *n)
{
    size_t at = c->pos;
    TRY(fields_list(c, expected, n));
    if (*n == 0)
        return fields_refuse(c, at, ERR_BAD_VALUE, "%s", expected);
    if (*n > most)
        return fields_refuse(c, at, ERR_TOO_MANY, "%s; at most %zu", expected, most);
    return err_none();
}

static struct err read_values(struct json_cursor *c, struct arena *a, void *into)
{
    struct matcher *m = into;
    size_t n;
    TRY(enter_list(c, "a list of exit codes", EXIT_CODES_MAX, &n));
    int64_t *codes = arena_get(a, n * sizeof *codes);
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        size_t at = c->pos;
        TRY(fields_int(c, INT32_MIN, UINT32_MAX, &codes[i]));
        for (size_t j = 0; j < i; j++)
            if (codes[j] == codes[i])
                return fields_refuse(c, at, ERR_BAD_VALUE, "every exit code once");
    }
    fields_end(c);
    m->exit_codes = codes;
    m->exit_code_count = n;
    return err_none();
}

static const struct field exit_codes_table[] = {
    {"operator", true, read_operator, offsetof(struct matcher, exit_operator), .doc = "string (*)",
     .words = operators},
    {"values", true, read_values, 0, .doc = "ExitCode[..$]", .most = EXIT_CODES_MAX},
};

struct err fields_exit_codes(struct json_cursor *c, struct arena *a, void *rule)
{
    (void)a;
    return fields_read(c, exit_codes_table, COUNT(exit_codes_table), rule);
}

#define CONDITIONS "OOMKilled, Evicted, Preempted, DeadlineExceeded, Unschedulable or LeaseExpired"

static struct err read_condition(struct json_cursor *c, struct arena *a, struct matcher *m)
{
    size_t at = c->pos;
    struct str word;
    enum condition which;
    if (field_text(c, a, &word).code != ERR_OK)
        return fields_refuse(c, at, ERR_BAD_TYPE, CONDITIONS);
    if (!job_condition_parse(word, &which))
        return fields_refuse(c, at, ERR_BAD_VALUE, CONDITIONS);
    if (m->conditions & MATCHER_CONDITION(which))
        return fields_refuse(c, at, ERR_BAD_VALUE, "every condition once");
    m->conditions |= MATCHER_CONDITION(which);
    return err_none();
}

struct err fields_conditions(struct json_cursor *c, struct arena *a, void *rule)
{
    size_t n;
    TRY(enter_list(c, "a list of " CONDITIONS, CONDITION_COUNT, &n));
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(read_condition(c, a, rule));
    }
    fields_end(c);
    return err_none();
}

/* "job, input ... or unknown", and which of them may have been meant. */
static struct err refuse_culprit(struct json_cursor *c, size_t at, enum err_code code,
                                 struct str word)
{
    struct buf names = {0};
    struct str meant = word.len ? culprit_closest(word) : (struct str){0};
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++)
        buf_print(&names, "%s%s",
                  i == CULPRIT_NONE + 1   ? ""
                  : i + 1 < CULPRIT_COUNT ? ", "
                                          : " or ",
                  culprit_name((enum culprit)i));
    if (meant.len)
        buf_print(&names, " (did you mean %.*s?)", STR_ARG(meant));
    struct err err = fields_refuse(c, at, code, "%.*s", (int)names.len, names.at);
    buf_fini(&names);
    return err;
}

static struct err read_culprit(struct json_cursor *c, struct arena *a, struct matcher *m)
{
    size_t at = c->pos;
    struct str word = {0};
    enum culprit which;
    if (field_text(c, a, &word).code != ERR_OK)
        return refuse_culprit(c, at, ERR_BAD_TYPE, word);
    if (!culprit_parse(word, &which))
        return refuse_culprit(c, at, ERR_BAD_VALUE, word);
    if (m->culprits & MATCHER_CULPRIT(which))
        return fields_refuse(c, at, ERR_BAD_VALUE, "every culprit once");
    m->culprits |= MATCHER_CULPRIT(which);
    return err_none();
}

struct err fields_culprits(struct json_cursor *c, struct arena *a, void *rule)
{
    size_t n;
    TRY(enter_list(c, "a list of culprits, as disruption", CULPRIT_COUNT, &n));
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(read_culprit(c, a, rule));
    }
    fields_end(c);
    return err_none();
}

/* The names of a list of names in refusals. */
struct naming {
    const char *list, *once;
};

static struct err read_names(struct json_cursor *c, struct arena *a, const struct naming *naming,
                             const struct str **names, size_t *count)
{
    size_t n;
    TRY(enter_list(c, naming->list, FIELDS_CATEGORIES_MAX, &n));
    struct str *list = arena_get(a, n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        size_t at = c->pos;
        TRY(fields_text(c, FIELDS_TEXT_MAX, &list[i]));
        for (size_t j = 0; j < i; j++)
            if (str_eq(list[j], list[i]))
                return fields_refuse(c, at, ERR_BAD_VALUE, "%s", naming->once);
    }
    fields_end(c);
    *names = list;
    *count = n;
    return err_none();
}

struct err fields_categories(struct json_cursor *c, struct arena *a, void *rule)
{
    static const struct naming naming = {"a list of categories", "every category once"};
    struct matcher *m = rule;
    return read_names(c, a, &naming, &m->categories, &m->category_count);
}

struct err fields_subcategories(struct json_cursor *c, struct arena *a, void *rule)
{
    static const struct naming naming = {"a list of subcategories", "every subcategory once"};
    struct matcher *m = rule;
    return read_names(c, a, &naming, &m->subcategories, &m->subcategory_count);
}

static struct err error_types(struct json_cursor *c, struct arena *a, void *rule)
{
    static const struct naming naming = {"a list of error types", "every error type once"};
    struct matcher *m = rule;
    return read_names(c, a, &naming, &m->error_types, &m->error_type_count);
}

static const struct field error_table[] = {
    {"types", false, error_types, 0, .doc = "string[..$]", .most = FIELDS_CATEGORIES_MAX},
    {"pattern", false, fields_regex, offsetof(struct matcher, error),
     .doc = "string 1..: a regular expression, searched for in the error's message"},
};

struct err fields_error(struct json_cursor *c, struct arena *a, void *rule)
{
    const struct matcher *m = rule;
    size_t at = c->pos;
    (void)a;
    TRY(fields_read(c, error_table, COUNT(error_table), rule));
    if (m->error_type_count || m->error)
        return err_none();
    return fields_refuse(c, at, ERR_MISSING_FIELD, "types, or a pattern, or both");
}

static const char *const event_types[] = {"Normal", "Warning", NULL};

static struct err read_event_type(struct json_cursor *c, struct arena *a, void *type)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, event_types, "Normal or Warning", &which));
    *(enum matcher_event *)type = which ? MATCHER_WARNING : MATCHER_NORMAL;
    return err_none();
}

static const struct field pod_events_table[] = {
    {"regexp", false, fields_regex, offsetof(struct matcher, event_message),
     .doc = "string 1..: a regular expression, searched for in the message of an event"},
    {"reason", false, fields_name, offsetof(struct matcher, event_reason),
     .doc = "string 1..$: of the same event", .most = FIELDS_TEXT_MAX},
    {"type", false, read_event_type, offsetof(struct matcher, event_type),
     .doc = "string (*): of the same event", .words = event_types},
};

struct err fields_pod_events(struct json_cursor *c, struct arena *a, void *rule)
{
    const struct matcher *m = rule;
    size_t at = c->pos;
    (void)a;
    TRY(fields_read(c, pod_events_table, COUNT(pod_events_table), rule));
    if (m->event_message || m->event_reason.len || m->event_type != MATCHER_ANY_EVENT)
        return err_none();
    return fields_refuse(c, at, ERR_MISSING_FIELD, "a regexp, a reason or a type");
}

const struct field_table fields_match_tables[] = {
    {"MatchedCondition",
     .doc = "string (OOMKilled|Evicted|Preempted|DeadlineExceeded|Unschedulable|LeaseExpired)"},
    {"ExitCode", .doc = "integer -2147483648..4294967295"},
    {"ExitCodeMatcher", FIELD_TABLE(exit_codes_table)},
    {"PodEventMatcher", FIELD_TABLE(pod_events_table),
     .doc = "object: one event of the pod, by all that is stated"},
    {"ErrorMatcher", FIELD_TABLE(error_table), .doc = "object: types, or a pattern, or both"},
};
const size_t fields_match_table_count = COUNT(fields_match_tables);

/* --- rules --- */

static void *rule_at(const struct fields_rules *r, size_t i)
{
    return (char *)r->rules + i * r->size;
}

static struct err read_rule(struct json_cursor *c, const struct fields_rules *r, size_t i)
{
    void *rule = rule_at(r, i);
    size_t at = c->pos;
    if (r->begin)
        r->begin(rule);
    TRY(fields_read(c, r->table, r->table_count, rule));
    if (!r->states(rule))
        return fields_refuse(c, at, ERR_MISSING_FIELD, "%s", r->what_to_state);
    if (r->end)
        r->end(rule);
    return err_none();
}

struct err fields_rules(struct json_cursor *c, struct fields_rules *r)
{
    size_t at = c->pos, n;
    TRY(fields_list(c, "a list of rules", &n));
    if (n == 0)
        return fields_refuse(c, at, ERR_BAD_VALUE, "%s", r->empty);
    if (n > FIELDS_RULES_MAX)
        return fields_refuse(c, at, ERR_TOO_MANY, "at most %d rules", FIELDS_RULES_MAX);
    const struct fields *f = c->context;
    r->rules = arena_zero(f->arena, n * r->size);
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(read_rule(c, r, i));
    }
    fields_end(c);
    r->count = n;
    return err_none();
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

static void add_culprits(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    struct document_node *n = document_add(rule, "onCulprit", document_list(a));
    for (int c = CULPRIT_NONE + 1; c < CULPRIT_COUNT; c++)
        if (m->culprits & MATCHER_CULPRIT(c))
            document_add(n, "", document_string(a, str_from(culprit_name((enum culprit)c))));
}

static void add_pattern(struct arena *a, struct document_node *rule, const char *name,
                        const struct pattern *p)
{
    if (!p)
        return;
    struct document_node *n = document_add(rule, name, document_map(a));
    document_add(n, "pattern", document_string(a, pattern_text(p)));
}

static void add_pod_events(struct arena *a, struct document_node *rule, const struct matcher *m)
{
    bool typed = m->event_type != MATCHER_ANY_EVENT;
    if (!m->event_message && !m->event_reason.len && !typed)
        return;
    struct document_node *n = document_add(rule, "onPodEvents", document_map(a));
    if (m->event_message)
        document_add(n, "regexp", document_string(a, pattern_text(m->event_message)));
    if (m->event_reason.len)
        document_add(n, "reason", document_string(a, m->event_reason));
    if (typed)
        document_add(
            n, "type",
            document_string(a, m->event_type == MATCHER_NORMAL ? STR("Normal") : STR("Warning")));
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
    if (m->culprits)
        add_culprits(a, rule, m);
    add_pattern(a, rule, "onTerminationMessage", m->message);
    add_pattern(a, rule, "onPodError", m->pod_error);
    add_pattern(a, rule, "onPodEvent", m->pod_event);
    add_pod_events(a, rule, m);
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
