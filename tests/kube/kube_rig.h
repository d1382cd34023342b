/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KUBE_KUBE_RIG_H
#define TESTS_KUBE_KUBE_RIG_H

/* A client of kube/, and a real HTTP server that a test answers for, on one loop. Nothing sleeps: a
 * test awaits what it expects, and fails if it has not come within twenty seconds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "kube/kube_client.h"
#include "net/http.h"
#include "net/tls.h"

#define RIG_REQUESTS 128

/* A request that came, as far as tests look at it; texts end with NUL. */
struct rig_request {
    enum http_method method;
    char path[256], query[512], authorization[256];
    struct buf body;
};

struct rig {
    uv_loop_t loop;
    uv_timer_t guard;
    struct http_settings http;
    struct http_server *server;
    struct tls_context *tls;
    int port;
    /* Answers a request; the n-th, from 0. */
    void (*serve)(struct rig *r, struct http_exchange *x, const struct http_request *req, int n);
    int served;
    struct rig_request requests[RIG_REQUESTS]; /* the first ones */
    struct http_exchange *held[RIG_REQUESTS];
    int held_count;
    struct http_exchange *stream;
    int streams_closed;
    instant now; /* the clock of the client */
    struct kube_config config;
    struct kube_client_settings settings;
    struct kube_client *client;
    char url[64];
    char folder[64];
    void *mine; /* the test's */
};

int rig_setup(void **state);
int rig_teardown(void **state);
/* Begins to listen (again: on the same port); then a client. Settings may be changed before. */
void rig_listen(struct rig *r);
void rig_start(struct rig *r);
/* Stops listening and cuts every connection. */
void rig_cut(struct rig *r);
/* One turn, and turns until nothing happens any more. */
void rig_step(struct rig *r);
void rig_settle(struct rig *r);
/* A file of the rig's folder; valid until the next call but three. */
const char *rig_path(struct rig *r, const char *name);
void rig_write(struct rig *r, const char *name, const char *text, int mode);
/* What is in it; free() it. */
char *rig_read(struct rig *r, const char *name);

/* The server has a certificate for that host, and demands one of clients if mutual; the folder has
 * ca.pem, other.pem, client.pem, client-key.pem. */
void rig_use_tls(struct rig *r, const char *host, int64_t days, bool mutual);

void rig_json(struct http_exchange *x, int status, const char *body);
void rig_json_extra(struct http_exchange *x, int status, const char *body, const char *extra);
void rig_hold(struct rig *r, struct http_exchange *x);
/* Begins a stream that is r->stream until it is closed. */
void rig_stream(struct rig *r, struct http_exchange *x);
void rig_send(struct rig *r, const char *text);

#define RIG_AWAIT(r, condition)                                                                    \
    do {                                                                                           \
        rig_guard((r), __FILE__, __LINE__, #condition);                                            \
        while (!(condition))                                                                       \
            rig_step(r);                                                                           \
        rig_unguard(r);                                                                            \
    } while (0)
void rig_guard(struct rig *r, const char *file, int line, const char *what);
void rig_unguard(struct rig *r);

#endif
