/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_MANIFEST_H
#define EXECUTOR_POD_MANIFEST_H

/* From a job as the server handed it out to the pod that runs it. A pure function: the same job
 * gives the same pod. What a job's payload gets wrong is an error of the job, in a sentence that
 * names the member: the executor reports it as a malformed payload. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "base/units.h"
#include "kube/kube_template.h"

/* The labels by which an executor finds its pods again. No payload may set them. */
#define POD_LABEL_JOB      "tenax.dev/job"
#define POD_LABEL_RUN      "tenax.dev/run"
#define POD_LABEL_EXECUTOR "tenax.dev/executor"
/* Annotations, for people. */
#define POD_NOTE_QUEUE "tenax.dev/queue"
#define POD_NOTE_TYPE  "tenax.dev/type"
#define POD_NOTE_AVOID "tenax.dev/avoid-node" /* "n1 (required)", "n1 (preferred)" */

#define POD_PREFIX_MAX 30 /* bytes; a pod's name is its host name, which has 63 */

/* A job as handed out; its strings lie in the text or in the arena. */
struct pod_job {
    struct id id;
    struct str queue, type;
    struct str payload; /* JSON */
    struct str token;   /* or empty */
    int64_t run, attempts, priority;
    struct str avoid;    /* the node that it is to stay off, or empty */
    instant avoid_until; /* until then it must, afterwards it should */
    /* What the run should have, and what the job was enqueued with if a rule has grown that;
     * 0: nothing was said. Bytes; thousandths of a processor. */
    uint64_t memory, memory_from, cpu, cpu_from;
};

/* Reads a job as the API describes it. Unknown members are passed over. */
NODISCARD struct err pod_manifest_job(struct str json, struct arena *a, struct pod_job *out);

/* What is the same for all pods of an executor. */
struct pod_style {
    struct str prefix;
    struct str executor;  /* a label's value */
    struct str namespace; /* for a job that names none */
    /* Further namespaces that a job may name. */
    const char *const *also;
    size_t also_count;
    const struct kube_template *template; /* or NULL: the payload says what the pod is */
};

enum pod_avoid { POD_AVOID_NOTHING, POD_AVOID_REQUIRED, POD_AVOID_PREFERRED };

/* How the job's node to avoid is to be avoided at that time. none_fits: a pod that must avoid it
 * has found no node, so that this one only should. */
enum pod_avoid pod_manifest_avoid(const struct pod_job *job, instant now, bool none_fits);

struct pod_manifest {
    struct str name, namespace;
    struct str body;      /* JSON, for POST …/pods */
    uint64_t memory, cpu; /* what the pod requests in all, as a scheduler counts it; 0: nothing */
};

/* "tenax-<job id>-0", and for further runs "tenax-<job id>-0-<run>" if numbered (while retry
 * policies are enabled): seed 004. */
struct str pod_manifest_name(struct str prefix, struct id job, int64_t run, bool numbered,
                             struct arena *a);
/* A prefix: 1 to POD_PREFIX_MAX lower-case letters, digits and '-', the first and the last no '-'.
 */
bool pod_manifest_is_prefix(struct str prefix);

/* Whether a template may make pods, as far as that can be known without a job; the errors are about
 * the template, and name the line. */
NODISCARD bool pod_manifest_check_template(const struct kube_template *t,
                                           struct document_fault *fault);

/* The pod of a run. ERR_BAD_VALUE and other errors of documents: the payload, or what the template
 * makes of it, is no pod, or names a namespace that it may not. */
NODISCARD struct err pod_manifest_make(const struct pod_style *style, const struct pod_job *job,
                                       bool numbered, enum pod_avoid avoid, struct arena *a,
                                       struct pod_manifest *out);

#endif
