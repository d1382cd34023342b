/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_REPEAT_H
#define CORE_ENGINE_REPEAT_H

/* The part of engine_internal.h about claims that can be repeated.
 *
 * A claim with a key whose answer is lost is sent again with the same key, and gets the same runs.
 * So the runs of each such claim are known by its key from the claim until the holder says anything
 * about the run, or until it ends. A restart restores them with their leases. */

/* The run was handed out to the claim with this key; 0: the claim cannot be repeated. */
void engine_repeat_add(struct engine *e, struct live *l, uint64_t key);
/* The holder has said something, or the run ends. */
void engine_repeat_remove(struct engine *e, struct live *l);
/* 0: no claim can ask for this run again. */
uint64_t engine_repeat_key(const struct live *l);
void engine_repeat_fini(struct engine *e);
/* A run that goes on, as it was handed out; the strings lie in the arena. */
NODISCARD struct err engine_hand_out_again(struct engine *e, instant now, const struct live *l,
                                           struct arena *a, struct handout *h);

#endif
