/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into a program under test (LD_PRELOAD), it maintains in the folder POWERCUT_IMAGE an
 * image of what a power cut would leave of the folder POWERCUT_ROOT and of those in it:
 *
 *     content-<inode>   the bytes of a file as of its last fsync or fdatasync
 *     keep-<inode>      a hard link to the file, so that its inode is not reused
 *     entries           "<inode> <name>" for each entry, as of the last fsync of POWERCUT_ROOT;
 *                       of a folder in it "<inode>-<birth> <name>", with its birth in nanoseconds,
 *                       for the inode may be reused
 *     entries-<inode>-<birth>  the same of a folder in it
 *
 * It assumes the worst: what was not synced is lost, and so is a name whose folder was not synced
 * (sync_file_range promises neither); one that was removed is back. A pwrite to a file that was
 * opened with O_DSYNC is a sync of what it writes, and so is such a write that is given to an
 * io_uring, though that may still be under way: what was not acknowledged may be on the disk.
 *
 * If POWERCUT_KILL_AT is n, the process dies by SIGKILL at its n-th sync of what is there, or of
 * what is in the folder POWERCUT_KILL_IN of it, before that sync has any effect; with
 * POWERCUT_TEAR, after some of the sectors of the file have come to the disk, by chance, which n
 * decides. */

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of at least this size is only appended to, unless it is a segment of a log; a smaller one
 * is copied whole. */
#define WHOLE_MAX ((off_t)64 * 1024)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long syncs;

static void fail(const char *what)
{
    fprintf(stderr, "powercut: %s: %m\n", what);
    abort();
}

/* Where in POWERCUT_ROOT the file or the folder is: "" is that itself. NULL: it is elsewhere. */
static const char *place_of(int fd, char path[PATH_MAX])
{
    char link[64];
    const char *root = getenv("POWERCUT_ROOT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (!root || n <= 0)
        return NULL;
    path[n] = '\0';
    size_t len = strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '\0' && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

static void image_path(char path[PATH_MAX], const char *kind, ino_t inode)
{
    snprintf(path, PATH_MAX, "%s/%s-%lu", getenv("POWERCUT_IMAGE"), kind, (unsigned long)inode);
}

static void copy_range(int from, int to, off_t at, off_t end)
{
    char bytes[65536];
    while (at < end) {
        size_t want = end - at < (off_t)sizeof bytes ? (size_t)(end - at) : sizeof bytes;
        ssize_t n = pread(from, bytes, want, at);
        if (n <= 0)
            return; /* truncated meanwhile */
        if (pwrite(to, bytes, (size_t)n, at) != n)
            fail("copy");
        at += n;
    }
}

static bool is_written_over(const char *self)
{
    char path[PATH_MAX];
    ssize_t n = readlink(self, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/segment-") != NULL;
}

/* fd may be open only for writing. */
static void note_file(int fd, const struct stat *st)
{
    char path[PATH_MAX], self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int from = open(self, O_RDONLY | O_CLOEXEC);
    image_path(path, "keep", st->st_ino);
    linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
    image_path(path, "content", st->st_ino);
    int to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat before;
    if (from < 0 || to < 0 || fstat(to, &before) != 0)
        fail(path);
    bool appended_to = before.st_size > WHOLE_MAX && !is_written_over(self);
    off_t at = before.st_size <= st->st_size && appended_to ? before.st_size : 0;
    copy_range(from, to, at, st->st_size);
    if (ftruncate(to, st->st_size) != 0)
        fail(path);
    close(from);
    close(to);
}

/* The folder `name` in the folder fd; "" is fd itself. */
static void print_folder(char *out, size_t size, int fd, const char *name)
{
    struct statx st;
    if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) != 0)
        fail(name);
    long long birth = (long long)st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec;
    snprintf(out, size, "%llu-%lld", (unsigned long long)st.stx_ino, birth);
}

static void names_path(char path[PATH_MAX], int fd)
{
    struct stat st, root;
    char folder[64];
    if (fstat(fd, &st) != 0 || stat(getenv("POWERCUT_ROOT"), &root) != 0)
        fail("stat");
    bool is_root = st.st_ino == root.st_ino && st.st_dev == root.st_dev;
    print_folder(folder, sizeof folder, fd, "");
    snprintf(path, PATH_MAX, "%s/entries%s%s", getenv("POWERCUT_IMAGE"), is_root ? "" : "-",
             is_root ? "" : folder);
}

static void note_names(int fd)
{
    char path[PATH_MAX], next[PATH_MAX + 8], folder[64];
    names_path(path, fd);
    snprintf(next, sizeof next, "%s.next", path);
    FILE *out = fopen(next, "we");
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!out || !d)
        fail(next);
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (e->d_type == DT_DIR)
            print_folder(folder, sizeof folder, fd, e->d_name);
        else
            snprintf(folder, sizeof folder, "%lu", (unsigned long)e->d_ino);
        if (e->d_type == DT_DIR || e->d_type == DT_REG)
            fprintf(out, "%s %s\n", folder, e->d_name);
    }
    closedir(d);
    if (fclose(out) != 0 || rename(next, path) != 0)
        fail(path);
}

#define SECTOR 512

