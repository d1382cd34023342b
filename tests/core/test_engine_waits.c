/* SPDX-License-Identifier: Apache-2.0 */

/* Waits that only somebody outside can end, and how they end when nobody does. */

#include "core/depend.h"
#include "core/explain.h"
#include "rig.h"

#define R      struct rig *r = *state
#define SECOND 1000
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->settings.dead_retention = (span){100 * HOUR};
    r->settings.gang_wait_max = (span){HOUR};
    r->settings.hold_max = (span){10 * HOUR};
    rig_restart(r);
    return 0;
}

#define WAIT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

static struct enqueue member(const char *gang, uint64_t size)
{
    struct enqueue spec = rig_spec("q");
    spec.options.gang = str_from(gang);
    spec.options.gang_size = size;
    return spec;
}

static struct id add_member(struct rig *r, const char *gang, uint64_t size)
{
    struct enqueue spec = member(gang, size);
    assert_ok(engine_gang_check(r->e, &spec, 1));
    return rig_add_spec(r, &spec);
}

static void let_wait_for(struct rig *r, struct enqueue *spec, struct id id)
{
    struct str ids = depend_new(&r->strings, 1);
    depend_add(&ids, id);
    spec->options.depends_on = ids;
}

static const char *text_of(struct rig *r, struct str s)
{
    char *text = arena_get(&r->strings, s.len + 1);
    memcpy(text, s.at, s.len);
    text[s.len] = 0;
    return text;
}

static void assert_ended(struct rig *r, struct id id, const char *reason)
{
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.status, STATUS_DEAD);
    assert_int_equal(job->state.resolution, RESOLUTION_WAIT);
    assert_non_null(strstr(text_of(r, job->state.reason), reason));
}

static void assert_says(struct rig *r, struct id id, const char *words)
{
    struct explanation x;
    struct job_extent extent;
    assert_ok(engine_explain(r->e, r->now, id, &r->strings, &x, &extent));
    explain_sum_up(&x, r->now, &r->strings);
    if (!strstr(text_of(r, x.summary), words))
        fail_msg("it says: %.*s", STR_ARG(x.summary));
}

/* --- gangs --- */

static void a_gang_that_is_not_filled_ends(void **state)
{
    R;
    struct id a = add_member(r, "g", 3);
    rig_turn_after(r, 30 * MINUTE);
    struct id b = add_member(r, "g", 3);
    assert_says(r, a, "has 2 of its 3 members, and those are dead if no others come in 1 h");
    rig_turn_after(r, HOUR - 1);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_turn_after(r, 1);
    assert_ended(r, a, "its gang 'g' had 2 of its 3 members, and no others came within 1 h");
    assert_ended(r, b, "its gang 'g'");
    add_member(r, "g", 2); /* the name is free */
}

static void a_place_that_became_free_is_waited_for_anew(void **state)
{
    R;
    struct id a = add_member(r, "g", 2), b = add_member(r, "g", 2);
    rig_turn_after(r, 3 * HOUR); /* nobody has room */
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, b, &r->strings, &job));
    rig_turn_after(r, HOUR - 1);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_turn_after(r, 1);
    assert_ended(r, a, "had 1 of its 2 members");
}

