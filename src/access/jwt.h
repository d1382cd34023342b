/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_JWT_H
#define ACCESS_JWT_H

/* JSON Web Tokens (RFC 7519) in their compact form, signed by an issuer (RFC 7515), and the
 * issuer's public keys, a JSON Web Key Set (RFC 7517). Signatures are OpenSSL's business.
 *
 * Allowed are RS256, RS384, RS512, ES256 and ES384, each with keys of its own kind only. "none" and
 * MACs are refused before anything else of a token is looked at, so that nobody can have a public
 * key taken for a shared secret (RFC 8725 §3.1). */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define JWT_TEXT_MAX 16384
#define JWT_LEEWAY   ((span){30 * 1000}) /* between the issuer's clock and ours */
#define JWKS_MAX     64                  /* keys of a set that are used */

enum jwt_alg { JWT_RS256, JWT_RS384, JWT_RS512, JWT_ES256, JWT_ES384, JWT_ALGS };

/* What a token says. Nothing of it is true before jwks_verify. */
struct jwt {
    enum jwt_alg alg;
    struct str kid;    /* of its header; empty: none */
    struct str claims; /* a JSON object */
    struct str issuer, subject;
    struct str audience;         /* a JSON string or list; empty: none */
    instant expires, not_before; /* INSTANT_NONE: not said */
    struct str signed_part, signature;
};

/* Whether the text has the form of one: three parts with dots between them. */
bool jwt_is_like(struct str text);
/* Reads one; its parts live in the arena, or are parts of the text. ERR_BAD_CREDENTIALS says what
 * is wrong with it. */
NODISCARD struct err jwt_read(struct str text, struct arena *a, struct jwt *out);
/* Whether it is for that audience, and this is its time. ERR_BAD_CREDENTIALS. */
NODISCARD struct err jwt_check(const struct jwt *t, struct str audience, instant now);
/* Whether a claim is a text, a number or a truth value that matches the pattern (base/glob.h), or a
 * list with such a text. Dots in the name lead into objects, unless there is a claim of just that
 * name. */
bool jwt_claim_matches(const struct jwt *t, struct str name, struct str pattern);

struct jwks;
/* Keys of kinds that are not known, or not for signatures, are passed over, and so are those that
 * are too weak (RSA below 2,048 bits). ERR_BAD_VALUE: it is no set of keys, or none of them can be
 * used. */
NODISCARD struct err jwks_read(struct str json, struct jwks **out);
void jwks_free(struct jwks *keys);
size_t jwks_count(const struct jwks *keys);

enum jwks_verdict {
    JWKS_GOOD,
    JWKS_BAD,     /* no key that may have signed it did */
    JWKS_UNKNOWN, /* there is no key with its kid: the issuer may have a new one */
};
enum jwks_verdict jwks_verify(const struct jwks *keys, const struct jwt *t);

#endif
