/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TRACER_H
#define CORE_TRACER_H

/* Who is told what happens to jobs whose trace is sampled (core/trace.h). What it makes of an event
 * is kept with the batch of that event, and goes when the batch does: so nothing is told of what
 * did not become durable. */

#include "base/buf.h"
#include "core/event.h"

struct tracer {
    /* Adds what it makes of the event to out. It must not wait for anything. */
    void (*write)(void *ctx, const struct job_event *ev, struct buf *out);
    /* All that was written for a batch, which is durable now. */
    void (*durable)(void *ctx, struct str written);
    void *ctx;
};

#endif
