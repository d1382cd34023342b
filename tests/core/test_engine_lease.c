/* SPDX-License-Identifier: Apache-2.0 */

/* Leases on record: one record per turn, which a restart goes on from. */

#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct run_ref ref_of(const struct rig *r, size_t i)
{
    return (struct run_ref){.id = r->got[i].id, .token = r->got[i].token};
}

/* Three jobs that one claim has got. */
static void claim_three(struct rig *r)
{
    for (int i = 0; i < 3; i++)
        rig_add(r, "q");
    rig_clear(r);
    rig_claim(r, "w", "q", 3, (span){0});
    rig_turn(r);
    assert_int_equal(r->got_count, 3);
}

static void a_claim_of_many_jobs_is_one_record_that_goes_with_the_last(void **state)
{
    R;
    for (int i = 0; i < 3; i++)
        rig_add(r, "q");
    rig_claim(r, "w", "q", 3, (span){0});
    unsigned before = r->writes;
    rig_turn(r);
    assert_int_equal(r->writes, before + 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rig_takes_count(r), 1);
        rig_succeed(r, r->got[i].id);
    }
    assert_int_equal(rig_takes_count(r), 0);
}

static void a_job_shows_its_lease_as_if_it_were_stored_with_it(void **state)
{
    R;
    claim_three(r);
    for (int i = 0; i < 2; i++, rig_restart(r)) {
        const struct job_state s = rig_read(r, r->got[1].id)->state;
        assert_int_equal(s.status, STATUS_IN_FLIGHT);
        assert_int_equal(s.runs, 1);
        assert_int_equal(s.token, r->got[1].token);
        assert_int_equal(s.lease_end.ms, r->now.ms + RIG_LEASE.ms);
        assert_true(str_eq(s.worker, STR("w")));
    }
}

static void a_renewal_moves_the_lease_to_a_record_of_its_own(void **state)
{
    R;
    instant end;
    claim_three(r);
    rig_turn_after(r, 1000);
    unsigned before = r->writes;
    assert_ok(engine_renew(r->e, r->now, ref_of(r, 0), HOUR, &end));
    assert_ok(engine_renew(r->e, r->now, ref_of(r, 2), HOUR, &end));
    rig_turn(r);
    assert_int_equal(r->writes, before + 1);
    assert_int_equal(rig_takes_count(r), 2);
    rig_succeed(r, r->got[1].id);
    assert_int_equal(rig_takes_count(r), 1);
    rig_restart(r);
    assert_int_equal(rig_read(r, r->got[0].id)->state.lease_end.ms, end.ms);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 2);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 0);
    assert_int_equal(rig_takes_count(r), 0);
}

/* The older record is kept by a run that was not renewed. */
static void of_two_records_of_a_run_the_newer_one_counts(void **state)
{
    R;
    instant end;
    claim_three(r);
    for (int i = 0; i < 3; i++) {
        rig_turn_after(r, 1000);
        assert_ok(engine_renew(r->e, r->now, ref_of(r, 1), HOUR, &end));
        rig_turn(r);
        assert_int_equal(rig_takes_count(r), 2);
        rig_restart(r);
        assert_int_equal(rig_takes_count(r), 2);
        assert_int_equal(rig_read(r, r->got[1].id)->state.lease_end.ms, end.ms);
    }
    rig_succeed(r, r->got[0].id);
    rig_succeed(r, r->got[2].id);
    assert_int_equal(rig_takes_count(r), 1);
}

static void a_claim_after_a_restart_leaves_the_record_of_the_one_before(void **state)
{
    R;
    struct id ids[3];
    uint64_t tokens[3];
    for (size_t i = 0; i < COUNT(ids); i++, rig_restart(r)) {
        ids[i] = rig_add(r, "q");
        rig_clear(r);
        rig_claim(r, "w", "q", 1, (span){0});
        rig_turn(r);
        assert_int_equal(r->got_count, 1);
        tokens[i] = r->got[0].token;
    }
    for (size_t i = 0; i < COUNT(ids); i++) {
        assert_int_equal(rig_read(r, ids[i])->state.status, STATUS_IN_FLIGHT);
        assert_int_equal(rig_read(r, ids[i])->state.token, tokens[i]);
    }
}

