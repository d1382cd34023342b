/* SPDX-License-Identifier: Apache-2.0 */

/* Messages about events: what they tell is read when somebody wants to know. */

#include <stdlib.h>

#include "base/alloc.h"
#include "taskcluster/tc_message.h"
#include "taskcluster/tc_task.h"

struct tell_request {
    struct list node; /* in taskcluster.telling */
    struct taskcluster *tc;
    const struct job_event *ev;
    struct buf *out;
    size_t before; /* bytes that it had */
    void (*done)(void *ctx);
    void *ctx;
    struct arena arena;
};

static void drop(struct tell_request *q)
{
    list_unlink(&q->node);
    arena_fini(&q->arena);
    free(q);
}

static void finish(struct tell_request *q)
{
    void (*done)(void *ctx) = q->done;
    void *ctx = q->ctx;
    drop(q);
    done(ctx);
}

static void on_artifact(void *ctx, const struct reply *r)
{
    struct tell_request *q = ctx;
    struct tc_artifact artifact;
    bool known = r->err.code == ERR_OK && tc_artifact_of(&r->kv[0], &q->arena, &artifact) &&
                 artifact.storage != TC_STORAGE_S3 &&
                 !tc_artifact_has_expired(&artifact, tc_now(q->tc));
    if (known)
        tc_message_artifact(q->out, &artifact);
    else
        q->out->len = q->before;
    finish(q);
}

static bool read_artifact(struct tell_request *q, const struct tc_task *t)
{
    struct str key;
    struct err err = tc_artifact_key(t->job.options.alias, (uint32_t)q->ev->run, q->ev->artifact,
                                     &q->arena, &key);
    struct command cmd = {.kind = CMD_KV_READ,
                          .kv = {.space = STR(TC_ARTIFACTS), .key = key},
                          .done = on_artifact,
                          .ctx = q};
    if (err.code == ERR_OK)
        backend_submit(q->tc->backend, &cmd);
    return err.code == ERR_OK;
}

static void on_task(void *ctx, const struct reply *r)
{
    struct tell_request *q = ctx;
    struct tc_task t;
    if (r->err.code == ERR_OK && tc_task_of(r, &q->arena, &t))
        tc_message_of_task(q->out, q->ev, &t, &q->arena);
    bool begun = q->out->len > q->before;
    if (!begun || q->ev->event != EVENT_ARTIFACT) {
        finish(q);
    } else if (!read_artifact(q, &t)) {
        q->out->len = q->before;
        finish(q);
    }
}

static void on_group(void *ctx, const struct reply *r)
{
    struct tell_request *q = ctx;
    if (r->err.code == ERR_OK)
        tc_message_of_group(q->out, q->ev, &r->group->record);
    finish(q);
}

bool taskcluster_tells(const struct job_event *ev)
{
    return tc_message_tells(ev);
}

void taskcluster_messages(struct taskcluster *t, const struct job_event *ev, struct buf *out,
                          void (*done)(void *ctx), void *ctx)
{
    struct tell_request *q = ALLOC(struct tell_request);
    *q = (struct tell_request){
        .tc = t, .ev = ev, .out = out, .before = out->len, .done = done, .ctx = ctx};
    list_append(&t->telling, &q->node);
    struct command cmd = {.ctx = q};
    if (event_is_of_group(ev->event)) {
        cmd.kind = CMD_GROUP_READ;
        cmd.group = ev->group;
        cmd.done = on_group;
    } else {
        cmd.kind = CMD_READ;
        cmd.read.id = ev->id;
        cmd.read.runs = true;
        cmd.done = on_task;
    }
    backend_submit(t->backend, &cmd);
}

void tc_tell_free(struct taskcluster *t)
{
    while (!list_is_empty(&t->telling))
        drop(LIST_OF(t->telling.next, struct tell_request, node));
}
