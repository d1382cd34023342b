/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACING_SPAN_H
#define TRACING_SPAN_H

/* Events of jobs as spans of their traces, in the JSON encoding of OTLP (specification of the
 * OpenTelemetry protocol, "JSON Protobuf Encoding"). Pure.
 *
 *   the sender's span
 *     enqueue Q          when the job was added; a moment
 *       wait Q           from when it was ready until a worker had it; one for each run
 *       run Q            one for each run; what the worker does is below it
 *
 * A span is told when it ends. Names of attributes: OpenTelemetry's semantic conventions for
 * messaging and exceptions where they have one, `tenax.…` where they have none. */

#include "base/buf.h"
#include "core/event.h"

#define SPAN_TEXT_MAX      1024 /* bytes of a failure's message; more are cut off */
#define SPAN_BACKTRACE_MAX 8192

/* Adds the spans that end with the event, each as an object on a line of its own. The event has a
 * traceparent. */
void span_write(struct buf *out, const struct job_event *ev);

#endif
