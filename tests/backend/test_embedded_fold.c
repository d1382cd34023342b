/* SPDX-License-Identifier: Apache-2.0 */

/* Batched jobs: what is folded into what, and what happens while the evaluator is working. */

#include "brain.h"

#include "base/buf.h"
#include "store/record.h"

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

#define FOLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct enqueue spec_with(const char *key, const char *when, const char *fold,
                                const char *payload)
{
    struct enqueue spec = yard_spec("q");
    spec.payload = str_from(payload);
    spec.batch = (struct job_batch){str_from(key), str_from(when), str_from(fold), false};
    return spec;
}

static struct enqueue spec_of(const char *key, const char *payload)
{
    return spec_with(key, "yes", "join", payload);
}

static void send(struct yard *y, const struct enqueue *specs, size_t count, struct answer *to)
{
    *to = (struct answer){0};
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, count}}, to);
}

/* Sends it and lets everything be answered. */
static struct answer ask(struct yard *y, struct enqueue spec)
{
    struct answer a;
    send(y, &spec, 1, &a);
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    return a;
}

static struct answer ask_many(struct yard *y, const struct enqueue *specs, size_t count)
{
    struct answer a;
    send(y, specs, count, &a);
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    return a;
}

static void assert_payload(struct yard *y, struct id id, const char *payload)
{
    struct answer a;
    yard_read(y, id, &a);
    assert_ok(a.err);
    assert_string_equal(a.payload, payload);
}

static size_t count_jobs(struct yard *y)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_ok(a.err);
    return a.count;
}

static void take_one(struct yard *y)
{
    struct answer a = {0};
    yard_claim(y, "q", 1, (span){0}, &a);
    yard_settle(y);
    assert_int_equal(a.count, 1);
}

/* --- the rules --- */

static void the_second_enqueue_with_a_key_is_folded_into_the_first(void **state)
{
    struct answer first = ask(*state, spec_of("k", "[1]"));
    assert_ok(first.err);
    assert_false(first.folded[0]);
    struct answer second = ask(*state, spec_of("k", "[2]"));
    assert_ok(second.err);
    assert_true(second.folded[0]);
    assert_id(first.ids[0], second.ids[0]);
    struct answer other = ask(*state, spec_of("other", "[3]"));
    assert_false(other.folded[0]);
    assert_payload(*state, first.ids[0], "[1,2]");
    assert_payload(*state, other.ids[0], "[3]");
    assert_int_equal(count_jobs(*state), 2);
}

static void a_when_that_says_no_seals_and_begins_another(void **state)
{
    struct answer first = ask(*state, spec_with("k", "no", "join", "[1]"));
    struct answer second = ask(*state, spec_of("k", "[2]"));
    assert_false(second.folded[0]);
    struct answer third = ask(*state, spec_of("k", "[3]"));
    assert_true(third.folded[0]);
    assert_id(third.ids[0], second.ids[0]);
    assert_payload(*state, first.ids[0], "[1]");
    assert_payload(*state, second.ids[0], "[2,3]");
}

static void the_first_enqueue_decides_how_is_folded(void **state)
{
    struct answer first = ask(*state, spec_with("k", "yes", "\"mine\"", "[1]"));
    struct answer second = ask(*state, spec_with("k", "no", "join", "[2]"));
    assert_true(second.folded[0]);
    assert_payload(*state, first.ids[0], "\"mine\"");
}

static void a_job_that_was_handed_out_is_folded_into_no_more(void **state)
{
    struct answer first = ask(*state, spec_of("k", "[1]"));
    take_one(*state);
    struct answer second = ask(*state, spec_of("k", "[2]"));
    assert_false(second.folded[0]);
    /* Not even when it is ready again. */
    struct answer a;
    yard_ask(*state,
             (struct command){.kind = CMD_RELEASE, .run = {.id = first.ids[0], .vouched = true}},
             &a);
    assert_ok(a.err);
    yard_ask(*state, (struct command){.kind = CMD_REMOVE, .id = second.ids[0]}, &a);
    assert_ok(a.err);
    struct answer third = ask(*state, spec_of("k", "[3]"));
    assert_false(third.folded[0]);
    assert_payload(*state, first.ids[0], "[1]");
}

