/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "executor/pod_manifest.h"

#define ID   "03fdyyg2ibf8zhc6ulqx1f6oz"
#define GI   ((uint64_t)1 << 30)
#define SPEC "\"containers\":[{\"name\":\"main\",\"image\":\"busybox\"}]"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static const char *const also[] = {"other"};
static struct pod_style style = {.prefix = {"tenax", 5},
                                 .executor = {"exec-1", 6},
                                 .namespace = {"jobs", 4},
                                 .also = also,
                                 .also_count = COUNT(also)};

static struct pod_job job_of(const char *payload)
{
    struct pod_job j = {.queue = STR("q"), .type = STR("t"), .payload = str_from(payload)};
    assert_int_equal(id_parse(STR(ID), &j.id).code, ERR_OK);
    return j;
}

static struct pod_manifest make(const struct pod_job *j, enum pod_avoid avoid)
{
    struct pod_manifest m;
    struct err e = pod_manifest_make(&style, j, true, avoid, &memory, &m);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    return m;
}

static void assert_has(struct str body, const char *part)
{
    if (!memmem(body.at, body.len, part, strlen(part)))
        fail_msg("\"%s\" is not in %.*s", part, STR_ARG(body));
}

static void assert_error(const struct pod_job *j, const char *says)
{
    struct pod_manifest m;
    struct err e = pod_manifest_make(&style, j, true, POD_AVOID_REQUIRED, &memory, &m);
    if (e.code == ERR_OK || strcmp(e.msg, says) != 0)
        fail_msg("expected \"%s\", found \"%s\"", says, e.code == ERR_OK ? "no error" : e.msg);
}

/* --- the job --- */

static void a_job_is_read_as_the_server_describes_it(void **state)
{
    (void)state;
    struct pod_job j;
    assert_int_equal(
        pod_manifest_job(STR("{\"id\":\"" ID "\",\"queue\":\"q\",\"type\":\"t\",\"payload\":{\"a\":"
                             " 1},\"run\":2,\"token\":\"00ff\",\"attempts\":1,\"priority\":7,"
                             "\"avoid_nodes\":[\"n1\"],\"avoid_until\":1500,\"resources\":{"
                             "\"memory\":\"2Gi\",\"cpu\":\"1500m\"},\"grown_from\":{\"memory\":"
                             "\"1Gi\"},\"more\":{}}"),
                         &memory, &j)
            .code,
        ERR_OK);
    assert_true(str_eq(j.payload, STR("{\"a\": 1}")));
    assert_true(str_eq(j.avoid, STR("n1")));
    assert_true(str_eq(j.token, STR("00ff")));
    assert_int_equal(j.avoid_until.ms, 1500);
    assert_int_equal(j.run, 2);
    assert_int_equal(j.attempts, 1);
    assert_int_equal(j.memory, 2 * GI);
    assert_int_equal(j.memory_from, GI);
    assert_int_equal(j.cpu, 1500);
    assert_int_equal(j.cpu_from, 0);
    assert_int_equal(pod_manifest_job(STR("{\"queue\":\"q\"}"), &memory, &j).code,
                     ERR_MISSING_FIELD);
    assert_int_equal(pod_manifest_job(STR("{\"id\":\"x\"}"), &memory, &j).code, ERR_BAD_ID);
    assert_int_equal(
        pod_manifest_job(STR("{\"id\":\"" ID "\",\"resources\":{\"cpu\":\"x\"}}"), &memory, &j)
            .code,
        ERR_BAD_VALUE);
}

/* --- names --- */

