/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_HANDLERS_H
#define TASKCLUSTER_TC_HANDLERS_H

/* The handlers of all methods, by the files that have them. */

#include "taskcluster/tc_internal.h"

/* --- tc_create.c --- */
void tc_create_task(struct tc_call *c);

/* --- tc_task.c --- */
void tc_get_task(struct tc_call *c);
void tc_get_status(struct tc_call *c);
void tc_schedule_task(struct tc_call *c);
void tc_cancel_task(struct tc_call *c);
void tc_rerun_task(struct tc_call *c);
void tc_change_task_priority(struct tc_call *c);
/* The priority that the body of this and the group's method names. */
int tc_body_priority(struct tc_call *c);

/* --- tc_batch.c --- */
void tc_get_tasks(struct tc_call *c);
void tc_get_statuses(struct tc_call *c);

/* --- tc_group.c --- */
void tc_get_task_group(struct tc_call *c);
void tc_seal_task_group(struct tc_call *c);
void tc_list_task_group(struct tc_call *c);
void tc_cancel_task_group(struct tc_call *c);
void tc_change_group_priority(struct tc_call *c);
void tc_list_dependents(struct tc_call *c);

/* --- tc_claim.c --- */
void tc_claim_work(struct tc_call *c);
void tc_claim_task(struct tc_call *c);
void tc_reclaim_task(struct tc_call *c);

/* --- tc_index.c --- */
struct tc_task;
/* Puts a completed task under the paths that its routes name, then answers with its status; false,
 * and nothing was done, if no route is about the index. */
bool tc_index_completed(struct tc_call *c, const struct tc_task *t);

/* --- tc_report.c --- */
void tc_report_completed(struct tc_call *c);
void tc_report_failed(struct tc_call *c);
void tc_report_exception(struct tc_call *c);

/* --- tc_worker.c --- */
void tc_get_worker(struct tc_call *c);
void tc_declare_worker(struct tc_call *c);
void tc_quarantine_worker(struct tc_call *c);
/* The task queue that a path names by its provisioner and worker type. */
struct str tc_queue_of_path(struct tc_call *c);

/* --- tc_queues.c --- */
void tc_get_task_queue(struct tc_call *c);
void tc_get_worker_type(struct tc_call *c);
void tc_get_provisioner(struct tc_call *c);
void tc_list_task_queues(struct tc_call *c);
void tc_list_worker_types(struct tc_call *c);
void tc_list_provisioners(struct tc_call *c);
void tc_list_workers(struct tc_call *c);

/* --- tc_pending.c --- */
void tc_count_tasks(struct tc_call *c);
void tc_count_many(struct tc_call *c);
void tc_list_pending(struct tc_call *c);
void tc_list_claimed(struct tc_call *c);

/* --- tc_artifact.c, tc_artifact_get.c --- */
void tc_create_artifact(struct tc_call *c);
void tc_finish_artifact(struct tc_call *c);
void tc_get_artifact(struct tc_call *c);
/* Answers as getLatestArtifact does; the method's scopes are about a list of `names`. */
void tc_artifact_redirect(struct tc_call *c, struct str task_id, struct str name);
void tc_get_artifact_content(struct tc_call *c);
void tc_get_artifact_info(struct tc_call *c);
void tc_list_artifacts(struct tc_call *c);

/* --- tc_upload.c --- */
void tc_create_upload(struct tc_call *c);
void tc_finish_upload(struct tc_call *c);
void tc_start_download(struct tc_call *c);
void tc_download_object(struct tc_call *c);
void tc_get_object(struct tc_call *c);

/* --- tc_content.c --- */
void tc_put_content(struct tc_call *c);
void tc_get_content(struct tc_call *c);

/* --- tc_poll.c --- */
void tc_poll_task_urls(struct tc_call *c);
void tc_poll_get(struct tc_call *c);
void tc_poll_delete(struct tc_call *c);

/* --- tc_authenticate.c --- */
void tc_authenticate_hawk(struct tc_call *c);

/* --- tc_ping.c --- */
void tc_ping(struct tc_call *c);
void tc_heartbeat(struct tc_call *c);
void tc_version(struct tc_call *c);

#endif
