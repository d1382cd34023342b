/* SPDX-License-Identifier: Apache-2.0 */

/* Putting and removing cron entries. */

#include "cron_rig.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"

/* --- put --- */

static void the_same_put_again_writes_nothing(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec both[] = {cron_rig_spec("a", "0 * * * *"), cron_rig_spec("b", "30 * * * *")};
    cron_rig_put(r, both, 2);
    cron_rig_turn_after(r, HOUR + 1);
    cron_rig_flip(r, "b", CRON_PAUSE);
    struct cron_entry a = cron_rig_read_entry(r, "a"), b = cron_rig_read_entry(r, "b");
    unsigned writes = r->writes;
    struct cron_view v = cron_rig_put(r, both, 2);
    assert_int_equal(r->writes, writes);
    assert_true(id_eq(v.entries[0].id, a.id) && id_eq(v.entries[1].id, b.id));
    assert_int_equal(v.entries[0].clock.last_at.ms, a.clock.last_at.ms);
    assert_true(v.entries[1].clock.pause.paused);
    cron_rig_crash(r);
    v = cron_rig_put(r, both, 2);
    assert_int_equal(r->writes, writes);
    assert_int_equal(v.entries[0].clock.last_at.ms, a.clock.last_at.ms);
}

/* As a version wrote it that let both days agree. */
static void make_classic(struct cron_rig *r)
{
    for (size_t i = 0; i < CRON_RIG_MAX; i++)
        if (!id_is_none(r->durable.entries[i].id))
            r->durable.entries[i].classic = true;
    cron_rig_crash(r);
}

static void an_entry_of_before_keeps_its_days_until_it_is_put_again(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec s[] = {cron_rig_spec("a", "0 0 */2 * mon"), cron_rig_spec("b", "0 0 1 * mon")};
    const int64_t day = 24 * HOUR;
    cron_rig_put(r, s, 2);
    make_classic(r);
    /* The second crash finds what the first recovery has computed. */
    cron_rig_crash(r);
    struct cron_entry a = cron_rig_read_entry(r, "a"), b = cron_rig_read_entry(r, "b");
    assert_true(a.classic);
    assert_at(a.clock.next_at, CRON_RIG_START, 4 * day); /* Monday the 5th */
    cron_rig_flip(r, "a", CRON_PAUSE);
    cron_rig_flip(r, "a", CRON_RESUME);
    cron_rig_crash(r);
    assert_at(cron_rig_read_entry(r, "a").clock.next_at, CRON_RIG_START, 4 * day);
    struct cron_view v = cron_rig_put(r, s, 2);
    assert_at(v.entries[0].clock.next_at, CRON_RIG_START, 2 * day); /* the 3rd */
    assert_int_equal(v.entries[1].clock.next_at.ms, b.clock.next_at.ms);
    cron_rig_crash(r);
    a = cron_rig_read_entry(r, "a");
    assert_false(a.classic || cron_rig_read_entry(r, "b").classic);
    assert_at(a.clock.next_at, CRON_RIG_START, 2 * day);
}

static void a_put_pauses_and_resumes_what_it_keeps(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec s = cron_rig_spec("a", "0 * * * *");
    s.paused = CRON_PAUSE;
    struct cron_view v = cron_rig_put(r, &s, 1);
    assert_true(v.entries[0].clock.pause.paused);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 0);
    s.paused = CRON_RESUME;
    v = cron_rig_put(r, &s, 1);
    assert_false(v.entries[0].clock.pause.paused);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
    struct cron_put whole = {
        .group = STR("g"), .paused = CRON_PAUSE, .entries = &s, .count = 1, .whole = true};
    assert_ok(engine_cron_put(r->e, r->now, &whole, &r->arena, &v));
    assert_true(v.group.pause.paused);
    whole.paused = CRON_AS_IS;
    assert_ok(engine_cron_put(r->e, r->now, &whole, &r->arena, &v));
    assert_true(v.group.pause.paused);
    assert_int_equal(v.entries[0].clock.last_at.ms, r->now.ms);
}

