/* SPDX-License-Identifier: Apache-2.0 */
#include "server/machine.h"

#include <dirent.h>
#include <sys/resource.h>

#include "base/log.h"

#define STORE_FILES       512
#define ADMIN_CONNECTIONS 64
/* Open files other than connections: tables of the store, two for each segment of its log, clients
 * of both listeners that are answered with 503, clients of the admin listener, and our own logs and
 * helpers. */
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

static rlim_t raise_limit(rlim_t need)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return need;
    rlim_t before = files.rlim_cur;
    if (before >= need)
        return before;
    files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
    return setrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : before;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct machine_files machine_share_files(int64_t wanted, bool asked_for)
{
    struct machine_files share = {wanted, least(wanted, ADMIN_CONNECTIONS), STORE_FILES};
    int64_t limit = (int64_t)raise_limit((rlim_t)wanted + OTHER_FILES);
    int64_t room = limit - OTHER_FILES;
    if (room >= wanted)
        return share;
    if (room <= 0) {
        /* A fifth for each, and the rest for the log of commits and for others. */
        room = limit / 5 + 1;
        share.store = (int)(limit / 5);
        share.admin_connections = least(share.admin_connections, limit / 16 + 1);
    }
    share.connections = least(room, wanted);
    log_write(
        asked_for ? LOG_WARN : LOG_INFO,
        "this process may open %llu files, so it serves at most %lld clients at the same time, "
        "not %lld (--max-connections); `ulimit -Hn` has the limit",
        (unsigned long long)limit, (long long)share.connections, (long long)wanted);
    return share;
}
