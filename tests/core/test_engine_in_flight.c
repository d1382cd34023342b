/* SPDX-License-Identifier: Apache-2.0 */

/* The limit of jobs in flight over all queues and takers. */

#include "core/explain.h"
#include "rig.h"

#define R struct rig *r = *state

static void limit(struct rig *r, uint64_t most)
{
    r->settings.in_flight_max = most;
    engine_configure(r->e, &r->settings);
}

static struct id last(const struct rig *r)
{
    return r->got[r->got_count - 1].id;
}

static void no_more_than_the_limit_are_in_flight_over_all_queues(void **state)
{
    R;
    limit(r, 3);
    struct id a = rig_add(r, "q"), b = rig_add(r, "p"), c = rig_add(r, "q"), d = rig_add(r, "p");
    rig_stream(r, "w", "q", 10);
    rig_stream(r, "x", "p", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 3);
    assert_int_equal(rig_status(r, d), STATUS_READY);
    rig_fail(r, b); /* it waits for its backoff */
    rig_turn(r);
    assert_id(last(r), d);
    rig_add(r, "q");
    rig_turn(r);
    assert_int_equal(r->got_count, 4);
    assert_int_equal(rig_status(r, a), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, c), STATUS_IN_FLIGHT);
}

static void zero_is_no_limit(void **state)
{
    R;
    limit(r, 0);
    for (int i = 0; i < 30; i++)
        rig_add(r, "q");
    rig_stream(r, "w", "q", 100);
    rig_turn(r);
    assert_int_equal(r->got_count, 30);
}

/* One queue must not keep the only place for itself. */
static void takers_get_their_turns(void **state)
{
    R;
    unsigned got[2] = {0};
    limit(r, 1);
    for (int i = 0; i < 20; i++) {
        rig_add(r, "q");
        rig_add(r, "p");
    }
    rig_stream(r, "w", "q", 5);
    rig_stream(r, "x", "p", 5);
    for (int i = 0; i < 20; i++) {
        rig_turn(r);
        assert_int_equal(r->got_count, i + 1);
        got[*(const char *)r->got[i].taker == 'w']++;
        rig_succeed(r, last(r));
    }
    assert_int_equal(got[0], 10);
    assert_int_equal(got[1], 10);
}

static void a_claim_that_finds_the_limit_reached_waits_as_long_as_it_said(void **state)
{
    R;
    limit(r, 1);
    struct id a = rig_add(r, "q");
    rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_claim(r, "at once", "q", 1, (span){0});
    rig_claim(r, "later", "q", 1, (span){5000});
    rig_turn(r);
    assert_int_equal(r->claim_count, 1);
    assert_int_equal(r->claim_sizes[0], 0);
    rig_turn_after(r, 4999);
    assert_int_equal(r->claim_count, 1);
    rig_turn_after(r, 1);
    assert_int_equal(r->claim_count, 2);
    assert_int_equal(r->claim_sizes[1], 0);
}

static void a_claim_gets_as_many_as_there_are_places(void **state)
{
    R;
    limit(r, 3);
    for (int i = 0; i < 5; i++)
        rig_add(r, "q");
    rig_claim(r, "c", "q", 5, (span){60000});
    rig_claim(r, "d", "q", 5, (span){60000});
    rig_turn(r);
    assert_int_equal(r->got_count, 3);
    assert_int_equal(r->claim_count, 2);
}

static void a_claim_that_waited_for_a_place_gets_it(void **state)
{
    R;
    limit(r, 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "p");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_claim(r, "c", NULL, 1, (span){60000});
    rig_turn(r);
    assert_int_equal(r->claim_count, 0);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(r->claim_count, 1);
}

/* A taker that waits for nothing yet is not forgotten when a job arrives while there is no
 * place. */
static void a_job_that_comes_while_the_limit_is_reached_finds_its_taker(void **state)
{
    R;
    limit(r, 1);
    rig_stream(r, "w", "q", 1);
    rig_stream(r, "x", "p", 1);
    rig_stream(r, "y", "p", 1);
    struct id a = rig_add(r, "q");
    rig_turn(r);
    struct id b = rig_add(r, "p");
    rig_turn(r);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, b);
    rig_turn(r);
    struct id c = rig_add(r, "p");
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

