/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_POD_INTERNAL_H
#define BUILDS_BUILD_POD_INTERNAL_H

/* What the files of build_pod share. */

#include <stdint.h>

#include "builds/build_pod.h"
#include "kube/kube_template.h"

/* --- build_pod.yaml, embedded --- */
extern const char build_pod_builtin[];
extern const size_t build_pod_builtin_len;

/* --- build_pod_ask.c: what a buildConfig asks for --- */

#define BUILD_POD_SUFFIX 5 /* characters */

struct build_pod_amount {
    int64_t cpu;   /* thousandths */
    double memory; /* GiB */
};

struct build_pod_ask {
    struct str build_id, build, name; /* build: <prefix><id> */
    struct str container, token;
    struct str job_id, job_name, pipeline_id, pipeline_name, event_id;
    struct str template_name, template_version, pr_number;
    bool pr;
    struct build_pod_amount amount, docker, buildkit;
    bool with_docker, with_buildkit;
    const char *disk;
    struct str disk_speed; /* in lower case; empty: none */
    double timeout;        /* minutes */
    int64_t grace;         /* seconds */
};

/* ERR_BAD_VALUE as build_pod_make. */
NODISCARD struct err build_pod_ask_read(const struct build_settings *s,
                                        const struct document_node *config, struct arena *a,
                                        struct build_pod_ask *out);

/* --- build_pod_values.c: what a template's names stand for --- */

/* The lists of the settings, checked. */
struct build_pod_lists {
    struct document_node *mounts, *secrets, *files;
};

/* ERR_USAGE names the setting. */
NODISCARD struct err build_pod_lists_read(const struct build_settings *s, struct arena *a,
                                          struct build_pod_lists *out);

/* The values of a template's names, as a tree; of the token and the addresses, what is safe between
 * double quotes in a shell script. */
struct document_node *build_pod_values(const struct build_settings *s,
                                       const struct build_pod_lists *lists,
                                       const struct build_pod_ask *ask, struct arena *a);
/* A kube_template_lookup in that tree. Members that an item of a list does not have are null. */
const struct document_node *build_pod_value(const void *values, struct str name);

/* --- build_pod_finish.c: what is set after the template --- */

/* ERR_USAGE names a setting whose members are not all texts, or that sets a label it may not. */
NODISCARD struct err build_pod_finish_check(const struct build_settings *s);
/* Sets name, labels, annotations, selectors and hooks. ERR_BAD_VALUE: the template makes no pod. */
NODISCARD struct err build_pod_finish(const struct build_settings *s,
                                      const struct build_pod_ask *ask, struct document_node *pod,
                                      struct arena *a);

#endif
