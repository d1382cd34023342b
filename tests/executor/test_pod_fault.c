/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "executor/pod_fault.h"

#define STATUS(reason, message)                                                                    \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"" reason       \
    "\",\"message\":\"" message "\"}"

static const struct {
    const char *name;
    long status;
    const char *body;
    bool not_own; /* a namespace that only the payload names */
    enum pod_fault_domain domain;
    enum pod_fault_reaction reaction;
} table[] = {
    {"created", 201, "{}", false, POD_FAULT_NONE, POD_FAULT_GO_ON},
    {"no right", 403,
     STATUS("Forbidden", "pods is forbidden: User \\\"u\\\" cannot create resource \\\"pods\\\""),
     false, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"no right elsewhere", 403,
     STATUS("Forbidden", "pods is forbidden: User \\\"u\\\" cannot create resource \\\"pods\\\""),
     true, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"expired token", 401, STATUS("Unauthorized", "Unauthorized"), false, POD_FAULT_ACCESS,
     POD_FAULT_SUSPEND},
    {"proxy 403", 403, "<html>403</html>", false, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"proxy 404", 404, "<html>404</html>", true, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"proxy 400", 400, "bad request", false, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"proxy 413", 413, "<html>413</html>", false, POD_FAULT_JOB, POD_FAULT_FAIL},
    {"proxy 429", 429, "slow down", false, POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"proxy 502", 502, "<html>502</html>", false, POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"own namespace missing", 404, STATUS("NotFound", "namespaces \\\"jobs\\\" not found"), false,
     POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"payload's namespace missing", 404, STATUS("NotFound", "namespaces \\\"x\\\" not found"), true,
     POD_FAULT_JOB, POD_FAULT_FAIL},
    {"own namespace ends", 403,
     STATUS("Forbidden", "unable to create new content in namespace jobs because it is being "
                         "terminated"),
     false, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"service account not made yet", 403,
     STATUS("Forbidden", "pods \\\"x\\\" is forbidden: error looking up service account "
                         "jobs/default: serviceaccount \\\"default\\\" not found"),
     false, POD_FAULT_ACCESS, POD_FAULT_SUSPEND},
    {"payload's service account", 403,
     STATUS("Forbidden", "pods \\\"x\\\" is forbidden: error looking up service account "
                         "jobs/build: serviceaccount \\\"build\\\" not found"),
     false, POD_FAULT_JOB, POD_FAULT_FAIL},
    {"pod security", 403, STATUS("Forbidden", "pods \\\"x\\\" is forbidden: violates PodSecurity"),
     false, POD_FAULT_JOB, POD_FAULT_FAIL},
    {"a webhook's no", 403,
     STATUS("Forbidden", "admission webhook \\\"v.example.org\\\" denied the request: no"), false,
     POD_FAULT_JOB, POD_FAULT_FAIL},
    {"admission is not ready", 403,
     STATUS("Forbidden", "pods \\\"x\\\" is forbidden: not yet ready to handle request"), false,
     POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"webhook away", 500,
     STATUS("InternalError", "failed calling webhook \\\"v.example.org\\\": no endpoints"), false,
     POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"etcd is slow", 500, STATUS("", "etcdserver: request timed out"), false, POD_FAULT_CLUSTER,
     POD_FAULT_GIVE_BACK},
    {"etcd is full", 500,
     STATUS("", "rpc error: code = ResourceExhausted desc = etcdserver: mvcc: database space "
                "exceeded"),
     false, POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"too large for etcd", 500, STATUS("", "etcdserver: request is too large"), false,
     POD_FAULT_JOB, POD_FAULT_FAIL},
    {"too large for its connection", 500,
     STATUS("", "rpc error: code = ResourceExhausted desc = trying to send message larger than "
                "max (2097526 vs. 2097152)"),
     false, POD_FAULT_JOB, POD_FAULT_FAIL},
    {"too large", 413, STATUS("RequestEntityTooLarge", "limit is 3145728"), false, POD_FAULT_JOB,
     POD_FAULT_FAIL},
    {"invalid", 422, STATUS("Invalid", "Pod \\\"x\\\" is invalid"), false, POD_FAULT_JOB,
     POD_FAULT_FAIL},
    {"too many requests", 429, STATUS("TooManyRequests", "try again later"), false,
     POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"quota is counted", 409, STATUS("Conflict", "the object has been modified"), false,
     POD_FAULT_CLUSTER, POD_FAULT_GIVE_BACK},
    {"quota is full", 403,
     STATUS("Forbidden", "pods \\\"x\\\" is forbidden: exceeded quota: c, requested: "
                         "requests.memory=1Gi, used: requests.memory=10Gi, limited: "
                         "requests.memory=10Gi"),
     false, POD_FAULT_CLUSTER, POD_FAULT_WAIT},
    {"quota is too small", 403,
     STATUS("Forbidden", "pods \\\"x\\\" is forbidden: exceeded quota: c, requested: "
                         "requests.memory=64Gi, used: requests.memory=0, limited: "
                         "requests.memory=10Gi"),
     false, POD_FAULT_JOB, POD_FAULT_FAIL},
};

