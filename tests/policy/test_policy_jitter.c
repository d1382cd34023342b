/* SPDX-License-Identifier: Apache-2.0 */

/* What a backoff says of its jitter, and what it means if it says nothing. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/policy_document.h"

/* The backoff of a policy of that apiVersion that says so much of its jitter. */
static struct curve backoff_of(const char *version, const char *jitter, bool stored)
{
    char text[320];
    struct document_fault fault;
    struct policy_document d;
    snprintf(
        text, sizeof text,
        "{\"apiVersion\": \"%s\", \"kind\": \"RetryPolicy\", \"metadata\": {\"name\": \"p\"}, "
        "\"spec\": {\"defaultAction\": \"Retry\", \"backoff\": {\"initialDelay\": \"30s\"%s}}}",
        version, jitter);
    bool good = stored ? policy_document_parse_stored(str_from(text), &d, &fault)
                       : policy_document_parse(str_from(text), DOCUMENT_JSON, &d, &fault);
    assert_true(good);
    struct curve c = d.policy.backoff;
    policy_document_free(&d);
    return c;
}

static void a_backoff_that_says_nothing_of_jitter_has_full_jitter(void **state)
{
    (void)state;
    const char *const tenax = "tenax.dev/v1";
    assert_int_equal(backoff_of(tenax, "", false).shape, CURVE_FULL_JITTER);
    assert_int_equal(backoff_of(tenax, ", \"jitter\": \"full\"", false).shape, CURVE_FULL_JITTER);
    assert_int_equal(backoff_of(tenax, ", \"jitter\": \"none\"", false).shape, CURVE_EXPONENTIAL);
    assert_int_equal(backoff_of(tenax, ", \"jitter\": 0", false).shape, CURVE_EXPONENTIAL);
    const struct curve added = backoff_of(tenax, ", \"jitter\": \"2s\"", false);
    assert_int_equal(added.shape, CURVE_EXPONENTIAL);
    assert_int_equal(added.jitter.ms, 2000);
}

static void delays_of_armada_s_documents_and_of_older_ones_are_exact(void **state)
{
    (void)state;
    assert_int_equal(backoff_of("armadaproject.io/v1", "", false).shape, CURVE_EXPONENTIAL);
    assert_int_equal(backoff_of("tenax.dev/v1", "", true).shape, CURVE_EXPONENTIAL);
    assert_int_equal(backoff_of("tenax.dev/v1", ", \"jitter\": \"full\"", true).shape,
                     CURVE_FULL_JITTER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backoff_that_says_nothing_of_jitter_has_full_jitter),
        cmocka_unit_test(delays_of_armada_s_documents_and_of_older_ones_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
