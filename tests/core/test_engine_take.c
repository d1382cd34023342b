/* SPDX-License-Identifier: Apache-2.0 */

/* Which taker gets which job, and when: streams and claims. */

#include "base/array.h"
#include "rig.h"

#define R struct rig *r = *state

/* --- order --- */

static void jobs_come_in_the_order_of_their_enqueue(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    assert_string_equal(r->got[0].payload, "{\"n\":1}");
}

static void lower_priorities_come_first(void **state)
{
    R;
    struct id last = rig_add_priority(r, "q", 65535), middle = rig_add_priority(r, "q", 7);
    struct id first = rig_add_priority(r, "q", 0), also_middle = rig_add_priority(r, "q", 7);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, first, middle, also_middle, last);
}

static void a_taker_of_all_queues_gets_the_best_job_of_any(void **state)
{
    R;
    struct id a = rig_add(r, "a"), b = rig_add_priority(r, "b", 5), c = rig_add(r, "c");
    struct id a2 = rig_add(r, "a");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, b, a, c, a2);
}

static void a_taker_of_two_queues_merges_their_order_and_leaves_others_alone(void **state)
{
    R;
    struct id a = rig_add(r, "a"), c = rig_add(r, "c"), b = rig_add(r, "b"), a2 = rig_add(r, "a");
    const struct str names[] = {STR("b"), STR("a")};
    struct taker_spec spec = {.queues = names, .queue_count = 2, .limit = 10};
    engine_taker_open(r->e, &spec, NULL);
    rig_turn(r);
    rig_assert_got(r, a, b, a2);
    assert_int_equal(rig_status(r, c), STATUS_READY);
}

static void a_queue_named_twice_counts_once(void **state)
{
    R;
    const struct str names[] = {STR("a"), STR("a")};
    struct taker_spec spec = {.queues = names, .queue_count = 2, .limit = 10};
    struct taker *t = engine_taker_open(r->e, &spec, NULL);
    rig_turn(r);
    struct id a = rig_add(r, "a"), b = rig_add(r, "a");
    rig_turn(r);
    rig_assert_got(r, a, b);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
}

static void a_scheduled_job_comes_when_its_time_has_come_and_not_before(void **state)
{
    R;
    rig_stream(r, "w", "q", 10);
    struct id id = rig_add_later(r, "q", (span){5000});
    rig_turn_after(r, 4999);
    assert_int_equal(r->got_count, 0);
    assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
}

static void a_job_that_was_scheduled_keeps_the_place_of_its_enqueue(void **state)
{
    R;
    struct id early = rig_add_later(r, "q", (span){1000}), late = rig_add(r, "q");
    r->now.ms += 1000;
    bool more;
    assert_ok(engine_advance(r->e, r->now, 10, &more));
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, early, late);
}

/* --- room --- */

static void a_stream_holds_at_most_its_prefetch(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_clear(r);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, c);
}

static void every_end_of_a_run_makes_room_for_the_next_job(void **state)
{
    R;
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_succeed(r, ids[0]);
    rig_turn(r);
    rig_fail(r, ids[1]);
    rig_turn(r);
    assert_ok(engine_remove(r->e, r->now, ids[2]));
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1], ids[2], ids[3]);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, ids[3]), (struct str){0}));
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1], ids[2], ids[3], ids[3]);
}

static void a_paused_stream_gets_nothing_until_it_is_resumed(void **state)
{
    R;
    struct taker *t = rig_stream(r, "w", "q", 10);
    rig_turn(r);
    engine_taker_pause(r->e, t, true);
    engine_taker_pause(r->e, t, true);
    struct id id = rig_add(r, "q");
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    engine_taker_pause(r->e, t, false);
    rig_turn(r);
    rig_assert_got(r, id);
}

static void a_stream_paused_while_full_is_not_woken_by_room(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    engine_taker_pause(r->e, t, true);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a);
    engine_taker_pause(r->e, t, false);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

static void what_a_paused_stream_leaves_goes_to_another(void **state)
{
    R;
    struct taker *paused = rig_stream(r, "paused", "q", 10);
    rig_stream(r, "other", "q", 10);
    rig_turn(r);
    engine_taker_pause(r->e, paused, true);
    struct id id = rig_add(r, "q");
    rig_turn(r);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].taker, "other");
}

/* --- fairness --- */

