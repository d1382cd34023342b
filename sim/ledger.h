/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

/* What the clients of a simulation know: every job they requested, every run that was handed to
 * them, everything they asked to be done, what was acknowledged, and what is in doubt because the
 * answer was lost. From that alone it judges whether the server keeps its promises; it shares no
 * code with the engine.
 *
 * An acknowledged fact carries the sequence number of its acknowledgement. When a crash destroys
 * the unsynced tail (only if the operator chose that), facts newer than the last sync are in doubt
 * again.
 *
 * Promises by name: I1 acknowledged is durable, I2 no job is lost, I3 one live run, I4 terminal is
 * final, I5 ready jobs are delivered; and of the Jobs API: ORDER, UNIQUE, PREFETCH, READY_AT,
 * LEASE, RETRY, REASON, COUNT, LIST, REPLY, VALUE (a job comes back as it was given), ATOMIC,
 * FOLD. */

#include "backend/backend.h"
#include "base/idmap.h"

enum certainty { NO, MAYBE, YES };

enum end_kind { END_SUCCEED, END_FAIL, END_RELEASE, END_CANCEL };

#define NODES 2

/* Retry policies, invented by the simulation. */
#define POLICIES     3
#define POLICY_RULES 3
#define MATCHERS     7 /* kinds of rule, see policy.c */

enum maction { ACTION_NONE, ACTION_RETRY, ACTION_FAIL };
struct mbackoff {
    bool stated;
    int64_t initial, most; /* ms; doubled each time */
    bool full;             /* full jitter: any part of the delay */
};
/* Whether a retry must avoid the node of the failure: ms, or one of these. */
#define AVOID_UNSTATED (-2)
#define AVOID_NOT      (-1)
struct mrule {
    int64_t avoid;
    unsigned matcher;
    enum maction action;
    int64_t limit; /* -1: not stated */
    struct mbackoff backoff;
};
struct mpolicy {
    int64_t avoid;
    int64_t limit;
    enum maction default_action;
    struct mbackoff backoff;
    struct mrule rules[POLICY_RULES];
    unsigned rule_count;
};

/* Server-wide settings that were requested. */
struct msetting {
    instant at;
    bool enabled;
    int64_t most;
    unsigned exempt;                    /* bits POLICY_EXEMPT_… */
    enum retry_fallback when_no_policy; /* never UNSET */
    uint64_t seq;                       /* of the acknowledgement, or 0 */
};

/* Settings requested for a queue. */
#define LIMITED 4 /* queues */
#define CKEYS   3 /* concurrency keys, from 1 */
struct mlimit {
    bool paused;
    uint64_t concurrency, per_key; /* 0: any number */
    int64_t rate, per_ms, burst;   /* rate 0: none */
    uint64_t in_flight;            /* from limit_read */
    instant at;
    uint64_t seq; /* of the acknowledgement, or 0 */
};
struct mlimits {
    struct mlimit *asked;
    size_t count, cap;
    instant *taken; /* hand-outs since the last request, as far as they are certain */
    size_t taken_count, taken_cap;
};

/* A report that would end a run. */
struct mend {
    enum end_kind kind;
    uint64_t token; /* 0: whatever run is live */
    instant at;
    enum { ASKED, OK, REFUSED, DOUBT } how;
    uint64_t seq; /* of the acknowledgement, iff OK */
    bool kill;
    bool later; /* it may be done some time after it was asked */
    bool old;   /* before a rerun */
    instant retry_at;
    int32_t exit_code;
    enum condition condition;
    enum outcome exception; /* or 0 */
    unsigned node;          /* that the report names; 0: none */
    span grace;             /* how long the run may continue */
};

struct mstream;

/* A run that was handed to a client. */
struct mrun {
    uint32_t index;
    uint64_t token;
    instant taken_at, lease_end; /* the last acknowledged end, or none */
    instant lease_min;           /* it cannot expire earlier, whatever happened to renewals */
    struct mstream *stream;      /* NULL: leased */
    uint64_t seq, key;           /* key: of the claim, if it can be repeated */
    unsigned node;
    unsigned renewals; /* requested and not answered yet */
    bool spoken;       /* its holder may have said something of it */
    bool adopted;      /* the first that was heard of it was that a worker has it */
    uint64_t wanted;   /* the newest claim that must get it again, as far as was known; or 0 */
    bool confirmed;    /* it has, as was acknowledged */
    bool end_asked;    /* something that may have ended it was requested */
    uint64_t over_seq; /* when it was known to be over; 0: it is not */
    bool over_for_good;
    bool doubt; /* its beginning was lost with an unsynced tail */
};

