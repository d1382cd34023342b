/* SPDX-License-Identifier: Apache-2.0 */
#include "sectors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/rng.h"

#define SECTOR   ((size_t)512)
#define NAME_LEN 64
#define FDS_MAX  1024

struct file {
    /* As the system has it, and as the disk has it. "": it has no name, so it is not there. */
    char now[NAME_LEN], saved[NAME_LEN];
    int fd;               /* of memory: what reads see */
    unsigned char *bytes; /* on the disk */
    unsigned char *past;  /* each sector as it was before its last write */
    size_t len;           /* likewise */
    bool *dirty;          /* of each sector: it was written and not synced since */
    size_t dirty_cap;
    unsigned char *seen; /* in a copy of the disk: the bytes that reads saw, */
    size_t seen_len;     /* and how many */
};

struct files {
    struct file **list;
    size_t count, cap;
};

/* An open one: a file, or the folder if there is none. */
struct handle {
    bool open, dsync;
    struct file *file;
};

static struct {
    struct files files;
    struct files left; /* when the process died: a copy */
    bool died;
    uint64_t calls, dies_at, fails_at;
    int no;
    bool keep;
    struct rng rng;
    struct handle handles[FDS_MAX];
} disk;

/* The real ones, and those that the linker calls in their place. */
int real_open(const char *path, int flags, ...) __asm__("__real_open64");
int real_close(int fd) __asm__("__real_close");
ssize_t real_pwrite(int fd, const void *bytes, size_t len, off_t at) __asm__("__real_pwrite64");
int real_fsync(int fd) __asm__("__real_fsync");
int real_fdatasync(int fd) __asm__("__real_fdatasync");
int real_rename(const char *from, const char *to) __asm__("__real_rename");
int real_unlink(const char *path) __asm__("__real_unlink");
int real_fadvise(int fd, off_t at, off_t len, int advice) __asm__("__real_posix_fadvise64");
DIR *real_opendir(const char *path) __asm__("__real_opendir");
struct dirent *real_readdir(DIR *d) __asm__("__real_readdir64");
int real_closedir(DIR *d) __asm__("__real_closedir");

int sim_open(const char *path, int flags, ...) __asm__("__wrap_open64");
int sim_close(int fd) __asm__("__wrap_close");
ssize_t sim_pwrite(int fd, const void *bytes, size_t len, off_t at) __asm__("__wrap_pwrite64");
int sim_fsync(int fd) __asm__("__wrap_fsync");
int sim_fdatasync(int fd) __asm__("__wrap_fdatasync");
int sim_rename(const char *from, const char *to) __asm__("__wrap_rename");
int sim_unlink(const char *path) __asm__("__wrap_unlink");
int sim_fadvise(int fd, off_t at, off_t len, int advice) __asm__("__wrap_posix_fadvise64");
DIR *sim_opendir(const char *path) __asm__("__wrap_opendir");
struct dirent *sim_readdir(DIR *d) __asm__("__wrap_readdir64");
int sim_closedir(DIR *d) __asm__("__wrap_closedir");

static bool chance(unsigned percent)
{
    return rng_below(&disk.rng, 100) < percent;
}

/* --- files --- */

static struct file *file_new(const char *name)
{
    struct file *f = ALLOC(struct file);
    snprintf(f->now, sizeof f->now, "%s", name);
    f->fd = memfd_create("sectors", MFD_CLOEXEC);
    must(f->fd >= 0);
    return f;
}

static void file_free(struct file *f)
{
    if (f->fd >= 0)
        real_close(f->fd);
    free(f->bytes);
    free(f->past);
    free(f->dirty);
    free(f->seen);
    free(f);
}

static void files_add(struct files *to, struct file *f)
{
    ALLOC_GROW(to->list, to->count, to->cap, 8);
    to->list[to->count++] = f;
}

static void files_free(struct files *of)
{
    for (size_t i = 0; i < of->count; i++)
        file_free(of->list[i]);
    free(of->list);
    *of = (struct files){0};
}

static struct file *find(const char *name)
{
    for (size_t i = 0; i < disk.files.count; i++)
        if (*name && strcmp(disk.files.list[i]->now, name) == 0)
            return disk.files.list[i];
    return NULL;
}

