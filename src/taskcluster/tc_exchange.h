/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_EXCHANGE_H
#define TASKCLUSTER_TC_EXCHANGE_H

/* The exchanges on which Taskcluster's queue publishes messages: their names, schemas and routing
 * keys, and the reference by which clients bind to them. Source: the public repository
 * taskcluster/taskcluster, services/queue/src/exchanges.js. */

#include "base/buf.h"

enum tc_exchange {
    TC_TASK_DEFINED,
    TC_TASK_PENDING,
    TC_TASK_RUNNING,
    TC_ARTIFACT_CREATED,
    TC_TASK_COMPLETED,
    TC_TASK_FAILED,
    TC_TASK_EXCEPTION,
    TC_TASK_GROUP_RESOLVED,
    TC_TASK_GROUP_SEALED,
    TC_TASK_PRIORITY_CHANGED,
    TC_TASK_GROUP_PRIORITY_CHANGED,
    TC_EXCHANGES
};

#define TC_EXCHANGE_PREFIX "exchange/taskcluster-queue/v1/"
#define TC_WORKER_MAX      38 /* characters of the group or id of a worker */

/* "task-defined" …, to be put behind the prefix. */
const char *tc_exchange_name(enum tc_exchange e);

/* What a routing key is made of; an empty text is a gap. */
struct tc_routing {
    struct str task_id;
    int64_t run; /* negative: a gap */
    struct str worker_group, worker_id;
    struct str provisioner_id, worker_type;
    struct str scheduler_id, task_group_id;
};

/* "primary.…" as messages of that exchange have it: words with dots between them, `_` for gaps. */
void tc_exchange_routing_key(struct buf *b, enum tc_exchange e, const struct tc_routing *r);
/* The group or id of a worker as messages may name it: what it may not contain, for workers of the
 * Jobs API have other names, becomes '-', and it ends after TC_WORKER_MAX characters. Empty: "-".
 */
void tc_exchange_worker(struct buf *b, struct str name);
/* /references/queue/v1/exchanges.json */
void tc_exchange_reference(struct buf *b);

#endif
