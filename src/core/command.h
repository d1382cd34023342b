/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COMMAND_H
#define CORE_COMMAND_H

/* The commands to a backend and its replies: values only, so that the backend may be in another
 * process. commands.def lists the kinds. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/glob.h"
#include "core/backlog.h"
#include "core/crons.h"
#include "core/enqueue.h"
#include "core/event.h"
#include "core/explain.h"
#include "core/group.h"
#include "core/job.h"
#include "core/kv.h"
#include "core/queue.h"
#include "core/standing_warning.h"

struct backend_meter;
struct categorizer;
struct failures_page;
struct failures_query;
struct policy;
struct policy_change;
struct policy_settings_view;
struct simulate_job;
struct history_entry;
struct idempotency;
struct bulk_operation;
struct worker_view;
struct worker_greeting;
struct workers_query;
struct simulate_result;

enum command_kind {
#define COMMAND(kind, writes, shape, subject, handler) CMD_##kind,
#include "core/commands.def"
#undef COMMAND
};
enum {
    COMMAND_COUNT = 0
#define COMMAND(kind, writes, shape, subject, handler) +1
#include "core/commands.def"
#undef COMMAND
};

/* Inclusive at both ends; not set: any value. */
struct range {
    bool set;
    int64_t lo, hi;
};

/* Selects jobs for a list, a count or a removal; an empty list means any. */
struct job_filter {
    const struct id *ids;
    size_t id_count;
    const struct str *queues, *types;
    size_t queue_count, type_count;
    unsigned statuses;         /* bits 1 << enum status; 0: any */
    unsigned resolutions;      /* bits 1 << enum resolution; 0: any */
    instant since;             /* enqueued, taken, failed or completed since then; 0: any time */
    const struct str *workers; /* of the newest run */
    size_t worker_count;
    const struct str *budgets; /* it draws on one of them */
    size_t budget_count;
    struct str error; /* the newest run that has ended failed with this in its message or type */
    struct str error_type;  /* it failed with this very one */
    uint64_t failure_group; /* it failed like these (core/fingerprint.h); 0: any */
    struct range priority, ready_at, attempts;
    struct range enqueued_at, failed_at; /* failed_at: of its newest failure; without one none */
    struct id_place depends_on;          /* if set: it was enqueued to wait for this job */
    struct str group;                    /* only its jobs; empty: any */
    struct str expression;  /* jq, about the payload; empty: none. ERR_BAD_VALUE if it is invalid */
    struct glob_list reach; /* only jobs in such queues; none: in any */
};

struct list_command {
    struct job_filter filter;
    struct id_place from; /* exclusive */
    bool backwards;
    uint32_t limit;
    uint32_t look_max; /* LIST: ends with reply.more after reading this many jobs; 0: never */
    bool no_payload;   /* LIST: without payloads */
    bool dry_run;      /* _WHERE: change nothing; reply.jobs is a sample of limit jobs */
    bool may_rerun;    /* LIST: only those that RERUN_WHERE would bring back */
    const struct patch *patch; /* for CMD_PATCH_WHERE */
    uint32_t per_second; /* for CMD_RERUN_WHERE: how many become ready per second; 0: all at once */
    uint32_t ids_max;    /* for CMD_CANCEL_WHERE: the maximum length of reply.ids */
    span undo; /* _WHERE: so long afterwards the change can be undone, which reply.operation names;
                * 0: never. ERR_UNDO_FULL, also when some of the jobs are changed */
};

/* The position of a job in the ready order of its queue, while it is ready: the list continues
 * after it. Only the engine knows its contents. */
struct ready_place {
    bool set; /* otherwise: before the first */
    uint32_t rank;
    struct id id;
};

/* CMD_PEEK: the jobs of a queue that would be handed out next. */
struct peek_command {
    struct str queue;
    struct range priority;
    struct ready_place from; /* exclusive */
    uint32_t limit;          /* 1 to PEEK_MAX; a page of large payloads ends earlier */
    bool with_payload;
    bool tasks; /* only those of KIND_TASK */
};
#define PEEK_MAX 100

