/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_POLICY_H
#define API_API_POLICY_H

/* What api_policy.c hands to api_policy_encode.c. */

struct document_node;
struct resource_view;

/* A retry policy that was put; api_policy_changed_shape. */
struct api_policy_changed {
    const struct resource_view *view;
    const struct document_node *warnings; /* a list, or NULL */
};

#endif
