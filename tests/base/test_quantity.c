/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"

static void amounts_are_read_as_kubernetes_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"1", 1},
        {"128974848", 128974848},
        {"129M", 129000000},
        {"123Mi", 128974848},
        {"1.5Gi", 1610612736},
        {"0.1k", 100},
        {"0.5", 1},
        {"1.0001Ki", 1025},
        {"1e", 0},
        {"1Ei", QUANTITY_MAX},
        {"1152921504606846976", QUANTITY_MAX},
        {"1152921504606846975", QUANTITY_MAX - 1},
        {"4Ti", (uint64_t)4 << 40},
        {"0001k", 1000},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t bytes = 0;
        assert_int_equal(quantity_parse(str_from(rows[i].text), &bytes), rows[i].bytes > 0);
        assert_int_equal(bytes, rows[i].bytes);
    }
}

static void what_is_no_amount_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"",
                                       "0",
                                       "0Gi",
                                       "-1",
                                       "+1",
                                       "Gi",
                                       "1 Gi",
                                       " 1",
                                       "1gi",
                                       "1GI",
                                       "1GB",
                                       "1m",
                                       "1.",
                                       ".5Gi",
                                       "1..5",
                                       "1.5.5",
                                       "2Ei",
                                       "1e3",
                                       "0x10",
                                       "1Gi ",
                                       "1152921504606846977",
                                       "1K",
                                       "NaN",
                                       "inf",
                                       "1000000000000000000000000000000000000",
                                       "1,5Gi"};
    uint64_t bytes;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_false(quantity_parse(str_from(rows[i]), &bytes));
}

static void an_amount_is_written_as_shortly_as_it_reads_back(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {1, "1"},
        {1024, "1Ki"},
        {1000, "1k"},
        {1536, "1536"},
        {1610612736, "1536Mi"},
        {(uint64_t)6 << 30, "6Gi"},
        {129000000, "129M"},
        {QUANTITY_MAX, "1Ei"},
        {1024000, "1000Ki"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf b = {0};
        uint64_t back;
        quantity_write(&b, rows[i].bytes);
        assert_true(str_eq(buf_view(&b), str_from(rows[i].text)));
        assert_true(quantity_parse(buf_view(&b), &back));
        assert_int_equal(back, rows[i].bytes);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read_as_kubernetes_writes_them),
        cmocka_unit_test(what_is_no_amount_is_refused),
        cmocka_unit_test(an_amount_is_written_as_shortly_as_it_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