static void pods_are_named_by_job_and_run(void **state)
{
    (void)state;
    static const struct {
        int64_t run;
        bool numbered;
        const char *name;
    } rows[] = {
        {0, true, "tenax-" ID "-0"},     {1, true, "tenax-" ID "-0-1"},
        {12, true, "tenax-" ID "-0-12"}, {0, false, "tenax-" ID "-0"},
        {3, false, "tenax-" ID "-0"},
    };
    struct pod_job j = job_of("null");
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_true(
            str_eq(pod_manifest_name(STR("tenax"), j.id, rows[i].run, rows[i].numbered, &memory),
                   str_from(rows[i].name)));
    static const char *const good[] = {"tenax", "armada", "a",
                                       "1",     "a-b",    "012345678901234567890123456789"};
    static const char *const bad[] = {"",    "-a",  "a-",  "A",
                                      "a.b", "a_b", "a b", "0123456789012345678901234567890"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(pod_manifest_is_prefix(str_from(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(pod_manifest_is_prefix(str_from(bad[i])));
}

/* --- payloads --- */

static void a_payload_is_the_pod(void **state)
{
    (void)state;
    struct pod_job j = job_of("{\"namespace\":\"other\",\"labels\":{\"app\":\"x\"},\"annotations\":"
                              "{\"note\":\"y\"},\"podSpec\":{\"restartPolicy\":\"Always\"," SPEC
                              ",\"priority\":1e3}}");
    j.run = 2;
    struct pod_manifest m = make(&j, POD_AVOID_NOTHING);
    const char want[] =
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"tenax-" ID
        "-0-2\", "
        "\"namespace\": \"other\", \"labels\": {\"app\": \"x\", \"tenax.dev/job\": \"" ID "\", "
        "\"tenax.dev/run\": \"2\", \"tenax.dev/executor\": \"exec-1\"}, \"annotations\": "
        "{\"note\": \"y\", \"tenax.dev/queue\": \"q\", \"tenax.dev/type\": \"t\"}}, \"spec\": "
        "{\"restartPolicy\": \"Never\", \"containers\": [{\"name\": \"main\", \"image\": "
        "\"busybox\"}], \"priority\": 1e3}}";
    assert_true(str_eq(m.namespace, STR("other")));
    assert_true(str_eq(m.name, STR("tenax-" ID "-0-2")));
    if (!str_eq(m.body, str_from(want)))
        fail_msg("%.*s", STR_ARG(m.body));
    j = job_of("{\"namespace\":null,\"labels\":null,\"podSpec\":{" SPEC "}}");
    m = make(&j, POD_AVOID_NOTHING);
    assert_true(str_eq(m.namespace, STR("jobs")));
    assert_has(m.body, "\"restartPolicy\": \"Never\"");
}

static void a_payload_that_is_no_pod_is_the_job_s_fault(void **state)
{
    (void)state;
    static const struct {
        const char *payload, *says;
    } rows[] = {
        {"", "payload: expected an object with podSpec, and if wanted namespace, labels and "
             "annotations"},
        {"[]", "payload: expected an object with podSpec, and if wanted namespace, labels and "
               "annotations"},
        {"{}", "payload: podSpec: expected an object: a pod's spec"},
        {"{\"podSpec\":null}", "payload: podSpec: expected an object: a pod's spec"},
        {"{\"podSpec\":[1]}", "payload: podSpec: expected an object: a pod's spec"},
        {"{\"podSpec\":{},\"namespace\":5}", "payload: namespace: expected a text"},
        {"{\"podSpec\":{},\"namespace\":\"\"}", "payload: namespace: expected a text"},
        {"{\"podSpec\":{},\"namespace\":\"kube-system\"}",
         "payload: namespace: 'kube-system' is not one of those that this executor may use"},
        {"{\"podSpec\":{},\"labels\":[]}", "payload: labels: expected an object"},
        {"{\"podSpec\":{},\"labels\":{\"a\":1}}", "payload: labels: a: expected a text"},
        {"{\"podSpec\":{},\"labels\":{\"tenax.dev/run\":\"9\"}}",
         "payload: labels: tenax.dev/run is for the executor to set"},
        {"{\"podSpec\":{},\"annotations\":{\"tenax.dev/queue\":\"9\"}}",
         "payload: annotations: tenax.dev/queue is for the executor to set"},
        {"{\"podSpec\":{},\"podSpec\":{}}",
         "payload: line 1, column 15: podSpec: expected every field once; this one is on line 1 "
         "already"},
        {"{\"podSpec\":{\"affinity\":5}}", "payload: affinity: affinity: expected an object"},
        {"{\"podSpec\":{\"affinity\":{\"nodeAffinity\":[]}}}",
         "payload: affinity: nodeAffinity: expected an object"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pod_job j = job_of(rows[i].payload);
        j.avoid = STR("n1");
        assert_error(&j, rows[i].says);
    }
}

/* --- the node to avoid --- */

#define NOT_N1                                                                                     \
    "{\"matchExpressions\": [{\"key\": \"kubernetes.io/hostname\", \"operator\": \"NotIn\", "      \
    "\"values\": [\"n1\"]}]}"

static void the_node_is_avoided(void **state)
{
    (void)state;
    struct pod_job j = job_of("{\"podSpec\":{" SPEC "}}");
    j.avoid = STR("n1");
    struct pod_manifest m = make(&j, POD_AVOID_REQUIRED);
    assert_has(m.body, "\"affinity\": {\"nodeAffinity\": "
                       "{\"requiredDuringSchedulingIgnoredDuringExecution\": "
                       "{\"nodeSelectorTerms\": [" NOT_N1 "]}}}");
    assert_has(m.body, "\"tenax.dev/avoid-node\": \"n1 (required)\"");
    j = job_of("{\"podSpec\":{" SPEC "}}");
    j.avoid = STR("n1");
    m = make(&j, POD_AVOID_PREFERRED);
    assert_has(m.body, "\"preferredDuringSchedulingIgnoredDuringExecution\": [{\"weight\": 100, "
                       "\"preference\": " NOT_N1 "}]");
    assert_has(m.body, "\"tenax.dev/avoid-node\": \"n1 (preferred)\"");
    assert_null(memmem(m.body.at, m.body.len, "required", 8));
}

static void what_the_payload_asks_of_nodes_stays(void **state)
{
    (void)state;
    struct pod_job j =
        job_of("{\"podSpec\":{" SPEC ",\"affinity\":{\"podAffinity\":{},\"nodeAffinity\":{"
               "\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":1}],"
               "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":["
               "{\"matchExpressions\":[{\"key\":\"gpu\",\"operator\":\"Exists\"}]},"
               "{\"matchFields\":[]}]}}}}}");
    j.avoid = STR("n1");
    struct pod_manifest m = make(&j, POD_AVOID_REQUIRED);
    assert_has(m.body,
               "\"nodeSelectorTerms\": [{\"matchExpressions\": [{\"key\": \"gpu\", \"operator\": "
               "\"Exists\"}, {\"key\": \"kubernetes.io/hostname\", \"operator\": \"NotIn\", "
               "\"values\": [\"n1\"]}]}, {\"matchFields\": [], \"matchExpressions\": [{\"key\": "
               "\"kubernetes.io/hostname\", \"operator\": \"NotIn\", \"values\": [\"n1\"]}]}]");
    assert_has(m.body, "\"preferredDuringSchedulingIgnoredDuringExecution\": [{\"weight\": 1}]");
    assert_has(m.body, "\"podAffinity\": {}");
}

static void avoiding_is_required_until_its_time_or_until_no_node_fits(void **state)
{
    (void)state;
    struct pod_job j = job_of("null");
    assert_int_equal(pod_manifest_avoid(&j, (instant){0}, false), POD_AVOID_NOTHING);
    j.avoid = STR("n1");
    j.avoid_until = (instant){1000};
    assert_int_equal(pod_manifest_avoid(&j, (instant){999}, false), POD_AVOID_REQUIRED);
    assert_int_equal(pod_manifest_avoid(&j, (instant){999}, true), POD_AVOID_PREFERRED);
    assert_int_equal(pod_manifest_avoid(&j, (instant){1000}, false), POD_AVOID_PREFERRED);
}

/* --- resources --- */

#define WITH(resources)                                                                            \
    "{\"podSpec\":{\"containers\":[{\"name\":\"main\",\"resources\":" resources "}]}}"

static void what_a_rule_has_grown_grows_in_the_pod(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        uint64_t memory, memory_from, cpu, cpu_from;
        const char *has;
    } rows[] = {
        {WITH("{\"limits\":{\"memory\":\"1Gi\"},\"requests\":{\"memory\":\"512Mi\"}}"), 2 * GI, GI,
         0, 0, "{\"limits\": {\"memory\": \"2Gi\"}, \"requests\": {\"memory\": \"1Gi\"}}"},
        {WITH("{\"limits\":{\"memory\":\"1Gi\"},\"requests\":{\"memory\":\"512Mi\"}}"), GI, 0, 0, 0,
         "{\"limits\": {\"memory\": \"1Gi\"}, \"requests\": {\"memory\": \"512Mi\"}}"},
        {WITH("{\"limits\":{\"cpu\":2,\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"0.5\"}}"), GI, 0,
         3000, 2000,
         "{\"limits\": {\"cpu\": \"3\", \"memory\": \"1Gi\"}, \"requests\": {\"cpu\": "
         "\"750m\"}}"},
        {WITH("{}"), 2 * GI, GI, 0, 0,
         "{\"limits\": {\"memory\": \"2Gi\"}, \"requests\": {\"memory\": \"2Gi\"}}"},
        {WITH("null"), 0, 0, 500, 0,
         "{\"limits\": {\"cpu\": \"500m\"}, \"requests\": {\"cpu\": \"500m\"}}"},
        {WITH("{\"requests\":{\"memory\":\"100\"}}"), 3, 2, 0, 0, "{\"memory\": \"150\"}"},
        {WITH("{\"requests\":{\"memory\":\"101\"}}"), 3, 2, 0, 0, "{\"memory\": \"152\"}"},
        {WITH("{\"requests\":{\"memory\":\"1Ei\"}}"), 3, 2, 0, 0, "{\"memory\": \"1Ei\"}"},
        {WITH("{\"limits\":{\"memory\":null}}"), GI, 0, 0, 0, "\"limits\": {\"memory\": \"1Gi\"}"},
        {"{\"podSpec\":{\"initContainers\":[{\"resources\":{\"limits\":{\"memory\":\"1Gi\"}}}],"
         "\"containers\":[{\"resources\":{\"limits\":{\"memory\":\"2Gi\"}}},{}]}}",
         3 * GI, 2 * GI, 0, 0,
         "\"initContainers\": [{\"resources\": {\"limits\": {\"memory\": \"1536Mi\"}}}], "
         "\"containers\": [{\"resources\": {\"limits\": {\"memory\": \"3Gi\"}}}, {}]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pod_job j = job_of(rows[i].payload);
        j.memory = rows[i].memory;
        j.memory_from = rows[i].memory_from;
        j.cpu = rows[i].cpu;
        j.cpu_from = rows[i].cpu_from;
        assert_has(make(&j, POD_AVOID_NOTHING).body, rows[i].has);
    }
    struct pod_job j = job_of(WITH("{\"limits\":{\"memory\":\"much\"}}"));
    j.memory = 2 * GI;
    j.memory_from = GI;
    assert_error(&j, "payload: resources: limits: memory: expected an amount, found \"much\"");
}

static void a_pod_s_requests_are_added_up_as_a_scheduler_does(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        uint64_t memory, cpu;
    } rows[] = {
        {"{\"podSpec\":{" SPEC "}}", 0, 0},
        {"{\"podSpec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"500m\"},\"limits\":"
         "{\"cpu\":\"1\",\"memory\":\"1Gi\"}}},{\"resources\":{\"requests\":{\"cpu\":1,\"memory\":"
         "\"1Gi\"}}}]}}",
         2 * GI, 1500},
        {"{\"podSpec\":{\"initContainers\":[{\"resources\":{\"requests\":{\"cpu\":\"3\"}}}],"
         "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}}",
         0, 3000},
        {"{\"podSpec\":{\"initContainers\":[{\"restartPolicy\":\"Always\",\"resources\":{"
         "\"requests\":{\"cpu\":\"1\"}}},{\"resources\":{\"requests\":{\"cpu\":\"3\"}}}],"
         "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}}",
         0, 4000},
        {"{\"podSpec\":{\"containers\":[{\"resources\":{\"requests\":{\"memory\":\"1Ei\"}}},"
         "{\"resources\":{\"requests\":{\"memory\":\"1Ei\"}}}]}}",
         (uint64_t)1 << 60, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pod_job j = job_of(rows[i].payload);
        struct pod_manifest m = make(&j, POD_AVOID_NOTHING);
        assert_int_equal(m.memory, rows[i].memory);
        assert_int_equal(m.cpu, rows[i].cpu);
    }
}

/* --- templates --- */

static void use_template(const char *text)
{
    struct kube_template *t = NULL;
    struct document_fault fault;
    if (text && !kube_template_read(str_from(text), &memory, &t, &fault))
        fail_msg("%s", fault.expected);
    style.template = t;
}

static void a_template_is_filled_with_job_and_payload(void **state)
{
    (void)state;
    use_template("apiVersion: v1\n"
                 "kind: Pod\n"
                 "metadata:\n"
                 "  name: whatever\n"
                 "  labels: {app: \"{{app}}\"}\n"
                 "spec:\n"
                 "  containers:\n"
                 "    - name: main\n"
                 "      image: {{payload.image}}\n"
                 "      args: [\"{{job.id}}\", \"{{job.run}}\", \"{{mail.to}}\"]\n"
                 "      resources: {limits: {memory: 1Gi}}\n");
    struct pod_job j = job_of("{\"app\":\"x\",\"image\":\"i:1\",\"mail\":{\"to\":\"a\\\", b\"}}");
    j.run = 1;
    j.memory = 2 * GI;
    j.memory_from = GI;
    struct pod_manifest m = make(&j, POD_AVOID_NOTHING);
    assert_has(m.body, "\"name\": \"tenax-" ID "-0-1\"");
    assert_has(m.body, "\"labels\": {\"app\": \"x\", \"tenax.dev/job\"");
    assert_has(m.body, "\"image\": \"i:1\"");
    assert_has(m.body, "[\"" ID "\", \"1\", \"a\\\", b\"]");
    assert_has(m.body, "{\"limits\": {\"memory\": \"2Gi\"}}");
    assert_has(m.body, "\"restartPolicy\": \"Never\"");
    /* The template itself stays as it is. */
    j.memory_from = 0;
    assert_has(make(&j, POD_AVOID_NOTHING).body, "{\"limits\": {\"memory\": \"1Gi\"}}");
    j = job_of("{\"app\":\"x\",\"mail\":{\"to\":\"b\"}}");
    assert_error(&j, "template: line 9, column 14: expected a value for {{payload.image}}, found "
                     "none");
    use_template("namespace: other\npodSpec: {containers: [{name: main, image: \"{{image}}\"}]}\n");
    j = job_of("{\"image\":\"i\"}");
    m = make(&j, POD_AVOID_NOTHING);
    assert_true(str_eq(m.namespace, STR("other")));
    use_template("kind: Pod\n");
    assert_error(&j, "template: spec: expected an object: a pod's spec");
    j = job_of("{");
    struct pod_manifest none;
    assert_int_equal(pod_manifest_make(&style, &j, true, POD_AVOID_NOTHING, &memory, &none).code,
                     ERR_BAD_JSON);
    use_template(NULL);
}

static void a_template_that_can_make_no_pod_is_known_without_a_job(void **state)
{
    static const struct {
        const char *text, *path, *expected; /* NULL: it is good */
        unsigned line;
    } texts[] = {
        {"podSpec: {containers: [{name: a}]}", NULL, NULL, 0},
        {"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: {{image}}}]}", NULL, NULL, 0},
        {"spec: {containers: [{name: a}]}", NULL, NULL, 0},
        {"- a", "", "a mapping: a pod, or a payload with podSpec", 1},
        {"a: 1\nkind: Deployment\nspec: {}", "kind", "Pod", 2},
        {"apiVersion: v2\nkind: Pod\nspec: {}", "apiVersion", "v1", 1},
        {"kind: Pod", "spec", "a mapping: a pod's spec", 1},
        {"podSpec: {{spec}}", "podSpec", "a mapping: a pod's spec", 1},
        {"podSpec:\n  nodeName: a", "podSpec.containers", "a list of at least one container", 2},
        {"spec:\n  containers: []", "spec.containers", "a list of at least one container", 2},
        {"spec:\n  containers: {{all}}", "spec.containers", "a list of at least one container", 2},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct document_fault fault = {0};
        use_template(texts[i].text);
        bool good = pod_manifest_check_template(style.template, &fault);
        assert_int_equal(good, !texts[i].expected);
        if (good)
            continue;
        assert_string_equal(fault.path, texts[i].path);
        assert_string_equal(fault.expected, texts[i].expected);
        assert_int_equal(fault.line, texts[i].line);
    }
    use_template(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_job_is_read_as_the_server_describes_it, tear_down),
        cmocka_unit_test_teardown(pods_are_named_by_job_and_run, tear_down),
        cmocka_unit_test_teardown(a_payload_is_the_pod, tear_down),
        cmocka_unit_test_teardown(a_payload_that_is_no_pod_is_the_job_s_fault, tear_down),
        cmocka_unit_test_teardown(the_node_is_avoided, tear_down),
        cmocka_unit_test_teardown(what_the_payload_asks_of_nodes_stays, tear_down),
        cmocka_unit_test(avoiding_is_required_until_its_time_or_until_no_node_fits),
        cmocka_unit_test_teardown(what_a_rule_has_grown_grows_in_the_pod, tear_down),
        cmocka_unit_test_teardown(a_pod_s_requests_are_added_up_as_a_scheduler_does, tear_down),
        cmocka_unit_test_teardown(a_template_is_filled_with_job_and_payload, tear_down),
        cmocka_unit_test_teardown(a_template_that_can_make_no_pod_is_known_without_a_job,
                                  tear_down),
    };
    return cmocka_run_group_tests_name("pod_manifest", tests, NULL, NULL);
}
