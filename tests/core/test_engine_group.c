/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs: who is in them, when they are resolved, sealed and gone. */

#include "rig.h"

#include "core/group.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600 * 1000})

static struct enqueue spec_in(const char *group)
{
    struct enqueue spec = rig_spec("q");
    spec.options.group = str_from(group);
    spec.completed_retention = HOUR;
    return spec;
}

static struct id add_in(struct rig *r, const char *group)
{
    struct enqueue spec = spec_in(group);
    assert_ok(engine_group_check(r->e, r->now, &spec, 1));
    return rig_add_spec(r, &spec);
}

static struct group_view view(struct rig *r, const char *group)
{
    struct group_view v = {0};
    assert_ok(engine_group_read(r->e, str_from(group), &v));
    return v;
}

static void assert_counts(struct rig *r, const char *group, uint64_t jobs, uint64_t unended)
{
    struct group_view v = view(r, group);
    assert_int_equal(v.jobs, jobs);
    assert_int_equal(v.unended, unended);
}

static void assert_gone(struct rig *r, const char *group)
{
    struct group_view v;
    assert_code(engine_group_read(r->e, str_from(group), &v), ERR_NOT_FOUND);
    assert_null(rig_group(r, group));
}

static struct id take(struct rig *r)
{
    rig_clear(r);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(r->got_count, 1);
    return r->got[0].id;
}

static struct err cancel(struct rig *r, struct id id)
{
    struct job job;
    return engine_cancel(r->e, r->now, id, &r->strings, &job);
}

/* How often the group was said to be resolved. */
static unsigned resolved(const struct rig *r, const char *group)
{
    unsigned n = 0;
    for (size_t i = 0; i < r->event_count; i++)
        n += r->events[i].event == EVENT_GROUP_RESOLVED &&
             str_eq(r->events[i].group, str_from(group));
    return n;
}

static void a_group_exists_while_one_of_its_jobs_does(void **state)
{
    R;
    struct id a = add_in(r, "g"), b = add_in(r, "g");
    rig_add(r, "q");
    assert_counts(r, "g", 2, 2);
    assert_non_null(rig_group(r, "g"));
    assert_ok(engine_remove(r->e, r->now, a));
    rig_succeed(r, take(r));
    assert_counts(r, "g", 1, 0);
    rig_restart(r);
    assert_counts(r, "g", 1, 0);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_status(r, b), STATUS_GONE);
    assert_gone(r, "g");
    rig_restart(r);
    assert_gone(r, "g");
}

static void it_is_resolved_when_its_last_job_ends_and_says_which(void **state)
{
    R;
    struct id a = add_in(r, "g"), b = add_in(r, "g"), other = add_in(r, "other");
    rig_succeed(r, take(r));
    assert_int_equal(resolved(r, "g"), 0);
    assert_ok(cancel(r, b));
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_GROUP_RESOLVED);
    assert_id(ev->id, b);
    assert_true(str_eq(ev->group, STR("g")) && str_eq(ev->queue, STR("q")));
    assert_int_equal(ev->from, STATUS_DEAD);
    assert_int_equal(ev->to, STATUS_DEAD);
    assert_int_equal(ev->number, ev[-1].number + 1);
    assert_int_equal(ev[-1].event, EVENT_CANCEL);
    assert_counts(r, "g", 2, 0);
    assert_counts(r, "other", 1, 1);
    (void)a, (void)other;
}

static void it_can_be_resolved_again(void **state)
{
    R;
    struct job job;
    struct id a = add_in(r, "g");
    assert_ok(cancel(r, a));
    assert_int_equal(resolved(r, "g"), 1);
    assert_ok(engine_rerun(r->e, r->now, a, (struct rerun){.at = r->now}, &r->strings, &job));
    assert_counts(r, "g", 1, 1);
    rig_restart(r);
    rig_succeed(r, take(r));
    assert_int_equal(resolved(r, "g"), 2);
    struct id b = add_in(r, "g");
    assert_counts(r, "g", 2, 1);
    assert_ok(engine_remove(r->e, r->now, b));
    assert_int_equal(resolved(r, "g"), 3);
    rig_turn(r);
}

/* The job is gone with its end, and its group with it. */
static void a_group_of_jobs_that_are_not_kept_is_resolved_and_gone(void **state)
{
    R;
    struct enqueue spec = spec_in("g");
    spec.completed_retention = (span){0};
    struct id id = rig_add_spec(r, &spec);
    assert_id(take(r), id);
    rig_succeed(r, id);
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_GROUP_RESOLVED);
    assert_int_equal(ev->from, STATUS_GONE);
    assert_id(ev->id, id);
    assert_gone(r, "g");
    rig_turn(r);
}

