/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

/* The state machine of all jobs. A command and `now` go in; writes go into the
 * batch of this turn (core/port.h), hand-outs go to engine_sink. It owns the
 * in-memory indexes: the ready order of every queue, one ordered set of deadlines
 * (ready_at, lease ends, retention ends), the jobs in flight and the takers.
 *
 * Pure: no I/O, no clock, no threads, no logging. Memory per waiting job is one
 * 32-byte index entry; everything else of it is read back from the port when it
 * is handed out.
 *
 * The owner calls, per turn: engine_advance, any number of commands,
 * engine_dispatch; then it commits the batch, and only when that is durable it
 * releases replies and hand-outs (promise I1). If the commit fails it frees the
 * engine and restores a new one from the store. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/rng.h"
#include "core/command.h"
#include "core/engine_settings.h"
#include "core/event.h"
#include "core/job.h"
#include "core/port.h"
#include "core/queue.h"
#include "core/verdict.h"

struct engine;
struct taker;

/* Who receives what is handed out; called only from inside engine_dispatch (and for a claim's
 * end engine_advance). h and its strings live in the arena given to engine_dispatch. */
struct engine_sink {
    void *ctx;
    /* One job for a stream. */
    void (*deliver)(void *ctx, void *taker_ctx, const struct handout *h);
    /* All jobs of a claim, which is over with that; none if its wait has ended. */
    void (*claimed)(void *ctx, void *taker_ctx, struct handout *h, size_t count);
    /* A tick of a cron entry whose job is batched, which is for the receiver to enqueue or to fold,
     * now or later: see engine_cron_awaits. The job is borrowed for the call. */
    void (*tick)(void *ctx, struct id entry, uint64_t number, const struct enqueue *job);
    /* Visits who took from the queue lately, in any order, and returns how many workers it has
     * looked at for that; NULL: nobody knows. */
    size_t (*members)(void *ctx, struct str queue, crew_visitor *visit, void *visit_ctx);
};

struct engine *engine_new(const struct engine_settings *settings, const struct port *port,
                          const struct engine_sink *sink, struct rng rng);
/* Changes the settings. They apply from now on; what was decided stays. */
void engine_configure(struct engine *e, const struct engine_settings *settings);
void engine_free(struct engine *e);
/* Begins with it: frees what `most` runs in flight take. True if some are left; nothing but that
 * and engine_free may follow. */
bool engine_free_some(struct engine *e, size_t most);

/* --- recovery: events, every stored queue, every stored lease, every stored job once, every stored
 * take and end, then engine_restored --- */

/* The number of the next event, from 1, and the mark. Not called if there never was an event. */
void engine_restore_events(struct engine *e, uint64_t next, struct event_mark mark);

/* Queues and groups come before jobs. */
void engine_restore_queue(struct engine *e, struct str name, const struct queue_record *record,
                          instant now);
void engine_restore_group(struct engine *e, const struct group_record *record);
/* In the order of their records' numbers. */
void engine_restore_lease(struct engine *e, uint64_t seq, const struct lease *lease);
/* The job without payload, as stored. */
void engine_restore_job(struct engine *e, const struct job *job, const struct job_extent *extent,
                        instant now);
void engine_restore_take(struct engine *e, uint64_t seq, instant at, struct take take);
void engine_restore_ended(struct engine *e, uint64_t seq, struct id id, enum depend_end end);
/* Ends recovery: runs that a stop of the server cut off are recorded as lost, `most` of them at a
 * time; *more if some are left. Writes. */
NODISCARD struct err engine_restored(struct engine *e, instant now, size_t most, bool *more);
/* After leases were restored with other ends than the stored ones, since the clock was set back:
 * stores them. */
void engine_leases_clock_back(struct engine *e);
/* How far `now` is ahead of a steady time that no step of the wall clock moves: leases are counted
 * by that. To be called with each change, before anything else; 0 at first. */
void engine_set_lead(struct engine *e, span lead);
/* To be called when the server begins to answer after a time in which nobody could renew a lease:
 * each one lasts at least as long from now as it was granted for, but for `most` at the most. */
void engine_leases_grace(struct engine *e, instant now, span most);
/* When the first lease is over; false if there is none. */
bool engine_leases_due(const struct engine *e, instant *at);

/* --- commands --- */

/* ERR_UNPROCESSABLE if a gang has no room for one of these jobs, or another cardinality. To be
 * called before engine_enqueue, which assumes that it succeeded. */
