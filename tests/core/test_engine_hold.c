/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that are held until somebody frees them. */

#include "core/depend.h"
#include "core/explain.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct enqueue held(void)
{
    struct enqueue s = rig_spec("q");
    s.dead_retention = HOUR;
    s.options.hold = 1;
    return s;
}

static struct id add(struct rig *r)
{
    struct enqueue s = held();
    return rig_add_spec(r, &s);
}

static struct job free_it(struct rig *r, struct id id)
{
    struct patch p = {.set = PATCH_FREE};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, id, &p, &r->strings, &job));
    return job;
}

static void assert_held(struct rig *r, struct id id)
{
    assert_int_equal(rig_status(r, id), STATUS_BLOCKED);
    assert_int_equal(rig_read(r, id)->state.extras.held, 1);
}

static void it_is_blocked_until_a_patch_frees_it(void **state)
{
    R;
    struct id id = add(r);
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, HOUR.ms);
    rig_assert_events(r, id, EVENT_ENQUEUE_BLOCKED);
    assert_held(r, id);
    rig_restart(r);
    assert_held(r, id);
    struct job job = free_it(r, id);
    assert_int_equal(job.state.status, STATUS_READY);
    assert_int_equal(job.state.ready_at.ms, r->now.ms);
    assert_int_equal(job.state.extras.held, 0);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
}

static void freed_before_its_time_it_waits_for_that(void **state)
{
    R;
    struct enqueue s = held();
    s.ready_at = instant_add(r->now, HOUR);
    struct id id = rig_add_spec(r, &s);
    assert_held(r, id);
    assert_int_equal(free_it(r, id).state.status, STATUS_SCHEDULED);
}

static struct id with_dependency(struct rig *r, struct id on, enum depend_death death)
{
    struct enqueue s = held();
    s.options.depends_on = depend_new(&r->strings, 1);
    s.options.depend_death = death;
    depend_add(&s.options.depends_on, on);
    return rig_add_spec(r, &s);
}

static void it_stays_held_when_what_it_waits_for_has_ended(void **state)
{
    R;
    struct id first = rig_add(r, "other"), id = with_dependency(r, first, DEPEND_BLOCK);
    rig_claim(r, "w", "other", 1, (span){0});
    rig_turn(r);
    rig_succeed(r, first);
    rig_turn(r);
    assert_held(r, id);
    assert_int_equal(rig_read(r, id)->state.extras.waits_for.len, 0);
    rig_restart(r);
    assert_int_equal(free_it(r, id).state.status, STATUS_READY);
}

static void to_free_it_frees_it_from_what_it_waits_for_too(void **state)
{
    R;
    struct id first = rig_add(r, "other"), id = with_dependency(r, first, DEPEND_BLOCK);
    assert_int_equal(free_it(r, id).state.status, STATUS_READY);
}

static void it_can_end_while_it_is_held(void **state)
{
    R;
    struct enqueue s = held();
    s.options.deadline = instant_add(r->now, HOUR);
    struct id late = rig_add_spec(r, &s), canceled = add(r), first = rig_add(r, "other");
    struct id dies = with_dependency(r, first, DEPEND_DIE);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, canceled, &r->strings, &job));
    assert_ok(engine_cancel(r->e, r->now, first, &r->strings, &job));
    rig_turn(r);
    assert_int_equal(rig_read(r, canceled)->state.resolution, RESOLUTION_CANCELED);
    assert_int_equal(rig_read(r, dies)->state.resolution, RESOLUTION_DEPENDENCY);
    assert_ok(
        engine_rerun(r->e, r->now, canceled, (struct rerun){.at = r->now}, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_READY); /* whoever brings it back wants it to run */
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_read(r, late)->state.resolution, RESOLUTION_DEADLINE);
}

static void it_says_why_it_is_not_running(void **state)
{
    R;
    struct id id = add(r);
    struct explanation x;
    struct job_extent extent;
    assert_ok(engine_explain(r->e, r->now, id, &r->strings, &x, &extent));
    assert_int_equal(x.obstacle_count, 1);
    assert_int_equal(x.obstacles[0].kind, OBSTACLE_HOLD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_blocked_until_a_patch_frees_it),
        TEST(freed_before_its_time_it_waits_for_that),
        TEST(it_stays_held_when_what_it_waits_for_has_ended),
        TEST(to_free_it_frees_it_from_what_it_waits_for_too),
        TEST(it_can_end_while_it_is_held),
        TEST(it_says_why_it_is_not_running),
    };
    return cmocka_run_group_tests_name("engine_hold", tests, NULL, NULL);
}
