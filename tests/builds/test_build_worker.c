/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "build_world.h"

#define SEEDS 150

static void run_to_the_end(struct world *w)
{
    for (int i = 0; world_step(w); i++)
        if (i == 200000)
            fail_msg("it never ends");
    assert_int_equal(world_messages(w), 0);
    assert_int_equal(build_worker_busy(w->worker), 0);
}

/* One build of that fate, without any fault. */
static struct world_build one(enum fate fate, bool timer)
{
    struct world w;
    world_init(&w, 1, timer);
    world_start(&w, fate);
    run_to_the_end(&w);
    struct world_build b = w.builds[0];
    world_fini(&w);
    return b;
}

static void a_pod_that_starts_is_told_with_its_node(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world_build b = one(FATE_RUNS, timer);
        assert_int_equal(b.creates, 1);
        assert_int_equal(b.failures, 0);
        assert_string_equal(b.hostname, "node-1");
        assert_int_equal(b.delayed, 0);
    }
}

static void a_slow_image_is_waited_for(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world_build b = one(FATE_SLOW, timer);
        assert_int_equal(b.failures, 0);
        assert_false(b.pod_deleted);
        assert_string_equal(b.hostname, "node-1");
    }
}

static void a_pod_without_a_node_fails_after_its_time_and_is_deleted(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world_build b = one(FATE_NO_NODE, timer);
        assert_int_equal(b.failures, 1);
        assert_string_equal(b.message, "Pod scheduling timeout exceeded");
        assert_true(b.pod_deleted);
        assert_int_equal(b.delayed, timer);
    }
}

static void a_bad_image_and_a_crashing_container_fail_with_the_original_words(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world_build b = one(FATE_BAD_IMAGE, timer);
        assert_int_equal(b.failures, 1);
        assert_non_null(strstr(b.message, "Please check if your image is valid."));
        b = one(FATE_CRASHES, timer);
        assert_int_equal(b.failures, 1);
        assert_non_null(strstr(b.message, "Please reach out to your cluster admin for help."));
    }
}

static void a_refusal_for_good_fails_the_build_at_once(void **state)
{
    (void)state;
    struct world_build b = one(FATE_FORBIDDEN, false);
    assert_int_equal(b.failures, 1);
    assert_string_equal(b.message, "Failed to create pod: 403 forbidden");
}

static void a_stopped_build_has_no_pod_and_no_failure(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world_build b = one(FATE_STOPPED, timer);
        assert_true(b.pod_deleted);
        assert_int_equal(b.failures, 0);
    }
}

static void a_stop_ends_a_build_whose_start_waits_to_be_tried_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    w.create_faults = 1;
    world_start(&w, FATE_RUNS);
    while (build_worker_counters(w.worker)->retries == 0)
        assert_true(world_step(&w));
    world_publish(&w, "{\"job\":\"stop\",\"buildConfig\":{\"buildId\":0}}");
    run_to_the_end(&w);
    assert_int_equal(w.builds[0].creates, 0);
    assert_int_equal(w.builds[0].failures, 0);
    world_fini(&w);
}

/* Its pod may have been made by Screwdriver's own worker, under another name. */
static void a_start_that_comes_again_asks_for_no_second_pod(void **state)
{
    (void)state;
    for (int timer = 0; timer < 2; timer++) {
        struct world w;
        world_init(&w, 1, timer);
        world_start(&w, FATE_RUNS);
        while (!w.builds[0].pod)
            assert_true(world_step(&w));
        world_kill(&w);
        run_to_the_end(&w);
        assert_int_equal(w.builds[0].posts, 1);
        assert_string_equal(w.builds[0].hostname, "node-1");
        world_fini(&w);
    }
}

static void a_start_that_is_published_twice_asks_for_no_second_pod(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    world_start(&w, FATE_RUNS);
    w.count = 0;
    world_start(&w, FATE_RUNS);
    run_to_the_end(&w);
    assert_int_equal(build_worker_counters(w.worker)->starts, 2);
    assert_int_equal(w.builds[0].posts, 1);
    world_fini(&w);
}

static void a_start_that_has_made_no_pod_makes_one_when_it_comes_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    w.create_faults = 2;
    world_start(&w, FATE_RUNS);
    run_to_the_end(&w);
    assert_int_equal(w.builds[0].posts, 3);
    assert_int_equal(w.builds[0].creates, 1);
    assert_string_equal(w.builds[0].hostname, "node-1");
    world_fini(&w);
}

static void the_last_look_fails_a_build_without_a_pod(void **state)
{
    (void)state;
    static const char body[] = "{\"job\":\"verify\",\"buildConfig\":{\"buildId\":0,\"apiUri\":"
                               "\"http://api\",\"token\":\"t\"}}";
    struct world w;
    for (uint32_t looks = 5; looks <= 6; looks++) {
        world_init(&w, 1, false);
        w.count = 1;
        world_publish_verify(&w, body, looks);
        run_to_the_end(&w);
        assert_int_equal(w.builds[0].failures, looks == 6);
        world_fini(&w);
    }
}

static void a_pod_that_vanishes_before_it_ran_fails_its_build(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    world_start(&w, FATE_SLOW);
    while (build_worker_counters(w.worker)->looks_again == 0)
        assert_true(world_step(&w));
    w.builds[0].pod_deleted = true;
    run_to_the_end(&w);
    assert_int_equal(w.builds[0].failures, 1);
    assert_string_equal(w.builds[0].message, "Build failed to start: its pod is gone");
    world_fini(&w);
}

