/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

/* The trace that a job belongs to, in the words of W3C Trace Context: kept with the job as its
 * sender gave it, and handed to every run. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/str.h"

#define TRACE_PARENT_LEN 55
#define TRACE_STATE_MAX  512
#define TRACE_SPAN_LEN   16 /* hexadecimal digits */

/* What a job does in its trace. Its spans follow from its id, so that whoever hands a run out and
 * whoever tells of it later, perhaps after a restart, mean the same. */
enum trace_part { TRACE_ENQUEUE, TRACE_WAIT, TRACE_RUN };

/* Whether text is a traceparent of version 00: "00-4bf92f3577b34da6a3ce929d0e0e4736-" and so on,
 * of which neither id is all zeros. */
bool trace_is_parent(struct str text);
/* Whether text may be a tracestate: 1 to TRACE_STATE_MAX printable ASCII characters. */
bool trace_is_state(struct str text);
/* TRACE_PARENT_LEN characters of a traceparent, to be freed; NULL if it is empty. */
char *trace_copy(struct str traceparent);
/* Whether spans of it are to be recorded: the flag `sampled`. False if it is empty. */
bool trace_is_sampled(struct str traceparent);
/* Views into a traceparent: the ids of the trace and of the span that the sender was in. */
struct str trace_id_of(struct str traceparent);
struct str trace_parent_of(struct str traceparent);
/* The id of a span of the job; `run` counts waits and runs, and is 0 for the enqueue. */
void trace_span_id(struct id job, enum trace_part part, uint32_t run, char out[TRACE_SPAN_LEN]);
/* The traceparent for the spans below a run of that job. */
struct str trace_of_run(struct arena *a, struct str traceparent, struct id job, uint32_t run);

#endif
