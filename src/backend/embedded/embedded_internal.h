/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_INTERNAL_H
#define BACKEND_EMBEDDED_EMBEDDED_INTERNAL_H

/* What the files of the embedded backend share. */

#include "backend/embedded/embedded.h"
#include "backend/embedded/embedded_clock.h"
#include "backend/embedded/embedded_events.h"
#include "backend/embedded/embedded_turn.h"
#include "base/evaluator.h"
#include "base/list.h"
#include "base/strmap.h"
#include "core/engine_cron.h"
#include "core/failure_groups.h"
#include "core/operations.h"
#include "core/workers.h"
#include "policy/policies.h"
#include "store/index_file.h"
#include "store/record.h"

/* A list, count or removal that may take several turns. */
struct chunk;
struct scan {
    struct list node; /* in embedded->scans, or ->asking */
    enum command_kind kind;
    struct list_command list; /* its arrays are copies in the arena */
    struct glob_list reach;   /* of who asks, likewise */
    struct arena arena;
    struct id_place at; /* where the next slice goes on, exclusive */
    uint32_t looked;    /* if list.look_max */
    bool cut;           /* it has looked at as many */
    bool full;          /* a page; there are more */
    uint64_t seen;      /* jobs looked at */
    uint64_t operation; /* its number; 0: it is none */
    uint64_t undoes;    /* the number of the one that it undoes; 0: none */
    bool ended;
    instant started;
    struct chunk *chunk; /* iff the filter has an expression */
    struct err failed;   /* what the evaluator said last */
    span spent;          /* how long its expressions ran */
    struct id *ids;      /* of CANCEL_WHERE, in the arena */
    size_t id_count, id_cap;
    struct job *jobs;
    size_t kept;    /* in jobs */
    size_t bytes;   /* of their payloads */
    size_t count;   /* of those that matched */
    uint64_t trail; /* its number in the audit; 0: it has none */
    struct reply reply;
    reply_fn done;
    void *ctx;
};

/* The failure history: entries oldest .. next - 1 are kept. */
struct history {
    uint64_t oldest, next;
};

/* The entries of front ends (embedded_kv.c). */
struct kv_state {
    uint64_t newest;      /* version */
    instant due;          /* nothing expires before; or none */
    instant due_unsealed; /* the same for what was put in the turn that is being built */
};

/* The space of what enqueues with an idempotency key were answered. */
#define EMBEDDED_ANSWERS STR("idempotency-keys")

/* Those answers (embedded_answers.c). */
struct answers_state {
    struct record_answers all;
    char room[RECORD_KV_KEY_MAX];
    struct str place;   /* in room: the expiry of the next that may have to be made brief */
    bool walked;        /* up to the last that is durable */
    uint64_t shortened; /* that were made brief since the start */
};

/* The audit (embedded_trail.c). */
struct trail_state {
    uint64_t newest, removed; /* numbers; those up to `removed` are gone */
};

/* A cursor that walks along while jobs are handed out in order; see embedded_port.c. */
struct ahead {
    struct store_cursor *cursor; /* NULL: none is open */
    struct id last;              /* asked for most recently */
    uint32_t in_a_row;           /* how many were asked for in ascending order */
    instant opened;
};

/* Jobs that were set apart, by id (embedded_damage.c). Kept when all other memory is dropped. */
struct damaged_job {
    struct id id;
    struct record_apart apart;
    bool stored; /* its record is, or is on its way */
};
struct damage {
    struct damaged_job *jobs;
    size_t count, cap;
    size_t fresh;    /* found since the last recovery; they are still in indexes */
    uint64_t tables; /* that the store has set apart */
};

/* All stored jobs from one on, each with its newest state. */
struct embedded_walk {
    struct embedded *b;
    struct store *store;
    struct store_cursor *jobs, *states;
    bool begun;
    bool seen; /* the state that `states` stands at: of this job */
    struct id state;
    struct id *orphans; /* of states without a job */
    size_t orphan_count, orphan_cap;
};

