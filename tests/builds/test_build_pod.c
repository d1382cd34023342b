/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_pod.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "kube/kube_template.h"
#include "wire/json_same.h"

static struct arena arena;
static struct build_settings settings;
static struct build_pod pod;
static const char *pods; /* the folder of whole manifests */

static char *no_variable(const char *name)
{
    (void)name;
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(build_settings_read(&settings, NULL, no_variable).code, ERR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    build_settings_free(&settings);
    settings = (struct build_settings){0};
    arena_reset(&arena);
    return 0;
}

static void set(enum build_setting which, const char *text)
{
    assert_int_equal(build_settings_set(&settings, which, text).code, ERR_OK);
}

static const struct document_node *tree(struct str text)
{
    struct document_list list;
    struct document_fault fault;
    assert_true(document_read(arena_copy(&arena, text), DOCUMENT_JSON, &arena, &list, &fault));
    return list.first;
}

/* Makes the pod of a buildConfig. */
static struct err make(const char *config)
{
    struct build_pod_template *t;
    struct err e = build_pod_template_read(&settings, &t);
    if (e.code == ERR_OK)
        e = build_pod_make(t, tree(str_from(config)), &arena, &pod);
    build_pod_template_free(t);
    return e;
}

/* The same of a build with these members more, or instead. */
static struct err make_with(const char *members)
{
    static const char *const usual[] = {"\"buildId\":7",       "\"container\":\"node:18\"",
                                        "\"token\":\"a.b.c\"", "\"jobId\":1",
                                        "\"eventId\":2",       "\"pipeline\":{\"id\":3}"};
    struct buf b = {0};
    buf_print(&b, "{%s", members);
    for (size_t i = 0; i < COUNT(usual); i++) {
        size_t key = (size_t)(strchr(usual[i], ':') - usual[i]) + 1;
        if (!memmem(members, strlen(members), usual[i], key))
            buf_print(&b, "%s%s", b.len > 1 ? "," : "", usual[i]);
    }
    buf_lit(&b, "}\0");
    struct err e = make(b.at);
    buf_fini(&b);
    return e;
}

static struct str value_at(const char *path)
{
    const struct document_node *n = kube_template_path(tree(pod.json), str_from(path));
    return n ? n->text : (struct str){0};
}

static void equal_str(struct str is, const char *should)
{
    if (!str_eq(is, str_from(should)))
        fail_msg("'%.*s' should be '%s'", STR_ARG(is), should);
}

static void refused(struct err e, enum err_code code, const char *part)
{
    assert_int_equal(e.code, code);
    if (!strstr(e.msg, part))
        fail_msg("'%s' should contain '%s'", e.msg, part);
}

/* --- whole pods --- */

static void same_as(const char *file)
{
    struct buf path = {0}, text = {0};
    buf_print(&path, "%s/%s", pods, file);
    buf_byte(&path, '\0');
    assert_int_equal(document_load(path.at, &text).code, ERR_OK);
    if (!json_same(buf_view(&text), pod.json, &arena))
        fail_msg("differs from %s: %.*s", file, STR_ARG(pod.json));
    buf_fini(&path);
    buf_fini(&text);
}

static void a_build_by_the_defaults(void **state)
{
    (void)state;
    struct err e = make("{\"buildId\":1993,\"jobId\":777,\"eventId\":2222,\"jobName\":\"main\","
                        "\"container\":\"node:18\",\"token\":\"a.b.c\","
                        "\"pipeline\":{\"id\":123,\"name\":\"screwdriver-cd/guide\"}}");
    assert_int_equal(e.code, ERR_OK);
    same_as("defaults.json");
}

static void a_build_with_everything(void **state)
{
    (void)state;
    set(BUILD_PREFIX, "sd-");
    set(BUILD_CACHE_STRATEGY, "disk");
    set(BUILD_CACHE_PATH, "/caches/");
    set(BUILD_DOCKER, "true");
    set(BUILD_PRIVILEGED, "true");
    set(BUILD_AUTOMOUNT, "true");
    set(BUILD_RUNTIME_CLASS, "kata");
    set(BUILD_PULL_SECRET, "pull");
    set(BUILD_PUSHGATEWAY, "http://push:9091");
    set(BUILD_DISK_SPEED, "example.com/disk");
    set(BUILD_NODE_SELECTORS, "{\"dedicated\":\"builds\"}");
    set(BUILD_PREFERRED_SELECTORS, "{\"zone\":\"a\"}");
    set(BUILD_ANNOTATIONS, "{\"example.com/note\":\"yes\"}");
    set(BUILD_POD_LABELS, "{\"team\":\"a b\"}");
    set(BUILD_HOOKS, "{\"preStop\":{\"exec\":{\"command\":[\"sleep\",\"1\"]}}}");
    set(BUILD_VOLUME_MOUNTS, "[{\"name\":\"kvm\",\"mountPath\":\"/dev/kvm\",\"path\":\"/dev/kvm/\","
                             "\"type\":\"File\",\"readOnly\":\"true\"}]");
    set(BUILD_BUILD_SECRETS,
        "[{\"secret_env\":\"CA\",\"secret_name\":\"sd\",\"secret_key\":\"private\"}]");
    set(BUILD_BUILD_SECRET_FILES,
        "[{\"name\":\"cert\",\"mountPath\":\"/cert\",\"secretName\":\"c\"}]");
    struct err e = make(
        "{\"buildId\":\"42\",\"jobId\":9,\"eventId\":5,\"jobName\":\"PR-12:main\",\"prNum\":12,"
        "\"container\":\"example.com/i:1\",\"pipeline\":{\"id\":3,\"name\":\"o/r\"},"
        "\"template\":{\"fullName\":\"ns/t\",\"version\":\"1.2.3\"},"
        /* {"prParentJobId":555} */
        "\"token\":\"e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln\",\"annotations\":{"
        "\"screwdriver.cd/cpu\":\"HIGH\",\"beta.screwdriver.cd/ram\":3,"
        "\"screwdriver.cd/disk\":\"TURBO\",\"screwdriver.cd/diskSpeed\":\"High\","
        "\"screwdriver.cd/timeout\":20,\"screwdriver.cd/terminationGracePeriodSeconds\":99.5,"
        "\"screwdriver.cd/dockerEnabled\":true,\"screwdriver.cd/dockerCpu\":\"MICRO\","
        "\"screwdriver.cd/rootlessBuildkitEnabled\":true}}");
    assert_int_equal(e.code, ERR_OK);
    same_as("everything.json");
}

/* --- names --- */

static void a_message_asks_for_the_same_pod_again(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *id, *name;
    } rows[] = {{"", "1993", "1993-"}, {"", "1994", "1994-"}, {"beta-", "1993", "beta-1993-"}};
    struct str names[COUNT(rows)];
    for (size_t i = 0; i < COUNT(rows); i++) {
        char config[120];
        set(BUILD_PREFIX, rows[i].prefix);
        snprintf(config, sizeof config, "{\"buildId\":%s,\"container\":\"a\",\"token\":\"t%zu\"}",
                 rows[i].id, i);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(make(config).code, ERR_OK);
            assert_memory_equal(pod.name.at, rows[i].name, strlen(rows[i].name));
            assert_int_equal(pod.name.len, strlen(rows[i].name) + 5);
            assert_true(!again || str_eq(names[i], pod.name));
            names[i] = pod.name;
        }
        assert_true(i == 0 || memcmp(names[i].at + names[i].len - 5,
                                     names[i - 1].at + names[i - 1].len - 5, 5) != 0);
    }
    /* Versions agree on it. */
    equal_str(names[0], "1993-2nbw2");
    equal_str(names[2], "beta-1993-7kv9y");
}

