/* SPDX-License-Identifier: Apache-2.0 */

/* Runs: how a report names one, and what is recorded of it. */

#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

/* One that is kept when it has ended. */
static struct id add(struct rig *r, const char *queue, span delay)
{
    struct enqueue spec = rig_spec(queue);
    spec.ready_at = instant_add(r->now, delay);
    spec.completed_retention = HOUR;
    return rig_add_spec(r, &spec);
}

static struct id claimed(struct rig *r)
{
    struct id id = add(r, "q", (span){0});
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    return id;
}

static struct run_ref run_of(struct id id, uint32_t index)
{
    return (struct run_ref){.id = id, .by_index = true, .index = index, .vouched = true};
}

/* --- a run named by its index --- */

static void the_index_of_the_live_run_is_accepted(void **state)
{
    R;
    struct id id = claimed(r);
    instant end;
    struct news news = {.has_progress = true, .progress = 0.5};
    assert_ok(engine_renew(r->e, r->now, run_of(id, 0), HOUR, &end));
    assert_ok(engine_note(r->e, r->now, run_of(id, 0), &news));
    assert_ok(engine_succeed(r->e, r->now, run_of(id, 0)));
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_COMPLETED);
}

static void another_index_is_stale_and_changes_nothing(void **state)
{
    R;
    struct id id = claimed(r);
    struct failure_report report = {.ref = run_of(id, 1), .retry_at = INSTANT_NONE};
    struct job job;
    instant end;
    unsigned before = r->writes;
    assert_code(engine_succeed(r->e, r->now, run_of(id, 1)), ERR_STALE);
    assert_code(engine_fail(r->e, r->now, &report, &r->strings, &job), ERR_STALE);
    assert_code(engine_renew(r->e, r->now, run_of(id, 1), HOUR, &end), ERR_STALE);
    assert_code(engine_release(r->e, r->now, run_of(id, 1), (struct str){0}), ERR_STALE);
    assert_int_equal(r->writes, before);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
}

static void the_index_of_a_run_that_is_over_is_stale(void **state)
{
    R;
    struct id id = claimed(r);
    assert_ok(engine_release(r->e, r->now, run_of(id, 0), (struct str){0}));
    assert_code(engine_succeed(r->e, r->now, run_of(id, 0)), ERR_STALE);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_code(engine_succeed(r->e, r->now, run_of(id, 0)), ERR_STALE);
    assert_ok(engine_succeed(r->e, r->now, run_of(id, 1)));
    assert_code(engine_succeed(r->e, r->now, run_of(id, 1)), ERR_STALE);
    assert_code(engine_succeed(r->e, r->now, run_of((struct id){1, 2}, 0)), ERR_NOT_FOUND);
}

static void an_index_and_a_token_must_both_be_right(void **state)
{
    R;
    struct id id = claimed(r);
    struct run_ref ref = run_of(id, 1);
    ref.token = r->got[0].token;
    assert_code(engine_succeed(r->e, r->now, ref), ERR_STALE);
    ref = run_of(id, 0);
    ref.token = r->got[0].token + 2;
    assert_code(engine_succeed(r->e, r->now, ref), ERR_STALE);
    ref.token = r->got[0].token;
    assert_ok(engine_succeed(r->e, r->now, ref));
}

static void a_preempted_run_is_named_by_its_index_when_it_has_ended(void **state)
{
    R;
    struct id id = claimed(r);
    struct failure_report report = {.ref = run_of(id, 0),
                                    .retry_at = INSTANT_NONE,
                                    .grace = {60000},
                                    .failure = {.condition = CONDITION_PREEMPTED}};
    struct job job;
    assert_code(engine_terminated(r->e, r->now, run_of(id, 0), 0, &r->strings, &job),
                ERR_UNPROCESSABLE);
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    assert_code(engine_terminated(r->e, r->now, run_of(id, 1), 0, &r->strings, &job), ERR_STALE);
    assert_code(engine_terminated(r->e, r->now, (struct run_ref){.id = id}, 0, &r->strings, &job),
                ERR_STALE);
    assert_ok(engine_terminated(r->e, r->now, run_of(id, 0), 0, &r->strings, &job));
    assert_int_equal(job.state.extras.terminated_at.ms, r->now.ms);
}

/* --- since when the job was ready --- */

