/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_memory.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

struct batch_kept {
    struct str bytes; /* owned */
    bool synced;
};

struct open_log {
    struct log base;
    struct log_memory *memory;
};

struct log_memory {
    struct open_log *open;
    struct batch_kept *batches; /* numbers before + 1 .. before + count */
    size_t count, cap;
    uint64_t before;
    uint64_t durable;
    uint64_t kept; /* of those that are not durable, the last one that a reopening finds */
    struct log_memory_faults faults;
    struct err failed;
};

static struct log_memory *memory_of(struct log *l)
{
    return ((struct open_log *)l)->memory;
}

static uint64_t last_of(const struct log_memory *m)
{
    return m->before + m->count;
}

/* Forgets the batches after that number. */
static void cut(struct log_memory *m, uint64_t number)
{
    while (last_of(m) > number)
        free((void *)(uintptr_t)m->batches[--m->count].bytes.at);
    if (m->durable > number)
        m->durable = number;
}

void log_memory_settle(struct log_memory *m)
{
    if (m->failed.code == ERR_OK)
        m->durable = last_of(m);
}

static void keep(struct log_memory *m, struct str batch, bool sync)
{
    char *copy = alloc_get(batch.len + 1);
    if (batch.len)
        memcpy(copy, batch.at, batch.len);
    ALLOC_GROW(m->batches, m->count, m->cap, 16);
    m->batches[m->count++] = (struct batch_kept){{copy, batch.len}, sync};
    /* Syncing one syncs those before it. */
    for (size_t i = m->count - 1; sync && i > 0 && !m->batches[i - 1].synced; i--)
        m->batches[i - 1].synced = true;
}

static struct err memory_append(struct log *l, struct str batch, bool sync, uint64_t *number)
{
    struct log_memory *m = memory_of(l);
    if (m->failed.code == ERR_DISK_FULL)
        return err_make(ERR_IO, "%s", m->failed.msg); /* to try it again is of no use */
    TRY(m->failed);
    if (m->faults.refuse != ERR_OK) {
        struct err e = err_make(m->faults.refuse, "the append was refused, as instructed");
        m->faults.refuse = ERR_OK;
        return e;
    }
    if (last_of(m) - m->durable == LOG_UNDER_WAY_MAX)
        log_memory_settle(m);
    keep(m, batch, sync);
    *number = last_of(m);
    if (m->faults.fail != ERR_OK) {
        /* Those before it that are held may have come through or not; the worst is that not. */
        m->kept = m->faults.fail_but_keep ? last_of(m) : m->durable;
        m->failed = err_make(m->faults.fail, "the append failed, as instructed");
        m->faults.fail = ERR_OK;
    } else if (!m->faults.hold) {
        log_memory_settle(m);
    }
    return err_none();
}

static bool memory_is_ready(const struct log *l, size_t len, bool sync)
{
    const struct log_memory *m = ((const struct open_log *)l)->memory;
    (void)len;
    (void)sync;
    return m->failed.code == ERR_OK && last_of(m) - m->durable < LOG_UNDER_WAY_MAX;
}

static uint64_t memory_durable(struct log *l)
{
    return memory_of(l)->durable;
}

static uint64_t memory_first(struct log *l)
{
    return memory_of(l)->before + 1;
}

static bool memory_ended(struct log *l, uint64_t number, struct err *result)
{
    const struct log_memory *m = memory_of(l);
    must(number <= last_of(m));
    *result = m->durable >= number ? err_none() : m->failed;
    return m->durable >= number || m->failed.code != ERR_OK;
}

static struct err memory_wait(struct log *l, uint64_t number)
{
    struct log_memory *m = memory_of(l);
    must(number <= last_of(m));
    if (m->durable < number)
        log_memory_settle(m);
    return m->durable >= number ? err_none() : m->failed;
}

static struct err memory_replay(struct log *l, uint64_t from, log_replay_fn fn, void *ctx)
{
    struct log_memory *m = memory_of(l);
    if (from <= m->before && from <= last_of(m))
        return err_make(ERR_CORRUPT, "the log begins after batch %llu", (unsigned long long)from);
    for (uint64_t n = from; n <= last_of(m); n++)
        TRY(fn(ctx, n, m->batches[n - m->before - 1].bytes));
    return err_none();
}

static void memory_release(struct log *l, uint64_t number)
{
    struct log_memory *m = memory_of(l);
    must(number <= m->durable);
    if (number <= m->before)
        return;
    size_t gone = (size_t)(number - m->before);
    for (size_t i = 0; i < gone; i++)
        free((void *)(uintptr_t)m->batches[i].bytes.at);
    memmove(m->batches, m->batches + gone, (m->count - gone) * sizeof *m->batches);
    m->count -= gone;
    m->before = number;
}

static void end(struct log_memory *m, uint64_t last)
{
    cut(m, last);
    m->failed = err_none();
    free(m->open);
    m->open = NULL;
}

static void memory_close(struct log *l)
{
    struct log_memory *m = memory_of(l);
    log_memory_settle(m);
    end(m, m->failed.code != ERR_OK ? m->kept : last_of(m));
}

void log_memory_crash(struct log_memory *m, uint64_t first, bool lose_unsynced)
{
    must(m->open);
    uint64_t last = m->durable + first < last_of(m) ? m->durable + first : last_of(m);
    while (lose_unsynced && last > m->before && !m->batches[last - m->before - 1].synced)
        last--;
    end(m, last);
}

struct err log_memory_open(struct log_memory *m, uint64_t from, struct log **out)
{
    static const struct log_vt vt = {
        .append = memory_append,
        .is_ready = memory_is_ready,
        .durable = memory_durable,
        .first = memory_first,
        .ended = memory_ended,
        .wait = memory_wait,
        .replay = memory_replay,
        .release = memory_release,
        .close = memory_close,
    };
    must(!m->open && from > 0);
    if (m->before == 0 && m->count == 0)
        m->before = from - 1;
    if (from <= m->before || from > last_of(m) + 1)
        return err_make(ERR_CORRUPT, "the log has batches %llu to %llu, and %llu is asked for",
                        (unsigned long long)m->before + 1, (unsigned long long)last_of(m),
                        (unsigned long long)from);
    m->open = ALLOC(struct open_log);
    m->open->base.vt = &vt;
    m->open->memory = m;
    m->durable = last_of(m);
    *out = &m->open->base;
    return err_none();
}

void log_memory_set_faults(struct log_memory *m, struct log_memory_faults faults)
{
    m->faults = faults;
}

struct log_memory *log_memory_new(void)
{
    return ALLOC(struct log_memory);
}

void log_memory_free(struct log_memory *m)
{
    must(!m->open);
    cut(m, m->before);
    free(m->batches);
    free(m);
}
