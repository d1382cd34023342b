/* SPDX-License-Identifier: Apache-2.0 */

/* The entries that front ends keep beside the jobs. */

#include "contract_fixture.h"

#define F      struct fixture *f = *state
#define SECOND ((span){1000})

/* What came back, with keys and values as "k=v k=v ". */
struct got {
    unsigned came;
    struct err err;
    char text[512];
    size_t count, refused;
    uint64_t version; /* of the first */
    char after[KV_KEY_MAX + 1];
    bool more;
};

static void on_reply(void *ctx, const struct reply *r)
{
    struct got *g = ctx;
    assert_int_equal(g->came++, 0);
    g->err = r->err;
    g->count = r->count;
    g->more = r->more;
    g->refused = r->kv_refused;
    g->version = r->kv && r->count ? r->kv[0].version : 0;
    snprintf(g->after, sizeof g->after, "%.*s", STR_ARG(r->kv_after));
    for (size_t i = 0; r->kv && i < r->count; i++) {
        size_t used = strlen(g->text);
        snprintf(g->text + used, sizeof g->text - used, "%.*s=%.*s ", STR_ARG(r->kv[i].key),
                 STR_ARG(r->kv[i].value));
    }
}

static void send(struct fixture *f, struct command c, struct got *g)
{
    *g = (struct got){0};
    c.done = on_reply;
    c.ctx = g;
    backend_submit(f->b, &c);
}

static struct got ask(struct fixture *f, struct command c)
{
    struct got g;
    send(f, c, &g);
    fixture_settle(f);
    assert_int_equal(g.came, 1);
    return g;
}

static struct kv_change a_put(const char *key, const char *value)
{
    return (struct kv_change){.entry = {STR("s"), str_from(key), str_from(value), INSTANT_NONE, 0}};
}

static struct command put_of(const struct kv_change *changes, size_t count)
{
    return (struct command){.kind = CMD_KV_PUT, .kv_put = {changes, count}};
}

static struct got put(struct fixture *f, struct kv_change change)
{
    return ask(f, put_of(&change, 1));
}

static uint64_t add(struct fixture *f, const char *key, const char *value)
{
    struct got g = put(f, a_put(key, value));
    assert_ok(g.err);
    return g.version;
}

static void add_until(struct fixture *f, const char *key, instant expires)
{
    struct kv_change c = a_put(key, "v");
    c.entry.expires = expires;
    assert_ok(put(f, c).err);
}

static struct command read_of(const char *key)
{
    return (struct command){.kind = CMD_KV_READ, .kv = {.space = STR("s"), .key = str_from(key)}};
}

static struct got read(struct fixture *f, const char *key)
{
    return ask(f, read_of(key));
}

static struct command list_of(const char *prefix, const char *after, uint32_t limit)
{
    return (struct command){
        .kind = CMD_KV_LIST,
        .kv = {
            .space = STR("s"), .key = str_from(prefix), .after = str_from(after), .limit = limit}};
}

static void assert_list(struct fixture *f, const char *prefix, const char *after, uint32_t limit,
                        const char *expected)
{
    struct got g = ask(f, list_of(prefix, after, limit));
    assert_ok(g.err);
    assert_string_equal(g.text, expected);
}

static struct got remove_prefix(struct fixture *f, const char *space, const char *prefix)
{
    return ask(f, (struct command){
                      .kind = CMD_KV_REMOVE,
                      .kv = {.space = str_from(space), .key = str_from(prefix), .prefix = true}});
}

static void what_is_put_is_read_back_after_a_crash_too(void **state)
{
    F;
    uint64_t version = add(f, "k", "v");
    for (int i = 0; i < 2; i++) {
        struct got g = read(f, "k");
        assert_ok(g.err);
        assert_string_equal(g.text, "k=v ");
        assert_int_equal(g.version, version);
        fixture_crash(f);
    }
    assert_code(read(f, "other").err, ERR_NOT_FOUND);
}

