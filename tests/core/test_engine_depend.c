/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "core/depend.h"

#define IDS(...)                                                                                   \
    (const struct id[]){__VA_ARGS__}, sizeof((const struct id[]){__VA_ARGS__}) / sizeof(struct id)

static struct enqueue spec_of(struct rig *r, const struct id *ids, size_t count)
{
    struct enqueue spec = rig_spec("q");
    spec.options.depends_on = depend_new(&r->strings, count);
    for (size_t i = 0; i < count; i++)
        depend_add(&spec.options.depends_on, ids[i]);
    return spec;
}

static struct id add(struct rig *r, const struct enqueue *spec)
{
    assert_ok(engine_depend_check(r->e, r->now, spec, 1));
    return rig_add_spec(r, spec);
}

static struct id add_after(struct rig *r, enum depend_death death, const struct id *ids,
                           size_t count)
{
    struct enqueue spec = spec_of(r, ids, count);
    spec.options.depend_death = death;
    return add(r, &spec);
}

/* Hands the job out, if it is ready, and lets it succeed. */
static void complete(struct rig *r, struct id id)
{
    rig_turn(r);
    rig_succeed(r, id);
    rig_turn(r);
}

static void kill(struct rig *r, struct id id)
{
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.message = STR("no"), .run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    rig_turn(r);
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    rig_turn(r);
}

static void rerun(struct rig *r, struct id id)
{
    struct job job;
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job));
    rig_turn(r);
}

static void remove_job(struct rig *r, struct id id)
{
    assert_ok(engine_remove(r->e, r->now, id));
    rig_turn(r);
}

/* A stream for everything, so that ready jobs are in flight after a turn. */
static void serve(struct rig *r)
{
    rig_stream(r, "s", "q", 60);
}

static const char *reason_of(struct rig *r, struct id id)
{
    static char text[300];
    snprintf(text, sizeof text, "%.*s", STR_ARG(rig_read(r, id)->state.reason));
    return text;
}

static void assert_reason(struct rig *r, struct id id, const char *before, struct id other,
                          const char *after)
{
    char want[300], text[ID_TEXT_LEN];
    id_format(other, text);
    snprintf(want, sizeof want, "%s%.25s%s", before, text, after);
    assert_string_equal(reason_of(r, id), want);
}

/* --- completion --- */

static void a_job_is_blocked_until_all_it_waits_for_have_completed(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct id c = add_after(r, DEPEND_BLOCK, IDS(a, b));
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 1);
    complete(r, a); /* gone at once: completed jobs are not kept */
    assert_int_equal(rig_status(r, a), STATUS_GONE);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    assert_int_equal(depend_count(rig_read(r, c)->state.extras.waits_for), 1);
    rig_clear(r);
    complete(r, b);
    rig_assert_got(r, c); /* in the same turn */
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 0);
    complete(r, c);
    assert_int_equal(rig_status(r, c), STATUS_GONE);
}

static void a_restart_forgets_no_dependency(void **state)
{
    struct rig *r = *state;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct id c = add_after(r, DEPEND_BLOCK, IDS(a, b));
    rig_restart(r);
    serve(r);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    complete(r, a);
    rig_restart(r);
    serve(r);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 1);
    complete(r, b);
    assert_int_equal(rig_status(r, c), STATUS_IN_FLIGHT);
}

static void what_has_completed_already_is_not_waited_for(void **state)
{
    struct rig *r = *state;
    r->settings.completed_retention = (span){1000};
    rig_restart(r);
    serve(r);
    struct id a = rig_add(r, "q");
    complete(r, a);
    struct id b = add_after(r, DEPEND_BLOCK, IDS(a, a));
    assert_int_equal(rig_status(r, b), STATUS_READY);
    assert_int_equal(depend_count(rig_read(r, b)->options.depends_on), 1);
}

