/* SPDX-License-Identifier: Apache-2.0 */

#include "contract_fixture.h"

#define F      struct fixture *f = *state
#define MINUTE ((span){60000})

static void no_reply_leaves_before_its_commit_is_durable(void **state)
{
    F;
    struct answer a = {0};
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &a);
    for (int i = 0; i < 5; i++)
        fixture_turn(f);
    assert_int_equal(a.came, 0);
    fixture_hold(f, false);
    assert_int_equal(a.came, 0);
    fixture_turn(f);
    assert_int_equal(a.came, 1);
    assert_ok(a.err);
}

static void a_read_of_what_is_not_durable_waits_for_it_too(void **state)
{
    F;
    struct answer a = {0}, read = {0}, count = {0};
    struct id id = fixture_add(f, "q");
    fixture_hold(f, true);
    fixture_send(f, (struct command){.kind = CMD_REMOVE, .id = id}, &a);
    fixture_turn(f);
    fixture_send(f, (struct command){.kind = CMD_READ, .read = {id}}, &read);
    fixture_send(f, (struct command){.kind = CMD_COUNT}, &count);
    fixture_turn(f);
    fixture_turn(f);
    assert_int_equal(read.came + count.came, 0);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_int_equal(read.came, 1);
    assert_code(read.err, ERR_NOT_FOUND);
    assert_int_equal(count.count, 0);
}

static void a_job_is_not_delivered_before_its_take_is_durable(void **state)
{
    F;
    struct stream s = {0};
    struct answer a = {0};
    fixture_stream(f, "q", 10, &s);
    fixture_settle(f);
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &a);
    fixture_turn(f);
    fixture_turn(f);
    assert_int_equal(s.count, 0);
    fixture_hold(f, false);
    fixture_turn(f);
    assert_int_equal(a.came, 1);
    assert_int_equal(s.count, 1);
    assert_id(s.ids[0], a.ids[0]);
}

static void a_claim_is_not_answered_before_its_lease_is_durable(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct answer a = {0};
    fixture_hold(f, true);
    fixture_claim(f, "q", 10, (span){0}, &a);
    fixture_turn(f);
    fixture_turn(f);
    assert_int_equal(a.came, 0);
    fixture_hold(f, false);
    fixture_turn(f);
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], id);
}

struct chain {
    struct fixture *f;
    struct answer next;
};

static void send_next(void *ctx)
{
    struct chain *c = ctx;
    fixture_enqueue(c->f, "q", &c->next);
}

static void the_receiver_of_a_reply_may_send_the_next_command_at_once(void **state)
{
    F;
    struct chain c = {.f = f};
    struct answer first = {.then = send_next, .ctx = &c};
    fixture_enqueue(f, "q", &first);
    fixture_settle(f);
    assert_int_equal(c.next.came, 1);
    assert_ok(c.next.err);
}

static void an_idle_backend_needs_no_turn(void **state)
{
    F;
    instant at;
    fixture_settle(f);
    assert_true(backend_is_idle(f->b));
    assert_false(backend_next_due(f->b, &at));
    struct answer a = {0};
    fixture_enqueue(f, "q", &a);
    assert_false(backend_is_idle(f->b));
    assert_true(backend_next_due(f->b, &at));
    assert_true(at.ms <= fixture_now(f).ms);
}

static void a_scheduled_job_says_when_the_next_turn_is_due(void **state)
{
    F;
    struct enqueue spec = answers_spec("q");
    struct answer a;
    spec.ready_at = instant_add(fixture_now(f), MINUTE);
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    instant at;
    assert_true(backend_next_due(f->b, &at));
    assert_int_equal(at.ms, fixture_now(f).ms + MINUTE.ms);
    struct stream s = {0};
    fixture_stream(f, "q", 1, &s);
    fixture_settle(f);
    assert_int_equal(s.count, 0);
    fixture_pass(f, MINUTE);
    fixture_settle(f);
    assert_int_equal(s.count, 1);
}

static void a_stream_closed_before_its_job_was_durable_gets_nothing(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct stream s = {0};
    fixture_hold(f, true);
    fixture_stream(f, "q", 10, &s);
    fixture_turn(f);
    backend_stream_close(f->b, s.handle);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.closed, 0);
    assert_int_equal(fixture_status(f, id), STATUS_READY);
}

static void a_stream_is_opened_once_and_before_its_jobs(void **state)
{
    F;
    struct stream s = {0};
    fixture_add(f, "q");
    fixture_stream(f, "q", 1, &s);
    fixture_settle(f);
    assert_int_equal(s.opened, 1);
    assert_ok(s.refused);
    assert_int_equal(s.count, 1);
}

