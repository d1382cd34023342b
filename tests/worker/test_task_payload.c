/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "worker/task_payload.h"

static const struct task_limits limits = {
    .deadline = {INT64_C(1893456000000)}, /* 2030-01-01 */
    .expires = {INT64_C(1924992000000)},  /* 2031-01-01 */
};

static struct err read_text(const char *json, struct arena *a, struct task_payload *p)
{
    return task_payload_read(str_from(json), &limits, a, p);
}

static void one_command_or_several_may_be_given(void **state)
{
    (void)state;
    struct arena a = {0};
    struct task_payload p;
    assert_int_equal(
        read_text("{\"maxRunTime\":60,\"command\":[\"ls\",\"-l\",\"\\u00e4\"]}", &a, &p).code,
        ERR_OK);
    assert_int_equal(p.command_count, 1);
    assert_string_equal(p.commands[0][0], "ls");
    assert_string_equal(p.commands[0][2], "\xc3\xa4");
    assert_null(p.commands[0][3]);
    assert_int_equal(p.max_run_time.ms, 60000);
    assert_int_equal(
        read_text("{\"command\":[[\"a\"],[\"b\",\"\"]],\"maxRunTime\":1}", &a, &p).code, ERR_OK);
    assert_int_equal(p.command_count, 2);
    assert_string_equal(p.commands[1][1], "");
    assert_null(p.commands[1][2]);
    arena_fini(&a);
}

static void everything_else_may_be_given_too(void **state)
{
    (void)state;
    struct arena a = {0};
    struct task_payload p;
    struct err e =
        read_text("{\"command\":[\"x\"],\"maxRunTime\":1e3,\"env\":{\"A\":\"1\",\"B\":\"\"},"
                  "\"onExitStatus\":{\"retry\":[1,255,1073807364]},\"artifacts\":["
                  "{\"type\":\"file\",\"path\":\"./a//b\"},"
                  "{\"type\":\"directory\",\"path\":\".\",\"name\":\"all\",\"optional\":true,"
                  "\"contentType\":\"text/x\",\"expires\":\"2030-06-01T00:00:00Z\"}]}",
                  &a, &p);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(p.max_run_time.ms, 1000000);
    assert_int_equal(p.env_count, 2);
    assert_string_equal(p.env[0], "A=1");
    assert_string_equal(p.env[1], "B=");
    assert_true(task_payload_retries(&p, 1) && task_payload_retries(&p, 255));
    assert_false(task_payload_retries(&p, 0) || task_payload_retries(&p, 2));
    assert_int_equal(p.artifact_count, 2);
    assert_string_equal(p.artifacts[0].path, "a/b");
    assert_string_equal(p.artifacts[0].name, "a/b");
    assert_int_equal(p.artifacts[0].type, TASK_FILE);
    assert_false(instant_is_set(p.artifacts[0].expires));
    assert_string_equal(p.artifacts[1].path, "");
    assert_int_equal(p.artifacts[1].type, TASK_DIRECTORY);
    assert_true(p.artifacts[1].optional && instant_is_set(p.artifacts[1].expires));
    arena_fini(&a);
}

static void what_asks_for_nothing_may_be_there(void **state)
{
    (void)state;
    static const char text[] =
        "{\"command\":[\"x\"],\"maxRunTime\":1,\"features\":{\"liveLog\":true,\"chainOfTrust\":"
        "false,"
        "\"interactive\":null},\"mounts\":[],\"osGroups\":[],\"logs\":{\"live\":"
        "\"public/logs/live.log\",\"backing\":\"public/logs/"
        "live_backing.log\"},\"supersederUrl\":\"https://x\","
        "\"artifacts\":[{\"path\":\"a\",\"contentEncoding\":\"gzip\"}],"
        "\"onExitStatus\":{\"purgeCaches\":[0,125]}}";
    struct arena a = {0};
    struct task_payload p;
    const struct err e = read_text(text, &a, &p);
    assert_string_equal(e.code == ERR_OK ? "" : e.msg, "");
    assert_false(task_payload_retries(&p, 125));
    arena_fini(&a);
}

