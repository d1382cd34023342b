/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_IDEMPOTENCY_H
#define CORE_IDEMPOTENCY_H

/* A key that makes it safe to repeat an enqueue: the same request with the same key is answered as
 * the first time, and nothing is added. What became of the first one is stored in the batch that
 * adds its jobs, and kept for a while. */

#include "base/str.h"

#define IDEMPOTENCY_KEY_MAX 255 /* bytes, printable ASCII, as its sender writes it */
#define IDEMPOTENCY_DIGEST  32

struct idempotency {
    struct str key; /* with whose it is in front: keys of others are other keys */
    unsigned char request[IDEMPOTENCY_DIGEST]; /* equal if and only if the requests are */
};

#endif