static void whatever_ends_a_job_counts(void **state)
{
    R;
    struct enqueue late = spec_in("g"), waits = spec_in("g");
    late.options.deadline = instant_add(r->now, HOUR);
    struct id failed = add_in(r, "g"), deadline = rig_add_spec(r, &late);
    uint8_t bytes[DEPEND_ID_LEN];
    id_encode(failed, bytes);
    waits.options.depends_on = (struct str){(char *)bytes, sizeof bytes};
    waits.options.depend_death = DEPEND_DIE;
    struct id abandoned = rig_add_spec(r, &waits);
    assert_counts(r, "g", 3, 3);
    assert_id(take(r), failed);
    struct job job;
    struct failure_report report = {.ref = rig_ref(r, failed),
                                    .failure = {.run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    rig_turn(r);
    assert_int_equal(rig_status(r, abandoned), STATUS_DEAD);
    assert_counts(r, "g", 3, 1);
    rig_turn_after(r, HOUR.ms);
    assert_int_equal(rig_status(r, deadline), STATUS_DEAD);
    assert_counts(r, "g", 3, 0);
    assert_int_equal(resolved(r, "g"), 1);
}

static void a_retry_a_return_and_a_patch_change_nothing(void **state)
{
    R;
    struct id id = add_in(r, "g");
    rig_fail(r, take(r));
    assert_counts(r, "g", 1, 1);
    struct job job;
    const struct patch soon = {.set = PATCH_READY_AT, .ready_at = r->now};
    assert_ok(engine_patch(r->e, r->now, id, &soon, &r->strings, &job));
    assert_id(take(r), id);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    assert_counts(r, "g", 1, 1);
    assert_id(take(r), id);
    rig_restart(r); /* its lease outlives that */
    assert_counts(r, "g", 1, 1);
    rig_succeed(r, id);
    assert_counts(r, "g", 1, 0);
    assert_int_equal(resolved(r, "g"), 1);
}

static void a_sealed_group_takes_no_further_jobs(void **state)
{
    R;
    struct enqueue specs[] = {spec_in("other"), spec_in("g")};
    struct id id = add_in(r, "g");
    assert_ok(engine_group_seal(r->e, r->now, STR("g")));
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_GROUP_SEALED);
    assert_true(id_is_none(ev->id) && str_eq(ev->group, STR("g")));
    instant sealed_at = r->now;
    size_t events = r->event_count;
    r->now.ms += 1000;
    assert_ok(engine_group_seal(r->e, r->now, STR("g")));
    assert_int_equal(r->event_count, events);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(view(r, "g").record.sealed_at.ms, sealed_at.ms);
        assert_code(engine_group_check(r->e, r->now, specs, 2), ERR_GROUP_SEALED);
        assert_ok(engine_group_check(r->e, r->now, specs, 1));
        rig_restart(r);
    }
    assert_code(engine_group_seal(r->e, r->now, STR("none")), ERR_NOT_FOUND);
    /* Once it is gone the name is free again. */
    assert_ok(engine_remove(r->e, r->now, id));
    assert_ok(engine_group_check(r->e, r->now, specs, 2));
}

static void a_change_of_its_priority_is_told(void **state)
{
    R;
    (void)add_in(r, "g");
    assert_ok(engine_group_reprioritized(r->e, r->now, STR("g"), 7, 3));
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_GROUP_REPRIORITIZE);
    assert_true(id_is_none(ev->id) && str_eq(ev->group, STR("g")));
    assert_int_equal(ev->from, STATUS_GONE);
    assert_int_equal(ev->to, STATUS_GONE);
    assert_int_equal(ev->priority, 7);
    assert_int_equal(ev->jobs, 3);
    size_t events = r->event_count;
    assert_code(engine_group_reprioritized(r->e, r->now, STR("none"), 7, 3), ERR_NOT_FOUND);
    assert_int_equal(r->event_count, events);
}

