/* SPDX-License-Identifier: Apache-2.0 */

/* What a report, an expired lease, a removal or the end of retention does to a job. */

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

/* A job of this spec, held by a claim; its handout is r->got[0]. */
static struct id claim_one(struct rig *r, const struct enqueue *spec)
{
    struct id id = rig_add_spec(r, spec);
    rig_clear(r);
    rig_claim(r, "claimer", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, id);
    return id;
}

static struct id claim_plain(struct rig *r)
{
    struct enqueue spec = rig_spec("q");
    return claim_one(r, &spec);
}

/* --- success --- */

static void a_completed_job_without_retention_is_gone_at_once(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_succeed(r, id);
    assert_int_equal(rig_status(r, id), STATUS_GONE);
    assert_null(rig_record(r, id));
    assert_int_equal(rig_takes_count(r), 0);
}

static void a_completed_job_is_kept_for_its_retention(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = HOUR;
    struct id id = claim_one(r, &spec);
    r->now.ms += 700;
    rig_succeed(r, id);
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_COMPLETED);
    assert_int_equal(job->state.completed_at.ms, r->now.ms);
    assert_int_equal(job->state.purge_at.ms, r->now.ms + HOUR.ms);
    assert_int_equal(job->state.attempts, 0);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_COMPLETED);
    assert_int_equal(rig_run(r, id, 0)->ended_at.ms, r->now.ms);
    r->now.ms += HOUR.ms - 1;
    assert_int_equal(rig_status(r, id), STATUS_COMPLETED);
    r->now.ms++;
    assert_int_equal(rig_status(r, id), STATUS_GONE); /* even before the turn */
    rig_turn(r);
    assert_null(rig_record(r, id));
    assert_int_equal(rig_count(r, "q", STATUS_COMPLETED), 0);
}

static void the_servers_retention_applies_to_a_job_that_states_none(void **state)
{
    R;
    r->settings.completed_retention = HOUR;
    rig_restart(r);
    struct id id = claim_plain(r);
    rig_succeed(r, id);
    assert_int_equal(rig_read(r, id)->state.purge_at.ms, r->now.ms + HOUR.ms);
}

/* --- failure --- */

static void a_failed_job_waits_for_its_backoff_and_comes_again(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 3;
    spec.backoff = (struct curve){CURVE_POWER, {4000}, 0.0, {0}};
    struct id id = claim_one(r, &spec);
    struct job job = rig_fail(r, id);
    assert_int_equal(job.state.status, STATUS_SCHEDULED);
    assert_int_equal(job.state.attempts, 1);
    assert_int_equal(job.state.failed_at.ms, r->now.ms);
    assert_int_equal(job.state.ready_at.ms, r->now.ms + 5000);
    assert_true(str_eq(job.state.reason, STR("retry 1 of 3, own backoff, in 5 s")));
    const struct run *run = rig_run(r, id, 0);
    assert_int_equal(run->outcome, OUTCOME_FAILED);
    assert_int_equal(run->attempt, 1);
    assert_int_equal(run->retry_at.ms, r->now.ms + 5000);
    assert_true(str_eq(run->reason, job.state.reason));
    assert_true(str_eq(run->failure.message, STR("it broke")));
    rig_clear(r);
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, 4999);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
    assert_int_equal(r->got[0].run, 1);
}

static void a_retry_comes_before_jobs_enqueued_after_its_first_enqueue(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.backoff = (struct curve){CURVE_POWER, {4000}, 0.0, {0}};
    struct id old = claim_one(r, &spec);
    rig_fail(r, old);
    struct id newer = rig_add(r, "q");
    rig_turn_after(r, 5000);
    rig_clear(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, old, newer);
}