struct mjob {
    uint64_t serial, group; /* group: enqueued by one command, all or none */
    struct id id;           /* none until it is known */
    unsigned queue, type;
    uint16_t priority;
    instant asked_at, ready_at;
    int64_t retry_limit;
    instant deadline;        /* or 0 */
    instant retain_until;    /* or 0 */
    bool hold;               /* it is blocked until it is freed */
    bool pending_runs;       /* its runs begin when it becomes ready */
    bool uncanceled;         /* such a run may have ended by a cancel that was undone */
    uint64_t undeleted_seq;  /* when the newest deletion of it was undone, or 0 */
    uint64_t uncanceled_seq; /* likewise the newest cancel of it, */
    instant uncanceled_at;   /* which was then */
    unsigned no_policy;      /* enum retry_fallback: what it says itself */
    struct curve backoff;
    span completed_retention, dead_retention;
    struct str payload;
    unsigned cron;  /* its entry, from 1; 0: requested by a client */
    uint64_t ticks; /* folded into it, by its payload; 0: it is no job of a batched entry */
    unsigned key;   /* unique key; 0: none */
    enum unique unique_while;
    unsigned alias;     /* 0: none */
    bool duplicate;     /* not added, another job has its key or alias */
    enum status status; /* in the current audit, iff seen */
    uint32_t run_total; /* likewise */
    enum certainty exists;
    uint64_t seq;
    bool in_bulk;              /* patching or reruns includes a bulk change in progress */
    unsigned patching, reruns; /* requested and not answered yet */
    unsigned loose, patched;   /* PATCH_ bits: currently unknown; ever requested */
    unsigned queues_asked, priorities_asked; /* bits */
    uint16_t first_priority;
    uint64_t patch_seq, rerun_seq; /* of the newest acknowledgement */
    bool rerun_ever, rerun_doubt;  /* requested; whether it was done is not known */
    uint32_t forgiven, first_run;  /* by the newest rerun; the first run after it */
    uint32_t failures;             /* since the newest rerun, before first_run */
    bool never;                    /* it turned out not to have been stored */
    unsigned removals;             /* requested and not answered yet */
    bool awaited; /* others wait for it, or did: dead it is kept as long as they do */
    bool may_vanish;
    uint64_t gone_seq; /* known to be gone */
    uint64_t ended_seq;
    enum status ended;     /* iff ended_seq */
    instant purge_at;      /* iff ended_seq */
    instant blind_renewal; /* the newest that named no run, or none */
    unsigned ghosts;       /* claims whose answer was lost may have taken it */
    unsigned unknown_runs; /* at the last audit */
    struct mrun *runs;
    size_t run_count, run_cap;
    struct mend *ends;
    size_t end_count, end_cap;
    instant terminated_at; /* when a client may first have reported the end of a preempted run */
    struct mjob *deps[3];  /* its dependencies */
    unsigned dep_count, depend_when, depend_death;
    unsigned member_of;         /* group; 0: none */
    unsigned ckey;              /* concurrency key; 0: none */
    unsigned budget;            /* what it draws on which, see ledger_budget.c; 0: nothing */
    bool freed;                 /* a client may have removed its dependencies */
    bool held;                  /* by the audit that goes on */
    unsigned waits_for;         /* in the current audit: bits of deps */
    enum resolution resolution; /* likewise */
    unsigned gang;              /* number from 1; 0: none */
    uint64_t gang_generation;   /* in the current audit, like what follows */
    bool gang_alone;
    bool is_waited_for;  /* by the gang that is looked at */
    instant avoid_until; /* or 0 */
    instant dequeued_at;
    unsigned adds_policy; /* from 1; 0: none */
    bool late;            /* enqueued some time after the request, when everything was evaluated */
    unsigned batch;       /* batch key; 0: none. What follows is about batched jobs */
    bool looked;     /* enqueued with others that were looked at first: later ones overtake it */
    bool shut;       /* nothing may be folded into it, because it waits for its time */
    uint64_t *items; /* numbers of the items in its payload, as far as it was ever seen */
    size_t item_count, item_cap;
    uint64_t final_seq; /* when it was handed out, after which it must not change; 0: never */
    struct mjob *in;    /* in whose payload it was seen; itself: it is a job */
    bool folded, refused;
    struct id into;    /* iff folded */
    uint64_t item_seq; /* when it was folded or seen */
    uint64_t walked;   /* the newest walk that met it */
    bool seen;         /* by the current audit */
};

