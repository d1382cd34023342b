/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs that can be undone (core/undo.h). What is kept of a job is put in the batch
 * of its change, together with the operation that it belongs to; and it is deleted in the batch
 * that makes the change undone. So a restart finds neither too much nor too little, and an undo
 * that was cut short goes on where it was. When the window of an operation ends, what it kept is
 * deleted in bounded steps. */

#include <inttypes.h>

#include "backend/embedded/embedded_undo.h"
#include "base/must.h"
#include "core/undo.h"
#include "store/record_undo.h"

#define UNDO_PER_TURN  128 /* jobs */
#define SWEEP_PER_TURN 512 /* entries */

/* The limit in bytes that are read and written: a slice ends after the entry that reaches it. */
#define UNDO_BYTES ((uint64_t)4 << 20)

static void store(struct embedded *b, const struct bulk_operation *op)
{
    record_put_operation(&b->building->batch, op);
}

void embedded_undo_store(struct embedded *b, const struct bulk_operation *op)
{
    if (op->undo.state != UNDO_NEVER)
        store(b, op);
}

/* --- a change that can be undone --- */

static struct err full(const struct embedded *b)
{
    return err_make(ERR_UNDO_FULL,
                    "what can be undone takes as much as it may (--undo-max-bytes is %" PRIu64
                    ", and %d operations can be undone at a time): undo something, wait until a "
                    "window ends, or do without undo",
                    b->settings.undo_max_bytes, OPERATIONS_UNDOABLE_MAX);
}

static uint64_t kept_bytes(const struct embedded *b, size_t *count)
{
    uint64_t bytes;
    *count = operations_stored(&b->operations, &bytes);
    return bytes;
}

static void forget(struct embedded *b, uint64_t number)
{
    struct record_key key = record_operation_key(number);
    batch_delete(&b->building->batch, record_key_view(&key));
    operations_forget(&b->operations, number);
}

struct err embedded_undo_check(struct embedded *b, span window)
{
    size_t count;
    if (b->settings.undo_max.ms <= 0)
        return err_make(ERR_UNPROCESSABLE, "nothing can be undone here: --undo-max is 0");
    if (window.ms > b->settings.undo_max.ms)
        return err_make(ERR_BAD_VALUE, "undo is at most %" PRId64 " s: see --undo-max",
                        b->settings.undo_max.ms / 1000);
    embedded_check_space(b);
    if ((uint64_t)b->free_space < b->settings.min_free_space)
        return embedded_no_space(b);
    if (kept_bytes(b, &count) >= b->settings.undo_max_bytes)
        return full(b);
    const struct bulk_operation *settled = operations_oldest_settled(&b->operations);
    return count < OPERATIONS_UNDOABLE_MAX || settled ? err_none() : full(b);
}

struct err embedded_undo_begin(struct embedded *b, uint64_t number, span window)
{
    size_t count;
    kept_bytes(b, &count);
    const struct bulk_operation *settled = operations_oldest_settled(&b->operations);
    if (count >= OPERATIONS_UNDOABLE_MAX && settled)
        forget(b, settled->number);
    struct bulk_operation *op = operations_find(&b->operations, number);
    if (!op)
        return full(b);
    op->undo.state = UNDO_KEPT;
    op->undo.until = instant_add(b->now, window);
    store(b, op);
    return err_none();
}

static struct err copy_record(struct embedded *b, struct record_key key, struct arena *a,
                              struct batch *to)
{
    bool found;
    struct str value;
    TRY(embedded_read_key(b, key, a, &found, &value));
    if (found)
        batch_put(to, record_key_view(&key), value);
    return err_none();
}

