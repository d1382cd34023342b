/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "cli/commands.h"
#include "cli/newjob.h"

/* The options of `tenax enqueue` as typed. */
static struct err init(struct newjob_defaults *d, int argc, char **argv)
{
    struct enqueue_args args = {0};
    struct options o;
    struct err e = options_parse(enqueue_command.options, OPTIONS_ANYWHERE, argc, argv, &args, &o);
    assert_int_equal(e.code, ERR_OK);
    return newjob_init(d, &args, &o, (instant){1000000});
}

#define INIT(d, ...)                                                                               \
    init((d), (int)(sizeof((char *[]){"enqueue", ##__VA_ARGS__}) / sizeof(char *)),                \
         (char *[]){"enqueue", ##__VA_ARGS__, NULL})

static void assert_single(struct newjob_defaults *d, const char *expected)
{
    struct buf b = {0};
    newjob_single(&b, d, STR("{\"x\": 1}"));
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
    newjob_fini(d);
}

static void only_what_was_given_is_sent(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--queue", "a\"b", "--type", "t").code, ERR_OK);
    assert_single(&d, "{\"queue\":\"a\\\"b\",\"type\":\"t\",\"payload\":{\"x\": 1}}");
}

static void every_option_has_its_member(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--queue", "q", "--type", "t", "--priority", "0", "--delay", "2s",
                          "--retry-limit", "0", "--backoff", "1s,2.5,500", "--retain-completed",
                          "1h", "--retain-dead", "0")
                         .code,
                     ERR_OK);
    assert_single(&d, "{\"queue\":\"q\",\"type\":\"t\",\"priority\":0,\"ready_at\":1002000,"
                      "\"retry_limit\":0,"
                      "\"backoff\":{\"base_ms\":1000,\"exponent\":2.5,\"jitter_ms\":500},"
                      "\"retention\":{\"completed_ms\":3600000,\"dead_ms\":0},"
                      "\"payload\":{\"x\": 1}}");
}

static void a_gang_and_retry_policies_are_named(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--gang", "a,b,4", "--retry-policies", "infra,memory").code, ERR_OK);
    assert_single(&d, "{\"gang\":{\"id\":\"a,b\",\"cardinality\":4},"
                      "\"retry_policies\":[\"infra\",\"memory\"],\"payload\":{\"x\": 1}}");
    const char *const wrong[] = {"a", ",4", "a,", "a,0", "a,x", "a,4x", "a,-1"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(INIT(&d, "--gang", (char *)wrong[i]).code, ERR_USAGE);
        newjob_fini(&d);
    }
}

static void a_batch_has_all_three_parts_or_none(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--queue", "q", "--batch-key", "k", "--batch-when", "true",
                          "--batch-fold", "$existing + \"x\"")
                         .code,
                     ERR_OK);
    assert_single(&d, "{\"queue\":\"q\",\"batch\":{\"key\":\"k\",\"when\":\"true\","
                      "\"fold\":\"$existing + \\\"x\\\"\"},\"payload\":{\"x\": 1}}");
    assert_int_equal(INIT(&d, "--batch-key", "k", "--batch-when", "true").code, ERR_USAGE);
    newjob_fini(&d);
    assert_int_equal(INIT(&d, "--batch-fold", "1").code, ERR_USAGE);
    newjob_fini(&d);
    assert_int_equal(
        INIT(&d, "--unique-key", "u", "--batch-key", "k", "--batch-when", "1", "--batch-fold", "1")
            .code,
        ERR_USAGE);
    newjob_fini(&d);
    assert_int_equal(INIT(&d, "--batch-key", "\xff", "--batch-when", "1", "--batch-fold", "1").code,
                     ERR_USAGE);
    newjob_fini(&d);
}

static void a_delay_of_nothing_is_a_delay(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--delay", "0", "--retain-dead", "1").code, ERR_OK);
    assert_single(&d, "{\"ready_at\":1000000,\"retention\":{\"dead_ms\":1},"
                      "\"payload\":{\"x\": 1}}");
}

