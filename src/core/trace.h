/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

/* The trace that a job belongs to, in the words of W3C Trace Context: kept with the job as its
 * sender gave it, and handed to every run. */

#include <stdbool.h>

#include "base/str.h"

#define TRACE_PARENT_LEN 55
#define TRACE_STATE_MAX  512

/* Whether text is a traceparent of version 00: "00-4bf92f3577b34da6a3ce929d0e0e4736-" and so on,
 * of which neither id is all zeros. */
bool trace_is_parent(struct str text);
/* Whether text may be a tracestate: 1 to TRACE_STATE_MAX printable ASCII characters. */
bool trace_is_state(struct str text);
/* TRACE_PARENT_LEN characters of a traceparent, to be freed; NULL if it is empty. */
char *trace_copy(struct str traceparent);

#endif
