/* SPDX-License-Identifier: Apache-2.0 */

/* A preempted run may continue for a while after its failure: the next one waits for its end. */

#include "rig.h"

#define R       struct rig *r = *state
#define BACKOFF 10000

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->settings.retry = (struct retry_defaults){3, {CURVE_POWER, {BACKOFF - 1000}, 1, {0}, {-1}}};
    rig_restart(r);
    return 0;
}

#define GRACE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

struct preempted {
    struct id id;
    uint64_t token;
    uint32_t run;
};

/* A job whose newest run was preempted just now. */
static struct preempted preempt(struct rig *r, int64_t grace_ms)
{
    struct preempted p = {.id = rig_add(r, "q")};
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn(r);
    p.token = r->got[0].token;
    struct failure_report report = {
        .ref = {p.id, p.token},
        .failure = {.condition = CONDITION_PREEMPTED, .run_time = {-1}},
        .retry_at = INSTANT_NONE,
        .grace = {grace_ms},
    };
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
    return p;
}

static struct err terminated(struct rig *r, struct preempted p)
{
    struct job job;
    struct err err =
        engine_terminated(r->e, r->now, (struct run_ref){p.id, p.token}, p.run, &r->strings, &job);
    rig_turn(r);
    return err;
}

static void assert_ready_in(struct rig *r, struct preempted p, int64_t ms)
{
    const struct job_state *s = &rig_read(r, p.id)->state;
    assert_int_equal(s->ready_at.ms, r->now.ms + ms);
    assert_int_equal(s->status, ms > 0 ? STATUS_SCHEDULED : STATUS_READY);
}

static void the_next_run_waits_for_the_longer_of_backoff_and_grace_period(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    assert_ready_in(r, p, 60000);
    assert_int_equal(rig_run(r, p.id, 0)->grace_end.ms, r->now.ms + 60000);
    assert_int_equal(rig_run(r, p.id, 0)->retry_at.ms, r->now.ms + 60000);
    assert_true(str_eq(rig_read(r, p.id)->state.reason,
                       STR("retry 1 of 3, default backoff, in 10 s, but not before the preempted "
                           "run has ended or 1 min are over")));
    struct preempted q = preempt(r, 2000);
    assert_ready_in(r, q, BACKOFF);
}

static void once_the_old_run_has_ended_only_the_backoff_is_left(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    r->now.ms += 4000;
    assert_ok(terminated(r, p));
    assert_ready_in(r, p, BACKOFF - 4000);
    assert_int_equal(rig_read(r, p.id)->state.extras.terminated_at.ms, r->now.ms);
    rig_clear(r);
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, BACKOFF - 4001);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, p.id);
    assert_int_equal(rig_read(r, p.id)->state.extras.grace_token, 0);
}

static void after_the_backoff_the_end_of_the_old_run_makes_it_ready_at_once(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    r->now.ms += BACKOFF + 5;
    assert_ok(terminated(r, p));
    assert_ready_in(r, p, 0);
}

static void without_a_word_it_is_ready_when_the_grace_period_is_over(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn_after(r, 59999);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, p.id);
}

static void the_same_word_again_changes_nothing(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    assert_ok(terminated(r, p));
    instant ready_at = rig_read(r, p.id)->state.ready_at;
    r->now.ms += 5;
    assert_ok(terminated(r, p));
    assert_int_equal(rig_read(r, p.id)->state.ready_at.ms, ready_at.ms);
}

static void the_word_of_another_run_is_refused(void **state)
{
    R;
    struct preempted p = preempt(r, 60000), other = p;
    other.token ^= 4;
    assert_code(terminated(r, other), ERR_STALE);
    other = p;
    other.run = 1;
    assert_code(terminated(r, other), ERR_STALE);
    assert_ready_in(r, p, 60000);
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, 60000);
    assert_code(terminated(r, p), ERR_STALE); /* the next run has begun */
    rig_succeed(r, p.id);
    assert_code(terminated(r, p), ERR_NOT_FOUND);
}

static void a_run_in_flight_has_not_ended(void **state)
{
    R;
    struct preempted p = {.id = rig_add(r, "q")};
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    p.token = r->got[0].token;
    assert_code(terminated(r, p), ERR_UNPROCESSABLE);
}

static void a_restart_remembers_whose_end_is_awaited(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    rig_restart(r);
    assert_ready_in(r, p, 60000);
    assert_ok(terminated(r, p));
    assert_ready_in(r, p, BACKOFF);
    rig_restart(r);
    assert_ready_in(r, p, BACKOFF);
}

static void a_time_set_by_hand_is_not_brought_forward(void **state)
{
    R;
    struct preempted p = preempt(r, 60000);
    struct patch patch = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, (span){99000})};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, p.id, &patch, &r->strings, &job));
    assert_code(terminated(r, p), ERR_STALE);
    assert_ready_in(r, p, 99000);
}

static void the_time_that_the_worker_asked_for_is_a_backoff(void **state)
{
    R;
    struct preempted p = {.id = rig_add(r, "q")};
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    p.token = r->got[0].token;
    struct failure_report report = {
        .ref = {p.id, p.token},
        .failure = {.condition = CONDITION_PREEMPTED, .run_time = {-1}},
        .retry_at = instant_add(r->now, (span){500}),
        .grace = {60000},
    };
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    assert_ready_in(r, p, 60000);
    assert_ok(terminated(r, p));
    assert_ready_in(r, p, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GRACE_TEST(the_next_run_waits_for_the_longer_of_backoff_and_grace_period),
        GRACE_TEST(once_the_old_run_has_ended_only_the_backoff_is_left),
        GRACE_TEST(after_the_backoff_the_end_of_the_old_run_makes_it_ready_at_once),
        GRACE_TEST(without_a_word_it_is_ready_when_the_grace_period_is_over),
        GRACE_TEST(the_same_word_again_changes_nothing),
        GRACE_TEST(the_word_of_another_run_is_refused),
        GRACE_TEST(a_run_in_flight_has_not_ended),
        GRACE_TEST(a_restart_remembers_whose_end_is_awaited),
        GRACE_TEST(a_time_set_by_hand_is_not_brought_forward),
        GRACE_TEST(the_time_that_the_worker_asked_for_is_a_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
