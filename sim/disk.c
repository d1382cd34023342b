/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/must.h"
#include "store/memory.h"
#include "store/record.h"

struct disk {
    struct store base;
    struct store *memory;
    const struct batch *batch;
    uint64_t begun, ended, failed;
    unsigned reopens_fail;
    unsigned fail_in; /* commits, of which the last fails so: */
    struct memory_faults fault;
    struct idmap takes; /* id -> number of runs begun, as a non-NULL pointer */
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
    d->begun++;
    if (d->fail_in && --d->fail_in == 0)
        memory_set_faults(d->memory, d->fault);
    store_commit(d->memory, b, sync);
}

static bool reap(struct store *s, struct err *result)
{
    struct disk *d = disk_of(s);
    if (!store_reap(d->memory, result))
        return false;
    d->ended++;
    if (result->code == ERR_OK)
        note_batch(d);
    else
        d->failed = d->ended;
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
    return store_reopen(d->memory);
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
    store_close(d->memory);
    idmap_fini(&d->takes);
    free(d);
}

struct store *disk_new(void)
{
    static struct store_vt vt;
    struct disk *d = ALLOC(struct disk);
    d->memory = memory_new();
    /* Cursors are those of the memory store. */
    vt = *d->memory->vt;
    vt.get = get;
    vt.commit = commit;
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

struct store *disk_memory(struct store *disk)
{
    return disk_of(disk)->memory;
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
    d->fault = (struct memory_faults){.fail = code, .fail_but_keep = keep};
}

void disk_crash(struct store *disk, bool apply, bool lose_unsynced)
{
    struct disk *d = disk_of(disk);
    memory_set_faults(d->memory, (struct memory_faults){0});
    memory_crash(d->memory, apply, lose_unsynced);
    d->batch = NULL;
    d->begun = d->ended = d->failed = 0;
    d->reopens_fail = 0;
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
        if (memchr("MDFQVY", key.at[0], 6))
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
