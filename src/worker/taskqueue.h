/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TASKQUEUE_H
#define WORKER_TASKQUEUE_H

/* Requests of a worker to Taskcluster: to the services of a root URL, signed, and to the URLs that
 * those give out. All of them are in progress in one multi handle, each with a callback. What gets
 * tasks (source_taskcluster.h) and what runs them (executor_task.h) share one.
 *
 * The server's clock is known from its answers. Requests are signed by it, so that a wrong clock of
 * this machine does no harm. */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/units.h"
#include "client/call.h"
#include "worker/hawk_client.h"

struct taskqueue;
struct taskqueue_args {
    const char *root_url; /* as of call_url */
    struct call_tls tls;
    const struct hawk_credentials *own; /* of the worker; NULL: none, requests are not signed */
};

/* The arguments must live as long as it does. Free it after all requests. */
struct taskqueue *taskqueue_new(const struct taskqueue_args *args);
void taskqueue_free(struct taskqueue *q);

/* What is requested. The texts are copied; credentials and file must stay until the callback. */
struct taskqueue_ask {
    const char *method;
    const char *path; /* below the root URL: "/api/queue/v1/ping"; or a whole URL */
    struct str body;
    const struct hawk_credentials *by; /* NULL: not signed */
    bool any_answer;                   /* the answer need not be JSON */
    bool has_file;                     /* the body is this file, of this type: */
    int file;
    int64_t file_size;
    const char *headers[8]; /* instead of those for JSON, if there are any */
    span timeout;
    span delay; /* begin only after this time */
    void (*done)(void *ctx, enum call_result r, struct call *answer);
    void *ctx;
};

/* Zero-initialised is one that is not in progress. It must stay where it is in memory. */
struct taskqueue_request {
    struct taskqueue *owner; /* NULL: not in progress */
    struct taskqueue_request *next;
    struct call call;
    bool open; /* call is initialised */
    bool sent;
    mono send_at;
    struct buf url; /* with a NUL */
    size_t origin;  /* how much of it names the server */
    char *server;
    char *header_text[8];
    struct taskqueue_ask ask;
};

/* Begins it; none may be in progress. In the callback the answer is valid until the next one
 * begins, and that may be begun there. */
void taskqueue_start(struct taskqueue *q, struct taskqueue_request *r,
                     const struct taskqueue_ask *ask);
/* Abandons it, if it is in progress, without a callback, and releases its memory. */
void taskqueue_abort(struct taskqueue_request *r);

/* Calls back for every answer that has arrived, and begins what is due; true if there was one. */
bool taskqueue_poll(struct taskqueue *q);
/* Waits until there is an answer, something is due, a descriptor is ready, or the time is over. */
void taskqueue_wait(struct taskqueue *q, const struct pollfd *fds, size_t count, int ms);

/* The time by the server's clock. */
instant taskqueue_now(const struct taskqueue *q);

/* Pauses between repeated requests: 1 s, doubling up to 30 s, half of it random. */
span taskqueue_pause(unsigned tries);

/* Adds text with everything percent-encoded but letters, digits and "-_.~". */
void taskqueue_encode(struct buf *b, struct str text);
/* "/api/queue/v1/task/<taskId>/runs/<run>" and more; NUL-terminated. */
const char *taskqueue_run_path(struct buf *b, struct str task_id, int64_t run, const char *more);

#endif
