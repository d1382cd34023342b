/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of jobs in flight that have the same concurrency key. */

#include "rig.h"

#define R struct rig *r = *state

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
    assert_in_range(r->reads - reads, 10, 20); /* each of the others at most twice */
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

/* Lets the job in flight fail so that it is retried at once, but not on that node. */
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

/* The first claim must not take time for every job that it cannot have. */
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
    rig_assert_got(r, a); /* the claim leaves with what it has */
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
    rig_set(r, "q", .concurrency_per_key = 0); /* they also come back in slices */
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
                assert_ok(engine_release(r->e, r->now, rig_ref(r, some), (struct str){0}));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
