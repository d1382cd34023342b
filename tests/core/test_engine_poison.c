/* SPDX-License-Identifier: Apache-2.0 */

/* A job whose runs end with their worker lost, again and again. */

#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static void limit(struct rig *r, uint32_t most)
{
    r->settings.lost_worker_limit = most;
    r->settings.dead_retention = HOUR;
    r->settings.retry = (struct retry_defaults){1000, curve_default()};
    rig_restart(r);
}

/* The job is handed to a stream that breaks. */
static void break_stream(struct rig *r, struct id id)
{
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, id);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
}

static void claim(struct rig *r, struct id id)
{
    rig_clear(r);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, id);
}

static void let_lease_expire(struct rig *r, struct id id)
{
    claim(r, id);
    rig_confirm(r, id);
    rig_turn_after(r, RIG_LEASE.ms);
}

static void assert_poison(struct rig *r, struct id id, const char *reason)
{
    const struct job_state *s = &rig_read(r, id)->state;
    assert_int_equal(s->status, STATUS_DEAD);
    assert_int_equal(s->resolution, RESOLUTION_POISON);
    assert_true(str_eq(s->reason, str_from(reason)));
    assert_int_equal(s->purge_at.ms, r->now.ms + HOUR.ms);
    assert_true(str_eq(rig_run(r, id, s->runs - 1)->reason, s->reason));
}

static void expired_leases_of_a_job_that_fails_alone_end_with_its_retries(void **state)
{
    R;
    limit(r, 2);
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 3;
    spec.options.when_no_policy = RETRY_FALLBACK_FAIL;
    struct id id = rig_add_spec(r, &spec);
    for (int i = 0; i < 3; i++) {
        let_lease_expire(r, id);
        assert_int_equal(rig_status(r, id), STATUS_READY);
    }
    let_lease_expire(r, id);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
    assert_int_equal(rig_read(r, id)->state.resolution, RESOLUTION_CLAIM_EXPIRED);
}

static void a_job_that_lost_too_many_streams_in_a_row_is_dead(void **state)
{
    R;
    limit(r, 3);
    struct id id = rig_add(r, "q");
    break_stream(r, id);
    break_stream(r, id);
    assert_int_equal(rig_read(r, id)->state.losses, 2);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    break_stream(r, id);
    assert_poison(r, id, "dead: its worker was lost in 3 runs in a row");
    assert_int_equal(rig_run(r, id, 2)->outcome, OUTCOME_LOST);
    assert_int_equal(rig_read(r, id)->state.attempts, 0);
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
}

/* Any number of times: a client that simply disconnects has not crashed because of its job. */
static void a_stream_that_held_it_only_for_a_moment_does_not_count(void **state)
{
    R;
    r->settings.lost_worker_min_held = (span){10000};
    limit(r, 2);
    struct id id = rig_add(r, "q");
    for (int i = 0; i < 5; i++)
        break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_read(r, id)->state.losses, 0);
    assert_int_equal(rig_run(r, id, 4)->outcome, OUTCOME_LOST);
    for (int64_t held = 9999; held <= 10001; held++) {
        struct taker *t = rig_stream(r, "w", "q", 1);
        rig_turn(r);
        rig_turn_after(r, held);
        assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
    }
    assert_poison(r, id, "dead: its worker was lost in 2 runs in a row");
}

/* A claim is held until its lease is over, however short that is. */
static void a_moment_in_between_leaves_the_count_as_it_is(void **state)
{
    R;
    r->settings.lost_worker_min_held = (span){RIG_LEASE.ms + 1};
    limit(r, 2);
    struct id id = rig_add(r, "q");
    let_lease_expire(r, id);
    break_stream(r, id);
    assert_int_equal(rig_read(r, id)->state.losses, 1);
    let_lease_expire(r, id);
    assert_poison(r, id, "dead: its worker was lost in 2 runs in a row");
}