static void ready_at_counts_once_nothing_is_waited_for(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a));
    spec.ready_at = instant_add(r->now, (span){1000});
    struct id later = add(r, &spec);
    spec.ready_at = instant_add(r->now, (span){10});
    struct id past = add(r, &spec);
    rig_turn_after(r, 20);
    assert_int_equal(rig_status(r, past), STATUS_BLOCKED);
    complete(r, a);
    assert_int_equal(rig_status(r, past), STATUS_IN_FLIGHT);
    assert_int_equal(rig_read(r, past)->state.ready_at.ms, r->now.ms); /* from when it could run */
    assert_int_equal(rig_status(r, later), STATUS_SCHEDULED);
    rig_turn_after(r, 980);
    assert_int_equal(rig_status(r, later), STATUS_IN_FLIGHT);
}

static void priority_counts_among_those_that_are_let_go(void **state)
{
    struct rig *r = *state;
    struct id a = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a));
    struct id second = add(r, &spec);
    spec.priority = 1;
    struct id first = add(r, &spec);
    rig_stream(r, "s", "q", 1);
    complete(r, a);
    rig_assert_got(r, a, first);
    rig_succeed(r, first);
    rig_turn(r);
    rig_assert_got(r, a, first, second);
}

static void a_chain_runs_in_its_order(void **state)
{
    struct rig *r = *state;
    struct id chain[5] = {rig_add(r, "q")};
    for (int i = 1; i < 5; i++)
        chain[i] = add_after(r, DEPEND_BLOCK, IDS(chain[i - 1]));
    serve(r);
    for (int i = 0; i < 5; i++)
        complete(r, chain[i]);
    rig_assert_got(r, chain[0], chain[1], chain[2], chain[3], chain[4]);
}

/* --- death --- */

static void a_death_keeps_it_blocked_until_the_dead_one_is_brought_back(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), other = rig_add(r, "q");
    struct id c = add_after(r, DEPEND_BLOCK, IDS(a, other));
    kill(r, a);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    assert_reason(r, c, "blocked: job ", a, ", which it waits for, is dead");
    rig_restart(r);
    serve(r);
    rerun(r, a);
    complete(r, a);
    assert_string_equal(reason_of(r, c), "");
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    complete(r, other);
    assert_int_equal(rig_status(r, c), STATUS_IN_FLIGHT);
}

static void a_death_counts_as_an_end_for_who_waits_for_that(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a, b));
    spec.options.depend_when = DEPEND_ALL_ENDED;
    struct id ended = add(r, &spec);
    struct id run = add_after(r, DEPEND_RUN, IDS(a, b));
    kill(r, a);
    assert_int_equal(rig_status(r, ended), STATUS_BLOCKED);
    assert_int_equal(rig_status(r, run), STATUS_BLOCKED);
    complete(r, b);
    assert_int_equal(rig_status(r, ended), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, run), STATUS_IN_FLIGHT);
}

static void a_death_may_be_inherited_along_a_chain(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_DIE, IDS(a));
    struct id c = add_after(r, DEPEND_DIE, IDS(b));
    struct id d = add_after(r, DEPEND_RUN, IDS(c));
    kill(r, a);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    assert_int_equal(rig_status(r, c), STATUS_DEAD);
    assert_int_equal(rig_status(r, d), STATUS_IN_FLIGHT);
    assert_int_equal(rig_read(r, c)->state.resolution, RESOLUTION_DEPENDENCY);
    assert_reason(r, c, "dead: job ", b, ", which it waited for, is dead");
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 0);
}

static void who_dies_with_no_retention_is_gone_and_others_hear_of_it(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a));
    spec.options.depend_death = DEPEND_DIE;
    spec.dead_retention = (span){0};
    struct id b = add(r, &spec);
    struct id c = add_after(r, DEPEND_DIE, IDS(b));
    kill(r, a);
    assert_int_equal(rig_status(r, b), STATUS_GONE);
    assert_int_equal(rig_status(r, c), STATUS_DEAD);
}