static void change_expression(struct cron_spec *s)
{
    s->expression = STR("30 * * * *");
}
static void change_zone(struct cron_spec *s)
{
    s->zone = STR("UTC");
}
static void change_queue(struct cron_spec *s)
{
    s->job.queue = STR("other");
}
static void change_type(struct cron_spec *s)
{
    s->job.type = STR("other");
}
static void change_payload(struct cron_spec *s)
{
    s->job.payload = STR("{ }");
}
static void change_priority(struct cron_spec *s)
{
    s->job.priority = 1;
}
static void change_retry_limit(struct cron_spec *s)
{
    s->job.retry_limit = 0;
}
static void change_backoff(struct cron_spec *s)
{
    s->job.backoff = (struct curve){CURVE_POWER, {1}, 2, {3}};
}
static void change_jitter(struct cron_spec *s)
{
    s->job.backoff = (struct curve){CURVE_POWER, {1}, 2, {4}};
}
static void change_retention(struct cron_spec *s)
{
    s->job.dead_retention = (span){1};
}
static void change_unique(struct cron_spec *s)
{
    s->job.unique_while = UNIQUE_ACTIVE;
    s->job.unique_key = STR("k");
}

/* Deploying another version of an entry does not resume it if somebody paused it. */
static void an_entry_that_changed_keeps_its_pause_and_its_clock(void **state)
{
    struct cron_rig *r = *state;
    static void (*const changes[])(struct cron_spec * s) = {
        change_expression, change_zone,      change_queue,       change_type,
        change_payload,    change_priority,  change_retry_limit, change_backoff,
        change_jitter,     change_retention, change_unique};
    struct cron_spec s = cron_rig_spec("a", "0 * * * *");
    cron_rig_put(r, &s, 1);
    struct id id = cron_rig_read_entry(r, "a").id;
    for (size_t i = 0; i < COUNT(changes); i++) {
        s = cron_rig_spec("a", "0 * * * *");
        cron_rig_put(r, &s, 1);
        cron_rig_turn_after(r, HOUR);
        cron_rig_flip(r, "a", CRON_PAUSE);
        struct cron_clock before = cron_rig_read_entry(r, "a").clock;
        assert_true(instant_is_set(before.last_at));
        changes[i](&s);
        struct cron_entry e = cron_rig_put(r, &s, 1).entries[0];
        assert_true(id_eq(e.id, id));
        assert_int_equal(e.clock.last_at.ms, before.last_at.ms);
        assert_true(e.clock.pause.paused);
        assert_true(e.clock.next_at.ms > r->now.ms);
        if (i > 1) /* neither the expression nor the zone */
            assert_int_equal(e.clock.next_at.ms, before.next_at.ms);
        cron_rig_crash(r);
        e = cron_rig_read_entry(r, "a");
        assert_true(e.clock.pause.paused);
        assert_int_equal(e.clock.last_at.ms, before.last_at.ms);
        cron_rig_flip(r, "a", CRON_RESUME);
    }
}

static void entries_that_are_not_named_are_removed_and_the_order_is_that_of_the_put(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec first[] = {cron_rig_spec("a", "0 * * * *"), cron_rig_spec("b", "0 * * * *"),
                                cron_rig_spec("c", "0 * * * *")};
    cron_rig_put(r, first, 3);
    struct cron_spec second[] = {cron_rig_spec("d", "0 * * * *"), cron_rig_spec("c", "0 * * * *"),
                                 cron_rig_spec("a", "0 * * * *")};
    cron_rig_put(r, second, 3);
    cron_rig_crash(r);
    struct cron_view v;
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(str_eq(v.entries[i].name, second[i].name));
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 3);
    cron_rig_put(r, NULL, 0);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 3);
    instant due;
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 1);
    /* No deadline is left that belongs to an entry. */
    assert_false(engine_next_due(r->e, &due));
}

