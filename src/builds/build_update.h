/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_UPDATE_H
#define BUILDS_BUILD_UPDATE_H

/* One update of a build: as a record on disk, as a request to Screwdriver's API, and what its
 * answer means. Pure. */

#include "base/arena.h"
#include "base/buf.h"
#include "builds/build_status.h"
#include "net/fetch.h"

/* Why it can never be told, or NULL. */
const char *build_update_fault(const struct build_update *u);

/* Its record: {"api":A,"build":B,"token":T,"at":MS,"body":{…}}. Texts that are no UTF-8 are mended,
 * long messages cut. */
void build_update_write(struct buf *b, const struct build_update *u, instant at);

/* A record that was read. Texts live in the record or the arena. */
struct build_update_record {
    struct str api, build, token;
    struct str body; /* of the request, JSON */
    instant at;      /* when it was put; none: unknown */
};
/* False if this is no record of an update. */
bool build_update_read(struct str json, struct arena *a, struct build_update_record *out);

/* {api}/v4/builds/{build}; and a build's id as it stands there, which is safe in a log. */
void build_update_url(struct buf *b, struct str api, struct str build);
void build_update_name(struct buf *b, struct str build);

enum build_update_end {
    BUILD_UPDATE_TOLD,
    BUILD_UPDATE_ENDED,   /* 403, 404: the build is over, or unknown */
    BUILD_UPDATE_REFUSED, /* another 4xx: a second try would meet the same */
    BUILD_UPDATE_AGAIN,   /* not heard, or not now */
};
enum build_update_end build_update_end(const struct fetch_answer *a);

#endif
