/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"

#define BLOCK       ((uint64_t)4096)
#define PART        ".part" /* the end of the name of a file that is being written */
#define SWEEP_EVERY ((uint64_t)5 * 60 * 1000)
#define SWEEP_BATCH 128

struct tc_files {
    struct tc_files_settings settings;
    char dir[PATH_MAX];
    uint64_t used;
    struct rng rng;
    struct strmap unsettled; /* struct tc_file_write, by name */
    bool made;               /* the folder */
    bool stopping;
    int jobs; /* on the thread pool */
    struct sweep *sweep;
    uv_timer_t timer;
};

/* What a file takes: even an empty one takes room in the folder. */
static uint64_t charge(uint64_t size)
{
    return size ? (size + BLOCK - 1) / BLOCK * BLOCK : BLOCK;
}

static void path_of(const struct tc_files *f, const char *name, const char *ending,
                    char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s%s", f->dir, name, ending);
}

static struct err disk_error(const char *what, const char *path)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_make(full ? ERR_DISK_FULL : ERR_IO, "cannot %s %.100s: %s", what, path,
                    strerror(errno));
}

static void run(struct tc_files *f, uv_work_t *work, uv_work_cb job, uv_after_work_cb after)
{
    f->jobs++;
    must(uv_queue_work(f->settings.loop, work, job, after) == 0);
}

/* --- checksums, on any thread --- */

static void digest(const EVP_MD *kind, struct str bytes, char *hex)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned n;
    must(EVP_Digest(bytes.at, bytes.len, out, &n, kind, NULL) == 1);
    for (unsigned i = 0; i < n; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", out[i]);
}

/* --- writing --- */

static struct err sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return disk_error("open", path);
    struct err err = fsync(fd) == 0 ? err_none() : disk_error("sync", path);
    close(fd);
    return err;
}

static struct err make_folder(const struct tc_files *f)
{
    char parent[PATH_MAX];
    if (mkdir(f->dir, 0700) != 0 && errno != EEXIST)
        return disk_error("make", f->dir);
    snprintf(parent, sizeof parent, "%s/..", f->dir);
    return sync_folder(parent);
}