/* CMD_WINDOW: a part of a list that operators watch (core/engine_window.h). */
enum window_anchor {
    WINDOW_HEAD,
    WINDOW_TAIL,
    WINDOW_OFFSET,   /* from the place `offset` on */
    WINDOW_AROUND,   /* the job `id` in the middle */
    WINDOW_NEXT,     /* likewise the first job behind `id` of those queues and types */
    WINDOW_PREVIOUS, /* the last one before it; of an id that is not in the list: of all */
    WINDOW_NOWHERE
};
#define WINDOW_MAX   500
#define WINDOW_REACH 5000
struct window_command {
    enum status status; /* ready, in_flight, scheduled */
    enum window_anchor anchor;
    enum window_anchor fallback; /* HEAD, TAIL, NOWHERE: where no such job is found */
    uint64_t offset;
    struct id id;
    const struct str *queues, *types; /* count 0: any */
    size_t queue_count, type_count;
    uint32_t limit; /* 1 to WINDOW_MAX */
    bool with_payload;
};

/* Names the run that a report is about. The run of a claim needs its token; that of a stream may
 * be named by its token, by its index, by both, or not at all. */
struct run_ref {
    struct id id;
    uint64_t token; /* or 0 */
    bool by_index;
    uint32_t index;    /* iff by_index */
    bool vouched;      /* the front end knows who holds the run: it needs no token */
    bool listed;       /* by its id in a list that has no place for tokens */
    struct str worker; /* that reports, or empty */
};

/* Of many leases that are renewed at once: one, and what became of it. */
struct renewal {
    struct run_ref run;
    span lease;
};
struct renewed {
    struct id id;
    instant lease_end; /* iff it was renewed */
    enum err_code code;
    struct str message; /* iff it was not */
};

/* The answer to CMD_SUCCEED_MANY has those that were refused, as struct renewed; so many of them
 * with a message. */
#define SUCCESS_REASONS_MAX 10000

/* Of many reports of all kinds that come at once: one, and what became of it. The memory of what
 * they refer to lasts until they are answered. */
struct run_report {
    enum command_kind kind; /* SUCCEED, FAIL, RELEASE, PROGRESS, RENEW */
    struct run_ref run;
    uint32_t same_as;      /* 0, or 1 + the place of an earlier one that ends this run alike */
    enum err_code refused; /* by the front end already */
    struct str message;    /* why it was; RELEASE: as command.why */
    union {
        const struct failure_report *failure; /* FAIL; its ref is that of the run */
        span lease;                           /* RENEW */
        struct {
            instant not_before; /* RELEASE: as in command */
            span delay;
        };
    };
    const struct news *news; /* as in command */
};
struct reported {
    struct id id;
    enum err_code code;
    struct str message;    /* iff it was refused */
    instant lease_end;     /* RENEW: the new one */
    const struct job *job; /* FAIL: afterwards, without its payload; else NULL */
};

/* A claim of one given job. */
struct job_claim {
    struct id id;
    bool any_run; /* otherwise the run that begins must have this index: */
    uint32_t run;
    struct str worker, node; /* or empty; a worker without a name cannot repeat a claim */
    span lease;
    span max_run; /* that the run may take; 0: the claim does not say */
};

struct failure_report {
    struct run_ref ref;
    struct failure failure;
    enum outcome exception; /* or 0: the work itself failed */
    bool kill;
    instant retry_at; /* or none */
    span grace;       /* how long the run may continue; 0: it has ended; negative: not stated */
};

/* What a worker stores with its job while it holds it. */
struct news {
    bool has_progress, has_checkpoint;
    bool progress_event; /* consumers of events are told of the progress, too */
    double progress;     /* 0 to 1 */
    struct str progress_note;
    struct str checkpoint; /* JSON; empty: delete it */
    struct str result;     /* JSON; empty: none */
};

enum patch_field {
    PATCH_QUEUE = 1,
    PATCH_PRIORITY = 2,
    PATCH_READY_AT = 4,
    PATCH_RETRY_LIMIT = 8,
    PATCH_BACKOFF = 16,
    PATCH_COMPLETED = 32,
    PATCH_DEAD = 64,
    PATCH_FREE = 128, /* it no longer waits for jobs */
    PATCH_MAX_RUN = 256,
    PATCH_RETRY_FOR = 512,
};

struct patch {
    unsigned set; /* bits of enum patch_field: which of the following are set */
    struct str queue;
    uint16_t priority;
    instant ready_at; /* or none: at once */
    int64_t retry_limit;
    struct curve backoff;
    span completed_retention, dead_retention;
    uint64_t max_run, retry_for; /* ms; 0: any time */
};

struct runs_command {
    struct id id;
    bool failures_only; /* only those that count as attempts, by attempt */
    bool backwards;
    int64_t from; /* run index (attempt, if failures_only), exclusive; negative: from the start */
    uint32_t limit;
};