/* Indexes that are made again over several turns (embedded_recover.c). */
struct rebuild {
    struct embedded_walk walk;
    bool walked; /* to the end */
};

/* Snapshots of the indexes (embedded_snapshot.c). */
struct index_state {
    enum {
        INDEX_IDLE,
        INDEX_WALKS,
        INDEX_COMMITS, /* until what it may show is durable */
        INDEX_ENDS,    /* until its file is */
    } phase;
    struct index_writer *writer; /* NULL: none is under way */
    struct index_head head;      /* of the one under way */
    struct buf chunk;
    bool has; /* there is a finished one */
    uint64_t nonce[2];
    uint64_t bytes, changes;         /* of batches since it began, and writes in them */
    instant began;                   /* or the start that used it */
    uint64_t new_bytes, new_changes; /* the same of the one under way */
    instant new_began;
    instant next;    /* its next chunk comes then */
    instant retry;   /* no other is begun before, because one failed */
    bool last;       /* begun at a stop: no other is */
    bool failing;    /* none was written since one failed */
    uint64_t failed; /* so many, since the start */
    uint64_t written;
    enum index_start start;
    uint64_t jobs_read; /* at the start */
};

/* When missing policies were logged last. */
struct missing_logged {
    uint64_t hash; /* of their names */
    instant at;
};
#define MISSING_LOGGED_MAX 16
#define MISSING_LOGGED_MS  60000 /* ms */

enum health { HEALTH_GOOD, HEALTH_FAILED };

/* What the disk allows, the best first. */
enum room { ROOM_ENOUGH, ROOM_LOW, ROOM_STARVED, ROOM_FAILED, ROOM_BLIND };

struct embedded {
    struct backend backend; /* must be first */
    struct backend_settings settings;
    struct env env;
    struct engine *engine;
    struct engine *old; /* that is being freed; NULL: none */
    struct turn turns[TURNS];
    struct turn *building;
    struct turn *committing; /* NULL: no commit under way */
    struct list streams, claims;
    struct idmap keyed_claims;   /* struct backend_claim *, by key: the last with it */
    struct list scans, answered; /* under way; waiting for their reply to leave */
    struct list asking;          /* scans that wait for the evaluator */
    struct list asks;            /* questions to the evaluator */
    struct list folds;           /* enqueues of batched jobs under way */
    struct strmap lanes;         /* batch key → those of them that have it */
    size_t fold_count, fold_bytes;
    bool folds_begin;      /* inside of begin_next */
    struct list successes; /* reports of very many */
    struct list intakes;   /* enqueues about very many jobs, which are looked at */
    size_t intake_count, intake_bytes;
    struct intake *reader; /* the one of them that keeps jobs it has read; NULL: none does */
    bool reading;          /* and is at work */
    enum health health;
    struct err broken;  /* what the store says contradicts itself: the process must end */
    struct err failure; /* iff HEALTH_FAILED */
    bool blind;         /* then: not all of the store could be read, so memory has nothing of it */
    instant retry_reopen; /* iff HEALTH_FAILED */
    instant now;          /* of this turn */
    struct clock clock;
    bool beats; /* the next batch is committed though it is empty: embedded_beats */
    int64_t free_space;
    instant free_space_at;
    enum room room_logged; /* last, and when */
    instant room_logged_at;
    bool more_due, stopping;
    size_t due_count; /* spent on what was due since the last batch was sealed: */
    int64_t due_us;   /* embedded_due.c */
    bool settling;    /* what was released early, in the last turn, is to be reaped */
    bool wake_needed; /* a taker came or was resumed, or a read of events came, since the last turn
                       */
    bool starved;     /* nothing is handed out for lack of space on the disk */
    bool held_back;   /* nor for want of memory, though somebody might be given something */
    uint64_t handout_limit; /* bytes of jobs handed out and not released */
    bool copy_reads;        /* what is read must outlive the turn: no views into its batch */
    struct policies *policies;
    struct missing_logged missing_logged[MISSING_LOGGED_MAX];
    struct ahead ahead;
    struct rebuild *rebuild; /* NULL: none */
    struct index_state index;
    struct damage damage;
    bool hurt; /* a command met damage, and may have left things half done */
    struct events events;
    struct history history;
    struct failure_groups failures;
    struct workers workers;
    struct glob_list crew_reach; /* queues of whoever asks who works on one (embedded_crew.h) */
    struct operations operations;
    struct kv_state kv;
    struct answers_state answers;
    struct trail_state trail;
    struct meter *meter;
    struct histogram commit_times, commit_sizes;
    uint64_t commit_bytes;
    struct buf scratch;  /* for reads from the store */
    uint64_t bytes_read; /* of records, since the start */
    uint64_t gathered;   /* bytes of replies, see backend_gathered */
};

