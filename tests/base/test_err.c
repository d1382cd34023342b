/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/array.h"
#include "base/err.h"

static void success_has_code_ok(void **state)
{
    (void)state;
    assert_int_equal(err_none().code, ERR_OK);
    assert_string_equal(err_wire(ERR_OK), "ok");
}

static void an_error_has_no_offset_unless_it_is_given_one(void **state)
{
    (void)state;
    struct err e = err_make(ERR_BAD_NAME, "%s has %d", "it", 3);
    assert_int_equal(e.code, ERR_BAD_NAME);
    assert_int_equal(e.offset, -1);
    assert_string_equal(e.msg, "it has 3");
    e = err_at(ERR_BAD_JSON, 12, "expected %c", ',');
    assert_int_equal(e.code, ERR_BAD_JSON);
    assert_int_equal(e.offset, 12);
    assert_string_equal(e.msg, "expected ,");
}

static void a_long_message_is_cut_off(void **state)
{
    (void)state;
    struct err e = err_make(ERR_INTERNAL, "%0*d", 1000, 0);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static struct err check_positive(int v)
{
    return v > 0 ? err_none() : err_make(ERR_BAD_VALUE, "%d is not positive", v);
}

static struct err check_both(int a, int b, int *reached)
{
    TRY(check_positive(a));
    *reached = 1;
    TRY(check_positive(b));
    *reached = 2;
    return err_none();
}

static void try_returns_the_first_error(void **state)
{
    (void)state;
    int reached = 0;
    struct err e = check_both(-1, -2, &reached);
    assert_int_equal(reached, 0);
    assert_string_equal(e.msg, "-1 is not positive");
    e = check_both(1, -2, &reached);
    assert_int_equal(reached, 1);
    assert_string_equal(e.msg, "-2 is not positive");
    assert_int_equal(check_both(1, 2, &reached).code, ERR_OK);
    assert_int_equal(reached, 2);
}

static void every_code_has_its_facts(void **state)
{
    (void)state;
    for (int c = 1; c < ERR_COUNT; c++) {
        enum err_code code = (enum err_code)c;
        assert_in_range(err_status(code), 400, 599);
        assert_in_range(strlen(err_meaning(code)), 8, 120);
        const char *wire = err_wire(code);
        assert_int_equal(strspn(wire, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(wire));
        for (int other = 0; other < c; other++)
            assert_string_not_equal(wire, err_wire((enum err_code)other));
    }
}

/* A client that relies on the flag must neither repeat what will be refused again nor give up what
 * would have succeeded. */
static void known_codes_have_their_status_and_advice(void **state)
{
    (void)state;
    const struct {
        enum err_code code;
        const char *wire;
        int status;
        bool retryable;
    } cases[] = {
        {ERR_BAD_JSON, "bad_json", 400, false},
        {ERR_BAD_ID, "bad_id", 400, false},
        {ERR_NOT_FOUND, "not_found", 404, false},
        {ERR_STALE, "stale_token", 409, false},
        {ERR_LENGTH, "body_too_large", 413, false},
        {ERR_HEADERS, "headers_too_large", 431, false},
        {ERR_BUSY, "busy", 503, true},
        {ERR_DISK_FULL, "disk_full", 507, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(err_wire(cases[i].code), cases[i].wire);
        assert_int_equal(err_status(cases[i].code), cases[i].status);
        assert_int_equal(err_retryable(cases[i].code), cases[i].retryable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_has_code_ok),
        cmocka_unit_test(an_error_has_no_offset_unless_it_is_given_one),
        cmocka_unit_test(a_long_message_is_cut_off),
        cmocka_unit_test(try_returns_the_first_error),
        cmocka_unit_test(every_code_has_its_facts),
        cmocka_unit_test(known_codes_have_their_status_and_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
