/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JQ_POOL_TASK_H
#define JQ_POOL_TASK_H

/* Requests of a pool (jq/pool.h) as frames for its helpers, and the lines in which they wait. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/evaluator.h"
#include "base/list.h"

/* A request that is waiting or being processed. */
struct pool_task {
    struct list node; /* in a line while it waits */
    struct buf frame;
    struct eval_answer *answers;
    size_t expected, count; /* answers in total, and so far */
    bool is_fold;
    uint64_t affinity; /* equal for equal expressions */
    bool again;        /* it ran out of memory in a process that was not fresh */
    bool is_filter;
    span left; /* of the time limit for the whole request; 0: unlimited */
    void (*done)(void *ctx, const struct err *err, const struct eval_answer *answers, size_t count,
                 span spent);
    void *ctx;
};

/* Waiting tasks, in order of arrival. */
struct pool_line {
    struct list tasks;
    size_t count, bytes;
};

/* A copy of what the request asks. */
struct pool_task *pool_task_new(const struct eval_request *r);
void pool_task_free(struct pool_task *t);

/* The line takes it over; first: it is the next that leaves. */
void pool_line_add(struct pool_line *l, struct pool_task *t, bool first);
/* The first of a line that is not empty. */
struct pool_task *pool_line_take(struct pool_line *l);

#endif
