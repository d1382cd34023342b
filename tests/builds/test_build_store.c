/* SPDX-License-Identifier: Apache-2.0 */
#include "build_rig.h"

#include <string.h>

#include "builds/build_store.h"

#define ROOM 30 /* bytes: of three records */

static char said[200]; /* names of those that were called, in order */

static void kept(void *name)
{
    strcat(said, name);
}

static void close_it(void *open)
{
    build_store_close(open);
}

static struct build_store *open_it(struct rig *r)
{
    struct build_store *s;
    struct err e = build_store_open(&r->loop, r->state, ROOM, &s);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    *said = '\0';
    r->close = close_it;
    r->open = s;
    return s;
}

static struct build_record *add(struct build_store *s, const char *name)
{
    char json[32];
    snprintf(json, sizeof json, "\"%s-------\"", name); /* ten bytes */
    return build_store_add(s, str_from(json), kept, (char *)name);
}

static void see(void *ctx, struct build_record *r)
{
    (void)ctx;
    strncat(said, build_store_text(r).at + 1, 1);
}

static void what_is_over_the_size_waits_in_order(void **state)
{
    struct rig *r = *state;
    struct build_store *s = open_it(r);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct build_record *records[6];
    for (int i = 0; i < 6; i++)
        records[i] = add(s, names[i]);
    assert_string_equal(said, "");
    RIG_AWAIT(r, strcmp(said, "abc") == 0);
    rig_settle(r);
    assert_string_equal(said, "abc");
    assert_true(rig_logged(r, "30 bytes wait on disk"));
    /* It is readable all the same. */
    assert_int_equal(build_store_text(records[5]).at[1], 'f');
    build_store_remove(s, records[1]);
    RIG_AWAIT(r, strcmp(said, "abcd") == 0);
    /* One that was never on disk: whoever waits for it is called, too. */
    build_store_remove(s, records[4]);
    assert_string_equal(said, "abcd");
    RIG_AWAIT(r, strcmp(said, "abcde") == 0);
    rig_close(r);
    s = open_it(r);
    build_store_each(s, see, NULL);
    assert_string_equal(said, "acd");
    rig_close(r);
}

static void a_single_large_one_is_taken(void **state)
{
    struct rig *r = *state;
    struct build_store *s = open_it(r);
    char json[200];
    memset(json, '7', sizeof json);
    struct build_record *large = build_store_add(s, (struct str){json, sizeof json}, kept, "L");
    add(s, "a");
    RIG_AWAIT(r, strcmp(said, "L") == 0);
    build_store_remove(s, large);
    RIG_AWAIT(r, strcmp(said, "La") == 0);
    rig_close(r);
}

static void what_is_on_disk_counts_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct build_store *s = open_it(r);
    add(s, "a");
    add(s, "b");
    RIG_AWAIT(r, strcmp(said, "ab") == 0);
    rig_close(r);
    s = open_it(r);
    add(s, "c");
    add(s, "d");
    RIG_AWAIT(r, strcmp(said, "c") == 0);
    rig_settle(r);
    assert_string_equal(said, "c");
    rig_close(r);
}

static void drop(void *ctx, struct build_record *r)
{
    build_store_remove(ctx, r);
}

static void records_may_be_removed_while_they_are_seen(void **state)
{
    struct rig *r = *state;
    struct build_store *s = open_it(r);
    add(s, "a");
    add(s, "b");
    rig_close(r);
    s = open_it(r);
    build_store_each(s, drop, s);
    build_store_call(s, NULL, NULL);
    build_store_call(s, kept, "x");
    assert_string_equal(said, "");
    RIG_AWAIT(r, strcmp(said, "x") == 0);
    rig_close(r);
    s = open_it(r);
    build_store_each(s, see, NULL);
    assert_string_equal(said, "");
    rig_close(r);
}

static void texts_become_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
        size_t max;
    } cases[] = {
        {"", "\"\"", 9},
        {"a\"\\\n", "\"a\\\"\\\\\\n\"", 9},
        {"\xc3\xa9\xff\xc3", "\"\xc3\xa9??\"", 9},
        {"a\xc3\xa9", "\"a\"", 2},
        {"a\xe2\x82\xac", "\"a\"", 3},
        {"a\xf0\x9f\x98\x80z", "\"a\xf0\x9f\x98\x80\"", 5},
        {"abc", "\"abc\"", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        build_store_write_text(&b, str_from(cases[i].text), cases[i].max);
        buf_byte(&b, '\0');
        assert_string_equal(b.at, cases[i].json);
        buf_fini(&b);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_over_the_size_waits_in_order),
        T(a_single_large_one_is_taken),
        T(what_is_on_disk_counts_after_a_restart),
        T(records_may_be_removed_while_they_are_seen),
        T(texts_become_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