static void faults_say_where_they_are(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "payload: "},
        {"[]", "payload: expected an object, found an array"},
        {"{} x", "payload: "},
        {"{\"maxRunTime\":1}", "payload: the member command is missing"},
        {"{\"command\":[\"x\"]}", "payload: the member maxRunTime is missing"},
        {"{\"command\":\"ls\"}", "payload.command: expected an array, found a string"},
        {"{\"command\":[]}", "payload.command: it must name what to run"},
        {"{\"command\":[\"\"]}", "payload.command: it must name what to run"},
        {"{\"command\":[[]]}", "payload.command[0]: it must name what to run"},
        {"{\"command\":[[\"a\"],\"b\"]}", "payload.command[1]: expected an array, found a string"},
        {"{\"command\":[\"a\",[\"b\"]]}", "payload.command[1]: expected a string, found an array"},
        {"{\"command\":[\"a\\u0000b\"]}", "payload.command[0]: it must not contain"},
        {"{\"command\":[\"a\"],\"command\":[\"a\"]}", "payload.command: it is there twice"},
        {"{\"env\":[]}", "payload.env: expected an object, found an array"},
        {"{\"env\":{\"A\":1}}", "payload.env.A: expected a string, found a number"},
        {"{\"env\":{\"A=B\":\"1\"}}", "payload.env.A=B: the name of a variable"},
        {"{\"env\":{\"\":\"1\"}}", "payload.env.: the name of a variable"},
        {"{\"maxRunTime\":0}", "payload.maxRunTime: "},
        {"{\"maxRunTime\":-1}", "payload.maxRunTime: "},
        {"{\"maxRunTime\":1.5}", "payload.maxRunTime: "},
        {"{\"maxRunTime\":1e99}", "payload.maxRunTime: "},
        {"{\"maxRunTime\":\"1\"}", "payload.maxRunTime: expected a number, found a string"},
        {"{\"image\":\"debian\"}", "payload.image: this worker knows no such member"},
        {"{\"features\":{\"chainOfTrust\":true}}",
         "payload.features.chainOfTrust: this worker does not have it"},
        {"{\"features\":{\"taskclusterProxy\":1}}", "payload.features.taskclusterProxy: expected"},
        {"{\"features\":[]}", "payload.features: expected an object"},
        {"{\"mounts\":[{\"file\":\"a\"}]}", "payload.mounts[0]: this worker has no mounts"},
        {"{\"osGroups\":[\"docker\"]}", "payload.osGroups[0]: this worker runs tasks as the user"},
        {"{\"logs\":{\"live\":\"public/l.log\"}}",
         "payload.logs.live: the log of this worker's tasks"},
        {"{\"features\":{},\"features\":{}}", "payload.features: it is there twice"},
        {"{\"supersederUrl\":5}", "payload.supersederUrl: expected"},
        {"{\"artifacts\":[{\"path\":\"a\",\"contentEncoding\":\"br\"}]}",
         "payload.artifacts[0].contentEncoding: expected \"gzip\""},
        {"{\"onExitStatus\":{\"purgeCaches\":[\"a\"]}}",
         "payload.onExitStatus.purgeCaches[0]: expected"},
        {"{\"artifacts\":{}}", "payload.artifacts: expected an array, found an object"},
        {"{\"artifacts\":[{}]}", "payload.artifacts[0]: the member path is missing"},
        {"{\"artifacts\":[{\"path\":\"..\"}]}", "payload.artifacts[0].path: it leads out"},
        {"{\"artifacts\":[{\"path\":\"a/../../b\"}]}", "payload.artifacts[0].path: it leads out"},
        {"{\"artifacts\":[{\"path\":\"/etc/passwd\"}]}", "payload.artifacts[0].path: it leads out"},
        {"{\"artifacts\":[{\"path\":\".\"}]}", "payload.artifacts[0]: path names no file"},
        {"{\"artifacts\":[{\"path\":\"\\u00e4\"}]}",
         "payload.artifacts[0]: path cannot be its name"},
        {"{\"artifacts\":[{\"path\":\"a\",\"type\":\"link\"}]}",
         "payload.artifacts[0].type: expected"},
        {"{\"artifacts\":[{\"path\":\"a\",\"name\":\"\"}]}", "payload.artifacts[0].name: expected"},
        {"{\"artifacts\":[{\"path\":\"a\",\"contentType\":\"a\\nb\"}]}",
         "payload.artifacts[0].contentType: expected"},
        {"{\"artifacts\":[{\"path\":\"a\",\"name\":\"public/logs/live.log\"}]}",
         "payload.artifacts[0]: the worker itself"},
        {"{\"artifacts\":[{\"path\":\"a\"},{\"path\":\"./a\"}]}",
         "payload.artifacts[1]: another artifact has the same name"},
        {"{\"artifacts\":[{\"path\":\"a\",\"expires\":\"soon\"}]}",
         "payload.artifacts[0].expires: expected a date"},
        {"{\"artifacts\":[{\"path\":\"a\",\"expires\":\"2029-01-01T00:00:00Z\"}]}",
         "payload.artifacts[0].expires: it is before the task's deadline"},
        {"{\"artifacts\":[{\"path\":\"a\",\"expires\":\"2039-01-01T00:00:00Z\"}]}",
         "payload.artifacts[0].expires: it is after the task expires"},
        {"{\"artifacts\":[{\"path\":\"a\",\"optional\":1}]}",
         "payload.artifacts[0].optional: expected a boolean, found a number"},
        {"{\"artifacts\":[{\"path\":\"a\",\"zip\":true}]}",
         "payload.artifacts[0].zip: this worker"},
        {"{\"onExitStatus\":{\"retry\":[0]}}", "payload.onExitStatus.retry[0]: "},
        {"{\"onExitStatus\":{\"retry\":[4294967296]}}", "payload.onExitStatus.retry[0]: "},
        {"{\"logs\":{\"live\":\"public/logs/live_backing.log\"}}", "payload.logs.live: "},
        {"{\"logs\":{\"backing\":\"public/l.log\"}}", "payload.logs.backing: "},
        {"{\"onExitStatus\":{\"purge\":[]}}", "payload.onExitStatus.purge: this worker"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a = {0};
        struct task_payload p;
        struct err e = read_text(cases[i][0], &a, &p);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        if (strncmp(e.msg, cases[i][1], strlen(cases[i][1])) != 0)
            fail_msg("%s: %s", cases[i][0], e.msg);
        arena_fini(&a);
    }
}

