/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_ACCESS_H
#define ACCESS_ACCESS_H

/* Who may do what. A front end asks with each request who sent it (access_check) and, once it
 * knows what the request is about, whether they may (access_require). Time is handed in; nothing
 * here waits. Everything runs on the loop thread.
 *
 * Without configured clients nobody can be told from anybody: a request without credentials then
 * comes from the anonymous identity, which may do everything. That such a server listens on
 * loopback only is up to the server's start. With clients the anonymous identity may do nothing
 * but what needs no scope. */

#include <stdbool.h>
#include <stdint.h>

#include "access/certificate.h"
#include "access/scope_expr.h"
#include "access/scopes.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define ACCESS_NONCES_MAX    ((size_t)1 << 20)
#define ACCESS_KEY_MIN       32 /* bytes */
#define ACCESS_CHALLENGE_MAX 160

struct access_settings {
    span window;       /* between a client's clock and the server's; HAWK_WINDOW is usual */
    size_t nonces_max; /* ACCESS_NONCES_MAX is usual */
    /* The server as the issuer of credentials: a name that no client may have, and a key of
     * at least ACCESS_KEY_MIN random bytes that must outlive a restart, for credentials in use do
     * (access/issuer_key.h). Copied. */
    struct str issuer;
    struct str issuer_key;
    uint64_t seed; /* unpredictable */
};

/* A request as it came. */
struct access_request {
    struct str method;      /* "GET" */
    struct str path, query; /* still percent-encoded; query without its '?' */
    struct str host;        /* of the header Host */
    bool tls;
    struct str forwarded_port, forwarded_proto; /* X-Forwarded-Port, -Proto; empty if absent */
    struct str authorization;                   /* empty if absent */
    struct str content_type, body;
};

enum access_kind { ACCESS_ANONYMOUS, ACCESS_CLIENT, ACCESS_TEMPORARY };

/* Who sent a request. Lives in the arena that access_check was given: it stays valid when clients
 * are loaded again. */
struct access_identity {
    enum access_kind kind;
    struct str client_id; /* for people; empty if anonymous */
    struct scope_set scopes;
    instant expires; /* INSTANT_NONE: never */
    bool bewit;      /* the request was authorised by its URL */
};

struct access;

struct access *access_new(const struct access_settings *settings);
void access_free(struct access *a);

/* Reads the clients from a file, at the start and again at SIGHUP. After an error those that were
 * there remain. Identities stay as they are. ERR_CONFLICT if a client has the name of the server
 * as issuer. */
NODISCARD struct err access_load_clients(struct access *a, const char *path);
/* Whether clients were loaded, be it none at all. */
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

/* ERR_FORBIDDEN if the identity's scopes do not satisfy the expression. why (NULL: not wanted)
 * then gets a text of several lines that names the client, what is missing and what is demanded. */
NODISCARD struct err access_require(const struct access_identity *who, const struct scope_expr *e,
                                    const struct scope_params *p, struct buf *why);

/* Credentials that the server issues: for a claimed run, say. See certificate_make. */
void access_issue(const struct access *a, struct str id, instant start, instant expiry,
                  const struct str *scopes, size_t count, struct arena *mem,
                  struct credentials *out);

#endif
