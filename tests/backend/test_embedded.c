/* SPDX-License-Identifier: Apache-2.0 */

/* Turns: nothing leaves before it is durable, and what does leave goes to the right one. */

#include "yard.h"

#define Y             struct yard *y = *state
#define HOLD          ((struct memory_faults){.hold = true})
#define NO_FAULTS     ((struct memory_faults){0})
#define MINUTE        ((span){60000})
#define run_cmd(k, i) ((struct command){.kind = (k), .run = {.id = (i)}})

/* --- durable first --- */

static void no_reply_leaves_before_its_commit_is_durable(void **state)
{
    Y;
    struct answer a = {0};
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    for (int i = 0; i < 5; i++)
        yard_turn(y);
    assert_int_equal(a.came, 0);
    memory_release(y->store);
    assert_int_equal(a.came, 0);
    yard_turn(y);
    assert_int_equal(a.came, 1);
    assert_ok(a.err);
}

static void a_read_of_what_is_not_durable_waits_for_it_too(void **state)
{
    Y;
    struct answer a = {0}, read = {0}, count = {0};
    struct id id = yard_add(y, "q");
    yard_faults(y, HOLD);
    yard_send(y, (struct command){.kind = CMD_REMOVE, .id = id}, &a);
    yard_turn(y);
    yard_send(y, (struct command){.kind = CMD_READ, .id = id}, &read);
    yard_send(y, (struct command){.kind = CMD_COUNT}, &count);
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(read.came + count.came, 0);
    memory_release(y->store);
    yard_settle(y);
    assert_int_equal(read.came, 1);
    assert_code(read.err, ERR_NOT_FOUND);
    assert_int_equal(count.count, 0);
}

static void a_job_is_not_delivered_before_its_take_is_durable(void **state)
{
    Y;
    struct stream s = {0};
    struct answer a = {0};
    yard_stream(y, "q", 10, &s);
    yard_settle(y);
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(s.count, 0);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(s.count, 1);
    assert_id(s.ids[0], a.ids[0]);
}

static void a_claim_is_not_answered_before_its_lease_is_durable(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer a = {0};
    yard_faults(y, HOLD);
    yard_claim(y, "q", 10, (span){0}, &a);
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(a.came, 0);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], id);
}

static void all_commands_of_a_turn_share_one_commit(void **state)
{
    Y;
    struct answer a[8] = {0};
    yard_settle(y);
    unsigned before = y->commits;
    for (int i = 0; i < 8; i++)
        yard_enqueue(y, "q", &a[i]);
    yard_settle(y);
    assert_int_equal(y->commits, before + 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(a[i].came, 1);
}

static void the_next_batch_is_stepped_while_one_commits(void **state)
{
    Y;
    struct answer a = {0}, b = {0}, c = {0};
    yard_settle(y);
    unsigned before = y->commits;
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    yard_enqueue(y, "q", &b);
    yard_turn(y);
    yard_enqueue(y, "q", &c);
    yard_turn(y);
    uint64_t counts[STATUS_COUNT];
    engine_count(embedded_engine(y->b), STR("q"), counts);
    assert_int_equal(counts[STATUS_READY], 3);
    assert_int_equal(y->commits, before + 1);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(b.came + c.came, 0);
    assert_int_equal(y->commits, before + 2); /* both at once */
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(b.came + c.came, 2);
}

static void a_job_can_be_taken_and_ended_while_its_enqueue_is_on_its_way(void **state)
{
    Y;
    struct answer a = {0}, done = {0};
    yard_settle(y);
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    struct stream s = {0};
    yard_stream(y, "q", 1, &s);
    yard_turn(y);
    struct id live;
    assert_true(engine_next_of(embedded_engine(y->b), STATUS_IN_FLIGHT, (struct id_place){0}, false,
                               &live));
    yard_send(y, run_cmd(CMD_SUCCEED, live), &done);
    memory_release(y->store);
    yard_turn(y);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came + done.came, 2);
    assert_ok(done.err);
    yard_faults(y, NO_FAULTS);
    assert_int_equal(yard_status(y, a.ids[0]), STATUS_GONE);
}

struct chain {
    struct yard *y;
    struct answer next;
};

