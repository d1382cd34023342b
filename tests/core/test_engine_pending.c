/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs whose runs begin before a worker has them. */

#include "core/depend.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct enqueue spec(struct rig *r)
{
    struct enqueue s = rig_spec("q");
    s.dead_retention = HOUR;
    s.options.pending_runs = 1;
    s.options.deadline = instant_add(r->now, HOUR);
    return s;
}

static void cancel(struct rig *r, struct id id)
{
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    assert_int_equal(job.state.runs, rig_read(r, id)->state.runs);
}

static void assert_never_began(struct rig *r, struct id id, uint32_t index, enum outcome outcome,
                               instant ready_at)
{
    const struct run *run = rig_run(r, id, index);
    assert_int_equal(rig_read(r, id)->state.runs, index + 1);
    assert_int_equal(run->index, index);
    assert_int_equal(run->outcome, outcome);
    assert_false(instant_is_set(run->taken_at));
    assert_false(instant_is_set(run->lease_end));
    assert_int_equal(run->ready_at.ms, ready_at.ms);
    assert_int_equal(run->ended_at.ms, r->now.ms);
    assert_int_equal(run->worker.len, 0);
    assert_int_equal(run->attempt, 0);
    assert_true(str_eq(run->reason, rig_read(r, id)->state.reason));
    assert_int_equal(rig_event(r)->run, index);
}

static void one_that_is_canceled_while_it_waits_has_a_run_that_never_began(void **state)
{
    R;
    struct enqueue s = spec(r);
    instant added = r->now;
    struct id id = rig_add_spec(r, &s);
    rig_turn_after(r, 1000);
    cancel(r, id);
    assert_never_began(r, id, 0, OUTCOME_CANCELED, added);
    rig_restart(r);
    assert_int_equal(rig_read(r, id)->state.runs, 1);
}

static void so_has_one_whose_deadline_comes(void **state)
{
    R;
    struct enqueue s = spec(r);
    s.ready_at = instant_add(r->now, (span){2 * HOUR.ms});
    struct id id = rig_add_spec(r, &s);
    rig_turn_after(r, HOUR.ms);
    assert_never_began(r, id, 0, OUTCOME_DEADLINE, INSTANT_NONE); /* it never was ready */
}

static void a_blocked_one_was_not_ready(void **state)
{
    R;
    struct id first = rig_add(r, "q");
    struct enqueue s = spec(r);
    struct arena a = {0};
    s.options.depends_on = depend_new(&a, 1);
    depend_add(&s.options.depends_on, first);
    struct id id = rig_add_spec(r, &s);
    cancel(r, id);
    assert_never_began(r, id, 0, OUTCOME_CANCELED, INSTANT_NONE);
    arena_fini(&a);
}

static void a_run_that_a_worker_has_is_the_only_one(void **state)
{
    R;
    struct enqueue s = spec(r);
    struct id id = rig_add_spec(r, &s);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    cancel(r, id);
    assert_int_equal(rig_read(r, id)->state.runs, 1);
    assert_true(instant_is_set(rig_run(r, id, 0)->taken_at));
}

static void its_next_run_has_the_next_index(void **state)
{
    R;
    struct enqueue s = spec(r);
    struct id id = rig_add_spec(r, &s);
    struct job job;
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    instant back = r->now;
    rig_turn_after(r, 1000);
    cancel(r, id);
    assert_never_began(r, id, 1, OUTCOME_CANCELED, back);
    struct rerun how = {.at = r->now};
    assert_ok(engine_rerun(r->e, r->now, id, how, &r->strings, &job));
    rig_clear(r);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, id);
    assert_int_equal(r->got[0].run, 2);
}

static void without_a_retention_nothing_is_left_of_it(void **state)
{
    R;
    struct enqueue s = spec(r);
    s.dead_retention = (span){0};
    struct id id = rig_add_spec(r, &s);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    assert_null(rig_record(r, id));
    rig_turn(r);
}

static void other_jobs_have_no_such_run(void **state)
{
    R;
    struct enqueue s = spec(r);
    s.options.pending_runs = 0;
    struct id id = rig_add_spec(r, &s);
    cancel(r, id);
    assert_int_equal(rig_read(r, id)->state.runs, 0);
    assert_int_equal(rig_event(r)->run, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_is_canceled_while_it_waits_has_a_run_that_never_began),
        TEST(so_has_one_whose_deadline_comes),
        TEST(a_blocked_one_was_not_ready),
        TEST(a_run_that_a_worker_has_is_the_only_one),
        TEST(its_next_run_has_the_next_index),
        TEST(without_a_retention_nothing_is_left_of_it),
        TEST(other_jobs_have_no_such_run),
    };
    return cmocka_run_group_tests_name("engine_pending", tests, NULL, NULL);
}
