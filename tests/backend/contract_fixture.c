/* SPDX-License-Identifier: Apache-2.0 */
#include "contract_fixture.h"

#define HOUR_MS    ((int64_t)3600 * 1000)
#define ROUNDS_MAX 10000
#define ROOM_AGAIN ((span){10000}) /* a backend checks for room more often than this */

static const struct contract_driver *drv;

void fixture_of(const struct contract_driver *driver)
{
    drv = driver;
}

int fixture_setup(void **state)
{
    const struct backend_settings settings = {
        .engine = {.retry = retry_defaults(), .dead_retention = {7 * 24 * HOUR_MS}},
        .sync = true,
        .event_retention = {24 * HOUR_MS},
        .event_max_bytes = 1 << 20,
        .undo_max = {3600000},
        .undo_max_bytes = 1 << 20,
        .failure_history = 10,
        .failure_groups_max = 10,
        .failure_group_retention = {24 * HOUR_MS},
        .min_free_space = 1000};
    struct fixture *f = test_calloc(1, sizeof *f);
    f->rig = drv->open(&settings);
    f->b = drv->backend(f->rig);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    drv->close(f->rig);
    test_free(f);
    return 0;
}

void fixture_turn(struct fixture *f)
{
    drv->turn(f->rig);
}

void fixture_settle(struct fixture *f)
{
    fixture_turn(f);
    for (int i = 0; !backend_is_idle(f->b); i++) {
        assert_true(i < ROUNDS_MAX);
        fixture_turn(f);
    }
}

instant fixture_now(struct fixture *f)
{
    return drv->now(f->rig);
}

void fixture_pass(struct fixture *f, span by)
{
    drv->advance(f->rig, by);
}

void fixture_turn_after(struct fixture *f, int64_t ms)
{
    fixture_pass(f, (span){ms});
    fixture_turn(f);
}

void fixture_restart(struct fixture *f)
{
    drv->restart(f->rig);
    f->b = drv->backend(f->rig);
}

void fixture_crash(struct fixture *f)
{
    drv->crash(f->rig);
    f->b = drv->backend(f->rig);
}

void fixture_hold(struct fixture *f, bool on)
{
    drv->hold(f->rig, on);
}

void fixture_fill(struct fixture *f, bool on)
{
    drv->fill(f->rig, on);
}

void fixture_empty(struct fixture *f)
{
    drv->fill(f->rig, false);
    drv->advance(f->rig, ROOM_AGAIN);
    fixture_settle(f);
}

void fixture_send(struct fixture *f, struct command c, struct answer *to)
{
    answers_send(f->b, c, to);
}

void fixture_ask(struct fixture *f, struct command c, struct answer *to)
{
    *to = (struct answer){0};
    fixture_send(f, c, to);
    fixture_settle(f);
    assert_int_equal(to->came, 1);
}

void fixture_enqueue(struct fixture *f, const char *queue, struct answer *to)
{
    struct enqueue spec = answers_spec(queue);
    fixture_send(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, to);
}

struct id fixture_add(struct fixture *f, const char *queue)
{
    struct answer a;
    struct enqueue spec = answers_spec(queue);
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
    return a.ids[0];
}

enum status fixture_status(struct fixture *f, struct id id)
{
    struct answer a;
    fixture_ask(f, (struct command){.kind = CMD_READ, .read = {id}}, &a);
    return answers_status(&a);
}

uint64_t fixture_count(struct fixture *f)
{
    struct answer a;
    fixture_ask(f, (struct command){.kind = CMD_COUNT}, &a);
    assert_ok(a.err);
    return a.count;
}

struct err fixture_try_stream(struct fixture *f, const char *queue, uint32_t prefetch,
                              struct stream *to)
{
    fixture_stream(f, queue, prefetch, to);
    fixture_settle(f);
    assert_int_equal(to->opened, 1);
    return to->refused;
}

void fixture_stream(struct fixture *f, const char *queue, uint32_t prefetch, struct stream *to)
{
    answers_stream(f->b, queue, prefetch, to);
}

struct backend_claim *fixture_claim(struct fixture *f, const char *queue, uint32_t count, span wait,
                                    struct answer *to)
{
    return answers_claim(f->b, queue, count, wait, to);
}