struct backend_stream {
    struct list node;
    struct embedded *b;
    struct taker *taker;
    void (*opened)(void *ctx, const struct err *err);
    void (*deliver)(void *ctx, const struct handout *h);
    void (*closed)(void *ctx);
    void *ctx;
    struct str worker;
    struct glob_list reach;
    bool counted;     /* among those that the worker has open */
    bool quiet;       /* the worker is: it stops the taker, too */
    uint32_t pending; /* deliveries that have not been released */
    uint64_t pending_bytes;
    bool paused; /* by the peer, who does not read */
    bool ahead;  /* too much has not been released; both stop the taker */
    bool open;
    bool opening;       /* opened() is to be called, unless it is closed before */
    struct err refused; /* iff opening: with which error */
};

struct backend_claim {
    struct list node;
    struct embedded *b;
    struct str worker;
    struct glob_list reach;
    bool counted;
    bool repeated;       /* by another claim, which gets what this one got */
    uint64_t key;        /* or 0 */
    struct taker *taker; /* NULL: answered */
    reply_fn done;
    void *ctx;
};

/* embedded.c */
/* Whether a batch is to be committed though it is empty: not before the store takes one. */
static inline bool embedded_beats(const struct embedded *b)
{
    return b->beats && b->health == HEALTH_GOOD;
}

/* Reads b->free_space anew, unless it was read a moment ago. */
void embedded_check_space(struct embedded *b);
/* A reply of the turn that is being built, to be filled in; done gets it once that is durable. */
struct reply *embedded_effect(struct embedded *b, reply_fn done, void *ctx);
/* Nothing of it is stored. */
void embedded_forget_writes(struct turn *t);
/* The next effect of the turn that is being built, still empty. */
struct effect *embedded_effect_add(struct embedded *b);
/* Drops memory, while nothing is being committed: an empty engine is left, and the old one in
 * b->old, to be freed. Commands under way are answered with `why`, and streams are closed. */
void embedded_start_over(struct embedded *b, const struct err *why);
void embedded_old_free(struct embedded *b);

/* embedded_due.c */
/* Does what is due, as far as the batch that is being built takes it. */
NODISCARD struct err embedded_due_advance(struct embedded *b);
/* It takes no more: what is due waits for the end of the commit. */
bool embedded_due_waits(const struct embedded *b);

/* embedded_status.c */
/* For so long a commit has been under way; 0: none is. */
span embedded_commit_age(const struct embedded *b);
/* Answers those who ask for the status while a commit hangs; when that is due. */
void embedded_status_tell(struct embedded *b);
bool embedded_status_due(const struct embedded *b, instant *at);
/* A function of struct backend_vt. */
void embedded_beat(struct backend *base);

/* embedded_clock.c */
void embedded_refresh_now(struct embedded *b);
/* A function of struct backend_vt. */
instant embedded_time(const struct backend *base);
/* Adds the newest instant to what the turn is going to commit, if that is anything. */
void embedded_clock_seal(struct embedded *b, struct turn *t);
/* Lets time go on from the newest instant that was stored, and finishes a correction of jobs that
 * was cut short. To be called before all other recovery. */
