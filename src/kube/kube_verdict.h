/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_VERDICT_H
#define KUBE_KUBE_VERDICT_H

/* Whether a pod starts: a pure function of the pod. Every container and init container is looked
 * at. A reason of kube_reasons.def that says that a container will not start decides, whatever the
 * phase is; then the phase does, and for a pending pod whether it has a node. */

#include <stddef.h>

#include "base/buf.h"
#include "base/units.h"
#include "kube/kube_pod.h"

enum kube_verdict_start {
    KUBE_VERDICT_WAITING,      /* no node has been found for it */
    KUBE_VERDICT_INITIALIZING, /* its node pulls images, or runs init containers */
    KUBE_VERDICT_STARTED,      /* it runs, or has done its work */
    KUBE_VERDICT_FAILED,       /* it has failed, or will never start */
};

/* Seed 000's reading of the table, and seed 001's, which is the older one. */
enum kube_verdict_mode { KUBE_VERDICT_BY_NODE, KUBE_VERDICT_PENDING_IS_HEALTHY };

enum kube_verdict_advice {
    KUBE_VERDICT_NO_ADVICE,
    KUBE_VERDICT_IMAGE,         /* check your image */
    KUBE_VERDICT_ADMINISTRATOR, /* contact your administrator */
};

struct kube_verdict {
    enum kube_verdict_start start;
    /* Iff it has failed: */
    enum kube_verdict_advice advice;
    const struct kube_pod_container *container; /* that decided; NULL: the pod as a whole */
    struct str reason;                          /* Kubernetes' word for it; may be empty */
    struct str message;                         /* and what it says; may be empty */
};

/* The verdict; it points into the pod. Once a pod has started, nobody need ask again. */
struct kube_verdict kube_verdict(const struct kube_pod *p, enum kube_verdict_mode mode);

/* Whether that reason of a container says that it will not start. */
bool kube_verdict_is_fault(struct str reason, enum kube_verdict_mode mode);

/* A pod that cannot start for want of an image which its registry could not give just now (5xx, a
 * time-out, too many requests), and not because there is none or it may not be had. */
bool kube_verdict_registry_is_away(const struct kube_verdict *v);
/* ... or whose node waits until it asks for the image again, without saying why. */
bool kube_verdict_awaits_image(const struct kube_verdict *v);

/* "waiting", "initializing", "running" (also of a pod that has succeeded), "failed": also what a
 * job's progress says. */
const char *kube_verdict_name(enum kube_verdict_start start);
/* "by-node", "pending-is-healthy"; NULL after the last. */
const char *kube_verdict_mode_name(enum kube_verdict_mode mode);

/* Of a verdict that it failed, a sentence on one line: "container main: ImagePullBackOff: Back-off
 * pulling image "x"; check your image". */
void kube_verdict_write(const struct kube_verdict *v, struct buf *b);

/* How long to wait before looking at a pod again that has been looked at n times since it last was
 * something else (seed 000): 30 s while it waits, 30 s + n * 10 s while it is being initialized. */
span kube_verdict_recheck(enum kube_verdict_start start, uint32_t n);

/* The rows of the table, for those that show it; false after the last. */
struct kube_verdict_row {
    const char *reason;
    const char *meaning[2]; /* by mode: "image", "administrator", "by-phase", "healthy" */
};
bool kube_verdict_row(size_t i, struct kube_verdict_row *row);

#endif
