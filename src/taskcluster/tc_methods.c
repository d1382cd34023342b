/* SPDX-License-Identifier: Apache-2.0 */

/* All methods of the queue's API: path, scopes, schemas and handler. The reference that clients
 * fetch (/references/queue/v1/api.json) is written from this table.
 *
 * Source: services/queue/src/api.js and the reference manual of taskcluster/taskcluster. */

#include "base/array.h"
#include "taskcluster/tc_handlers.h"

/* --- scopes --- */

#define SCOPES(name, ...) static const struct scope_expr name = __VA_ARGS__

SCOPES(get_task, SCOPE("queue:get-task:<taskId>"));
SCOPES(get_status, SCOPE("queue:status:<taskId>"));
SCOPES(get_tasks, SCOPE_ALL_OF(SCOPE_EACH("taskId", "taskIds", "queue:get-task:<taskId>")));
SCOPES(get_statuses, SCOPE_ALL_OF(SCOPE_EACH("taskId", "taskIds", "queue:status:<taskId>")));
SCOPES(create_task,
       SCOPE_ALL_OF(
           SCOPE_EACH("scope", "scopes", "<scope>"),
           SCOPE_EACH("route", "routes", "queue:route:<route>"),
           SCOPE("queue:create-task:project:<projectId>"),
           SCOPE("queue:scheduler-id:<schedulerId>"),
           SCOPE_ANY_OF(SCOPE_EACH("priority", "priorities",
                                   "queue:create-task:<priority>:<provisionerId>/<workerType>"))));

/* What schedulers may do with their tasks; the last alternative is the oldest. */
#define OF_SCHEDULER(verb)                                                                         \
    SCOPE_ANY_OF(SCOPE("queue:" verb "-task:<schedulerId>/<taskGroupId>/<taskId>"),                \
                 SCOPE("queue:" verb "-task-in-project:<projectId>"),                              \
                 SCOPE_ALL_OF(SCOPE("queue:" verb "-task"),                                        \
                              SCOPE("assume:scheduler-id:<schedulerId>/<taskGroupId>")))
SCOPES(schedule_task, OF_SCHEDULER("schedule"));
SCOPES(rerun_task, OF_SCHEDULER("rerun"));
SCOPES(cancel_task, OF_SCHEDULER("cancel"));
SCOPES(change_task_priority,
       SCOPE_ANY_OF(SCOPE("queue:change-task-priority:<taskId>"),
                    SCOPE("queue:change-task-priority-in-queue:<taskQueueId>")));
SCOPES(list_task_group, SCOPE("queue:list-task-group:<taskGroupId>"));
SCOPES(cancel_task_group, SCOPE("queue:cancel-task-group:<schedulerId>/<taskGroupId>"));
SCOPES(seal_task_group, SCOPE("queue:seal-task-group:<schedulerId>/<taskGroupId>"));
SCOPES(change_group_priority,
       SCOPE("queue:change-task-group-priority:<schedulerId>/<taskGroupId>"));
SCOPES(list_dependents, SCOPE("queue:list-dependent-tasks:<taskId>"));
SCOPES(claim_work, SCOPE_ALL_OF(SCOPE("queue:claim-work:<taskQueueId>"),
                                SCOPE("queue:worker-id:<workerGroup>/<workerId>")));
SCOPES(claim_task, SCOPE_ALL_OF(SCOPE("queue:claim-task:<provisionerId>/<workerType>"),
                                SCOPE("queue:worker-id:<workerGroup>/<workerId>")));
SCOPES(reclaim_task, SCOPE("queue:reclaim-task:<taskId>/<runId>"));
SCOPES(resolve_task, SCOPE("queue:resolve-task:<taskId>/<runId>"));

SCOPES(list_provisioners, SCOPE("queue:list-provisioners"));
SCOPES(get_provisioner, SCOPE("queue:get-provisioner:<provisionerId>"));
SCOPES(pending_count, SCOPE("queue:pending-count:<taskQueueId>"));
SCOPES(queue_counts, SCOPE_ALL_OF(SCOPE("queue:pending-count:<taskQueueId>"),
                                  SCOPE("queue:claimed-count:<taskQueueId>")));
SCOPES(pending_list, SCOPE("queue:pending-list:<taskQueueId>"));
SCOPES(claimed_list, SCOPE("queue:claimed-list:<taskQueueId>"));
SCOPES(list_worker_types, SCOPE("queue:list-worker-types:<provisionerId>"));
SCOPES(get_worker_type, SCOPE("queue:get-worker-type:<provisionerId>/<workerType>"));
SCOPES(list_task_queues, SCOPE("queue:list-task-queues"));
SCOPES(get_task_queue, SCOPE("queue:get-task-queue:<taskQueueId>"));
SCOPES(list_workers, SCOPE("queue:list-workers:<provisionerId>/<workerType>"));
#define OF_WORKER(verb)                                                                            \
    SCOPE("queue:" verb "-worker:<provisionerId>/<workerType>/<workerGroup>/<workerId>")