static void what_can_be_no_label_is_refused(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "",    "-1",  "a/b",
        "..",  "1 2", "1-",
        "1\n", "ä",   "1234567890123456789012345678901234567890123456789012345"};
    struct str out;
    for (size_t i = 0; i < COUNT(ids); i++)
        refused(build_pod_label(&settings, str_from(ids[i]), &arena, &out), ERR_BAD_VALUE,
                "buildConfig.buildId");
    set(BUILD_PREFIX, "beta-");
    assert_int_equal(build_pod_label(&settings, STR("7"), &arena, &out).code, ERR_OK);
    equal_str(out, "beta-7");
    set(BUILD_PREFIX, "a/b");
    refused(make_with(""), ERR_USAGE, "EXECUTOR_PREFIX");
    set(BUILD_PREFIX, "-a");
    refused(make_with(""), ERR_USAGE, "EXECUTOR_PREFIX");
}

/* --- what a build asks for --- */

static void annotations_count_within_limits(void **state)
{
    (void)state;
    static const struct {
        const char *annotations, *path, *value;
    } rows[] = {
        {"\"screwdriver.cd/cpu\":\"MAX\"", "spec.containers.0.resources.limits.cpu", "12000m"},
        {"\"screwdriver.cd/cpu\":0", "spec.containers.0.resources.limits.cpu", "2000m"},
        {"\"screwdriver.cd/cpu\":-3", "spec.containers.0.resources.limits.cpu", "2000m"},
        {"\"screwdriver.cd/cpu\":3.0", "spec.containers.0.resources.limits.cpu", "3000m"},
        {"\"screwdriver.cd/cpu\":1e300", "spec.containers.0.resources.limits.cpu", "2000m"},
        {"\"screwdriver.cd/cpu\":[]", "spec.containers.0.resources.limits.cpu", "2000m"},
        {"\"screwdriver.cd/ram\":\"MAX\"", "spec.containers.0.resources.limits.memory", "2Gi"},
        {"\"screwdriver.cd/ram\":17", "spec.containers.0.resources.limits.memory", "16Gi"},
        {"\"screwdriver.cd/ram\":null", "spec.containers.0.resources.limits.memory", "2Gi"},
        {"\"screwdriver.cd/terminationGracePeriodSeconds\":1e300",
         "spec.terminationGracePeriodSeconds", "2147483647"},
        {"\"screwdriver.cd/terminationGracePeriodSeconds\":\"61\"",
         "spec.terminationGracePeriodSeconds", "61"},
        {"\"screwdriver.cd/terminationGracePeriodSeconds\":-1",
         "spec.terminationGracePeriodSeconds", "60"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[160];
        snprintf(members, sizeof members, "\"annotations\":{%s}", rows[i].annotations);
        assert_int_equal(make_with(members).code, ERR_OK);
        equal_str(value_at(rows[i].path), rows[i].value);
    }
}

static void minutes_count_within_limits(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"1", "\"1\""},   {"1.5", "\"1.5\""},   {"121", "\"120\""},    {"0", "\"90\""},
        {"-5", "\"90\""}, {"\"30\"", "\"30\""}, {"\"x\"", "\"90\""},   {"true", "\"90\""},
        {"{}", "\"90\""}, {"1e300", "\"120\""}, {"\"1;id\"", "\"90\""}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[80], args[160];
        snprintf(members, sizeof members, "\"annotations\":{\"screwdriver.cd/timeout\":%s}",
                 rows[i][0]);
        snprintf(args, sizeof args,
                 "/opt/sd/run.sh \"a.b.c\" \"https://api.screwdriver.cd\" "
                 "\"https://store.screwdriver.cd\" %s \"7\" \"https://cd.screwdriver.cd\"\n",
                 rows[i][1]);
        assert_int_equal(make_with(members).code, ERR_OK);
        equal_str(value_at("spec.containers.0.args.0"), args);
    }
}

