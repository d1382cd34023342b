/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_BATCH_BYTES_H
#define STORE_BATCH_BYTES_H

/* A batch as bytes, as the log keeps it: a version, then the operations in their order. Each has
 * one encoding. */

#include "base/buf.h"
#include "base/err.h"
#include "store/batch.h"

/* Replaces out. */
void batch_bytes_write(const struct batch *b, struct buf *out);
/* Calls fn for each operation in turn. Views are valid as long as the bytes. ERR_CORRUPT, and then
 * some operations may have been told; ERR_VERSION; or the error of fn, which ends it. */
NODISCARD struct err batch_bytes_read(struct str bytes,
                                      struct err (*fn)(void *ctx, const struct batch_op *op),
                                      void *ctx);

#endif
