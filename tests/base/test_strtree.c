/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/rng.h"
#include "base/strtree.h"

#define NAMES 1000

struct item {
    struct strtree_node node;
    char name[16];
    bool in;
};

static struct item items[NAMES];

/* In the order of their names: those that were added and no others. */
static void check(const struct strtree *t)
{
    const struct strtree_node *n = strtree_first(t);
    for (size_t i = 0; i < NAMES; i++) {
        if (!items[i].in)
            continue;
        assert_ptr_equal(n, &items[i].node);
        n = strtree_after(t, n->key);
    }
    assert_null(n);
}

static void put(struct strtree *t, size_t i)
{
    snprintf(items[i].name, sizeof items[i].name, "q%06zu", i);
    strtree_put(t, &items[i].node, str_from(items[i].name));
    items[i].in = true;
}

static void take_out(struct strtree *t, size_t i)
{
    strtree_remove(t, &items[i].node);
    items[i].in = false;
}

static void an_empty_set_has_no_first(void **state)
{
    (void)state;
    struct strtree t = {0};
    assert_null(strtree_first(&t));
    assert_null(strtree_after(&t, STR("a")));
}

static void names_come_in_order_whatever_comes_and_goes(void **state)
{
    (void)state;
    struct strtree t = {.seed = 7};
    struct rng rng = rng_from_seed(1);
    for (unsigned step = 0; step < 20000; step++) {
        size_t i = rng_below(&rng, NAMES);
        if (items[i].in)
            take_out(&t, i);
        else
            put(&t, i);
        if (step % 500 == 0)
            check(&t);
    }
    for (size_t i = 0; i < NAMES; i++)
        if (items[i].in)
            take_out(&t, i);
    assert_null(t.root);
}

static unsigned depth_of(const struct strtree_node *root, struct str key)
{
    unsigned depth = 0;
    for (const struct strtree_node *n = root; str_cmp(n->key, key) != 0; depth++)
        n = str_cmp(key, n->key) < 0 ? n->left : n->right;
    return depth;
}

static void names_in_order_do_not_make_it_deep(void **state)
{
    (void)state;
    struct strtree t = {.seed = 7};
    for (size_t i = 0; i < NAMES; i++)
        put(&t, i);
    check(&t);
    for (size_t i = 0; i < NAMES; i++)
        assert_in_range(depth_of(t.root, items[i].node.key), 0, 40);
}

static void a_name_that_is_not_there_has_a_place(void **state)
{
    (void)state;
    struct strtree t = {0};
    struct strtree_node a, b;
    strtree_put(&t, &b, STR("b"));
    strtree_put(&t, &a, STR("a"));
    assert_ptr_equal(strtree_after(&t, STR("")), &a);
    assert_ptr_equal(strtree_after(&t, STR("aa")), &b);
    assert_null(strtree_after(&t, STR("b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_set_has_no_first),
        cmocka_unit_test(names_come_in_order_whatever_comes_and_goes),
        cmocka_unit_test(names_in_order_do_not_make_it_deep),
        cmocka_unit_test(a_name_that_is_not_there_has_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