NODISCARD struct err engine_gang_check(const struct engine *e, const struct enqueue *specs,
                                       size_t count);
/* ERR_GROUP_SEALED, ERR_CONFLICT if a group takes no further jobs, or not those of this owner: of
 * jobs that would be added. To be called before engine_enqueue, in the same turn. */
NODISCARD struct err engine_group_check(struct engine *e, instant now, const struct enqueue *specs,
                                        size_t count);
/* Adds count jobs, all or none; out[i] is what became of specs[i], its strings borrowed from
 * specs[i] or, of a duplicate, in the arena. */
NODISCARD struct err engine_enqueue(struct engine *e, instant now, const struct enqueue *specs,
                                    size_t count, struct arena *a, struct enqueued *out);

/* The job that an enqueue asks for, with the strings of the spec. */
void engine_job_of(const struct enqueue *spec, struct id id, instant ready_at, enum status status,
                   struct job *job);

/* ERR_UNPROCESSABLE if not all jobs exist that these wait for. To be called before engine_enqueue,
 * in the same turn. */
NODISCARD struct err engine_depend_check(struct engine *e, instant now, const struct enqueue *specs,
                                         size_t count);
/* Where engine_depend_look goes on; zero at first. */
struct depend_place {
    size_t job, id;
};
/* The same in steps, for very many jobs: looks at `most` of them from *at on, which it moves;
 * at->job is count when all were seen. What was seen is kept for engine_enqueue while anybody holds
 * it (engine_depend_hold): a job that is deleted meanwhile counts as deleted right after the
 * enqueue. */
NODISCARD struct err engine_depend_look(struct engine *e, instant now, const struct enqueue *specs,
                                        size_t count, struct depend_place *at, size_t most);
void engine_depend_hold(struct engine *e);
void engine_depend_release(struct engine *e);
/* How many of these jobs have a key or an alias for which a job has to be read: about as many as
 * are duplicates. */
size_t engine_unique_total(const struct engine *e, const struct enqueue *specs, size_t count);
/* Reads the jobs that hold the keys and aliases of specs[*at] and those after it, `most` of them,
 * and moves *at; for a port that keeps what was read until engine_enqueue reads it again. */
NODISCARD struct err engine_unique_look(struct engine *e, instant now, const struct enqueue *specs,
                                        size_t count, size_t *at, size_t most);
/* How it is refused that the job at `job` of `count` waits for a job that is not there, the one at
 * `i` of its list. */
NODISCARD struct err engine_depend_missing(size_t count, size_t job, size_t i, struct id id);
/* How many jobs these wait for, counted with repetition. */
size_t engine_depend_total(const struct enqueue *specs, size_t count);

/* The job into which an enqueue with this batch key may be folded: open, ready, and never
 * handed out so far. `now` has it without payload; `stored` is its first record, with payload. */
struct foldable {
    struct job now, stored;
};
NODISCARD struct err engine_fold_find(struct engine *e, instant now, struct str key,
                                      struct arena *a, struct foldable *f, bool *found);
/* Replaces the first record of a job that was just found: its payload, or that it is open. */
void engine_fold_rewrite(struct engine *e, const struct job *stored);

/* All reports: ERR_NOT_FOUND if there is no such job, ERR_NOT_IN_FLIGHT if no worker holds it,
 * ERR_STALE if a token or an index was given and is not the live run's, or the report of a
 * stream's run names another worker, ERR_RUN_TOKEN if a leased run is named without its token;
 * then nothing changed (promise I3). */
NODISCARD struct err engine_succeed(struct engine *e, instant now, struct run_ref ref);

/* Whether this run is the newest that ended by a report, and the report was of this outcome: then
 * its worker did not get the answer and repeats the report, which changes nothing. *job is the job
 * as it is now, without payload, its strings in the arena. Without a token always false. */
bool engine_is_repeated(struct engine *e, instant now, struct run_ref ref, enum outcome outcome,
                        struct arena *a, struct job *job);

/* *job is the job afterwards, without payload, its strings in the arena. */
NODISCARD struct err engine_fail(struct engine *e, instant now, const struct failure_report *r,
                                 struct arena *a, struct job *job);
/* A run that failed with a grace period has ended: of the wait only the backoff is left. Does
 * nothing if that is known. ERR_UNPROCESSABLE while it is in flight; ERR_STALE if it is not
 * the newest run, or was given no such period. */
NODISCARD struct err engine_terminated(struct engine *e, instant now, struct run_ref ref,
                                       uint32_t run, struct arena *a, struct job *job);