static void keys_and_values_are_bytes_of_any_kind(void **state)
{
    F;
    static const char bytes[] = {0, 'a', 0, (char)0xff};
    static char longest[KV_KEY_MAX], value[KV_VALUE_MAX];
    memset(longest, 0xff, sizeof longest);
    struct kv_change c[2] = {a_put("", ""), a_put("", "")};
    c[0].entry.key = (struct str){bytes, sizeof bytes};
    c[1].entry.key = (struct str){longest, sizeof longest};
    c[1].entry.value = (struct str){value, sizeof value};
    assert_ok(ask(f, put_of(c, 2)).err);
    assert_int_equal(ask(f, list_of("", "", 10)).count, 2);
    struct got g = ask(
        f, (struct command){.kind = CMD_KV_READ, .kv = {.space = STR("s"), .key = c[0].entry.key}});
    assert_ok(g.err);
}

static void a_read_sees_what_was_put_before_it_in_the_same_turn(void **state)
{
    F;
    struct got put, seen, listed, later;
    struct kv_change c = a_put("k", "v");
    fixture_hold(f, true);
    send(f, put_of(&c, 1), &put);
    send(f, read_of("k"), &seen);
    send(f, list_of("", "", 10), &listed);
    fixture_turn(f);
    send(f, list_of("", "", 10), &later);
    fixture_turn(f);
    assert_int_equal(put.came + seen.came + listed.came + later.came, 0);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_string_equal(seen.text, "k=v ");
    assert_string_equal(listed.text, "k=v ");
    assert_string_equal(later.text, "k=v ");
}

static void a_list_puts_together_what_is_durable_on_its_way_and_new(void **state)
{
    F;
    struct got g[5];
    struct kv_change b = a_put("b", "2"), d = a_put("d", "2"), c = a_put("c", "3"),
                     d_gone = a_put("d", "");
    d_gone.remove = true;
    add(f, "a", "1");
    add(f, "b", "1");
    add(f, "e", "1");
    fixture_hold(f, true);
    send(f, put_of(&b, 1), &g[0]);
    send(f, put_of(&d, 1), &g[1]);
    fixture_turn(f);
    send(f, put_of(&c, 1), &g[2]);
    send(f, put_of(&d_gone, 1), &g[3]);
    send(f, list_of("", "", 10), &g[4]);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_string_equal(g[4].text, "a=1 b=2 c=3 e=1 ");
    assert_list(f, "", "", 10, "a=1 b=2 c=3 e=1 ");
}

static void a_list_has_those_of_its_space_and_prefix_after_its_place(void **state)
{
    F;
    struct kv_change other = a_put("ab", "other");
    other.entry.space = STR("sb");
    assert_ok(put(f, other).err);
    add(f, "b", "4");
    add(f, "ab", "2");
    add(f, "a", "1");
    add(f, "ac", "3");
    assert_list(f, "", "", 10, "a=1 ab=2 ac=3 b=4 ");
    assert_list(f, "a", "", 10, "a=1 ab=2 ac=3 ");
    assert_list(f, "a", "a", 10, "ab=2 ac=3 ");
    assert_list(f, "a", "aa", 10, "ab=2 ac=3 ");
    assert_list(f, "b", "a", 10, "b=4 ");
    assert_list(f, "a", "b", 10, "");
    struct got g = ask(f, list_of("", "", 2));
    assert_true(g.more);
    assert_string_equal(g.text, "a=1 ab=2 ");
    assert_string_equal(g.after, "ab");
    g = ask(f, list_of("", g.after, 2));
    assert_false(g.more);
    assert_string_equal(g.text, "ac=3 b=4 ");
}

static void a_condition_that_does_not_hold_is_a_conflict_with_the_present_entry(void **state)
{
    F;
    struct kv_change absent = a_put("k", "second"), exact = a_put("k", "third"),
                     missing = a_put("m", "v");
    uint64_t version = add(f, "k", "first");
    absent.when = KV_ABSENT;
    exact.when = missing.when = KV_VERSION;
    exact.entry.version = missing.entry.version = version + 1;
    struct got g = put(f, absent);
    assert_code(g.err, ERR_CONFLICT);
    assert_string_equal(g.text, "k=first ");
    assert_int_equal(g.version, version);
    assert_code(put(f, exact).err, ERR_CONFLICT);
    g = put(f, missing);
    assert_code(g.err, ERR_CONFLICT);
    assert_int_equal(g.count, 1);
    assert_int_equal(g.version, 0);
    exact.entry.version = version;
    assert_ok(put(f, exact).err);
    absent.entry.key = STR("new");
    assert_ok(put(f, absent).err);
    assert_list(f, "", "", 10, "k=third new=second ");
}

