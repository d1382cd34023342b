/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lease_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct lease_text first = {{"a", 1}, {"\"t\"", 3}, -1, {30000}};
static const struct lease_text second = {{"b", 1}, {"\"u\"", 3}, 7, {500}};

static void the_body_of_one_is_left_open(void **state)
{
    (void)state;
    struct buf b = {0};
    lease_text_one(&b, &first);
    assert_true(str_eq(buf_view(&b), STR("{\"lease_ms\":30000,\"token\":\"t\"")));
    b.len = 0;
    lease_text_one(&b, &(struct lease_text){.job = {"a", 1}, .run = 3, .lease = {1}});
    assert_true(str_eq(buf_view(&b), STR("{\"run\":3,\"lease_ms\":1")));
    buf_fini(&b);
}

static void the_body_of_many_names_each_with_its_lease(void **state)
{
    (void)state;
    struct buf b = {0};
    lease_text_add(&b, &first);
    lease_text_add(&b, &second);
    lease_text_end(&b);
    assert_true(
        str_eq(buf_view(&b), STR("{\"jobs\":[{\"id\":\"a\",\"lease_ms\":30000,\"token\":\"t\"},"
                                 "{\"id\":\"b\",\"run\":7,\"lease_ms\":500,\"token\":\"u\"}]}")));
    buf_fini(&b);
}

static void an_answer_is_that_of_a_request_for_one(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        int status;
        enum call_result result;
    } codes[] = {
        {"stale_token", 409, CALL_GONE},   {"not_found", 404, CALL_GONE},
        {"not_in_flight", 404, CALL_GONE}, {"insufficient_rights", 403, CALL_REFUSED},
        {"busy", 503, CALL_TRY_LATER},     {"of_a_newer_server", 422, CALL_REFUSED},
    };
    struct buf b = {0};
    struct arena a = {0};
    struct lease_answer of;
    buf_lit(&b, "{\"jobs\":[{\"id\":\"x\",\"lease_expires_at\":5}");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        buf_print(&b, ",{\"id\":\"y\",\"code\":\"%s\",\"error\":\"why\"}", codes[i].code);
    buf_lit(&b, "]}");
    struct view_list l = lease_text_list(buf_view(&b));
    lease_text_next(&l, &a, &of);
    assert_int_equal(of.result, CALL_DONE);
    assert_int_equal(of.status, 200);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        lease_text_next(&l, &a, &of);
        assert_int_equal(of.result, codes[i].result);
        assert_int_equal(of.status, codes[i].status);
        assert_true(str_eq(of.code, str_from(codes[i].code)));
        assert_true(str_eq(of.why, STR("why")));
    }
    lease_text_next(&l, &a, &of);
    assert_int_equal(of.result, CALL_TRY_LATER);
    arena_fini(&a);
    buf_fini(&b);
}

static void an_answer_without_jobs_says_nothing_of_them(void **state)
{
    (void)state;
    struct arena a = {0};
    struct lease_answer of;
    struct view_list l = lease_text_list(STR("{}"));
    lease_text_next(&l, &a, &of);
    assert_int_equal(of.result, CALL_TRY_LATER);
    arena_fini(&a);
}

static void a_whole_answer_is_one_of_each_or_of_all_or_of_an_older_server(void **state)
{
    (void)state;
    assert_int_equal(lease_text_outcome(CALL_DONE, 200), LEASE_EACH);
    assert_int_equal(lease_text_outcome(CALL_REFUSED, 422), LEASE_EACH);
    assert_int_equal(lease_text_outcome(CALL_GONE, 404), LEASE_UNKNOWN);
    assert_int_equal(lease_text_outcome(CALL_REFUSED, 405), LEASE_UNKNOWN);
    assert_int_equal(lease_text_outcome(CALL_REFUSED, 400), LEASE_FAULTY);
    assert_int_equal(lease_text_outcome(CALL_REFUSED, 401), LEASE_ALL);
    assert_int_equal(lease_text_outcome(CALL_TRY_LATER, 503), LEASE_ALL);
    assert_int_equal(lease_text_outcome(CALL_UNREACHABLE, 0), LEASE_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_body_of_one_is_left_open),
        cmocka_unit_test(the_body_of_many_names_each_with_its_lease),
        cmocka_unit_test(an_answer_is_that_of_a_request_for_one),
        cmocka_unit_test(an_answer_without_jobs_says_nothing_of_them),
        cmocka_unit_test(a_whole_answer_is_one_of_each_or_of_all_or_of_an_older_server),
    };
    return cmocka_run_group_tests_name("client/lease_text", tests, NULL, NULL);
}
