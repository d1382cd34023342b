/* SPDX-License-Identifier: Apache-2.0 */

/* Lists, counts and removals with an expression about payloads. */

#include "brain.h"

static struct brain brain;

static int setup(void **state)
{
    if (yard_setup(state))
        return -1;
    brain_install(&brain, *state);
    return 0;
}

static int teardown(void **state)
{
    int bad = yard_teardown(state);
    brain_fini(&brain);
    return bad;
}

#define FILTER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct id add(struct yard *y, const char *queue, const char *payload)
{
    struct answer a;
    struct enqueue spec = yard_spec(queue);
    spec.payload = str_from(payload);
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
    return a.ids[0];
}

/* Every third of them is "odd". */
static void add_many(struct yard *y, int count, struct id *ids)
{
    for (int i = 0; i < count; i++)
        ids[i] = add(y, "q", i % 3 == 0 ? "\"odd\"" : "\"even\"");
}

static struct command about(enum command_kind kind, const char *expr)
{
    return (struct command){.kind = kind,
                            .list = {.limit = 5, .filter = {.expression = str_from(expr)}}};
}

static struct answer ask(struct yard *y, struct command c)
{
    struct answer a = {0};
    yard_send(y, c, &a);
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    return a;
}

static void a_count_counts_what_matches(void **state)
{
    struct id ids[200];
    add_many(*state, 200, ids);
    assert_int_equal(ask(*state, about(CMD_COUNT, "odd")).count, 67);
    assert_int_equal(ask(*state, about(CMD_COUNT, "even")).count, 133);
    assert_int_equal(ask(*state, about(CMD_COUNT, "neither")).count, 0);
}

static void pages_hold_what_matches_in_order(void **state)
{
    struct id ids[200];
    struct yard *y = *state;
    add_many(y, 200, ids);
    struct command c = about(CMD_LIST, "odd");
    size_t seen = 0;
    for (bool more = true; more;) {
        struct answer a = ask(y, c);
        assert_ok(a.err);
        for (size_t i = 0; i < a.count; i++)
            assert_id(a.ids[i], ids[3 * seen++]);
        more = a.more;
        assert_int_equal(a.count, more ? 5 : 2);
        c.list.from = (struct id_place){true, a.ids[a.count - 1]};
    }
    assert_int_equal(seen, 67);
}

static void pages_backwards_do_too(void **state)
{
    struct id ids[100];
    add_many(*state, 100, ids);
    struct command c = about(CMD_LIST, "odd");
    c.list.backwards = true;
    struct answer a = ask(*state, c);
    assert_int_equal(a.count, 5);
    assert_true(a.more);
    for (size_t i = 0; i < 5; i++)
        assert_id(a.ids[i], ids[99 - 3 * i]);
}

static void a_full_page_that_ends_the_list_has_no_more(void **state)
{
    struct id ids[15];
    add_many(*state, 15, ids);
    struct answer a = ask(*state, about(CMD_LIST, "odd"));
    assert_int_equal(a.count, 5);
    assert_false(a.more);
}

static void other_filters_hold_too(void **state)
{
    struct yard *y = *state;
    add(y, "q", "\"odd\"");
    struct id other = add(y, "other", "\"odd\"");
    struct command c = about(CMD_LIST, "odd");
    struct str queue = STR("other");
    c.list.filter.queues = &queue;
    c.list.filter.queue_count = 1;
    struct answer a = ask(y, c);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], other);
    c.list.filter.queue_count = 0;
    c.list.filter.statuses = 1u << STATUS_DEAD;
    assert_int_equal(ask(y, c).count, 0);
}

static void only_what_matches_is_removed(void **state)
{
    struct id ids[100];
    add_many(*state, 100, ids);
    assert_int_equal(ask(*state, about(CMD_REMOVE_WHERE, "odd")).count, 34);
    for (int i = 0; i < 100; i++)
        assert_int_equal(yard_status(*state, ids[i]), i % 3 ? STATUS_READY : STATUS_GONE);
}

