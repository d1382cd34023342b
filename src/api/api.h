/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_H
#define API_API_H

/* The Jobs API over HTTP: requests become commands, replies become JSON. The wire
 * format is that of Zizq's HTTP API 0.6.1, so that its clients work unmodified, and what
 * Tenax adds to it (docs/api.md). Runs on the loop thread; keeps no job. */

#include "backend/backend.h"
#include "base/buf.h"
#include "base/sink.h"
#include "net/router.h"

struct api;
struct identities;
struct token;
struct tokens;

/* Facts of the process, for GET /metrics. */
#define API_LISTENERS 2
enum api_polled { POLLED_DEQUEUED, POLLED_DELETED, POLLED_REPEATED, POLLED_UNDELETED, API_POLLED };
enum api_spans {
    API_SPANS_EXPORTED,
    API_SPANS_REJECTED,
    API_SPANS_DROPPED,
    API_SPANS_FAILED,
    API_SPANS
};

struct api_machine {
    struct http_stats listeners[API_LISTENERS]; /* the primary one, the admin one */
    uint64_t request_memory;                    /* bytes of requests that are half sent or wait */
    uint64_t resident_bytes, open_fds, max_fds;
    double cpu_seconds, start_seconds, uptime_seconds;
    struct histogram rounds; /* of the loop, see api_round_times */
    double round_longest_seconds, round_longest_cpu_seconds;
    /* Messages of poll URLs (docs/taskcluster.md): handed out, deleted, handed out too often, and
     * not deleted as was asked. */
    uint64_t polled[API_POLLED];
    /* Of the bytes of artifacts: what they take, what they may take, uploads in progress. */
    uint64_t artifact_used, artifact_space, artifact_uploads;
    /* Spans for the collector, by what became of them; bytes of those that wait. */
    uint64_t spans[API_SPANS], spans_waiting;
};
/* In microseconds. */
extern const struct histogram_scale api_round_times;

/* The servers that share a PostgreSQL, for GET /servers, /health and /metrics. */
#define API_SERVERS_MAX 64
struct api_peer {
    struct str name, address, version, role;
    instant started, seen;
};
struct api_cluster {
    bool several; /* false: this server works by itself, and the rest is empty */
    struct str role;
    uint64_t epoch;
    struct str durability;             /* what an acknowledgement is worth */
    span lease, left;                  /* of it: until the owner must have renewed it */
    span clock_ahead;                  /* by so much PostgreSQL's clock is ahead of this server's */
    uint64_t beats, missed, forwarded; /* renewals, those that failed, requests that others sent */
    /* The last batch, and the one up to which the table records is complete; how long ago that one
     * was the last; bytes of the log's tables. */
    uint64_t seq, flushed;
    span flush_lag;
    uint64_t log_bytes;
    uint64_t inbox_taken, inbox_refused; /* jobs enqueued by SQL, since the start */
    size_t count;
    struct api_peer servers[API_SERVERS_MAX];
};

/* What GET / says; of texts that are not set nothing. */
struct api_landing {
    struct str listener;                             /* primary or admin: which one was asked */
    struct str console;                              /* its path */
    struct str admin_url;                            /* iff the sender may know it */
    struct str name, version, health, openapi, docs; /* set when it is written */
};

