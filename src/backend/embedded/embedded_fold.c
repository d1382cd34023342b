/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues of batched jobs. The evaluator decides whether and how a payload is folded into that of
 * a waiting job. That takes time, during which the waiting job may be taken or changed. So an
 * enqueue is first planned, spec by spec, without changing anything; when all answers have arrived,
 * the plan is compared with the present state and either applied as a whole in one step or made
 * again. Enqueues that share a batch key are planned one after the other. The ticks of batched cron
 * entries go the same way, and so do the expressions of entries that are put. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "backend/embedded/embedded_reach.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "core/engine_budget.h"
#include "core/job_fields.h"

#define FOLDS_MAX       4096       /* enqueues in progress */
#define FOLD_BYTES_MAX  (64 << 20) /* and the total size of their payloads */
#define FOLD_PLANS_MAX  8          /* attempts, if workers are faster each time */
#define FOLD_RESULT_MAX (16 << 20)

/* A job that payloads are folded into: one that is already waiting, or one of this enqueue. */
struct target {
    struct target *next;
    const struct job *existing; /* NULL: one of this enqueue */
    size_t spec;                /* iff !existing */
    struct str when, fold;
    struct buf payload; /* as folded so far */
    bool changed, sealed;
};

/* A batch key of an enqueue. */
struct slot {
    struct list ticket; /* in lane->tickets */
    struct lane *lane;
    struct fold *owner;
    struct str key;
    bool looked; /* the three below are set */
    bool found;
    struct foldable waiting; /* iff found */
    struct target *target;   /* into which the next spec is folded, or NULL */
};

/* All enqueues in progress with one batch key, in order of arrival. */
struct lane {
    struct str key; /* owned by the map */
    struct list tickets;
};

struct fold {
    struct list node; /* in embedded->folds */
    struct embedded *b;
    struct arena arena, plan; /* arena for what stays, plan for what is made again */
    struct enqueue *specs;
    size_t count, bytes;
    struct slot **slots; /* of each spec, or NULL if it is not batched */
    struct slot *all;
    size_t slot_count;
    struct target *targets;  /* of the plan */
    struct target **becomes; /* the target of each spec with a slot */
    bool *folded;
    size_t at, checked; /* the spec that is being planned; the expressions of those before `checked`
                         * are valid */
    unsigned plans;
    span spent; /* total time its expressions ran */
    struct ask *ask;
    const struct idempotency *once;
    struct glob_list reach; /* of the sender, if that is limited */
    reply_fn done;
    void *ctx;
    bool holds; /* see engine_depend_hold */
    /* For a tick of a cron entry: the entry's id. */
    struct id entry;
    uint64_t tick;
    /* For a put of cron entries, whose jobs the specs are: their expressions are only checked. */
    const struct cron_put *put;
    struct str trail; /* who asks for it, for the audit; or empty */
};

/* --- lanes --- */

static void lane_join(struct embedded *b, struct slot *slot)
{
    struct lane *lane = strmap_get(&b->lanes, slot->key);
    if (!lane) {
        lane = ALLOC(struct lane);
        list_init(&lane->tickets);
        lane->key = strmap_put(&b->lanes, slot->key, lane);
    }
    slot->lane = lane;
    list_init(&slot->ticket);
    list_append(&lane->tickets, &slot->ticket);
}

static void lane_leave(struct embedded *b, struct slot *slot)
{
    struct lane *lane = slot->lane;
    list_unlink(&slot->ticket);
    if (!list_is_empty(&lane->tickets))
        return;
    must(strmap_remove(&b->lanes, lane->key) == lane);
    free(lane);
}

/* No earlier enqueue shares a key with it. */
static bool has_its_turn(const struct fold *f)
{
    for (size_t i = 0; i < f->slot_count; i++)
        if (f->all[i].lane->tickets.next != &f->all[i].ticket)
            return false;
    return true;
}

/* --- a plan --- */

