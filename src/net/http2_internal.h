/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP2_INTERNAL_H
#define NET_HTTP2_INTERNAL_H

/* What the files of HTTP/2 share: http2.c is the connection, http2_request.c reads requests,
 * http2_reply.c writes replies.
 *
 * nghttp2 is only entered for input (http2.c: input) and output (http2_reply_send); its
 * callbacks, and all else, only submit. So a stream never goes away under a handler. */

#include <nghttp2/nghttp2.h>
#include <sys/queue.h>

#include "net/frame_budget.h"
#include "net/conn.h"
#include "net/http_headers.h"
#include "net/http_internal.h"

/* What frames cost, and what refills the budget (net/frame_budget.h). */
#define COST_SETTINGS     40
#define COST_PING         4
#define COST_RESET        8 /* by either side, but for the end of an answered request */
#define COST_PRIORITY     2
#define COST_WINDOW       1
#define COST_EMPTY_DATA   8
#define COST_CONTINUATION 100
#define COST_UNKNOWN      4
#define COST_BAD_FRAME    16
#define COST_STALLED      400
#define GAIN_REQUEST      8
#define GAIN_DATA         2 /* as much as the WINDOW_UPDATEs that it takes */

struct stream {
    TAILQ_ENTRY(stream) link;
    struct http2 *h;
    struct http_exchange *x;
    int32_t id;
    struct http_request req; /* spans in the exchange's arena */
    struct buf body;         /* of one in pieces: what was held back */
    uint64_t head_size;
    uint64_t bound;   /* of its answer, once complete */
    size_t head_held; /* bytes of the head in memory, part of h->heads */
    unsigned fields;
    int64_t length;            /* Content-Length, or -1 */
    enum err_code refusal;     /* ERR_OK, or why it will be refused once the head is there */
    enum http_header repeated; /* iff ERR_BAD_REQUEST, the header that came more than once */
    bool expects;              /* the client waits for "100 Continue" */
    bool head_done;
    bool pieces;          /* its body comes in pieces, see x->body */
    bool complete;        /* the whole request is there */
    bool served;          /* the handler has it, or it was refused */
    bool aborted;         /* its reset is on its way; nothing more is written */
    bool congested;       /* drained() is due once there is room */
    size_t withheld;      /* bytes read for which no window was given back yet */
    uint64_t read_at;     /* when bytes of the body last came */
    size_t sent;          /* bytes of x->later that have left */
    uint64_t progress_at; /* when the last of them did */
};

TAILQ_HEAD(stream_queue, stream);

struct http2 {
    struct conn *conn;
    nghttp2_session *session;
    struct stream_queue streams; /* in the order in which they began */
    struct stream_queue spares;  /* ended, with small buffers, for reuse */
    int spare_count;
    struct frame_budget frames;
    uint64_t bodies;         /* bytes of requests held */
    uint64_t heads;          /* and of their heads */
    uint64_t replies;        /* unsent bytes of replies; streams are not counted */
    uint64_t streamed;       /* those of streams */
    int waiting;             /* complete requests that wait until fewer are unsent, or for memory */
    int pages;               /* of these, those whose answers are not known in size */
    int withheld;            /* streams that wait for their window */
    uint64_t queued;         /* of `bodies`, those of complete requests that wait */
    int unserved;            /* streams whose request is not served yet */
    uint64_t unserved_heads; /* of `heads`, theirs */
    bool unread;             /* not read, until there is memory for requests */
    bool in_head;            /* in the middle of a header section */
    uint64_t head_at;        /* since when */
    uint64_t idle_at;        /* when the last stream ended */
    uint64_t sent_at;        /* when bytes of any body last left */
    bool drain_due;          /* some stream's drained() */
    bool body_due;           /* a body in pieces is wanted again */
    bool over;               /* the last GOAWAY is on its way: input is thrown away */
};

static inline struct http_server *http2_server(const struct http2 *h)
{
    return h->conn->set->owner;
}

static inline uint64_t http2_now(const struct http2 *h)
{
    return uv_now(h->conn->set->loop);
}

static inline size_t stream_unsent(const struct stream *st)
{
    return st->x->later.len - st->sent;
}

/* Ends the connection with GOAWAY. */
void http2_end(struct http2 *h, uint32_t code);
/* Spends from the budget for frames; once it is spent, ends the connection with
 * ENHANCE_YOUR_CALM. */
void http2_spend(struct http2 *h, int64_t cost);

/* The callbacks of the way in; those of its frames are in http2.c. */
int http2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx);
int http2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                    void *ctx);
int http2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at,
                  size_t len, void *ctx);
/* A request's head, or its end, is there. */
void http2_head_done(struct stream *st);
void http2_request_done(struct stream *st);
/* Answers with an error and ignores the rest of the request. */
void http2_refuse(struct stream *st, const struct err *e);
/* Whether a request waits for being served. */
bool http2_is_waiting(const struct stream *st);
/* The exchange is answered: nobody wants the rest of its body. */
void http2_leave_body(struct stream *st);
/* No byte has come of a body that somebody waits for, since when it is in st->read_at. */
bool http2_awaits_body(const struct stream *st);
void http2_time_out_body(struct stream *st);
void http2_body_go_on(struct http_exchange *x);
/* Serves requests that waited, and opens windows of bodies that waited, as far as there is room. */
void http2_go_on(struct http2 *h);
/* Counts the memory of requests. */
void http2_count(struct http2 *h);
/* Refuses the requests that are half sent. */
void http2_refuse_bodies(struct http2 *h, const struct err *e);
/* The stream is closed, for whatever reason. */
void http2_forget(struct stream *st);

void http2_reply(struct http_exchange *x, int status, struct str type, struct str body,
                 const char *extra);
void http2_stream_begin(struct http_exchange *x, int status, struct str type, const char *extra);
void http2_stream_write(struct http_exchange *x, struct str bytes);
void http2_stream_end(struct http_exchange *x);
void http2_stream_abort(struct http_exchange *x);
bool http2_backlogged(struct http_exchange *x);
/* The interim answer 100. */
void http2_continue(struct stream *st);
/* Calls drained() of every stream that waits for it and has room. */
void http2_notify_drained(struct http2 *h);
/* Moves what may be sent to the connection's output. */
void http2_send(struct http2 *h);
void http2_set_send_callbacks(nghttp2_session_callbacks *callbacks);

#endif
