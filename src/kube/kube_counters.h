/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_COUNTERS_H
#define KUBE_KUBE_COUNTERS_H

/* What a client has asked of API servers, for metrics: plain counts since the start. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* As the API's own rules of access call them. */
enum kube_counters_verb {
    KUBE_GET,
    KUBE_LIST,
    KUBE_WATCH,
    KUBE_CREATE,
    KUBE_UPDATE,
    KUBE_PATCH,
    KUBE_DELETE,
    KUBE_VERBS
};

#define KUBE_COUNTERS_CODES 24

struct kube_counters {
    uint64_t calls[KUBE_VERBS][KUBE_COUNTERS_CODES]; /* requests sent, by what came of them */
    uint64_t retries;                                /* requests that repeat one */
    uint64_t lists;                                  /* of watches: complete ones */
    uint64_t watch_starts;                           /* of watches: streams that were opened */
    uint64_t watch_restarts;                         /* the same, but for the first of each watch */
    uint64_t watch_expired;                          /* 410: listed again */
    uint64_t watch_stalls;                           /* nothing came, not even a bookmark */
    uint64_t logins; /* runs of an exec plugin, and reads of a changed token file */
};

/* Counts a request with its HTTP status, or 0 if there was no answer. */
void kube_counters_add(struct kube_counters *c, enum kube_counters_verb verb, long status);
/* "get". */
const char *kube_counters_verb_name(enum kube_counters_verb verb);
/* The i-th code: "200", "none" for no answer, "other"; NULL after the last. */
const char *kube_counters_code_name(size_t i);
/* Adds the metrics of that complete name to Prometheus' text: the requests by verb and code. */
void kube_counters_write_calls(const struct kube_counters *c, const char *name, struct buf *b);

#endif
