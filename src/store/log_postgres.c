/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_postgres.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/must.h"
#include "postgres/pg_log.h"
#include "postgres/pg_shard.h"
#include "store/batch_bytes.h"
#include "store/row_sum.h"

/* Between two tries to connect. */
#define PAUSE      ((span){50})
#define TIMEOUT_MS 10000
/* With more time than that, an attempt to connect leaves half of it for another one. */
#define HASTY_MS 500

struct log_postgres {
    struct log base;
    struct log_postgres_settings settings;
    struct pg *pg;
    uint64_t durable, last; /* last: durable, or one more, which is under way */
    uint64_t first;
    bool sent;        /* the one under way, and the connection has not broken since */
    uint64_t made;    /* connections() when this one was made */
    bool replaying;   /* which no other connection disturbs */
    mono patience;    /* without owned_until: until when PostgreSQL may be away */
    struct buf batch; /* the one under way, to send it again */
    struct buf inbox; /* and the rows that go with it */
    struct err failed;
};

static struct log_postgres *postgres_of(struct log *l)
{
    return (struct log_postgres *)l;
}

/* --- rows of the inbox --- */

#define INBOX_KIND "\xffI"
/* The deletion of one in a batch's bytes: delete, length, kind. */
#define INBOX_MARK "\0\x0a\xffI"

void log_postgres_inbox_key(int64_t id, char out[LOG_POSTGRES_INBOX_KEY])
{
    memcpy(out, INBOX_KIND, 2);
    for (int i = 0; i < 8; i++)
        out[2 + i] = (char)((uint64_t)id >> (56 - 8 * i));
}

bool log_postgres_inbox_id(struct str key, int64_t *id)
{
    if (key.len != LOG_POSTGRES_INBOX_KEY || memcmp(key.at, INBOX_KIND, 2) != 0)
        return false;
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | (unsigned char)key.at[2 + i];
    *id = (int64_t)v;
    return true;
}

static struct err add_row(void *ctx, const struct batch_op *op)
{
    struct buf *out = ctx;
    int64_t id;
    if (!op->value.at && log_postgres_inbox_id(op->key, &id)) {
        buf_byte(out, out->len ? ',' : '{');
        buf_int(out, id);
    }
    return err_none();
}

/* A search for the mark is much cheaper than reading every operation of every batch. */
static void find_rows(struct log_postgres *l)
{
    l->inbox.len = 0;
    if (!l->batch.len || !memmem(l->batch.at, l->batch.len, INBOX_MARK, sizeof INBOX_MARK - 1))
        return;
    struct err e = batch_bytes_read(buf_view(&l->batch), add_row, &l->inbox);
    if (e.code != ERR_OK)
        l->inbox.len = 0; /* not a batch of operations: it has none */
    if (l->inbox.len)
        buf_byte(&l->inbox, '}');
}

/* --- the deadline --- */

static mono owned_until(const struct log_postgres *l)
{
    return l->settings.owned_until ? l->settings.owned_until(l->settings.ctx) : l->patience;
}

static uint64_t connections(const struct log_postgres *l)
{
    return l->settings.connections ? l->settings.connections(l->settings.ctx) : 0;
}

static mono until(void *ctx)
{
    const struct log_postgres *l = ctx;
    bool stale = !l->replaying && connections(l) != l->made;
    return stale ? (mono){1} : owned_until(l);
}

static void be_patient(struct log_postgres *l)
{
    span s = l->settings.pg.timeout;
    l->patience = pg_after(pg_now(), s.ms ? s : (span){TIMEOUT_MS});
}

NODISCARD static struct err check_owned(struct log_postgres *l)
{
    if (!l->settings.owned_until || pg_now().ns < owned_until(l).ns)
        return err_none();
    return err_make(ERR_FENCED, "the lease ended before PostgreSQL had answered");
}

/* --- connecting --- */

NODISCARD static struct err connect_once(struct log_postgres *l, uint64_t *seq)
{
    pg_close(l->pg);
    l->pg = NULL;
    struct pg_settings settings = l->settings.pg;
    int64_t left = (owned_until(l).ns - pg_now().ns) / 1000000;
    settings.timeout.ms = left > HASTY_MS ? left / 2 : left > 0 ? left : 1;
    l->made = connections(l);
    TRY(pg_open(&settings, &l->pg));
    pg_until_asked(l->pg, until, l);
    if (l->settings.logs_by)
        l->settings.logs_by(l->settings.ctx, pg_backend(l->pg));
    return pg_shard_settle(l->pg, l->settings.shard, l->settings.epoch, seq);
}

