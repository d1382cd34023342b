/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/btree.h"
#include "base/rng.h"

#define MILLION 1000000

/* The model: keys are numbered in their order, and live[n] says whether key n is in the tree, and
 * with which val. */
#define KEYS 20000

struct model {
    bool live[KEYS];
    uint64_t val[KEYS];
    size_t count;
};

/* Keys that differ in major, in hi only, or in lo only, up to the ends of 64 bits. */
static struct btree_entry entry(uint64_t n, uint64_t val)
{
    const uint64_t step = UINT64_MAX / 99;
    return (struct btree_entry){n / 1000, n / 10 % 100 * step, UINT64_MAX - 9 + n % 10, val};
}

static void assert_entry(struct btree_entry got, struct btree_entry want)
{
    assert_int_equal(got.major, want.major);
    assert_int_equal(got.hi, want.hi);
    assert_int_equal(got.lo, want.lo);
    assert_int_equal(got.val, want.val);
}

static void model_put(struct model *m, struct btree *t, uint64_t n, uint64_t val)
{
    assert_int_equal(btree_put(t, entry(n, val)), !m->live[n]);
    m->count += !m->live[n];
    m->live[n] = true;
    m->val[n] = val;
}

static void model_remove(struct model *m, struct btree *t, uint64_t n)
{
    struct btree_entry old;
    bool found = btree_remove(t, entry(n, 0), &old);
    assert_int_equal(found, m->live[n]);
    if (found)
        assert_entry(old, entry(n, m->val[n]));
    m->count -= found;
    m->live[n] = false;
}

/* The answer must be key n, or none if n is outside of the model. */
static void assert_answer(const struct model *m, bool found, struct btree_entry got, int64_t n)
{
    assert_int_equal(found, n >= 0 && n < KEYS);
    if (found)
        assert_entry(got, entry((uint64_t)n, m->val[n]));
}

static int64_t upwards(const struct model *m, int64_t n)
{
    while (n < KEYS && !m->live[n])
        n++;
    return n;
}

static int64_t downwards(const struct model *m, int64_t n)
{
    while (n >= 0 && !m->live[n])
        n--;
    return n;
}

static void assert_lookups(const struct model *m, const struct btree *t, uint64_t n)
{
    struct btree_entry got = {0};
    bool found = btree_at_least(t, entry(n, 0), &got);
    assert_answer(m, found, got, upwards(m, (int64_t)n));
    found = btree_after(t, entry(n, 0), &got);
    assert_answer(m, found, got, upwards(m, (int64_t)n + 1));
    found = btree_before(t, entry(n, 0), &got);
    assert_answer(m, found, got, downwards(m, (int64_t)n - 1));
}

static void assert_rank(const struct model *m, const struct btree *t, uint64_t n)
{
    size_t before = 0;
    for (uint64_t i = 0; i < n; i++)
        before += m->live[i];
    assert_int_equal(btree_rank(t, entry(n, 0), SIZE_MAX), before);
    assert_int_equal(btree_rank(t, entry(n, 0), before), before);
    assert_int_equal(btree_rank(t, entry(n, 0), 100), before < 100 ? before : 100);
    assert_int_equal(btree_rank(t, entry(n, 0), 0), 0);
}

/* A copy built from pages of this size has the same entries, and lies densely. */
static void assert_copy(const struct model *m, const struct btree *t, size_t page)
{
    struct btree copy = {0};
    struct btree_build build = btree_build_begin(&copy);
    struct btree_entry got[100], *after = NULL, at;
    int64_t n = -1;
    size_t count;
    while ((count = btree_page(t, after, got, page)) > 0) {
        assert_true(count == page || copy.count + count == m->count);
        for (size_t i = 0; i < count; i++) {
            n = upwards(m, n + 1);
            assert_answer(m, true, got[i], n);
            assert_true(btree_build_add(&build, &got[i]));
            assert_false(btree_build_add(&build, &got[i]));
        }
        at = got[count - 1];
        after = &at;
    }
    assert_int_equal(copy.count, m->count);
    btree_check(&copy);
    assert_true(copy.bytes <= m->count * 34 + 8192);
    /* It is a tree like any other. */
    for (uint64_t i = 0; i < KEYS; i += 7)
        assert_int_equal(btree_remove(&copy, entry(i, 0), NULL), m->live[i]);
    for (uint64_t i = 0; i < KEYS; i += 7)
        if (m->live[i])
            assert_true(btree_put(&copy, entry(i, m->val[i])));
    btree_check(&copy);
    btree_fini(&copy);
}

