/* SPDX-License-Identifier: Apache-2.0 */

/* What remains true after a restart. */

#include "base/array.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct id claim_one(struct rig *r, const struct enqueue *spec)
{
    struct id id = rig_add_spec(r, spec);
    rig_clear(r);
    rig_claim(r, "claimer", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, id);
    return id;
}

static void ready_jobs_are_ready_in_the_same_order(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add_priority(r, "q", 3), c = rig_add(r, "q");
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, b, a, c);
}

static void scheduled_jobs_still_wait_or_have_become_ready_meanwhile(void **state)
{
    R;
    struct id soon = rig_add_later(r, "q", (span){1000}), late = rig_add_later(r, "q", HOUR);
    r->now.ms += 1000;
    rig_restart(r);
    rig_turn(r);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 1);
    assert_int_equal(rig_count(r, "q", STATUS_SCHEDULED), 1);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, soon);
    rig_turn_after(r, HOUR.ms);
    rig_assert_got(r, soon, late);
}

static void a_retry_still_waits_with_its_attempts(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.backoff = (struct curve){CURVE_POWER, {4000}, 0.0, {0}};
    struct id id = claim_one(r, &spec);
    rig_fail(r, id);
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
    assert_int_equal(rig_read(r, id)->state.attempts, 1);
    rig_clear(r);
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, 4999);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
    assert_int_equal(r->got[0].run, 1);
    assert_int_equal(rig_fail(r, id).state.attempts, 2);
}

static void a_leased_job_stays_with_its_claimer(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = HOUR;
    struct id id = claim_one(r, &spec);
    uint64_t token = r->got[0].token;
    rig_restart(r);
    struct run run;
    uint64_t now_token;
    assert_true(engine_live_run(r->e, id, &run, &now_token));
    assert_int_equal(now_token, token);
    assert_true(str_eq(run.worker, STR("claimer")));
    instant end;
    assert_ok(engine_renew(r->e, r->now, (struct run_ref){id, token}, RIG_LEASE, &end));
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){id, token + 2}), ERR_STALE);
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){id, token}));
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_COMPLETED);
}

static void a_lease_that_ran_out_while_the_server_was_down_expires_at_once(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct id id = claim_one(r, &spec);
    rig_confirm(r, id);
    rig_turn(r);
    r->now.ms += RIG_LEASE.ms;
    rig_restart(r);
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_read(r, id)->state.attempts, 1);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_EXPIRED);
}

/* As its holder could not renew it until the server answered. */
static void a_grace_makes_leases_last_as_long_as_they_were_granted_for(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct id id = claim_one(r, &spec);
    rig_confirm(r, id);
    rig_turn(r);
    for (int64_t most = RIG_LEASE.ms / 2; most <= 2 * RIG_LEASE.ms; most *= 4) {
        int64_t grace = most < RIG_LEASE.ms ? most : RIG_LEASE.ms;
        r->now.ms += 5 * RIG_LEASE.ms;
        rig_restart(r);
        engine_leases_grace(r->e, r->now, (span){most});
        assert_int_equal(rig_read(r, id)->state.lease_end.ms, r->now.ms + grace);
        rig_turn_after(r, grace - 1);
        assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
        if (most < RIG_LEASE.ms)
            rig_confirm(r, id);
        rig_turn(r);
    }
    rig_turn_after(r, 1);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_read(r, id)->state.attempts, 1);
}

static void a_grace_shortens_no_lease(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct id id = claim_one(r, &spec);
    instant end = rig_read(r, id)->state.lease_end;
    engine_leases_grace(r->e, r->now, (span){RIG_LEASE.ms / 2});
    assert_int_equal(rig_read(r, id)->state.lease_end.ms, end.ms);
    engine_leases_grace(r->e, r->now, (span){0});
    assert_int_equal(rig_read(r, id)->state.lease_end.ms, end.ms);
}

