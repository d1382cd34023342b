/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_CACHE_H
#define BUILDS_BUILD_CACHE_H

/* Removing the cache of a pipeline or a job: <root>[/<prefix>]/pipelines/<pipelineId>, or
 * <root>[/<prefix>]/<scope>/<pipelineId>/<id>. Never anything outside of the root, which itself is
 * never removed: each part must be a plain name, and no step may pass a link (openat2). Blocks. */

#include "base/err.h"
#include "builds/build_message.h"

/* ERR_BAD_VALUE: the message names no such folder; nothing was removed. ERR_IO: a part could not be
 * removed. A folder that does not exist is removed already. */
NODISCARD struct err build_cache_clear(const char *root, const struct build_message *m);

#endif