static void assert_same(const struct model *m, const struct btree *t)
{
    btree_check(t);
    assert_int_equal(t->count, m->count);
    struct btree_entry got = {0};
    bool found = btree_first(t, &got);
    int64_t n = upwards(m, 0);
    assert_answer(m, found, got, n);
    while (found) {
        found = btree_after(t, got, &got);
        n = upwards(m, n + 1);
        assert_answer(m, found, got, n);
    }
    assert_int_equal(n, KEYS);
}

/* Fills or clears a range of keys in order, which random single operations would hardly ever do. */
static void sweep(struct model *m, struct btree *t, struct rng *r)
{
    uint64_t from = rng_below(r, KEYS), len = 1 + rng_below(r, KEYS - from);
    uint64_t how = rng_below(r, 4);
    for (uint64_t i = 0; i < len; i++) {
        uint64_t n = how % 2 ? from + len - 1 - i : from + i;
        if (how < 2)
            model_put(m, t, n, i);
        else
            model_remove(m, t, n);
    }
}

static void run_seed(uint64_t seed)
{
    struct rng r = rng_from_seed(seed);
    struct model *m = alloc_zero(sizeof *m);
    struct btree t = {0};
    for (int phase = 0; phase < 30; phase++) {
        uint64_t puts = 1 + rng_below(&r, 9);
        for (int step = 0; step < 2000; step++) {
            uint64_t n = rng_below(&r, KEYS);
            if (rng_below(&r, 10) < puts)
                model_put(m, &t, n, rng_next(&r));
            else
                model_remove(m, &t, n);
            assert_lookups(m, &t, rng_below(&r, KEYS));
            if (step % 50 == 0)
                assert_rank(m, &t, rng_below(&r, KEYS));
        }
        assert_same(m, &t);
        sweep(m, &t, &r);
        assert_same(m, &t);
        assert_copy(m, &t, 1 + rng_below(&r, 100));
    }
    for (uint64_t n = 0; n < KEYS; n++)
        model_remove(m, &t, n);
    assert_null(t.root);
    assert_int_equal(t.bytes, 0);
    btree_check(&t);
    btree_fini(&t);
    free(m);
}

static void random_operations_agree_with_a_sorted_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        run_seed(seed);
}

static void an_empty_tree_has_no_entries(void **state)
{
    (void)state;
    struct btree t = {0};
    struct btree_entry e;
    assert_false(btree_first(&t, &e));
    assert_false(btree_at_least(&t, entry(0, 0), &e));
    assert_false(btree_after(&t, entry(0, 0), &e));
    assert_false(btree_before(&t, entry(0, 0), &e));
    assert_false(btree_remove(&t, entry(0, 0), &e));
    assert_int_equal(btree_page(&t, NULL, &e, 1), 0);
    e = entry(0, 0);
    assert_int_equal(btree_page(&t, &e, &e, 1), 0);
    btree_check(&t);
    btree_fini(&t);
}

static void putting_a_key_again_replaces_its_val(void **state)
{
    (void)state;
    struct btree t = {0};
    struct btree_entry e;
    assert_true(btree_put(&t, entry(7, 1)));
    assert_false(btree_put(&t, entry(7, 2)));
    assert_int_equal(t.count, 1);
    assert_true(btree_first(&t, &e));
    assert_int_equal(e.val, 2);
    btree_fini(&t);
}

static void a_million_ascending_entries_cost_at_most_34_bytes_each(void **state)
{
    (void)state;
    struct btree t = {0};
    for (uint64_t i = 0; i < MILLION; i++)
        assert_true(btree_put(&t, (struct btree_entry){3, i, ~i, i}));
    btree_check(&t);
    assert_in_range(t.bytes, 32 * MILLION, 34 * MILLION);
    struct btree_entry e;
    for (uint64_t i = 0; i < MILLION; i++) {
        assert_true(btree_first(&t, &e));
        assert_int_equal(e.val, i);
        assert_true(btree_remove(&t, e, NULL));
    }
    assert_null(t.root);
    assert_null(t.first_leaf);
    assert_int_equal(t.bytes, 0);
}

static void descending_entries_lie_densely_too(void **state)
{
    (void)state;
    struct btree t = {0};
    const uint64_t n = 100000;
    for (uint64_t i = n; i-- > 0;)
        assert_true(btree_put(&t, (struct btree_entry){0, 0, i, i}));
    btree_check(&t);
    assert_in_range(t.bytes, 32 * n, 34 * n);
    for (uint64_t i = n; i-- > 0;)
        assert_true(btree_remove(&t, (struct btree_entry){0, 0, i, i}, NULL));
    assert_int_equal(t.bytes, 0);
}

