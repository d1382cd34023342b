/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs (core/operations.h), which are scans. */

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"

/* Of the kinds of scans, those that change jobs. */
static bool kind_of(enum command_kind kind, enum operation_kind *out)
{
    switch ((int)kind) {
    case CMD_REMOVE_WHERE:
        *out = OPERATION_DELETE;
        return true;
    case CMD_PATCH_WHERE:
        *out = OPERATION_PATCH;
        return true;
    case CMD_CANCEL_WHERE:
        *out = OPERATION_CANCEL;
        return true;
    case CMD_RERUN_WHERE:
        *out = OPERATION_RETRY;
        return true;
    default:
        return false;
    }
}

uint64_t embedded_operation_begin(struct embedded *b, const struct command *c)
{
    enum operation_kind kind;
    if (c->list.dry_run || !kind_of(c->kind, &kind))
        return 0;
    return operations_begin(&b->operations, kind, b->now, c->trail);
}

void embedded_operation_goes_on(struct embedded *b, const struct scan *scan)
{
    struct bulk_operation *op =
        scan->operation ? operations_find(&b->operations, scan->operation) : NULL;
    if (!op)
        return;
    op->count = scan->count;
    op->looked = scan->seen;
}

void embedded_operation_end(struct embedded *b, const struct scan *scan, const struct err *err)
{
    if (!scan->operation)
        return;
    if (err->code == ERR_OK)
        embedded_operation_goes_on(b, scan);
    operations_end(&b->operations, scan->operation,
                   err->code != ERR_OK   ? OPERATION_FAILED
                   : scan->reply.stopped ? OPERATION_STOPPED
                                         : OPERATION_DONE,
                   b->now);
}

static struct bulk_operation own(struct arena *a, const struct bulk_operation *from)
{
    struct bulk_operation op = *from;
    op.by = arena_copy(a, op.by);
    return op;
}

static struct bulk_operation *one(struct embedded *b, uint64_t number, struct reply *r)
{
    struct bulk_operation *op = operations_find(&b->operations, number);
    if (!op)
        r->err = err_make(ERR_NOT_FOUND, "there is no such operation, or no longer");
    return op;
}

static void show(struct embedded *b, const struct bulk_operation *op, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->operations = ARENA_NEW(a, struct bulk_operation);
    r->operations[0] = own(a, op);
    r->count = 1;
}

void embedded_operations_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    const struct operations *o = &b->operations;
    if (c->operation) {
        const struct bulk_operation *op = one(b, c->operation, r);
        if (op)
            show(b, op, r);
        return;
    }
    r->operations = arena_get(a, o->count * sizeof *r->operations + 1);
    for (r->count = 0; r->count < o->count; r->count++)
        r->operations[r->count] = own(a, o->at[o->count - 1 - r->count]);
}

void embedded_operation_stop(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct bulk_operation *op = one(b, c->operation, r);
    if (!op)
        return;
    if (!embedded_scan_stop(b, c->operation)) {
        r->err = err_make(ERR_CONFLICT, "the operation is over");
        return;
    }
    show(b, op, r);
}
