/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into a server, or into PostgreSQL: a wall clock that is wrong by as many milliseconds
 * as the file says that TENAX_TEST_CLOCK names; with TENAX_TEST_TIME_PASSES not wrong, but so much
 * later, as by the steady clock. Only what a signal handler may call: PostgreSQL
 * asks for the time in one. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_gettimeofday)(struct timeval *, void *);

__attribute__((constructor)) static void find(void)
{
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_gettimeofday = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
}

static long long seconds_wrong(void)
{
    const char *name = getenv("TENAX_TEST_CLOCK");
    char text[32] = "";
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) < 0)
            text[0] = '\0';
        close(fd);
    }
    return strtoll(text, NULL, 10) / 1000;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (!real_clock_gettime)
        find();
    int result = real_clock_gettime(id, ts);
    bool moved = id == CLOCK_REALTIME || (id == CLOCK_BOOTTIME && getenv("TENAX_TEST_TIME_PASSES"));
    if (result == 0 && moved)
        ts->tv_sec += seconds_wrong();
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    if (!real_gettimeofday)
        find();
    int result = real_gettimeofday(tv, zone);
    if (result == 0)
        tv->tv_sec += seconds_wrong();
    return result;
}

time_t time(time_t *out)
{
    struct timeval tv = {0};
    gettimeofday(&tv, NULL);
    if (out)
        *out = tv.tv_sec;
    return tv.tv_sec;
}