static void a_limit_of_3_gives_4_runs(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 3;
    struct id id = rig_add_spec(r, &spec);
    rig_stream(r, "w", "q", 1);
    struct job job = {0};
    for (int n = 0; n < 4; n++) {
        rig_turn_after(r, HOUR.ms);
        assert_int_equal(r->got_count, n + 1);
        job = rig_fail(r, id);
        assert_int_equal(rig_run(r, id, (uint32_t)n)->attempt, n + 1);
    }
    assert_int_equal(job.state.status, STATUS_DEAD);
    assert_int_equal(job.state.resolution, RESOLUTION_FAILED);
    assert_true(str_eq(job.state.reason, STR("dead: all 3 retries are used up")));
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(r->got_count, 4);
}

static void a_dead_job_is_kept_for_its_retention_and_then_purged(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    spec.dead_retention = HOUR;
    struct id id = claim_one(r, &spec);
    assert_int_equal(rig_fail(r, id).state.status, STATUS_DEAD);
    rig_turn_after(r, HOUR.ms - 1);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
    rig_turn_after(r, 1);
    assert_int_equal(rig_status(r, id), STATUS_GONE);
    assert_null(rig_record(r, id));
}

static void a_dead_job_without_retention_is_gone_but_the_report_still_tells(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    spec.dead_retention = (span){0};
    struct id id = claim_one(r, &spec);
    assert_int_equal(rig_fail(r, id).state.status, STATUS_DEAD);
    assert_null(rig_record(r, id));
}

static void kill_ends_a_job_that_had_retries_left(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_DEAD);
}

static void retry_at_in_the_past_makes_the_job_ready_at_once(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct failure_report report = {
        .ref = rig_ref(r, id), .failure = {.run_time = {-1}}, .retry_at = {r->now.ms - 5}};
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_READY);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 1);
}

/* --- tokens --- */

static void the_right_token_is_accepted(void **state)
{
    R;
    struct id id = claim_plain(r);
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){id, r->got[0].token}));
}

static void a_wrong_token_is_stale_and_changes_nothing(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct run_ref wrong = {id, r->got[0].token + 2};
    struct failure_report report = {.ref = wrong, .retry_at = INSTANT_NONE};
    struct job job;
    instant end;
    unsigned before = r->writes;
    assert_code(engine_succeed(r->e, r->now, wrong), ERR_STALE);
    assert_code(engine_fail(r->e, r->now, &report, &r->strings, &job), ERR_STALE);
    assert_code(engine_renew(r->e, r->now, wrong, HOUR, &end), ERR_STALE);
    assert_code(engine_release(r->e, r->now, wrong, (struct str){0}), ERR_STALE);
    assert_int_equal(r->writes, before);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    engine_check(r->e);
}

static void the_token_of_an_earlier_run_is_stale_while_a_later_one_goes_on(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct run_ref first = {id, r->got[0].token};
    assert_ok(engine_release(r->e, r->now, first, (struct str){0}));
    rig_clear(r);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
    struct err err = engine_succeed(r->e, r->now, first);
    assert_code(err, ERR_STALE);
    assert_non_null(strstr(err.msg, "has run 1 by now"));
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
}

static void a_repeated_report_is_known_while_its_run_was_the_last_reported(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct run_ref first = {id, r->got[0].token}, other = {id, first.token + 2}, any = {.id = id};
    struct job job;
    assert_false(engine_is_repeated(r->e, r->now, first, OUTCOME_FAILED, &r->strings, &job));
    rig_fail(r, id);
    rig_restart(r);
    assert_true(engine_is_repeated(r->e, r->now, first, OUTCOME_FAILED, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_SCHEDULED);
    assert_false(engine_is_repeated(r->e, r->now, first, OUTCOME_COMPLETED, &r->strings, &job));
    assert_false(engine_is_repeated(r->e, r->now, other, OUTCOME_FAILED, &r->strings, &job));
    assert_false(engine_is_repeated(r->e, r->now, any, OUTCOME_FAILED, &r->strings, &job));
}

static void late_ack_after_expiry_is_refused_even_when_the_job_is_completed(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = HOUR;
    struct id id = claim_one(r, &spec);
    struct run_ref late = {id, r->got[0].token};
    rig_stream(r, "w", "q", 1);
    rig_turn_after(r, RIG_LEASE.ms);
    rig_succeed(r, id);
    unsigned before = r->writes;
    struct err err = engine_succeed(r->e, r->now, late);
    assert_code(err, ERR_STALE);
    assert_non_null(strstr(err.msg, "the job is completed"));
    assert_int_equal(r->writes, before);
}

static void a_report_on_a_job_that_nobody_holds_is_not_in_flight(void **state)
{
    R;
    struct id ready = rig_add(r, "q"), later = rig_add_later(r, "q", HOUR);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){.id = ready}), ERR_NOT_IN_FLIGHT);
    struct err err = engine_succeed(r->e, r->now, (struct run_ref){.id = later});
    assert_code(err, ERR_NOT_IN_FLIGHT);
    assert_non_null(strstr(err.msg, "it is scheduled"));
}

