/* SPDX-License-Identifier: Apache-2.0 */
#include "core/operations.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

void operations_fini(struct operations *o)
{
    for (size_t i = 0; i < o->count; i++)
        free(o->at[i]);
    *o = (struct operations){0};
}

bool operation_keeps(const struct bulk_operation *op)
{
    return op->undo.state != UNDO_NEVER && op->undo.next < op->undo.entries;
}

static bool is_stored(const struct bulk_operation *op)
{
    return op->undo.state != UNDO_NEVER;
}

static void drop(struct operations *o, size_t i)
{
    free(o->at[i]);
    memmove(&o->at[i], &o->at[i + 1], (o->count - i - 1) * sizeof(struct bulk_operation *));
    o->count--;
}

/* Of those that are over the oldest makes room. */
static bool make_room(struct operations *o)
{
    if (o->count < OPERATIONS_MAX)
        return true;
    for (size_t i = 0; i < o->count; i++) {
        if (o->at[i]->state == OPERATION_RUNS || is_stored(o->at[i]))
            continue;
        drop(o, i);
        return true;
    }
    return false;
}

static struct bulk_operation *copy_of(const struct bulk_operation *from)
{
    struct bulk_operation *op = alloc_get(sizeof *op + from->by.len + from->reach.len);
    char *by = (char *)(op + 1), *reach = by + from->by.len;
    *op = *from;
    if (from->by.len)
        memcpy(by, from->by.at, from->by.len);
    if (from->reach.len)
        memcpy(reach, from->reach.at, from->reach.len);
    op->by = (struct str){by, from->by.len};
    op->reach = (struct str){reach, from->reach.len};
    return op;
}

bool operation_is_within(const struct bulk_operation *op, struct glob_list reach)
{
    if (reach.count == 0)
        return true;
    const char *at = op->reach.at, *end = at + op->reach.len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const struct str one = {at, (size_t)((comma ? comma : end) - at)};
        /* As if it were a name: a star of it is then matched by a star, and so is any text in its
         * place. */
        if (!glob_list_matches(reach, one))
            return false;
        at = comma ? comma + 1 : end;
    }
    return op->reach.len > 0;
}

uint64_t operations_begin(struct operations *o, enum operation_kind kind, instant now,
                          struct str by, struct str reach)
{
    if (!make_room(o))
        return 0;
    const struct bulk_operation op = {.number = ++o->newest,
                                      .kind = kind,
                                      .began = now,
                                      .ended = INSTANT_NONE,
                                      .by = by,
                                      .reach = reach,
                                      .undo.until = INSTANT_NONE};
    o->at[o->count++] = copy_of(&op);
    return op.number;
}

void operations_restore(struct operations *o, const struct bulk_operation *op)
{
    size_t i = o->count;
    while (i > 0 && o->at[i - 1]->number > op->number)
        i--;
    if (i > 0 && o->at[i - 1]->number == op->number)
        drop(o, --i);
    if (!make_room(o))
        return;
    i = i < o->count ? i : o->count;
    while (i > 0 && o->at[i - 1]->number > op->number)
        i--;
    memmove(&o->at[i + 1], &o->at[i], (o->count - i) * sizeof(struct bulk_operation *));
    struct bulk_operation *copy = o->at[i] = copy_of(op);
    o->count++;
    if (op->number > o->newest)
        o->newest = op->number;
    if (copy->state == OPERATION_RUNS)
        copy->state = OPERATION_FAILED;
    if (copy->undo.state == UNDO_RUNS)
        copy->undo.state = UNDO_KEPT;
}

void operations_forget(struct operations *o, uint64_t number)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->at[i]->number == number) {
            drop(o, i);
            return;
        }
}

size_t operations_stored(const struct operations *o, uint64_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < o->count; i++) {
        const struct bulk_operation *op = o->at[i];
        count += is_stored(op);
        *bytes += op->undo.bytes;
    }
    return count;
}

struct bulk_operation *operations_oldest_settled(const struct operations *o)
{
    for (size_t i = 0; i < o->count; i++) {
        struct bulk_operation *op = o->at[i];
        bool settled = op->undo.state == UNDO_ENDED || op->undo.state == UNDO_EXPIRED;
        if (settled && !operation_keeps(op) && op->state != OPERATION_RUNS)
            return op;
    }
    return NULL;
}

struct bulk_operation *operations_find(const struct operations *o, uint64_t number)
{
    for (size_t i = o->count; i-- > 0;)
        if (o->at[i]->number == number)
            return o->at[i];
    return NULL;
}

void operations_end(struct operations *o, uint64_t number, enum operation_state how, instant now)
{
    struct bulk_operation *op = operations_find(o, number);
    must(op && op->state == OPERATION_RUNS && how != OPERATION_RUNS);
    op->state = how;
    op->ended = now;
}

const char *operation_kind_name(enum operation_kind k)
{
    static const char *const names[] = {"delete", "patch", "cancel", "retry", "undo"};
    must(k < OPERATION_KINDS);
    return names[k];
}

const char *operation_state_name(enum operation_state s)
{
    static const char *const names[] = {"running", "done", "stopped", "failed"};
    must(s <= OPERATION_FAILED);
    return names[s];
}

const char *undo_state_name(enum undo_state s)
{
    static const char *const names[] = {"none", "available", "running", "done", "expired"};
    must(s < UNDO_STATES);
    return names[s];
}

const char *undo_outcome_name(enum undo_outcome o)
{
    static const char *const names[] = {
        [UNDO_DELETED] = "deleted",   [UNDO_IN_FLIGHT] = "in_flight",
        [UNDO_FINISHED] = "ended",    [UNDO_CHANGED] = "changed",
        [UNDO_RETIRED] = "retention", [UNDO_UNIQUE_KEY] = "unique_key",
        [UNDO_ALIAS] = "alias",       [UNDO_GROUP] = "group",
        [UNDO_GANG] = "gang",         [UNDO_BUDGET] = "budget",
        [UNDO_LOST] = "unreadable",
    };
    must(o > UNDO_DONE && o < UNDO_OUTCOMES);
    return names[o];
}
