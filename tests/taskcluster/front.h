/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TASKCLUSTER_FRONT_H
#define TESTS_TASKCLUSTER_FRONT_H

/* The whole front end over a backend in memory, asked without a network, by a clock of its own. */

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
// clang-format on

#include <string.h>
#include <uv.h>

#include "backend/embedded/embedded.h"
#include "base/rfc3339.h"
#include "fake_http.h"
#include "store/memory.h"
#include "taskcluster/taskcluster.h"
#include "wire/document.h"

#define TASK  "/api/queue/v1/task/00000001S0C0000000000A"
#define OTHER "/api/queue/v1/task/00000002S0C0000000000A"
#define CLAIM ((span){1200 * 1000})
#define HOURS ((span){10 * 3600 * 1000})

struct world {
    instant now;
    struct store *store;
    struct backend *backend;
    struct access *access;
    struct taskcluster *front;
    struct router *router;
    uv_loop_t loop;
};

struct asked {
    struct http_exchange *x;
    const char *worker; /* NULL: it is no claim */
    int status;         /* 0: there is no answer so far */
    int64_t run;        /* that it was given, or -1 */
};

void front_begin(struct world *w);
void front_end(struct world *w);
void front_turn(struct world *w);
/* Asks for a task in the queue p/<queue>. */
void front_create(struct world *w, const char *task, const char *queue, fake_answered answered,
                  struct asked *a);
/* Until there is an answer, which is good. */
void front_wait_for(struct world *w, const struct asked *a);

#endif