static void a_report_on_an_unknown_job_is_not_found(void **state)
{
    R;
    struct run_ref unknown = {.id = {1, 2}};
    assert_code(engine_succeed(r->e, r->now, unknown), ERR_NOT_FOUND);
    assert_code(engine_release(r->e, r->now, unknown, (struct str){0}), ERR_NOT_FOUND);
    unknown.token = 9;
    assert_code(engine_succeed(r->e, r->now, unknown), ERR_NOT_FOUND);
}

/* --- leases --- */

static void an_expired_lease_frees_the_job_at_once_and_uses_a_retry(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 3;
    struct id id = claim_one(r, &spec);
    rig_confirm(r, id);
    rig_turn_after(r, RIG_LEASE.ms - 1);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_READY);
    assert_int_equal(job->state.attempts, 1);
    assert_true(str_eq(job->state.reason, STR("retry 1 of 3, the lease ran out, at once")));
    const struct run *run = rig_run(r, id, 0);
    assert_int_equal(run->outcome, OUTCOME_EXPIRED);
    assert_int_equal(run->attempt, 1);
    assert_true(str_eq(run->worker, STR("claimer")));
    assert_true(str_eq(run->failure.error_type, STR("claim-expired")));
    assert_true(str_eq(run->failure.message,
                       STR("claim expired: worker 'claimer' did not renew its lease")));
}

static void leases_that_ran_out_too_often_end_the_job(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 1;
    struct id id = claim_one(r, &spec);
    rig_confirm(r, id);
    rig_turn_after(r, RIG_LEASE.ms);
    rig_claim(r, "again", "q", 1, (span){0});
    rig_turn(r);
    rig_confirm(r, id);
    rig_turn_after(r, RIG_LEASE.ms);
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_DEAD);
    assert_int_equal(job->state.resolution, RESOLUTION_CLAIM_EXPIRED);
}

static void a_job_freed_by_expiry_is_handed_out_in_the_same_turn(void **state)
{
    R;
    struct id id = claim_plain(r);
    rig_clear(r);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_turn_after(r, RIG_LEASE.ms);
    rig_assert_got(r, id);
}

static void renewing_moves_the_end_of_the_lease(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct run_ref ref = {id, r->got[0].token};
    r->now.ms += 50000;
    instant end, due;
    assert_ok(engine_renew(r->e, r->now, ref, (span){20000}, &end));
    assert_int_equal(end.ms, r->now.ms + 20000);
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, end.ms);
    assert_int_equal(rig_read(r, id)->state.lease_end.ms, end.ms);
    assert_int_equal(rig_read(r, id)->state.token, ref.token);
    rig_turn_after(r, 19999);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_code(engine_renew(r->e, r->now, ref, (span){20000}, &end), ERR_STALE);
}

static void a_streams_job_has_no_lease_to_renew(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    instant end;
    assert_code(engine_renew(r->e, r->now, (struct run_ref){.id = id}, HOUR, &end),
                ERR_UNPROCESSABLE);
}

