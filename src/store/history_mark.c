/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/folder.h"
#include "base/must.h"

#define NAME "event-history"

static void name_in(struct buf *b, const char *dir, const char *end)
{
    buf_print(b, "%s/" NAME "%s", dir, end);
    buf_byte(b, '\0');
}

static struct err write_file(const char *path)
{
    char text[32];
    uint64_t id = 0;
    while (id == 0)
        must(getrandom(&id, sizeof id, 0) == (ssize_t)sizeof id);
    int n = snprintf(text, sizeof text, "%016" PRIx64 "\n", id);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return folder_error("make", path);
    bool good = write(fd, text, (size_t)n) == n && fsync(fd) == 0;
    struct err err = good ? err_none() : folder_error("write", path);
    close(fd);
    return err;
}

struct err history_mark_make(const char *dir)
{
    struct buf path = {0}, fresh = {0};
    name_in(&path, dir, "");
    name_in(&fresh, dir, ".new");
    struct err err = write_file(fresh.at);
    if (err.code == ERR_OK && rename(fresh.at, path.at) != 0)
        err = folder_error("rename", fresh.at);
    if (err.code == ERR_OK)
        err = folder_sync(dir);
    buf_fini(&path);
    buf_fini(&fresh);
    return err;
}

struct err history_mark_read(const char *dir, uint64_t *id)
{
    struct buf path = {0};
    struct err err = err_none();
    name_in(&path, dir, "");
    FILE *f = fopen(path.at, "re");
    *id = 0;
    if (!f && errno != ENOENT)
        err = folder_error("open", path.at);
    else if (f && fscanf(f, "%16" SCNx64, id) != 1)
        err = err_make(ERR_CORRUPT, "%.150s is not what a restore has written", path.at);
    if (f)
        fclose(f);
    buf_fini(&path);
    return err;
}
