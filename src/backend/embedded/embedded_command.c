/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the handler of each command in the one table of commands. */

#include "backend/embedded/embedded_reach.h"
#include "base/mark.h"
#include "base/must.h"
#include "core/engine_budget.h"

enum writes { NOTHING, ADDS, CHANGES, FREES };
enum shape { ONE, SCAN };

typedef void (*handler_fn)(struct embedded *b, const struct command *c, struct reply *r);

#define NONE       SIZE_MAX
#define AT(member) offsetof(struct command, member)

static const struct row {
    enum writes writes;
    enum shape shape;
    size_t subject;
    handler_fn handle;
} rows[COMMAND_COUNT] = {
#define COMMAND(kind, writes, shape, subject, handler)                                             \
    [CMD_##kind] = {writes, shape, subject, embedded_##handler},
#include "core/commands.def"
#undef COMMAND
};

struct err embedded_refuse_to_store(struct embedded *b, enum command_kind kind)
{
    if (b->health == HEALTH_FAILED)
        return b->failure;
    embedded_check_space(b);
    /* Reports get the lower half of the reserve: finishing work frees space, new
     * work takes it. Removals are always welcome. */
    uint64_t reserve = b->settings.min_free_space;
    if (rows[kind].writes != ADDS)
        reserve /= 2;
    if (rows[kind].writes == FREES || (uint64_t)b->free_space >= reserve)
        return err_none();
    return embedded_no_space(b);
}

static struct err refuse(struct embedded *b, const struct command *c)
{
    if (b->blind && c->kind != CMD_STATUS && c->kind != CMD_METER)
        return b->failure;
    if (b->clock.reset_done)
        return err_make(ERR_BUSY, "the clock is being set back; try again");
    if (rows[c->kind].writes != NOTHING)
        TRY(embedded_refuse_to_store(b, c->kind));
    return embedded_policy_check(b, c);
}

/* A job that was set apart is not there for those who handle commands. */
static void judge(struct embedded *b, const struct command *c, struct reply *r)
{
    struct id id;
    embedded_met(b, &r->err);
    if ((r->err.code != ERR_NOT_FOUND && r->err.code != ERR_NOT_IN_FLIGHT) ||
        rows[c->kind].subject == NONE)
        return;
    memcpy(&id, (const char *)c + rows[c->kind].subject, sizeof id);
    if (embedded_is_apart(b, id))
        r->err = c->kind == CMD_REMOVE ? embedded_apart_remove(b, id) : embedded_apart_error(b, id);
}

void embedded_apply(struct embedded *b, const struct command *c, struct reply *r)
{
    rows[c->kind].handle(b, c, r);
    if (r->err.code != ERR_OK)
        judge(b, c, r);
}

static void record(struct embedded *b, const struct command *c, const struct reply *r)
{
    if (c->trail.len && r->err.code == ERR_OK && !r->repeated && rows[c->kind].writes != NOTHING)
        embedded_trail_begin(b, c->trail, false);
}

/* A payload may be the batch's own, and still is to be written out for each who asked. */
void embedded_handle(struct embedded *b, const struct command *c)
{
    struct reply *r = embedded_effect(b, c->done, c->ctx);
    size_t before = arena_used(&b->building->arena);
    embedded_apply(b, c, r);
    embedded_reach_reply(b, c, r);
    record(b, c, r);
    if (c->kind == CMD_STATUS) {
        b->building->effects[b->building->count - 1].status = true;
        b->building->statuses++;
    }
    size_t bytes = arena_used(&b->building->arena) - before;
    if (c->kind == CMD_READ && r->err.code == ERR_OK && bytes < r->jobs->payload.len)
        bytes += r->jobs->payload.len;
    b->gathered += bytes;
}

void embedded_enqueue_checked(struct embedded *b, const struct command *c)
{
    if (embedded_idempotency_answer(b, c))
        return;
    struct err refused = refuse(b, c);
    if (refused.code == ERR_OK)
        refused = engine_gang_check(b->engine, c->enqueue.specs, c->enqueue.count);
    if (refused.code == ERR_OK)
        refused = engine_group_check(b->engine, b->now, c->enqueue.specs, c->enqueue.count);
    if (refused.code == ERR_OK)
        refused = engine_budget_check(b->engine, c->enqueue.specs, c->enqueue.count, "jobs");
    if (refused.code != ERR_OK)
        embedded_effect(b, c->done, c->ctx)->err = refused;
    else if (embedded_fold_is_wanted(c))
        embedded_fold_start(b, c);
    else
        embedded_handle(b, c);
}

/* A row of PostgreSQL's inbox that is there although its job is: PostgreSQL has lost the commit
 * that took the row, or somebody has put it in again. It is taken once more, without a second job,
 * in a commit that finds out which. */
static bool answer_taken(struct embedded *b, const struct command *c)
{
    const struct enqueue *spec = c->enqueue.specs;
    struct arena *a = &b->building->arena;
    struct job_extent extent;
    struct job job;
    if (c->enqueue.count != 1 || !spec->receipt)
        return false;
    struct err err = engine_read(b->engine, b->now, spec->id, false, a, &job, &extent);
    if (err.code == ERR_NOT_FOUND)
        return false;
    struct reply *r = embedded_effect(b, c->done, c->ctx);
    r->err = embedded_met(b, &err);
    if (err.code != ERR_OK)
        return true;
    r->count = 1;
    r->enqueued = ARENA_NEW(a, struct enqueued);
    *r->enqueued = (struct enqueued){.job = job, .duplicate = true};
    embedded_give_receipts(b, spec, r->count);
    return true;
}

static void enqueue(struct embedded *b, const struct command *c)
{
    if (embedded_idempotency_answer(b, c) || answer_taken(b, c))
        return;
    if (embedded_intake_is_wanted(b, c)) {
        embedded_intake_start(b, c);
        return;
    }
    struct err err = engine_depend_check(b->engine, b->now, c->enqueue.specs, c->enqueue.count);
    if (err.code != ERR_OK)
        embedded_effect(b, c->done, c->ctx)->err = embedded_met(b, &err);
    else
        embedded_enqueue_checked(b, c);
}

static void start(struct embedded *b, const struct command *c)
{
    if (rows[c->kind].shape == SCAN)
        rows[c->kind].handle(b, c, NULL); /* it answers in a turn of its own */
    else if (c->kind == CMD_ENQUEUE)
        enqueue(b, c);
    else if (c->kind == CMD_CRON_PUT && embedded_fold_is_wanted_by_put(&c->cron_put))
        embedded_fold_start_put(b, c);
    else
        embedded_handle(b, c);
}

struct err embedded_no_alias(struct str alias)
{
    return err_make(ERR_NOT_FOUND, "there is no job with the alias '%.*s'", STR_ARG(alias));
}

/* Puts the id of the job with that alias in its place. */
static struct err resolve(struct embedded *b, struct command *c)
{
    struct job job;
    bool found;
    size_t at = rows[c->kind].subject;
    must(at != NONE);
    struct str bare = mark_bare(c->alias);
    TRY(engine_alias_find(b->engine, b->now, c->alias, &b->building->arena, &job, &found));
    if (!found && bare.len < c->alias.len)
        TRY(engine_alias_find(b->engine, b->now, bare, &b->building->arena, &job, &found));
    if (!found || !glob_list_matches(c->reach, job.queue))
        return embedded_no_alias(c->alias);
    memcpy((char *)c + at, &job.id, sizeof job.id);
    return err_none();
}

bool embedded_subject(const struct command *c, struct id *id)
{
    if (rows[c->kind].subject == NONE)
        return false;
    memcpy(id, (const char *)c + rows[c->kind].subject, sizeof *id);
    return true;
}

bool embedded_is_about_many(enum command_kind kind)
{
    return rows[kind].handle == embedded_scan;
}

/* Whether an earlier answer can be read. What it says is durable, or becomes so before it leaves.
 */
static bool can_repeat(const struct embedded *b, const struct command *c)
{
    return c->kind == CMD_ENQUEUE && !b->blind && b->health != HEALTH_FAILED &&
           !b->clock.reset_done;
}

void embedded_submit(struct backend *base, const struct command *c)
{
    struct embedded *b = (struct embedded *)base;
    struct command known;
    embedded_refresh_now(b);
    struct err refused = refuse(b, c);
    if (refused.code == ERR_OK && c->kind == CMD_ENQUEUE && c->enqueue.refused)
        refused = *c->enqueue.refused;
    if (refused.code == ERR_OK && (c->alias.len || c->reach.count)) {
        known = *c;
        c = &known;
    }
    if (refused.code == ERR_OK && c->alias.len)
        refused = resolve(b, &known);
    if (refused.code == ERR_OK && c->reach.count)
        refused = embedded_reach_check(b, &known);
    if (refused.code == ERR_OK && c->kind == CMD_ENQUEUE && c->enqueue.quota)
        refused = embedded_quota_check(b, c);
    if (refused.code != ERR_OK && can_repeat(b, c) && embedded_idempotency_answer(b, c))
        return; /* it was let in when it came first */
    if (refused.code == ERR_OK)
        start(b, c);
    else
        embedded_effect(b, c->done, c->ctx)->err = embedded_met(b, &refused);
}

uint64_t embedded_gathered(const struct backend *base)
{
    return ((const struct embedded *)base)->gathered;
}