/* What is deleted with a job besides its first record, its payload and its state. */
static struct err keep_beside(struct embedded *b, struct id id, const struct job_extent *extent,
                              struct arena *a, struct batch *beside)
{
    for (uint32_t run = 0; run < extent->runs_ended; run++)
        TRY(copy_record(b, record_run_key(id, run), a, beside));
    for (int kind = 0; kind < NOTE_KINDS; kind++)
        if (extent->notes & NOTE_BIT(kind))
            TRY(copy_record(b, record_note_key(id, (enum note_kind)kind), a, beside));
    return err_none();
}

struct kept {
    struct undo_entry entry;
    struct job_extent extent;
    struct batch beside;
};

static struct err keep(struct embedded *b, struct scan *scan, struct id id, struct arena *scratch,
                       struct kept *k)
{
    const struct bulk_operation *op = operations_find(&b->operations, scan->operation);
    size_t count;
    must(op);
    if (kept_bytes(b, &count) >= b->settings.undo_max_bytes)
        return full(b);
    TRY(engine_undo_keep(b->engine, b->now, id, op->kind, scratch, &k->entry, &k->extent));
    if (op->kind != OPERATION_DELETE && op->kind != OPERATION_CANCEL)
        return err_none();
    return keep_beside(b, id, &k->extent, scratch, &k->beside);
}

static struct err put_kept(struct embedded *b, struct scan *scan, struct arena *scratch,
                           struct kept *k)
{
    struct bulk_operation *op = operations_find(&b->operations, scan->operation);
    struct undo_entry *entry = &k->entry;
    unsigned patched = scan->kind == CMD_PATCH_WHERE ? scan->list.patch->set : 0;
    TRY(engine_undo_kept(b->engine, b->now, patched, scratch, entry));
    if (entry->gone && entry->ran)
        record_put_run(&k->beside, entry->was.id, &entry->run);
    op->undo.bytes += record_put_undo(&b->building->batch, op->number, op->undo.entries++, entry,
                                      entry->gone ? &k->beside : NULL);
    return err_none();
}

struct err embedded_undo_change(struct embedded *b, struct scan *scan, struct id id,
                                struct arena *scratch)
{
    struct kept k = {0};
    struct err err = keep(b, scan, id, scratch, &k);
    if (err.code == ERR_OK)
        err = embedded_scan_change(b, scan, id, scratch);
    if (err.code == ERR_OK)
        err = put_kept(b, scan, scratch, &k);
    batch_fini(&k.beside);
    return err;
}

/* --- undoing --- */

static void put_beside(struct embedded *b, const struct batch *beside)
{
    for (size_t i = 0; i < beside->count; i++)
        batch_put(&b->building->batch, beside->ops[i].key, beside->ops[i].value);
}

/* What cannot be read of an entry is lost, unless a newer version wrote it. */
static struct err undo_value(struct embedded *b, struct str value, struct arena *scratch,
                             enum undo_outcome *out)
{
    struct undo_entry entry;
    struct batch beside = {0};
    struct err err = record_read_undo(value, &entry, &beside);
    *out = UNDO_LOST;
    if (err.code == ERR_OK)
        err = engine_undo(b->engine, b->now, &entry, scratch, out);
    else if (err.code == ERR_CORRUPT)
        err = err_none();
    if (err.code == ERR_OK && *out == UNDO_DONE)
        put_beside(b, &beside);
    batch_fini(&beside);
    return err;
}

/* What it took away can no longer come back: nobody goes on waiting for that. */
static void tell_gone(struct embedded *b, struct record_key key)
{
    struct arena scratch = {0};
    struct batch beside = {0};
    struct undo_entry entry;
    struct str value;
    bool found = false;
    struct err err = embedded_read_key(b, key, &scratch, &found, &value);
    if (err.code == ERR_OK && found && record_read_undo(value, &entry, &beside).code == ERR_OK &&
        entry.gone)
        engine_gone(b->engine, entry.was.id);
    batch_fini(&beside);
    arena_fini(&scratch);
}