struct mstream {
    uint64_t serial;
    unsigned node;
    uint32_t prefetch;
    unsigned queues;           /* bits; 0: all */
    bool open, opened, paused; /* opened: it was told so */
    struct backend_stream *handle;
    struct sim *sim;
};

/* Budgets: the last one is time-based. A job costs at most BUDGET_LEAST of each. */
#define BUDGETS            3
#define BUDGET_KINDS       8
#define BUDGET_LEAST       3
#define BUDGET_TIMED_COUNT 4
#define BUDGET_TIMED_MS    1000
#define BUDGET_TIMED_BURST 3

struct ledger {
    struct mjob **jobs;
    size_t count, cap;
    struct idmap by_id;
    uint64_t seq, safe_seq;
    bool sync; /* acknowledged means safe */
    struct engine_settings settings;
    unsigned cron_key; /* of a cron entry's jobs; 0: none */
    unsigned claims;   /* unanswered: each may have leased any job, and lost it again */
    uint64_t *tokens;  /* all tokens ever seen, sorted */
    size_t token_count, token_cap;
    bool has_policies;
    struct mpolicy policies[POLICIES];
    unsigned queue_policies[4][2], default_policy; /* from 1; 0: none */
    enum retry_fallback queue_fallback[4];
    struct mlimits limits[LIMITED];
    uint64_t budget_most[BUDGETS]; /* that anybody gave them */
    struct {
        bool unknown; /* it may have another policy, or may have been full meanwhile */
        struct {
            instant at;
            int64_t cost;
        } * at;
        size_t count, cap;
        size_t boots; /* by then */
    } timed;          /* what was drawn on the time-based one */
    struct msetting *settings_seen;
    size_t setting_count, setting_cap;
    instant *boots;
    size_t boot_count, boot_cap;
    instant lost_at; /* when answers were last lost, or none */
    struct {
        bool running, reruns;
        unsigned type, queue;
        struct patch patch; /* unless reruns */
    } bulk;                 /* a bulk change in progress */
};

void ledger_init(struct ledger *l, const struct engine_settings *settings, bool sync);
void ledger_fini(struct ledger *l);

/* A job is about to be requested; spec's strings are copied. */
struct mjob *ledger_add(struct ledger *l, const struct enqueue *spec, unsigned queue, unsigned type,
                        uint64_t group, instant now);
struct mjob *ledger_find(const struct ledger *l, struct id id);
/* The job that an answer of the server is about: checks what must not change, and records it. */
struct mjob *ledger_see(struct ledger *l, const struct job *job, bool with_payload, instant now);
void ledger_acked(struct ledger *l, struct mjob *m, const struct job *job, instant now);

/* A job that certainly holds the key, or NULL. */
const struct mjob *ledger_key_holder(const struct ledger *l, unsigned key, instant now);
/* The same for an alias. */
const struct mjob *ledger_alias_holder(const struct ledger *l, unsigned alias, instant now);
/* A job that was requested at `at`, when the ledger stood at seq, was not added because of the
 * holder. */
void ledger_duplicate(struct ledger *l, struct mjob *asked, const struct job *holder, uint64_t seq,
                      instant at);
/* After a full audit: whether a job has the key. */
bool ledger_has_holder(const struct ledger *l, unsigned key);
bool ledger_has_alias(const struct ledger *l, unsigned alias);
/* After a full audit: one job per key or alias, except for jobs that may release a key and take it
 * again. */
void ledger_check_holders(const struct ledger *l);

/* --- batched jobs, in ledger_fold.c --- */
/* A payload that was read, perhaps some time ago; returns its number of items. */
size_t ledger_fold_see(struct ledger *l, struct mjob *m, struct str payload);
/* The payload as it is now: nothing that was acknowledged may be missing. */
void ledger_fold_whole(struct ledger *l, struct mjob *m, struct str payload);
/* The item was acknowledged as folded into the job; it was requested when the ledger stood at
 * seq. */
