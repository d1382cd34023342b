/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "kube/kube_answer.h"
#include "kube/kube_counters.h"

#define STATUS(members)                                                                            \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\"," members "}"

static const struct {
    long status;
    const char *body;
    enum kube_answer_reason reason;
    const char *message;
    const char *kind, *name;
    int64_t retry_ms;
} table[] = {
    {200, "{}", KUBE_ANSWER_OK, "", "", "", -1},
    {201, "anything", KUBE_ANSWER_OK, "", "", "", -1},
    {404,
     STATUS("\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\",\"details\":{"
            "\"name\":\"x\",\"kind\":\"pods\"},\"code\":404"),
     KUBE_ANSWER_NOT_FOUND, "pods \"x\" not found", "pods", "x", -1},
    {409, STATUS("\"message\":\"m\",\"reason\":\"AlreadyExists\",\"code\":409"),
     KUBE_ANSWER_ALREADY_EXISTS, "m", "", "", -1},
    {409, STATUS("\"message\":\"m\",\"reason\":\"Conflict\",\"details\":null"),
     KUBE_ANSWER_CONFLICT, "m", "", "", -1},
    {410, STATUS("\"message\":\"too old\",\"reason\":\"Expired\""), KUBE_ANSWER_EXPIRED, "too old",
     "", "", -1},
    {410, "gone", KUBE_ANSWER_GONE, "HTTP 410: gone", "", "", -1},
    {403,
     STATUS("\"message\":\"pods \\\"x\\\" is forbidden: exceeded quota: q, requested: pods=1\","
            "\"reason\":\"Forbidden\""),
     KUBE_ANSWER_QUOTA, "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1", "", "",
     -1},
    {403,
     STATUS("\"message\":\"pods \\\"x\\\" is forbidden: status unknown for quota: q, resources: "
            "pods\",\"reason\":\"Forbidden\""),
     KUBE_ANSWER_QUOTA, "pods \"x\" is forbidden: status unknown for quota: q, resources: pods", "",
     "", -1},
    {403,
     STATUS("\"message\":\"unable to create new content in namespace n because it is being "
            "terminated\",\"reason\":\"Forbidden\""),
     KUBE_ANSWER_NAMESPACE_TERMINATING,
     "unable to create new content in namespace n because it is being terminated", "", "", -1},
    {403,
     STATUS("\"message\":\"m\",\"reason\":\"Forbidden\",\"details\":{\"causes\":[{\"reason\":"
            "\"NamespaceTerminating\",\"field\":\"metadata.namespace\"}]}"),
     KUBE_ANSWER_NAMESPACE_TERMINATING, "m", "", "", -1},
    {403,
     STATUS("\"message\":\"pods \\\"x\\\" is forbidden: violates PodSecurity\",\"reason\":"
            "\"Forbidden\""),
     KUBE_ANSWER_ADMISSION, "pods \"x\" is forbidden: violates PodSecurity", "", "", -1},
    {403,
     STATUS("\"message\":\"refused by policy\",\"reason\":\"Forbidden\",\"details\":{\"name\":"
            "\"x\",\"kind\":\"pods\"}"),
     KUBE_ANSWER_ADMISSION, "refused by policy", "pods", "x", -1},
    {403,
     STATUS("\"message\":\"pods \\\"x\\\" is forbidden: User \\\"u\\\" cannot delete\",\"reason\":"
            "\"Forbidden\",\"details\":{\"name\":\"x\",\"kind\":\"pods\"}"),
     KUBE_ANSWER_FORBIDDEN, "pods \"x\" is forbidden: User \"u\" cannot delete", "pods", "x", -1},
    {403, STATUS("\"message\":\"no\",\"reason\":\"Forbidden\""), KUBE_ANSWER_FORBIDDEN, "no", "",
     "", -1},
    {429,
     STATUS("\"message\":\"slow\",\"reason\":\"TooManyRequests\",\"details\":{"
            "\"retryAfterSeconds\":7}"),
     KUBE_ANSWER_TOO_MANY_REQUESTS, "slow", "", "", 7000},
    {500, STATUS("\"reason\":\"InternalError\""), KUBE_ANSWER_INTERNAL, "HTTP 500: InternalError",
     "", "", -1},
    /* A word that is not known: the status counts. */
    {422, STATUS("\"reason\":\"Novel\",\"message\":\"m\""), KUBE_ANSWER_INVALID, "m", "", "", -1},
    /* The word counts more than the status. */
    {500, STATUS("\"reason\":\"ServerTimeout\",\"message\":\"m\""), KUBE_ANSWER_SERVER_TIMEOUT, "m",
     "", "", -1},
    /* Not an API server's: proxies and the like. */
    {502, "<html>\n<b>Bad\tgateway", KUBE_ANSWER_UNAVAILABLE, "HTTP 502: <html> <b>Bad gateway", "",
     "", -1},
    {503, "", KUBE_ANSWER_UNAVAILABLE, "HTTP 503", "", "", -1},
    {408, "", KUBE_ANSWER_TIMEOUT, "HTTP 408", "", "", -1},
    {418, "", KUBE_ANSWER_BAD_REQUEST, "HTTP 418", "", "", -1},
    {302, "", KUBE_ANSWER_OTHER, "HTTP 302", "", "", -1},
    {404, "{\"kind\":\"Pod\",\"message\":\"m\"}", KUBE_ANSWER_NOT_FOUND,
     "HTTP 404: {\"kind\":\"Pod\",\"message\":\"m\"}", "", "", -1},
    {400, "{\"kind\":\"Status\",\"message\":7}", KUBE_ANSWER_BAD_REQUEST,
     "HTTP 400: {\"kind\":\"Status\",\"message\":7}", "", "", -1},
};