/* A step of the wall clock that time follows. */
static void leases_are_counted_by_the_steady_time(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct id id = claim_one(r, &spec);
    rig_confirm(r, id);
    r->now.ms += RIG_LEASE.ms;
    engine_set_lead(r->e, RIG_LEASE);
    rig_turn_after(r, RIG_LEASE.ms - 1);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    assert_int_equal(rig_read(r, id)->state.lease_end.ms, r->now.ms + 1);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + 1);
    /* Time stands still until the wall clock has caught up. */
    engine_set_lead(r->e, (span){RIG_LEASE.ms - 1});
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_READY);
}

static void ended_jobs_are_kept_and_purged_in_time(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    spec.completed_retention = HOUR;
    spec.dead_retention = (span){2 * HOUR.ms};
    struct id completed = claim_one(r, &spec);
    rig_succeed(r, completed);
    struct id dead = claim_one(r, &spec);
    rig_fail(r, dead);
    rig_restart(r);
    assert_int_equal(rig_status(r, completed), STATUS_COMPLETED);
    assert_int_equal(rig_status(r, dead), STATUS_DEAD);
    assert_int_equal(rig_count(r, "q", STATUS_COMPLETED), 1);
    assert_int_equal(rig_count(r, "q", STATUS_DEAD), 1);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_status(r, completed), STATUS_GONE);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_status(r, dead), STATUS_GONE);
    assert_int_equal(r->records.count, 0);
}

/* --- runs that the stop cut off --- */

static void a_streams_run_is_recorded_as_lost_once(void **state)
{
    R;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    instant taken = r->now;
    r->now.ms += 500;
    rig_restart(r);
    assert_int_equal(rig_takes_count(r), 0);
    const struct run *run = rig_run(r, a, 0);
    assert_int_equal(run->outcome, OUTCOME_LOST);
    assert_int_equal(run->taken_at.ms, taken.ms);
    assert_int_equal(run->ended_at.ms, r->now.ms);
    assert_int_equal(run->attempt, 0);
    assert_true(str_eq(run->reason, STR("ready again: the server stopped while a worker held it")));
    assert_int_equal(rig_read(r, a)->state.runs, 1);
    assert_int_equal(rig_read(r, a)->state.attempts, 0);
    assert_int_equal(rig_status(r, b), STATUS_READY);
    rig_restart(r); /* the port fails the test if a run is recorded twice */
    assert_int_equal(rig_read(r, a)->state.runs, 1);
    rig_clear(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(r->got[0].run, 1);
}

static void runs_of_one_take_that_had_ended_are_left_alone(void **state)
{
    R;
    struct enqueue keep = rig_spec("q");
    keep.completed_retention = HOUR;
    struct id done = rig_add_spec(r, &keep), deleted = rig_add(r, "q"), failed = rig_add(r, "q"),
              released = rig_add(r, "q"), cut_off = rig_add(r, "q");
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    rig_succeed(r, done);
    rig_succeed(r, deleted);
    rig_fail(r, failed);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, released), (struct str){0}));
    rig_restart(r);
    assert_int_equal(rig_status(r, done), STATUS_COMPLETED);
    assert_int_equal(rig_status(r, deleted), STATUS_GONE);
    assert_int_equal(rig_status(r, failed), STATUS_SCHEDULED);
    assert_int_equal(rig_run(r, failed, 0)->outcome, OUTCOME_FAILED);
    assert_int_equal(rig_run(r, released, 0)->outcome, OUTCOME_RETURNED);
    assert_int_equal(rig_run(r, cut_off, 0)->outcome, OUTCOME_LOST);
    assert_int_equal(rig_takes_count(r), 0);
}

static void several_takes_of_one_job_end_only_the_newest_run(void **state)
{
    R;
    struct id other = rig_add(r, "other"), id = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_stream(r, "o", "other", 1); /* keeps the first takes record alive */
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_stream(r, "w2", "q", 1);
    rig_turn(r);
    assert_int_equal(rig_takes_count(r), 2);
    rig_restart(r);
    assert_true(str_eq(rig_run(r, id, 0)->reason, STR("ready again: the worker's stream closed")));
    assert_int_equal(rig_run(r, id, 1)->outcome, OUTCOME_LOST);
    assert_int_equal(rig_run(r, other, 0)->outcome, OUTCOME_LOST);
    assert_int_equal(rig_read(r, id)->state.runs, 2);
}

