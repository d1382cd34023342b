/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies, failure categories and the retry settings in answers. What documents are made of
 * is described by the tables that they are read by, and written by policy/. */

#include "api/api_policy.h"

#include "api/api_routes.h"
#include "policy/category_document.h"
#include "policy/fields.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"
#include "policy/settings_document.h"

#define WARNINGS_DOC "what is valid in it and most likely not meant"

static void write_member(struct buf *b, const struct document_node *tree, const char *name)
{
    document_write_json(document_member(tree, name), b);
}

/* --- documents --- */

static bool is_readable(const void *view)
{
    return ((const struct resource_view *)view)->value != NULL;
}

static void write_version(struct buf *b, const void *view)
{
    (void)view;
    json_write_string(b, str_from(fields_api_versions[0]));
}

static void write_policy_kind(struct buf *b, const void *view)
{
    (void)view;
    json_write_string(b, STR(POLICY_DOCUMENT_KIND));
}

static void write_categories_kind(struct buf *b, const void *view)
{
    (void)view;
    json_write_string(b, STR(CATEGORY_DOCUMENT_KIND));
}

/* Trees are much larger than what is made of them: there is never more than one. */
static void write_policy_spec(struct buf *b, const void *view)
{
    const struct resource_view *v = view;
    struct arena tree = {0};
    write_member(b, policy_document_tree(v->policy, (int64_t)v->version, &tree), "spec");
    arena_fini(&tree);
}

static void write_categories_spec(struct buf *b, const void *view)
{
    const struct resource_view *v = view;
    struct arena tree = {0};
    write_member(b, category_document_tree(v->categories, (int64_t)v->version, &tree), "spec");
    arena_fini(&tree);
}

static const struct shape_member metadata_members[] = {
    {MEMBER(struct resource_view, name, "name", ALWAYS, NULL)},
    {MEMBER(struct resource_view, version, "resourceVersion", IF_SET, "another after each change",
            .type = "integer 1..")},
};
static const struct shape metadata_shape = {SHAPE_MEMBERS(metadata_members)};

#define DOCUMENT(write_kind, spec_type, write_spec)                                                \
    {MEMBER_MADE("apiVersion", IF_SET, "string", write_version, NULL, .is_set = is_readable)},     \
        {MEMBER_MADE("kind", ALWAYS, "string", write_kind, NULL)},                                 \
        {MEMBER_INNER("metadata", ALWAYS, &metadata_shape, NULL)},                                 \
        {MEMBER_MADE("spec", IF_SET, spec_type, write_spec, "unless it is broken",                 \
                     .is_set = is_readable)},                                                      \
    {                                                                                              \
        MEMBER(struct resource_view, broken, "broken", IF_SET,                                     \
               "why this version of the server cannot read it")                                    \
    }

static const struct shape_member policy_members[] = {
    DOCUMENT(write_policy_kind, "RetryPolicySpec", write_policy_spec)};
const struct shape api_policy_shape = {.name = "RetryPolicy", SHAPE_MEMBERS(policy_members)};

static const struct shape_member categories_members[] = {
    DOCUMENT(write_categories_kind, "FailureCategoriesSpec", write_categories_spec)};
const struct shape api_categories_shape = {.name = "FailureCategories",
                                           SHAPE_MEMBERS(categories_members)};

static bool has_standing(const void *view)
{
    return ((const struct resource_view *)view)->warnings.count > 0;
}

static void write_standing(struct buf *b, const void *view)
{
    const struct standing_warnings w = ((const struct resource_view *)view)->warnings;
    buf_byte(b, '[');
    for (size_t i = 0; i < w.count; i++) {
        buf_str(b, i ? STR(",") : STR(""));
        json_write_string(b, w.list[i].text);
    }
    buf_byte(b, ']');
}

#define STANDING                                                                                   \
    {                                                                                              \
        MEMBER_MADE("warnings", IF_SET, "string[]", write_standing,                                \
                    WARNINGS_DOC ", beside the settings as they are", .is_set = has_standing)      \
    }

