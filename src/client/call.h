/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

/* One HTTP request at a time to one server, over libcurl: either waited for, or started in a multi
 * handle. Single-threaded; a call must stay where it is in memory from call_init to call_fini. */

#include <curl/curl.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

struct whose_rule;

enum call_result {
    CALL_DONE,        /* 2xx, as the server says it (client/whose.h) */
    CALL_REFUSED,     /* the server refused, and would refuse again */
    CALL_GONE,        /* 404 or 409: no such thing, or a run that is over */
    CALL_TRY_LATER,   /* the server is there but cannot do it now */
    CALL_UNREACHABLE, /* no answer; or one that is not the server's (client/whose.h) */
};

/* PEM files for https; NULL for libcurl's defaults. token_file: whose first line is a token, sent
 * to the server; NULL: that of the variable TENAX_TOKEN, if there is one (client/bearer.h). */
struct call_tls {
    const char *ca_cert, *client_cert, *client_key, *token_file;
    bool no_token; /* the server is another one's: no token is sent */
};

struct call {
    CURL *curl;
    const char *url;   /* borrowed: the server's, without a slash at the end */
    struct buf body;   /* the body of the request */
    struct buf answer; /* the body of the answer */
    long status;       /* HTTP status of the answer; 0 if there is none */
    long foreign;      /* the status of what something else answered in the server's place; or 0 */
    CURLcode code;
    const struct whose_rule *expected;
    span timeout;
    mono sent;
    bool busy; /* in progress in a multi handle */
    /* For servers that are not Tenax: a 2xx is CALL_DONE whatever its body, which has at most
     * answer_max bytes (0: the usual limit). */
    bool any_answer;
    size_t answer_max;
    instant date; /* the server's clock, from the answer's header Date; INSTANT_NONE: not said */
    /* The body of a PUT is this file from its beginning, if it is open. */
    bool has_file;
    int file;
    int64_t file_size, file_at;
    char why[CURL_ERROR_SIZE];
    struct curl_slist *headers;
    const char *token_file; /* borrowed; NULL: the token does not come from a file */
    mono token_read;
};

/* A copy of the URL without trailing slashes; free() it. HOST[:PORT][/PATH] without a scheme is
 * completed: http, and Tenax's usual port. */
char *call_url(const char *url);
/* A sentence about the fault of a server's URL, or NULL. */
const char *call_bad_url(const char *url);

void call_init(struct call *c, const char *url, const struct call_tls *tls);
void call_fini(struct call *c);

/* Adds a header, "Name: value", to all further requests. */
void call_header(struct call *c, const char *line);
/* Replaces the header "Accept", and leaves the others, the token's among them. */
void call_accept(struct call *c, const char *media_type);
/* Forgets all headers, also those that every call has; call_header adds others. */
void call_clear_headers(struct call *c);
/* Sends c->body (nothing for GET and DELETE) and waits for the answer. */
enum call_result call_wait(struct call *c, const char *method, const char *path, span timeout);

/* The same in two parts: started, and, after the multi handle has reported it done, finished. */
void call_start(struct call *c, CURLM *multi, const char *method, const char *path, span timeout);
enum call_result call_finish(struct call *c, CURLM *multi, CURLcode code);
/* Abandons a call. */
void call_abort(struct call *c, CURLM *multi);

/* Adds a sentence that says why the last call failed. */
void call_explain(const struct call *c, struct buf *b);

#endif