NODISCARD struct err embedded_clock_recover(struct embedded *b);
/* To be called after all other recovery. */
void embedded_clock_recovered(struct embedded *b);
/* Which jobs were announced as due, by the newest record of events. */
struct event_mark embedded_clock_mark(const struct embedded *b, struct event_mark stored);
/* Sets the clock back, a slice of it in each call, while nothing is under way. ERR_DISK_FULL: a
 * commit failed. ERR_STORE, ERR_CORRUPT: the process must end, unless what is damaged can be set
 * apart. */
NODISCARD struct err embedded_clock_turn_back(struct embedded *b);
/* Everything was recovered while it was being set back. */
void embedded_clock_recovered_amid(struct embedded *b, const struct err *why);

/* embedded_damage.c */
bool embedded_is_apart(const struct embedded *b, struct id id);
/* A part of the job is missing or broken. It is set apart from the next recovery on. */
void embedded_set_apart(struct embedded *b, struct id id, enum apart_part part);
/* Of a job that is: why nothing can be done with it. */
struct err embedded_apart_error(const struct embedded *b, struct id id);
/* Deletes all that there is of it. */
NODISCARD struct err embedded_apart_remove(struct embedded *b, struct id id);
/* Before all that reads jobs; after all of it. */
NODISCARD struct err embedded_damage_recover(struct embedded *b);
void embedded_damage_recovered(struct embedded *b);
/* An error on its way to who asked: if it is damage that can be set apart, that is done in the next
 * turn, and nothing of this one is committed. */
struct err embedded_met(struct embedded *b, const struct err *err);
/* embedded_command.c: there is no job with that alias. */
struct err embedded_no_alias(struct str alias);
/* Whether damage was found that the next recovery sets apart. */
bool embedded_can_heal(struct embedded *b);
void embedded_damage_fini(struct embedded *b);

/* embedded_recover.c */
void embedded_walk_begin(struct embedded *b, struct embedded_walk *w, struct id from);
/* False at the end, or with an error. What it reads is valid until the next call. */
bool embedded_walk_next(struct embedded_walk *w, struct job *job, struct job_extent *extent,
                        struct err *err);
NODISCARD struct err embedded_walk_end(struct embedded_walk *w);
/* The error that says how much room the disk has, and that it is not enough. */
struct err embedded_no_space(const struct embedded *b);

/* embedded_command.c */
void embedded_submit(struct backend *base, const struct command *c);
uint64_t embedded_gathered(const struct backend *base);
/* Why a command that stores is not accepted now; no error if it is. */
struct err embedded_refuse_to_store(struct embedded *b, enum command_kind kind);
/* Applies an enqueue whose dependencies were looked at, or refuses it for another reason. */
void embedded_enqueue_checked(struct embedded *b, const struct command *c);

/* What handles a command, in the file of its subject. The reply is its own; that of a scan, which
 * answers later, is NULL. */
#define COMMAND(kind, writes, shape, subject, handler)                                             \
    void embedded_##handler(struct embedded *b, const struct command *c, struct reply *r);
#include "core/commands.def"
#undef COMMAND

/* embedded_room.c */
/* Logs it if that has changed. To be called once per turn. */
void embedded_room_log(struct embedded *b);

/* embedded_takers.c */
void embedded_stop(struct backend *base);
struct engine_sink embedded_sink(struct embedded *b);
/* Sends a delivery that is durable, or drops it if its commit failed. */
void embedded_stream_release(struct embedded *b, struct backend_stream *s,
                             const struct handout *handout, bool failed);
/* Answers all claims with an error: no lease can be stored, and no claim waits past its end. */
void embedded_claims_refuse(struct embedded *b, const struct err *why);
/* To be called when the engine is freed, or has closed all takers: answers the claims, with why if
 * it is not NULL. */
void embedded_takers_forget(struct embedded *b, const struct err *why);
/* A worker is quiet from now on, or no longer: streams of it are paused, and claims that wait
 * answered with nothing. */