/* Tells that a run of the job left a file of that name; does nothing else. ERR_NOT_FOUND, also if
 * the job had no such run. */
NODISCARD struct err engine_artifact(struct engine *e, instant now, struct id id, uint32_t run,
                                     struct str name);
NODISCARD struct err engine_note(struct engine *e, instant now, struct run_ref ref,
                                 const struct news *news);
/* Moves the end of a lease to now + lease. ERR_UNPROCESSABLE for a stream's job. */
NODISCARD struct err engine_renew(struct engine *e, instant now, struct run_ref ref, span lease,
                                  instant *lease_end);
/* The worker gives the job back; the attempt does not count. why: in its words, well-formed UTF-8,
 * for the reason of run and job, which has as much of it as fits; or empty. */
NODISCARD struct err engine_release(struct engine *e, instant now, struct run_ref ref,
                                    struct str why);
/* The same, but the job is scheduled for `until`, if that is to come. */
NODISCARD struct err engine_snooze(struct engine *e, instant now, struct run_ref ref,
                                   struct str why, instant until);
/* Deletes a job in whatever status; engine_gone is to follow if that cannot be undone, then or when
 * it no longer can. ERR_NOT_FOUND. */
NODISCARD struct err engine_remove(struct engine *e, instant now, struct id id);

/* A job that the engine does not know, as the port did not find it, will never be there: nobody
 * goes on waiting for it. */
void engine_gone(struct engine *e, struct id id);
/* Whether any job waits for another one. */
bool engine_has_dependants(const struct engine *e);

/* --- changes by people --- */

/* All three: *job is the job afterwards, without payload, its strings in the arena or in p.
 * ERR_NOT_FOUND; ERR_UNPROCESSABLE if its status does not allow it. */
NODISCARD struct err engine_patch(struct engine *e, instant now, struct id id,
                                  const struct patch *p, struct arena *a, struct job *job);
/* Cancels a job that has not ended: it is dead, with resolution canceled, and its worker's report
 * will be refused as stale. */
NODISCARD struct err engine_cancel(struct engine *e, instant now, struct id id, struct arena *a,
                                   struct job *job);
/* Brings a dead job back with a new retry budget, or, if that is asked for, a completed one. */
struct rerun {
    instant at;     /* ready then, or now if that is later */
    bool completed; /* also one that is completed */
    bool freed;     /* it waits for no other job again; else for those that are not done */
};
NODISCARD struct err engine_rerun(struct engine *e, instant now, struct id id, struct rerun how,
                                  struct arena *a, struct job *job);
/* Whether that can be done; completed: as in struct rerun. ERR_UNPROCESSABLE, also if its deadline
 * is over or a budget is gone. */
NODISCARD struct err engine_rerun_check(const struct engine *e, instant now, const struct job *job,
                                        bool completed);

/* --- groups of jobs --- */

/* Both: ERR_NOT_FOUND. The view's strings live as long as the group. */
NODISCARD struct err engine_group_read(const struct engine *e, struct str name,
                                       struct group_view *view);
/* No further jobs come into it, for good. Does nothing if it is sealed. */
NODISCARD struct err engine_group_seal(struct engine *e, instant now, struct str name);
/* Tells that a command gave so many of its jobs that priority; does nothing else. ERR_NOT_FOUND. */
NODISCARD struct err engine_group_reprioritized(struct engine *e, instant now, struct str name,
                                                uint16_t priority, uint64_t jobs);
/* The next of its jobs in id order after (before, if backwards) `from`, as engine_next_of. */
bool engine_next_in_group(const struct engine *e, struct str name, struct id_place from,
                          bool backwards, struct id *next);

/* --- settings of queues --- */

/* Sets all of them; they apply at once. ERR_TOO_MANY beyond QUEUE_SETTINGS_MAX. */
NODISCARD struct err engine_queue_put(struct engine *e, instant now, struct str name,
                                      const struct queue_settings *settings);
/* Forgets them. ERR_NOT_FOUND if there are none, ERR_CONFLICT while jobs wait or run in it. */
NODISCARD struct err engine_queue_remove(struct engine *e, struct str name);

/* The rules for a failed job of that queue, without policies: the queue's or the engine's. */
struct verdict_rules engine_queue_rules(const struct engine *e, struct str name);
/* The queue need not exist. Takes time in proportion to the number of priorities in use. */
void engine_queue_view(const struct engine *e, instant now, struct str name, struct queue_view *v);
/* The next `limit` queues that have jobs or settings, in name order after `from` (empty: from the
 * start); *more if there are others. They and their names lie in the arena. */
