/* SPDX-License-Identifier: Apache-2.0 */

/* Commands from people: patch, cancel, rerun. */

#include "base/array.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct job patched(struct rig *r, struct id id, const struct patch *p)
{
    struct job job;
    assert_ok(engine_patch(r->e, r->now, id, p, &r->strings, &job));
    assert_null(job.payload.at);
    engine_check(r->e);
    return job;
}

static struct job canceled(struct rig *r, struct id id)
{
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    engine_check(r->e);
    return job;
}

static struct job rerun(struct rig *r, struct id id, instant at)
{
    struct job job;
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = at}, &r->strings, &job));
    engine_check(r->e);
    return job;
}

static void fail_for_good(struct rig *r, struct id id)
{
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.message = STR("it broke"), .run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
}

/* A job in flight, by a stream or by a lease. */
static struct id held(struct rig *r, bool lease, struct taker **t)
{
    struct id id = rig_add(r, "q");
    rig_clear(r);
    *t = lease ? rig_claim(r, "c", "q", 1, (span){0}) : rig_stream(r, "s", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
    return id;
}

/* The worker gives it back without a result. */
static void give_back(struct rig *r, struct id id, bool lease, struct taker *t)
{
    if (lease)
        assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    else
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
    engine_check(r->e);
}

/* --- patch --- */

static void a_patch_changes_what_it_sets_and_nothing_else(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 4;
    spec.completed_retention = HOUR;
    struct id id = rig_add_spec(r, &spec);
    struct patch p = {.set = PATCH_DEAD | PATCH_PRIORITY, .priority = 5, .dead_retention = HOUR};
    patched(r, id, &p);
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.priority, 5);
    assert_int_equal(job->dead_retention.ms, HOUR.ms);
    assert_int_equal(job->completed_retention.ms, HOUR.ms);
    assert_int_equal(job->retry_limit, 4);
    assert_true(str_eq(job->queue, STR("q")));
    assert_true(str_eq(job->payload, STR("{\"n\":1}")));
    assert_int_equal(job->state.status, STATUS_READY);
}

static void a_patched_queue_and_priority_decide_who_gets_the_job_and_when(void **state)
{
    R;
    struct id a = rig_add(r, "old"), b = rig_add(r, "new"), c = rig_add(r, "old");
    struct patch p = {.set = PATCH_QUEUE, .queue = STR("new")};
    patched(r, a, &p);
    p.set |= PATCH_PRIORITY;
    p.priority = 1;
    patched(r, c, &p);
    assert_int_equal(rig_count(r, "old", STATUS_READY), 0);
    rig_stream(r, "s", "new", 3);
    rig_turn(r);
    rig_assert_got(r, c, a, b); /* by priority, then by id */
}

static void a_patched_time_moves_a_job_between_ready_and_scheduled(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct patch p = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, HOUR)};
    assert_int_equal(patched(r, id, &p).state.status, STATUS_SCHEDULED);
    assert_int_equal(rig_count(r, "q", STATUS_SCHEDULED), 1);
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    p.ready_at = instant_add(r->now, (span){10});
    assert_int_equal(patched(r, id, &p).state.status, STATUS_SCHEDULED);
    rig_turn_after(r, 9);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
}

static void a_patch_to_no_time_at_all_means_now(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", HOUR);
    struct patch p = {.set = PATCH_READY_AT, .ready_at = INSTANT_NONE};
    struct job job = patched(r, id, &p);
    assert_int_equal(job.state.status, STATUS_READY);
    assert_int_equal(job.state.ready_at.ms, r->now.ms);
}

