/* SPDX-License-Identifier: Apache-2.0 */

/* Undoing what a command made of a job, and leaving alone what has gone on since. */

#include "core/undo.h"

#include "core/depend.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct undo_entry keep(struct rig *r, struct id id, enum operation_kind kind)
{
    struct undo_entry entry;
    struct job_extent extent;
    assert_ok(engine_undo_keep(r->e, r->now, id, kind, &r->strings, &entry, &extent));
    return entry;
}

static void kept(struct rig *r, unsigned patched, struct undo_entry *entry)
{
    assert_ok(engine_undo_kept(r->e, r->now, patched, &r->strings, entry));
    engine_check(r->e);
}

static struct undo_entry removed(struct rig *r, struct id id)
{
    struct undo_entry entry = keep(r, id, OPERATION_DELETE);
    assert_ok(engine_remove(r->e, r->now, id));
    kept(r, 0, &entry);
    assert_true(entry.gone);
    return entry;
}

static struct undo_entry canceled(struct rig *r, struct id id)
{
    struct job job;
    struct undo_entry entry = keep(r, id, OPERATION_CANCEL);
    assert_ok(engine_cancel(r->e, r->now, id, &r->strings, &job));
    kept(r, 0, &entry);
    return entry;
}

static struct undo_entry rerun(struct rig *r, struct id id)
{
    struct job job;
    struct undo_entry entry = keep(r, id, OPERATION_RETRY);
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job));
    kept(r, 0, &entry);
    return entry;
}

static struct undo_entry patched(struct rig *r, struct id id, const struct patch *p)
{
    struct job job;
    struct undo_entry entry = keep(r, id, OPERATION_PATCH);
    assert_ok(engine_patch(r->e, r->now, id, p, &r->strings, &job));
    kept(r, p->set, &entry);
    return entry;
}

static enum undo_outcome undo(struct rig *r, const struct undo_entry *entry)
{
    enum undo_outcome out;
    assert_ok(engine_undo(r->e, r->now, entry, &r->strings, &out));
    rig_turn(r);
    return out;
}

static void die(struct rig *r, struct id id)
{
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.message = STR("it broke"), .run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
}

static struct id dead(struct rig *r)
{
    struct id id = rig_add(r, "q");
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    die(r, id);
    rig_turn(r);
    rig_clear(r);
    return id;
}

static void a_deleted_job_is_what_it_was_also_after_a_restart(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.retry_limit = 4;
    spec.priority = 7;
    spec.ready_at = instant_add(r->now, HOUR);
    struct id id = rig_add_spec(r, &spec);
    struct undo_entry entry = removed(r, id);
    assert_int_equal(rig_status(r, id), STATUS_GONE);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    for (int i = 0; i < 2; i++) {
        const struct job *job = rig_read(r, id);
        assert_int_equal(job->state.status, STATUS_SCHEDULED);
        assert_int_equal(job->state.priority, 7);
        assert_int_equal(job->retry_limit, 4);
        assert_int_equal(job->state.ready_at.ms, spec.ready_at.ms);
        assert_true(str_eq(job->payload, STR("{\"n\":1}")));
        rig_restart(r);
    }
    assert_int_equal(undo(r, &entry), UNDO_CHANGED); /* it is there */
    rig_stream(r, "s", "q", 1);
    rig_turn_after(r, HOUR.ms);
    rig_assert_got(r, id);
}

static void a_dead_job_is_dead_again_for_the_rest_of_its_retention(void **state)
{
    R;
    struct id id = dead(r);
    instant purge = rig_read(r, id)->state.purge_at;
    struct undo_entry entry = removed(r, id);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    assert_int_equal(rig_read(r, id)->state.purge_at.ms, purge.ms);
    rig_assert_events(r, id, EVENT_REMOVE, EVENT_RESTORE_DEAD);
    entry = removed(r, id);
    rig_turn_after(r, purge.ms - r->now.ms);
    assert_int_equal(undo(r, &entry), UNDO_RETIRED);
    assert_int_equal(rig_status(r, id), STATUS_GONE);
}

