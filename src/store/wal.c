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
#include "base/folder.h"

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

struct err wal_any(const char *dir, bool *any)
{
    struct wal_file *files;
    size_t count;
    TRY(wal_list(dir, &files, &count));
    *any = false;
    for (size_t i = 0; i < count; i++)
        *any |= files[i].size > 0;
    free(files);
    return err_none();
}

/* --- syncing --- */

/* What was read into memory before a failed sync may never have reached the disk even though the
 * next sync succeeds, so the pages are dropped: recovery reads what the disk has. */
NODISCARD static struct err sync_log(const char *dir, uint64_t number)
{
    struct buf path = {0};
    buf_print(&path, "%s/%06llu.log", dir, (unsigned long long)number);
    buf_byte(&path, '\0');
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    struct err err = fd < 0 ? folder_error("open", path.at) : err_none();
    if (fd >= 0 && fdatasync(fd) != 0)
        err = folder_error("sync", path.at);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    buf_fini(&path);
    return err;
}

struct err wal_sync(const char *dir)
{
    struct wal_file *files;
    size_t count;
    struct err err = err_none();
    TRY(wal_list(dir, &files, &count));
    for (size_t i = 0; i < count && err.code == ERR_OK; i++)
        if (files[i].size > 0)
            err = sync_log(dir, files[i].number);
    free(files);
    return err.code == ERR_OK ? folder_sync(dir) : err;
}
