/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_IDENTITIES_H
#define ACCESS_IDENTITIES_H

/* Who sends a request, by whatever it shows of that: a token (access/tokens.h), and how often wrong
 * ones came from its address (access/wrong_tries.h). Both front ends ask here. Loop thread only. */

#include "access/tokens.h"
#include "access/wrong_tries.h"

struct identities;

struct identities_settings {
    struct tokens *tokens; /* borrowed */
    uint32_t wrong_max;    /* wrong credentials of an address per minute; 0: any number */
    uint64_t seed;         /* unpredictable */
};

struct identities *identities_new(const struct identities_settings *settings);
void identities_free(struct identities *i);

/* What a request shows. */
struct identity_request {
    struct str authorization; /* the header */
    const char *address;      /* of the peer */
    uint32_t wait;            /* out: seconds, iff ERR_TOO_MANY_TRIES */
};

/* *who stays valid until tokens_free and identities_free; NULL: nothing in the request says who
 * sends it. ERR_BAD_CREDENTIALS: what it says is wrong. ERR_TOO_MANY_TRIES: likewise, and too often
 * lately. Whoever has a token that is right is let in, however many wrong ones come from the same
 * address: a token cannot be guessed, and nobody must be able to lock out his neighbours. */
NODISCARD struct err identities_check(struct identities *i, struct identity_request *r, instant now,
                                      struct token **who);

/* Counts wrong credentials that were found to be wrong elsewhere. Returns the error that they are
 * to be refused with. */
NODISCARD struct err identities_wrong(struct identities *i, struct identity_request *r, instant now,
                                      const struct err *err);

/* Requests need credentials: somebody may administer the server. */
bool identities_guard(const struct identities *i);

#endif
