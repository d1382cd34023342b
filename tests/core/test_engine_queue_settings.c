/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of queues: defaults of their jobs, and reading the settings. */

#include "rig.h"

#define R            struct rig *r = *state
#define TEN_A_SECOND .rate = {.count = 10, .burst = 2, .per = {1000}}

static void the_queues_retry_settings_come_between_the_jobs_and_the_servers(void **state)
{
    R;
    struct queue_settings set = QUEUE_SETTINGS_DEFAULT;
    set.retry_limit = 1;
    set.backoff = (struct curve){.shape = CURVE_POWER, .base = {5000}};
    rig_set_queue(r, "q", set);
    struct enqueue spec = rig_spec("q");
    struct id a = rig_add_spec(r, &spec);
    spec.retry_limit = 0;
    struct id own = rig_add_spec(r, &spec);
    rig_stream(r, "w", NULL, 20);
    rig_turn(r);
    struct job job = rig_fail(r, a);
    assert_int_equal(job.state.status, STATUS_SCHEDULED);
    assert_int_equal(job.state.ready_at.ms, r->now.ms + 6000); /* base + 1^0 s */
    assert_memory_equal(job.state.reason.at, "retry 1 of 1, backoff of the queue, in 6 s",
                        job.state.reason.len);
    assert_int_equal(rig_fail(r, own).state.status, STATUS_DEAD);
    rig_turn_after(r, 6000);
    assert_int_equal(rig_fail(r, a).state.status, STATUS_DEAD);
    rig_set_queue(r, "q", QUEUE_SETTINGS_DEFAULT);
    struct id b = rig_add(r, "q");
    rig_turn(r);
    assert_int_equal(rig_fail(r, b).state.status, STATUS_SCHEDULED);
}

static void the_queues_retention_comes_between_the_jobs_and_the_servers(void **state)
{
    R;
    struct queue_settings set = QUEUE_SETTINGS_DEFAULT;
    set.completed_retention = (span){1000};
    set.dead_retention = (span){0};
    rig_set_queue(r, "q", set);
    struct enqueue spec = rig_spec("q");
    struct id kept = rig_add_spec(r, &spec), dies = rig_add_spec(r, &spec);
    spec.completed_retention = (span){0};
    struct id own = rig_add_spec(r, &spec);
    rig_stream(r, "w", NULL, 20);
    rig_turn(r);
    rig_succeed(r, kept);
    rig_succeed(r, own);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, dies, &r->strings, &job));
    assert_int_equal(rig_status(r, kept), STATUS_COMPLETED);
    assert_int_equal(rig_status(r, own), STATUS_GONE);
    assert_int_equal(rig_status(r, dies), STATUS_GONE);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_status(r, kept), STATUS_GONE);
}

/* --- the resource --- */

static void settings_are_forgotten_only_when_no_job_waits_or_runs(void **state)
{
    R;
    assert_code(engine_queue_remove(r->e, STR("q")), ERR_NOT_FOUND);
    rig_set(r, "q", .concurrency = 1, TEN_A_SECOND);
    struct id a = rig_add(r, "q"), b = rig_add_later(r, "q", (span){1000});
    assert_code(engine_queue_remove(r->e, STR("q")), ERR_CONFLICT);
    rig_stream(r, "w", NULL, 20);
    rig_turn(r);
    assert_ok(engine_remove(r->e, r->now, b));
    assert_code(engine_queue_remove(r->e, STR("q")), ERR_CONFLICT);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, a, &r->strings, &job));
    assert_ok(engine_queue_remove(r->e, STR("q")));
    rig_turn(r);
    assert_int_equal(rig_status(r, a), STATUS_DEAD);
    assert_int_equal(r->queues[7].name.len, 0); /* gone from the store as well */
    rig_restart(r);
    assert_code(engine_queue_remove(r->e, STR("q")), ERR_NOT_FOUND);
}

static void a_view_counts_and_knows_the_age_of_the_oldest_ready_job(void **state)
{
    R;
    struct queue_view v;
    engine_queue_view(r->e, r->now, STR("q"), &v);
    assert_false(v.configured);
    assert_int_equal(v.oldest_age.ms, -1);
    rig_add_priority(r, "q", 9);
    r->now.ms += 500;
    rig_add_priority(r, "q", 1);
    rig_add_later(r, "q", (span){1000});
    engine_queue_view(r->e, instant_add(r->now, (span){250}), STR("q"), &v);
    assert_int_equal(v.oldest_age.ms, 750);
    assert_int_equal(v.counts[STATUS_READY], 2);
    assert_int_equal(v.counts[STATUS_SCHEDULED], 1);
}

static void a_page_lists_queues_that_have_jobs_or_settings_in_order(void **state)
{
    R;
    rig_add(r, "b");
    rig_set(r, "c", .paused = true);
    rig_add(r, "a");
    struct taker *t = rig_stream(r, "w", "zzz", 1); /* only waited for */
    struct queue_view *v;
    bool more;
    assert_int_equal(engine_queue_page(r->e, r->now, STR(""), 2, &r->strings, &v, &more), 2);
    assert_true(more);
    assert_true(str_eq(v[0].name, STR("a")) && str_eq(v[1].name, STR("b")));
    assert_int_equal(engine_queue_page(r->e, r->now, STR("b"), 2, &r->strings, &v, &more), 1);
    assert_false(more);
    assert_true(str_eq(v[0].name, STR("c")) && v[0].settings.paused);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_queues_retry_settings_come_between_the_jobs_and_the_servers),
        TEST(the_queues_retention_comes_between_the_jobs_and_the_servers),
        TEST(settings_are_forgotten_only_when_no_job_waits_or_runs),
        TEST(a_view_counts_and_knows_the_age_of_the_oldest_ready_job),
        TEST(a_page_lists_queues_that_have_jobs_or_settings_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
