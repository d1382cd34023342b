/* SPDX-License-Identifier: Apache-2.0 */

/* What people set for queues: pause, limits, defaults of their jobs. */

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

/* Woken takers that find nothing would cost as much as there are of them. */
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

/* --- keys --- */

static struct id add_key(struct rig *r, const char *queue, const char *key)
{
    struct enqueue spec = rig_spec(queue);
    spec.options.concurrency_key = str_from(key);
    return rig_add_spec(r, &spec);
}

static void a_full_key_holds_up_its_own_jobs_only(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id a1 = add_key(r, "q", "a"), a2 = add_key(r, "q", "a"), a3 = add_key(r, "q", "a");
    struct id b1 = add_key(r, "q", "b"), none = rig_add(r, "q"), b2 = add_key(r, "q", "b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a1, b1, none);
    assert_int_equal(rig_status(r, a2), STATUS_READY);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 3);
    rig_succeed(r, a1);
    rig_turn(r);
    rig_assert_got(r, a1, b1, none, a2);
    rig_succeed(r, b1);
    rig_succeed(r, a2);
    rig_turn(r);
    rig_assert_got(r, a1, b1, none, a2, a3, b2);
}

static void a_parked_job_is_not_looked_at_again(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id a = add_key(r, "q", "a");
    for (int i = 0; i < 20; i++)
        add_key(r, "q", "a");
    rig_stream(r, "w", "q", 50);
    rig_turn(r);
    rig_assert_got(r, a);
    unsigned reads = r->reads;
    for (int i = 0; i < 10; i++) {
        struct id other = rig_add(r, "q");
        rig_turn(r);
        assert_id(r->got[r->got_count - 1].id, other);
    }
    assert_in_range(r->reads - reads, 10, 20); /* each of the others twice at most */
}

static void parked_jobs_come_back_in_their_order(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id first = add_key(r, "q", "a"), late = add_key(r, "q", "a");
    struct enqueue spec = rig_spec("q");
    spec.options.concurrency_key = STR("a");
    spec.priority = 1;
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    struct id urgent = rig_add_spec(r, &spec);
    rig_turn(r);
    rig_assert_got(r, first);
    rig_succeed(r, first);
    rig_turn(r);
    rig_assert_got(r, first, urgent);
    rig_succeed(r, urgent);
    rig_turn(r);
    rig_assert_got(r, first, urgent, late);
}

static void a_job_that_was_to_come_back_and_is_deleted_gives_its_place_to_the_next(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id a = add_key(r, "q", "a"), b = add_key(r, "q", "a"), c = add_key(r, "q", "a");
    struct id d = add_key(r, "q", "a");
    rig_claim(r, "c", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a);
    assert_ok(engine_remove(r->e, r->now, d)); /* parked itself */
    rig_succeed(r, a);
    rig_turn(r); /* b is back, and nobody takes it */
    assert_ok(engine_remove(r->e, r->now, b));
    rig_claim(r, "d", "q", 5, (span){0});
    rig_turn(r);
    rig_turn(r);
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    assert_int_equal(rig_status(r, c), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, d), STATUS_GONE);
}

static void a_limit_of_keys_counts_at_once_and_over_a_restart(void **state)
{
    R;
    struct id id[6];
    for (int i = 0; i < 6; i++)
        id[i] = add_key(r, "q", "a");
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_set(r, "q", .concurrency_per_key = 1);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_succeed(r, id[0]);
    rig_turn(r);
    rig_assert_got(r, id[0], id[1]);
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, id[0], id[1]);
    rig_set(r, "q", .concurrency_per_key = 3);
    rig_turn(r);
    rig_assert_got(r, id[0], id[1], id[2], id[3]);
    rig_set(r, "q", .concurrency_per_key = 0);
    rig_turn(r);
    rig_assert_got(r, id[0], id[1], id[2], id[3], id[4], id[5]);
}

static void a_job_in_flight_that_moves_frees_its_key_and_fills_that_of_the_other_queue(void **state)
{
    R;
    rig_set(r, "from", .concurrency_per_key = 1);
    rig_set(r, "to", .concurrency_per_key = 1);
    struct id a = add_key(r, "from", "k"), b = add_key(r, "from", "k");
    rig_stream(r, "w", "from", 10);
    rig_turn(r);
    const struct patch patch = {.set = PATCH_QUEUE, .queue = STR("to")};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, a, &patch, &r->strings, &job));
    struct id c = add_key(r, "to", "k");
    rig_stream(r, "x", "to", 10);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

/* Lets the job in flight fail so that it is tried again at once, but not on that node. */
static void evict(struct rig *r, struct id id, const char *node)
{
    const struct failure f = {.message = STR("evicted"),
                              .run_time = {-1},
                              .condition = CONDITION_EVICTED,
                              .node = str_from(node)};
    rig_fail_with(r, id, &f);
}

static void a_job_that_nobody_may_have_leaves_its_place_to_the_next_of_its_key(void **state)
{
    R;
    static const struct policy_rule away = {
        .action = POLICY_RETRY,
        .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
        .retry_limit = POLICY_NO_LIMIT,
        .affinity = {POLICY_AFFINITY_NODE},
        .key = 5};
    const struct policy policy = {
        .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &away, .rule_count = 1};
    r->settings.avoid_required = (span){600000};
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 100};
    rig_restart(r);
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id first = add_key(r, "q", "k"), second = add_key(r, "q", "k");
    struct id third = add_key(r, "q", "k");
    rig_stream_on(r, "a", "q", 10);
    rig_turn(r);
    evict(r, first, "a");
    rig_turn(r);
    rig_assert_got(r, first, second);
    struct taker *other = rig_stream_on(r, "b", "q", 10); /* finds the first, whose key is full */
    rig_turn(r);
    engine_taker_close(r->e, r->now, other, TAKER_GONE);
    rig_succeed(r, second);
    rig_turn(r);
    rig_assert_got(r, first, second, third);
    rig_stream_on(r, "b", "q", 10);
    rig_turn(r);
    rig_succeed(r, third);
    rig_turn(r);
    rig_assert_got(r, first, second, third, first);
}

