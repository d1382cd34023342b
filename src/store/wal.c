/* SPDX-License-Identifier: Apache-2.0 */
#include "store/wal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "store/folder.h"
#include "store/rocks_log.h"

/* A batch begins with its sequence number and the number of its entries. */
#define BATCH_HEADER ((size_t)12)

/* --- the files --- */

/* 000004.log */
static bool is_log(const char *name, uint64_t *number)
{
    char *end;
    if (name[0] < '0' || name[0] > '9')
        return false;
    *number = strtoull(name, &end, 10);
    return strcmp(end, ".log") == 0;
}

static int compare_files(const void *a, const void *b)
{
    const struct wal_file *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

struct err wal_list(const char *dir, struct wal_file **files, size_t *count)
{
    *files = NULL;
    *count = 0;
    DIR *d = opendir(dir);
    if (!d)
        return folder_error("read", dir);
    size_t cap = 0;
    const struct dirent *entry;
    while ((entry = readdir(d))) {
        struct wal_file f;
        struct stat st;
        if (!is_log(entry->d_name, &f.number) || fstatat(dirfd(d), entry->d_name, &st, 0) != 0)
            continue;
        f.size = (uint64_t)st.st_size;
        ALLOC_GROW(*files, *count, cap, 16);
        (*files)[(*count)++] = f;
    }
    closedir(d);
    if (*count)
        qsort(*files, *count, sizeof **files, compare_files);
    return err_none();
}

NODISCARD static struct err open_log(const char *dir, uint64_t number, int *fd)
{
    struct buf path = {0};
    buf_print(&path, "%s/%06llu.log", dir, (unsigned long long)number);
    buf_byte(&path, '\0');
    *fd = open(path.at, O_RDONLY | O_CLOEXEC);
    int no = errno;
    struct err err = *fd < 0 ? folder_error("open", path.at) : err_none();
    buf_fini(&path);
    errno = no;
    return err;
}

/* Calls look(fd, ctx) for each log with at least the number `first`, in order, until one fails or
 * sets *done. */
NODISCARD static struct err each_log(const char *dir, uint64_t first, bool *done,
                                     struct err (*look)(int fd, void *ctx), void *ctx)
{
    struct wal_file *files;
    size_t count;
    TRY(wal_list(dir, &files, &count));
    struct err err = err_none();
    for (size_t i = 0; i < count && err.code == ERR_OK && !*done; i++) {
        int fd;
        if (files[i].number < first || files[i].size == 0)
            continue;
        err = open_log(dir, files[i].number, &fd);
        if (err.code != ERR_OK)
            break;
        err = look(fd, ctx);
        close(fd);
    }
    free(files);
    return err;
}

/* --- how far recovery reaches --- */

struct reach {
    uint64_t *last;
    bool done; /* a batch is missing */
};

NODISCARD static struct err reach_in(int fd, void *ctx)
{
    struct reach *reach = ctx;
    struct rocks_log *log = ALLOC(struct rocks_log);
    struct buf record = {0};
    bool found;
    struct err err;
    rocks_log_init(log, fd);
    while ((err = rocks_log_next(log, &found, &record)).code == ERR_OK && found) {
        const unsigned char *at = (const unsigned char *)record.at;
        if (record.len < BATCH_HEADER)
            break;
        uint64_t sequence = rocks_log_number(at, 8), entries = rocks_log_number(at + 8, 4);
        reach->done = sequence > *reach->last + 1;
        if (reach->done)
            break;
        if (entries && sequence + entries - 1 > *reach->last)
            *reach->last = sequence + entries - 1;
    }
    buf_fini(&record);
    free(log);
    return err;
}

struct err wal_reach(const char *dir, uint64_t first, uint64_t *last)
{
    struct reach reach = {.last = last};
    return each_log(dir, first, &reach.done, reach_in, &reach);
}

/* --- what follows damage --- */

/* A fragment is trusted only if its checksum matches, but the checksum is computed only where it
 * matters: damage may mislead the walk, but no further than the end of the block. */
static bool block_goes_on(const unsigned char *block, size_t size, uint64_t last)
{
    for (size_t at = 0; at + ROCKS_LOG_HEADER <= size;) {
        const unsigned char *record = block + at;
        const unsigned char *batch = record + ROCKS_LOG_HEADER;
        size_t len = rocks_log_number(record + 4, 2);
        unsigned type = record[6];
        if (type == ROCKS_LOG_PADDING || type > ROCKS_LOG_LAST ||
            at + ROCKS_LOG_HEADER + len > size)
            return false;
        if ((type == ROCKS_LOG_FULL || type == ROCKS_LOG_FIRST) && len >= BATCH_HEADER &&
            rocks_log_number(batch, 8) > last + 1 && rocks_log_number(batch + 8, 4) > 0 &&
            rocks_log_is_whole(record))
            return true;
        at += ROCKS_LOG_HEADER + len;
    }
    return false;
}

struct search {
    uint64_t last;
    bool on;
};

NODISCARD static struct err goes_on_in(int fd, void *ctx)
{
    struct search *search = ctx;
    unsigned char *block = alloc_get(ROCKS_LOG_BLOCK);
    struct err err;
    size_t size;
    do {
        err = rocks_log_read_block(fd, block, &size);
        if (err.code == ERR_OK)
            search->on = block_goes_on(block, size, search->last);
    } while (err.code == ERR_OK && !search->on && size == ROCKS_LOG_BLOCK);
    free(block);
    return err;
}

struct err wal_goes_on(const char *dir, uint64_t last, bool *on)
{
    struct search search = {.last = last};
    struct err err = each_log(dir, 0, &search.on, goes_on_in, &search);
    *on = search.on;
    return err;
}

/* --- syncing --- */

/* What was read into memory before a failed sync may never have reached the disk even though the
 * next sync succeeds, so the pages are dropped: recovery reads what the disk has. */
NODISCARD static struct err sync_log(int fd, void *ctx)
{
    if (fdatasync(fd) != 0)
        return folder_error("sync a log of", ctx);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return err_none();
}

struct err wal_sync(const char *dir)
{
    bool never = false;
    TRY(each_log(dir, 0, &never, sync_log, (void *)(uintptr_t)dir));
    return folder_sync(dir);
}

struct err wal_sync_one(const char *dir, uint64_t number)
{
    int fd;
    struct err err = open_log(dir, number, &fd);
    if (err.code != ERR_OK)
        return errno == ENOENT ? err_none() : err;
    if (fdatasync(fd) != 0)
        err = folder_error("sync a log of", dir);
    close(fd);
    return err;
}
