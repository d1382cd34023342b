/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REMOTE_H
#define CLIENT_REMOTE_H

/* Requests to Tenax's server, any number at a time, on the loop. An answer is called back exactly
 * once, unless the request is aborted. Loop thread only. */

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"
#include "base/units.h"
#include "client/call.h"

struct remote;
struct remote_call;

struct remote_answer {
    enum call_result result;
    long status;     /* 0: none, or none of the server's (client/whose.h) */
    struct str body; /* JSON, or empty */
    struct str code; /* of an error: "stale_token" */
    struct str why;  /* a sentence, unless the result is CALL_DONE */
    mono sent;       /* when the request left */
};

typedef void remote_answered(void *ctx, const struct remote_answer *a);

/* url has no slash at its end; both outlive the server. name is sent as Worker-Id. */
struct remote *remote_new(uv_loop_t *loop, const char *url, const struct call_tls *tls,
                          const char *name);
void remote_free(struct remote *s);

/* Sends a request; an empty body is none. The answer is valid during the call, and the request is
 * over after it. On a kept connection that breaks it is silently sent again (net/fetch.h): what it
 * does must not matter twice. */
struct remote_call *remote_ask(struct remote *s, const char *method, const char *path,
                               struct str body, span timeout, remote_answered *done, void *ctx);
/* Begins a stream: data(ctx, bytes) is called for what arrives of a good answer; it ends if nothing
 * arrives for the pause. accept is a content type, or NULL: the server's choice. */
struct remote_call *remote_stream(struct remote *s, const char *path, const char *accept,
                                  span pause, void (*data)(void *ctx, struct str bytes),
                                  remote_answered *done, void *ctx);
/* Abandons a request; there is no answer to it. NULL is fine. */
void remote_abort(struct remote_call *c);
/* Requests of both kinds under way. */
size_t remote_count(const struct remote *s);

#endif
