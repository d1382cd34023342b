/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <stdlib.h>

#include <errno.h>

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/must.h"
#include "base/rng.h"
#include "sectors.h"
#include "store/batch_bytes.h"
#include "store/log_file.h"
#include "store/log_frame.h"
#include "store/record.h"
#include "trace.h"

/* A commit in so many is preceded by a flush. */
#define FLUSH_EVERY 12
/* Without `sync` one in so many is synced all the same, as in a server some are. */
#define SYNC_EVERY 3
/* After a commit in so many the log is idle for long enough to say so. */
#define REST_EVERY 4
/* Faults of the disk that are tried before each recovery. */
#define SPOILS 16
/* Calls of a segment's change, or of an opening. */
#define CALLS_MAX 12

struct disk {
    struct store base;
    struct store *memory; /* "synced" there is what is in tables */
    const struct batch *batch;
    uint64_t begun, ended, failed;
    unsigned reopens_fail;
    unsigned fail_in; /* commits, of which the last fails so: */
    struct memory_faults fails;
    struct idmap takes; /* id -> number of runs begun, as a non-NULL pointer */

    struct log *log;
    bool sync, lossy, no_direct;
    bool has_log; /* it was opened once */
    uint64_t segment_bytes;
    struct rng rng;
    struct memory_faults fault; /* of the commits that follow */
    bool batch_sync;
    bool dying;      /* the process may be dead before the batch in progress has ended */
    uint64_t number; /* of the batch in progress, in the log; 0: it is not there */
    uint64_t tables; /* hold the batches up to it */
    uint64_t appended, acknowledged; /* to the log; to whoever committed */
    uint64_t safe;                   /* no power cut loses those up to it */
    /* Something behind those up to it says that they were durable: as long as the process dies, or
     * even the power fails. */
    uint64_t witnessed, witnessed_safe;
    struct buf *batches; /* those of the log after `tables`, as they were appended */
    size_t batch_count, batch_cap;
};

static struct disk *disk_of(const struct store *s)
{
    return (struct disk *)(uintptr_t)s;
}

/* --- the witness --- */

static void note_run(struct disk *d, struct id id, uint32_t runs)
{
    if (runs > (uintptr_t)idmap_get(&d->takes, id))
        idmap_put(&d->takes, id, (void *)(uintptr_t)runs);
}

static void note_take(void *ctx, struct take take)
{
    note_run(ctx, take.id, take.run + 1);
}

static void note_lease(void *ctx, const struct lease *lease)
{
    note_run(ctx, lease->id, lease->run + 1);
}

static void note_batch(struct disk *d)
{
    for (size_t i = 0; i < d->batch->count; i++) {
        const struct batch_op *op = &d->batch->ops[i];
        struct id id;
        uint64_t seq;
        instant at;
        struct job_state state;
        struct err err = err_none();
        /* A run that has ended in the same batch, or was deleted with its job. */
        uint32_t run;
        if (record_key_is_run(op->key, &id, &run))
            note_run(d, id, run + 1);
        else if (record_key_is_job(op->key, &id) && !op->value.at)
            note_run(d, id, UINT32_MAX);
        if (!op->value.at)
            continue;
        if (record_key_is_state(op->key, &id)) {
            err = record_read_state(op->value, &state);
            must(err.code == ERR_OK);
            note_run(d, id, state.runs);
        } else if (record_key_is_takes(op->key, &seq)) {
            err = record_is_leases(op->value) ? record_read_leases(op->value, note_lease, d)
                                              : record_read_takes(op->value, &at, note_take, d);
            must(err.code == ERR_OK);
        }
    }
}

/* --- log and tables --- */

static void forget_batches(struct disk *d, size_t from, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = from; i < from + count; i++)
        buf_fini(&d->batches[i]);
    memmove(d->batches + from, d->batches + from + count,
            (d->batch_count - from - count) * sizeof *d->batches);
    d->batch_count -= count;
}