static const struct shape_member stored_policy_members[] = {{MEMBERS_INNER(&api_policy_shape)},
                                                            STANDING};
const struct shape api_stored_policy_shape = {.name = "StoredRetryPolicy",
                                              SHAPE_MEMBERS(stored_policy_members)};

static const struct shape_member stored_categories_members[] = {
    {MEMBERS_INNER(&api_categories_shape)}, STANDING};
const struct shape api_stored_categories_shape = {.name = "StoredFailureCategories",
                                                  SHAPE_MEMBERS(stored_categories_members)};

static const struct shape_member policies_members[] = {
    {MEMBER_OBJECTS(struct reply, resources, count, "items", ALWAYS, &api_stored_policy_shape,
                    NULL)},
};
const struct shape api_policies_shape = {.name = "RetryPolicyList",
                                         SHAPE_MEMBERS(policies_members)};

static const struct shape_member categories_list_members[] = {
    {MEMBER_OBJECTS(struct reply, resources, count, "items", ALWAYS, &api_stored_categories_shape,
                    NULL)},
};
const struct shape api_categories_list_shape = {.name = "FailureCategoriesList",
                                                SHAPE_MEMBERS(categories_list_members)};

static void write_warnings(struct buf *b, const void *changed)
{
    document_write_json(((const struct api_policy_changed *)changed)->warnings, b);
}

static bool has_warnings(const void *changed)
{
    const struct document_node *list = ((const struct api_policy_changed *)changed)->warnings;
    return list && list->count > 0;
}

static const struct shape_member changed_policy_members[] = {
    {MEMBERS_AT(struct api_policy_changed, view, &api_policy_shape)},
    {MEMBER_MADE("warnings", IF_SET, "string[]", write_warnings, WARNINGS_DOC,
                 .is_set = has_warnings)},
};
const struct shape api_policy_changed_shape = {.name = "ChangedRetryPolicy",
                                               SHAPE_MEMBERS(changed_policy_members)};

static const struct shape_member changed_categories_members[] = {
    {MEMBERS_AT(struct api_policy_changed, view, &api_categories_shape)},
    {MEMBER_MADE("warnings", IF_SET, "string[]", write_warnings, WARNINGS_DOC,
                 .is_set = has_warnings)},
};
const struct shape api_categories_changed_shape = {.name = "ChangedFailureCategories",
                                                   SHAPE_MEMBERS(changed_categories_members)};

/* --- settings --- */

static void write_setting(struct buf *b, const struct policy_settings *s, const char *name)
{
    struct arena tree = {0};
    write_member(b, settings_document_tree(s, &tree), name);
    arena_fini(&tree);
}

static void write_exempt(struct buf *b, const void *settings)
{
    write_setting(b, settings, "globalMaxRetriesExempt");
}

static void write_no_policy(struct buf *b, const void *settings)
{
    write_setting(b, settings, "whenNoPolicy");
}

static void write_grace(struct buf *b, const void *settings)
{
    write_setting(b, settings, "preemptedGracePeriod");
}

static void write_backoff(struct buf *b, const void *settings)
{
    write_setting(b, settings, "defaultBackoff");
}

static bool has_backoff(const void *settings)
{
    return ((const struct policy_settings *)settings)->default_backoff.shape != CURVE_NONE;
}