static void bad_times_and_curves_are_refused(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--at", "soon").code, ERR_USAGE);
    newjob_fini(&d);
    assert_int_equal(INIT(&d, "--at", "1", "--delay", "1s").code, ERR_USAGE);
    newjob_fini(&d);
    char *const curves[] = {"1s",        "1s,2",   "1s,,3s",    "1s,x,3s", "1s,-1,3s",
                            "1s,inf,3s", "a,2,3s", "1s,2,3s,4", ",,"};
    for (size_t i = 0; i < COUNT(curves); i++) {
        if (INIT(&d, "--backoff", curves[i]).code != ERR_USAGE)
            fail_msg("%s was taken for a curve", curves[i]);
        newjob_fini(&d);
    }
}

static void a_name_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    struct newjob_defaults d;
    assert_int_equal(INIT(&d, "--queue", "\xff").code, ERR_USAGE);
    newjob_fini(&d);
}

static void assert_line(struct str line, const char *expected)
{
    struct newjob_defaults d;
    struct buf b = {0};
    assert_int_equal(INIT(&d, "--queue", "q", "--type", "t", "--priority", "9").code, ERR_OK);
    struct err e = newjob_from_line(&b, &d, line);
    assert_int_equal(e.code, ERR_OK);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
    newjob_fini(&d);
}

static void a_line_is_completed_and_otherwise_kept(void **state)
{
    (void)state;
    assert_line(STR(" {\"payload\" : 1e400}"),
                "{\"queue\":\"q\",\"type\":\"t\",\"priority\":9,\"payload\" : 1e400}");
    assert_line(STR("{\"priority\":1,\"payload\":{\"queue\":\"x\"},\"type\":\"own\"}"),
                "{\"queue\":\"q\",\"priority\":1,\"payload\":{\"queue\":\"x\"},\"type\":\"own\"}");
    assert_line(
        STR("{\"unknown\":[],\"payload\":null,\"queue\":\"w\"}\r"),
        "{\"type\":\"t\",\"priority\":9,\"unknown\":[],\"payload\":null,\"queue\":\"w\"}\r");
}

static void a_line_that_is_no_job_is_refused(void **state)
{
    (void)state;
    struct newjob_defaults d;
    struct buf b = {0};
    assert_int_equal(INIT(&d, "--queue", "q").code, ERR_OK);
    assert_int_equal(newjob_from_line(&b, &d, STR("{}")).code, ERR_MISSING_FIELD);
    assert_int_equal(newjob_from_line(&b, &d, STR("{\"payload\":1}")).code, ERR_MISSING_FIELD);
    assert_int_equal(newjob_from_line(&b, &d, STR("[1]")).code, ERR_BAD_TYPE);
    struct err e = newjob_from_line(&b, &d, STR("{\"payload\":1,}"));
    assert_int_equal(e.code, ERR_BAD_JSON);
    assert_int_equal(e.offset, 13);
    assert_int_equal(newjob_from_line(&b, &d, STR("{\"payload\":1} {}")).code, ERR_BAD_JSON);
    assert_int_equal(b.len, 0);
    buf_fini(&b);
    newjob_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_given_is_sent),
        cmocka_unit_test(every_option_has_its_member),
        cmocka_unit_test(a_gang_and_retry_policies_are_named),
        cmocka_unit_test(a_batch_has_all_three_parts_or_none),
        cmocka_unit_test(a_delay_of_nothing_is_a_delay),
        cmocka_unit_test(bad_times_and_curves_are_refused),
        cmocka_unit_test(a_name_that_is_not_utf8_is_refused),
        cmocka_unit_test(a_line_is_completed_and_otherwise_kept),
        cmocka_unit_test(a_line_that_is_no_job_is_refused),
    };
    return cmocka_run_group_tests_name("cli/newjob", tests, NULL, NULL);
}
