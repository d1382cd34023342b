/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/settings_document.h"

#include "base/array.h"
#include "policy/fields.h"
#include "policy/policy_document.h"

/* Empty: none. */
static struct err read_default(struct json_cursor *c, struct arena *a, void *name)
{
    struct json_cursor label = *c;
    if (field_text(c, a, name).code == ERR_OK && ((struct str *)name)->len == 0)
        return err_none();
    *c = label;
    return fields_label(c, a, name);
}

/* In the order of enum retry_fallback. */
static const char *const fallbacks[] = {"default", "fail", NULL};

static struct err read_no_policy(struct json_cursor *c, struct arena *a, void *fallback)
{
    size_t which;
    (void)a;
    TRY(fields_word(c, fallbacks, "default or fail", &which));
    *(enum retry_fallback *)fallback = (enum retry_fallback)(RETRY_FALLBACK_DEFAULT + which);
    return err_none();
}

/* In the order of their bits: two kinds of retries; then each culprit but the job, by its number;
 * at last two conditions. */
static const char *const exempt[] = {"defaultBackoff", "leaseExpired", "input",   "worker",
                                     "node",           "cluster",      "access",  "dependency",
                                     "disruption",     "gang",         "server",  "deadline",
                                     "unknown",        "preempted",    "evicted", NULL};
#define EXEMPT                                                                                     \
    "defaultBackoff, leaseExpired, input, worker, node, cluster, access, dependency, "             \
    "disruption, gang, server, deadline, unknown, preempted or evicted"
_Static_assert(COUNT(exempt) == CULPRIT_COUNT + 3 &&
                   POLICY_EXEMPT_CULPRIT(CULPRIT_INPUT) == 1u << 2,
               "each culprit but the job can be exempt");

static unsigned exempt_bit(size_t which)
{
    return which < CULPRIT_COUNT ? 1u << which : POLICY_EXEMPT_PREEMPTED << (which - CULPRIT_COUNT);
}

static struct err read_exempt(struct json_cursor *c, struct arena *a, void *into)
{
    unsigned bits = 0;
    size_t n;
    (void)a;
    TRY(fields_list(c, "a list of " EXEMPT, &n));
    for (size_t i = 0; i < n; i++) {
        size_t which;
        fields_next(c);
        size_t at = c->pos;
        TRY(fields_word(c, exempt, EXEMPT, &which));
        if (bits & exempt_bit(which))
            return fields_refuse(c, at, ERR_BAD_VALUE, "each of them once");
        bits |= exempt_bit(which);
    }
    fields_end(c);
    *(unsigned *)into = bits;
    return err_none();
}

static struct document_node *exempt_tree(unsigned bits, struct arena *a)
{
    struct document_node *list = document_list(a);
    for (unsigned i = 0; exempt[i]; i++)
        if (bits & exempt_bit(i))
            document_add(list, "", document_string(a, str_from(exempt[i])));
    return list;
}

#define SETTING(member) offsetof(struct policy_settings, member)

/* In the order of the bits of enum policy_setting. */
static const struct field settings[] = {
    {"enabled", false, fields_bool, SETTING(enabled), .doc = "boolean"},
    {"globalMaxRetries", false, fields_retries, SETTING(global_max_retries),
     .doc = "integer 0..$: 0 stops all retries", .most = POLICY_RETRIES_MAX},
    {"globalMaxRetriesExempt", false, read_exempt, SETTING(exempt),
     .doc = "string (*)[]: retries that are exempt from it", .words = exempt},
    {"whenNoPolicy", false, read_no_policy, SETTING(when_no_policy), .doc = "string (*)",
     .words = fallbacks},
    {"preemptedGracePeriod", false, fields_span, SETTING(preempted_grace), .doc = "Duration"},
    {"defaultPolicyName", false, read_default, SETTING(default_policy), true,
     .doc = "string: empty or null: none"},
    {"defaultBackoff", false, policy_document_backoff, SETTING(default_backoff), true,
     .doc = "PolicyBackoff: null: none"},
};

const struct field_table settings_document_table = {
    "RetrySettingsInput", FIELD_TABLE(settings), .doc = "object: omitted members stay unchanged"};

/* A reader for tables: into is a struct policy_change. */
static struct err read_change(struct json_cursor *c, struct arena *a, void *into)
{
    const struct document_node *n = fields_node(c);
    struct policy_change *out = into;
    (void)a;
    *out = (struct policy_change){.to = POLICY_SETTINGS_DEFAULT};
    TRY(fields_read(c, settings, COUNT(settings), &out->to));
    for (unsigned i = 0; i < COUNT(settings); i++)
        if (document_member(n, settings[i].name))
            out->set |= 1u << i;
    return err_none();
}

bool settings_document_read(const struct document_node *n, const char *section, struct arena *a,
                            struct policy_change *out, struct document_fault *fault)
{
    struct fields f;
    struct json_cursor c = fields_open(&f, n, section, a, fault);
    return read_change(&c, a, out).code == ERR_OK;
}

