/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "postgres/pg_shard.h"
#include "servers_internal.h"
#include "store/batch_bytes.h"
#include "store/memory.h"
#include "trace.h"

enum phase { IDLE, UNDER_WAY, LOGGED, ENDED };

struct copies {
    struct store base;
    struct copy_settings settings;
    struct log *log;
    const struct batch *batch;
    enum phase phase;
    struct err result, failure;
    uint64_t durable, opened_at;
    bool opened; /* before: this is a reopen */
    bool full;
};

static struct copies *copy_of(const struct store *s)
{
    return (struct copies *)(uintptr_t)s;
}

/* --- tables --- */

static void drop_tables(struct copy *k)
{
    if (k->tables)
        store_close(k->tables);
    *k = (struct copy){0};
}

static void apply(struct copies *c, const struct batch *b, uint64_t number)
{
    struct copy *k = c->settings.kept;
    struct err result;
    store_commit(k->tables, b, false);
    must(store_reap(k->tables, &result) && result.code == ERR_OK);
    k->mark.number = number;
    k->mark.epoch = c->settings.log.epoch;
    k->mark.own = number > c->opened_at;
}

static struct err gather(void *ctx, const struct batch_op *op)
{
    if (op->value.at)
        batch_put(ctx, op->key, op->value);
    else
        batch_delete(ctx, op->key);
    return err_none();
}

static struct err replay_one(void *ctx, uint64_t number, struct str bytes)
{
    struct batch b = {0};
    struct err e = batch_bytes_read(bytes, gather, &b);
    PROMISE(e.code == ERR_OK, "I2", "batch %lu: %s", number, e.msg);
    apply(ctx, &b, number);
    batch_fini(&b);
    return err_none();
}

/* --- opening --- */

NODISCARD static struct err ask(struct copies *c, struct pg_log_place *place, bool settle)
{
    struct pg *pg;
    uint64_t seq, epoch = c->settings.kept->mark.epoch;
    TRY(pg_open(&c->settings.log.pg, &pg));
    pg_until_asked(pg, c->settings.log.owned_until, c->settings.log.ctx);
    struct err e = settle ? pg_shard_settle(pg, 0, c->settings.log.epoch, &seq)
                          : pg_log_place(pg, 0, epoch, place);
    pg_close(pg);
    return e;
}

NODISCARD static struct err open_log(struct copies *c, uint64_t from)
{
    struct log_postgres_settings s = c->settings.log;
    s.from = from;
    s.all = true;
    TRY(log_postgres_open(&s, &c->log));
    c->durable = log_durable(c->log);
    return log_replay(c->log, from, replay_one, c);
}

NODISCARD static struct err make_anew(struct copies *c, const struct pg_log_place *place)
{
    struct copy *k = c->settings.kept;
    if (c->log)
        log_close(c->log);
    c->log = NULL;
    drop_tables(k);
    k->tables = memory_new();
    memcpy(k->mark.cluster, place->cluster, sizeof place->cluster);
    k->mark.epoch = c->settings.log.epoch;
    return open_log(c, 1);
}

NODISCARD static struct err open_copy(struct copies *c)
{
    struct copy *k = c->settings.kept;
    struct pg_log_place place;
    TRY(ask(c, &place, false));
    if (place.seq < c->durable)
        return err_make(ERR_POSTGRES_LOST, "batch %lu was acknowledged", c->durable);
    if (!c->opened)
        c->opened_at = place.seq;
    c->opened = true;
    enum rocks_foreign_start start = copy_mark_judge(k->tables ? &k->mark : NULL, 0, &place);
    bool accepted = c->settings.accept_loss || k->mark.epoch <= place.accepted;
    if (start == ROCKS_FOREIGN_LOST && !accepted)
        return err_make(ERR_POSTGRES_LOST, "batch %lu of epoch %lu is not there", k->mark.number,
                        k->mark.epoch);
    if (start != ROCKS_FOREIGN_KEPT)
        return make_anew(c, &place);
    struct err e = open_log(c, k->mark.number + 1);
    return e.code == ERR_CORRUPT ? make_anew(c, &place) : e;
}

/* As rocks_foreign_open. */
NODISCARD static struct err check_owned(const struct copies *c, struct err e)
{
    const struct log_postgres_settings *s = &c->settings.log;
    if (e.code == ERR_POSTGRES_LOST || pg_now().ns < s->owned_until(s->ctx).ns)
        return e;
    return err_make(ERR_FENCED, "the lease ended before the store was open");
}

/* A gap in the log is what another server leaves that has taken the shard meanwhile. */
NODISCARD static struct err open_all(struct copies *c)
{
    struct err e = open_copy(c), settled = err_none();
    if (e.code == ERR_CORRUPT)
        settled = ask(c, NULL, true);
    return check_owned(c, settled.code == ERR_OK ? e : settled);
}

/* --- commits --- */

static void end(struct copies *c, struct err e)
{
    c->phase = ENDED;
    c->result = c->failure = e;
    c->settings.notify(c->settings.ctx);
}

