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

struct str settings_document_canonical(const struct policy_change *c, struct arena *a)
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
    if (c->set & POLICY_SET_BACKOFF && c->to.default_backoff.shape == CURVE_NONE)
        document_add(said, "defaultBackoff", document_string(a, STR("none")));
    struct buf b = {0};
    document_write_json(said, &b);
    struct str text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}