size_t engine_queue_page(const struct engine *e, instant now, struct str from, size_t limit,
                         struct arena *a, struct queue_view **views, bool *more);

/* Calls each(ctx, job, worker) for every run that goes on, in no order; the engine must not change
 * meanwhile. */
void engine_each_live(const struct engine *e,
                      void (*each)(void *ctx, struct id id, struct str queue, struct str worker),
                      void *ctx);
/* The job goes back, attempts unchanged, because somebody stopped its worker. Nothing happens if it
 * is not in flight. */
void engine_stop_run(struct engine *e, instant now, struct id id);

/* --- takers: streams and claims --- */

/* Claims one given job, as CMD_CLAIM_JOB says; h and its strings lie in the arena. ERR_NOT_FOUND.
 */
NODISCARD struct err engine_claim_job(struct engine *e, instant now, const struct job_claim *c,
                                      struct arena *a, struct handout *h, bool *repeated);

/* What the claim with this key got and of which its worker has said nothing yet: the same runs,
 * with leases that begin now. *count is 0 if there is none: a claim with this key is a new one. */
NODISCARD struct err engine_claim_again(struct engine *e, instant now, uint64_t key, span lease,
                                        struct arena *a, struct handout **list, size_t *count);

struct taker_spec {
    const struct str *queues; /* names; count 0 means all queues */
    size_t queue_count;
    uint32_t limit;    /* stream: jobs in flight at a time; claim: jobs in its answer, at most */
    struct str worker; /* name for the record, copied */
    struct str node;   /* where its jobs will run, copied; empty: it did not say */
    bool claim;
    enum job_kind kind; /* it is given no other jobs */
    span lease;         /* claim: of each job */
    span max_run;       /* claim: that each run may take; 0: it does not say */
    uint64_t key;       /* claim: for engine_claim_again; 0: it cannot be repeated */
    instant wait_end;   /* claim: answered empty then */
};

/* Opens a stream or a claim; the spec is borrowed. taker_ctx is what the sink gets. */
struct taker *engine_taker_open(struct engine *e, const struct taker_spec *spec, void *taker_ctx);
enum taker_end {
    TAKER_GONE,    /* the peer is: its runs count as lost workers */
    TAKER_STOPPED, /* the server stops: no fault of its jobs */
};
/* A stream's jobs are ready again (attempts unchanged, the loss is recorded), or dead if they lost
 * too many workers in a row. A claim that still waits is withdrawn without an answer. The taker is
 * not to be used any more; if it held very many, engine_advance goes on with them. */
void engine_taker_close(struct engine *e, instant now, struct taker *t, enum taker_end why);
/* A stream whose peer does not read gets nothing more until it is resumed. */
void engine_taker_pause(struct engine *e, struct taker *t, bool paused);

/* --- the turn --- */

/* Lets go of completed jobs that are too many, as engine_advance does: in the turn in which they
 * complete that costs least, for nothing of them need be stored. */
NODISCARD struct err engine_trim(struct engine *e, instant now, size_t most, bool *more);
/* Fires what is due by now, at most `most` of it; *more if some is left. */
NODISCARD struct err engine_advance(struct engine *e, instant now, size_t most, bool *more);
/* Notifies jobs of the end of those they wait for, at most `most` of them; *more if some are left.
 * To be called after everything that may end jobs, and before the turn is committed. */
NODISCARD struct err engine_settle(struct engine *e, instant now, size_t most, bool *more);
/* Hands out ready jobs to takers, and then does as engine_flush. Takes a bounded time: what is left
 * is done in the next turn. */
NODISCARD struct err engine_dispatch(struct engine *e, instant now, struct arena *a);
/* Stores which jobs streams were given, and the leases that were granted or renewed. To be called
 * before the turn is committed. */
void engine_flush(struct engine *e, instant now);
/* Whether something is left, so that the next turn should come at once. */
bool engine_dispatch_again(const struct engine *e);
/* Whether a dispatch might hand out something: takers, or queues with new jobs, wait for it. */
bool engine_dispatch_waits(const struct engine *e);
/* How many gangs, takers and queues all dispatches have looked at so far for complete gangs. For
 * tests, which cannot measure time. */
uint64_t engine_gang_steps(const struct engine *e);
/* When engine_advance will have something to do next; false: never. */
bool engine_next_due(const struct engine *e, instant *at);

