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

static void processors_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t thousandths;
        const char *written;
    } rows[] = {
        {"1", 1000, "1"},      {"500m", 500, "500m"},
        {"0.5", 500, "500m"},  {"1.5", 1500, "1500m"},
        {"2000m", 2000, "2"},  {"0.1m", 1, "1m"},
        {"0.0001", 1, "1m"},   {"1000000", QUANTITY_CPU_MAX, "1000000"},
        {"0.25", 250, "250m"},
    };
    static const char *const bad[] = {"",   "0",       "0m", "-1", "1k",  "1 ",   "m",   "1mm",
                                      "1M", "1000001", "1.", ".5", "1e3", "500u", "0.0", "nan"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t v = 0;
        struct buf b = {0};
        assert_true(quantity_parse_cpu(str_from(rows[i].text), &v));
        assert_int_equal(v, rows[i].thousandths);
        quantity_write_cpu(&b, v);
        assert_true(str_eq(buf_view(&b), str_from(rows[i].written)));
        buf_fini(&b);
    }
    uint64_t v;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(quantity_parse_cpu(str_from(bad[i]), &v));
}

static void all_that_kubernetes_accepts_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t scale, value;
    } rows[] = {
        {"128974848", 1, 128974848},
        {"129e6", 1, 129000000},
        {"129M", 1, 129000000},
        {"128974848000m", 1, 128974848},
        {"123Mi", 1, 128974848},
        {"+1", 1, 1},
        {".5", 1000, 500},
        {"5.", 1000, 5000},
        {"0", 1, 0},
        {"100u", 1000, 1},
        {"1n", 1, 1},
        {"2E3", 1, 2000},
        {"1500e-3", 1000, 1500},
        {"1E", 1, 1000000000000000000},
        {"0.1", 1000, 100},
    };
    static const char *const bad[] = {"",       "-1",  "x", "1x",   "1e",   "e3",
                                      "1e1000", "1e+", ".", "1 Mi", "1e30", "1Mib"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t v = 0;
        if (!quantity_read(str_from(rows[i].text), rows[i].scale, UINT64_MAX / 2, &v))
            fail_msg("%s", rows[i].text);
        assert_int_equal(v, rows[i].value);
    }
    uint64_t v;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (quantity_read(str_from(bad[i]), 1, UINT64_MAX / 2, &v))
            fail_msg("%s", bad[i]);
}

static void options_take_sizes_as_settings_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } rows[] = {{"1.5GiB", 1610612736},
                {"1.5Gi", 1610612736},
                {"10 MB", 10000000},
                {"64kib", 65536},
                {"512M", 512000000},
                {"1048576", 1048576},
                {"0", 0},
                {"0 MB", 0},
                {"2EiB", 0},
                {"GiB", 0},
                {"1GiBs", 0},
                {"", 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t bytes = 0;
        assert_int_equal(quantity_parse_option(str_from(rows[i].text), &bytes), rows[i].bytes > 0);
        if (rows[i].bytes)
            assert_int_equal(bytes, rows[i].bytes);
    }
    uint64_t bytes;
    assert_false(quantity_parse(STR("1.5GiB"), &bytes)); /* documents are Kubernetes' */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read_as_kubernetes_writes_them),
        cmocka_unit_test(what_is_no_amount_is_refused),
        cmocka_unit_test(an_amount_is_written_as_shortly_as_it_reads_back),
        cmocka_unit_test(processors_are_read_and_written),
        cmocka_unit_test(all_that_kubernetes_accepts_is_read),
        cmocka_unit_test(options_take_sizes_as_settings_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
