/* SPDX-License-Identifier: Apache-2.0 */

/* What is known of workers, in bounded memory. */

#include "core/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static struct workers workers;

static int set_up(void **state)
{
    (void)state;
    workers_init(&workers, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    workers_fini(&workers);
    return 0;
}

static struct worker *greet(const char *name, int64_t at)
{
    const struct worker_greeting g = {.name = str_from(name)};
    return workers_greet(&workers, &g, (instant){at});
}

static const struct worker *find(const char *name)
{
    return workers_find(&workers, str_from(name));
}

static void a_worker_is_as_it_described_itself_last(void **state)
{
    (void)state;
    const struct str queues[] = {{"a", 1}, {"b", 1}};
    struct worker_greeting g = {.name = STR("w"),
                                .node = STR("n"),
                                .address = STR("127.0.0.1"),
                                .agent = STR("x/1"),
                                .queues = queues,
                                .queue_count = 2};
    assert_non_null(workers_greet(&workers, &g, (instant){10}));
    const struct worker *w = find("w");
    assert_true(str_eq(w->queues, STR("a,b")) && str_eq(w->agent, STR("x/1")));
    g.queue_count = 0;
    g.agent = STR("x/2");
    workers_greet(&workers, &g, (instant){20});
    assert_ptr_equal(find("w"), w);
    assert_true(str_eq(w->queues, STR("")) && str_eq(w->agent, STR("x/2")));
    assert_true(str_eq(w->node, STR("n")) && str_eq(w->address, STR("127.0.0.1")));
    assert_int_equal(w->since.ms, 10);
    assert_int_equal(w->last_seen.ms, 20);
    workers_heard(&workers, STR("w"), (instant){30});
    workers_heard(&workers, STR("other"), (instant){30});
    assert_int_equal(w->last_seen.ms, 30);
    assert_null(find("other"));
}

static void one_without_a_name_is_not_known(void **state)
{
    (void)state;
    assert_null(greet("", 1));
    assert_int_equal(workers.by_name.count, 0);
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    char long_[600];
    for (size_t i = 0; i < sizeof long_; i += 2)
        memcpy(long_ + i, "\xc3\xa4", 2);
    const struct str queues[] = {{long_, 200}, {long_, 60}, {"c", 1}};
    struct worker_greeting g = {
        .name = STR("w"), .agent = {long_, sizeof long_}, .queues = queues, .queue_count = 3};
    const struct worker *w = workers_greet(&workers, &g, (instant){1});
    assert_int_equal(w->agent.len, WORKERS_TEXT_MAX - 1);
    assert_int_equal(w->queues.len, 200);
}

static void the_one_heard_of_longest_ago_makes_room(void **state)
{
    (void)state;
    char name[16];
    greet("open", 1)->streams = 1;
    assert_true(workers_hush(&workers, STR("quiet"), true));
    for (int i = 0; i < WORKERS_MAX + 100; i++) {
        snprintf(name, sizeof name, "w%d", i);
        assert_non_null(greet(name, 2 + i));
        assert_true(workers.by_name.count <= WORKERS_MAX);
    }
    assert_non_null(find("open"));
    assert_non_null(find("quiet"));
    assert_null(find("w0"));
    assert_non_null(find(name));
}

static void quiet_ones_are_known_by_that(void **state)
{
    (void)state;
    char name[16];
    assert_false(workers_is_quiet(&workers, STR("w")));
    assert_true(workers_hush(&workers, STR("w"), true));
    assert_true(workers_hush(&workers, STR("w"), true));
    assert_true(workers_is_quiet(&workers, STR("w")));
    assert_int_equal(workers.quiet, 1);
    assert_int_equal(find("w")->since.ms, 0);
    assert_true(workers_hush(&workers, STR("w"), false));
    assert_true(workers_hush(&workers, STR("unknown"), false));
    assert_false(workers_is_quiet(&workers, STR("w")));
    for (int i = 0; i < WORKERS_QUIET_MAX; i++) {
        snprintf(name, sizeof name, "q%d", i);
        assert_true(workers_hush(&workers, str_from(name), true));
    }
    assert_false(workers_hush(&workers, STR("w"), true));
    workers_unhush_all(&workers);
    assert_false(workers_is_quiet(&workers, str_from(name)));
    assert_true(workers_hush(&workers, STR("w"), true));
}

static void those_not_heard_of_are_forgotten(void **state)
{
    (void)state;
    greet("gone", 1);
    greet("open", 1)->claims = 1;
    greet("late", 100);
    workers_trim(&workers, (instant){WORKERS_KEPT_MS}, SIZE_MAX);
    assert_int_equal(workers.by_name.count, 3);
    workers_trim(&workers, (instant){WORKERS_KEPT_MS + 1}, SIZE_MAX);
    assert_null(find("gone"));
    assert_non_null(find("open"));
    assert_non_null(find("late"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_is_as_it_described_itself_last),
        TEST(one_without_a_name_is_not_known),
        TEST(long_texts_are_cut_between_characters),
        TEST(the_one_heard_of_longest_ago_makes_room),
        TEST(quiet_ones_are_known_by_that),
        TEST(those_not_heard_of_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
