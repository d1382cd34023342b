/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/must.h"

#define PARTS_MAX 4
#define DEPTH_MAX 200 /* folders open at the same time */

struct path {
    char parts[PARTS_MAX][NAME_MAX + 1];
    size_t count;
};

static bool is_plain(struct str s)
{
    return s.len > 0 && s.len <= NAME_MAX && !memchr(s.at, '/', s.len) &&
           !memchr(s.at, '\0', s.len) && !str_eq(s, STR(".")) && !str_eq(s, STR(".."));
}

static struct err add(struct path *p, const char *what, struct str part)
{
    if (!is_plain(part))
        return err_make(ERR_BAD_VALUE, "cacheConfig.%s is no name of a folder", what);
    must(p->count < PARTS_MAX);
    memcpy(p->parts[p->count], part.at, part.len);
    p->parts[p->count++][part.len] = '\0';
    return err_none();
}

/* What pods have caches in. With CACHE_PATH=/ anything else might be a folder of the system. */
static bool is_scope(struct str s)
{
    return str_eq(s, STR("pipelines")) || str_eq(s, STR("jobs")) || str_eq(s, STR("events"));
}

static struct err path_of(const struct build_message *m, struct path *p)
{
    if (!m->cache.is_delete)
        return err_make(ERR_BAD_VALUE, "cacheConfig asks for something other than delete caches");
    if (m->cache.prefix.len)
        TRY(add(p, "prefix", m->cache.prefix));
    if (!is_scope(m->cache.scope))
        return err_make(ERR_BAD_VALUE, "cacheConfig.scope is none of pipelines, jobs and events");
    TRY(add(p, "scope", m->cache.scope));
    TRY(add(p, "pipelineId", m->cache.pipeline));
    return str_eq(m->cache.scope, STR("pipelines")) ? err_none() : add(p, "id", m->cache.id);
}

/* A folder below another, by one plain name and no link. */
static int open_below(int at, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof how);
    /* Older kernels, and containers whose seccomp filter does not know it. Of a single name that is
     * no link this is as strict. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(at, name, (int)how.flags);
    return fd;
}

static struct err failed(const char *what, const char *name)
{
    return err_make(ERR_IO, "cannot %s '%.80s': %s", what, name, strerror(errno));
}

static struct err empty_folder(int fd, unsigned depth);

/* One entry: a folder with all that is in it, or anything else, which is never followed. */
static struct err remove_entry(int at, const char *name, unsigned depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return err_none();
    if (errno != EISDIR && errno != EPERM)
        return failed("remove", name);
    int fd = open_below(at, name);
    if (fd < 0)
        return failed("open", name);
    TRY(empty_folder(fd, depth + 1));
    return unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? err_none()
                                                                    : failed("remove", name);
}

/* Closes fd. */
static struct err empty_folder(int fd, unsigned depth)
{
    struct err e = err_none();
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    if (!dir) {
        e = failed("read", "a folder");
        close(fd);
        return e;
    }
    if (depth > DEPTH_MAX)
        e = err_make(ERR_IO, "folders are nested deeper than %d", DEPTH_MAX);
    while (e.code == ERR_OK && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            e = remove_entry(dirfd(dir), entry->d_name, depth);
    closedir(dir);
    return e;
}

/* Opens all folders of the path but the last; -1 with errno. */
static int open_parent(const char *root, const struct path *p)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i + 1 < p->count; i++) {
        int next = open_below(fd, p->parts[i]);
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    return fd;
}

struct err build_cache_clear(const char *root, const struct build_message *m)
{
    struct path p = {0};
    TRY(path_of(m, &p));
    int fd = open_parent(root, &p);
    if (fd < 0 && errno == ENOENT)
        return err_none();
    if (fd < 0)
        return failed("open a folder of", root);
    const char *last = p.parts[p.count - 1];
    struct stat st;
    struct err e = err_none();
    if (fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0)
        e = S_ISDIR(st.st_mode) ? remove_entry(fd, last, 0)
                                : err_make(ERR_BAD_VALUE, "'%.80s' is no folder", last);
    else if (errno != ENOENT)
        e = failed("look at", last);
    close(fd);
    return e;
}
