/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"

#define BACKLOG 1024

static int resolve(uv_loop_t *loop, const char *host, int port, struct sockaddr_storage *out)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    uv_getaddrinfo_t req;
    int e = uv_getaddrinfo(loop, &req, NULL, host, service, &hints);
    if (e < 0)
        return e;
    memcpy(out, req.addrinfo->ai_addr, req.addrinfo->ai_addrlen);
    uv_freeaddrinfo(req.addrinfo);
    return 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

int listen_on(uv_tcp_t *listener, const struct http_settings *at, uv_connection_cb connected,
              struct guard *guard, int *bound_port)
{
    struct sockaddr_storage a = {0};
    int e = at->socket ? 0 : resolve(listener->loop, at->host, at->port, &a);
    if (e == 0)
        e = at->socket ? uv_tcp_open(listener, at->socket)
                       : uv_tcp_bind(listener, (const struct sockaddr *)&a, 0);
    if (e == 0)
        e = uv_listen((uv_stream_t *)listener, BACKLOG, connected);
    int len = sizeof a;
    if (e == 0)
        e = uv_tcp_getsockname(listener, (struct sockaddr *)&a, &len);
    if (e == 0)
        *bound_port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                                    : ((struct sockaddr_in *)&a)->sin_port);
    guard->bound = at->host;
    guard->loopback = is_loopback(&a);
    if (gethostname(guard->machine, sizeof guard->machine - 1) != 0)
        guard->machine[0] = '\0';
    return e;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

/* libuv does not part with a descriptor of its own, but a copy is as good. */
int listen_take(uv_stream_t *listener)
{
    uv_tcp_t *taken = ALLOC(uv_tcp_t);
    uv_os_fd_t fd;
    must(uv_tcp_init(listener->loop, taken) == 0);
    int e = uv_accept(listener, (uv_stream_t *)taken);
    if (e == 0)
        e = uv_fileno((const uv_handle_t *)taken, &fd);
    int copy = e == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : e;
    if (e == 0 && copy < 0)
        copy = -errno;
    uv_close((uv_handle_t *)taken, on_closed);
    return copy;
}
