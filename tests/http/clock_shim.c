/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into a server: a wall clock that is wrong by as many milliseconds as the file says that
 * TENAX_TEST_CLOCK names. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long wrong_by(void)
{
    const char *name = getenv("TENAX_TEST_CLOCK");
    FILE *in = name ? fopen(name, "re") : NULL;
    long long ms = 0;
    if (in && fscanf(in, "%lld", &ms) != 1)
        ms = 0;
    if (in)
        fclose(in);
    return ms;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, ts);
    if (result == 0 && id == CLOCK_REALTIME)
        ts->tv_sec += wrong_by() / 1000;
    return result;
}