static void a_released_job_is_ready_in_its_old_place_with_attempts_unchanged(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct id newer = rig_add(r, "q");
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_READY);
    assert_int_equal(job->state.attempts, 0);
    assert_int_equal(job->state.losses, 0);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_RETURNED);
    assert_int_equal(rig_run(r, id, 0)->attempt, 0);
    rig_clear(r);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, id, newer);
}

/* --- removal --- */

static void a_job_can_be_removed_in_every_status(void **state)
{
    R;
    struct enqueue once = rig_spec("q");
    once.retry_limit = 0;
    once.completed_retention = HOUR;
    struct id completed = claim_one(r, &once);
    rig_succeed(r, completed);
    struct id dead = claim_one(r, &once);
    rig_fail(r, dead);
    struct id leased = claim_plain(r);
    struct id streamed = rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct id ready = rig_add(r, "q"), scheduled = rig_add_later(r, "q", HOUR);
    const struct id all[] = {completed, dead, leased, streamed, ready, scheduled};
    const enum status statuses[] = {STATUS_COMPLETED, STATUS_DEAD,  STATUS_IN_FLIGHT,
                                    STATUS_IN_FLIGHT, STATUS_READY, STATUS_SCHEDULED};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_int_equal(rig_status(r, all[i]), statuses[i]);
        assert_ok(engine_remove(r->e, r->now, all[i]));
        assert_int_equal(rig_status(r, all[i]), STATUS_GONE);
        assert_null(rig_record(r, all[i]));
        assert_code(engine_remove(r->e, r->now, all[i]), ERR_NOT_FOUND);
        engine_check(r->e);
    }
    assert_int_equal(rig_takes_count(r), 0);
    instant due;
    assert_false(engine_next_due(r->e, &due));
    rig_turn_after(r, 2 * HOUR.ms);
    assert_int_equal(r->records.count, 0);
}

static void a_removed_jobs_report_is_not_found(void **state)
{
    R;
    struct id id = claim_plain(r);
    assert_ok(engine_remove(r->e, r->now, id));
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){id, r->got[0].token}), ERR_NOT_FOUND);
}

static void a_job_that_is_due_but_not_fired_can_be_removed(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", HOUR);
    r->now.ms += HOUR.ms;
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_ok(engine_remove(r->e, r->now, id));
    engine_check(r->e);
    rig_turn(r);
}

/* --- counts, queues, due times --- */

static void counts_follow_every_move(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 1;
    spec.completed_retention = HOUR;
    struct id a = rig_add_spec(r, &spec), b = rig_add_spec(r, &spec);
    rig_add_later(r, "q", HOUR);
    rig_add(r, "other");
    assert_int_equal(rig_count(r, "q", STATUS_READY), 2);
    assert_int_equal(rig_count(r, "q", STATUS_SCHEDULED), 1);
    assert_int_equal(rig_count(r, "", STATUS_READY), 3);
    assert_int_equal(rig_count(r, "unknown", STATUS_READY), 0);
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 0);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 2);
    rig_succeed(r, a);
    rig_fail(r, b);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 0);
    assert_int_equal(rig_count(r, "q", STATUS_COMPLETED), 1);
    assert_int_equal(rig_count(r, "q", STATUS_SCHEDULED), 2);
    rig_turn_after(r, HOUR.ms - 1);
    rig_fail(r, b);
    assert_int_equal(rig_count(r, "q", STATUS_DEAD), 1);
    assert_int_equal(rig_count(r, "", STATUS_DEAD), 1);
}

struct names {
    char text[200];
};

static void add_name(void *ctx, struct str name)
{
    struct names *n = ctx;
    strncat(n->text, name.at, name.len);
    strcat(n->text, " ");
}

static void assert_queues(struct rig *r, const char *want)
{
    struct names n = {0};
    engine_each_queue(r->e, add_name, &n);
    assert_string_equal(n.text, want);
}

