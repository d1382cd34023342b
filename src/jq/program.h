/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JQ_PROGRAM_H
#define JQ_PROGRAM_H

/* Compiled expressions. Compiling takes tens of milliseconds, running a few
 * microseconds, so the most recently used ones are kept. */

#include <jq.h>

#include "base/err.h"
#include "base/str.h"

enum program_kind {
    PROGRAM_FILTER, /* `.` is the payload */
    PROGRAM_FOLD,   /* $existing and $new are payloads, `.` is null */
};

#define PROGRAM_CACHE 64

/* The compiled program, valid until the next call; ERR_UNPROCESSABLE with jq's message about its
 * fault. */
NODISCARD struct err program_get(enum program_kind kind, struct str expr, jq_state **jq);
/* Called when libjq runs out of memory; must not return. Applies to programs compiled later. */
void program_on_no_memory(void (*handler)(void *));
/* Frees all programs. */
void program_forget(void);

#endif