static void leases_that_ran_out_and_broken_streams_count_together(void **state)
{
    R;
    limit(r, 3);
    struct id id = rig_add(r, "q");
    let_lease_expire(r, id);
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    let_lease_expire(r, id);
    assert_poison(r, id, "dead: its worker was lost in 3 runs in a row");
    assert_int_equal(rig_run(r, id, 2)->outcome, OUTCOME_EXPIRED);
    assert_int_equal(rig_read(r, id)->state.attempts, 2);
}

static void a_run_that_ends_in_another_way_begins_the_count_anew(void **state)
{
    R;
    limit(r, 2);
    struct id id = rig_add(r, "q");
    break_stream(r, id);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    rig_fail(r, id);
    rig_turn_after(r, 86400000);
    assert_int_equal(rig_read(r, id)->state.losses, 0);
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    assert_ok(engine_release(r->e, r->now, (struct run_ref){id, r->got[r->got_count - 1].token},
                             (struct str){0}));
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
}

/* A run that was ended because of another member says nothing about the job. */
static void what_its_gang_does_leaves_the_count_as_it_is(void **state)
{
    R;
    limit(r, 2);
    struct enqueue spec = rig_spec("q");
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    struct id id = rig_add_spec(r, &spec), other = rig_add_spec(r, &spec);
    /* Its own stream breaks, then the other one fails, then its own breaks again. */
    for (int i = 0; i < 3; i++) {
        struct taker *mine = rig_stream(r, "w", "q", 1), *its = rig_stream(r, "x", "q", 1);
        rig_clear(r);
        rig_turn(r);
        rig_assert_got(r, id, other);
        if (i == 1)
            rig_fail(r, other);
        engine_taker_close(r->e, r->now, mine, TAKER_GONE);
        if (i == 2)
            break;
        assert_int_equal(rig_read(r, id)->state.losses, 1);
        engine_taker_close(r->e, r->now, its, TAKER_GONE);
        rig_turn_after(r, 86400000);
    }
    assert_poison(r, id, "dead: its worker was lost in 2 runs in a row");
    assert_int_equal(rig_read(r, other)->state.losses, 0);
}

static void a_stop_of_the_server_does_not_count_against_its_jobs(void **state)
{
    R;
    limit(r, 1);
    struct id id = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_STOPPED);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_LOST);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_read(r, id)->state.losses, 0);
    assert_int_equal(rig_read(r, id)->state.runs, 2);
}

static void a_stop_of_the_server_keeps_the_losses_so_far(void **state)
{
    R;
    limit(r, 2);
    struct id id = rig_add(r, "q");
    break_stream(r, id);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_restart(r);
    break_stream(r, id);
    assert_poison(r, id, "dead: its worker was lost in 2 runs in a row");
}

static void a_lease_that_ran_out_while_the_server_was_down_does_not_count(void **state)
{
    R;
    limit(r, 1);
    struct id id = rig_add(r, "q");
    claim(r, id);
    rig_confirm(r, id);
    r->now.ms += RIG_LEASE.ms;
    rig_restart(r);
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_EXPIRED);
    assert_int_equal(rig_read(r, id)->state.losses, 0);
    let_lease_expire(r, id);
    assert_poison(r, id, "dead: its worker was lost in 1 run");
}

/* --- claims of which nobody said a word --- */

static void check_uncharged(struct rig *r, struct id id, uint32_t run, const char *reason)
{
    const struct job_state *s = &rig_read(r, id)->state;
    assert_int_equal(s->status, STATUS_READY);
    assert_int_equal(s->attempts, 0);
    assert_true(str_eq(s->reason, str_from(reason)));
    assert_int_equal(rig_run(r, id, run)->outcome, OUTCOME_EXPIRED);
    assert_int_equal(rig_run(r, id, run)->attempt, 0);
    assert_true(str_eq(rig_run(r, id, run)->reason, s->reason));
}