struct api_settings {
    bool strict; /* refuse fields and parameters that are not known, instead of ignoring them */
    span claim_wait_max; /* a claim is answered after this, if it may wait for longer */
    uint64_t body_max;   /* bytes of a body that came as MessagePack, once it is JSON; 0: any */
    /* Writes a backup to the sink, on a thread of its own, and returns when it is done or the
     * sink has failed. NULL: POST /backup is refused. */
    struct err (*backup)(void *ctx, const struct sink *sink);
    void *backup_ctx;
    /* Rewrites the tables without what was deleted, likewise on a thread of its own; compact_stop
     * has it return soon, and a backup that waits for the tables. NULL: POST /compact is refused.
     * Both get backup_ctx. */
    struct err (*compact)(void *ctx);
    void (*compact_stop)(void *ctx);
    uv_loop_t *loop;
    /* Who may use it; borrowed. NULL: everybody may do everything. Changed by POST and DELETE
     * /tokens alone. */
    struct tokens *tokens;
    struct identities *identities; /* who sends a request, by these and more; NULL iff tokens is */
    struct holders *holders;       /* who was handed which run; borrowed; NULL iff tokens is */
    bool admin_loopback;           /* only this machine can reach the admin listener */
    instant (*now)(void *ctx);
    void *now_ctx;
    void (*machine)(void *ctx, struct api_machine *out); /* NULL: nothing is known */
    void *machine_ctx;
    /* NULL: this server works by itself. step_down looks who else is there, and begins to leave the
     * jobs to another server; then it calls done once, later: ERR_CONFLICT if there is none. The
     * texts of *out are valid until the next call. */
    void (*cluster)(void *ctx, struct api_cluster *out);
    void (*step_down)(void *ctx, void (*done)(void *asker, const struct err *err), void *asker);
    /* For GET /; NULL: it has only what every server is. */
    void (*landing)(void *ctx, struct http_exchange *x, const struct http_request *req, bool admin,
                    struct api_landing *out);
    void *cluster_ctx; /* of all three */
};

/* What another front end says of events, to consumers that ask for it (?messages=NAME). */
struct api_messages {
    const char *name;
    bool (*tells)(const struct job_event *ev); /* whether it may say something of it */
    /* Adds what it says of it, JSON objects with commas between them, to out, which stays until
     * then, as does the event; then calls done(done_ctx), later. */
    void (*write)(void *ctx, const struct job_event *ev, struct buf *out, void (*done)(void *ctx),
                  void *done_ctx);
    void *ctx;
};

struct api *api_new(struct backend *backend, const struct api_settings *settings);
/* From the next request on. */
void api_configure(struct api *a, bool strict, span claim_wait_max);
/* Before the first request. */
void api_set_messages(struct api *a, const struct api_messages *messages);
/* Reads the tokens that are kept, before the first request. The backend has its turns meanwhile;
 * *busy is true until it is done. */
void api_load_tokens(struct api *a, bool *busy, struct err *err);
/* Keeps a token, and takes it, unless there is one of that id: then only its rights are kept. Calls
 * done, which must not free it, when it is durable and in force, or with the error. trail: who
 * makes it, as in struct command. */
void api_token_keep(struct api *a, struct token *token, struct str trail,
                    void (*done)(void *ctx, struct token *token, const struct err *err), void *ctx);
/* The trail of what a file has the server do (struct command, trail). */
struct str api_trail_of_server(const char *operation, const char *source, struct arena *a);
/* What the body of POST /jobs says, for jobs that come another way. Strings live in the arena, or
 * are views. The errors of POST /jobs. */
NODISCARD struct err api_read_job(const struct api *a, struct str body, struct arena *arena,
                                  struct enqueue *out);
/* All exchanges must have ended. */
void api_free(struct api *a);
/* Stops a backup that is under way, and waits for its thread. Call it before the store is closed.
 */
void api_stop(struct api *a);
/* Ends streams and waiting claims of those whose credentials count no more. */
void api_end_void_streams(struct api *a);
/* Answers GET / where there is no api, in JSON: browsers are sent to the console, if there is one.
 */
void api_landing_reply(struct http_exchange *x, const struct http_request *req,
                       const struct api_landing *facts);
/* To be mounted on a router; valid as long as the api. */
const struct front_end *api_front_end(struct api *a);
/* The table of endpoints as JSON, for tools/openapi.py. */
void api_write_routes(struct buf *b);
/* For http_settings; ctx is the api, replies_ctx there. */
uint64_t api_reply_bound(void *ctx, const struct http_request *req);
uint64_t api_gathered(void *ctx);
/* Sends a blank line on every open stream, so that both sides notice a dead peer. */
void api_heartbeat(struct api *a);

#endif
