/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

/* The vocabulary: a job, its state, its runs and their failures, as plain
 * values. Strings are borrowed; who fills a struct says from where. Every front
 * end is a projection of these; nothing is stored twice. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "base/units.h"
#include "core/curve.h"
#include "core/lifecycle.h"

#define JOB_NAME_MAX            255 /* bytes of a queue's, type's or worker's name */
#define JOB_UNIQUE_KEY_MAX      1024
#define JOB_CONCURRENCY_KEY_MAX 255   /* bytes */
#define JOB_ALIAS_MAX           255   /* bytes */
#define JOB_GROUP_MAX           255   /* bytes, also of its owner */
#define JOB_BATCH_KEY_MAX       1024  /* bytes */
#define JOB_BATCH_EXPR_MAX      16384 /* bytes of each expression */
#define JOB_PRIORITY_DEFAULT    32768
#define JOB_GANG_MAX            1000       /* members */
#define JOB_RETRY_LIMIT_MAX     UINT32_MAX /* which is how clients say "always" */

#define JOB_NOTE_MAX          65536 /* bytes of JSON of a checkpoint or a result */
#define JOB_PROGRESS_NOTE_MAX 1024

#define RETRY_LIMIT_DEFAULT (-1)         /* the server's retry limit applies */
#define RETENTION_DEFAULT   ((span){-1}) /* the server's retention applies */

/* Why a dead job is dead; resolution `failed` or `exception` with a reason
 * (names of Taskcluster's protocol). */
enum resolution {
    RESOLUTION_NONE,
    RESOLUTION_FAILED,
    RESOLUTION_CLAIM_EXPIRED,
    RESOLUTION_CANCELED,
    RESOLUTION_POISON,     /* too many runs in a row ended with their worker lost */
    RESOLUTION_DEPENDENCY, /* a job that it waited for is dead or was deleted */
    RESOLUTION_DEADLINE,   /* its deadline came before it had ended */
    /* An exception that the worker reported, see enum outcome. */
    RESOLUTION_WORKER_SHUTDOWN,
    RESOLUTION_INTERMITTENT_TASK,
    RESOLUTION_MALFORMED_PAYLOAD,
    RESOLUTION_RESOURCE_UNAVAILABLE,
    RESOLUTION_INTERNAL_ERROR,
    RESOLUTION_SUPERSEDED,
    RESOLUTION_WAIT, /* it waited too long for what only somebody else can do */
    RESOLUTION_GANG, /* another member of its gang is dead */
    RESOLUTION_COUNT
};

/* What further enqueues with the same key need to be folded into a job (the Jobs API's
 * batched jobs): jq expressions about the payloads $existing and $new. */
struct job_batch {
    struct str key;  /* empty: none */
    struct str when; /* whether to fold */
    struct str fold; /* into what */
    bool open;       /* neither sealed by a later job nor kept out by its ready_at */
};

/* Who can read a job: whoever takes jobs names the kind that it takes, and is given no others. */
enum job_kind {
    KIND_JOB,  /* of the Jobs API */
    KIND_TASK, /* of Taskcluster's */
    JOB_KINDS
};

/* Jobs of this type that have an alias are tasks of Taskcluster's API. */
#define JOB_TYPE_TASK "taskcluster-task"

/* What only some jobs say of themselves when they are enqueued. Zeroed: nothing. Every member has
 * its row in core/job_fields.def. */
