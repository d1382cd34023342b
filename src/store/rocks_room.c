/* SPDX-License-Identifier: Apache-2.0 */

/* How much room the disk has, and how much the store takes. */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "store/rocks_internal.h"

/* More than all that is in memory. Where a disk has as much beyond what a commit needs, nobody
 * fills it within LOOK_NS, and the commit need not ask. */
#define AMPLE   ((int64_t)1024 * 1024 * 1024)
#define LOOK_NS ((int64_t)20 * 1000 * 1000)

static int64_t free_space(const struct rocks *r)
{
    struct statvfs v;
    /* A file system that does not say is assumed to have room: a write will show. */
    if (statvfs(r->dir, &v) != 0)
        return INT64_MAX;
    return (int64_t)(v.f_bavail * v.f_frsize);
}

/* What is to be written to tables. */
static uint64_t in_memory(const struct rocks *r)
{
    uint64_t bytes = 0;
    if (r->overlay)
        return r->overlaid;
    if (r->db)
        rocksdb_property_int(r->db, "rocksdb.cur-size-all-mem-tables", &bytes);
    return bytes;
}

struct err rocks_check_room(const struct rocks *r, int64_t need)
{
    int64_t room = free_space(r);
    need += (int64_t)in_memory(r);
    if (room >= need)
        return err_none();
    return err_make(ERR_DISK_FULL,
                    "the disk has %lld KiB left, and %lld KiB are needed to write out what is in "
                    "memory",
                    (long long)(room >> 10), (long long)(need >> 10));
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t rocks_recent_space(struct rocks *r)
{
    int64_t now = now_ns();
    if (r->room < AMPLE || now - r->room_at_ns >= LOOK_NS) {
        r->room = free_space(r);
        r->room_at_ns = now;
    }
    return r->room;
}

struct err rocks_check_room_to_commit(struct rocks *r, int64_t need)
{
    return rocks_recent_space(r) - need >= AMPLE ? err_none() : rocks_check_room(r, need);
}

struct err rocks_may_grow(void *ctx, uint64_t bytes)
{
    const struct rocks *r = ctx;
    return rocks_check_room(r, SPARE_ROOM + (int64_t)(bytes + atomic_load(&r->pending)));
}

/* Of that table; 0 if it cannot be read. */
static int64_t size_of(const struct rocks *r, uint64_t table)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%06llu.sst", (unsigned long long)table);
    int dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool there = dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (dir >= 0)
        close(dir);
    return there ? (int64_t)st.st_size : 0;
}

struct err rocks_check_room_to_mend(const struct rocks *r)
{
    int64_t room = free_space(r), need = MEND_ROOM + 2 * size_of(r, r->hurt);
    if (room >= need)
        return err_none();
    return err_make(ERR_DISK_FULL,
                    "the table %.150s/%06llu.sst is damaged, and the disk has %lld KiB left; %lld "
                    "KiB are needed to set it apart",
                    r->dir, (unsigned long long)r->hurt, (long long)(room >> 10),
                    (long long)(need >> 10));
}

int64_t rocks_free_space(struct store *s)
{
    return free_space(rocks_of(s));
}

uint64_t rocks_disk_bytes(struct store *s)
{
    DIR *d = opendir(rocks_of(s)->dir);
    if (!d)
        return 0;
    /* What the log takes elsewhere until it is written out. */
    uint64_t sum = rocks_of(s)->foreign ? in_memory(rocks_of(s)) : 0;
    const struct dirent *file;
    while ((file = readdir(d))) {
        struct stat st;
        if (fstatat(dirfd(d), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    closedir(d);
    return sum;
}
