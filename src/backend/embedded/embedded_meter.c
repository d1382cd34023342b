/* SPDX-License-Identifier: Apache-2.0 */

/* Measurements: the engine counts what happens to jobs; the rest is here. */

#include "backend/embedded/embedded_internal.h"

static const int64_t commit_times[] = {100,   250,   500,    1000,   2500,    5000,    10000,
                                       25000, 50000, 100000, 250000, 1000000, 5000000, 30000000};
const struct histogram_scale backend_commit_times = HISTOGRAM_SCALE(commit_times, 1e-6);

static const int64_t commit_sizes[] = {1,   2,   5,    10,   20,   50,    100,
                                       200, 500, 1000, 2000, 5000, 10000, 50000};
const struct histogram_scale backend_commit_sizes = HISTOGRAM_SCALE(commit_sizes, 1);

void embedded_meter_sealed(struct embedded *b, struct turn *t)
{
    if (b->env.ticks)
        t->sealed_at = b->env.ticks(b->env.ctx);
}

void embedded_meter_durable(struct embedded *b, const struct turn *t)
{
    if (b->env.ticks)
        histogram_add(&b->commit_times, &backend_commit_times,
                      b->env.ticks(b->env.ctx) - t->sealed_at);
    histogram_add(&b->commit_sizes, &backend_commit_sizes, (int64_t)t->batch.count);
    b->commit_bytes += t->batch.bytes;
}

struct rows {
    struct meter *meter;
    uint64_t (*jobs)[STATUS_COUNT];
    struct backend_queue *queues;
    instant now;
};

/* A queue may have had no event since the start: it gets its row now. */
static void add_queue(void *ctx, const struct queue_watch *w)
{
    struct rows *rows = ctx;
    ptrdiff_t row = meter_queue(rows->meter, w->name) - rows->meter->queues;
    struct backend_queue *q = &rows->queues[row];
    for (int s = 0; s < STATUS_COUNT; s++)
        rows->jobs[row][s] += w->counts[s];
    q->paused = w->paused;
    q->concurrency = w->concurrency;
    int64_t waits =
        instant_is_set(w->oldest_ready) ? instant_diff(rows->now, w->oldest_ready).ms : 0;
    if (waits > q->oldest_ready.ms)
        q->oldest_ready.ms = waits;
}

static uint64_t count_list(const struct list *all)
{
    uint64_t n = 0;
    LIST_EACH (node, all)
        n++;
    return n;
}

void embedded_meter(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)c;
    struct arena *a = &b->building->arena;
    struct backend_meter *out = arena_get(a, sizeof *out);
    struct rows rows = {.meter = b->meter, .now = b->now};
    size_t size = (b->meter->queues_max + 1) * sizeof *rows.jobs;
    rows.jobs = arena_get(a, size);
    memset(rows.jobs, 0, size);
    rows.queues = arena_zero(a, (b->meter->queues_max + 1) * sizeof *rows.queues);
    engine_watch(b->engine, b->now, add_queue, &rows);
    embedded_check_space(b);
    *out = (struct backend_meter){
        .counts = b->meter,
        .jobs = (const uint64_t(*)[STATUS_COUNT])rows.jobs,
        .queues = rows.queues,
        .commit_times = b->commit_times,
        .commit_sizes = b->commit_sizes,
        .commit_bytes = b->commit_bytes,
        .writable = embedded_refuse_to_store(b, CMD_ENQUEUE).code == ERR_OK,
        .disk_bytes = store_disk_bytes(b->env.store),
        .disk_free = b->free_space,
        .disk_reserve = b->settings.min_free_space,
        .memory = engine_memory(b->engine),
        .streams = count_list(&b->streams),
        .claims = count_list(&b->claims),
        .in_flight_max = b->settings.engine.in_flight_max,
        .damaged_jobs = b->damage.count,
        .newest_event = b->events.durable,
    };
    r->meter = out;
}