void ledger_folded(struct ledger *l, struct mjob *item, const struct job *job, uint64_t seq);
/* It must never be seen anywhere. */
void ledger_refused(struct mjob *item);
void ledger_fold_check_groups(const struct ledger *l);
void ledger_folds_lost(struct ledger *l);

/* --- jobs that wait for others, in ledger_depend.c --- */
void ledger_depend_handed(const struct ledger *l, const struct mjob *m, instant now);
/* The job as it was read in this audit. */
void ledger_depend_note(struct mjob *m, const struct job *job);
/* After a full audit. */
void ledger_depend_check(const struct ledger *l, instant now);

/* --- budgets, in ledger_budget.c --- */
/* The bindings of a kind of job, from 1; and back. */
struct str ledger_budget_text(unsigned kind);
unsigned ledger_budget_kind(struct str text);
void ledger_budget_asked(struct ledger *l, unsigned budget, uint32_t allocation);
void ledger_budgets_free(struct ledger *l);
void ledger_budget_handed(struct ledger *l, const struct mjob *m, instant at, instant now);
/* In an audit: how many unfinished jobs draw on it, and how much those in flight have. */
void ledger_budget_seen(const struct ledger *l, unsigned budget, uint64_t *jobs, uint64_t *drawn);

/* --- limits of queues, in ledger_limit.c --- */
size_t ledger_limit_asked(struct ledger *l, unsigned queue, const struct mlimit *limit,
                          instant now);
void ledger_limit_acked(struct ledger *l, unsigned queue, size_t limit);
void ledger_limits_lost(struct ledger *l);
void ledger_limits_free(struct ledger *l);
/* A job was handed out from the queue at that time. */
void ledger_limit_handed(struct ledger *l, const struct mjob *m, unsigned queue, instant at,
                         instant now);
/* After a full audit: whether a job of the queue is ready that its key does not hold back. */
bool ledger_limit_has_ready(const struct ledger *l, unsigned queue, const struct mlimit *limit,
                            instant now);
/* The queue reports that these limits are in force. */
void ledger_limit_check(struct ledger *l, unsigned queue, const struct mlimit *is, instant now);

/* --- retry policies, in ledger_policy.c --- */
/* Its `at` and `seq` are ignored. */
size_t ledger_setting_asked(struct ledger *l, const struct msetting *setting, instant now);
void ledger_setting_acked(struct ledger *l, size_t setting);
void ledger_settings_lost(struct ledger *l);
/* Whether the job died of that run, since its retry would have begun after the deadline. */
bool ledger_is_too_late(const struct mjob *m, const struct run *run);
void ledger_policy_audit(const struct ledger *l, const struct mjob *m, const struct job *job,
                         const struct reply *runs);
/* Consecutive runs that lost their worker: up to the limit, and no more. */
void ledger_poison_audit(const struct ledger *l, const struct mjob *m, const struct job *job,
                         const struct reply *runs);
/* What a run is that ended by this report. */
enum outcome ledger_outcome(const struct mend *e);
/* An exception after which another run would find the same. */
bool ledger_is_final(enum outcome o);
/* Whether something besides the known retry limit decides when a job is dead. */
bool ledger_limit_is_open(const struct ledger *l, const struct mjob *m);

/* --- ticks, in ledger_cron.c --- */
int64_t ledger_cron_period(unsigned entry);
/* The server started; and whether it skips missed ticks. */
void ledger_booted(struct ledger *l, instant now);
/* A job of the entry was seen for the first time: records it as the job of a tick. */
struct mjob *ledger_add_tick(struct ledger *l, unsigned entry, const struct job *job);
/* The payload of a job into which ticks are folded, as it was read, maybe some time ago; and as it
 * is now. CRON: each tick brings one item, whatever fails, until the job is handed out. */
void ledger_ticks_see(struct mjob *m, struct str payload, instant now);
void ledger_ticks_whole(struct mjob *m, struct str payload, instant now);
/* After a full audit: the entry reports that it enqueued at that time. */
void ledger_check_fired(const struct ledger *l, unsigned entry, instant at, instant now);

