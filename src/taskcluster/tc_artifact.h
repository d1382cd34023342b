/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_ARTIFACT_H
#define TASKCLUSTER_TC_ARTIFACT_H

/* What the queue knows of an artifact: an entry of the backend's (core/kv.h) under
 * "taskId/runId/name". When the artifact expires its bytes go; the entry stays for a while, so that
 * whoever follows an old link hears that it has expired, not that it never was. */

#include "taskcluster/tc_internal.h"

#define TC_ARTIFACTS "taskcluster/artifact"

enum tc_storage {
    TC_STORAGE_REFERENCE, /* a URL elsewhere */
    TC_STORAGE_LINK,      /* another artifact of the same run */
    TC_STORAGE_ERROR,     /* it could not be made */
    TC_STORAGE_S3,        /* bytes that are put to a URL, and got from one */
    TC_STORAGE_OBJECT,    /* an object of the object service */
    TC_STORAGES
};

struct tc_artifact {
    struct str name;
    enum tc_storage storage;
    struct str content_type;
    instant expires;
    int64_t content_length;     /* as its worker said; negative: it did not */
    struct str target;          /* REFERENCE: the URL. LINK: the name of an artifact */
    struct str reason, message; /* ERROR */
    struct str upload_id;       /* OBJECT: until it is finished; then empty */
    uint64_t version;
};

/* "reference" … */
const char *tc_storage_name(enum tc_storage s);
/* The key of an artifact, in the arena. ERR_BAD_VALUE if the name is too long for one. */
NODISCARD struct err tc_artifact_key(struct str task_id, uint32_t run, struct str name,
                                     struct arena *a, struct str *key);
/* The artifact of an entry, in the arena; false if it is malformed. */
bool tc_artifact_of(const struct kv_entry *e, struct arena *a, struct tc_artifact *out);
/* Its value as an entry. */
void tc_artifact_write(struct buf *b, const struct tc_artifact *artifact);
static inline bool tc_artifact_is_present(const struct tc_artifact *artifact)
{
    return artifact->upload_id.len == 0;
}
static inline bool tc_artifact_has_expired(const struct tc_artifact *artifact, instant now)
{
    return artifact->expires.ms <= now.ms;
}
/* {"storageType": …, "name": …} */
void tc_artifact_answer(struct buf *b, const struct tc_artifact *artifact);
/* {"clientId": …, "accessToken": …, "certificate": …} for a while, with one scope. */
void tc_artifact_credentials(struct buf *b, struct tc_call *c, struct str client_id,
                             struct str scope, instant until);

#endif
