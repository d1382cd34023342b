/* SPDX-License-Identifier: Apache-2.0 */
#include "jq/pool_task.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "jq/frame.h"

void pool_task_free(struct pool_task *t)
{
    buf_fini(&t->frame);
    free(t->answers);
    free(t);
}

static uint64_t hash_of(const struct eval_request *r)
{
    uint64_t h = 14695981039346656037u;
    for (int e = 0; e < 2; e++)
        for (size_t i = 0; i < r->exprs[e].len; i++)
            h = (h ^ (unsigned char)r->exprs[e].at[i]) * 1099511628211u;
    return h ^ h >> 32;
}

struct pool_task *pool_task_new(const struct eval_request *r)
{
    struct pool_task *t = ALLOC(struct pool_task);
    list_init(&t->node);
    frame_number(&t->frame, 0);
    buf_byte(&t->frame, (char)r->kind);
    frame_text(&t->frame, r->exprs[0]);
    frame_text(&t->frame, r->exprs[1]);
    frame_number(&t->frame, (uint32_t)r->count);
    for (size_t i = 0; i < r->count; i++)
        frame_text(&t->frame, r->inputs[i]);
    must(t->frame.len <= UINT32_MAX);
    uint32_t len = (uint32_t)(t->frame.len - sizeof len);
    memcpy(t->frame.at, &len, sizeof len);
    t->expected = r->kind == EVAL_FILTER ? r->count : r->kind == EVAL_FOLD ? 1 : 0;
    t->answers = alloc_zero((t->expected + 1) * sizeof *t->answers);
    t->is_fold = r->kind == EVAL_FOLD;
    t->is_filter = r->kind == EVAL_FILTER;
    t->left = r->left;
    t->affinity = hash_of(r);
    t->done = r->done;
    t->ctx = r->ctx;
    return t;
}

void pool_line_add(struct pool_line *l, struct pool_task *t, bool first)
{
    list_append(first ? l->tasks.next : &l->tasks, &t->node);
    l->count++;
    l->bytes += t->frame.len;
}

struct pool_task *pool_line_take(struct pool_line *l)
{
    struct pool_task *t = LIST_OF(l->tasks.next, struct pool_task, node);
    list_unlink(&t->node);
    l->count--;
    l->bytes -= t->frame.len;
    return t;
}
