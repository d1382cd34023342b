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
SCOPES(claim_work, SCOPE_ALL_OF(SCOPE("queue:claim-work:<taskQueueId>"),
                                SCOPE("queue:worker-id:<workerGroup>/<workerId>")));
SCOPES(reclaim_task, SCOPE("queue:reclaim-task:<taskId>/<runId>"));
SCOPES(resolve_task, SCOPE("queue:resolve-task:<taskId>/<runId>"));

/* --- methods --- */

const struct tc_method tc_methods[] = {
    {{HTTP_GET, "/ping"},
     tc_ping,
     "ping",
     .category = "Monitoring",
     .title = "Ping server",
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
    {{HTTP_POST, "/claim-work/{taskQueueId*}"},
     tc_claim_work,
     "claimWork",
     &claim_work,
     .input = "v1/claim-work-request.json",
     .output = "v1/claim-work-response.json",
     .category = "Worker Interface",
     .title = "Claim tasks of a queue",
     .stability = "stable"},
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
};
const size_t tc_method_count = COUNT(tc_methods);
