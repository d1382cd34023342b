/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/folder.h"

#define PIECE ((size_t)1024 * 1024)
/* A write that takes not much longer than one of a batch, and how long it is then the others' turn:
 * some 30 MiB a second. */
#define SMALL_PIECE ((size_t)64 * 1024)
#define REST_NS     (2 * 1000 * 1000)

static void path_of(char *path, size_t size, const char *dir, uint64_t name, const char *end)
{
    int n = snprintf(path, size, "%s/" LOG_SEGMENT_PREFIX "%06llu%s", dir, (unsigned long long)name,
                     end);
    must(n > 0 && (size_t)n < size);
}

void *log_segment_memory(size_t len)
{
    void *at = NULL;
    must(posix_memalign(&at, LOG_BLOCK, len) == 0);
    return at;
}

/* --- opening --- */

/* Whether such a file can be read by blocks: some file systems accept the flag and nothing else. */
static bool takes_blocks(int fd)
{
    void *block = log_segment_memory(LOG_BLOCK);
    bool takes = pread(fd, block, LOG_BLOCK, 0) >= 0;
    free(block);
    return takes;
}

static int open_direct(const char *path)
{
    int fd = open(path, O_RDWR | O_DIRECT | O_DSYNC | O_CLOEXEC);
    if (fd >= 0 && !takes_blocks(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct log_segment *segment_new(uint64_t name)
{
    struct log_segment *s = ALLOC(struct log_segment);
    s->name = name;
    s->direct = s->plain = -1;
    return s;
}

void log_segment_free(struct log_segment *s)
{
    if (!s)
        return;
    if (s->direct >= 0)
        close(s->direct);
    if (s->plain >= 0)
        close(s->plain);
    free(s);
}

NODISCARD static struct err open_one(struct log_segment *s, const char *path, bool read_only,
                                     bool no_direct)
{
    struct stat st;
    s->plain = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (s->plain < 0 || fstat(s->plain, &st) != 0)
        return folder_error("open", path);
    s->file_size = (uint64_t)st.st_size;
    if (!read_only && !no_direct)
        s->direct = open_direct(path);
    return err_none();
}

/* --- what there is --- */

NODISCARD static struct err look(struct log_segment *s, bool read_only)
{
    struct log_reader r;
    struct log_frame f;
    if (!read_only)
        TRY(log_segment_sync(s));
    struct err e = log_reader_open(&r, s->name, s->plain, &s->head, &f);
    log_reader_fini(&r);
    s->generation = f.generation;
    s->before = s->last = f.number;
    s->other = f.other;
    s->size = s->head == LOG_HEAD_BLANK ? s->file_size / LOG_BLOCK * LOG_BLOCK : f.size;
    return e;
}

#define PARTIAL ".new"

/* segment-000001, and what then comes in *end. */
static bool is_segment(const char *file, uint64_t *name, char **end)
{
    size_t len = strlen(LOG_SEGMENT_PREFIX);
    if (strncmp(file, LOG_SEGMENT_PREFIX, len) != 0 || file[len] < '0' || file[len] > '9')
        return false;
    *name = strtoull(file + len, end, 10);
    return **end == '\0' || strcmp(*end, PARTIAL) == 0;
}

static int compare(const void *a, const void *b)
{
    const struct log_segment *x = *(struct log_segment *const *)a,
                             *y = *(struct log_segment *const *)b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

NODISCARD static struct err add(const char *dir, const char *file, bool read_only, bool no_direct,
                                struct log_segment ***list, size_t *count)
{
    char path[4096];
    uint64_t name;
    char *end;
    if (!is_segment(file, &name, &end))
        return err_none();
    path_of(path, sizeof path, dir, name, end);
    if (*end) {
        if (!read_only)
            unlink(path); /* its maker was killed */
        return err_none();
    }
    struct log_segment *s = segment_new(name);
    *list = alloc_resize(*list, (*count + 1) * sizeof **list);
    (*list)[(*count)++] = s;
    TRY(open_one(s, path, read_only, no_direct));
    return look(s, read_only);
}

struct err log_segment_list(const char *dir, bool read_only, bool no_direct,
                            struct log_segment ***list, size_t *count)
{
    *list = NULL;
    *count = 0;
    DIR *d = opendir(dir);
    if (!d)
        return folder_error("read", dir);
    struct err e = err_none();
    const struct dirent *file;
    while (e.code == ERR_OK && (file = readdir(d)))
        e = add(dir, file->d_name, read_only, no_direct, list, count);
    closedir(d);
    if (e.code == ERR_OK && *count)
        qsort(*list, *count, sizeof **list, compare);
    /* Whoever gave a name to one may have been killed before that was on the disk. */
    if (e.code == ERR_OK && *count && !read_only)
        e = folder_sync(dir);
    return e;
}

/* --- making one --- */

static void rest(const struct log_segment_pace *pace, uint64_t written)
{
    const struct timespec ts = {.tv_nsec = REST_NS};
    if (pace && pace->may_rest(pace->ctx, written))
        nanosleep(&ts, NULL);
}

/* By-passes the page cache where it can: it is not read again. */
NODISCARD static struct err fill(int fd, uint64_t size, const struct log_segment_pace *pace,
                                 const char *path)
{
    size_t most = pace ? SMALL_PIECE : PIECE;
    void *zeros = log_segment_memory(most);
    memset(zeros, 0, most);
    struct err e = err_none();
    for (uint64_t at = 0; at < size && e.code == ERR_OK; rest(pace, at)) {
        size_t len = size - at < most ? (size_t)(size - at) : most;
        ssize_t n = pwrite(fd, zeros, len, (off_t)at);
        /* It accepts the flag and nothing else. */
        if (n < 0 && errno == EINVAL && fcntl(fd, F_SETFL, 0) == 0)
            n = pwrite(fd, zeros, len, (off_t)at);
        if (n < 0 && errno != EINTR)
            e = folder_error("fill", path);
        at += n > 0 ? (uint64_t)n : 0;
    }
    if (e.code == ERR_OK && fsync(fd) != 0)
        e = folder_error("sync", path);
    free(zeros);
    return e;
}

NODISCARD static struct err make_file(const char *dir, uint64_t name, uint64_t size, bool no_direct,
                                      const struct log_segment_pace *pace)
{
    char path[4096], partial[4096];
    path_of(path, sizeof path, dir, name, "");
    path_of(partial, sizeof partial, dir, name, PARTIAL);
    int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
    int fd = no_direct ? -1 : open(partial, flags | O_DIRECT, 0600);
    if (fd < 0)
        fd = open(partial, flags, 0600);
    if (fd < 0)
        return folder_error("make", partial);
    struct err e = fill(fd, size, pace, partial);
    close(fd);
    if (e.code == ERR_OK && rename(partial, path) != 0)
        e = folder_error("name", path);
    if (e.code != ERR_OK) {
        unlink(partial);
        return e;
    }
    return folder_sync(dir);
}

struct err log_segment_make(const char *dir, uint64_t name, uint64_t size, bool no_direct,
                            const struct log_segment_pace *pace, struct log_segment **out)
{
    char path[4096];
    must(size % LOG_BLOCK == 0);
    TRY(make_file(dir, name, size, no_direct, pace));
    path_of(path, sizeof path, dir, name, "");
    struct log_segment *s = segment_new(name);
    struct err e = open_one(s, path, false, no_direct);
    if (e.code != ERR_OK) {
        log_segment_free(s);
        return e;
    }
    s->size = size;
    s->head = LOG_HEAD_BLANK;
    s->free = true;
    *out = s;
    return e;
}

/* --- writing --- */

struct err log_segment_write(const struct log_segment *s, const void *bytes, size_t len,
                             uint64_t at, bool sync)
{
    bool direct = sync && s->direct >= 0;
    const char *from = bytes;
    must(at % LOG_BLOCK == 0 && len % LOG_BLOCK == 0 && at + len <= s->size);
    while (len > 0) {
        ssize_t n = pwrite(direct ? s->direct : s->plain, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return folder_error("write to", "the log");
        from += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    if (sync && !direct && fdatasync(s->plain) != 0)
        return folder_error("sync", "the log");
    return err_none();
}

struct err log_segment_put(const struct log_segment *s, uint64_t at, const struct log_frame *f,
                           bool sync)
{
    must(f->kind != LOG_BATCH);
    unsigned char *block = log_segment_memory(LOG_BLOCK);
    log_frame_write(block, log_frame_place(s->name, at), f);
    struct err e = log_segment_write(s, block, LOG_BLOCK, at, sync);
    free(block);
    return e;
}

struct err log_segment_wipe(const struct log_segment *s, uint64_t from)
{
    void *zeros = log_segment_memory(PIECE);
    memset(zeros, 0, PIECE);
    struct err e = err_none();
    while (from < s->size && e.code == ERR_OK) {
        size_t len = s->size - from < PIECE ? (size_t)(s->size - from) : PIECE;
        e = log_segment_write(s, zeros, len, from, true);
        from += len;
    }
    free(zeros);
    return e;
}

struct err log_segment_sync(const struct log_segment *s)
{
    if (fdatasync(s->plain) != 0)
        return folder_error("sync", "the log");
    posix_fadvise(s->plain, 0, 0, POSIX_FADV_DONTNEED);
    return err_none();
}

int log_segment_remove(const char *dir, struct log_segment *s)
{
    char path[4096];
    int fd = s->plain;
    path_of(path, sizeof path, dir, s->name, "");
    unlink(path);
    s->plain = -1;
    log_segment_free(s);
    return fd;
}
