/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_foreign.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/folder.h"
#include "base/must.h"
#include "postgres/pg_log.h"
#include "postgres/pg_shard.h"
#include "store/copy_mark.h"
#include "store/record.h"
#include "store/records.h"
#include "store/records_check.h"
#include "store/rocks_internal.h"
#include "store/rocks_manifest.h"
#include "store/row_sum.h"

#define LOAD_BYTES ((size_t)1024 * 1024)

struct foreign {
    struct rocks_foreign settings;
    char *root;
    struct copy_mark mark;    /* of what is written: cluster, shard and epoch */
    uint64_t opened_at;       /* batches after this one are the store's own */
    _Atomic uint64_t applied; /* the last batch that tables have */
    _Atomic bool full;        /* PostgreSQL had no room for the last batch that it was sent */
    struct records *records;
    struct rocks_foreign_state state; /* of the opening */
    /* While loading: */
    struct pg *pg;
    size_t bytes;
    struct batch damaged; /* keys of records that were left out */
};

struct foreign *rocks_foreign_new(const struct rocks_settings *settings)
{
    struct foreign *f = ALLOC(struct foreign);
    f->settings = *settings->foreign;
    f->settings.log.begin = false;
    f->settings.log.all = true;
    f->root = alloc_text(settings->dir, strlen(settings->dir));
    return f;
}

void rocks_foreign_free(struct foreign *f)
{
    if (f) {
        free(f->root);
        batch_fini(&f->damaged);
    }
    free(f);
}

/* Whoever waits for the opening may go on waiting. */
void rocks_foreign_works(const struct rocks *r)
{
    const struct rocks_foreign *s = &r->foreign->settings;
    if (s->works)
        s->works(s->log.ctx);
}

/* --- the mark --- */

void rocks_foreign_mark(const struct rocks *r, uint64_t number, struct writer *w)
{
    struct copy_mark m = r->foreign->mark;
    m.own = number > r->foreign->opened_at;
    m.held = r->held;
    copy_mark_write(&m, w);
}