static struct err write_bytes(int fd, struct str bytes, const char *path)
{
    while (bytes.len) {
        ssize_t n = write(fd, bytes.at, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return disk_error("write", path);
        bytes.at += n;
        bytes.len -= (size_t)n;
    }
    return fsync(fd) == 0 ? err_none() : disk_error("sync", path);
}

static struct err write_file(const struct tc_files *f, const struct tc_file_write *w)
{
    char part[PATH_MAX], path[PATH_MAX];
    path_of(f, w->name, PART, part);
    path_of(f, w->name, "", path);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return disk_error("create", part);
    struct err err = write_bytes(fd, w->bytes, part);
    if (close(fd) != 0 && err.code == ERR_OK)
        err = disk_error("close", part);
    if (err.code == ERR_OK && rename(part, path) != 0)
        err = disk_error("rename", part);
    if (err.code != ERR_OK) {
        unlink(part);
        return err;
    }
    err = sync_folder(f->dir);
    if (err.code != ERR_OK)
        unlink(path);
    return err;
}

static struct err check_room(const struct tc_file_write *w)
{
    struct statvfs st;
    if (statvfs(w->files->dir, &st) != 0)
        return disk_error("examine", w->files->dir);
    uint64_t room = (uint64_t)st.f_bavail * st.f_frsize;
    if (room < w->free_min || room - w->free_min < w->bytes.len)
        return err_make(ERR_DISK_FULL,
                        "the disk has %llu bytes of room, of which --min-free-space keeps %llu",
                        (unsigned long long)room, (unsigned long long)w->free_min);
    return err_none();
}

static void write_job(uv_work_t *work)
{
    struct tc_file_write *w = work->data;
    digest(EVP_sha256(), w->bytes, w->sha256);
    digest(EVP_sha512(), w->bytes, w->sha512);
    if (!w->files->made)
        w->err = make_folder(w->files);
    if (w->err.code == ERR_OK)
        w->err = check_room(w);
    if (w->err.code == ERR_OK)
        w->err = write_file(w->files, w);
}

static void after_write(uv_work_t *work, int status)
{
    struct tc_file_write *w = work->data;
    struct tc_files *f = w->files;
    must(status == 0);
    f->jobs--;
    if (w->err.code == ERR_OK) {
        f->made = true;
    } else {
        strmap_remove(&f->unsettled, str_from(w->name));
        f->used -= charge(w->bytes.len);
        log_warn("taskcluster: an artifact was not stored: %s", w->err.msg);
    }
    w->done(w);
}

static void refuse_job(uv_work_t *work)
{
    (void)work;
}

static void after_refusal(uv_work_t *work, int status)
{
    struct tc_file_write *w = work->data;
    (void)status;
    w->files->jobs--;
    w->done(w);
}

void tc_files_write(struct tc_files *f, struct tc_file_write *w)
{
    uint64_t need = charge(w->bytes.len);
    w->files = f;
    w->work.data = w;
    w->err = err_none();
    if (f->stopping)
        return;
    if (need > f->settings.space || f->used > f->settings.space - need) {
        w->err = err_make(ERR_DISK_FULL,
                          "the space for artifacts (--taskcluster-artifact-space) is used up: "
                          "%llu of %llu bytes",
                          (unsigned long long)f->used, (unsigned long long)f->settings.space);
        tc_files_sweep(f); /* some may have expired */
        run(f, &w->work, refuse_job, after_refusal);
        return;
    }
    snprintf(w->name, sizeof w->name, "%016llx%016llx", (unsigned long long)rng_next(&f->rng),
             (unsigned long long)rng_next(&f->rng));
    w->free_min = f->settings.free_min;
    f->used += need;
    strmap_put(&f->unsettled, str_from(w->name), w);
    run(f, &w->work, write_job, after_write);
}

/* --- removing --- */

struct removal {
    uv_work_t work;
    struct tc_files *files;
    char name[TC_FILE_NAME + 1];
    uint64_t size;
    bool gone;
};

static bool unlink_one(const struct tc_files *f, const char *name)
{
    char path[PATH_MAX];
    path_of(f, name, "", path);
    if (unlink(path) == 0)
        return true;
    if (errno != ENOENT)
        log_warn("taskcluster: cannot remove %s: %s", path, strerror(errno));
    return false;
}

static void remove_job(uv_work_t *work)
{
    struct removal *r = work->data;
    r->gone = unlink_one(r->files, r->name);
}

static void after_removal(uv_work_t *work, int status)
{
    struct removal *r = work->data;
    (void)status;
    r->files->jobs--;
    if (r->gone)
        r->files->used -= charge(r->size);
    free(r);
}

void tc_files_remove(struct tc_files *f, struct str name, uint64_t size)
{
    must(name.len == TC_FILE_NAME);
    if (f->stopping)
        return;
    struct removal *r = ALLOC(struct removal);
    memcpy(r->name, name.at, name.len);
    r->files = f;
    r->size = size;
    r->work.data = r;
    run(f, &r->work, remove_job, after_removal);
}

void tc_files_settle(struct tc_files *f, const struct tc_file_write *w, bool keep)
{
    strmap_remove(&f->unsettled, str_from(w->name));
    if (!keep)
        tc_files_remove(f, str_from(w->name), w->bytes.len);
}

/* --- reading --- */

static struct err read_bytes(int fd, char *at, uint64_t size, const char *path)
{
    for (uint64_t got = 0; got < size;) {
        ssize_t n = read(fd, at + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return disk_error("read", path);
        if (n == 0)
            return err_make(ERR_CORRUPT, "%.100s is shorter than it was", path);
        got += (uint64_t)n;
    }
    return err_none();
}

static struct err read_file(struct tc_file_read *r)
{
    char path[PATH_MAX], hex[TC_SHA256_HEX + 1];
    path_of(r->files, r->name, "", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_make(ERR_NOT_FOUND, "the bytes of the artifact are gone")
                               : disk_error("open", path);
    char *at = alloc_get(r->size + 1);
    r->bytes = (struct str){at, r->size};
    struct err err = read_bytes(fd, at, r->size, path);
    close(fd);
    if (err.code != ERR_OK)
        return err;
    digest(EVP_sha256(), r->bytes, hex);
    return strcmp(hex, r->sha256) == 0
               ? err
               : err_make(ERR_CORRUPT, "%.100s is damaged: its SHA-256 has changed", path);
}

static void read_job(uv_work_t *work)
{
    struct tc_file_read *r = work->data;
    r->err = read_file(r);
}

static void after_read(uv_work_t *work, int status)
{
    struct tc_file_read *r = work->data;
    char *bytes = (char *)r->bytes.at;
    (void)status;
    r->files->jobs--;
    if (r->err.code != ERR_OK && r->err.code != ERR_NOT_FOUND)
        log_error("taskcluster: %s", r->err.msg);
    r->done(r);
    free(bytes);
}

void tc_files_read(struct tc_files *f, struct tc_file_read *r)
{
    r->files = f;
    r->bytes = (struct str){0};
    r->work.data = r;
    if (!f->stopping)
        run(f, &r->work, read_job, after_read);
}

/* --- sweeping --- */

struct swept {
    struct sweep *sweep;
    char name[TC_FILE_NAME + 1];
    uint64_t size;
    bool orphan; /* no entry names it */
};

/* Goes through the folder part by part: read it (on the pool), ask for the entries, remove what has
 * none (on the pool). */
struct sweep {
    struct tc_files *files;
    uv_work_t work;
    DIR *dir;
    struct swept list[SWEEP_BATCH];
    size_t count, pending; /* pending: answers */
    bool end;              /* of the folder */
    uint64_t removed;
};

static bool is_file_name(const char *name)
{
    return strlen(name) == TC_FILE_NAME && strspn(name, "0123456789abcdef") == TC_FILE_NAME;
}

static void list_job(uv_work_t *work)
{
    struct sweep *s = work->data;
    const struct dirent *entry;
    struct stat st;
    s->count = 0;
    if (!s->dir)
        s->dir = opendir(s->files->dir);
    while (s->dir && s->count < SWEEP_BATCH && (entry = readdir(s->dir))) {
        if (!is_file_name(entry->d_name) || fstatat(dirfd(s->dir), entry->d_name, &st, 0) != 0)
            continue;
        struct swept *file = &s->list[s->count++];
        *file = (struct swept){.sweep = s, .size = (uint64_t)st.st_size};
        memcpy(file->name, entry->d_name, sizeof file->name);
    }
    s->end = s->count < SWEEP_BATCH;
}

static void clear_job(uv_work_t *work)
{
    struct sweep *s = work->data;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].orphan)
            s->list[i].orphan = unlink_one(s->files, s->list[i].name);
}

static void end_sweep(struct sweep *s)
{
    struct tc_files *f = s->files;
    if (s->dir)
        closedir(s->dir);
    if (s->removed)
        log_info("taskcluster: %llu files of artifacts that have expired or were replaced were "
                 "removed",
                 (unsigned long long)s->removed);
    f->sweep = NULL;
    free(s);
}

static void after_list(uv_work_t *work, int status);

static void after_clear(uv_work_t *work, int status)
{
    struct sweep *s = work->data;
    struct tc_files *f = s->files;
    (void)status;
    f->jobs--;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->list[i].orphan)
            continue;
        f->used -= charge(s->list[i].size);
        s->removed++;
    }
    if (s->end || f->stopping)
        end_sweep(s);
    else
        run(f, &s->work, list_job, after_list);
}