static const char *UNSAID = "ready again: the claim ran out before its worker said anything";
static const char *CUT_OFF =
    "ready again: the server was started again before its worker said anything";

static void a_claim_of_which_nobody_says_a_word_is_charged_to_nobody(void **state)
{
    R;
    limit(r, 3);
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    struct id id = rig_add_spec(r, &spec);
    for (uint32_t i = 0; i < 2; i++) {
        claim(r, id);
        rig_turn_after(r, RIG_LEASE.ms);
        check_uncharged(r, id, i, UNSAID);
        assert_int_equal(rig_read(r, id)->state.losses, i + 1);
    }
    claim(r, id);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_poison(r, id, "dead: its worker was lost in 3 runs in a row");
}

static void without_a_limit_such_claims_are_free_for_a_while(void **state)
{
    R;
    limit(r, 0);
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    struct id id = rig_add_spec(r, &spec);
    for (uint32_t i = 0; i < 5; i++) {
        claim(r, id);
        rig_turn_after(r, RIG_LEASE.ms);
        check_uncharged(r, id, i, UNSAID);
    }
    claim(r, id);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
    assert_int_equal(rig_read(r, id)->state.resolution, RESOLUTION_CLAIM_EXPIRED);
}

static void a_claim_that_a_restart_cut_off_does_not_even_count(void **state)
{
    R;
    limit(r, 1);
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    struct id id = rig_add_spec(r, &spec);
    for (uint32_t i = 0; i < 9; i++) {
        claim(r, id);
        rig_restart(r);
        rig_turn_after(r, RIG_LEASE.ms);
        check_uncharged(r, id, i, CUT_OFF);
        assert_int_equal(rig_read(r, id)->state.losses, 0);
    }
}

/* A renewal and progress are words, before a restart, too; and also those of an earlier process. */
static void whoever_said_a_word_is_charged_after_a_restart_too(void **state)
{
    R;
    limit(r, 0);
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    const struct news news = {.has_progress = true, .progress = 0.5};
    for (int how = 0; how < 2; how++) {
        struct id id = rig_add_spec(r, &spec);
        claim(r, id);
        rig_turn(r);
        if (how == 0)
            rig_confirm(r, id);
        else
            assert_ok(engine_note(r->e, r->now, rig_ref(r, id), &news));
        rig_turn(r);
        for (int i = 0; i < 2; i++)
            rig_restart(r);
        rig_turn_after(r, RIG_LEASE.ms);
        assert_int_equal(rig_status(r, id), STATUS_DEAD);
        assert_int_equal(rig_read(r, id)->state.attempts, 1);
    }
}

static void without_a_limit_no_number_of_losses_ends_a_job(void **state)
{
    R;
    limit(r, 0);
    struct id id = rig_add(r, "q");
    for (int i = 0; i < 8; i++)
        break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(rig_read(r, id)->state.losses, 8);
}

static void a_job_brought_back_has_all_its_losses_again(void **state)
{
    R;
    limit(r, 2);
    struct id id = rig_add(r, "q");
    break_stream(r, id);
    break_stream(r, id);
    struct arena a = {0};
    struct job job;
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &a, &job));
    arena_fini(&a);
    rig_turn(r);
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_READY);
}

static void a_poisoned_job_whose_retention_is_0_is_gone_at_once(void **state)
{
    R;
    limit(r, 1);
    struct enqueue spec = rig_spec("q");
    spec.dead_retention = (span){0};
    struct id id = rig_add_spec(r, &spec);
    break_stream(r, id);
    assert_int_equal(rig_status(r, id), STATUS_GONE);
    assert_null(rig_record(r, id));
}

