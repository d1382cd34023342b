/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ACCESS_SIGNED_H
#define TESTS_ACCESS_SIGNED_H

/* An issuer's side of JSON Web Tokens: writing and signing them. */

#include <openssl/evp.h>

#include "access/jwt.h"
#include "base/buf.h"

/* Adds a key of a set, of either kind. more: further members, each with a comma before it. */
void signed_key(struct buf *b, EVP_PKEY *key, const char *more);
/* Reads the set of keys that were added, and frees their text. */
NODISCARD struct err signed_keys(struct buf *keys, struct jwks **out);
/* A token with these parts, signed by the key with the digest. */
struct buf signed_token(EVP_PKEY *key, const char *digest, const char *header, const char *claims);

#endif