static void nothing_is_folded_across_a_ready_at(void **state)
{
    struct yard *y = *state;
    struct enqueue later = spec_of("k", "[1]");
    later.ready_at = instant_add(y->now, (span){1000});
    struct answer scheduled = ask(y, later);
    assert_ok(scheduled.err);
    struct answer now = ask(y, spec_of("k", "[2]"));
    assert_false(now.folded[0]);
    struct answer again = ask(y, later);
    assert_false(again.folded[0]);
    yard_turn_after(y, 2000);
    struct answer last = ask(y, spec_of("k", "[3]"));
    assert_id(last.ids[0], now.ids[0]);
    assert_payload(y, scheduled.ids[0], "[1]");
    assert_payload(y, now.ids[0], "[2,3]");
}

static void a_job_that_was_postponed_is_folded_into_no_more(void **state)
{
    struct yard *y = *state;
    struct answer a, first = ask(y, spec_of("k", "[1]"));
    struct patch later = {.set = PATCH_READY_AT, .ready_at = instant_add(y->now, (span){1000})};
    yard_ask(y, (struct command){.kind = CMD_PATCH, .patch = {first.ids[0], &later}}, &a);
    assert_ok(a.err);
    struct answer second = ask(y, spec_of("k", "[2]"));
    assert_false(second.folded[0]);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = second.ids[0]}, &a);
    yard_turn_after(y, 2000);
    assert_false(ask(y, spec_of("k", "[3]")).folded[0]);
    yard_restart(y);
    assert_true(ask(y, spec_of("k", "[4]")).folded[0]);
    assert_payload(y, first.ids[0], "[1]");
}

static void a_job_whose_priority_was_changed_is_still_folded_into(void **state)
{
    struct yard *y = *state;
    struct answer a, first = ask(y, spec_of("k", "[1]"));
    struct patch urgent = {.set = PATCH_PRIORITY, .priority = 3};
    yard_ask(y, (struct command){.kind = CMD_PATCH, .patch = {first.ids[0], &urgent}}, &a);
    assert_ok(a.err);
    assert_true(ask(y, spec_of("k", "[2]")).folded[0]);
    yard_restart(y);
    assert_payload(y, first.ids[0], "[1,2]");
    assert_false(ask(y, spec_of("k", "[3]")).folded[0]);
}

static void a_canceled_job_that_is_brought_back_is_folded_into_no_more(void **state)
{
    struct yard *y = *state;
    struct answer a, first = ask(y, spec_of("k", "[1]"));
    yard_ask(y, (struct command){.kind = CMD_CANCEL, .id = first.ids[0]}, &a);
    assert_ok(a.err);
    yard_ask(y, (struct command){.kind = CMD_RERUN, .rerun = {first.ids[0]}}, &a);
    assert_ok(a.err);
    struct answer second = ask(y, spec_of("k", "[2]"));
    assert_false(second.folded[0]);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = second.ids[0]}, &a);
    yard_restart(y);
    assert_false(ask(y, spec_of("k", "[3]")).folded[0]);
    assert_payload(y, first.ids[0], "[1]");
}

static void wrong_expressions_are_refused_also_where_nothing_is_folded(void **state)
{
    struct yard *y = *state;
    assert_code(ask(y, spec_with("k", "wrong", "join", "[1]")).err, ERR_UNPROCESSABLE);
    assert_code(ask(y, spec_with("k", "yes", "wrong", "[1]")).err, ERR_UNPROCESSABLE);
    struct enqueue later = spec_with("k", "wrong", "join", "[1]");
    later.ready_at = instant_add(y->now, (span){1000});
    assert_code(ask(y, later).err, ERR_UNPROCESSABLE);
    ask(y, spec_of("k", "[1]"));
    assert_code(ask(y, spec_with("k", "wrong", "join", "[1]")).err, ERR_UNPROCESSABLE);
    assert_int_equal(count_jobs(y), 1);
}

static void a_fold_that_makes_no_payload_changes_nothing(void **state)
{
    struct answer first = ask(*state, spec_with("k", "yes", "[1,", "[1]"));
    assert_code(ask(*state, spec_of("k", "[2]")).err, ERR_UNPROCESSABLE);
    assert_payload(*state, first.ids[0], "[1]");
    assert_int_equal(count_jobs(*state), 1);
}

/* --- bulk --- */

