/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit costs on this disk without any server: 20 KiB and an fdatasync, once at the end of
 * a growing file (the size changes, so the file system's journal is involved) and once over
 * existing blocks. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "load.h"

#define WRITE_SIZE ((size_t)20 << 10)
#define SLOTS      200

static void write_synced(int fd, const char *data, off_t at, struct hist *times)
{
    uint64_t began = crew_clock();
    if (pwrite(fd, data, WRITE_SIZE, at) != (ssize_t)WRITE_SIZE || fdatasync(fd) != 0)
        crew_fail("write and fdatasync: %m");
    hist_add(times, crew_clock() - began);
}

/* A pass ends after its count or its time, whichever comes first. */
static void measure(const struct load_options *o, int fd, const char *data, bool append,
                    struct hist *times)
{
    uint64_t end = crew_clock() + (uint64_t)((o->seconds > 0 ? o->seconds : 5) * 1e9);
    for (uint64_t i = 0; i < o->jobs && crew_clock() < end; i++)
        write_synced(fd, data, (off_t)((append ? i : i % SLOTS) * WRITE_SIZE), times);
}

void fsync_run(const struct load_options *o, struct load_line *l)
{
    struct buf path = {0};
    buf_print(&path, "%s/fsync.XXXXXX%c", o->target ? o->target : ".", '\0');
    int fd = mkostemp(path.at, O_CLOEXEC);
    if (fd < 0)
        crew_fail("cannot make a file at %s: %m", path.at);
    unlink(path.at); /* it disappears with the process, however that ends */
    char *data = alloc_get(WRITE_SIZE);
    memset(data, 'x', WRITE_SIZE);
    struct hist *append = ALLOC(struct hist), *overwrite = ALLOC(struct hist);
    measure(o, fd, data, true, append);
    for (off_t i = 0; i < SLOTS; i++)
        if (pwrite(fd, data, WRITE_SIZE, i * (off_t)WRITE_SIZE) != (ssize_t)WRITE_SIZE)
            crew_fail("write: %m");
    if (fsync(fd) != 0)
        crew_fail("fsync: %m");
    measure(o, fd, data, false, overwrite);
    load_times(l, "append", append);
    load_times(l, "overwrite", overwrite);
    close(fd);
    buf_fini(&path);
    free(data);
    free(append);
    free(overwrite);
}
