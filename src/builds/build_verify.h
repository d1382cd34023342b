/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_VERIFY_H
#define BUILDS_BUILD_VERIFY_H

/* What to do with a build whose pod was looked at: a pure function, in both forms.
 *
 * Seed 000 ("queue"): the build is looked at again and again. Only a pod without a node counts
 * against the time limit; pulling an image may take as long as the number of looks allows.
 * Seed 001 ("timer"): it is looked at once, when its timer fires or its start failed; a pod that is
 * being initialized is healthy. */

#include "base/units.h"
#include "kube/kube_verdict.h"

struct build_verify_limits {
    enum kube_verdict_mode mode;
    span delay;              /* before the next look; also before the first */
    span step;               /* more for each look at a pod that is being initialized */
    span scheduling_timeout; /* from the start of the build to a node */
    uint32_t looks_max;      /* earlier looks after which the next one is the last */
};
/* 30 s, 10 s, 3 min, 6. */
struct build_verify_limits build_verify_defaults(void);

/* A look. Without a pod there is nothing to verify: the build was stopped, or is over. */
struct build_verify_look {
    bool pod;
    struct kube_verdict verdict;
    uint32_t count;       /* of earlier looks: x-retry-count */
    instant started, now; /* of the build: x-build-start-time; none: unknown */
};

enum build_verify_step {
    BUILD_VERIFY_DONE,  /* it runs, or is over */
    BUILD_VERIFY_AGAIN, /* after a while */
    BUILD_VERIFY_FAIL,  /* the build fails, with the message */
    BUILD_VERIFY_STOP,  /* the same, and its pods are deleted */
};

struct build_verify {
    enum build_verify_step step;
    span after;        /* BUILD_VERIFY_AGAIN */
    char message[400]; /* for the build's page, if it fails */
};

/* The step after a look; nothing else depends on it. */
struct build_verify build_verify(const struct build_verify_limits *limits,
                                 const struct build_verify_look *look);

#endif