/* --- patches and reruns, in ledger_change.c --- */
void ledger_patch_asked(struct mjob *m, const struct patch *p, unsigned queue);
void ledger_patch_over(struct ledger *l, struct mjob *m, const struct patch *p, unsigned queue,
                       bool done);
void ledger_rerun_asked(struct mjob *m);
void ledger_rerun_over(struct mjob *m, bool doubt);
/* A rerun was acknowledged: reports before the first `ends` are of the job's earlier life. */
void ledger_rerun(struct ledger *l, struct mjob *m, const struct job_state *st, size_t ends);
/* A rerun may have been done or not: nothing is known about the status. */
bool ledger_is_foggy(const struct mjob *m);
void ledger_runs_over(struct ledger *l, struct mjob *m);
/* Nothing is in progress: what was read is the present state. */
void ledger_clear_up(struct ledger *l, struct mjob *m, const struct job *job);
void ledger_changes_lost(struct ledger *l, struct mjob *m);

/* A bulk change begins: a patch, or without one a rerun. Until it is over, it may be applied to any
 * job of the type, and nobody is told to which. */
void ledger_bulk_begin(struct ledger *l, const struct patch *p, unsigned queue, unsigned type);
void ledger_bulk_join(const struct ledger *l, struct mjob *m);
void ledger_bulk_end(struct ledger *l);

/* A run was handed over. */
void ledger_handed(struct ledger *l, const struct handout *h, struct mstream *s, span lease,
                   instant now);
struct mrun *ledger_run(const struct mjob *m, uint64_t token);
/* Whether the run is live. */
enum certainty ledger_live(const struct mjob *m, const struct mrun *r, instant now);
/* Whether the job can still be read. */
enum certainty ledger_there(const struct ledger *l, const struct mjob *m, instant now);
/* Whether the job may have reached a terminal status of that kind. */
/* Whether it may be dead because it was held, or its gang lacked members, for too long. */
bool ledger_may_wait_out(const struct ledger *l, const struct mjob *m);
/* Whether another member of its gang may be dead, and so all of it. */
bool ledger_may_fall(const struct ledger *l, const struct mjob *m, instant now);
bool ledger_may_end(const struct ledger *l, const struct mjob *m, enum status s, instant now);

struct mend *ledger_ask_end(struct mjob *m, enum end_kind kind, uint64_t token, instant now);
void ledger_end_acked(struct ledger *l, struct mjob *m, size_t end);
void ledger_end_refused(struct mjob *m, size_t end, bool certain);
/* Whether the same was reported about the same run before, and not refused. */
bool ledger_was_reported(const struct mjob *m, size_t end);
void ledger_ended(struct ledger *l, struct mjob *m, enum status s, instant at);
void ledger_gone(struct ledger *l, struct mjob *m);
void ledger_stream_over(struct ledger *l, const struct mstream *s);
/* How many jobs the stream holds: certainly; and after a full audit. */
uint32_t ledger_held(const struct ledger *l, const struct mstream *s, instant now);
uint32_t ledger_holds(const struct ledger *l, const struct mstream *s);

/* A deletion or a cancel of all waiting jobs of a type, which began at `at`, was undone: what is
 * not safe may be lost, and the change stay. The deletion was also of those that had ended; with
 * `gangs` members of gangs may have been left canceled. */
void ledger_deletion_undone(struct ledger *l, unsigned type);
void ledger_cancel_undone(struct ledger *l, unsigned type, instant at, bool gangs);
/* Answers to claims were lost: there may be runs that nobody knows of. */
void ledger_answers_lost(struct ledger *l, instant now, unsigned claims);
/* Everything that was acknowledged is safe now. */
void ledger_synced(struct ledger *l);
/* The unsynced tail is lost. */
void ledger_tail_lost(struct ledger *l);

/* Judges a job and all its runs, read at one moment; resolves what is in doubt. */
void ledger_audit(struct ledger *l, struct mjob *m, const struct reply *read,
                  const struct reply *runs, instant now);
/* No job with that id was found. */
void ledger_missing(struct ledger *l, struct mjob *m, instant now);
/* The status that an answer states. */
void ledger_check_status(struct ledger *l, struct mjob *m, const struct job *job, instant now);
/* Groups are stored whole or not at all. */
void ledger_check_groups(const struct ledger *l);

#endif
