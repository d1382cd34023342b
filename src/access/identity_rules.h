/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_IDENTITY_RULES_H
#define ACCESS_IDENTITY_RULES_H

/* Which roles those have who are not known by a token of the server: plain values, as
 * server/identities_file.c reads them from a file. */

#include "access/change_note.h"
#include "access/rights.h"
#include "base/arena.h"
#include "base/units.h"

#define IDENTITY_RULES_MAX   256
#define IDENTITY_ISSUERS_MAX 16
#define IDENTITY_CLAIMS_MAX  16

struct identity_claim {
    struct str name, pattern;
};

struct identity_rule {
    enum actor_kind kind; /* ACTOR_CERTIFICATE, ACTOR_JWT or ACTOR_HAWK */
    struct str name;      /* for people */
    unsigned roles;       /* bits 1 << enum role */
    bool payloads;        /* a viewer that sees payloads */
    struct str *queues;   /* patterns; none: all queues */
    size_t queue_count;
    /* Patterns (base/glob.h). CERTIFICATE: of the whole subject or of one of its other names
     * (struct http_peer); HAWK: of the client's id. */
    struct str pattern;
    bool by_name;
    struct str issuer;             /* JWT */
    struct identity_claim *claims; /* all of which must hold */
    size_t claim_count;
};

/* Who signs JSON Web Tokens, and where its keys are. */
struct identity_issuer {
    struct str issuer, audience;
    struct str jwks;       /* URL; empty: where its discovery document says */
    struct str ca_file;    /* who may have signed the certificate of these servers; empty: whom the
                            * system trusts */
    struct str token_file; /* what these servers are to be shown as a bearer token; or empty */
    span keys_max_age;     /* how long keys count that cannot be read again */
};

struct identity_rules {
    struct arena memory;
    struct identity_rule *rules; /* the first that matches counts */
    size_t rule_count;
    struct identity_issuer *issuers;
    size_t issuer_count;
};

#endif
