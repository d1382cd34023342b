/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that say until when they are kept. */

#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

/* One that is kept for an hour by its retentions, but says otherwise. */
static struct id add(struct rig *r, instant until)
{
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = spec.dead_retention = HOUR;
    spec.options.retain_until = until;
    return rig_add_spec(r, &spec);
}

static void take(struct rig *r, uint32_t count)
{
    rig_claim(r, "w", "q", count, (span){0});
    rig_turn(r);
}

static void assert_kept_until(struct rig *r, struct id id, enum status status, instant until)
{
    assert_int_equal(rig_status(r, id), status);
    assert_int_equal(rig_read(r, id)->state.purge_at.ms, until.ms);
}

static void an_ended_job_is_kept_until_then_however_it_ended(void **state)
{
    R;
    instant until = instant_add(r->now, (span){7200000});
    struct id done = add(r, until), failed = add(r, until), waiting = add(r, until);
    struct failure_report kill = {.kill = true, .retry_at = INSTANT_NONE};
    struct job job;
    take(r, 2);
    kill.ref = rig_ref(r, failed);
    rig_restart(r); /* of leases it is known afterwards, too */
    rig_turn_after(r, 1000);
    rig_succeed(r, done);
    assert_ok(engine_fail(r->e, r->now, &kill, &r->strings, &job));
    assert_ok(engine_cancel(r->e, r->now, waiting, &r->strings, &job));
    assert_kept_until(r, done, STATUS_COMPLETED, until);
    assert_kept_until(r, failed, STATUS_DEAD, until);
    assert_kept_until(r, waiting, STATUS_DEAD, until);
    rig_turn_after(r, until.ms - r->now.ms - 1);
    assert_int_equal(rig_status(r, done), STATUS_COMPLETED);
    rig_turn_after(r, 1);
    assert_int_equal(rig_status(r, done), STATUS_GONE);
    assert_int_equal(rig_status(r, failed), STATUS_GONE);
    assert_int_equal(rig_status(r, waiting), STATUS_GONE);
}

static void one_that_ends_after_that_is_gone_at_once(void **state)
{
    R;
    instant until = instant_add(r->now, (span){5000});
    struct id done = add(r, until), waiting = add(r, until);
    struct job job;
    take(r, 1);
    rig_turn_after(r, 5000);
    assert_int_equal(rig_status(r, waiting), STATUS_READY); /* it is no deadline */
    rig_succeed(r, done);
    assert_true(rig_event(r)->removed);
    assert_ok(engine_cancel(r->e, r->now, waiting, &r->strings, &job));
    assert_int_equal(rig_status(r, done), STATUS_GONE);
    assert_int_equal(rig_status(r, waiting), STATUS_GONE);
    rig_turn(r);
}

static void the_limit_of_kept_jobs_does_not_touch_it(void **state)
{
    R;
    instant until = instant_add(r->now, HOUR);
    r->settings.completed_retention = HOUR;
    r->settings.completed_kept_max = 1;
    engine_configure(r->e, &r->settings);
    struct enqueue spec = rig_spec("q");
    spec.options.retain_until = until;
    struct id first = rig_add_spec(r, &spec), second = rig_add_spec(r, &spec);
    take(r, 2);
    rig_succeed(r, first);
    rig_succeed(r, second);
    assert_kept_until(r, second, STATUS_COMPLETED, until);
}

/* Completes one; what it asks for is in the spec. */
static struct id complete(struct rig *r, const struct enqueue *spec)
{
    struct id id = rig_add_spec(r, spec);
    take(r, 1);
    rig_succeed(r, id);
    rig_turn_after(r, 10);
    return id;
}

static void keep(struct rig *r, uint64_t most)
{
    r->settings.completed_retention = HOUR;
    r->settings.completed_kept_max = most;
    engine_configure(r->e, &r->settings);
}