static void answers_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct arena a = {0};
        struct kube_answer out;
        kube_answer_read(table[i].status, str_from(table[i].body), &a, &out);
        if (out.reason != table[i].reason || !str_eq(out.message, str_from(table[i].message)) ||
            !str_eq(out.kind, str_from(table[i].kind)) ||
            !str_eq(out.name, str_from(table[i].name)) || out.retry_after.ms != table[i].retry_ms)
            fail_msg("%ld %s: %s: %.*s (%lld)", table[i].status, table[i].body,
                     kube_answer_reason_name(out.reason), STR_ARG(out.message),
                     (long long)out.retry_after.ms);
        assert_int_equal(out.status, table[i].status);
        arena_fini(&a);
    }
}

static void causes_are_kept_up_to_a_limit(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_print(&b, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"m\",\"details\":{"
                  "\"causes\":[");
    for (int i = 0; i < 100; i++)
        buf_print(&b, "%s{\"reason\":\"FieldValueInvalid\",\"message\":\"bad\",\"field\":\"f%d\"}",
                  i ? "," : "", i);
    buf_print(&b, "]}}");
    struct arena a = {0};
    struct kube_answer out;
    kube_answer_read(422, buf_view(&b), &a, &out);
    assert_int_equal(out.reason, KUBE_ANSWER_INVALID);
    assert_int_equal(out.cause_count, KUBE_ANSWER_CAUSES_MAX);
    assert_true(str_eq(out.causes[31].field, STR("f31")));
    assert_true(str_eq(out.causes[0].reason, STR("FieldValueInvalid")));
    arena_fini(&a);
    buf_fini(&b);
}

static void a_long_message_is_cut(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_print(&b, "{\"kind\":\"Status\",\"message\":\"");
    for (int i = 0; i < 5000; i++)
        buf_print(&b, "x");
    buf_print(&b, "\"}");
    struct arena a = {0};
    struct kube_answer out;
    kube_answer_read(422, buf_view(&b), &a, &out);
    assert_true(out.message.len > 2000 && out.message.len < KUBE_ANSWER_TEXT_MAX);
    arena_fini(&a);
    buf_fini(&b);
}

static void the_object_of_an_error_event_has_its_code_within(void **state)
{
    (void)state;
    struct arena a = {0};
    struct kube_answer out;
    kube_answer_read_status(STR(STATUS("\"code\":410,\"message\":\"too old\"")), &a, &out);
    assert_int_equal(out.reason, KUBE_ANSWER_GONE);
    assert_int_equal(out.status, 410);
    kube_answer_read_status(STR("{}"), &a, &out);
    assert_int_equal(out.reason, KUBE_ANSWER_OTHER);
    arena_fini(&a);
}

