/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OPERATIONS_H
#define CORE_OPERATIONS_H

/* Changes of many jobs as something to see and to stop: those under way, and the newest that are
 * over, since the start of the server. There are never more than OPERATIONS_MAX: one that is over
 * makes room for a new one, and if all are under way a new one is not listed. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

#define OPERATIONS_MAX 256

enum operation_kind { OPERATION_DELETE, OPERATION_PATCH, OPERATION_CANCEL, OPERATION_RETRY };
enum operation_state {
    OPERATION_RUNS,
    OPERATION_DONE,
    OPERATION_STOPPED, /* by somebody: what it had changed stays changed */
    OPERATION_FAILED,
};

struct bulk_operation {
    uint64_t number; /* from 1 on */
    enum operation_kind kind;
    enum operation_state state;
    instant began, ended;   /* ended: or none */
    uint64_t looked, count; /* jobs that it has looked at, and changed */
    struct str by;          /* who asked for it, a JSON value; or empty */
};

struct operations {
    struct bulk_operation *at[OPERATIONS_MAX]; /* by number, the oldest first */
    size_t count;
    uint64_t newest;
};

void operations_fini(struct operations *o);
/* Its number; 0: it is not listed. by is copied. */
uint64_t operations_begin(struct operations *o, enum operation_kind kind, instant now,
                          struct str by);
/* NULL if there is none, or no longer; valid until the next beginning. */
struct bulk_operation *operations_find(const struct operations *o, uint64_t number);
void operations_end(struct operations *o, uint64_t number, enum operation_state how, instant now);
const char *operation_kind_name(enum operation_kind k);
const char *operation_state_name(enum operation_state s);

#endif