/* Names a group, or one of its entries; see core/crons.h for the meaning of empty names. */
struct cron_command {
    struct str group, entry;
    enum cron_switch to; /* SWITCH */
    bool zone_given;     /* SWITCH of a group: sets its zone to this, or to none if empty */
    struct str zone;
};

/* Settings of a queue. */
enum queue_field {
    QUEUE_PAUSED = 1,
    QUEUE_CONCURRENCY = 2,
    QUEUE_PER_KEY = 4,
    QUEUE_RATE = 8,
    QUEUE_RETRY_LIMIT = 16,
    QUEUE_BACKOFF = 32,
    QUEUE_COMPLETED = 64,
    QUEUE_DEAD = 128,
    QUEUE_POLICIES = 256,
    QUEUE_NO_POLICY = 512,
    QUEUE_MAX_RUN = 1024,
    QUEUE_KEPT = 2048,
    QUEUE_ALL = 4095,
};
struct queue_command {
    struct str name; /* LIST: where the last page ended, or empty */
    unsigned set;    /* PUT: bits of enum queue_field; the others stay unchanged */
    struct queue_settings settings;
    struct str retry_policies; /* names of existing policies, as "a,b" */
    struct str kept;           /* a JSON object that nothing here uses, or empty */
    bool create;               /* PUT: ERR_CONFLICT if it has settings */
    uint32_t limit;            /* LIST */
};
struct queue_view {
    struct str name;
    bool configured; /* it has settings; otherwise they are the default */
    struct queue_settings settings;
    uint64_t counts[STATUS_COUNT];
    uint64_t tasks[STATUS_COUNT]; /* of these, tasks that are scheduled, ready, in flight */
    span oldest_age; /* since the enqueue of the oldest ready job; negative: there is none */
};

struct queue_shown {
    struct queue_view view;
    struct str retry_policies; /* "a,b" */
    struct str kept;           /* a JSON object, or empty */
    struct str *warnings;      /* READ, PUT: about what judges its jobs' failures */
    size_t warning_count;
};

/* A budget. */
enum budget_how {
    BUDGET_CREATE,  /* there must be none of that key */
    BUDGET_REPLACE, /* or create it */
    BUDGET_MERGE,   /* it must be there */
};
enum budget_field {
    BUDGET_ALLOCATION = 1,
    BUDGET_STRATEGY = 2,
    BUDGET_DURATION = 4,
    BUDGET_BURST = 8,
};
struct budget_command {
    struct str key; /* READ, REMOVE: or empty, for all */
    enum budget_how how;
    unsigned set; /* MERGE: bits of enum budget_field; the others stay as they are */
    struct budget_policy policy;
};

/* A retry policy or a list of failure categories, managed by its name. */
struct resource_command {
    struct str name;                      /* PUT: the required name; empty: any */
    const struct policy *policy;          /* POLICY_PUT */
    const struct categorizer *categories; /* CATEGORIES_PUT */
    int64_t version;                      /* PUT: the version to be replaced; 0: any */
    bool create;                          /* PUT: there must be none with that name */
    bool detach; /* POLICY_REMOVE: it is taken from the queues that have it */
};

/* A resource as stored. */
struct resource_view {
    struct str name;
    uint64_t version;
    union { /* NULL: it can no longer be read, and decides nothing */
        const struct policy *policy;
        const struct categorizer *categories;
        const void *value;
    };
    struct str broken;                 /* why it can no longer be read; empty: it can */
    struct standing_warnings warnings; /* READ */
    uint64_t bytes;                    /* of its text, approximately */
};

/* RETRY_SETTINGS_PUT; see policy/policies.h. */
struct retry_settings_command {
    const struct policy_change *change; /* NULL: the file has no section */
    struct str by;                      /* who requests it, or empty */
    bool ahead, from_file, at_start;
};

/* The effect of a draft on the failures of one job; see policy/simulate.h. */
struct simulate_command {
    const struct policy *const *drafts;
    size_t draft_count;
    const struct policy_change *settings; /* a draft of the settings; NULL: none */
    const struct simulate_job *what;
};

/* A part of the failure history (core/history.h), newest first. */
struct history_command {
    uint64_t below; /* only entries before this number; 0: from the newest on */
    uint32_t limit; /* at most HISTORY_PAGE_MAX */
};
#define HISTORY_PAGE_MAX 256
#define READ_RUNS_MAX    1000