static void a_worker_may_limit_the_time(void **state)
{
    (void)state;
    struct arena a = {0};
    struct task_payload p;
    struct task_limits less = limits;
    less.run_time.ms = 60000;
    static const char text[] = "{\"command\":[\"x\"],\"maxRunTime\":60}";
    static const char more[] = "{\"command\":[\"x\"],\"maxRunTime\":61}";
    assert_int_equal(task_payload_read(str_from(text), &less, &a, &p).code, ERR_OK);
    assert_int_equal(task_payload_read(str_from(more), &less, &a, &p).code, ERR_BAD_VALUE);
    arena_fini(&a);
}

/* A list of so many elements is refused, and one with one less is not. */
static void try_list(const char *before, const char *element, const char *after, size_t refused)
{
    for (size_t count = refused - 1; count <= refused; count++) {
        struct arena a = {0};
        struct buf b = {0};
        struct task_payload p;
        buf_str(&b, str_from(before));
        for (size_t i = 0; i < count; i++) {
            buf_str(&b, str_from(i ? "," : ""));
            char text[64];
            snprintf(text, sizeof text, element, i);
            buf_str(&b, str_from(text));
        }
        buf_str(&b, str_from(after));
        assert_int_equal(task_payload_read(buf_view(&b), &limits, &a, &p).code,
                         count == refused ? ERR_BAD_VALUE : ERR_OK);
        buf_fini(&b);
        arena_fini(&a);
    }
}

static void nothing_is_without_number(void **state)
{
    (void)state;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    try_list("{\"maxRunTime\":1,\"command\":[", "\"w%zu\"", "]}", TASK_WORDS_MAX);
    try_list("{\"maxRunTime\":1,\"command\":[", "[\"w%zu\"]", "]}", TASK_COMMANDS_MAX + 1);
    try_list("{\"maxRunTime\":1,\"command\":[\"x\"],\"env\":{", "\"V%zu\":\"\"", "}}",
             TASK_ENV_MAX + 1);
    try_list("{\"maxRunTime\":1,\"command\":[\"x\"],\"artifacts\":[", "{\"path\":\"%zu\"}", "]}",
             TASK_ARTIFACTS_MAX + 1);
#pragma GCC diagnostic pop
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_command_or_several_may_be_given),
        cmocka_unit_test(everything_else_may_be_given_too),
        cmocka_unit_test(what_asks_for_nothing_may_be_there),
        cmocka_unit_test(faults_say_where_they_are),
        cmocka_unit_test(a_worker_may_limit_the_time),
        cmocka_unit_test(nothing_is_without_number),
    };
    return cmocka_run_group_tests_name("worker/task_payload", tests, NULL, NULL);
}