static void takers_with_room_take_turns(void **state)
{
    R;
    for (int i = 0; i < 6; i++)
        rig_add(r, "q");
    rig_stream(r, "a", "q", 10);
    rig_stream(r, "b", "q", 10);
    rig_stream(r, "c", "q", 1);
    rig_turn(r);
    const char *const want[] = {"a", "b", "c", "a", "b", "a"};
    assert_int_equal(r->got_count, 6);
    for (int i = 0; i < 6; i++)
        assert_string_equal(r->got[i].taker, want[i]);
}

static void configure(struct rig *r, uint32_t jobs, uint64_t bytes)
{
    r->settings.hand_out_max = jobs;
    r->settings.hand_out_bytes_max = bytes;
    engine_configure(r->e, &r->settings);
}

/* How many jobs one more turn hands out, and whether there is more to do. */
static size_t hand_outs(struct rig *r, bool *again)
{
    rig_clear(r);
    rig_turn(r);
    *again = engine_dispatch_again(r->e);
    return r->got_count;
}

static void a_turn_hands_out_a_bounded_number_of_jobs_in_order(void **state)
{
    R;
    struct id ids[7];
    bool again;
    configure(r, 3, 0);
    for (int i = 0; i < 7; i++)
        ids[i] = rig_add(r, "q");
    rig_stream(r, "a", "q", 100);
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1], ids[2]);
    assert_true(engine_dispatch_again(r->e));
    assert_int_equal(hand_outs(r, &again), 3);
    assert_true(again);
    assert_int_equal(hand_outs(r, &again), 1);
    assert_id(r->got[0].id, ids[6]);
    assert_false(again);
}

static void a_turn_hands_out_a_bounded_number_of_bytes_but_one_job_at_least(void **state)
{
    R;
    bool again;
    configure(r, 0, 15); /* the payload of each has 7 */
    for (int i = 0; i < 5; i++)
        rig_add(r, "q");
    rig_stream(r, "a", "q", 100);
    assert_int_equal(hand_outs(r, &again), 3);
    assert_int_equal(hand_outs(r, &again), 2);
    assert_false(again);
    configure(r, 0, 1);
    for (int i = 0; i < 2; i++)
        rig_add(r, "q");
    assert_int_equal(hand_outs(r, &again), 1);
    assert_int_equal(hand_outs(r, &again), 1);
}

static void a_claim_gets_less_than_it_asks_for_if_more_would_be_too_much(void **state)
{
    R;
    configure(r, 3, 0);
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = rig_add(r, "q");
    rig_claim(r, "a", "q", 2, (span){0});
    rig_claim(r, "b", "q", 5, (span){30000});
    rig_claim(r, "c", "q", 5, (span){30000});
    rig_claim(r, "d", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1], ids[2]);
    assert_int_equal(r->claim_count, 3);
    /* The fourth has got nothing: it is the first in the next turn. */
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, ids[3], ids[4]);
    assert_int_equal(r->claim_count, 1);
    assert_string_equal(r->claims[0], "d");
    assert_int_equal(r->claim_sizes[0], 2);
}

static void who_has_waited_longest_gets_the_next_job(void **state)
{
    R;
    rig_stream(r, "first", "q", 10);
    rig_turn(r);
    rig_stream(r, "second", NULL, 10);
    rig_turn(r);
    rig_stream(r, "third", "q", 10);
    rig_turn(r);
    const char *const want[] = {"first", "second", "third", "first", "second"};
    for (size_t i = 0; i < COUNT(want); i++) {
        rig_clear(r);
        rig_add(r, "q");
        rig_turn(r);
        assert_int_equal(r->got_count, 1);
        assert_string_equal(r->got[0].taker, want[i]);
    }
}

static void a_job_reaches_a_taker_of_all_queues_when_nobody_names_its_queue(void **state)
{
    R;
    rig_stream(r, "named", "other", 10);
    rig_stream(r, "any", NULL, 10);
    rig_turn(r);
    struct id id = rig_add(r, "new");
    rig_turn(r);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].taker, "any");
}

/* --- claims --- */

static void a_claim_gets_what_is_ready_at_once_up_to_its_count(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_add(r, "q");
    rig_claim(r, "w", "q", 2, (span){30000});
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(r->claim_count, 1);
    assert_int_equal(r->claim_sizes[0], 2);
    assert_int_equal(r->got[0].lease_end.ms, r->now.ms + RIG_LEASE.ms);
    assert_int_not_equal(r->got[0].token, r->got[1].token);
}