static void one_that_is_dead_at_the_start_counts_as_if_it_died_then(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    kill(r, a);
    struct id block = add_after(r, DEPEND_BLOCK, IDS(a));
    struct id run = add_after(r, DEPEND_RUN, IDS(a));
    struct id die = add_after(r, DEPEND_DIE, IDS(a));
    rig_turn(r);
    assert_int_equal(rig_status(r, block), STATUS_BLOCKED);
    assert_reason(r, block, "blocked: job ", a, ", which it waits for, is dead");
    assert_int_equal(rig_status(r, run), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, die), STATUS_DEAD);
}

/* An enqueue looks at them first, and adds its jobs some turns later. */
static struct id add_later(struct rig *r, struct id after,
                           void (*meanwhile)(struct rig *, struct id))
{
    struct depend_place at = {0};
    struct enqueue spec = spec_of(r, &after, 1);
    engine_depend_hold(r->e);
    assert_ok(engine_depend_look(r->e, r->now, &spec, 1, &at, SIZE_MAX));
    meanwhile(r, after);
    struct id id = rig_add_spec(r, &spec);
    engine_depend_release(r->e);
    rig_turn(r);
    return id;
}

static void outlive_its_retention(struct rig *r, struct id id)
{
    rig_turn_after(r, r->settings.dead_retention.ms);
    (void)id;
}

static void one_that_was_dead_when_it_was_looked_at_may_be_gone_or_back(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    kill(r, a);
    struct id b = add_later(r, a, outlive_its_retention);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    assert_reason(r, b, "dead: job ", a,
                  ", which it waited for, has not completed and is no longer there");
    a = rig_add(r, "q");
    kill(r, a);
    b = add_later(r, a, rerun);
    assert_int_equal(rig_status(r, b), STATUS_BLOCKED);
    assert_string_equal(reason_of(r, b), "");
    complete(r, a);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
}

static void a_deleted_job_counts_as_dead(void **state)
{
    struct rig *r = *state;
    struct id a = rig_add(r, "q");
    struct id block = add_after(r, DEPEND_BLOCK, IDS(a));
    struct id run = add_after(r, DEPEND_RUN, IDS(a));
    struct id die = add_after(r, DEPEND_DIE, IDS(a));
    remove_job(r, a);
    assert_int_equal(rig_status(r, block), STATUS_BLOCKED);
    assert_reason(r, block, "blocked: job ", a, ", which it waits for, was deleted");
    assert_int_equal(rig_status(r, run), STATUS_READY);
    assert_int_equal(rig_status(r, die), STATUS_DEAD);
    assert_reason(r, die, "dead: job ", a, ", which it waited for, was deleted");
}

static void nobody_waits_for_one_that_cannot_come_back(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct id kept = add_after(r, DEPEND_BLOCK, IDS(a));
    struct id removed = add_after(r, DEPEND_BLOCK, IDS(b));
    kill(r, a);
    kill(r, b);
    remove_job(r, b); /* which may be undone */
    assert_int_equal(rig_status(r, removed), STATUS_BLOCKED);
    assert_reason(r, removed, "blocked: job ", b, ", which it waits for, was deleted");
    engine_gone(r->e, b);
    rig_turn(r);
    assert_int_equal(rig_status(r, removed), STATUS_DEAD);
    assert_int_equal(rig_read(r, removed)->state.resolution, RESOLUTION_DEPENDENCY);
    assert_reason(r, removed, "dead: job ", b,
                  ", which it waited for, has not completed and is no longer there");
    rerun(r, removed);
    assert_int_equal(rig_status(r, removed), STATUS_IN_FLIGHT);
    for (int i = 0; i < 3; i++)
        rig_turn_after(r, r->settings.dead_retention.ms);
    assert_int_equal(rig_status(r, a), STATUS_DEAD); /* as long as it is waited for */
    assert_int_equal(rig_status(r, kept), STATUS_BLOCKED);
    rig_restart(r);
    remove_job(r, kept);
    rig_turn_after(r, r->settings.dead_retention.ms);
    assert_int_equal(rig_status(r, a), STATUS_GONE);
}

