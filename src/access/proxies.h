/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_PROXIES_H
#define ACCESS_PROXIES_H

/* Proxies that are believed when they say whom they ask for (X-Forwarded-For). Each of them adds
 * the address of its own peer at the right; what stands further left came with the request, and
 * anybody may have written it. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define PROXIES_MAX         64
#define PROXIES_ADDRESS_MAX 48 /* with its NUL */

struct proxy_range {
    unsigned char at[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;
};

struct proxies {
    struct proxy_range ranges[PROXIES_MAX];
    size_t count;
};

/* "10.0.0.0/8,fd00::/8,127.0.0.1"; NULL or empty: none. ERR_BAD_VALUE. */
NODISCARD struct err proxies_read(const char *text, struct proxies *out);
/* Who asks: the peer itself, unless that is a proxy that is believed; then what stands at the right
 * of the header, again unless that is such a proxy, and so on. Where something else than an address
 * stands, it is the proxy that passed it on. */
void proxies_client(const struct proxies *p, const char *peer, struct str forwarded_for,
                    char client[PROXIES_ADDRESS_MAX]);

#endif