struct job_options {
    struct str retry_policies;  /* names that the job adds, as "a,b" */
    uint64_t memory;            /* bytes that its runs need; 0: it does not say */
    uint64_t cpu;               /* thousandths of a processor; likewise */
    struct str gang;            /* of which it is a member (core/engine_gang.c) */
    uint64_t gang_size;         /* cardinality of the gang, iff there is one */
    struct str concurrency_key; /* jobs of a queue that may be limited together */
    struct str budgets;         /* what it draws on which (core/budgets.h) */
    struct str alias;           /* by which it is found, too, as long as it exists; no two jobs
                                   have the same */
    instant deadline;           /* by which it must have ended, or 0 (core/engine_end_by.c) */
    instant retain_until;       /* or 0: once ended it is kept until then, instead of for its
                                   retention */
    uint64_t when_no_policy;    /* enum retry_fallback: instead of its queue's and the server's */
    uint64_t hold;              /* 1: it is to be held until somebody frees it */
    uint64_t fail_fast;         /* 1: its first failure is final, whatever policies say */
    uint64_t pending_runs;      /* 1: its runs begin when it becomes ready, as some count them; one
                                   that ends before a worker had it is recorded, too */
    struct str depends_on;      /* the jobs it waits for (core/depend.h) */
    uint64_t depend_when;       /* enum depend_when */
    uint64_t depend_death;      /* enum depend_death */
    struct str group;           /* of jobs that belong together (core/group.h) */
    struct str group_owner;     /* only to be enqueued: the group keeps it */
    struct str traceparent;     /* of the trace that it belongs to (core/trace.h) */
    struct str tracestate;      /* only with traceparent */
    uint64_t maker;             /* who may have only so many, and made it; or 0
                                   (core/engine_makers.h) */
    uint64_t max_run;           /* ms that a run of it may take, or 0 (core/engine_overtime.c) */
    uint64_t retry_for;         /* ms after its first failure in which retries may begin, or 0
                                   (core/verdict.h) */
};

/* What only some jobs carry along as they change. Zeroed: nothing. Every member has its row in
 * core/job_fields.def. */
struct job_extras {
    struct str retry_counts;   /* how often each rule has made it be retried (core/tally.h) */
    uint64_t asked_retries;    /* how often a worker's retry_at has */
    uint64_t expired_retries;  /* how often a lease that ran out has, without a rule */
    struct str culprit_counts; /* whose failures it was retried after (core/culprit_ledger.h) */
    instant first_failed_at;   /* since when its time for retries counts (core/verdict.h) */
    struct str avoid_node;     /* which the next run is to stay off */
    instant avoid_until;       /* must until then, should from then on */
    struct str node;           /* of the newest run, if its worker said */
    /* While it waits for the newest run, which was preempted, to end: */
    uint64_t grace_token;  /* of that run, or 0 */
    instant grace_end;     /* over then at the latest */
    instant backoff_end;   /* what is waited for besides */
    instant terminated_at; /* the run is known to have ended */
    instant returned_at;   /* the newest run ended then, and did not count as an attempt */
    uint64_t held;         /* 1: nobody has freed it so far, which keeps it blocked */
    struct str waits_for;  /* those of depends_on that still keep it blocked */
    /* What a rule has made of the memory and the processors that the job asked for. */
    uint64_t memory;          /* bytes; 0: it is as it was */
    uint64_t memory_fleeting; /* 1: only until a rule that grows no memory retries the job */
    uint64_t cpu;             /* thousandths; 0: it is as it was */
    uint64_t cpu_fleeting;    /* likewise */
    uint64_t gang_generation; /* how often its gang has been tried again */
    uint64_t gang_token;      /* of its newest run that was ended for that */
    uint64_t gang_alone;      /* 1: it was brought back by hand, and waits for no other member */
    uint64_t granted;         /* 1: a policy granted the retry that it waits for, or is */
    uint64_t notes;           /* which there are: bits NOTE_BIT */
    /* The newest run that ended by a report of its worker: the same report is no news. */
    uint64_t reported_token;
    uint64_t reported_outcome; /* COMPLETED or FAILED of enum outcome */
    uint64_t silent;           /* not used any more; earlier versions stored it */
    uint64_t overtime_token;   /* of its newest run that was ended as it took too long */
};

/* What changes during a job's life; stored apart from what does not. */
struct job_state {
    enum status status;
    enum resolution resolution;
    uint16_t priority;
    instant ready_at;     /* when it becomes or became ready */
    instant dequeued_at;  /* start of the newest run, or none */
    instant failed_at;    /* newest failure, or none */
    instant completed_at; /* or none */
    instant purge_at;     /* end of retention, iff terminal */
    uint32_t attempts;    /* failures so far */
    uint32_t forgiven; /* of these, those before a rerun: they no longer count against the limit */
    uint32_t runs;     /* runs begun; the newest has index runs - 1 */
    uint32_t losses;   /* runs in a row that ended with their worker lost */
    struct str reason; /* the newest verdict in words, or empty */
    /* Only while IN_FLIGHT by a lease: a claim survives a restart of the server. */
    uint64_t token;
    instant lease_end; /* or none: not leased */
    struct str worker;
    struct job_extras extras;
};

