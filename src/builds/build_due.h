/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_DUE_H
#define BUILDS_BUILD_DUE_H

/* Things that wait for a time of a clock that does not jump, any number of them, in its order; of
 * those of the same time the first that was set goes first. */

#include <stdbool.h>
#include <stdint.h>

#include "base/btree.h"
#include "base/units.h"

/* Embedded in what waits. Zero-initialised it does not. */
struct build_due {
    mono at;
    uint64_t serial;
    bool set;
};

/* Zero-initialised is empty. */
struct build_dues {
    struct btree tree;
    uint64_t serial;
};

void build_dues_fini(struct build_dues *l);
/* It waits from now on, whether or not it did. */
void build_due_set(struct build_dues *l, struct build_due *d, span after);
void build_due_unset(struct build_dues *l, struct build_due *d);
/* The first whose time has come by now, or NULL; it does not wait any more. */
struct build_due *build_due_take(struct build_dues *l, mono now);
/* Milliseconds to the first one's time, at least 1, for a timer of libuv, which fires one of no
 * time before it does anything else; 0: nothing waits. */
uint64_t build_due_wait(const struct build_dues *l);

#endif