static void a_stream_closed_before_it_is_opened_hears_nothing(void **state)
{
    F;
    struct stream s = {0};
    fixture_stream(f, "q", 1, &s);
    backend_stream_close(f->b, s.handle);
    fixture_settle(f);
    assert_int_equal(s.opened + s.closed, 0);
}

static void a_stream_that_is_opening_when_it_stops_is_refused(void **state)
{
    F;
    struct stream s = {0};
    fixture_stream(f, "q", 1, &s);
    backend_stop(f->b);
    fixture_settle(f);
    assert_int_equal(s.opened, 1);
    assert_code(s.refused, ERR_STOPPING);
    assert_int_equal(s.closed, 0);
}

static void closing_a_stream_gives_its_jobs_to_another(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct stream first = {0}, second = {0};
    fixture_stream(f, "q", 10, &first);
    fixture_settle(f);
    fixture_stream(f, NULL, 10, &second);
    fixture_settle(f);
    assert_int_equal(second.count, 0);
    backend_stream_close(f->b, first.handle);
    fixture_settle(f);
    assert_int_equal(second.count, 1);
    assert_id(second.ids[0], id);
}

static void a_paused_stream_gets_its_job_when_it_is_resumed(void **state)
{
    F;
    struct stream s = {0};
    fixture_stream(f, "q", 10, &s);
    backend_stream_pause(f->b, s.handle, true);
    fixture_add(f, "q");
    assert_int_equal(s.count, 0);
    backend_stream_pause(f->b, s.handle, false);
    fixture_settle(f);
    assert_int_equal(s.count, 1);
}

static void a_claim_that_waits_is_answered_empty_in_time(void **state)
{
    F;
    struct answer a = {0};
    fixture_claim(f, "q", 1, MINUTE, &a);
    fixture_settle(f);
    instant at;
    assert_true(backend_next_due(f->b, &at));
    assert_int_equal(at.ms, fixture_now(f).ms + MINUTE.ms);
    fixture_turn_after(f, MINUTE.ms - 1);
    fixture_turn(f);
    assert_int_equal(a.came, 0);
    fixture_pass(f, (span){1});
    fixture_settle(f);
    assert_int_equal(a.came, 1);
    assert_ok(a.err);
    assert_int_equal(a.count, 0);
}

static void a_canceled_claim_is_answered_empty_once(void **state)
{
    F;
    struct answer a = {0};
    struct backend_claim *c = fixture_claim(f, "q", 1, MINUTE, &a);
    fixture_settle(f);
    backend_claim_cancel(f->b, c);
    struct id id = fixture_add(f, "q");
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 0);
    assert_int_equal(fixture_status(f, id), STATUS_READY);
}

static void a_claim_canceled_after_its_hand_out_still_gets_its_jobs(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct answer a = {0};
    fixture_hold(f, true);
    struct backend_claim *c = fixture_claim(f, "q", 1, MINUTE, &a);
    fixture_turn(f);
    backend_claim_cancel(f->b, c);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], id);
}

static void a_claimed_job_is_renewed_released_and_ended_with_its_token(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct answer claim = {0}, a;
    fixture_claim(f, "q", 1, MINUTE, &claim);
    fixture_settle(f);
    struct run_ref ref = {id, claim.tokens[0]}, wrong = {id, claim.tokens[0] + 2};
    fixture_pass(f, (span){1000});
    fixture_ask(f, (struct command){.kind = CMD_RENEW, .renew = {ref, MINUTE}}, &a);
    assert_ok(a.err);
    assert_int_equal(a.lease_end.ms, fixture_now(f).ms + MINUTE.ms);
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = wrong}, &a);
    assert_code(a.err, ERR_STALE);
    fixture_ask(f, (struct command){.kind = CMD_READ, .read = {id}}, &a);
    assert_true(a.has_live);
    assert_int_equal(a.token, claim.tokens[0]);
    fixture_ask(f, (struct command){.kind = CMD_RELEASE, .run = ref}, &a);
    assert_ok(a.err);
    assert_int_equal(fixture_status(f, id), STATUS_READY);
}

