/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

/* Jobs that belong together, by a name that each of them gives when it is enqueued. A group exists
 * as long as one of its jobs does. */

#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

/* What is stored of a group; all else follows from its jobs. */
struct group_record {
    struct str name;
    struct str owner;     /* given by the first of its jobs, as by all others; or empty */
    instant sealed_at;    /* since when it takes no further jobs, or none */
    instant retain_until; /* the latest until which one of its jobs is to be kept, or none */
};

/* Jobs of a group were given another priority. */
struct group_reprioritized {
    struct str name;
    uint16_t priority;
    uint64_t jobs; /* how many */
};

struct group_view {
    struct group_record record;
    uint64_t jobs, unended;
};

#endif
