/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/settings_document.h"

#include "base/array.h"
#include "policy/fields.h"
#include "policy/policy_document.h"

static bool read_enabled(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_bool(f, at, &((struct policy_settings *)into)->enabled);
}

static bool read_max(struct fields *f, const struct fields_at *at, void *into)
{
    struct policy_settings *s = into;
    return fields_int(f, at, 0, POLICY_RETRIES_MAX, &s->global_max_retries);
}

static bool read_default(struct fields *f, const struct fields_at *at, void *into)
{
    struct policy_settings *s = into;
    bool none = at->node->type == DOCUMENT_NULL ||
                (at->node->type == DOCUMENT_STRING && at->node->text.len == 0);
    s->default_policy = (struct str){0};
    return none || fields_label(f, at, &s->default_policy);
}

static bool read_backoff(struct fields *f, const struct fields_at *at, void *into)
{
    struct policy_settings *s = into;
    s->default_backoff = (struct curve){0};
    return at->node->type == DOCUMENT_NULL || policy_document_backoff(f, at, &s->default_backoff);
}

/* In the order of enum retry_fallback. */
static const char *const fallbacks[] = {"default", "fail"};

static bool read_no_policy(struct fields *f, const struct fields_at *at, void *into)
{
    size_t which;
    if (!fields_word(f, at, fallbacks, 2, "default or fail", &which))
        return false;
    ((struct policy_settings *)into)->when_no_policy =
        (enum retry_fallback)(RETRY_FALLBACK_DEFAULT + which);
    return true;
}

/* In the order of their bits. */
static const char *const exempt[] = {"defaultBackoff", "leaseExpired"};
#define EXEMPT "defaultBackoff or leaseExpired"

static bool read_exempt(struct fields *f, const struct fields_at *at, void *into)
{
    unsigned bits = 0;
    if (!fields_expect(f, at, DOCUMENT_LIST, "a list of " EXEMPT))
        return false;
    for (struct fields_at each = {0}; fields_each(at, &each);) {
        size_t which;
        if (!fields_word(f, &each, exempt, 2, EXEMPT, &which))
            return false;
        if (bits & 1u << which)
            return fields_refuse(f, &each, ERR_BAD_VALUE, "each of them once");
        bits |= 1u << which;
    }
    ((struct policy_settings *)into)->exempt = bits;
    return true;
}

static bool read_grace(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_span(f, at, &((struct policy_settings *)into)->preempted_grace);
}

static struct document_node *exempt_tree(unsigned bits, struct arena *a)
{
    struct document_node *list = document_list(a);
    for (unsigned i = 0; i < 2; i++)
        if (bits & 1u << i)
            document_add(list, "", document_string(a, str_from(exempt[i])));
    return list;
}

/* In the order of the bits of enum policy_setting. */
static const struct field settings[] = {
    {"enabled", read_enabled, false},
    {"globalMaxRetries", read_max, false},
    {"globalMaxRetriesExempt", read_exempt, false},
    {"whenNoPolicy", read_no_policy, false},
    {"preemptedGracePeriod", read_grace, false},
    {"defaultPolicyName", read_default, false},
    {"defaultBackoff", read_backoff, false},
};

bool settings_document_read(const struct document_node *n, const char *section,
                            struct policy_change *out, struct document_fault *fault)
{
    struct fields f = {.fault = fault};
    struct fields_at top = {.node = n};
    struct fields_at below = {&top, str_from(section), 0, n};
    *out = (struct policy_change){.to = POLICY_SETTINGS_DEFAULT};
    if (!fields_read(&f, section ? &below : &top, settings, COUNT(settings), &out->to))
        return false;
    for (unsigned i = 0; i < COUNT(settings); i++)
        if (document_member(n, settings[i].name))
            out->set |= 1u << i;
    return true;
}

bool settings_document_parse(struct str text, struct arena *a, struct policy_change *out,
                             struct document_fault *fault)
{
    struct document_list list;
    const struct document_node *root;
    return document_read(text, DOCUMENT_ANY, a, &list, fault) &&
           document_only(&list, &root, fault) && settings_document_read(root, NULL, out, fault);
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

static bool read_at(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_int(f, at, 0, INSTANT_MAX_MS, &((struct policy_changed *)into)->at.ms);
}

static bool read_by(struct fields *f, const struct fields_at *at, void *into)
{
    if (at->node->type == DOCUMENT_NULL)
        return true;
    ((struct policy_changed *)into)->by = at->node->text;
    return fields_expect(f, at, DOCUMENT_STRING, "text");
}

static bool read_old(struct fields *f, const struct fields_at *at, void *into)
{
    return settings_document_read(at->node, "old", &((struct policy_changed *)into)->from,
                                  f->fault);
}

static bool read_new(struct fields *f, const struct fields_at *at, void *into)
{
    return settings_document_read(at->node, "new", &((struct policy_changed *)into)->to, f->fault);
}

bool settings_document_changed_parse(struct str text, struct arena *a, struct policy_changed *out,
                                     struct document_fault *fault)
{
    static const struct field table[] = {{"at", read_at, true},
                                         {"by", read_by, true},
                                         {"old", read_old, true},
                                         {"new", read_new, true}};
    struct document_list list;
    struct fields f = {.arena = a, .fault = fault};
    *out = (struct policy_changed){0};
    if (!document_read(text, DOCUMENT_JSON, a, &list, fault))
        return false;
    struct fields_at at = {.node = list.first};
    return fields_read(&f, &at, table, COUNT(table), out);
}
