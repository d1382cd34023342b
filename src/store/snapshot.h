/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H

/* A backup of a store in use: a snapshot in a folder inside the root directory, mostly of hard
 * links, is written out as a bundle and then removed. One at a time per root directory. */

#include "base/sink.h"
#include "base/units.h"
#include "store/store.h"

/* Blocks; may be called on any thread. Everything that was durable at the call is in the bundle.
 * ERR_DISK_FULL, ERR_IO, ERR_STORE, ERR_NOT_SUPPORTED, and the errors of the sink. */
NODISCARD struct err snapshot_write(struct store *s, const char *root_dir, instant made,
                                    const struct sink *sink);
/* Removes what a killed process has left behind. ERR_IO. */
NODISCARD struct err snapshot_sweep(const char *root_dir);

#endif
