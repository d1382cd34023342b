/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_CREW_H
#define BACKEND_EMBEDDED_CREW_H

/* What the engine asks of the workers that the backend knows (core/crew.h). */

#include <stddef.h>

#include "base/str.h"
#include "core/crew.h"

/* Visits those who took from the queue lately; for struct engine_sink. */
size_t embedded_workers_of(void *embedded, struct str queue, crew_visitor *visit, void *ctx);

#endif
