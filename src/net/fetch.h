/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FETCH_H
#define NET_FETCH_H

/* An HTTP client on a libuv loop: any number of requests under way, over libcurl. Loop thread only.
 *
 * A fetcher keeps the connections. Over TLS, HTTP/2 is used where the server has it, and requests
 * share a connection. Certificates are verified unless a request says otherwise; redirects are not
 * followed, so that credentials go nowhere else. A connection whose peer acknowledges nothing for
 * half a minute is given up.
 *
 * A request that was sent on a kept connection which turns out to be closed, without a byte of an
 * answer, is sent again on a new one by libcurl itself, also if it is a POST: whoever sends those
 * gives them names, so that a second one meets the first, or sets `once`.
 *
 * Every request ends with exactly one call of done(), unless it is aborted; never inside
 * fetch_start. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct fetcher;
struct fetch;

enum fetch_fault {
    FETCH_ANSWERED,    /* no fault: there is an answer, whatever its status is */
    FETCH_UNREACHABLE, /* no connection: the request was certainly not acted on */
    FETCH_UNTRUSTED,   /* TLS: a certificate was refused by either side, or cannot be read; nothing
                          was acted on */
    FETCH_LOST,        /* the connection broke before the answer was complete */
    FETCH_TIMED_OUT,   /* no answer, or no more of it, in time */
    FETCH_TOO_LARGE,   /* the answer is larger than answer_max */
};

struct fetch_answer {
    enum fetch_fault fault;
    const char *why; /* unless ANSWERED: a sentence on one line, without the URL's path */
    long status;     /* 0: there is none */
    bool unsent;     /* nothing of the request has left: it was certainly not acted on */
    struct str body; /* unless it went to data(), all of it, or what had arrived */
};

/* How a server is reached. Texts are copied by fetch_start. */
struct fetch_tls {
    /* Who may have signed the server's certificate, PEM: as a text, or the name of a file; neither:
     * whom the system trusts. */
    struct str ca;
    const char *ca_file;
    /* What the client shows of itself, PEM: as texts, or the names of files; or nothing. */
    struct str cert, key;
    const char *cert_file, *key_file;
    /* The name that the server's certificate must be for; NULL: the URL's host. */
    const char *server_name;
    bool insecure; /* whoever answers is trusted */
};

struct fetch_spec {
    const char *method;         /* "GET" */
    const char *url;            /* http: or https: */
    const char *target;         /* of the request line, as it is; NULL: the URL's path and query */
    const char *const *headers; /* "Name: value", or "Name;" of one without a value; the last one is
                                   NULL; NULL: none */
    struct str body;
    bool has_body;               /* one may be empty */
    const struct fetch_tls *tls; /* NULL: the system's trust, no certificate */
    const char *proxy; /* its URL; NULL: as the environment says; never for this machine */
    bool fresh;        /* not over a connection that was used before */
    bool once;         /* a body that was sent, if only in part, is never sent again */
    /* Each 0: no limit. */
    span connect_timeout; /* to the end of the handshake */
    span timeout;         /* of it all */
    span idle_timeout;    /* of a pause in the answer, or before it */
    size_t answer_max;    /* bytes that are gathered */
    /* NULL, or gets the body of an answer with status 2xx as it arrives, instead of gathering it.
     * The bytes are valid during the call. */
    void (*data)(void *ctx, struct str bytes);
    /* NULL, or called when the head of the answer is there. */
    void (*head)(void *ctx, long status);
    /* The answer is valid during the call, and the request is over after it. */
    void (*done)(void *ctx, const struct fetch_answer *answer);
    void *ctx;
};

/* SIGPIPE is ignored from here on, unless the program handles it. */
struct fetcher *fetcher_new(uv_loop_t *loop);
/* Aborts what is under way; not from one of its callbacks. The loop must run once more before it
 * may be closed. */
void fetcher_free(struct fetcher *f);
/* Requests under way. */
size_t fetcher_count(const struct fetcher *f);

/* Sends a request. Everything is copied. May be called from any callback. */
struct fetch *fetch_start(struct fetcher *f, const struct fetch_spec *spec);
/* Ends it without done(); it must not be used afterwards. May be called from any callback, except
 * from its own done(). */
void fetch_abort(struct fetch *r);
/* Shuts down this side of the connection once the request has left, as whoever asked has done: the
 * server stops waiting. Nothing over TLS, where others may share the connection. */
void fetch_shut(struct fetch *r);
/* The first header of that name of the answer, or empty. In head(), data() and done() only; valid
 * during that call. */
struct str fetch_header(struct fetch *r, const char *name);
/* Calls fn for each header of the answer, in order: at the same moments. */
void fetch_each_header(struct fetch *r, void (*fn)(void *ctx, struct str name, struct str value),
                       void *ctx);
/* No further data() until fetch_resume: the server is made to wait. Both may be called from inside
 * data(). */
void fetch_pause(struct fetch *r);
void fetch_resume(struct fetch *r);
/* The version of HTTP of the answer, times ten: 11, 20. In the same places. */
int fetch_version(struct fetch *r);

/* A sentence about what is wrong with the URL of a server, or NULL. */
const char *fetch_bad_url(const char *url);

#endif
