/* SPDX-License-Identifier: Apache-2.0 */
#include "client/whose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct str text(const char *s)
{
    return (struct str){s, strlen(s)};
}

static void a_refusal_with_code_and_sentence_is_the_servers(void **state)
{
    (void)state;
    assert_true(whose_refusal(text("{\"error\":\"no such job\",\"code\":\"not_found\"}")));
    assert_true(whose_refusal(text(" {\"code\":\"ResourceNotFound\",\"message\":\"gone\"}\n")));
}

static void what_became_of_each_of_many_is_the_servers(void **state)
{
    (void)state;
    assert_true(whose_refusal(text("{\"jobs\":[{\"id\":\"a\",\"code\":\"stale_token\"}]}")));
    assert_true(whose_refusal(text("{\"not_found\":[\"a\"]}")));
}

static void a_health_is_the_servers(void **state)
{
    (void)state;
    assert_true(whose_refusal(text("{\"status\":\"disk_full\",\"jobs\":{\"ready\":1}}")));
    assert_true(whose_refusal(text("{\"status\":\"no_owner\",\"role\":\"standby\",\"epoch\":0}")));
    assert_false(whose_refusal(text("{\"status\":\"UP\"}")));
}

static void what_proxies_say_is_not(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        "<html><body>404</body></html>",
        "Forbidden",
        "null",
        "[]",
        "{}",
        "{\"error\":\"access_denied\"}",
        "{\"code\":\"not_found\"}",
        "{\"code\":\"AccessDenied\",\"error\":\"no\"}",
        "{\"code\":\"access-denied\",\"error\":\"no\"}",
        "{\"code\":16,\"error\":\"no\"}",
        "{\"code\":\"\",\"error\":\"no\"}",
        "{\"code\":\"not_found\",\"error\":true}",
        "{\"jobs\":3,\"not_found\":true}",
        "{\"message\":\"no Route matched with those values\"}",
        "{\"error\":\"no such job\",\"code\":\"not_f",
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        assert_false(whose_refusal(text(pages[i])));
}

static void azure_refuses_in_xml(void **state)
{
    (void)state;
    assert_true(whose_azure_refusal(
        text("<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed</Code></Error>")));
    assert_false(whose_azure_refusal(text("<html><h1>403 Forbidden</h1></html>")));
    assert_false(whose_azure_refusal(text("")));
}

static bool done(const char *method, const char *path, long status, const char *body)
{
    return whose_success(whose_expects(method, path), status, text(body));
}

static void a_success_has_the_status_and_the_members_of_its_request(void **state)
{
    (void)state;
    assert_true(done("POST", "/jobs/a/success", 204, ""));
    assert_false(done("POST", "/jobs/a/success", 200, ""));
    assert_false(done("POST", "/jobs/a/success", 200, "{\"ok\":true}"));
    assert_false(done("POST", "/jobs/a/success", 204, "{\"ok\":true}"));
    assert_true(done("GET", "/jobs?queue=a/b&limit=1", 200, "{\"jobs\":[]}"));
    assert_false(done("GET", "/jobs?queue=a/b&limit=1", 200, "{\"items\":[]}"));
    assert_true(done("DELETE", "/jobs?id=a", 200, "{\"count\":1,\"sample\":[]}"));
    assert_true(done("DELETE", "/jobs?id=a", 200, "{\"deleted\":1}"));
    assert_false(done("DELETE", "/jobs?id=a", 200, "{\"ok\":true}"));
    assert_false(done("POST", "/jobs/a/claim", 200, "{\"token\":\"t\"}"));
}

static void taskclusters_is_known_below_a_path_of_its_own(void **state)
{
    (void)state;
    const char *run = "/tc/api/queue/v1/task/a/runs/0/completed";
    assert_true(done("POST", run, 200, "{\"status\":{}}"));
    assert_false(done("POST", run, 200, "{\"ok\":true}"));
    assert_true(done("POST", "/api/queue/v1/claim-work/a%2Fb", 200, "{\"tasks\":[]}"));
    assert_false(done("POST", "/api/queue/v1/claim-work/a%2Fb", 200, "{}"));
}

static void of_another_request_any_json_will_do(void **state)
{
    (void)state;
    assert_null(whose_expects("GET", "/jobs/a/b/c/d"));
    assert_true(done("GET", "/jobs/a/b/c/d", 200, ""));
    assert_true(done("GET", "/jobs/a/b/c/d", 200, "[1]"));
    assert_false(done("GET", "/jobs/a/b/c/d", 200, "<html>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_with_code_and_sentence_is_the_servers),
        cmocka_unit_test(what_became_of_each_of_many_is_the_servers),
        cmocka_unit_test(a_health_is_the_servers),
        cmocka_unit_test(what_proxies_say_is_not),
        cmocka_unit_test(azure_refuses_in_xml),
        cmocka_unit_test(a_success_has_the_status_and_the_members_of_its_request),
        cmocka_unit_test(taskclusters_is_known_below_a_path_of_its_own),
        cmocka_unit_test(of_another_request_any_json_will_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
