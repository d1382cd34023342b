/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* The length of the address, or 0 if the path cannot be one. A leading '@' is a name without a
 * file: a NUL in the address. */
static socklen_t make_address(const char *path, struct sockaddr_un *out)
{
    size_t n = strlen(path);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((*path != '/' && *path != '@') || n >= sizeof out->sun_path)
        return 0;
    memcpy(out->sun_path, path, n);
    if (*path == '@')
        out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*path == '/'));
}

void notify_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || !*path)
        return;
    struct sockaddr_un to;
    socklen_t size = make_address(path, &to);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    errno = size ? errno : EINVAL;
    if (fd < 0 || !size ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, size) < 0)
        log_warn("cannot tell the service manager %s: %s", state, strerror(errno));
    if (fd >= 0)
        close(fd);
}
