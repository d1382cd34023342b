/* SPDX-License-Identifier: Apache-2.0 */
#include "access/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/token_file.h"

#define NOW ((instant){1000000})

static struct token *make(unsigned roles, instant expires, char text[TOKEN_TEXT_LEN])
{
    static const struct str queues[] = {STR("mail-*"), STR("b\"\\")};
    const struct token_spec spec = {.roles = roles,
                                    .queues = queues,
                                    .queue_count = roles & 1u << ROLE_ADMIN ? 0 : 2,
                                    .name = STR("a \"name\""),
                                    .created = NOW,
                                    .expires = expires};
    struct token *t = NULL;
    struct err err = token_new(&spec, &t, text);
    assert_int_equal(err.code, ERR_OK);
    return t;
}

static enum err_code check(struct tokens *all, const char *text, size_t len, instant now)
{
    struct token *t;
    return tokens_check(all, (struct str){text, len}, now, &t).code;
}

int __real_CRYPTO_memcmp(const void *a, const void *b, size_t n);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t n);
static int compared_in_constant_time;

int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t n)
{
    compared_in_constant_time++;
    assert_int_equal(n, TOKEN_HASH_LEN);
    return __real_CRYPTO_memcmp(a, b, n);
}

static void its_secret_is_compared_by_its_hash_in_constant_time(void **state)
{
    (void)state;
    char text[TOKEN_TEXT_LEN];
    struct tokens *all = tokens_new();
    tokens_add(all, make(1u << ROLE_WORKER, INSTANT_NONE, text));
    for (size_t i = TOKEN_TEXT_LEN - 43; i < TOKEN_TEXT_LEN; i++) {
        char right = text[i];
        text[i] = right == 'A' ? 'B' : 'A';
        compared_in_constant_time = 0;
        assert_int_equal(check(all, text, sizeof text, NOW), ERR_BAD_CREDENTIALS);
        assert_int_equal(compared_in_constant_time, 1);
        text[i] = right;
    }
    tokens_free(all);
}

static void its_own_text_is_right_and_no_other(void **state)
{
    (void)state;
    struct tokens *all = tokens_new();
    char text[TOKEN_TEXT_LEN], other[TOKEN_TEXT_LEN];
    struct token *t = make(1u << ROLE_WORKER, INSTANT_NONE, text), *found;
    token_free(make(1u << ROLE_WORKER, INSTANT_NONE, other));
    tokens_add(all, t);
    assert_int_equal(tokens_check(all, (struct str){text, sizeof text}, NOW, &found).code, ERR_OK);
    assert_ptr_equal(found, t);
    assert_int_equal(t->used, NOW.ms);
    assert_int_equal(check(all, other, sizeof other, NOW), ERR_BAD_CREDENTIALS);
    for (size_t i = 0; i < sizeof text; i++) {
        char wrong[TOKEN_TEXT_LEN];
        memcpy(wrong, text, sizeof wrong);
        wrong[i] = (char)(wrong[i] ^ 1);
        assert_int_equal(check(all, wrong, sizeof wrong, NOW), ERR_BAD_CREDENTIALS);
        assert_int_equal(check(all, text, i, NOW), ERR_BAD_CREDENTIALS);
    }
    tokens_free(all);
}

static void texts_differ_and_have_one_form(void **state)
{
    (void)state;
    char a[TOKEN_TEXT_LEN], b[TOKEN_TEXT_LEN];
    token_free(make(1u << ROLE_VIEWER, INSTANT_NONE, a));
    token_free(make(1u << ROLE_VIEWER, INSTANT_NONE, b));
    assert_memory_equal(a, "tnx_", 4);
    assert_int_equal(a[4 + TOKEN_ID_LEN], '_');
    assert_memory_not_equal(a + 4, b + 4, TOKEN_ID_LEN);
    assert_memory_not_equal(a + 21, b + 21, TOKEN_TEXT_LEN - 21);
}

