/* SPDX-License-Identifier: Apache-2.0 */

/* What becomes due: bounded per batch, by number and by time. A purge of 100,000 jobs at once goes
 * on over many batches, and a request that comes in between waits for one of them. Turns that go by
 * while a batch is being written share one allowance, for all that they do ends up in the next one.
 */

#include "backend/embedded/embedded_internal.h"

#define DUE_PER_BATCH    1000
#define DUE_US_PER_BATCH 5000
#define DUE_PER_LOOK     16 /* at the clock: each may read a large record from the disk */

static int64_t ticks_of(const struct embedded *b)
{
    return b->env.ticks ? b->env.ticks(b->env.ctx) : 0;
}

static bool is_spent(const struct embedded *b)
{
    return b->due_count >= DUE_PER_BATCH || b->due_us >= DUE_US_PER_BATCH;
}

bool embedded_due_waits(const struct embedded *b)
{
    return b->committing && is_spent(b);
}

struct err embedded_due_advance(struct embedded *b)
{
    if (!b->committing) {
        b->due_count = 0;
        b->due_us = 0;
    }
    int64_t began = ticks_of(b), before = b->due_us;
    for (bool more = true; more && !is_spent(b);) {
        TRY(engine_advance(b->engine, b->now, DUE_PER_LOOK, &more));
        b->due_count += more ? DUE_PER_LOOK : 0;
        b->due_us = before + ticks_of(b) - began;
        b->more_due = more;
    }
    return err_none();
}
