/* SPDX-License-Identifier: Apache-2.0 */
#include "server/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"

#define VARIABLE "TENAX_HANDOVER"

/* Whether it is a socket that listens: the variable may come from anybody. */
static bool listens(int fd)
{
    int on = 0;
    socklen_t len = sizeof on;
    return fd > 2 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

static int own(int fd)
{
    return listens(fd) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : 0;
}

struct handover handover_take(void)
{
    struct handover h = {0};
    const char *text = getenv(VARIABLE);
    int primary, admin;
    int64_t rest;
    if (text && sscanf(text, "%d,%d,%" SCNd64, &primary, &admin, &rest) == 3) {
        h = (struct handover){own(primary), own(admin), rest};
        /* Helpers of the process before: they end by themselves, and nobody else awaits them. */
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    unsetenv(VARIABLE);
    return h;
}

bool handover_happened(const struct handover *h)
{
    return h->primary != 0;
}

/* The arguments as they were given, each ended by a NUL, and the list of them. */
static char **arguments(struct buf *text)
{
    char piece[4096];
    ssize_t n;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        buf_add(text, piece, (size_t)n);
    if (fd >= 0)
        close(fd);
    if (text->len == 0)
        return NULL;
    size_t count = 0, i = 0;
    for (size_t at = 0; at < text->len; at += strlen(text->at + at) + 1)
        count++;
    char **argv = alloc_get((count + 1) * sizeof *argv);
    for (size_t at = 0; i < count; at += strlen(text->at + at) + 1)
        argv[i++] = text->at + at;
    argv[count] = NULL;
    return argv;
}

/* By its path, for that is what lists of processes show; by the kernel's link if it was replaced.
 */
static const char *program(char path[PATH_MAX])
{
    static const char link[] = "/proc/self/exe";
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && access(path, X_OK) == 0 ? path : link;
}

static volatile sig_atomic_t told_to_stop;

static void note_stop(int number)
{
    (void)number;
    told_to_stop = 1;
}

void handover_note_stops(void)
{
    const struct sigaction note = {.sa_handler = note_stop};
    sigaction(SIGTERM, &note, NULL);
    sigaction(SIGINT, &note, NULL);
}

bool handover_is_stopped(void)
{
    return told_to_stop;
}

void handover_go(const struct handover *h)
{
    struct buf text = {0};
    char value[64], path[PATH_MAX];
    sigset_t none;
    snprintf(value, sizeof value, "%d,%d,%" PRId64, h->primary, h->admin, h->rest_ms);
    signal(SIGTERM, SIG_DFL); /* from here on that ends it at once: nobody would look */
    signal(SIGINT, SIG_DFL);
    if (told_to_stop)
        raise(SIGTERM);
    char **argv = arguments(&text);
    setenv(VARIABLE, value, 1);
    if (h->primary)
        fcntl(h->primary, F_SETFD, 0);
    if (h->admin)
        fcntl(h->admin, F_SETFD, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    fflush(NULL);
    if (argv)
        execv(program(path), argv);
    log_error("the server cannot begin anew: %s", strerror(errno));
    free(argv);
    buf_fini(&text);
}
