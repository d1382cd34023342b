/* SPDX-License-Identifier: Apache-2.0 */

/* The table of rights has every method of both services, and nothing else. */

#include "access/rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "taskcluster/tc_internal.h"

static size_t rows_of(enum rights_front front)
{
    size_t rows = 0;
    for (size_t i = 0; i < rights_operation_count; i++)
        rows += rights_operations[i].front == front;
    return rows;
}

/* What demands no scopes is for everybody; what demands some is not. */
static void check(enum rights_front front, const struct tc_method *methods, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct operation *op = rights_find(front, methods[i].name);
        if (!op)
            fail_msg("%s is not in access/rights.def", methods[i].name);
        assert_int_equal(op->right == RIGHT_NONE, methods[i].scopes == NULL);
    }
    assert_int_equal(rows_of(front), count);
}

static void every_method_has_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < TC_APIS; i++)
        check(tc_services[i].front, tc_services[i].methods, *tc_services[i].count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_has_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
