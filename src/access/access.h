/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_ACCESS_H
#define ACCESS_ACCESS_H

/* Who may do what. For each request a front end asks who sent it (access_check) and, once it knows
 * what the request is about, whether the sender may do that (access_require). The caller passes the
 * time; nothing here blocks. Everything runs on the loop thread.
 *
 * Without configured clients nobody can be identified: a request without credentials then comes
 * from the anonymous identity, which may do everything. The start of the server ensures that such a
 * server only listens on loopback. With clients, the anonymous identity may only do what needs no
 * scope, and what the role "anonymous" gives to everybody (access/roles.h). */

#include <stdbool.h>
#include <stdint.h>

#include "access/certificate.h"
#include "access/scope_expr.h"
#include "access/scopes.h"
#include "access/static_workers.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define ACCESS_NONCES_MAX    ((size_t)1 << 20)
#define ACCESS_KEY_MIN       32 /* bytes */
#define ACCESS_CHALLENGE_MAX 160

struct access_settings {
    span window;       /* between a client's clock and the server's; usually HAWK_WINDOW */
    size_t nonces_max; /* usually ACCESS_NONCES_MAX */
    /* The server as the issuer of credentials: a name that no client may have, and a key of at
     * least ACCESS_KEY_MIN random bytes that must survive a restart, because credentials in use do
     * (access/issuer_key.h). Copied. */
    struct str issuer;
    struct str issuer_key;
    uint64_t seed; /* unpredictable */
};

/* A request as received. */
struct access_request {
    struct str method;      /* "GET" */
    struct str path, query; /* still percent-encoded; query without its '?' */
    struct str host;        /* the value of the header Host */
    bool tls;
    struct str forwarded_port, forwarded_proto; /* X-Forwarded-Port, -Proto; empty if absent */
    struct str authorization;                   /* empty if absent */
    struct str content_type, body;
    /* It was sent to another service, which asks: its body is not known, so the hash is that
     * service's to check, and its nonce is not remembered. */
    bool elsewhere;
};

enum access_kind { ACCESS_ANONYMOUS, ACCESS_CLIENT, ACCESS_TEMPORARY };

/* Who sent a request. It lives in the arena that was passed to access_check, and stays valid when
 * clients are loaded again. */
struct access_identity {
    enum access_kind kind;
    struct str client_id; /* for people; empty if anonymous */
    struct str issuer;    /* the configured client whose key it goes back to; empty: none */
    struct scope_set scopes;
    instant expires; /* INSTANT_NONE: never */
    bool bewit;      /* the request was authorised by its URL */
    struct str hash; /* of a body, as it was signed; empty: none was */
};

struct access;

struct access *access_new(const struct access_settings *settings);
void access_free(struct access *a);

/* Reads the clients from a file, at the start and again on SIGHUP. After an error the previous ones
 * remain. Existing identities do not change. ERR_CONFLICT if a client has the name of the server as
 * issuer. */
NODISCARD struct err access_load_clients(struct access *a, const char *path);
/* Whether clients were loaded, even if the file contained none. */
bool access_has_clients(const struct access *a);

/* Who sent the request, or
 *   ERR_BAD_CREDENTIALS  malformed, unknown, expired or wrong credentials, or both a header and
 *                        a bewit
 *   ERR_STALE_TIME       its time is not within the window; the challenge says the server's
 *   ERR_REPLAYED         a request with this nonce was accepted before
 *   ERR_BUSY             the memory for nonces is used up
 * challenge is for WWW-Authenticate, empty unless the error is a 401. */
NODISCARD struct err access_check(struct access *a, const struct access_request *r, instant now,
                                  struct arena *mem, struct access_identity *who,
                                  char challenge[ACCESS_CHALLENGE_MAX]);

/* Whoever sends a request without credentials: it may do everything as long as there are no
 * clients. */
struct access_identity access_anonymous(const struct access *a, struct arena *mem);
/* These scopes with those of their roles, and of everybody's. ERR_TOO_MANY: see roles_expand. */
NODISCARD struct err access_expand(const struct access *a, const struct scope_set *scopes,
                                   struct arena *mem, struct scope_set *out);

/* A worker of the file of clients, until that is loaded again; NULL if there is none. */
const struct static_worker *access_static_worker(const struct access *a, struct str pool,
                                                 struct str group, struct str id);

/* ERR_FORBIDDEN if the identity's scopes do not satisfy the expression. why (NULL: not wanted) then
 * gets a text of several lines that names the client, what is missing and what is required. */
NODISCARD struct err access_require(const struct access_identity *who, const struct scope_expr *e,
                                    const struct scope_params *p, struct buf *why);

/* Credentials issued by the server, for example for a claimed run. See certificate_make; they end
 * CERTIFICATE_LIFE_MAX after their start if they were to end later. */
void access_issue(const struct access *a, struct str id, instant start, instant expiry,
                  const struct str *scopes, size_t count, struct arena *mem,
                  struct credentials *out);

/* Signs a text by the server's key: URLs that it gives out, say. Texts of different uses differ in
 * how they begin. */
#define ACCESS_MAC_LEN 44
void access_sign(const struct access *a, struct str text, char mac[ACCESS_MAC_LEN]);
/* Compares what was signed, in a time that depends only on the lengths. */
bool access_same(struct str a, struct str b);

#endif