static void a_bulk_folds_within_itself_and_into_what_waits(void **state)
{
    struct answer first = ask(*state, spec_of("k", "[1]"));
    const struct enqueue specs[] = {spec_of("k", "[2]"), spec_of("new", "[5]"), yard_spec("q"),
                                    spec_of("new", "[6]"), spec_of("k", "[3]")};
    struct answer a = ask_many(*state, specs, 5);
    assert_ok(a.err);
    assert_int_equal(a.count, 5);
    assert_id(a.ids[0], first.ids[0]);
    assert_id(a.ids[4], first.ids[0]);
    assert_id(a.ids[3], a.ids[1]);
    assert_true(a.folded[0] && a.folded[3] && a.folded[4]);
    assert_false(a.folded[1] || a.folded[2]);
    assert_payload(*state, first.ids[0], "[1,2,3]");
    assert_payload(*state, a.ids[1], "[5,6]");
    assert_payload(*state, a.ids[2], "{\"n\":1}");
    assert_int_equal(count_jobs(*state), 3);
}

static void a_job_of_a_bulk_can_be_sealed_by_a_later_one_of_it(void **state)
{
    const struct enqueue specs[] = {spec_with("k", "no", "join", "[1]"), spec_of("k", "[2]"),
                                    spec_of("k", "[3]")};
    struct answer a = ask_many(*state, specs, 3);
    assert_false(a.folded[0] || a.folded[1]);
    assert_true(a.folded[2]);
    assert_id(a.ids[2], a.ids[1]);
    assert_payload(*state, a.ids[0], "[1]");
    assert_payload(*state, a.ids[1], "[2,3]");
    struct answer next = ask(*state, spec_of("k", "[4]"));
    assert_id(next.ids[0], a.ids[1]);
}

static void one_bad_expression_stops_the_whole_bulk(void **state)
{
    struct answer first = ask(*state, spec_of("k", "[1]"));
    const struct enqueue specs[] = {spec_of("k", "[2]"), yard_spec("q"),
                                    spec_with("x", "wrong", "join", "[3]")};
    assert_code(ask_many(*state, specs, 3).err, ERR_UNPROCESSABLE);
    assert_payload(*state, first.ids[0], "[1]");
    assert_int_equal(count_jobs(*state), 1);
}

/* --- while the evaluator is working --- */

static void a_job_taken_meanwhile_is_left_alone(void **state)
{
    struct yard *y = *state;
    struct answer first = ask(y, spec_of("k", "[1]")), second;
    struct enqueue spec = spec_of("k", "[2]");
    send(y, &spec, 1, &second);
    yard_settle(y);
    brain_answer(&brain); /* the check; next comes the fold */
    take_one(y);
    brain_settle(&brain, y);
    assert_ok(second.err);
    assert_false(second.folded[0]);
    assert_payload(y, first.ids[0], "[1]");
    assert_payload(y, second.ids[0], "[2]");
}

static void a_job_removed_meanwhile_is_not_folded_into(void **state)
{
    struct yard *y = *state;
    struct answer first = ask(y, spec_of("k", "[1]")), second, a;
    struct enqueue spec = spec_of("k", "[2]");
    send(y, &spec, 1, &second);
    brain_answer(&brain);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = first.ids[0]}, &a);
    assert_ok(a.err);
    brain_settle(&brain, y);
    assert_false(second.folded[0]);
    assert_int_equal(count_jobs(y), 1);
}

static void enqueues_with_one_key_go_one_after_the_other(void **state)
{
    struct yard *y = *state;
    struct answer a[5];
    static const char *const payloads[] = {"[0]", "[1]", "[2]", "[3]", "[4]"};
    for (int i = 0; i < 5; i++) {
        struct enqueue spec = spec_of("k", payloads[i]);
        send(y, &spec, 1, &a[i]);
    }
    assert_int_equal(brain.count, 1);
    brain_settle(&brain, y);
    for (int i = 0; i < 5; i++) {
        assert_ok(a[i].err);
        assert_int_equal(a[i].folded[0], i > 0);
        assert_id(a[i].ids[0], a[0].ids[0]);
    }
    assert_payload(y, a[0].ids[0], "[0,1,2,3,4]");
}

static void enqueues_with_other_keys_do_not_wait(void **state)
{
    struct yard *y = *state;
    struct answer a, b, c;
    const struct enqueue one = spec_of("k", "[1]"), other = spec_of("l", "[2]");
    const struct enqueue both[] = {spec_of("k", "[3]"), spec_of("l", "[4]")};
    send(y, &one, 1, &a);
    send(y, &other, 1, &b);
    send(y, both, 2, &c);
    assert_int_equal(brain.count, 2);
    brain_settle(&brain, y);
    assert_payload(y, a.ids[0], "[1,3]");
    assert_payload(y, b.ids[0], "[2,4]");
    assert_int_equal(c.came, 1);
}