/* What reads see. */
static size_t seen_len(const struct file *f)
{
    struct stat st;
    must(fstat(f->fd, &st) == 0);
    return (size_t)st.st_size;
}

static size_t sectors_of(size_t len)
{
    return (len + SECTOR - 1) / SECTOR;
}

static void grow(struct file *f, size_t len)
{
    if (len <= f->len)
        return;
    f->bytes = alloc_resize(f->bytes, sectors_of(len) * SECTOR);
    f->past = alloc_resize(f->past, sectors_of(len) * SECTOR);
    memset(f->bytes + f->len, 0, sectors_of(len) * SECTOR - f->len);
    memset(f->past + f->len, 0, sectors_of(len) * SECTOR - f->len);
    f->len = len;
}

static bool is_dirty(const struct file *f, size_t sector)
{
    return sector < f->dirty_cap && f->dirty[sector];
}

static void set_dirty(struct file *f, size_t sector, bool dirty)
{
    if (sector >= f->dirty_cap) {
        size_t cap = 2 * sector + 16;
        f->dirty = alloc_resize(f->dirty, cap * sizeof *f->dirty);
        memset(f->dirty + f->dirty_cap, 0, (cap - f->dirty_cap) * sizeof *f->dirty);
        f->dirty_cap = cap;
    }
    f->dirty[sector] = dirty;
}

/* The sector comes to the disk, as reads see it. */
static void save_sector(struct file *f, size_t sector)
{
    size_t at = sector * SECTOR, len = seen_len(f);
    if (at < len) {
        size_t n = len - at < SECTOR ? len - at : SECTOR;
        grow(f, at + n);
        memcpy(f->past + at, f->bytes + at, n);
        must(pread(f->fd, f->bytes + at, n, (off_t)at) == (ssize_t)n);
    }
    set_dirty(f, sector, false);
}

/* So many of a hundred of the sectors that were not synced come to the disk. With `forget` the
 * others never will. */
static void save_some(struct file *f, unsigned share, bool forget)
{
    for (size_t i = 0; i < f->dirty_cap; i++) {
        if (!f->dirty[i])
            continue;
        if (chance(share))
            save_sector(f, i);
        else if (forget)
            f->dirty[i] = false;
    }
}

static void save_file(struct file *f)
{
    save_some(f, 100, false);
    grow(f, seen_len(f));
}

static void save_names(void)
{
    for (size_t i = 0; i < disk.files.count; i++)
        memcpy(disk.files.list[i]->saved, disk.files.list[i]->now, NAME_LEN);
}

/* Reads see what is on the disk, but for what the system has still to bring there. */
static void drop_cache(struct file *f)
{
    for (size_t at = 0; at < f->len; at += SECTOR) {
        size_t n = f->len - at < SECTOR ? f->len - at : SECTOR;
        if (!is_dirty(f, at / SECTOR))
            must(real_pwrite(f->fd, f->bytes + at, n, (off_t)at) == (ssize_t)n);
    }
}

/* --- the end of a process --- */

static void files_copy(struct files *to, const struct files *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct file *f = from->list[i];
        struct file *copy = ALLOC(struct file);
        *copy = *f;
        copy->fd = -1;
        copy->seen_len = seen_len(f);
        copy->seen = alloc_get(copy->seen_len + 1);
        must(pread(f->fd, copy->seen, copy->seen_len, 0) == (ssize_t)copy->seen_len);
        copy->bytes = alloc_get(sectors_of(f->len) * SECTOR + 1);
        copy->past = alloc_get(sectors_of(f->len) * SECTOR + 1);
        if (f->len) {
            memcpy(copy->bytes, f->bytes, sectors_of(f->len) * SECTOR);
            memcpy(copy->past, f->past, sectors_of(f->len) * SECTOR);
        }
        copy->dirty = alloc_get((f->dirty_cap + 1) * sizeof *copy->dirty);
        if (f->dirty_cap)
            memcpy(copy->dirty, f->dirty, f->dirty_cap * sizeof *copy->dirty);
        files_add(to, copy);
    }
}

static void show(struct file *f, const unsigned char *bytes, size_t len)
{
    must(ftruncate(f->fd, 0) == 0 && real_pwrite(f->fd, bytes, len, 0) == (ssize_t)len);
}