static void a_task_waits_until_its_deadline_whatever_it_waits_for(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a));
    spec.type = STR(JOB_TYPE_TASK);
    spec.options.alias = STR("task");
    spec.options.deadline = instant_add(r->now, (span){1000});
    struct id b = add(r, &spec);
    kill(r, a);
    remove_job(r, a);
    engine_gone(r->e, a);
    rig_turn(r);
    assert_int_equal(rig_status(r, b), STATUS_BLOCKED);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    assert_int_equal(rig_read(r, b)->state.resolution, RESOLUTION_DEADLINE);
}

static void a_purge_of_what_has_completed_changes_nothing(void **state)
{
    struct rig *r = *state;
    struct id a = rig_add(r, "q"), b = rig_add(r, "q");
    struct id c = add_after(r, DEPEND_BLOCK, IDS(a, b));
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    complete(r, a);
    rig_turn_after(r, r->settings.completed_retention.ms);
    assert_int_equal(rig_status(r, a), STATUS_GONE);
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    complete(r, b);
    assert_int_equal(rig_status(r, c), STATUS_IN_FLIGHT);
}

static void a_canceled_job_is_a_dead_one(void **state)
{
    struct rig *r = *state;
    struct job job;
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_DIE, IDS(a));
    assert_ok(engine_cancel(r->e, r->now, a, &r->strings, &job));
    rig_turn(r);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
}

/* --- commands about blocked jobs --- */

static void a_blocked_job_may_be_canceled_and_deleted(void **state)
{
    struct rig *r = *state;
    struct job job;
    serve(r);
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_BLOCK, IDS(a)), c = add_after(r, DEPEND_BLOCK, IDS(a));
    assert_ok(engine_cancel(r->e, r->now, b, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_DEAD);
    remove_job(r, c);
    complete(r, a);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    assert_int_equal(rig_status(r, c), STATUS_GONE);
}

static void who_is_brought_back_waits_again(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), gone = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_DIE, IDS(a, gone));
    kill(r, a);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    complete(r, gone); /* no longer matters */
    rerun(r, b);
    assert_int_equal(rig_status(r, b), STATUS_BLOCKED);
    rig_restart(r);
    serve(r);
    rerun(r, a);
    assert_int_equal(rig_status(r, b), STATUS_BLOCKED);
    complete(r, a);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    kill(r, b);
    rerun(r, b); /* it waits for nothing any more */
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
}

static void who_is_brought_back_freed_waits_for_nothing(void **state)
{
    struct rig *r = *state;
    struct rerun how = {.at = r->now, .freed = true};
    struct job job;
    serve(r);
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_DIE, IDS(a));
    kill(r, a);
    rerun(r, a);
    kill(r, a);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
    assert_ok(engine_rerun(r->e, r->now, b, how, &r->strings, &job));
    rig_turn(r);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    rig_restart(r);
    assert_int_equal(rig_status(r, b), STATUS_READY);
}

static void a_patch_leaves_it_blocked_and_counts_afterwards(void **state)
{
    struct rig *r = *state;
    struct job job;
    serve(r);
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_BLOCK, IDS(a));
    struct patch p = {.set = PATCH_QUEUE | PATCH_PRIORITY | PATCH_READY_AT,
                      .queue = STR("other"),
                      .priority = 3,
                      .ready_at = instant_add(r->now, (span){50})};
    assert_ok(engine_patch(r->e, r->now, b, &p, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_BLOCKED);
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 0);
    assert_int_equal(rig_count(r, "other", STATUS_BLOCKED), 1);
    complete(r, a);
    assert_int_equal(rig_status(r, b), STATUS_SCHEDULED);
    assert_int_equal(rig_read(r, b)->state.priority, 3);
    rig_clear(r);
    rig_stream(r, "o", "other", 1);
    rig_turn_after(r, 50);
    rig_assert_got(r, b);
}