static void a_patch_does_not_touch_a_run(void **state)
{
    R;
    for (int lease = 0; lease < 2; lease++) {
        struct taker *t;
        struct id id = held(r, lease, &t);
        struct run was, is;
        uint64_t token, same;
        assert_true(engine_live_run(r->e, id, &was, &token));
        struct patch p = {.set = PATCH_QUEUE | PATCH_PRIORITY, .queue = STR("p"), .priority = 1};
        assert_int_equal(patched(r, id, &p).state.status, STATUS_IN_FLIGHT);
        assert_true(engine_live_run(r->e, id, &is, &same));
        assert_true(same == token && is.lease_end.ms == was.lease_end.ms);
        assert_int_equal(rig_count(r, "p", STATUS_IN_FLIGHT), 1);
        assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 0);
        rig_succeed(r, id);
        engine_check(r->e);
        assert_int_equal(rig_count(r, "p", STATUS_IN_FLIGHT), 0);
        if (!lease)
            engine_taker_close(r->e, r->now, t, TAKER_GONE);
    }
}

static void a_job_given_back_waits_where_the_patch_put_it(void **state)
{
    R;
    for (int lease = 0; lease < 2; lease++) {
        struct taker *t;
        struct id id = held(r, lease, &t), rival = rig_add_priority(r, "p", 5);
        struct patch p = {.set = PATCH_QUEUE | PATCH_PRIORITY, .queue = STR("p"), .priority = 1};
        patched(r, id, &p);
        give_back(r, id, lease, t);
        rig_clear(r);
        rig_claim(r, "d", "p", 2, (span){0});
        rig_turn(r);
        rig_assert_got(r, id, rival);
        rig_succeed(r, id);
        rig_succeed(r, rival);
    }
}

static void a_job_given_back_before_its_patched_time_is_scheduled(void **state)
{
    R;
    for (int lease = 0; lease < 2; lease++) {
        struct taker *t;
        struct id id = held(r, lease, &t);
        struct patch p = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, HOUR)};
        assert_int_equal(patched(r, id, &p).state.status, STATUS_IN_FLIGHT);
        give_back(r, id, lease, t);
        assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
        rig_restart(r);
        assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
        rig_turn_after(r, HOUR.ms);
        assert_int_equal(rig_status(r, id), STATUS_READY);
        assert_ok(engine_remove(r->e, r->now, id));
    }
}

static void a_restart_puts_a_cut_off_job_where_the_patch_put_it(void **state)
{
    R;
    struct taker *t;
    struct id off = held(r, false, &t), moved = rig_add(r, "q");
    rig_stream(r, "s2", "q", 1);
    rig_turn(r);
    struct patch p = {.set = PATCH_READY_AT, .ready_at = instant_add(r->now, HOUR)};
    patched(r, off, &p);
    p = (struct patch){.set = PATCH_QUEUE | PATCH_PRIORITY, .queue = STR("p"), .priority = 7};
    patched(r, moved, &p);
    for (int i = 0; i < 2; i++) { /* what recovery writes must be read in the same way */
        rig_restart(r);
        assert_int_equal(rig_status(r, off), STATUS_SCHEDULED);
        assert_int_equal(rig_status(r, moved), STATUS_READY);
        assert_int_equal(rig_count(r, "p", STATUS_READY), 1);
        assert_int_equal(rig_read(r, moved)->state.priority, 7);
        assert_int_equal(rig_run(r, off, 0)->outcome, OUTCOME_LOST);
    }
}

static void a_patched_lease_is_kept_over_a_restart_and_still_runs_out(void **state)
{
    R;
    struct taker *t;
    struct id id = held(r, true, &t);
    struct patch p = {.set = PATCH_QUEUE, .queue = STR("p")};
    rig_confirm(r, id);
    patched(r, id, &p);
    rig_restart(r);
    assert_int_equal(rig_count(r, "p", STATUS_IN_FLIGHT), 1);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(rig_count(r, "p", STATUS_READY), 1);
    assert_int_equal(rig_read(r, id)->state.attempts, 1);
}

static void patched_settings_decide_about_the_failure_of_the_run_under_way(void **state)
{
    R;
    struct taker *t;
    struct id id = held(r, false, &t);
    struct patch p = {.set = PATCH_RETRY_LIMIT | PATCH_DEAD, .dead_retention = HOUR};
    patched(r, id, &p); /* retry_limit 0 */
    struct job job = rig_fail(r, id);
    assert_int_equal(job.state.status, STATUS_DEAD);
    assert_int_equal(job.state.purge_at.ms, instant_add(r->now, HOUR).ms);
}