/* Until it is connected and everything that is there is durable, or that is of no use any more. */
NODISCARD static struct err connect_again(struct log_postgres *l, uint64_t *seq)
{
    struct err e;
    while ((e = connect_once(l, seq)).code == ERR_POSTGRES && pg_now().ns < owned_until(l).ns)
        pg_pause(PAUSE);
    return e;
}

/* --- a batch under way --- */

static void send_batch(struct log_postgres *l)
{
    char sum[ROW_SUM_LEN];
    struct pg_log_row row = {l->last, l->settings.epoch, buf_view(&l->batch), {sum, sizeof sum}};
    row_sum_of_batch(&row, sum);
    struct err e = pg_log_send(l->pg, l->settings.shard, &row, buf_view(&l->inbox));
    l->sent = e.code == ERR_OK;
}

NODISCARD static struct err compare(const struct log_postgres *l, uint64_t seq)
{
    if (seq < l->durable)
        return err_make(ERR_POSTGRES_LOST,
                        "PostgreSQL is at batch %llu, and %llu was acknowledged: a fail-over or a "
                        "restore has lost commits",
                        (unsigned long long)seq, (unsigned long long)l->durable);
    if (seq > l->last)
        return err_make(ERR_FENCED, "PostgreSQL is at batch %llu, which this server has not sent",
                        (unsigned long long)seq);
    return err_none();
}

/* What became of it: *there if it took effect. */
NODISCARD static struct err settle(struct log_postgres *l, bool *there)
{
    uint64_t seq;
    TRY(connect_again(l, &seq));
    TRY(compare(l, seq));
    *there = seq == l->last;
    log_info("the connection to PostgreSQL is back; the commit under way had taken %s",
             *there ? "effect" : "no effect");
    return err_none();
}

NODISCARD static struct err end_batch(struct log_postgres *l)
{
    bool there = false, again = false;
    be_patient(l);
    for (;;) {
        struct err e = l->sent ? pg_log_sent(l->pg)
                               : err_make(ERR_POSTGRES, "the connection to PostgreSQL broke");
        l->sent = false;
        /* The first one may have been on its way still when the shard was read, and have taken
         * effect before the second. */
        bool outrun = again && e.code == ERR_POSTGRES_LOST;
        if (e.code != ERR_POSTGRES && !outrun)
            return e;
        TRY(check_owned(l));
        log_warn("a commit's outcome is unknown: %s", e.msg);
        TRY(settle(l, &there));
        if (there)
            return err_none();
        if (outrun)
            return e;
        again = true;
        send_batch(l);
    }
}

/* Waits for what is under way; what comes after the end of the lease does not count. */
static void finish(struct log_postgres *l)
{
    if (l->last == l->durable || l->failed.code != ERR_OK)
        return;
    struct err e = end_batch(l);
    if (e.code == ERR_OK)
        e = check_owned(l);
    if (e.code == ERR_OK)
        l->durable = l->last;
    else
        l->failed = e;
}

/* --- functions of struct log_vt --- */

static struct err postgres_append(struct log *base, struct str batch, bool sync, uint64_t *number)
{
    struct log_postgres *l = postgres_of(base);
    (void)sync;
    finish(l);
    TRY(l->failed);
    TRY(check_owned(l));
    l->batch.len = 0;
    buf_str(&l->batch, batch);
    find_rows(l);
    *number = ++l->last;
    be_patient(l);
    send_batch(l); /* if that fails, whoever waits connects again */
    return err_none();
}

static bool postgres_is_ready(const struct log *base, size_t len, bool sync)
{
    const struct log_postgres *l = (const struct log_postgres *)base;
    (void)len;
    (void)sync;
    return l->failed.code == ERR_OK && l->last == l->durable && !pg_is_broken(l->pg);
}

/* Only if that need not be waited for. */
static void look(struct log_postgres *l)
{
    if (l->sent && pg_is_ready(l->pg))
        finish(l);
}

static uint64_t postgres_durable(struct log *base)
{
    struct log_postgres *l = postgres_of(base);
    look(l);
    return l->durable;
}

static uint64_t postgres_first(struct log *base)
{
    return postgres_of(base)->first;
}

static bool postgres_ended(struct log *base, uint64_t number, struct err *result)
{
    struct log_postgres *l = postgres_of(base);
    must(number <= l->last);
    if (l->durable < number)
        look(l);
    *result = l->durable >= number ? err_none() : l->failed;
    return l->durable >= number || l->failed.code != ERR_OK;
}

static struct err postgres_wait(struct log *base, uint64_t number)
{
    struct log_postgres *l = postgres_of(base);
    must(number <= l->last);
    if (l->durable < number)
        finish(l);
    return l->durable >= number ? err_none() : l->failed;
}

struct replay {
    log_replay_fn fn;
    void *ctx;
    uint64_t next;
};