void embedded_takers_hushed(struct embedded *b, struct str worker, bool quiet);
/* Ends the worker's streams when the turn is durable. */
void embedded_takers_end(struct embedded *b, struct str worker);
/* Those that are being opened are not. */
void embedded_streams_refuse(struct embedded *b, const struct err *why);
/* Ends all streams; their takers are gone. */
void embedded_streams_end(struct embedded *b);
/* Frees all of them without an answer. */
void embedded_takers_free_all(struct embedded *b);
struct backend_stream *embedded_stream_open(struct backend *base, const struct stream_spec *spec);
void embedded_stream_close(struct backend *base, struct backend_stream *s);
void embedded_stream_pause(struct backend *base, struct backend_stream *s, bool paused);
struct backend_claim *embedded_claim(struct backend *base, const struct claim_spec *spec);
void embedded_claim_cancel(struct backend *base, struct backend_claim *c);

/* embedded_recover.c */
struct err embedded_recover(struct embedded *b);
/* The indexes of an empty engine made again in slices of about `most` jobs; *more if it is not
 * done. After an error it is to be dropped. */
NODISCARD struct err embedded_rebuild_begin(struct embedded *b);
NODISCARD struct err embedded_rebuild_step(struct embedded *b, size_t most, bool *more);
void embedded_rebuild_drop(struct embedded *b);

/* embedded_group.c */
void embedded_group_port(struct port *port);
/* To be called before jobs are recovered. */
NODISCARD struct err embedded_group_recover(struct embedded *b);

/* embedded_history.c */
void embedded_history_port(struct port *port);
NODISCARD struct err embedded_history_recover(struct embedded *b);
/* Deletes some of what is over the limit, which may have become lower; true if some is left. */
bool embedded_history_trim(struct embedded *b);

/* embedded_operations.c */
/* Its number; 0: the command is none, or not listed. */
uint64_t embedded_operation_begin(struct embedded *b, const struct command *c);
void embedded_operation_goes_on(struct embedded *b, const struct scan *scan);
void embedded_operation_end(struct embedded *b, const struct scan *scan, const struct err *err);
/* Whether the command is one. */
bool embedded_operation_is(const struct command *c);
/* Answers with one of them. */
void embedded_operation_show(struct embedded *b, uint64_t number, struct reply *r);

/* embedded_workers.c */
/* The only queue at which the claims of quiet workers wait. */
extern const struct str embedded_nowhere;
/* A worker is heard of, as it reports about a run. To be called before the report is applied. */
void embedded_workers_report(struct embedded *b, struct run_ref ref);
NODISCARD struct err embedded_workers_recover(struct embedded *b);

/* embedded_command.c */
/* Carries out a command that is done at once, and answers it. */
void embedded_handle(struct embedded *b, const struct command *c);
/* The same of one that is a part of another: with a reply that the caller answers. */
void embedded_apply(struct embedded *b, const struct command *c, struct reply *r);

/* embedded_trail.c */
/* Records a change with this turn, and returns its number; if it is open, embedded_trail_end is to
 * say when it is over, and how many jobs it was about. */
uint64_t embedded_trail_begin(struct embedded *b, struct str note, bool open);
void embedded_trail_end(struct embedded *b, uint64_t number, uint64_t count);
/* After embedded_kv_recover. */
NODISCARD struct err embedded_trail_recover(struct embedded *b);
/* embedded_failures.c */
void embedded_failures_add(struct embedded *b, const struct history_entry *failed);
NODISCARD struct err embedded_failures_recover(struct embedded *b);
/* Lets go of some of the groups that are too many or too old; true if others are left. */
bool embedded_failures_trim(struct embedded *b);
/* Puts what has changed into the batch of the turn. */
void embedded_failures_seal(struct embedded *b, struct turn *t);
/* Lets go of some of all groups; true if others are left. */
bool embedded_failures_clear(struct embedded *b);

/* embedded_idempotency.c */
/* Whether a request was applied with this key before: then it is answered, as the first time or
 * with ERR_KEY_REUSED, or with an error of reading. */
