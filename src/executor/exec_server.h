/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_SERVER_H
#define EXECUTOR_EXEC_SERVER_H

/* Requests to Tenax's server, any number at a time, on the loop. An answer is called back exactly
 * once, unless the request is aborted. Loop thread only. */

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"
#include "base/units.h"
#include "client/call.h"

struct exec_server;
struct exec_call;

struct exec_answer {
    enum call_result result;
    long status;     /* 0: none */
    struct str body; /* JSON, or empty */
    struct str code; /* of an error: "stale_token" */
    struct str why;  /* a sentence, unless the result is CALL_DONE */
    mono sent;       /* when the request left */
};

typedef void exec_answered(void *ctx, const struct exec_answer *a);

/* url has no slash at its end; both outlive the server. name is sent as Worker-Id. */
struct exec_server *exec_server_new(uv_loop_t *loop, const char *url, const struct call_tls *tls,
                                    const char *name);
void exec_server_free(struct exec_server *s);

/* Sends a request; an empty body is none. The answer is valid during the call, and the request is
 * over after it. */
struct exec_call *exec_server_ask(struct exec_server *s, const char *method, const char *path,
                                  struct str body, span timeout, exec_answered *done, void *ctx);
/* Begins a stream: data(ctx, bytes) is called for what arrives of a good answer; it ends if nothing
 * arrives for the pause. */
struct exec_call *exec_server_stream(struct exec_server *s, const char *path, span pause,
                                     void (*data)(void *ctx, struct str bytes), exec_answered *done,
                                     void *ctx);
/* Abandons a request; there is no answer to it. NULL is fine. */
void exec_server_abort(struct exec_call *c);
/* Requests of both kinds under way. */
size_t exec_server_count(const struct exec_server *s);

#endif
