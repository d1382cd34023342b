/* SPDX-License-Identifier: Apache-2.0 */

/* Lists that are read element by element. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "wire/field_list.h"

struct sum {
    int64_t total;
    int count;
};

static struct err read_number(void *ctx, struct json_cursor *c)
{
    struct sum *sum = ctx;
    int64_t n;
    if (sum->count++ == 3)
        return err_make(ERR_TOO_MANY, "at most 3 digits");
    TRY(json_read_int(c, 0, 9, &n));
    sum->total += n;
    return err_none();
}

static struct err read_list(const char *text, struct sum *sum, size_t *count)
{
    struct json_cursor c = json_open(str_from(text));
    return field_list(&c, read_number, sum, count);
}

static void as_many_as_may_be_are_read(void **state)
{
    struct sum sum = {0};
    size_t count;
    (void)state;
    assert_int_equal(read_list("[1, 2, 3]", &sum, &count).code, ERR_OK);
    assert_int_equal(sum.total, 6);
    assert_int_equal(count, 3);
    assert_int_equal(read_list("[]", &sum, &count).code, ERR_OK);
    assert_int_equal(count, 0);
}

static void one_more_is_too_many(void **state)
{
    struct sum sum = {0};
    size_t count;
    (void)state;
    struct err err = read_list("[1, 2, 3, 4]", &sum, &count);
    assert_int_equal(err.code, ERR_TOO_MANY);
    assert_string_equal(err.msg, "at most 3 digits");
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    struct sum sum = {0}, none = {0};
    size_t count;
    (void)state;
    struct err err = read_list("[1, 2, 10]", &sum, &count);
    assert_int_equal(err.code, ERR_BAD_VALUE);
    assert_non_null(strstr(err.msg, "[2]: "));
    assert_int_not_equal(read_list("{}", &none, &count).code, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_may_be_are_read),
        cmocka_unit_test(one_more_is_too_many),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