static struct err undo_one(struct embedded *b, struct bulk_operation *op, enum undo_outcome *out)
{
    struct arena scratch = {0};
    struct operation_undo *u = &op->undo;
    struct record_key key = record_undo_key(op->number, u->next);
    struct str value;
    bool found;
    struct err err = embedded_read_key(b, key, &scratch, &found, &value);
    *out = UNDO_LOST;
    if (err.code == ERR_OK && found)
        err = undo_value(b, value, &scratch, out);
    if (err.code == ERR_OK) {
        uint64_t bytes = found ? value.len + key.len : 0;
        u->bytes -= bytes < u->bytes ? bytes : u->bytes;
        u->outcomes[*out]++;
        u->next++;
        if (*out != UNDO_DONE && op->kind == OPERATION_DELETE)
            tell_gone(b, key); /* which reads what is deleted now */
        batch_delete(&b->building->batch, record_key_view(&key));
    }
    arena_fini(&scratch);
    return err;
}

struct err embedded_undo_slice(struct embedded *b, struct scan *scan)
{
    struct bulk_operation *op = operations_find(&b->operations, scan->undoes);
    struct err err = err_none();
    must(op);
    uint64_t began = b->bytes_read + b->building->batch.bytes;
    b->copy_reads = true;
    for (int i = 0; i < UNDO_PER_TURN && op->undo.next < op->undo.entries; i++) {
        enum undo_outcome out;
        err = undo_one(b, op, &out);
        if (err.code != ERR_OK)
            break;
        scan->seen++;
        scan->count += out == UNDO_DONE;
        if (b->bytes_read + b->building->batch.bytes - began >= UNDO_BYTES)
            break;
    }
    b->copy_reads = false;
    scan->ended = op->undo.next == op->undo.entries;
    store(b, op);
    return err;
}

void embedded_undo_end(struct embedded *b, const struct scan *scan)
{
    struct bulk_operation *op = operations_find(&b->operations, scan->undoes);
    if (!op)
        return;
    op->undo.state = operation_keeps(op) ? UNDO_KEPT : UNDO_ENDED;
    store(b, op);
}

/* Why an operation cannot be undone now; *done: it has been. */
static struct err may_undo(const struct embedded *b, const struct bulk_operation *op, bool *done)
{
    *done = op->undo.state == UNDO_ENDED;
    if (op->undo.state == UNDO_NEVER)
        return err_make(ERR_CONFLICT, "the operation cannot be undone: it was begun without undo");
    if (op->state == OPERATION_RUNS)
        return err_make(ERR_CONFLICT, "the operation goes on; stop it first");
    if (op->undo.state == UNDO_RUNS)
        return err_make(ERR_CONFLICT, "the operation is being undone");
    if (op->undo.state == UNDO_EXPIRED || (!*done && op->undo.until.ms <= b->now.ms))
        return err_make(ERR_UNDO_EXPIRED, "the operation can no longer be undone: its window, as "
                                          "given by undo, is over");
    return err_none();
}

static struct err begin(struct embedded *b, const struct command *c, struct bulk_operation *op)
{
    uint64_t number = operations_begin(&b->operations, OPERATION_UNDO, b->now, c->trail, op->reach);
    if (!number)
        return err_make(ERR_BUSY, "too many operations are under way");
    operations_find(&b->operations, number)->of = op->number;
    op->undo.state = UNDO_RUNS;
    store(b, op);
    struct scan *scan = embedded_scan_new(b, c);
    scan->operation = number;
    scan->undoes = op->number;
    return err_none();
}

void embedded_operation_undo(struct embedded *b, const struct command *c, struct reply *r)
{
    must(!r);
    bool done = false;
    struct bulk_operation *op = embedded_operation_find(b, c);
    struct err err = op ? may_undo(b, op, &done) : embedded_operation_unknown();
    if (err.code == ERR_OK && !done)
        err = begin(b, c, op);
    if (err.code != ERR_OK || done) {
        struct reply *answer = embedded_effect(b, c->done, c->ctx);
        answer->err = err;
        if (done)
            embedded_operation_show(b, c->operation, answer);
    }
}

