/* SPDX-License-Identifier: Apache-2.0 */

/* Which failures are alike. The fingerprints are pinned: they are on disk and in links. */

#include "core/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

static void assert_message(const char *message, const char *simplified)
{
    char room[FINGERPRINT_MESSAGE_MAX];
    struct str got = fingerprint_message(str_from(message), room);
    if (!str_eq(got, str_from(simplified)))
        fail_msg("'%s' became '%.*s', not '%s'", message, (int)got.len, got.at, simplified);
}

static void numbers_are_taken_out(void **state)
{
    (void)state;
    assert_message("timeout after 30 s", "timeout after <n> s");
    assert_message("timeout after 1.5s, 1,234 bytes", "timeout after <n>s, <n> bytes");
    assert_message("no route to 10.0.0.1:80", "no route to <n>");
    assert_message("at 2026-11-23T10:00:00.5Z", "at <n>T<n>Z");
    assert_message("worker12 and node-7", "worker<n> and node-<n>");
    assert_message("404.", "<n>.");
    assert_message("1, 2, 3", "<n>, <n>, <n>");
}

static void ids_are_taken_out(void **state)
{
    (void)state;
    assert_message("no user 6fa459ea-ee8a-3ca4-894e-db77e160355e", "no user <id>");
    assert_message("6FA459EA-EE8A-3CA4-894E-DB77E160355E!", "<id>!");
    assert_message("job 03fr82s077azjmurys29qjch4 is gone", "job <id> is gone");
    assert_message("order_03fr82s077azjmurys29qjch4", "order_<n>fr<n>s<n>azjmurys<n>qjch<n>");
    assert_message("AccessDeniedException", "AccessDeniedException");
}

static void hexadecimal_words_are_taken_out(void **state)
{
    (void)state;
    assert_message("segfault at 0x7ffd1234", "segfault at <hex>");
    assert_message("segfault at 0XAB.", "segfault at <hex>.");
    assert_message("commit 0a1b2c3d", "commit <hex>");
    assert_message("commit deadbeef", "commit deadbeef"); /* it may be a word */
    assert_message("code a1b2", "code a<n>b<n>");
    assert_message("0x", "<n>x");
}

static void paths_and_urls_are_taken_out(void **state)
{
    (void)state;
    assert_message("cannot open /var/lib/x.txt: no such file", "cannot open <path>: no such file");
    assert_message("cannot open ./a/b, ../c and ~/d.", "cannot open <path>, <path> and <path>.");
    assert_message("C:\\Users\\x is full", "<path> is full");
    assert_message("GET https://a.example/b?c=1 failed", "GET <url> failed");
    assert_message("(postgres://u@h/db)", "(<url>)");
    assert_message("input/output error and/or I/O", "input/output error and/or I/O");
    assert_message("a / b", "a / b");
    assert_message("etc...", "etc...");
}

static void quoted_parts_are_taken_out(void **state)
{
    (void)state;
    assert_message("no key 'name' in \"users\"", "no key <text> in <text>");
    assert_message("column `a b` is unknown", "column <text> is unknown");
    assert_message("it doesn't and can't", "it doesn't and can't");
    assert_message("can't find 'it's there'", "can't find <text>");
    assert_message("say \"a \\\" b\" now", "say <text> now");
    assert_message("an open ' quote", "an open ' quote");
}

static void white_space_is_one_space(void **state)
{
    (void)state;
    assert_message("  a\n\tb\r\n", "a b");
    assert_message("", "");
    assert_message(" \n ", "");
}

static void a_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    char text[2 * FINGERPRINT_MESSAGE_MAX + 1], room[FINGERPRINT_MESSAGE_MAX];
    for (size_t i = 0; i + 2 <= sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[0] = text[1] = 'x';
    text[2] = 'y'; /* so that the limit is inside of a character */
    text[3] = ' ';
    memmove(text + 3, text + 4, sizeof text - 4);
    struct str got = fingerprint_message((struct str){text, sizeof text - 2}, room);
    assert_int_equal(got.len, FINGERPRINT_MESSAGE_MAX - 1);
    assert_memory_equal(got.at, text, got.len);
}