bool embedded_idempotency_answer(struct embedded *b, const struct command *enqueue);
/* The batch deletes the rows of PostgreSQL's inbox that these came from, if any. */
void embedded_give_receipts(struct embedded *b, const struct enqueue *specs, size_t count);
/* Puts the answer that r gives into the batch, which has what was enqueued. */
void embedded_idempotency_keep(struct embedded *b, const struct idempotency *once,
                               const struct reply *r);
/* A copy in the arena; NULL of NULL. */
const struct idempotency *embedded_idempotency_own(struct arena *a, const struct idempotency *once);

/* embedded_answers.c */
/* Of an entry that is put or deleted: what is counted if it is an answer. */
void embedded_answers_put(struct embedded *b, const struct kv_entry *e);
void embedded_answers_drop(struct embedded *b, const struct kv_entry *e);
/* A new answer is made brief, in the arena, if there is by far no room for it. */
void embedded_answers_fit(struct embedded *b, struct kv_entry *e, struct arena *a);
/* Makes some of the oldest brief, if all together are too much; *more if others are left. */
NODISCARD struct err embedded_answers_shorten(struct embedded *b, bool *more);
NODISCARD struct err embedded_answers_recover(struct embedded *b);

/* embedded_kv.c */
/* In the arena; its version is 0 if there is no such entry, or its time is over. */
NODISCARD struct err embedded_kv_load(struct embedded *b, struct str space, struct str key,
                                      struct arena *a, struct kv_entry *e);
/* Puts an entry, in place of what there is. */
void embedded_kv_keep(struct embedded *b, struct kv_entry *e);
/* Removes what has the entry's space and key, if there is something. */
void embedded_kv_forget(struct embedded *b, const struct kv_entry *e);
NODISCARD struct err embedded_kv_recover(struct embedded *b);
/* To be called when the turn that was being built is on its way. */
void embedded_kv_sealed(struct embedded *b);
/* Deletes some of what has expired; *more if some is left. */
NODISCARD struct err embedded_kv_tidy(struct embedded *b, bool *more);
/* When there may be something to delete; false: that is not known yet. */
bool embedded_kv_due(const struct embedded *b, instant *at);

/* embedded_event_reads.c */
struct event_read *embedded_event_read(struct backend *base, const struct event_read_spec *spec);
void embedded_event_read_cancel(struct backend *base, struct event_read *r);
/* Answers the reads for which there are events. */
void embedded_event_reads_serve(struct embedded *b);
/* Frees all of them without an answer. */
void embedded_event_reads_free_all(struct embedded *b);

/* embedded_meter.c */
void embedded_meter_sealed(struct embedded *b, struct turn *t);
void embedded_meter_durable(struct embedded *b, const struct turn *t);

/* embedded_port.c */
struct port embedded_port(struct embedded *b);
struct engine *embedded_engine_new(struct embedded *b);
/* Closes the cursor that reads ahead: now and then, and before the store is reopened or closed. */
void embedded_ahead_close(struct embedded *b);
/* What was last written under the key, durable or not; in the arena, or valid for this turn. */
struct err embedded_read_at(struct embedded *b, struct str key, struct arena *a, bool *found,
                            struct str *value);
struct err embedded_read_key(struct embedded *b, struct record_key key, struct arena *a,
                             bool *found, struct str *value);
/* A run that has ended. ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORE. Its strings live in the arena. */
struct err embedded_load_run(struct embedded *b, struct id id, uint32_t index, struct arena *a,
                             struct run *run);

/* embedded_ask.c */
struct ask;
typedef void (*answer_fn)(void *owner, const struct err *err, const struct eval_answer *answers,
                          size_t count, span spent);
/* Asks the evaluator; fills in done and ctx of r. *out is valid until done is called. `spent` is
 * how long expressions have run for this request already; with no time left the answer is an error.
 * ERR_NOT_SUPPORTED if there is none, ERR_BUSY, ERR_INTERNAL: then done is not called. */