static void a_job_whose_run_was_ended_waits_and_its_report_is_stale(void **state)
{
    R;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct id id = rig_add(r, "q");
        rig_claim(r, "c", "q", 1, (span){0});
        rig_turn(r);
        uint64_t token = r->got[r->got_count - 1].token;
        struct undo_entry entry = cancel ? canceled(r, id) : removed(r, id);
        assert_int_equal(entry.gone, !cancel);
        assert_int_equal(entry.ran, !cancel);
        assert_int_equal(undo(r, &entry), UNDO_DONE);
        const struct job *job = rig_read(r, id);
        assert_int_equal(job->state.status, STATUS_READY);
        assert_int_equal(job->state.runs, 1);
        assert_int_equal(job->state.attempts, 0);
        struct run_ref ref = {.id = id, .token = token};
        assert_int_equal(engine_succeed(r->e, r->now, ref).code, ERR_STALE);
        rig_restart(r);
        assert_int_equal(rig_status(r, id), STATUS_READY);
        assert_ok(engine_remove(r->e, r->now, id));
    }
}

static uint32_t losses(struct rig *r, struct id id)
{
    return rig_read(r, id)->state.losses;
}

static void a_run_that_was_ended_begins_the_count_of_lost_workers_anew(void **state)
{
    R;
    r->settings.lost_worker_min_held = (span){0};
    rig_restart(r);
    for (int cancel = 0; cancel < 2; cancel++) {
        struct enqueue spec = rig_spec("q");
        spec.dead_retention = HOUR;
        spec.options.pending_runs =
            cancel ? 1 : 0; /* then a cancel is a run, which no worker had */
        struct id id = rig_add_spec(r, &spec);
        struct taker *t = rig_stream(r, "w", "q", 1);
        rig_turn(r);
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
        rig_turn(r);
        assert_int_equal(losses(r, id), 1);
        struct undo_entry entry = cancel ? canceled(r, id) : removed(r, id);
        assert_int_equal(undo(r, &entry), UNDO_DONE);
        assert_int_equal(losses(r, id), 1); /* as it waited */
        rig_claim(r, "c", "q", 1, (span){0});
        rig_turn(r);
        entry = cancel ? canceled(r, id) : removed(r, id);
        assert_int_equal(undo(r, &entry), UNDO_DONE);
        assert_int_equal(losses(r, id), 0);
        assert_ok(engine_remove(r->e, r->now, id));
    }
}

static void a_unique_key_and_an_alias_that_others_took_keep_it_out(void **state)
{
    R;
    struct enqueue spec = rig_spec("q"), aliased = rig_spec("q");
    spec.unique_key = STR("k");
    spec.unique_while = UNIQUE_ACTIVE;
    aliased.options.alias = STR("a");
    struct id id = rig_add_spec(r, &spec), other = rig_add_spec(r, &aliased);
    struct undo_entry entry = removed(r, id), second = removed(r, other);
    rig_turn(r);
    struct id taken = rig_add_spec(r, &spec);
    rig_add_spec(r, &aliased);
    assert_int_equal(undo(r, &entry), UNDO_UNIQUE_KEY);
    assert_int_equal(undo(r, &second), UNDO_ALIAS);
    assert_ok(engine_remove(r->e, r->now, taken));
    assert_int_equal(undo(r, &entry), UNDO_DONE);
}

static void two_jobs_that_had_a_key_together_both_come_back(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.unique_key = STR("k");
    spec.unique_while = UNIQUE_QUEUED;
    struct id first = rig_add_spec(r, &spec);
    struct taker *t = rig_stream(r, "s", "q", 1);
    rig_turn(r);
    struct id second = rig_add_spec(r, &spec);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn_after(r, 1);
    struct undo_entry a = removed(r, first), b = removed(r, second);
    assert_int_equal(undo(r, &a), UNDO_DONE);
    assert_int_equal(undo(r, &b), UNDO_DONE);
}

static void a_group_is_what_it_was(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.group = STR("g");
    spec.options.group_owner = STR("me");
    struct id id = rig_add_spec(r, &spec);
    assert_ok(engine_group_seal(r->e, r->now, STR("g")));
    struct undo_entry entry = removed(r, id);
    assert_null(rig_group(r, "g"));
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    assert_true(str_eq(rig_group(r, "g")->owner, STR("me")));
    assert_true(instant_is_set(rig_group(r, "g")->sealed_at));
    entry = removed(r, id);
    spec.options.group_owner = STR("you");
    rig_add_spec(r, &spec);
    assert_int_equal(undo(r, &entry), UNDO_GROUP);
}

static void a_whole_gang_comes_back_and_runs_together(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct undo_entry entries[2];
    struct id ids[2];
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    for (int i = 0; i < 2; i++)
        ids[i] = rig_add_spec(r, &spec);
    for (int i = 0; i < 2; i++)
        entries[i] = removed(r, ids[i]);
    rig_stream(r, "s", "q", 2);
    assert_int_equal(undo(r, &entries[0]), UNDO_DONE);
    assert_int_equal(r->got_count, 0);
    assert_int_equal(undo(r, &entries[1]), UNDO_DONE);
    rig_assert_got(r, ids[0], ids[1]);
    entries[0] = removed(r, ids[0]);
    assert_int_equal(undo(r, &entries[0]), UNDO_GANG); /* the other one runs */
}

