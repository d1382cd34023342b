/* SPDX-License-Identifier: Apache-2.0 */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

struct err folder_error(const char *what, const char *path)
{
    int no = errno;
    bool full = no == ENOSPC || no == EDQUOT || no == EFBIG;
    return err_make(full ? ERR_DISK_FULL : ERR_IO, "cannot %s %.120s: %s", what, path,
                    strerror(no));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

struct err folder_remove(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT)
        return err_none();
    return folder_error("remove", path);
}

struct err folder_look(const char *path, bool *there, bool *empty)
{
    *there = *empty = false;
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? err_none() : folder_error("look into", path);
    *there = *empty = true;
    const struct dirent *f;
    while (*empty && (f = readdir(d)))
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            *empty = false;
    closedir(d);
    return err_none();
}

/* --- syncing --- */

struct err folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return folder_error("open", path);
    struct err e = fsync(fd) == 0 ? err_none() : folder_error("sync", path);
    close(fd);
    return e;
}

struct err folder_sync_of(const char *file)
{
    char *copy = alloc_text(file, strlen(file));
    struct err e = folder_sync(dirname(copy));
    free(copy);
    return e;
}

/* From a folder to the one that has its name, if both are on one file system. */
static bool go_up(int *fd)
{
    struct stat here, above;
    int parent = openat(*fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool higher = parent >= 0 && fstat(*fd, &here) == 0 && fstat(parent, &above) == 0 &&
                  here.st_dev == above.st_dev && here.st_ino != above.st_ino;
    if (parent >= 0)
        close(higher ? *fd : parent);
    if (higher)
        *fd = parent;
    return higher;
}

/* What may not be read was not written by this process, nor was what is read-only or cannot be
 * synced. */
NODISCARD static struct err sync_at(int at, const char *below)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? err_none() : folder_error("open the folder of", below);
    bool synced = fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
    struct err e = synced ? err_none() : folder_error("sync the folder of", below);
    close(fd);
    return e;
}

NODISCARD static struct err sync_above(const char *path, bool all)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return folder_error("open", path);
    struct err e = err_none();
    for (bool more = true; more && e.code == ERR_OK && go_up(&fd); more = all)
        e = sync_at(fd, path);
    close(fd);
    return e;
}

struct err folder_settle(const char *path)
{
    return sync_above(path, true);
}

/* --- making --- */

/* One that cannot be read is none that was just made. */
static bool is_empty(const char *path)
{
    bool there, empty;
    return folder_look(path, &there, &empty).code == ERR_OK && empty;
}

/* Nothing is put in a folder before those that lead to it are synced. So where there is something,
 * that is done, but for the last name: a folder may be moved to its place with all that it has. */
struct err folder_make(const char *path, mode_t mode)
{
    bool made = mkdir(path, mode) == 0;
    if (!made && errno != EEXIST)
        return folder_error("make", path);
    return sync_above(path, made || is_empty(path));
}

struct err folder_make_all(const char *path, mode_t mode)
{
    char *part = alloc_text(path, strlen(path));
    struct err e = err_none();
    for (char *slash = part; e.code == ERR_OK && *slash && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            e = folder_error("make", part);
        *slash = '/';
    }
    free(part);
    return e.code == ERR_OK ? folder_make(path, mode) : e;
}
