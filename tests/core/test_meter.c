/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/array.h"
#include "core/meter.h"

static struct job_event event_of(enum event event, struct str queue)
{
    return (struct job_event){.event = event,
                              .queue = queue,
                              .at = {10000},
                              .ready_at = INSTANT_NONE,
                              .since = INSTANT_NONE,
                              .ruling = RULING_NONE};
}

static uint64_t total_of(const struct histogram *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= HISTOGRAM_BUCKETS_MAX; i++)
        n += h->in[i];
    return n;
}

static void a_value_on_a_bound_belongs_below_it(void **state)
{
    (void)state;
    static const int64_t bounds[] = {10, 100};
    const struct histogram_scale scale = HISTOGRAM_SCALE(bounds, 1);
    struct histogram h = {0};
    const int64_t values[] = {0, 10, 11, 100, 101, INT64_MAX - 300, -5};
    for (size_t i = 0; i < COUNT(values); i++)
        histogram_add(&h, &scale, values[i]);
    assert_int_equal(h.in[0], 3);
    assert_int_equal(h.in[1], 2);
    assert_int_equal(h.in[2], 2);
    assert_int_equal(h.sum, INT64_MAX - 300 + 222);
    histogram_add(&h, &scale, INT64_MAX);
    assert_int_equal(h.sum, INT64_MAX);
}

static void bounds_of_times_ascend(void **state)
{
    (void)state;
    for (size_t i = 1; i < meter_times.count; i++)
        assert_true(meter_times.upto[i - 1] < meter_times.upto[i]);
}

static void each_queue_has_counts_of_its_own(void **state)
{
    (void)state;
    struct meter *m = meter_new(10, 1);
    const struct str names[] = {STR("a"), STR("b"), STR("a")};
    for (int i = 0; i < 3; i++) {
        struct job_event ev = event_of(EVENT_ENQUEUE, names[i]);
        meter_event(m, &ev);
    }
    assert_int_equal(m->queue_count, 2);
    assert_int_equal(meter_queue(m, STR("a"))->events[EVENT_ENQUEUE], 2);
    assert_int_equal(meter_queue(m, STR("b"))->events[EVENT_ENQUEUE], 1);
    assert_int_equal(m->queues[10].events[EVENT_ENQUEUE], 0);
    meter_free(m);
}

static void queues_beyond_the_limit_share_one_row(void **state)
{
    (void)state;
    struct meter *m = meter_new(2, 1);
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        struct job_event ev = event_of(EVENT_ENQUEUE, str_from(name));
        meter_event(m, &ev);
    }
    assert_int_equal(m->queue_count, 2);
    assert_int_equal(m->queues[2].events[EVENT_ENQUEUE], 3);
    assert_ptr_equal(meter_queue(m, STR("q4")), &m->queues[2]);
    assert_true(str_eq(meter_queue(m, STR("q1"))->name, STR("q1")));
    meter_free(m);
}

static void without_rows_all_queues_share_one(void **state)
{
    (void)state;
    struct meter *m = meter_new(0, 1);
    struct job_event ev = event_of(EVENT_TAKE, STR("a"));
    meter_event(m, &ev);
    assert_int_equal(m->queues[0].events[EVENT_TAKE], 1);
    meter_free(m);
}

static void durations_go_where_they_belong(void **state)
{
    (void)state;
    struct meter *m = meter_new(1, 1);
    const struct {
        enum event event;
        enum status from;
        int64_t since;
        struct histogram *where;
    } cases[] = {
        {EVENT_TAKE, STATUS_READY, 9000, &m->waits},
        {EVENT_SUCCEED, STATUS_IN_FLIGHT, 8000, &m->runs_good},
        {EVENT_EXHAUST, STATUS_IN_FLIGHT, 7000, &m->runs_bad},
        {EVENT_RETRY, STATUS_IN_FLIGHT, 9999, &m->runs_bad},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t before = total_of(cases[i].where);
        int64_t sum = cases[i].where->sum;
        struct job_event ev = event_of(cases[i].event, STR("q"));
        ev.from = cases[i].from;
        ev.since.ms = cases[i].since;
        meter_event(m, &ev);
        assert_int_equal(total_of(cases[i].where), before + 1);
        assert_int_equal(cases[i].where->sum, sum + 10000 - cases[i].since);
    }
    struct job_event due = event_of(EVENT_DUE, STR("q"));
    due.since.ms = 9980;
    meter_event(m, &due);
    assert_int_equal(m->lateness.sum, 20);
    meter_free(m);
}

static void a_wait_of_which_nobody_knows_is_none(void **state)
{
    (void)state;
    struct meter *m = meter_new(1, 1);
    struct job_event ev = event_of(EVENT_TAKE, STR("q"));
    meter_event(m, &ev);
    assert_int_equal(total_of(&m->waits), 0);
    meter_free(m);
}

static void retries_are_counted_by_rule(void **state)
{
    (void)state;
    struct meter *m = meter_new(1, 1);
    const struct ruling rulings[] = {{STR("p"), 0, 1, 3},
                                     {STR("p"), 1, 1, 3},
                                     {STR("p"), -1, 1, 3},
                                     {STR("p"), 1, 2, 3},
                                     {{0}, -1, 1, 3}};
    for (size_t i = 0; i < COUNT(rulings); i++) {
        struct job_event ev = event_of(EVENT_RETRY, STR("q"));
        ev.ruling = rulings[i];
        meter_event(m, &ev);
    }
    assert_int_equal(m->rule_count, 3);
    assert_int_equal(m->rules[0].decisions[METER_RETRY], 1);
    assert_int_equal(m->rules[1].decisions[METER_RETRY], 2);
    assert_int_equal(m->rules[2].rule, -1);
    meter_free(m);
}

static void rules_beyond_the_limit_share_one_row(void **state)
{
    (void)state;
    struct meter *m = meter_new(1, 1);
    for (int i = 0; i < METER_RULES_MAX + 7; i++) {
        struct job_event ev = event_of(EVENT_RETRY, STR("q"));
        ev.ruling = (struct ruling){STR("p"), i, 1, 3};
        meter_event(m, &ev);
    }
    assert_int_equal(m->rule_count, METER_RULES_MAX);
    assert_int_equal(m->rules[METER_RULES_MAX].decisions[METER_RETRY], 7);
    meter_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_on_a_bound_belongs_below_it),
        cmocka_unit_test(bounds_of_times_ascend),
        cmocka_unit_test(each_queue_has_counts_of_its_own),
        cmocka_unit_test(queues_beyond_the_limit_share_one_row),
        cmocka_unit_test(without_rows_all_queues_share_one),
        cmocka_unit_test(durations_go_where_they_belong),
        cmocka_unit_test(a_wait_of_which_nobody_knows_is_none),
        cmocka_unit_test(retries_are_counted_by_rule),
        cmocka_unit_test(rules_beyond_the_limit_share_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