static void send_next(void *ctx)
{
    struct chain *c = ctx;
    yard_enqueue(c->y, "q", &c->next);
}

static void the_receiver_of_a_reply_may_send_the_next_command_at_once(void **state)
{
    Y;
    struct chain c = {.y = y};
    struct answer first = {.then = send_next, .ctx = &c};
    yard_enqueue(y, "q", &first);
    yard_settle(y);
    assert_int_equal(c.next.came, 1);
    assert_ok(c.next.err);
}

static void commits_are_synced_unless_the_operator_chose_otherwise(void **state)
{
    Y;
    yard_add(y, "q");
    assert_int_equal(y->syncs, y->commits);
    y->settings.sync = false;
    yard_restart(y);
    y->syncs = 0;
    yard_add(y, "q");
    assert_int_equal(y->syncs, 0);
}

static void enqueues_alone_are_synced_if_the_operator_says_so(void **state)
{
    Y;
    struct answer claimed = {0};
    y->settings.sync = false;
    y->settings.sync_enqueues = true;
    yard_restart(y);
    y->syncs = y->commits = 0;
    yard_add(y, "q");
    assert_true(y->commits > 0);
    assert_int_equal(y->syncs, y->commits);
    yard_claim(y, "q", 1, (span){0}, &claimed);
    yard_settle(y);
    assert_int_equal(claimed.came, 1);
    assert_true(y->commits > y->syncs);
}

/* --- when the next turn is due --- */

static void an_idle_backend_needs_no_turn(void **state)
{
    Y;
    instant at;
    yard_settle(y);
    assert_true(backend_is_idle(y->b));
    assert_false(backend_next_due(y->b, &at));
    struct answer a = {0};
    yard_enqueue(y, "q", &a);
    assert_false(backend_is_idle(y->b));
    assert_true(backend_next_due(y->b, &at));
    assert_true(at.ms <= y->now.ms);
}

static void a_scheduled_job_says_when_the_next_turn_is_due(void **state)
{
    Y;
    struct enqueue spec = yard_spec("q");
    struct answer a;
    spec.ready_at = instant_add(y->now, MINUTE);
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    instant at;
    assert_true(backend_next_due(y->b, &at));
    assert_int_equal(at.ms, y->now.ms + MINUTE.ms);
    struct stream s = {0};
    yard_stream(y, "q", 1, &s);
    yard_settle(y);
    assert_int_equal(s.count, 0);
    y->now.ms += MINUTE.ms;
    yard_settle(y);
    assert_int_equal(s.count, 1);
}

/* --- streams --- */

static void a_stream_closed_before_its_job_was_durable_gets_nothing(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct stream s = {0};
    yard_faults(y, HOLD);
    yard_stream(y, "q", 10, &s);
    yard_turn(y);
    backend_stream_close(y->b, s.handle);
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_settle(y);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.closed, 0);
    assert_int_equal(yard_status(y, id), STATUS_READY);
}

static void closing_a_stream_gives_its_jobs_to_another(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct stream first = {0}, second = {0};
    yard_stream(y, "q", 10, &first);
    yard_settle(y);
    yard_stream(y, NULL, 10, &second);
    yard_settle(y);
    assert_int_equal(second.count, 0);
    backend_stream_close(y->b, first.handle);
    yard_settle(y);
    assert_int_equal(second.count, 1);
    assert_id(second.ids[0], id);
}

static void a_paused_stream_gets_its_job_when_it_is_resumed(void **state)
{
    Y;
    struct stream s = {0};
    yard_stream(y, "q", 10, &s);
    backend_stream_pause(y->b, s.handle, true);
    yard_add(y, "q");
    assert_int_equal(s.count, 0);
    backend_stream_pause(y->b, s.handle, false);
    yard_settle(y);
    assert_int_equal(s.count, 1);
}

static struct id add_large(struct yard *y, size_t bytes)
{
    char *payload = test_malloc(bytes);
    struct answer a = {0};
    struct enqueue spec = yard_spec("q");
    memset(payload, '1', bytes);
    spec.payload = (struct str){payload, bytes};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    test_free(payload);
    return a.ids[0];
}

