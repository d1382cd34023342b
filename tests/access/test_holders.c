/* SPDX-License-Identifier: Apache-2.0 */
#include "access/holders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct id job(uint64_t n)
{
    return (struct id){.hi = n, .lo = n};
}

static struct token *subject(const char *name)
{
    const struct token_spec spec = {
        .roles = 1u << ROLE_WORKER, .created = {0}, .expires = INSTANT_NONE};
    return token_stand_in(&spec, ACTOR_JWT, STR("https://i"), str_from(name));
}

static void the_newest_hand_out_counts(void **state)
{
    (void)state;
    struct holders *h = holders_new();
    struct token *a = subject("a"), *b = subject("b");
    assert_null(holders_find(h, job(1)));
    holders_note(h, job(1), a, 0, 7);
    assert_true(holding_is_of(holders_find(h, job(1)), a));
    holders_note(h, job(1), b, 1, 8);
    const struct holding *one = holders_find(h, job(1));
    assert_true(holding_is_of(one, b) && !holding_is_of(one, a));
    assert_int_equal(one->run, 1);
    assert_int_equal(one->run_token, 8);
    holders_note(h, job(1), NULL, 2, 9);
    assert_null(holders_find(h, job(1)));
    token_free(a);
    token_free(b);
    holders_free(h);
}

static void the_same_subject_is_the_same_after_a_reload(void **state)
{
    (void)state;
    struct holders *h = holders_new();
    struct token *before = subject("a");
    holders_note(h, job(1), before, 0, 7);
    token_free(before);
    struct token *after = subject("a");
    assert_true(holding_is_of(holders_find(h, job(1)), after));
    token_free(after);
    holders_free(h);
}

static void the_oldest_are_forgotten_and_no_newer_ones(void **state)
{
    (void)state;
    struct holders *h = holders_new();
    struct token *a = subject("a");
    for (uint64_t n = 0; n <= 2 * HOLDERS_GENERATION; n++)
        holders_note(h, job(n), a, 0, n + 1);
    assert_null(holders_find(h, job(0)));
    for (uint64_t n = HOLDERS_GENERATION; n <= 2 * HOLDERS_GENERATION; n++)
        assert_int_equal(holders_find(h, job(n))->run_token, n + 1);
    token_free(a);
    holders_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_hand_out_counts),
        cmocka_unit_test(the_same_subject_is_the_same_after_a_reload),
        cmocka_unit_test(the_oldest_are_forgotten_and_no_newer_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
