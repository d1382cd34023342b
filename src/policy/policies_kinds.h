/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENAX_POLICY_POLICIES_KINDS_H
#define TENAX_POLICY_POLICIES_KINDS_H

/* The two kinds of documents that struct policies keeps on shelves. */

#include "policy/shelf.h"

extern const struct shelf_kind policies_kind;            /* of struct policy_document */
extern const struct shelf_kind policies_categories_kind; /* of struct category_document */

#endif
