/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>

/* The rig itself checks that every event has the next number and continues from the job's last one,
 * and after each turn that all of them together give the status of every job. */

#define R    struct rig *r = *state
#define HOUR ((span){3600 * 1000})

static struct id taken(struct rig *r)
{
    struct id id = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    return id;
}

static void a_job_is_told_of_from_enqueue_to_success(void **state)
{
    R;
    struct id id = taken(r);
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->run, 0);
    assert_int_equal(ev->attempt, 1);
    assert_int_equal(ev->worker.len, 1);
    rig_succeed(r, id);
    rig_assert_events(r, id, EVENT_ENQUEUE, EVENT_TAKE, EVENT_SUCCEED);
    ev = rig_event(r);
    assert_true(ev->removed); /* the rig keeps no completed jobs */
    assert_true(ev->reason.len > 0);
    assert_int_equal(ev->run, 0);
}

static void a_failure_is_told_of_with_budget_and_time(void **state)
{
    R;
    struct id id = taken(r);
    struct job job = rig_fail(r, id);
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_RETRY);
    assert_int_equal(ev->to, STATUS_SCHEDULED);
    assert_int_equal(ev->ready_at.ms, job.state.ready_at.ms);
    assert_int_equal(ev->ruling.count, 1);
    assert_int_equal(ev->ruling.limit, 25);
    assert_int_equal(ev->ruling.policy.len, 0);
    assert_true(str_eq(ev->reason, job.state.reason));
}

static void a_worker_who_decides_asks_nobodys_budget(void **state)
{
    R;
    struct id id = taken(r);
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    assert_int_equal(rig_event(r)->event, EVENT_EXHAUST);
    assert_int_equal(rig_event(r)->ruling.limit, -1);
    assert_false(rig_event(r)->removed);
}

static void the_end_of_retention_is_told_of(void **state)
{
    R;
    struct id id = taken(r);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    rig_turn_after(r, 7 * 24 * HOUR.ms);
    rig_assert_events(r, id, EVENT_CANCEL, EVENT_PURGE);
}

static void a_scheduled_job_is_told_of_when_its_time_comes(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", HOUR);
    assert_int_equal(rig_event(r)->ready_at.ms, r->now.ms + HOUR.ms);
    rig_turn_after(r, HOUR.ms);
    rig_assert_events(r, id, EVENT_ENQUEUE_LATER, EVENT_DUE);
    assert_int_equal(rig_event(r)->type.len, 1);
}

static void it_is_told_of_once_however_often_the_server_starts(void **state)
{
    R;
    struct id early = rig_add_later(r, "q", (span){1000});
    struct id late = rig_add_later(r, "q", (span){2000});
    rig_turn_after(r, 1000);
    rig_restart(r);
    rig_turn(r);
    size_t before = r->event_count;
    rig_restart(r);
    rig_turn_after(r, 500);
    assert_int_equal(r->event_count, before);
    r->now.ms += 1000;
    rig_restart(r);
    rig_turn(r);
    assert_int_equal(r->event_count, before + 1);
    rig_assert_events(r, early, EVENT_ENQUEUE_LATER, EVENT_DUE);
    rig_assert_events(r, late, EVENT_ENQUEUE_LATER, EVENT_DUE);
}

static void a_late_job_that_is_canceled_was_ready_before(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", (span){1000});
    r->now.ms += 1000; /* and no turn */
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    rig_assert_events(r, id, EVENT_ENQUEUE_LATER, EVENT_DUE, EVENT_CANCEL);
}

static void a_run_cut_off_by_a_restart_is_told_of(void **state)
{
    R;
    struct id id = taken(r);
    rig_restart(r);
    rig_assert_events(r, id, EVENT_TAKE, EVENT_RETURN);
    assert_int_equal(rig_event(r)->run, 0);
    rig_turn(r);
}

static void a_patch_is_told_of_only_if_the_status_its_time_or_the_priority_changes(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct job job;
    struct patch patch = {.set = PATCH_DEAD, .dead_retention = HOUR};
    assert_ok(engine_patch(r->e, r->now, id, &patch, &r->strings, &job));
    assert_int_equal(r->event_count, 1);
    patch = (struct patch){.set = PATCH_PRIORITY, .priority = 3};
    assert_ok(engine_patch(r->e, r->now, id, &patch, &r->strings, &job));
    patch = (struct patch){.set = PATCH_READY_AT, .ready_at = instant_add(r->now, HOUR)};
    assert_ok(engine_patch(r->e, r->now, id, &patch, &r->strings, &job));
    patch.ready_at = INSTANT_NONE;
    assert_ok(engine_patch(r->e, r->now, id, &patch, &r->strings, &job));
    rig_assert_events(r, id, EVENT_ENQUEUE, EVENT_REPRIORITIZE, EVENT_POSTPONE, EVENT_DUE);
    rig_turn(r);
}

static void types_have_their_names_however_many_there_are(void **state)
{
    R;
    char name[32];
    struct enqueue spec = rig_spec("q");
    spec.ready_at = instant_add(r->now, HOUR);
    for (int i = 0; i < 2100; i++) {
        snprintf(name, sizeof name, "type-%d", i);
        spec.type = str_from(name);
        rig_add_spec(r, &spec);
    }
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(r->event_count, 4200);
    assert_true(str_eq(rig_event(r)->type, STR("type-2099")));
    assert_true(str_eq(r->events[2100].type, STR("type-0")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_told_of_from_enqueue_to_success),
        TEST(a_failure_is_told_of_with_budget_and_time),
        TEST(a_worker_who_decides_asks_nobodys_budget),
        TEST(the_end_of_retention_is_told_of),
        TEST(a_scheduled_job_is_told_of_when_its_time_comes),
        TEST(it_is_told_of_once_however_often_the_server_starts),
        TEST(a_late_job_that_is_canceled_was_ready_before),
        TEST(a_run_cut_off_by_a_restart_is_told_of),
        TEST(a_patch_is_told_of_only_if_the_status_its_time_or_the_priority_changes),
        TEST(types_have_their_names_however_many_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
