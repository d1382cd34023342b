/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of a run's time. */

#include "rig.h"

#define R struct rig *r = *state

static struct id add_limited(struct rig *r, uint64_t ms)
{
    struct enqueue spec = rig_spec("q");
    spec.options.max_run = ms;
    spec.retry_limit = 1;
    spec.dead_retention = (span){86400000};
    return rig_add_spec(r, &spec);
}

static void assert_over(struct rig *r, struct id id, const char *evidence)
{
    const struct run *run = rig_run(r, id, 0);
    assert_non_null(run);
    assert_int_equal(run->outcome, OUTCOME_FAILED);
    assert_int_equal(run->attempt, 1);
    assert_int_equal(run->failure.culprit, CULPRIT_DEADLINE);
    assert_int_equal(run->failure.condition, CONDITION_DEADLINE_EXCEEDED);
    assert_true(str_eq(run->failure.culprit_evidence, str_from(evidence)));
    assert_int_equal(run->ended_at.ms, r->now.ms);
}

static void no_renewal_goes_beyond_it(void **state)
{
    R;
    struct id id = add_limited(r, 100000);
    instant end;
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    struct run_ref ref = rig_ref(r, id);
    instant limit = instant_add(r->now, (span){100000});
    assert_int_equal(r->got[0].lease_end.ms, r->now.ms + RIG_LEASE.ms);
    rig_turn_after(r, 50000);
    assert_ok(engine_renew(r->e, r->now, ref, RIG_LEASE, &end));
    assert_int_equal(end.ms, limit.ms);
    rig_turn_after(r, 49999);
    assert_ok(engine_renew(r->e, r->now, ref, RIG_LEASE, &end));
    assert_int_equal(end.ms, limit.ms);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    r->now = limit;
    assert_code(engine_renew(r->e, r->now, ref, RIG_LEASE, &end), ERR_RUN_LIMIT);
    rig_turn(r);
    assert_over(r, id, "the run took longer than 1 min 40 s, the max_run_ms of the job");
    assert_code(engine_renew(r->e, r->now, ref, RIG_LEASE, &end), ERR_RUN_LIMIT);
    assert_code(engine_succeed(r->e, r->now, ref), ERR_RUN_LIMIT);
}

static void a_stream_does_not_keep_its_job_beyond_it(void **state)
{
    R;
    rig_set(r, "q", .max_run = {5000});
    struct id id = add_limited(r, 0);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct run_ref ref = rig_ref(r, id);
    rig_turn_after(r, 4999);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    assert_over(r, id, "the run took longer than 5 s, the max_run_ms of its queue");
    assert_code(engine_succeed(r->e, r->now, ref), ERR_RUN_LIMIT);
    struct id next = add_limited(r, 0);
    rig_turn(r);
    assert_int_equal(rig_status(r, next), STATUS_IN_FLIGHT);
}

static void it_counts_from_the_begin_after_a_restart(void **state)
{
    R;
    struct id id = add_limited(r, 100000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_confirm(r, id);
    rig_turn_after(r, 10000);
    rig_restart(r);
    engine_leases_grace(r->e, r->now, (span){3600000});
    rig_confirm(r, id);
    rig_turn_after(r, 50000);
    rig_confirm(r, id);
    rig_turn_after(r, 39999);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    assert_over(r, id, "the run took longer than 1 min 40 s, the max_run_ms of the job");
}

static void a_claim_that_a_restart_may_have_cut_off_is_free(void **state)
{
    R;
    struct id id = add_limited(r, 5000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_restart(r);
    rig_turn_after(r, 5000);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_run(r, id, 0)->attempt, 0);
    assert_int_equal(rig_run(r, id, 0)->failure.culprit, CULPRIT_SERVER);
}

static void steps_of_the_clock_do_not_move_it(void **state)
{
    R;
    struct id id = add_limited(r, 50000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    engine_set_lead(r->e, (span){40000});
    rig_turn_after(r, 40000 + 49999);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    assert_int_equal(rig_run(r, id, 0)->failure.culprit, CULPRIT_DEADLINE);
}

static void a_job_that_has_retries_left_is_tried_again(void **state)
{
    R;
    struct id id = add_limited(r, 1000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_turn_after(r, 1000);
    assert_true(instant_is_set(rig_run(r, id, 0)->retry_at));
    rig_turn_after(r, 3600000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_run(r, id, 1)->failure.culprit, CULPRIT_DEADLINE);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_renewal_goes_beyond_it),
        TEST(a_stream_does_not_keep_its_job_beyond_it),
        TEST(it_counts_from_the_begin_after_a_restart),
        TEST(a_claim_that_a_restart_may_have_cut_off_is_free),
        TEST(steps_of_the_clock_do_not_move_it),
        TEST(a_job_that_has_retries_left_is_tried_again),
    };
    return cmocka_run_group_tests_name("engine_overtime", tests, NULL, NULL);
}
