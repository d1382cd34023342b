/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_AUTH_H
#define KUBE_KUBE_AUTH_H

/* What is shown to the API server: what the kubeconfig says, what a file says that is read again
 * and again, or what a program prints until it expires. Loop thread only. Secrets stay here: no
 * message has any. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/str.h"
#include "base/units.h"
#include "kube/kube_config.h"
#include "kube/kube_counters.h"

struct kube_auth;

/* Valid until the next call of kube_auth_now or turn of the loop. */
struct kube_auth_credentials {
    uint64_t generation;       /* others have another one */
    const char *authorization; /* a header line, or NULL */
    struct str cert, key;      /* PEM, or empty */
};

/* Someone who waits for credentials; embedded in what waits. */
struct kube_auth_waiter {
    struct list link; /* list_init before the first use; unlink it to wait no more */
    /* They are there (NULL), or why there are none. Called once, in a later turn. */
    void (*ready)(struct kube_auth_waiter *w, const char *why);
};

struct kube_auth_settings {
    instant (*now)(void *ctx);
    void *now_ctx;
    span plugin_timeout;
    span token_age;
    struct kube_counters *counters; /* borrowed */
};

/* config is borrowed. */
struct kube_auth *kube_auth_new(uv_loop_t *loop, const struct kube_config *config,
                                const struct kube_auth_settings *settings);
/* Whoever waits waits for ever. */
void kube_auth_free(struct kube_auth *a);

/* The credentials, or NULL if there are none at hand: then *why says why there will be none for
 * now, or is NULL if it is worth waiting. */
const struct kube_auth_credentials *kube_auth_now(struct kube_auth *a, const char **why);
/* Waits until the program has printed some. */
void kube_auth_wait(struct kube_auth *a, struct kube_auth_waiter *w);
/* The server has refused those of that generation. True if others may be had: by kube_auth_now. */
bool kube_auth_refused(struct kube_auth *a, uint64_t generation);

#endif