static const struct shape_member values_members[] = {
    {MEMBER(struct policy_settings, enabled, "enabled", ALWAYS, NULL)},
    {MEMBER(struct policy_settings, global_max_retries, "globalMaxRetries", ALWAYS, NULL,
            .type = "integer 0..")},
    {MEMBER_MADE("globalMaxRetriesExempt", ALWAYS,
                 "string (defaultBackoff|leaseExpired|input|worker|node|cluster|access|"
                 "dependency|disruption|gang|server|deadline|unknown|preempted|evicted)[]",
                 write_exempt,
                 "retries that globalMaxRetries is not about: of a kind, or after "
                 "failures of a culprit or with a condition")},
    {MEMBER(struct policy_settings, enabled, "globalMaxRetriesInForce", ALWAYS,
            "only in answers: policies are switched on, so that every retry that is not exempt "
            "counts")},
    {MEMBER_MADE("whenNoPolicy", ALWAYS, "string (default|fail)", write_no_policy,
                 "what becomes of failures that no policy is in effect for: default (backoff and "
                 "retry limit of the job, its queue or the server) or fail")},
    {MEMBER_MADE("preemptedGracePeriod", ALWAYS, "Duration", write_grace,
                 "how long a retry waits for a preempted run to end whose worker does not say")},
    {MEMBER(struct policy_settings, default_policy, "defaultPolicyName", ALWAYS, "empty: none")},
    {MEMBER_MADE("defaultBackoff", IF_SET, "PolicyBackoff", write_backoff, NULL,
                 .is_set = has_backoff)},
};
static const struct shape values_shape = {SHAPE_MEMBERS(values_members)};

static void write_stated(struct buf *b, const void *changed, const char *name)
{
    struct arena tree = {0};
    write_member(b, settings_document_changed_tree(changed, &tree), name);
    arena_fini(&tree);
}

static void write_old(struct buf *b, const void *changed)
{
    write_stated(b, changed, "old");
}

static void write_new(struct buf *b, const void *changed)
{
    write_stated(b, changed, "new");
}

static const struct shape_member last_members[] = {
    {MEMBER(struct policy_changed, at, "at", ALWAYS, "when")},
    {MEMBER(struct policy_changed, by, "by", OR_NULL, "who asked for it; null: that is not known")},
    {MEMBER_MADE("old", ALWAYS, "RetrySettingsInput", write_old, NULL)},
    {MEMBER_MADE("new", ALWAYS, "RetrySettingsInput", write_new, NULL)},
};
static const struct shape last_shape = {.name = "RetrySettingsChange", SHAPE_MEMBERS(last_members)};

static bool has_last(const void *view)
{
    return ((const struct policy_settings_view *)view)->last != NULL;
}

static const struct shape_member settings_members[] = {
    {MEMBERS_OF(struct policy_settings_view, settings, &values_shape)},
    {MEMBER_OBJECT(struct policy_settings_view, last, "lastChange", OR_NULL, &last_shape,
                   "null: nobody has changed them yet"),
     .by_pointer = true, .is_set = has_last},
};
const struct shape api_retry_settings_shape = {.name = "RetrySettings",
                                               SHAPE_MEMBERS(settings_members)};

static bool is_warned_of(const void *view)
{
    const struct policy_settings_view *v = view;
    return v->default_missing || v->above_count;
}

static void write_setting_warnings(struct buf *b, const void *view)
{
    const struct policy_settings_view *v = view;
    struct arena a = {0};
    struct document_node *list = document_list(&a);
    if (v->default_missing)
        policy_warning_add(list, &a,
                           "defaultPolicyName: there is no retry policy '%.*s'; jobs without "
                           "policies have none until it is made",
                           STR_ARG(v->settings.default_policy));
    if (v->above_count)
        policy_warning_add(list, &a,
                           "globalMaxRetries: %zu retry %s a retryLimit above %lld, '%.*s' first; "
                           "their jobs may never reach it",
                           v->above_count, v->above_count == 1 ? "policy states" : "policies state",
                           (long long)v->settings.global_max_retries, STR_ARG(v->above));
    document_write_json(list, b);
    arena_fini(&a);
}

static const struct shape_member changed_settings_members[] = {
    {MEMBERS_INNER(&api_retry_settings_shape)},
    {MEMBER_MADE("warnings", IF_SET, "string[]", write_setting_warnings, WARNINGS_DOC,
                 .is_set = is_warned_of)},
};
const struct shape api_retry_settings_changed_shape = {.name = "ChangedRetrySettings",
                                                       SHAPE_MEMBERS(changed_settings_members)};
