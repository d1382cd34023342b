/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs: how far they are, stopping one, and undoing one. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "core/operations.h"

static const char *kind_at(int i)
{
    return operation_kind_name((enum operation_kind)i);
}

static const char *state_at(int i)
{
    return operation_state_name((enum operation_state)i);
}

static const struct shape_words kind_words = {.count = OPERATION_KINDS, .word = kind_at};
static const struct shape_words state_words = {.count = OPERATION_FAILED + 1, .word = state_at};

static const char *undo_at(int i)
{
    return i == UNDO_NEVER ? NULL : undo_state_name((enum undo_state)i);
}

static const char *reason_at(int i)
{
    return i == UNDO_DONE ? NULL : undo_outcome_name((enum undo_outcome)i);
}

static const struct shape_words undo_words = {.count = UNDO_STATES, .word = undo_at};
static const struct shape_words reason_words = {.count = UNDO_OUTCOMES, .word = reason_at};

static const struct shape_member refusal_members[] = {
    {MEMBER_WORD(struct undo_refusal, why, "reason", ALWAYS, &reason_words, NULL)},
    {MEMBER(struct undo_refusal, jobs, "jobs", ALWAYS, NULL)},
};
static const struct shape refusal_shape = {SHAPE_MEMBERS(refusal_members)};

static const struct shape_member undo_members[] = {
    {MEMBER_WORD(struct operation_undo, state, "state", ALWAYS, &undo_words, NULL)},
    {MEMBER(struct operation_undo, until, "until", ALWAYS, "it can be undone before")},
    {MEMBER(struct operation_undo, outcomes[UNDO_DONE], "undone", ALWAYS, "jobs so far")},
    {MEMBER(struct operation_undo, not_undone, "not_undone", ALWAYS,
            "jobs that had gone on, and were left as they are")},
    {MEMBER_OBJECTS(struct operation_undo, refusals, refusal_count, "reasons", IF_SET,
                    &refusal_shape, "why those were not undone")},
    {MEMBER(struct operation_undo, bytes, "bytes", ALWAYS, "on the disk, kept to undo it")},
};
static const struct shape undo_shape = {SHAPE_MEMBERS(undo_members)};

static bool is_undoable(const void *owner)
{
    const struct bulk_operation *op = owner;
    return op->undo.state != UNDO_NEVER;
}

static const struct shape_member operation_members[] = {
    {MEMBER(struct bulk_operation, number, "id", ALWAYS, "counted from 1 on",
            .type = "integer 1..")},
    {MEMBER(struct bulk_operation, of, "of", IF_SET, "of an undo: the operation that it undoes")},
    {MEMBER_WORD(struct bulk_operation, kind, "kind", ALWAYS, &kind_words, NULL)},
    {MEMBER_WORD(struct bulk_operation, state, "state", ALWAYS, &state_words, NULL)},
    {MEMBER(struct bulk_operation, began, "began_at", ALWAYS, NULL)},
    {MEMBER(struct bulk_operation, ended, "ended_at", OR_NULL, "null: it goes on")},
    {MEMBER(struct bulk_operation, looked, "looked_at", ALWAYS, "jobs so far")},
    {MEMBER(struct bulk_operation, count, "changed", ALWAYS, "jobs so far")},
    {MEMBER_JSON(struct bulk_operation, by, "by", IF_SET, "who asked for what, as in the audit")},
    {MEMBER_OBJECT(struct bulk_operation, undo, "undo", IF_SET, &undo_shape,
                   "if it was begun so that it can be undone", .is_set = is_undoable)},
};
const struct shape api_operation_shape = {.name = "Operation", SHAPE_MEMBERS(operation_members)};

static const struct shape_member list_members[] = {
    {MEMBER_OBJECTS(struct reply, operations, count, "operations", ALWAYS, &api_operation_shape,
                    "the newest first")},
};
const struct shape api_operations_shape = {.name = "Operations", SHAPE_MEMBERS(list_members)};

static void on_list(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_operations_shape);
}

void api_operations(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_OPERATIONS, .done = on_list};
    api_submit(a, r, &c, api_check_media(r->http));
}

static void on_one(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_operation_shape, r->operations);
}

static void submit(struct api *a, const struct api_request *r, enum command_kind kind)
{
    struct command c = {.kind = kind, .done = on_one};
    struct str id = r->params->at[0];
    int64_t number = 0;
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK && api_read_number(id, "id", 1, INT64_MAX, &number).code != ERR_OK)
        err = err_make(ERR_NOT_FOUND, "there is no such operation");
    c.operation = (uint64_t)number;
    api_submit(a, r, &c, err);
}

void api_operation(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_OPERATIONS);
}

void api_operation_stop(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_OPERATION_STOP);
}

void api_operation_undo(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_OPERATION_UNDO);
}
