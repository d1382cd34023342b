/* SPDX-License-Identifier: Apache-2.0 */
/* What is tested here deletes folders: never as root. */
#include "builds/build_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static char base[200], root[256];

static char *path(const char *name)
{
    static char out[4][512];
    static unsigned next;
    char *p = out[next++ % 4];
    snprintf(p, 512, "%s/%s", base, name);
    return p;
}

static void folder(const char *name)
{
    assert_int_equal(mkdir(path(name), 0700), 0);
}

static void file(const char *name)
{
    int fd = open(path(name), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool exists(const char *name)
{
    struct stat st;
    return lstat(path(name), &st) == 0;
}

static struct err clear(const char *prefix, const char *scope, const char *pipeline, const char *id)
{
    struct build_message m = {.job = BUILD_CLEAR};
    m.cache.is_delete = true;
    m.cache.prefix = str_from(prefix);
    m.cache.scope = str_from(scope);
    m.cache.pipeline = str_from(pipeline);
    m.cache.id = str_from(id);
    return build_cache_clear(root, &m);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/tenax-cache-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(root, sizeof root, "%s/root", base);
    folder("root");
    folder("root/pipelines");
    folder("root/pipelines/1");
    folder("root/pipelines/1/deep");
    file("root/pipelines/1/deep/a");
    folder("root/pipelines/2");
    folder("root/jobs");
    folder("root/jobs/1");
    folder("root/jobs/1/22");
    file("root/jobs/1/22/b");
    folder("outside");
    file("outside/kept");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static void the_cache_of_a_pipeline_is_removed_alone(void **state)
{
    (void)state;
    assert_int_equal(clear("", "pipelines", "1", "99").code, ERR_OK);
    assert_false(exists("root/pipelines/1"));
    assert_true(exists("root/pipelines/2"));
    assert_true(exists("root/jobs/1/22/b"));
    assert_int_equal(clear("", "pipelines", "1", "99").code, ERR_OK);
}

static void the_cache_of_a_job_is_removed_alone(void **state)
{
    (void)state;
    assert_int_equal(clear("", "jobs", "1", "22").code, ERR_OK);
    assert_false(exists("root/jobs/1/22"));
    assert_true(exists("root/jobs/1"));
    assert_int_equal(clear("other", "jobs", "1", "22").code, ERR_OK);
}

static void no_part_leads_out_of_the_root(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".", "..", "../outside", "/", "a/b", "/outside"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(clear("", bad[i], "1", "22").code, ERR_BAD_VALUE);
        assert_int_equal(clear("", "jobs", bad[i], "22").code, ERR_BAD_VALUE);
        assert_int_equal(clear("", "jobs", "1", bad[i]).code, ERR_BAD_VALUE);
        if (*bad[i])
            assert_int_equal(clear(bad[i], "jobs", "1", "22").code, ERR_BAD_VALUE);
    }
    assert_true(exists("root/jobs/1/22/b"));
    assert_true(exists("outside/kept"));
    struct build_message m = {.job = BUILD_CLEAR};
    assert_int_equal(build_cache_clear(root, &m).code, ERR_BAD_VALUE);
}

static void only_folders_of_caches_are_removed(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/");
    assert_int_equal(clear(base + 1, "outside", "kept", "").code, ERR_BAD_VALUE);
    assert_int_equal(clear("", "tmp", base + 5, "outside").code, ERR_BAD_VALUE);
    assert_true(exists("outside/kept"));
}

static void no_link_is_followed(void **state)
{
    (void)state;
    assert_int_equal(symlink("../../outside", path("root/pipelines/3")), 0);
    assert_int_equal(symlink(path("outside"), path("root/jobs/9")), 0);
    assert_int_equal(symlink("../../../outside", path("root/pipelines/1/link")), 0);
    assert_int_equal(clear("", "pipelines", "3", "").code, ERR_BAD_VALUE);
    assert_int_equal(clear("", "jobs", "9", "kept").code, ERR_IO);
    assert_int_equal(clear("", "pipelines", "1", "").code, ERR_OK);
    assert_false(exists("root/pipelines/1"));
    assert_true(exists("outside/kept"));
}

static void what_cannot_be_removed_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(chmod(path("root/jobs/1/22"), 0500), 0);
    assert_int_equal(clear("", "jobs", "1", "22").code, ERR_IO);
    assert_true(exists("root/jobs/1/22/b"));
    assert_int_equal(chmod(path("root/jobs/1/22"), 0700), 0);
}

/* As on an older kernel, or in a container that does not know it. */
static void forbid_openat2(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) ||
        syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) != -1 || errno != ENOSYS) {
        perror("cannot do without openat2");
        exit(1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_cache_of_a_pipeline_is_removed_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_cache_of_a_job_is_removed_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_part_leads_out_of_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_folders_of_caches_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_link_is_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_is_an_error, set_up, tear_down),
    };
    if (geteuid() == 0 &&
        (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))) {
        perror("cannot give up the rights of root");
        return 1;
    }
    int failed = cmocka_run_group_tests_name("with openat2", tests, NULL, NULL);
    forbid_openat2();
    return failed + cmocka_run_group_tests_name("without openat2", tests, NULL, NULL);
}