static void go_back_to_death(void)
{
    files_free(&disk.files);
    disk.files = disk.left;
    disk.left = (struct files){0};
    for (size_t i = 0; i < disk.files.count; i++) {
        struct file *f = disk.files.list[i];
        f->fd = memfd_create("sectors", MFD_CLOEXEC);
        must(f->fd >= 0);
        show(f, f->seen, f->seen_len);
        free(f->seen);
        f->seen = NULL;
    }
}

static void lose_power(struct file *f)
{
    unsigned share = (unsigned)rng_below(&disk.rng, 101);
    bool longer = seen_len(f) > f->len && chance(50);
    size_t len = longer ? seen_len(f) : f->len;
    save_some(f, share, true);
    grow(f, len);
    show(f, f->bytes, f->len);
    if (strcmp(f->now, f->saved) != 0 && chance(50))
        memcpy(f->saved, f->now, NAME_LEN);
    memcpy(f->now, f->saved, NAME_LEN);
}

/* Of two files that the disk has under one name the newer one is there. */
static void remove_nameless(void)
{
    struct files all = disk.files;
    disk.files = (struct files){0};
    for (size_t i = 0; i < all.count; i++) {
        struct file *f = all.list[i];
        bool there = *f->now || *f->saved;
        for (size_t k = i + 1; k < all.count; k++)
            there = there && !(*f->now && strcmp(f->now, all.list[k]->now) == 0);
        if (there)
            files_add(&disk.files, f);
        else
            file_free(f);
    }
    free(all.list);
}

void sectors_die_at(unsigned count)
{
    files_free(&disk.left);
    disk.died = false;
    disk.dies_at = count ? disk.calls + count : 0;
}

bool sectors_died(void)
{
    return disk.died;
}

void sectors_crash(bool power)
{
    for (int i = 0; i < FDS_MAX; i++)
        must(!disk.handles[i].open);
    if (disk.died)
        go_back_to_death();
    if (power)
        for (size_t i = 0; i < disk.files.count; i++)
            lose_power(disk.files.list[i]);
    remove_nameless();
    sectors_die_at(0);
    sectors_fail_at(0, 0, false);
}

void sectors_fail_at(unsigned count, int no, bool keep)
{
    disk.fails_at = count ? disk.calls + count : 0;
    disk.no = no;
    disk.keep = keep;
}

void sectors_write_back(void)
{
    for (size_t i = 0; i < disk.files.count; i++)
        save_file(disk.files.list[i]);
    save_names();
}

/* --- a disk that loses what it had --- */

#define SPOILT_MAX 2

static struct {
    struct {
        struct file *file;
        size_t at;
        unsigned char bytes[SECTOR];
    } sectors[SPOILT_MAX];
    size_t count;
    struct file *file; /* without its name */
    char name[NAME_LEN];
} spoilt;

static bool read_sector(const struct file *f, size_t at, unsigned char bytes[SECTOR])
{
    return pread(f->fd, bytes, SECTOR, (off_t)at) == (ssize_t)SECTOR;
}

static bool is_empty(const unsigned char *bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, SECTOR - 1) == 0;
}

static struct file *choose_file(void)
{
    struct file *f = disk.files.list[rng_below(&disk.rng, disk.files.count)];
    return *f->now && seen_len(f) >= SECTOR ? f : NULL;
}

static void replace_sector(struct file *f, size_t at, const unsigned char *bytes)
{
    must(spoilt.count < SPOILT_MAX);
    spoilt.sectors[spoilt.count].file = f;
    spoilt.sectors[spoilt.count].at = at;
    must(read_sector(f, at, spoilt.sectors[spoilt.count++].bytes));
    must(real_pwrite(f->fd, bytes, SECTOR, (off_t)at) == (ssize_t)SECTOR);
}

/* Two sectors that both have something change places: most often neighbours in one file, which a
 * batch that is as long as a sector would make look like each other. */
