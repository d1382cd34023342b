/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_IDENTITIES_H
#define ACCESS_IDENTITIES_H

/* Who sends a request, by whatever it shows of that: a token of the server (access/tokens.h), a
 * JSON Web Token (access/jwt.h) or a certificate; and how often wrong ones came from its address
 * (access/wrong_tries.h). Both front ends ask here. Loop thread only.
 *
 * Whoever is known by something else than a token of the server is a struct token all the same,
 * that is not among those of `struct tokens`: made when it is first met, one for each subject and
 * rule, and there until identities_free. It is revoked when the rules change. */

#include "access/identity_rules.h"
#include "access/jwt.h"
#include "access/tokens.h"
#include "access/wrong_tries.h"

#define IDENTITIES_MAX 100000 /* that were ever met */

struct identities;

struct identities_settings {
    struct tokens *tokens; /* borrowed */
    uint32_t wrong_max;    /* wrong credentials of an address per minute; 0: any number */
    uint64_t seed;         /* unpredictable */
    /* A token is signed by a key of the issuer that is not known: its keys may have changed. */
    void (*want_keys)(void *ctx, size_t issuer);
    void *ctx;
};

struct identities *identities_new(const struct identities_settings *settings);
void identities_free(struct identities *i);

/* From now on these rules count, and no others; keys of issuers that stay are kept. Takes the
 * rules; they are empty afterwards. */
void identities_set_rules(struct identities *i, struct identity_rules *rules);
const struct identity_rules *identities_rules(const struct identities *i);
/* The keys of the issuer with that index among the rules, as they were read now; takes them. They
 * count for its keys_max_age, unless others take their place. */
void identities_set_keys(struct identities *i, size_t issuer, struct jwks *keys, instant now);

/* What a request shows. */
struct identity_request {
    struct str authorization;  /* the header */
    const char *address;       /* of the peer */
    struct str subject, names; /* of its certificate (struct http_peer) */
    span held; /* so far the time that jobs go by is behind: no jump of the clock ends a token */
    uint32_t wait; /* out: seconds, iff ERR_TOO_MANY_TRIES */
};

/* *who stays valid until tokens_free and identities_free; NULL: nothing in the request says who
 * sends it. ERR_BAD_CREDENTIALS: what it says is wrong. ERR_TOO_MANY_TRIES: likewise, and too often
 * lately. ERR_NO_RIGHT: it is right, but no rule is about it. ERR_BUSY: the keys to check it with
 * are not there, or too old.
 *
 * Whoever has a token of the server that is right is let in, however many wrong ones come from the
 * same address: it cannot be guessed, and nobody must be able to lock out his neighbours. To check
 * the signature of a JSON Web Token takes time: then only those are let in that were before. */
NODISCARD struct err identities_check(struct identities *i, struct identity_request *r, instant now,
                                      struct token **who);

/* What the rules say of a client that signs its requests (access/hawk.h); NULL: nothing.
 * ERR_TOO_MANY: there were too many different ones. */
NODISCARD struct err identities_client(struct identities *i, struct str client, struct token **who);

/* Counts wrong credentials that were found to be wrong elsewhere. Returns the error that they are
 * to be refused with. */
NODISCARD struct err identities_wrong(struct identities *i, struct identity_request *r, instant now,
                                      const struct err *err);

/* Requests need credentials: somebody may administer the server. */
bool identities_guard(const struct identities *i);

#endif
