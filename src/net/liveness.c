/* SPDX-License-Identifier: Apache-2.0 */
#include "net/liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define PROBES 3

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void liveness_watch(const uv_tcp_t *tcp, span limit)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)tcp, &fd) != 0)
        return;
    /* The kernel counts the pauses between probes in seconds. */
    int pause_s = (int)(limit.ms / 1000 / PROBES);
    pause_s = pause_s < 1 ? 1 : pause_s;
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause_s);
    /* With a TCP_USER_TIMEOUT the time decides, not the number of probes (tcp(7)). */
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)limit.ms);
}

bool liveness_is_over(const uv_tcp_t *tcp)
{
    uv_os_fd_t fd;
    struct tcp_info info;
    socklen_t size = sizeof info;
    return uv_fileno((const uv_handle_t *)tcp, &fd) == 0 &&
           getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

bool liveness_is_unacknowledged(const uv_tcp_t *tcp)
{
    uv_os_fd_t fd;
    int unsent = 0;
    return uv_fileno((const uv_handle_t *)tcp, &fd) == 0 && ioctl(fd, SIOCOUTQ, &unsent) == 0 &&
           unsent > 0;
}