static void one_entry_is_put_without_touching_the_others(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec a = cron_rig_spec("a", "0 * * * *"), b = cron_rig_spec("b", "0 * * * *"),
                     c = cron_rig_spec("c", "0 * * * *");
    struct cron_view v;
    assert_ok(cron_rig_try_put(r, &b, 1, false, &v)); /* creates the group */
    assert_ok(cron_rig_try_put(r, &a, 1, false, &v));
    assert_ok(cron_rig_try_put(r, &c, 1, false, &v));
    assert_int_equal(v.count, 1);
    cron_rig_commit(r);
    cron_rig_turn_after(r, HOUR);
    b.job.payload = STR("2");
    assert_ok(cron_rig_try_put(r, &b, 1, false, &v));
    assert_true(str_eq(v.entries[0].job.payload, STR("2")));
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 3);
    assert_true(str_eq(v.entries[0].name, STR("b")) && str_eq(v.entries[1].name, STR("a")) &&
                str_eq(v.entries[2].name, STR("c")));
    for (size_t i = 0; i < 3; i++) {
        assert_true(instant_is_set(v.entries[i].clock.last_at));
        assert_int_equal(str_eq(v.entries[i].job.payload, STR("2")), i == 0);
    }
}

static void a_put_with_one_bad_entry_changes_nothing(void **state)
{
    struct cron_rig *r = *state;
    cron_rig_put_one(r, "a", "0 * * * *");
    unsigned writes = r->writes;
    struct cron_view v;
    struct cron_spec specs[] = {cron_rig_spec("x", "0 * * * *"), cron_rig_spec("a", "1 * * * *")};
    specs[1].zone = STR("Test/None");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_ZONE);
    specs[1] = cron_rig_spec("y", "0 0 30 2 *");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_CRON);
    specs[1] = cron_rig_spec("y", "nonsense");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_CRON);
    specs[1] = cron_rig_spec("x", "1 * * * *");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_UNPROCESSABLE);
    specs[1] = cron_rig_spec("", "1 * * * *");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_NAME);
    specs[1] = cron_rig_spec("a\nb", "1 * * * *");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_NAME);
    specs[1] = cron_rig_spec("\xff", "1 * * * *");
    assert_code(cron_rig_try_put(r, specs, 2, true, &v), ERR_BAD_UTF8);
    assert_int_equal(r->writes, writes);
    assert_ok(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v));
    assert_int_equal(v.count, 1);
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 1);
}

static void what_comes_every_28_years_is_refused_and_every_8_is_not(void **state)
{
    struct cron_rig *r = *state;
    struct cron_view v;
    struct cron_spec s =
        cron_rig_spec("a", "0 0 29 2 +sun"); /* a 29 February that is a Sunday: 2032 */
    assert_ok(cron_rig_try_put(r, &s, 1, true, &v));
    r->now.ms += INT64_C(7) * 366 * 24 * HOUR; /* January 2033: the next is 2060 */
    s.name = STR("b");
    assert_code(cron_rig_try_put(r, &s, 1, true, &v), ERR_BAD_CRON);
    s = cron_rig_spec("c", "0 0 29 2 *");
    assert_ok(cron_rig_try_put(r, &s, 1, true, &v));
}

static void too_many_entries_are_refused(void **state)
{
    struct cron_rig *r = *state;
    size_t count = CRON_GROUP_ENTRIES_MAX + 1;
    struct cron_spec *specs = alloc_zero(count * sizeof *specs);
    struct cron_view v;
    for (size_t i = 0; i < count; i++)
        specs[i] = cron_rig_spec("a", "0 * * * *");
    assert_code(cron_rig_try_put(r, specs, count, true, &v), ERR_TOO_MANY);
    free(specs);
}

/* --- removing --- */

static void what_is_removed_does_not_tick(void **state)
{
    struct cron_rig *r = *state;
    struct cron_spec both[] = {cron_rig_spec("a", "0 * * * *"), cron_rig_spec("b", "0 * * * *")};
    size_t removed;
    instant due;
    cron_rig_put(r, both, 2);
    assert_ok(engine_cron_remove(r->e, STR("g"), STR("a"), &removed));
    assert_code(engine_cron_remove(r->e, STR("g"), STR("a"), &removed), ERR_NOT_FOUND);
    cron_rig_turn_after(r, HOUR);
    assert_jobs(r, 1);
    assert_string_equal(r->disk.types[0], "b");
    assert_ok(engine_cron_remove(r->e, STR("g"), (struct str){0}, &removed));
    engine_check(r->e);
    assert_false(engine_next_due(r->e, &due));
    assert_code(engine_cron_remove(r->e, STR("g"), (struct str){0}, &removed), ERR_NOT_FOUND);
    cron_rig_commit(r);
    cron_rig_crash(r);
    struct cron_view v;
    assert_code(engine_cron_read(r->e, STR("g"), (struct str){0}, &r->arena, &v), ERR_NOT_FOUND);
}

