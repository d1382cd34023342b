/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NET_H2_CLIENT_H
#define TESTS_NET_H2_CLIENT_H

/* nghttp2's client side on top of the raw client of client.h; and handmade frames for what no
 * correct client sends. */

#include <nghttp2/nghttp2.h>

#include "client.h"

#define H2_STREAMS_MAX 4096

struct h2_stream {
    int status;
    struct buf head; /* "name: value\n" each */
    struct buf body;
    bool answered; /* its head has arrived */
    bool closed;
    uint32_t code; /* of its end */
    struct str send;
    size_t sent;
    bool hold; /* the body is not ended when all of `send` has been sent */
};

struct h2_client {
    struct client c;
    nghttp2_session *session;
    struct h2_stream *streams; /* by (id - 1) / 2 */
    struct buf unsent;         /* what the socket had no room for yet */
    int closed;
    bool goaway;
    uint32_t code; /* of GOAWAY */
    bool over;     /* the session accepts no more */
};

struct h2_options {
    bool shut; /* streams start with an empty window that is never opened */
};

void h2_open(struct fixture *f, struct h2_client *h, struct h2_options o);
/* Starts the server and opens a client. */
void h2_open_served(struct fixture *f, struct h2_client *h);
void h2_close(struct fixture *f, struct h2_client *h);
/* Returns the stream's id. `extra` is NULL, or one or more lines of "name: value", separated by
 * line feeds. */
int32_t h2_request(struct h2_client *h, const char *method, const char *path, const char *extra,
                   struct str body);
int32_t h2_get(struct h2_client *h, const char *path);
/* A request whose body continues after `body`. */
int32_t h2_begin(struct h2_client *h, const char *path, struct str body);
/* Ends such a body. */
void h2_finish(struct h2_client *h, int32_t id);
struct h2_stream *h2_stream(struct h2_client *h, int32_t id);
/* Sends what is due, waits for something to happen, reads what arrived. */
void h2_step(struct fixture *f, struct h2_client *h);
/* Sends what is due and turns the loop until nothing happens any more. */
void h2_settle(struct fixture *f, struct h2_client *h);

#define H2_AWAIT(f, h, condition)                                                                  \
    while (!(condition))                                                                           \
    h2_step((f), (h))

/* Handmade frames. */
void h2_frame(struct buf *b, uint8_t type, uint8_t flags, int32_t id, const char *payload,
              size_t len);
/* The preface and empty SETTINGS. */
void h2_preface(struct buf *b);
/* A HEADERS frame with GET / and END_STREAM, without END_HEADERS if `open`. */
void h2_head(struct buf *b, int32_t id, bool open);
/* Sends the bytes, as many as it takes until the server ends the connection with GOAWAY, and
 * returns its code. Fails if the server accepts all of them. */
uint32_t h2_flood(struct fixture *f, struct client *c, struct str bytes);

/* What was received is that text, or has it somewhere. */
static inline void h2_assert_text(const struct buf *b, const char *text)
{
    assert_true(str_eq(buf_view(b), str_from(text)));
}

static inline bool h2_has(const struct buf *b, const char *text)
{
    return memmem(b->at, b->len, text, strlen(text)) != NULL;
}

#endif
