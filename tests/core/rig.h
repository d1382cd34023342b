/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CORE_RIG_H
#define TESTS_CORE_RIG_H

/* An engine whose environment a test controls: a clock that only the test moves, a port that keeps
 * records in arrays, and a sink that records what was handed out, in order. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/arena.h"
#include "base/idmap.h"
#include "core/budgets.h"
#include "core/engine.h"
#include "core/engine_snapshot.h"
#include "core/verdict.h"

#define RIG_RUNS_MAX  12
#define RIG_TAKES_MAX 32

/* What the port keeps about a job. */
struct rig_record {
    struct job job; /* as enqueued */
    bool has_state;
    struct job_state state;
    struct run runs[RIG_RUNS_MAX];
    bool has_run[RIG_RUNS_MAX];
    struct note notes[NOTE_KINDS];
    uint64_t has_notes; /* bits NOTE_BIT */
};

struct rig_takes {
    uint64_t seq; /* 0: free */
    instant at;
    bool is_leases;
    struct take takes[RIG_TAKES_MAX];
    struct lease leases[RIG_TAKES_MAX]; /* with texts in the rig's arena */
    size_t count;
};

struct rig_queue {
    struct str name; /* empty: free */
    struct queue_record record;
};

/* The status of a job according to its events so far. */
struct rig_replay {
    struct id id;
    enum status status;
};

struct rig_handout {
    void *taker;
    struct id id;
    uint32_t run;
    uint64_t token;
    instant lease_end;
    char payload[40];
    char checkpoint[40];
    uint32_t checkpoint_run;
};

struct rig {
    struct engine *e;
    struct engine_settings settings;
    size_t settle_most; /* per turn; 0: all */
    instant now;
    uint64_t seed;
    /* the port */
    struct idmap records, replayed; /* struct rig_replay */
    struct rig_takes takes[RIG_TAKES_MAX];
    struct rig_queue queues[32];
    struct group_record groups[8]; /* name empty: free */
    struct budget budgets[40];     /* key empty: free */
    struct rig_ended {
        uint64_t seq;
        struct id id; /* none: free */
        enum depend_end end;
    } ended[8];
    struct arena strings;
    unsigned writes, reads;
    struct job_event *events; /* all of them, their strings in the arena */
    size_t event_count, event_cap;
    struct event_mark mark;
    const struct policy *policy; /* effective for all jobs; NULL: none */
    struct policy_settings policy_settings;
    struct str policy_missing;        /* names of missing policies */
    bool (*keeps_deleted)(void *ctx); /* of the port */
    bool forgetful;                   /* keeps nothing of what is enqueued: for tests of memory */
    /* A snapshot of the indexes is taken all the time, some entries a turn. A restart restores from
     * it, and compares with an engine that was restored from all records. */
    struct rig_snapshot {
        struct buf *chunks;
        size_t count, cap;
        struct id *touched; /* since it began */
        size_t touched_count, touched_cap;
        unsigned turns; /* since it is complete */
        instant newest; /* of the clock */
    } snapshot;
    unsigned restored_from_snapshot; /* restarts so far */
    /* the sink */
    struct arena turn;
    struct rig_handout got[64];
    size_t got_count;
    void *claims[16]; /* takers of the claims that were answered */
    size_t claim_sizes[16];
    size_t claim_count;
};

int rig_setup(void **state);
int rig_teardown(void **state);

/* A job on that queue, ready now. */
struct id rig_add(struct rig *r, const char *queue);
struct id rig_add_priority(struct rig *r, const char *queue, uint16_t priority);
struct id rig_add_later(struct rig *r, const char *queue, span delay);
/* The spec of those jobs, to be changed and enqueued. */
struct enqueue rig_spec(const char *queue);
struct id rig_add_spec(struct rig *r, const struct enqueue *spec);
/* Takes its records away, as damage does; a restart is to follow. */
void rig_lose(struct rig *r, struct id id);

/* Sets the queue's settings; those not given are default. */
#define rig_set(r, queue, ...)                                                                     \
    rig_set_queue((r), (queue),                                                                    \
                  (struct queue_settings){.retry_limit = RETRY_LIMIT_DEFAULT,                      \
                                          .completed_retention = RETENTION_DEFAULT,                \
                                          .dead_retention = RETENTION_DEFAULT,                     \
                                          __VA_ARGS__})