/* --- reading --- */

/* ERR_NOT_FOUND: how a job is missed. */
NODISCARD struct err engine_no_job(struct id id);
/* The job as it is now. ERR_NOT_FOUND also if its retention is over. */
NODISCARD struct err engine_read(struct engine *e, instant now, struct id id, bool with_payload,
                                 struct arena *a, struct job *job, struct job_extent *extent);
/* Reads the notes that workers left with a job that was just read. */
NODISCARD struct err engine_read_notes(struct engine *e, const struct job *job, struct arena *a,
                                       struct job_notes *notes);
/* Gathers why the job has its status. It leaves its newest run, unless that is live, and
 * explain_sum_up to the caller. ERR_NOT_FOUND. */
struct explanation;
struct judges;
struct backlog;
struct backlog_ask;
struct backlog_page;
NODISCARD struct err engine_explain(struct engine *e, instant now, struct id id, struct arena *a,
                                    struct explanation *x, struct job_extent *extent);
/* Who judges the job's failures; in the arena. */
void engine_judges(struct engine *e, const struct job *job, struct arena *a, struct judges *j);
/* Counts what the waiting jobs of a queue, or of a page of queues, wait for (core/backlog.h), in
 * the arena. The queue need not exist. */
NODISCARD struct err engine_backlog(struct engine *e, instant now, struct str name, struct arena *a,
                                    struct backlog *b);
NODISCARD struct err engine_backlog_page(struct engine *e, instant now,
                                         const struct backlog_ask *ask, struct arena *a,
                                         struct backlog_page *page);
/* Finds the oldest job that holds this unique key, without payload. */
NODISCARD struct err engine_unique_find(struct engine *e, instant now, struct str key,
                                        struct arena *a, struct job *holder, bool *found);
/* Finds the job that has this alias, without payload. */
NODISCARD struct err engine_alias_find(struct engine *e, instant now, struct str alias,
                                       struct arena *a, struct job *holder, bool *found);
/* The live run of a job; false if there is none. Strings live as long as the run. */
bool engine_live_run(const struct engine *e, struct id id, struct run *run, uint64_t *token);
/* The next id in id order after (before, if backwards) `from` among the jobs with that status,
 * which is blocked, in_flight or terminal; `from` not set: the first (the last). Of blocked ones
 * there are also others among them. Takes as long for many jobs as for few. */
bool engine_next_of(const struct engine *e, enum status s, struct id_place from, bool backwards,
                    struct id *next);
/* The places of the first ready jobs of the queue after c->from, at most `limit` of them, whose
 * priority is in the range: in the order of rank and id, which shares of retries and nodes to avoid
 * may change when they are handed out. Without members of gangs and jobs whose concurrency key is
 * full. Takes as long for many jobs as for few. */
size_t engine_peek(const struct engine *e, const struct peek_command *c, size_t limit,
                   struct ready_place *places);
/* Jobs of a queue (or of all, if name is empty) by status. What is due but not fired yet counts as
 * scheduled. */
void engine_count(const struct engine *e, struct str queue, uint64_t counts[STATUS_COUNT]);
/* Calls each(ctx, name) for every queue that has jobs, in name order. */
void engine_each_queue(const struct engine *e, void (*each)(void *ctx, struct str name), void *ctx);
/* The name of the first queue after `from`, or of all if that is empty; empty: there is none. Valid
 * until the next change. */
struct str engine_queue_name_after(const struct engine *e, struct str from);

/* What operators watch of a queue; borrowed for the call. */
struct queue_watch {
    struct str name;
    const uint64_t *counts; /* by status */
    bool paused;
    uint32_t concurrency; /* most jobs in flight; 0: any number */
    instant
        oldest_ready; /* since when the oldest of its ready jobs is ready; none: there are none */
};
/* False if there is no such queue. *reads: how many jobs may be read to find the oldest; it is
 * lowered by those that were, and with 0 left the oldest remains unknown. */
bool engine_watch(struct engine *e, instant now, struct str name, unsigned *reads,
                  struct queue_watch *w);

/* The number that the next event will get. */
uint64_t engine_next_event(const struct engine *e);
/* The mark, to be stored with the newest event. */
struct event_mark engine_event_mark(const struct engine *e);

/* Counted, not measured: O(1). */
struct engine_memory engine_memory(const struct engine *e);

/* Checks every internal promise with must(); for tests and the simulator. */
void engine_check(const struct engine *e);

#endif
