/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "store/record.h"

/* How the embedded backend handles the entries of front ends on its disk. */

#define Y struct yard *y = *state

static uint64_t records(struct yard *y, char kind)
{
    uint64_t n = 0;
    struct str key, value;
    struct store_cursor *c = store_cursor_new(y->store);
    store_cursor_seek(c, y->store, (struct str){&kind, 1}, false);
    for (; store_cursor_at(c, y->store, &key, &value) && key.at[0] == kind; n++)
        store_cursor_step(c, y->store, false);
    assert_ok(store_cursor_free(c, y->store));
    return n;
}

static void add(struct yard *y, int n, instant expires, bool remove)
{
    char name[80];
    struct answer a;
    /* Names that differ early and end alike. */
    snprintf(name, sizeof name, "%08d/public/logs/of-the-live-run.log", n);
    struct kv_change change = {.entry = {STR("files"), str_from(name), STR("v"), expires, 0},
                               .remove = remove};
    yard_ask(y, (struct command){.kind = CMD_KV_PUT, .kv_put = {&change, 1}}, &a);
    assert_ok(a.err);
}

static void a_removed_entry_leaves_no_record(void **state)
{
    Y;
    add(y, 1, instant_add(y->now, (span){1000}), false);
    assert_int_equal(records(y, 'K') + records(y, 'L'), 2);
    add(y, 1, instant_add(y->now, (span){2000}), false);
    assert_int_equal(records(y, 'K') + records(y, 'L'), 2);
    add(y, 1, INSTANT_NONE, true);
    assert_int_equal(records(y, 'K') + records(y, 'L'), 0);
}

static void what_has_expired_is_deleted_in_slices(void **state)
{
    Y;
    for (int i = 0; i < 600; i++)
        add(y, i, instant_add(y->now, (span){1000}), false);
    add(y, 600, instant_add(y->now, (span){1001}), false);
    y->now.ms += 1000;
    yard_turn(y);
    uint64_t left = records(y, 'K');
    assert_true(left > 1 && left < 601);
    for (int i = 0; i < 10; i++)
        yard_turn(y);
    assert_int_equal(records(y, 'K'), 1);
    assert_int_equal(records(y, 'L'), 1);
}

static void nothing_is_looked_for_while_nothing_is_due(void **state)
{
    Y;
    instant at;
    yard_settle(y);
    assert_false(backend_next_due(y->b, &at));
    add(y, 1, INSTANT_NONE, false);
    yard_settle(y);
    assert_false(backend_next_due(y->b, &at));
    add(y, 2, instant_add(y->now, (span){1000}), false);
    yard_settle(y);
    assert_true(backend_next_due(y->b, &at));
    assert_int_equal(at.ms, y->now.ms + 1000);
}

static void an_index_record_of_another_time_deletes_nothing_but_itself(void **state)
{
    Y;
    instant soon = instant_add(y->now, (span){1000});
    add(y, 1, soon, false);
    struct batch b = {0};
    struct kv_entry older = {STR("files"), STR("x"), STR("v"), soon, 1};
    struct err result;
    char room[RECORD_KV_KEY_MAX];
    record_put_kv(&b, &older);
    older.expires = INSTANT_NONE; /* the entry itself never expires */
    record_put_kv(&b, &older);
    store_commit(y->store, &b, true);
    store_wait(y->store);
    assert_true(store_reap(y->store, &result));
    batch_fini(&b);
    y->now.ms += 1000;
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(records(y, 'L'), 0);
    assert_int_equal(records(y, 'K'), 1);
    bool found;
    struct buf value = {0};
    assert_ok(store_get(y->store, record_kv_key(older.space, older.key, room), &found, &value));
    assert_true(found);
    buf_fini(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_removed_entry_leaves_no_record),
        TEST(what_has_expired_is_deleted_in_slices),
        TEST(nothing_is_looked_for_while_nothing_is_due),
        TEST(an_index_record_of_another_time_deletes_nothing_but_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