/* While what statuses a unique key keeps other jobs with it out (the Jobs API's
 * unique_while). */
enum unique {
    UNIQUE_NONE,   /* no unique key */
    UNIQUE_QUEUED, /* blocked, scheduled, ready */
    UNIQUE_ACTIVE, /* and in flight */
    UNIQUE_EXISTS, /* as long as the job exists */
    UNIQUE_COUNT
};

/* What workers leave with a job; stored beside it. These numbers are on disk. */
enum note_kind { NOTE_PROGRESS, NOTE_CHECKPOINT, NOTE_RESULT, NOTE_KINDS };
#define NOTE_BIT(kind) ((uint64_t)1 << (kind))

struct note {
    uint32_t run; /* that left it */
    instant at;
    double value;    /* of progress: 0 to 1 */
    struct str text; /* of progress: what its worker says; of the others: JSON, byte for byte */
};

struct job_notes {
    uint64_t has; /* bits NOTE_BIT */
    struct note at[NOTE_KINDS];
};

struct job {
    struct id id;
    struct str queue, type;
    struct str payload;   /* JSON text, byte for byte as it came; at == NULL: not loaded */
    int64_t retry_limit;  /* retries after the first failure, or RETRY_LIMIT_DEFAULT */
    struct curve backoff; /* shape CURVE_NONE: the server's default */
    span completed_retention, dead_retention; /* or RETENTION_DEFAULT */
    struct str unique_key;                    /* iff unique_while; the same for all queues */
    enum unique unique_while;
    struct job_batch batch;
    struct job_options options;
    struct job_state state;
    uint32_t gang_members, gang_active; /* of its gang, those in flight; only from engine_read */
    /* Only in lists: of the failure it died of; of its run, while it is in flight. */
    struct str error, error_type, worker;
    bool has_progress;
    struct note progress;
};

/* How a run ended. */
enum outcome {
    OUTCOME_RUNNING,
    OUTCOME_COMPLETED,
    OUTCOME_FAILED,
    OUTCOME_EXPIRED,  /* the lease ran out: exception/claim-expired */
    OUTCOME_LOST,     /* the worker's stream broke, or the server stopped under it */
    OUTCOME_RETURNED, /* the worker gave the job back */
    OUTCOME_CANCELED, /* the job was canceled */
    OUTCOME_GANG,     /* ended because another member of its gang is tried again */
    OUTCOME_DEADLINE, /* the job's deadline came */
    /* Exceptions: the worker reports that it was not the work itself that failed (reasons of
     * Taskcluster's protocol). After the first two another run may do better; the others are final.
     */
    OUTCOME_WORKER_SHUTDOWN,
    OUTCOME_INTERMITTENT_TASK,
    OUTCOME_MALFORMED_PAYLOAD,
    OUTCOME_RESOURCE_UNAVAILABLE,
    OUTCOME_INTERNAL_ERROR,
    OUTCOME_SUPERSEDED,
    OUTCOME_COUNT
};

/* What ended a pod or process from outside. */
enum condition {
    CONDITION_NONE,
    CONDITION_OOM_KILLED,
    CONDITION_EVICTED,
    CONDITION_PREEMPTED,
    CONDITION_DEADLINE_EXCEEDED,
    CONDITION_UNSCHEDULABLE,
    CONDITION_LEASE_EXPIRED, /* said by the engine alone */
    CONDITION_COUNT
};

/* Whose fault a failure is (core/culprit.h). These numbers are on disk. */
enum culprit {
    CULPRIT_NONE, /* nothing failed, or it was not recorded */
#define CULPRIT(id, name, free, sentence) CULPRIT_##id,
#include "core/culprits.def"
#undef CULPRIT
    CULPRIT_COUNT
};

