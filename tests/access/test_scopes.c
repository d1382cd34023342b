/* SPDX-License-Identifier: Apache-2.0 */
#include "scope_sets.h"

#include <stdio.h>

#include "base/rng.h"

static bool satisfies(const char *have, const char *want)
{
    return scope_satisfies(str_from(have), str_from(want));
}

static void a_star_at_the_end_stands_for_anything(void **state)
{
    (void)state;
    assert_true(satisfies("queue:get:x", "queue:get:x"));
    assert_true(satisfies("queue:*", "queue:get:x"));
    assert_true(satisfies("queue:*", "queue:"));
    assert_true(satisfies("queue:*", "queue:*"));
    assert_true(satisfies("queue:*", "queue:get*"));
    assert_true(satisfies("*", ""));
    assert_true(satisfies("*", "*"));
    assert_false(satisfies("queue:*", "queue"));
    assert_false(satisfies("queue:get:x", "queue:*"));
    assert_false(satisfies("queue:get*", "queue:*"));
    assert_false(satisfies("que*:get", "queue:get"));
    assert_false(satisfies("", "a"));
}

static void a_scope_is_printable_and_ends_in_one_star_at_most(void **state)
{
    (void)state;
    assert_int_equal(scope_check(STR("")).code, ERR_OK);
    assert_int_equal(scope_check(STR("*")).code, ERR_OK);
    assert_int_equal(scope_check(STR("a ~*")).code, ERR_OK);
    assert_int_equal(scope_check(STR("a**b")).code, ERR_OK);
    struct err err = scope_check(STR("a**"));
    assert_int_equal(err.code, ERR_BAD_VALUE);
    assert_int_equal(err.offset, 1);
    err = scope_check(STR("ab\n"));
    assert_int_equal(err.code, ERR_BAD_VALUE);
    assert_int_equal(err.offset, 2);
    assert_int_equal(scope_check(STR("\xc3\xa4")).code, ERR_BAD_VALUE);
    assert_int_equal(scope_check(STR("\x7f")).code, ERR_BAD_VALUE);
}

static void length_and_number_have_limits(void **state)
{
    (void)state;
    char *text = arena_get(&arena, SCOPE_LENGTH_MAX + 1);
    memset(text, 'a', SCOPE_LENGTH_MAX + 1);
    assert_int_equal(scope_check((struct str){text, SCOPE_LENGTH_MAX}).code, ERR_OK);
    assert_int_equal(scope_check((struct str){text, SCOPE_LENGTH_MAX + 1}).code, ERR_BAD_VALUE);

    struct str *list = arena_zero(&arena, (SCOPES_MAX + 1) * sizeof *list);
    struct scope_set s;
    assert_int_equal(scope_set_make(list, SCOPES_MAX, &arena, &s, NULL).code, ERR_OK);
    assert_int_equal(s.count, 1);
    assert_int_equal(scope_set_make(list, SCOPES_MAX + 1, &arena, &s, NULL).code, ERR_TOO_MANY);
    list[5] = STR("**");
    size_t bad;
    assert_int_equal(scope_set_make(list, 10, &arena, &s, &bad).code, ERR_BAD_VALUE);
    assert_int_equal(bad, 5);
}

static void a_set_keeps_what_nothing_else_satisfies(void **state)
{
    (void)state;
    struct scope_set s = SET("b", "ab", "a*", "a", "b", "a(x", "c*", "cd*", "");
    assert_int_equal(s.count, 4);
    assert_true(str_eq(s.at[0], STR("")));
    assert_true(str_eq(s.at[1], STR("a*")));
    assert_true(str_eq(s.at[2], STR("b")));
    assert_true(str_eq(s.at[3], STR("c*")));
    s = SET("x", "*", "y*");
    assert_int_equal(s.count, 1);
    assert_true(scope_set_satisfies(&s, STR("anything")));
    s = (struct scope_set){0};
    assert_false(scope_set_satisfies(&s, STR("")));
}

static void a_scope_that_ends_in_a_star_may_be_demanded(void **state)
{
    (void)state;
    struct scope_set s = SET("foo:", "foo:!", "goo:*");
    assert_false(scope_set_satisfies(&s, STR("foo:*")));
    assert_true(scope_set_satisfies(&s, STR("goo:*")));
    assert_true(scope_set_satisfies(&s, STR("goo:**")));
}

static void a_set_covers_another(void **state)
{
    (void)state;
    struct scope_set have = SET("a:*", "b"), less = SET("a:b:*", "a:c"), more = SET("a:b", "c");
    struct scope_set none = {0};
    assert_true(scope_set_covers(&have, &less));
    assert_false(scope_set_covers(&have, &more));
    assert_false(scope_set_covers(&less, &have));
    assert_true(scope_set_covers(&none, &none));
    struct scope_set copy = scope_set_copy(&have, &arena);
    assert_true(scope_set_covers(&copy, &have) && scope_set_covers(&have, &copy));
    assert_ptr_not_equal(copy.at[0].at, have.at[0].at);
}

/* --- properties, with few letters, so that many texts coincide --- */

static struct str any_scope(struct rng *rng)
{
    static const char letters[] = "a!*b";
    size_t len = rng_below(rng, 5);
    char *text = arena_get(&arena, len + 1);
    for (size_t i = 0; i < len; i++)
        text[i] = letters[rng_below(rng, 4)];
    while (len >= 2 && text[len - 1] == '*' && text[len - 2] == '*')
        len--;
    return (struct str){text, len};
}

static void satisfaction_is_reflexive_and_transitive(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(1);
    unsigned chains = 0;
    for (int i = 0; i < 200000; i++) {
        struct str a = any_scope(&rng), b = any_scope(&rng), c = any_scope(&rng);
        assert_true(scope_satisfies(a, a));
        if (scope_satisfies(a, b) && scope_satisfies(b, c)) {
            chains++;
            assert_true(scope_satisfies(a, c));
        }
        if (i % 1000 == 0)
            arena_reset(&arena);
    }
    assert_true(chains > 1000);
}

static void a_set_satisfies_what_one_of_its_scopes_does(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(2);
    unsigned yes = 0;
    for (int i = 0; i < 20000; i++) {
        struct str list[8];
        size_t n = rng_below(&rng, 8);
        for (size_t j = 0; j < n; j++)
            list[j] = any_scope(&rng);
        struct scope_set s;
        struct err err = scope_set_make(list, n, &arena, &s, NULL);
        assert_int_equal(err.code, ERR_OK);
        for (size_t j = 0; j < s.count; j++)
            for (size_t k = 0; k < s.count; k++)
                assert_true(j == k || !scope_satisfies(s.at[j], s.at[k]));
        for (int k = 0; k < 20; k++) {
            struct str want = any_scope(&rng);
            bool expected = false;
            for (size_t j = 0; j < n; j++)
                expected = expected || scope_satisfies(list[j], want);
            assert_int_equal(scope_set_satisfies(&s, want), expected);
            yes += expected;
        }
        arena_reset(&arena);
    }
    assert_true(yes > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_at_the_end_stands_for_anything),
        cmocka_unit_test(a_scope_is_printable_and_ends_in_one_star_at_most),
        cmocka_unit_test(length_and_number_have_limits),
        cmocka_unit_test(a_set_keeps_what_nothing_else_satisfies),
        cmocka_unit_test(a_scope_that_ends_in_a_star_may_be_demanded),
        cmocka_unit_test(a_set_covers_another),
        cmocka_unit_test(satisfaction_is_reflexive_and_transitive),
        cmocka_unit_test(a_set_satisfies_what_one_of_its_scopes_does),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
