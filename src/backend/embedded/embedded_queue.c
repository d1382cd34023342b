/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of queues: their commands, their part of the port, and their recovery. */

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"
#include "policy/queue_kept.h"
#include "store/record.h"

/* --- commands --- */

static void merge(struct queue_settings *to, const struct queue_settings *from, unsigned set)
{
    if (set & QUEUE_PAUSED)
        to->paused = from->paused;
    if (set & QUEUE_CONCURRENCY)
        to->concurrency = from->concurrency;
    if (set & QUEUE_PER_KEY)
        to->concurrency_per_key = from->concurrency_per_key;
    if (set & QUEUE_RATE)
        to->rate = from->rate;
    if (set & QUEUE_RETRY_LIMIT)
        to->retry_limit = from->retry_limit;
    if (set & QUEUE_BACKOFF)
        to->backoff = from->backoff;
    if (set & QUEUE_COMPLETED)
        to->completed_retention = from->completed_retention;
    if (set & QUEUE_DEAD)
        to->dead_retention = from->dead_retention;
    if (set & QUEUE_NO_POLICY)
        to->when_no_policy = from->when_no_policy;
    if (set & QUEUE_MAX_RUN)
        to->max_run = from->max_run;
}

static void show(struct embedded *b, struct queue_shown *s)
{
    s->warnings = NULL;
    s->warning_count = 0;
    s->retry_policies =
        arena_copy(&b->building->arena, policies_queue_names(b->policies, s->view.name));
    s->kept = arena_copy(&b->building->arena, policies_kept(b->policies, s->view.name));
}

static size_t queue_warnings(struct embedded *b, struct str queue, enum retry_fallback own,
                             struct str **texts)
{
    const struct standing_judged of = {.queue = queue, .own = own};
    return standing_judging(b->policies, &of, &b->building->arena, texts);
}

/* Of what is kept without effect, after those about what judges its jobs. */
static void warn_of_kept(struct embedded *b, struct queue_shown *s)
{
    struct arena *a = &b->building->arena;
    struct str text = queue_kept_warning(s->kept, a);
    if (!text.len)
        return;
    struct str *all = arena_get(a, (s->warning_count + 1) * sizeof *all);
    for (size_t i = 0; i < s->warning_count; i++)
        all[i] = s->warnings[i];
    all[s->warning_count++] = text;
    s->warnings = all;
}

static void read_one(struct embedded *b, struct str name, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->queues = arena_get(a, sizeof *r->queues);
    r->count = 1;
    engine_queue_view(b->engine, b->now, arena_copy(a, name), &r->queues->view);
    show(b, r->queues);
    struct queue_shown *s = r->queues;
    s->warning_count =
        queue_warnings(b, s->view.name, s->view.settings.when_no_policy, &s->warnings);
    warn_of_kept(b, s);
}

static struct err put(struct embedded *b, const struct queue_command *c)
{
    struct queue_view before;
    engine_queue_view(b->engine, b->now, c->name, &before);
    if (c->create && before.configured)
        return err_make(ERR_CONFLICT, "this queue has settings already");
    /* All that can be refused comes before anything is changed. */
    if (c->set & QUEUE_POLICIES)
        TRY(policies_check_names(b->policies, c->retry_policies));
    if (c->set & QUEUE_KEPT)
        TRY(policies_kept_check(b->policies, c->name, c->kept));
    merge(&before.settings, &c->settings, c->set);
    TRY(engine_queue_put(b->engine, b->now, c->name, &before.settings));
    if (c->set & QUEUE_KEPT)
        policies_kept_put(b->policies, c->name, c->kept);
    return c->set & QUEUE_POLICIES ? policies_queue_put(b->policies, c->name, c->retry_policies)
                                   : err_none();
}

static struct err remove_one(struct embedded *b, struct str name)
{
    TRY(engine_queue_remove(b->engine, name));
    policies_kept_put(b->policies, name, (struct str){0});
    return policies_queue_put(b->policies, name, (struct str){0});
}

void embedded_queue_list(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct queue_command *c = &command->queue;
    struct arena *a = &b->building->arena;
    struct str from = c->name;
    r->queues = arena_get(a, (c->limit + 1) * sizeof *r->queues);
    do { /* more than once only for those who may not see all queues */
        struct queue_view *views;
        size_t n = engine_queue_page(b->engine, b->now, from, c->limit, a, &views, &r->more);
        for (size_t i = 0; i < n; i++) {
            from = views[i].name;
            if (!glob_list_matches(command->reach, from))
                continue;
            r->queues[r->count].view = views[i];
            show(b, &r->queues[r->count++]);
            if (r->count < c->limit || (!r->more && i + 1 == n))
                continue;
            r->more = true;
            return;
        }
    } while (r->more);
}

void embedded_backlog(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct backlog_page *page = ARENA_NEW(a, struct backlog_page);
    struct backlog_ask ask = {c->backlog.from, c->backlog.limit, c->reach};
    r->backlogs = page;
    b->crew_reach = c->reach;
    if (c->backlog.queue.len) {
        page->at = ARENA_NEW(a, struct backlog);
        page->count = 1;
        r->err = engine_backlog(b->engine, b->now, c->backlog.queue, a, page->at);
    } else {
        r->err = engine_backlog_page(b->engine, b->now, &ask, a, page);
    }
    for (size_t i = 0; r->err.code == ERR_OK && i < page->count; i++) {
        struct backlog *each = &page->at[i];
        enum retry_fallback own = engine_queue_rules(b->engine, each->queue).when_no_policy;
        each->warning_count = queue_warnings(b, each->queue, own, &each->warnings);
    }
}

void embedded_queue_put(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = put(b, &c->queue);
    if (r->err.code == ERR_OK)
        read_one(b, c->queue.name, r);
}

void embedded_queue_read(struct embedded *b, const struct command *c, struct reply *r)
{
    read_one(b, c->queue.name, r);
}

void embedded_queue_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = remove_one(b, c->queue.name);
}

/* --- the port --- */

static void put_queue(void *ctx, struct str name, const struct queue_record *record)
{
    struct embedded *b = ctx;
    char room[RECORD_QUEUE_KEY_MAX];
    if (record)
        record_put_queue(&b->building->batch, name, record);
    else
        batch_delete(&b->building->batch, record_queue_key(name, room));
}

void embedded_queue_port(struct port *port)
{
    port->put_queue = put_queue;
}

/* --- recovery --- */

struct err embedded_queue_recover(struct embedded *b)
{
    struct store *s = b->env.store;
    struct str key, value, name;
    struct err err = err_none();
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR("Q"), false);
    for (; err.code == ERR_OK && store_cursor_at(c, s, &key, &value) &&
           record_key_is_queue(key, &name);
         store_cursor_step(c, s, false)) {
        struct queue_record record;
        err = record_read_queue(value, &record);
        if (err.code == ERR_OK)
            engine_restore_queue(b->engine, name, &record, b->now);
    }
    struct err read = store_cursor_free(c, s);
    return err.code == ERR_OK ? read : err;
}
