/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_TASK_API_H
#define SERVER_TASK_API_H

/* Sets up Taskcluster's front end: the clients that may use it, the key by which the server signs
 * the credentials of claims, and its place on the router. */

#include "api/api.h"
#include "net/router.h"
#include "server/settings.h"
#include "taskcluster/taskcluster.h"

struct task_api {
    struct access *access;
    struct taskcluster *front;
};

/* What the server gives: its clock and an unpredictable number. */
struct task_api_env {
    struct backend *backend;
    struct tokens *tokens;
    struct identities *identities;
    struct holders *holders;
    struct router *router;
    uv_loop_t *loop;
    instant (*now)(void *ctx);
    void *ctx;
    uint64_t seed;
    bool loopback; /* only this machine can reach the server */
};

/* The Jobs API shows its messages. ERR_IO or ERR_CORRUPT: the clients' file, or the key. */
NODISCARD struct err task_api_open(struct task_api *t, struct api *api, const struct settings *s,
                                   const struct task_api_env *env);
/* At SIGHUP: reads the clients again, and says in the log what came of it. */
void task_api_reload(struct task_api *t, const struct settings *s);
/* Before the backend is freed; also after a start that failed. The loop runs meanwhile. */
void task_api_stop(struct task_api *t);
/* What it has counted, for GET /metrics. */
void task_api_read(const struct task_api *t, struct api_machine *m);
/* For http_settings; 0: it answers with nothing large. */
uint64_t task_api_reply_bound(const struct http_request *req);
/* At the beginning of a stop: who waits for nothing but time is answered. */
void task_api_drain(struct task_api *t);
/* After the last exchange has ended. */
void task_api_close(struct task_api *t);

#endif
