/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FORWARD_H
#define NET_FORWARD_H

/* Requests that another server answers: passed on as they came, and so are the answers, as they
 * arrive, for streams and long polls as well. Who does not read makes the other server wait
 * (http_must_wait); who goes away ends the request there. Loop thread only.
 *
 * A request whose body was sent, if only in part, is never sent a second time: whoever asked hears
 * that the outcome is not known. */

#include "net/fetch.h"
#include "net/http.h"

struct forwarder;

struct forwarder_settings {
    uv_loop_t *loop;
    const struct fetch_tls *tls; /* of https: URLs; copied but for its texts; NULL: the defaults */
    span connect_timeout;
    /* Answers a request that got no answer: ERR_NO_OWNER, it was certainly not acted on;
     * ERR_OWNER_LOST, it may have been. */
    void (*refuse)(void *ctx, struct http_exchange *x, const struct err *err);
    void *ctx;
};

struct forwarder *forwarder_new(const struct forwarder_settings *settings);
/* Ends what is under way: streams early, the rest with ERR_STOPPING. The loop must run once more
 * before it may be closed. NULL is allowed. */
void forwarder_free(struct forwarder *f);

/* Ends what is under way, as the server that it went to answers no more: ERR_OWNER_LOST. */
void forwarder_give_up(struct forwarder *f);

/* Sends the request to the server at `url` ("http://10.0.0.7:7890"), with one more header if
 * `extra` ("Name: value") is not NULL. */
void forwarder_send(struct forwarder *f, const char *url, const char *extra,
                    struct http_exchange *x, const struct http_request *req);

struct forwarder_counts {
    uint64_t sent, refused, lost; /* since the start */
    uint64_t under_way;
};
/* Copies the counts. */
void forwarder_read(const struct forwarder *f, struct forwarder_counts *out);

#endif
