/* SPDX-License-Identifier: Apache-2.0 */
#include "store/cm.h"
#include "store/memory.h"
#include "store/scratch.h"

static int set_up(void **state)
{
    *state = memory_new();
    return 0;
}

static int tear_down(void **state)
{
    store_close(*state);
    return 0;
}

/* Begins the commit of one put. The caller releases the batch. */
static void begin_put(struct store *s, struct batch *b, const char *key, bool sync)
{
    batch_put(b, str_from(key), STR("1"));
    store_commit(s, b, sync);
}

static void put_unsynced(struct store *s, const char *key)
{
    struct batch b = {0};
    batch_put(&b, str_from(key), STR("1"));
    assert_ok(scratch_try_commit(s, &b, false));
    batch_fini(&b);
}

static enum err_code try_put(struct store *s, const char *key)
{
    struct batch b = {0};
    batch_put(&b, str_from(key), STR("1"));
    struct err e = scratch_try_commit(s, &b, true);
    batch_fini(&b);
    return e.code;
}

static void a_held_batch_is_not_seen_before_its_release(void **state)
{
    struct store *s = *state;
    struct batch b = {0};
    struct err e;
    memory_set_faults(s, (struct memory_faults){.hold = true});
    begin_put(s, &b, "a", true);
    assert_false(store_reap(s, &e));
    scratch_expect(s, "a", NULL);
    memory_release(s);
    assert_true(store_reap(s, &e));
    assert_code(e, ERR_OK);
    scratch_expect(s, "a", "1");
    batch_fini(&b);
}

static void a_release_without_a_batch_does_nothing(void **state)
{
    struct store *s = *state;
    struct err e;
    memory_release(s);
    assert_false(store_reap(s, &e));
}

static void a_failed_commit_leaves_nothing(void **state)
{
    struct store *s = *state;
    memory_set_faults(s, (struct memory_faults){.fail = ERR_DISK_FULL});
    assert_int_equal(try_put(s, "a"), ERR_DISK_FULL);
    scratch_expect(s, "a", NULL);
    assert_ok(store_reopen(s));
    scratch_expect(s, "a", NULL);
}

static void after_a_failure_commits_are_refused_until_reopened(void **state)
{
    struct store *s = *state;
    scratch_put(s, "before", "1");
    memory_set_faults(s, (struct memory_faults){.fail = ERR_STORE});
    assert_int_equal(try_put(s, "a"), ERR_STORE);
    assert_int_equal(try_put(s, "b"), ERR_STORE);
    scratch_expect(s, "before", "1");
    assert_ok(store_reopen(s));
    assert_int_equal(try_put(s, "c"), ERR_OK);
    scratch_expect(s, "b", NULL);
    scratch_expect(s, "c", "1");
}

static void a_failed_commit_may_be_there_after_a_reopen(void **state)
{
    struct store *s = *state;
    memory_set_faults(s, (struct memory_faults){.fail = ERR_STORE, .fail_but_keep = true});
    assert_int_equal(try_put(s, "a"), ERR_STORE);
    scratch_expect(s, "a", NULL);
    assert_ok(store_reopen(s));
    scratch_expect(s, "a", "1");
    memory_crash(s, false, true);
    scratch_expect(s, "a", "1");
}

static void a_held_batch_can_fail(void **state)
{
    struct store *s = *state;
    struct batch b = {0};
    struct err e;
    memory_set_faults(s, (struct memory_faults){.hold = true, .fail = ERR_STORE});
    begin_put(s, &b, "a", true);
    memory_release(s);
    assert_true(store_reap(s, &e));
    assert_code(e, ERR_STORE);
    scratch_expect(s, "a", NULL);
    batch_fini(&b);
}

static void a_crash_takes_what_was_not_synced(void **state)
{
    struct store *s = *state;
    put_unsynced(s, "a");
    scratch_put(s, "b", "1");
    put_unsynced(s, "c");
    put_unsynced(s, "d");
    memory_crash(s, false, true);
    /* The sync of b also covered a. */
    scratch_expect(s, "a", "1");
    scratch_expect(s, "b", "1");
    scratch_expect(s, "c", NULL);
    scratch_expect(s, "d", NULL);
}

