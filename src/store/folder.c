/* SPDX-License-Identifier: Apache-2.0 */
#include "store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    while ((f = readdir(d)))
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            *empty = false;
    closedir(d);
    return err_none();
}

struct err folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return folder_error("open", path);
    struct err e = fsync(fd) == 0 ? err_none() : folder_error("sync", path);
    close(fd);
    return e;
}
