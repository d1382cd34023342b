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

/* Of those that are over the oldest makes room. */
static bool make_room(struct operations *o)
{
    if (o->count < OPERATIONS_MAX)
        return true;
    for (size_t i = 0; i < o->count; i++) {
        if (o->at[i]->state == OPERATION_RUNS)
            continue;
        free(o->at[i]);
        memmove(&o->at[i], &o->at[i + 1], (o->count - i - 1) * sizeof(struct bulk_operation *));
        o->count--;
        return true;
    }
    return false;
}

uint64_t operations_begin(struct operations *o, enum operation_kind kind, instant now,
                          struct str by)
{
    if (!make_room(o))
        return 0;
    struct bulk_operation *op = alloc_get(sizeof *op + by.len);
    char *text = (char *)(op + 1);
    if (by.len)
        memcpy(text, by.at, by.len);
    *op = (struct bulk_operation){.number = ++o->newest,
                                  .kind = kind,
                                  .began = now,
                                  .ended = INSTANT_NONE,
                                  .by = {text, by.len}};
    o->at[o->count++] = op;
    return op->number;
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
    static const char *const names[] = {"delete", "patch", "cancel", "retry"};
    must(k <= OPERATION_RETRY);
    return names[k];
}

const char *operation_state_name(enum operation_state s)
{
    static const char *const names[] = {"running", "done", "stopped", "failed"};
    must(s <= OPERATION_FAILED);
    return names[s];
}