static void a_patch_may_let_it_go(void **state)
{
    struct rig *r = *state;
    struct job job;
    struct id a = rig_add(r, "q");
    struct id b = add_after(r, DEPEND_DIE, IDS(a));
    struct patch p = {.set = PATCH_FREE};
    assert_ok(engine_patch(r->e, r->now, b, &p, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_READY);
    remove_job(r, a);
    assert_int_equal(rig_status(r, b), STATUS_READY);
    rig_restart(r);
    assert_int_equal(rig_status(r, b), STATUS_READY);
    assert_ok(engine_patch(r->e, r->now, b, &p, &r->strings, &job)); /* nothing to release */
}

static void a_blocked_job_holds_its_unique_key(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q");
    struct enqueue spec = spec_of(r, IDS(a));
    spec.unique_key = STR("k");
    spec.unique_while = UNIQUE_QUEUED;
    struct id b = add(r, &spec);
    struct enqueued second;
    assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &second));
    assert_true(second.duplicate && id_eq(second.job.id, b));
    complete(r, a);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    assert_ok(engine_depend_check(r->e, r->now, &(struct enqueue){.queue = STR("q")}, 1));
}

/* --- refusals, and many at once --- */

static void an_unknown_job_is_refused_with_its_place(void **state)
{
    struct rig *r = *state;
    struct id a = rig_add(r, "q");
    struct enqueue specs[2] = {rig_spec("q"), spec_of(r, IDS(a, ((struct id){5, 5})))};
    struct err err = engine_depend_check(r->e, r->now, specs, 2);
    assert_code(err, ERR_UNPROCESSABLE);
    assert_ptr_equal(strstr(err.msg, "jobs[1]: depends_on[1]: there is no job "), err.msg);
    err = engine_depend_check(r->e, r->now, &specs[1], 1);
    assert_ptr_equal(strstr(err.msg, "depends_on[1]: there is no job "), err.msg);
}

static void one_request_may_hold_a_whole_graph(void **state)
{
    struct rig *r = *state;
    struct enqueue specs[4] = {
        rig_spec("q"),
        spec_of(r, IDS(depend_earlier(0))),
        spec_of(r, IDS(depend_earlier(0))),
        spec_of(r, IDS(depend_earlier(1), depend_earlier(2))),
    };
    struct enqueued out[4];
    assert_ok(engine_depend_check(r->e, r->now, specs, 4));
    assert_ok(engine_enqueue(r->e, r->now, specs, 4, &r->strings, out));
    assert_true(id_eq(depend_at(out[3].job.options.depends_on, 1), out[2].job.id));
    serve(r);
    for (int i = 0; i < 4; i++)
        complete(r, out[i].job.id);
    rig_assert_got(r, out[0].job.id, out[1].job.id, out[2].job.id, out[3].job.id);
}

static void a_cycle_cannot_be_said(void **state)
{
    struct rig *r = *state;
    struct enqueue specs[2] = {spec_of(r, IDS(depend_earlier(1))), rig_spec("q")};
    struct err err = engine_depend_check(r->e, r->now, specs, 2);
    assert_code(err, ERR_UNPROCESSABLE);
    assert_string_equal(err.msg, "jobs[0]: depends_on[0]: 1 is not an earlier job of this request");
    specs[0] = spec_of(r, IDS(depend_earlier(0)));
    assert_code(engine_depend_check(r->e, r->now, specs, 1), ERR_UNPROCESSABLE);
}

static void ids_are_needed_where_jobs_are_folded(void **state)
{
    struct rig *r = *state;
    struct enqueue specs[2] = {rig_spec("q"), spec_of(r, IDS(depend_earlier(0)))};
    specs[0].batch = (struct job_batch){STR("k"), STR("true"), STR("$new"), true};
    assert_code(engine_depend_check(r->e, r->now, specs, 2), ERR_UNPROCESSABLE);
}

#define MANY 20