static void a_lower_limit_takes_no_job_away_and_a_higher_one_counts_at_once(void **state)
{
    R;
    for (int i = 0; i < 6; i++)
        rig_add(r, "q");
    limit(r, 3);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    limit(r, 1);
    rig_turn(r);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
    rig_succeed(r, r->got[0].id);
    rig_succeed(r, r->got[1].id);
    rig_turn(r);
    assert_int_equal(r->got_count, 3);
    limit(r, 2);
    rig_turn(r);
    assert_int_equal(r->got_count, 4);
    limit(r, 0);
    rig_turn(r);
    assert_int_equal(r->got_count, 6);
}

static void leases_count_after_a_restart(void **state)
{
    R;
    limit(r, 2);
    for (int i = 0; i < 4; i++)
        rig_add(r, "q");
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 2);
    rig_succeed(r, r->got[0].id);
    rig_turn(r);
    assert_int_equal(r->got_count, 3);
}

static void a_paused_stream_keeps_no_place_in_line(void **state)
{
    R;
    limit(r, 1);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct taker *x = rig_stream(r, "x", "q", 1);
    rig_turn(r);
    engine_taker_pause(r->e, x, true);
    rig_stream(r, "y", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, x, TAKER_GONE);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* --- gangs --- */

static struct id add_member(struct rig *r, const char *gang, uint64_t size)
{
    struct enqueue spec = rig_spec("g");
    spec.options.gang = str_from(gang);
    spec.options.gang_size = size;
    return rig_add_spec(r, &spec);
}

static void a_gang_waits_until_there_are_places_for_all_of_it(void **state)
{
    R;
    limit(r, 3);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_stream(r, "x", "g", 10);
    rig_turn(r);
    struct id m = add_member(r, "one", 3), n = add_member(r, "one", 3), o = add_member(r, "one", 3);
    rig_turn(r);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, m, n, o);
}

static void a_gang_that_is_too_large_goes_once_the_limit_has_room_for_it(void **state)
{
    R;
    limit(r, 1);
    rig_stream(r, "x", "g", 10);
    add_member(r, "one", 2);
    add_member(r, "one", 2);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    limit(r, 2);
    rig_turn(r);
    assert_int_equal(r->got_count, 2);
}

static void a_gang_leaves_places_for_older_jobs(void **state)
{
    R;
    limit(r, 2);
    struct id a = rig_add(r, "q");
    struct id m = add_member(r, "one", 2), n = add_member(r, "one", 2);
    rig_stream(r, "x", "g", 10);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, m, n);
}

/* --- explanations --- */

static void explain_says_so(void **state)
{
    R;
    struct explanation x;
    struct job_extent extent;
    limit(r, 1);
    rig_add(r, "q");
    struct id b = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    assert_ok(engine_explain(r->e, r->now, b, &r->turn, &x, &extent));
    assert_int_equal(x.obstacle_count, 1);
    assert_string_equal(explain_kind_name(x.obstacles[0].kind), "global_in_flight");
    rig_succeed(r, r->got[0].id);
    rig_turn(r);
    assert_ok(engine_explain(r->e, r->now, b, &r->turn, &x, &extent));
    assert_int_equal(x.obstacle_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_more_than_the_limit_are_in_flight_over_all_queues),
        TEST(zero_is_no_limit),
        TEST(takers_get_their_turns),
        TEST(a_claim_that_finds_the_limit_reached_waits_as_long_as_it_said),
        TEST(a_claim_gets_as_many_as_there_are_places),
        TEST(a_claim_that_waited_for_a_place_gets_it),
        TEST(a_job_that_comes_while_the_limit_is_reached_finds_its_taker),
        TEST(a_lower_limit_takes_no_job_away_and_a_higher_one_counts_at_once),
        TEST(leases_count_after_a_restart),
        TEST(a_paused_stream_keeps_no_place_in_line),
        TEST(a_gang_waits_until_there_are_places_for_all_of_it),
        TEST(a_gang_that_is_too_large_goes_once_the_limit_has_room_for_it),
        TEST(a_gang_leaves_places_for_older_jobs),
        TEST(explain_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
