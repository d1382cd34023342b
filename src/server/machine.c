/* SPDX-License-Identifier: Apache-2.0 */
#include "server/machine.h"

#include <dirent.h>
#include <sys/resource.h>

#include "base/log.h"

/* Files besides connections: tables of the store, clients that are told that there are too many,
 * those of the admin listener, which are few, and our own. */
#define OTHER_FILES 800

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

int64_t machine_fit_connections(int64_t wanted, bool asked_for)
{
    struct rlimit files;
    const rlim_t need = (rlim_t)wanted + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= need)
        return wanted;
    rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before;
    if (files.rlim_cur >= need)
        return wanted;
    int64_t room = (int64_t)files.rlim_cur - OTHER_FILES;
    int64_t fit = room > 0 ? room : (int64_t)files.rlim_cur / 4 + 1;
    fit = fit < wanted ? fit : wanted;
    log_write(
        asked_for ? LOG_WARN : LOG_INFO,
        "this process may open %llu files, so it serves at most %lld clients at the same time, "
        "not %lld (--max-connections); `ulimit -Hn` has the limit",
        (unsigned long long)files.rlim_cur, (long long)fit, (long long)wanted);
    return fit;
}