static void swap_sectors(struct file *f, size_t at, const unsigned char *bytes)
{
    unsigned char others[SECTOR];
    size_t count = seen_len(f) / SECTOR, near = (at / SECTOR + 1) % count;
    struct file *other = chance(50) ? f : choose_file();
    if (!other)
        return;
    size_t to = other == f && chance(50) ? near : rng_below(&disk.rng, seen_len(other) / SECTOR);
    to *= SECTOR;
    if (!read_sector(other, to, others) || is_empty(others) || (other == f && to == at))
        return;
    replace_sector(f, at, others);
    replace_sector(other, to, bytes);
}

static void spoil_sector(struct file *f, enum sectors_fault fault)
{
    static const unsigned char zeros[SECTOR];
    unsigned char bytes[SECTOR];
    size_t at = rng_below(&disk.rng, seen_len(f) / SECTOR) * SECTOR;
    if (!read_sector(f, at, bytes) || is_empty(bytes) || at + SECTOR > f->len)
        return;
    if (fault == SECTORS_SWAPPED) {
        swap_sectors(f, at, bytes);
        return;
    }
    struct file *other = choose_file();
    size_t to = other ? rng_below(&disk.rng, seen_len(other) / SECTOR) * SECTOR : 0;
    replace_sector(f, at, fault == SECTORS_LOST ? zeros : f->past + at);
    if (fault == SECTORS_MISDIRECTED && other && (other != f || to != at))
        replace_sector(other, to, bytes);
}

void sectors_spoil(enum sectors_fault fault)
{
    must(spoilt.count == 0 && !spoilt.file);
    struct file *f = disk.files.count ? choose_file() : NULL;
    if (f && fault == SECTORS_FILE_LOST) {
        spoilt.file = f;
        memcpy(spoilt.name, f->now, NAME_LEN);
        *f->now = '\0';
    } else if (f) {
        spoil_sector(f, fault);
    }
}

void sectors_mend(void)
{
    while (spoilt.count > 0) {
        spoilt.count--;
        must(real_pwrite(spoilt.sectors[spoilt.count].file->fd, spoilt.sectors[spoilt.count].bytes,
                         SECTOR, (off_t)spoilt.sectors[spoilt.count].at) == (ssize_t)SECTOR);
    }
    if (spoilt.file)
        memcpy(spoilt.file->now, spoilt.name, NAME_LEN);
    spoilt.file = NULL;
}

void sectors_begin(uint64_t seed)
{
    must(disk.files.count == 0);
    sectors_mend();
    disk.rng = rng_from_seed(seed);
    disk.calls = 0;
    sectors_die_at(0);
    sectors_fail_at(0, 0, false);
}

void sectors_end(void)
{
    files_free(&disk.files);
    files_free(&disk.left);
}

uint64_t sectors_calls(void)
{
    return disk.calls;
}

/* --- writes and syncs --- */

static void die(void)
{
    files_copy(&disk.left, &disk.files);
    disk.died = true;
}

/* Whether the process dies in the middle of this call, and whether the call fails. */
static void count_call(bool *dies, bool *fails)
{
    disk.calls++;
    *dies = disk.calls == disk.dies_at;
    *fails = disk.calls == disk.fails_at;
}

/* Some of the sectors, of which there are whole ones only. */
static void put(struct file *f, const unsigned char *bytes, size_t len, size_t at, unsigned share,
                bool dsync)
{
    must(at % SECTOR == 0 && len % SECTOR == 0);
    for (size_t i = 0; i < len; i += SECTOR) {
        if (!chance(share))
            continue;
        must(real_pwrite(f->fd, bytes + i, SECTOR, (off_t)(at + i)) == (ssize_t)SECTOR);
        set_dirty(f, (at + i) / SECTOR, true);
        if (dsync)
            save_sector(f, (at + i) / SECTOR);
    }
}

static ssize_t write_to(const struct handle *h, const unsigned char *bytes, size_t len, size_t at)
{
    bool dies, fails;
    count_call(&dies, &fails);
    if (dies) {
        put(h->file, bytes, len, at, (unsigned)rng_below(&disk.rng, 101), h->dsync);
        die();
    }
    if (fails) {
        unsigned share = disk.keep ? 100 : (unsigned)rng_below(&disk.rng, 101);
        put(h->file, bytes, len, at, share, h->dsync);
        errno = disk.no;
        return -1;
    }
    put(h->file, bytes, len, at, 100, h->dsync);
    if (!h->dsync && chance(20))
        save_some(h->file, (unsigned)rng_below(&disk.rng, 101), false);
    return (ssize_t)len;
}