static struct err err_of_log(struct err e)
{
    if (e.code == ERR_CONFLICT || e.code == ERR_CORRUPT || e.code == ERR_IO)
        e.code = ERR_STORE;
    return e;
}

void copy_commit_step(struct store *s)
{
    struct copies *c = copy_of(s);
    struct buf bytes = {0};
    uint64_t number;
    if (c->phase != UNDER_WAY)
        return;
    batch_bytes_write(c->batch, &bytes);
    struct err e = log_append(c->log, buf_view(&bytes), true, &number);
    buf_fini(&bytes);
    if (e.code == ERR_OK)
        e = log_wait(c->log, number);
    c->full = e.code == ERR_DISK_FULL;
    if (e.code != ERR_OK) {
        end(c, err_of_log(e));
        return;
    }
    c->durable = number;
    c->phase = LOGGED;
    c->settings.notify(c->settings.ctx);
    servers_sleep_some();
    if (servers_here()->dead) { /* before the tables had it */
        end(c, err_make(ERR_STORE, "killed"));
        return;
    }
    apply(c, c->batch, number);
    end(c, err_none());
}

static void commit(struct store *s, const struct batch *b, bool sync)
{
    struct copies *c = copy_of(s);
    (void)sync;
    must(c->phase == IDLE);
    c->batch = b;
    if (c->failure.code == ERR_OK) {
        c->phase = UNDER_WAY;
        servers_wake_commit();
        return;
    }
    c->phase = ENDED;
    c->result = err_make(ERR_STORE, "the store has failed and was not reopened yet");
}

static bool durable(struct store *s)
{
    return copy_of(s)->phase == LOGGED;
}

static void wait(struct store *s)
{
    while (copy_of(s)->phase == UNDER_WAY || copy_of(s)->phase == LOGGED)
        servers_rest();
}

static bool reap(struct store *s, struct err *result)
{
    struct copies *c = copy_of(s);
    if (c->phase != ENDED)
        return false;
    c->phase = IDLE;
    *result = c->result;
    return true;
}

/* Tables are never synced: nothing of them may be left. If it cannot be opened, reads go on with
 * what they had. */
static struct err reopen(struct store *s)
{
    struct copies *c = copy_of(s);
    struct copy *k = c->settings.kept, before = *k;
    bool forgets = servers_chance(50);
    if (c->log)
        log_close(c->log);
    c->log = NULL;
    if (forgets)
        *k = (struct copy){0};
    c->failure = open_all(c);
    if (forgets && c->failure.code == ERR_OK) {
        drop_tables(&before);
    } else if (forgets) {
        drop_tables(k);
        *k = before;
    }
    return c->failure;
}

/* --- the rest of a store --- */

static struct store *tables_of(const struct store *s)
{
    return copy_of(s)->settings.kept->tables;
}

static struct err get(struct store *s, struct str key, bool *found, struct buf *value)
{
    return store_get(tables_of(s), key, found, value);
}

static uint64_t number(const struct store *s)
{
    return copy_of(s)->settings.kept->mark.number;
}

static struct err failure(const struct store *s)
{
    return copy_of(s)->failure;
}

static struct store_cursor *cursor_new(struct store *s)
{
    if (copy_of(s)->phase == LOGGED)
        wait(s); /* who was told that it is durable may look for it */
    return store_cursor_new(tables_of(s));
}

static int64_t free_space(struct store *s)
{
    (void)s;
    return INT64_MAX;
}

static uint64_t disk_bytes(struct store *s)
{
    (void)s;
    return 0;
}

static void hold(struct store *s, uint64_t last)
{
    (void)s;
    (void)last;
}

static struct err replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx)
{
    (void)s;
    (void)from;
    (void)fn;
    (void)ctx;
    return err_make(ERR_NOT_FOUND, "batches are not kept");
}

static void close_copy(struct store *s)
{
    struct copies *c = copy_of(s);
    if (c->log)
        log_close(c->log);
    free(c);
}

bool copy_is_full(const struct store *s)
{
    return copy_of(s)->full;
}

uint64_t copy_durable(const struct store *s)
{
    return copy_of(s)->durable;
}

struct err copy_open(const struct copy_settings *settings, struct store **out)
{
    static struct store_vt vt;
    struct store *model = memory_new();
    struct copies *c = ALLOC(struct copies);
    vt = *model->vt; /* cursors are those of the memory store */
    store_close(model);
    vt.get = get;
    vt.commit = commit;
    vt.durable = durable;
    vt.reap = reap;
    vt.wait = wait;
    vt.reopen = reopen;
    vt.number = number;
    vt.hold = hold;
    vt.replay = replay;
    vt.failure = failure;
    vt.cursor_new = cursor_new;
    vt.free_space = free_space;
    vt.disk_bytes = disk_bytes;
    vt.close = close_copy;
    c->base.vt = &vt;
    c->settings = *settings;
    struct err e = open_all(c);
    if (e.code == ERR_OK)
        *out = &c->base;
    else
        close_copy(&c->base);
    return e;
}
