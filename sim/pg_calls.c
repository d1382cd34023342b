/* SPDX-License-Identifier: Apache-2.0 */

/* The calls of postgres/ that the real member and the real log make, as the double answers them.
 * They are linked instead of the real ones. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "fiber.h"
#include "pg_double.h"
#include "postgres/pg_schema.h"
#include "servers_internal.h"

struct pg {
    struct process *process;
    bool broken;
    mono until;
    mono (*ask)(void *ctx);
    void *ctx;
    span timeout;
    mono began;              /* the call under way */
    struct pstatement *sent; /* without an answer that was read */
    struct pstatement *read; /* whose answer was read last */
    struct fiber *waiter;
};

/* How often an end that may move is asked for. */
#define ASK_MS     100
#define TIMEOUT_MS 10000

mono pg_now(void)
{
    return servers_mono();
}

mono pg_after(mono from, span s)
{
    return (mono){from.ns + s.ms * MS};
}

void pg_pause(span s)
{
    servers_sleep(s);
}

/* --- a connection --- */

static struct pg *pg_new(span timeout)
{
    struct pg *pg = ALLOC(struct pg);
    pg->process = servers_here();
    pg->timeout = timeout.ms ? timeout : (span){TIMEOUT_MS};
    servers_connected(pg);
    return pg;
}

struct process *servers_process_of(const struct pg *pg)
{
    return pg->process;
}

/* What has not been answered is the double's. */
void servers_break(struct pg *pg)
{
    pg->broken = true;
    if (pg->sent && pg->sent->answered)
        pdouble_free(pg->sent);
    pg->sent = NULL;
    pdouble_cut(pdouble, pg, servers_now());
}

static void wake(struct pg *pg, int64_t at)
{
    if (pg->waiter)
        fiber_wake(pg->waiter, at);
}

void servers_cut(struct pg *pg)
{
    servers_break(pg);
    wake(pg, servers_now());
}

void servers_answered(struct pg *pg, const struct pstatement *s)
{
    wake(pg, s->at);
    if (servers_cut_off_for(pg->process) > 0)
        servers_break(pg);
}

void pg_close(struct pg *pg)
{
    if (!pg)
        return;
    servers_break(pg);
    servers_disconnected(pg);
    pdouble_free(pg->read);
    free(pg);
}

bool pg_is_broken(const struct pg *pg)
{
    return pg->broken || pg->process->dead;
}

void pg_until(struct pg *pg, mono deadline)
{
    pg->until = deadline;
    pg->ask = NULL;
}

void pg_until_asked(struct pg *pg, mono (*deadline)(void *ctx), void *ctx)
{
    pg->ask = deadline;
    pg->ctx = ctx;
}

/* --- statements --- */

static struct err broken(const char *why)
{
    return err_make(ERR_POSTGRES, "%s", why);
}

NODISCARD static struct err send(struct pg *pg, struct pstatement s)
{
    if (pg_is_broken(pg))
        return broken("the connection is broken");
    must(!pg->sent);
    pdouble_free(pg->read);
    pg->read = NULL;
    s.node = pg->process->node;
    pg->began = pg_now();
    pg->sent = pdouble_send(pg, &s, servers_now());
    pg->sent->at += servers_cut_off_for(pg->process); /* it is sent again until it arrives */
    return err_none();
}

static bool has_answer(const struct pg *pg)
{
    return pg->sent && pg->sent->answered && servers_now() >= pg->sent->at;
}

bool pg_is_ready(struct pg *pg)
{
    return pg_is_broken(pg) || has_answer(pg);
}

static mono end_of(const struct pg *pg)
{
    if (pg->ask)
        return pg->ask(pg->ctx);
    return pg->until.ns ? pg->until : pg_after(pg->began, pg->timeout);
}

static struct err err_of(const struct pstatement *s)
{
    return s->code == ERR_OK ? err_none() : err_make(s->code, "the double says so");
}

