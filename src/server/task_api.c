/* SPDX-License-Identifier: Apache-2.0 */
#include "server/task_api.h"

#include <limits.h>
#include <stdio.h>

#include "access/hawk.h"
#include "access/issuer_key.h"
#include "base/log.h"

/* The server as the issuer of the credentials of claims; no client may have that name. */
#define ISSUER "tenax/claims"

static void write_messages(void *ctx, const struct job_event *ev, struct buf *out,
                           void (*done)(void *ctx), void *done_ctx)
{
    taskcluster_messages(ctx, ev, out, done, done_ctx);
}

struct err task_api_open(struct task_api *t, struct api *api, const struct settings *s,
                         const struct task_api_env *env)
{
    char path[PATH_MAX], artifacts[PATH_MAX], key[ACCESS_KEY_MIN];
    snprintf(path, sizeof path, "%s/issuer-key", s->root_dir);
    snprintf(artifacts, sizeof artifacts, "%s/artifacts", s->root_dir);
    TRY(issuer_key_open(path, key));
    struct access_settings access = {.window = HAWK_WINDOW,
                                     .nonces_max = ACCESS_NONCES_MAX,
                                     .issuer = STR(ISSUER),
                                     .issuer_key = {key, sizeof key},
                                     .seed = env->seed};
    t->access = access_new(&access);
    if (s->taskcluster_clients)
        TRY(access_load_clients(t->access, s->taskcluster_clients));
    struct taskcluster_settings settings = {.claim_timeout = s->taskcluster_claim_timeout,
                                            .access = t->access,
                                            .tokens = env->tokens,
                                            .identities = env->identities,
                                            .holders = env->holders,
                                            .needs_clients = !env->loopback,
                                            .seed = ~env->seed,
                                            .artifact_dir = artifacts,
                                            .artifact_space = s->taskcluster_artifact_space,
                                            .free_min = s->min_free_space,
                                            .loop = env->loop,
                                            .now = env->now,
                                            .ctx = env->ctx};
    TRY(taskcluster_new(env->backend, &settings, &t->front));
    for (int i = 0; i < TASKCLUSTER_FRONT_ENDS; i++)
        router_mount(env->router, taskcluster_front_end(t->front, i));
    const struct api_messages messages = {"taskcluster", taskcluster_tells, write_messages,
                                          t->front};
    api_set_messages(api, &messages);
    return err_none();
}

void task_api_reload(struct task_api *t, const struct settings *s)
{
    taskcluster_set_claim_timeout(t->front, s->taskcluster_claim_timeout);
    taskcluster_set_free_min(t->front, s->min_free_space);
    if (!s->taskcluster_clients)
        return;
    struct err err = access_load_clients(t->access, s->taskcluster_clients);
    if (err.code == ERR_OK)
        log_info("SIGHUP: %s has been read again", s->taskcluster_clients);
    else
        log_error("SIGHUP: Taskcluster's clients are those that were there: %s", err.msg);
}

void task_api_stop(struct task_api *t)
{
    taskcluster_stop(t->front);
}

void task_api_read(const struct task_api *t, struct api_machine *m)
{
    struct taskcluster_polled polled;
    taskcluster_read_polled(t->front, &polled);
    m->polled[POLLED_DEQUEUED] = polled.dequeued;
    m->polled[POLLED_DELETED] = polled.deleted;
    m->polled[POLLED_REPEATED] = polled.repeated;
    m->polled[POLLED_UNDELETED] = polled.undeleted;
    struct taskcluster_artifacts artifacts;
    taskcluster_read_artifacts(t->front, &artifacts);
    m->artifact_used = artifacts.used;
    m->artifact_space = artifacts.space;
    m->artifact_uploads = artifacts.uploads;
}

/* The bytes of an artifact come from the disk, once there is room for the first of them. */
uint64_t task_api_reply_bound(const struct http_request *req)
{
    static const struct str content = {TASKCLUSTER_CONTENT_PATH,
                                       sizeof TASKCLUSTER_CONTENT_PATH - 1};
    bool get = req->method == HTTP_GET || req->method == HTTP_HEAD;
    if (get && req->path.len > content.len && memcmp(req->path.at, content.at, content.len) == 0)
        return TASKCLUSTER_CONTENT_PIECE;
    return 0;
}

void task_api_drain(struct task_api *t)
{
    taskcluster_drain(t->front);
}

void task_api_close(struct task_api *t)
{
    taskcluster_free(t->front);
    access_free(t->access);
}
