/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/machine.h"

#include <dirent.h>
#include <sys/resource.h>

static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", "..", and the folder's own */
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void machine_read(struct api_machine *m)
{
    struct rusage used;
    struct rlimit limit;
    size_t resident;
    if (uv_resident_set_memory(&resident) == 0)
        m->resident_bytes = resident;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        m->cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        m->max_fds = limit.rlim_cur;
    m->open_fds = count_fds();
}
