/* SPDX-License-Identifier: Apache-2.0 */

/* Takers are given jobs of the kind that they name, and of no other. */

#include "core/explain.h"
#include "rig.h"

#define R      struct rig *r = *state
#define MINUTE ((span){60000})

static struct id add_task(struct rig *r, const char *queue, const char *alias, span delay)
{
    struct enqueue spec = rig_spec(queue);
    spec.type = STR(JOB_TYPE_TASK);
    spec.options.alias = str_from(alias);
    spec.ready_at = delay.ms ? instant_add(r->now, delay) : INSTANT_NONE;
    return rig_add_spec(r, &spec);
}

static struct taker *task_claim(struct rig *r, const char *name, const char *queue, uint32_t count)
{
    struct str names[] = {str_from(queue)};
    struct taker_spec spec = {.limit = count,
                              .claim = true,
                              .kind = KIND_TASK,
                              .queues = names,
                              .queue_count = queue ? 1 : 0,
                              .worker = str_from(name),
                              .lease = RIG_LEASE,
                              .wait_end = instant_add(r->now, MINUTE)};
    return engine_taker_open(r->e, &spec, (void *)(uintptr_t)name);
}

static void assert_tasks(struct rig *r, uint64_t scheduled, uint64_t ready, uint64_t in_flight)
{
    struct queue_view v;
    engine_queue_view(r->e, r->now, STR("q"), &v);
    assert_int_equal(v.tasks[STATUS_SCHEDULED], scheduled);
    assert_int_equal(v.tasks[STATUS_READY], ready);
    assert_int_equal(v.tasks[STATUS_IN_FLIGHT], in_flight);
}

static void a_job_before_it_keeps_no_task_from_who_takes_tasks(void **state)
{
    R;
    struct id job = rig_add_priority(r, "q", 1);
    struct id task = add_task(r, "q", "a", (span){0});
    rig_turn(r);
    task_claim(r, "w", "q", 5);
    rig_turn(r);
    rig_assert_got(r, task);
    assert_int_equal(rig_status(r, job), STATUS_READY);
    assert_tasks(r, 0, 0, 1);
}

static void a_task_before_it_keeps_no_job_from_who_takes_jobs(void **state)
{
    R;
    struct id task = add_task(r, "q", "a", (span){0});
    struct id job = rig_add(r, "q");
    rig_stream(r, "all", NULL, 5);
    rig_turn(r);
    rig_assert_got(r, job);
    assert_int_equal(rig_status(r, task), STATUS_READY);
}

static void who_waits_is_woken_by_its_kind_alone(void **state)
{
    R;
    task_claim(r, "w", "q", 1);
    rig_turn(r);
    struct id job = rig_add(r, "q");
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    struct id task = add_task(r, "q", "a", (span){0});
    rig_turn(r);
    rig_assert_got(r, task);
    rig_clear(r);
    rig_stream(r, "s", "q", 5);
    rig_turn(r);
    rig_assert_got(r, job);
}

static void room_in_a_queue_wakes_who_waits_for_its_tasks(void **state)
{
    R;
    rig_set(r, "q", .paused = true);
    struct id task = add_task(r, "q", "a", (span){0});
    task_claim(r, "w", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_set(r, "q", .paused = false);
    rig_turn(r);
    rig_assert_got(r, task);
}

static void tasks_keep_their_kind_while_they_wait_and_over_a_restart(void **state)
{
    R;
    struct id later = add_task(r, "q", "later", MINUTE);
    struct id now = add_task(r, "q", "now", (span){0});
    struct id job = rig_add(r, "q");
    rig_turn(r);
    assert_tasks(r, 1, 1, 0);
    rig_restart(r);
    rig_turn(r);
    assert_tasks(r, 1, 1, 0);
    rig_stream(r, "s", NULL, 5);
    rig_turn_after(r, MINUTE.ms);
    rig_assert_got(r, job);
    assert_tasks(r, 0, 2, 0);
    rig_clear(r);
    task_claim(r, "w", NULL, 5);
    rig_turn(r);
    rig_assert_got(r, later, now);
    rig_restart(r);
    assert_tasks(r, 0, 0, 2);
    engine_check(r->e);
}

static void tasks_come_by_priority_and_age(void **state)
{
    R;
    struct id second = add_task(r, "q", "b", (span){0});
    struct enqueue spec = rig_spec("q");
    spec.type = STR(JOB_TYPE_TASK);
    spec.options.alias = STR("c");
    spec.priority = 1;
    struct id first = rig_add_spec(r, &spec);
    rig_add(r, "q");
    struct ready_place places[4];
    struct peek_command peek = {.queue = STR("q"), .tasks = true};
    assert_int_equal(engine_peek(r->e, &peek, 4, places), 2);
    assert_id(places[0].id, first);
    assert_id(places[1].id, second);
    peek.tasks = false;
    assert_int_equal(engine_peek(r->e, &peek, 4, places), 3);
}

static void explain_says_that_those_who_ask_take_other_jobs(void **state)
{
    R;
    struct id job = rig_add(r, "q");
    struct explanation x;
    struct job_extent extent;
    task_claim(r, "w", "q", 1);
    rig_turn(r);
    assert_ok(engine_explain(r->e, r->now, job, &r->strings, &x, &extent));
    assert_int_equal(x.obstacle_count, 1);
    assert_int_equal(x.obstacles[0].kind, OBSTACLE_NO_WORKER);
    assert_non_null(memmem(x.obstacles[0].text.at, x.obstacles[0].text.len, "no task", 7));
}

static void a_task_keeps_its_queue(void **state)
{
    R;
    struct id task = add_task(r, "q", "a", (span){0});
    struct patch p = {.set = PATCH_QUEUE, .queue = STR("other")};
    struct job job;
    assert_code(engine_patch(r->e, r->now, task, &p, &r->strings, &job), ERR_UNPROCESSABLE);
    p.queue = STR("q");
    assert_ok(engine_patch(r->e, r->now, task, &p, &r->strings, &job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_before_it_keeps_no_task_from_who_takes_tasks),
        TEST(a_task_before_it_keeps_no_job_from_who_takes_jobs),
        TEST(who_waits_is_woken_by_its_kind_alone),
        TEST(room_in_a_queue_wakes_who_waits_for_its_tasks),
        TEST(tasks_keep_their_kind_while_they_wait_and_over_a_restart),
        TEST(tasks_come_by_priority_and_age),
        TEST(explain_says_that_those_who_ask_take_other_jobs),
        TEST(a_task_keeps_its_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