/* Tables hold everything that reads see. */
static void flush(struct disk *d)
{
    uint64_t number = store_number(d->memory);
    memory_sync(d->memory);
    log_release(d->log, number);
    forget_batches(d, 0, (size_t)(number - d->tables));
    d->tables = number;
    if (d->safe < number)
        d->safe = number;
}

static void append(struct disk *d, const struct batch *b, bool sync)
{
    struct buf bytes = {0};
    batch_bytes_write(b, &bytes);
    struct err e = log_append(d->log, buf_view(&bytes), sync, &d->number);
    PROMISE(e.code == ERR_OK, "I1", "the log takes no batch: %s", e.msg);
    PROMISE(d->number == d->appended + 1, "I1", "batch %lu has number %lu", d->appended + 1,
            d->number);
    d->appended = d->number;
    ALLOC_GROW(d->batches, d->batch_count, d->batch_cap, 16);
    d->batches[d->batch_count++] = bytes;
}

/* A batch is acknowledged, which says of those before it that they were. */
static void note_witness(struct disk *d)
{
    d->witnessed = d->number - 1;
    if (!d->batch_sync)
        return;
    d->safe = d->number;
    d->witnessed_safe = d->number - 1;
}

static void rest(struct disk *d)
{
    log_file_rest(d->log);
    d->witnessed = d->acknowledged;
    if (d->batch_sync)
        d->witnessed_safe = d->acknowledged;
}

/* The batch in progress has ended as the memory store says: so it does in the log. */
static void end_append(struct disk *d, const struct err *result)
{
    bool fails = result->code != ERR_OK && !d->dying;
    /* Without O_DIRECT there are two calls, of which either may fail. */
    unsigned calls = d->batch_sync && d->no_direct ? 1 + (unsigned)rng_below(&d->rng, 2) : 1;
    if (fails)
        sectors_fail_at(calls, result->code == ERR_DISK_FULL ? ENOSPC : EIO,
                        d->fault.fail_but_keep);
    if (result->code == ERR_OK)
        sectors_die_at(0); /* it is alive */
    struct err e = log_wait(d->log, d->number);
    PROMISE((e.code != ERR_OK) == fails, "I1", "batch %lu: %s", d->number, e.msg);
    sectors_fail_at(0, 0, false);
    if (result->code == ERR_OK)
        d->acknowledged = d->number;
    if (result->code == ERR_OK)
        note_witness(d);
    if (result->code == ERR_OK && rng_below(&d->rng, REST_EVERY) == 0)
        rest(d);
    d->number = 0;
}

static struct err gather(void *ctx, const struct batch_op *op)
{
    if (op->value.at)
        batch_put(ctx, op->key, op->value);
    else
        batch_delete(ctx, op->key);
    return err_none();
}

static struct err expect_batch(void *ctx, uint64_t number, struct str bytes)
{
    const struct disk *d = ctx;
    PROMISE(number > d->tables && number <= d->appended, "I2", "batch %lu never was", number);
    PROMISE(str_eq(bytes, buf_view(&d->batches[number - d->tables - 1])), "I2",
            "batch %lu comes back as another", number);
    return err_none();
}

static struct err bring_to_memory(void *ctx, uint64_t number, struct str bytes)
{
    struct disk *d = ctx;
    struct batch b = {0};
    struct err e = expect_batch(ctx, number, bytes), result;
    must(e.code == ERR_OK);
    e = batch_bytes_read(bytes, gather, &b);
    PROMISE(e.code == ERR_OK, "I2", "batch %lu: %s", number, e.msg);
    store_commit(d->memory, &b, false);
    must(store_reap(d->memory, &result) && result.code == ERR_OK);
    must(store_number(d->memory) == number);
    batch_fini(&b);
    return err_none();
}

static struct log_file_settings settings_of(const struct disk *d)
{
    return (struct log_file_settings){.dir = SECTORS_DIR,
                                      .from = d->tables + 1,
                                      .found = d->has_log,
                                      .lossy = d->lossy,
                                      .unsynced = !d->sync,
                                      .segment_bytes = d->segment_bytes,
                                      .segment_bytes_max = d->segment_bytes,
                                      .no_direct = d->no_direct,
                                      .no_maker = true,
                                      .no_rest = true};
}