static int sync_handle(const struct handle *h)
{
    bool dies, fails;
    count_call(&dies, &fails);
    if (dies) {
        if (h->file)
            save_some(h->file, (unsigned)rng_below(&disk.rng, 101), false);
        die();
    }
    if (fails) {
        if (h->file)
            save_some(h->file, disk.keep ? 100 : (unsigned)rng_below(&disk.rng, 101), true);
        errno = disk.no;
        return -1;
    }
    if (h->file)
        save_file(h->file);
    else
        save_names();
    return 0;
}

/* --- in the place of the system's --- */

static const char *name_in(const char *path)
{
    size_t len = strlen(SECTORS_DIR);
    if (strncmp(path, SECTORS_DIR, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

static struct handle *handle_of(int fd)
{
    return fd >= 0 && fd < FDS_MAX && disk.handles[fd].open ? &disk.handles[fd] : NULL;
}

static int open_handle(struct file *f, int flags)
{
    int fd = f ? fcntl(f->fd, F_DUPFD_CLOEXEC, 0) : memfd_create("folder", MFD_CLOEXEC);
    must(fd >= 0 && fd < FDS_MAX);
    disk.handles[fd] = (struct handle){true, (flags & O_DSYNC) != 0, f};
    return fd;
}

int sim_open(const char *path, int flags, ...)
{
    const char *name = name_in(path);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (!name)
        return real_open(path, flags, mode);
    struct file *f = find(name);
    if (!*name)
        return open_handle(NULL, flags);
    if (f && flags & O_TRUNC) {
        *f->now = '\0';
        f = NULL;
    }
    if (!f && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (!f)
        files_add(&disk.files, f = file_new(name));
    return open_handle(f, flags);
}

int sim_close(int fd)
{
    struct handle *h = handle_of(fd);
    if (h)
        *h = (struct handle){0};
    return real_close(fd);
}

ssize_t sim_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    const struct handle *h = handle_of(fd);
    return h ? write_to(h, bytes, len, (size_t)at) : real_pwrite(fd, bytes, len, at);
}

int sim_fsync(int fd)
{
    const struct handle *h = handle_of(fd);
    return h ? sync_handle(h) : real_fsync(fd);
}

int sim_fdatasync(int fd)
{
    const struct handle *h = handle_of(fd);
    return h ? sync_handle(h) : real_fdatasync(fd);
}

int sim_rename(const char *from, const char *to)
{
    const char *name = name_in(from);
    if (!name)
        return real_rename(from, to);
    struct file *f = find(name), *other = find(name_in(to));
    must(f != NULL);
    if (other)
        *other->now = '\0';
    snprintf(f->now, sizeof f->now, "%s", name_in(to));
    return 0;
}

int sim_unlink(const char *path)
{
    const char *name = name_in(path);
    if (!name)
        return real_unlink(path);
    struct file *f = find(name);
    must(f != NULL);
    *f->now = '\0';
    return 0;
}

int sim_fadvise(int fd, off_t at, off_t len, int advice)
{
    const struct handle *h = handle_of(fd);
    if (!h)
        return real_fadvise(fd, at, len, advice);
    if (advice == POSIX_FADV_DONTNEED)
        drop_cache(h->file);
    return 0;
}

/* One listing at a time. */
static struct {
    size_t next;
    struct dirent entry;
} listing;

DIR *sim_opendir(const char *path)
{
    if (!name_in(path))
        return real_opendir(path);
    listing.next = 0;
    return (DIR *)&listing;
}

struct dirent *sim_readdir(DIR *d)
{
    if (d != (DIR *)&listing)
        return real_readdir(d);
    while (listing.next < disk.files.count) {
        const struct file *f = disk.files.list[listing.next++];
        if (!*f->now)
            continue;
        snprintf(listing.entry.d_name, NAME_LEN, "%s", f->now);
        return &listing.entry;
    }
    return NULL;
}

int sim_closedir(DIR *d)
{
    return d == (DIR *)&listing ? 0 : real_closedir(d);
}
