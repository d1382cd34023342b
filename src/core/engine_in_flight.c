/* SPDX-License-Identifier: Apache-2.0 */

/* The limit of jobs in flight over all queues and takers. While it is reached nobody is served:
 * takers with room for which there may be a job are stalled (engine_take.c), in the order in which
 * they came, so that each gets its turn when a run ends, whatever its queues. */

#include "core/engine_internal.h"

uint64_t engine_in_flight_room(const struct engine *e)
{
    uint64_t most = e->settings.in_flight_max, used = e->live.count;
    if (most == 0)
        return UINT64_MAX;
    return used < most ? most - used : 0;
}

void engine_in_flight_changed(struct engine *e)
{
    if (engine_in_flight_room(e) > 0)
        engine_gangs_in_flight(e);
}