static void other_commands_go_on(void **state)
{
    struct yard *y = *state;
    struct answer a, b = {0};
    struct enqueue spec = spec_of("k", "[1]");
    send(y, &spec, 1, &a);
    yard_enqueue(y, "q", &b);
    yard_settle(y);
    assert_int_equal(b.came, 1);
    assert_int_equal(a.came, 0);
    assert_false(backend_is_idle(y->b));
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    assert_true(backend_is_idle(y->b));
}

/* --- durability --- */

static void a_fold_is_durable_before_its_answer(void **state)
{
    struct yard *y = *state;
    struct answer first = ask(y, spec_of("k", "[1]"));
    struct answer second = ask(y, spec_of("k", "[2]"));
    assert_true(second.folded[0]);
    yard_crash(y);
    assert_payload(y, first.ids[0], "[1,2]");
    /* And it is still open. */
    assert_true(ask(y, spec_of("k", "[3]")).folded[0]);
    assert_payload(y, first.ids[0], "[1,2,3]");
}

static void what_was_sealed_stays_sealed_after_a_restart(void **state)
{
    struct yard *y = *state;
    struct answer a, first = ask(y, spec_with("k", "no", "join", "[1]"));
    struct answer second = ask(y, spec_of("k", "[2]"));
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = second.ids[0]}, &a);
    yard_restart(y);
    struct answer third = ask(y, spec_of("k", "[3]"));
    assert_false(third.folded[0]);
    assert_payload(y, first.ids[0], "[1]");
    yard_restart(y);
    assert_true(ask(y, spec_of("k", "[4]")).folded[0]);
    assert_payload(y, third.ids[0], "[3,4]");
}

static void what_a_stream_held_at_a_crash_is_folded_into_no_more(void **state)
{
    struct yard *y = *state;
    struct stream s = {0};
    struct answer first = ask(y, spec_of("k", "{\"n\":1}"));
    yard_stream(y, "q", 1, &s);
    yard_settle(y);
    assert_int_equal(s.count, 1);
    yard_crash(y);
    assert_false(ask(y, spec_of("k", "[2]")).folded[0]);
    assert_payload(y, first.ids[0], "{\"n\":1}");
}

static bool lies_apart(struct yard *y, struct id id)
{
    struct record_key key = record_payload_key(id);
    struct buf value = {0};
    bool found;
    assert_ok(store_get(y->store, record_key_view(&key), &found, &value));
    buf_fini(&value);
    return found;
}

static void a_large_payload_may_become_small_and_a_small_one_large(void **state)
{
    struct yard *y = *state;
    static char large[RECORD_APART_MIN + 100];
    snprintf(large, sizeof large, "[%0*d]", (int)sizeof large - 3, 0);
    large[1] = '1';
    struct answer shrinks = ask(y, spec_with("k", "yes", "\"small\"", large));
    assert_true(lies_apart(y, shrinks.ids[0]));
    assert_true(ask(y, spec_of("k", "[2]")).folded[0]);
    assert_false(lies_apart(y, shrinks.ids[0]));
    assert_payload(y, shrinks.ids[0], "\"small\"");
    struct answer grows = ask(y, spec_of("l", "[1]"));
    assert_false(lies_apart(y, grows.ids[0]));
    assert_true(ask(y, spec_of("l", large)).folded[0]);
    assert_true(lies_apart(y, grows.ids[0]));
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = grows.ids[0]}, &a);
    assert_ok(a.err);
    assert_false(lies_apart(y, grows.ids[0]));
}

static void reading_ahead_never_gives_what_was_there_before_a_fold(void **state)
{
    struct yard *y = *state;
    for (int i = 0; i < 30; i++)
        yard_add(y, "q");
    struct answer first = ask(y, spec_of("k", "[1]")), second, many = {0}, one = {0};
    struct enqueue spec = spec_of("k", "[2]");
    yard_faults(y, (struct memory_faults){.hold = true});
    send(y, &spec, 1, &second);
    brain_answer(&brain);
    brain_answer(&brain);
    yard_turn(y);
    /* This many consecutive reads open a cursor, while the fold is still being committed. */
    yard_claim(y, "q", 30, (span){0}, &many);
    yard_turn(y);
    yard_faults(y, (struct memory_faults){0});
    memory_release(y->store);
    yard_settle(y);
    assert_true(second.folded[0]);
    assert_int_equal(many.count, 30);
    yard_claim(y, "q", 1, (span){0}, &one);
    yard_settle(y);
    assert_id(one.ids[0], first.ids[0]);
    assert_string_equal(one.payload, "[1,2]");
}