struct err embedded_ask(struct embedded *b, struct eval_request *r, span spent, void *owner,
                        answer_fn done, struct ask **out);
/* To be called when the owner is freed: done will not be called. NULL is fine. */
void embedded_ask_cancel(struct ask *ask);
/* Frees all of them; the evaluator must not answer any more. */
void embedded_ask_free_all(struct embedded *b);

/* embedded_intake.c */
/* A copy in the arena. */
struct enqueue embedded_own_spec(struct arena *a, const struct enqueue *spec);
/* Likewise, without the payload. */
struct job embedded_own_job(struct arena *a, const struct job *from);
/* The same of the jobs of cron entries, and all else of their put. */
struct cron_put *embedded_own_put(struct arena *a, const struct cron_put *put);
/* Whether the jobs of an enqueue wait for so many others that looking at these takes several turns.
 */
bool embedded_intake_is_wanted(const struct embedded *b, const struct command *c);
/* What load_job read, if one is to keep it; what was kept, if it is to have it again; and that it
 * has changed. */
void embedded_intake_keep(struct embedded *b, const struct job *job,
                          const struct job_extent *extent);
bool embedded_intake_kept(const struct embedded *b, struct id id, struct arena *a, struct job *job,
                          struct job_extent *extent);
void embedded_intake_changed(struct embedded *b, struct id id);
void embedded_intake_start(struct embedded *b, const struct command *c);
/* Works on them for a bounded time. They answer through effects. */
NODISCARD struct err embedded_intake_step(struct embedded *b);
void embedded_intake_abort_all(struct embedded *b, const struct err *why);
/* Frees all of them without an answer. */
void embedded_intake_free_all(struct embedded *b);

/* embedded_successes.c */
/* Works on them for a bounded time. They answer through effects. */
void embedded_successes_step(struct embedded *b);
void embedded_successes_abort_all(struct embedded *b, const struct err *why);
/* Frees all of them without an answer. */
void embedded_successes_free_all(struct embedded *b);

/* embedded_fold.c */
/* Whether any job of an enqueue is batched. */
bool embedded_fold_is_wanted(const struct command *c);
void embedded_fold_start(struct embedded *b, const struct command *c);
/* A tick of a cron entry, as engine_sink.tick says. If its expressions fail it becomes a job of its
 * own, which is logged. */
void embedded_fold_tick(void *ctx, struct id entry, uint64_t number, const struct enqueue *job);
/* Whether any entry of a put is batched: then its expressions are run once before it is applied. */
bool embedded_fold_is_wanted_by_put(const struct cron_put *put);
void embedded_fold_start_put(struct embedded *b, const struct command *c);
void embedded_fold_abort_all(struct embedded *b, const struct err *why);
/* Frees all of them without an answer. */
void embedded_fold_free_all(struct embedded *b);

/* embedded_filter.c */
struct chunk *embedded_chunk_new(struct embedded *b);
void embedded_chunk_free(struct chunk *c);
bool embedded_chunk_is_full(const struct chunk *c);
/* For the payloads of what is added. */
struct arena *embedded_chunk_arena(struct chunk *c);
void embedded_chunk_add(struct scan *scan, const struct job *job);
/* To be called at the end of the walk: the scan ends, unless jobs are still to be judged. */
void embedded_chunk_at_end(struct scan *scan);
/* Whether the evaluator is to be asked now. While it is asked the scan gets no turns. */
bool embedded_chunk_is_due(const struct scan *scan);
struct err embedded_chunk_ask(struct embedded *b, struct scan *scan);
/* Uses the jobs that were judged. */
struct err embedded_chunk_use(struct embedded *b, struct scan *scan, struct arena *scratch);

/* embedded_match.c */
/* Whether the filter may match a job of which only its first record was read. */
bool embedded_match_enqueued(const struct job_filter *f, const struct job *job);
/* Whether the filter matches this job, as engine_read gave it, apart from its expression. */
struct err embedded_match(struct embedded *b, const struct job_filter *f, const struct job *job,
                          const struct job_extent *extent, struct arena *scratch, bool *match);