/* --- the end of a window --- */

/* Deletes some of what it keeps; true if some is left. */
static bool sweep(struct embedded *b, struct bulk_operation *op)
{
    struct operation_undo *u = &op->undo;
    bool tells = op->kind == OPERATION_DELETE && engine_has_dependants(b->engine);
    int most = tells ? UNDO_PER_TURN : SWEEP_PER_TURN;
    for (int i = 0; i < most && u->next < u->entries; i++, u->next++) {
        struct record_key key = record_undo_key(op->number, u->next);
        if (tells)
            tell_gone(b, key);
        batch_delete(&b->building->batch, record_key_view(&key));
    }
    if (!operation_keeps(op))
        u->bytes = 0;
    store(b, op);
    return operation_keeps(op);
}

static bool is_over(const struct embedded *b, const struct bulk_operation *op)
{
    return op->undo.state == UNDO_KEPT && op->state != OPERATION_RUNS &&
           op->undo.until.ms <= b->now.ms;
}

bool embedded_undo_expire(struct embedded *b)
{
    for (size_t i = 0; i < b->operations.count; i++) {
        struct bulk_operation *op = b->operations.at[i];
        bool over = is_over(b, op);
        if (over)
            op->undo.state = UNDO_EXPIRED;
        if (over || (op->undo.state == UNDO_EXPIRED && operation_keeps(op))) {
            sweep(b, op);
            return true; /* there may be others */
        }
    }
    return false;
}

void embedded_undo_expire_all(struct embedded *b)
{
    for (size_t i = 0; i < b->operations.count; i++) {
        struct bulk_operation *op = b->operations.at[i];
        if (op->undo.state != UNDO_KEPT)
            continue;
        op->undo.state = UNDO_EXPIRED;
        store(b, op);
    }
    b->more_due = true;
}

bool embedded_undo_due(const struct embedded *b, instant *at)
{
    bool due = false;
    for (size_t i = 0; i < b->operations.count && b->health == HEALTH_GOOD; i++) {
        const struct bulk_operation *op = b->operations.at[i];
        bool ends = op->undo.state == UNDO_KEPT && op->state != OPERATION_RUNS;
        bool left = op->undo.state == UNDO_EXPIRED && operation_keeps(op);
        instant then = left ? b->now : op->undo.until;
        if ((ends || left) && (!due || then.ms < at->ms))
            *at = then;
        due |= ends || left;
    }
    return due;
}

/* --- recovery --- */

static struct err restore(struct embedded *b, struct store_cursor *c)
{
    struct str key, value;
    struct bulk_operation op;
    uint64_t number;
    for (; store_cursor_at(c, b->env.store, &key, &value) && record_key_is_operation(key, &number);
         store_cursor_step(c, b->env.store, false)) {
        TRY(record_read_operation(value, number, &op));
        if (!instant_is_set(op.ended))
            op.ended = b->now;
        operations_restore(&b->operations, &op);
    }
    return err_none();
}

struct err embedded_undo_recover(struct embedded *b)
{
    for (size_t i = 0; i < b->operations.count; i++)
        b->operations.at[i]->undo = (struct operation_undo){.until = INSTANT_NONE};
    struct record_key first = record_operation_key(0);
    struct store_cursor *c = store_cursor_new(b->env.store);
    store_cursor_seek(c, b->env.store, record_key_view(&first), false);
    struct err err = restore(b, c);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}

bool embedded_undo_keeps_deleted(void *ctx)
{
    const struct embedded *b = ctx;
    bool any = false;
    for (size_t i = 0; i < b->operations.count && !any; i++) {
        const struct bulk_operation *op = b->operations.at[i];
        any = op->kind == OPERATION_DELETE && (op->state == OPERATION_RUNS || operation_keeps(op));
    }
    return any;
}
