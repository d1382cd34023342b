/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of a queue: pause, jobs in flight, rate. */

#include "rig.h"

#define R struct rig *r = *state

/* --- pause --- */

static void a_paused_queue_hands_out_nothing_until_it_is_resumed(void **state)
{
    R;
    rig_set(r, "q", .paused = true);
    struct id a = rig_add(r, "q"), other = rig_add(r, "other");
    rig_stream(r, "w", "q", 10);
    rig_stream(r, "all", NULL, 10);
    rig_claim(r, "c", "q", 1, (span){60000});
    rig_turn(r);
    rig_assert_got(r, other);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_set(r, "q", .paused = false);
    rig_turn(r);
    rig_assert_got(r, other, a);
}

static void a_pause_leaves_what_runs_alone(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_set(r, "q", .paused = true);
    rig_turn(r);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_set(r, "q", .paused = false);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

static void a_pause_outlives_a_restart(void **state)
{
    R;
    rig_set(r, "q", .paused = true);
    struct id a = rig_add(r, "q");
    rig_restart(r);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_set(r, "q", .paused = false);
    rig_turn(r);
    rig_assert_got(r, a);
}

/* --- concurrency --- */

static void no_more_jobs_than_the_limit_are_in_flight(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 2);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q"), d = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_stream(r, "x", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    rig_fail(r, a); /* it waits for its backoff */
    rig_turn(r);
    rig_assert_got(r, a, b, c, d);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 2);
}

static void a_claim_gets_as_many_as_the_limit_leaves(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 3);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_add(r, "q");
    rig_claim(r, "one", "q", 2, (span){0});
    rig_claim(r, "two", "q", 2, (span){0});
    rig_claim(r, "three", "q", 2, (span){0});
    rig_turn(r);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
    assert_int_equal(r->claim_count, 3);
    for (size_t i = 0; i < r->got_count; i++)
        assert_true(id_eq(r->got[i].id, a) || id_eq(r->got[i].id, b) || id_eq(r->got[i].id, c));
}

static void a_job_of_another_queue_is_not_held_up_by_a_full_one(void **state)
{
    R;
    rig_set(r, "full", .concurrency = 1);
    struct id a = rig_add_priority(r, "full", 0);
    rig_add_priority(r, "full", 0);
    struct id c = rig_add(r, "other");
    const struct str names[] = {STR("full"), STR("other")};
    struct taker_spec spec = {.queues = names, .queue_count = 2, .limit = 10};
    engine_taker_open(r->e, &spec, NULL);
    rig_turn(r);
    rig_assert_got(r, a, c);
}

static void every_end_of_a_run_makes_room(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q"), d = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_ok(engine_remove(r->e, r->now, a));
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_claim(r, "d", "q", 1, (span){10 * RIG_LEASE.ms});
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, b, &r->strings, &job));
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    rig_claim(r, "e", "q", 1, (span){10 * RIG_LEASE.ms});
    assert_ok(engine_remove(r->e, r->now, c));
    rig_turn(r);
    rig_assert_got(r, a, b, c, d);
    rig_claim(r, "f", "q", 1, (span){10 * RIG_LEASE.ms});
    rig_turn_after(r, RIG_LEASE.ms); /* the lease of d runs out, and it is tried again at once */
    rig_assert_got(r, a, b, c, d, d);
}

static void a_lower_limit_ends_nothing_and_hands_out_nothing_until_it_is_met(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q"), d = rig_add(r, "q");
    rig_stream(r, "w", "q", 3);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    rig_set(r, "q", .concurrency = 1);
    rig_succeed(r, a);
    rig_turn(r);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    rig_succeed(r, c);
    rig_turn(r);
    rig_assert_got(r, a, b, c, d);
}

static void a_higher_limit_counts_at_once(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_set(r, "q", .concurrency = 2);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_set(r, "q", .concurrency = 0);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

static void leases_count_after_a_restart(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_claim(r, "c", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a);
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

static void a_job_in_flight_that_moves_counts_for_its_new_queue(void **state)
{
    R;
    rig_set(r, "from", .concurrency = 1);
    rig_set(r, "to", .concurrency = 1);
    struct id a = rig_add(r, "from"), b = rig_add(r, "from"), c = rig_add(r, "to");
    rig_stream(r, "w", "from", 10);
    rig_turn(r);
    const struct patch patch = {.set = PATCH_QUEUE, .queue = STR("to")};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, a, &patch, &r->strings, &job));
    rig_stream(r, "x", "to", 10);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

/* Waking takers for nothing would cost time for each of them. */
static void takers_stay_asleep_while_the_queue_is_full(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 1);
    for (int i = 0; i < 10; i++)
        rig_claim(r, "c", "q", 1, (span){60000});
    rig_turn(r);
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = rig_add(r, "q");
    for (int i = 0; i < 5; i++) {
        rig_turn(r);
        assert_int_equal(r->claim_count, i + 1);
        assert_int_equal(r->claim_sizes[i], 1);
        rig_succeed(r, ids[i]);
    }
}

