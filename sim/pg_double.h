/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_PG_DOUBLE_H
#define SIM_PG_DOUBLE_H

/* A double of PostgreSQL and of the functions of the schema `tenax`: commit, settle, take, beat,
 * release and those of the alarm of postgres/functions.sql, and the inbox. It has one shard. The
 * calls of postgres/pg.h, pg_shard.h, pg_alarm.h and pg_log.h that the real member and the real log
 * make end here (pg_calls.c).
 *
 * A statement is on its way for a while, may wait for another that has the row of the shard, takes
 * effect at one moment, which is that of its durability, and its answer is on its way again. Where
 * a connection breaks, a statement may take effect later all the same, or never. */

#include "base/buf.h"
#include "base/id.h"
#include "base/rng.h"
#include "postgres/pg_alarm.h"
#include "postgres/pg_log.h"

#define MS INT64_C(1000000) /* nanoseconds of the world's time, which nobody's clock shows */

/* A row of the log, or of the inbox. Rows are never changed, and kept until the end. */
struct prow {
    uint64_t seq, epoch;
    struct str batch;
};

struct pinbox {
    int64_t number;
    struct id job;
    unsigned serial; /* of the job in the ledger */
};

#define INBOX_MAX  64
#define EPOCHS_MAX 200

/* All that it knows but for the log, whose rows up to seq belong to it. */
struct pstate {
    uint64_t epoch, seq;
    uint64_t lease_epoch, beat, accepted;
    struct pg_seen alarm; /* what is lacking; epoch 0: there is no alarm */
    bool owned;
    int owner;
    span lease;
    struct {
        uint64_t epoch, first_seq;
    } epochs[EPOCHS_MAX];
    unsigned epoch_count;
    struct pinbox inbox[INBOX_MAX];
    unsigned inbox_count;
    int64_t inbox_last;
};

enum pverb {
    P_OPEN,
    P_PLAIN, /* whatever changes nothing of interest */
    P_READ,
    P_PLACE,
    P_EACH,
    P_FIRST,
    P_INBOX,
    P_ALARM,
    P_WAITS,
    P_RAISE,
    P_BEAT,
    P_RELEASE,
    P_SETTLE,
    P_TAKE,
    P_ACCEPT,
    P_COMMIT,
};

struct pstatement {
    enum pverb verb;
    uint64_t epoch, number; /* number: a batch, or the beat that was seen */
    struct str batch;
    int64_t rows[INBOX_MAX];
    size_t row_count;
    span lease;
    int node;
    /* The answer: */
    enum err_code code;
    uint64_t answer;
    struct pg_alarm alarm;
    struct pg_shard shard;
    struct pg_log_place place;
    const struct prow **log;
    size_t log_count;
    struct pinbox inbox[INBOX_MAX];
    size_t inbox_count;
    /* Its way: */
    int64_t at;    /* of the next thing that happens to it */
    bool executes; /* it has the row of the shard: the next thing is its effect */
    bool answered, dropped;
    struct pg *from; /* NULL: nobody waits for it any more */
};

struct pdouble {
    struct rng rng;
    struct pstate now, synced; /* synced: but for beats, which no commit waits for */
    struct pstate *past;       /* every state that was durable, and was the newest at some time */
    size_t past_count;
    const struct prow **log; /* batch n at n - 1 */
    size_t log_cap;
    struct pstatement **under_way;
    size_t count, cap;
    int64_t row_free_at;      /* the row of the shard is locked until then */
    int64_t away_until;       /* nobody can connect */
    int64_t slow_ms;          /* a durable commit takes up to so long */
    bool full;                /* commits fail for want of room */
    uint64_t lost_to;         /* the batch to which it fell back last */
    unsigned falls;           /* how often it has lost commits */
    uint64_t commits, fenced; /* what happened */
};

extern struct pdouble *pdouble;

void pdouble_init(struct pdouble *p, uint64_t seed);
/* Begins a statement of that connection; NULL: of nobody. It is owned by the double. */
struct pstatement *pdouble_send(struct pg *from, const struct pstatement *s, int64_t now);
/* What was answered. NULL is fine. */
void pdouble_free(struct pstatement *s);
/* When something happens next. */
int64_t pdouble_next(const struct pdouble *p);
/* Lets happen what is due. */
void pdouble_run(struct pdouble *p, int64_t now);
/* The client of a connection is gone: what it has sent may arrive all the same. */
void pdouble_cut(struct pdouble *p, const struct pg *pg, int64_t now);
/* It ends, and is there again after a while; what was under way took effect or not. */
void pdouble_crash(struct pdouble *p, int64_t now, int64_t back_at);
/* The same, and another takes its place that has less: `states` changes are lost. */
void pdouble_fall_back(struct pdouble *p, int64_t now, int64_t back_at, size_t states);
/* A transaction of an application: whether it could be done. */
bool pdouble_enqueue(struct pdouble *p, int64_t now, struct id job, unsigned serial, bool rollback);
/* The row of that batch, if it is there. */
const struct prow *pdouble_row(const struct pdouble *p, uint64_t seq);

/* The rows of the inbox. */
NODISCARD struct err pg_double_inbox(struct pg *pg, struct pinbox rows[INBOX_MAX], size_t *count);

#endif