static void a_job_is_read_with_its_runs_and_a_report_names_one_by_its_index(void **state)
{
    F;
    struct enqueue spec = answers_spec("q");
    struct answer claim = {0}, again = {0}, a;
    spec.completed_retention = MINUTE;
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct id id = a.ids[0];
    fixture_claim(f, "q", 1, MINUTE, &claim);
    fixture_settle(f);
    struct run_ref first = {.id = id, .by_index = true, .vouched = true}, second = first;
    second.index = 1;
    fixture_ask(f, (struct command){.kind = CMD_READ, .read = {id, true}}, &a);
    assert_int_equal(a.run_count, 1);
    assert_int_equal(a.runs[0].outcome, OUTCOME_RUNNING);
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = second}, &a);
    assert_code(a.err, ERR_STALE);
    fixture_pass(f, (span){10});
    fixture_ask(f, (struct command){.kind = CMD_RELEASE, .run = first}, &a);
    assert_ok(a.err);
    instant back = fixture_now(f);
    fixture_claim(f, "q", 1, MINUTE, &again);
    fixture_settle(f);
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = second}, &a);
    assert_ok(a.err);
    fixture_ask(f, (struct command){.kind = CMD_READ, .read = {id, true}}, &a);
    assert_int_equal(a.run_count, 2);
    assert_int_equal(a.runs[0].outcome, OUTCOME_RETURNED);
    assert_int_equal(a.runs[1].outcome, OUTCOME_COMPLETED);
    assert_int_equal(a.runs[1].ready_at.ms, back.ms);
    fixture_ask(f, (struct command){.kind = CMD_READ, .read = {id}}, &a);
    assert_int_equal(a.run_count, 0);
}

static void a_claim_of_one_job_is_repeated_over_a_crash_and_refused_to_others(void **state)
{
    F;
    struct id other = fixture_add(f, "q"), id = fixture_add(f, "q");
    struct job_claim claim = {.id = id, .worker = STR("w"), .lease = MINUTE};
    struct answer first, again;
    fixture_ask(f, (struct command){.kind = CMD_CLAIM_JOB, .claim_job = claim}, &first);
    assert_ok(first.err);
    assert_int_equal(first.count, 1);
    assert_id(first.ids[0], id);
    fixture_crash(f);
    fixture_pass(f, (span){10});
    fixture_ask(f, (struct command){.kind = CMD_CLAIM_JOB, .claim_job = claim}, &again);
    assert_int_equal(again.count, 1);
    assert_int_equal(again.tokens[0], first.tokens[0]);
    claim.worker = STR("v");
    fixture_ask(f, (struct command){.kind = CMD_CLAIM_JOB, .claim_job = claim}, &again);
    assert_code(again.err, ERR_CONFLICT);
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = {id, first.tokens[0]}}, &again);
    assert_ok(again.err);
    assert_int_equal(fixture_status(f, other), STATUS_READY);
}

static void everything_acknowledged_is_there_after_a_crash(void **state)
{
    F;
    struct id ready = fixture_add(f, "q"), leased = fixture_add(f, "l"), held = fixture_add(f, "s");
    struct answer claim = {0}, lost = {0}, runs;
    struct stream s = {0};
    fixture_claim(f, "l", 1, MINUTE, &claim);
    fixture_stream(f, "s", 1, &s);
    fixture_settle(f);
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &lost);
    fixture_turn(f);
    fixture_crash(f);
    assert_int_equal(lost.came, 0);
    assert_int_equal(fixture_status(f, ready), STATUS_READY);
    assert_int_equal(fixture_status(f, leased), STATUS_IN_FLIGHT);
    assert_int_equal(fixture_status(f, held), STATUS_READY);
    fixture_ask(f,
                (struct command){.kind = CMD_RUNS, .runs = {.id = held, .from = -1, .limit = 10}},
                &runs);
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.runs[0].outcome, OUTCOME_LOST);
    struct answer a;
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = {leased, claim.tokens[0]}}, &a);
    assert_ok(a.err);
    fixture_ask(f, (struct command){.kind = CMD_COUNT}, &a);
    assert_int_equal(a.count, 2);
}

static void stopping_closes_streams_answers_claims_and_refuses_new_ones(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct stream s = {0}, late = {0};
    struct answer waiting = {0}, late_claim = {0};
    fixture_stream(f, "q", 1, &s);
    fixture_claim(f, "empty", 1, MINUTE, &waiting);
    fixture_settle(f);
    assert_int_equal(s.count, 1);
    backend_stop(f->b);
    backend_stop(f->b);
    assert_int_equal(s.closed, 1);
    fixture_settle(f);
    assert_int_equal(waiting.came, 1);
    assert_ok(waiting.err);
    assert_int_equal(waiting.count, 0);
    assert_code(fixture_try_stream(f, "q", 1, &late), ERR_STOPPING);
    fixture_claim(f, "q", 1, MINUTE, &late_claim);
    fixture_settle(f);
    assert_code(late_claim.err, ERR_STOPPING);
    assert_int_equal(fixture_status(f, id), STATUS_READY);
    assert_true(backend_is_idle(f->b));
}

