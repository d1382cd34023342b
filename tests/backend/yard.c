/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#define START ((instant){1700000000000})

/* The store under test has no room for a pointer of ours, and a test program has one yard at a
 * time. */
static struct yard *the_yard;

static int64_t free_space(struct store *s)
{
    (void)s;
    return the_yard->free_space;
}

static void commit(struct store *s, const struct batch *b, bool sync)
{
    the_yard->commits++;
    the_yard->syncs += sync;
    the_yard->below->commit(s, b, sync);
}

static void no_wait(struct store *s)
{
    (void)s;
}

static instant now(void *ctx)
{
    const struct yard *y = ctx;
    return y->now;
}

static int64_t ticks(void *ctx)
{
    struct yard *y = ctx;
    return *y->ticks += y->tick_step;
}

struct env yard_env(struct yard *y)
{
    return (struct env){.now = now,
                        .ctx = y,
                        .ticks = y->ticks ? ticks : NULL,
                        .rng = rng_from_seed(y->seed++),
                        .store = y->store,
                        .evaluator = y->evaluator};
}

static void open_backend(struct yard *y)
{
    struct env env = yard_env(y);
    assert_ok(embedded_new(&y->settings, &env, &y->b));
    engine_check(embedded_engine(y->b));
}

int yard_setup(void **state)
{
    struct yard *y = test_calloc(1, sizeof *y);
    the_yard = y;
    y->store = memory_new();
    y->below = y->store->vt;
    y->vt = *y->below;
    y->vt.free_space = free_space;
    y->vt.commit = commit;
    y->store->vt = &y->vt;
    y->free_space = INT64_MAX;
    y->now = START;
    y->seed = 1;
    y->settings = (struct backend_settings){.engine = {.retry = retry_defaults(),
                                                       .completed_retention = {0},
                                                       .dead_retention = {7 * 24 * 3600 * 1000LL}},
                                            .sync = true,
                                            .event_retention = {24 * 3600 * 1000},
                                            .event_max_bytes = 1 << 20,
                                            .undo_max = {3600000},
                                            .undo_max_bytes = 1 << 20,
                                            .min_free_space = 1000};
    open_backend(y);
    *state = y;
    return 0;
}

int yard_teardown(void **state)
{
    struct yard *y = *state;
    backend_free(y->b);
    store_close(y->store);
    test_free(y);
    return 0;
}

void yard_restart(struct yard *y)
{
    backend_free(y->b);
    assert_ok(store_reopen(y->store));
    open_backend(y);
}

void yard_restart_full(struct yard *y)
{
    backend_free(y->b);
    assert_ok(store_reopen(y->store));
    memory_break(y->store, ERR_DISK_FULL);
    open_backend(y);
}

void yard_crash(struct yard *y)
{
    struct backend *old = y->b;
    memory_crash(y->store, false, true);
    memory_set_faults(y->store, (struct memory_faults){0});
    open_backend(y);
    /* Only its memory is freed: it has no commit in progress to wait for. */
    y->vt.wait = no_wait;
    backend_free(old);
    y->vt.wait = y->below->wait;
}

void yard_turn(struct yard *y)
{
    assert_ok(backend_turn(y->b));
    engine_check(embedded_engine(y->b));
}

void yard_turn_after(struct yard *y, int64_t ms)
{
    y->now.ms += ms;
    yard_turn(y);
}

/* Long enough for a step to become durable and to be answered. */
#define TURNS_TO_ANSWER 4

static bool waits_for_evaluator(const struct yard *y)
{
    instant at;
    bool due = backend_next_due(y->b, &at) && at.ms <= y->now.ms;
    return !due && y->questions && *y->questions > 0;
}

void yard_settle(struct yard *y)
{
    int waited = 0;
    yard_turn(y);
    for (int i = 0; !backend_is_idle(y->b) && waited < TURNS_TO_ANSWER; i++) {
        assert_true(i < 1000);
        yard_turn(y);
        waited = waits_for_evaluator(y) ? waited + 1 : 0;
    }
}

void yard_faults(struct yard *y, struct memory_faults f)
{
    memory_set_faults(y->store, f);
}

/* --- commands --- */

void yard_send(struct yard *y, struct command c, struct answer *to)
{
    answers_send(y->b, c, to);
}

void yard_ask(struct yard *y, struct command c, struct answer *to)
{
    *to = (struct answer){0};
    yard_send(y, c, to);
    yard_settle(y);
    assert_int_equal(to->came, 1);
}

struct enqueue yard_spec(const char *queue)
{
    return answers_spec(queue);
}

void yard_enqueue(struct yard *y, const char *queue, struct answer *to)
{
    struct enqueue spec = yard_spec(queue);
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, to);
}

struct id yard_add(struct yard *y, const char *queue)
{
    struct answer a;
    struct enqueue spec = yard_spec(queue);
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
    return a.ids[0];
}

void yard_read(struct yard *y, struct id id, struct answer *to)
{
    yard_ask(y, (struct command){.kind = CMD_READ, .read = {id}}, to);
}

enum status yard_status(struct yard *y, struct id id)
{
    struct answer a;
    yard_read(y, id, &a);
    return answers_status(&a);
}

/* --- takers --- */

struct err yard_try_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to)
{
    yard_stream(y, queue, prefetch, to);
    yard_settle(y);
    assert_int_equal(to->opened, 1);
    return to->refused;
}

void yard_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to)
{
    answers_stream(y->b, queue, prefetch, to);
}

struct backend_claim *yard_claim(struct yard *y, const char *queue, uint32_t count, span wait,
                                 struct answer *to)
{
    return answers_claim(y->b, queue, count, wait, to);
}
