/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

/* The seam between front ends and whatever keeps the jobs: commands go down,
 * replies come up once what they say is durable. embedded.c keeps jobs in one
 * process; PostgreSQL will be the second. Front ends never reach behind it.
 *
 * One thread: all calls and all callbacks happen on the loop's. A command's
 * memory is borrowed for the call; done(ctx, reply) is called exactly once,
 * never from inside backend_submit, and the reply is valid for that call. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/crons.h"
#include "core/engine.h"
#include "core/explain.h"
#include "core/job.h"
#include "policy/simulate.h"

#define BACKEND_PAGE_MAX 2000

enum command_kind {
    CMD_ENQUEUE,      /* reply.enqueued, in the order of the specs */
    CMD_SUCCEED,      /* nothing but reply.err */
    CMD_SUCCEED_MANY, /* reply.ids: those that were not in flight; the others succeeded */
    CMD_FAIL,         /* reply.jobs[0]: the job afterwards */
    CMD_TERMINATED,   /* reply.jobs[0] */
    CMD_RENEW,        /* reply.lease_end */
    CMD_PROGRESS,     /* nothing but reply.err; leaves the news */
    CMD_RELEASE,      /* nothing but reply.err */
    CMD_REMOVE,       /* nothing but reply.err */
    CMD_READ,         /* reply.jobs[0], with payload, and reply.notes */
    CMD_LIST,         /* reply.jobs, with payloads, and reply.more */
    CMD_COUNT,        /* reply.count */
    CMD_REMOVE_WHERE, /* reply.count: how many were removed; not atomic, in slices */
    CMD_PATCH,        /* reply.jobs[0]: the job afterwards */
    CMD_PATCH_WHERE,  /* reply.count; in slices, as CMD_REMOVE_WHERE */
    CMD_CANCEL,       /* reply.jobs[0] */
    CMD_RERUN,        /* reply.jobs[0] */
    CMD_RERUN_WHERE,  /* reply.count */
    CMD_RUNS,         /* reply.runs */
    CMD_EXPLAIN,      /* reply.explanation */
    CMD_QUEUES,       /* reply.names of queues that have jobs, in order */
    CMD_STATUS,       /* reply.status */
    CMD_METER,        /* reply.meter */
    CMD_CRON_PUT,     /* reply.cron */
    CMD_CRON_READ,    /* reply.cron; of no group: reply.names, in order */
    CMD_CRON_SWITCH,  /* reply.cron: the group or the entry */
    CMD_CRON_REMOVE,  /* reply.count */
    CMD_POLICY_PUT,   /* reply.document; as are READ and CMD_RETRY_… */
    CMD_POLICY_READ,  /* of no name: all of them */
    CMD_POLICY_REMOVE,
    CMD_POLICY_SIMULATE, /* reply.simulated; changes nothing */
    CMD_CATEGORIES_PUT,  /* failure categories; as the three before */
    CMD_CATEGORIES_READ,
    CMD_CATEGORIES_REMOVE,
    CMD_QUEUE_PUT,  /* reply.queues[0] afterwards */
    CMD_QUEUE_READ, /* reply.queues[0]; any name will do */
    CMD_QUEUE_LIST, /* reply.queues and reply.more */
    CMD_QUEUE_REMOVE,
    CMD_RETRY_SETTINGS_PUT,
    CMD_RETRY_SETTINGS_READ,
};

/* Inclusive at both ends; not set: any value. */
struct range {
    bool set;
    int64_t lo, hi;
};

/* Which jobs a list, a count or a removal is about; an empty list means any. */
struct job_filter {
    const struct id *ids;
    size_t id_count;
    const struct str *queues, *types;
    size_t queue_count, type_count;
    unsigned statuses; /* bits 1 << enum status; 0: any */
    struct range priority, ready_at, attempts;
    struct str expression; /* jq, about the payload; empty: none. ERR_BAD_VALUE if it is wrong */
};

struct list_command {
    struct job_filter filter;
    struct id_place from; /* exclusive */
    bool backwards;
    uint32_t limit;
    uint32_t look_max; /* LIST: after so many jobs looked at it ends with reply.more; 0: never */
    bool no_payload;   /* LIST: payloads are not needed */
    bool dry_run;      /* _WHERE: change nothing; reply.jobs is a sample of limit jobs */
    const struct patch *patch; /* CMD_PATCH_WHERE */
    uint32_t per_second; /* CMD_RERUN_WHERE: how many become ready in a second; 0: all at once */
};

