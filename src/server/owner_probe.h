/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_OWNER_PROBE_H
#define SERVER_OWNER_PROBE_H

/* Whether the owner of the jobs answers a standby, and how it says that it is: it is asked for its
 * /health once a second. Loop thread only. */

#include <uv.h>

#include "net/fetch.h"

struct owner_probe;

struct owner_health {
    bool silent;     /* it gave no answer the last time */
    bool bad;        /* it answered that nothing can be stored */
    char status[24]; /* as it says itself; empty: it has not been asked yet, or does not say */
};

/* tls must outlive it. */
struct owner_probe *owner_probe_new(uv_loop_t *loop, const struct fetch_tls *tls);
/* Where the owner is, a URL that is copied; NULL: nobody is asked. */
void owner_probe_at(struct owner_probe *p, const char *url);
/* What was heard last of the server at that URL. */
void owner_probe_read(const struct owner_probe *p, const char *url, struct owner_health *out);
/* The loop must run once more before it may be closed. NULL is fine. */
void owner_probe_free(struct owner_probe *p);

#endif
