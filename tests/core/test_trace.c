/* SPDX-License-Identifier: Apache-2.0 */

/* What is a traceparent, by the examples of W3C Trace Context. */

#include "core/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_traceparent_is_recognised(void **state)
{
    (void)state;
    assert_true(trace_is_parent(STR(GOOD)));
    assert_true(trace_is_parent(STR("00-00000000000000000000000000000001-0000000000000001-00")));
}

static void anything_else_is_not_one(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        GOOD "0",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(trace_is_parent(str_from(bad[i])));
    char text[] = GOOD;
    for (size_t i = 0; i < TRACE_PARENT_LEN; i++) {
        char was = text[i];
        text[i] = 'g';
        assert_false(trace_is_parent((struct str){text, TRACE_PARENT_LEN}));
        text[i] = was;
        assert_false(trace_is_parent((struct str){text, i}));
    }
}

static void a_tracestate_is_short_and_printable(void **state)
{
    (void)state;
    char text[TRACE_STATE_MAX + 1];
    memset(text, 'a', sizeof text);
    assert_true(trace_is_state(STR("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")));
    assert_true(trace_is_state((struct str){text, TRACE_STATE_MAX}));
    assert_false(trace_is_state((struct str){text, TRACE_STATE_MAX + 1}));
    assert_false(trace_is_state(STR("")));
    assert_false(trace_is_state(STR("a=\n")));
    assert_false(trace_is_state(STR("a=\xc3\xa4")));
}

static void a_trace_is_sampled_if_its_flag_says_so(void **state)
{
    (void)state;
    assert_true(trace_is_sampled(STR(GOOD)));
    assert_true(trace_is_sampled(STR("00-00000000000000000000000000000001-0000000000000001-ff")));
    assert_false(trace_is_sampled(STR("00-00000000000000000000000000000001-0000000000000001-00")));
    assert_false(trace_is_sampled(STR("00-00000000000000000000000000000001-0000000000000001-fe")));
    assert_false(trace_is_sampled(STR("")));
}

static void assert_span(struct id job, enum trace_part part, uint32_t run, const char *want)
{
    char got[TRACE_SPAN_LEN];
    trace_span_id(job, part, run, got);
    assert_memory_equal(got, want, TRACE_SPAN_LEN);
}

/* A run may be handed out by one version, and told of by the next. */
static void the_ids_of_spans_stay(void **state)
{
    (void)state;
    const struct id job = {0x0123456789abcdefu, 0xfedcba9876543210u};
    assert_span(job, TRACE_ENQUEUE, 0, "dcbb1b8c366b7d20");
    assert_span(job, TRACE_WAIT, 0, "cd1a5784fb123a7d");
    assert_span(job, TRACE_RUN, 0, "dd6e74ce94539c37");
    assert_span(job, TRACE_RUN, 1, "b8e58efbe3623c6e");
    struct arena a = {0};
    struct str handed = trace_of_run(&a, STR(GOOD), job, 1);
    assert_true(trace_is_parent(handed));
    assert_int_equal(handed.len, TRACE_PARENT_LEN);
    assert_memory_equal(trace_id_of(handed).at, trace_id_of(STR(GOOD)).at, 32);
    assert_memory_equal(trace_parent_of(handed).at, "b8e58efbe3623c6e", TRACE_SPAN_LEN);
    assert_memory_equal(handed.at + 52, GOOD + 52, 3);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_recognised),
        cmocka_unit_test(anything_else_is_not_one),
        cmocka_unit_test(a_tracestate_is_short_and_printable),
        cmocka_unit_test(a_trace_is_sampled_if_its_flag_says_so),
        cmocka_unit_test(the_ids_of_spans_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
