/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of failures: what is counted, and that there are never more than the limit. */

#include "core/failure_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define MINUTE 60000
#define HOUR   3600000
#define NOON   ((instant){INT64_C(1700000000000) / HOUR * HOUR})

static struct failure_groups groups;

static int set_up(void **state)
{
    (void)state;
    failure_groups_init(&groups);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    failure_groups_fini(&groups);
    return 0;
}

static instant at(int64_t ms)
{
    return (instant){NOON.ms + ms};
}

static void add(const char *message, uint64_t job, instant when, size_t max)
{
    struct history_entry entry = {
        .job = {.id = {1, job}, .queue = STR("q"), .type = STR("t"), .state.attempts = 1},
        .run = {.index = 3,
                .outcome = OUTCOME_FAILED,
                .attempt = 1,
                .ended_at = when,
                .failure = {.message = str_from(message), .error_type = STR("E")}},
    };
    failure_groups_add(&groups, &entry, max);
}

static const struct failure_group *only(void)
{
    assert_int_equal(failure_groups_count(&groups), 1);
    return LIST_OF(groups.order.next, struct failure_group, order);
}

static void alike_failures_are_counted_together(void **state)
{
    (void)state;
    add("no answer in 3 s", 1, at(0), 10);
    add("no answer in 45 s", 2, at(5 * MINUTE), 10);
    const struct failure_group *g = only();
    assert_int_equal(g->count, 2);
    assert_true(str_eq(g->message, STR("no answer in <n> s")));
    assert_true(str_eq(g->error_type, STR("E")) && str_eq(g->queue, STR("q")));
    assert_int_equal(g->first_seen.ms, at(0).ms);
    assert_int_equal(g->last_seen.ms, at(5 * MINUTE).ms);
    assert_ptr_equal(failure_groups_find(&groups, g->fingerprint), g);
    add("another", 3, at(0), 10);
    assert_int_equal(failure_groups_count(&groups), 2);
}

static void blame(enum culprit culprit, int times)
{
    struct history_entry entry = {
        .job = {.queue = STR("q"), .type = STR("t")},
        .run = {.outcome = OUTCOME_FAILED, .ended_at = at(0), .failure.culprit = culprit}};
    for (int i = 0; i < times; i++)
        failure_groups_add(&groups, &entry, 10);
}

static void the_culprit_of_most_failures_comes_first(void **state)
{
    (void)state;
    struct failure_blame blames[CULPRIT_COUNT];
    blame(CULPRIT_NONE, 9);
    assert_int_equal(failure_group_blames(only(), blames), 0);
    blame(CULPRIT_UNKNOWN, 1);
    blame(CULPRIT_NODE, 2);
    blame(CULPRIT_JOB, 1);
    blame(CULPRIT_SERVER, 5);
    static const struct failure_blame expected[] = {
        {CULPRIT_SERVER, 5}, {CULPRIT_NODE, 2}, {CULPRIT_JOB, 1}, {CULPRIT_UNKNOWN, 1}};
    assert_int_equal(failure_group_blames(only(), blames), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(blames[i].culprit, expected[i].culprit);
        assert_int_equal(blames[i].count, expected[i].count);
    }
    assert_int_equal(only()->count, 18);
}

static void counts_are_by_minute_and_hour(void **state)
{
    (void)state;
    add("m", 1, at(0), 10);
    add("m", 1, at(MINUTE - 1), 10);
    add("m", 1, at(2 * MINUTE), 10);
    add("m", 1, at(HOUR), 10);
    const struct failure_group *g = only();
    instant now = at(HOUR);
    assert_int_equal(failure_group_minute(g, now, 0), 1);
    assert_int_equal(failure_group_minute(g, now, 58), 1);
    assert_int_equal(failure_group_minute(g, now, 59), 0);
    assert_int_equal(failure_group_minute(g, now, 60), 0); /* it is not kept any more */
    assert_int_equal(failure_group_last_minutes(g, now, 60), 2);
    assert_int_equal(failure_group_hour(g, now, 0), 1);
    assert_int_equal(failure_group_hour(g, now, 1), 3);
    assert_int_equal(failure_group_last_hours(g, now, 24), 4);
    assert_int_equal(failure_group_last_minutes(g, at(2 * HOUR), 60), 0);
    assert_int_equal(failure_group_last_hours(g, at(1000 * (int64_t)HOUR), 168), 0);
    add("m", 1, at(1000 * (int64_t)HOUR), 10);
    assert_int_equal(failure_group_last_hours(g, at(1000 * (int64_t)HOUR), 168), 1);
}