static void answers_have_a_culprit_and_a_reaction(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct arena a = {0};
        struct kube_answer answer;
        kube_answer_read(table[i].status, str_from(table[i].body), &a, &answer);
        struct pod_fault f = pod_fault_of(&answer, !table[i].not_own);
        if (f.domain != table[i].domain || f.reaction != table[i].reaction)
            fail_msg("%s: %s, %s", table[i].name, pod_fault_domain_name(f.domain),
                     pod_fault_reaction_name(f.reaction));
        assert_true((f.reaction == POD_FAULT_GO_ON) == !f.culprit);
        arena_fini(&a);
    }
}

static void every_answer_of_a_server_has_a_row(void **state)
{
    (void)state;
    for (int i = KUBE_ANSWER_OK + 1; i < KUBE_ANSWER_REASONS; i++) {
        struct kube_answer a = {.reason = (enum kube_answer_reason)i};
        assert_int_not_equal(pod_fault_of(&a, false).domain, POD_FAULT_NONE);
    }
}

static void quotas_that_can_never_be_met_are_found(void **state)
{
    static const struct {
        const char *message;
        bool never;
    } quotas[] = {
        {"exceeded quota: q, requested: cpu=500m, used: cpu=0, limited: cpu=100m", true},
        {"exceeded quota: q, requested: cpu=500m, used: cpu=1, limited: cpu=1", false},
        {"exceeded quota: q, requested: cpu=1,pods=1, used: cpu=0,pods=3, limited: cpu=2,pods=3",
         false},
        {"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0", false},
        {"exceeded quota: q, requested: cpu=1,memory=3Gi, used: cpu=1,memory=1Gi, limited: "
         "memory=2Gi,cpu=1",
         true},
        {"exceeded quota: q, requested: cpu=what, used: cpu=0, limited: cpu=1", false},
        {"exceeded quota: q", false},
        {"status unknown for quota: q, resources: pods", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(quotas); i++)
        assert_int_equal(pod_fault_quota_too_small(str_from(quotas[i].message)), quotas[i].never);
}

/* docs/kubernetes.md */
static struct buf page;

static void the_documentation_has_every_row(void **state)
{
    (void)state;
    for (int i = KUBE_ANSWER_OK + 1; i < KUBE_ANSWER_REASONS; i++) {
        struct kube_answer a = {.reason = (enum kube_answer_reason)i};
        struct pod_fault f = pod_fault_of(&a, false);
        struct buf begin = {0}, end = {0};
        bool found = false;
        buf_print(&begin, "\n| %s", kube_answer_reason_name(a.reason));
        buf_print(&end, " | %s | %s | `%s` |", pod_fault_domain_name(f.domain),
                  pod_fault_reaction_name(f.reaction), f.culprit);
        for (const char *at = page.at;
             (at = memmem(at, (size_t)(page.at + page.len - at), begin.at, begin.len)); at++) {
            const char *line_end = memchr(at + 1, '\n', (size_t)(page.at + page.len - at) - 1);
            found |= memmem(at, (size_t)(line_end - at), end.at, end.len) != NULL;
        }
        if (!found)
            fail_msg("no row%.*s%.*s", (int)begin.len, begin.at, (int)end.len, end.at);
        buf_fini(&begin);
        buf_fini(&end);
    }
}

static void read_page(const char *path)
{
    char chunk[4096];
    size_t n;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(&page, chunk, n);
    fclose(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_have_a_culprit_and_a_reaction),
        cmocka_unit_test(every_answer_of_a_server_has_a_row),
        cmocka_unit_test(the_documentation_has_every_row),
        cmocka_unit_test(quotas_that_can_never_be_met_are_found),
    };
    if (argc != 2)
        return 2;
    read_page(argv[1]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_fini(&page);
    return failed;
}
