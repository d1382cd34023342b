/* SPDX-License-Identifier: Apache-2.0 */

/* The snapshots that the rig takes of its engine. Nothing but records of jobs that were written or
 * deleted counts as touched. */

#include <stdlib.h>

#include "base/alloc.h"
#include "rig.h"

#define PER_TURN  1  /* entries */
#define TURNS_MAX 20 /* that one is used after it was complete */

void rig_snapshot_touch(struct rig *r, struct id id)
{
    struct rig_snapshot *s = &r->snapshot;
    if (r->now.ms > s->newest.ms)
        s->newest = r->now;
    ALLOC_GROW(s->touched, s->touched_count, s->touched_cap, 64);
    s->touched[s->touched_count++] = id;
}

static bool step(struct rig *r, size_t most)
{
    struct rig_snapshot *s = &r->snapshot;
    if (!s->count) {
        engine_snapshot_begin(r->e);
        s->touched_count = 0;
        s->newest = r->now;
    }
    ALLOC_GROW(s->chunks, s->count, s->cap, 16);
    s->chunks[s->count] = (struct buf){0};
    return engine_snapshot_step(r->e, most, &s->chunks[s->count++]);
}

void rig_snapshot_turn(struct rig *r)
{
    struct rig_snapshot *s = &r->snapshot;
    if (r->forgetful)
        return;
    if (s->turns > 0 && ++s->turns > TURNS_MAX)
        rig_snapshot_fini(r);
    if (s->turns == 0 && !step(r, PER_TURN))
        s->turns = 1;
    if (r->now.ms > s->newest.ms)
        s->newest = r->now;
}

bool rig_snapshot_complete(struct rig *r)
{
    if (r->forgetful || r->now.ms < r->snapshot.newest.ms)
        return false;
    while (r->snapshot.turns == 0)
        r->snapshot.turns = !step(r, PER_TURN);
    return true;
}

struct snapshot_ids rig_snapshot_load(struct rig *r)
{
    const struct rig_snapshot *s = &r->snapshot;
    struct snapshot_ids rest, touched = {s->touched, s->touched_count};
    struct str *chunks = alloc_zero(s->count * sizeof *chunks);
    for (size_t i = 0; i < s->count; i++)
        chunks[i] = buf_view(&s->chunks[i]);
    assert_ok(engine_snapshot_load(r->e, r->now, chunks, s->count, touched, &rest));
    free(chunks);
    return rest;
}

void rig_snapshot_fini(struct rig *r)
{
    struct rig_snapshot *s = &r->snapshot;
    for (size_t i = 0; i < s->count; i++)
        buf_fini(&s->chunks[i]);
    free(s->chunks);
    free(s->touched);
    *s = (struct rig_snapshot){.newest = s->newest};
}