static void a_claim_does_not_wait_for_more_once_it_has_one(void **state)
{
    R;
    struct id a = rig_add(r, "q");
    rig_claim(r, "w", "q", 10, (span){30000});
    rig_turn(r);
    rig_assert_got(r, a);
    assert_int_equal(r->claim_count, 1);
}

static void a_claim_without_waiting_is_answered_empty_in_the_same_turn(void **state)
{
    R;
    rig_claim(r, "w", "q", 10, (span){0});
    rig_turn(r);
    assert_int_equal(r->claim_count, 1);
    assert_int_equal(r->claim_sizes[0], 0);
}

static void a_claim_that_waits_gets_a_job_that_comes(void **state)
{
    R;
    rig_claim(r, "w", "q", 10, (span){30000});
    rig_turn(r);
    assert_int_equal(r->claim_count, 0);
    r->now.ms += 29999;
    struct id id = rig_add(r, "q");
    rig_turn(r);
    rig_assert_got(r, id);
    assert_int_equal(r->got[0].lease_end.ms, r->now.ms + RIG_LEASE.ms);
    rig_turn_after(r, 1); /* its wait would end now */
    assert_int_equal(r->claim_count, 1);
}

static void a_claim_is_answered_empty_when_its_wait_ends(void **state)
{
    R;
    rig_claim(r, "w", "q", 10, (span){30000});
    rig_turn(r);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + 30000);
    rig_turn_after(r, 29999);
    assert_int_equal(r->claim_count, 0);
    rig_turn_after(r, 1);
    assert_int_equal(r->claim_count, 1);
    assert_int_equal(r->claim_sizes[0], 0);
    assert_false(engine_next_due(r->e, &due));
}

static void a_claim_that_was_closed_is_not_answered(void **state)
{
    R;
    struct taker *t = rig_claim(r, "w", "q", 10, (span){30000});
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    struct id id = rig_add(r, "q");
    rig_turn_after(r, 60000);
    assert_int_equal(r->claim_count, 0);
    assert_int_equal(rig_status(r, id), STATUS_READY);
}

static void a_claims_lease_is_on_record(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_false(rig_record(r, id)->has_state);
    assert_int_equal(rig_takes_count(r), 1);
    const struct lease *lease = &r->takes[0].leases[0];
    assert_true(id_eq(lease->id, id));
    assert_int_equal(lease->run, 0);
    assert_int_equal(lease->token, r->got[0].token);
    assert_int_equal(lease->end.ms, r->now.ms + RIG_LEASE.ms);
    assert_true(str_eq(lease->worker, STR("w")));
}

/* --- what is written about streams --- */

static void one_record_holds_all_that_a_turn_gave_to_streams(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    unsigned before = r->writes;
    rig_turn(r);
    assert_int_equal(r->writes, before + 1);
    assert_int_equal(rig_takes_count(r), 1);
    rig_succeed(r, a);
    assert_int_equal(rig_takes_count(r), 1);
    rig_succeed(r, b);
    assert_int_equal(rig_takes_count(r), 0);
}

static void a_turn_with_nothing_to_do_writes_nothing(void **state)
{
    R;
    rig_stream(r, "w", "q", 10);
    rig_claim(r, "c", "q", 1, (span){1000});
    rig_turn(r);
    rig_turn_after(r, 500);
    rig_turn_after(r, 500);
    assert_int_equal(r->writes, 0);
}

/* --- closing --- */

static void the_jobs_of_a_closed_stream_are_ready_again_before_newer_ones(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct taker *t = rig_stream(r, "gone", "q", 10);
    rig_turn(r);
    struct id newer = rig_add(r, "q");
    struct id urgent = rig_add_priority(r, "q", 1);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 4);
    rig_clear(r);
    rig_stream(r, "next", "q", 10);
    rig_turn(r);
    rig_assert_got(r, urgent, a, b, newer);
    assert_int_equal(r->got[1].run, 1);
}

