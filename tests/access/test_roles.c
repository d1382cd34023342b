/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "access/roles.h"
#include "base/array.h"
#include "base/buf.h"

static struct arena arena;

/* "a b c" */
static const struct str *split(const char *text, size_t *count)
{
    struct str *at = arena_get(&arena, (strlen(text) + 1) * sizeof *at);
    for (*count = 0; *text; ++*count) {
        size_t n = strcspn(text, " ");
        at[*count] = (struct str){text, n};
        text += n + (text[n] == ' ');
    }
    return at;
}

struct given {
    const char *id, *scopes;
};

static void expect_among(const struct given *given, size_t count, const char *scopes,
                         const char *wanted)
{
    struct roles roles = {arena_get(&arena, count * sizeof *roles.at), count};
    struct scope_set have = {0}, all;
    struct buf got = {0};
    for (size_t i = 0; i < count; i++) {
        roles.at[i] = (struct role){.id = str_from(given[i].id)};
        roles.at[i].scopes = split(given[i].scopes, &roles.at[i].count);
        assert_int_equal(role_check(&roles.at[i]).code, ERR_OK);
    }
    assert_true(roles_sort(&roles));
    have.at = split(scopes, &have.count);
    assert_int_equal(roles_expand(&roles, &have, &arena, &all).code, ERR_OK);
    for (size_t i = 0; i < all.count; i++)
        if (!str_eq(all.at[i], STR(ROLE_ANONYMOUS)))
            buf_print(&got, "%s%.*s", got.len ? " " : "", STR_ARG(all.at[i]));
    if (!str_eq(buf_view(&got), str_from(wanted)))
        fail_msg("%s: %.*s, not %s", scopes, STR_ARG(buf_view(&got)), wanted);
    buf_fini(&got);
}
#define EXPECT(scopes, wanted, ...)                                                                \
    expect_among((const struct given[]){__VA_ARGS__},                                              \
                 COUNT(((const struct given[]){__VA_ARGS__})), scopes, wanted)

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void a_role_gives_its_scopes_and_those_of_its_roles(void **state)
{
    (void)state;
    EXPECT("assume:a x", "assume:a assume:b p q x", {"a", "assume:b p"}, {"b", "q"}, {"c", "r"});
    EXPECT("assume:ab x", "assume:ab x", {"a", "p"}, {"abc", "q"});
    EXPECT("x", "x", {"a", "p"});
}

static void everybody_has_the_role_anonymous(void **state)
{
    (void)state;
    EXPECT("", "assume:b p q", {"anonymous", "p assume:b"}, {"b", "q"});
    EXPECT("x", "p x", {"anonymous", "p"});
}

static void a_star_in_a_role_is_its_parameter(void **state)
{
    (void)state;
    EXPECT("assume:repo:x/y", "assume:repo:x/y get:x/y/all", {"repo:*", "get:<..>/all"});
    EXPECT("assume:repo:", "assume:repo: get:/all", {"repo:*", "get:<..>/all"});
    EXPECT("assume:repo:x*", "assume:repo:x* get:x*", {"repo:*", "get:<..>/all"});
    EXPECT("assume:repo*", "assume:repo* get:* got:y", {"repo:*", "get:<..>/all"},
           {"repo:y", "got:y"});
    EXPECT("assume:xyz", "assume:xyz x:yz xy:z xyz:,", {"x*", "x:<..>"}, {"xy*", "xy:<..>"},
           {"xyz*", "xyz:<..>,"}, {"xyd*", "no"}, {"xyb", "no"}, {"xyzd*", "no"});
}

static void a_scope_that_means_all_roles_gives_all(void **state)
{
    (void)state;
    EXPECT("assume:*", "assume:* p q:*", {"a", "p"}, {"b*", "q:<..>:r"});
    EXPECT("as*", "as* p q:*", {"a", "p"}, {"b*", "q:<..>:r"});
    EXPECT("*", "*", {"a", "p"});
    EXPECT("b*", "b*", {"a", "p"});
}

static void loops_end(void **state)
{
    (void)state;
    EXPECT("assume:a", "assume:a assume:b p", {"a", "assume:b p"}, {"b", "assume:a"});
    struct role grows = {.id = STR("x*")};
    struct roles roles = {&grows, 1};
    struct scope_set all, have = {split("assume:x", &have.count), 1};
    grows.scopes = split("assume:x<..>b", &grows.count);
    assert_true(roles_sort(&roles));
    assert_int_equal(roles_expand(&roles, &have, &arena, &all).code, ERR_OK);
    assert_true(all.count > 3 && all.count <= ROLES_DEPTH + 2);
}

static void too_many_scopes_are_an_error(void **state)
{
    (void)state;
    struct str *many = arena_get(&arena, SCOPES_MAX * sizeof *many);
    for (size_t i = 0; i < SCOPES_MAX; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "s%zu", i);
        many[i] = arena_copy(&arena, (struct str){text, (size_t)n});
    }
    struct role role = {STR("a"), many, SCOPES_MAX, NULL};
    const struct roles roles = {&role, 1};
    struct scope_set all, have = {split("assume:a", &have.count), 1};
    assert_int_equal(roles_expand(&roles, &have, &arena, &all).code, ERR_TOO_MANY);
}

static void what_no_scope_can_mean_is_no_role(void **state)
{
    (void)state;
    struct role r = {.id = STR("")};
    assert_int_equal(role_check(&r).code, ERR_BAD_NAME);
    r.id = STR("a**");
    assert_int_equal(role_check(&r).code, ERR_BAD_NAME);
    r.id = STR("a");
    r.scopes = split("x:<..>", &r.count);
    assert_int_equal(role_check(&r).code, ERR_BAD_VALUE);
    struct role twice[] = {{.id = STR("a")}, {.id = STR("b")}, {.id = STR("a")}};
    struct roles roles = {twice, COUNT(twice)};
    assert_false(roles_sort(&roles));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_role_gives_its_scopes_and_those_of_its_roles, tear_down),
        cmocka_unit_test_teardown(everybody_has_the_role_anonymous, tear_down),
        cmocka_unit_test_teardown(a_star_in_a_role_is_its_parameter, tear_down),
        cmocka_unit_test_teardown(a_scope_that_means_all_roles_gives_all, tear_down),
        cmocka_unit_test_teardown(loops_end, tear_down),
        cmocka_unit_test_teardown(too_many_scopes_are_an_error, tear_down),
        cmocka_unit_test_teardown(what_no_scope_can_mean_is_no_role, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