static void take_records_after_a_restart_do_not_overwrite_earlier_ones(void **state)
{
    R;
    struct id a = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    for (uint32_t n = 0; n < 4; n++) {
        rig_restart(r);
        assert_int_equal(rig_run(r, a, n)->outcome, OUTCOME_LOST);
        rig_stream(r, "w", "q", 1);
        rig_turn(r);
        assert_int_equal(rig_takes_count(r), 1);
    }
}

/* --- the clock --- */

static void a_clock_gone_back_makes_ready_jobs_wait_but_loses_none(void **state)
{
    R;
    struct id held = rig_add(r, "q"), ready = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    r->now.ms -= HOUR.ms;
    rig_restart(r);
    assert_int_equal(rig_run(r, held, 0)->outcome, OUTCOME_LOST);
    rig_clear(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_turn_after(r, HOUR.ms);
    rig_assert_got(r, held, ready);
}

static void ids_grow_though_the_clock_has_gone_back(void **state)
{
    R;
    struct id before = rig_add(r, "q");
    r->now.ms -= HOUR.ms;
    rig_restart(r);
    assert_true(id_cmp(rig_add(r, "q"), before) > 0);
}

static void every_status_can_be_removed_after_the_clock_has_gone_back(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    spec.completed_retention = HOUR;
    struct id completed = claim_one(r, &spec);
    rig_succeed(r, completed);
    struct id dead = claim_one(r, &spec);
    rig_fail(r, dead);
    struct id leased = claim_one(r, &spec);
    struct id streamed = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct id ready = rig_add(r, "q"), scheduled = rig_add_later(r, "q", HOUR);
    r->now.ms -= 5 * HOUR.ms;
    rig_restart(r);
    const struct id all[] = {completed, dead, leased, streamed, ready, scheduled};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_ok(engine_remove(r->e, r->now, all[i]));
        engine_check(r->e);
    }
    assert_int_equal(r->records.count, 0);
    instant due;
    assert_false(engine_next_due(r->e, &due));
}

static void what_a_read_says_agrees_with_the_counts_after_the_clock_has_gone_back(void **state)
{
    R;
    struct id held = rig_add(r, "q"), ready = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    r->now.ms -= HOUR.ms;
    rig_restart(r);
    uint64_t counts[STATUS_COUNT] = {0};
    counts[rig_status(r, held)]++;
    counts[rig_status(r, ready)]++;
    assert_int_equal(rig_count(r, "q", STATUS_READY), counts[STATUS_READY]);
    assert_int_equal(rig_count(r, "q", STATUS_SCHEDULED), counts[STATUS_SCHEDULED]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ready_jobs_are_ready_in_the_same_order),
        TEST(scheduled_jobs_still_wait_or_have_become_ready_meanwhile),
        TEST(a_retry_still_waits_with_its_attempts),
        TEST(a_leased_job_stays_with_its_claimer),
        TEST(a_lease_that_ran_out_while_the_server_was_down_expires_at_once),
        TEST(a_grace_makes_leases_last_as_long_as_they_were_granted_for),
        TEST(a_grace_shortens_no_lease),
        TEST(leases_are_counted_by_the_steady_time),
        TEST(ended_jobs_are_kept_and_purged_in_time),
        TEST(a_streams_run_is_recorded_as_lost_once),
        TEST(runs_of_one_take_that_had_ended_are_left_alone),
        TEST(several_takes_of_one_job_end_only_the_newest_run),
        TEST(take_records_after_a_restart_do_not_overwrite_earlier_ones),
        TEST(a_clock_gone_back_makes_ready_jobs_wait_but_loses_none),
        TEST(ids_grow_though_the_clock_has_gone_back),
        TEST(every_status_can_be_removed_after_the_clock_has_gone_back),
        TEST(what_a_read_says_agrees_with_the_counts_after_the_clock_has_gone_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