static void a_lost_run_is_on_record_and_does_not_count_as_an_attempt(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    for (uint32_t n = 0; n < 3; n++) {
        struct taker *t = rig_stream(r, "w", "q", 1);
        rig_turn(r);
        r->now.ms += 10;
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
        const struct run *run = rig_run(r, id, n);
        assert_int_equal(run->outcome, OUTCOME_LOST);
        assert_int_equal(run->attempt, 0);
        assert_int_equal(run->taken_at.ms, r->now.ms - 10);
        assert_int_equal(run->ended_at.ms, r->now.ms);
        assert_true(str_eq(run->worker, STR("w")));
        assert_true(str_eq(run->reason, STR("ready again: the worker's stream closed")));
        const struct job *job = rig_read(r, id);
        assert_int_equal(job->state.status, STATUS_READY);
        assert_int_equal(job->state.attempts, 0);
        assert_int_equal(job->state.losses, n + 1);
        assert_int_equal(job->state.runs, n + 1);
    }
    assert_int_equal(rig_takes_count(r), 0);
}

static void the_end_of_a_stream_with_very_many_jobs_takes_several_turns(void **state)
{
    R;
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 5);
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1], ids[2], ids[3], ids[4]);
    configure(r, 2, 0);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 2);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
    /* A report arrives too late for all of them, however many there were before. */
    struct id *live;
    assert_int_equal(rig_live(r, &live), 3);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){live[1], 0}), ERR_NOT_IN_FLIGHT);
    assert_int_equal(rig_status(r, live[1]), STATUS_READY);
    bool more;
    configure(r, 1, 0);
    assert_ok(engine_advance(r->e, r->now, 10, &more));
    assert_true(more);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 4);
    assert_ok(engine_advance(r->e, r->now, 10, &more));
    assert_false(more);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 5);
    rig_turn(r);
    assert_int_equal(rig_takes_count(r), 0);
}

static void losses_are_counted_in_a_row(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_int_equal(rig_read(r, id)->state.losses, 1);
    rig_stream(r, "w2", "q", 1);
    rig_turn(r);
    rig_fail(r, id);
    assert_int_equal(rig_read(r, id)->state.losses, 0);
}

static void closing_a_stream_leaves_the_jobs_of_others(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct taker *first = rig_stream(r, "first", "q", 1);
    rig_stream(r, "second", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, b);
    engine_taker_close(r->e, r->now, first, TAKER_GONE);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    rig_turn(r);
    assert_int_equal(rig_status(r, a), STATUS_READY); /* nobody has room */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_come_in_the_order_of_their_enqueue),
        TEST(lower_priorities_come_first),
        TEST(a_taker_of_all_queues_gets_the_best_job_of_any),
        TEST(a_taker_of_two_queues_merges_their_order_and_leaves_others_alone),
        TEST(a_queue_named_twice_counts_once),
        TEST(a_scheduled_job_comes_when_its_time_has_come_and_not_before),
        TEST(a_job_that_was_scheduled_keeps_the_place_of_its_enqueue),
        TEST(a_stream_holds_at_most_its_prefetch),
        TEST(every_end_of_a_run_makes_room_for_the_next_job),
        TEST(a_paused_stream_gets_nothing_until_it_is_resumed),
        TEST(a_stream_paused_while_full_is_not_woken_by_room),
        TEST(what_a_paused_stream_leaves_goes_to_another),
        TEST(takers_with_room_take_turns),
        TEST(a_turn_hands_out_a_bounded_number_of_jobs_in_order),
        TEST(a_turn_hands_out_a_bounded_number_of_bytes_but_one_job_at_least),
        TEST(a_claim_gets_less_than_it_asks_for_if_more_would_be_too_much),
        TEST(who_has_waited_longest_gets_the_next_job),
        TEST(a_job_reaches_a_taker_of_all_queues_when_nobody_names_its_queue),
        TEST(a_claim_gets_what_is_ready_at_once_up_to_its_count),
        TEST(a_claim_does_not_wait_for_more_once_it_has_one),
        TEST(a_claim_without_waiting_is_answered_empty_in_the_same_turn),
        TEST(a_claim_that_waits_gets_a_job_that_comes),
        TEST(a_claim_is_answered_empty_when_its_wait_ends),
        TEST(a_claim_that_was_closed_is_not_answered),
        TEST(a_claims_lease_is_on_record),
        TEST(one_record_holds_all_that_a_turn_gave_to_streams),
        TEST(a_turn_with_nothing_to_do_writes_nothing),
        TEST(the_jobs_of_a_closed_stream_are_ready_again_before_newer_ones),
        TEST(a_lost_run_is_on_record_and_does_not_count_as_an_attempt),
        TEST(the_end_of_a_stream_with_very_many_jobs_takes_several_turns),
        TEST(losses_are_counted_in_a_row),
        TEST(closing_a_stream_leaves_the_jobs_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
