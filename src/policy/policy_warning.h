/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_POLICY_WARNING_H
#define POLICY_POLICY_WARNING_H

/* What is odd in a policy that is valid: most likely its author meant something else. */

#include "core/policy.h"
#include "wire/document.h"

/* Adds what is said in words to a list, in the arena. */
void policy_warning_add(struct document_node *list, struct arena *a, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds what can be seen of the policy itself: rules that can never match, and what is stated of
 * retries where there are none. spec: the way to its fields, as "spec.", or empty. */
void policy_warning_find(struct document_node *list, struct arena *a, const struct policy *p,
                         const char *spec);

#endif