static void all_groups_are_listed_in_order_and_removed_together(void **state)
{
    struct cron_rig *r = *state;
    static const char *const groups[] = {"beta", "alpha", "alphabet"};
    struct cron_view v;
    for (size_t i = 0; i < 3; i++) {
        struct cron_spec s = cron_rig_spec("a", "0 * * * *");
        struct cron_put p = {
            .group = str_from(groups[i]), .entries = &s, .count = 1, .whole = true};
        assert_ok(engine_cron_put(r->e, r->now, &p, &r->arena, &v));
    }
    struct str *names;
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 3);
    assert_true(str_eq(names[0], STR("alpha")) && str_eq(names[1], STR("alphabet")) &&
                str_eq(names[2], STR("beta")));
    size_t removed;
    assert_ok(engine_cron_remove(r->e, (struct str){0}, (struct str){0}, &removed));
    assert_int_equal(removed, 3);
    engine_check(r->e);
    assert_int_equal(engine_cron_names(r->e, &r->arena, &names), 0);
    assert_ok(engine_cron_remove(r->e, (struct str){0}, (struct str){0}, &removed));
    assert_int_equal(removed, 0);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct cron_rig *r = *state;
    struct cron_view v;
    cron_rig_put_one(r, "a", "0 * * * *");
    assert_code(engine_cron_read(r->e, STR("h"), STR("a"), &r->arena, &v), ERR_NOT_FOUND);
    assert_code(engine_cron_read(r->e, STR("g"), STR("b"), &r->arena, &v), ERR_NOT_FOUND);
    assert_code(engine_cron_switch(r->e, r->now, STR("h"), STR(""), CRON_PAUSE, &r->arena, &v),
                ERR_NOT_FOUND);
    assert_code(engine_cron_switch(r->e, r->now, STR("g"), STR("b"), CRON_PAUSE, &r->arena, &v),
                ERR_NOT_FOUND);
}

static void stored_nonsense_is_corrupt(void **state)
{
    struct cron_rig *r = *state;
    bool ticks;
    struct cron_entry e = {.id = {1, 1}, .group = {9, 9}, .name = STR("a"), .expression = STR("*")};
    assert_code(engine_restore_cron_entry(r->e, r->now, &e, &ticks), ERR_CORRUPT);
    engine_restore_cron_group(r->e, &(struct cron_group){.id = {9, 9}, .name = STR("g")});
    assert_code(engine_restore_cron_entry(r->e, r->now, &e, &ticks), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CRON_RIG_TEST(the_same_put_again_writes_nothing),
        CRON_RIG_TEST(an_entry_of_before_keeps_its_days_until_it_is_put_again),
        CRON_RIG_TEST(a_put_pauses_and_resumes_what_it_keeps),
        CRON_RIG_TEST(an_entry_that_changed_keeps_its_pause_and_its_clock),
        CRON_RIG_TEST(entries_that_are_not_named_are_removed_and_the_order_is_that_of_the_put),
        CRON_RIG_TEST(one_entry_is_put_without_touching_the_others),
        CRON_RIG_TEST(a_put_with_one_bad_entry_changes_nothing),
        CRON_RIG_TEST(what_comes_every_28_years_is_refused_and_every_8_is_not),
        CRON_RIG_TEST(too_many_entries_are_refused),
        CRON_RIG_TEST(what_is_removed_does_not_tick),
        CRON_RIG_TEST(all_groups_are_listed_in_order_and_removed_together),
        CRON_RIG_TEST(what_is_not_there_is_not_found),
        CRON_RIG_TEST(stored_nonsense_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