NODISCARD static struct err get_mark(struct rocks *r, bool *found, struct copy_mark *m)
{
    char *text = NULL;
    size_t len;
    char *at = rocksdb_get(r->db, r->reading, "S", 1, &len, &text);
    *found = at && copy_mark_read((struct str){at, len}, m);
    rocksdb_free(at);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

/* --- the copy --- */

/* A root directory that has jobs of its own is none of a copy. */
NODISCARD static struct err make_folders(const struct rocks *r)
{
    struct rocks_manifest m;
    const char *root = r->foreign->root;
    TRY(folder_make(root, 0700)); /* for artifacts and what is set aside; the copy may go */
    TRY(rocks_manifest_find(root, &m));
    if (m.number)
        return err_make(ERR_USAGE,
                        "%.150s has jobs of a server without PostgreSQL: name another folder, "
                        "which will be created; `tenax postgres import` brings jobs to PostgreSQL",
                        root);
    if (mkdir(r->dir, 0700) != 0 && errno != EEXIST)
        return folder_error("make", r->dir);
    return err_none();
}

NODISCARD static struct err open_anew(struct rocks *r)
{
    rocks_close_db(r);
    r->hurt = 0;
    TRY(folder_remove(r->dir));
    TRY(make_folders(r));
    return rocks_open_db(r);
}

NODISCARD static struct err set_aside(struct rocks *r, const struct copy_mark *m)
{
    struct buf name = {0};
    rocks_close_db(r);
    buf_print(&name, "%s-lost-%" PRIu64 "-%" PRIu64, r->dir, m->epoch, m->number);
    buf_byte(&name, '\0');
    struct err e = rename(r->dir, name.at) == 0 ? folder_sync(r->foreign->root)
                                                : folder_error("rename", r->dir);
    if (e.code == ERR_OK)
        log_warn("what PostgreSQL has lost is set aside in %s", name.at);
    buf_fini(&name);
    TRY(e);
    TRY(make_folders(r));
    return rocks_open_db(r);
}

/* --- loading --- */

NODISCARD static struct err write_loaded(struct rocks *r)
{
    char *text = NULL;
    rocksdb_write(r->db, r->unlogged, r->writes, &text);
    rocksdb_writebatch_clear(r->writes);
    r->foreign->bytes = 0;
    rocks_foreign_works(r);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

/* One whose bytes are not what was written is left out: what the log has may make up for it. */
static struct err load_record(void *ctx, const struct pg_record *record)
{
    struct rocks *r = ctx;
    const struct str key = record->key, value = record->value;
    r->foreign->state.loaded++;
    if (!row_sum_is_right_of_record(record)) {
        batch_delete(&r->foreign->damaged, key);
        return err_none();
    }
    rocksdb_writebatch_put(r->writes, key.at, key.len, value.at, value.len);
    r->foreign->bytes += key.len + value.len;
    return r->foreign->bytes >= LOAD_BYTES ? write_loaded(r) : err_none();
}

/* The mark is the last that is written: without it the tables are nothing. */
NODISCARD static struct err load(struct rocks *r, uint64_t flushed)
{
    struct foreign *f = r->foreign;
    struct err e = pg_records_each(f->pg, f->settings.log.shard, load_record, r);
    if (e.code == ERR_OK) {
        rocks_number_put(r, flushed);
        e = write_loaded(r);
    }
    rocksdb_writebatch_clear(r->writes);
    return e;
}

/* --- deciding --- */

NODISCARD static struct err err_of_lost(const struct rocks *r, const struct copy_mark *m,
                                        const struct pg_log_place *p)
{
    return err_make(ERR_POSTGRES_LOST,
                    "PostgreSQL is at batch %" PRIu64 " and lacks batch %" PRIu64
                    " of epoch %" PRIu64 ", which %.120s has: a fail-over or a restore has lost "
                    "commits; bring them back, or accept that loss",
                    p->seq, m->number, m->epoch, r->dir);
}

/* A reopen: what was acknowledged since the start, the copy may have forgotten, which is never
 * synced. */
NODISCARD static struct err check_acknowledged(const struct rocks *r, const struct pg_log_place *p)
{
    if (p->seq >= r->committed)
        return err_none();
    return err_make(ERR_POSTGRES_LOST,
                    "PostgreSQL is at batch %" PRIu64 ", and %" PRIu64
                    " was acknowledged: a fail-over or a restore has lost commits",
                    p->seq, r->committed);
}

NODISCARD static struct err connect(struct foreign *f)
{
    struct pg_settings s = f->settings.log.pg;
    s.purpose = "load";
    TRY(pg_open(&s, &f->pg));
    if (f->settings.log.owned_until)
        pg_until_asked(f->pg, f->settings.log.owned_until, f->settings.log.ctx);
    return err_none();
}

static void take_mark(struct rocks *r, const struct pg_log_place *p)
{
    struct foreign *f = r->foreign;
    if (f->mark.epoch == 0)    /* not by a reopen */
        f->opened_at = p->seq; /* nobody else commits in this epoch */
    memcpy(f->mark.cluster, p->cluster, sizeof p->cluster);
    f->mark.shard = (uint64_t)f->settings.log.shard;
    f->mark.epoch = f->settings.log.epoch;
}

/* --- the log --- */

NODISCARD static struct err open_log(struct rocks *r, uint64_t from)
{
    struct log_postgres_settings s = r->foreign->settings.log;
    s.from = from;
    s.pg.purpose = "log";
    TRY(log_postgres_open(&s, &r->log));
    uint64_t last = log_durable(r->log);
    r->foreign->state.replayed = last + 1 - from;
    r->logged = 0;
    TRY(rocks_log_apply(r, from));
    r->reached = r->number = r->committed = last;
    r->tables = from - 1;
    atomic_store(&r->foreign->applied, last);
    return err_none();
}

/* Whose record it is, and which part; false: it is none of a job's that must not be missing. */
static bool part_of_job(struct str key, struct id *id, enum apart_part *part)
{
    enum note_kind kind;
    if (record_key_is_job(key, id))
        *part = APART_JOB;
    else if (record_key_is_state(key, id))
        *part = APART_STATE;
    else if (record_key_is_payload(key, id))
        *part = APART_PAYLOAD;
    else if (record_key_is_note(key, id, &kind))
        *part = APART_NOTE;
    else
        return false;
    return true;
}

static void name_record(struct str key)
{
    struct buf name = {0};
    records_check_name(key, &name);
    log_error(
        "damage in PostgreSQL: the %.*s does not have its checksum, its bytes are not what was "
        "written, and it is left out",
        STR_ARG(buf_view(&name)));
    buf_fini(&name);
}

/* What the log has not brought back is lost. */
NODISCARD static struct err set_damaged_apart(struct rocks *r)
{
    struct batch *keys = &r->foreign->damaged, apart = {0};
    struct buf value = {0};
    struct err e = err_none();
    bool found;
    for (size_t i = 0; i < keys->count && e.code == ERR_OK; i++) {
        struct id id;
        struct record_apart part = {.part = APART_JOB};
        e = rocks_get(&r->base, keys->ops[i].key, &found, &value);
        if (e.code != ERR_OK || found)
            continue;
        name_record(keys->ops[i].key);
        if (part_of_job(keys->ops[i].key, &id, &part.part))
            record_put_apart(&apart, id, &part);
    }
    for (size_t i = 0; i < apart.count; i++)
        rocksdb_writebatch_put(r->writes, apart.ops[i].key.at, apart.ops[i].key.len,
                               apart.ops[i].value.at, apart.ops[i].value.len);
    if (e.code == ERR_OK)
        e = write_loaded(r);
    batch_fini(&apart);
    buf_fini(&value);
    return e;
}

NODISCARD static struct err make_anew(struct rocks *r, uint64_t flushed)
{
    r->foreign->state.loaded = 0;
    batch_reset(&r->foreign->damaged);
    TRY(open_anew(r));
    TRY(load(r, flushed));
    TRY(open_log(r, flushed + 1));
    return set_damaged_apart(r);
}

/* A gap in the log, or records of two moments, are what another server leaves that has taken the
 * shard meanwhile. */
NODISCARD static struct err err_of_opening(struct rocks *r, struct err e)
{
    struct foreign *f = r->foreign;
    uint64_t seq;
    if (e.code != ERR_CORRUPT)
        return e;
    pg_close(f->pg);
    f->pg = NULL;
    TRY(connect(f));
    TRY(pg_shard_settle(f->pg, f->settings.log.shard, f->settings.log.epoch, &seq));
    return e;
}

/* Whatever an opening has come to after the end of the lease does not count. */
NODISCARD static struct err check_owned(const struct foreign *f, struct err e)
{
    const struct log_postgres_settings *s = &f->settings.log;
    if (e.code == ERR_POSTGRES_LOST || !s->owned_until || pg_now().ns < s->owned_until(s->ctx).ns)
        return e;
    return err_make(ERR_FENCED, "the lease ended before the store was open");
}

/* --- opening --- */

/* Damage is no error here. */
NODISCARD static struct err look_at_copy(struct rocks *r, bool *found, struct copy_mark *m)
{
    *found = false;
    TRY(make_folders(r));
    struct err e = rocks_open_db(r);
    if (e.code == ERR_OK)
        e = get_mark(r, found, m);
    r->foreign->state.start = ROCKS_FOREIGN_KEPT;
    if (e.code == ERR_CORRUPT || r->hurt) {
        log_warn("the copy of PostgreSQL's records is made anew: %s", e.msg);
        r->foreign->state.start = ROCKS_FOREIGN_DAMAGED;
        *found = false;
        return err_none();
    }
    return e;
}

/* Whether the copy could be brought up to date. */
NODISCARD static struct err bring_up_to_date(struct rocks *r, const struct copy_mark *m, bool *done)
{
    if (!r->held_known)
        r->held = m->held;
    struct err e = open_log(r, m->number + 1);
    *done = e.code == ERR_OK;
    if (e.code != ERR_CORRUPT && !r->hurt)
        return e;
    r->foreign->state.start = r->hurt ? ROCKS_FOREIGN_DAMAGED : ROCKS_FOREIGN_STALE;
    return err_none();
}

NODISCARD static struct err open_copy(struct rocks *r)
{
    struct foreign *f = r->foreign;
    struct copy_mark m = {0};
    struct pg_log_place p;
    bool found, done = false;
    TRY(look_at_copy(r, &found, &m));
    TRY(connect(f));
    TRY(pg_log_place(f->pg, f->settings.log.shard, m.epoch, &p));
    TRY(check_acknowledged(r, &p));
    take_mark(r, &p);
    f->state.acceptance = copy_mark_acceptance(&p);
    if (f->state.start == ROCKS_FOREIGN_KEPT)
        f->state.start = copy_mark_judge(found ? &m : NULL, f->settings.log.shard, &p);
    if (f->state.start == ROCKS_FOREIGN_LOST) {
        if (!f->settings.accept_loss && m.epoch > p.accepted)
            return err_of_lost(r, &m, &p);
        TRY(set_aside(r, &m));
    }
    if (f->state.start == ROCKS_FOREIGN_KEPT)
        TRY(bring_up_to_date(r, &m, &done));
    if (!done)
        TRY(make_anew(r, p.flushed));
    f->state.flushed = p.flushed;
    return err_none();
}

/* --- records --- */

static struct rocks *store_of(void *ctx)
{
    return ctx;
}

static uint64_t upto(void *ctx)
{
    return atomic_load(&store_of(ctx)->foreign->applied);
}

static uint64_t held(void *ctx)
{
    return store_of(ctx)->held;
}

static struct err get(void *ctx, struct str key, bool *found, struct buf *value)
{
    return rocks_get(&store_of(ctx)->base, key, found, value);
}

static struct err each(void *ctx, struct err (*fn)(void *to, struct str key), void *to)
{
    struct rocks *r = store_of(ctx);
    char *text = NULL;
    struct err e = err_none();
    rocksdb_readoptions_t *how = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(how, 0);
    rocksdb_iterator_t *it = rocksdb_create_iterator(r->db, how);
    for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it) && e.code == ERR_OK;
         rocksdb_iter_next(it)) {
        struct str key;
        key.at = rocksdb_iter_key(it, &key.len);
        e = rocks_number_is(key) ? err_none() : fn(to, key);
    }
    rocksdb_iter_get_error(it, &text);
    rocksdb_iter_destroy(it);
    rocksdb_readoptions_destroy(how);
    struct err read = rocks_err_of_tables(r, text, ERR_STORE);
    return e.code == ERR_OK ? read : e;
}

