/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BUILDS_BUILD_RIG_H
#define TESTS_BUILDS_BUILD_RIG_H

/* A loop, a directory, a clock, a log that is captured, and an HTTP server for which a test answers
 * as Screwdriver's API. Nothing sleeps: a test awaits what it expects, and fails if it has not come
 * within twenty seconds. At the end the log is searched for the secret that all tokens contain. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/buf.h"
#include "base/units.h"
#include "net/fetch.h"
#include "net/http.h"
#include "net/tls.h"

#define RIG_SECRET   "sesame"
#define RIG_REQUESTS 64

struct rig_request {
    enum http_method method;
    char path[300], authorization[300], type[64];
    char body[5000];
};

struct rig {
    uv_loop_t loop;
    uv_timer_t guard, tick;
    char dir[64], state[80]; /* state: in dir, not made yet */
    struct buf log;
    struct http_server *server;
    struct tls_context *tls;
    int port;
    char url[64];
    /* Answers a request; the n-th, from 0. */
    void (*serve)(struct rig *r, struct http_exchange *x, int n);
    int served;
    struct rig_request requests[RIG_REQUESTS]; /* the first ones */
    struct http_exchange *held[RIG_REQUESTS];
    int held_count, streams_closed;
    int kept;   /* calls of rig_kept */
    void *mine; /* the test's */
    /* What is open, and closes it if the test fails half-way. */
    void (*close)(void *open);
    void *open;
};

/* The clock; it stands still unless a test sets it. */
extern instant rig_now;
instant rig_clock(void);

int rig_setup(void **state);
int rig_teardown(void **state);
/* Begins to listen (again: on the same port), and stops with all connections. */
void rig_listen(struct rig *r);
void rig_cut(struct rig *r);
/* https from now on; the directory has ca.pem, and other.pem, which has signed nothing. */
void rig_use_tls(struct rig *r);
/* A file of the directory; valid until the next call but three. */
const char *rig_path(struct rig *r, const char *name);

void rig_hold(struct rig *r, struct http_exchange *x);
/* Answers what was held, with that status. */
void rig_release(struct rig *r, int status);
void rig_answer(struct http_exchange *x, int status, const char *extra);
/* Begins an answer and breaks it off. */
void rig_break(struct rig *r, struct http_exchange *x);

/* Closes what is open, and releases what was held. */
void rig_close(struct rig *r);

/* Counts; a struct rig is its context. */
void rig_kept(void *ctx);
bool rig_logged(const struct rig *r, const char *what);
/* Runs f in a process of its own, which must end by SIGKILL. */
void rig_in_doomed_process(void (*f)(const char *state), const char *state);

/* One turn, and turns until nothing happens any more. */
void rig_step(struct rig *r);
void rig_settle(struct rig *r);
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