static void a_run_says_since_when_its_job_was_ready(void **state)
{
    R;
    instant added = r->now;
    struct id id = add(r, "q", (span){0}), later = add(r, "l", (span){5000});
    rig_turn_after(r, 7000);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_claim(r, "w", "l", 1, (span){0});
    rig_turn(r);
    rig_succeed(r, id);
    rig_succeed(r, later);
    assert_int_equal(rig_run(r, id, 0)->ready_at.ms, added.ms);
    assert_int_equal(rig_run(r, id, 0)->taken_at.ms, added.ms + 7000);
    assert_int_equal(rig_run(r, later, 0)->ready_at.ms, added.ms + 5000);
}

static void a_run_after_one_that_did_not_count_was_ready_since_that_ended(void **state)
{
    R;
    struct id id = claimed(r);
    rig_turn_after(r, 100);
    assert_ok(engine_release(r->e, r->now, run_of(id, 0), (struct str){0}));
    instant back = r->now;
    rig_turn_after(r, 100);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_restart(r); /* of a lease the same is known afterwards */
    rig_turn_after(r, 100);
    rig_fail(r, id);
    assert_int_equal(rig_run(r, id, 1)->ready_at.ms, back.ms);
    instant again = rig_read(r, id)->state.ready_at;
    assert_int_equal(rig_read(r, id)->state.extras.returned_at.ms, 0);
    rig_turn_after(r, again.ms - r->now.ms + 50);
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    rig_turn_after(r, 100);
    rig_restart(r); /* which cuts the stream off */
    assert_int_equal(rig_run(r, id, 2)->ready_at.ms, again.ms);
    assert_int_equal(rig_read(r, id)->state.extras.returned_at.ms, r->now.ms);
}

static void a_patch_of_its_ready_at_leaves_a_live_run_as_it_was(void **state)
{
    R;
    struct id id = claimed(r);
    instant taken = r->now;
    struct patch p = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, HOUR)};
    struct job job;
    rig_turn_after(r, 100);
    assert_ok(engine_patch(r->e, r->now, id, &p, &r->strings, &job));
    rig_succeed(r, id);
    assert_int_equal(rig_run(r, id, 0)->ready_at.ms, taken.ms);
}

/* Brings it back, makes it ready in the past, and returns since when its second run says it was. */
static instant ready_after_rerun(struct rig *r, struct id id, bool completed)
{
    struct job job;
    struct patch p = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, (span){-1000})};
    rig_turn_after(r, 100);
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now, .completed = completed},
                           &r->strings, &job));
    assert_ok(engine_patch(r->e, r->now, id, &p, &r->strings, &job));
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_succeed(r, id);
    return rig_run(r, id, 1)->ready_at;
}

static void a_run_after_a_rerun_was_not_ready_before_the_run_before_had_ended(void **state)
{
    R;
    struct job job;
    struct id completed = claimed(r);
    rig_turn_after(r, 5000);
    instant ended = r->now;
    rig_succeed(r, completed);
    assert_int_equal(ready_after_rerun(r, completed, true).ms, ended.ms);
    struct id canceled = claimed(r);
    rig_turn_after(r, 5000);
    ended = r->now;
    assert_ok(engine_cancel(r->e, r->now, canceled, &r->strings, &job));
    assert_int_equal(ready_after_rerun(r, canceled, false).ms, ended.ms);
}

static void a_repeated_exception_report_is_known_while_the_retry_runs(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct id id = rig_add_spec(r, &spec);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    struct run_ref first = {id, r->got[0].token};
    struct failure_report report = {
        .ref = first, .exception = OUTCOME_WORKER_SHUTDOWN, .retry_at = INSTANT_NONE};
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    rig_claim(r, "other", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    assert_true(
        engine_is_repeated(r->e, r->now, first, OUTCOME_WORKER_SHUTDOWN, &r->strings, &job));
    assert_false(engine_is_repeated(r->e, r->now, first, OUTCOME_FAILED, &r->strings, &job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_index_of_the_live_run_is_accepted),
        TEST(another_index_is_stale_and_changes_nothing),
        TEST(the_index_of_a_run_that_is_over_is_stale),
        TEST(a_repeated_exception_report_is_known_while_the_retry_runs),
        TEST(an_index_and_a_token_must_both_be_right),
        TEST(a_preempted_run_is_named_by_its_index_when_it_has_ended),
        TEST(a_run_says_since_when_its_job_was_ready),
        TEST(a_run_after_one_that_did_not_count_was_ready_since_that_ended),
        TEST(a_patch_of_its_ready_at_leaves_a_live_run_as_it_was),
        TEST(a_run_after_a_rerun_was_not_ready_before_the_run_before_had_ended),
    };
    return cmocka_run_group_tests_name("engine_run", tests, NULL, NULL);
}
