/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "access/issuer_key.h"

static char folder[32], path[64], fresh[64];
static char key[ACCESS_KEY_MIN];

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tenax-key-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    snprintf(fresh, sizeof fresh, "%s/key.new", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(fresh);
    return rmdir(folder);
}

static void check(enum err_code code)
{
    struct err err = issuer_key_open(path, key);
    assert_int_equal(err.code, code);
    if (code != ERR_OK)
        assert_memory_equal(err.msg, path, strlen(path));
}

static void write_file(const char *name, size_t bytes)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        fputc('k', f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(name, 0600), 0);
}

static void a_key_is_made_once(void **state)
{
    (void)state;
    char first[ACCESS_KEY_MIN];
    struct stat st;
    check(ERR_OK);
    memcpy(first, key, sizeof key);
    memset(key, 0, sizeof key);
    check(ERR_OK);
    assert_memory_equal(key, first, sizeof key);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(access(fresh, F_OK), -1);
    unlink(path);
    check(ERR_OK);
    assert_memory_not_equal(key, first, sizeof key);
}

static void what_a_crash_left_does_not_matter(void **state)
{
    (void)state;
    write_file(fresh, 5);
    assert_int_equal(chmod(fresh, 0644), 0);
    check(ERR_OK);
    check(ERR_OK);
}

static void what_is_no_key_is_refused(void **state)
{
    (void)state;
    write_file(path, ACCESS_KEY_MIN);
    check(ERR_OK);
    write_file(path, ACCESS_KEY_MIN - 1);
    check(ERR_CORRUPT);
    write_file(path, ACCESS_KEY_MIN + 1);
    check(ERR_CORRUPT);
    write_file(path, 0);
    check(ERR_CORRUPT);
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    (void)state;
    check(ERR_OK);
    assert_int_equal(chmod(path, 0640), 0);
    check(ERR_IO);
    assert_int_equal(chmod(path, 0604), 0);
    check(ERR_IO);
    assert_int_equal(chmod(path, 0400), 0);
    check(ERR_OK);
}

static void without_a_folder_there_is_no_key(void **state)
{
    (void)state;
    char nowhere[80];
    snprintf(nowhere, sizeof nowhere, "%s/none/key", folder);
    struct err err = issuer_key_open(nowhere, key);
    assert_int_equal(err.code, ERR_IO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_is_made_once),
        TEST(what_a_crash_left_does_not_matter),
        TEST(what_is_no_key_is_refused),
        TEST(a_key_that_others_may_read_is_refused),
        TEST(without_a_folder_there_is_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