static void a_failed_commit_answers_all_of_them(void **state)
{
    struct yard *y = *state;
    struct answer first = ask(y, spec_of("k", "[1]")), second, third, plain = {0};
    const struct enqueue specs[] = {spec_of("k", "[2]"), spec_of("k", "[3]")};
    send(y, &specs[0], 1, &second);
    send(y, &specs[1], 1, &third);
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    yard_enqueue(y, "q", &plain);
    yard_turn(y);
    yard_turn(y);
    yard_turn(y);
    assert_code(plain.err, ERR_DISK_FULL);
    assert_int_equal(second.came, 1);
    assert_int_equal(third.came, 1);
    assert_code(second.err, ERR_DISK_FULL);
    yard_faults(y, (struct memory_faults){0});
    yard_turn_after(y, 2000);
    /* The late answer has no recipient. */
    brain_settle(&brain, y);
    assert_payload(y, first.ids[0], "[1]");
    assert_true(ask(y, spec_of("k", "[4]")).folded[0]);
    assert_payload(y, first.ids[0], "[1,4]");
}

static void a_busy_evaluator_is_an_error(void **state)
{
    struct answer first = ask(*state, spec_of("k", "[1]"));
    brain.busy = true;
    assert_code(ask(*state, spec_of("k", "[2]")).err, ERR_BUSY);
    brain.busy = false;
    brain.ill = ERR_INTERNAL;
    assert_code(ask(*state, spec_of("k", "[2]")).err, ERR_INTERNAL);
    brain.ill = ERR_OK;
    assert_true(ask(*state, spec_of("k", "[2]")).folded[0]);
    assert_payload(*state, first.ids[0], "[1,2]");
}

static void without_an_evaluator_batches_are_refused(void **state)
{
    struct yard *y = *state;
    y->evaluator = NULL;
    yard_restart(y);
    assert_code(ask(y, spec_of("k", "[1]")).err, ERR_NOT_SUPPORTED);
    assert_int_equal(count_jobs(y), 0);
}

static void the_backend_may_end_while_the_evaluator_thinks(void **state)
{
    struct yard *y = *state;
    struct answer a, b;
    struct enqueue spec = spec_of("k", "[1]");
    send(y, &spec, 1, &a);
    send(y, &spec, 1, &b);
    yard_restart(y);
    assert_int_equal(a.came + b.came, 0);
    assert_int_equal(count_jobs(y), 0);
    brain_fini(&brain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLD_TEST(the_second_enqueue_with_a_key_is_folded_into_the_first),
        FOLD_TEST(a_when_that_says_no_seals_and_begins_another),
        FOLD_TEST(the_first_enqueue_decides_how_is_folded),
        FOLD_TEST(a_job_that_was_handed_out_is_folded_into_no_more),
        FOLD_TEST(nothing_is_folded_across_a_ready_at),
        FOLD_TEST(a_job_that_was_postponed_is_folded_into_no_more),
        FOLD_TEST(a_job_whose_priority_was_changed_is_still_folded_into),
        FOLD_TEST(a_canceled_job_that_is_brought_back_is_folded_into_no_more),
        FOLD_TEST(wrong_expressions_are_refused_also_where_nothing_is_folded),
        FOLD_TEST(a_fold_that_makes_no_payload_changes_nothing),
        FOLD_TEST(a_bulk_folds_within_itself_and_into_what_waits),
        FOLD_TEST(a_job_of_a_bulk_can_be_sealed_by_a_later_one_of_it),
        FOLD_TEST(one_bad_expression_stops_the_whole_bulk),
        FOLD_TEST(a_job_taken_meanwhile_is_left_alone),
        FOLD_TEST(a_job_removed_meanwhile_is_not_folded_into),
        FOLD_TEST(enqueues_with_one_key_go_one_after_the_other),
        FOLD_TEST(enqueues_with_other_keys_do_not_wait),
        FOLD_TEST(other_commands_go_on),
        FOLD_TEST(a_fold_is_durable_before_its_answer),
        FOLD_TEST(what_was_sealed_stays_sealed_after_a_restart),
        FOLD_TEST(what_a_stream_held_at_a_crash_is_folded_into_no_more),
        FOLD_TEST(a_large_payload_may_become_small_and_a_small_one_large),
        FOLD_TEST(reading_ahead_never_gives_what_was_there_before_a_fold),
        FOLD_TEST(a_failed_commit_answers_all_of_them),
        FOLD_TEST(a_busy_evaluator_is_an_error),
        FOLD_TEST(without_an_evaluator_batches_are_refused),
        FOLD_TEST(the_backend_may_end_while_the_evaluator_thinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
