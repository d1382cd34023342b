/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_ANSWER_H
#define KUBE_KUBE_ANSWER_H

/* What the API server answered, as data: a pure function of the HTTP answer. Refusals are Status
 * objects (meta/v1); what stands before an API server refuses in its own words. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/units.h"

enum kube_answer_reason {
    KUBE_ANSWER_OK, /* 2xx */
#define REASON(name, wire, status) KUBE_ANSWER_##name,
#include "kube/kube_answer.def"
#undef REASON
    KUBE_ANSWER_REASONS
};

#define KUBE_ANSWER_CAUSES_MAX 32
#define KUBE_ANSWER_TEXT_MAX   2048 /* bytes of a message; longer ones are cut */

/* One of the causes of a refusal: of Invalid, a member of the object and what is wrong with it. */
struct kube_answer_cause {
    struct str reason, message, field;
};

struct kube_answer {
    enum kube_answer_reason reason;
    long status;        /* of HTTP; 0: there is no answer */
    bool foreign;       /* refused, and not by a Status: by something before an API server */
    struct str object;  /* OK: the body as it came */
    struct str message; /* not OK: a sentence on one line */
    /* Of a refusal: what it is about, if it says so ("pods" "x", or "namespaces" "y"). */
    struct str kind, name;
    struct kube_answer_cause causes[KUBE_ANSWER_CAUSES_MAX];
    size_t cause_count;
    span retry_after; /* as the server asks; below 0: it does not */
    int version;      /* of HTTP times ten: 11, 20; 0: there is no answer */
    int tries;        /* requests that were sent */
};

/* An answer with a status. Whatever it refers to lives in the body or the arena. */
void kube_answer_read(long status, struct str body, struct arena *a, struct kube_answer *out);
/* The object of an ERROR event of a watch: a Status, whose code counts. */
void kube_answer_read_status(struct str object, struct arena *a, struct kube_answer *out);
/* What Retry-After asks for: seconds, or a date in relation to the answer's Date (so that the
 * clocks of the two machines need not agree), else to now. Below 0 if it says nothing. */
span kube_answer_retry_after(struct str retry_after, struct str date, instant now);

/* "NotFound". */
const char *kube_answer_reason_name(enum kube_answer_reason reason);
/* Worth trying again unchanged: too many requests, faults of the server, of the connection, of
 * credentials. */
bool kube_answer_is_passing(enum kube_answer_reason reason);
/* Nothing in the request is at fault, although trying again at once is no use: credentials or a
 * certificate that are refused, or what stands between; and everything that is passing. */
bool kube_answer_is_not_of_request(enum kube_answer_reason reason);
/* The request was certainly not acted on; otherwise it may have been. */
bool kube_answer_is_unheard(enum kube_answer_reason reason);

#endif