static void answered(struct sweep *s)
{
    if (--s->pending)
        return;
    if (s->files->stopping)
        end_sweep(s);
    else
        run(s->files, &s->work, clear_job, after_clear);
}

static void on_entry(void *ctx, const struct reply *r)
{
    struct swept *file = ctx;
    file->orphan = r->err.code == ERR_NOT_FOUND;
    answered(file->sweep);
}

/* A file that is settled already has its entry by now, or never will have one: names are not used
 * again. */
static void ask(struct sweep *s)
{
    struct tc_files *f = s->files;
    s->pending = 1;
    for (size_t i = 0; i < s->count; i++) {
        struct str name = str_from(s->list[i].name);
        if (strmap_get(&f->unsettled, name))
            continue;
        struct command cmd = {.kind = CMD_KV_READ,
                              .kv = {.space = STR(TC_FILES_SPACE), .key = name},
                              .done = on_entry,
                              .ctx = &s->list[i]};
        s->pending++;
        backend_submit(f->settings.backend, &cmd);
    }
    answered(s);
}

static void after_list(uv_work_t *work, int status)
{
    struct sweep *s = work->data;
    (void)status;
    s->files->jobs--;
    if (s->files->stopping)
        end_sweep(s);
    else
        ask(s);
}

void tc_files_sweep(struct tc_files *f)
{
    if (f->sweep || f->stopping)
        return;
    struct sweep *s = ALLOC(struct sweep);
    s->files = f;
    s->work.data = s;
    f->sweep = s;
    run(f, &s->work, list_job, after_list);
}

static void on_timer(uv_timer_t *timer)
{
    tc_files_sweep(timer->data);
}

/* --- */

/* At the start, when nobody waits: adds up the sizes, and removes what was cut off. */
static struct err count_files(struct tc_files *f)
{
    DIR *dir = opendir(f->dir);
    const struct dirent *entry;
    struct stat st;
    if (!dir)
        return errno == ENOENT ? err_none() : disk_error("read", f->dir);
    f->made = true;
    while ((entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        if (len == TC_FILE_NAME + strlen(PART) && strcmp(entry->d_name + TC_FILE_NAME, PART) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
        else if (is_file_name(entry->d_name) && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            f->used += charge((uint64_t)st.st_size);
    }
    closedir(dir);
    return err_none();
}

struct err tc_files_open(const struct tc_files_settings *settings, struct tc_files **out)
{
    struct tc_files *f = ALLOC(struct tc_files);
    f->settings = *settings;
    f->rng = rng_from_seed(settings->seed);
    f->unsettled.seed = rng_next(&f->rng);
    snprintf(f->dir, sizeof f->dir, "%s", settings->dir);
    f->settings.dir = f->dir;
    struct err err = count_files(f);
    if (err.code != ERR_OK) {
        free(f);
        return err;
    }
    must(uv_timer_init(settings->loop, &f->timer) == 0);
    f->timer.data = f;
    must(uv_timer_start(&f->timer, on_timer, 0, SWEEP_EVERY) == 0);
    uv_unref((uv_handle_t *)&f->timer);
    *out = f;
    return err;
}

void tc_files_set_free_min(struct tc_files *f, uint64_t bytes)
{
    f->settings.free_min = bytes;
}

void tc_files_stop(struct tc_files *f)
{
    f->stopping = true;
    uv_timer_stop(&f->timer);
    while (f->jobs)
        uv_run(f->settings.loop, UV_RUN_ONCE);
}

void tc_files_free(struct tc_files *f)
{
    if (!f)
        return;
    if (f->sweep)
        end_sweep(f->sweep);
    strmap_fini(&f->unsettled);
    free(f);
}
