/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"

static void read_address(const uv_tcp_t *tcp, char address[HTTP_ADDRESS_MAX])
{
    struct sockaddr_storage at = {0};
    int len = sizeof at;
    address[0] = '\0';
    if (uv_tcp_getpeername(tcp, (struct sockaddr *)&at, &len) < 0 ||
        uv_ip_name((struct sockaddr *)&at, address, HTTP_ADDRESS_MAX) < 0)
        address[0] = '\0';
    /* An IPv4 client of a socket for both is one of IPv4 all the same. */
    if (strncmp(address, "::ffff:", 7) == 0 && strchr(address, '.'))
        memmove(address, address + 7, strlen(address + 7) + 1);
}

static struct str taken(struct buf *b)
{
    struct str text = buf_view(b);
    *b = (struct buf){0};
    return text;
}

struct http_peer *peer_new(const uv_tcp_t *tcp, const struct tls *tls)
{
    struct http_peer *p = ALLOC(struct http_peer);
    struct buf subject = {0}, names = {0};
    read_address(tcp, p->address);
    if (tls)
        tls_read_peer(tls, &subject, &names);
    p->subject = taken(&subject);
    p->names = taken(&names);
    return p;
}

void peer_free(struct http_peer *p)
{
    if (!p)
        return;
    free((char *)p->subject.at);
    free((char *)p->names.at);
    free(p);
}
