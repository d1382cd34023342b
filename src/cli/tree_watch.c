/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree_watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"

/* Of one inotify watch: a directory, of which all files count, or only the one with that name. */
struct watched {
    int number;
    char *dir, *only;
};

struct tree_watch {
    int fd;
    struct watched *at;
    size_t count, cap;
    char name[NAME_MAX + 1];
};

/* A file that is being written counts once it is closed: half of it would not run. */
#define CHANGES (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE)

/* Editors replace files, and worktrees have links to directories elsewhere: these are not
 * followed, or one that leads upwards would never end. */
#define FLAGS (CHANGES | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

struct tree_watch *tree_watch_new(struct err *e)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    *e = err_none();
    if (fd < 0) {
        *e = err_make(ERR_IO, "cannot watch files: %s", strerror(errno));
        return NULL;
    }
    struct tree_watch *w = ALLOC(struct tree_watch);
    w->fd = fd;
    return w;
}

void tree_watch_free(struct tree_watch *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++) {
        free(w->at[i].dir);
        free(w->at[i].only);
    }
    free(w->at);
    close(w->fd);
    free(w);
}

int tree_watch_fd(const struct tree_watch *w)
{
    return w->fd;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool is_source(const char *name)
{
    static const char *const ends[] = {"~", ".log", ".pyc", ".tmp", ".swp"};
    for (size_t i = 0; i < COUNT(ends); i++)
        if (ends_with(name, ends[i]))
            return false;
    return name[0] != '.';
}

static bool is_source_dir(const char *name)
{
    static const char *const others[] = {"node_modules", "vendor", "target", "build",
                                         "__pycache__"};
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    return name[0] != '.';
}

static struct watched *find_watched(struct tree_watch *w, int number)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->at[i].number == number)
            return &w->at[i];
    return NULL;
}

/* Adds one directory without those below it. */
static struct err add_dir(struct tree_watch *w, const char *dir, const char *only)
{
    if (w->count == TREE_WATCH_MAX)
        return err_make(ERR_TOO_MANY,
                        "'%.200s' has more than %d directories: name those that matter", dir,
                        TREE_WATCH_MAX);
    int number = inotify_add_watch(w->fd, dir, only ? FLAGS & ~(unsigned)IN_DONT_FOLLOW : FLAGS);
    if (number < 0)
        return err_make(errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "cannot watch '%.200s': %s", dir,
                        errno == ENOSPC ? "the kernel's limit fs.inotify.max_user_watches"
                                        : strerror(errno));
    struct watched *known = find_watched(w, number);
    if (known) { /* it was added before: as a whole, if one of both says so */
        if (!only) {
            free(known->only);
            known->only = NULL;
        }
        return err_none();
    }
    ALLOC_GROW(w->at, w->count, w->cap, 16);
    w->at[w->count++] = (struct watched){.number = number,
                                         .dir = alloc_text(dir, strlen(dir)),
                                         .only = only ? alloc_text(only, strlen(only)) : NULL};
    return err_none();
}

static struct err add_tree(struct tree_watch *w, const char *dir, int depth);

static struct err add_below(struct tree_watch *w, const char *dir, const struct dirent *entry,
                            int depth)
{
    struct buf path = {0};
    struct stat st;
    struct err e = err_none();
    buf_print(&path, "%s/%s", dir, entry->d_name);
    buf_byte(&path, '\0');
    if (lstat(path.at, &st) == 0 && S_ISDIR(st.st_mode))
        e = add_tree(w, path.at, depth + 1);
    buf_fini(&path);
    /* It was removed meanwhile, or is somebody else's. */
    return e.code == ERR_NOT_FOUND || e.code == ERR_IO ? err_none() : e;
}

#define DEPTH_MAX 64

static struct err add_tree(struct tree_watch *w, const char *dir, int depth)
{
    TRY(add_dir(w, dir, NULL));
    DIR *d = depth < DEPTH_MAX ? opendir(dir) : NULL;
    struct err e = err_none();
    const struct dirent *entry;
    while (d && e.code == ERR_OK && (entry = readdir(d)))
        if (is_source_dir(entry->d_name))
            e = add_below(w, dir, entry, depth);
    if (d)
        closedir(d);
    return e;
}

struct err tree_watch_add(struct tree_watch *w, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_make(ERR_NOT_FOUND, "cannot watch '%.200s': %s", path, strerror(errno));
    const char *slash = strrchr(path, '/');
    struct buf dir = {0};
    /* With a dot, so that a link to a directory is followed here. */
    if (S_ISDIR(st.st_mode))
        buf_print(&dir, "%s/.", path);
    else
        buf_print(&dir, "%.*s.", slash ? (int)(slash + 1 - path) : 0, path);
    buf_byte(&dir, '\0');
    struct err e =
        S_ISDIR(st.st_mode) ? add_tree(w, dir.at, 0) : add_dir(w, dir.at, slash ? slash + 1 : path);
    buf_fini(&dir);
    return e;
}

static void forget_watched(struct tree_watch *w, int number)
{
    struct watched *known = find_watched(w, number);
    if (!known)
        return;
    free(known->dir);
    free(known->only);
    *known = w->at[--w->count];
}

/* A new directory may have files already: their events were missed, so that it counts itself. */
static bool take_dir(struct tree_watch *w, const struct watched *in, const struct inotify_event *ev)
{
    struct buf path = {0};
    if (in->only || !is_source_dir(ev->name))
        return false;
    if (ev->mask & (IN_CREATE | IN_MOVED_TO)) {
        buf_print(&path, "%s/%s", in->dir, ev->name);
        buf_byte(&path, '\0');
        struct err e = add_tree(w, path.at, 0);
        if (e.code == ERR_TOO_MANY)
            fprintf(stderr, "tenax dev: %s\n", e.msg);
        buf_fini(&path);
    }
    return true;
}

static bool take_event(struct tree_watch *w, const struct inotify_event *ev)
{
    if (ev->mask & IN_IGNORED)
        forget_watched(w, ev->wd);
    if (ev->mask & IN_Q_OVERFLOW)
        return true;
    const struct watched *in = find_watched(w, ev->wd);
    if (!in || ev->len == 0)
        return false;
    if (ev->mask & IN_ISDIR)
        return take_dir(w, in, ev);
    if (ev->mask & IN_CREATE || (in->only ? strcmp(in->only, ev->name) != 0 : !is_source(ev->name)))
        return false;
    snprintf(w->name, sizeof w->name, "%s", ev->name);
    return true;
}

bool tree_watch_changed(struct tree_watch *w, const char **name)
{
    _Alignas(struct inotify_event) char bytes[16384];
    bool changed = false;
    ssize_t n;
    snprintf(w->name, sizeof w->name, "a directory");
    while ((n = read(w->fd, bytes, sizeof bytes)) > 0) {
        for (const char *at = bytes; at < bytes + n;) {
            const struct inotify_event *ev = (const void *)at;
            changed |= take_event(w, ev);
            at += sizeof *ev + ev->len;
        }
    }
    *name = w->name;
    return changed;
}
