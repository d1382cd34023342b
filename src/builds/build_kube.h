/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_KUBE_H
#define BUILDS_BUILD_KUBE_H

/* The pods of builds at Kubernetes: created, looked at, deleted. No request is sent again by
 * itself: the message that asked for it comes again (seed 000). Loop thread only. */

#include <uv.h>

#include "base/err.h"
#include "builds/build_settings.h"
#include "kube/kube_counters.h"
#include "kube/kube_pod.h"

enum build_kube_result {
    BUILD_KUBE_DONE,
    BUILD_KUBE_FINAL,  /* 403, 404: trying again would not help */
    BUILD_KUBE_FAILED, /* another error of the API server, or no answer */
};

/* Valid during the call. */
struct build_kube_answer {
    enum build_kube_result result;
    const char *why;             /* unless DONE: a sentence */
    const struct kube_pod *pods; /* of list */
    size_t count;
};
typedef void build_kube_answered(void *ctx, const struct build_kube_answer *a);

struct build_kube;

/* Each calls back exactly once, never before it has returned; texts are copied. `build` is the
 * value of the label sdbuild. */
struct build_kube_ops {
    /* DONE also if a pod of this build is there already. */
    void (*create)(struct build_kube *k, struct str build, struct str manifest,
                   build_kube_answered *done, void *ctx);
    void (*list)(struct build_kube *k, struct str build, build_kube_answered *done, void *ctx);
    /* DONE also if there are none. */
    void (*remove)(struct build_kube *k, struct str build, build_kube_answered *done, void *ctx);
    const struct kube_counters *(*counters)(const struct build_kube *k);
    /* Nothing is called back any more. Freed once the loop has turned. */
    void (*close)(struct build_kube *k);
};

/* Embedded first in what implements it. */
struct build_kube {
    const struct build_kube_ops *ops;
};

/* The one of the settings. ERR_USAGE or another error names the setting that is wrong. */
NODISCARD struct err build_kube_new(uv_loop_t *loop, const struct build_settings *s,
                                    struct build_kube **out);

#endif
