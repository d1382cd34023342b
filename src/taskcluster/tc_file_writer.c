/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/must.h"
#include "taskcluster/tc_files_internal.h"

/* So much is worth a job; and with so much it waits for the disk. */
#define PIECE ((size_t)64 * 1024)
#define FULL  ((size_t)128 * 1024)
/* Of all writers; beyond it each waits for the disk after every piece. */
#define BUFFERED_MAX ((uint64_t)32 * 1024 * 1024)
#define WRITERS_MAX  1024
/* So often the kernel is told to begin to write, lest all of it waits for the fsync. */
#define FLUSH_EVERY ((uint64_t)8 * 1024 * 1024)

/* --- on the thread pool --- */

static struct err check_room(const struct tc_file_writer *w, uint64_t need)
{
    struct statvfs st;
    if (statvfs(w->files->dir, &st) != 0)
        return tc_files_error("examine", w->files->dir);
    uint64_t room = (uint64_t)st.f_bavail * st.f_frsize;
    if (room < w->free_min || room - w->free_min < need)
        return err_make(ERR_DISK_FULL,
                        "the disk has %llu bytes of room, of which --min-free-space keeps %llu",
                        (unsigned long long)room, (unsigned long long)w->free_min);
    return err_none();
}

static struct err open_part(struct tc_file_writer *w, const char *part)
{
    uint64_t announced = w->announced > 0 ? (uint64_t)w->announced : 0;
    if (w->make_folder)
        TRY(folder_make(w->files->dir, 0700));
    TRY(check_room(w, announced > w->writing.len ? announced : w->writing.len));
    w->fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return tc_files_error("create", part);
    w->hash256 = EVP_MD_CTX_new();
    w->hash512 = EVP_MD_CTX_new();
    must(w->hash256 && w->hash512);
    must(EVP_DigestInit_ex(w->hash256, EVP_sha256(), NULL) == 1);
    must(EVP_DigestInit_ex(w->hash512, EVP_sha512(), NULL) == 1);
    return err_none();
}

static struct err write_bytes(int fd, struct str bytes, const char *path)
{
    while (bytes.len) {
        ssize_t n = write(fd, bytes.at, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tc_files_error("write", path);
        bytes.at += n;
        bytes.len -= (size_t)n;
    }
    return err_none();
}

static struct err write_piece(struct tc_file_writer *w, const char *part)
{
    struct str bytes = buf_view(&w->writing);
    if (w->fd < 0)
        TRY(open_part(w, part));
    else
        TRY(check_room(w, bytes.len));
    TRY(write_bytes(w->fd, bytes, part));
    must(EVP_DigestUpdate(w->hash256, bytes.at, bytes.len) == 1);
    must(EVP_DigestUpdate(w->hash512, bytes.at, bytes.len) == 1);
    w->written += bytes.len;
    if (w->written - w->flushed < FLUSH_EVERY)
        return err_none();
    /* Only begun: whether it went well is what fsync will say. */
    sync_file_range(w->fd, (off_t)w->flushed, (off_t)(w->written - w->flushed),
                    SYNC_FILE_RANGE_WRITE);
    w->flushed = w->written;
    return err_none();
}

static void write_hash(EVP_MD_CTX *hash, char *hex)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned n;
    must(EVP_DigestFinal_ex(hash, out, &n) == 1);
    for (unsigned i = 0; i < n; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", out[i]);
}

static struct err close_part(struct tc_file_writer *w, const char *part)
{
    int fd = w->fd;
    w->fd = -1;
    return close(fd) == 0 ? err_none() : tc_files_error("close", part);
}

/* From here on it may be found by its name. */
static struct err seal(struct tc_file_writer *w, const char *part)
{
    char path[PATH_MAX];
    tc_files_path(w->files, w->name, "", path);
    if (fsync(w->fd) != 0)
        return tc_files_error("sync", part);
    TRY(close_part(w, part));
    if (rename(part, path) != 0)
        return tc_files_error("rename", part);
    struct err err = folder_sync(w->files->dir);
    if (err.code != ERR_OK)
        unlink(path);
    write_hash(w->hash256, w->sha256);
    write_hash(w->hash512, w->sha512);
    return err;
}

static void remove_part(struct tc_file_writer *w, const char *part)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if (unlink(part) != 0 && errno != ENOENT)
        log_warn("taskcluster: cannot remove %s: %s", part, strerror(errno));
}

static void write_job(uv_work_t *work)
{
    struct tc_file_writer *w = work->data;
    char part[PATH_MAX];
    tc_files_path(w->files, w->name, TC_FILE_PART, part);
    w->err = write_piece(w, part);
    if (w->err.code == ERR_OK && w->last)
        w->err = seal(w, part);
    if (w->err.code != ERR_OK)
        remove_part(w, part);
}

static void remove_job(uv_work_t *work)
{
    struct tc_file_writer *w = work->data;
    char part[PATH_MAX];
    tc_files_path(w->files, w->name, TC_FILE_PART, part);
    if (w->fd >= 0)
        remove_part(w, part);
    w->err = w->why;
}

/* --- on the loop --- */

static void after_job(uv_work_t *work, int status);

static void run(struct tc_file_writer *w, uv_work_cb job)
{
    w->busy = true;
    tc_files_run(w->files, &w->work, job, after_job);
}