struct history_page {
    const struct history_entry *entries;
    size_t count;
    uint64_t kept; /* total number of entries */
    uint64_t next; /* `below` for the next page; 0: there is none */
};

/* A job handed out. */
struct handout {
    struct job job;         /* with payload; status in_flight */
    uint32_t run;           /* index of the new run */
    uint64_t token;         /* fencing token of the run, never 0 */
    instant lease_end;      /* or none: held by a stream */
    struct note checkpoint; /* of an earlier run; text empty: none */
};

static inline uint64_t handout_bytes(const struct handout *h)
{
    return h->job.payload.len + h->checkpoint.text.len;
}

struct engine_memory {
    uint64_t waiting_jobs;  /* ready and scheduled */
    uint64_t waiting_bytes; /* index memory they take */
    uint64_t in_flight_bytes;
};

/* The clock compared with the time of jobs. */
struct clock_state {
    instant now, wall; /* that time, and the clock */
    bool off;          /* they differ by more than the limit of jumps: the clock is not followed */
    span ahead;        /* of that time before the clock; negative: behind it */
    span jump;         /* forward, over that limit: the newest one; 0: none */
    instant jumped_at; /* the time to which it jumped */
};

/* The result of CMD_CLOCK_RESET. */
struct clock_reply {
    instant from, to;   /* the time before and after */
    uint64_t corrected; /* jobs */
};

struct reply {
    struct err err;
    struct job *jobs;
    struct enqueued *enqueued; /* CMD_ENQUEUE */
    struct handout *handouts;
    struct run *runs;
    size_t run_count; /* CMD_READ: of runs, the newest READ_RUNS_MAX at most */
    struct id *ids;
    struct renewed *renewed;
    struct reported *reported;
    struct str *names;
    size_t count;   /* of the list in the reply; or the requested number */
    size_t sampled; /* of a dry run: number of jobs in `jobs`; CANCEL_WHERE: in `ids` */
    bool more;      /* a list or runs: there are more */
    bool repeated;  /* ENQUEUE, SUCCEED, FAIL, CLAIM_JOB: it had been done before; nothing was
                     * changed. RETRY_SETTINGS_PUT: nothing was changed */
    struct job_notes *notes; /* CMD_READ */
    bool has_live; /* CMD_READ, CMD_RUNS: the job is in flight; its newest run's token is known */
    uint64_t token;
    instant lease_end;
    struct cron_view *cron;
    struct explanation *explanation;
    struct judges *judges;
    struct resource_view *resources;
    const struct policy_settings_view *retry_settings;
    const struct simulate_result *simulated;
    const struct history_page *history;
    const struct failures_page *failures;
    const struct worker_view *workers;
    struct bulk_operation *operations;
    bool stopped;       /* a change of many jobs: by OPERATION_STOP, before its end */
    uint64_t operation; /* its number, if it can be undone */
    struct queue_shown *queues;
    const struct backlog_page *backlogs; /* CMD_BACKLOG */
    struct ready_place place;            /* PEEK: of the last job examined */
    struct {
        uint64_t first, total; /* the place of jobs[0] in the list; jobs in the list */
        bool found;            /* there is the job that the anchor names */
        uint64_t at;           /* iff found: its place */
        struct id id;          /* and its id */
    } window;
    struct id_place upto;           /* LIST that look_max ended: the last job examined */
    const struct group_view *group; /* CMD_GROUP_* */
    struct kv_entry *kv;
    size_t kv_refused;   /* KV_PUT: index of a change */
    struct str kv_after; /* KV_LIST: where the next page begins */
    struct budget_view *budgets;
    const struct backend_meter *meter;
    struct {
        bool writable;      /* commands that write are accepted */
        bool readable;      /* and those that read; if not, the counts of jobs here are not valid */
        struct str failure; /* why not */
        uint64_t jobs[STATUS_COUNT];
        struct engine_memory memory;
        uint64_t disk_bytes;
        uint64_t events[EVENT_COUNT]; /* since the start of the server */
        uint64_t newest_event;        /* its number; 0: there has been none */
        uint64_t damaged_jobs;        /* number of jobs set apart */
        uint64_t damaged_tables;      /* number of the store's files set apart */
        struct clock_state clock;
        span committing; /* for so long a commit has been under way; 0: none is */
        struct standing_warnings warnings;
    } status;
    struct clock_reply clock;
    uint64_t events_since;   /* EVENTS_PLACE */
    uint64_t events_history; /* likewise: the id of this one (core/event_history.h) */
    bool events_gap;         /* likewise: the place that was named is not in it */
};

