/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_salvage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "store/audit.h"
#include "store/batch_bytes.h"
#include "store/history_mark.h"
#include "store/index_file.h"
#include "store/log_segment.h"
#include "store/record.h"
#include "store/rocks_internal.h"

#define CACHE_BYTES ((uint64_t)32 * 1024 * 1024)
#define PIECE       ((size_t)1024 * 1024)

/* --- what there is --- */

/* Tables may be ahead of what was last noted of them. */
static void look_at_tables(const char *dir, uint64_t *tables)
{
    struct rocks_settings settings = {.dir = dir, .cache_bytes = CACHE_BYTES, .no_ring = true};
    struct rocks *r = rocks_new(&settings);
    char *text = NULL;
    bool found;
    uint64_t number;
    r->db = rocksdb_open_for_read_only(r->options, dir, 0, &text);
    if (text)
        r->db = NULL;
    rocksdb_free(text);
    if (r->db && rocks_number_get(r, r->flushed, &found, &number).code == ERR_OK &&
        number > *tables)
        *tables = number;
    rocks_free(r);
}

struct err rocks_salvage_survey(const char *dir, struct log_survey *out)
{
    bool found;
    struct inventory *inv = ALLOC(struct inventory);
    *out = (struct log_survey){0};
    struct err e = inventory_read(dir, &found, inv);
    bool known = e.code == ERR_OK && found && inv->has_log;
    uint64_t tables = known ? inv->is.tables : 0, reached = known ? inv->is.reached : 0;
    free(inv);
    if (e.code == ERR_IO)
        return e;
    look_at_tables(dir, &tables);
    return log_survey_make(dir, tables + 1, reached > tables ? reached : tables, out);
}

/* --- a copy of all but the log --- */

static bool is_left_out(const char *name)
{
    static const char *const names[] = {".",       "..", "LOCK", INVENTORY_FILE, INDEX_FILE_NAME,
                                        "snapshot"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, LOG_SEGMENT_PREFIX, strlen(LOG_SEGMENT_PREFIX)) == 0;
}

static struct err copy_bytes(int from, int to, const char *name)
{
    char *piece = alloc_get(PIECE);
    struct err e = err_none();
    ssize_t n;
    while (e.code == ERR_OK && (n = read(from, piece, PIECE)) != 0) {
        if (n < 0)
            e = folder_error("read", name);
        for (ssize_t done = 0; e.code == ERR_OK && done < n;) {
            ssize_t wrote = write(to, piece + done, (size_t)(n - done));
            if (wrote < 0)
                e = folder_error("copy", name);
            done += wrote > 0 ? wrote : 0;
        }
    }
    if (e.code == ERR_OK && fsync(to) != 0)
        e = folder_error("sync", name);
    free(piece);
    return e;
}

static struct err copy_file(int from_dir, int to_dir, const char *name, mode_t mode)
{
    int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC);
    int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    struct err e = from < 0 || to < 0 ? folder_error("copy", name) : copy_bytes(from, to, name);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return e;
}

static struct err copy_folder(int from, int to, bool top);

static struct err copy_entry(int from_dir, int to_dir, const char *name)
{
    struct stat st;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return folder_error("look at", name);
    if (S_ISREG(st.st_mode))
        return copy_file(from_dir, to_dir, name, st.st_mode);
    if (!S_ISDIR(st.st_mode))
        return err_none(); /* a server makes none */
    if (mkdirat(to_dir, name, st.st_mode & 0777) != 0)
        return folder_error("make", name);
    int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = from < 0 || to < 0 ? folder_error("copy", name) : copy_folder(from, to, false);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return e;
}

static struct err copy_folder(int from, int to, bool top)
{
    int fd = dup(from);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct err e = d ? err_none() : folder_error("read", "a folder");
    const struct dirent *entry;
    while (e.code == ERR_OK && (entry = readdir(d))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (top && is_left_out(name)))
            continue;
        e = copy_entry(from, to, name);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    if (e.code == ERR_OK && fsync(to) != 0)
        e = folder_error("sync", "a folder");
    return e;
}

