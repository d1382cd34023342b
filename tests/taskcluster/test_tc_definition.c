/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "taskcluster/tc_definition.h"

/* 2030-01-01T00:00:00Z */
#define NOW ((instant){INT64_C(1893456000000)})
#define ID  STR("fN1SbArXTPSVFUUvaOlinQ")

#define BODY(members)                                                                              \
    "{\"taskQueueId\":\"p/w\",\"created\":\"2030-01-01T00:00:00Z\","                               \
    "\"deadline\":\"2030-01-01T01:00:00Z\",\"payload\":{\"a\":1}" members "}"

static struct err read(const char *json, struct arena *a, struct tc_definition *d)
{
    struct err err = tc_definition_read(str_from(json), a, d);
    if (err.code == ERR_OK)
        err = tc_definition_complete(d, ID, a);
    return err.code == ERR_OK ? tc_definition_in_time(d, NOW) : err;
}

static void a_definition_becomes_a_job_and_comes_back(void **state)
{
    (void)state;
    struct arena a = {0};
    struct tc_definition d;
    struct buf b = {0}, answer = {0};
    struct enqueue spec;
    struct tc_head head;
    assert_int_equal(
        read(BODY(",\"priority\":\"high\",\"retries\":2,\"routes\":[\"r\"]"), &a, &d).code, ERR_OK);
    tc_definition_write(&b, &d);
    tc_definition_spec(&d, ID, buf_view(&b), &spec);
    assert_true(str_eq(spec.queue, STR("p/w")));
    assert_true(str_eq(spec.options.alias, ID) && str_eq(spec.options.group, ID));
    assert_int_equal(spec.retry_limit, 2);
    assert_int_equal(spec.options.deadline.ms, NOW.ms + 3600000);
    assert_int_equal(spec.options.retain_until.ms, INT64_C(1924995600000)); /* a year later */
    struct job job = {.queue = spec.queue,
                      .type = spec.type,
                      .payload = spec.payload,
                      .options = spec.options,
                      .state = {.priority = spec.priority}};
    assert_true(tc_head_read(&job, &a, &head));
    assert_true(str_eq(head.worker_type, STR("w")) && str_eq(head.project_id, STR("none")));
    tc_definition_answer(&answer, &job);
    assert_non_null(memmem(answer.at, answer.len, "{\"priority\":\"high\",", 19));
    job.type = STR("other");
    assert_false(tc_head_read(&job, &a, &head));
    buf_fini(&b);
    buf_fini(&answer);
    arena_fini(&a);
}

static void priorities_survive_the_way_to_a_job_and_back(void **state)
{
    (void)state;
    int p;
    for (int i = 0; i < TC_PRIORITIES; i++) {
        assert_int_equal(tc_priority_of_job(tc_priority_to_job(i)), i);
        assert_true(tc_priority_parse(str_from(tc_priority_name(i)), &p));
        assert_int_equal(p, i);
    }
    assert_int_equal(tc_priority_of_job(0), 0);
    assert_int_equal(tc_priority_of_job(UINT16_MAX), TC_PRIORITIES - 1);
    for (int v = 1; v <= UINT16_MAX; v++)
        assert_true(tc_priority_of_job((uint16_t)(v - 1)) <= tc_priority_of_job((uint16_t)v));
}

static void a_retry_comes_at_once(void **state)
{
    (void)state;
    struct arena a = {0};
    struct tc_definition d;
    struct enqueue spec;
    struct rng rng = rng_from_seed(1);
    assert_int_equal(read(BODY(""), &a, &d).code, ERR_OK);
    tc_definition_spec(&d, ID, STR("{}"), &spec);
    for (uint32_t n = 1; n < 50; n++)
        assert_int_equal(curve_delay(&spec.backoff, n, &rng).ms, 0);
    arena_fini(&a);
}

static void a_leap_day_is_followed_by_a_first_of_march(void **state)
{
    (void)state;
    struct arena a = {0};
    struct tc_definition d;
    struct err err =
        tc_definition_read(STR("{\"taskQueueId\":\"p/w\",\"created\":\"2028-02-29T00:00:00Z\","
                               "\"deadline\":\"2028-02-29T12:00:00Z\",\"payload\":{}}"),
                           &a, &d);
    assert_int_equal(err.code, ERR_OK);
    err = tc_definition_complete(&d, ID, &a);
    assert_int_equal(err.code, ERR_OK);
    assert_true(str_eq(d.expires, STR("2029-03-01T12:00:00.000Z")));
    arena_fini(&a);
}

static void check_refused(const char *json, const char *words)
{
    struct arena a = {0};
    struct tc_definition d;
    struct err err = read(json, &a, &d);
    assert_int_equal(err.code, ERR_BAD_VALUE);
    if (!strstr(err.msg, words))
        fail_msg("not '%s' but %s", words, err.msg);
    arena_fini(&a);
}

static void times_must_fit_together(void **state)
{
    (void)state;
    check_refused("{\"taskQueueId\":\"p/w\",\"created\":\"2029-12-31T23:00:00Z\","
                  "\"deadline\":\"2030-01-01T01:00:00Z\"}",
                  "`created` cannot be in the past");
    check_refused("{\"taskQueueId\":\"p/w\",\"created\":\"2030-01-01T00:00:00Z\","
                  "\"deadline\":\"2030-01-06T01:00:00Z\"}",
                  "more than 5 days");
    check_refused(BODY(",\"expires\":\"2030-01-01T00:30:00Z\""), "`expires` cannot be before");
    check_refused(BODY(",\"scopes\":[\"a**\"]"), "must not end with");
    check_refused(BODY(",\"provisionerId\":\"q\",\"workerType\":\"w\""), "must match");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_becomes_a_job_and_comes_back),
        cmocka_unit_test(priorities_survive_the_way_to_a_job_and_back),
        cmocka_unit_test(a_retry_comes_at_once),
        cmocka_unit_test(a_leap_day_is_followed_by_a_first_of_march),
        cmocka_unit_test(times_must_fit_together),
    };
    return cmocka_run_group_tests_name("taskcluster/tc_definition", tests, NULL, NULL);
}
