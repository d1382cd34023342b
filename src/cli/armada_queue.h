/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ARMADA_QUEUE_H
#define CLI_ARMADA_QUEUE_H

/* The resource Queue in the format of Armada's releases: apiVersion armadaproject.io/v1beta1, its
 * fields beside apiVersion and kind. retryPolicies and cordoned are settings of a queue; all others
 * go into the setting `armada`, which the server keeps and gives back. */

#include "cli/manifest.h"

/* Whether the document has that apiVersion and kind. */
bool armada_queue_is(const struct document_node *root);
/* Fills in name, body and warnings: one for each member that has no effect. */
NODISCARD bool armada_queue_read(const struct document_node *root, struct arena *a,
                                 struct resource *r, struct document_fault *fault);

#endif