static void many_that_wait_are_told_in_slices_over_a_crash(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), waiting[MANY];
    for (int i = 0; i < MANY; i++)
        waiting[i] = add_after(r, DEPEND_BLOCK, IDS(a));
    r->settle_most = 6;
    rig_turn(r);
    rig_succeed(r, a);
    rig_turn(r);
    assert_int_equal(rig_ended_count(r), 1);
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), MANY - 6);
    rig_restart(r);
    for (int turns = 0; rig_ended_count(r); turns++) {
        assert_true(turns < 4);
        rig_turn(r);
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(rig_status(r, waiting[i]), STATUS_READY);
    engine_check(r->e);
}

/* Jobs that are added after the death are notified by themselves. */
static void a_death_is_told_in_slices_with_commands_in_between(void **state)
{
    struct rig *r = *state;
    serve(r);
    struct id a = rig_add(r, "q"), waiting[MANY];
    for (int i = 0; i < MANY; i++)
        waiting[i] = add_after(r, i % 2 ? DEPEND_DIE : DEPEND_BLOCK, IDS(a));
    r->settle_most = 3;
    kill(r, a);
    remove_job(r, waiting[MANY - 1]);
    struct patch p = {.set = PATCH_PRIORITY, .priority = 1};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, waiting[MANY - 2], &p, &r->strings, &job));
    rerun(r, a);
    struct id late = add_after(r, DEPEND_DIE, IDS(a));
    while (rig_ended_count(r))
        rig_turn(r);
    assert_int_equal(rig_status(r, late), STATUS_BLOCKED); /* it only knows the new life */
    for (int i = 0; i < MANY - 1; i++)
        assert_int_equal(rig_status(r, waiting[i]), i % 2 ? STATUS_DEAD : STATUS_BLOCKED);
    complete(r, a);
    while (rig_ended_count(r))
        rig_turn(r);
    assert_int_equal(rig_count(r, "q", STATUS_BLOCKED), 0);
    assert_int_equal(rig_status(r, late), STATUS_IN_FLIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_blocked_until_all_it_waits_for_have_completed),
        TEST(a_restart_forgets_no_dependency),
        TEST(what_has_completed_already_is_not_waited_for),
        TEST(ready_at_counts_once_nothing_is_waited_for),
        TEST(priority_counts_among_those_that_are_let_go),
        TEST(a_chain_runs_in_its_order),
        TEST(a_death_keeps_it_blocked_until_the_dead_one_is_brought_back),
        TEST(a_death_counts_as_an_end_for_who_waits_for_that),
        TEST(a_death_may_be_inherited_along_a_chain),
        TEST(who_dies_with_no_retention_is_gone_and_others_hear_of_it),
        TEST(one_that_is_dead_at_the_start_counts_as_if_it_died_then),
        TEST(one_that_was_dead_when_it_was_looked_at_may_be_gone_or_back),
        TEST(a_deleted_job_counts_as_dead),
        TEST(nobody_waits_for_one_that_cannot_come_back),
        TEST(a_task_waits_until_its_deadline_whatever_it_waits_for),
        TEST(a_purge_of_what_has_completed_changes_nothing),
        TEST(a_canceled_job_is_a_dead_one),
        TEST(a_blocked_job_may_be_canceled_and_deleted),
        TEST(who_is_brought_back_waits_again),
        TEST(who_is_brought_back_freed_waits_for_nothing),
        TEST(a_patch_leaves_it_blocked_and_counts_afterwards),
        TEST(a_patch_may_let_it_go),
        TEST(a_blocked_job_holds_its_unique_key),
        TEST(an_unknown_job_is_refused_with_its_place),
        TEST(one_request_may_hold_a_whole_graph),
        TEST(a_cycle_cannot_be_said),
        TEST(ids_are_needed_where_jobs_are_folded),
        TEST(many_that_wait_are_told_in_slices_over_a_crash),
        TEST(a_death_is_told_in_slices_with_commands_in_between),
    };
    return cmocka_run_group_tests_name("core/engine_depend", tests, NULL, NULL);
}