static void several_ascending_runs_lie_densely(void **state)
{
    (void)state;
    struct btree t = {0};
    struct rng r = rng_from_seed(4);
    const uint64_t n = 100000;
    for (uint64_t i = 0; i < n; i++)
        assert_true(btree_put(&t, (struct btree_entry){rng_below(&r, 5), i, 0, i}));
    btree_check(&t);
    assert_in_range(t.bytes, 32 * n, 35 * n);
    btree_fini(&t);
    assert_int_equal(t.bytes, 0);
}

static void a_queue_keeps_its_order_and_its_size(void **state)
{
    (void)state;
    const uint64_t depths[] = {1, 2, 20, 47, 48, 62, 63, 64, 126, 1000};
    for (size_t d = 0; d < COUNT(depths); d++) {
        struct btree t = {0};
        for (uint64_t i = 0; i < 20000; i++) {
            assert_true(btree_put(&t, (struct btree_entry){0, i, 0, i}));
            if (i < depths[d])
                continue;
            struct btree_entry e;
            assert_true(btree_first(&t, &e));
            assert_int_equal(e.val, i - depths[d]);
            assert_true(btree_remove(&t, e, NULL));
            assert_in_range(t.bytes, 1, 8192 + depths[d] * 36);
        }
        btree_check(&t);
        assert_int_equal(t.count, depths[d]);
        btree_fini(&t);
    }
}

static void a_short_queue_stays_in_its_leaf(void **state)
{
    (void)state;
    struct btree t = {0};
    for (uint64_t i = 0; i < 40; i++)
        btree_put(&t, (struct btree_entry){0, i, 0, i});
    const struct btree_node *leaf = t.root;
    for (uint64_t i = 40; i < 10000; i++) {
        assert_true(btree_remove(&t, (struct btree_entry){.hi = i - 40}, NULL));
        assert_true(btree_put(&t, (struct btree_entry){0, i, 0, i}));
        assert_ptr_equal(t.root, leaf);
    }
    btree_fini(&t);
}

static void a_queue_that_runs_backwards_stays_in_its_leaf(void **state)
{
    (void)state;
    struct btree t = {0};
    for (uint64_t i = 10000; i > 9960; i--)
        btree_put(&t, (struct btree_entry){0, i, 0, i});
    const struct btree_node *leaf = t.root;
    for (uint64_t i = 9960; i > 0; i--) {
        assert_true(btree_remove(&t, (struct btree_entry){.hi = i + 40}, NULL));
        assert_true(btree_put(&t, (struct btree_entry){0, i, 0, i}));
        assert_ptr_equal(t.root, leaf);
    }
    btree_fini(&t);
}

static void the_tree_gets_lower_as_it_empties(void **state)
{
    (void)state;
    for (uint64_t stays = 0; stays < 10000; stays += 3333) {
        struct btree t = {0};
        for (uint64_t i = 0; i < 10000; i++)
            btree_put(&t, (struct btree_entry){0, 0, i, i});
        assert_true(t.height >= 3);
        for (uint64_t i = 0; i < 10000; i++)
            if (i != stays)
                assert_true(btree_remove(&t, (struct btree_entry){.lo = i}, NULL));
        btree_check(&t);
        assert_int_equal(t.height, 1);
        struct btree_entry e;
        assert_true(btree_first(&t, &e));
        assert_int_equal(e.val, stays);
        btree_fini(&t);
    }
}

static void the_check_notices_a_wrong_count(void **state)
{
    (void)state;
    struct btree t = {0};
    btree_put(&t, entry(1, 1));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        t.count++;
        btree_check(&t);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    btree_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_has_no_entries),
        cmocka_unit_test(putting_a_key_again_replaces_its_val),
        cmocka_unit_test(random_operations_agree_with_a_sorted_array),
        cmocka_unit_test(a_million_ascending_entries_cost_at_most_34_bytes_each),
        cmocka_unit_test(descending_entries_lie_densely_too),
        cmocka_unit_test(several_ascending_runs_lie_densely),
        cmocka_unit_test(a_queue_keeps_its_order_and_its_size),
        cmocka_unit_test(a_short_queue_stays_in_its_leaf),
        cmocka_unit_test(a_queue_that_runs_backwards_stays_in_its_leaf),
        cmocka_unit_test(the_tree_gets_lower_as_it_empties),
        cmocka_unit_test(the_check_notices_a_wrong_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
