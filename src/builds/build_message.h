/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_MESSAGE_H
#define BUILDS_BUILD_MESSAGE_H

/* A message of Screwdriver's queue service: what it is about, read from its JSON. The body is kept
 * as it is: a build's verify message repeats its buildConfig. */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "wire/document.h"

enum build_job { BUILD_START, BUILD_STOP, BUILD_VERIFY_POD, BUILD_CLEAR };

struct build_message {
    enum build_job job;
    /* All but BUILD_CLEAR: */
    const struct document_node *config; /* buildConfig */
    struct str config_json;             /* the same, as it stands in the body */
    struct str build;                   /* buildId, a number or a text; never empty */
    struct str api_uri, token;          /* of the build; empty: none. The token is a secret */
    /* BUILD_CLEAR: */
    struct {
        struct str scope, prefix, pipeline, id; /* each at most a name; may be empty */
        bool is_delete;                         /* resource "caches", action "delete" */
    } cache;
};

/* Everything read lives in the arena and in the body. ERR_BAD_VALUE or an error of the JSON says
 * what is wrong, without any of its values. */
NODISCARD struct err build_message_read(struct str body, struct arena *a,
                                        struct build_message *out);

/* A message that the pod of a build is to be verified, as the original's. */
void build_message_verify(struct buf *b, struct str config_json);

#endif