static void one_that_is_complete_waits_for_room_as_long_as_it_takes(void **state)
{
    R;
    struct id a = add_member(r, "g", 2), b = add_member(r, "g", 2);
    rig_turn_after(r, 30 * HOUR);
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

static void members_with_a_wait_of_their_own_are_waited_for(void **state)
{
    R;
    struct enqueue later = member("g", 3), held = member("g", 3);
    later.ready_at = instant_add(r->now, (span){5 * HOUR});
    held.options.hold = 1;
    struct id a = add_member(r, "g", 3), b = rig_add_spec(r, &later);
    rig_turn_after(r, 4 * HOUR);
    assert_says(r, a, "has 2 of its 3 members");
    assert_says(r, b, "has 2 of its 3 members");
    rig_turn_after(r, HOUR);
    struct id c = rig_add_spec(r, &held);
    rig_turn_after(r, 9 * HOUR);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_turn_after(r, HOUR);
    assert_ended(r, c, "it was held, and nobody freed it within 10 h");
    rig_turn_after(r, HOUR);
    assert_ended(r, a, "had 2 of its 3 members");
    assert_ended(r, b, "had 2 of its 3 members");
}

static void after_a_restart_a_gang_has_a_grace(void **state)
{
    R;
    struct id a = add_member(r, "g", 2);
    r->now.ms += 50 * HOUR; /* the server was away, and so are the senders */
    rig_restart(r);
    rig_turn_after(r, 10 * MINUTE - 1);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_turn_after(r, 1);
    assert_ended(r, a, "had 1 of its 2 members");
}

/* The server began by a clock that was behind, and follows it when it is set right. */
static void a_leap_of_the_clock_takes_nothing_of_that_grace(void **state)
{
    R;
    struct id a = add_member(r, "g", 2);
    rig_restart(r);
    r->now.ms += 50 * HOUR;
    engine_set_lead(r->e, (span){50 * HOUR});
    rig_turn_after(r, 10 * MINUTE - 1);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    rig_turn_after(r, 1);
    assert_ended(r, a, "had 1 of its 2 members");
}

static void what_an_older_version_left_ends_by_the_same_rule(void **state)
{
    R;
    r->settings.gang_wait_max = r->settings.hold_max = (span){0};
    rig_restart(r);
    struct enqueue spec = rig_spec("q");
    spec.options.hold = 1;
    struct id a = add_member(r, "g", 2), h = rig_add_spec(r, &spec);
    rig_turn_after(r, 1000 * (int64_t)HOUR);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    assert_says(r, a, "has 1 of its 2 members");
    assert_says(r, h, "held until somebody frees it");
    r->settings.gang_wait_max = (span){HOUR};
    r->settings.hold_max = (span){HOUR};
    rig_restart(r);
    rig_turn_after(r, 10 * MINUTE);
    assert_ended(r, a, "had 1 of its 2 members");
    assert_ended(r, h, "it was held");
}

static void a_member_that_waits_for_another_is_refused(void **state)
{
    R;
    struct id a = add_member(r, "g", 2);
    struct enqueue direct = member("g", 2);
    let_wait_for(r, &direct, a);
    assert_code(engine_gang_check(r->e, &direct, 1), ERR_UNPROCESSABLE);
    struct enqueue both[] = {member("h", 2), member("h", 2)};
    let_wait_for(r, &both[1], depend_earlier(0));
    assert_code(engine_gang_check(r->e, both, 2), ERR_UNPROCESSABLE);
    /* Over another gang: b waits for a, and c, with b, is waited for by d, with a. */
    struct enqueue b = member("other", 2);
    let_wait_for(r, &b, a);
    assert_ok(engine_gang_check(r->e, &b, 1));
    rig_add_spec(r, &b);
    struct id c = add_member(r, "other", 2);
    struct enqueue d = member("g", 2);
    let_wait_for(r, &d, c);
    assert_code(engine_gang_check(r->e, &d, 1), ERR_UNPROCESSABLE);
    struct id free_one = rig_add(r, "q");
    let_wait_for(r, &d, free_one);
    assert_ok(engine_gang_check(r->e, &d, 1));
}

static void one_that_waits_for_itself_all_the_same_ends(void **state)
{
    R;
    struct id a = add_member(r, "g", 2);
    struct enqueue spec = member("g", 2);
    let_wait_for(r, &spec, a);
    struct id b = rig_add_spec(r, &spec); /* as older versions let it in */
    rig_restart(r);
    rig_turn_after(r, HOUR);
    assert_ended(r, a, "could never run: one of its members waits for another");
    assert_ended(r, b, "could never run");
}

static void limits_that_have_no_room_for_a_gang_are_named(void **state)
{
    R;
    struct id a = add_member(r, "g", 2);
    add_member(r, "g", 2);
    rig_set(r, "q", .concurrency = 1);
    rig_turn(r);
    assert_says(r, a, "the queue's limit is 1, unless somebody raises it");
    rig_set(r, "q", .concurrency = 0);
    r->settings.in_flight_max = 1;
    engine_configure(r->e, &r->settings);
    assert_says(r, a, "the server's limit is 1, unless somebody raises it");
}

/* --- held jobs --- */

static struct enqueue held(void)
{
    struct enqueue s = rig_spec("q");
    s.options.hold = 1;
    return s;
}

static void a_held_job_that_nobody_frees_ends(void **state)
{
    R;
    struct enqueue plain = held(), later = held(), limited = held();
    later.ready_at = instant_add(r->now, (span){5 * HOUR});
    limited.options.deadline = instant_add(r->now, (span){50 * HOUR});
    struct id a = rig_add_spec(r, &plain), b = rig_add_spec(r, &later);
    struct id c = rig_add_spec(r, &limited);
    assert_says(r, a, "it is held until somebody frees it, and is dead if nobody has in 10 h");
    assert_says(r, c, "it is held until somebody frees it");
    rig_turn_after(r, 9 * HOUR);
    rig_restart(r);
    rig_turn_after(r, HOUR - 1);
    assert_int_equal(rig_status(r, a), STATUS_BLOCKED);
    rig_turn_after(r, 1);
    assert_ended(r, a, "it was held, and nobody freed it within 10 h");
    assert_int_equal(rig_status(r, b), STATUS_BLOCKED);
    rig_turn_after(r, 5 * HOUR);
    assert_ended(r, b, "it was held");
    assert_int_equal(rig_status(r, c), STATUS_BLOCKED);
    rig_turn_after(r, 35 * HOUR);
    assert_int_equal(rig_read(r, c)->state.resolution, RESOLUTION_DEADLINE);
}

static void one_that_was_freed_is_left_alone(void **state)
{
    R;
    struct enqueue spec = held();
    struct id a = rig_add_spec(r, &spec);
    struct patch p = {.set = PATCH_FREE};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, a, &p, &r->strings, &job));
    rig_turn_after(r, 20 * HOUR);
    assert_int_equal(rig_status(r, a), STATUS_READY);
}

