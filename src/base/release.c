/* SPDX-License-Identifier: Apache-2.0 */
#include "base/release.h"

#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((off_t)1024 * 1024)
#define AMPLE ((uint64_t)1024 * 1024 * 1024)
/* After a piece it rests so many times as long as that took, but not for more than MAX_NS. */
#define RESTS  4
#define MAX_NS ((int64_t)20 * 1000 * 1000)

static bool is_ample(int fd)
{
    struct statvfs v;
    return fstatvfs(fd, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize >= AMPLE;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void rest(int64_t ns)
{
    struct timespec ts = {.tv_nsec = ns < MAX_NS ? ns : MAX_NS};
    nanosleep(&ts, NULL);
}

bool release_takes_time(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > PIECE && is_ample(fd);
}

void release_file(int fd, const _Atomic bool *hurry)
{
    struct stat st;
    bool go_on = fstat(fd, &st) == 0 && st.st_nlink == 0;
    off_t left = st.st_size;
    while (go_on && left > PIECE && is_ample(fd) && !(hurry && *hurry)) {
        int64_t before = now_ns();
        left -= PIECE;
        go_on = ftruncate(fd, left) == 0;
        rest(RESTS * (now_ns() - before));
    }
    close(fd);
}