/* Instead of the number of an event: the newest one. */
#define EVENTS_NEWEST UINT64_MAX

typedef void (*reply_fn)(void *ctx, const struct reply *reply);

struct command {
    enum command_kind kind;
    struct str alias; /* of the job that it is about, or empty: then its id is used */
    union {
        struct {
            const struct enqueue *specs;
            size_t count;
            const struct idempotency *once;    /* or NULL: it may not be repeated */
            const struct enqueue_quota *quota; /* or NULL; valid during the call */
            const struct err *refused; /* or NULL: why it may only be repeated, not carried out */
        } enqueue;
        struct run_ref run; /* SUCCEED, PROGRESS, RELEASE */
        struct {
            const struct run_ref *at;
            size_t count;
        } succeed_many;
        struct failure_report fail;
        struct job_claim claim_job;
        struct {
            struct run_ref run;
            uint32_t index;
        } terminated;
        struct {
            struct run_ref run;
            span lease;
        } renew;
        struct {
            const struct renewal *at;
            size_t count;
        } renew_many;
        struct {
            const struct run_report *at;
            size_t count;
        } report_many;
        struct {
            uint64_t events_since;   /* EVENTS_PLACE: a number, or EVENTS_NEWEST */
            uint64_t events_history; /* 0: of whatever history */
        };
        struct id id; /* REMOVE, EXPLAIN, CANCEL */
        struct {
            struct id id;
            bool completed; /* a completed job, too; else only a dead one */
            bool freed;     /* it waits for no other job again */
        } rerun;
        struct {
            struct id id;
            bool runs;   /* reply.runs, too */
            bool judges; /* reply.judges, too */
        } read;
        struct {
            const struct str *at;
            size_t count;
        } aliases;
        struct {
            struct id id;
            const struct patch *patch;
        } patch;
        struct list_command list; /* LIST, COUNT and all _WHERE */
        struct peek_command peek;
        struct window_command window;
        struct runs_command runs;
        struct cron_put cron_put;
        struct cron_command cron; /* CRON_READ, CRON_SWITCH, CRON_REMOVE */
        struct simulate_command simulate;
        struct history_command history; /* CMD_HISTORY_READ */
        const struct failures_query *failures;
        const struct workers_query *workers;
        uint64_t operation; /* OPERATION_STOP, OPERATION_UNDO; OPERATIONS: or 0, for all */
        struct {
            struct str name;
            bool quiet; /* WORKER_HUSH */
        } worker;
        const struct worker_greeting *greeting; /* WORKER_NOTICE */
        struct resource_command resource;       /* CMD_POLICY_*, CMD_CATEGORIES_* */
        struct retry_settings_command retry_settings;
        struct queue_command queue; /* CMD_QUEUE_* */
        struct str group;           /* CMD_GROUP_READ, CMD_GROUP_SEAL: its name */
        struct group_reprioritized group_reprioritized;
        struct kv_put kv_put;
        struct kv_query kv;           /* CMD_KV_READ, CMD_KV_LIST, CMD_KV_REMOVE */
        struct budget_command budget; /* CMD_BUDGET_* */
        struct {
            struct str queue; /* empty: a page */
            struct str from;
            uint32_t limit;
        } backlog;
    };
    /* What a worker sends with its report, or NULL: SUCCEED, FAIL, RENEW, PROGRESS, RELEASE. Either
     * all of the command is applied or nothing. */
    struct str why;     /* RELEASE: in its holder's words; or empty */
    instant not_before; /* RELEASE: when it may be handed out again; 0: now */
    span delay;         /* RELEASE: the same, from now on; one of the two is 0 */
    const struct news *news;
    /* Queues to which whoever sends the command is limited; none: to none. For commands about one
     * job, ENQUEUE, QUEUES, QUEUE_LIST, BACKLOG, WINDOW and OPERATION*: what is in others is
     * answered as if it were not there. Commands about many jobs have it in their filter. */
    struct glob_list reach;
    /* Who asks for the change, as JSON of at most TRAIL_NOTE_MAX bytes, to be recorded with it if
     * it is done (core/trail.h); empty: it is not. Nothing is recorded of dry runs. */
    struct str trail;
    reply_fn done;
    void *ctx;
};

#endif
