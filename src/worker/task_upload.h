/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TASK_UPLOAD_H
#define WORKER_TASK_UPLOAD_H

/* Publishes the artifacts of a run, one after the other: createArtifact, and the bytes to where its
 * answer says. What a server cannot do now is tried again; what it refuses is left out, and
 * counted. Nothing here blocks. */

#include "base/arena.h"
#include "worker/task_files.h"
#include "worker/task_log.h"
#include "worker/task_payload.h"
#include "worker/taskqueue.h"

enum task_storage { TASK_STORAGE_S3, TASK_STORAGE_OBJECT };

/* An artifact to be: a file, or the reason why there is none. */
struct task_item {
    const char *name, *content_type;
    const char *path; /* below the directory, normalised */
    int dir;
    instant expires;
    bool optional;
    enum task_file_fault fault;
};

struct task_items {
    struct task_item *at;
    size_t count, cap;
};

/* The artifacts of the payload as they are in the task's directory now, at most TASK_ARTIFACTS_MAX
 * files: a directory with more is none. They live in the arena, but not what is in the payload. */
void task_items_gather(struct task_items *items, const struct task_payload *p, int dir,
                       instant expires, struct arena *a);
/* The Content-Type that the ending of a file's name suggests. */
const char *task_content_type(const char *path);

struct task_upload {
    /* To be set by the user: */
    struct taskqueue *queue;
    const struct hawk_credentials *by; /* may change between requests */
    struct str task_id;
    int64_t run;
    enum task_storage storage;
    struct task_log *log; /* of the task; NULL: faults go to standard error */

    const struct task_item *items;
    size_t count, index;
    bool done;
    size_t failed;     /* how many could not be published that should be */
    char trouble[300]; /* the first of them, and why */

    enum upload_step {
        UPLOAD_CREATE,        /* createArtifact */
        UPLOAD_CREATE_OBJECT, /* createUpload of the object service */
        UPLOAD_PUT,
        UPLOAD_FINISH_OBJECT, /* finishUpload */
        UPLOAD_FINISH,        /* finishArtifact */
    } step;
    struct taskqueue_request request;
    struct arena arena; /* of the answers about this artifact */
    int file;
    bool has_file;
    int64_t size;
    enum task_file_fault fault;
    unsigned tries;
    mono begun;
    struct str put_url, upload_headers; /* upload_headers: a JSON object; empty: none */
    struct str object, project, upload_id, object_expires;
    struct hawk_credentials object_by;
};

/* Begins; the items and what they point to stay until it is done. */
void task_upload_begin(struct task_upload *u, const struct task_item *items, size_t count);
/* Gives up what is not published yet; it is then done. */
void task_upload_abort(struct task_upload *u);
void task_upload_fini(struct task_upload *u);

#endif