/* What is in memory goes to tables: whatever the log then lets go of is there. */
static void rotated(void *ctx)
{
    struct err e = rocks_flush_elsewhere(store_of(ctx), false);
    (void)e; /* the next commit meets it, too */
}

NODISCARD static struct err start_records(struct rocks *r)
{
    const struct foreign *f = r->foreign;
    struct records_settings s = {.pg = f->settings.log.pg,
                                 .shard = f->settings.log.shard,
                                 .epoch = f->settings.log.epoch,
                                 .flush_after = f->settings.flush_after,
                                 .log_bytes = f->settings.log_bytes,
                                 .upto = upto,
                                 .held = held,
                                 .get = get,
                                 .each = each,
                                 .rotated = rotated,
                                 .ctx = r};
    return records_new(&s, f->state.flushed, &r->foreign->records);
}

/* --- for the store --- */

struct err rocks_foreign_open(struct rocks *r)
{
    struct foreign *f = r->foreign;
    struct err e = open_copy(r);
    if (e.code != ERR_OK)
        e = err_of_opening(r, e);
    pg_close(f->pg);
    f->pg = NULL;
    TRY(check_owned(f, e));
    r->hurt = 0;
    r->has_log = true;
    return start_records(r);
}

void rocks_foreign_stop(struct rocks *r)
{
    if (!r->foreign)
        return;
    records_free(r->foreign->records);
    r->foreign->records = NULL;
}

void rocks_foreign_note(struct rocks *r)
{
    atomic_store(&r->foreign->applied, r->committed);
}

void rocks_foreign_judge(struct rocks *r, const struct err *logged)
{
    if (r->foreign)
        atomic_store(&r->foreign->full, logged->code == ERR_DISK_FULL);
}

bool rocks_foreign_is_full(struct store *s)
{
    return atomic_load(&rocks_of(s)->foreign->full);
}

void rocks_foreign_state(struct store *s, struct rocks_foreign_state *out)
{
    struct rocks *r = rocks_of(s);
    must(r->foreign);
    *out = r->foreign->state;
    out->seq = r->number;
    struct records_state records;
    if (!r->foreign->records)
        return;
    records_state(r->foreign->records, &records);
    out->flushed = records.flushed;
    out->lag = records.lag;
    out->written = records.written;
    out->removed = records.removed;
    out->log_bytes = records.log_bytes;
    out->failure = records.failure;
}