struct runs_command {
    struct id id;
    bool failures_only; /* those that count as attempts, by attempt */
    bool backwards;
    int64_t from; /* run index (attempt, if failures_only), exclusive; negative: from the start */
    uint32_t limit;
};

/* Which group, and which entry of it; see core/crons.h for what being empty means. */
struct cron_command {
    struct str group, entry;
    enum cron_switch to; /* SWITCH */
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
    QUEUE_ALL = 511,
};
struct queue_command {
    struct str name; /* LIST: where the last page ended, or empty */
    unsigned set;    /* PUT: bits of enum queue_field; the others stay as they are */
    struct queue_settings settings;
    struct str retry_policies; /* names that exist, as "a,b" */
    bool create;               /* PUT: ERR_CONFLICT if it has settings */
    uint32_t limit;            /* LIST */
};
struct queue_shown {
    struct queue_view view;
    struct str retry_policies; /* "a,b" */
};

/* A document that people manage; see policy/policies.h. */
struct resource_command {
    struct str name; /* of the document */
    struct str text; /* the document */
    struct str by;   /* RETRY_SETTINGS_PUT: who asks, or empty */
    enum document_format format;
    bool create; /* POLICY_PUT, CATEGORIES_PUT: there must be none of that name */
    bool ahead;  /* RETRY_SETTINGS_PUT: the default policy may be made later */
};

/* What a draft would make of the failures of one job; see policy/simulate.h. */
struct simulate_command {
    const struct policy *const *drafts;
    size_t draft_count;
    const struct document_node *settings; /* that are a draft, too; checked; NULL: none */
    struct simulate_job what;
};

/* Of commits: durations in microseconds from when a batch is closed until the loop hears that
 * it is on the disk; sizes in records. */
extern const struct histogram_scale backend_commit_times, backend_commit_sizes;

/* What GET /metrics tells of. */
struct backend_meter {
    const struct meter *counts;
    const uint64_t (*jobs)[STATUS_COUNT]; /* by the rows of counts->queues, the shared one last */
    struct histogram commit_times, commit_sizes;
    uint64_t commit_bytes; /* of keys and values, all in all */
    bool writable;
    uint64_t disk_bytes;
    int64_t disk_free; /* bytes */
    struct engine_memory memory;
    uint64_t streams, claims; /* that wait for jobs */
    uint64_t newest_event;
};

struct reply {
    struct err err;
    struct job *jobs;
    struct enqueued *enqueued; /* CMD_ENQUEUE */
    struct handout *handouts;
    struct run *runs;
    struct id *ids;
    struct str *names;
    size_t count;   /* of whichever list is meant; or the number asked for */
    size_t sampled; /* of a dry run: how many are in jobs */
    bool more;      /* a list or runs: further ones follow */
    bool repeated;  /* SUCCEED, FAIL: that run had been reported so before; nothing changed */
    struct job_notes *notes; /* CMD_READ */
    bool has_live; /* CMD_READ, CMD_RUNS: the job is in flight; its newest run's token is known */
    uint64_t token;
    instant lease_end;
    struct cron_view *cron;
    struct explanation *explanation;
    struct str document; /* JSON */
    const struct simulate_result *simulated;
    struct queue_shown *queues;
    const struct backend_meter *meter;
    struct {
        bool writable; /* commands that store are accepted */
        uint64_t jobs[STATUS_COUNT];
        struct engine_memory memory;
        uint64_t disk_bytes;
        uint64_t events[EVENT_COUNT]; /* since the start of the server */
        uint64_t newest_event;        /* its number; 0: there has been none */
    } status;
};

typedef void (*reply_fn)(void *ctx, const struct reply *reply);

struct command {
    enum command_kind kind;
    union {
        struct {
            const struct enqueue *specs;
            size_t count;
        } enqueue;
        struct run_ref run; /* SUCCEED, PROGRESS, RELEASE */
        struct {
            const struct id *ids;
            size_t count;
        } succeed_many;
        struct failure_report fail;
        struct {
            struct run_ref run;
            uint32_t index;
        } terminated;
        struct {
            struct run_ref run;
            span lease;
        } renew;
        struct id id; /* REMOVE, READ, EXPLAIN, CANCEL, RERUN */
        struct {
            struct id id;
            const struct patch *patch;
        } patch;
        struct list_command list; /* LIST, COUNT and all _WHERE */
        struct runs_command runs;
        struct cron_put cron_put;
        struct cron_command cron; /* CRON_READ, CRON_SWITCH, CRON_REMOVE */
        struct simulate_command simulate;
        struct resource_command resource; /* CMD_POLICY_*, CMD_CATEGORIES_* … CMD_RETRY_* */
        struct queue_command queue;       /* CMD_QUEUE_* */
    };
    /* What a worker leaves with its report, or NULL: SUCCEED, FAIL, RENEW, PROGRESS, RELEASE. All
     * of the command is applied or nothing. */
    const struct news *news;
    reply_fn done;
    void *ctx;
};