static void runs_that_have_ended_do_not_come_back(void **state)
{
    R;
    claim_three(r);
    assert_ok(engine_release(r->e, r->now, ref_of(r, 0), (struct str){0}));
    rig_fail(r, r->got[1].id);
    rig_restart(r);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 1);
    assert_int_equal(rig_status(r, r->got[0].id), STATUS_READY);
    assert_int_equal(rig_status(r, r->got[1].id), STATUS_SCHEDULED);
    assert_int_equal(rig_status(r, r->got[2].id), STATUS_IN_FLIGHT);
    assert_code(engine_succeed(r->e, r->now, ref_of(r, 0)), ERR_STALE);
    assert_ok(engine_succeed(r->e, r->now, ref_of(r, 2)));
}

static void a_run_that_ended_in_its_own_turn_leaves_nothing(void **state)
{
    R;
    instant end;
    claim_three(r);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(engine_renew(r->e, r->now, ref_of(r, i), HOUR, &end));
        rig_succeed(r, r->got[i].id);
    }
    rig_turn(r);
    assert_int_equal(rig_takes_count(r), 0);
}

static void a_record_of_which_no_run_goes_on_is_deleted_at_the_restart(void **state)
{
    R;
    claim_three(r);
    struct rig_takes kept = r->takes[0];
    for (size_t i = 0; i < 3; i++)
        rig_succeed(r, r->got[i].id);
    assert_int_equal(rig_takes_count(r), 0);
    r->takes[0] = kept;
    rig_restart(r);
    assert_int_equal(rig_takes_count(r), 0);
}

/* As versions did that stored the lease with the state. */
static void store_as_before(struct rig *r, size_t i)
{
    struct job_state s = rig_read(r, r->got[i].id)->state;
    struct rig_record *record = idmap_get(&r->records, r->got[i].id);
    s.worker = STR("w");
    s.reason = (struct str){0};
    s.extras = (struct job_extras){0};
    record->state = s;
    record->has_state = true;
}

static void a_lease_that_is_stored_with_its_job_goes_on_and_can_be_renewed(void **state)
{
    R;
    instant end;
    claim_three(r);
    for (size_t i = 0; i < 3; i++)
        store_as_before(r, i);
    memset(r->takes, 0, sizeof r->takes);
    rig_restart(r);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
    r->now.ms += 1000;
    assert_ok(engine_renew(r->e, r->now, ref_of(r, 0), HOUR, &end));
    assert_ok(engine_succeed(r->e, r->now, ref_of(r, 1)));
    rig_restart(r);
    assert_int_equal(rig_takes_count(r), 1);
    assert_int_equal(rig_read(r, r->got[0].id)->state.lease_end.ms, end.ms);
    assert_int_equal(rig_read(r, r->got[2].id)->state.lease_end.ms,
                     r->now.ms - 1000 + RIG_LEASE.ms);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 1);
    assert_ok(engine_succeed(r->e, r->now, ref_of(r, 0)));
    assert_int_equal(rig_takes_count(r), 0);
}

static void a_patch_of_a_leased_job_survives_a_restart_with_the_lease(void **state)
{
    R;
    struct job job;
    claim_three(r);
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 7};
    assert_ok(engine_patch(r->e, r->now, r->got[0].id, &patch, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_IN_FLIGHT);
    rig_restart(r);
    assert_int_equal(rig_status(r, r->got[0].id), STATUS_IN_FLIGHT);
    assert_int_equal(rig_read(r, r->got[0].id)->state.priority, 7);
    assert_ok(engine_succeed(r->e, r->now, ref_of(r, 0)));
}

static void leases_that_were_corrected_are_stored_again(void **state)
{
    R;
    claim_three(r);
    uint64_t seq = r->takes[0].seq;
    engine_leases_clock_back(r->e);
    engine_flush(r->e, r->now);
    assert_int_equal(rig_takes_count(r), 1);
    for (size_t i = 0; i < RIG_TAKES_MAX; i++)
        assert_true(r->takes[i].seq != seq);
    rig_restart(r);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_claim_of_many_jobs_is_one_record_that_goes_with_the_last),
        TEST(a_job_shows_its_lease_as_if_it_were_stored_with_it),
        TEST(a_renewal_moves_the_lease_to_a_record_of_its_own),
        TEST(of_two_records_of_a_run_the_newer_one_counts),
        TEST(a_claim_after_a_restart_leaves_the_record_of_the_one_before),
        TEST(runs_that_have_ended_do_not_come_back),
        TEST(a_run_that_ended_in_its_own_turn_leaves_nothing),
        TEST(a_record_of_which_no_run_goes_on_is_deleted_at_the_restart),
        TEST(a_lease_that_is_stored_with_its_job_goes_on_and_can_be_renewed),
        TEST(a_patch_of_a_leased_job_survives_a_restart_with_the_lease),
        TEST(leases_that_were_corrected_are_stored_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
