/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "kube/kube_review.h"

static const struct kube_review_access accesses[] = {
    {"create", "", "pods", NULL}, {"get", "", "pods", "log"}, {"list", "", "events", NULL},
    {"delete", "", "pods", NULL}, {"get", "", "pods", NULL},  {"get", "batch", "jobs", NULL},
};

static struct {
    int done;
    bool answered[COUNT(accesses)], allowed[COUNT(accesses)];
    char why[COUNT(accesses)][200];
    struct buf role;
} seen;

static void on_done(void *ctx, const struct kube_review_result *results, size_t count)
{
    (void)ctx;
    assert_int_equal(count, COUNT(accesses));
    seen.done++;
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(results[i].access, &accesses[i]);
        assert_string_equal(results[i].namespace, "builds");
        seen.answered[i] = results[i].answered;
        seen.allowed[i] = results[i].allowed;
        snprintf(seen.why[i], sizeof seen.why[i], "%.*s", STR_ARG(results[i].why));
    }
    kube_review_write_role(&seen.role, "tenax-executor", results, count);
    buf_byte(&seen.role, '\0');
}

static bool asks(const struct http_request *req, const char *what)
{
    return memmem(req->body.at, req->body.len, what, strlen(what)) != NULL;
}

static void serve(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    (void)r;
    (void)n;
    assert_int_equal(req->method, HTTP_POST);
    assert_true(str_eq(req->path, STR("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")));
    assert_true(asks(req, "\"namespace\":\"builds\""));
    if (asks(req, "\"subresource\":\"log\""))
        rig_json(x, 201, "{\"status\":{\"allowed\":false,\"reason\":\"no RBAC rule\"}}");
    else if (asks(req, "\"verb\":\"delete\"") || asks(req, "\"group\":\"batch\""))
        rig_json(x, 201, "{\"status\":{\"allowed\":false}}");
    else if (asks(req, "\"resource\":\"events\""))
        rig_json(x, 403, "{\"kind\":\"Status\",\"message\":\"may not ask\"}");
    else
        rig_json(x, 201, "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":true}}");
}

static int setup(void **state)
{
    memset(&seen, 0, sizeof seen);
    return rig_setup(state);
}

static int teardown(void **state)
{
    buf_fini(&seen.role);
    return rig_teardown(state);
}

static void each_access_is_asked_for(void **state)
{
    struct rig *r = *state;
    r->serve = serve;
    rig_start(r);
    kube_review_start(r->client, "builds", accesses, COUNT(accesses), on_done, NULL);
    assert_int_equal(seen.done, 0);
    RIG_AWAIT(r, seen.done);
    const bool allowed[] = {true, false, false, false, true, false};
    for (size_t i = 0; i < COUNT(accesses); i++) {
        assert_int_equal(seen.allowed[i], allowed[i]);
        assert_int_equal(seen.answered[i], i != 2);
    }
    assert_string_equal(seen.why[1], "no RBAC rule");
    assert_string_equal(seen.why[2], "may not ask");
    assert_string_equal(seen.role.at, "apiVersion: rbac.authorization.k8s.io/v1\n"
                                      "kind: Role\n"
                                      "metadata:\n"
                                      "  name: tenax-executor\n"
                                      "  namespace: builds\n"
                                      "rules:\n"
                                      "- apiGroups: [\"\"]\n"
                                      "  resources: [\"pods/log\"]\n"
                                      "  verbs: [\"get\"]\n"
                                      "- apiGroups: [\"\"]\n"
                                      "  resources: [\"events\"]\n"
                                      "  verbs: [\"list\"]\n"
                                      "- apiGroups: [\"\"]\n"
                                      "  resources: [\"pods\"]\n"
                                      "  verbs: [\"delete\"]\n"
                                      "- apiGroups: [\"batch\"]\n"
                                      "  resources: [\"jobs\"]\n"
                                      "  verbs: [\"get\"]\n");
}

static void serve_nonsense(struct rig *r, struct http_exchange *x, const struct http_request *req,
                           int n)
{
    (void)r;
    (void)req;
    static const char *const bodies[] = {"{}", "{\"status\":{}}",   "{\"status\":{\"allowed\":1}}",
                                         "[]", "{\"status\":null}", "{\"status\":{\"allowed\":tru"};
    rig_json(x, 201, bodies[n % 6]);
}

static void nonsense_is_no_answer(void **state)
{
    struct rig *r = *state;
    r->serve = serve_nonsense;
    rig_start(r);
    kube_review_start(r->client, "builds", accesses, COUNT(accesses), on_done, NULL);
    RIG_AWAIT(r, seen.done);
    for (size_t i = 0; i < COUNT(accesses); i++)
        assert_true(!seen.answered[i] && !seen.allowed[i] && seen.why[i][0]);
}

static void serve_held(struct rig *r, struct http_exchange *x, const struct http_request *req,
                       int n)
{
    (void)req;
    (void)n;
    rig_hold(r, x);
}

static void it_may_be_cancelled(void **state)
{
    struct rig *r = *state;
    r->serve = serve_held;
    rig_start(r);
    struct kube_review *review =
        kube_review_start(r->client, "builds", accesses, COUNT(accesses), on_done, NULL);
    RIG_AWAIT(r, r->held_count == COUNT(accesses));
    rig_json(r->held[0], 201, "{\"status\":{\"allowed\":true}}");
    r->held[0] = r->held[--r->held_count];
    rig_settle(r);
    kube_review_cancel(review);
    rig_settle(r);
    assert_int_equal(seen.done, 0);
}

static void accesses_have_names(void **state)
{
    (void)state;
    struct buf b = {0};
    kube_review_name(&b, &accesses[0]);
    buf_lit(&b, ", ");
    kube_review_name(&b, &accesses[1]);
    assert_true(str_eq(buf_view(&b), STR("create pods, get pods/log")));
    buf_fini(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_access_is_asked_for),
        T(nonsense_is_no_answer),
        T(it_may_be_cancelled),
        cmocka_unit_test(accesses_have_names),
    };
    return cmocka_run_group_tests_name("kube/kube_review", tests, NULL, NULL);
}