static void what_has_ended_cannot_be_patched(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    canceled(r, id);
    struct patch p = {.set = PATCH_PRIORITY, .priority = 1};
    struct job job;
    unsigned writes = r->writes;
    assert_code(engine_patch(r->e, r->now, id, &p, &r->strings, &job), ERR_UNPROCESSABLE);
    assert_int_equal(r->writes, writes);
    struct id nobody = {1, 1};
    assert_code(engine_patch(r->e, r->now, nobody, &p, &r->strings, &job), ERR_NOT_FOUND);
}

/* --- cancel --- */

static void a_canceled_job_is_dead_whatever_it_was(void **state)
{
    R;
    struct taker *t;
    const struct id ids[] = {held(r, true, &t), held(r, false, &t), rig_add(r, "other"),
                             rig_add_later(r, "other", HOUR)};
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct job job = canceled(r, ids[i]);
        assert_int_equal(job.state.status, STATUS_DEAD);
        assert_int_equal(job.state.resolution, RESOLUTION_CANCELED);
        assert_int_equal(job.state.attempts, 0);
        assert_int_equal(job.state.purge_at.ms, instant_add(r->now, r->settings.dead_retention).ms);
        assert_int_equal(rig_status(r, ids[i]), STATUS_DEAD);
    }
    assert_int_equal(rig_run(r, ids[0], 0)->outcome, OUTCOME_CANCELED);
    assert_int_equal(rig_run(r, ids[1], 0)->outcome, OUTCOME_CANCELED);
    rig_turn(r);
    assert_int_equal(rig_takes_count(r), 0);
    rig_restart(r);
    for (size_t i = 0; i < COUNT(ids); i++)
        assert_int_equal(rig_status(r, ids[i]), STATUS_DEAD);
}

static void the_report_of_a_canceled_run_is_stale(void **state)
{
    R;
    struct taker *t;
    struct id id = held(r, true, &t);
    struct run_ref ref = {.id = id, .token = r->got[0].token};
    canceled(r, id);
    assert_code(engine_succeed(r->e, r->now, ref), ERR_STALE);
    ref.token = 0;
    assert_code(engine_succeed(r->e, r->now, ref), ERR_NOT_IN_FLIGHT);
}

static void a_canceled_job_without_retention_is_gone(void **state)
{
    R;
    r->settings.dead_retention = (span){0};
    rig_restart(r);
    struct taker *t;
    const struct id ids[] = {held(r, true, &t), held(r, false, &t), rig_add(r, "other")};
    for (size_t i = 0; i < COUNT(ids); i++) {
        assert_int_equal(canceled(r, ids[i]).state.status, STATUS_DEAD);
        assert_null(rig_record(r, ids[i]));
    }
}

static void what_has_ended_cannot_be_canceled(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct job job;
    canceled(r, id);
    assert_code(engine_cancel(r->e, r->now, id, &r->strings, &job), ERR_UNPROCESSABLE);
}

/* --- rerun --- */

static void a_dead_job_comes_back_with_all_its_retries_and_its_attempts(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 1;
    spec.backoff = (struct curve){CURVE_POWER, {0}, 0.0, {0}};
    struct id id = rig_add_spec(r, &spec);
    rig_stream(r, "s", "q", 1);
    for (uint32_t round = 0; round < 3; round++) {
        rig_turn(r);
        assert_true(str_eq(rig_fail(r, id).state.reason, STR("retry 1 of 1, own backoff, in 1 s")));
        rig_turn_after(r, 1000);
        assert_int_equal(rig_fail(r, id).state.status, STATUS_DEAD);
        if (round == 1)
            rig_restart(r);
        if (round == 1)
            rig_stream(r, "s", "q", 1);
        struct job job = rerun(r, id, r->now);
        assert_int_equal(job.state.status, STATUS_READY);
        assert_int_equal(job.state.resolution, RESOLUTION_NONE);
        assert_int_equal(job.state.attempts, 2 * (round + 1));
        assert_false(instant_is_set(job.state.purge_at));
    }
    assert_int_equal(rig_run(r, id, 5)->attempt, 6);
}

