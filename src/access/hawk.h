/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_HAWK_H
#define ACCESS_HAWK_H

/* The server side of Hawk, version 1: the contents of an Authorization header or a bewit, and the
 * MACs that they must carry (HMAC-SHA256). Nothing is stored here and no clock is read. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define HAWK_HEADER_MAX ((size_t)16 << 10) /* bytes of the header's value */
#define HAWK_MAC_LEN    44                 /* 32 bytes in base64 */
/* How far the clocks of a client and the server may differ: as in Taskcluster. */
#define HAWK_WINDOW ((span){15 * 60 * 1000})

/* What is signed, as received with the request. */
struct hawk_target {
    struct str method;
    struct str path, query; /* still percent-encoded; query without its '?' */
    struct str host;        /* without port, an IPv6 address without brackets */
    uint16_t port;
};

/* The contents of a header or a bewit; views into it or into the arena. Absent attributes are
 * empty. */
struct hawk_attributes {
    struct str id, ts, nonce, hash, ext, mac, app, dlg;
    int64_t seconds; /* ts: of a header, when it was sent; of a bewit, when it expires */
};

/* Reads the value of an Authorization header. ERR_BAD_CREDENTIALS with the offset of the fault:
 * another scheme, an unknown, repeated, empty or missing attribute, a character that Hawk does not
 * allow. */
NODISCARD struct err hawk_parse_header(struct str value, struct hawk_attributes *h);

/* Whether a request is signed at all, rightly or not: by a header of Hawk's, or by a bewit. */
bool hawk_is_signed(struct str authorization, struct str query);
/* Whether the query has a bewit. */
bool hawk_has_bewit(struct str query);
/* Removes the bewit from target->query and parses it. The rest of the query lives in the arena.
 * ERR_BAD_CREDENTIALS if it is malformed or the method is neither GET nor HEAD. */
NODISCARD struct err hawk_parse_bewit(struct hawk_target *target, struct arena *a,
                                      struct hawk_attributes *h);

/* The kind of Hawk text that a MAC covers. */
enum hawk_type { HAWK_HEADER, HAWK_BEWIT };

/* Computes the MAC, in Base64; h->mac is not used. */
void hawk_mac(enum hawk_type type, struct str key, const struct hawk_target *target,
              const struct hawk_attributes *h, char mac[HAWK_MAC_LEN]);
/* Whether h->mac is right, in a time that does not depend on where it differs. */
bool hawk_mac_matches(enum hawk_type type, struct str key, const struct hawk_target *target,
                      const struct hawk_attributes *h);

/* The hash of a body; of the content type, only the part before ';' counts, in lower case. */
void hawk_payload_hash(struct str content_type, struct str body, char hash[HAWK_MAC_LEN]);

/* A value for WWW-Authenticate that tells the time to a client whose clock is wrong. Signed, so
 * that the client can verify that it is the server's. */
#define HAWK_CHALLENGE_MAX 160
void hawk_stale_challenge(struct str key, instant now, char challenge[HAWK_CHALLENGE_MAX]);

/* The host and port that a client signs, from a Host header ("name", "name:port", "[::1]:port").
 * Without a port it is 443 if tls, otherwise 80. A proxy's X-Forwarded-Port, or else
 * X-Forwarded-Proto, says what the client saw; empty if absent. False if the header is malformed.
 * Sets host and port of the target; host is a view into the header. */
bool hawk_host(struct str header, bool tls, struct str forwarded_port, struct str forwarded_proto,
               struct hawk_target *target);

#endif