static void queues_that_have_jobs_are_told_in_name_order(void **state)
{
    R;
    rig_stream(r, "w", "empty", 1);
    rig_add(r, "b");
    rig_add(r, "ab");
    rig_add_later(r, "a", HOUR);
    assert_queues(r, "a ab b ");
}

static void a_queue_without_jobs_and_takers_is_forgotten(void **state)
{
    R;
    for (int i = 0; i < 100; i++) {
        char name[20];
        snprintf(name, sizeof name, "q%d", i);
        struct id id = rig_add(r, name);
        struct taker *t = rig_stream(r, "w", name, 1);
        rig_turn(r);
        rig_succeed(r, id);
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
        rig_turn(r);
        rig_clear(r);
    }
    struct engine_memory m = engine_memory(r->e);
    assert_int_equal(m.waiting_jobs, 0);
    assert_int_equal(m.waiting_bytes, 0);
    assert_queues(r, "");
    rig_add(r, "q7");
    assert_queues(r, "q7 ");
}

static void a_queue_whose_jobs_were_all_purged_is_forgotten(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = HOUR;
    rig_succeed(r, claim_one(r, &spec));
    assert_queues(r, "q ");
    rig_turn_after(r, HOUR.ms);
    assert_queues(r, "");
    engine_check(r->e);
}

static void the_next_due_time_is_the_nearest_of_all_kinds(void **state)
{
    R;
    instant due;
    assert_false(engine_next_due(r->e, &due));
    rig_add_later(r, "x", HOUR);
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + HOUR.ms);
    claim_plain(r);
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + RIG_LEASE.ms);
    rig_claim(r, "waits", "y", 1, (span){1000});
    rig_turn(r);
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + 1000);
}

static void advance_fires_no_more_than_it_was_told_to(void **state)
{
    R;
    for (int i = 0; i < 5; i++)
        rig_add_later(r, "q", (span){10});
    r->now.ms += 10;
    bool more;
    assert_ok(engine_advance(r->e, r->now, 2, &more));
    assert_true(more);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 2);
    assert_ok(engine_advance(r->e, r->now, 3, &more));
    assert_false(more);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 5);
}

/* --- walks --- */

static bool walk(const struct rig *r, enum status s, const struct id *from, bool back,
                 struct id *next)
{
    struct id_place at = {from != NULL, from ? *from : (struct id){0}};
    return engine_next_of(r->e, s, at, back, next);
}

static void ended_jobs_are_walked_in_id_order_both_ways(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    struct id a = claim_one(r, &spec), b = claim_one(r, &spec), next;
    rig_fail(r, b);
    rig_fail(r, a);
    assert_true(walk(r, STATUS_DEAD, NULL, false, &next));
    assert_id(next, a);
    assert_true(walk(r, STATUS_DEAD, &a, false, &next));
    assert_id(next, b);
    assert_false(walk(r, STATUS_DEAD, &b, false, &next));
    assert_true(walk(r, STATUS_DEAD, NULL, true, &next));
    assert_id(next, b);
    assert_true(walk(r, STATUS_DEAD, &b, true, &next));
    assert_id(next, a);
    assert_false(walk(r, STATUS_COMPLETED, NULL, false, &next));
}

static void a_walk_from_the_smallest_id_is_not_one_from_the_start(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 0;
    struct id a = claim_one(r, &spec), next, zero = {0};
    struct id largest = {UINT64_MAX, UINT64_MAX};
    rig_fail(r, a);
    assert_true(walk(r, STATUS_DEAD, &zero, false, &next));
    assert_id(next, a);
    assert_false(walk(r, STATUS_DEAD, &zero, true, &next));
    assert_true(walk(r, STATUS_DEAD, &largest, true, &next));
    assert_id(next, a);
    assert_false(walk(r, STATUS_DEAD, &largest, false, &next));
}