static void plan_drop(struct fold *f)
{
    for (struct target *t = f->targets; t; t = t->next)
        buf_fini(&t->payload);
    f->targets = NULL;
    for (size_t i = 0; i < f->slot_count; i++) {
        f->all[i].looked = f->all[i].found = false;
        f->all[i].target = NULL;
    }
    for (size_t i = 0; i < f->count; i++)
        f->folded[i] = false;
    f->at = 0;
    arena_reset(&f->plan);
}

static struct target *target_new(struct fold *f, const struct job_batch *batch, struct str payload)
{
    struct target *t = ARENA_NEW(&f->plan, struct target);
    t->next = f->targets;
    f->targets = t;
    t->when = batch->when;
    t->fold = batch->fold;
    buf_str(&t->payload, payload);
    return t;
}

static struct err look(struct fold *f, struct str key, struct foldable *waiting, bool *found)
{
    struct embedded *b = f->b;
    /* What is read must outlive the turn that is being built. */
    b->copy_reads = true;
    struct err err = engine_fold_find(b->engine, b->now, key, &f->plan, waiting, found);
    b->copy_reads = false;
    return err;
}

static struct err look_once(struct fold *f, struct slot *slot)
{
    if (slot->looked)
        return err_none();
    TRY(look(f, slot->key, &slot->waiting, &slot->found));
    slot->looked = true;
    if (!slot->found)
        return err_none();
    slot->target = target_new(f, &slot->waiting.now.batch, slot->waiting.stored.payload);
    slot->target->existing = &slot->waiting.stored;
    return err_none();
}

/* The spec becomes a job of its own, open for the specs after it. */
static void begin_job(struct fold *f, struct slot *slot)
{
    const struct enqueue *spec = &f->specs[f->at];
    if (slot->target)
        slot->target->sealed = true;
    slot->target = target_new(f, &spec->batch, spec->payload);
    slot->target->spec = f->at;
    f->becomes[f->at] = slot->target;
}

/* --- questions to the evaluator --- */

static void go_on(struct fold *f);
static void finish(struct fold *f, struct err err);

static void on_checked(void *owner, const struct err *err, const struct eval_answer *answers,
                       size_t count, span spent)
{
    struct fold *f = owner;
    f->spent.ms += spent.ms;
    (void)answers;
    (void)count;
    f->ask = NULL;
    embedded_refresh_now(f->b);
    if (err->code != ERR_OK) {
        finish(f, *err);
        return;
    }
    f->checked = f->at + 1;
    go_on(f);
}

static struct err check(struct fold *f)
{
    const struct enqueue *spec = &f->specs[f->at];
    struct eval_request r = {.kind = EVAL_CHECK,
                             .exprs = {spec->batch.when, spec->batch.fold},
                             .inputs = &spec->payload,
                             .count = 1};
    return embedded_ask(f->b, &r, f->spent, f, on_checked, &f->ask);
}

/* The result must be a payload that could have been enqueued. */
static struct err take_payload(struct target *t, struct str payload)
{
    if (payload.len > FOLD_RESULT_MAX)
        return err_make(ERR_UNPROCESSABLE, "batch.fold: it makes more than %d bytes",
                        FOLD_RESULT_MAX);
    struct json_cursor c = json_open(payload);
    struct err err = json_skip(&c, NULL);
    if (err.code != ERR_OK)
        return err_make(ERR_UNPROCESSABLE, "batch.fold: its output is not a valid payload: %s",
                        err.msg);
    t->payload.len = 0;
    buf_str(&t->payload, payload);
    t->changed = true;
    return err_none();
}

static void on_folded(void *owner, const struct err *failed, const struct eval_answer *answers,
                      size_t count, span spent)
{
    struct fold *f = owner;
    f->spent.ms += spent.ms;
    struct slot *slot = f->slots[f->at];
    struct err err = *failed;
    f->ask = NULL;
    embedded_refresh_now(f->b);
    if (err.code == ERR_OK) {
        must(count == 1);
        if (answers->truth)
            err = take_payload(slot->target, answers->payload);
    }
    if (err.code != ERR_OK) {
        finish(f, err);
        return;
    }
    f->folded[f->at] = answers->truth;
    if (answers->truth)
        f->becomes[f->at] = slot->target;
    else
        begin_job(f, slot);
    f->at++;
    go_on(f);
}

