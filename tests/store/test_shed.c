/* SPDX-License-Identifier: Apache-2.0 */
#include "store/shed.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/scratch.h"

#define MIB     (1024 * 1024)
#define LARGE   (8 * MIB)
#define SMALL   MIB
#define LOOK_US 5000
#define LOOKS   (60 * 1000 * 1000 / LOOK_US)

static const char *in(const char *dir, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

/* Returns a descriptor that reads it. */
static int make(const char *dir, const char *name, off_t size)
{
    int fd = open(in(dir, name), O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(posix_fallocate(fd, 0, size), 0);
    close(fd);
    return open(in(dir, name), O_RDONLY);
}

static off_t size_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

/* Whether a descriptor of this process is the same file as that one. */
static bool same(int fd, int other)
{
    struct stat a, b;
    return fd != other && fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static bool is_kept(int fd)
{
    bool found = false;
    for (int other = 0; other < 256; other++)
        found |= same(other, fd);
    return found;
}

static void await_kept(int fd, bool kept)
{
    for (int i = 0; is_kept(fd) != kept; i++) {
        assert_true(i < LOOKS);
        usleep(LOOK_US);
    }
}

/* Where the disk is nearly full they are closed whole. */
static bool has_room(const char *dir)
{
    struct statvfs v;
    assert_int_equal(statvfs(dir, &v), 0);
    return (uint64_t)v.f_bavail * v.f_frsize > (uint64_t)1200 * MIB;
}

static void a_removed_table_is_freed(void **state)
{
    const char *dir = *state;
    int before = make(dir, "000007.sst", LARGE);
    struct shed *s = shed_new(dir, 4);
    assert_non_null(s);
    int after = make(dir, "000008.sst", LARGE);
    await_kept(before, true);
    await_kept(after, true);
    unlink(in(dir, "000007.sst"));
    unlink(in(dir, "000008.sst"));
    await_kept(before, false);
    await_kept(after, false);
    if (has_room(dir)) {
        assert_in_range(size_of(before), 1, MIB);
        assert_in_range(size_of(after), 1, MIB);
    }
    shed_free(s);
    close(before);
    close(after);
}

static void what_has_a_name_stays(void **state)
{
    const char *dir = *state;
    struct shed *s = shed_new(dir, 4);
    assert_non_null(s);
    int renamed = make(dir, "000007.sst", LARGE), linked = make(dir, "000008.sst", LARGE);
    int table = make(dir, "000009.sst", LARGE);
    await_kept(renamed, true);
    await_kept(linked, true);
    await_kept(table, true);
    assert_int_equal(rename(in(dir, "000007.sst"), in(dir, "aside")), 0);
    assert_int_equal(link(in(dir, "000008.sst"), in(dir, "snapshot")), 0);
    unlink(in(dir, "000008.sst"));
    await_kept(linked, false);
    assert_int_equal(size_of(linked), LARGE);
    shed_free(s);
    assert_false(is_kept(renamed) || is_kept(table));
    assert_int_equal(size_of(renamed), LARGE);
    assert_int_equal(size_of(table), LARGE);
    close(renamed);
    close(linked);
    close(table);
}

static void the_newest_are_kept(void **state)
{
    const char *dir = *state;
    struct shed *s = shed_new(dir, 1);
    assert_non_null(s);
    int first = make(dir, "000007.sst", LARGE);
    await_kept(first, true);
    int second = make(dir, "000008.sst", LARGE);
    await_kept(second, true);
    assert_false(is_kept(first));
    int older = make(dir, "000006.sst", LARGE);
    int third = make(dir, "000009.sst", LARGE);
    await_kept(third, true);
    assert_false(is_kept(first) || is_kept(second) || is_kept(older));
    assert_int_equal(size_of(first), LARGE);
    shed_free(s);
    close(first);
    close(second);
    close(older);
    close(third);
}

/* How often a file was closed that could be written. */
static int closed(int changes)
{
    char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    int n = 0;
    ssize_t len;
    while ((len = read(changes, bytes, sizeof bytes)) > 0)
        for (ssize_t at = 0; at < len; n++)
            at += (ssize_t)(sizeof(struct inotify_event) +
                            ((const struct inotify_event *)(const void *)(bytes + at))->len);
    return n;
}

static void others_are_left_alone(void **state)
{
    const char *dir = *state;
    struct shed *s = shed_new(dir, 4);
    assert_non_null(s);
    int changes = inotify_init1(IN_NONBLOCK);
    assert_true(inotify_add_watch(changes, dir, IN_CLOSE_WRITE) >= 0);
    int small = make(dir, "000007.sst", SMALL), other = make(dir, "segment-000001", LARGE);
    int last = make(dir, "000009.sst", LARGE);
    await_kept(last, true);
    assert_false(is_kept(small) || is_kept(other));
    usleep(100 * 1000);
    assert_int_equal(closed(changes), 3); /* by this test */
    shed_free(s);
    close(changes);
    close(small);
    close(other);
    close(last);
}

static void a_folder_that_is_missing_is_not_watched(void **state)
{
    assert_null(shed_new(in(*state, "missing"), 4));
    shed_free(NULL);
}

static int count_threads(const char *name)
{
    char comm[32], path[64];
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    while ((task = readdir(tasks))) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(comm, sizeof comm, f))
            found += strcmp(comm, name) == 0;
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return found;
}

static void a_store_has_such_a_thread(void **state)
{
    struct store *s = scratch_open_rocks(*state);
    for (int i = 0; count_threads("shed\n") != 1; i++) {
        assert_true(i < LOOKS);
        usleep(LOOK_US);
    }
    store_close(s);
    /* One that was joined may be listed a little longer. */
    for (int i = 0; count_threads("shed\n") != 0; i++) {
        assert_true(i < LOOKS);
        usleep(LOOK_US);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_removed_table_is_freed),
        TEST(what_has_a_name_stays),
        TEST(the_newest_are_kept),
        TEST(others_are_left_alone),
        TEST(a_folder_that_is_missing_is_not_watched),
        TEST(a_store_has_such_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
