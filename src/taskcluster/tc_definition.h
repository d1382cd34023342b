/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_DEFINITION_H
#define TASKCLUSTER_TC_DEFINITION_H

/* The definition of a task, and how it becomes a job:
 *
 *   taskId        alias                   taskQueueId   queue
 *   taskGroupId   group                   schedulerId   owner of the group
 *   retries       retry limit of exceptions and expired claims; a failure is final
 *   priority      priority                dependencies  depends_on; on itself: hold
 *   deadline      deadline                expires       retain_until
 *
 * The job's payload is the definition itself with its defaults filled in, but for the priority,
 * which can change: it is the job's. */

#include "access/rights.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/depend.h"
#include "core/enqueue.h"

#define TC_JOB_TYPE         RIGHTS_TASK_TYPE
#define TC_PRIORITIES       7
#define TC_OWN_SCOPES       3  /* of the credentials of a run, beside those of its task */
#define TC_RUNS_MAX         50 /* a task is not rerun beyond */
#define TC_DEPENDENCIES_MAX DEPEND_MAX

struct tc_texts {
    const struct str *at;
    size_t count;
};

/* A reader for tables of fields: a list of strings. */
struct json_cursor;
struct err tc_field_texts(struct json_cursor *c, struct arena *a, void *tc_texts);

struct tc_definition {
    struct str task_queue_id, provisioner_id, worker_type;
    struct str scheduler_id, project_id, task_group_id;
    struct tc_texts dependencies, routes, scopes;
    bool all_resolved; /* `requires`; else all-completed */
    int priority;      /* 0: the highest, to TC_PRIORITIES - 1 */
    int32_t retries;
    struct str created, deadline, expires; /* as given, then as the reference writes them */
    instant created_at, deadline_at, expires_at;
    struct str payload, metadata, tags, extra; /* JSON, as given */
};

/* "highest" … "lowest" */
const char *tc_priority_name(int priority);
bool tc_priority_parse(struct str name, int *priority);
/* Of a job, and back: any number that a job may have means one of them. */
uint16_t tc_priority_to_job(int priority);
int tc_priority_of_job(uint16_t priority);

/* Reads a body that fits the schema of createTask. Texts live in it or in the arena; what is
 * absent is empty, or has its default. */
NODISCARD struct err tc_definition_read(struct str json, struct arena *a, struct tc_definition *d);
/* Fills in what follows from the rest and the task's id, and checks what no schema can say.
 * ERR_BAD_VALUE with Taskcluster's words. */
NODISCARD struct err tc_definition_complete(struct tc_definition *d, struct str task_id,
                                            struct arena *a);
/* Whether a complete definition may become a new task at this time. ERR_BAD_VALUE likewise. */
NODISCARD struct err tc_definition_in_time(const struct tc_definition *d, instant now);
/* The two parts of "provisioner/worker-type"; without a slash the second is empty. */
void tc_queue_split(struct str task_queue_id, struct str *provisioner, struct str *worker_type);
/* `,"name":"…"`: a member of an answer, as the reference writes times. */
void tc_write_time(struct buf *b, const char *name, instant t);
/* The payload of the job. */
void tc_definition_write(struct buf *b, const struct tc_definition *d);
/* The same with the priority, as an answer, from the payload of a job. */
void tc_definition_answer(struct buf *b, const struct job *job);
/* What messages tell of a definition, from the payload of a job: views into it, or in the arena. */
NODISCARD struct err tc_definition_told(struct str payload, struct arena *a,
                                        struct tc_texts *routes, struct str *tags);
/* The job, but for its dependencies; payload is what tc_definition_write wrote. */
void tc_definition_spec(const struct tc_definition *d, struct str task_id, struct str payload,
                        struct enqueue *spec);

/* What a status tells of the definition; read from the beginning of a job's payload. */
struct tc_head {
    struct str task_queue_id, provisioner_id, worker_type;
    struct str scheduler_id, project_id, task_group_id;
};
/* False if the job is no task. */
bool tc_head_read(const struct job *job, struct arena *a, struct tc_head *h);

#endif