static void it_ends_at_its_time_and_when_it_is_revoked(void **state)
{
    (void)state;
    struct tokens *all = tokens_new();
    char text[TOKEN_TEXT_LEN];
    const instant end = {NOW.ms + 10};
    struct token *t = make(1u << ROLE_ADMIN, end, text);
    tokens_add(all, t);
    assert_int_equal(tokens_admins(all), 1);
    assert_int_equal(check(all, text, sizeof text, (instant){end.ms - 1}), ERR_OK);
    assert_int_equal(check(all, text, sizeof text, end), ERR_BAD_CREDENTIALS);
    assert_ptr_equal(tokens_find(all, token_id(t)), t);
    tokens_revoke(all, t);
    tokens_revoke(all, t);
    assert_int_equal(check(all, text, sizeof text, NOW), ERR_BAD_CREDENTIALS);
    assert_null(tokens_find(all, token_id(t)));
    assert_int_equal(tokens_admins(all), 0);
    assert_int_equal(tokens_count(all), 0);
    size_t at = 0;
    assert_null(tokens_next(all, &at));
    tokens_free(all);
}

static void what_is_kept_has_no_secret_and_comes_back(void **state)
{
    (void)state;
    struct buf b = {0}, again = {0};
    char text[TOKEN_TEXT_LEN];
    struct token *t = make(1u << ROLE_WORKER | 1u << ROLE_VIEWER, (instant){5000000}, text);
    struct token *back = NULL;
    t->used = 77;
    token_write(t, &b);
    assert_null(memmem(b.at, b.len, text + 5 + TOKEN_ID_LEN, 43));
    struct err err = token_read(buf_view(&b), &back);
    assert_int_equal(err.code, ERR_OK);
    token_write(back, &again);
    assert_true(str_eq(buf_view(&b), buf_view(&again)));
    assert_int_equal(back->rights.set, t->rights.set);
    struct tokens *all = tokens_new();
    tokens_add(all, back);
    assert_int_equal(check(all, text, sizeof text, NOW), ERR_OK);
    tokens_free(all);
    token_free(t);
    buf_fini(&b);
    buf_fini(&again);
}

/* A record of a later version, or a damaged one, must not become a token with other rights. */
static void what_is_no_record_is_refused(void **state)
{
    (void)state;
    struct buf b = {0};
    char text[TOKEN_TEXT_LEN];
    struct token *t = make(1u << ROLE_VIEWER, INSTANT_NONE, text), *back;
    token_write(t, &b);
    for (size_t i = 0; i < b.len; i++)
        assert_int_equal(token_read((struct str){b.at, i}, &back).code, ERR_CORRUPT);
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"v\":1}",
        "{\"v\":2,\"id\":\"0123456789abcdef\"}",
        "{\"v\":1,\"roles\":[\"root\"]}",
        "{\"v\":1,\"limit\":3}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(token_read(str_from(wrong[i]), &back).code, ERR_CORRUPT);
    token_free(t);
    buf_fini(&b);
}

static void what_a_token_is_to_be_is_checked(void **state)
{
    (void)state;
    const struct str one[] = {STR("a")}, bad[] = {STR("a,b")};
    struct token_spec s = {.roles = 1u << ROLE_WORKER, .queues = one, .queue_count = 1};
    assert_int_equal(token_check_spec(&s).code, ERR_OK);
    s.queues = bad;
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
    s = (struct token_spec){0};
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
    s = (struct token_spec){.roles = 1u << ROLE_COUNT};
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
    s = (struct token_spec){.roles = 1u << ROLE_ADMIN, .queues = one, .queue_count = 1};
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
    s = (struct token_spec){.roles = 1u << ROLE_ADMIN, .name = STR("a\nb")};
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
}

