/* SPDX-License-Identifier: Apache-2.0 */

/* Deadlines, and aliases, of jobs. */

#include "core/explain.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct id add_due(struct rig *r, int64_t ms, instant ready_at)
{
    struct enqueue spec = rig_spec("q");
    spec.options.deadline = instant_add(r->now, (span){ms});
    spec.ready_at = ready_at;
    spec.dead_retention = HOUR;
    return rig_add_spec(r, &spec);
}

static void assert_overrun(struct rig *r, struct id id)
{
    const struct job *job = rig_read(r, id);
    assert_non_null(job);
    assert_int_equal(job->state.status, STATUS_DEAD);
    assert_int_equal(job->state.resolution, RESOLUTION_DEADLINE);
    assert_true(job->state.reason.len > 0);
}

static void a_job_that_waits_dies_at_its_deadline_and_not_before(void **state)
{
    R;
    struct id ready = add_due(r, 5000, INSTANT_NONE);
    struct id later = add_due(r, 5000, instant_add(r->now, HOUR));
    rig_turn_after(r, 4999);
    assert_int_equal(rig_status(r, ready), STATUS_READY);
    assert_int_equal(rig_status(r, later), STATUS_SCHEDULED);
    rig_turn_after(r, 1);
    assert_overrun(r, ready);
    assert_overrun(r, later);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
}

static void a_run_ends_with_the_deadline_and_its_report_is_stale(void **state)
{
    R;
    struct id id = add_due(r, 5000, INSTANT_NONE);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(r->got_count, 1);
    uint64_t token = r->got[0].token;
    rig_turn_after(r, 5000);
    assert_overrun(r, id);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){id, token}), ERR_STALE);
    assert_overrun(r, id);
}

static void the_deadline_of_a_job_that_has_ended_is_forgotten(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.deadline = instant_add(r->now, (span){5000});
    spec.completed_retention = HOUR;
    struct id id = rig_add_spec(r, &spec);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_succeed(r, id);
    instant at;
    assert_true(engine_next_due(r->e, &at));
    assert_int_equal(at.ms, r->now.ms + HOUR.ms); /* the end of its retention is what comes next */
    rig_turn_after(r, 5000);
    assert_int_equal(rig_status(r, id), STATUS_COMPLETED);
}

static void assert_remedy(struct rig *r, struct id id, const char *words)
{
    struct explanation x;
    struct job_extent extent;
    assert_ok(engine_explain(r->e, r->now, id, &r->strings, &x, &extent));
    explain_sum_up(&x, r->now, &r->strings);
    assert_true(x.remedy.len > 0 && memmem(x.remedy.at, x.remedy.len, words, strlen(words)));
}

static void no_retry_is_promised_to_one_that_is_too_late(void **state)
{
    R;
    struct id in_time = add_due(r, 5000, INSTANT_NONE), late = add_due(r, 4000, INSTANT_NONE);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, in_time, &r->strings, &job));
    rig_turn_after(r, 4000);
    assert_remedy(r, in_time, "brings it back");
    assert_remedy(r, late, "a retry is refused: the deadline of the job is over");
}

static void a_deadline_in_the_past_ends_the_job_in_the_next_turn(void **state)
{
    R;
    struct id id = add_due(r, -1, INSTANT_NONE);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    assert_overrun(r, id);
}

static void deadlines_outlive_a_restart(void **state)
{
    R;
    struct id waits = add_due(r, 5000, instant_add(r->now, HOUR));
    struct id runs = add_due(r, 6000, INSTANT_NONE);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    rig_restart(r);
    rig_turn_after(r, 5000);
    assert_overrun(r, waits);
    assert_int_equal(rig_status(r, runs), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1000);
    assert_overrun(r, runs);
}

static void a_retry_is_possible_until_the_deadline(void **state)
{
    R;
    struct id id = add_due(r, 5000, instant_add(r->now, HOUR));
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    rig_turn_after(r, 1000);
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job));
    rig_turn_after(r, 4000);
    assert_overrun(r, id);
    assert_code(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job),
                ERR_UNPROCESSABLE);
}

/* --- aliases --- */

static struct enqueued add_alias(struct rig *r, const char *alias)
{
    struct enqueue spec = rig_spec("q");
    struct enqueued out;
    spec.options.alias = str_from(alias);
    spec.completed_retention = spec.dead_retention = HOUR;
    assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &out));
    engine_check(r->e);
    return out;
}

static bool finds(struct rig *r, const char *alias, struct id id)
{
    struct job job;
    bool found;
    assert_ok(engine_alias_find(r->e, r->now, str_from(alias), &r->strings, &job, &found));
    return found && id_eq(job.id, id);
}

static void an_alias_finds_its_job_in_every_status_until_it_is_gone(void **state)
{
    R;
    struct id id = add_alias(r, "build-1").job.id;
    assert_true(finds(r, "build-1", id));
    assert_false(finds(r, "build-2", id));
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    assert_true(finds(r, "build-1", id));
    rig_succeed(r, id);
    assert_true(finds(r, "build-1", id));
    assert_true(add_alias(r, "build-1").duplicate);
    rig_restart(r);
    assert_true(finds(r, "build-1", id));
    rig_turn_after(r, HOUR.ms);
    assert_false(finds(r, "build-1", id));
    assert_false(add_alias(r, "build-1").duplicate);
}

static void of_one_request_too_only_the_first_has_the_alias(void **state)
{
    R;
    struct enqueue specs[2] = {rig_spec("q"), rig_spec("q")};
    struct enqueued out[2];
    specs[0].options.alias = specs[1].options.alias = STR("a");
    assert_ok(engine_enqueue(r->e, r->now, specs, 2, &r->strings, out));
    assert_false(out[0].duplicate);
    assert_true(out[1].duplicate);
    assert_id(out[0].job.id, out[1].job.id);
}

static void a_removed_job_gives_its_alias_back(void **state)
{
    R;
    struct id id = add_alias(r, "a").job.id;
    assert_ok(engine_remove(r->e, r->now, id));
    assert_false(finds(r, "a", id));
    assert_false(add_alias(r, "a").duplicate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_that_waits_dies_at_its_deadline_and_not_before),
        TEST(a_run_ends_with_the_deadline_and_its_report_is_stale),
        TEST(the_deadline_of_a_job_that_has_ended_is_forgotten),
        TEST(no_retry_is_promised_to_one_that_is_too_late),
        TEST(a_deadline_in_the_past_ends_the_job_in_the_next_turn),
        TEST(deadlines_outlive_a_restart),
        TEST(a_retry_is_possible_until_the_deadline),
        TEST(an_alias_finds_its_job_in_every_status_until_it_is_gone),
        TEST(of_one_request_too_only_the_first_has_the_alias),
        TEST(a_removed_job_gives_its_alias_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
