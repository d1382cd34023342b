/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_CERTIFICATE_H
#define ACCESS_CERTIFICATE_H

/* Temporary credentials as in Taskcluster: whoever has a client's access token (the issuer) signs a
 * certificate, version 1, that grants some of its scopes to somebody for a limited time. Nobody
 * else needs to be told: the server checks the signature with each request. */

#include <stdbool.h>
#include <stddef.h>

#include "access/scopes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define CERTIFICATE_SEED_LEN  44
#define CERTIFICATE_TOKEN_LEN 43
#define CERTIFICATE_LIFE_MAX  ((span){INT64_C(31) * 24 * 3600 * 1000})
/* How far the clocks of issuers and the server may differ: as in Taskcluster. */
#define CERTIFICATE_SKEW ((span){5 * 60 * 1000})

/* The contents of a certificate; views into its text or the arena. */
struct certificate {
    struct str issuer;    /* empty: unnamed, the credentials have the issuer's own id */
    struct str client_id; /* empty if absent */
    struct str seed, signature;
    instant start, expiry;
    const struct str *scopes; /* in their order, which is signed */
    size_t count;
};

/* What a client needs; all of it lives in the arena that was passed. */
struct credentials {
    struct str client_id;
    struct str access_token; /* secret */
    struct str certificate;  /* JSON */
};

/* Makes credentials for `id` from an issuer's. The same arguments give the same credentials: a
 * claim that is repeated because its answer was lost gets the same answer. The caller must ensure
 * that id differs from the issuer, that the scopes pass scope_check, and that start and expiry are
 * at most CERTIFICATE_LIFE_MAX apart. */
void certificate_make(struct str issuer, struct str issuer_token, struct str id, instant start,
                      instant expiry, const struct str *scopes, size_t count, struct arena *a,
                      struct credentials *out);

/* Reads a certificate. ERR_BAD_CREDENTIALS if it is malformed, can never be valid, or has too many
 * scopes. */
NODISCARD struct err certificate_read(struct str json, struct arena *a, struct certificate *c);

/* Whether it is a certificate of the issuer for the credentials `id`, valid now. *granted, in the
 * arena, is the set of scopes that it grants. ERR_BAD_CREDENTIALS says why not. */
NODISCARD struct err certificate_check(const struct certificate *c, struct str id,
                                       struct str issuer, struct str issuer_token,
                                       const struct scope_set *issuer_scopes, instant now,
                                       struct arena *a, struct scope_set *granted);
/* The access token of the credentials, with which their requests are signed. */
void certificate_token(const struct certificate *c, struct str issuer_token,
                       char token[CERTIFICATE_TOKEN_LEN]);

#endif