static void retry_after_in_seconds_or_as_a_date(void **state)
{
    (void)state;
    const instant now = {1784800000000};
    const struct {
        const char *retry_after, *date;
        int64_t ms;
    } rows[] = {
        {"5", "", 5000},
        {"0", "", 0},
        {"99999999999999999999999", "", 86400000},
        /* The server's own clock counts, an hour off or not. */
        {"Wed, 22 Jul 2026 09:00:30 GMT", "Wed, 22 Jul 2026 09:00:00 GMT", 30000},
        {"Wed, 22 Jul 2026 09:00:00 GMT", "Wed, 22 Jul 2026 09:00:30 GMT", 0},
        {"Thu, 23 Jul 2026 09:46:50 GMT", "", 10000},
        {"", "", -1},
        {"soon", "", -1},
        {"-1", "", -1},
        {"5s", "", -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        span s =
            kube_answer_retry_after(str_from(rows[i].retry_after), str_from(rows[i].date), now);
        if (s.ms != rows[i].ms)
            fail_msg("%s: %lld", rows[i].retry_after, (long long)s.ms);
    }
}

/* What was refused was not acted on; what was lost may have been. */
static void what_may_have_been_acted_on(void **state)
{
    (void)state;
    const enum kube_answer_reason unsure[] = {
        KUBE_ANSWER_OK,        KUBE_ANSWER_INTERNAL,       KUBE_ANSWER_UNAVAILABLE,
        KUBE_ANSWER_TIMEOUT,   KUBE_ANSWER_SERVER_TIMEOUT, KUBE_ANSWER_LOST,
        KUBE_ANSWER_TIMED_OUT, KUBE_ANSWER_MALFORMED,      KUBE_ANSWER_OTHER};
    size_t count = 0;
    for (int r = 0; r < KUBE_ANSWER_REASONS; r++)
        count += !kube_answer_is_unheard((enum kube_answer_reason)r);
    assert_int_equal(count, COUNT(unsure));
    for (size_t i = 0; i < COUNT(unsure); i++)
        assert_false(kube_answer_is_unheard(unsure[i]));
    assert_true(kube_answer_is_passing(KUBE_ANSWER_TOO_MANY_REQUESTS));
    assert_true(kube_answer_is_passing(KUBE_ANSWER_UNREACHABLE));
    assert_false(kube_answer_is_passing(KUBE_ANSWER_UNTRUSTED));
    assert_false(kube_answer_is_passing(KUBE_ANSWER_INVALID));
}

static void calls_are_counted_by_verb_and_code(void **state)
{
    (void)state;
    struct kube_counters c = {0};
    kube_counters_add(&c, KUBE_CREATE, 201);
    kube_counters_add(&c, KUBE_CREATE, 0);
    kube_counters_add(&c, KUBE_LIST, 299);
    size_t codes = 0;
    uint64_t created = 0, none = 0, other = 0, all = 0;
    for (const char *name; (name = kube_counters_code_name(codes)); codes++) {
        created += strcmp(name, "201") == 0 ? c.calls[KUBE_CREATE][codes] : 0;
        none += strcmp(name, "none") == 0 ? c.calls[KUBE_CREATE][codes] : 0;
        other += strcmp(name, "other") == 0 ? c.calls[KUBE_LIST][codes] : 0;
        for (int v = 0; v < KUBE_VERBS; v++)
            all += c.calls[v][codes];
    }
    assert_int_equal(codes, KUBE_COUNTERS_CODES);
    assert_int_equal(created, 1);
    assert_int_equal(none, 1);
    assert_int_equal(other, 1);
    assert_int_equal(all, 3);
    assert_string_equal(kube_counters_verb_name(KUBE_DELETE), "delete");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(causes_are_kept_up_to_a_limit),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(the_object_of_an_error_event_has_its_code_within),
        cmocka_unit_test(retry_after_in_seconds_or_as_a_date),
        cmocka_unit_test(what_may_have_been_acted_on),
        cmocka_unit_test(calls_are_counted_by_verb_and_code),
    };
    return cmocka_run_group_tests_name("kube/kube_answer", tests, NULL, NULL);
}
