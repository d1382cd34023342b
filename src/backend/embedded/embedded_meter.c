/* SPDX-License-Identifier: Apache-2.0 */

/* Measurements: the engine counts what happens to jobs; the rest is here. */

#include "backend/embedded/embedded_internal.h"
#include "core/engine_budget.h"

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

/* Jobs that are read to find the oldest ones: some ten milliseconds of work. */
#define READS_MAX 1000
/* Queues without a row of their own that are looked into for their oldest job. */
#define OTHERS_MAX 1000

struct rows {
    struct embedded *b;
    uint64_t (*jobs)[STATUS_COUNT]; /* by row, as are queues */
    struct backend_queue *queues;
    unsigned reads;
};

/* A queue may have had no event since the start: it gets its row now. */
static void give_rows(struct embedded *b)
{
    struct meter *m = b->meter;
    struct str name = engine_queue_name_after(b->engine, (struct str){0});
    for (; name.len && m->queue_count < m->queues_max;
         name = engine_queue_name_after(b->engine, name))
        meter_queue(m, name);
}

static void note_oldest(const struct rows *rows, struct backend_queue *q,
                        const struct queue_watch *w)
{
    int64_t waits =
        instant_is_set(w->oldest_ready) ? instant_diff(rows->b->now, w->oldest_ready).ms : 0;
    if (waits > q->oldest_ready.ms)
        q->oldest_ready.ms = waits;
}

static void add_row(struct rows *rows, uint32_t row)
{
    const struct embedded *b = rows->b;
    struct backend_queue *q = &rows->queues[row];
    struct queue_watch w;
    if (!engine_watch(b->engine, b->now, b->meter->queues[row].name, &rows->reads, &w))
        return;
    memcpy(rows->jobs[row], w.counts, sizeof rows->jobs[row]);
    q->paused = w.paused;
    q->concurrency = w.concurrency;
    note_oldest(rows, q, &w);
}

/* The row that all others share: what the rows leave of all jobs. */
static void add_others(struct rows *rows)
{
    const struct embedded *b = rows->b;
    const struct meter *m = b->meter;
    uint64_t *jobs = rows->jobs[m->queues_max];
    engine_count(b->engine, (struct str){0}, jobs);
    for (uint32_t row = 0; row < m->queue_count; row++)
        for (int s = 0; s < STATUS_COUNT; s++)
            jobs[s] -= rows->jobs[row][s];
    struct str name = engine_queue_name_after(b->engine, (struct str){0});
    for (unsigned n = 0; name.len && n < OTHERS_MAX && rows->reads > 0;
         name = engine_queue_name_after(b->engine, name)) {
        struct queue_watch w;
        if (meter_has_row(m, name) || !engine_watch(b->engine, b->now, name, &rows->reads, &w))
            continue;
        note_oldest(rows, &rows->queues[m->queues_max], &w);
        n++;
    }
}

static void fill_rows(struct rows *rows)
{
    const struct meter *m = rows->b->meter;
    give_rows(rows->b);
    for (uint32_t row = 0; row < m->queue_count; row++)
        add_row(rows, row);
    if (m->queue_count == m->queues_max)
        add_others(rows);
}

static uint64_t count_list(const struct list *all)
{
    uint64_t n = 0;
    LIST_EACH (node, all)
        n++;
    return n;
}

static void add_budgets(struct embedded *b, struct arena *a, struct backend_meter *out)
{
    struct budget_view *views;
    size_t n = engine_budget_list(b->engine, b->now, a, &views);
    out->budget_total = n;
    out->budget_count = n < BACKEND_BUDGETS_MAX ? n : BACKEND_BUDGETS_MAX;
    for (size_t i = 0; i < out->budget_count; i++)
        views[i].budget.key = arena_copy(a, views[i].budget.key);
    out->budgets = views;
}

void embedded_meter(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)c;
    struct arena *a = &b->building->arena;
    struct backend_meter *out = arena_get(a, sizeof *out);
    struct rows rows = {.b = b, .reads = READS_MAX};
    size_t size = (b->meter->queues_max + 1) * sizeof *rows.jobs;
    rows.jobs = arena_get(a, size);
    memset(rows.jobs, 0, size);
    rows.queues = arena_zero(a, (b->meter->queues_max + 1) * sizeof *rows.queues);
    fill_rows(&rows);
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
        .answer_bytes = b->answers.all.bytes,
        .answers_shortened = b->answers.shortened,
        .disk_free = b->free_space,
        .disk_reserve = b->settings.min_free_space,
        .memory = engine_memory(b->engine),
        .streams = count_list(&b->streams),
        .claims = count_list(&b->claims),
        .in_flight_max = b->settings.engine.in_flight_max,
        .damaged_jobs = b->damage.count,
        .newest_event = b->events.durable,
        .index_start = b->index.start,
        .index_jobs_read = b->index.jobs_read,
        .index_written = b->index.written,
        .index_failed = b->index.failed,
    };
    add_budgets(b, a, out);
    r->meter = out;
}