/* --- blocked jobs that missed an end --- */

static struct id add_dependant(struct rig *r, struct id on, enum depend_death death)
{
    struct enqueue spec = rig_spec("q");
    let_wait_for(r, &spec, on);
    spec.options.depend_death = (unsigned)death;
    return rig_add_spec(r, &spec);
}

static void a_blocked_job_whose_dependency_is_lost_ends_at_the_start(void **state)
{
    R;
    struct id lost = rig_add(r, "q"), there = rig_add(r, "q");
    struct id block = add_dependant(r, lost, DEPEND_BLOCK);
    struct id run = add_dependant(r, lost, DEPEND_RUN);
    struct id waits = add_dependant(r, there, DEPEND_BLOCK);
    rig_turn(r);
    rig_lose(r, lost);
    rig_restart(r);
    rig_turn(r);
    const struct job *job = rig_read(r, block);
    assert_int_equal(job->state.status, STATUS_DEAD);
    assert_int_equal(job->state.resolution, RESOLUTION_DEPENDENCY);
    assert_int_equal(rig_status(r, run), STATUS_READY);
    assert_int_equal(rig_status(r, waits), STATUS_BLOCKED);
    instant at;
    assert_false(engine_next_due(r->e, &at) && at.ms <= r->now.ms);
}

static bool keeps;

static bool keeps_deleted(void *ctx)
{
    (void)ctx;
    return keeps;
}

static void one_whose_dependency_may_come_back_is_looked_at_again(void **state)
{
    R;
    struct id lost = rig_add(r, "q");
    struct id block = add_dependant(r, lost, DEPEND_BLOCK);
    r->keeps_deleted = keeps_deleted;
    keeps = true;
    rig_lose(r, lost);
    rig_restart(r);
    rig_turn(r);
    assert_int_equal(rig_status(r, block), STATUS_BLOCKED);
    assert_says(r, block, "which is deleted, which may still be undone");
    keeps = false;
    rig_turn_after(r, HOUR);
    assert_int_equal(rig_status(r, block), STATUS_DEAD);
    r->keeps_deleted = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WAIT_TEST(a_gang_that_is_not_filled_ends),
        WAIT_TEST(a_place_that_became_free_is_waited_for_anew),
        WAIT_TEST(one_that_is_complete_waits_for_room_as_long_as_it_takes),
        WAIT_TEST(members_with_a_wait_of_their_own_are_waited_for),
        WAIT_TEST(after_a_restart_a_gang_has_a_grace),
        WAIT_TEST(a_leap_of_the_clock_takes_nothing_of_that_grace),
        WAIT_TEST(what_an_older_version_left_ends_by_the_same_rule),
        WAIT_TEST(a_member_that_waits_for_another_is_refused),
        WAIT_TEST(one_that_waits_for_itself_all_the_same_ends),
        WAIT_TEST(limits_that_have_no_room_for_a_gang_are_named),
        WAIT_TEST(a_held_job_that_nobody_frees_ends),
        WAIT_TEST(one_that_was_freed_is_left_alone),
        WAIT_TEST(a_blocked_job_whose_dependency_is_lost_ends_at_the_start),
        WAIT_TEST(one_whose_dependency_may_come_back_is_looked_at_again),
    };
    return cmocka_run_group_tests_name("engine_waits", tests, NULL, NULL);
}
