/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_POLICY_WARNING_H
#define POLICY_POLICY_WARNING_H

/* Warnings about valid policies whose author probably meant something else. */

#include "policy/policy_document.h"
#include "wire/document.h"

/* Adds a warning to a list, in the arena. */
void policy_warning_add(struct document_node *list, struct arena *a, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the warnings that follow from the policy itself: rules that can never match, and members
 * about retries where there are none. spec: the path to its fields, as "spec.", or empty. */
void policy_warning_find(struct document_node *list, struct arena *a, const struct policy *p,
                         const char *spec);
/* Adds those that follow from the settings that it meets: limits that it can never reach, retries
 * that come without delay or jitter, very often, or for very long. */
void policy_warning_settings(struct policy_document *d, const struct policy_settings *s);
/* All warnings about a stored policy, as a list in the arena. */
struct document_node *policy_warning_standing(const struct policy_document *d,
                                              const struct policy_settings *s, struct arena *a);
/* Whether it states a limit, its own or that of a rule that retries, above globalMaxRetries. */
bool policy_warning_is_above(const struct policy *p, const struct policy_settings *s);

#endif