static struct err copy_root(const char *dir, const char *to_dir)
{
    int from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int to = open(to_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = from < 0 || to < 0 ? folder_error("read", dir) : copy_folder(from, to, true);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return e;
}

/* Whoever may write everywhere has made the files of somebody who may not: the server's user. */
static struct err give_away(int folder, const struct stat *owner)
{
    int fd = dup(folder);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct err e = d ? err_none() : folder_error("read", "a folder");
    const struct dirent *entry;
    if (!d && fd >= 0)
        close(fd);
    if (e.code == ERR_OK && fchown(folder, owner->st_uid, owner->st_gid) != 0)
        e = folder_error("give away", "a folder");
    while (e.code == ERR_OK && (entry = readdir(d))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) {
            e = give_away(inner, owner);
            close(inner);
        } else if (fchownat(folder, name, owner->st_uid, owner->st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
            e = folder_error("give away", name);
        }
    }
    if (d)
        closedir(d);
    return e;
}

static struct err set_owner(const char *dir, const char *from)
{
    struct stat st;
    if (stat(from, &st) != 0)
        return folder_error("look at", from);
    if (chmod(dir, st.st_mode & 0777) != 0)
        return folder_error("set the mode of", dir);
    if (geteuid() != 0)
        return err_none();
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = fd < 0 ? folder_error("read", dir) : give_away(fd, &st);
    if (fd >= 0)
        close(fd);
    return e;
}

/* --- what the log has --- */

struct salvage {
    struct store *store;
    uint64_t last; /* number of the last batch that is there */
    struct batch batch;
    struct err failed;
    struct rocks_salvaged *out;
};

static struct err commit(struct salvage *s, bool sync)
{
    struct err result = err_none();
    store_commit(s->store, &s->batch, sync);
    store_wait(s->store);
    if (!store_reap(s->store, &result))
        result = err_make(ERR_STORE, "the new root directory takes no batch");
    batch_reset(&s->batch);
    return result;
}

static struct err gather(void *ctx, const struct batch_op *op)
{
    struct salvage *s = ctx;
    if (op->value.at)
        batch_put(&s->batch, op->key, op->value);
    else
        batch_delete(&s->batch, op->key);
    return err_none();
}

static struct err apply(void *ctx, uint64_t number, struct str bytes)
{
    struct salvage *s = ctx;
    TRY(batch_bytes_read(bytes, gather, s));
    s->out->batches++;
    return commit(s, number == s->last);
}

/* --- what was lost leaves some jobs without a part --- */

static void set_apart(void *ctx, const struct audit_problem *p)
{
    struct salvage *s = ctx;
    struct record_key key = record_apart_key(p->job);
    bool is_hurt = p->kind == AUDIT_ORPHAN || p->kind == AUDIT_PAYLOAD_MISSING ||
                   p->kind == AUDIT_RUN_MISSING || p->kind == AUDIT_RUN_UNEXPECTED ||
                   p->kind == AUDIT_BAD_STATE;
    if (!is_hurt || id_is_none(p->job) || batch_find(&s->batch, record_key_view(&key)))
        return;
    struct record_apart apart = {.part = p->kind == AUDIT_ORPHAN            ? APART_JOB
                                         : p->kind == AUDIT_PAYLOAD_MISSING ? APART_PAYLOAD
                                                                            : APART_STATE};
    record_put_apart(&s->batch, p->job, &apart);
    s->out->apart++;
}

static struct err mend_jobs(struct salvage *s)
{
    struct audit_counts counts;
    audit_run(s->store, set_apart, s, &counts);
    return s->out->apart ? commit(s, true) : err_none();
}

static void no_notice(void *ctx)
{
    (void)ctx;
}

static struct err fill_root(const char *from, const struct log_survey *survey, const char *dir,
                            struct rocks_salvaged *out)
{
    struct rocks_settings settings = {
        .dir = dir, .cache_bytes = CACHE_BYTES, .no_ring = true, .notify = no_notice};
    struct salvage s = {.out = out};
    if (survey->count)
        s.last = survey->batches[survey->count - 1].number;
    TRY(copy_root(from, dir));
    TRY(history_mark_make(dir)); /* numbers of events that are lost are given again */
    TRY(rocks_open(&settings, &s.store));
    struct err e = log_survey_read(survey, from, apply, &s);
    if (e.code == ERR_OK && survey->missing)
        e = mend_jobs(&s);
    store_close(s.store);
    batch_fini(&s.batch);
    return e;
}

static struct err make_beside(const char *into, struct buf *name)
{
    bool there, empty;
    TRY(folder_look(into, &there, &empty));
    if (there && !empty)
        return err_make(ERR_USAGE, "%.150s is not empty", into);
    size_t len = strlen(into);
    while (len > 1 && into[len - 1] == '/')
        len--;
    buf_print(name, "%.*s.salvage-XXXXXX", (int)len, into);
    buf_byte(name, '\0');
    return mkdtemp(name->at) ? err_none() : folder_error("make", name->at);
}

/* It would be copied into itself, and DIR is not to be changed. */
static struct err check_outside(const char *dir, const char *made)
{
    char outer[PATH_MAX], inner[PATH_MAX];
    if (!realpath(dir, outer) || !realpath(made, inner))
        return folder_error("look at", dir);
    size_t len = strlen(outer);
    if (strncmp(inner, outer, len) == 0 && (inner[len] == '/' || strcmp(outer, "/") == 0))
        return err_make(ERR_USAGE, "the new root directory cannot be in %.150s", dir);
    return err_none();
}

struct err rocks_salvage(const char *dir, const struct log_survey *survey, const char *into,
                         struct rocks_salvaged *out)
{
    struct buf beside = {0};
    *out = (struct rocks_salvaged){0};
    struct err e = make_beside(into, &beside);
    if (e.code != ERR_OK) {
        buf_fini(&beside);
        return e;
    }
    e = check_outside(dir, beside.at);
    if (e.code == ERR_OK)
        e = fill_root(dir, survey, beside.at, out);
    if (e.code == ERR_OK)
        e = set_owner(beside.at, dir);
    if (e.code == ERR_OK && rename(beside.at, into) != 0)
        e = folder_error("put in place", into);
    if (e.code == ERR_OK)
        e = folder_settle(into);
    if (e.code != ERR_OK) {
        struct err ignored = folder_remove(beside.at); /* the first error is the one to report */
        (void)ignored;
    }
    buf_fini(&beside);
    return e;
}