/* A complete gang may have waited for a worker for longer than members are waited for. */
static void a_gang_that_comes_back_member_by_member_is_waited_for_anew(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    struct undo_entry entries[2];
    struct id ids[2];
    r->settings.gang_wait_max = HOUR;
    rig_restart(r);
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    for (int i = 0; i < 2; i++)
        ids[i] = rig_add_spec(r, &spec);
    rig_turn_after(r, 5 * HOUR.ms);
    for (int i = 0; i < 2; i++)
        entries[i] = removed(r, ids[i]);
    assert_int_equal(undo(r, &entries[0]), UNDO_DONE);
    rig_turn_after(r, HOUR.ms - 1);
    assert_int_equal(rig_status(r, ids[0]), STATUS_READY);
    assert_int_equal(undo(r, &entries[1]), UNDO_DONE);
    rig_turn_after(r, 5 * HOUR.ms);
    rig_stream(r, "s", "q", 2);
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1]);
}

static struct id after(struct rig *r, struct id id, enum depend_death death)
{
    struct enqueue spec = rig_spec("later");
    spec.options.depends_on = depend_new(&r->strings, 1);
    depend_add(&spec.options.depends_on, id);
    spec.options.depend_death = death;
    return rig_add_spec(r, &spec);
}

/* A cancel is a run of such a job, but not one that its gang was handed out for. */
static void a_gang_waits_for_all_when_a_member_was_canceled_and_is_back(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.dead_retention = HOUR;
    spec.options.pending_runs = 1;
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    struct id first = rig_add_spec(r, &spec);
    struct undo_entry entry = canceled(r, first);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    assert_int_equal(rig_read(r, first)->state.runs, 1);
    for (int i = 0; i < 2; i++) {
        rig_clear(r);
        rig_stream(r, "w", "q", 2);
        rig_turn(r);
        assert_int_equal(r->got_count, 0);
        rig_restart(r);
    }
    assert_ok(engine_gang_check(r->e, &spec, 1));
    struct id second = rig_add_spec(r, &spec);
    rig_clear(r);
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    rig_assert_got(r, first, second);
}

static void a_blocked_job_waits_for_what_is_not_done_by_now(void **state)
{
    R;
    struct id first = rig_add(r, "q"), second = rig_add(r, "q");
    struct id a = after(r, first, DEPEND_DIE), b = after(r, second, DEPEND_DIE);
    struct undo_entry of_a = removed(r, a), of_b = removed(r, b);
    assert_int_equal(undo(r, &of_a), UNDO_DONE);
    assert_int_equal(rig_status(r, a), STATUS_BLOCKED);
    of_a = removed(r, a);
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    assert_ok(engine_succeed(r->e, r->now, rig_ref(r, first)));
    die(r, second);
    rig_turn(r);
    assert_int_equal(undo(r, &of_a), UNDO_DONE);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    assert_int_equal(undo(r, &of_b), UNDO_DONE);
    assert_int_equal(rig_status(r, b), STATUS_DEAD); /* as it would have been */
}

static void a_cancel_that_others_have_undone_is_left_alone(void **state)
{
    R;
    struct job job;
    struct id id = rig_add(r, "q");
    struct undo_entry entry = canceled(r, id);
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job));
    assert_int_equal(undo(r, &entry), UNDO_CHANGED);
    assert_ok(engine_remove(r->e, r->now, id));
    assert_int_equal(undo(r, &entry), UNDO_DELETED);
}

static void a_retried_job_is_dead_again_unless_it_has_run(void **state)
{
    R;
    struct id id = dead(r);
    struct job_state was = rig_read(r, id)->state;
    struct undo_entry entry = rerun(r, id);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    const struct job_state *is = &rig_read(r, id)->state;
    assert_int_equal(is->status, STATUS_DEAD);
    assert_int_equal(is->resolution, was.resolution);
    assert_int_equal(is->purge_at.ms, was.purge_at.ms);
    assert_int_equal(is->forgiven, was.forgiven);
    assert_true(str_eq(is->reason, was.reason));
    assert_int_equal(rig_event(r)->event, EVENT_UNRETRY);
    rig_restart(r);
    entry = rerun(r, id);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(undo(r, &entry), UNDO_IN_FLIGHT);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    assert_int_equal(undo(r, &entry), UNDO_CHANGED);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    die(r, id);
    assert_int_equal(undo(r, &entry), UNDO_FINISHED);
}

