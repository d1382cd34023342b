/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policies_kinds.h"

#include "policy/category_document.h"
#include "policy/policies.h"
#include "policy/policy_document.h"

/* --- retry policies --- */

static bool parse_policy(struct str json, void *doc, struct document_fault *fault)
{
    return policy_document_parse_stored(json, doc, fault);
}

static uint64_t weight_of_policy(const void *doc)
{
    return ((const struct policy_document *)doc)->pattern_bytes;
}

static void free_policy(void *doc)
{
    policy_document_free(doc);
}

static struct str name_of_policy(const void *value)
{
    return ((const struct policy *)value)->name;
}

static struct document_node *tree_of_policy(const void *value, int64_t version, struct arena *a)
{
    return policy_document_tree(value, version, a);
}

const struct shelf_kind policies_kind = {.kind = POLICIES_POLICY,
                                         .one = "retry policy",
                                         .many = "retry policies",
                                         .size = sizeof(struct policy_document),
                                         .most = POLICIES_MAX,
                                         .parse = parse_policy,
                                         .weight = weight_of_policy,
                                         .free = free_policy,
                                         .name = name_of_policy,
                                         .tree = tree_of_policy};

/* --- failure categories --- */

static bool parse_categories(struct str json, void *doc, struct document_fault *fault)
{
    return category_document_parse_stored(json, doc, fault);
}

static uint64_t weight_of_categories(const void *doc)
{
    return ((const struct category_document *)doc)->pattern_bytes;
}

static void free_categories(void *doc)
{
    category_document_free(doc);
}

static struct str name_of_categories(const void *value)
{
    return ((const struct categorizer *)value)->name;
}

static struct document_node *tree_of_categories(const void *value, int64_t version, struct arena *a)
{
    return category_document_tree(value, version, a);
}

const struct shelf_kind policies_categories_kind = {.kind = POLICIES_CATEGORIES,
                                                    .one = "list of failure categories",
                                                    .many = "lists of failure categories",
                                                    .size = sizeof(struct category_document),
                                                    .most = POLICIES_CATEGORIES_MAX,
                                                    .parse = parse_categories,
                                                    .weight = weight_of_categories,
                                                    .free = free_categories,
                                                    .name = name_of_categories,
                                                    .tree = tree_of_categories};
