/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_OBJECT_H
#define TASKCLUSTER_TC_OBJECT_H

/* What is known of bytes that the server keeps: an entry of the backend's under the object's name.
 * There are two kinds, which share no names: what the storage type s3 puts by URL, and the objects
 * of the object service. An object whose upload is not finished is gone after a day. */

#include "taskcluster/tc_file_writer.h"
#include "taskcluster/tc_internal.h"

#define TC_UPLOAD_LIFE_MS ((int64_t)24 * 3600 * 1000)

enum tc_object_kind {
    TC_OBJECT_PLAIN, /* of the object service */
    TC_OBJECT_S3,
    TC_OBJECT_KINDS
};

struct tc_object {
    enum tc_object_kind kind;
    struct str name;
    struct str project_id, upload_id; /* PLAIN */
    bool begun;                       /* PLAIN: createUpload was called */
    bool finished;                    /* S3: always */
    instant expires, upload_until;    /* upload_until: unless it is finished before */
    instant stored;                   /* when its bytes came; 0: an older server had not noted it */
    struct str given256, given512;    /* the checksums that the client gave; empty: none */
    struct str file;                  /* empty: no bytes yet */
    int64_t size;
    struct str sha256, sha512; /* of the file */
    struct str content_type, encoding;
    uint64_t version; /* of the entry; 0: there is none yet */
};

/* "object", "s3" */
const char *tc_object_kind_name(enum tc_object_kind kind);
/* "t/taskId/runId/name", in the arena. ERR_BAD_VALUE if that is too long. */
NODISCARD struct err tc_object_name(struct str task_id, uint32_t run, struct str name,
                                    struct arena *a, struct str *out);

/* Reads the object of that name and calls then(c, o); o is NULL if there is none. After another
 * error it has answered. o lives in the arena. */
void tc_object_find(struct tc_call *c, enum tc_object_kind kind, struct str name,
                    void (*then)(struct tc_call *c, struct tc_object *o));

/* The changes that store an object, if it is as it was read (or was not there): its entry, the one
 * of its file, and the removal of that of the file before, if there was one. Their strings are in
 * the arena. Returns how many; the first one is the object's own entry. */
#define TC_OBJECT_CHANGES 3
size_t tc_object_changes(const struct tc_object *o, struct str file_before, struct arena *a,
                         struct kv_change changes[TC_OBJECT_CHANGES]);

/* Stores an object, with the file that was written for it or NULL, which replaces the one before.
 * then(c, o) if that went well; else it has answered. */
struct tc_object_store {
    struct tc_call *call;
    struct tc_object object;
    const struct tc_file_writer *file;
    struct str file_before;
    uint64_t size_before;
    void (*then)(struct tc_call *c, const struct tc_object *o);
    /* Of tc_object_store_file: whether the file may be stored for the object as it is now, NULL if
     * there is none any more; if not, it has answered. It may change what it is given. */
    bool (*allows)(struct tc_call *c, struct tc_object *now);
};
void tc_object_store(struct tc_object_store *s);
/* The same, after the bytes have been written to a file. Before that, bytes whose checksums are not
 * those that the client gave are refused. */
void tc_object_store_bytes(struct tc_object_store *s, struct str bytes);
/* The same with a file that is written, for an object that may have changed while it was: only the
 * kind and the name of the object are filled in. */
void tc_object_store_file(struct tc_object_store *s, const struct tc_file_writer *file);

/* Whether a checksum that the client gave is that of the bytes; empty: it gave none. */
bool tc_object_fits(struct str given, struct str is);
/* Whether it may be the value of a header, which it becomes. */
bool tc_is_header_value(struct str s);
/* Answers with an error of the files. */
void tc_fail_file(struct tc_call *c, const struct err *err);

#endif
