/* SPDX-License-Identifier: Apache-2.0 */
#include "pg_double.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "servers_internal.h"
#include "trace.h"

/* So many states at most are remembered. */
#define PAST_MAX 128

struct pdouble *pdouble;

static uint64_t draw(struct pdouble *p, uint64_t n)
{
    return rng_below(&p->rng, n);
}

/* Usually a fraction of a millisecond, sometimes long. */
static int64_t some_delay(struct pdouble *p)
{
    uint64_t kind = draw(p, 100);
    return (int64_t)draw(p, kind < 80 ? 500000 : kind < 97 ? 20 * MS : 900 * MS) + 1000;
}

/* --- what it knows --- */

static void keep(struct pdouble *p)
{
    if (p->past_count == PAST_MAX) {
        p->past_count /= 2;
        memmove(p->past, p->past + p->past_count, p->past_count * sizeof *p->past);
    }
    p->past[p->past_count++] = p->now;
    p->synced = p->now;
}

void pdouble_init(struct pdouble *p, uint64_t seed)
{
    *p = (struct pdouble){.rng = rng_from_seed(seed)};
    p->past = alloc_get(PAST_MAX * sizeof *p->past);
    keep(p);
    pdouble = p;
}

const struct prow *pdouble_row(const struct pdouble *p, uint64_t seq)
{
    return seq && seq <= p->now.seq ? p->log[seq - 1] : NULL;
}

/* --- the functions of the schema --- */

/* As tenax.fence: seq is the last batch that the caller knows of; has_seq: whether it says so. */
static enum err_code fence(const struct pdouble *p, uint64_t epoch, bool has_seq)
{
    return p->now.epoch > epoch || (p->now.epoch == epoch && !has_seq) ? ERR_FENCED
                                                                       : ERR_POSTGRES_LOST;
}

static bool has_row(const struct pdouble *p, int64_t number, unsigned *at)
{
    for (*at = 0; *at < p->now.inbox_count; ++*at)
        if (p->now.inbox[*at].number == number)
            return true;
    return false;
}

static bool take_rows(struct pdouble *p, const struct pstatement *s)
{
    unsigned at;
    for (size_t i = 0; i < s->row_count; i++)
        if (!has_row(p, s->rows[i], &at))
            return false;
    for (size_t i = 0; i < s->row_count; i++) {
        must(has_row(p, s->rows[i], &at));
        memmove(&p->now.inbox[at], &p->now.inbox[at + 1],
                (p->now.inbox_count - at - 1) * sizeof *p->now.inbox);
        p->now.inbox_count--;
    }
    return true;
}

static enum err_code commit(struct pdouble *p, const struct pstatement *s)
{
    if (p->now.epoch != s->epoch || p->now.seq != s->number - 1)
        return fence(p, s->epoch, true);
    if (p->full)
        return ERR_DISK_FULL;
    if (!take_rows(p, s))
        return ERR_CONFLICT;
    struct prow *row = ALLOC(struct prow);
    *row = (struct prow){s->number, s->epoch, s->batch};
    ALLOC_GROW(p->log, p->now.seq, p->log_cap, 256);
    p->log[p->now.seq++] = row;
    p->commits++;
    keep(p);
    servers_committed(s->node, row);
    return ERR_OK;
}

static enum err_code settle(const struct pdouble *p, struct pstatement *s)
{
    if (p->now.epoch != s->epoch)
        return fence(p, s->epoch, false);
    s->answer = p->now.seq;
    return ERR_OK;
}

static bool knows(const struct pstate *n, uint64_t epoch)
{
    for (unsigned i = 0; i < n->epoch_count; i++)
        if (n->epochs[i].epoch == epoch)
            return true;
    return false;
}

/* The last batch that may be of that epoch. */
static uint64_t last_of(const struct pstate *n, uint64_t epoch)
{
    for (unsigned i = 0; i < n->epoch_count; i++)
        if (n->epochs[i].epoch > epoch)
            return n->epochs[i].first_seq - 1;
    return n->seq;
}

/* As tenax.lacks. */
static bool lacks(const struct pstate *n, uint64_t epoch, uint64_t seq)
{
    bool gone = n->epoch_count && epoch > n->epochs[0].epoch && !knows(n, epoch);
    return epoch > n->accepted &&
           (n->epoch < epoch || n->seq < seq || gone || last_of(n, epoch) < seq);
}

static void raise_alarm(struct pdouble *p, const struct pstatement *s)
{
    struct pstate *n = &p->now;
    if (n->alarm.epoch || n->accepted >= s->epoch)
        return;
    n->alarm = (struct pg_seen){.epoch = s->epoch, .seq = s->number};
    keep(p);
    servers_notify();
}

static void begin_epoch(struct pstate *n, uint64_t epoch)
{
    must(n->epoch_count < EPOCHS_MAX);
    n->epochs[n->epoch_count].epoch = epoch;
    n->epochs[n->epoch_count++].first_seq = n->seq + 1;
}

