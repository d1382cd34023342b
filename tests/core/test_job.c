/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "core/job.h"

#define assert_name_ok(name)         assert_int_equal(job_check_name((name), "queue").code, ERR_OK)
#define assert_name_bad(name, words) assert_bad((name), ERR_BAD_NAME, (words))

static void assert_bad(struct str name, enum err_code code, const char *words)
{
    struct err err = job_check_name(name, "queue");
    assert_int_equal(err.code, code);
    assert_string_equal(err.msg, words);
}

static void plain_names_pass(void **state)
{
    (void)state;
    assert_name_ok(STR("a"));
    assert_name_ok(STR("emails"));
    assert_name_ok(STR("proj-x/linux.small:2 v_1@eu+#!%&=~^|<>()'\"$;"));
    assert_name_ok(STR("Gr\xc3\xbc\xc3\x9f"
                       "e"));
    assert_name_ok(STR("\xe2\x9c\x93\xf0\x9f\x98\x80"));
}

static void an_empty_name_is_refused(void **state)
{
    (void)state;
    assert_name_bad(STR(""), "queue must not be empty");
    assert_name_bad((struct str){0}, "queue must not be empty");
}

static void the_longest_name_has_255_bytes(void **state)
{
    (void)state;
    char text[JOB_NAME_MAX + 1];
    memset(text, 'q', sizeof text);
    assert_name_ok(((struct str){text, JOB_NAME_MAX}));
    assert_name_bad(((struct str){text, JOB_NAME_MAX + 1}),
                    "queue is 256 bytes long; at most 255 are allowed");
}

static void each_reserved_character_is_refused_where_it_stands(void **state)
{
    (void)state;
    for (const char *c = ",*?[]{}\\"; *c; c++) {
        char name[] = {'a', 'b', *c, 'd'}, words[160];
        snprintf(words, sizeof words,
                 "queue has the reserved character '%c' at byte 2; "
                 "none of , * ? [ ] { } \\ is allowed",
                 *c);
        assert_name_bad(((struct str){name, sizeof name}), words);
    }
}

static void each_control_character_is_refused(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x80; c++) {
        if (c >= 0x20 && c != 0x7f)
            continue;
        char name[] = {'a', (char)c}, words[160];
        snprintf(words, sizeof words, "queue has a control character (0x%02x) at byte 1", c);
        assert_name_bad(((struct str){name, sizeof name}), words);
    }
}

static void broken_utf8_is_refused(void **state)
{
    (void)state;
    const char *const broken[] = {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x9c"};
    for (size_t i = 0; i < COUNT(broken); i++)
        assert_bad(str_from(broken[i]), ERR_BAD_UTF8, "queue is not valid UTF-8");
}

static void the_message_names_the_field(void **state)
{
    (void)state;
    assert_string_equal(job_check_name(STR(""), "worker").msg, "worker must not be empty");
}

static void an_exception_is_known_by_its_name_and_resolves_its_job(void **state)
{
    (void)state;
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        enum outcome o = (enum outcome)i, parsed = OUTCOME_COUNT;
        bool is = job_exception_parse(str_from(job_outcome_name(o)), &parsed);
        assert_int_equal(is, job_outcome_is_exception(o));
        assert_int_equal(parsed, is ? o : OUTCOME_COUNT);
        if (is)
            assert_string_equal(job_resolution_name(job_outcome_resolution(o)),
                                job_outcome_name(o));
    }
    assert_int_equal(job_outcome_resolution(OUTCOME_FAILED), RESOLUTION_FAILED);
    assert_int_equal(job_outcome_resolution(OUTCOME_EXPIRED), RESOLUTION_CLAIM_EXPIRED);
}

static void outcomes_and_resolutions_have_their_names(void **state)
{
    (void)state;
    const char *const outcomes[] = {"running",
                                    "completed",
                                    "failed",
                                    "claim-expired",
                                    "worker-lost",
                                    "returned",
                                    "canceled",
                                    "gang-retried",
                                    "deadline-exceeded",
                                    "worker-shutdown",
                                    "intermittent-task",
                                    "malformed-payload",
                                    "resource-unavailable",
                                    "internal-error",
                                    "superseded"};
    assert_int_equal(COUNT(outcomes), OUTCOME_COUNT);
    for (int i = 0; i < OUTCOME_COUNT; i++)
        assert_string_equal(job_outcome_name((enum outcome)i), outcomes[i]);
    assert_null(job_resolution_name(RESOLUTION_NONE));
    assert_string_equal(job_resolution_name(RESOLUTION_FAILED), "failed");
    assert_string_equal(job_resolution_name(RESOLUTION_CLAIM_EXPIRED), "claim-expired");
    assert_string_equal(job_resolution_name(RESOLUTION_CANCELED), "canceled");
    assert_string_equal(job_resolution_name(RESOLUTION_POISON), "poison");
    assert_string_equal(job_resolution_name(RESOLUTION_DEADLINE), "deadline-exceeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names_pass),
        cmocka_unit_test(an_empty_name_is_refused),
        cmocka_unit_test(the_longest_name_has_255_bytes),
        cmocka_unit_test(each_reserved_character_is_refused_where_it_stands),
        cmocka_unit_test(each_control_character_is_refused),
        cmocka_unit_test(broken_utf8_is_refused),
        cmocka_unit_test(the_message_names_the_field),
        cmocka_unit_test(an_exception_is_known_by_its_name_and_resolves_its_job),
        cmocka_unit_test(outcomes_and_resolutions_have_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