/* Adds the error that a dead job died of, or the worker that holds one in flight; in that arena. */
struct err embedded_add_error(struct embedded *b, struct job *job, const struct job_extent *extent,
                              struct arena *scratch, struct arena *a);

/* What a page may have of payloads, or of what failures say; it ends early rather than take more.
 */
#define PAGE_BYTES_MAX ((size_t)16 << 20)

/* embedded_runs.c */
/* Adds the newest runs of a job to what was read of it, `ended` of which have ended. */
void embedded_read_runs(struct embedded *b, struct id id, uint32_t ended, struct reply *r);

/* embedded_query.c */
/* A scan of that command, which gets its turns from now on. */
struct scan *embedded_scan_new(struct embedded *b, const struct command *c);
/* Applies a bulk change to one job. */
NODISCARD struct err embedded_scan_change(struct embedded *b, struct scan *scan, struct id id,
                                          struct arena *scratch);
/* Reads the job as it is now, with payload if the scan keeps or judges it; *wanted is false if it
 * is gone or does not match. */
struct err embedded_scan_read(struct embedded *b, struct scan *scan, struct id id,
                              struct arena *scratch, struct job *job, bool *wanted);
/* Lists, counts or removes the job; true if the scan is complete with it. */
bool embedded_scan_use(struct embedded *b, struct scan *scan, const struct job *job,
                       struct arena *scratch, struct err *err);
/* Works on the scans for a bounded time; they answer through effects. */
struct err embedded_scan_step(struct embedded *b);
/* Answers the scan that is this operation with what it has done so far; false: it is over. */
bool embedded_scan_stop(struct embedded *b, uint64_t operation);
void embedded_scan_abort_all(struct embedded *b, const struct err *why);
/* Frees all scans without an answer. */
void embedded_scan_free_all(struct embedded *b);

/* embedded_cron.c */
void embedded_cron_port(struct port *port);
struct err embedded_cron_recover(struct embedded *b);

/* embedded_queue.c */
void embedded_queue_port(struct port *port);
/* embedded_budget.c */
void embedded_budget_port(struct port *port);
struct err embedded_budget_recover(struct embedded *b);
/* To be called before jobs are recovered. */
struct err embedded_queue_recover(struct embedded *b);

/* embedded_policy.c */
/* ERR_UNPROCESSABLE if jobs to be added name policies that do not exist. */
struct err embedded_policy_check(const struct embedded *b, const struct command *c);
void embedded_policy_port(struct port *port);
struct err embedded_policy_recover(struct embedded *b);
/* Copies, as long as the turn's memory lives; `most` of them at most. */
struct standing_warnings embedded_policy_warnings(struct embedded *b, struct standing_warnings of,
                                                  size_t most);
/* Adds the warnings about what judges that job. */
void embedded_judges_warn(struct embedded *b, const struct job *job, struct judges *j);

/* embedded_snapshot.c */
/* Restores jobs from the snapshot, if there is one that can be used; otherwise *done is false, and
 * nothing was restored. An error is one of reading jobs. */
NODISCARD struct err embedded_index_restore(struct embedded *b, bool *done);
/* Jobs were restored without it. */
void embedded_index_missed(struct embedded *b);
/* Each turn: begins one, goes on, or ends it. */
void embedded_index_step(struct embedded *b);
/* The batch of t is about to be committed. */
void embedded_index_sealed(struct embedded *b, const struct turn *t);
/* To be called before the engine goes: what is under way is given up. */
void embedded_index_drop(struct embedded *b);
/* The same, if the one that is finished is of no use any more either. */
void embedded_index_let_go(struct embedded *b);
/* Whether there is something to do, and when. */
bool embedded_index_due(const struct embedded *b, instant *at);
/* Whether a stop need not wait for one. */
bool embedded_index_is_idle(const struct embedded *b);

#endif