static bool dies_now(const char *place)
{
    const char *kill_at = getenv("POWERCUT_KILL_AT"), *folder = getenv("POWERCUT_KILL_IN");
    bool counts = kill_at && (!folder || strncmp(place, folder, strlen(folder)) == 0);
    return counts && ++syncs == atol(kill_at);
}

/* Some sectors of those bytes, which go to that place of the file, come to the disk. */
static void tear(int fd, const char *bytes, size_t len, off_t at)
{
    struct stat st;
    char path[PATH_MAX];
    unsigned seed = (unsigned)syncs;
    if (fstat(fd, &st) != 0)
        fail("fstat");
    image_path(path, "content", st.st_ino);
    int to = open(path, O_RDWR | O_CLOEXEC);
    for (size_t from = 0; to >= 0 && from < len; from += SECTOR) {
        size_t n = len - from < SECTOR ? len - from : SECTOR;
        if (rand_r(&seed) / 64 % 2 && pwrite(to, bytes + from, n, at + (off_t)from) != (ssize_t)n)
            fail(path);
    }
}

/* The same of a file that is to be synced: of its first part, which is enough for a small log. */
static void tear_file(int fd)
{
    char self[64];
    static char bytes[1 << 20];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int from = open(self, O_RDONLY | O_CLOEXEC);
    ssize_t n = from < 0 || !is_written_over(self) ? 0 : pread(from, bytes, sizeof bytes, 0);
    if (n > 0)
        tear(fd, bytes, (size_t)n, 0);
}

static int sync_and_note(int fd, const char *name)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char path[PATH_MAX];
    const char *place = place_of(fd, path);
    if (!place)
        return real(fd);
    pthread_mutex_lock(&lock);
    if (dies_now(place)) {
        if (getenv("POWERCUT_TEAR"))
            tear_file(fd);
        raise(SIGKILL);
    }
    /* What is written during the sync may be too late for it. */
    struct stat st;
    if (fstat(fd, &st) != 0)
        fail("fstat");
    int result = real(fd);
    if (result == 0 && S_ISDIR(st.st_mode))
        note_names(fd);
    else if (result == 0)
        note_file(fd, &st);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd)
{
    return sync_and_note(fd, "fsync");
}

int fdatasync(int fd)
{
    return sync_and_note(fd, "fdatasync");
}

typedef ssize_t (*pwrite_fn)(int fd, const void *bytes, size_t len, off_t at);

static void note_write(int fd, const char *bytes, size_t len, off_t at)
{
    struct stat st;
    char path[PATH_MAX];
    if (fstat(fd, &st) != 0)
        fail("fstat");
    image_path(path, "content", st.st_ino);
    int to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    pwrite_fn real = (pwrite_fn)dlsym(RTLD_NEXT, "pwrite64");
    if (to < 0 || real(to, bytes, len, at) != (ssize_t)len)
        fail(path);
    close(to);
}

static ssize_t write_and_note(int fd, const void *bytes, size_t len, off_t at)
{
    pwrite_fn real = (pwrite_fn)dlsym(RTLD_NEXT, "pwrite64");
    char path[PATH_MAX];
    const char *place = place_of(fd, path);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_DSYNC) == 0 || !place)
        return real(fd, bytes, len, at);
    pthread_mutex_lock(&lock);
    if (dies_now(place)) {
        if (getenv("POWERCUT_TEAR"))
            tear(fd, bytes, len, at);
        raise(SIGKILL);
    }
    ssize_t n = real(fd, bytes, len, at);
    if (n > 0)
        note_write(fd, bytes, (size_t)n, at);
    pthread_mutex_unlock(&lock);
    return n;
}

/* One function under two names: which of them a program calls, its offsets decide. */
ssize_t narrow_pwrite(int fd, const void *bytes, size_t len, off_t at) __asm__("pwrite");
ssize_t wide_pwrite(int fd, const void *bytes, size_t len, off_t at) __asm__("pwrite64");

ssize_t narrow_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    return write_and_note(fd, bytes, len, at);
}

ssize_t wide_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    return write_and_note(fd, bytes, len, at);
}

static void note_queued(const struct io_uring_sqe *e)
{
    const char *bytes = (const char *)(uintptr_t)e->addr;
    int flags = fcntl(e->fd, F_GETFL);
    char path[PATH_MAX];
    const char *place = place_of(e->fd, path);
    bool synced = flags >= 0 && ((flags & O_DSYNC) != 0 || (e->rw_flags & RWF_DSYNC) != 0);
    if (e->opcode != IORING_OP_WRITE || !synced || !place)
        return;
    pthread_mutex_lock(&lock);
    if (dies_now(place)) {
        if (getenv("POWERCUT_TEAR"))
            tear(e->fd, bytes, e->len, (off_t)e->off);
        raise(SIGKILL);
    }
    note_write(e->fd, bytes, e->len, (off_t)e->off);
    pthread_mutex_unlock(&lock);
}

int io_uring_submit(struct io_uring *ring)
{
    int (*real)(struct io_uring *) =
        (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
    const struct io_uring_sq *sq = &ring->sq;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++)
        note_queued(&sq->sqes[i & sq->ring_mask]);
    return real(ring);
}