static void of_completed_jobs_the_newest_are_kept(void **state)
{
    R;
    keep(r, 2);
    struct enqueue spec = rig_spec("q");
    struct id first = complete(r, &spec), second = complete(r, &spec);
    assert_int_equal(rig_status(r, first), STATUS_COMPLETED);
    struct id third = complete(r, &spec);
    assert_int_equal(rig_status(r, first), STATUS_GONE);
    assert_int_equal(rig_status(r, second), STATUS_COMPLETED);
    assert_int_equal(rig_event(r)->event, EVENT_PURGE);
    rig_restart(r); /* which order they are in is known afterwards, too */
    struct id fourth = complete(r, &spec);
    assert_int_equal(rig_status(r, second), STATUS_GONE);
    assert_int_equal(rig_status(r, third), STATUS_COMPLETED);
    assert_ok(engine_remove(r->e, r->now, fourth));
    complete(r, &spec);
    assert_int_equal(rig_status(r, third), STATUS_COMPLETED);
    keep(r, 1);
    rig_turn(r);
    assert_int_equal(rig_status(r, third), STATUS_GONE);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_count(r, "q", STATUS_COMPLETED), 0);
}

static void one_that_has_nothing_special_goes_without_being_read(void **state)
{
    R;
    bool more;
    keep(r, 2);
    struct enqueue spec = rig_spec("q");
    spec.priority = 7;
    struct id first = complete(r, &spec);
    complete(r, &spec);
    keep(r, 1);
    unsigned reads = r->reads;
    assert_ok(engine_trim(r->e, r->now, 10, &more));
    assert_false(more);
    assert_int_equal(r->reads, reads);
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_PURGE);
    assert_id(ev->id, first);
    assert_true(str_eq(ev->type, STR("t")) && str_eq(ev->queue, STR("q")));
    assert_int_equal(ev->priority, 7);
    assert_int_equal(ev->runs, 1);
    assert_int_equal(rig_status(r, first), STATUS_GONE);
}

static void one_of_a_group_leaves_it(void **state)
{
    R;
    bool more;
    struct group_view view;
    keep(r, 1);
    struct enqueue plain = rig_spec("q"), member = plain;
    member.options.group = STR("g");
    complete(r, &member);
    assert_ok(engine_group_read(r->e, STR("g"), &view));
    complete(r, &plain);
    assert_ok(engine_trim(r->e, r->now, 10, &more));
    assert_code(engine_group_read(r->e, STR("g"), &view), ERR_NOT_FOUND);
}

/* Otherwise it would depend on the load whether the next one with its key is a duplicate. */
static void
one_that_holds_a_key_or_an_alias_while_it_exists_stays_for_its_whole_retention(void **state)
{
    R;
    keep(r, 1);
    struct enqueue plain = rig_spec("q"), unique = plain, aliased = plain, active = plain;
    unique.unique_key = active.unique_key = STR("k");
    unique.unique_while = UNIQUE_EXISTS;
    active.unique_while = UNIQUE_ACTIVE;
    active.unique_key = STR("another");
    aliased.options.alias = STR("a");
    struct id one = complete(r, &unique), two = complete(r, &aliased), three = complete(r, &active);
    for (int i = 0; i < 3; i++) {
        complete(r, &plain);
        assert_int_equal(rig_status(r, one), STATUS_COMPLETED);
        assert_int_equal(rig_status(r, two), STATUS_COMPLETED);
        assert_int_equal(rig_status(r, three), STATUS_GONE);
        rig_restart(r);
    }
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_status(r, one), STATUS_GONE);
    assert_int_equal(rig_status(r, two), STATUS_GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_ended_job_is_kept_until_then_however_it_ended),
        TEST(one_that_ends_after_that_is_gone_at_once),
        TEST(the_limit_of_kept_jobs_does_not_touch_it),
        TEST(of_completed_jobs_the_newest_are_kept),
        TEST(one_that_has_nothing_special_goes_without_being_read),
        TEST(one_of_a_group_leaves_it),
        TEST(one_that_holds_a_key_or_an_alias_while_it_exists_stays_for_its_whole_retention),
    };
    return cmocka_run_group_tests_name("engine_retain", tests, NULL, NULL);
}
