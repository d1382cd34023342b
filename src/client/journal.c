/* SPDX-License-Identifier: Apache-2.0 */
#include "client/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "client/view.h"

#define FILE_NAME    "journal"
#define NEW_NAME     "journal.new"
#define FILE_MAX     ((off_t)1 << 30)
#define GARBAGE_MIN  ((size_t)1 << 20) /* bytes of dead lines that are worth a new file */
#define SPARE_MAX    ((size_t)1 << 20) /* bytes of a buffer that is worth keeping */
#define RETRY_MS     1000
#define CHECK_DIGITS 16
#define CHECK_SEED   0x74656e6178u /* of the checksum: part of the format */
#define LINE_MIN     (CHECK_DIGITS + 1)
#define GONE_LINE    48 /* bytes of a line that says that a record is gone, at most */

struct journal {
    uv_loop_t *loop;
    char *dir;
    void (*changed)(void *ctx);
    void *ctx;
    struct list records;    /* in the order of their numbers */
    struct idmap by_number; /* of the records while the file is read; else empty */
    const char *reading;    /* the file, meanwhile */
    bool lean;
    uint64_t next_number;
    struct buf waiting;  /* lines to be written next */
    uint64_t waiting_to; /* the number of the newest record in them, or 0 */
    size_t live;         /* bytes of lines of records that are there */

    /* Of the thread while busy. */
    int dir_fd, fd;
    int new_fd;       /* of the file that has replaced the other one; -1: none */
    off_t size;       /* of the file, of what is synced */
    struct buf batch; /* what is being written */
    bool anew;        /* into a file that replaces the other one */
    int error;        /* errno */
    bool sync_failed;

    uint64_t batch_to;
    bool busy, full;
    bool owes_anew; /* a new file could not be written; the records wait for it */
    uv_work_t work;
    uv_timer_t retry;
};

/* --- lines --- */

void journal_line(struct buf *b, uint64_t number, struct str json)
{
    struct buf line = {0};
    if (json.len)
        buf_print(&line, "{\"n\":%" PRIu64 ",\"is\":%.*s}", number, STR_ARG(json));
    else
        buf_print(&line, "{\"gone\":%" PRIu64 "}", number);
    buf_print(b, "%016" PRIx64 " %.*s\n", strmap_hash(CHECK_SEED, buf_view(&line)),
              STR_ARG(buf_view(&line)));
    buf_fini(&line);
}

static size_t line_len(const struct journal_record *r)
{
    return r->len + GONE_LINE;
}

/* What stands before the text of a record. */
static size_t head_len(uint64_t number)
{
    return LINE_MIN + (size_t)snprintf(NULL, 0, "{\"n\":%" PRIu64 ",\"is\":", number);
}

static bool check_line(struct str line, struct str *json)
{
    char digits[CHECK_DIGITS + 1], *end;
    if (line.len <= LINE_MIN || line.at[CHECK_DIGITS] != ' ')
        return false;
    memcpy(digits, line.at, CHECK_DIGITS);
    digits[CHECK_DIGITS] = '\0';
    errno = 0;
    uint64_t sum = strtoull(digits, &end, 16);
    *json = (struct str){line.at + LINE_MIN, line.len - LINE_MIN};
    return *end == '\0' && errno == 0 && sum == strmap_hash(CHECK_SEED, *json);
}

static bool read_line(struct str line, const struct journal_reader *r)
{
    struct str json, is;
    int64_t number;
    if (!check_line(line, &json) || view_check(json, NULL).code != ERR_OK)
        return false;
    if (view_int(json, "gone", &number) && number > 0) {
        r->gone(r->ctx, (uint64_t)number);
        return true;
    }
    is = view_get(json, "is");
    if (!view_int(json, "n", &number) || number <= 0 || !is.len)
        return false;
    r->is(r->ctx, (uint64_t)number, is);
    return true;
}

size_t journal_read(struct str file, const struct journal_reader *r)
{
    size_t damaged = 0;
    while (file.len) {
        const char *nl = memchr(file.at, '\n', file.len);
        size_t n = nl ? (size_t)(nl - file.at) : file.len;
        /* A line without its end is not a line, whatever its checksum. */
        if (!nl || !read_line((struct str){file.at, n}, r))
            damaged++;
        n += nl != NULL;
        file = (struct str){file.at + n, file.len - n};
    }
    return damaged;
}

/* --- the thread's part --- */