static void a_pull_request_reads_the_caches_of_its_parent(void **state)
{
    (void)state;
    static const struct {
        const char *job, *token, *path;
        bool read_only;
    } rows[] = {
        {"main", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/1", false},
        {"PR-12", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/555", true},
        {"pr-12:main", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/555", true},
        {"PR-12:stage@canary:setup", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/555", true},
        {"PR-12x", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/1", false},
        {"PR-12:", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/1", false},
        {"PR-", "e30.eyJwclBhcmVudEpvYklkIjo1NTV9.c2ln", "/jobs/3/1", false},
        {"PR-12", "no token", "/jobs/3/1", true},
        {"PR-12", "a.b", "/jobs/3/1", true},
        {"PR-12", "a.!!.c", "/jobs/3/1", true},
        {"PR-12", "a.bnVsbA.c", "/jobs/3/1", true},                           /* null */
        {"PR-12", "e30.eyJwclBhcmVudEpvYklkIjpudWxsfQ.c", "/jobs/3/1", true}, /* null in it */
        /* {"prParentJobId":"../../x"} */
        {"PR-12", "e30.eyJwclBhcmVudEpvYklkIjoiLi4vLi4veCJ9.c", "/jobs/3/1", true},
    };
    set(BUILD_CACHE_STRATEGY, "disk");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[200];
        snprintf(members, sizeof members, "\"jobName\":\"%s\",\"token\":\"%s\"", rows[i].job,
                 rows[i].token);
        assert_int_equal(make_with(members).code, ERR_OK);
        equal_str(value_at("spec.volumes.5.name"), "sd-job-cache");
        equal_str(value_at("spec.volumes.5.hostPath.path"), rows[i].path);
        for (size_t mount = 4; mount <= 5; mount++) {
            char path[64];
            snprintf(path, sizeof path, "spec.containers.0.volumeMounts.%zu.readOnly", mount);
            equal_str(value_at(path), rows[i].read_only ? "true" : "false");
        }
        equal_str(value_at("spec.containers.0.volumeMounts.6.mountPath"), "/sdeventcache");
        equal_str(value_at("spec.containers.0.volumeMounts.6.readOnly"), "");
    }
}

static void members_that_are_wrong_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *members, *error;
    } rows[] = {
        {"\"container\":null", "buildConfig.container"},
        {"\"container\":\"\"", "buildConfig.container"},
        {"\"token\":5", "buildConfig.token"},
        {"\"token\":\"\"", "buildConfig.token"},
        {"\"buildId\":{}", "buildConfig.buildId"},
        {"\"jobId\":\"../..\"", "buildConfig.jobId"},
        {"\"eventId\":\"a/b\"", "buildConfig.eventId"},
        {"\"pipeline\":{\"id\":\"..\"}", "buildConfig.pipeline.id"},
        {"\"pipeline\":{\"id\":\"a\\nb\"}", "buildConfig.pipeline.id"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        refused(make_with(rows[i].members), ERR_BAD_VALUE, rows[i].error);
    set(BUILD_CACHE_STRATEGY, "disk");
    refused(make_with("\"pipeline\":null"), ERR_BAD_VALUE, "pipeline.id");
    refused(make_with("\"jobId\":null"), ERR_BAD_VALUE, "jobId");
    refused(make_with("\"eventId\":\"\""), ERR_BAD_VALUE, "eventId");
}

/* --- values stay where they belong --- */

static void values_stay_in_their_place(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "a\\\"b", "a\\nb: c\\n- d", "{{token}}", "{{#if x}}", "'",  "&lt;<>&=", "true",
        "123",    "\\ue000\\ue001", "$(id)",     "a # b",     " x "};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[80], json[80];
        snprintf(members, sizeof members, "\"container\":\"%s\"", rows[i]);
        snprintf(json, sizeof json, "{\"container\":\"%s\"}", rows[i]);
        assert_int_equal(make_with(members).code, ERR_OK);
        struct str container = document_text(tree(str_from(json)), "container");
        assert_true(str_eq(value_at("spec.containers.0.image"), container));
        assert_true(str_eq(value_at("spec.containers.0.env.4.value"), container));
        equal_str(value_at("spec.containers.0.name"), "7");
    }
}

/* The words that a shell has after it has run the arguments of the build container. */
static void shell_words(struct str args, struct buf *words)
{
    static const char run[] = "/opt/sd/run.sh ";
    char script[] = "/tmp/tenax-pod-XXXXXX", command[80];
    int fd = mkstemp(script);
    struct buf b = {0};
    assert_true(fd >= 0 && args.len > sizeof run && memcmp(args.at, run, sizeof run - 1) == 0);
    buf_lit(&b, "printf '%s|' ");
    buf_str(&b, (struct str){args.at + sizeof run - 1, args.len - (sizeof run - 1)});
    assert_int_equal(write(fd, b.at, b.len), (ssize_t)b.len);
    close(fd);
    snprintf(command, sizeof command, "sh %s", script);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    words->len = fread(buf_room(words, 4096), 1, 4096, out);
    assert_int_equal(pclose(out), 0);
    unlink(script);
    buf_fini(&b);
}

/* Kubernetes' own variables, as it expands them before it starts a container. */
static void expand_variables(struct str args, struct buf *b)
{
    for (size_t i = 0; i < args.len; i++) {
        bool two = i + 1 < args.len;
        if (args.at[i] == '$' && two && args.at[i + 1] == '$')
            i++;
        else if (args.at[i] == '$' && two && args.at[i + 1] == '(')
            fail_msg("Kubernetes would take %.20s for a variable", args.at + i);
        buf_byte(b, args.at[i]);
    }
}

static void a_token_is_one_word_of_the_script(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "a.b.c", "\\\"; exit 3; \\\"", "$(exit 3)", "`exit 3`",  "$HOME",
        "\\\\",  "$$(exit 3)",         "a\\nb",     "\\\\$(id)", "'",
        "!x",    "$((1+1))",           "${HOME}",   "$",         "x$",
        "($)("};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[80], json[80];
        snprintf(members, sizeof members, "\"token\":\"%s\"", rows[i]);
        snprintf(json, sizeof json, "{\"token\":\"%s\"}", rows[i]);
        struct str token = document_text(tree(str_from(json)), "token");
        assert_int_equal(make_with(members).code, ERR_OK);
        struct str args = value_at("spec.containers.0.args.0");
        struct buf expanded = {0}, words = {0}, should = {0};
        expand_variables(args, &expanded);
        shell_words(buf_view(&expanded), &words);
        buf_str(&should, token);
        buf_lit(&should, "|https://api.screwdriver.cd|https://store.screwdriver.cd|90|7|"
                         "https://cd.screwdriver.cd|");
        if (!str_eq(buf_view(&words), buf_view(&should)))
            fail_msg("%.*s gave %.*s", STR_ARG(args), STR_ARG(buf_view(&words)));
        buf_fini(&expanded);
        buf_fini(&words);
        buf_fini(&should);
    }
}

static void a_preview_hides_the_token(void **state)
{
    (void)state;
    struct build_pod_template *t;
    assert_int_equal(build_pod_template_read(&settings, &t).code, ERR_OK);
    assert_int_equal(
        build_pod_preview(t,
                          tree(STR("{\"buildId\":1,\"container\":\"a\",\"token\":\"s3same.x.y\"}")),
                          &arena, &pod)
            .code,
        ERR_OK);
    assert_null(memmem(pod.json.at, pod.json.len, "s3same", 6));
    assert_non_null(memmem(pod.json.at, pod.json.len, "(hidden)", 8));
    build_pod_template_free(t);
}

/* --- settings --- */

static void settings_that_make_no_pod_are_named(void **state)
{
    (void)state;
    static const struct {
        enum build_setting which;
        const char *text, *error;
    } rows[] = {
        {BUILD_VOLUME_MOUNTS, "[{\"name\":\"a\"}]", "K8S_VOLUME_MOUNTS: item 1: mountPath"},
        {BUILD_VOLUME_MOUNTS, "[{}]", "K8S_VOLUME_MOUNTS: item 1: name"},
        {BUILD_VOLUME_MOUNTS, "[5]", "K8S_VOLUME_MOUNTS: item 1 must be an object"},
        {BUILD_VOLUME_MOUNTS,
         "[{\"name\":\"a\",\"mountPath\":\"b\",\"path\":\"c\",\"readOnly\":\"maybe\"}]",
         "readOnly"},
        {BUILD_VOLUME_MOUNTS, "[{\"name\":\"a\",\"mountPath\":\"b\",\"path\":\"c\",\"type\":[]}]",
         "type must be one"},
        {BUILD_BUILD_SECRETS, "[{\"secret_env\":\"A\"}]", "K8S_SECRETS: item 1: secret_name"},
        {BUILD_BUILD_SECRETS, "[{},{}]", "K8S_SECRETS: item 1: secret_env"},
        {BUILD_BUILD_SECRET_FILES, "[{\"name\":\"A\"}]", "K8S_SECRETS_FILE: item 1: mountPath"},
        {BUILD_POD_LABELS, "{\"a\":{}}", "K8S_POD_LABELS: a must be a text"},
        {BUILD_POD_LABELS, "{\"sdbuild\":\"1\"}", "K8S_POD_LABELS: sdbuild"},
        {BUILD_NODE_SELECTORS, "{\"a\":[]}", "K8S_NODE_SELECTORS: a"},
        {BUILD_POD_TEMPLATE, "/nowhere/pod.yaml", "/nowhere/pod.yaml"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        refused((set(rows[i].which, rows[i].text), make_with("")), ERR_USAGE, rows[i].error);
        tear_down(NULL);
        set_up(NULL);
    }
}

/* --- templates --- */

/* Makes a pod by a template of one's own. */
static struct err make_by(const char *text)
{
    char file[] = "/tmp/tenax-pod-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    set(BUILD_POD_TEMPLATE, file);
    struct err e = make_with("\"annotations\":{\"screwdriver.cd/cpu\":4}");
    unlink(file);
    return e;
}

static void the_printed_template_is_the_built_in_one(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_int_equal(make_with("").code, ERR_OK);
    build_pod_template_print(&b);
    buf_byte(&b, '\0');
    assert_int_equal(make_with("\"annotations\":{\"screwdriver.cd/cpu\":4}").code, ERR_OK);
    struct str built_in = pod.json;
    assert_int_equal(make_by(b.at).code, ERR_OK);
    assert_true(str_eq(built_in, pod.json));
    buf_fini(&b);
}

#define HEAD "apiVersion: v1\nkind: Pod\n"

static void a_template_keeps_what_it_says(void **state)
{
    (void)state;
    set(BUILD_NODE_SELECTORS, "{\"a\":\"b\"}");
    set(BUILD_ANNOTATIONS, "{\"note\":\"1\"}");
    assert_int_equal(make_by(HEAD
                             "metadata: {name: x, labels: {mine: a, app: b},\n"
                             "  annotations: {mine: c}}\n"
                             "spec:\n"
                             "  tolerations: [{key: t}]\n"
                             "  affinity: {nodeAffinity: {" //
                             "requiredDuringSchedulingIgnoredDuringExecution: {\n"
                             "    nodeSelectorTerms: [{matchExpressions: [{key: k}]}, {}]}}}\n"
                             "  containers: [{name: '{{build_id_with_prefix}}', cpu: {{cpu}}}]\n")
                         .code,
                     ERR_OK);
    assert_true(str_eq(pod.name, value_at("metadata.name")));
    equal_str(value_at("metadata.labels.mine"), "a");
    equal_str(value_at("metadata.labels.app"), "screwdriver");
    equal_str(value_at("metadata.labels.sdbuild"), "7");
    equal_str(value_at("metadata.annotations.mine"), "c");
    equal_str(value_at("metadata.annotations.note"), "1");
    equal_str(value_at("spec.restartPolicy"), "Never");
    equal_str(value_at("spec.tolerations.1.key"), "a");
    equal_str(value_at("spec.containers.0.cpu"), "4000");
#define TERMS                                                                                      \
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    equal_str(value_at(TERMS ".0.matchExpressions.1.key"), "a");
    equal_str(value_at(TERMS ".1.matchExpressions.0.key"), "a");
}

static void templates_that_make_no_pod_are_refused_at_the_start(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"a: [", "closing bracket"},
        {"a: 1", "kind: Pod"},
        {HEAD "spec: 5\n", "spec must be an object"},
        {HEAD "spec: {containers: {{volume_mounts}}}\n", "line 3"},
        {HEAD "spec:\n  a: {{runtimClass}}\n", "line 4"},
        {HEAD "spec:\n  {{#if runtimClass}}\n  a: 1\n  {{/if}}\n", "line 4"},
        {HEAD "spec:\n  {{#each cpu}}\n  a: 1\n  {{/each}}\n", "line 4"},
        {HEAD "spec:\n  {{#if docker.enabled}}\n  a: 1\n", "line 4, column 3"},
        {HEAD "spec:\n  {{#with docker}}\n  a: 1\n  {{/with}}\n", "#with docker"},
        {HEAD "spec:\n  {{> part}}\n", "> part"},
        {HEAD "spec:\n  a: {{{token}}}\n", "line 4"},
        {HEAD "{{#if privileged}}\na: [\n{{else}}\nb: 1\n{{/if}}\nspec: {a: [}\n", "line 8"},
        {HEAD "spec: {affinity: []}\n", "affinity"},
    };
    set(BUILD_NODE_SELECTORS, "{\"a\":\"b\"}");
    for (size_t i = 0; i < COUNT(rows); i++)
        refused(make_by(rows[i].text), ERR_USAGE, rows[i].error);
}

int main(int argc, char **argv)
{
    assert_int_equal(argc, 2);
    pods = argv[1];
    const struct CMUnitTest tests[] = {
#define IS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        IS(a_build_by_the_defaults),
        IS(a_build_with_everything),
        IS(a_message_asks_for_the_same_pod_again),
        IS(what_can_be_no_label_is_refused),
        IS(annotations_count_within_limits),
        IS(minutes_count_within_limits),
        IS(a_pull_request_reads_the_caches_of_its_parent),
        IS(members_that_are_wrong_are_named),
        IS(values_stay_in_their_place),
        IS(a_token_is_one_word_of_the_script),
        IS(a_preview_hides_the_token),
        IS(settings_that_make_no_pod_are_named),
        IS(the_printed_template_is_the_built_in_one),
        IS(a_template_keeps_what_it_says),
        IS(templates_that_make_no_pod_are_refused_at_the_start),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&arena);
    return failed;
}