SCOPES(get_worker, OF_WORKER("get"));
SCOPES(quarantine_worker, OF_WORKER("quarantine"));
SCOPES(declare_worker, SCOPE_ALL_OF(SCOPE_EACH("property", "properties",
                                               "queue:declare-worker:<provisionerId>/<workerType>/"
                                               "<workerGroup>/<workerId>#<property>")));

SCOPES(poll_task_urls,
       SCOPE_ANY_OF(SCOPE("queue:poll-task-urls:<provisionerId>/<workerType>"),
                    SCOPE_ALL_OF(SCOPE("queue:poll-task-urls"),
                                 SCOPE("assume:worker-type:<provisionerId>/<workerType>"))));

/* --- queries --- */

static bool is_number(struct str s)
{
    return tc_is_run_id(s);
}

static bool is_anything(struct str s)
{
    return s.len > 0;
}

static bool is_truth(struct str s)
{
    return str_eq(s, STR("true")) || str_eq(s, STR("false"));
}

#define PAGES                                                                                      \
    {"limit", is_number},                                                                          \
    {                                                                                              \
        "continuationToken", is_anything                                                           \
    }
static const struct tc_query pages[] = {PAGES, {NULL, NULL}};
static const struct tc_query worker_pages[] = {PAGES, {"quarantined", is_truth}, {NULL, NULL}};

/* What Azure's clients send; the URL is what they were given. */
static const struct tc_query azure[] = {{"visibilitytimeout", is_anything},
                                        {"numofmessages", is_anything},
                                        {"popreceipt", is_anything},
                                        {"se", is_anything},
                                        {"sp", is_anything},
                                        {"sv", is_anything},
                                        {"sig", is_anything},
                                        {"timeout", is_anything},
                                        {NULL, NULL}};

/* --- methods --- */