static void a_crash_may_take_nothing(void **state)
{
    struct store *s = *state;
    put_unsynced(s, "a");
    memory_crash(s, false, false);
    scratch_expect(s, "a", "1");
}

static void what_recovery_has_read_no_later_crash_takes(void **state)
{
    struct store *s = *state;
    put_unsynced(s, "a");
    memory_crash(s, false, false);
    memory_crash(s, false, true);
    scratch_expect(s, "a", "1");
}

static void what_recovery_leaves_unsynced_takes_later_commits_along(void **state)
{
    struct store *s = *state;
    put_unsynced(s, "a");
    memory_set_faults(s, (struct memory_faults){.recover_unsynced = true});
    memory_crash(s, false, false);
    scratch_put(s, "b", "1");
    memory_crash(s, false, true);
    scratch_expect(s, "a", NULL);
    scratch_expect(s, "b", NULL);
}

static void a_batch_that_a_crash_left_with_the_system_is_synced_by_recovery(void **state)
{
    struct store *s = *state;
    struct batch b = {0};
    memory_set_faults(s, (struct memory_faults){.hold = true, .recover_unsynced = true});
    begin_put(s, &b, "a", true);
    memory_crash(s, true, false);
    scratch_expect(s, "a", "1");
    memory_crash(s, false, true);
    scratch_expect(s, "a", NULL);
    memory_set_faults(s, (struct memory_faults){.hold = true});
    store_commit(s, &b, true);
    memory_crash(s, true, false);
    memory_crash(s, false, true);
    scratch_expect(s, "a", "1");
    batch_fini(&b);
}

static void a_crash_drops_or_keeps_the_batch_under_way(void **state)
{
    struct store *s = *state;
    for (int apply = 0; apply < 2; apply++) {
        struct batch b = {0};
        struct err e;
        memory_set_faults(s, (struct memory_faults){.hold = true});
        begin_put(s, &b, "a", true);
        memory_crash(s, apply, true);
        assert_false(store_reap(s, &e));
        scratch_expect(s, "a", apply ? "1" : NULL);
        batch_fini(&b);
    }
}

static void a_crash_ends_a_failure(void **state)
{
    struct store *s = *state;
    memory_set_faults(s, (struct memory_faults){.fail = ERR_STORE});
    assert_int_equal(try_put(s, "a"), ERR_STORE);
    memory_crash(s, false, true);
    assert_int_equal(try_put(s, "b"), ERR_OK);
}

static void a_cursor_outlives_a_crash(void **state)
{
    struct store *s = *state;
    put_unsynced(s, "a");
    struct store_cursor *c = store_cursor_new(s);
    memory_crash(s, false, true);
    struct str key, value;
    store_cursor_seek(c, s, STR(""), false);
    assert_true(store_cursor_at(c, s, &key, &value));
    assert_str(key, "a");
    assert_ok(store_cursor_free(c, s));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_held_batch_is_not_seen_before_its_release),
        T(a_release_without_a_batch_does_nothing),
        T(a_failed_commit_leaves_nothing),
        T(after_a_failure_commits_are_refused_until_reopened),
        T(a_failed_commit_may_be_there_after_a_reopen),
        T(a_held_batch_can_fail),
        T(a_crash_takes_what_was_not_synced),
        T(a_crash_may_take_nothing),
        T(what_recovery_has_read_no_later_crash_takes),
        T(what_recovery_leaves_unsynced_takes_later_commits_along),
        T(a_batch_that_a_crash_left_with_the_system_is_synced_by_recovery),
        T(a_crash_drops_or_keeps_the_batch_under_way),
        T(a_crash_ends_a_failure),
        T(a_cursor_outlives_a_crash),
    };
#undef T
    return cmocka_run_group_tests_name("memory_faults", tests, NULL, NULL);
}