void rig_set_queue(struct rig *r, const char *queue, struct queue_settings settings);

/* Takers. The address of the name is what rig_handout.taker holds. queue NULL: all. */
struct taker *rig_stream(struct rig *r, const char *name, const char *queue, uint32_t prefetch);
struct taker *rig_claim(struct rig *r, const char *name, const char *queue, uint32_t count,
                        span wait);
/* One that can be repeated, and does not wait. */
struct taker *rig_claim_keyed(struct rig *r, const char *name, const char *queue, uint32_t count,
                              uint64_t key);
/* The same, on a node. */
struct taker *rig_stream_on(struct rig *r, const char *node, const char *queue, uint32_t prefetch);
#define RIG_LEASE ((span){60000})
/* The holder of a claim renews its lease. */
void rig_confirm(struct rig *r, struct id id);

/* Fires what is due, dispatches, checks the engine's promises. */
void rig_turn(struct rig *r);
/* The same, `d` later. */
void rig_turn_after(struct rig *r, int64_t ms);
/* Forgets what was handed out so far. */
void rig_clear(struct rig *r);
/* Exactly these jobs were handed out since, in this order. */
#define rig_assert_got(r, ...)                                                                     \
    rig_assert_ids((r), (const struct id[]){__VA_ARGS__},                                          \
                   sizeof((const struct id[]){__VA_ARGS__}) / sizeof(struct id), __FILE__,         \
                   __LINE__)
void rig_assert_ids(const struct rig *r, const struct id *ids, size_t count, const char *file,
                    int line);

/* Stops the engine as a crash would, and recovers another from what the port has. */
void rig_restart(struct rig *r);

/* rig_snapshot.c, for the rig itself */
void rig_snapshot_touch(struct rig *r, struct id id);
void rig_snapshot_turn(struct rig *r);
/* Completes it, unless the clock went back: then there is none. */
bool rig_snapshot_complete(struct rig *r);
struct snapshot_ids rig_snapshot_load(struct rig *r);
void rig_snapshot_fini(struct rig *r);

/* The job as the engine reads it, strings in the rig's arena; NULL if there is none. */
const struct job *rig_read(struct rig *r, struct id id);
enum status rig_status(struct rig *r, struct id id); /* STATUS_GONE if it is not there */
/* The record of a run that has ended. */
const struct run *rig_run(const struct rig *r, struct id id, uint32_t index);
const struct rig_record *rig_record(const struct rig *r, struct id id);
size_t rig_ended_count(const struct rig *r); /* ended jobs whose dependants are not all notified */
size_t rig_takes_count(const struct rig *r); /* records of takes and leases that the port holds */
/* The ids of all jobs in flight in id order, in the rig's arena. */
size_t rig_live(struct rig *r, struct id **ids);
uint64_t rig_count(const struct rig *r, const char *queue, enum status s);

/* What is stored of the group; NULL: nothing. */
const struct group_record *rig_group(const struct rig *r, const char *name);

/* The newest event. */
const struct job_event *rig_event(const struct rig *r);
/* The newest events of the job, oldest first, are of exactly these kinds. */
#define rig_assert_events(r, id, ...)                                                              \
    rig_assert_event_list((r), (id), (const enum event[]){__VA_ARGS__},                            \
                          sizeof((const enum event[]){__VA_ARGS__}) / sizeof(enum event),          \
                          __FILE__, __LINE__)
void rig_assert_event_list(const struct rig *r, struct id id, const enum event *list, size_t count,
                           const char *file, int line);

/* The run of a job in flight, as its worker names it. */
struct run_ref rig_ref(struct rig *r, struct id id);
/* Reports about the live run, with its token. */
void rig_release(struct rig *r, struct id id);
void rig_succeed(struct rig *r, struct id id);
/* Returns the job afterwards. */
struct job rig_fail(struct rig *r, struct id id);
struct job rig_fail_with(struct rig *r, struct id id, const struct failure *f);

/* The program's view of an error: its code. */
#define assert_code(expr, want) assert_int_equal((expr).code, (want))
#define assert_ok(expr)         assert_code((expr), ERR_OK)
#define assert_id(a, b)         assert_true(id_eq((a), (b)))

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

/* --- rig_port.c --- */

/* What the engine sees of the rig. */
struct port rig_port(struct rig *r);
/* The statuses by the events are those of the engine. */
void rig_check_replay(struct rig *r);

#endif