/* The first claim must not take as long as there are jobs that it cannot have. */
static void many_jobs_of_a_full_key_are_passed_over_in_slices(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id a = add_key(r, "q", "a");
    for (int i = 0; i < 2500; i++)
        add_key(r, "q", "a");
    struct id other = rig_add(r, "q");
    rig_claim(r, "c", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a); /* the claim leaves with what it has got */
    assert_true(engine_dispatch_again(r->e));
    rig_stream(r, "w", "q", 5);
    for (int turns = 0; engine_dispatch_again(r->e); turns++) {
        assert_true(turns < 10);
        rig_turn(r);
    }
    rig_assert_got(r, a, other);
    rig_set(r, "q", .concurrency_per_key = 0);
    for (int turns = 0; r->got_count < 6; turns++) {
        assert_true(turns < 10);
        rig_turn(r);
    }
}

static void nobody_else_waits_while_jobs_of_a_full_key_are_passed_over(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct id a = add_key(r, "q", "a");
    for (int i = 0; i < 2500; i++)
        add_key(r, "q", "a");
    struct id first = rig_add(r, "other");
    rig_stream(r, "w", "q", 5);
    rig_stream(r, "x", "other", 5);
    rig_turn(r);
    assert_true(engine_dispatch_again(r->e));
    rig_assert_got(r, a, first);
    struct id second = rig_add(r, "other");
    rig_turn(r);
    assert_true(engine_dispatch_again(r->e));
    rig_assert_got(r, a, first, second);
    while (engine_dispatch_again(r->e))
        rig_turn(r);
    rig_set(r, "q", .concurrency_per_key = 0); /* they come back by and by, too */
    struct id third = rig_add(r, "other");
    rig_turn(r);
    bool got = false;
    for (size_t i = 0; i < r->got_count; i++)
        got |= id_eq(r->got[i].id, third);
    assert_true(got && engine_dispatch_again(r->e));
}

/* Whatever happens to jobs and limits, no key has too many jobs in flight, none waits without a
 * reason, and in the end all of them were handed out. */
static void no_key_is_exceeded_and_none_is_forgotten(void **state)
{
    R;
    static const char *const keys[] = {"a", "b", "c", ""};
    struct rng rng = rng_from_seed(7);
    for (int step = 0; step < 3000; step++) {
        r->got_count = r->claim_count = 0;
        struct id *ids;
        size_t live = rig_live(r, &ids);
        struct id some = live ? ids[rng_next(&rng) % live] : (struct id){0};
        struct enqueue spec = rig_spec("q");
        spec.options.concurrency_key = str_from(keys[rng_next(&rng) % 4]);
        spec.priority = (uint16_t)(rng_next(&rng) % 3);
        struct enqueued out;
        switch (rng_next(&rng) % 8) {
        case 0:
        case 1:
        case 2:
            assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &out));
            if (rng_next(&rng) % 8 == 0)
                assert_ok(engine_remove(r->e, r->now, out.job.id));
            break;
        case 3:
        case 4:
            if (live)
                rig_succeed(r, some);
            break;
        case 5:
            if (live)
                assert_ok(engine_release(r->e, r->now, (struct run_ref){.id = some}));
            break;
        case 6:
            rig_set(r, "q", .concurrency_per_key = (uint32_t)(rng_next(&rng) % 3));
            break;
        default:
            rig_claim(r, "c", "q", 1 + (uint32_t)(rng_next(&rng) % 3), (span){0});
        }
        rig_turn(r);
    }
    rig_set(r, "q", .concurrency_per_key = 1);
    for (int step = 0; rig_count(r, "q", STATUS_READY) + rig_count(r, "q", STATUS_IN_FLIGHT);
         step++) {
        assert_true(step < 5000);
        r->got_count = r->claim_count = 0;
        rig_claim(r, "c", "q", 3, (span){0});
        rig_turn(r);
        struct id *ids;
        size_t live = rig_live(r, &ids);
        assert_true(live > 0);
        for (size_t i = 0; i < live; i++)
            rig_succeed(r, ids[i]);
    }
}

/* --- defaults of jobs --- */

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
    struct taker *t = rig_stream(r, "w", "zzz", 1); /* only listened to */
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
        TEST(a_full_key_holds_up_its_own_jobs_only),
        TEST(a_parked_job_is_not_looked_at_again),
        TEST(parked_jobs_come_back_in_their_order),
        TEST(a_job_that_was_to_come_back_and_is_deleted_gives_its_place_to_the_next),
        TEST(a_limit_of_keys_counts_at_once_and_over_a_restart),
        TEST(a_job_in_flight_that_moves_frees_its_key_and_fills_that_of_the_other_queue),
        TEST(a_job_that_nobody_may_have_leaves_its_place_to_the_next_of_its_key),
        TEST(many_jobs_of_a_full_key_are_passed_over_in_slices),
        TEST(nobody_else_waits_while_jobs_of_a_full_key_are_passed_over),
        TEST(no_key_is_exceeded_and_none_is_forgotten),
        TEST(the_queues_retry_settings_come_between_the_jobs_and_the_servers),
        TEST(the_queues_retention_comes_between_the_jobs_and_the_servers),
        TEST(settings_are_forgotten_only_when_no_job_waits_or_runs),
        TEST(a_view_counts_and_knows_the_age_of_the_oldest_ready_job),
        TEST(a_page_lists_queues_that_have_jobs_or_settings_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