static void a_patch_is_taken_back_where_it_still_holds(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", HOUR);
    instant ready = rig_read(r, id)->state.ready_at;
    const struct patch p = {.set =
                                PATCH_QUEUE | PATCH_PRIORITY | PATCH_READY_AT | PATCH_RETRY_LIMIT,
                            .queue = STR("p"),
                            .priority = 3,
                            .ready_at = r->now,
                            .retry_limit = 9};
    struct undo_entry entry = patched(r, id, &p);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_SCHEDULED);
    assert_int_equal(job->state.ready_at.ms, ready.ms);
    assert_int_equal(job->state.priority, JOB_PRIORITY_DEFAULT);
    assert_int_equal(job->retry_limit, RETRY_LIMIT_DEFAULT);
    assert_true(str_eq(job->queue, STR("q")));
    entry = patched(r, id, &p);
    patched(r, id, &(struct patch){.set = PATCH_PRIORITY, .priority = 4});
    assert_int_equal(undo(r, &entry), UNDO_CHANGED);
    patched(r, id, &(struct patch){.set = PATCH_PRIORITY, .priority = 3});
    rig_claim(r, "c", "p", 1, (span){0});
    rig_turn(r);
    assert_int_equal(undo(r, &entry), UNDO_IN_FLIGHT);
    assert_ok(engine_succeed(r->e, r->now, rig_ref(r, id)));
    enum undo_outcome out = undo(r, &entry);
    assert_true(out == UNDO_FINISHED || out == UNDO_DELETED);
}

static struct run_ref preempted(struct rig *r)
{
    struct id id = rig_add(r, "q");
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    struct job job;
    struct run_ref ref = {.id = id, .token = r->got[r->got_count - 1].token};
    struct failure_report report = {.ref = ref,
                                    .failure = {.condition = CONDITION_PREEMPTED, .run_time = {-1}},
                                    .retry_at = INSTANT_NONE,
                                    .grace = HOUR};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    return ref;
}

static void without_its_patch_a_job_waits_for_its_preempted_run_again(void **state)
{
    R;
    struct job job;
    struct run_ref ref = preempted(r);
    struct job_state was = rig_read(r, ref.id)->state;
    assert_int_equal(was.extras.grace_token, ref.token);
    const struct patch now = {.set = PATCH_READY_AT, .ready_at = INSTANT_NONE};
    struct undo_entry entry = patched(r, ref.id, &now);
    assert_int_equal(rig_status(r, ref.id), STATUS_READY);
    assert_int_equal(engine_terminated(r->e, r->now, ref, 0, &r->strings, &job).code, ERR_STALE);
    assert_int_equal(undo(r, &entry), UNDO_DONE);
    rig_restart(r);
    const struct job_state *is = &rig_read(r, ref.id)->state;
    assert_int_equal(is->ready_at.ms, was.ready_at.ms);
    assert_int_equal(is->extras.grace_token, was.extras.grace_token);
    assert_int_equal(is->extras.grace_end.ms, was.extras.grace_end.ms);
    assert_int_equal(is->extras.backoff_end.ms, was.extras.backoff_end.ms);
    assert_ok(engine_terminated(r->e, r->now, ref, 0, &r->strings, &job));
    assert_int_equal(job.state.ready_at.ms, was.extras.backoff_end.ms);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_deleted_job_is_what_it_was_also_after_a_restart),
        TEST(a_dead_job_is_dead_again_for_the_rest_of_its_retention),
        TEST(a_job_whose_run_was_ended_waits_and_its_report_is_stale),
        TEST(a_run_that_was_ended_begins_the_count_of_lost_workers_anew),
        TEST(a_unique_key_and_an_alias_that_others_took_keep_it_out),
        TEST(two_jobs_that_had_a_key_together_both_come_back),
        TEST(a_group_is_what_it_was),
        TEST(a_whole_gang_comes_back_and_runs_together),
        TEST(a_gang_that_comes_back_member_by_member_is_waited_for_anew),
        TEST(a_gang_waits_for_all_when_a_member_was_canceled_and_is_back),
        TEST(a_blocked_job_waits_for_what_is_not_done_by_now),
        TEST(a_cancel_that_others_have_undone_is_left_alone),
        TEST(a_retried_job_is_dead_again_unless_it_has_run),
        TEST(a_patch_is_taken_back_where_it_still_holds),
        TEST(without_its_patch_a_job_waits_for_its_preempted_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
