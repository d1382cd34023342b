/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

/* A backup as one file: a tar archive compressed with zstd. It contains the folder "tenax-root/"
 * with the files of a root directory and, last, "manifest.json":
 *
 *     {"format": 1, "tenax": "0.1.0", "created_at": ms,
 *      "files": [{"name": "CURRENT", "size": 16, "sha256": "…"}, …]}
 *
 * The manifest comes last, so that a bundle is complete iff it has one. It protects against damage,
 * not against someone who makes a whole bundle of their own.
 *
 * Calls block and may be made on any thread. */

#include <stdint.h>

#include "base/err.h"
#include "base/sink.h"
#include "base/units.h"

struct bundle_facts {
    uint64_t files, bytes; /* of the root directory */
    instant made;
    char version[32]; /* of the tenax that made it */
};

/* Writes a bundle of the files in dir, which nobody may change meanwhile. ERR_IO, and the errors of
 * the sink. */
NODISCARD struct err bundle_write(const char *dir, instant made, const struct sink *sink);

/* Reads a bundle to its end and unpacks it into an empty folder; with into == NULL only checks it.
 * After an error, the contents of the folder are useless; after success, they are what they were
 * when the bundle was made, and on disk. Only plain files with harmless names are accepted.
 * ERR_CORRUPT (damaged, truncated, or not a bundle), ERR_VERSION, ERR_IO, ERR_DISK_FULL. */
NODISCARD struct err bundle_read(int fd, const char *into, struct bundle_facts *facts);

#endif
