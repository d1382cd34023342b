/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_STATIC_WORKERS_H
#define ACCESS_STATIC_WORKERS_H

/* Workers that identify themselves by a secret of their own, as Taskcluster's static provider has
 * them. They stand in the file of clients (access/clients.h):
 *
 *     {"workerPoolId": "ci/linux", "workerGroup": "rack-1", "workerId": "machine-1",
 *      "staticSecret": "44 of A–Z a–z 0–9 _ -", "providerId": "static", "workerConfig": {…}}
 *
 * The last two may be left out. Pure. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/strmap.h"

#define STATIC_SECRET_LEN 44

struct static_worker {
    struct str pool; /* "provisioner/worker-type", which is its task queue, too */
    struct str group, id;
    struct str provider; /* "static" unless it is given */
    struct str secret;
    struct str config; /* a JSON object */
};

/* Reads the value of a member. ERR_BAD_TYPE or ERR_BAD_VALUE with its place, without quoting it. */
NODISCARD struct err static_worker_read_pool(struct json_cursor *c, struct arena *a,
                                             struct static_worker *w);
NODISCARD struct err static_worker_read_group(struct json_cursor *c, struct arena *a,
                                              struct static_worker *w);
NODISCARD struct err static_worker_read_id(struct json_cursor *c, struct arena *a,
                                           struct static_worker *w);
NODISCARD struct err static_worker_read_provider(struct json_cursor *c, struct arena *a,
                                                 struct static_worker *w);
NODISCARD struct err static_worker_read_secret(struct json_cursor *c, struct arena *a,
                                               struct static_worker *w);
NODISCARD struct err static_worker_read_config(struct json_cursor *c, struct arena *a,
                                               struct static_worker *w);

/* Adds it with what was left out, its key in the arena. False if there is one of that name. */
bool static_worker_add(struct strmap *all, struct static_worker *w, struct arena *a);
/* NULL if there is none. */
const struct static_worker *static_worker_find(const struct strmap *all, struct str pool,
                                               struct str group, struct str id);

#endif
