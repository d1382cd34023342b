/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit costs on this disk without any server: batches of one size, each durable before the
 * next, appended to the log (src/store/log_file.h) by whoever waits, with several under way on
 * threads, and with an fdatasync each; beside them what a plain file costs that grows, with
 * fdatasync. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "load.h"
#include "base/folder.h"
#include "store/log_file.h"
#include "store/log_ring.h"

struct run {
    const struct load_options *o;
    struct load_line *l;
    const char *name;
    struct str batch;
    struct hist *times;
    uint64_t done, began, cpu;
};

static uint64_t cpu_used(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void begin(struct run *r, const char *name)
{
    r->name = name;
    r->times = ALLOC(struct hist);
    r->done = 0;
    r->began = crew_clock();
    r->cpu = cpu_used();
}

/* A pass ends after its count or its time, whichever comes first. */
static bool goes_on(const struct run *r)
{
    double seconds = r->o->seconds > 0 ? r->o->seconds : 5;
    return r->done < r->o->jobs && crew_clock() - r->began < (uint64_t)(seconds * 1e9);
}

static void end(struct run *r)
{
    char name[64];
    double seconds = (double)(crew_clock() - r->began) / 1e9;
    double cpu = (double)(cpu_used() - r->cpu);
    snprintf(name, sizeof name, "%s_per_s", r->name);
    load_number(r->l, name, (double)r->done / seconds, 0);
    snprintf(name, sizeof name, "%s_cpu_us", r->name);
    load_number(r->l, name, r->done ? cpu / (double)r->done : 0, 1);
    load_times(r->l, r->name, r->times);
    free(r->times);
}

static void check(struct err e)
{
    if (e.code != ERR_OK)
        crew_fail("%s", e.msg);
}

/* With `depth` under way the time of one counts from its append. */
static void run_log(struct run *r, const char *dir, const char *name, unsigned depth,
                    bool no_direct, struct log_ring *ring)
{
    struct log *l;
    uint64_t began[LOG_UNDER_WAY_MAX], number = 0, released = 0;
    check(folder_remove(dir));
    if (mkdir(dir, 0700) != 0)
        crew_fail("cannot make %s: %m", dir);
    check(log_file_open(&(struct log_file_settings){.dir = dir,
                                                    .from = 1,
                                                    .threads = depth > 1 && !ring ? depth : 0,
                                                    .ring = ring,
                                                    .no_direct = no_direct,
                                                    .segment_bytes = 16 << 20,
                                                    .segment_bytes_max = 16 << 20},
                        &l));
    begin(r, name);
    while (goes_on(r)) {
        uint64_t now = crew_clock();
        check(log_append(l, r->batch, true, &number));
        began[number % LOG_UNDER_WAY_MAX] = now;
        if (number < depth)
            continue;
        uint64_t oldest = number - depth + 1;
        check(log_wait(l, oldest));
        hist_add(r->times, crew_clock() - began[oldest % LOG_UNDER_WAY_MAX]);
        r->done++;
        if (number - released > 1000)
            log_release(l, released = oldest);
    }
    check(log_wait(l, number));
    end(r);
    log_close(l);
    check(folder_remove(dir));
}

static void run_plain(struct run *r, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        crew_fail("cannot make %s: %m", path);
    unlink(path);
    begin(r, "plain");
    while (goes_on(r)) {
        uint64_t now = crew_clock();
        if (pwrite(fd, r->batch.at, r->batch.len, (off_t)(r->done * r->batch.len)) !=
                (ssize_t)r->batch.len ||
            fdatasync(fd) != 0)
            crew_fail("write and fdatasync: %m");
        hist_add(r->times, crew_clock() - now);
        r->done++;
    }
    end(r);
    close(fd);
}

void log_run(const struct load_options *o, struct load_line *l)
{
    struct buf dir = {0};
    buf_print(&dir, "%s/log.XXXXXX%c", o->target ? o->target : ".", '\0');
    if (!mkdtemp(dir.at))
        crew_fail("cannot make a folder at %s: %m", dir.at);
    char *batch = alloc_get(o->payload);
    memset(batch, 'x', o->payload);
    struct run r = {.o = o, .l = l, .batch = {batch, o->payload}};
    run_log(&r, dir.at, "log", 1, false, NULL);
    run_log(&r, dir.at, "log_4", 4, false, NULL);
    run_log(&r, dir.at, "log_fdatasync", 1, true, NULL);
    struct log_ring *ring = log_ring_new(LOG_UNDER_WAY_MAX);
    if (ring) {
        run_log(&r, dir.at, "log_ring", 1, false, ring);
        run_log(&r, dir.at, "log_ring_4", 4, false, ring);
    }
    log_ring_free(ring);
    run_plain(&r, dir.at);
    free(batch);
    buf_fini(&dir);
}