static struct err ask_to_fold(struct fold *f, const struct target *t)
{
    struct str inputs[2] = {buf_view(&t->payload), f->specs[f->at].payload};
    struct eval_request r = {
        .kind = EVAL_FOLD, .exprs = {t->when, t->fold}, .inputs = inputs, .count = 2};
    return embedded_ask(f->b, &r, f->spent, f, on_folded, &f->ask);
}

/* --- applying --- */

/* Whether the premises of the plan still hold. Changes by a patch to other fields are kept: the
 * record is rewritten from the present job. */
static struct err holds(struct fold *f, bool *still)
{
    *still = true;
    for (size_t i = 0; i < f->slot_count && *still; i++) {
        struct slot *slot = &f->all[i];
        struct foldable now;
        bool found;
        TRY(look(f, slot->key, &now, &found));
        *still = found == slot->found;
        if (*still && found)
            *still = id_eq(now.now.id, slot->waiting.now.id) &&
                     str_eq(now.stored.payload, slot->waiting.stored.payload);
        if (*still && found)
            slot->waiting = now;
    }
    return err_none();
}

static struct job own_job(struct arena *a, const struct job *job)
{
    struct job own = *job;
    own.queue = arena_copy(a, job->queue);
    own.type = arena_copy(a, job->type);
    own.unique_key = arena_copy(a, job->unique_key);
    own.batch.key = arena_copy(a, job->batch.key);
    own.batch.when = arena_copy(a, job->batch.when);
    own.batch.fold = arena_copy(a, job->batch.fold);
    own.options = job_options_copy(a, &job->options);
    own.state.reason = arena_copy(a, job->state.reason);
    own.state.extras = job_extras_copy(a, &job->state.extras);
    own.payload = (struct str){0};
    return own;
}

/* The specs that become jobs, with the payloads that were folded into them; places[i] is where spec
 * i ended up. */
static size_t list_new_jobs(struct fold *f, struct enqueue *out, size_t *places)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct target *t = f->slots[i] ? f->becomes[i] : NULL;
        if (f->folded[i])
            continue;
        places[i] = n;
        out[n] = f->specs[i];
        if (t) {
            out[n].payload = buf_view(&t->payload);
            out[n].batch.open = !t->sealed;
        }
        n++;
    }
    return n;
}

static void rewrite_existing(struct fold *f)
{
    for (const struct target *t = f->targets; t; t = t->next) {
        if (!t->existing || (!t->changed && !t->sealed))
            continue;
        struct job stored = *t->existing;
        stored.payload = buf_view(&t->payload);
        stored.batch.open = !t->sealed;
        engine_fold_rewrite(f->b->engine, &stored);
    }
}

static void fill_reply(struct fold *f, struct reply *r, const struct enqueued *added,
                       const size_t *places)
{
    struct arena *a = &f->b->building->arena;
    for (size_t i = 0; i < f->count; i++) {
        const struct target *t = f->slots[i] ? f->becomes[i] : NULL;
        if (f->folded[i] && t->existing)
            r->enqueued[i] = (struct enqueued){.job = f->slots[i]->waiting.now};
        else
            r->enqueued[i] = added[f->folded[i] ? places[t->spec] : places[i]];
        r->enqueued[i].job = own_job(a, &r->enqueued[i].job);
        r->enqueued[i].folded = f->folded[i];
    }
}

static void apply_put(struct fold *f)
{
    struct command c = {.kind = CMD_CRON_PUT, .done = f->done, .ctx = f->ctx, .trail = f->trail};
    c.cron_put = *f->put;
    embedded_handle(f->b, &c);
}