/* One container of a pod that failed. */
struct container_result {
    struct str name;
    bool init;
    int32_t exit_code;          /* 0: it did not fail, or not by exiting */
    int32_t signal;             /* that ended it; 0: none, or not given */
    enum condition condition;   /* from its reason: OOMKilled */
    struct str reason, message; /* message: of its termination log */
    struct str log;             /* the end of what it wrote, or empty */
};

/* Whose limit of a run's time counts; the shortest does. These numbers are on disk. */
enum run_limit { RUN_LIMIT_JOB, RUN_LIMIT_QUEUE, RUN_LIMIT_WORKER, RUN_LIMITS };

/* What went wrong, as data. */
struct failure {
    struct str message, error_type, backtrace; /* empty: not given */
    int32_t exit_code; /* of the worker's process; 0: not given (never a failure) */
    int32_t signal;    /* that ended it; 0: none */
    span run_time;     /* as the worker measured it; negative: not given */
    enum condition condition;
    struct str node;                  /* where it ran; empty: not given */
    struct str termination_message;   /* of the process as a whole */
    struct str category, subcategory; /* given by the worker or a categorizer */
    struct str hint;                  /* of the categorizer: what to do about it */
    enum culprit culprit;             /* named by the worker, or judged by core/culprit.h */
    struct str culprit_evidence;      /* how that is known, a sentence */
    struct str pod_error;             /* why the cluster could not run it */
    const struct str *pod_events;     /* what it said of the pod: "FailedMount: ..." */
    size_t pod_event_count;
    const struct container_result *containers; /* in the order they were given */
    size_t container_count;
};

/* One attempt of a job by one worker. */
struct run {
    uint32_t index; /* from 0 */
    struct str worker;
    instant ready_at;  /* since when the job was ready when it began; none: that is not known */
    instant taken_at;  /* or none: no worker ever had it, see pending_runs of struct job_options */
    instant lease_end; /* or none: held by a stream */
    instant ended_at;  /* or none: still running */
    enum outcome outcome;
    uint32_t attempt;  /* which counted failure this was, from 1; 0: it did not count */
    instant retry_at;  /* when the verdict said to try again, or none */
    instant grace_end; /* until when it may go on although it has failed; 0: it does not */
    struct str reason; /* the verdict in words */
    struct failure failure;
};

/* "OOMKilled" …; NULL for CONDITION_NONE. */
const char *job_condition_name(enum condition c);
bool job_condition_parse(struct str name, enum condition *c);
/* Those that a worker may report: all but CONDITION_LEASE_EXPIRED. */
bool job_condition_parse_reported(struct str name, enum condition *c);
/* What the reason of a container means: OOMKilled is the only condition of one. */
enum condition job_condition_of_container(struct str reason);
const char *job_outcome_name(enum outcome o);
/* An exception that a worker may report: "worker-shutdown" … */
bool job_outcome_is_exception(enum outcome o);
bool job_exception_parse(struct str name, enum outcome *o);
/* Of a job that dies by such a run, or by OUTCOME_FAILED or OUTCOME_EXPIRED. */
enum resolution job_outcome_resolution(enum outcome o);
/* NULL for RESOLUTION_NONE. */
const char *job_resolution_name(enum resolution r);
bool job_resolution_parse(struct str name, enum resolution *r);

/* The kind never changes. What has a gang or a concurrency key is no task, whatever its type. */
enum job_kind job_kind(const struct job *job);

/* "queued", "active", "exists"; NULL for UNIQUE_NONE. */
const char *job_unique_name(enum unique u);
bool job_unique_parse(struct str name, enum unique *u);

/* A queue or type: 1 to JOB_NAME_MAX bytes of UTF-8 without control characters and without
 * the characters that lists and patterns need (seed: the Jobs API reserves , * ? [ ] { } \).
 * ERR_BAD_NAME says which rule is broken; what names the field. */
NODISCARD struct err job_check_name(struct str name, const char *what);

#endif
