/* SPDX-License-Identifier: Apache-2.0 */

/* That others need not wait is measured (docs/performance.md). Here: what is freed, and what never
 * is. */

#include "base/release.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB   (1024 * 1024)
#define WHOLE (5 * MIB + 17)

static char path[] = "test-release-XXXXXX";
static int file, look; /* to be released, and beside it */

static int make_file(void **state)
{
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    file = mkstemp(path);
    look = open(path, O_RDONLY);
    return file >= 0 && look >= 0 && posix_fallocate(file, 0, WHOLE) == 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return close(look);
}

static off_t size(void)
{
    struct stat st;
    assert_int_equal(fstat(look, &st), 0);
    return st.st_size;
}

static void assert_closed(void)
{
    assert_int_equal(fcntl(file, F_GETFD), -1);
}

static void bytes_without_a_name_are_freed(void **state)
{
    (void)state;
    struct statvfs v;
    assert_int_equal(fstatvfs(look, &v), 0);
    bool ample = (uint64_t)v.f_bavail * v.f_frsize > (uint64_t)1200 * MIB;
    assert_int_equal(unlink(path), 0);
    release_file(file, NULL);
    assert_closed();
    if (ample)
        assert_in_range(size(), 1, MIB); /* the rest is freed with the last descriptor */
}

static void a_file_with_a_name_keeps_its_bytes(void **state)
{
    (void)state;
    release_file(file, NULL);
    assert_closed();
    assert_int_equal(size(), WHOLE);
}

static void who_is_in_a_hurry_closes_it_at_once(void **state)
{
    (void)state;
    _Atomic bool hurry = true;
    assert_int_equal(unlink(path), 0);
    release_file(file, &hurry);
    assert_closed();
    assert_int_equal(size(), WHOLE);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_without_a_name_are_freed),
        TEST(a_file_with_a_name_keeps_its_bytes),
        TEST(who_is_in_a_hurry_closes_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
