/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "core/lifecycle.h"

/* What may happen to a job in each status, and the resulting status: written by hand from what the
 * statuses mean, so that a mistake in lifecycle.def is not repeated here. Everything else is
 * refused. */
static const struct {
    enum event event;
    enum status to[STATUS_GONE + 1]; /* by the status before, +1; 0: refused */
} table[] = {
#define TO(to) ((enum status)(STATUS_##to + 1))
    /* A job is added. */
    {EVENT_ENQUEUE, {[STATUS_GONE] = TO(READY)}},
    {EVENT_ENQUEUE_LATER, {[STATUS_GONE] = TO(SCHEDULED)}},
    {EVENT_ENQUEUE_BLOCKED, {[STATUS_GONE] = TO(BLOCKED)}},
    /* It waits: for others, for its time, for a worker. */
    {EVENT_UNBLOCK, {[STATUS_BLOCKED] = TO(SCHEDULED)}},
    {EVENT_BLOCK, {[STATUS_SCHEDULED] = TO(BLOCKED)}},
    {EVENT_DUE, {[STATUS_SCHEDULED] = TO(READY)}},
    {EVENT_POSTPONE,
     {[STATUS_BLOCKED] = TO(BLOCKED),
      [STATUS_SCHEDULED] = TO(SCHEDULED),
      [STATUS_READY] = TO(SCHEDULED)}},
    /* A worker has it. */
    {EVENT_TAKE, {[STATUS_READY] = TO(IN_FLIGHT)}},
    {EVENT_SUCCEED, {[STATUS_IN_FLIGHT] = TO(COMPLETED)}},
    {EVENT_RETRY, {[STATUS_IN_FLIGHT] = TO(SCHEDULED)}},
    {EVENT_RETRY_NOW, {[STATUS_IN_FLIGHT] = TO(READY)}},
    {EVENT_RETURN, {[STATUS_IN_FLIGHT] = TO(READY)}},
    {EVENT_EXHAUST, {[STATUS_IN_FLIGHT] = TO(DEAD)}},
    {EVENT_POISON, {[STATUS_IN_FLIGHT] = TO(DEAD)}},
    {EVENT_ABANDON,
     {[STATUS_BLOCKED] = TO(DEAD),
      [STATUS_SCHEDULED] = TO(DEAD),
      [STATUS_READY] = TO(DEAD),
      [STATUS_IN_FLIGHT] = TO(DEAD)}}, /* with its gang */
    {EVENT_CANCEL,
     {[STATUS_BLOCKED] = TO(DEAD),
      [STATUS_SCHEDULED] = TO(DEAD),
      [STATUS_READY] = TO(DEAD),
      [STATUS_IN_FLIGHT] = TO(DEAD)}},
    {EVENT_OVERRUN,
     {[STATUS_BLOCKED] = TO(DEAD),
      [STATUS_SCHEDULED] = TO(DEAD),
      [STATUS_READY] = TO(DEAD),
      [STATUS_IN_FLIGHT] = TO(DEAD)}},
    /* It comes back, or is deleted. */
    {EVENT_RERUN, {[STATUS_DEAD] = TO(SCHEDULED), [STATUS_COMPLETED] = TO(SCHEDULED)}},
    {EVENT_REMOVE,
     {[STATUS_BLOCKED] = TO(GONE),
      [STATUS_SCHEDULED] = TO(GONE),
      [STATUS_READY] = TO(GONE),
      [STATUS_IN_FLIGHT] = TO(GONE),
      [STATUS_COMPLETED] = TO(GONE),
      [STATUS_DEAD] = TO(GONE)}},
    {EVENT_PURGE, {[STATUS_COMPLETED] = TO(GONE), [STATUS_DEAD] = TO(GONE)}},
    /* Its group is told of: its own status stays. */
    {EVENT_REPRIORITIZE,
     {[STATUS_BLOCKED] = TO(BLOCKED),
      [STATUS_SCHEDULED] = TO(SCHEDULED),
      [STATUS_READY] = TO(READY),
      [STATUS_IN_FLIGHT] = TO(IN_FLIGHT)}},
    {EVENT_GROUP_RESOLVED,
     {[STATUS_COMPLETED] = TO(COMPLETED), [STATUS_DEAD] = TO(DEAD), [STATUS_GONE] = TO(GONE)}},
    {EVENT_GROUP_SEALED, {[STATUS_GONE] = TO(GONE)}},
    {EVENT_GROUP_REPRIORITIZE, {[STATUS_GONE] = TO(GONE)}},
    {EVENT_ARTIFACT,
     {[STATUS_BLOCKED] = TO(BLOCKED),
      [STATUS_SCHEDULED] = TO(SCHEDULED),
      [STATUS_READY] = TO(READY),
      [STATUS_IN_FLIGHT] = TO(IN_FLIGHT),
      [STATUS_COMPLETED] = TO(COMPLETED),
      [STATUS_DEAD] = TO(DEAD)}},
    {EVENT_PROGRESS, {[STATUS_IN_FLIGHT] = TO(IN_FLIGHT)}},
    {EVENT_RESTORE, {[STATUS_GONE] = TO(SCHEDULED)}},
    {EVENT_RESTORE_COMPLETED, {[STATUS_GONE] = TO(COMPLETED)}},
    {EVENT_RESTORE_DEAD, {[STATUS_GONE] = TO(DEAD)}},
    {EVENT_UNRETRY,
     {[STATUS_BLOCKED] = TO(DEAD), [STATUS_SCHEDULED] = TO(DEAD), [STATUS_READY] = TO(DEAD)}},
#undef TO
};