static void accept(struct pdouble *p, const struct pstatement *s)
{
    struct pstate *n = &p->now;
    uint64_t fresh = n->lease_epoch > s->epoch ? n->lease_epoch : s->epoch;
    fresh = (fresh > n->alarm.epoch ? fresh : n->alarm.epoch) + 16777216;
    n->epoch = n->lease_epoch = n->accepted = fresh;
    n->beat += 1 + draw(p, 1000);
    n->owned = false;
    n->alarm = (struct pg_seen){0};
    begin_epoch(n, fresh);
    keep(p);
}

static void read_alarm(const struct pdouble *p, struct pstatement *s)
{
    s->alarm = (struct pg_alarm){.cluster = "one",
                                 .raised = p->now.alarm.epoch,
                                 .lacks = lacks(&p->now, s->epoch, s->number)};
}

/* Whether a commit of that server has come, and waits. */
static bool waits(const struct pdouble *p, int node)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct pstatement *s = p->under_way[i];
        if (s->verb == P_COMMIT && s->node == node && s->executes && s->from)
            return true;
    }
    return false;
}

static enum err_code take(struct pdouble *p, struct pstatement *s)
{
    struct pstate *n = &p->now;
    if (n->alarm.epoch)
        return ERR_POSTGRES_LOST;
    if (n->lease_epoch != s->epoch || n->beat != s->number)
        return ERR_CONFLICT;
    s->answer = n->lease_epoch = n->epoch = s->epoch + 1 + draw(p, 1048576);
    n->beat += 1 + draw(p, 1000);
    n->owned = true;
    n->owner = s->node;
    n->lease = s->lease;
    begin_epoch(n, n->epoch);
    keep(p);
    servers_taken(s->node, s->answer);
    return ERR_OK;
}

static enum err_code beat(struct pdouble *p, const struct pstatement *s)
{
    if (p->now.alarm.epoch)
        return ERR_POSTGRES_LOST;
    if (p->now.epoch == s->epoch && p->now.seq < s->number)
        return ERR_POSTGRES_LOST;
    if (p->now.lease_epoch != s->epoch || !p->now.owned)
        return fence(p, s->epoch, false);
    p->now.beat += 1 + draw(p, 1000);
    return ERR_OK;
}

static enum err_code release(struct pdouble *p, const struct pstatement *s)
{
    if (p->now.lease_epoch != s->epoch || !p->now.owned)
        return ERR_OK;
    p->now.beat += 1 + draw(p, 1000);
    p->now.owned = false;
    keep(p);
    servers_notify();
    return ERR_OK;
}

static void place(const struct pdouble *p, struct pstatement *s)
{
    const struct pstate *n = &p->now;
    struct pg_log_place *out = &s->place;
    *out = (struct pg_log_place){.cluster = "one",
                                 .seq = n->seq,
                                 .known = knows(n, s->epoch),
                                 .last = last_of(n, s->epoch),
                                 .accepted = n->accepted};
}

static void read_shard(const struct pdouble *p, struct pg_shard *out)
{
    const struct pstate *n = &p->now;
    *out = (struct pg_shard){.epoch = n->lease_epoch,
                             .beat = n->beat,
                             .seq = n->seq,
                             .owned = n->owned,
                             .lease = n->lease};
    out->address[0] = n->owned ? (char)('1' + n->owner) : '\0';
}

static void read_log(const struct pdouble *p, struct pstatement *s)
{
    size_t from = (size_t)s->number - 1;
    s->log_count = p->now.seq > from ? (size_t)p->now.seq - from : 0;
    const struct prow **rows = alloc_get((s->log_count + 1) * sizeof *rows);
    if (s->log_count)
        memcpy(rows, p->log + from, s->log_count * sizeof *rows);
    s->log = rows;
}

static void execute(struct pdouble *p, struct pstatement *s)
{
    s->code = ERR_OK;
    switch (s->verb) {
    case P_OPEN:
    case P_PLAIN:
        break;
    case P_READ:
        read_shard(p, &s->shard);
        break;
    case P_PLACE:
        place(p, s);
        break;
    case P_EACH:
        read_log(p, s);
        break;
    case P_FIRST:
        s->answer = 1;
        break;
    case P_INBOX:
        memcpy(s->inbox, p->now.inbox, sizeof s->inbox);
        s->inbox_count = p->now.inbox_count;
        break;
    case P_ALARM:
        read_alarm(p, s);
        break;
    case P_WAITS:
        s->answer = waits(p, s->node);
        break;
    case P_RAISE:
        raise_alarm(p, s);
        break;
    case P_ACCEPT:
        accept(p, s);
        break;
    case P_BEAT:
        s->code = beat(p, s);
        break;
    case P_RELEASE:
        s->code = release(p, s);
        break;
    case P_SETTLE:
        s->code = settle(p, s);
        break;
    case P_TAKE:
        s->code = take(p, s);
        break;
    case P_COMMIT:
        s->code = commit(p, s);
        p->fenced += s->code == ERR_FENCED;
        break;
    }
}