bool settings_document_parse(struct str text, struct arena *a, struct policy_change *out,
                             struct document_fault *fault)
{
    struct document_list list;
    const struct document_node *root;
    return document_read(text, DOCUMENT_ANY, a, &list, fault) &&
           document_only(&list, &root, fault) && settings_document_read(root, NULL, a, out, fault);
}

bool settings_document_parse_stored(struct str text, struct arena *a, struct policy_change *out,
                                    struct document_fault *fault)
{
    struct document_list list;
    struct fields f;
    if (!document_read(text, DOCUMENT_JSON, a, &list, fault))
        return false;
    struct json_cursor c = fields_open(&f, list.first, NULL, a, fault);
    f.exact_delays = true;
    return read_change(&c, a, out).code == ERR_OK;
}

struct document_node *settings_document_tree(const struct policy_settings *s, struct arena *a)
{
    struct document_node *n = document_map(a);
    document_add(n, "enabled", document_bool(a, s->enabled));
    document_add(n, "globalMaxRetries", document_int(a, s->global_max_retries));
    document_add(n, "globalMaxRetriesExempt", exempt_tree(s->exempt, a));
    bool fail = s->when_no_policy != RETRY_FALLBACK_DEFAULT;
    document_add(n, "whenNoPolicy", document_string(a, str_from(fallbacks[fail])));
    document_add(n, "preemptedGracePeriod", fields_span_tree(a, s->preempted_grace));
    document_add(n, "defaultPolicyName", document_string(a, s->default_policy));
    if (s->default_backoff.shape != CURVE_NONE)
        document_add(n, "defaultBackoff", policy_document_backoff_tree(&s->default_backoff, a));
    return n;
}

static bool is_stated(const struct policy_change *c, struct str key)
{
    for (unsigned i = 0; i < COUNT(settings); i++)
        if (str_eq(key, str_from(settings[i].name)))
            return c->set & 1u << i;
    return false;
}

/* The members of the tree that are stated. */
static struct document_node *stated_tree(const struct policy_change *c, struct arena *a)
{
    struct document_node *said = document_map(a);
    struct document_node *next, *each = settings_document_tree(&c->to, a)->first;
    for (; each; each = next) {
        struct str name = each->key;
        next = each->next;
        each->next = NULL;
        if (is_stated(c, name))
            document_add(said, "", each)->key = name;
    }
    return said;
}

static struct str text_of(const struct document_node *n, struct arena *a)
{
    struct buf b = {0};
    document_write_json(n, &b);
    struct str text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}

struct str settings_document_canonical(const struct policy_change *c, struct arena *a)
{
    struct document_node *said = stated_tree(c, a);
    if (c->set & POLICY_SET_BACKOFF && c->to.default_backoff.shape == CURVE_NONE)
        document_add(said, "defaultBackoff", document_string(a, STR("none")));
    return text_of(said, a);
}

struct str settings_document_text(const struct policy_settings *s, struct arena *a)
{
    return text_of(settings_document_tree(s, a), a);
}

/* --- their last change --- */

struct document_node *settings_document_changed_tree(const struct policy_changed *c,
                                                     struct arena *a)
{
    struct document_node *n = document_map(a);
    document_add(n, "at", document_int(a, c->at.ms));
    document_add(n, "by", c->by.len ? document_string(a, c->by) : document_null(a));
    document_add(n, "old", stated_tree(&c->from, a));
    document_add(n, "new", stated_tree(&c->to, a));
    return n;
}

struct str settings_document_changed_text(const struct policy_changed *c, struct arena *a)
{
    return text_of(settings_document_changed_tree(c, a), a);
}

static struct err read_at(struct json_cursor *c, struct arena *a, void *at)
{
    (void)a;
    return fields_int(c, 0, INSTANT_MAX_MS, &((instant *)at)->ms);
}

static struct err read_by(struct json_cursor *c, struct arena *a, void *by)
{
    size_t at = c->pos;
    if (field_text(c, a, by).code == ERR_OK)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_TYPE, "text");
}

#define CHANGED(member) offsetof(struct policy_changed, member)

bool settings_document_changed_parse(struct str text, struct arena *a, struct policy_changed *out,
                                     struct document_fault *fault)
{
    static const struct field table[] = {
        {"at", true, read_at, CHANGED(at)},
        {"by", true, read_by, CHANGED(by), true},
        {"old", true, read_change, CHANGED(from)},
        {"new", true, read_change, CHANGED(to)},
    };
    struct document_list list;
    struct fields f;
    *out = (struct policy_changed){0};
    if (!document_read(text, DOCUMENT_JSON, a, &list, fault))
        return false;
    struct json_cursor c = fields_open(&f, list.first, NULL, a, fault);
    f.exact_delays = true;
    return fields_read(&c, table, COUNT(table), out).code == ERR_OK;
}
