/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_ISSUERS_H
#define SERVER_ISSUERS_H

/* Keeps the keys of the issuers of JSON Web Tokens: read at the start, every ten minutes, and when
 * a token is signed by one that is not known, but no more often than every few seconds. All in the
 * background; an issuer that cannot be reached leaves the keys as they are (access/identities.h
 * says for how long they count). */

#include <uv.h>

#include "access/identities.h"

struct issuers;

/* now(NULL) says when keys were read. */
struct issuers *issuers_new(uv_loop_t *loop, instant (*now)(void *ctx));
/* The loop must run once more before it may be closed. */
void issuers_close(struct issuers *s);
/* After that. */
void issuers_free(struct issuers *s);
/* The rules of these have changed: reads the keys of all of their issuers. */
void issuers_follow(struct issuers *s, struct identities *identities);
/* For struct identities_settings; ctx is a struct issuers. */
void issuers_want(void *ctx, size_t issuer);

#endif
