/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_LEASE_H
#define CORE_ENGINE_LEASE_H

/* The part of engine_internal.h about leases; by it alone this is included.
 *
 * A lease is counted by the steady time: `now` without the steps that the wall clock made while
 * this process ran (engine_set_lead). So no step ends a lease early or late. What is stored and
 * shown of it is its end as `now` will say it, if no further step comes. */

/* `now` by the steady time. */
instant engine_steady(const struct engine *e, instant now);
/* Begins, renews or gives it: it ends `lease` from now, or where the time of its run is over. The
 * caller stores it. */
void engine_lease_set(struct engine *e, instant now, struct live *l, span lease);
/* None for a run that a stream holds. */
instant engine_lease_end(const struct engine *e, const struct live *l);
/* Takes it out of the order of leases. Does nothing for a run that a stream holds. */
void engine_lease_drop(struct engine *e, struct live *l);
/* To be called with whatever the holder says of the run. */
void engine_lease_confirm(struct engine *e, struct live *l);
/* Ends runs whose leases are over, `most` of them at a time; *more if some are left. */
NODISCARD struct err engine_leases_advance(struct engine *e, instant now, size_t *most, bool *more);

/* Stores the lease with this turn: it is new, or ends at another time. */
void engine_lease_store(struct engine *e, struct live *l);
void engine_leases_flush(struct engine *e, instant now);
/* Makes the stored state that of a run that goes on, if the job has a lease; NULL: it has none. Of
 * the returned group it is one more. Its texts live until engine_leases_restored. */
struct take_group *engine_lease_resume(const struct engine *e, struct job *job);
/* Makes the run that which was stored: whether it was confirmed, for how long it was leased. */
void engine_lease_revive(struct engine *e, instant now, struct live *l, instant end);
/* Deletes records of which no run goes on. */
void engine_leases_restored(struct engine *e);
void engine_leases_fini(struct engine *e);

#endif
