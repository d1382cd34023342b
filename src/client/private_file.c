/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

static struct err failed(const char *path)
{
    return err_make(ERR_IO, "%.200s: %s", path, strerror(errno));
}

static char *beside(const char *path)
{
    struct buf b = {0};
    buf_print(&b, "%s.XXXXXX", path);
    buf_byte(&b, '\0');
    return b.at;
}

static void forget(struct private_file *f)
{
    free(f->path);
    free(f->fresh);
    *f = (struct private_file){.fd = -1};
}

struct err private_file_open(struct private_file *f, const char *path)
{
    struct stat is;
    *f = (struct private_file){.fd = -1};
    if (stat(path, &is) == 0 && !S_ISREG(is.st_mode))
        return err_make(ERR_IO, "%.200s is not a regular file", path);
    *f = (struct private_file){.path = alloc_text(path, strlen(path)), .fresh = beside(path)};
    f->fd = mkostemp(f->fresh, O_CLOEXEC); /* with mode 0600 */
    if (f->fd >= 0)
        return err_none();
    struct err e = failed(path);
    forget(f);
    return e;
}

void private_file_abandon(struct private_file *f)
{
    if (f->fd < 0)
        return;
    close(f->fd);
    unlink(f->fresh);
    forget(f);
}

static bool write_all(int fd, struct str text)
{
    while (text.len) {
        ssize_t n = write(fd, text.at, text.len);
        if (n < 0 && errno != EINTR)
            return false;
        size_t done = n > 0 ? (size_t)n : 0;
        text = (struct str){text.at + done, text.len - done};
    }
    return fsync(fd) == 0;
}

struct err private_file_commit(struct private_file *f, struct str text)
{
    if (!write_all(f->fd, text) || rename(f->fresh, f->path) != 0) {
        struct err e = failed(f->path);
        private_file_abandon(f);
        return e;
    }
    int closed = close(f->fd);
    struct err e = closed == 0 ? err_none() : failed(f->path);
    forget(f);
    return e;
}