NODISCARD static struct err receive(struct pg *pg, struct pstatement **answer)
{
    while (!has_answer(pg)) {
        if (pg_is_broken(pg) || !pg->sent)
            return broken("the connection broke");
        mono end = end_of(pg);
        if (pg_now().ns >= end.ns) {
            servers_break(pg);
            return broken("PostgreSQL does not answer in time");
        }
        pg->waiter = fiber_running();
        servers_await(pg->sent, end, (span){ASK_MS});
        pg->waiter = NULL;
    }
    *answer = pg->read = pg->sent;
    pg->sent = NULL;
    return err_of(*answer);
}

NODISCARD static struct err call(struct pg *pg, struct pstatement s, struct pstatement **answer)
{
    struct pstatement *some;
    TRY(send(pg, s));
    return receive(pg, answer ? answer : &some);
}

struct err pg_open(const struct pg_settings *settings, struct pg **out)
{
    struct pg *pg = pg_new(settings->timeout);
    struct err e = call(pg, (struct pstatement){.verb = P_OPEN}, NULL);
    if (e.code == ERR_OK)
        *out = pg;
    else
        pg_close(pg);
    return e;
}

struct err pg_listen(struct pg *pg, const char *channel)
{
    (void)channel;
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

struct err pg_schema_require(struct pg *pg)
{
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

/* --- pg_shard.h --- */

struct err pg_shard_read(struct pg *pg, int shard, struct pg_shard *out)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_READ}, &s));
    *out = s->shard;
    return err_none();
}

struct err pg_shard_take(struct pg *pg, int shard, const struct pg_shard *seen, const char *owner,
                         const char *address, span lease, uint64_t *epoch)
{
    struct pstatement *s;
    (void)shard;
    (void)owner;
    (void)address;
    mono from = pg_now();
    TRY(call(pg,
             (struct pstatement){
                 .verb = P_TAKE, .epoch = seen->epoch, .number = seen->beat, .lease = lease},
             &s));
    *epoch = s->answer;
    servers_leased(pg->process, from);
    return err_none();
}

struct err pg_shard_beat(struct pg *pg, int shard, uint64_t epoch, uint64_t seq)
{
    (void)shard;
    mono from = pg_now();
    TRY(call(pg, (struct pstatement){.verb = P_BEAT, .epoch = epoch, .number = seq}, NULL));
    servers_leased(pg->process, from);
    return err_none();
}

struct err pg_shard_release(struct pg *pg, int shard, uint64_t epoch)
{
    (void)shard;
    return call(pg, (struct pstatement){.verb = P_RELEASE, .epoch = epoch}, NULL);
}

struct err pg_shard_settle(struct pg *pg, int shard, uint64_t epoch, uint64_t *seq)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_SETTLE, .epoch = epoch}, &s));
    *seq = s->answer;
    return err_none();
}

struct err pg_shard_waits(struct pg *pg, int backend, bool *waits)
{
    struct pstatement *s;
    (void)backend;
    TRY(call(pg, (struct pstatement){.verb = P_WAITS}, &s));
    *waits = s->answer;
    return err_none();
}

int pg_backend(const struct pg *pg)
{
    (void)pg;
    return 1;
}

/* --- pg_alarm.h --- */

struct err pg_alarm_read(struct pg *pg, int shard, const struct pg_seen *seen, struct pg_alarm *out)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_ALARM, .epoch = seen->epoch, .number = seen->seq},
             &s));
    *out = s->alarm;
    return err_none();
}

struct err pg_alarm_raise(struct pg *pg, int shard, const char *server, const struct pg_seen *seen,
                          const char *why)
{
    (void)shard;
    (void)server;
    (void)why;
    return call(pg, (struct pstatement){.verb = P_RAISE, .epoch = seen->epoch, .number = seen->seq},
                NULL);
}

struct err pg_alarm_accept(struct pg *pg, int shard, const char *server, const struct pg_seen *seen)
{
    (void)shard;
    (void)server;
    return call(pg, (struct pstatement){.verb = P_ACCEPT, .epoch = seen->epoch}, NULL);
}