static void a_rerun_may_be_for_later_and_is_not_purged(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.dead_retention = (span){1000};
    struct id id = rig_add_spec(r, &spec);
    canceled(r, id);
    instant later = instant_add(r->now, HOUR);
    assert_int_equal(rerun(r, id, later).state.status, STATUS_SCHEDULED);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
    rig_restart(r);
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    r->now = later;
    rig_turn(r);
    rig_assert_got(r, id);
}

static void assert_reprioritized(struct rig *r, struct id id, uint16_t to, enum status status)
{
    struct patch p = {.set = PATCH_PRIORITY, .priority = to};
    struct job job;
    uint16_t was = rig_read(r, id)->state.priority;
    assert_ok(engine_patch(r->e, r->now, id, &p, &r->strings, &job));
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_REPRIORITIZE);
    assert_id(ev->id, id);
    assert_int_equal(ev->from, status);
    assert_int_equal(ev->to, status);
    assert_int_equal(ev->old_priority, was);
    assert_int_equal(ev->priority, to);
    size_t events = r->event_count;
    assert_ok(engine_patch(r->e, r->now, id, &p, &r->strings, &job));
    assert_int_equal(r->event_count, events); /* it has that priority already */
}

static void another_priority_is_an_event(void **state)
{
    R;
    struct taker *t;
    struct enqueue spec = rig_spec("q");
    spec.options.hold = 1;
    assert_reprioritized(r, held(r, true, &t), 1, STATUS_IN_FLIGHT);
    assert_reprioritized(r, rig_add_spec(r, &spec), 2, STATUS_BLOCKED);
    assert_reprioritized(r, rig_add_later(r, "q", HOUR), 3, STATUS_SCHEDULED);
    struct id id = rig_add(r, "q"), due = rig_add_later(r, "q", HOUR);
    assert_reprioritized(r, id, 4, STATUS_READY);
    r->now = instant_add(r->now, HOUR); /* its time has come, which comes first */
    assert_reprioritized(r, due, 5, STATUS_READY);
    rig_assert_events(r, due, EVENT_ENQUEUE_LATER, EVENT_DUE, EVENT_REPRIORITIZE);
    rig_restart(r);
}

static void only_a_dead_job_comes_back(void **state)
{
    R;
    r->settings.completed_retention = HOUR;
    rig_restart(r);
    struct taker *t;
    struct id done = held(r, true, &t);
    rig_succeed(r, done);
    const struct id ids[] = {done, held(r, true, &t), rig_add(r, "other"),
                             rig_add_later(r, "other", HOUR)};
    struct job job;
    for (size_t i = 0; i < COUNT(ids); i++)
        assert_code(
            engine_rerun(r->e, r->now, ids[i], (struct rerun){.at = r->now}, &r->strings, &job),
            ERR_UNPROCESSABLE);
}

static void a_completed_job_comes_back_if_that_is_asked_for(void **state)
{
    R;
    r->settings.completed_retention = HOUR;
    r->settings.retry = (struct retry_defaults){1, curve_default()};
    rig_restart(r);
    struct taker *t;
    struct id id = held(r, true, &t);
    struct news news = {.has_checkpoint = true, .checkpoint = STR("1"), .result = STR("2")};
    struct rerun how = {.at = r->now, .completed = true};
    struct job job;
    rig_fail(r, id);
    rig_turn_after(r, HOUR.ms);
    rig_claim(r, "d", "q", 1, (span){0});
    rig_turn(r);
    assert_ok(engine_note(r->e, r->now, rig_ref(r, id), &news));
    rig_succeed(r, id);
    assert_ok(engine_rerun(r->e, r->now, id, how, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_READY);
    assert_false(instant_is_set(job.state.completed_at));
    assert_false(instant_is_set(job.state.purge_at));
    assert_int_equal(rig_record(r, id)->has_notes, 0); /* it has no result any more */
    rig_assert_events(r, id, EVENT_SUCCEED, EVENT_RERUN, EVENT_DUE);
    assert_code(engine_rerun(r->e, r->now, id, how, &r->strings, &job), ERR_UNPROCESSABLE);
    rig_restart(r);
    rig_turn_after(r, 2 * HOUR.ms); /* its retention is forgotten */
    rig_stream(r, "again", "q", 1);
    rig_turn(r);
    assert_int_equal(rig_fail(r, id).state.status, STATUS_SCHEDULED); /* it has all its retries */
    assert_int_equal(rig_read(r, id)->state.runs, 3);
}

static void a_dead_job_whose_retention_is_over_is_not_found(void **state)
{
    R;
    struct taker *t;
    struct id id = held(r, true, &t);
    fail_for_good(r, id);
    r->now = instant_add(r->now, r->settings.dead_retention);
    struct job job;
    assert_code(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job),
                ERR_NOT_FOUND);
    assert_code(engine_cancel(r->e, r->now, id, &r->strings, &job), ERR_NOT_FOUND);
    rig_turn(r);
    assert_null(rig_record(r, id));
}

