/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "core/trail.h"
#include "store/record.h"

/* The audit of the embedded backend: it is one commit with what it tells of. */

#define Y    struct yard *y = *state
#define NOTE STR("{\"who\":\"me\"}")

static int setup(void **state)
{
    int failed = yard_setup(state);
    struct yard *y = *state;
    y->settings.audit_retention = (span){1000000};
    yard_restart(y);
    return failed;
}
#define TRAIL_TEST(name) cmocka_unit_test_setup_teardown(name, setup, yard_teardown)

/* What the disk has; the newest first. */
static size_t stored(struct yard *y, struct trail_entry *entries, size_t most, struct arena *a)
{
    size_t n = 0;
    char room[RECORD_KV_KEY_MAX];
    struct str key, value, space, name;
    struct store_cursor *c = store_cursor_new(y->store);
    struct str first = record_kv_key(TRAIL_SPACE, (struct str){0}, room);
    store_cursor_seek(c, y->store, first, false);
    while (store_cursor_at(c, y->store, &key, &value) && record_key_is_kv(key, &space, &name) &&
           str_eq(space, TRAIL_SPACE)) {
        struct kv_entry e;
        assert_true(n < most);
        assert_ok(record_read_kv(arena_copy(a, value), &e));
        assert_ok(trail_read(name, e.value, &entries[n++]));
        store_cursor_step(c, y->store, false);
    }
    assert_ok(store_cursor_free(c, y->store));
    return n;
}

static struct command cancel(struct id id)
{
    return (struct command){.kind = CMD_CANCEL, .id = id, .trail = NOTE};
}

static void it_is_there_if_and_only_if_the_change_is(void **state)
{
    Y;
    struct arena a = {0};
    struct trail_entry e[4];
    struct answer to = {0};
    struct id id = yard_add(y, "q");
    unsigned before = y->commits;
    yard_ask(y, cancel(id), &to);
    assert_ok(to.err);
    assert_int_equal(y->commits, before + 1);
    assert_int_equal(stored(y, e, 4, &a), 1);
    assert_int_equal(e[0].number, 1);
    assert_int_equal(e[0].at.ms, y->now.ms);
    assert_false(e[0].open || e[0].counted);
    assert_true(str_eq(e[0].note, NOTE));
    /* What is refused changes nothing, and is in no audit. */
    yard_ask(y, cancel(id), &to);
    assert_int_not_equal(to.err.code, ERR_OK);
    yard_settle(y);
    assert_int_equal(stored(y, e, 4, &a), 1);
    arena_fini(&a);
}

static void a_crash_before_the_commit_leaves_neither(void **state)
{
    Y;
    struct arena a = {0};
    struct trail_entry e[4];
    struct answer to = {0};
    struct id id = yard_add(y, "q"), other = yard_add(y, "q");
    yard_send(y, cancel(id), &to);
    yard_crash(y);
    assert_int_equal(stored(y, e, 4, &a), 0);
    assert_int_equal(yard_status(y, id), STATUS_READY);
    yard_ask(y, cancel(other), &to);
    assert_int_equal(stored(y, e, 4, &a), 1);
    assert_int_equal(e[0].number, 1); /* nothing is missing */
    arena_fini(&a);
}

static void numbers_go_on_after_a_restart_and_after_all_has_expired(void **state)
{
    Y;
    struct arena a = {0};
    struct trail_entry e[4];
    struct answer to = {0};
    yard_ask(y, cancel(yard_add(y, "q")), &to);
    yard_ask(y, cancel(yard_add(y, "q")), &to);
    yard_restart(y);
    y->now.ms += 2000000;
    for (int i = 0; i < 5; i++)
        yard_turn(y);
    assert_int_equal(stored(y, e, 4, &a), 0);
    yard_restart(y);
    yard_ask(y, cancel(yard_add(y, "q")), &to);
    assert_int_equal(stored(y, e, 4, &a), 1);
    assert_int_equal(e[0].number, 3);
    arena_fini(&a);
}

static void a_change_of_many_is_open_until_it_is_done(void **state)
{
    Y;
    struct arena a = {0};
    struct trail_entry e[4];
    struct answer to = {0};
    for (int i = 0; i < 600; i++) /* more than a turn takes */
        yard_add(y, "q");
    struct command many = {.kind = CMD_REMOVE_WHERE, .trail = NOTE};
    yard_send(y, many, &to);
    for (int i = 0; i < 2; i++)
        yard_turn(y);
    assert_int_equal(stored(y, e, 4, &a), 1);
    assert_true(e[0].open && !e[0].counted);
    yard_crash(y);
    assert_int_equal(stored(y, e, 4, &a), 1);
    assert_true(e[0].open);
    yard_ask(y, many, &to);
    assert_ok(to.err);
    assert_int_equal(stored(y, e, 4, &a), 2);
    assert_int_equal(e[0].number, 2);
    assert_false(e[0].open);
    assert_int_equal(e[0].count, to.count);
    /* A dry run is none. */
    many.list.dry_run = true;
    many.list.limit = 1;
    yard_ask(y, many, &to);
    yard_settle(y);
    assert_int_equal(stored(y, e, 4, &a), 2);
    arena_fini(&a);
}

static void there_are_so_many_at_most(void **state)
{
    Y;
    struct arena a = {0};
    struct trail_entry e[8];
    struct answer to = {0};
    y->settings.audit_max = 3;
    yard_restart(y);
    for (int i = 0; i < 7; i++)
        yard_ask(y, cancel(yard_add(y, "q")), &to);
    assert_int_equal(stored(y, e, 8, &a), 3);
    assert_int_equal(e[0].number, 7);
    assert_int_equal(e[2].number, 5);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRAIL_TEST(it_is_there_if_and_only_if_the_change_is),
        TRAIL_TEST(a_crash_before_the_commit_leaves_neither),
        TRAIL_TEST(numbers_go_on_after_a_restart_and_after_all_has_expired),
        TRAIL_TEST(a_change_of_many_is_open_until_it_is_done),
        TRAIL_TEST(there_are_so_many_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