static struct job job_of(const char *queue, const char *type)
{
    return (struct job){.queue = str_from(queue), .type = str_from(type)};
}

static void fingerprints_are_pinned(void **state)
{
    (void)state;
    char text[FINGERPRINT_TEXT_LEN];
    struct job job = job_of("mail", "send");
    struct failure f = {.message = STR("timeout after 30 s"), .error_type = STR("Timeout")};
    fingerprint_format(fingerprint_of(&job, OUTCOME_FAILED, &f), text);
    assert_memory_equal(text, "8dac893060cab1af", FINGERPRINT_TEXT_LEN);
    f = (struct failure){.exit_code = 137, .condition = CONDITION_OOM_KILLED};
    fingerprint_format(fingerprint_of(&job, OUTCOME_FAILED, &f), text);
    assert_memory_equal(text, "fd5afb7bb92ded4c", FINGERPRINT_TEXT_LEN);
}

static void what_counts_makes_another_one(void **state)
{
    (void)state;
    struct job mail = job_of("mail", "send"), sms = job_of("sms", "send"),
               other = job_of("mail", "sent");
    const struct failure base = {.message = STR("boom 1"), .error_type = STR("E")};
    struct failure same = base, f[6];
    uint64_t first = fingerprint_of(&mail, OUTCOME_FAILED, &base);
    same.message = STR("boom  22");
    same.backtrace = STR("at line 1");
    same.node = STR("node-a");
    assert_true(fingerprint_of(&mail, OUTCOME_FAILED, &same) == first);
    for (int i = 0; i < 6; i++)
        f[i] = base;
    f[0].message = STR("bang 1");
    f[1].error_type = STR("F");
    f[2].exit_code = 1;
    f[3].signal = 1;
    f[4].category = STR("infra");
    f[5].condition = CONDITION_EVICTED;
    for (int i = 0; i < 6; i++)
        assert_true(fingerprint_of(&mail, OUTCOME_FAILED, &f[i]) != first);
    assert_true(fingerprint_of(&sms, OUTCOME_FAILED, &base) != first);
    assert_true(fingerprint_of(&other, OUTCOME_FAILED, &base) != first);
    assert_true(fingerprint_of(&mail, OUTCOME_EXPIRED, &base) != first);
}

static void parts_do_not_run_into_each_other(void **state)
{
    (void)state;
    struct job a = job_of("ab", "c"), b = job_of("a", "bc");
    struct failure f = {.message = STR("m")};
    assert_true(fingerprint_of(&a, OUTCOME_FAILED, &f) != fingerprint_of(&b, OUTCOME_FAILED, &f));
}

static void its_text_is_sixteen_digits(void **state)
{
    (void)state;
    char text[FINGERPRINT_TEXT_LEN];
    uint64_t back;
    fingerprint_format(0x0123456789abcdefu, text);
    assert_memory_equal(text, "0123456789abcdef", sizeof text);
    assert_true(fingerprint_parse((struct str){text, sizeof text}, &back));
    assert_true(back == 0x0123456789abcdefu);
    static const char *const bad[] = {"",
                                      "0123456789abcde",
                                      "0123456789abcdef0",
                                      "0123456789ABCDEF",
                                      "0123456789abcdeg",
                                      "0000000000000000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(fingerprint_parse(str_from(bad[i]), &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_taken_out),
        cmocka_unit_test(ids_are_taken_out),
        cmocka_unit_test(hexadecimal_words_are_taken_out),
        cmocka_unit_test(paths_and_urls_are_taken_out),
        cmocka_unit_test(quoted_parts_are_taken_out),
        cmocka_unit_test(white_space_is_one_space),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(fingerprints_are_pinned),
        cmocka_unit_test(what_counts_makes_another_one),
        cmocka_unit_test(parts_do_not_run_into_each_other),
        cmocka_unit_test(its_text_is_sixteen_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
