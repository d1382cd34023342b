/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KUBE_KUBE_CALLS_H
#define TESTS_KUBE_KUBE_CALLS_H

/* Calls of a client, and what came of them. */

#include "kube_rig.h"

/* What came of a call. */
struct got {
    struct kube_client_call *call;
    int done, opened;
    enum kube_answer_reason reason;
    long status;
    int version, tries;
    char object[256], message[700];
    struct buf data;
};

extern const struct kube_client_spec get, create;

/* Starts a call, by default of a pod; and awaits its end. */
void start(struct rig *r, struct got *g, const struct kube_client_spec *spec);
void ask(struct rig *r, struct got *g, const struct kube_client_spec *spec);
/* Servers: an object for everyone, and one that does not answer. */
void serve_object(struct rig *r, struct http_exchange *x, const struct http_request *req, int n);
void serve_held(struct rig *r, struct http_exchange *x, const struct http_request *req, int n);

#endif
