/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JQ_POOL_H
#define JQ_POOL_H

/* A few processes that run jq expressions (jq/helper.h), and two queues of requests: one for
 * filters, which never occupy all of the processes, and one for everything else, which has
 * precedence. Each process is started when it is first needed, and again after it has ended for any
 * reason. One that takes too long is ended by SIGKILL, and its request is answered with an error.
 * Runs on the loop thread; expressions never do. */

#include <uv.h>

#include "base/evaluator.h"
#include "base/units.h"

struct pool;

struct pool_settings {
    const char *program;   /* NULL: this binary */
    int processes;         /* plus one that never runs filters, used while these are busy */
    span time_limit;       /* processor time of one run of an expression, and of compiling it */
    span wall_limit;       /* how long either may take by the clock, however little of it runs */
    uint64_t memory_limit; /* bytes, of each process */
    size_t queue_max;      /* requests that may wait in each queue; more are ERR_BUSY */
    size_t queue_bytes;    /* and their total size */
    size_t answer_max;     /* bytes of the result of a fold */
};

/* The settings of a server without flags. */
struct pool_settings pool_defaults(void);

struct pool *pool_new(uv_loop_t *loop, const struct pool_settings *settings);
/* Ends all processes without answering their requests. Frees the pool once the loop has turned and
 * closed its handles. */
void pool_close(struct pool *p);
struct evaluator *pool_evaluator(struct pool *p);

/* For tests: ids of the running processes, at most `most` of them. */
int pool_pids(const struct pool *p, int *pids, int most);

#endif
