/* SPDX-License-Identifier: Apache-2.0 */

/* Ticks and pauses of cron entries. */

#include "cron_rig.h"

#include "base/rng.h"

/* --- ticks --- */

static void a_tick_enqueues_a_job_and_says_when_the_next_is(void **state)
{
    struct cron_rig *r = *state;
    struct cron_view v = cron_rig_put_one(r, "a", "*/5 * * * *");
    assert_at(v.entries[0].clock.next_at, CRON_RIG_START, 5 * MINUTE);
    assert_false(instant_is_set(v.entries[0].clock.last_at));
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_at(due, CRON_RIG_START, 5 * MINUTE);
    cron_rig_turn_after(r, 5 * MINUTE - 1);
    assert_jobs(r, 0);
    cron_rig_turn_after(r, 4);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "a");
    struct cron_entry e = cron_rig_read_entry(r, "a");
    assert_at(e.clock.next_at, CRON_RIG_START, 10 * MINUTE);
    assert_at(e.clock.last_at, CRON_RIG_START, 5 * MINUTE + 3);
    cron_rig_turn(r);
    assert_jobs(r, 1);
}

static void the_last_tick_of_its_years_is_followed_by_none(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 0 0 1 2,3 * 2026");
    cron_rig_turn_after(r, 60 * 24 * HOUR);
    assert_jobs(r, 1); /* of both, for they were missed */
    assert_false(instant_is_set(cron_rig_read_entry(r, "a").clock.next_at));
    cron_rig_crash(r);
    cron_rig_turn_after(r, 366 * 24 * HOUR);
    assert_jobs(r, 1);
    assert_false(instant_is_set(cron_rig_read_entry(r, "a").clock.next_at));
}

static void a_put_right_on_a_tick_waits_for_the_one_after(void **state)
{
    struct cron_rig *r = *state;
    struct cron_view v = cron_rig_put_one(r, "a", "0 * * * *");
    assert_at(v.entries[0].clock.next_at, CRON_RIG_START, HOUR);
}

static void a_late_turn_fires_once(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "* * * * * *");
    cron_rig_turn_after(r, 10 * MINUTE + 500);
    assert_jobs(r, 1);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 10 * MINUTE + 1000);
}

static void a_crash_before_the_commit_loses_no_tick(void **state)
{
    struct cron_rig *r = *state;
    bool more;
    cron_rig_put_one(r, "a", "0 * * * *");
    r->now.ms += HOUR;
    assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
    assert_jobs(r, 1);
    cron_rig_crash(r);
    assert_jobs(r, 0);
    cron_rig_turn(r);
    assert_jobs(r, 1);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 2 * HOUR);
}

static void a_crash_after_the_commit_fires_nothing_again(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 * * * *");
    cron_rig_turn_after(r, HOUR);
    cron_rig_crash(r);
    cron_rig_turn(r);
    assert_jobs(r, 1);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 2);
}

static void ticks_missed_while_down_become_one(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 * * * *");
    cron_rig_turn_after(r, HOUR);
    r->now.ms += 5 * HOUR + MINUTE;
    cron_rig_crash(r);
    cron_rig_turn(r);
    assert_jobs(r, 2);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 7 * HOUR);
    assert_at(cron_rig_read_entry(r, "a").clock.last_at, CRON_RIG_START, 6 * HOUR + MINUTE);
}

static void ticks_missed_while_down_are_passed_over_if_so_set(void **state)
{
    struct cron_rig *r = *state;
    r->settings.cron_skip_missed = true;
    cron_rig_put_one(r, "a", "0 * * * *");
    r->now.ms += 5 * HOUR + MINUTE;
    cron_rig_crash(r);
    cron_rig_turn(r);
    assert_jobs(r, 0);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 6 * HOUR);
    /* A tick that is late while the server is up is not missed. */
    cron_rig_turn_after(r, 4 * HOUR);
    assert_jobs(r, 1);
}

static void a_clock_that_went_back_over_a_restart_repeats_nothing(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 * * * *");
    cron_rig_turn_after(r, HOUR + 5);
    r->now.ms -= MINUTE;
    cron_rig_crash(r);
    cron_rig_turn_after(r, 2 * MINUTE);
    assert_jobs(r, 1);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 2 * HOUR);
}

static void a_zone_with_new_rules_is_heeded_after_a_restart(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec s = cron_rig_spec("a", "0 12 * * *");
    s.zone = STR("Test/Moving");
    struct cron_view v = cron_rig_put(r, &s, 1);
    assert_at(v.entries[0].clock.next_at, CRON_RIG_START, 12 * HOUR);
    r->offset = 3600;
    cron_rig_crash(r);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 11 * HOUR);
    cron_rig_turn_after(r, 11 * HOUR);
    assert_jobs(r, 1);
}

static void an_entry_whose_zone_has_gone_stands_still_until_it_is_back(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec s = cron_rig_spec("a", "0 12 * * *");
    s.zone = STR("Test/Moving");
    cron_rig_put(r, &s, 1);
    r->moving_known = false;
    assert_int_equal(cron_rig_crash(r), 1);
    cron_rig_turn_after(r, 13 * HOUR);
    assert_jobs(r, 0);
    struct cron_view v;
    assert_code(cron_rig_try_put(r, &s, 1, true, &v), ERR_BAD_ZONE);
    r->moving_known = true;
    /* The missed tick fires late, as after any downtime. */
    assert_int_equal(cron_rig_crash(r), 0);
    cron_rig_turn(r);
    assert_jobs(r, 1);
}