static void commands_under_way_are_still_answered_while_stopping(void **state)
{
    F;
    struct answer a = {0}, b = {0};
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &a);
    fixture_turn(f);
    backend_stop(f->b);
    fixture_enqueue(f, "q", &b);
    fixture_turn(f);
    assert_false(backend_is_idle(f->b));
    fixture_hold(f, false);
    fixture_settle(f);
    assert_int_equal(a.came + b.came, 2);
    assert_ok(a.err);
    assert_ok(b.err);
}

struct pair {
    struct fixture *f;
    struct stream *other;
};

static void close_other(void *ctx)
{
    struct pair *p = ctx;
    if (p->other->closed == 0)
        backend_stream_close(p->f->b, p->other->handle);
}

static void the_owner_of_a_stopped_stream_may_close_another_at_once(void **state)
{
    F;
    fixture_add(f, "q");
    fixture_add(f, "q");
    struct stream s[2] = {0};
    struct pair p[2] = {{f, &s[1]}, {f, &s[0]}};
    for (int i = 0; i < 2; i++) {
        s[i].on_closed = close_other;
        s[i].ctx = &p[i];
        fixture_stream(f, "q", 1, &s[i]);
    }
    fixture_settle(f);
    backend_stop(f->b);
    fixture_settle(f);
    assert_int_equal(s[0].closed + s[1].closed, 1);
}

static void ask_list(struct fixture *f, struct list_command list, struct answer *a)
{
    fixture_ask(f, (struct command){.kind = CMD_LIST, .list = list}, a);
    assert_ok(a->err);
}

static void a_list_pages_through_all_jobs_in_id_order_both_ways(void **state)
{
    F;
    struct id ids[25];
    struct id_place from;
    struct answer a;
    for (int i = 0; i < 25; i++)
        ids[i] = fixture_add(f, "q");
    for (int back = 0; back < 2; back++) {
        size_t n = 0;
        from = (struct id_place){0};
        do {
            ask_list(f, (struct list_command){.from = from, .limit = 10, .backwards = back}, &a);
            for (size_t i = 0; i < a.count; i++, n++)
                assert_id(a.ids[i], ids[back ? 24 - n : n]);
            from = (struct id_place){true, a.ids[a.count - 1]};
        } while (a.more);
        assert_int_equal(n, 25);
        assert_int_equal(a.count, 5);
    }
}

static void a_full_last_page_says_that_nothing_follows(void **state)
{
    F;
    struct answer a;
    for (int i = 0; i < 10; i++)
        fixture_add(f, "q");
    ask_list(f, (struct list_command){.limit = 10}, &a);
    assert_int_equal(a.count, 10);
    assert_false(a.more);
    ask_list(f, (struct list_command){.limit = 9}, &a);
    assert_int_equal(a.count, 9);
    assert_true(a.more);
}

static void what_is_next_is_told_page_by_page_and_not_handed_out(void **state)
{
    F;
    struct id ids[5];
    struct ready_place place = {0};
    struct answer a;
    for (int i = 0; i < 5; i++)
        ids[i] = fixture_add(f, "q");
    fixture_add(f, "other");
    for (int n = 0; n < 5; n += 2) {
        const struct peek_command peek = {.queue = STR("q"), .from = place, .limit = 2};
        fixture_ask(f, (struct command){.kind = CMD_PEEK, .peek = peek}, &a);
        assert_ok(a.err);
        assert_int_equal(a.count, n < 4 ? 2 : 1);
        assert_int_equal(a.more, n < 4);
        for (size_t i = 0; i < a.count; i++)
            assert_id(a.ids[i], ids[n + (int)i]);
        place = a.place;
    }
    assert_int_equal(fixture_status(f, ids[0]), STATUS_READY);
    fixture_ask(f, (struct command){.kind = CMD_PEEK, .peek = {.queue = STR("none"), .limit = 1}},
                &a);
    assert_ok(a.err);
    assert_int_equal(a.count, 0);
}

