/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "hist.h"

static struct hist *fresh(void)
{
    struct hist *h = calloc(1, sizeof *h);
    assert_non_null(h);
    return h;
}

static void an_empty_histogram_reads_zero(void **state)
{
    (void)state;
    struct hist *h = fresh();
    assert_int_equal(hist_at(h, 0.5), 0);
    assert_int_equal(hist_at(h, 1), 0);
    free(h);
}

/* Around every power of two, and at both ends of the range, where the width of the buckets
 * changes. */
static void a_value_reads_back_at_most_one_percent_above(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++)
        for (int64_t off = -3; off <= 3; off++) {
            uint64_t v = ((uint64_t)1 << bit) + (uint64_t)off;
            struct hist *h = fresh();
            hist_add(h, v);
            hist_add(h, UINT64_MAX); /* otherwise the maximum would hide the edge */
            uint64_t edge = hist_at(h, 0.5);
            assert_true(edge >= v);
            assert_true(edge - v <= v / 100);
            free(h);
        }
}

static void percentiles_of_an_even_spread_are_its_shares(void **state)
{
    (void)state;
    struct hist *h = fresh();
    for (uint64_t v = 1; v <= 100000; v++)
        hist_add(h, v);
    const double shares[] = {0.001, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < COUNT(shares); i++) {
        double exact = shares[i] * 100000, got = (double)hist_at(h, shares[i]);
        assert_true(got >= exact && got <= exact * 1.01);
    }
    free(h);
}

static void the_maximum_is_exact(void **state)
{
    (void)state;
    struct hist *h = fresh();
    hist_add(h, 5);
    hist_add(h, 1234567891);
    assert_int_equal(hist_at(h, 1), 1234567891);
    assert_int_equal(hist_at(h, 0.5), 5);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_histogram_reads_zero),
        cmocka_unit_test(a_value_reads_back_at_most_one_percent_above),
        cmocka_unit_test(percentiles_of_an_even_spread_are_its_shares),
        cmocka_unit_test(the_maximum_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