static void a_clock_that_was_set_back_loses_no_count(void **state)
{
    (void)state;
    add("m", 1, at(HOUR), 10);
    add("m", 2, at(0), 10);
    assert_int_equal(only()->count, 2);
    assert_int_equal(failure_group_minute(only(), at(HOUR), 0), 2);
    assert_int_equal(only()->last_seen.ms, at(HOUR).ms);
}

static void samples_are_the_newest_of_different_jobs(void **state)
{
    (void)state;
    static const uint64_t want[] = {3, 7, 6, 5, 4};
    for (uint64_t job = 1; job <= 7; job++)
        add("m", job, at((int64_t)job), 10);
    add("m", 3, at(8), 10); /* it comes back */
    add("m", 3, at(9), 10);
    const struct failure_group *g = only();
    assert_int_equal(g->sample_count, FAILURE_GROUP_SAMPLES);
    for (int i = 0; i < FAILURE_GROUP_SAMPLES; i++)
        assert_int_equal(g->samples[i].job.lo, want[i]);
    assert_int_equal(g->samples[0].at.ms, at(9).ms);
    assert_int_equal(g->samples[0].run, 3);
}

static void a_trend_compares_two_half_hours(void **state)
{
    (void)state;
    instant now = at(HOUR - 1);
    add("m", 1, at(40 * MINUTE), 10);
    assert_string_equal(failure_trend_name(failure_group_trend(only(), now)), "new");
    failure_groups_fini(&groups);
    add("m", 1, at(10 * MINUTE), 10);
    add("m", 1, at(40 * MINUTE), 10);
    assert_int_equal(failure_group_trend(only(), now), FAILURE_STEADY);
    add("m", 1, at(41 * MINUTE), 10);
    assert_int_equal(failure_group_trend(only(), now), FAILURE_RISING);
    assert_int_equal(failure_group_trend(only(), at(HOUR + 15 * MINUTE)), FAILURE_FALLING);
    assert_int_equal(failure_group_trend(only(), at(3 * HOUR)), FAILURE_QUIET);
}

/* Words, because numbers would make them alike. */
static const char *name_of(unsigned n, char room[16])
{
    size_t len = 0;
    do
        room[len++] = (char)('g' + n % 16);
    while (n /= 16);
    room[len] = '\0';
    return room;
}

static void a_hundred_thousand_kinds_take_bounded_memory(void **state)
{
    (void)state;
    enum { KINDS = 100000, MAX = 1000 };
    char room[16];
    for (unsigned i = 0; i < KINDS; i++) {
        add(name_of(i, room), i, at(i), MAX);
        add("always there", i, at(i), MAX);
        while (failure_groups_gone(&groups))
            ;
        assert_true(failure_groups_count(&groups) <= MAX);
    }
    assert_int_equal(failure_groups_count(&groups), MAX);
    assert_int_equal(groups.dropped, KINDS + 1 - MAX);
    assert_true(groups.gone_cap <= 16);
    /* What goes on is not lost among what happened once. */
    const struct failure_group *newest = LIST_OF(groups.order.prev, struct failure_group, order);
    assert_true(str_eq(newest->message, STR("always there")));
    assert_int_equal(newest->count, KINDS);
}

/* Bytes that the allocator has given out; 0 where a sanitizer has taken its place. */
static size_t allocated(void)
{
    return mallinfo2().uordblks;
}