static void write_on(struct tc_file_writer *w)
{
    w->writing = w->filling;
    w->filling = (struct buf){0};
    w->last = w->finishing;
    w->make_folder = !w->files->made;
    w->free_min = w->files->settings.free_min;
    run(w, write_job);
}

static void drop(struct tc_file_writer *w, struct buf *b)
{
    w->files->buffered -= b->len;
    buf_fini(b);
}

static bool is_full(const struct tc_file_writer *w)
{
    bool crowded = w->files->buffered > BUFFERED_MAX;
    return w->filling.len >= FULL || (crowded && w->busy && w->filling.len);
}

static void end(struct tc_file_writer *w)
{
    struct tc_files *f = w->files;
    drop(w, &w->filling);
    EVP_MD_CTX_free(w->hash256);
    EVP_MD_CTX_free(w->hash512);
    list_unlink(&w->node);
    f->writing--;
    f->used -= w->reserved;
    if (w->err.code == ERR_OK) {
        f->used += tc_files_charge(w->size);
    } else {
        strmap_remove(&f->unsettled, str_from(w->name));
        bool ours = !w->aborted || w->err.code == ERR_DISK_FULL;
        log_write(ours ? LOG_WARN : LOG_DEBUG, "taskcluster: an artifact was not stored: %s",
                  w->err.msg);
    }
    w->done(w);
}

static void after_job(uv_work_t *work, int status)
{
    struct tc_file_writer *w = work->data;
    must(status == 0);
    tc_files_ran(w->files);
    drop(w, &w->writing);
    w->busy = false;
    w->files->made = w->files->made || w->fd >= 0 || w->last;
    if (w->err.code != ERR_OK || w->last) {
        end(w);
        return;
    }
    if (w->aborted)
        run(w, remove_job);
    else if (w->finishing || w->filling.len >= PIECE)
        write_on(w);
    if (w->full && !w->aborted && !is_full(w)) {
        w->full = false;
        w->ready(w);
    }
}

/* Counts as used what the file will take with that size. */
static struct err reserve(struct tc_files *f, struct tc_file_writer *w, uint64_t size)
{
    uint64_t need = tc_files_charge(size), space = f->settings.space;
    if (need <= w->reserved)
        return err_none();
    uint64_t more = need - w->reserved;
    if (more > space || f->used > space - more) {
        tc_files_sweep(f); /* some may have expired */
        return err_make(ERR_DISK_FULL,
                        "the space for artifacts (--taskcluster-artifact-space) is used up: "
                        "%llu of %llu bytes, uploads in progress included",
                        (unsigned long long)f->used, (unsigned long long)space);
    }
    f->used += more;
    w->reserved = need;
    return err_none();
}

struct err tc_file_writer_begin(struct tc_files *f, struct tc_file_writer *w)
{
    if (f->stopping)
        return err_make(ERR_BUSY, "the server is stopping");
    if (f->writing == WRITERS_MAX)
        return err_make(ERR_BUSY, "%d artifacts are being uploaded, which is the most there may be",
                        WRITERS_MAX);
    w->files = f;
    w->work.data = w;
    w->fd = -1;
    TRY(reserve(f, w, w->announced > 0 ? (uint64_t)w->announced : 0));
    snprintf(w->name, sizeof w->name, "%016llx%016llx", (unsigned long long)rng_next(&f->rng),
             (unsigned long long)rng_next(&f->rng));
    strmap_put(&f->unsettled, str_from(w->name), w);
    list_append(&f->writers, &w->node);
    f->writing++;
    return err_none();
}

static struct err check_size(const struct tc_file_writer *w, bool whole)
{
    uint64_t announced = (uint64_t)w->announced;
    if (w->announced < 0 || (whole ? w->size == announced : w->size <= announced))
        return err_none();
    return err_make(ERR_BAD_VALUE, "The upload was announced with %llu bytes and has %s.",
                    (unsigned long long)announced, whole ? "fewer" : "more");
}

bool tc_file_writer_add(struct tc_file_writer *w, struct str bytes)
{
    struct tc_files *f = w->files;
    must(!w->finishing);
    if (w->aborted)
        return true;
    w->size += bytes.len;
    struct err err = check_size(w, false);
    if (err.code == ERR_OK)
        err = reserve(f, w, w->size);
    if (err.code != ERR_OK) {
        tc_file_writer_abort(w, err);
        return true;
    }
    buf_str(&w->filling, bytes);
    f->buffered += bytes.len;
    if (!w->busy && (w->filling.len >= PIECE || f->buffered > BUFFERED_MAX))
        write_on(w);
    w->full = w->ready && is_full(w);
    return !w->full;
}

void tc_file_writer_finish(struct tc_file_writer *w)
{
    struct err err = check_size(w, true);
    if (w->aborted)
        return;
    if (err.code != ERR_OK) {
        tc_file_writer_abort(w, err);
        return;
    }
    w->finishing = true;
    if (!w->busy)
        write_on(w);
}

void tc_file_writer_abort(struct tc_file_writer *w, struct err why)
{
    if (w->aborted || w->finishing)
        return;
    w->aborted = true;
    w->why = why;
    if (!w->busy)
        run(w, remove_job);
}
