/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_H
#define BACKEND_EMBEDDED_EMBEDDED_H

/* The backend in one process: the engine above a store. Its owner calls
 * backend_turn once per turn of its loop; all commands that arrived since are
 * committed as one batch (group commit). While that batch is on its way to the
 * disk the next one is stepped. No reply and no job leaves before its batch is
 * durable (promise I1).
 *
 * A failed commit has one remedy: everything under way is answered with the
 * error, streams are closed, memory is dropped and recovered from the store,
 * exactly as at start-up. Until the store can be written again, reads go on. */

#include "backend/backend.h"
#include "backend/env.h"
#include "core/engine.h"

/* Opens and recovers. ERR_CORRUPT, ERR_VERSION, ERR_STORE. */
NODISCARD struct err embedded_new(const struct backend_settings *settings, const struct env *env,
                                  struct backend **out);
/* For tests and the simulator. */
instant embedded_now(const struct backend *b);
const struct engine *embedded_engine(const struct backend *b);

#endif