/* The job of a tick and the next tick are one batch (promise I8). */
static void apply_tick(struct fold *f, const struct enqueue *specs, size_t n)
{
    struct enqueued added;
    struct err err = engine_enqueue(f->b->engine, f->b->now, specs, n, &f->plan, &added);
    if (err.code != ERR_OK) {
        f->b->broken = err;
        return;
    }
    rewrite_existing(f);
    engine_cron_ticked(f->b->engine, f->b->now, f->entry);
}

static bool is_awaited(const struct fold *f)
{
    return engine_cron_awaits(f->b->engine, f->b->now, f->entry, f->tick);
}

static void apply(struct fold *f)
{
    struct embedded *b = f->b;
    struct arena *a = &b->building->arena;
    if (f->put) {
        apply_put(f);
        return;
    }
    struct enqueue *specs = arena_get(&f->plan, (f->count + 1) * sizeof *specs);
    struct enqueued *added = arena_get(&f->plan, (f->count + 1) * sizeof *added);
    size_t *places = arena_get(&f->plan, (f->count + 1) * sizeof *places);
    size_t n = list_new_jobs(f, specs, places);
    if (f->tick) {
        if (is_awaited(f))
            apply_tick(f, specs, n);
        return;
    }
    struct reply *r = embedded_effect(b, f->done, f->ctx);
    engine_budget_create(b->engine, b->now, f->specs, f->count); /* also what folded jobs bring */
    r->err = engine_enqueue(b->engine, b->now, specs, n, a, added);
    if (r->err.code != ERR_OK) {
        embedded_met(b, &r->err);
        if (!b->hurt)
            b->broken = r->err; /* some may be in the batch already: it must not be committed */
        return;
    }
    rewrite_existing(f);
    r->count = f->count;
    r->enqueued = arena_get(a, f->count * sizeof *r->enqueued);
    fill_reply(f, r, added, places);
    embedded_idempotency_keep(b, f->once, r);
    embedded_give_receipts(b, f->specs, f->count);
}

/* --- the stages of an enqueue --- */

/* True once the plan is complete; false while it waits for an answer. */
static struct err plan(struct fold *f, bool *complete)
{
    *complete = false;
    for (; f->at < f->count; f->at++) {
        struct slot *slot = f->slots[f->at];
        if (!f->specs[f->at].batch.key.len)
            continue;
        if (f->at >= f->checked)
            return check(f);
        if (!slot)
            continue;
        TRY(look_once(f, slot));
        if (slot->target)
            return ask_to_fold(f, slot->target);
        begin_job(f, slot);
    }
    *complete = true;
    return err_none();
}

static void fold_free(struct fold *f)
{
    plan_drop(f);
    embedded_ask_cancel(f->ask);
    list_unlink(&f->node);
    f->b->fold_count--;
    f->b->fold_bytes -= f->bytes;
    arena_fini(&f->plan);
    arena_fini(&f->arena);
    free(f);
}

/* Begins those that have become the first for all of their keys. */
static void begin_next(struct embedded *b)
{
    if (b->folds_begin)
        return;
    b->folds_begin = true;
    for (bool again = true; again;) {
        again = false;
        LIST_EACH (n, &b->folds) {
            struct fold *f = LIST_OF(n, struct fold, node);
            if (f->ask || !has_its_turn(f))
                continue;
            go_on(f);
            again = true; /* it may be gone, and others with it */
            break;
        }
    }
    b->folds_begin = false;
}

static void leave(struct fold *f)
{
    struct embedded *b = f->b;
    if (f->holds)
        engine_depend_release(b->engine);
    for (size_t i = 0; i < f->slot_count; i++)
        lane_leave(b, &f->all[i]);
    fold_free(f);
    begin_next(b);
}

