/* SPDX-License-Identifier: Apache-2.0 */

/* The bodies of requests, in pieces and held. */

#include "base/must.h"
#include "net/http_internal.h"

bool server_takes_pieces(const struct http_server *s, enum http_method method, struct str path)
{
    return s->settings.in_pieces && s->settings.in_pieces(s->ctx, method, path);
}

void server_body_piece(struct http_exchange *x, struct str bytes)
{
    must(x->receiver && x->body == BODY_FLOWS);
    if (bytes.len)
        x->receiver->piece(x->receiver_ctx, bytes);
}

void server_body_end(struct http_exchange *x)
{
    const struct http_receiver *r = x->receiver;
    must(r && x->body == BODY_FLOWS);
    x->body = BODY_OVER;
    x->receiver = NULL;
    r->end(x->receiver_ctx);
}

void server_body_abort(struct http_exchange *x, struct err why)
{
    const struct http_receiver *r = x->receiver;
    must(r);
    x->body = BODY_OVER;
    x->receiver = NULL;
    r->abort(x->receiver_ctx, &why);
}

bool http_in_pieces(const struct http_exchange *x)
{
    return x->body == BODY_OFFERED;
}

void http_body_pause(struct http_exchange *x)
{
    if (x->body == BODY_FLOWS)
        x->body = BODY_PAUSED;
}

void http_body_resume(struct http_exchange *x)
{
    if (x->body != BODY_PAUSED)
        return;
    x->body = BODY_FLOWS;
    if (x->conn)
        x->conn->protocol->body_go_on(x);
}

void http_hold(struct http_exchange *x, uint64_t bytes)
{
    if (x->server->hand_over || bytes <= BODY_MEMORY_TINY)
        return; /* the thread that has read it counts it until it is answered */
    x->kept += bytes;
    body_memory_add(&x->server->conns.bodies, bytes);
}