/* 20,000 kinds, in turn: what they take is what the limit allows, however many failures come. */
static void a_hundred_thousand_failures_take_no_more_memory_than_the_limit(void **state)
{
    (void)state;
    enum { FAILURES = 100000, KINDS = 20000, MAX = 1000, EACH = 2048 };
    char room[16];
    size_t before = allocated(), full = 0;
    for (unsigned i = 0; i < FAILURES; i++) {
        add(name_of(i % KINDS, room), i, at(i), MAX);
        while (failure_groups_gone(&groups))
            ;
        if (i == 2 * MAX)
            full = allocated();
    }
    assert_int_equal(failure_groups_count(&groups), MAX);
    size_t grown = allocated() - before;
    assert_true(grown <= (size_t)MAX * EACH);
    assert_true(allocated() <= full + full / 16);
}

static void who_stores_them_hears_of_each_change_once(void **state)
{
    (void)state;
    add("a", 1, at(0), 2);
    add("a", 1, at(1), 2);
    add("b", 1, at(2), 2);
    const struct failure_group *a = failure_groups_changed(&groups);
    uint64_t oldest = a->fingerprint;
    assert_int_equal(a->count, 2);
    assert_non_null(failure_groups_changed(&groups));
    assert_null(failure_groups_changed(&groups));
    assert_int_equal(failure_groups_gone(&groups), 0);
    add("c", 1, at(3), 2);
    assert_true(failure_groups_gone(&groups) == oldest);
    assert_int_equal(failure_groups_gone(&groups), 0);
    assert_null(failure_groups_find(&groups, oldest));
}

static void those_too_old_or_too_many_go_in_steps(void **state)
{
    (void)state;
    char room[16];
    for (unsigned i = 0; i < 10; i++)
        add(name_of(i, room), 1, at(i), 100);
    assert_true(failure_groups_trim(&groups, 100, at(5), 3));
    assert_int_equal(failure_groups_count(&groups), 7);
    assert_false(failure_groups_trim(&groups, 100, at(5), 3));
    assert_int_equal(failure_groups_count(&groups), 5);
    assert_false(failure_groups_trim(&groups, 2, at(0), 10));
    assert_int_equal(failure_groups_count(&groups), 2);
}

static void restored_groups_are_as_they_were(void **state)
{
    (void)state;
    char text[] = "no answer in <n> s";
    add("no answer in 3 s", 1, at(0), 10);
    add("b", 1, at(1), 10);
    struct failure_groups stored = groups;
    failure_groups_init(&groups);
    stored.order.next->prev = stored.order.prev->next = &stored.order;
    for (struct list *n = stored.order.prev; n != &stored.order; n = n->prev) {
        struct failure_group copy = *LIST_OF(n, struct failure_group, order);
        if (copy.message.len == strlen(text))
            copy.message.at = text;
        failure_groups_restore(&groups, &copy);
    }
    memset(text, 'x', sizeof text); /* it was copied */
    failure_groups_restored(&groups, at(0));
    assert_int_equal(failure_groups_count(&groups), 2);
    const struct failure_group *last = LIST_OF(groups.order.prev, struct failure_group, order);
    assert_int_equal(last->last_seen.ms, at(0).ms); /* not in the future */
    add("no answer in 4 s", 2, at(2), 10);
    last = LIST_OF(groups.order.prev, struct failure_group, order);
    assert_true(str_eq(last->message, STR("no answer in <n> s")));
    assert_int_equal(last->count, 2);
    stored.changed.next->prev = stored.changed.prev->next = &stored.changed;
    failure_groups_fini(&stored);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alike_failures_are_counted_together),
        TEST(the_culprit_of_most_failures_comes_first),
        TEST(counts_are_by_minute_and_hour),
        TEST(a_clock_that_was_set_back_loses_no_count),
        TEST(samples_are_the_newest_of_different_jobs),
        TEST(a_trend_compares_two_half_hours),
        TEST(a_hundred_thousand_kinds_take_bounded_memory),
        TEST(a_hundred_thousand_failures_take_no_more_memory_than_the_limit),
        TEST(who_stores_them_hears_of_each_change_once),
        TEST(those_too_old_or_too_many_go_in_steps),
        TEST(restored_groups_are_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
