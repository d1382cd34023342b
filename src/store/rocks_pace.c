/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_pace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"

#define MIB ((uint64_t)1024 * 1024)

/* Compactions begin with LEVEL0_AT tables at level 0. From there on the rate doubles with every
 * second one, until there is none. */
#define LEVEL0_AT        4
#define LEVEL0_UNLIMITED 12
#define RATE             (48 * MIB)
/* Less is written while nobody is in a hurry: a byte is read by compactions some ten times. */
#define QUIET       (2 * MIB)
#define QUIET_AT    (ROCKS_PACE_SLOWDOWN * 3 / 4) /* tables at level 0, at most */
#define INCOMING_NS (SECOND_NS / 4) /* what is written is counted over that, or more */

#define CHUNK     ((uint64_t)256 * 1024) /* between two looks at the clock */
#define LOOK_AT   64                     /* chunks between two looks at the database */
#define SECOND_NS ((int64_t)1000 * 1000 * 1000)
#define AHEAD_NS  (SECOND_NS / 20) /* that a thread may catch up with */
/* Whoever closes the database waits for its compaction. */
#define SLEEP_NS (SECOND_NS / 50)

struct rocks_pace {
    pthread_mutex_t lock; /* of all below */
    rocksdb_t *db;
    rocksdb_compactionfilter_t *filter;
    struct rocks_pace_clock clock;
    uint64_t rate;
    unsigned until_look;
    uint64_t incoming;        /* a second; UINT64_MAX: not known yet */
    uint64_t written_before;  /* and when */
    mono counted_at;          /* 0: never */
    _Atomic uint64_t written; /* not under the lock */
};

uint64_t rocks_pace_rate(uint64_t level0, bool delayed, uint64_t incoming)
{
    if (!delayed && incoming < QUIET && level0 < QUIET_AT)
        return RATE;
    if (delayed || level0 >= LEVEL0_UNLIMITED)
        return 0;
    return level0 < LEVEL0_AT ? RATE : RATE << (level0 - LEVEL0_AT) / 2;
}

mono rocks_pace_spend(struct rocks_pace_clock *c, uint64_t bytes, uint64_t rate, mono now)
{
    if (!rate) {
        c->due = now;
        return (mono){0};
    }
    if (c->due.ns < now.ns - AHEAD_NS)
        c->due.ns = now.ns - AHEAD_NS;
    c->due.ns += (int64_t)(bytes * (uint64_t)SECOND_NS / rate);
    int64_t early = c->due.ns - now.ns;
    if (early <= 0)
        return (mono){0};
    return (mono){early < SLEEP_NS ? early : SLEEP_NS};
}

/* --- the filter --- */

uint64_t rocks_level0(rocksdb_t *db)
{
    char *text = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
    uint64_t n = text ? strtoull(text, NULL, 10) : 0;
    rocksdb_free(text);
    return n;
}

static void count_incoming(struct rocks_pace *p, mono now)
{
    int64_t time = now.ns - p->counted_at.ns;
    bool first = p->counted_at.ns == 0;
    if (!first && time < INCOMING_NS)
        return;
    uint64_t written = atomic_load(&p->written);
    if (!first)
        p->incoming = (written - p->written_before) * 1000 / (uint64_t)(time / (1000 * 1000));
    p->written_before = written;
    p->counted_at = now;
}

static void look(struct rocks_pace *p, mono now)
{
    uint64_t delayed = 0;
    if (p->until_look > 0) {
        p->until_look--;
        return;
    }
    p->until_look = LOOK_AT;
    rocksdb_property_int(p->db, "rocksdb.actual-delayed-write-rate", &delayed);
    count_incoming(p, now);
    p->rate = rocks_pace_rate(rocks_level0(p->db), delayed != 0, p->incoming);
}

static mono now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (mono){(int64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec};
}

static mono spend(struct rocks_pace *p, uint64_t bytes)
{
    mono sleep = {0};
    pthread_mutex_lock(&p->lock);
    if (p->db) {
        mono at = now();
        look(p, at);
        sleep = rocks_pace_spend(&p->clock, bytes, p->rate, at);
    }
    pthread_mutex_unlock(&p->lock);
    return sleep;
}

static unsigned char keep(void *state, int level, const char *key, size_t key_len,
                          const char *value, size_t len, char **new_value, size_t *new_len,
                          unsigned char *changed)
{
    static _Thread_local uint64_t bytes;
    (void)level, (void)key, (void)value, (void)new_value, (void)new_len;
    *changed = 0;
    bytes += key_len + len;
    if (bytes < CHUNK)
        return 0;
    mono left = spend(state, bytes);
    struct timespec ts = {.tv_nsec = left.ns};
    if (left.ns)
        nanosleep(&ts, NULL);
    bytes = 0;
    return 0;
}

static const char *name(void *state)
{
    (void)state;
    return "tenax.pace";
}

static void nothing(void *state)
{
    (void)state;
}

struct rocks_pace *rocks_pace_new(void)
{
    struct rocks_pace *p = ALLOC(struct rocks_pace);
    p->incoming = UINT64_MAX;
    pthread_mutex_init(&p->lock, NULL);
    p->filter = rocksdb_compactionfilter_create(p, nothing, keep, name);
    return p;
}

void rocks_pace_free(struct rocks_pace *p)
{
    rocksdb_compactionfilter_destroy(p->filter);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void rocks_pace_options(struct rocks_pace *p, rocksdb_options_t *o)
{
    rocksdb_options_set_compaction_filter(o, p->filter);
    rocksdb_options_set_level0_file_num_compaction_trigger(o, LEVEL0_AT);
    rocksdb_options_set_level0_slowdown_writes_trigger(o, ROCKS_PACE_SLOWDOWN);
    rocksdb_options_set_level0_stop_writes_trigger(o, ROCKS_PACE_STOP);
}

void rocks_pace_watch(struct rocks_pace *p, rocksdb_t *db)
{
    pthread_mutex_lock(&p->lock);
    p->db = db;
    p->until_look = 0;
    pthread_mutex_unlock(&p->lock);
}

void rocks_pace_count(struct rocks_pace *p, uint64_t bytes)
{
    atomic_fetch_add_explicit(&p->written, bytes, memory_order_relaxed);
}
