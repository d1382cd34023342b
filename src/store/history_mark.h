/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_HISTORY_MARK_H
#define STORE_HISTORY_MARK_H

/* A file in a root directory that says since when its events are another history: the id of that
 * (core/event_history.h). A restore writes it, and so does a salvage. It stays: the store knows the
 * ids that it has taken over. */

#include <stdint.h>

#include "base/err.h"

/* Draws an id and writes it; it is on disk afterwards. ERR_IO. */
NODISCARD struct err history_mark_make(const char *dir);
/* *id is 0 if there is none. ERR_IO, ERR_CORRUPT. */
NODISCARD struct err history_mark_read(const char *dir, uint64_t *id);

#endif