const struct tc_method tc_methods[] = {
    {{HTTP_GET, "/ping"},
     tc_ping,
     "ping",
     .category = "Monitoring",
     .title = "Ping server",
     .stability = "stable"},
    {{HTTP_GET, "/__lbheartbeat__"},
     tc_heartbeat,
     "lbheartbeat",
     .category = "Monitoring",
     .title = "Load balancer heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__heartbeat__"},
     tc_heartbeat,
     "heartbeat",
     .category = "Monitoring",
     .title = "Heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__version__"},
     tc_version,
     "version",
     .category = "Monitoring",
     .title = "Version",
     .stability = "stable"},
    {{HTTP_GET, "/task/{taskId}"},
     tc_get_task,
     "task",
     &get_task,
     .early = true,
     .output = "v1/task.json",
     .category = "Tasks",
     .title = "Get the definition of a task",
     .stability = "stable"},
    {{HTTP_POST, "/tasks"},
     tc_get_tasks,
     "tasks",
     &get_tasks,
     .input = "v1/tasks-request.json",
     .output = "v1/tasks-response.json",
     .query = pages,
     .category = "Tasks",
     .title = "Get the definitions of several tasks",
     .stability = "experimental"},
    {{HTTP_POST, "/tasks/status"},
     tc_get_statuses,
     "statuses",
     &get_statuses,
     .input = "v1/tasks-request.json",
     .output = "v1/tasks-statuses-response.json",
     .query = pages,
     .category = "Tasks",
     .title = "Get the statuses of several tasks",
     .stability = "experimental"},
    {{HTTP_GET, "/task/{taskId}/status"},
     tc_get_status,
     "status",
     &get_status,
     .early = true,
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Get the status of a task",
     .stability = "stable"},
    {{HTTP_PUT, "/task/{taskId}"},
     tc_create_task,
     "createTask",
     &create_task,
     .input = "v1/create-task-request.json",
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Create a task",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/schedule"},
     tc_schedule_task,
     "scheduleTask",
     &schedule_task,
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Schedule a task whatever it waits for",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/rerun"},
     tc_rerun_task,
     "rerunTask",
     &rerun_task,
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Rerun a resolved task",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/cancel"},
     tc_cancel_task,
     "cancelTask",
     &cancel_task,
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Cancel a task",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/priority"},
     tc_change_task_priority,
     "changeTaskPriority",
     &change_task_priority,
     .input = "v1/change-task-priority-request.json",
     .output = "v1/task-status-response.json",
     .category = "Tasks",
     .title = "Change the priority of a task",
     .stability = "experimental"},
    {{HTTP_GET, "/task-group/{taskGroupId}/list"},
     tc_list_task_group,
     "listTaskGroup",
     &list_task_group,
     .early = true,
     .output = "v1/list-task-group-response.json",
     .query = pages,
     .category = "Task Groups",
     .title = "List the tasks of a group",
     .stability = "stable"},
    {{HTTP_POST, "/task-group/{taskGroupId}/cancel"},
     tc_cancel_task_group,
     "cancelTaskGroup",
     &cancel_task_group,
     .output = "v1/cancel-task-group-response.json",
     .category = "Tasks",
     .title = "Cancel all tasks of a sealed group",
     .stability = "experimental"},
    {{HTTP_GET, "/task-group/{taskGroupId}"},
     tc_get_task_group,
     "getTaskGroup",
     &list_task_group,
     .early = true,
     .output = "v1/task-group-response.json",
     .category = "Task Groups",
     .title = "Get a task group",
     .stability = "stable"},
    {{HTTP_POST, "/task-group/{taskGroupId}/seal"},
     tc_seal_task_group,
     "sealTaskGroup",
     &seal_task_group,
     .output = "v1/task-group-response.json",
     .category = "Task Groups",
     .title = "Seal a task group",
     .stability = "experimental"},
    {{HTTP_POST, "/task-group/{taskGroupId}/priority"},
     tc_change_group_priority,
     "changeTaskGroupPriority",
     &change_group_priority,
     .input = "v1/change-task-priority-request.json",
     .output = "v1/task-group-priority-change-response.json",
     .category = "Task-Groups",
     .title = "Change the priority of all tasks of a group",
     .stability = "experimental"},
    {{HTTP_GET, "/task/{taskId}/dependents"},
     tc_list_dependents,
     "listDependentTasks",
     &list_dependents,
     .early = true,
     .output = "v1/list-dependent-tasks-response.json",
     .query = pages,
     .category = "Tasks",
     .title = "List the tasks that depend on a task",
     .stability = "stable"},
    {{HTTP_POST, "/claim-work/{taskQueueId*}"},
     tc_claim_work,
     "claimWork",
     &claim_work,
     .input = "v1/claim-work-request.json",
     .output = "v1/claim-work-response.json",
     .category = "Worker Interface",
     .title = "Claim tasks of a queue",
     .stability = "stable"},
    {{HTTP_GET, "/poll-task-url/{provisionerId}/{workerType}"},
     tc_poll_task_urls,
     "pollTaskUrls",
     &poll_task_urls,
     .early = true,
     .output = "v1/poll-task-urls-response.json",
     .category = "Worker Interface",
     .title = "Get URLs to poll for pending tasks",
     .stability = "deprecated"},
    /* Without a category: these are not of the API, but of the URLs that it gives. */
    {{HTTP_GET, "/azure/{provisionerId}/{workerType}/{level}/messages"},
     tc_poll_get,
     "getMessages",
     .query = azure},
    {{HTTP_DELETE, "/azure/{provisionerId}/{workerType}/{level}/messages/{messageId}"},
     tc_poll_delete,
     "deleteMessage",
     .query = azure},
    {{HTTP_POST, "/task/{taskId}/runs/{runId}/claim"},
     tc_claim_task,
     "claimTask",
     &claim_task,
     .input = "v1/task-claim-request.json",
     .output = "v1/task-claim-response.json",
     .category = "Worker Interface",
     .title = "Claim a run of a task",
     .stability = "deprecated"},
    {{HTTP_POST, "/task/{taskId}/runs/{runId}/reclaim"},
     tc_reclaim_task,
     "reclaimTask",
     &reclaim_task,
     .early = true,
     .output = "v1/task-reclaim-response.json",
     .category = "Worker Interface",
     .title = "Renew the claim of a run",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/runs/{runId}/completed"},
     tc_report_completed,
     "reportCompleted",
     &resolve_task,
     .early = true,
     .output = "v1/task-status-response.json",
     .category = "Worker Interface",
     .title = "Report a run as completed",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/runs/{runId}/failed"},
     tc_report_failed,
     "reportFailed",
     &resolve_task,
     .early = true,
     .output = "v1/task-status-response.json",
     .category = "Worker Interface",
     .title = "Report a run as failed",
     .stability = "stable"},
    {{HTTP_POST, "/task/{taskId}/runs/{runId}/exception"},
     tc_report_exception,
     "reportException",
     &resolve_task,
     .early = true,
     .input = "v1/task-exception-request.json",
     .output = "v1/task-status-response.json",
     .category = "Worker Interface",
     .title = "Report that a run could not be carried out",
     .stability = "stable"},
    {{HTTP_GET, "/provisioners"},
     tc_list_provisioners,
     "listProvisioners",
     &list_provisioners,
     .early = true,
     .output = "v1/list-provisioners-response.json",
     .query = pages,
     .category = "Worker Metadata",
     .title = "List provisioners",
     .stability = "deprecated"},
    {{HTTP_GET, "/provisioners/{provisionerId}"},
     tc_get_provisioner,
     "getProvisioner",
     &get_provisioner,
     .early = true,
     .output = "v1/provisioner-response.json",
     .category = "Worker Metadata",
     .title = "Get a provisioner",
     .stability = "deprecated"},
    {{HTTP_GET, "/pending/{taskQueueId*}"},
     tc_count_tasks,
     "pendingTasks",
     &pending_count,
     .early = true,
     .output = "v1/pending-tasks-response.json",
     .category = "Worker Metadata",
     .title = "Count the pending tasks of a queue",
     .stability = "deprecated"},
    {{HTTP_GET, "/task-queues/{taskQueueId}/counts"},
     tc_count_tasks,
     "taskQueueCounts",
     &queue_counts,
     .early = true,
     .output = "v1/task-queue-counts-response.json",
     .category = "Worker Metadata",
     .title = "Count the pending and claimed tasks of a queue",
     .stability = "stable"},
    {{HTTP_GET, "/task-queues/{taskQueueId}/pending"},
     tc_list_pending,
     "listPendingTasks",
     &pending_list,
     .early = true,
     .output = "v1/list-pending-tasks-response.json",
     .query = pages,
     .category = "Worker Metadata",
     .title = "List the pending tasks of a queue",
     .stability = "experimental"},
    {{HTTP_GET, "/task-queues/{taskQueueId}/claimed"},
     tc_list_claimed,
     "listClaimedTasks",
     &claimed_list,
     .early = true,
     .output = "v1/list-claimed-tasks-response.json",
     .query = pages,
     .category = "Worker Metadata",
     .title = "List the claimed tasks of a queue",
     .stability = "experimental"},
    {{HTTP_GET, "/provisioners/{provisionerId}/worker-types"},
     tc_list_worker_types,
     "listWorkerTypes",
     &list_worker_types,
     .early = true,
     .output = "v1/list-workertypes-response.json",
     .query = pages,
     .category = "Worker Metadata",
     .title = "List the worker types of a provisioner",
     .stability = "deprecated"},
    {{HTTP_GET, "/provisioners/{provisionerId}/worker-types/{workerType}"},
     tc_get_worker_type,
     "getWorkerType",
     &get_worker_type,
     .early = true,
     .output = "v1/workertype-response.json",
     .category = "Worker Metadata",
     .title = "Get a worker type",
     .stability = "deprecated"},
    {{HTTP_GET, "/task-queues"},
     tc_list_task_queues,
     "listTaskQueues",
     &list_task_queues,
     .early = true,
     .output = "v1/list-taskqueues-response.json",
     .query = pages,
     .category = "Worker Metadata",
     .title = "List task queues",
     .stability = "stable"},
    {{HTTP_GET, "/task-queues/{taskQueueId}"},
     tc_get_task_queue,
     "getTaskQueue",
     &get_task_queue,
     .early = true,
     .output = "v1/taskqueue-response.json",
     .category = "Worker Metadata",
     .title = "Get a task queue",
     .stability = "stable"},
    {{HTTP_GET, "/provisioners/{provisionerId}/worker-types/{workerType}/workers"},
     tc_list_workers,
     "listWorkers",
     &list_workers,
     .early = true,
     .output = "v1/list-workers-response.json",
     .query = worker_pages,
     .category = "Worker Metadata",
     .title = "List the workers of a worker type",
     .stability = "deprecated"},
    {{HTTP_GET, "/provisioners/{provisionerId}/worker-types/{workerType}"
                "/workers/{workerGroup}/{workerId}"},
     tc_get_worker,
     "getWorker",
     &get_worker,
     .early = true,
     .output = "v1/worker-response.json",
     .category = "Worker Metadata",
     .title = "Get a worker",
     .stability = "deprecated"},
    {{HTTP_PUT, "/provisioners/{provisionerId}/worker-types/{workerType}"
                "/workers/{workerGroup}/{workerId}"},
     tc_quarantine_worker,
     "quarantineWorker",
     &quarantine_worker,
     .early = true,
     .input = "v1/quarantine-worker-request.json",
     .output = "v1/worker-response.json",
     .category = "Worker Metadata",
     .title = "Quarantine a worker",
     .stability = "experimental"},
    {{HTTP_PUT, "/provisioners/{provisionerId}/worker-types/{workerType}"
                "/{workerGroup}/{workerId}"},
     tc_declare_worker,
     "declareWorker",
     &declare_worker,
     .input = "v1/update-worker-request.json",
     .output = "v1/worker-response.json",
     .category = "Worker Metadata",
     .title = "Declare a worker",
     .stability = "experimental"},
};
const size_t tc_method_count = COUNT(tc_methods);