static void assert_needs_token(struct rig *r, struct run_ref ref)
{
    struct failure_report report = {.ref = ref, .retry_at = INSTANT_NONE};
    struct news news = {.has_progress = true, .progress = 0.5};
    struct job job;
    instant end;
    unsigned before = r->writes;
    struct err err = engine_succeed(r->e, r->now, ref);
    assert_code(err, ERR_RUN_TOKEN);
    assert_non_null(strstr(err.msg, "the token that the answer to its claim has as 'token'"));
    assert_code(engine_fail(r->e, r->now, &report, &r->strings, &job), ERR_RUN_TOKEN);
    assert_code(engine_renew(r->e, r->now, ref, RIG_LEASE, &end), ERR_RUN_TOKEN);
    assert_code(engine_note(r->e, r->now, ref, &news), ERR_RUN_TOKEN);
    assert_code(engine_release(r->e, r->now, ref, (struct str){0}), ERR_RUN_TOKEN);
    assert_int_equal(r->writes, before);
    assert_int_equal(rig_status(r, ref.id), STATUS_IN_FLIGHT);
}

static void a_report_without_a_token_is_not_taken_for_a_claimed_run(void **state)
{
    struct rig *r = *state;
    struct id id = rig_add(r, "q");
    struct run_ref bare = {.id = id}, index = {.id = id, .by_index = true};
    rig_claim(r, "slow", "q", 1, (span){0});
    rig_turn(r);
    assert_needs_token(r, bare);
    assert_needs_token(r, index);
    rig_turn_after(r, RIG_LEASE.ms);
    rig_turn_after(r, 3600000);
    rig_claim(r, "other", "q", 1, (span){0});
    rig_turn(r);
    assert_needs_token(r, bare);
    assert_code(engine_succeed(r->e, r->now, index), ERR_STALE); /* of the run that is over */
    rig_restart(r);
    assert_needs_token(r, bare);
    rig_succeed(r, id);
}

static void a_streams_run_needs_none_but_not_another_workers_word(void **state)
{
    struct rig *r = *state;
    struct id id = rig_add(r, "q");
    struct run_ref late = {.id = id, .worker = STR("w1")};
    struct taker *first = rig_stream(r, "w1", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, first, TAKER_GONE);
    rig_turn(r);
    rig_stream(r, "w2", "q", 1);
    rig_turn(r);
    struct err err = engine_succeed(r->e, r->now, late);
    assert_code(err, ERR_STALE);
    assert_non_null(strstr(err.msg, "in run 1, which another worker has"));
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    late.worker = STR("w2");
    assert_ok(engine_succeed(r->e, r->now, late));
    struct id next = rig_add(r, "q");
    rig_turn(r);
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){.id = next}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_report_without_a_token_is_not_taken_for_a_claimed_run),
        TEST(a_streams_run_needs_none_but_not_another_workers_word),
        TEST(expired_leases_of_a_job_that_fails_alone_end_with_its_retries),
        TEST(a_job_that_lost_too_many_streams_in_a_row_is_dead),
        TEST(a_stream_that_held_it_only_for_a_moment_does_not_count),
        TEST(a_moment_in_between_leaves_the_count_as_it_is),
        TEST(leases_that_ran_out_and_broken_streams_count_together),
        TEST(a_run_that_ends_in_another_way_begins_the_count_anew),
        TEST(what_its_gang_does_leaves_the_count_as_it_is),
        TEST(a_stop_of_the_server_does_not_count_against_its_jobs),
        TEST(a_stop_of_the_server_keeps_the_losses_so_far),
        TEST(a_lease_that_ran_out_while_the_server_was_down_does_not_count),
        TEST(without_a_limit_no_number_of_losses_ends_a_job),
        TEST(a_claim_of_which_nobody_says_a_word_is_charged_to_nobody),
        TEST(without_a_limit_such_claims_are_free_for_a_while),
        TEST(a_claim_that_a_restart_cut_off_does_not_even_count),
        TEST(whoever_said_a_word_is_charged_after_a_restart_too),
        TEST(a_job_brought_back_has_all_its_losses_again),
        TEST(a_poisoned_job_whose_retention_is_0_is_gone_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