static void held_ticks_wait_and_become_one(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "* * * * *");
    engine_cron_hold(r->e, true);
    cron_rig_turn_after(r, MINUTE);
    cron_rig_turn_after(r, 3 * MINUTE);
    assert_jobs(r, 0);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_at(due, r->now, 1000);
    engine_cron_hold(r->e, false);
    cron_rig_turn_after(r, 1000);
    assert_jobs(r, 1);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 5 * MINUTE);
}

/* Random turns, some of which are lost: never more nor fewer jobs than ticks that could fire,
 * according to a model of two numbers. */
static void crashes_neither_lose_nor_double_ticks(void **state)
{
    struct cron_rig *r = *state;
    struct rng rng = rng_from_seed(11);
    cron_rig_put_one(r, "a", "*/10 * * * * *");
    unsigned jobs = 0;
    int64_t next = CRON_RIG_START.ms + 10000;
    for (int i = 0; i < 3000; i++) {
        bool more;
        r->now.ms += (int64_t)rng_below(&rng, 12000);
        assert_ok(engine_advance(r->e, r->now, SIZE_MAX, &more));
        if (rng_below(&rng, 3) == 0) {
            cron_rig_crash(r);
        } else {
            cron_rig_commit(r);
            jobs += r->now.ms >= next;
            next = r->now.ms >= next ? r->now.ms / 10000 * 10000 + 10000 : next;
        }
        assert_jobs(r, jobs);
        assert_int_equal(cron_rig_read_entry(r, "a").clock.next_at.ms, next);
        if (r->disk.jobs > 60)
            jobs = r->disk.jobs = r->durable.jobs = 0;
    }
}

/* --- pausing --- */

static void paused_ticks_pass_without_a_job(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec both[] = {cron_rig_spec("a", "0 * * * *"), cron_rig_spec("b", "0 * * * *")};
    cron_rig_put(r, both, 2);
    cron_rig_flip(r, "a", CRON_PAUSE);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "b");
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 2 * HOUR);
    assert_false(instant_is_set(cron_rig_read_entry(r, "a").clock.last_at));
    cron_rig_flip(r, NULL, CRON_PAUSE);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
    /* Each counts for itself. */
    cron_rig_flip(r, "a", CRON_RESUME);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
    cron_rig_flip(r, NULL, CRON_RESUME);
    cron_rig_turn(r);
    assert_jobs(r, 1);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 3);
}

static void a_pause_outlives_a_restart_and_makes_nothing_up(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 * * * *");
    cron_rig_flip(r, NULL, CRON_PAUSE);
    r->now.ms += 3 * HOUR + 1;
    cron_rig_crash(r);
    cron_rig_turn(r);
    cron_rig_flip(r, NULL, CRON_RESUME);
    cron_rig_crash(r);
    cron_rig_turn(r);
    assert_jobs(r, 0);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
}

static void a_pause_is_dated_once_and_a_resume_too(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 0 1 1 *");
    cron_rig_flip(r, "a", CRON_RESUME);
    assert_false(instant_is_set(cron_rig_read_entry(r, "a").clock.pause.resumed_at));
    r->now.ms += 10;
    cron_rig_flip(r, "a", CRON_PAUSE);
    r->now.ms += 10;
    cron_rig_flip(r, "a", CRON_PAUSE);
    r->now.ms += 10;
    cron_rig_flip(r, "a", CRON_AS_IS);
    struct cron_pause p = cron_rig_read_entry(r, "a").clock.pause;
    assert_true(p.paused);
    assert_at(p.paused_at, CRON_RIG_START, 10);
    assert_false(instant_is_set(p.resumed_at));
    cron_rig_flip(r, "a", CRON_RESUME);
    r->now.ms += 10;
    cron_rig_flip(r, "a", CRON_RESUME);
    p = cron_rig_read_entry(r, "a").clock.pause;
    assert_false(p.paused);
    assert_at(p.paused_at, CRON_RIG_START, 10);
    assert_at(p.resumed_at, CRON_RIG_START, 30);
    cron_rig_flip(r, "a", CRON_PAUSE);
    assert_at(cron_rig_read_entry(r, "a").clock.pause.paused_at, CRON_RIG_START, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CRON_RIG_TEST(a_tick_enqueues_a_job_and_says_when_the_next_is),
        CRON_RIG_TEST(the_last_tick_of_its_years_is_followed_by_none),
        CRON_RIG_TEST(a_put_right_on_a_tick_waits_for_the_one_after),
        CRON_RIG_TEST(a_late_turn_fires_once),
        CRON_RIG_TEST(a_crash_before_the_commit_loses_no_tick),
        CRON_RIG_TEST(a_crash_after_the_commit_fires_nothing_again),
        CRON_RIG_TEST(ticks_missed_while_down_become_one),
        CRON_RIG_TEST(ticks_missed_while_down_are_passed_over_if_so_set),
        CRON_RIG_TEST(a_clock_that_went_back_over_a_restart_repeats_nothing),
        CRON_RIG_TEST(a_zone_with_new_rules_is_heeded_after_a_restart),
        CRON_RIG_TEST(an_entry_whose_zone_has_gone_stands_still_until_it_is_back),
        CRON_RIG_TEST(held_ticks_wait_and_become_one),
        CRON_RIG_TEST(crashes_neither_lose_nor_double_ticks),
        CRON_RIG_TEST(paused_ticks_pass_without_a_job),
        CRON_RIG_TEST(a_pause_outlives_a_restart_and_makes_nothing_up),
        CRON_RIG_TEST(a_pause_is_dated_once_and_a_resume_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
