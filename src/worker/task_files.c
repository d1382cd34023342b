/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/task_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

#define DESCRIPTORS 16 /* that the removal of a tree may use */

const char *task_file_reason(enum task_file_fault fault)
{
    static const char *const reasons[] = {
        "", "file-missing-on-worker", "invalid-resource-on-worker", "file-not-readable-on-worker",
        "too-large-file-on-worker"};
    return reasons[fault];
}

const char *task_file_words(enum task_file_fault fault)
{
    static const char *const words[] = {
        "", "there is no such file", "it is not what it should be, or a symbolic link leads to it",
        "it cannot be read", "it has too many files, or is too deep"};
    return words[fault];
}

/* --- opening --- */

static enum task_file_fault fault_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENAMETOOLONG:
        return TASK_FILE_MISSING;
    case ELOOP:
    case ENOTDIR:
    case ENXIO:
        return TASK_FILE_INVALID;
    default:
        return TASK_FILE_UNREADABLE;
    }
}

/* Opens the last part of the path; *fd is its directory until then, and closed. */
static enum task_file_fault open_last(int *fd, const char *name, int flags)
{
    int parent = *fd;
    *fd = openat(parent, name, flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = errno;
    close(parent);
    return *fd < 0 ? fault_of(error) : TASK_FILE_FINE;
}

/* One step after the other: a link in the middle would lead elsewhere, too. */
static enum task_file_fault open_path(int dir, const char *path, int flags, int *fd)
{
    char part[NAME_MAX + 1];
    *fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0)
        return TASK_FILE_UNREADABLE;
    for (;;) {
        size_t n = strcspn(path, "/");
        if (n > NAME_MAX) {
            close(*fd);
            return TASK_FILE_MISSING;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        if (!path[n])
            return open_last(fd, n ? part : ".", flags);
        enum task_file_fault fault = open_last(fd, part, O_DIRECTORY);
        if (fault != TASK_FILE_FINE)
            return fault;
        path += n + 1;
    }
}

enum task_file_fault task_file_open(int dir, const char *path, int *fd, int64_t *size)
{
    struct stat st;
    enum task_file_fault fault = open_path(dir, path, 0, fd);
    if (fault != TASK_FILE_FINE)
        return fault;
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        return TASK_FILE_INVALID;
    }
    *size = st.st_size;
    return TASK_FILE_FINE;
}

enum task_file_fault task_file_open_directory(int dir, const char *path, int *fd)
{
    return open_path(dir, path, O_DIRECTORY, fd);
}

/* --- walking --- */

struct walk {
    size_t left;
    void (*fn)(void *ctx, const char *path);
    void *ctx;
    char path[PATH_MAX];
    size_t len;
};

static int is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static bool walk_into(struct walk *w, int dir, unsigned depth);

static bool walk_entry(struct walk *w, int dir, const char *name, unsigned depth)
{
    size_t before = w->len, n = strlen(name);
    int fd = -1;
    if (before + n + 2 > sizeof w->path)
        return false;
    if (before)
        w->path[w->len++] = '/';
    memcpy(w->path + w->len, name, n + 1);
    w->len += n;
    bool fine;
    if (task_file_open_directory(dir, name, &fd) == TASK_FILE_FINE) {
        fine = depth < TASK_TREE_DEPTH && walk_into(w, fd, depth + 1);
        close(fd);
    } else {
        fine = w->left > 0;
        w->left -= fine;
        if (fine)
            w->fn(w->ctx, w->path);
    }
    w->len = before;
    w->path[before] = '\0';
    return fine;
}

static bool walk_into(struct walk *w, int dir, unsigned depth)
{
    struct dirent **entries;
    int n = scandirat(dir, ".", &entries, is_entry, alphasort);
    bool fine = n >= 0;
    for (int i = 0; i < n; i++) {
        fine = fine && walk_entry(w, dir, entries[i]->d_name, depth);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return fine;
}

bool task_file_walk(int dir, size_t most, void (*fn)(void *ctx, const char *path), void *ctx)
{
    struct walk w = {.left = most, .fn = fn, .ctx = ctx};
    return walk_into(&w, dir, 0);
}

/* --- making and removing --- */

static void join(char path[PATH_MAX], const char *base, const char *name)
{
    snprintf(path, PATH_MAX, "%s/%s", base, name);
}

struct err task_files_make(const char *base, const char *name, int *dir)
{
    char path[PATH_MAX];
    join(path, base, name);
    *dir = -1;
    if (mkdir(path, 0700) == 0)
        *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*dir >= 0)
        return err_none();
    return err_make(errno == ENOSPC || errno == EDQUOT ? ERR_DISK_FULL : ERR_IO,
                    "cannot make a directory for the task: %s", strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    int failed = type == FTW_DP || type == FTW_D || type == FTW_DNR ? rmdir(path) : unlink(path);
    (void)failed; /* its directory is then left as well */
    return 0;
}

/* So that what is in a directory that the task has closed can be removed. */
static int open_up(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_D || type == FTW_DNR)
        (void)!chmod(path, st->st_mode | 0700);
    return 0;
}

void task_files_remove(const char *base, const char *name)
{
    char path[PATH_MAX];
    join(path, base, name);
    nftw(path, open_up, DESCRIPTORS, FTW_PHYS);
    nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}