static void changes_are_made_all_or_none(void **state)
{
    F;
    add(f, "a", "1");
    add(f, "b", "1");
    struct kv_change c[3] = {a_put("a", "2"), a_put("b", ""), a_put("c", "2")};
    c[1].remove = true;
    c[2].when = KV_VERSION;
    c[2].entry.version = 7;
    struct got g = ask(f, put_of(c, 3));
    assert_code(g.err, ERR_CONFLICT);
    assert_int_equal(g.refused, 2);
    assert_list(f, "", "", 10, "a=1 b=1 ");
    c[2].when = KV_ABSENT;
    g = ask(f, put_of(c, 3));
    assert_ok(g.err);
    assert_string_equal(g.text, "a=2 b= c=2 ");
    fixture_crash(f);
    assert_list(f, "", "", 10, "a=2 c=2 ");
}

static void a_version_is_never_given_twice(void **state)
{
    F;
    uint64_t first = add(f, "k", "v");
    assert_ok(remove_prefix(f, "s", "k").err);
    fixture_crash(f);
    uint64_t second = add(f, "k", "v");
    assert_true(second > first);
    fixture_restart(f);
    assert_true(add(f, "other", "v") > second);
}

static void an_entry_is_absent_from_its_expiry_on(void **state)
{
    F;
    instant end = instant_add(fixture_now(f), SECOND);
    add_until(f, "k", end);
    add(f, "stays", "v");
    fixture_pass(f, (span){999});
    assert_ok(read(f, "k").err);
    fixture_pass(f, (span){1});
    struct got seen, listed;
    send(f, read_of("k"), &seen);
    send(f, list_of("", "", 10), &listed);
    fixture_settle(f);
    assert_code(seen.err, ERR_NOT_FOUND);
    assert_string_equal(listed.text, "stays=v ");
    struct kv_change c = a_put("k", "again");
    c.when = KV_ABSENT;
    assert_ok(put(f, c).err);
    fixture_pass(f, SECOND);
    assert_list(f, "", "", 10, "k=again stays=v ");
}

static void a_new_expiry_takes_the_place_of_the_old_one(void **state)
{
    F;
    instant now = fixture_now(f), due;
    add_until(f, "later", instant_add(now, SECOND));
    add_until(f, "later", instant_add(now, (span){5000}));
    add_until(f, "never", instant_add(now, SECOND));
    add_until(f, "never", INSTANT_NONE);
    fixture_pass(f, SECOND);
    fixture_settle(f);
    assert_list(f, "", "", 10, "later=v never=v ");
    fixture_crash(f);
    assert_true(backend_next_due(f->b, &due));
    fixture_pass(f, (span){4000});
    fixture_settle(f);
    assert_list(f, "", "", 10, "never=v ");
    fixture_settle(f);
    assert_false(backend_next_due(f->b, &due));
}

static void what_has_expired_while_it_was_down_is_deleted(void **state)
{
    F;
    instant due;
    add_until(f, "k", instant_add(fixture_now(f), SECOND));
    fixture_pass(f, SECOND);
    fixture_restart(f);
    assert_code(read(f, "k").err, ERR_NOT_FOUND);
    fixture_settle(f);
    assert_false(backend_next_due(f->b, &due));
}

static void a_removal_by_prefix_goes_in_steps(void **state)
{
    F;
    struct kv_change c[KV_CHANGES_MAX];
    char keys[KV_CHANGES_MAX][16];
    for (int n = 0; n < 640; n += KV_CHANGES_MAX) {
        for (int i = 0; i < KV_CHANGES_MAX; i++) {
            snprintf(keys[i], sizeof keys[i], "p%03d", n + i);
            c[i] = a_put(keys[i], "v");
        }
        assert_ok(ask(f, put_of(c, KV_CHANGES_MAX)).err);
    }
    add(f, "q", "v");
    size_t removed = 0;
    int steps = 0;
    for (bool more = true; more; steps++) {
        struct got g = remove_prefix(f, "s", "p");
        assert_ok(g.err);
        removed += g.count;
        more = g.more;
    }
    assert_int_equal(removed, 640);
    assert_true(steps > 1);
    assert_list(f, "", "", 10, "q=v ");
    assert_int_equal(remove_prefix(f, "s", "p").count, 0);
}