static bool in_table(enum status from, enum event event, enum status *to)
{
    for (size_t i = 0; i < COUNT(table); i++) {
        if (table[i].event != event || table[i].to[from] == 0)
            continue;
        *to = (enum status)(table[i].to[from] - 1);
        return true;
    }
    return false;
}

static void every_pair_of_status_and_event_does_what_the_table_says(void **state)
{
    (void)state;
    for (int s = 0; s <= STATUS_GONE; s++) {
        for (int e = 0; e < EVENT_COUNT; e++) {
            enum status want = STATUS_GONE, got = STATUS_GONE;
            bool may = in_table((enum status)s, (enum event)e, &want);
            assert_int_equal(lifecycle_next((enum status)s, (enum event)e, &got), may);
            assert_int_equal(got, want);
            if (may)
                assert_int_equal(lifecycle_move((enum status)s, (enum event)e), want);
        }
    }
}

static void every_event_has_its_row(void **state)
{
    (void)state;
    unsigned seen = 0;
    assert_int_equal(COUNT(table), EVENT_COUNT);
    for (size_t i = 0; i < COUNT(table); i++)
        seen |= 1u << table[i].event;
    assert_int_equal(seen, (1u << EVENT_COUNT) - 1);
}

static void a_terminal_status_is_left_only_by_a_command_or_by_purge(void **state)
{
    (void)state;
    for (int s = 0; s < STATUS_COUNT; s++) {
        for (int e = 0; e < EVENT_COUNT && lifecycle_is_terminal((enum status)s); e++) {
            enum status to;
            bool may = lifecycle_next((enum status)s, (enum event)e, &to);
            bool rerun = e == EVENT_RERUN, stays = e == EVENT_GROUP_RESOLVED || e == EVENT_ARTIFACT;
            assert_int_equal(may, e == EVENT_REMOVE || e == EVENT_PURGE || rerun || stays);
            if (may)
                assert_int_equal(to, stays ? s : rerun ? STATUS_SCHEDULED : STATUS_GONE);
        }
    }
}

static void completed_and_dead_are_terminal_and_nothing_else_is(void **state)
{
    (void)state;
    for (int s = 0; s < STATUS_COUNT; s++)
        assert_int_equal(lifecycle_is_terminal((enum status)s),
                         s == STATUS_COMPLETED || s == STATUS_DEAD);
}

