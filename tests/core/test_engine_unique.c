/* SPDX-License-Identifier: Apache-2.0 */

/* Which job holds a unique key, and which it excludes. */

#include "core/engine_makers.h"
#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

static struct enqueue unique_spec(const char *key, enum unique scope)
{
    struct enqueue spec = rig_spec("q");
    spec.unique_key = str_from(key);
    spec.unique_while = scope;
    spec.retry_limit = 0;
    spec.completed_retention = spec.dead_retention = HOUR;
    return spec;
}

/* Whether that job prevents another one with this key. The other one asks for the widest scope:
 * only the holder's scope counts. It is removed again. */
static bool keeps_out(struct rig *r, struct id holder, const char *key)
{
    struct enqueue spec = unique_spec(key, UNIQUE_EXISTS);
    spec.queue = STR("another");
    struct enqueued out;
    assert_ok(engine_enqueue(r->e, r->now, &spec, 1, &r->strings, &out));
    engine_check(r->e);
    if (!out.duplicate)
        assert_ok(engine_remove(r->e, r->now, out.job.id));
    else
        assert_id(out.job.id, holder);
    return out.duplicate;
}

static void each_scope_keeps_others_out_in_its_statuses_only(void **state)
{
    R;
    for (int scope = UNIQUE_QUEUED; scope < UNIQUE_COUNT; scope++) {
        bool active = scope >= UNIQUE_ACTIVE, exists = scope >= UNIQUE_EXISTS;
        struct enqueue spec = unique_spec("k", (enum unique)scope);
        spec.ready_at = instant_add(r->now, HOUR);
        struct id id = rig_add_spec(r, &spec);
        assert_true(keeps_out(r, id, "k")); /* scheduled */
        rig_turn_after(r, HOUR.ms);
        assert_true(keeps_out(r, id, "k")); /* ready */
        struct taker *t = rig_stream(r, "w", "q", 1);
        rig_turn(r);
        assert_int_equal(keeps_out(r, id, "k"), active); /* in flight */
        assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
        assert_true(keeps_out(r, id, "k"));
        rig_turn(r);
        if (scope % 2)
            rig_succeed(r, id);
        else
            rig_fail(r, id);
        assert_int_equal(keeps_out(r, id, "k"), exists); /* completed or dead */
        r->now.ms += HOUR.ms;
        assert_false(keeps_out(r, id, "k")); /* its retention is over */
        rig_turn(r);
        engine_taker_close(r->e, r->now, t, TAKER_GONE);
        rig_clear(r);
    }
}

static void a_blocked_job_keeps_others_out_in_every_scope(void **state)
{
    R;
    struct id first = rig_add(r, "q");
    for (int scope = UNIQUE_QUEUED; scope < UNIQUE_COUNT; scope++) {
        struct enqueue spec = unique_spec("k", (enum unique)scope);
        spec.options.depends_on = depend_new(&r->strings, 1);
        depend_add(&spec.options.depends_on, first);
        struct id id = rig_add_spec(r, &spec);
        assert_int_equal(rig_status(r, id), STATUS_BLOCKED);
        assert_true(keeps_out(r, id, "k"));
        assert_ok(engine_remove(r->e, r->now, id));
        assert_false(keeps_out(r, id, "k"));
    }
}

static void another_key_is_not_kept_out(void **state)
{
    R;
    struct enqueue spec = unique_spec("k", UNIQUE_EXISTS);
    struct id id = rig_add_spec(r, &spec);
    assert_true(keeps_out(r, id, "k"));
    assert_false(keeps_out(r, id, "K"));
    assert_false(keeps_out(r, id, "k "));
}

static void a_removed_job_lets_go_of_its_key(void **state)
{
    R;
    struct enqueue spec = unique_spec("k", UNIQUE_EXISTS);
    struct id id = rig_add_spec(r, &spec);
    assert_ok(engine_remove(r->e, r->now, id));
    assert_false(keeps_out(r, id, "k"));
}

static void a_bulk_enqueue_keeps_its_own_duplicates_out(void **state)
{
    R;
    const struct enqueue specs[] = {unique_spec("a", UNIQUE_QUEUED),
                                    unique_spec("b", UNIQUE_QUEUED),
                                    unique_spec("a", UNIQUE_QUEUED)};
    struct enqueued out[3];
    assert_ok(engine_enqueue(r->e, r->now, specs, 3, &r->strings, out));
    assert_false(out[0].duplicate || out[1].duplicate);
    assert_true(out[2].duplicate);
    assert_id(out[2].job.id, out[0].job.id);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 2);
}

static void keys_are_held_after_a_restart(void **state)
{
    R;
    struct enqueue spec = unique_spec("leased", UNIQUE_ACTIVE);
    struct id leased = rig_add_spec(r, &spec);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    spec = unique_spec("cut off", UNIQUE_QUEUED);
    struct id cut_off = rig_add_spec(r, &spec);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    assert_false(keeps_out(r, cut_off, "cut off"));
    rig_restart(r);
    assert_true(keeps_out(r, cut_off, "cut off")); /* it waits again */
    assert_true(keeps_out(r, leased, "leased"));
    rig_succeed(r, leased);
    assert_false(keeps_out(r, leased, "leased"));
}

static void two_holders_of_one_key_must_both_let_go(void **state)
{
    R;
    struct enqueue spec = unique_spec("k", UNIQUE_QUEUED);
    struct id first = rig_add_spec(r, &spec);
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct id second = rig_add_spec(r, &spec);
    assert_true(id_cmp(second, first) > 0);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_true(keeps_out(r, first, "k"));
    assert_ok(engine_remove(r->e, r->now, first));
    assert_true(keeps_out(r, second, "k"));
    assert_ok(engine_remove(r->e, r->now, second));
    assert_false(keeps_out(r, second, "k"));
}

static void a_maker_is_charged_for_what_waits_and_for_its_keys(void **state)
{
    R;
    struct enqueue spec = unique_spec("k", UNIQUE_ACTIVE);
    spec.options.maker = 7;
    spec.options.alias = STR("a");
    struct id id = rig_add_spec(r, &spec);
    struct maker_holds has = engine_maker_holds(r->e, 7);
    assert_int_equal(has.waiting, 1);
    assert_int_equal(has.keys, 2);
    assert_int_equal(engine_maker_holds(r->e, 8).waiting, 0);
    rig_restart(r);
    assert_int_equal(engine_maker_holds(r->e, 7).waiting, 1);
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    has = engine_maker_holds(r->e, 7);
    assert_int_equal(has.waiting, 0); /* in flight */
    assert_int_equal(has.keys, 2);
    rig_succeed(r, id);
    assert_int_equal(engine_maker_holds(r->e, 7).keys, 1); /* the alias is kept with the job */
    engine_check(r->e);
    assert_ok(engine_remove(r->e, r->now, id));
    assert_int_equal(engine_maker_holds(r->e, 7).keys, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_scope_keeps_others_out_in_its_statuses_only),
        TEST(a_blocked_job_keeps_others_out_in_every_scope),
        TEST(another_key_is_not_kept_out),
        TEST(a_removed_job_lets_go_of_its_key),
        TEST(a_bulk_enqueue_keeps_its_own_duplicates_out),
        TEST(keys_are_held_after_a_restart),
        TEST(two_holders_of_one_key_must_both_let_go),
        TEST(a_maker_is_charged_for_what_waits_and_for_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
