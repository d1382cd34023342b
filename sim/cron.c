/* SPDX-License-Identifier: Apache-2.0 */

/* Cron: a group whose entries tick every few seconds, minutes and hours. The ticks are at whole
 * periods since the epoch, so that they can be counted here without the server's help. */

#include "sim.h"
#include "trace.h"

static const char *const expressions[CRONS] = {"*/2 * * * * *", "* * * * *", "@hourly"};
static const char *const names[CRONS] = {"e0", "e1", "e2"};
static const char *const payloads[CRONS] = {"{\"c\":0}", "{\"c\":1}", "{\"c\":2}"};

/* The entry whose ticks are folded, in some profiles. Each brings an item into the payload. */
#define BATCH_ENTRY 0
static const char batch_payload[] = "{\"c\":0,\"b\":[0]}";

/* The only entry whose jobs have a unique key: while one of them exists, ticks create no other. */
#define UNIQUE_ENTRY 1
static const struct str unique_key = {"k5", 2};

/* Another name for the same zone, so that the times of the ticks stay known. */
static struct str some_zone(struct sim *s)
{
    return sim_chance(s, 50) ? STR("UTC") : (struct str){0};
}

static void put(struct sim *s, unsigned entry)
{
    struct cron_spec spec = {.name = str_from(names[entry]),
                             .expression = str_from(expressions[entry]),
                             .paused = sim_chance(s, 20) ? CRON_PAUSE : CRON_AS_IS,
                             .job = {.queue = sim_queue_name(0),
                                     .type = sim_type_name(0),
                                     .payload = str_from(payloads[entry]),
                                     .ready_at = INSTANT_NONE,
                                     .retry_limit = (int32_t)sim_draw(s, 3),
                                     .completed_retention = {3600 * 1000},
                                     .dead_retention = {3600 * 1000}}};
    if (entry == UNIQUE_ENTRY && s->profile.cron_unique) {
        spec.job.unique_key = unique_key;
        spec.job.unique_while = s->profile.cron_unique;
        s->ledger.cron_key = KEYS;
    }
    if (entry == BATCH_ENTRY && s->profile.cron_batch) {
        spec.job.payload = str_from(batch_payload);
        spec.job.batch = (struct job_batch){.key = STR("ticks"),
                                            .when = evaluator_whens[sim_draw(s, EVALUATOR_WHENS)],
                                            .fold = evaluator_fold};
    }
    s->put_at[entry] = s->now;
    struct ticket *t = ticket_new(s, CMD_CRON_PUT, 0);
    t->queues = entry;
    struct command c = {.cron_put = {.group = STR("g"),
                                     .zone = some_zone(s),
                                     .entries = &spec,
                                     .count = 1,
                                     .whole = sim_chance(s, 20)}};
    ticket_submit(t, &c);
}

void cron_step(struct sim *s)
{
    unsigned entry = (unsigned)sim_draw(s, CRONS);
    struct str name = sim_chance(s, 70) ? str_from(names[entry]) : (struct str){0};
    struct cron_command about = {.group = STR("g"), .entry = name};
    uint64_t kind = sim_draw(s, 10);
    if (kind < 4) {
        put(s, entry);
        return;
    }
    enum command_kind what = kind < 9 ? CMD_CRON_SWITCH : CMD_CRON_REMOVE;
    about.to = kind < 7 ? CRON_RESUME : CRON_PAUSE;
    about.zone_given = !name.len && sim_chance(s, 50);
    if (about.zone_given)
        about.zone = some_zone(s);
    struct ticket *t = ticket_new(s, what, 0);
    struct command c = {.cron = about};
    ticket_submit(t, &c);
}

void cron_was_put(struct sim *s, const struct ticket *t)
{
    s->put_at[t->queues] = s->now;
}

void cron_remove_all(struct sim *s)
{
    struct ticket *t = ticket_new(s, CMD_CRON_REMOVE, 0);
    struct command c = {0};
    ticket_submit(t, &c);
}

/* The tick of a batched entry may have been put off, but not for long. */
#define PUT_OFF_MS 2000

void cron_catch_up(struct sim *s)
{
    if (s->profile.crons && s->profile.cron_batch)
        sim_run_until(s, instant_add(s->now, (span){PUT_OFF_MS}));
}

static bool was_paused_since(const struct cron_pause *p, int64_t tick)
{
    return p->paused || (instant_is_set(p->resumed_at) && p->resumed_at.ms >= tick);
}

/* The newest tick has fired, unless it may have been skipped. */
static void check_not_lost(const struct sim *s, const struct cron_view *view,
                           const struct cron_entry *e, unsigned entry)
{
    int64_t period = ledger_cron_period(entry), tick = s->now.ms / period * period;
    if (tick <= s->put_at[entry].ms || tick <= s->reset_at.ms ||
        was_paused_since(&view->group.pause, tick) || was_paused_since(&e->clock.pause, tick))
        return;
    /* A commit that fails counts as a start. */
    if (s->settings.engine.cron_skip_missed && (s->profile.faults || tick <= s->booted_at.ms))
        return;
    PROMISE(e->clock.last_at.ms >= tick, "CRON", "entry %u did not fire at %ld", entry, (long)tick);
}

static void check_clocks(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    if (r->err.code == ERR_NOT_FOUND)
        return;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    for (size_t i = 0; i < r->cron->count; i++) {
        const struct cron_clock *clock = &r->cron->entries[i].clock;
        unsigned entry = (unsigned)(r->cron->entries[i].name.at[1] - '0');
        int64_t period = ledger_cron_period(entry);
        PROMISE(clock->next_at.ms == (s->now.ms / period + 1) * period, "CRON",
                "entry %u ticks next at %ld", entry, (long)clock->next_at.ms);
        check_not_lost(s, r->cron, &r->cron->entries[i], entry);
        /* A tick that found its key taken has no job. */
        bool keyed = entry == UNIQUE_ENTRY && s->profile.cron_unique;
        if (instant_is_set(clock->last_at) && !keyed)
            ledger_check_fired(&s->ledger, entry, clock->last_at, s->now);
    }
}

void cron_audit(struct sim *s)
{
    if (s->profile.space) /* ticks may still wait for room */
        return;
    struct ticket *t = ticket_new(s, CMD_CRON_READ, 0);
    t->then = check_clocks;
    struct command c = {.cron = {.group = STR("g")}};
    ticket_submit(t, &c);
    sim_pump(s);
}