static bool write_all(struct journal *j, int fd, off_t at)
{
    for (size_t done = 0; done < j->batch.len;) {
        ssize_t n = pwrite(fd, j->batch.at + done, j->batch.len - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            j->error = n < 0 ? errno : EIO;
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

static bool sync_it(struct journal *j, int fd)
{
    if (fsync(fd) == 0)
        return true;
    j->error = errno;
    j->sync_failed = true;
    return false;
}

static void append(struct journal *j)
{
    if (!write_all(j, j->fd, j->size)) {
        /* What is half written is not to stand before the next try. */
        if (ftruncate(j->fd, j->size) != 0)
            j->sync_failed = true;
        return;
    }
    if (sync_it(j, j->fd))
        j->size += (off_t)j->batch.len;
}

static void replace(struct journal *j)
{
    int fd = openat(j->dir_fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        j->error = errno;
        return;
    }
    if (!write_all(j, fd, 0) || !sync_it(j, fd) ||
        (renameat(j->dir_fd, NEW_NAME, j->dir_fd, FILE_NAME) != 0 && (j->error = errno))) {
        close(fd);
        return;
    }
    /* Until the folder is synced a power cut may bring the old file back, which lacks what is
     * added next. The loop may be reading the old one. */
    j->new_fd = fd;
    j->size = (off_t)j->batch.len;
    sync_it(j, j->dir_fd);
}

static void write_batch(uv_work_t *w)
{
    struct journal *j = w->data;
    j->error = 0;
    if (j->anew)
        replace(j);
    else
        append(j);
}

/* --- the loop's part --- */

static void begin_batch(struct journal *j);

static void end_if_unsafe(struct journal *j)
{
    if (!j->sync_failed)
        return;
    log_error("%s/%s: cannot sync: %s; ending, for nobody knows what the disk has", j->dir,
              FILE_NAME, strerror(j->error));
    _exit(1);
}

static void leave_text(const struct journal *j, struct journal_record *r)
{
    if (!j->lean)
        return;
    free(r->text);
    r->text = NULL;
}

/* Those of the batch are the newest but for what came in meanwhile; it stands at the file's end. */
static void mark_kept(struct journal *j)
{
    off_t base = j->size - (off_t)j->batch.len;
    for (struct list *n = j->records.prev; n != &j->records; n = n->prev) {
        struct journal_record *r = LIST_OF(n, struct journal_record, node);
        if (r->kept)
            return;
        if (r->number > j->batch_to)
            continue;
        r->kept = true;
        r->at += base;
        leave_text(j, r);
    }
}

/* All records but the newest are in the new file. */
static void move_to_new_file(struct journal *j)
{
    close(j->fd);
    j->fd = j->new_fd;
    j->new_fd = -1;
    LIST_EACH (n, &j->records) {
        struct journal_record *r = LIST_OF(n, struct journal_record, node);
        if (r->number > j->batch_to)
            return;
        r->kept = true;
        r->at = r->anew;
        leave_text(j, r);
    }
}

/* The batch goes before what waits, which therefore stands further behind. */
static void put_back(struct journal *j)
{
    for (struct list *n = j->records.prev; n != &j->records; n = n->prev) {
        struct journal_record *r = LIST_OF(n, struct journal_record, node);
        if (r->kept || r->number <= j->batch_to)
            break;
        r->at += (off_t)j->batch.len;
    }
    buf_str(&j->batch, buf_view(&j->waiting));
    struct buf spare = j->waiting;
    j->waiting = j->batch;
    j->batch = spare;
    j->waiting_to = j->waiting_to ? j->waiting_to : j->batch_to;
}

/* The batch is written; or it is not, and goes before what came in meanwhile. */
static bool settle(struct journal *j)
{
    end_if_unsafe(j);
    if (j->error) {
        if (!j->full)
            log_error("%s/%s: %s; trying again until it can be written", j->dir, FILE_NAME,
                      strerror(j->error));
        j->full = true;
        j->owes_anew = j->anew;
        if (!j->anew)
            put_back(j);
        j->batch.len = 0;
        return false;
    }
    if (j->full)
        log_info("%s/%s: can be written again", j->dir, FILE_NAME);
    j->full = j->owes_anew = false;
    if (j->anew)
        move_to_new_file(j);
    else
        mark_kept(j);
    if (j->batch.cap > SPARE_MAX)
        buf_fini(&j->batch);
    j->batch.len = 0;
    return true;
}

static void on_retry(uv_timer_t *t)
{
    begin_batch(t->data);
}

static void on_written(uv_work_t *w, int status)
{
    struct journal *j = w->data;
    (void)status;
    j->busy = false;
    if (!settle(j)) {
        uv_timer_start(&j->retry, on_retry, RETRY_MS, 0);
        return;
    }
    begin_batch(j);
    if (j->changed)
        j->changed(j->ctx);
}

/* A kept record's line as it is on disk. */
static struct str fetch_line(const struct journal *j, const struct journal_record *r,
                             struct buf *out)
{
    size_t want = head_len(r->number) + r->len + strlen("}\n"), done = 0, before = out->len;
    char *to = buf_room(out, want);
    ssize_t n = 1;
    while (done < want && (n > 0 || (n < 0 && errno == EINTR))) {
        n = pread(j->fd, to + done, want - done, r->at + (off_t)done);
        done += n > 0 ? (size_t)n : 0;
    }
    if (done < want) {
        log_error("%s/%s: cannot be read: %s; ending", j->dir, FILE_NAME,
                  n < 0 ? strerror(errno) : "it is too short");
        _exit(1);
    }
    out->len += want;
    return (struct str){out->at + before, want};
}

/* A new file has every record that is there, the waiting ones too. */
static void fill_anew(struct journal *j)
{
    j->batch.len = j->waiting.len = 0;
    LIST_EACH (n, &j->records) {
        struct journal_record *r = LIST_OF(n, struct journal_record, node);
        r->anew = (off_t)j->batch.len;
        if (r->text)
            journal_line(&j->batch, r->number, journal_text(r));
        else
            fetch_line(j, r, &j->batch);
    }
    j->batch_to = j->next_number - 1;
    j->waiting_to = 0;
}

static bool is_mostly_dead(const struct journal *j)
{
    size_t size = (size_t)j->size + j->waiting.len;
    return size > GARBAGE_MIN && size / 2 > j->live;
}

static void fill_batch(struct journal *j)
{
    j->anew = j->owes_anew || is_mostly_dead(j);
    if (j->anew) {
        fill_anew(j);
        return;
    }
    struct buf spare = j->batch;
    j->batch = j->waiting;
    j->waiting = spare;
    j->waiting.len = 0;
    j->batch_to = j->waiting_to;
    j->waiting_to = 0;
}

static void begin_batch(struct journal *j)
{
    if (j->busy || (j->waiting.len == 0 && !j->owes_anew) || uv_is_active((uv_handle_t *)&j->retry))
        return;
    fill_batch(j);
    j->busy = true;
    j->work.data = j;
    must(uv_queue_work(j->loop, &j->work, write_batch, on_written) == 0);
}

struct list *journal_records(struct journal *j)
{
    return &j->records;
}

void journal_fetch(const struct journal *j, const struct journal_record *r, struct buf *out)
{
    struct buf line = {0};
    struct str json;
    if (r->text) {
        buf_str(out, journal_text(r));
        return;
    }
    struct str whole = fetch_line(j, r, &line);
    if (!check_line((struct str){whole.at, whole.len - 1}, &json)) {
        log_error("%s/%s: what is kept has changed on disk; ending", j->dir, FILE_NAME);
        _exit(1);
    }
    buf_add(out, whole.at + head_len(r->number), r->len);
    buf_fini(&line);
}

static struct journal_record *new_record(struct journal *j, uint64_t number, struct str json)
{
    struct journal_record *r = ALLOC(struct journal_record);
    r->number = number;
    r->len = (uint32_t)json.len;
    list_init(&r->node);
    list_append(&j->records, &r->node);
    j->live += line_len(r);
    return r;
}

struct journal_record *journal_add(struct journal *j, struct str json)
{
    must(json.len > 0 && json.len < UINT32_MAX && !memchr(json.at, '\n', json.len));
    struct journal_record *r = new_record(j, j->next_number++, json);
    r->text = alloc_text(json.at, json.len);
    r->at = (off_t)j->waiting.len;
    journal_line(&j->waiting, r->number, json);
    j->waiting_to = r->number;
    begin_batch(j);
    return r;
}

static void drop_record(struct journal *j, struct journal_record *r)
{
    j->live -= line_len(r);
    list_unlink(&r->node);
    free(r->text);
    free(r);
}

void journal_remove(struct journal *j, struct journal_record *r)
{
    journal_line(&j->waiting, r->number, (struct str){0});
    drop_record(j, r);
    begin_batch(j);
}

/* --- opening and closing --- */

static void on_is(void *ctx, uint64_t number, struct str json)
{
    struct journal *j = ctx;
    if (number < j->next_number)
        return; /* a line that was doubled by hand */
    struct journal_record *r = new_record(j, number, json);
    r->kept = true;
    r->at = json.at - j->reading - (off_t)head_len(number);
    if (!j->lean)
        r->text = alloc_text(json.at, json.len);
    j->next_number = number + 1;
    idmap_put(&j->by_number, (struct id){0, number}, r);
}

static void on_gone(void *ctx, uint64_t number)
{
    struct journal *j = ctx;
    struct journal_record *r = idmap_remove(&j->by_number, (struct id){0, number});
    if (r)
        drop_record(j, r);
}

static struct err read_file(struct journal *j)
{
    struct stat st;
    if (fstat(j->fd, &st) != 0)
        return err_make(ERR_IO, "%.100s/%s: %s", j->dir, FILE_NAME, strerror(errno));
    if (st.st_size > FILE_MAX)
        return err_make(ERR_CORRUPT, "%.100s/%s: %lld bytes are too many for a journal", j->dir,
                        FILE_NAME, (long long)st.st_size);
    struct buf b = {0};
    buf_room(&b, (size_t)st.st_size + 1);
    ssize_t n;
    while (b.len < (size_t)st.st_size &&
           (n = pread(j->fd, b.at + b.len, (size_t)st.st_size - b.len, (off_t)b.len)) > 0)
        b.len += (size_t)n;
    bool whole = b.len == (size_t)st.st_size;
    j->reading = b.at;
    size_t damaged = journal_read(buf_view(&b), &(struct journal_reader){on_is, on_gone, j});
    idmap_fini(&j->by_number);
    buf_fini(&b);
    if (!whole)
        return err_make(ERR_IO, "%.100s/%s: cannot be read", j->dir, FILE_NAME);
    if (damaged)
        log_warn("%s/%s: passed over %zu lines, which a crash cut off", j->dir, FILE_NAME, damaged);
    return err_none();
}

/* Lines that a crash cut off must not run into those that come. */
static struct err begin_anew(struct journal *j)
{
    fill_anew(j);
    j->error = 0;
    replace(j);
    buf_fini(&j->batch);
    if (j->error)
        return err_make(ERR_IO, "%.100s/%s: %s", j->dir, FILE_NAME, strerror(j->error));
    move_to_new_file(j);
    return err_none();
}

static struct err open_files(struct journal *j)
{
    TRY(folder_make_all(j->dir, 0700));
    j->dir_fd = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->dir_fd < 0)
        return err_make(ERR_IO, "%.120s: %s", j->dir, strerror(errno));
    if (flock(j->dir_fd, LOCK_EX | LOCK_NB) != 0)
        return err_make(ERR_LOCKED, "%.120s: another process with these flags is running", j->dir);
    j->fd = openat(j->dir_fd, FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->fd < 0)
        return err_make(ERR_IO, "%.100s/%s: %s", j->dir, FILE_NAME, strerror(errno));
    TRY(read_file(j));
    return begin_anew(j);
}

static void free_journal(struct journal *j)
{
    while (!list_is_empty(&j->records))
        drop_record(j, LIST_OF(j->records.next, struct journal_record, node));
    if (j->fd >= 0)
        close(j->fd);
    if (j->new_fd >= 0)
        close(j->new_fd);
    if (j->dir_fd >= 0)
        close(j->dir_fd);
    buf_fini(&j->waiting);
    buf_fini(&j->batch);
    free(j->dir);
    free(j);
}

static struct err open_it(uv_loop_t *loop, const char *dir, bool lean, void (*changed)(void *ctx),
                          void *ctx, struct journal **out)
{
    struct journal *j = ALLOC(struct journal);
    *j = (struct journal){.loop = loop,
                          .dir = alloc_text(dir, strlen(dir)),
                          .changed = changed,
                          .ctx = ctx,
                          .lean = lean,
                          .next_number = 1,
                          .dir_fd = -1,
                          .fd = -1,
                          .new_fd = -1};
    list_init(&j->records);
    struct err e = open_files(j);
    if (e.code != ERR_OK) {
        free_journal(j);
        return e;
    }
    must(uv_timer_init(loop, &j->retry) == 0);
    j->retry.data = j;
    *out = j;
    return err_none();
}

struct err journal_open(uv_loop_t *loop, const char *dir, void (*changed)(void *ctx), void *ctx,
                        struct journal **out)
{
    return open_it(loop, dir, false, changed, ctx, out);
}

struct err journal_open_lean(uv_loop_t *loop, const char *dir, void (*changed)(void *ctx),
                             void *ctx, struct journal **out)
{
    return open_it(loop, dir, true, changed, ctx, out);
}

static void on_closed(uv_handle_t *h)
{
    free_journal(h->data);
}

void journal_close(struct journal *j)
{
    j->changed = NULL;
    /* The thread has the files until it is done. */
    while (j->busy)
        uv_run(j->loop, UV_RUN_ONCE);
    uv_timer_stop(&j->retry);
    if (j->waiting.len || j->owes_anew) {
        fill_batch(j);
        write_batch(&(uv_work_t){.data = j});
        if (j->error)
            log_error("%s/%s: %s", j->dir, FILE_NAME, strerror(j->error));
    }
    uv_close((uv_handle_t *)&j->retry, on_closed);
}
