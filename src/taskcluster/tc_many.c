/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_many.h"

/* The tasks that are read at a time: more while they are small, one where one alone takes as long
 * as the loop has for all. */
#define READ_MAX   8
#define READ_BYTES ((size_t)1 << 20)
#define BYTES_MAX  ((size_t)8 << 20) /* a page with more ends */

struct reading {
    struct tc_call *call;
    struct tc_many many;
    size_t asked, answered;
    size_t window; /* how many are read now at most */
    size_t bytes;  /* of their payloads */
    struct err err;
    struct buf out;
};

static void ask(struct reading *r);

static void finish(struct reading *r)
{
    struct buf out = r->out; /* r goes with its exchange */
    if (r->err.code != ERR_OK)
        tc_fail_err(r->call, &r->err);
    else
        r->many.done(r->call, buf_view(&out), r->answered);
    buf_fini(&out);
}

static void add(struct reading *r, const struct reply *reply)
{
    struct tc_task t;
    r->bytes += reply->jobs[0].payload.len;
    if (!tc_task_of(reply, r->call->arena, &t))
        return;
    if (r->out.len)
        buf_byte(&r->out, ',');
    r->many.write(&r->out, &t);
}

static void on_read(void *ctx, const struct reply *reply)
{
    struct reading *r = ctx;
    r->answered++;
    if (reply->err.code == ERR_OK)
        add(r, reply);
    else if (reply->err.code != ERR_NOT_FOUND)
        r->err = reply->err;
    if (r->answered < r->asked)
        return;
    bool full = r->out.len > BYTES_MAX || r->err.code != ERR_OK;
    if (full || r->asked == r->many.count)
        finish(r);
    else
        ask(r);
}

static void ask(struct reading *r)
{
    size_t from = r->asked;
    size_t left = r->many.count - from;
    if (r->bytes > READ_BYTES)
        r->window = 1;
    else if (r->window < READ_MAX)
        r->window *= 2;
    r->bytes = 0;
    r->asked = from + (r->window < left ? r->window : left);
    for (size_t i = from; i < r->asked; i++) {
        const struct tc_ref *ref = &r->many.refs[i];
        struct command cmd = {.kind = CMD_READ,
                              .alias = ref->task_id,
                              .read = {.id = ref->job, .runs = true},
                              .done = on_read,
                              .ctx = r};
        backend_submit(r->call->tc->backend, &cmd);
    }
}

void tc_many_read(struct tc_call *c, const struct tc_many *m)
{
    struct reading *r = ARENA_NEW(c->arena, struct reading);
    r->call = c;
    r->many = *m;
    r->bytes = READ_BYTES + 1; /* the first may be large */
    if (m->count == 0)
        finish(r);
    else
        ask(r);
}
