/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_GUARD_H
#define NET_GUARD_H

/* Which requests are admitted (I7). A browser lends its user's reach to every page: a page of
 * another origin can send requests to a server on this machine, and one whose name its owner points
 * here afterwards (DNS rebinding) can read the answers, too. Browsers say in headers which page
 * asks and which name it used; other clients send no such headers and pass. */

#include "base/err.h"
#include "base/str.h"

struct tls_context;

struct guard {
    const char *bound;       /* the address or name that is listened on */
    const char *allowed;     /* further names: "a.example,*.b.example"; "*" is any; may be NULL */
    bool loopback;           /* only this machine can connect */
    struct tls_context *tls; /* NULL: plain */
    char machine[256];       /* its own name, which counts where others can connect */
    /* The Host that was admitted last for being an address. Clients use one and the same, and what
     * makes an address admissible never changes, as names of certificates do. */
    char host[64];
    size_t host_len;
};

/* What a request says of itself; empty where it says nothing. */
struct guard_request {
    struct str host;       /* Host or :authority, with the port */
    struct str origin;     /* Origin */
    struct str fetch_site; /* Sec-Fetch-Site */
};

/* Takes the first of a list as "a, b" off *rest, without the spaces around it. */
struct str guard_next_name(struct str *rest);
/* ERR_BAD_VALUE unless `allowed` is a list of names. */
NODISCARD struct err guard_check_names(const char *allowed);

/* ERR_HOST_NAME unless the host is one of this server's: localhost and addresses of the loopback;
 * if others can connect, any address (nobody else can give an address to a page) and the
 * machine's name; what is listened on; names of the certificate; names that are allowed. A
 * request without any host (HTTP/1.0) comes from no browser.
 * ERR_ORIGIN if a page of another origin asks: Origin is there and is not the host, or
 * Sec-Fetch-Site is there and is neither same-origin nor none. */
NODISCARD struct err guard_check(struct guard *g, const struct guard_request *req);

#endif