/* Nobody knows whether its peer reads: the rest stays ready for others. */
static void a_stream_is_not_handed_much_more_than_has_left(void **state)
{
    Y;
    struct stream greedy = {0}, other = {0};
    for (int i = 0; i < 6; i++)
        add_large(y, 600 << 10);
    yard_faults(y, HOLD);
    yard_stream(y, "q", 100, &greedy);
    yard_turn(y);
    assert_int_equal(greedy.count, 0); /* two are on their way to the disk */
    yard_stream(y, "q", 1, &other);
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(greedy.count, 2);
    for (int i = 0; i < 10; i++)
        yard_turn(y);
    assert_int_equal(greedy.count, 5);
    assert_int_equal(other.count, 1);
}

/* --- claims --- */

static void a_claim_that_waits_is_answered_empty_in_time(void **state)
{
    Y;
    struct answer a = {0};
    yard_claim(y, "q", 1, MINUTE, &a);
    yard_settle(y);
    instant at;
    assert_true(backend_next_due(y->b, &at));
    assert_int_equal(at.ms, y->now.ms + MINUTE.ms);
    yard_turn_after(y, MINUTE.ms - 1);
    yard_turn(y);
    assert_int_equal(a.came, 0);
    y->now.ms++;
    yard_settle(y);
    assert_int_equal(a.came, 1);
    assert_ok(a.err);
    assert_int_equal(a.count, 0);
}

static void a_canceled_claim_is_answered_empty_once(void **state)
{
    Y;
    struct answer a = {0};
    struct backend_claim *c = yard_claim(y, "q", 1, MINUTE, &a);
    yard_settle(y);
    backend_claim_cancel(y->b, c);
    struct id id = yard_add(y, "q");
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 0);
    assert_int_equal(yard_status(y, id), STATUS_READY);
}

static void a_claim_canceled_after_its_hand_out_still_gets_its_jobs(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer a = {0};
    yard_faults(y, HOLD);
    struct backend_claim *c = yard_claim(y, "q", 1, MINUTE, &a);
    yard_turn(y);
    backend_claim_cancel(y->b, c);
    memory_release(y->store);
    yard_settle(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], id);
}

static void a_claimed_job_is_renewed_released_and_ended_with_its_token(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer claim = {0}, a;
    yard_claim(y, "q", 1, MINUTE, &claim);
    yard_settle(y);
    struct run_ref ref = {id, claim.tokens[0]}, wrong = {id, claim.tokens[0] + 2};
    y->now.ms += 1000;
    yard_ask(y, (struct command){.kind = CMD_RENEW, .renew = {ref, MINUTE}}, &a);
    assert_ok(a.err);
    assert_int_equal(a.lease_end.ms, y->now.ms + MINUTE.ms);
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = wrong}, &a);
    assert_code(a.err, ERR_STALE);
    yard_read(y, id, &a);
    assert_true(a.has_live);
    assert_int_equal(a.token, claim.tokens[0]);
    yard_ask(y, (struct command){.kind = CMD_RELEASE, .run = ref}, &a);
    assert_ok(a.err);
    assert_int_equal(yard_status(y, id), STATUS_READY);
}

/* --- restarts --- */

static void everything_acknowledged_is_there_after_a_crash(void **state)
{
    Y;
    struct id ready = yard_add(y, "q"), leased = yard_add(y, "l"), held = yard_add(y, "s");
    struct answer claim = {0}, lost = {0}, runs;
    struct stream s = {0};
    yard_claim(y, "l", 1, MINUTE, &claim);
    yard_stream(y, "s", 1, &s);
    yard_settle(y);
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &lost);
    yard_turn(y);
    yard_crash(y);
    assert_int_equal(lost.came, 0);
    assert_int_equal(yard_status(y, ready), STATUS_READY);
    assert_int_equal(yard_status(y, leased), STATUS_IN_FLIGHT);
    assert_int_equal(yard_status(y, held), STATUS_READY);
    yard_ask(y, (struct command){.kind = CMD_RUNS, .runs = {.id = held, .from = -1, .limit = 10}},
             &runs);
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.runs[0].outcome, OUTCOME_LOST);
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {leased, claim.tokens[0]}}, &a);
    assert_ok(a.err);
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_int_equal(a.count, 2);
}