/* A stream of jobs. */
struct backend_stream;
struct stream_spec {
    const struct str *queues; /* count 0: all */
    size_t queue_count;
    uint32_t prefetch;
    struct str worker, node;
    void (*deliver)(void *ctx, const struct handout *h);
    void (*closed)(void *ctx); /* the backend ends it; the stream is freed then */
    void *ctx;
};

/* A claim that may wait. */
struct backend_claim;
struct claim_spec {
    const struct str *queues;
    size_t queue_count;
    uint32_t count;
    struct str worker, node;
    span lease, wait;
    reply_fn done; /* reply.handouts */
    void *ctx;
};

/* A look into the log of events. Only what is durable is told. */
struct event_page {
    struct err err;     /* ERR_STOPPING, ERR_STORE, ERR_CORRUPT; then there is no more than that */
    uint64_t since;     /* as it was asked for */
    uint64_t missed_to; /* those from since + 1 to this one are not kept any more; 0: none */
    const struct job_event *events; /* in a row */
    size_t count;
    uint64_t last; /* the newest that the page covers: what to ask for next */
    bool more;     /* further ones are durable */
};
struct event_read;
struct event_read_spec {
    uint64_t since; /* events after this number, see backend_events_place */
    uint32_t limit;
    bool wait; /* until there is one */
    void (*done)(void *ctx, const struct event_page *page);
    void *ctx;
};

struct backend;
struct backend_vt {
    void (*submit)(struct backend *b, const struct command *c);
    struct err (*stream_open)(struct backend *b, const struct stream_spec *spec,
                              struct backend_stream **out);
    void (*stream_close)(struct backend *b, struct backend_stream *s);
    void (*stream_pause)(struct backend *b, struct backend_stream *s, bool paused);
    struct backend_claim *(*claim)(struct backend *b, const struct claim_spec *spec);
    void (*claim_cancel)(struct backend *b, struct backend_claim *c);
    struct err (*events_place)(struct backend *b, uint64_t *since);
    struct err (*events)(struct backend *b, const struct event_read_spec *spec,
                         struct event_read **out);
    void (*events_cancel)(struct backend *b, struct event_read *r);
};

/* First member of every implementation. */
struct backend {
    const struct backend_vt *vt;
};

static inline void backend_submit(struct backend *b, const struct command *c)
{
    b->vt->submit(b, c);
}

/* ERR_STOPPING, ERR_STORE, ERR_DISK_FULL. */
NODISCARD static inline struct err
backend_stream_open(struct backend *b, const struct stream_spec *spec, struct backend_stream **out)
{
    return b->vt->stream_open(b, spec, out);
}

/* The peer has gone: its jobs become ready again; no callback follows. */
static inline void backend_stream_close(struct backend *b, struct backend_stream *s)
{
    b->vt->stream_close(b, s);
}

static inline void backend_stream_pause(struct backend *b, struct backend_stream *s, bool paused)
{
    b->vt->stream_pause(b, s, paused);
}

/* spec->done is called exactly once; the handle is valid until then. */
static inline struct backend_claim *backend_claim(struct backend *b, const struct claim_spec *spec)
{
    return b->vt->claim(b, spec);
}

/* Where somebody begins who wants events after that number, or, of EVENTS_NEWEST, those to come.
 * ERR_BAD_VALUE if there has been no such event yet; ERR_STOPPING. */
#define EVENTS_NEWEST UINT64_MAX
NODISCARD static inline struct err backend_events_place(struct backend *b, uint64_t *since)
{
    return b->vt->events_place(b, since);
}

/* spec->done is called exactly once, not from in here; the handle is valid until then.
 * Errors as above. */
NODISCARD static inline struct err
backend_events(struct backend *b, const struct event_read_spec *spec, struct event_read **out)
{
    return b->vt->events(b, spec, out);
}

/* Gives up; done is not called. */
static inline void backend_events_cancel(struct backend *b, struct event_read *r)
{
    b->vt->events_cancel(b, r);
}

/* Stops waiting. Jobs that were already handed out still come to done; otherwise it is called with
 * none. */
static inline void backend_claim_cancel(struct backend *b, struct backend_claim *c)
{
    b->vt->claim_cancel(b, c);
}

#endif