static void open_log(struct disk *d)
{
    struct log_file_settings settings = settings_of(d);
    uint64_t calls = sectors_calls();
    struct err e = log_file_open(&settings, &d->log);
    PROMISE(e.code == ERR_OK, "I2", "the log is refused: %s", e.msg);
    must(sectors_calls() > calls); /* or the linker does not lead them there */
}

/* What a reader knows. */
enum knowledge {
    NOTHING,
    UNSYNCED, /* what was never synced may be missing: less must be there, but that must */
    REACHED,  /* how far the log had come: it must have come so far */
    KNOWLEDGES
};

/* A disk that has lost something it had: what was acknowledged is there, or the log is refused. */
static void meet_fault(struct disk *d, enum sectors_fault fault, enum knowledge known, bool power)
{
    struct log_file_settings settings = settings_of(d);
    struct log *l;
    uint64_t least = power || known == UNSYNCED ? d->witnessed_safe : d->witnessed;
    settings.lossy = false;
    settings.unsynced = known == UNSYNCED;
    if (known == REACHED && d->acknowledged >= settings.from)
        settings.reached = least = d->acknowledged;
    sectors_spoil(fault);
    struct err e = log_file_open_reader(&settings, &l);
    PROMISE(e.code == ERR_OK || e.code == ERR_CORRUPT, "I2", "a reader fails: %s", e.msg);
    if (e.code == ERR_OK) {
        uint64_t last = log_durable(l);
        PROMISE(last >= least, "I2",
                "after fault %d the log ends with batch %lu in silence, and %lu was durable", fault,
                last, least);
        e = log_replay(l, d->tables + 1, expect_batch, d);
        PROMISE(e.code == ERR_OK, "I2", "what a reader has opened it cannot read: %s", e.msg);
        log_close(l);
    }
    sectors_mend();
}

static void meet_faults(struct disk *d, bool power)
{
    for (int i = 0; d->has_log && i < SPOILS; i++)
        meet_fault(d, (enum sectors_fault)(i % SECTORS_FAULTS),
                   (enum knowledge)(i / SECTORS_FAULTS % KNOWLEDGES), power);
}

/* The process may die while it opens the log, too, any number of times, and the power fail where it
 * did before, or where that can lose nothing; whether it has. */
static bool start_log(struct disk *d, bool power)
{
    bool may_fail = power || d->sync;
    for (;;) {
        bool cut_off = rng_below(&d->rng, 5) == 0;
        if (cut_off)
            sectors_die_at(1 + (unsigned)rng_below(&d->rng, CALLS_MAX));
        open_log(d);
        if (!sectors_died())
            break;
        bool fails = may_fail && rng_below(&d->rng, 2) == 0;
        log_close(d->log);
        sectors_crash(fails);
        power |= fails;
    }
    sectors_die_at(0);
    return power;
}

/* As a start of the server does; the log is closed. */
static void recover(struct disk *d, bool power)
{
    meet_faults(d, power);
    power = start_log(d, power);
    uint64_t least = power ? d->safe : d->acknowledged, last = log_durable(d->log);
    PROMISE(last >= least, "I2", "the log ends with batch %lu, and %lu was durable", last, least);
    PROMISE(last <= d->appended, "I2", "the log has batch %lu of %lu", last, d->appended);
    trace_line("the log has batch %lu of %lu, %lu were acknowledged, tables have %lu", last,
               d->appended, d->acknowledged, d->tables);
    memory_set_faults(d->memory, (struct memory_faults){.recover_unsynced = true});
    memory_crash(d->memory, false, true);
    must(store_number(d->memory) == d->tables);
    struct err e = log_replay(d->log, d->tables + 1, bring_to_memory, d);
    PROMISE(e.code == ERR_OK, "I2", "the log is refused: %s", e.msg);
    PROMISE(store_number(d->memory) == last, "I2", "the log has batch %lu of %lu",
            store_number(d->memory), last);
    forget_batches(d, (size_t)(last - d->tables), (size_t)(d->appended - last));
    d->appended = d->acknowledged = d->safe = d->witnessed = d->witnessed_safe = last;
    d->number = 0;
    d->has_log = true;
}