/* --- stopping --- */

static void stopping_closes_streams_answers_claims_and_refuses_new_ones(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct stream s = {0}, late = {0};
    struct answer waiting = {0}, late_claim = {0};
    yard_stream(y, "q", 1, &s);
    yard_claim(y, "empty", 1, MINUTE, &waiting);
    yard_settle(y);
    assert_int_equal(s.count, 1);
    backend_stop(y->b);
    backend_stop(y->b);
    assert_int_equal(s.closed, 1);
    yard_settle(y);
    assert_int_equal(waiting.came, 1);
    assert_ok(waiting.err);
    assert_int_equal(waiting.count, 0);
    assert_code(yard_try_stream(y, "q", 1, &late), ERR_STOPPING);
    yard_claim(y, "q", 1, MINUTE, &late_claim);
    yard_settle(y);
    assert_code(late_claim.err, ERR_STOPPING);
    assert_int_equal(yard_status(y, id), STATUS_READY);
    assert_true(backend_is_idle(y->b));
}

static void commands_under_way_are_still_answered_while_stopping(void **state)
{
    Y;
    struct answer a = {0}, b = {0};
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    backend_stop(y->b);
    yard_enqueue(y, "q", &b);
    yard_turn(y);
    assert_false(backend_is_idle(y->b));
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_settle(y);
    assert_int_equal(a.came + b.came, 2);
    assert_ok(a.err);
    assert_ok(b.err);
}

struct pair {
    struct yard *y;
    struct stream *other;
};

static void close_other(void *ctx)
{
    struct pair *p = ctx;
    if (p->other->closed == 0)
        backend_stream_close(p->y->b, p->other->handle);
}

static void the_owner_of_a_stopped_stream_may_close_another_at_once(void **state)
{
    Y;
    yard_add(y, "q");
    yard_add(y, "q");
    struct stream s[2] = {0};
    struct pair p[2] = {{y, &s[1]}, {y, &s[0]}};
    for (int i = 0; i < 2; i++) {
        s[i].on_closed = close_other;
        s[i].ctx = &p[i];
        yard_stream(y, "q", 1, &s[i]);
    }
    yard_settle(y);
    backend_stop(y->b);
    yard_settle(y);
    assert_int_equal(s[0].closed + s[1].closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_reply_leaves_before_its_commit_is_durable),
        TEST(a_read_of_what_is_not_durable_waits_for_it_too),
        TEST(a_job_is_not_delivered_before_its_take_is_durable),
        TEST(a_claim_is_not_answered_before_its_lease_is_durable),
        TEST(all_commands_of_a_turn_share_one_commit),
        TEST(the_next_batch_is_stepped_while_one_commits),
        TEST(a_job_can_be_taken_and_ended_while_its_enqueue_is_on_its_way),
        TEST(the_receiver_of_a_reply_may_send_the_next_command_at_once),
        TEST(commits_are_synced_unless_the_operator_chose_otherwise),
        TEST(enqueues_alone_are_synced_if_the_operator_says_so),
        TEST(an_idle_backend_needs_no_turn),
        TEST(a_scheduled_job_says_when_the_next_turn_is_due),
        TEST(a_stream_closed_before_its_job_was_durable_gets_nothing),
        TEST(closing_a_stream_gives_its_jobs_to_another),
        TEST(a_paused_stream_gets_its_job_when_it_is_resumed),
        TEST(a_stream_is_not_handed_much_more_than_has_left),
        TEST(a_claim_that_waits_is_answered_empty_in_time),
        TEST(a_canceled_claim_is_answered_empty_once),
        TEST(a_claim_canceled_after_its_hand_out_still_gets_its_jobs),
        TEST(a_claimed_job_is_renewed_released_and_ended_with_its_token),
        TEST(everything_acknowledged_is_there_after_a_crash),
        TEST(stopping_closes_streams_answers_claims_and_refuses_new_ones),
        TEST(commands_under_way_are_still_answered_while_stopping),
        TEST(the_owner_of_a_stopped_stream_may_close_another_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