static void a_wrong_expression_is_a_bad_value_also_without_jobs(void **state)
{
    assert_code(ask(*state, about(CMD_LIST, "wrong")).err, ERR_BAD_VALUE);
    assert_code(ask(*state, about(CMD_COUNT, "wrong")).err, ERR_BAD_VALUE);
    assert_code(ask(*state, about(CMD_REMOVE_WHERE, "wrong")).err, ERR_BAD_VALUE);
}

static void an_expression_that_fails_later_is_unprocessable(void **state)
{
    struct yard *y = *state;
    struct answer a = {0};
    add(y, "q", "1");
    yard_send(y, about(CMD_REMOVE_WHERE, "1"), &a);
    yard_settle(y);
    brain_answer(&brain); /* it compiles */
    yard_settle(y);
    brain.ill = ERR_UNPROCESSABLE;
    brain_settle(&brain, y);
    assert_code(a.err, ERR_UNPROCESSABLE);
    brain.ill = ERR_OK;
    assert_int_equal(ask(y, about(CMD_COUNT, "1")).count, 1);
}

static void jobs_that_go_while_they_are_judged_are_left_out(void **state)
{
    struct yard *y = *state;
    struct id ids[9];
    struct answer a = {0}, removed;
    add_many(y, 9, ids);
    yard_send(y, about(CMD_LIST, "odd"), &a);
    yard_settle(y);
    brain_answer(&brain);
    yard_settle(y);
    assert_int_equal(brain.count, 1);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = ids[3]}, &removed);
    assert_ok(removed.err);
    brain_settle(&brain, y);
    assert_int_equal(a.count, 2);
    assert_id(a.ids[0], ids[0]);
    assert_id(a.ids[1], ids[6]);
}

static void a_payload_that_changes_while_it_is_judged_is_judged_again(void **state)
{
    struct yard *y = *state;
    struct answer a = {0}, folded = {0};
    struct enqueue spec = yard_spec("q");
    spec.payload = STR("[\"odd\"]");
    spec.batch = (struct job_batch){STR("k"), STR("yes"), STR("\"even\""), false};
    struct id before = add(y, "q", "\"odd\"");
    struct answer first = ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}});
    struct id after = add(y, "q", "\"odd\"");
    yard_send(y, about(CMD_REMOVE_WHERE, "odd"), &a);
    yard_settle(y);
    brain_answer(&brain);
    yard_settle(y);
    /* The question about the payloads waits while the fold overtakes it. */
    assert_int_equal(brain.count, 1);
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &folded);
    brain_answer_newest(&brain);
    brain_answer_newest(&brain);
    yard_settle(y);
    assert_true(folded.folded[0]);
    brain_settle(&brain, y);
    assert_int_equal(a.count, 2);
    assert_int_equal(yard_status(y, before), STATUS_GONE);
    assert_int_equal(yard_status(y, first.ids[0]), STATUS_READY);
    assert_int_equal(yard_status(y, after), STATUS_GONE);
}

static void other_scans_and_commands_go_on_meanwhile(void **state)
{
    struct yard *y = *state;
    struct answer slow = {0}, quick = {0};
    add(y, "q", "\"odd\"");
    yard_send(y, about(CMD_COUNT, "odd"), &slow);
    yard_send(y, (struct command){.kind = CMD_LIST, .list = {.limit = 5}}, &quick);
    yard_settle(y);
    assert_int_equal(quick.count, 1);
    assert_int_equal(slow.came, 0);
    assert_false(backend_is_idle(y->b));
    brain_settle(&brain, y);
    assert_int_equal(slow.count, 1);
}

