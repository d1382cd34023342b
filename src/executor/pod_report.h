/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_REPORT_H
#define EXECUTOR_POD_REPORT_H

/* The report of a pod that failed, as the server reads it: the members of a failure, with each
 * container's end and the last lines of its log. Pure. Of the pod's secrets nothing is said. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "executor/pod_mask.h"
#include "kube/kube_failure.h"

/* Containers whose logs are kept; bytes of each, and of all of them together: what the server
 * keeps, so that it need not cut anything. */
#define POD_REPORT_LOGS_MAX  ((size_t)16)
#define POD_REPORT_LOG_MAX   ((size_t)16384)
#define POD_REPORT_BYTES_MAX ((size_t)65536)

/* The ends of logs, as they are read. Zeroed it is empty. */
struct pod_report_logs {
    struct pod_report_log {
        struct buf container, text; /* text: masked and valid UTF-8 */
    } at[POD_REPORT_LOGS_MAX];
    size_t count;
};
void pod_report_logs_fini(struct pod_report_logs *l);

/* Adds the log of a container, its end if it is long; at most POD_REPORT_LOGS_MAX of them. cut_end:
 * it was not read to its end. When all together are too long, the longest are cut to the same
 * length: no container loses its log because another one wrote much. */
void pod_report_logs_add(struct pod_report_logs *l, struct str container, struct str text,
                         bool cut_end, const struct pod_mask *mask);
/* The log of that container, or empty. */
struct str pod_report_logs_get(const struct pod_report_logs *l, struct str container);

/* The greatest number of bytes that each of these may have, so that all have at most `total`. */
size_t pod_report_level(const size_t *lengths, size_t count, size_t total);

/* The next container whose log is worth reading, from *at on, which is then the place after it: the
 * failed ones first, then the others, each in the order of the spec. *at begins with 0. Those that
 * were never started have none. NULL: there is no further one. */
const struct kube_pod_container *pod_report_next(const struct kube_pod *p, size_t *at);

/* What the pod and its events say in words, without the secrets: texts of the containers, the
 * conditions and the pod itself. The copies live in the arena. */
void pod_report_mask(struct kube_pod *p, const struct pod_mask *mask, struct arena *a);
void pod_report_mask_event(struct kube_pod_event *e, const struct pod_mask *mask, struct arena *a);

/* Adds the members, each preceded by a comma. The failure is one of that pod, masked as above.
 * alive: the pod is ending, and has not ended yet. */
void pod_report_write(const struct kube_failure *f, const struct kube_pod *p,
                      const struct pod_report_logs *logs, bool alive, struct buf *b);

/* Adds ,"name":"text" unless the text is empty; bytes that are no UTF-8 become U+FFFD. */
void pod_report_text(struct buf *b, const char *name, struct str text);

#endif
