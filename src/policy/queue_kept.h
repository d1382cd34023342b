/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_QUEUE_KEPT_H
#define POLICY_QUEUE_KEPT_H

/* What queues in the format of Armada's releases say and Tenax has no use for (the priority factor,
 * permissions, labels), so that it can be given back: a JSON object for each queue that has any. In
 * memory only; the owner stores it. */

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/strmap.h"

#define QUEUE_KEPT_MAX     (8 << 10) /* bytes of one queue */
#define QUEUE_KEPT_ALL_MAX ((uint64_t)64 << 20)

struct queue_kept {
    struct strmap queues; /* queue → its object */
    uint64_t bytes;       /* of all objects */
};

void queue_kept_fini(struct queue_kept *k);
/* ERR_TOO_MANY if the queue cannot have it, which may be empty. */
NODISCARD struct err queue_kept_check(const struct queue_kept *k, struct str queue,
                                      struct str object);
/* The object is copied; empty: none any more. */
void queue_kept_put(struct queue_kept *k, struct str queue, struct str object);
/* Empty if it has none; valid until the next change. */
struct str queue_kept_of(const struct queue_kept *k, struct str queue);

/* "armada: labels and priorityFactor are kept and have no effect", or an empty text if the object
 * has no members. */
struct str queue_kept_warning(struct str object, struct arena *a);

#endif
