/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs (core/operations.h), which are scans. */

#include "backend/embedded/embedded_undo.h"
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

static struct str text_of(struct glob_list patterns, struct buf *b)
{
    for (size_t i = 0; i < patterns.count; i++)
        buf_print(b, "%s%.*s", i ? "," : "", STR_ARG(patterns.at[i]));
    return buf_view(b);
}

uint64_t embedded_operation_begin(struct embedded *b, const struct command *c)
{
    enum operation_kind kind;
    struct buf reach = {0};
    if (c->list.dry_run || !kind_of(c->kind, &kind))
        return 0;
    uint64_t number =
        operations_begin(&b->operations, kind, b->now, c->trail, text_of(c->reach, &reach));
    buf_fini(&reach);
    return number;
}

bool embedded_operation_is(const struct command *c)
{
    enum operation_kind kind;
    return !c->list.dry_run && kind_of(c->kind, &kind);
}

void embedded_operation_goes_on(struct embedded *b, const struct scan *scan)
{
    struct bulk_operation *op =
        scan->operation ? operations_find(&b->operations, scan->operation) : NULL;
    if (!op)
        return;
    op->count = scan->count;
    op->looked = scan->seen;
    embedded_undo_store(b, op);
}

/* The window begins when the operation is over. */
static void end_window(struct embedded *b, const struct scan *scan)
{
    struct bulk_operation *op = operations_find(&b->operations, scan->operation);
    if (!scan->list.undo.ms)
        return;
    op->undo.until = instant_add(b->now, scan->list.undo);
    embedded_undo_store(b, op);
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
    if (scan->undoes)
        embedded_undo_end(b, scan);
    else
        end_window(b, scan);
}

static void sum_up(struct arena *a, struct operation_undo *u)
{
    struct undo_refusal *list = arena_get(a, UNDO_OUTCOMES * sizeof *list);
    for (int i = UNDO_DONE + 1; i < UNDO_OUTCOMES; i++) {
        u->not_undone += u->outcomes[i];
        if (u->outcomes[i])
            list[u->refusal_count++] = (struct undo_refusal){(enum undo_outcome)i, u->outcomes[i]};
    }
    u->refusals = list;
}

static struct bulk_operation own(struct arena *a, const struct bulk_operation *from)
{
    struct bulk_operation op = *from;
    op.by = arena_copy(a, op.by);
    sum_up(a, &op.undo);
    return op;
}

struct bulk_operation *embedded_operation_find(struct embedded *b, const struct command *c)
{
    struct bulk_operation *op = operations_find(&b->operations, c->operation);
    return op && operation_is_within(op, c->reach) ? op : NULL;
}

struct err embedded_operation_unknown(void)
{
    return err_make(ERR_NOT_FOUND, "there is no such operation, or no longer");
}

static void show(struct embedded *b, const struct bulk_operation *op, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->operations = ARENA_NEW(a, struct bulk_operation);
    r->operations[0] = own(a, op);
    r->count = 1;
}

void embedded_operation_show(struct embedded *b, uint64_t number, struct reply *r)
{
    const struct bulk_operation *op = operations_find(&b->operations, number);
    if (op)
        show(b, op, r);
    else
        r->err = embedded_operation_unknown();
}

void embedded_operations_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    const struct operations *o = &b->operations;
    if (c->operation) {
        const struct bulk_operation *op = embedded_operation_find(b, c);
        if (op)
            show(b, op, r);
        else
            r->err = embedded_operation_unknown();
        return;
    }
    r->operations = arena_get(a, o->count * sizeof *r->operations + 1);
    for (size_t i = o->count; i-- > 0;)
        if (operation_is_within(o->at[i], c->reach))
            r->operations[r->count++] = own(a, o->at[i]);
}

void embedded_operation_stop(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct bulk_operation *op = embedded_operation_find(b, c);
    if (!op) {
        r->err = embedded_operation_unknown();
        return;
    }
    if (!embedded_scan_stop(b, c->operation)) {
        r->err = err_make(ERR_CONFLICT, "the operation is over");
        return;
    }
    show(b, op, r);
}