static void one_is_removed_by_its_key_and_all_without_a_space(void **state)
{
    F;
    struct kv_change other = a_put("k", "v");
    other.entry.space = STR("other");
    assert_ok(put(f, other).err);
    add(f, "k", "v");
    add(f, "kk", "v");
    const struct command one = {.kind = CMD_KV_REMOVE, .kv = {.space = STR("s"), .key = STR("k")}};
    assert_int_equal(ask(f, one).count, 1);
    assert_int_equal(ask(f, one).count, 0);
    assert_list(f, "", "", 10, "kk=v ");
    assert_int_equal(remove_prefix(f, "", "").count, 2);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    F;
    static char text[KV_VALUE_MAX + 1];
    struct kv_change c[KV_CHANGES_MAX + 1];
    for (int i = 0; i <= KV_CHANGES_MAX; i++)
        c[i] = a_put("k", "v");
    assert_code(ask(f, put_of(c, 0)).err, ERR_BAD_VALUE);
    assert_code(ask(f, put_of(c, KV_CHANGES_MAX + 1)).err, ERR_BAD_VALUE);
    assert_code(ask(f, put_of(c, 2)).err, ERR_BAD_VALUE); /* the same entry twice */
    memset(text, 'x', sizeof text);
    struct kv_change long_value = c[0], long_key = c[0], long_space = c[0], blank = c[0],
                     no_key = c[0];
    long_value.entry.value = (struct str){text, KV_VALUE_MAX + 1};
    long_key.entry.key = (struct str){text, KV_KEY_MAX + 1};
    long_space.entry.space = (struct str){text, KV_SPACE_MAX + 1};
    blank.entry.space = STR("a b");
    no_key.entry.key = STR("");
    assert_code(put(f, long_value).err, ERR_TOO_LARGE);
    assert_code(put(f, long_key).err, ERR_BAD_VALUE);
    assert_code(put(f, long_space).err, ERR_BAD_VALUE);
    assert_code(put(f, blank).err, ERR_BAD_VALUE);
    assert_code(put(f, no_key).err, ERR_BAD_VALUE);
    assert_code(ask(f, list_of("", "", KV_PAGE_MAX + 1)).err, ERR_BAD_VALUE);
    assert_code(remove_prefix(f, "", "k").err, ERR_BAD_VALUE);
    assert_list(f, "", "", 10, "");
}

int contract_kv(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(what_is_put_is_read_back_after_a_crash_too),
        FIXTURE_TEST(keys_and_values_are_bytes_of_any_kind),
        FIXTURE_TEST(a_read_sees_what_was_put_before_it_in_the_same_turn),
        FIXTURE_TEST(a_list_puts_together_what_is_durable_on_its_way_and_new),
        FIXTURE_TEST(a_list_has_those_of_its_space_and_prefix_after_its_place),
        FIXTURE_TEST(a_condition_that_does_not_hold_is_a_conflict_with_the_present_entry),
        FIXTURE_TEST(changes_are_made_all_or_none),
        FIXTURE_TEST(a_version_is_never_given_twice),
        FIXTURE_TEST(an_entry_is_absent_from_its_expiry_on),
        FIXTURE_TEST(a_new_expiry_takes_the_place_of_the_old_one),
        FIXTURE_TEST(what_has_expired_while_it_was_down_is_deleted),
        FIXTURE_TEST(a_removal_by_prefix_goes_in_steps),
        FIXTURE_TEST(one_is_removed_by_its_key_and_all_without_a_space),
        FIXTURE_TEST(what_is_out_of_bounds_is_refused),
    };
    return cmocka_run_group_tests_name("entries of front ends", tests, NULL, NULL);
}