/* --- the rest of pg_shard.h --- */

struct err pg_shard_secret(struct pg *pg, int shard, unsigned char out[PG_SECRET_BYTES])
{
    (void)shard;
    memset(out, 1, PG_SECRET_BYTES);
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

struct err pg_durability_read(struct pg *pg, struct pg_durability *out)
{
    *out = (struct pg_durability){.fsync = true};
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

struct err pg_servers_note(struct pg *pg, int shard, const struct pg_servers_self *self)
{
    (void)shard;
    (void)self;
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

struct err pg_servers_forget(struct pg *pg, int shard, const char *name)
{
    (void)shard;
    (void)name;
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

struct err pg_servers_each(struct pg *pg, int shard,
                           struct err (*fn)(void *ctx, const struct pg_server *server), void *ctx)
{
    (void)shard;
    (void)fn;
    (void)ctx;
    return call(pg, (struct pstatement){.verb = P_PLAIN}, NULL);
}

/* --- pg_log.h --- */

/* "{1,2}" */
static void read_rows(struct str text, struct pstatement *s)
{
    const char *at = text.at;
    while (text.len && *at != '}') {
        char *end;
        must(s->row_count < INBOX_MAX);
        s->rows[s->row_count++] = strtoll(at + 1, &end, 10);
        at = end;
    }
}

struct err pg_log_send(struct pg *pg, int shard, const struct pg_log_row *row, struct str inbox)
{
    (void)shard;
    struct pstatement s = {.verb = P_COMMIT, .epoch = row->epoch, .number = row->seq};
    s.batch = (struct str){alloc_text(row->batch.at, row->batch.len), row->batch.len};
    read_rows(inbox, &s);
    return send(pg, s);
}

struct err pg_log_sent(struct pg *pg)
{
    struct pstatement *s;
    return receive(pg, &s);
}

struct err pg_log_begin(struct pg *pg, int shard, uint64_t epoch, uint64_t seq)
{
    (void)pg;
    (void)shard;
    (void)epoch;
    (void)seq;
    must(false); /* nobody asks for it here */
    return err_none();
}

struct err pg_log_each(struct pg *pg, int shard, uint64_t from, pg_log_fn fn, void *ctx)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_EACH, .number = from}, &s));
    for (size_t i = 0; i < s->log_count; i++) {
        const struct pg_log_row row = {s->log[i]->seq, s->log[i]->epoch, s->log[i]->batch, {0}};
        struct err e = fn(ctx, &row);
        if (e.code != ERR_OK)
            servers_break(pg);
        TRY(e);
    }
    return err_none();
}

struct err pg_log_first(struct pg *pg, int shard, uint64_t *first)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_FIRST}, &s));
    *first = s->answer;
    return err_none();
}

struct err pg_log_flushed(struct pg *pg, int shard, uint64_t epoch, uint64_t seq, int64_t at)
{
    (void)pg;
    (void)shard;
    (void)epoch;
    (void)seq;
    (void)at;
    return err_none();
}

struct err pg_log_let_go(struct pg *pg, int shard, uint64_t epoch, uint64_t held)
{
    (void)pg;
    (void)shard;
    (void)epoch;
    (void)held;
    return err_none();
}

struct err pg_log_place(struct pg *pg, int shard, uint64_t epoch, struct pg_log_place *out)
{
    struct pstatement *s;
    (void)shard;
    TRY(call(pg, (struct pstatement){.verb = P_PLACE, .epoch = epoch}, &s));
    *out = s->place;
    return err_none();
}

struct err pg_double_inbox(struct pg *pg, struct pinbox rows[INBOX_MAX], size_t *count)
{
    struct pstatement *s;
    TRY(call(pg, (struct pstatement){.verb = P_INBOX}, &s));
    memcpy(rows, s->inbox, sizeof s->inbox);
    *count = s->inbox_count;
    return err_none();
}
