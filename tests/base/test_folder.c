/* SPDX-License-Identifier: Apache-2.0 */

/* What is on the disk after a power cut, tests/crash/powercut_files.test.js asks. Here: what is
 * made, and what is refused. */

#include "base/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "test-folder-XXXXXX";

static const char *in_top(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static int make_top(void **state)
{
    (void)state;
    strcpy(top + strlen(top) - 6, "XXXXXX");
    return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state)
{
    (void)state;
    return folder_remove(top).code == ERR_OK ? 0 : -1;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    return st.st_mode & 0777;
}

static void write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void a_folder_is_made_once(void **state)
{
    (void)state;
    assert_int_equal(folder_make(in_top("a"), 0700).code, ERR_OK);
    assert_int_equal(mode_of(in_top("a")), 0700);
    write_file(in_top("a/file"));
    assert_int_equal(folder_make(in_top("a"), 0755).code, ERR_OK);
    assert_int_equal(mode_of(in_top("a")), 0700);
    assert_int_equal(access(in_top("a/file"), F_OK), 0);
}

static void parents_are_made_only_if_that_is_meant(void **state)
{
    (void)state;
    assert_int_equal(folder_make(in_top("a/b"), 0700).code, ERR_IO);
    assert_int_equal(access(in_top("a"), F_OK), -1);
    assert_int_equal(folder_make_all(in_top("a//b/c/"), 0750).code, ERR_OK);
    assert_int_equal(mode_of(in_top("a")), 0750);
    assert_int_equal(mode_of(in_top("a/b/c")), 0750);
    assert_int_equal(folder_make_all(in_top("a/b/c"), 0700).code, ERR_OK);
}

static void an_absolute_path_is_made(void **state)
{
    (void)state;
    char here[256], path[512];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s/%s/a/b", here, top);
    assert_int_equal(folder_make_all(path, 0700).code, ERR_OK);
    assert_int_equal(mode_of(in_top("a/b")), 0700);
    assert_int_equal(folder_make_all("/", 0700).code, ERR_OK);
}

static void what_is_no_folder_is_refused(void **state)
{
    (void)state;
    write_file(in_top("file"));
    assert_int_equal(folder_make(in_top("file"), 0700).code, ERR_IO);
    struct err e = folder_make_all(in_top("file/a"), 0700);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "Not a directory"));
    assert_int_equal(folder_make("", 0700).code, ERR_IO);
    assert_int_equal(folder_settle(in_top("absent")).code, ERR_IO);
    assert_int_equal(folder_sync(in_top("file")).code, ERR_IO);
    assert_int_equal(folder_sync_of(in_top("absent/file")).code, ERR_IO);
    assert_int_equal(folder_sync_of(in_top("absent")).code, ERR_OK);
}

static void a_link_to_a_folder_is_one(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_top("real"), 0700), 0);
    assert_int_equal(symlink("real", in_top("link")), 0);
    assert_int_equal(folder_make(in_top("link"), 0700).code, ERR_OK);
    assert_int_equal(folder_make_all(in_top("link/a"), 0700).code, ERR_OK);
    assert_int_equal(mode_of(in_top("real/a")), 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_is_made_once, make_top, remove_top),
        cmocka_unit_test_setup_teardown(parents_are_made_only_if_that_is_meant, make_top,
                                        remove_top),
        cmocka_unit_test_setup_teardown(an_absolute_path_is_made, make_top, remove_top),
        cmocka_unit_test_setup_teardown(what_is_no_folder_is_refused, make_top, remove_top),
        cmocka_unit_test_setup_teardown(a_link_to_a_folder_is_one, make_top, remove_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