static void every_status_can_be_removed(void **state)
{
    (void)state;
    for (int s = 0; s < STATUS_COUNT; s++)
        assert_int_equal(lifecycle_move((enum status)s, EVENT_REMOVE), STATUS_GONE);
}

static void only_a_job_in_flight_can_succeed_fail_or_be_returned(void **state)
{
    (void)state;
    const enum event reports[] = {EVENT_SUCCEED, EVENT_RETRY, EVENT_RETRY_NOW, EVENT_EXHAUST,
                                  EVENT_RETURN};
    enum status to;
    for (int s = 0; s < STATUS_COUNT; s++)
        for (size_t i = 0; i < COUNT(reports); i++)
            assert_int_equal(lifecycle_next((enum status)s, reports[i], &to),
                             s == STATUS_IN_FLIGHT);
}

static void names_of_statuses_are_read_back(void **state)
{
    (void)state;
    const char *const names[] = {"blocked", "scheduled", "ready", "in_flight", "completed", "dead"};
    assert_int_equal(COUNT(names), STATUS_COUNT);
    for (int s = 0; s < STATUS_COUNT; s++) {
        enum status back = STATUS_GONE;
        assert_string_equal(lifecycle_status_name((enum status)s), names[s]);
        assert_true(lifecycle_status_parse(str_from(names[s]), &back));
        assert_int_equal(back, s);
    }
}

static void only_an_enqueue_or_an_undo_makes_a_job(void **state)
{
    (void)state;
    enum status to;
    for (int e = 0; e < EVENT_COUNT; e++) {
        bool is_enqueue = strcmp(lifecycle_event_kind((enum event)e), "job_enqueued") == 0 ||
                          strcmp(lifecycle_event_kind((enum event)e), "job_restored") == 0;
        bool of_group = strncmp(lifecycle_event_kind((enum event)e), "group_", 6) == 0;
        assert_int_equal(lifecycle_next(STATUS_GONE, (enum event)e, &to), is_enqueue || of_group);
        assert_true(is_enqueue || !of_group || to == STATUS_GONE);
    }
    assert_false(lifecycle_event_kind_is_known(STR("job_lost")));
}

static void other_words_are_no_status(void **state)
{
    (void)state;
    enum status s;
    assert_false(lifecycle_status_parse(STR(""), &s));
    assert_false(lifecycle_status_parse((struct str){0}, &s));
    assert_false(lifecycle_status_parse(STR("READY"), &s));
    assert_false(lifecycle_status_parse(STR("rea"), &s));
    assert_false(lifecycle_status_parse(STR("ready "), &s));
}

static void every_status_and_event_has_words(void **state)
{
    (void)state;
    for (int s = 0; s < STATUS_COUNT; s++)
        assert_true(lifecycle_status_meaning((enum status)s)[0] != '\0');
    for (int e = 0; e < EVENT_COUNT; e++) {
        assert_true(lifecycle_event_name((enum event)e)[0] != '\0');
        assert_true(lifecycle_event_meaning((enum event)e)[0] != '\0');
        assert_true(lifecycle_event_kind_is_known(str_from(lifecycle_event_kind((enum event)e))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_status_and_event_does_what_the_table_says),
        cmocka_unit_test(every_event_has_its_row),
        cmocka_unit_test(a_terminal_status_is_left_only_by_a_command_or_by_purge),
        cmocka_unit_test(completed_and_dead_are_terminal_and_nothing_else_is),
        cmocka_unit_test(every_status_can_be_removed),
        cmocka_unit_test(only_a_job_in_flight_can_succeed_fail_or_be_returned),
        cmocka_unit_test(names_of_statuses_are_read_back),
        cmocka_unit_test(only_an_enqueue_or_an_undo_makes_a_job),
        cmocka_unit_test(other_words_are_no_status),
        cmocka_unit_test(every_status_and_event_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