static void jobs_in_flight_are_walked_in_id_order_both_ways(void **state)
{
    R;
    struct id want[20], *ids, next;
    for (int i = 0; i < 20; i++)
        want[i] = rig_add_priority(r, "q", (uint16_t)(20 - i));
    rig_stream(r, "w", "q", 20);
    rig_turn(r);
    assert_int_equal(rig_live(r, &ids), 20);
    for (int i = 0; i < 20; i++)
        assert_id(ids[i], want[i]);
    assert_true(walk(r, STATUS_IN_FLIGHT, NULL, true, &next));
    assert_id(next, want[19]);
    rig_succeed(r, want[18]);
    assert_true(walk(r, STATUS_IN_FLIGHT, &want[19], true, &next));
    assert_id(next, want[17]);
}

static void the_live_run_of_a_job_is_told(void **state)
{
    R;
    struct id id = claim_plain(r);
    struct run run;
    uint64_t token;
    assert_true(engine_live_run(r->e, id, &run, &token));
    assert_int_equal(token, r->got[0].token);
    assert_int_equal(run.index, 0);
    assert_int_equal(run.outcome, OUTCOME_RUNNING);
    assert_int_equal(run.taken_at.ms, r->now.ms);
    assert_int_equal(run.lease_end.ms, r->now.ms + RIG_LEASE.ms);
    assert_false(instant_is_set(run.ended_at));
    rig_succeed(r, id);
    assert_false(engine_live_run(r->e, id, &run, &token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_completed_job_without_retention_is_gone_at_once),
        TEST(a_completed_job_is_kept_for_its_retention),
        TEST(the_servers_retention_applies_to_a_job_that_states_none),
        TEST(a_failed_job_waits_for_its_backoff_and_comes_again),
        TEST(a_retry_comes_before_jobs_enqueued_after_its_first_enqueue),
        TEST(a_limit_of_3_gives_4_runs),
        TEST(a_dead_job_is_kept_for_its_retention_and_then_purged),
        TEST(a_dead_job_without_retention_is_gone_but_the_report_still_tells),
        TEST(kill_ends_a_job_that_had_retries_left),
        TEST(retry_at_in_the_past_makes_the_job_ready_at_once),
        TEST(the_right_token_is_accepted),
        TEST(a_wrong_token_is_stale_and_changes_nothing),
        TEST(the_token_of_an_earlier_run_is_stale_while_a_later_one_goes_on),
        TEST(a_repeated_report_is_known_while_its_run_was_the_last_reported),
        TEST(late_ack_after_expiry_is_refused_even_when_the_job_is_completed),
        TEST(a_report_on_a_job_that_nobody_holds_is_not_in_flight),
        TEST(a_report_on_an_unknown_job_is_not_found),
        TEST(an_expired_lease_frees_the_job_at_once_and_uses_a_retry),
        TEST(leases_that_ran_out_too_often_end_the_job),
        TEST(a_job_freed_by_expiry_is_handed_out_in_the_same_turn),
        TEST(renewing_moves_the_end_of_the_lease),
        TEST(a_streams_job_has_no_lease_to_renew),
        TEST(a_released_job_is_ready_in_its_old_place_with_attempts_unchanged),
        TEST(a_job_can_be_removed_in_every_status),
        TEST(a_removed_jobs_report_is_not_found),
        TEST(a_job_that_is_due_but_not_fired_can_be_removed),
        TEST(counts_follow_every_move),
        TEST(queues_that_have_jobs_are_told_in_name_order),
        TEST(a_queue_without_jobs_and_takers_is_forgotten),
        TEST(a_queue_whose_jobs_were_all_purged_is_forgotten),
        TEST(the_next_due_time_is_the_nearest_of_all_kinds),
        TEST(advance_fires_no_more_than_it_was_told_to),
        TEST(ended_jobs_are_walked_in_id_order_both_ways),
        TEST(a_walk_from_the_smallest_id_is_not_one_from_the_start),
        TEST(jobs_in_flight_are_walked_in_id_order_both_ways),
        TEST(the_live_run_of_a_job_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
