/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OPERATIONS_H
#define CORE_OPERATIONS_H

/* Changes of many jobs as something to see, to stop and to undo: those under way, and the newest
 * that are over. There are never more than OPERATIONS_MAX: one that is over makes room for a new
 * one, but none while it can be undone; and if no room can be made a new one is not listed. Those
 * that can be undone, or could be, are stored and outlive the server; the others are gone with it.
 * One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/glob.h"
#include "base/str.h"
#include "base/units.h"

#define OPERATIONS_MAX          256
#define OPERATIONS_UNDOABLE_MAX 128 /* that can be undone, or could be */

/* These numbers are on disk. */
enum operation_kind {
    OPERATION_DELETE,
    OPERATION_PATCH,
    OPERATION_CANCEL,
    OPERATION_RETRY,
    OPERATION_UNDO, /* of one of the others */
    OPERATION_KINDS
};
enum operation_state {
    OPERATION_RUNS,
    OPERATION_DONE,
    OPERATION_STOPPED, /* by somebody: what it had changed stays changed */
    OPERATION_FAILED,
};

/* Whether one can be undone. These numbers are on disk. */
enum undo_state {
    UNDO_NEVER,   /* nobody asked for it */
    UNDO_KEPT,    /* it can; also if it was in part, and that was stopped */
    UNDO_RUNS,    /* it is being undone */
    UNDO_ENDED,   /* it was */
    UNDO_EXPIRED, /* the time for that is over */
    UNDO_STATES
};

/* What became of a job when the change of it was undone. These numbers are on disk. */
enum undo_outcome {
    UNDO_DONE,
    /* As it has gone on, it is left as it is: */
    UNDO_DELETED,    /* it is not there any more */
    UNDO_IN_FLIGHT,  /* a worker has it */
    UNDO_FINISHED,   /* it has ended since */
    UNDO_CHANGED,    /* it has run, or was changed again */
    UNDO_RETIRED,    /* its retention is over */
    UNDO_UNIQUE_KEY, /* another job has its unique key by now */
    UNDO_ALIAS,      /* likewise its alias */
    UNDO_GROUP,      /* its group belongs to somebody else by now */
    UNDO_GANG,       /* its gang has no room for it, or runs */
    UNDO_BUDGET,     /* a budget that it draws on is not there any more */
    UNDO_LOST,       /* what was kept of it cannot be read */
    UNDO_OUTCOMES
};

/* A number of jobs that were not undone, for one reason. */
struct undo_refusal {
    enum undo_outcome why;
    uint64_t jobs;
};

struct operation_undo {
    enum undo_state state;
    instant until;                    /* it can be undone before */
    uint64_t entries;                 /* jobs that were kept, numbered from 0 */
    uint64_t next;                    /* those before are done with */
    uint64_t bytes;                   /* that those from there on take */
    uint64_t outcomes[UNDO_OUTCOMES]; /* numbers of jobs */
    /* Only in replies: of those that are not UNDO_DONE the sum, and those that are not 0. */
    uint64_t not_undone;
    const struct undo_refusal *refusals;
    size_t refusal_count;
};

struct bulk_operation {
    uint64_t number; /* from 1 on */
    enum operation_kind kind;
    enum operation_state state;
    instant began, ended;   /* ended: or none */
    uint64_t looked, count; /* jobs that it has looked at, and changed */
    struct str by;          /* who asked for it, a JSON value; or empty */
    struct str reach; /* patterns of the queues to which that one was limited, as a,b; or empty */
    uint64_t of;      /* OPERATION_UNDO: of which */
    struct operation_undo undo;
};

struct operations {
    struct bulk_operation *at[OPERATIONS_MAX]; /* by number, the oldest first */
    size_t count;
    uint64_t newest;
};

void operations_fini(struct operations *o);
/* Its number; 0: it is not listed. The texts are copied. */
uint64_t operations_begin(struct operations *o, enum operation_kind kind, instant now,
                          struct str by, struct str reach);
/* NULL if there is none, or no longer; valid until the next beginning. */
struct bulk_operation *operations_find(const struct operations *o, uint64_t number);
void operations_end(struct operations *o, uint64_t number, enum operation_state how, instant now);
/* One that is read from the store, in place of what is known of it; the texts are copied. Those
 * that were under way have failed. */
void operations_restore(struct operations *o, const struct bulk_operation *op);
/* How many are stored, and what they keep takes. */
size_t operations_stored(const struct operations *o, uint64_t *bytes);
void operations_forget(struct operations *o, uint64_t number);
/* Of those that are stored and cannot be undone any more, the oldest; NULL: there is none. */
struct bulk_operation *operations_oldest_settled(const struct operations *o);
/* Whether it is for those who are limited to these queues, or to none: whoever asked for it could
 * change nothing beyond them. */
bool operation_is_within(const struct bulk_operation *op, struct glob_list reach);
/* Whether something of it is kept. */
bool operation_keeps(const struct bulk_operation *op);
const char *undo_state_name(enum undo_state s);
/* Not of UNDO_DONE. */
const char *undo_outcome_name(enum undo_outcome o);
const char *operation_kind_name(enum operation_kind k);
const char *operation_state_name(enum operation_state s);

#endif
