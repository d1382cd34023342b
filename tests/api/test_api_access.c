/* SPDX-License-Identifier: Apache-2.0 */

/* The table of rights has every endpoint, and nothing else. */

#include "access/rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "api/api_routes.h"

static void every_endpoint_has_a_row(void **state)
{
    (void)state;
    size_t rows = 0;
    for (size_t i = 0; i < rights_operation_count; i++)
        rows += rights_operations[i].front == RIGHTS_JOBS;
    for (size_t i = 0; i < api_endpoint_count; i++)
        if (!rights_find(RIGHTS_JOBS, api_endpoints[i].id))
            fail_msg("%s is not in access/rights.def", api_endpoints[i].id);
    assert_int_equal(rows, api_endpoint_count);
}

/* Whoever looks on changes nothing. */
static void what_only_needs_seeing_is_a_get(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_endpoint_count; i++) {
        const struct operation *op = rights_find(RIGHTS_JOBS, api_endpoints[i].id);
        bool simulated = strcmp(op->name, "simulateRetryPolicies") == 0;
        if (op->right <= RIGHT_SEE && !simulated)
            assert_int_equal(api_endpoints[i].route.method, HTTP_GET);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_endpoint_has_a_row),
        cmocka_unit_test(what_only_needs_seeing_is_a_get),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
