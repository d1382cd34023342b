/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_FAKE_HTTP_H
#define SIM_FAKE_HTTP_H

/* Front ends without a network: this takes the place of net/server.c. A request is handed to a
 * router as the server would; its answer goes to whoever asked. An exchange is freed as soon as it
 * is answered, so that AddressSanitizer notices what is used after it. */

#include "net/router.h"

typedef void (*fake_answered)(void *ctx, int status, struct str body);

/* A path with a query, and a body of JSON, or none. Headers that are empty are absent. */
struct fake_request {
    enum http_method method;
    struct str target, body, authorization, idempotency_key;
};

/* Asks: answered(ctx, …) is called once, perhaps before this returns; *x is the exchange until then
 * and NULL afterwards. */
void fake_ask(struct router *r, const struct fake_request *asked, fake_answered answered, void *ctx,
              struct http_exchange **x);
/* What the network would do next: the next piece of a body that is taken in pieces, or its end. The
 * exchange may be answered in here. */
void fake_step(struct http_exchange *x);
/* What has come of an answer in pieces so far; empty before the first one. */
struct str fake_sent(const struct http_exchange *x);
/* The peer goes away. The exchange may be answered in here. */
void fake_leave(struct http_exchange *x);
/* The process that had it ended: nobody will answer. Its memory is kept until fake_free_all. */
void fake_forget(struct http_exchange *x);
void fake_free_all(void);

#endif