static void a_failed_commit_answers_scans_that_wait_for_the_evaluator(void **state)
{
    struct yard *y = *state;
    struct answer slow = {0}, plain = {0};
    add(y, "q", "\"odd\"");
    yard_send(y, about(CMD_COUNT, "odd"), &slow);
    yard_settle(y);
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    yard_enqueue(y, "q", &plain);
    yard_turn(y);
    yard_turn(y);
    yard_turn(y);
    assert_code(slow.err, ERR_DISK_FULL);
    yard_faults(y, (struct memory_faults){0});
    yard_turn_after(y, 2000);
    brain_settle(&brain, y);
    assert_int_equal(ask(y, about(CMD_COUNT, "odd")).count, 1);
}

static void a_busy_evaluator_is_an_error(void **state)
{
    add(*state, "q", "1");
    brain.busy = true;
    assert_code(ask(*state, about(CMD_COUNT, "1")).err, ERR_BUSY);
}

/* Other requests have their turn between two questions. */
static void a_slow_expression_is_asked_of_one_payload_at_a_time(void **state)
{
    struct yard *y = *state;
    struct id ids[8];
    add_many(y, 8, ids);
    brain.takes = (span){1000};
    struct answer a = {0};
    yard_send(y, about(CMD_COUNT, "odd"), &a);
    size_t most = 0;
    for (yard_settle(y); brain.count; yard_settle(y)) {
        size_t count = brain.questions[0]->request.count;
        if (brain.asked > 2) /* it is known to be slow */
            most = count > most ? count : most;
        brain_answer(&brain);
    }
    assert_ok(a.err);
    assert_int_equal(a.count, 3);
    assert_int_equal(most, 1);
}

static void a_fast_expression_is_asked_of_many_at_a_time(void **state)
{
    struct yard *y = *state;
    struct id ids[200];
    add_many(y, 200, ids);
    struct answer a = {0};
    yard_send(y, about(CMD_COUNT, "odd"), &a);
    size_t most = 0;
    for (yard_settle(y); brain.count; yard_settle(y)) {
        size_t count = brain.questions[0]->request.count;
        most = count > most ? count : most;
        brain_answer(&brain);
    }
    assert_int_equal(a.count, 67);
    assert_int_equal(most, 64);
}

static void a_request_has_a_limit_of_time_for_all_its_payloads(void **state)
{
    struct yard *y = *state;
    struct id ids[8];
    y->settings.jq_request_limit = (span){2500};
    yard_restart(y);
    add_many(y, 8, ids);
    brain.takes = (span){1000};
    struct answer a = ask(y, about(CMD_COUNT, "odd"));
    assert_code(a.err, ERR_UNPROCESSABLE);
    assert_non_null(strstr(a.err.msg, "all in all"));
    brain.takes = (span){10};
    a = ask(y, about(CMD_COUNT, "odd"));
    assert_ok(a.err);
    assert_int_equal(a.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILTER_TEST(a_count_counts_what_matches),
        FILTER_TEST(pages_hold_what_matches_in_order),
        FILTER_TEST(pages_backwards_do_too),
        FILTER_TEST(a_full_page_that_ends_the_list_has_no_more),
        FILTER_TEST(other_filters_hold_too),
        FILTER_TEST(only_what_matches_is_removed),
        FILTER_TEST(a_wrong_expression_is_a_bad_value_also_without_jobs),
        FILTER_TEST(an_expression_that_fails_later_is_unprocessable),
        FILTER_TEST(jobs_that_go_while_they_are_judged_are_left_out),
        FILTER_TEST(a_payload_that_changes_while_it_is_judged_is_judged_again),
        FILTER_TEST(other_scans_and_commands_go_on_meanwhile),
        FILTER_TEST(a_failed_commit_answers_scans_that_wait_for_the_evaluator),
        FILTER_TEST(a_busy_evaluator_is_an_error),
        FILTER_TEST(a_slow_expression_is_asked_of_one_payload_at_a_time),
        FILTER_TEST(a_fast_expression_is_asked_of_many_at_a_time),
        FILTER_TEST(a_request_has_a_limit_of_time_for_all_its_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