/* A tick that cannot be folded is not lost. */
static void finish_tick(struct fold *f, const struct err *err)
{
    struct embedded *b = f->b;
    if (!is_awaited(f))
        return;
    if (err->code == ERR_BUSY || embedded_refuse_to_store(b, CMD_ENQUEUE).code != ERR_OK) {
        engine_cron_put_off(b->engine, b->now, f->entry);
        return;
    }
    log_warn("cron: a tick becomes a job of its own, not folded into batch '%.*s' of queue '%.*s': "
             "%s",
             STR_ARG(f->specs->batch.key), STR_ARG(f->specs->queue), err->msg);
    plan_drop(f);
    apply_tick(f, f->specs, 1);
}

static void finish(struct fold *f, struct err err)
{
    if (f->tick) {
        finish_tick(f, &err);
        leave(f);
        return;
    }
    if (f->put && err.code == ERR_UNPROCESSABLE && f->at < f->count)
        err = err_make(err.code, "entries[%zu]: job: %s", f->at, err.msg);
    else if (err.code == ERR_UNPROCESSABLE && f->count > 1 && f->at < f->count)
        err = err_make(err.code, "jobs[%zu]: %s", f->at, err.msg);
    embedded_effect(f->b, f->done, f->ctx)->err = err;
    leave(f);
}

/* Plans the rest. *complete: all of it is planned; *still: and its premises hold, so it may be
 * applied. */
static struct err plan_and_check(struct fold *f, bool *complete, bool *still)
{
    TRY(plan(f, complete));
    if (!*complete)
        return err_none();
    TRY(embedded_refuse_to_store(f->b, f->put ? CMD_CRON_PUT : CMD_ENQUEUE));
    TRY(engine_depend_check(f->b->engine, f->b->now, f->specs, f->count));
    TRY(engine_gang_check(f->b->engine, f->specs, f->count));
    TRY(engine_group_check(f->b->engine, f->b->now, f->specs, f->count));
    if (!f->put && !f->tick)
        TRY(engine_budget_check(f->b->engine, f->specs, f->count, "jobs"));
    TRY(holds(f, still));
    if (!*still && ++f->plans == FOLD_PLANS_MAX)
        return err_make(ERR_BUSY, "workers were faster %u times; try again", f->plans);
    return err_none();
}

static void go_on(struct fold *f)
{
    bool complete, still = false;
    const struct command c = {.kind = CMD_ENQUEUE,
                              .enqueue = {f->specs, f->count, f->once},
                              .reach = f->reach,
                              .done = f->done,
                              .ctx = f->ctx};
    if (embedded_idempotency_answer(f->b, &c)) {
        leave(f);
        return;
    }
    while (!still) {
        struct err err = plan_and_check(f, &complete, &still);
        if (err.code != ERR_OK) {
            finish(f, err);
            return;
        }
        if (!complete)
            return;
        if (!still)
            plan_drop(f);
    }
    apply(f);
    leave(f);
}

/* --- beginning and end --- */

bool embedded_fold_is_wanted(const struct command *c)
{
    for (size_t i = 0; i < c->enqueue.count; i++)
        if (c->enqueue.specs[i].batch.key.len)
            return true;
    return false;
}

static size_t bytes_of(const struct enqueue *spec)
{
    const struct job_batch *b = &spec->batch;
    return sizeof *spec + spec->payload.len + b->key.len + b->when.len + b->fold.len;
}

static void find_slots(struct fold *f)
{
    struct strmap seen = {.seed = f->b->lanes.seed};
    f->all = arena_zero(&f->arena, f->count * sizeof *f->all + 1);
    for (size_t i = 0; i < f->count; i++) {
        struct enqueue *spec = &f->specs[i];
        /* Nothing is folded across a ready_at, in either direction. */
        bool later = instant_is_set(spec->ready_at) && spec->ready_at.ms > f->b->now.ms;
        f->slots[i] = NULL;
        if (!spec->batch.key.len || later)
            continue;
        f->slots[i] = strmap_get(&seen, spec->batch.key);
        if (f->slots[i])
            continue;
        struct slot *slot = f->slots[i] = &f->all[f->slot_count++];
        slot->owner = f;
        slot->key = spec->batch.key;
        strmap_put(&seen, slot->key, slot);
        lane_join(f->b, slot);
    }
    strmap_fini(&seen);
}

