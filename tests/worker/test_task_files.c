/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/task_files.h"
#include "worker/task_log.h"

static char base[PATH_MAX];
static int dir;

static int set_up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/tenax-files-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(base));
    assert_int_equal(task_files_make(base, "task", &dir).code, ERR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(dir);
    task_files_remove(base, "task");
    return rmdir(base); /* fails if something was left */
}

static void make_file(const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static enum task_file_fault try_open(const char *path)
{
    int fd;
    int64_t size;
    enum task_file_fault fault = task_file_open(dir, path, &fd, &size);
    if (fault == TASK_FILE_FINE)
        close(fd);
    return fault;
}

static void a_file_is_opened_with_its_size(void **state)
{
    (void)state;
    int fd;
    int64_t size;
    assert_int_equal(mkdirat(dir, "a", 0700), 0);
    make_file("a/b", "hello");
    assert_int_equal(task_file_open(dir, "a/b", &fd, &size), TASK_FILE_FINE);
    assert_int_equal(size, 5);
    close(fd);
}

static void what_is_no_file_is_not_opened(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(dir, "a", 0700), 0);
    assert_int_equal(mkfifoat(dir, "pipe", 0600), 0);
    make_file("f", "");
    assert_int_equal(try_open("nothing"), TASK_FILE_MISSING);
    assert_int_equal(try_open("a/nothing"), TASK_FILE_MISSING);
    assert_int_equal(try_open("nothing/at/all"), TASK_FILE_MISSING);
    assert_int_equal(try_open("a"), TASK_FILE_INVALID);
    assert_int_equal(try_open("pipe"), TASK_FILE_INVALID);
    assert_int_equal(try_open("f/x"), TASK_FILE_INVALID);
    char name[NAME_MAX + 3];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(try_open(name), TASK_FILE_MISSING);
}

static void no_link_is_followed(void **state)
{
    (void)state;
    make_file("f", "x");
    assert_int_equal(mkdirat(dir, "d", 0700), 0);
    assert_int_equal(symlinkat("/etc/passwd", dir, "out"), 0);
    assert_int_equal(symlinkat("f", dir, "in"), 0);
    assert_int_equal(symlinkat("/etc", dir, "dir"), 0);
    assert_int_equal(symlinkat("..", dir, "d/up"), 0);
    assert_int_equal(try_open("out"), TASK_FILE_INVALID);
    assert_int_equal(try_open("in"), TASK_FILE_INVALID);
    assert_int_equal(try_open("dir/passwd"), TASK_FILE_INVALID);
    assert_int_equal(try_open("d/up/f"), TASK_FILE_INVALID);
    int fd;
    assert_int_equal(task_file_open_directory(dir, "dir", &fd), TASK_FILE_INVALID);
    assert_int_equal(task_file_open_directory(dir, "d/up", &fd), TASK_FILE_INVALID);
}

static void note(void *ctx, const char *path)
{
    char *all = ctx;
    strcat(all, path);
    strcat(all, " ");
}

static void a_tree_is_walked_in_order_and_not_out_of_it(void **state)
{
    (void)state;
    char seen[200] = "";
    assert_int_equal(mkdirat(dir, "b", 0700), 0);
    assert_int_equal(mkdirat(dir, "b/empty", 0700), 0);
    make_file("b/2", "");
    make_file("b/1", "");
    make_file("c", "");
    assert_int_equal(symlinkat("/etc", dir, "a"), 0);
    assert_true(task_file_walk(dir, 10, note, seen));
    assert_string_equal(seen, "a b/1 b/2 c ");
    seen[0] = '\0';
    assert_false(task_file_walk(dir, 3, note, seen));
}

static void a_tree_that_is_too_deep_is_refused(void **state)
{
    (void)state;
    char seen[200] = "", path[400] = "";
    for (int i = 0; i < TASK_TREE_DEPTH; i++) {
        strcat(path, i ? "/d" : "d");
        assert_int_equal(mkdirat(dir, path, 0700), 0);
    }
    assert_true(task_file_walk(dir, 10, note, seen));
    strcat(path, "/d");
    assert_int_equal(mkdirat(dir, path, 0700), 0);
    assert_false(task_file_walk(dir, 10, note, seen));
}

static void directories_that_a_task_has_closed_are_removed_too(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(dir, "a", 0700), 0);
    make_file("a/b", "");
    assert_int_equal(fchmodat(dir, "a", 0, 0), 0);
    /* tear_down fails if it is left */
}

static void a_name_that_is_taken_is_an_error(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(task_files_make(base, "task", &fd).code, ERR_IO);
}

static void a_log_is_bounded_and_keeps_what_the_worker_says(void **state)
{
    (void)state;
    char path[PATH_MAX + 8], end[400] = "";
    struct task_log l;
    struct stat st;
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    snprintf(path, sizeof path, "%s/log", base);
    assert_int_equal(task_log_open(&l, path).code, ERR_OK);
    for (int i = 0; i < 20; i++)
        task_log_output(&l, (struct str){block, sizeof block});
    task_log_line(&l, "the end of %s", "it");
    assert_int_equal(fstat(l.fd, &st), 0);
    assert_in_range(st.st_size, TASK_LOG_MAX, TASK_LOG_MAX + 300);
    assert_true(pread(l.fd, end, sizeof end - 1, TASK_LOG_MAX) > 0);
    assert_memory_equal(end, "\n[taskcluster:error] the log is full", 36);
    assert_non_null(strstr(end, "Z] the end of it\n"));
    task_log_fini(&l);
    assert_int_equal(unlink(path), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_opened_with_its_size),
        TEST(what_is_no_file_is_not_opened),
        TEST(no_link_is_followed),
        TEST(a_tree_is_walked_in_order_and_not_out_of_it),
        TEST(a_tree_that_is_too_deep_is_refused),
        TEST(directories_that_a_task_has_closed_are_removed_too),
        TEST(a_name_that_is_taken_is_an_error),
        TEST(a_log_is_bounded_and_keeps_what_the_worker_says),
    };
    return cmocka_run_group_tests_name("worker/task_files", tests, NULL, NULL);
}
