/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_MASK_H
#define EXECUTOR_POD_MASK_H

/* Secrets of a pod's environment, so that the logs that are kept with a run do not show them. Known
 * are the values that the pod's spec states: of variables whose names speak of a password, a token,
 * a key or the like, of those that look like a well-known kind of token or a private key, and the
 * passwords in URLs. What a container takes from a Secret by reference is not in its spec, and the
 * executor has no right to read it. Each is found as it is, line by line if it has several, as JSON
 * and programs quote it, and in base64. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define POD_MASK_MIN  4    /* bytes of a secret: shorter ones would be found everywhere */
#define POD_MASK_MAX  1000 /* secrets of a pod, in all their forms, about */
#define POD_MASK_TEXT "***"

struct pod_mask {
    const struct str *secrets; /* longest first */
    size_t count;
    bool all; /* they are not known: nothing may be shown */
};

/* The secrets of all containers of a pod, given as JSON; they live in the arena, or in the text.
 * Errors are those of a pod that is none, and ERR_TOO_MANY: then no log can be kept. */
NODISCARD struct err pod_mask_read(struct str pod, struct arena *a, struct pod_mask *out);

/* Adds the text with POD_MASK_TEXT in place of each secret, as valid UTF-8: what is none becomes
 * U+FFFD. cut_start, cut_end: the text is a piece of a longer one, so that a secret may have been
 * cut through: what is left of it there is masked as well. */
void pod_mask_apply(const struct pod_mask *m, struct str text, bool cut_start, bool cut_end,
                    struct buf *out);

/* The end of a text, of at most so many bytes: whole lines, or a part of the last line if even that
 * is longer. */
struct str pod_mask_tail(struct str text, size_t max);

#endif
