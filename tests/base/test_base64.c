/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base64.h"
#include "base/rng.h"

static void check_reads(struct str text, struct str bytes)
{
    struct arena a = {0};
    struct str got;
    assert_true(base64_read(text, &a, &got));
    assert_true(str_eq(got, bytes));
    arena_fini(&a);
}

static void check_refused(struct str text)
{
    struct arena a = {0};
    struct str got;
    assert_false(base64_read(text, &a, &got));
    arena_fini(&a);
}

static void check_pair(struct str bytes, struct str plain, struct str url)
{
    struct buf b = {0};
    base64_write(&b, bytes);
    assert_true(str_eq(buf_view(&b), plain));
    b.len = 0;
    base64_write_url(&b, bytes);
    assert_true(str_eq(buf_view(&b), url));
    buf_fini(&b);
    check_reads(plain, bytes);
    check_reads(url, bytes);
}

/* RFC 4648 §10. */
static void the_vectors_of_the_standard_hold(void **state)
{
    (void)state;
    check_pair(STR(""), STR(""), STR(""));
    check_pair(STR("f"), STR("Zg=="), STR("Zg"));
    check_pair(STR("fo"), STR("Zm8="), STR("Zm8"));
    check_pair(STR("foo"), STR("Zm9v"), STR("Zm9v"));
    check_pair(STR("foob"), STR("Zm9vYg=="), STR("Zm9vYg"));
    check_pair(STR("fooba"), STR("Zm9vYmE="), STR("Zm9vYmE"));
    check_pair(STR("foobar"), STR("Zm9vYmFy"), STR("Zm9vYmFy"));
    check_pair(STR("\xfb\xff\xfe"), STR("+//+"), STR("-__-"));
}

static void what_is_not_the_one_spelling_is_refused(void **state)
{
    (void)state;
    check_refused(STR("Z"));
    check_refused(STR("Zg="));
    check_refused(STR("Zg==="));
    check_refused(STR("Zh==")); /* bits after the last byte */
    check_refused(STR("Zm9=")); /* likewise */
    check_refused(STR("Zm9v===="));
    check_refused(STR("Zm9v="));
    check_refused(STR("Zg==Zg=="));
    check_refused(STR("Zm 9v"));
    check_refused(STR("Zm9v\n"));
    check_refused(STR("+//_")); /* both alphabets */
    check_refused(STR("===="));
    check_refused(STR("Zm9\0"));
}

static void whatever_is_written_reads_back(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(7);
    for (size_t len = 0; len < 200; len++) {
        char bytes[200];
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)rng_next(&rng);
        struct buf b = {0};
        base64_write(&b, (struct str){bytes, len});
        check_reads(buf_view(&b), (struct str){bytes, len});
        b.len = 0;
        base64_write_url(&b, (struct str){bytes, len});
        check_reads(buf_view(&b), (struct str){bytes, len});
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_standard_hold),
        cmocka_unit_test(what_is_not_the_one_spelling_is_refused),
        cmocka_unit_test(whatever_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