static void a_quota_is_kept_and_one_without_sense_is_refused(void **state)
{
    (void)state;
    const struct str one[] = {STR("a")};
    struct token_spec s = {.roles = 1u << ROLE_PRODUCER, .quota = {5, 6, 7}};
    struct buf b = {0};
    char text[TOKEN_TEXT_LEN];
    struct token *t, *back;
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE); /* budgets of its own: no queues */
    s.queues = one;
    s.queue_count = 1;
    s.created = (instant){1};
    s.expires = INSTANT_NONE;
    assert_int_equal(token_new(&s, &t, text).code, ERR_OK);
    token_write(t, &b);
    assert_int_equal(token_read(buf_view(&b), &back).code, ERR_OK);
    assert_memory_equal(&back->quota, &s.quota, sizeof s.quota);
    assert_true(token_number(t) == token_number(back) && token_number(t) != 0);
    s.roles |= 1u << ROLE_ADMIN;
    s.queue_count = 0;
    s.quota = (struct token_quota){.waiting = 5};
    assert_int_equal(token_check_spec(&s).code, ERR_BAD_VALUE);
    token_free(t);
    token_free(back);
    buf_fini(&b);
}

static void payloads_are_seen_if_that_was_said(void **state)
{
    (void)state;
    char text[TOKEN_TEXT_LEN];
    struct token_spec s = {.roles = 1u << ROLE_VIEWER, .expires = INSTANT_NONE};
    struct token *t;
    assert_int_equal(token_new(&s, &t, text).code, ERR_OK);
    assert_false(rights_have(&t->rights, RIGHT_PAYLOADS));
    token_free(t);
    s.payloads = true;
    assert_int_equal(token_new(&s, &t, text).code, ERR_OK);
    assert_true(rights_have(&t->rights, RIGHT_PAYLOADS));
    token_free(t);
}

static void the_scheme_is_bearer_in_any_case(void **state)
{
    (void)state;
    struct str text;
    assert_true(tokens_bearer(STR("Bearer abc"), &text));
    assert_true(str_eq(text, STR("abc")));
    assert_true(tokens_bearer(STR("bEARER   abc"), &text));
    assert_true(str_eq(text, STR("abc")));
    assert_false(tokens_bearer(STR("Basic abc"), &text));
    assert_false(tokens_bearer(STR("Bearer"), &text));
    assert_false(tokens_bearer((struct str){NULL, 0}, &text));
}

static void count(void *ctx, struct token *t)
{
    ++*(size_t *)ctx;
    token_free(t);
}

static void a_file_carries_it_until_it_is_removed(void **state)
{
    (void)state;
    char dir[] = "/tmp/tenax-tokens-XXXXXX", text[TOKEN_TEXT_LEN], path[128];
    size_t n = 0;
    struct stat st;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(token_file_read_all(dir, 10, count, &n).code, ERR_OK);
    struct token *t = make(1u << ROLE_ADMIN, INSTANT_NONE, text);
    assert_int_equal(token_file_write(dir, t).code, ERR_OK);
    snprintf(path, sizeof path, "%s/new-tokens/%.*s.json", dir, TOKEN_ID_LEN, t->id);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(token_file_read_all(dir, 10, count, &n).code, ERR_OK);
    assert_int_equal(n, 1);
    token_file_remove(dir, t);
    assert_int_equal(token_file_read_all(dir, 10, count, &n).code, ERR_OK);
    assert_int_equal(n, 1);
    token_free(t);
    snprintf(path, sizeof path, "%s/new-tokens", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_secret_is_compared_by_its_hash_in_constant_time),
        cmocka_unit_test(its_own_text_is_right_and_no_other),
        cmocka_unit_test(texts_differ_and_have_one_form),
        cmocka_unit_test(it_ends_at_its_time_and_when_it_is_revoked),
        cmocka_unit_test(what_is_kept_has_no_secret_and_comes_back),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(what_a_token_is_to_be_is_checked),
        cmocka_unit_test(a_quota_is_kept_and_one_without_sense_is_refused),
        cmocka_unit_test(payloads_are_seen_if_that_was_said),
        cmocka_unit_test(the_scheme_is_bearer_in_any_case),
        cmocka_unit_test(a_file_carries_it_until_it_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