/* --- the store --- */

static struct err get(struct store *s, struct str key, bool *found, struct buf *value)
{
    return store_get(disk_of(s)->memory, key, found, value);
}

static void commit(struct store *s, const struct batch *b, bool sync)
{
    struct disk *d = disk_of(s);
    must(!d->batch);
    d->batch = b;
    d->batch_sync = sync || rng_below(&d->rng, SYNC_EVERY) == 0;
    d->begun++;
    if (d->fail_in && --d->fail_in == 0)
        disk_set_faults(s, d->fails);
    if (store_failure(d->memory).code == ERR_OK) {
        if (rng_below(&d->rng, FLUSH_EVERY) == 0)
            flush(d);
        d->dying = d->fault.fail == ERR_STORE && rng_below(&d->rng, 2) == 0;
        if (d->dying)
            sectors_die_at(1 + (unsigned)rng_below(&d->rng, CALLS_MAX));
        append(d, b, d->batch_sync);
    }
    store_commit(d->memory, b, false);
}

/* The batch in progress has ended as the memory store says. */
static void end_batch(struct disk *d, struct err *result)
{
    if (d->ended == d->begun)
        return; /* it was said to be durable before */
    d->ended++;
    if (d->number)
        end_append(d, result);
    if (result->code == ERR_OK)
        note_batch(d);
    else
        d->failed = d->ended;
}

static bool durable(struct store *s)
{
    struct disk *d = disk_of(s);
    struct err result = err_none();
    if (!store_is_durable(d->memory))
        return false;
    end_batch(d, &result);
    return true;
}

static bool reap(struct store *s, struct err *result)
{
    struct disk *d = disk_of(s);
    if (!store_reap(d->memory, result))
        return false;
    end_batch(d, result);
    if (result->code != ERR_OK)
        d->fault.fail = ERR_OK;
    d->batch = NULL;
    return true;
}

static void wait(struct store *s)
{
    /* After a crash there is nothing to wait for. */
    if (disk_of(s)->batch)
        store_wait(disk_of(s)->memory);
}

static struct err reopen(struct store *s)
{
    struct disk *d = disk_of(s);
    if (d->reopens_fail) {
        d->reopens_fail--;
        return err_make(ERR_STORE, "the store does not open, as instructed");
    }
    log_close(d->log);
    sectors_crash(false);
    recover(d, false);
    return err_none();
}

static uint64_t number(const struct store *s)
{
    return store_number(disk_of(s)->memory);
}

static void hold(struct store *s, uint64_t last)
{
    store_hold(disk_of(s)->memory, last);
}

static struct err replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx)
{
    return store_replay(disk_of(s)->memory, from, fn, ctx);
}

static struct err failure(const struct store *s)
{
    return store_failure(disk_of(s)->memory);
}

static struct store_cursor *cursor_new(struct store *s)
{
    return store_cursor_new(disk_of(s)->memory);
}

static int64_t free_space(struct store *s)
{
    return store_free_space(disk_of(s)->memory);
}

static uint64_t disk_bytes(struct store *s)
{
    return store_disk_bytes(disk_of(s)->memory);
}

static void close_disk(struct store *s)
{
    struct disk *d = disk_of(s);
    log_close(d->log);
    sectors_crash(false);
    sectors_end();
    store_close(d->memory);
    idmap_fini(&d->takes);
    forget_batches(d, 0, d->batch_count);
    free(d->batches);
    free(d);
}