/* --- unique keys --- */

static bool is_held(struct rig *r, const char *key)
{
    struct enqueue spec = rig_spec("probe");
    spec.unique_key = str_from(key);
    spec.unique_while = UNIQUE_QUEUED;
    struct enqueued out;
    assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &out));
    if (!out.duplicate)
        assert_ok(engine_remove(r->e, r->now, out.job.id));
    return out.duplicate;
}

static void a_key_follows_its_job_through_every_change(void **state)
{
    R;
    for (int scope = UNIQUE_QUEUED; scope < UNIQUE_COUNT; scope++) {
        struct enqueue spec = rig_spec("q");
        spec.unique_key = STR("k");
        spec.unique_while = (enum unique)scope;
        struct id id = rig_add_spec(r, &spec);
        struct patch p = {.set = PATCH_QUEUE, .queue = STR("p")};
        patched(r, id, &p);
        assert_true(is_held(r, "k"));
        rig_claim(r, "c", "p", 1, (span){0});
        rig_turn(r);
        p.queue = STR("o");
        patched(r, id, &p);
        assert_int_equal(is_held(r, "k"), scope >= UNIQUE_ACTIVE);
        canceled(r, id);
        assert_int_equal(is_held(r, "k"), scope == UNIQUE_EXISTS);
        rerun(r, id, r->now);
        assert_true(is_held(r, "k"));
        canceled(r, id);
        assert_int_equal(is_held(r, "k"), scope == UNIQUE_EXISTS);
        assert_ok(engine_remove(r->e, r->now, id));
        assert_false(is_held(r, "k"));
        rig_clear(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_patch_changes_what_it_sets_and_nothing_else),
        TEST(a_patched_queue_and_priority_decide_who_gets_the_job_and_when),
        TEST(a_patched_time_moves_a_job_between_ready_and_scheduled),
        TEST(a_patch_to_no_time_at_all_means_now),
        TEST(a_patch_does_not_touch_a_run),
        TEST(a_job_given_back_waits_where_the_patch_put_it),
        TEST(a_job_given_back_before_its_patched_time_is_scheduled),
        TEST(a_restart_puts_a_cut_off_job_where_the_patch_put_it),
        TEST(a_patched_lease_is_kept_over_a_restart_and_still_runs_out),
        TEST(patched_settings_decide_about_the_failure_of_the_run_under_way),
        TEST(what_has_ended_cannot_be_patched),
        TEST(a_canceled_job_is_dead_whatever_it_was),
        TEST(the_report_of_a_canceled_run_is_stale),
        TEST(a_canceled_job_without_retention_is_gone),
        TEST(what_has_ended_cannot_be_canceled),
        TEST(a_dead_job_comes_back_with_all_its_retries_and_its_attempts),
        TEST(a_rerun_may_be_for_later_and_is_not_purged),
        TEST(another_priority_is_an_event),
        TEST(only_a_dead_job_comes_back),
        TEST(a_completed_job_comes_back_if_that_is_asked_for),
        TEST(a_dead_job_whose_retention_is_over_is_not_found),
        TEST(a_key_follows_its_job_through_every_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
