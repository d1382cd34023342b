/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_TRIAL_H
#define KUBE_KUBE_TRIAL_H

/* What the credentials may do where the server does not answer reviews (kube_review.h): each access
 * is tried with a request that changes nothing. A pod to be created is invalid and a dry run; what
 * is got or deleted does not exist, and a deletion is a dry run with a uid that nothing has.
 * Whoever may not do it is refused (403) before any of that is looked at. */

#include "kube/kube_review.h"

/* The attempt to create a pod, on its own. */
#define KUBE_TRIAL_NAME  "tenax-access-check"
#define KUBE_TRIAL_QUERY "?dryRun=All"
#define KUBE_TRIAL_POD                                                                             \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" KUBE_TRIAL_NAME            \
    "\",\"labels\":{}},\"spec\":{\"containers\":[]}}"

struct kube_trial;

/* As kube_review_start; of things to create, pods only. */
struct kube_trial *
kube_trial_start(struct kube_client *client, const char *namespace,
                 const struct kube_review_access *accesses, size_t count,
                 void (*done)(void *ctx, const struct kube_review_result *results, size_t count),
                 void *ctx);

#endif