struct store *disk_new(uint64_t seed, bool sync)
{
    static struct store_vt vt;
    struct disk *d = ALLOC(struct disk);
    d->memory = memory_new();
    d->rng = rng_from_seed(seed ^ 0x5ec705);
    d->sync = sync;
    d->lossy = !sync && rng_below(&d->rng, 2) == 0;
    d->no_direct = rng_below(&d->rng, 2) == 0;
    d->segment_bytes = LOG_BLOCK << (3 + rng_below(&d->rng, 4));
    sectors_begin(rng_next(&d->rng));
    recover(d, false);
    /* Cursors are those of the memory store. */
    vt = *d->memory->vt;
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
    vt.close = close_disk;
    d->base.vt = &vt;
    return &d->base;
}

uint64_t disk_begun(const struct store *disk)
{
    return disk_of(disk)->begun;
}

uint64_t disk_ended(const struct store *disk)
{
    return disk_of(disk)->ended;
}

uint64_t disk_failed(const struct store *disk)
{
    return disk_of(disk)->failed;
}

bool disk_is_busy(const struct store *disk)
{
    return disk_of(disk)->batch != NULL;
}

bool disk_has_take(const struct store *disk, struct id id, uint32_t run)
{
    return (uintptr_t)idmap_get(&disk_of(disk)->takes, id) > run;
}

void disk_fail_reopens(struct store *disk, unsigned count)
{
    disk_of(disk)->reopens_fail = count;
}

void disk_fail_commit(struct store *disk, unsigned count, enum err_code code, bool keep)
{
    struct disk *d = disk_of(disk);
    d->fail_in = count;
    d->fails = (struct memory_faults){.fail = code, .fail_but_keep = keep};
}

/* What is there after a failed commit the log says. */
void disk_set_faults(struct store *disk, struct memory_faults faults)
{
    struct disk *d = disk_of(disk);
    d->fault = faults;
    faults.fail_but_keep = false;
    faults.recover_unsynced = true;
    memory_set_faults(d->memory, faults);
}

void disk_release(struct store *disk)
{
    memory_release(disk_of(disk)->memory);
}

void disk_break(struct store *disk, enum err_code code)
{
    memory_break(disk_of(disk)->memory, code);
}

void disk_set_free_space(struct store *disk, int64_t bytes)
{
    memory_set_free_space(disk_of(disk)->memory, bytes);
}

void disk_sync(struct store *disk)
{
    sectors_write_back();
    disk_of(disk)->safe = disk_of(disk)->acknowledged;
}

void disk_crash(struct store *disk, bool apply, bool power)
{
    struct disk *d = disk_of(disk);
    bool failed = store_failure(d->memory).code != ERR_OK;
    if (!d->number && !failed && !sectors_died() && rng_below(&d->rng, 4) == 0) {
        sectors_die_at(1 + (unsigned)rng_below(&d->rng, 2));
        log_file_rest(d->log);
    }
    if (d->number && !apply && !failed && !sectors_died())
        sectors_die_at(1 + (d->no_direct && d->batch_sync ? (unsigned)rng_below(&d->rng, 2) : 0));
    log_close(d->log);
    sectors_crash(power);
    recover(d, power);
    d->batch = NULL;
    d->begun = d->ended = d->failed = 0;
    d->reopens_fail = 0;
    d->dying = false;
    d->fault = (struct memory_faults){0};
    idmap_clear(&d->takes);
}

uint64_t disk_records(struct store *disk, char *kinds, size_t cap)
{
    struct store *s = disk_of(disk)->memory;
    struct store_cursor *c = store_cursor_new(s);
    struct str key, value;
    uint64_t count = 0;
    for (store_cursor_seek(c, s, STR(""), false); store_cursor_at(c, s, &key, &value);
         store_cursor_step(c, s, false)) {
        if (memchr("MDFQUVY", key.at[0], 7))
            continue;
        if (count + 1 < cap)
            kinds[count] = key.at[0];
        count++;
    }
    kinds[count < cap ? count : cap - 1] = '\0';
    struct err err = store_cursor_free(c, s);
    must(err.code == ERR_OK);
    return count;
}