/* --- rate --- */

#define TEN_A_SECOND .rate = {.count = 10, .burst = 2, .per = {1000}}

static void a_rate_lets_its_burst_through_and_then_one_token_after_the_other(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    struct id id[5];
    for (int i = 0; i < 5; i++)
        id[i] = rig_add(r, "q");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, id[0], id[1]);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + 100);
    rig_turn_after(r, 99);
    rig_assert_got(r, id[0], id[1]);
    rig_turn_after(r, 1);
    rig_assert_got(r, id[0], id[1], id[2]);
    rig_turn_after(r, 200);
    rig_assert_got(r, id[0], id[1], id[2], id[3], id[4]);
}

static void a_job_that_comes_while_there_is_no_token_waits_for_one(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_stream(r, "w", "q", 10);
    rig_turn_after(r, 50);
    struct id c = rig_add(r, "q");
    rig_turn_after(r, 49);
    rig_assert_got(r, a, b);
    rig_turn_after(r, 1);
    rig_assert_got(r, a, b, c);
}

static void the_bucket_keeps_its_level_over_a_restart(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_claim(r, "c", "q", 3, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_turn_after(r, 100);
    rig_assert_got(r, a, b, c);
}

static void a_clock_set_back_over_a_restart_does_not_stall_a_rate(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_claim(r, "c", "q", 3, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    r->now.ms -= 3600 * 1000;
    rig_restart(r);
    struct id c = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn_after(r, 99);
    rig_assert_got(r, a, b);
    rig_turn_after(r, 1);
    rig_assert_got(r, a, b, c);
}

static void a_clock_that_jumps_ahead_lets_no_more_than_the_burst_through(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    for (int i = 0; i < 10; i++)
        rig_add(r, "q");
    rig_stream(r, "w", "q", 20);
    rig_turn(r);
    assert_int_equal(r->got_count, 2);
    rig_turn_after(r, 365LL * 24 * 3600 * 1000);
    assert_int_equal(r->got_count, 4);
}

static void the_same_rate_again_does_not_fill_the_bucket(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND);
    for (int i = 0; i < 5; i++)
        rig_add(r, "q");
    rig_stream(r, "w", "q", 20);
    rig_turn(r);
    rig_set(r, "q", TEN_A_SECOND, .concurrency = 100);
    rig_turn(r);
    assert_int_equal(r->got_count, 2);
    rig_set(r, "q", .concurrency = 100);
    rig_turn(r);
    assert_int_equal(r->got_count, 5);
}

static void a_pause_and_a_full_queue_hold_even_with_tokens(void **state)
{
    R;
    rig_set(r, "q", TEN_A_SECOND, .concurrency = 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 20);
    rig_turn_after(r, 1000);
    rig_assert_got(r, a);
    rig_set(r, "q", TEN_A_SECOND, .paused = true);
    rig_turn_after(r, 1000);
    rig_assert_got(r, a);
    rig_set(r, "q", TEN_A_SECOND);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_paused_queue_hands_out_nothing_until_it_is_resumed),
        TEST(a_pause_leaves_what_runs_alone),
        TEST(a_pause_outlives_a_restart),
        TEST(no_more_jobs_than_the_limit_are_in_flight),
        TEST(a_claim_gets_as_many_as_the_limit_leaves),
        TEST(a_job_of_another_queue_is_not_held_up_by_a_full_one),
        TEST(every_end_of_a_run_makes_room),
        TEST(a_lower_limit_ends_nothing_and_hands_out_nothing_until_it_is_met),
        TEST(a_higher_limit_counts_at_once),
        TEST(leases_count_after_a_restart),
        TEST(a_job_in_flight_that_moves_counts_for_its_new_queue),
        TEST(takers_stay_asleep_while_the_queue_is_full),
        TEST(a_rate_lets_its_burst_through_and_then_one_token_after_the_other),
        TEST(a_job_that_comes_while_there_is_no_token_waits_for_one),
        TEST(the_bucket_keeps_its_level_over_a_restart),
        TEST(a_clock_set_back_over_a_restart_does_not_stall_a_rate),
        TEST(a_clock_that_jumps_ahead_lets_no_more_than_the_burst_through),
        TEST(the_same_rate_again_does_not_fill_the_bucket),
        TEST(a_pause_and_a_full_queue_hold_even_with_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
