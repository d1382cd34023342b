/* SPDX-License-Identifier: Apache-2.0 */

/* How the server is, and that it is alive: what is said of it while commits hang, and a commit
 * that has nothing else to say. */

#include <string.h>

#include "backend/embedded/embedded_internal.h"

#define HANGS_MS     500 /* a commit that takes longer is not waited for */
#define WARNINGS_MAX 20  /* more are counted */

span embedded_commit_age(const struct embedded *b)
{
    if (!b->committing || !b->env.ticks)
        return (span){0};
    return (span){(b->env.ticks(b->env.ctx) - b->committing->sealed_at) / 1000};
}

static struct standing_warnings warnings(struct embedded *b)
{
    const struct standing *s = policies_standing(b->policies);
    const struct standing_warnings all = {s->list, s->count, s->count};
    return embedded_policy_warnings(b, all, WARNINGS_MAX);
}

void embedded_status(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)c;
    embedded_check_space(b);
    struct err refused = embedded_refuse_to_store(b, CMD_ENQUEUE);
    r->status.writable = refused.code == ERR_OK;
    r->status.readable = !b->blind;
    if (refused.code != ERR_OK)
        r->status.failure = arena_copy(&b->building->arena, str_from(refused.msg));
    engine_count(b->engine, (struct str){0}, r->status.jobs);
    r->status.memory = engine_memory(b->engine);
    r->status.disk_bytes = store_disk_bytes(b->env.store);
    memcpy(r->status.events, b->events.counts, sizeof r->status.events);
    r->status.newest_event = b->events.durable;
    r->status.damaged_jobs = b->damage.count;
    r->status.damaged_tables = b->damage.tables;
    const struct clock *clock = &b->clock;
    r->status.clock = (struct clock_state){b->now,       clock->wall, clock->off,
                                           clock->ahead, clock->jump, clock->jumped_at};
    r->status.committing = embedded_commit_age(b);
    if (b->policies) /* not while nothing can be read */
        r->status.warnings = warnings(b);
}

static void do_nothing(void *ctx, const struct reply *r)
{
    (void)ctx;
    (void)r;
}

/* Receivers may submit commands: effects behind those that were there. */
static void tell(struct embedded *b, struct turn *t)
{
    for (size_t i = 0, count = t->statuses > 0 ? t->count : 0; i < count; i++) {
        struct effect fx = t->effects[i];
        if (!fx.status)
            continue;
        struct reply r = {.err.code = ERR_OK};
        t->effects[i].done = do_nothing;
        t->effects[i].status = false;
        t->statuses--;
        embedded_status(b, NULL, &r);
        fx.done(fx.ctx, &r);
    }
}

/* Whoever asks how the server is hears that commits hang, also if it asked in the turn whose commit
 * does. */
void embedded_status_tell(struct embedded *b)
{
    if (embedded_commit_age(b).ms < HANGS_MS)
        return;
    tell(b, b->committing);
    tell(b, b->building);
}

bool embedded_status_due(const struct embedded *b, instant *at)
{
    int64_t left = HANGS_MS - embedded_commit_age(b).ms;
    *at = instant_add(b->now, (span){left > 0 ? left : 0});
    return b->committing && b->committing->statuses + b->building->statuses > 0;
}

void embedded_beat(struct backend *base)
{
    ((struct embedded *)base)->beats = true;
}
