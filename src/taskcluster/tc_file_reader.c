/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "taskcluster/tc_files_internal.h"

/* All of a file that is one piece is read, whatever is wanted of it, to be checked. */
static struct err begin_reading(struct tc_file_reader *r, const char *path)
{
    bool checked = r->size <= TC_FILE_READER_PIECE || r->until - r->from == r->size;
    r->at = checked ? 0 : r->from;
    r->end_at = checked ? r->size : r->until;
    if (r->at && lseek(r->fd, (off_t)r->at, SEEK_SET) < 0)
        return tc_files_error("read", path);
    if (checked) {
        r->hash = EVP_MD_CTX_new();
        must(r->hash && EVP_DigestInit_ex(r->hash, EVP_sha256(), NULL) == 1);
    }
    return err_none();
}

static struct err open_file(struct tc_file_reader *r, const char *path)
{
    struct stat st;
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return errno == ENOENT ? err_make(ERR_NOT_FOUND, "the bytes of the artifact are gone")
                               : tc_files_error("open", path);
    if (fstat(r->fd, &st) != 0)
        return tc_files_error("examine", path);
    if ((uint64_t)st.st_size != r->size)
        return err_make(ERR_CORRUPT, "%.100s has another size than it had", path);
    return begin_reading(r, path);
}

static struct err read_bytes(int fd, char *at, size_t len, const char *path)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(fd, at + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tc_files_error("read", path);
        if (n == 0)
            return err_make(ERR_CORRUPT, "%.100s is shorter than it was", path);
        got += (size_t)n;
    }
    return err_none();
}

static struct err check_hash(struct tc_file_reader *r, const char *path)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    char hex[TC_SHA256_HEX + 1];
    unsigned n;
    must(EVP_DigestFinal_ex(r->hash, out, &n) == 1);
    for (unsigned i = 0; i < n; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", out[i]);
    return strcmp(hex, r->sha256) == 0
               ? err_none()
               : err_make(ERR_CORRUPT, "%.100s is damaged: its SHA-256 has changed", path);
}

/* What is wanted of the piece at r->at. */
static struct str wanted_of(const struct tc_file_reader *r, size_t len)
{
    uint64_t skipped = r->from > r->at ? r->from - r->at : 0;
    uint64_t stop = r->until - r->at < len ? r->until - r->at : len;
    return (struct str){r->piece + skipped, (size_t)(stop - skipped)};
}

static struct err read_piece(struct tc_file_reader *r)
{
    char path[PATH_MAX];
    tc_files_path(r->files, r->name, "", path);
    if (r->fd < 0)
        TRY(open_file(r, path));
    uint64_t left = r->end_at - r->at;
    size_t len = left < TC_FILE_READER_PIECE ? (size_t)left : TC_FILE_READER_PIECE;
    r->piece = alloc_get(len + 1);
    TRY(read_bytes(r->fd, r->piece, len, path));
    must(!r->hash || EVP_DigestUpdate(r->hash, r->piece, len) == 1);
    r->bytes = wanted_of(r, len);
    r->at += len;
    r->end = r->at == r->end_at;
    return r->end && r->hash ? check_hash(r, path) : err_none();
}

static void read_job(uv_work_t *work)
{
    struct tc_file_reader *r = work->data;
    r->err = read_piece(r);
}

static void after_read(uv_work_t *work, int status)
{
    struct tc_file_reader *r = work->data;
    char *piece = r->piece;
    must(status == 0);
    tc_files_ran(r->files);
    if (r->err.code != ERR_OK && r->err.code != ERR_NOT_FOUND)
        log_error("taskcluster: %s", r->err.msg);
    r->read(r);
    free(piece);
}

void tc_file_reader_init(struct tc_files *f, struct tc_file_reader *r)
{
    r->files = f;
    r->fd = -1;
    r->work.data = r;
}

bool tc_file_reader_next(struct tc_file_reader *r)
{
    must(r->err.code == ERR_OK && !r->end && r->from <= r->until && r->until <= r->size);
    r->bytes = (struct str){0};
    r->piece = NULL;
    if (r->files->stopping)
        return false;
    tc_files_run(r->files, &r->work, read_job, after_read);
    return true;
}

void tc_file_reader_close(struct tc_file_reader *r)
{
    EVP_MD_CTX_free(r->hash);
    r->hash = NULL;
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}