NODISCARD static struct err err_of_gap(uint64_t number)
{
    return err_make(ERR_CORRUPT, "batch %llu is missing in PostgreSQL's log",
                    (unsigned long long)number);
}

static struct err replay_one(void *ctx, const struct pg_log_row *row)
{
    struct replay *r = ctx;
    if (row->seq != r->next)
        return err_of_gap(r->next);
    if (!row_sum_is_right(row))
        return err_make(ERR_CORRUPT,
                        "batch %llu in PostgreSQL's log does not have its checksum: its bytes are "
                        "not what was written; restore a backup of PostgreSQL",
                        (unsigned long long)row->seq);
    r->next++;
    return r->fn(r->ctx, row->seq, row->batch);
}

static struct err postgres_replay(struct log *base, uint64_t from, log_replay_fn fn, void *ctx)
{
    struct log_postgres *l = postgres_of(base);
    struct replay r = {fn, ctx, from};
    uint64_t seq;
    if (from < l->first && from <= l->durable)
        return err_make(ERR_CORRUPT, "the log in PostgreSQL begins after batch %llu",
                        (unsigned long long)from);
    be_patient(l);
    l->replaying = true;
    struct err e = pg_log_each(l->pg, l->settings.shard, from, replay_one, &r);
    l->replaying = false;
    if (e.code != ERR_OK) {
        l->failed = connect_again(l, &seq); /* a replay that was ended breaks it off */
        return l->failed.code == ERR_OK ? e : l->failed;
    }
    return r.next <= l->durable ? err_of_gap(r.next) : err_none();
}

static void postgres_release(struct log *base, uint64_t number)
{
    struct log_postgres *l = postgres_of(base);
    must(number <= l->durable);
    finish(l);
    if (l->failed.code != ERR_OK || pg_is_broken(l->pg))
        return;
    be_patient(l);
    struct err e = pg_log_flushed(l->pg, l->settings.shard, l->settings.epoch, number, 0);
    if (e.code == ERR_OK)
        e = pg_log_let_go(l->pg, l->settings.shard, l->settings.epoch, number);
    if (e.code != ERR_OK)
        log_warn("the log in PostgreSQL keeps what nobody needs: %s", e.msg);
}

static void postgres_close(struct log *base)
{
    struct log_postgres *l = postgres_of(base);
    finish(l);
    pg_close(l->pg);
    buf_fini(&l->batch);
    buf_fini(&l->inbox);
    free(l);
}

/* --- opening --- */

NODISCARD static struct err check_from(const struct log_postgres *l)
{
    uint64_t from = l->settings.from;
    if (from >= l->first && from <= l->durable + 1)
        return err_none();
    return err_make(
        ERR_CORRUPT, "the log in PostgreSQL has batches %llu to %llu, and %llu is asked for",
        (unsigned long long)l->first, (unsigned long long)l->durable, (unsigned long long)from);
}

/* Rows that are in records stay until their table is emptied. */
NODISCARD static struct err look_further_back(struct log_postgres *l)
{
    uint64_t first;
    if (!l->settings.all)
        return err_none();
    TRY(pg_log_first(l->pg, l->settings.shard, &first));
    if (first > 0 && first < l->first)
        l->first = first;
    return err_none();
}

NODISCARD static struct err open_log(struct log_postgres *l)
{
    const struct log_postgres_settings *s = &l->settings;
    struct pg_shard shard;
    uint64_t seq;
    be_patient(l);
    TRY(connect_again(l, &seq));
    TRY(pg_shard_read(l->pg, s->shard, &shard));
    if (s->begin && s->from > 1 && shard.seq == 0 && shard.flushed == 0) {
        TRY(pg_log_begin(l->pg, s->shard, s->epoch, s->from - 1));
        shard.seq = shard.flushed = s->from - 1;
    }
    l->durable = l->last = shard.seq;
    l->first = shard.flushed + 1;
    TRY(look_further_back(l));
    return check_from(l);
}

struct err log_postgres_open(const struct log_postgres_settings *settings, struct log **out)
{
    static const struct log_vt vt = {
        .append = postgres_append,
        .is_ready = postgres_is_ready,
        .durable = postgres_durable,
        .first = postgres_first,
        .ended = postgres_ended,
        .wait = postgres_wait,
        .replay = postgres_replay,
        .release = postgres_release,
        .close = postgres_close,
    };
    must(settings->from > 0);
    struct log_postgres *l = ALLOC(struct log_postgres);
    l->base.vt = &vt;
    l->settings = *settings;
    struct err e = open_log(l);
    if (e.code != ERR_OK) {
        pg_close(l->pg);
        free(l);
        return e;
    }
    *out = &l->base;
    return e;
}
