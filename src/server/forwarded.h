/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_FORWARDED_H
#define SERVER_FORWARDED_H

/* What a server that passes a request on says of who sent it: a header, signed by a secret that
 * only the servers of one PostgreSQL know. It is for that request and that epoch alone. Without it
 * the owner would take the other server for the sender: for limits of addresses, certificates, the
 * name of the host that a signed request was made for, and the admin listener. */

#include "base/buf.h"
#include "net/http.h"

struct forwarded {
    bool admin; /* it came by the admin listener */
    bool tls;   /* it came over TLS */
    struct str host;
    struct http_peer peer; /* its texts may be empty */
};

/* Writes the header, "Tenax-Forwarded: …", and a NUL. */
void forwarded_write(struct buf *out, const struct forwarded *f, uint64_t epoch, struct str secret,
                     const struct http_request *req);
/* Reads it; the texts live in the request's arena. ERR_FORBIDDEN if it is not of a server of this
 * PostgreSQL, for this request; ERR_NO_OWNER if it was meant for the owner of another epoch. */
NODISCARD struct err forwarded_read(const struct http_request *req, uint64_t epoch,
                                    struct str secret, struct forwarded *out);

#endif
