/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/settings_document.h"

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

bool settings_document_read(const struct document_node *n, const char *section,
                            struct policy_settings *s, struct document_fault *fault)
{
    static const struct field table[] = {{"enabled", read_enabled, false},
                                         {"globalMaxRetries", read_max, false},
                                         {"defaultPolicyName", read_default, false},
                                         {"defaultBackoff", read_backoff, false}};
    struct fields f = {.fault = fault};
    struct fields_at top = {.node = n};
    struct fields_at below = {&top, str_from(section), 0, n};
    return fields_read(&f, section ? &below : &top, table, sizeof table / sizeof *table, s);
}

struct document_node *settings_document_tree(const struct policy_settings *s, struct arena *a)
{
    struct document_node *n = document_map(a);
    document_add(n, "enabled", document_bool(a, s->enabled));
    document_add(n, "globalMaxRetries", document_int(a, s->global_max_retries));
    document_add(n, "defaultPolicyName", document_string(a, s->default_policy));
    if (s->default_backoff.shape != CURVE_NONE)
        document_add(n, "defaultBackoff", policy_document_backoff_tree(&s->default_backoff, a));
    return n;
}
