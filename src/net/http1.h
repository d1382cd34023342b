/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

/* Reads HTTP/1.0 and 1.1 requests out of a stream of bytes, one request at a
 * time: llhttp does the grammar, this module the limits, the rules of RFC 9112
 * against request smuggling, and the spans. It does no input or output.
 *
 * A request that lies whole in the bytes of one http1_feed is not copied; one
 * that does not is collected in the reader's own memory, but for a body that is wanted in pieces:
 * its bytes are handed out as they come. */

#include "net/http.h"

#define HTTP1_TARGET_MAX  (128 * 1024)
#define HTTP1_HEADERS_MAX 100

enum http1_event {
    HTTP1_MORE,     /* everything was consumed, or as much as fits one step: feed the rest */
    HTTP1_CONTINUE, /* the client waits for "100 Continue" before it sends its body */
    HTTP1_REQUEST,  /* http1_request has one */
    HTTP1_BEGIN,    /* likewise, but for its body, which comes in pieces and is not empty */
    HTTP1_PIECE, /* http1_piece has bytes of that, or none; if the phase is idle now, it is whole */
    HTTP1_PREFACE, /* the client speaks HTTP/2: its whole connection preface was read */
    HTTP1_BAD,     /* http1_error says why; the reader is of no more use */
};

enum http1_phase { HTTP1_IDLE, HTTP1_HEAD, HTTP1_BODY };

struct http1_request {
    struct http_request req; /* its arena is the caller's to set */
    bool keep_alive;         /* another request may follow */
    bool old;                /* HTTP/1.0: no chunked replies */
    bool pieces;             /* the body comes in pieces */
    bool expects;            /* then: the client waits for "100 Continue" */
};

struct http1;

struct http1 *http1_new(uint64_t header_max, uint64_t body_max);
void http1_free(struct http1 *r);
/* Asks wants(ctx, …) for each request whether its body is to come in pieces; such a body may be of
 * any length. */
void http1_ask(struct http1 *r, bool (*wants)(void *ctx, enum http_method method, struct str path),
               void *ctx);
/* Reads up to the end of the next request; *used <= len bytes were consumed. */
enum http1_event http1_feed(struct http1 *r, const char *at, size_t len, size_t *used);
/* After HTTP1_REQUEST and HTTP1_BEGIN; its spans are valid as long as the bytes that were fed, and
 * until the next http1_feed. */
struct http1_request *http1_request(struct http1 *r);
/* After HTTP1_PIECE; valid as long as the bytes that were fed. */
struct str http1_piece(const struct http1 *r);
/* After HTTP1_BAD. */
const struct err *http1_error(const struct http1 *r);
/* The last request was dealt with: gives back what it took beyond some KiB. Nothing if another one
 * has begun, or is not whole. */
void http1_release(struct http1 *r);
/* No byte will be fed any more: gives back all that can be. */
void http1_drop(struct http1 *r);
/* Bytes that it keeps of a request that is not whole. */
uint64_t http1_held(const struct http1 *r);
/* Where in a request the bytes consumed so far end. */
enum http1_phase http1_phase(const struct http1 *r);

#endif
