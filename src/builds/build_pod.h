/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_POD_H
#define BUILDS_BUILD_POD_H

/* The pod of a build, made from its buildConfig, the settings, and a template: as Screwdriver's
 * executor for Kubernetes makes it (public repository screwdriver-cd/executor-k8s); docs/builds.md
 * lists the differences. Pure. On one thread at a time. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "builds/build_settings.h"
#include "wire/document.h"

/* What all pods share; read once. */
struct build_pod_template;

/* Reads the template of the settings (POD_TEMPLATE; none: the built-in one) and checks what the
 * settings say of pods. ERR_USAGE, or an error of the file with its line. The settings must outlive
 * it. */
NODISCARD struct err build_pod_template_read(const struct build_settings *s,
                                             struct build_pod_template **out);
/* NULL is allowed. */
void build_pod_template_free(struct build_pod_template *t);
/* The built-in template as YAML, to start from. */
void build_pod_template_print(struct buf *b);

struct build_pod {
    struct str build; /* <prefix><id>: value of the label sdbuild, and the container's name */
    struct str name;  /* <build>-<5 characters> */
    struct str json;  /* the manifest */
};

/* Makes the pod; texts live in the arena. The five characters follow from the build: the same
 * message, delivered again, asks for the same pod, so that no second one is made. ERR_BAD_VALUE
 * names the member of buildConfig that is wrong, never the token. */
NODISCARD struct err build_pod_make(const struct build_pod_template *t,
                                    const struct document_node *config, struct arena *a,
                                    struct build_pod *out);

/* The same for people to look at: "(hidden)" stands for the token. */
NODISCARD struct err build_pod_preview(const struct build_pod_template *t,
                                       const struct document_node *config, struct arena *a,
                                       struct build_pod *out);

/* <prefix><id>, as in build_pod. ERR_BAD_VALUE if it can be no label. */
NODISCARD struct err build_pod_label(const struct build_settings *s, struct str build_id,
                                     struct arena *a, struct str *out);

#endif