static void all_jobs_of_a_group_name_the_same_owner(void **state)
{
    R;
    struct enqueue specs[] = {spec_in("g"), spec_in("g")};
    specs[0].options.group_owner = STR("me");
    assert_code(engine_group_check(r->e, r->now, specs, 2), ERR_CONFLICT);
    struct id id = rig_add_spec(r, &specs[0]);
    assert_int_equal(rig_record(r, id)->job.options.group_owner.len, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(str_eq(view(r, "g").record.owner, STR("me")));
        assert_code(engine_group_check(r->e, r->now, &specs[1], 1), ERR_CONFLICT);
        assert_ok(engine_group_check(r->e, r->now, specs, 1));
        rig_restart(r);
    }
    assert_ok(engine_group_seal(r->e, r->now, STR("g")));
    assert_code(engine_group_check(r->e, r->now, &specs[1], 1), ERR_CONFLICT);
}

static void it_is_retained_as_long_as_the_job_that_is_retained_longest(void **state)
{
    R;
    struct enqueue specs[] = {spec_in("g"), spec_in("g"), spec_in("g"), spec_in("g")};
    const int64_t until[] = {0, 5000, 9000, 7000}, expected[] = {-1, 5000, 9000, 9000};
    for (int i = 0; i < 4; i++) {
        if (until[i])
            specs[i].options.retain_until = instant_add(r->now, (span){until[i]});
        rig_add_spec(r, &specs[i]);
        int64_t is = view(r, "g").record.retain_until.ms;
        assert_int_equal(is, expected[i] < 0 ? -1 : r->now.ms + expected[i]);
        assert_int_equal(rig_group(r, "g")->retain_until.ms, is);
    }
    rig_restart(r);
    assert_int_equal(view(r, "g").record.retain_until.ms, r->now.ms + 9000);
}

/* Whoever did not get the answer asks again. */
static void an_enqueue_that_adds_nothing_is_not_refused(void **state)
{
    R;
    struct enqueue aliased = spec_in("g"), unique = spec_in("g");
    aliased.options.alias = STR("a");
    unique.unique_key = STR("k");
    unique.unique_while = UNIQUE_EXISTS;
    struct id id = rig_add_spec(r, &aliased);
    rig_add_spec(r, &unique);
    assert_ok(engine_group_seal(r->e, r->now, STR("g")));
    assert_ok(engine_group_check(r->e, r->now, &aliased, 1));
    assert_ok(engine_group_check(r->e, r->now, &unique, 1));
    struct enqueued out;
    assert_ok(engine_enqueue(r->e, r->now, &aliased, 1, &r->strings, &out));
    assert_true(out.duplicate && id_eq(out.job.id, id));
    assert_counts(r, "g", 2, 2);
    /* Nor does a duplicate bring a group into being. */
    aliased.options.group = STR("new");
    assert_ok(engine_enqueue(r->e, r->now, &aliased, 1, &r->strings, &out));
    assert_gone(r, "new");
}

static void its_jobs_are_walked_in_order_of_their_ids_both_ways(void **state)
{
    R;
    struct id ids[3], next;
    add_in(r, "before");
    for (int i = 0; i < 3; i++) {
        ids[i] = add_in(r, "g");
        add_in(r, "after");
    }
    for (int back = 0; back < 2; back++) {
        struct id_place at = {0};
        for (int i = 0; i < 3; i++) {
            assert_true(engine_next_in_group(r->e, STR("g"), at, back, &next));
            assert_id(next, ids[back ? 2 - i : i]);
            at = (struct id_place){true, next};
        }
        assert_false(engine_next_in_group(r->e, STR("g"), at, back, &next));
    }
    assert_false(engine_next_in_group(r->e, STR("none"), (struct id_place){0}, false, &next));
}

static void a_record_without_jobs_is_deleted_at_a_start(void **state)
{
    R;
    r->groups[0] = (struct group_record){STR("lost"), {0}, INSTANT_NONE, INSTANT_NONE};
    rig_restart(r);
    assert_gone(r, "lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_group_exists_while_one_of_its_jobs_does),
        TEST(it_is_resolved_when_its_last_job_ends_and_says_which),
        TEST(it_can_be_resolved_again),
        TEST(a_group_of_jobs_that_are_not_kept_is_resolved_and_gone),
        TEST(whatever_ends_a_job_counts),
        TEST(a_retry_a_return_and_a_patch_change_nothing),
        TEST(a_sealed_group_takes_no_further_jobs),
        TEST(a_change_of_its_priority_is_told),
        TEST(all_jobs_of_a_group_name_the_same_owner),
        TEST(it_is_retained_as_long_as_the_job_that_is_retained_longest),
        TEST(an_enqueue_that_adds_nothing_is_not_refused),
        TEST(its_jobs_are_walked_in_order_of_their_ids_both_ways),
        TEST(a_record_without_jobs_is_deleted_at_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