/* --- the way of a statement --- */

struct pstatement *pdouble_send(struct pg *from, const struct pstatement *what, int64_t now)
{
    struct pdouble *p = pdouble;
    struct pstatement *s = ALLOC(struct pstatement);
    *s = *what;
    s->from = from;
    s->at = now + some_delay(p);
    ALLOC_GROW(p->under_way, p->count, p->cap, 16);
    p->under_way[p->count++] = s;
    return s;
}

void pdouble_free(struct pstatement *s)
{
    if (!s)
        return;
    free(s->log);
    free(s);
}

int64_t pdouble_next(const struct pdouble *p)
{
    int64_t at = INT64_MAX;
    for (size_t i = 0; i < p->count; i++)
        at = p->under_way[i]->at < at ? p->under_way[i]->at : at;
    return at;
}

static void forget(struct pdouble *p, size_t i)
{
    memmove(&p->under_way[i], &p->under_way[i + 1], (p->count - i - 1) * sizeof *p->under_way);
    p->count--;
}

/* It has arrived. Those that change the row of the shard wait for each other. */
static void arrive(struct pdouble *p, struct pstatement *s, int64_t now)
{
    bool locks = s->verb >= P_SETTLE;
    s->executes = true;
    if (!locks)
        return;
    int64_t from = p->row_free_at > now ? p->row_free_at : now;
    s->at = from + (int64_t)draw(p, (uint64_t)(p->slow_ms * MS) + 1000);
    p->row_free_at = s->at;
}

static void answer(struct pdouble *p, struct pstatement *s, int64_t now)
{
    execute(p, s);
    if (s->verb != P_PLAIN && s->verb != P_OPEN && s->verb != P_INBOX)
        trace_line("pg: %d of %d, epoch %lu, %lu: %s, now %lu at %lu", s->verb, s->node, s->epoch,
                   s->number, s->code ? err_wire(s->code) : "ok", p->now.epoch, p->now.seq);
    s->answered = true;
    s->at = now + some_delay(p);
    if (s->from)
        servers_answered(s->from, s);
    else
        pdouble_free(s);
}

void pdouble_run(struct pdouble *p, int64_t now)
{
    for (size_t i = 0; i < p->count;) {
        struct pstatement *s = p->under_way[i];
        if (s->at > now) {
            i++;
            continue;
        }
        if (s->dropped || (!s->executes && p->away_until > now)) {
            forget(p, i);
            if (s->from) /* refused */
                servers_cut(s->from);
            pdouble_free(s);
            continue;
        }
        if (!s->executes)
            arrive(p, s, now);
        if (s->at > now)
            continue;
        forget(p, i);
        answer(p, s, now);
    }
}

/* --- what goes wrong --- */

void pdouble_cut(struct pdouble *p, const struct pg *pg, int64_t now)
{
    for (size_t i = 0; i < p->count; i++) {
        struct pstatement *s = p->under_way[i];
        if (s->from != pg)
            continue;
        s->from = NULL;
        if (s->executes)
            continue;
        s->dropped = draw(p, 2) == 0;
        if (draw(p, 2) == 0)
            s->at = now + (int64_t)draw(p, 3000 * MS); /* late */
    }
}

static void end_all(struct pdouble *p, int64_t now)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->under_way[i]->executes && draw(p, 2))
            execute(p, p->under_way[i]);
    p->row_free_at = now;
    servers_cut_all();
    while (p->count > 0)
        pdouble_free(p->under_way[--p->count]);
}

void pdouble_crash(struct pdouble *p, int64_t now, int64_t back_at)
{
    end_all(p, now);
    if (draw(p, 2))
        p->now = p->synced;
    p->away_until = back_at;
}

void pdouble_fall_back(struct pdouble *p, int64_t now, int64_t back_at, size_t states)
{
    end_all(p, now);
    uint64_t had = p->now.seq, owned = p->now.epoch;
    p->past_count -= states < p->past_count ? states : p->past_count - 1;
    p->now = p->synced = p->past[p->past_count - 1];
    p->away_until = back_at;
    p->lost_to = p->now.seq;
    p->falls += had != p->now.seq || owned != p->now.epoch;
}

bool pdouble_enqueue(struct pdouble *p, int64_t now, struct id job, unsigned serial, bool rollback)
{
    if (p->away_until > now || p->now.inbox_count == INBOX_MAX)
        return false;
    p->now.inbox_last++;
    if (rollback)
        return true;
    p->now.inbox[p->now.inbox_count++] = (struct pinbox){p->now.inbox_last, job, serial};
    keep(p);
    return true;
}