static struct fold *fold_new(struct embedded *b, size_t count)
{
    struct fold *f = ALLOC(struct fold);
    f->b = b;
    f->count = count;
    f->specs = arena_get(&f->arena, f->count * sizeof *f->specs);
    f->slots = arena_zero(&f->arena, f->count * sizeof(struct slot *));
    f->becomes = arena_zero(&f->arena, f->count * sizeof(struct target *));
    f->folded = arena_zero(&f->arena, f->count * sizeof *f->folded);
    list_init(&f->node);
    return f;
}

static void own_spec(struct fold *f, size_t i, const struct enqueue *spec)
{
    f->specs[i] = embedded_own_spec(&f->arena, spec);
    f->specs[i].batch.open = false;
    f->bytes += bytes_of(&f->specs[i]);
}

static void begin(struct fold *f)
{
    struct embedded *b = f->b;
    list_append(&b->folds, &f->node);
    bool full = b->fold_count >= FOLDS_MAX ||
                (b->fold_count > 0 && b->fold_bytes + f->bytes > FOLD_BYTES_MAX);
    b->fold_count++;
    b->fold_bytes += f->bytes;
    if (full) {
        finish(f,
               err_make(ERR_BUSY, "%zu batched enqueues are waiting already", b->fold_count - 1));
        return;
    }
    /* Its dependencies were looked up, and there may be very many. */
    f->holds = engine_depend_total(f->specs, f->count) > 0;
    if (f->holds)
        engine_depend_hold(b->engine);
    if (!f->put)
        find_slots(f);
    if (has_its_turn(f))
        go_on(f);
}

void embedded_fold_start(struct embedded *b, const struct command *c)
{
    struct fold *f = fold_new(b, c->enqueue.count);
    f->once = embedded_idempotency_own(&f->arena, c->enqueue.once);
    f->reach = embedded_reach_own(&f->arena, c->reach);
    f->done = c->done;
    f->ctx = c->ctx;
    for (size_t i = 0; i < f->count; i++)
        own_spec(f, i, &c->enqueue.specs[i]);
    begin(f);
}

void embedded_fold_tick(void *ctx, struct id entry, uint64_t number, const struct enqueue *job)
{
    struct fold *f = fold_new(ctx, 1);
    f->entry = entry;
    f->tick = number;
    f->checked = 1; /* when it was put */
    own_spec(f, 0, job);
    begin(f);
}

/* --- puts of cron entries --- */

bool embedded_fold_is_wanted_by_put(const struct cron_put *put)
{
    for (size_t i = 0; i < put->count; i++)
        if (put->entries[i].job.batch.key.len)
            return true;
    return false;
}

void embedded_fold_start_put(struct embedded *b, const struct command *c)
{
    struct fold *f = fold_new(b, c->cron_put.count);
    f->done = c->done;
    f->ctx = c->ctx;
    f->put = embedded_own_put(&f->arena, &c->cron_put);
    f->trail = arena_copy(&f->arena, c->trail);
    for (size_t i = 0; i < f->count; i++)
        own_spec(f, i, &f->put->entries[i].job);
    begin(f);
}

void embedded_fold_abort_all(struct embedded *b, const struct err *why)
{
    b->folds_begin = true; /* none of them begins any more */
    while (!list_is_empty(&b->folds)) {
        struct fold *f = LIST_OF(b->folds.next, struct fold, node);
        if (f->tick)
            leave(f); /* it is still due in the recovered engine */
        else
            finish(f, *why);
    }
    b->folds_begin = false;
}

void embedded_fold_free_all(struct embedded *b)
{
    b->folds_begin = true;
    while (!list_is_empty(&b->folds))
        leave(LIST_OF(b->folds.next, struct fold, node));
    strmap_fini(&b->lanes);
}