static void a_build_whose_name_no_pod_can_have_fails(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    w.count = 1;
    world_publish(&w, "{\"job\":\"start\",\"buildConfig\":{\"buildId\":"
                      "\"0_______________________________________________________________\","
                      "\"apiUri\":\"http://api\",\"token\":\"t\"}}");
    run_to_the_end(&w);
    assert_int_equal(w.builds[0].failures, 1);
    world_fini(&w);
}

/* The fourth failure is the end. */
static void a_cluster_that_is_away_fails_the_build_after_three_retries(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, false);
    w.api_faults = 100;
    world_start(&w, FATE_RUNS);
    run_to_the_end(&w);
    assert_int_equal(build_worker_counters(w.worker)->retries, 4);
    assert_int_equal(w.builds[0].failures, 1);
    assert_int_equal(w.builds[0].creates, 0);
    world_fini(&w);
}

static void what_cannot_be_read_is_thrown_away_and_counted(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "{",
        "[]",
        "{\"job\":\"start\"}",
        "{\"job\":\"dance\",\"buildConfig\":{\"buildId\":1}}",
        "{\"job\":\"start\",\"buildConfig\":{\"buildId\":\"../x\"}}",
        "{\"job\":\"verify\",\"buildConfig\":[]}",
    };
    struct world w;
    world_init(&w, 1, false);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        world_publish(&w, bodies[i]);
    run_to_the_end(&w);
    assert_int_equal(build_worker_counters(w.worker)->malformed, sizeof bodies / sizeof *bodies);
    world_fini(&w);
}

static void check(const struct world *w, uint64_t seed, bool faults)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct world_build *b = &w->builds[i];
        char at[80];
        snprintf(at, sizeof at, "seed %llu, build %zu", (unsigned long long)seed, i);
        bool fails = b->fate == FATE_NO_NODE || b->fate == FATE_BAD_IMAGE ||
                     b->fate == FATE_CRASHES || b->fate == FATE_FORBIDDEN;
        if (b->creates > 1 || b->failures > 1)
            fail_msg("%s: %u pods, %u failures", at, b->creates, b->failures);
        if (fails && b->failures != 1)
            fail_msg("%s: fate %d, but no failure", at, b->fate);
        if (!faults && !fails && b->failures)
            fail_msg("%s: fate %d, but failed: %s", at, b->fate, b->message);
        if (!b->failures && b->fate != FATE_STOPPED && !*b->hostname)
            fail_msg("%s: fate %d, neither failed nor told", at, b->fate);
        if (!faults && b->fate == FATE_STOPPED && !b->pod_deleted)
            fail_msg("%s: stopped, but its pod is left", at);
    }
}

static void explore(bool timer, unsigned api_faults, unsigned kill_chance)
{
    unsigned kills = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world w;
        world_init(&w, seed, timer);
        w.api_faults = api_faults;
        w.kill_chance = kill_chance;
        for (int i = 0; i < 12; i++)
            world_start(&w, (enum fate)rng_below(&w.rng, FATES));
        run_to_the_end(&w);
        check(&w, seed, api_faults > 0);
        kills += w.kills;
        world_fini(&w);
    }
    assert_true(kill_chance == 0 || kills > SEEDS);
}

static void every_build_ends_once_in_any_order_of_events(void **state)
{
    (void)state;
    explore(false, 0, 0);
    explore(true, 0, 0);
}

static void every_build_ends_once_though_the_worker_is_killed_between_any_two_steps(void **state)
{
    (void)state;
    explore(false, 0, 60);
    explore(true, 0, 60);
}

static void every_build_ends_once_though_the_cluster_fails_and_loses_answers(void **state)
{
    (void)state;
    explore(false, 20, 0);
    explore(true, 20, 0);
    explore(false, 20, 40);
    explore(true, 20, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_starts_is_told_with_its_node),
        cmocka_unit_test(a_slow_image_is_waited_for),
        cmocka_unit_test(a_pod_without_a_node_fails_after_its_time_and_is_deleted),
        cmocka_unit_test(a_bad_image_and_a_crashing_container_fail_with_the_original_words),
        cmocka_unit_test(a_refusal_for_good_fails_the_build_at_once),
        cmocka_unit_test(a_stopped_build_has_no_pod_and_no_failure),
        cmocka_unit_test(a_stop_ends_a_build_whose_start_waits_to_be_tried_again),
        cmocka_unit_test(a_start_that_comes_again_asks_for_no_second_pod),
        cmocka_unit_test(a_start_that_is_published_twice_asks_for_no_second_pod),
        cmocka_unit_test(a_start_that_has_made_no_pod_makes_one_when_it_comes_again),
        cmocka_unit_test(the_last_look_fails_a_build_without_a_pod),
        cmocka_unit_test(a_pod_that_vanishes_before_it_ran_fails_its_build),
        cmocka_unit_test(a_build_whose_name_no_pod_can_have_fails),
        cmocka_unit_test(a_cluster_that_is_away_fails_the_build_after_three_retries),
        cmocka_unit_test(what_cannot_be_read_is_thrown_away_and_counted),
        cmocka_unit_test(every_build_ends_once_in_any_order_of_events),
        cmocka_unit_test(every_build_ends_once_though_the_worker_is_killed_between_any_two_steps),
        cmocka_unit_test(every_build_ends_once_though_the_cluster_fails_and_loses_answers),
    };
    log_set(LOG_NONE, LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
