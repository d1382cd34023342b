/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "taskcluster/tc_file_writer.h"
#include "taskcluster/tc_files_internal.h"

#define BLOCK       ((uint64_t)4096)
#define SWEEP_EVERY ((uint64_t)5 * 60 * 1000)
#define SWEEP_BATCH 128

uint64_t tc_files_charge(uint64_t size)
{
    return size ? (size + BLOCK - 1) / BLOCK * BLOCK : BLOCK;
}

void tc_files_path(const struct tc_files *f, const char *name, const char *ending,
                   char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s%s", f->dir, name, ending);
}

struct err tc_files_error(const char *what, const char *path)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_make(full ? ERR_DISK_FULL : ERR_IO, "cannot %s %.100s: %s", what, path,
                    strerror(errno));
}

void tc_files_run(struct tc_files *f, uv_work_t *work, uv_work_cb job, uv_after_work_cb after)
{
    f->jobs++;
    must(uv_queue_work(f->settings.loop, work, job, after) == 0);
}

void tc_files_ran(struct tc_files *f)
{
    f->jobs--;
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
    tc_files_path(f, name, "", path);
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
    tc_files_ran(r->files);
    if (r->gone)
        r->files->used -= tc_files_charge(r->size);
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
    tc_files_run(f, &r->work, remove_job, after_removal);
}

void tc_files_settle(struct tc_files *f, struct str name, uint64_t size, bool keep)
{
    strmap_remove(&f->unsettled, name);
    if (!keep)
        tc_files_remove(f, name, size);
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
    tc_files_ran(f);
    for (size_t i = 0; i < s->count; i++) {
        if (!s->list[i].orphan)
            continue;
        f->used -= tc_files_charge(s->list[i].size);
        s->removed++;
    }
    if (s->end || f->stopping)
        end_sweep(s);
    else
        tc_files_run(f, &s->work, list_job, after_list);
}

static void answered(struct sweep *s)
{
    if (--s->pending)
        return;
    if (s->files->stopping)
        end_sweep(s);
    else
        tc_files_run(s->files, &s->work, clear_job, after_clear);
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
    tc_files_ran(s->files);
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
    tc_files_run(f, &s->work, list_job, after_list);
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
        return errno == ENOENT ? err_none() : tc_files_error("read", f->dir);
    while ((entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        if (len == TC_FILE_NAME + strlen(TC_FILE_PART) &&
            strcmp(entry->d_name + TC_FILE_NAME, TC_FILE_PART) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
        else if (is_file_name(entry->d_name) && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            f->used += tc_files_charge((uint64_t)st.st_size);
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
    list_init(&f->writers);
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
    LIST_EACH (node, &f->writers)
        tc_file_writer_abort(LIST_OF(node, struct tc_file_writer, node),
                             err_make(ERR_BUSY, "the server is stopping"));
    while (f->jobs)
        uv_run(f->settings.loop, UV_RUN_ONCE);
}

void tc_files_read_stats(const struct tc_files *f, struct tc_files_stats *out)
{
    *out = (struct tc_files_stats){f->used, f->settings.space, (uint64_t)f->writing};
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
