/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_CONTENT_H
#define TASKCLUSTER_TC_CONTENT_H

/* The URLs under which bytes are put and got: below /api/object/v1/content, signed, and good for a
 * while. Whoever has such a URL needs no credentials. */

#include "taskcluster/tc_object.h"

#define TC_GET_LIFE_MS ((int64_t)30 * 60 * 1000)
#define TC_PUT_LIFE_MS ((int64_t)45 * 60 * 1000)

struct tc_content_url {
    bool put; /* else get */
    enum tc_object_kind kind;
    struct str name;
    instant until;
    /* Of a put: */
    struct str content_type; /* which it must have */
    int64_t length;          /* likewise; negative: any */
    struct str upload_id;
};

/* In the arena. */
struct str tc_content_url(struct tc_call *c, const struct tc_content_url *url);
/* That by which an object is got, for half an hour or until it expires. */
struct str tc_content_get_url(struct tc_call *c, enum tc_object_kind kind, struct str name,
                              instant expires, instant *until);
/* {"sha256": …, "sha512": …} */
void tc_content_write_hashes(struct buf *b, const struct tc_object *o);

#endif