static void success_of_many_names_those_that_were_not_in_flight(void **state)
{
    F;
    struct id held = fixture_add(f, "q"), ready = fixture_add(f, "other");
    struct answer claim = {0}, a;
    fixture_claim(f, "q", 1, (span){0}, &claim);
    fixture_settle(f);
    const struct id unknown = {7, 7};
    const struct run_ref runs[] = {
        {.id = ready}, {.id = held}, {held, claim.tokens[0]}, {.id = unknown}, {.id = held}};
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED_MANY, .succeed_many = {runs, 5}}, &a);
    assert_ok(a.err);
    assert_int_equal(a.count, 4);
    assert_id(a.ids[0], ready);
    assert_id(a.ids[1], held); /* without its token */
    assert_id(a.ids[2], unknown);
    assert_id(a.ids[3], held); /* it is over */
    assert_int_equal(fixture_status(f, held), STATUS_GONE);
}

static void queues_that_have_jobs_are_named_in_order(void **state)
{
    F;
    struct answer a;
    fixture_add(f, "b");
    fixture_add(f, "a");
    fixture_add(f, "b");
    fixture_ask(f, (struct command){.kind = CMD_QUEUES}, &a);
    assert_string_equal(a.names, "a b ");
}

static void the_runs_of_an_unknown_job_are_not_found(void **state)
{
    F;
    struct answer a;
    fixture_ask(
        f, (struct command){.kind = CMD_RUNS, .runs = {.id = {7, 7}, .from = -1, .limit = 1}}, &a);
    assert_code(a.err, ERR_NOT_FOUND);
}

static int turns(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(no_reply_leaves_before_its_commit_is_durable),
        FIXTURE_TEST(a_read_of_what_is_not_durable_waits_for_it_too),
        FIXTURE_TEST(a_job_is_not_delivered_before_its_take_is_durable),
        FIXTURE_TEST(a_claim_is_not_answered_before_its_lease_is_durable),
        FIXTURE_TEST(the_receiver_of_a_reply_may_send_the_next_command_at_once),
        FIXTURE_TEST(an_idle_backend_needs_no_turn),
        FIXTURE_TEST(a_scheduled_job_says_when_the_next_turn_is_due),
        FIXTURE_TEST(a_stream_closed_before_its_job_was_durable_gets_nothing),
        FIXTURE_TEST(a_stream_is_opened_once_and_before_its_jobs),
        FIXTURE_TEST(a_stream_closed_before_it_is_opened_hears_nothing),
        FIXTURE_TEST(a_stream_that_is_opening_when_it_stops_is_refused),
        FIXTURE_TEST(closing_a_stream_gives_its_jobs_to_another),
        FIXTURE_TEST(a_paused_stream_gets_its_job_when_it_is_resumed),
        FIXTURE_TEST(a_claim_that_waits_is_answered_empty_in_time),
        FIXTURE_TEST(a_canceled_claim_is_answered_empty_once),
        FIXTURE_TEST(a_claim_canceled_after_its_hand_out_still_gets_its_jobs),
        FIXTURE_TEST(a_claimed_job_is_renewed_released_and_ended_with_its_token),
        FIXTURE_TEST(a_job_is_read_with_its_runs_and_a_report_names_one_by_its_index),
        FIXTURE_TEST(a_claim_of_one_job_is_repeated_over_a_crash_and_refused_to_others),
        FIXTURE_TEST(everything_acknowledged_is_there_after_a_crash),
        FIXTURE_TEST(stopping_closes_streams_answers_claims_and_refuses_new_ones),
        FIXTURE_TEST(commands_under_way_are_still_answered_while_stopping),
        FIXTURE_TEST(the_owner_of_a_stopped_stream_may_close_another_at_once),
        FIXTURE_TEST(a_list_pages_through_all_jobs_in_id_order_both_ways),
        FIXTURE_TEST(a_full_last_page_says_that_nothing_follows),
        FIXTURE_TEST(what_is_next_is_told_page_by_page_and_not_handed_out),
        FIXTURE_TEST(success_of_many_names_those_that_were_not_in_flight),
        FIXTURE_TEST(queues_that_have_jobs_are_named_in_order),
        FIXTURE_TEST(the_runs_of_an_unknown_job_are_not_found),
    };
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}

int contract_run(const struct contract_driver *driver)
{
    fixture_of(driver);
    print_message("contract of backends: %s\n", driver->name);
    int failed = turns() + contract_kinds(driver->fill != NULL) + contract_events() +
                 contract_policies() + contract_kv() + contract_groups();
    if (driver->fill)
        failed += contract_disk();
    return failed;
}
