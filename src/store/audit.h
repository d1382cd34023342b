/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

/* Reads a whole store and reports its faults: records that do not decode, records that contradict
 * each other, and jobs that a server could not place in its indexes. It changes nothing. */

#include "base/id.h"
#include "core/lifecycle.h"
#include "store/store.h"

/* AUDIT(name, wire name, what it means to the operator) */
#define AUDIT_TABLE(AUDIT)                                                                         \
    AUDIT(                                                                                         \
        UNREADABLE, "unreadable",                                                                  \
        "bytes of the files changed on the disk; a server sets the jobs in them apart, and goes "  \
        "without them: restore a backup")                                                          \
    AUDIT(LOST, "lost_batches",                                                                    \
          "commits that were acknowledged cannot be read; 'tenax check --salvage --into DIR' "     \
          "writes the others to a new root directory")                                             \
    AUDIT(APART, "set_apart",                                                                      \
          "a part of the job was lost by damage to the disk: restore a backup, or delete it")      \
    AUDIT(NEWER, "newer", "it was written by a newer tenax: use that one, nothing is broken")      \
    AUDIT(BROKEN, "broken_record",                                                                 \
          "a record is corrupt; a server sets its job apart, or does not start")                   \
    AUDIT(UNKNOWN, "unknown_record", "a record of a kind that this tenax does not know")           \
    AUDIT(ORPHAN, "orphan", "a record belongs to no job; it takes space and does no harm")         \
    AUDIT(PAYLOAD_MISSING, "payload_missing", "the job can be neither handed out nor shown")       \
    AUDIT(BAD_PAYLOAD, "bad_payload", "the payload is not JSON; workers cannot read it")           \
    AUDIT(RUN_MISSING, "run_missing", "the history of attempts has a gap; showing it fails")       \
    AUDIT(RUN_UNEXPECTED, "run_unexpected",                                                        \
          "its job does not know this run; a later attempt would overwrite it")                    \
    AUDIT(BAD_STATE, "bad_state",                                                                  \
          "a job's state contradicts itself; a server cannot place it in its indexes")             \
    AUDIT(BAD_NAME, "bad_name", "a queue or type has an invalid name")                             \
    AUDIT(BAD_TAKE, "bad_take", "a note about a job handed out does not match the job's runs")     \
    AUDIT(BAD_EVENTS, "bad_events", "the event log has a gap; its consumers miss some events")

enum audit_kind {
#define AUDIT_NAME(name, wire, meaning) AUDIT_##name,
    AUDIT_TABLE(AUDIT_NAME)
#undef AUDIT_NAME
        AUDIT_KINDS
};

/* Names and meanings as in AUDIT_TABLE. */
const char *audit_wire(enum audit_kind k);
const char *audit_meaning(enum audit_kind k);

struct audit_problem {
    enum audit_kind kind;
    struct id job;    /* or none */
    const char *what; /* a sentence; valid during the call */
};

struct audit_counts {
    uint64_t jobs[STATUS_COUNT]; /* as stored: a scheduled job whose time has come counts as
                                  * scheduled; with a lease, as in flight */
    uint64_t streamed;           /* of these, held by streams when the server stopped */
    uint64_t payloads, states, runs, takes; /* records */
    uint64_t records, bytes;                /* of all kinds */
    uint64_t problems;
};

typedef void (*audit_fn)(void *ctx, const struct audit_problem *p);

/* Calls found(ctx, problem) for each fault. If part of the store cannot be read, reports only what
 * it found before that. */
void audit_run(struct store *s, audit_fn found, void *ctx, struct audit_counts *counts);

#endif
