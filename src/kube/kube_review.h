/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_REVIEW_H
#define KUBE_KUBE_REVIEW_H

/* What the credentials may do: asked of the server itself (SelfSubjectAccessReview), and the rules
 * that would grant what is missing. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "kube/kube_client.h"

#define KUBE_REVIEW_MAX 64

/* An access; texts are borrowed as long as the review. */
struct kube_review_access {
    const char *verb;        /* "create" */
    const char *group;       /* "" for pods */
    const char *resource;    /* "pods" */
    const char *subresource; /* "log", or NULL */
};

struct kube_review_result {
    const struct kube_review_access *access;
    const char *namespace;
    bool answered; /* otherwise the server could not be asked; why says why */
    bool allowed;
    struct str why; /* of a refusal, if the server says; or the failure */
    enum kube_answer_reason reason;
};

struct kube_review;

/* Asks for each access in the namespace, all at once; at most KUBE_REVIEW_MAX. done is called once,
 * in a later turn, with the results in the order of the accesses; they are valid during the call,
 * and the review is over after it. */
struct kube_review *
kube_review_start(struct kube_client *client, const char *namespace,
                  const struct kube_review_access *accesses, size_t count,
                  void (*done)(void *ctx, const struct kube_review_result *results, size_t count),
                  void *ctx);
/* Ends it without done(); not from done(). */
void kube_review_cancel(struct kube_review *r);

/* "create pods", "get pods/log". */
void kube_review_name(struct buf *b, const struct kube_review_access *access);
/* A Role in YAML that grants what is not allowed, of that name; nothing if all is. */
void kube_review_write_role(struct buf *b, const char *name,
                            const struct kube_review_result *results, size_t count);

#endif
