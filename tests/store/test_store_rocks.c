/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/cm.h"
#include "store/contract.h"
#include "base/folder.h"
#include "store/inventory.h"
#include "store/scratch.h"

/* Tests that need a second process start this program again: RocksDB's threads do not survive a
 * fork. */

static pid_t start_again(const char *role, const char *dir, int out)
{
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        if (out >= 0)
            dup2(out, STDOUT_FILENO);
        execl("/proc/self/exe", "test_store_rocks", role, dir, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int exit_status(pid_t pid)
{
    int status;
    must(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_closed_store_opens_with_all_it_had(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "1");
    store_close(s);
    s = scratch_open_rocks(dir);
    scratch_expect(s, "a", "1");
    store_close(s);
}

static unsigned count_leftovers(const char *dir)
{
    DIR *d = opendir(dir);
    must(d);
    unsigned n = 0;
    for (const struct dirent *file; (file = readdir(d));)
        n += strstr(file->d_name, "tmp") != NULL;
    closedir(d);
    return n;
}

static void opening_again_and_again_leaves_nothing_behind(void **state)
{
    const char *dir = *state;
    for (int i = 0; i < 3; i++) {
        store_close(scratch_open_rocks(dir));
        assert_int_equal(count_leftovers(dir), 0);
    }
}

/* --- lock --- */

static int child_open(const char *dir)
{
    struct store *s;
    struct err e = scratch_try_open(dir, &s);
    if (e.code != ERR_OK && !strstr(e.msg, dir))
        return 100;
    return e.code == ERR_LOCKED ? 1 : 0;
}

static void a_second_process_is_told_that_the_store_is_locked(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    assert_int_equal(exit_status(start_again("open", dir, -1)), 1);
    store_close(s);
    assert_int_equal(exit_status(start_again("open", dir, -1)), 0);
}

static void a_second_store_in_one_process_is_locked_out(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir), *second;
    assert_code(scratch_try_open(dir, &second), ERR_LOCKED);
    store_close(s);
}

/* --- what cannot be opened --- */

static void a_folder_that_cannot_be_made_is_an_io_error(void **state)
{
    (void)state;
    struct store *s;
    struct err e = scratch_try_open("/dev/null/store", &s);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "/dev/null/store"));
}

static void a_damaged_store_is_corrupt(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "1");
    store_close(s);
    char path[256];
    snprintf(path, sizeof path, "%s/CURRENT", dir);
    assert_int_equal(truncate(path, 3), 0);
    assert_code(scratch_try_open(dir, &s), ERR_CORRUPT);
}

/* --- kill -9 --- */

#define BATCH_KEYS 7

static struct str batch_key(char out[32], unsigned batch, unsigned i)
{
    int n = snprintf(out, 32, "%08u-%u", batch, i);
    return (struct str){out, (size_t)n};
}

static bool has_key(struct store *s, unsigned batch, unsigned i)
{
    char key[32];
    struct buf value = {0};
    bool found;
    struct err e = store_get(s, batch_key(key, batch, i), &found, &value);
    must(e.code == ERR_OK);
    buf_fini(&value);
    return found;
}

/* The first batch that is absent. All batches before it must be complete. */
static unsigned count_batches(struct store *s)
{
    for (unsigned batch = 0;; batch++) {
        unsigned there = 0;
        for (unsigned i = 0; i < BATCH_KEYS; i++)
            there += has_key(s, batch, i);
        if (there == 0)
            return batch;
        if (there != BATCH_KEYS)
            fail_msg("of batch %u there are %u of %d keys", batch, there, BATCH_KEYS);
    }
}

/* Commits batch after batch until it is killed; writes the number of each to standard output once
 * it is durable. */
static int child_commit(const char *dir)
{
    struct store *s = scratch_open_rocks(dir);
    must(s);
    struct batch b = {0};
    for (unsigned batch = count_batches(s);; batch++) {
        for (unsigned i = 0; i < BATCH_KEYS; i++) {
            char key[32];
            memset(batch_put_room(&b, batch_key(key, batch, i), 300), (int)i, 300);
        }
        /* Also unsynced ones: the system keeps them if only the process dies. */
        struct err e = scratch_try_commit(s, &b, batch % 4 != 0);
        must(e.code == ERR_OK);
        if (write(STDOUT_FILENO, &batch, sizeof batch) != sizeof batch)
            return 1;
    }
}

/* Runs the child until it has reported `reports` batches, kills it, and returns the total number of
 * batches that it has reported. */
static unsigned kill_in_mid_commits(const char *dir, int reports)
{
    int ends[2];
    must(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = start_again("commit", dir, ends[1]);
    close(ends[1]);
    unsigned last = 0, batch;
    for (int n = 0; read(ends[0], &batch, sizeof batch) == sizeof batch; n++) {
        last = batch;
        if (n == reports)
            kill(pid, SIGKILL);
    }
    close(ends[0]);
    assert_int_equal(exit_status(pid), -SIGKILL);
    return last + 1;
}

static void what_was_durable_survives_kill_9(void **state)
{
    const char *dir = *state;
    for (int round = 0; round < 12; round++) {
        unsigned reported = kill_in_mid_commits(dir, 5 + round * 13);
        struct store *s = scratch_open_rocks(dir);
        assert_non_null(s);
        unsigned there = count_batches(s);
        store_close(s);
        assert_in_range(there, reported, reported + 1);
    }
}

/* --- failed commits --- */

static enum err_code try_put(struct store *s, const char *key, size_t len)
{
    struct batch b = {0};
    memset(batch_put_room(&b, str_from(key), len), 'v', len);
    struct err e = scratch_try_commit(s, &b, true);
    batch_fini(&b);
    return e.code;
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void after_a_failed_commit_reads_go_on_and_a_reopen_heals(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "1");
    signal(SIGXFSZ, SIG_IGN);
    limit_files(1 << 20);
    enum err_code failed = try_put(s, "large", 4 << 20);
    enum err_code refused = try_put(s, "small", 1);
    limit_files(RLIM_INFINITY);
    assert_int_equal(failed, ERR_DISK_FULL); /* there is no segment that is large enough */
    assert_int_equal(refused, ERR_STORE);
    /* Still refused although there would be room: only a reopen shows what was kept. */
    assert_int_equal(try_put(s, "small", 1), ERR_STORE);
    scratch_expect(s, "a", "1");
    assert_ok(store_reopen(s));
    scratch_expect(s, "a", "1");
    scratch_expect(s, "small", NULL);
    assert_int_equal(try_put(s, "large", 4 << 20), ERR_OK);
    store_close(s);
}

static void a_store_that_cannot_be_written_on_reopen_is_still_read(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "1");
    signal(SIGXFSZ, SIG_IGN);
    limit_files(0);
    struct err e = store_reopen(s);
    limit_files(RLIM_INFINITY);
    assert_int_equal(e.code, ERR_IO);
    scratch_expect(s, "a", "1");
    assert_int_equal(try_put(s, "b", 1), ERR_STORE);
    assert_ok(store_reopen(s));
    scratch_expect(s, "a", "1");
    assert_int_equal(try_put(s, "b", 1), ERR_OK);
    store_close(s);
}

static void a_store_that_is_damaged_on_reopen_says_so_on_every_read(void **state)
{
    const char *dir = *state;
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "1");
    char current[256], aside[256];
    snprintf(current, sizeof current, "%s/CURRENT", dir);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    assert_int_equal(rename(current, aside), 0);
    int fd = open(current, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, "MAN", 3) == 3);
    close(fd);
    assert_code(store_reopen(s), ERR_CORRUPT);
    bool found = true;
    struct buf value = {0};
    assert_code(store_get(s, STR("a"), &found, &value), ERR_STORE);
    assert_false(found);
    struct str k, v;
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR(""), false);
    assert_false(store_cursor_at(c, s, &k, &v));
    assert_code(store_cursor_free(c, s), ERR_STORE);
    assert_int_equal(rename(aside, current), 0);
    assert_ok(store_reopen(s));
    scratch_expect(s, "a", "1");
    store_close(s);
}

/* Puts until a commit fails; returns how many were durable. */
static unsigned fill_disk(struct store *s, enum err_code *how)
{
    char key[32];
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "%08u", i);
        *how = try_put(s, key, 64 * 1024);
        if (*how != ERR_OK)
            return i;
    }
}

static bool all_there(struct store *s, unsigned count)
{
    char key[32];
    struct buf value = {0};
    bool found = true;
    for (unsigned i = 0; i < count && found; i++) {
        snprintf(key, sizeof key, "%08u", i);
        struct err e = store_get(s, str_from(key), &found, &value);
        found = found && e.code == ERR_OK && value.len == 64 * 1024;
    }
    buf_fini(&value);
    return found;
}

#define CHILD_SKIP 77

/* In a name space of its own, so that the mount disappears with the process. */
static bool mount_small_disk(const char *dir)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("tmpfs", dir, "tmpfs", 0, "size=24m") == 0;
}

static int child_disk_full(const char *dir)
{
    if (!mount_small_disk(dir))
        return CHILD_SKIP;
    char filler[256], store_dir[256];
    snprintf(filler, sizeof filler, "%s/filler", dir);
    snprintf(store_dir, sizeof store_dir, "%s/store", dir);
    int fd = open(filler, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    must(fd >= 0 && posix_fallocate(fd, 0, 8 << 20) == 0);
    close(fd);

    struct store *s = scratch_open_rocks(store_dir);
    must(s);
    enum err_code how;
    unsigned durable = fill_disk(s, &how);
    if (how != ERR_DISK_FULL)
        return 2;
    if (!all_there(s, durable))
        return 3;
    /* There is no room yet: service does not resume, but reads go on. */
    struct err e = store_reopen(s);
    if (e.code != ERR_DISK_FULL)
        return 4;
    if (!all_there(s, durable))
        return 5;
    if (try_put(s, "more", 1) != ERR_STORE)
        return 6;
    must(unlink(filler) == 0);
    e = store_reopen(s);
    if (e.code != ERR_OK)
        return 7;
    if (!all_there(s, durable) || try_put(s, "more", 1 << 20) != ERR_OK)
        return 8;
    store_close(s);
    return 0;
}

static void a_full_disk_loses_nothing_and_service_resumes(void **state)
{
    const char *dir = *state;
    int status = exit_status(start_again("disk_full", dir, -1));
    if (status == CHILD_SKIP) {
        print_message("no right to mount a small disk: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* Of a batch that is for the thread. */
#define LARGE ((size_t)100000)

struct bell {
    int ends[2];
};

static void ring(void *ctx)
{
    const struct bell *bell = ctx;
    must(write(bell->ends[1], "x", 1) == 1);
}

/* As the loop of a server does: without looking at the time. */
static void reap_by_notices(struct store *s, const struct bell *bell, unsigned *by_thread,
                            unsigned *by_kernel)
{
    struct pollfd told[] = {{.fd = bell->ends[0], .events = POLLIN},
                            {.fd = store_wake_fd(s), .events = POLLIN}};
    struct err e;
    char byte;
    do {
        assert_in_range(poll(told, 2, -1), 1, 2);
        if (told[0].revents)
            assert_int_equal(read(bell->ends[0], &byte, 1), 1);
        *by_thread += told[0].revents != 0;
        *by_kernel += told[1].revents != 0;
    } while (!store_reap(s, &e));
    assert_code(e, ERR_OK);
}

static void a_notice_comes_for_every_batch(void **state)
{
    struct bell bell;
    unsigned by_thread = 0, by_kernel = 0;
    must(pipe2(bell.ends, O_CLOEXEC) == 0);
    struct rocks_settings settings = {
        .dir = *state, .cache_bytes = 8 << 20, .notify = ring, .ctx = &bell};
    struct store *s;
    char *large = calloc(1, LARGE);
    must(large);
    assert_ok(rocks_open(&settings, &s));
    struct batch b = {0};
    for (int i = 0; i < 200; i++) {
        batch_put(&b, STR("a"), i % 10 == 5 ? (struct str){large, LARGE} : STR("1"));
        store_commit(s, &b, i % 7 != 3);
        reap_by_notices(s, &bell, &by_thread, &by_kernel);
        batch_reset(&b);
    }
    free(large);
    assert_in_range(by_thread, 20, 200);
    if (store_wake_fd(s) >= 0)
        assert_in_range(by_kernel, 100, 200); /* most are small */
    batch_fini(&b);
    store_close(s);
    close(bell.ends[0]);
    close(bell.ends[1]);
}

/* --- snapshots, and stores opened for inspection --- */

static void a_snapshot_has_what_was_durable_and_opens_as_a_store(void **state)
{
    char copy[256];
    scratch_name_in(copy, sizeof copy, *state, "snapshot");
    struct store *s = scratch_open_rocks(*state);
    scratch_put(s, "before", "1");
    assert_ok(store_snapshot(s, copy));
    scratch_put(s, "after", "2");
    struct store *c = scratch_open_rocks(copy);
    scratch_expect(c, "before", "1");
    scratch_expect(c, "after", NULL);
    store_close(c);
    assert_ok(folder_remove(copy));
    scratch_expect(s, "after", "2");
    store_close(s);
}

struct writing {
    struct store *store;
    const char *copy;
    struct err result;
};

static void *take_snapshot(void *ctx)
{
    struct writing *w = ctx;
    w->result = store_snapshot(w->store, w->copy);
    return NULL;
}

/* At any moment a batch is in the copy as a whole or not at all. */
static void a_snapshot_made_while_batches_are_committed_splits_none(void **state)
{
    char copy[256];
    scratch_name_in(copy, sizeof copy, *state, "snapshot");
    struct store *s = scratch_open_rocks(*state);
    struct writing w = {s, copy, err_none()};
    pthread_t thread;
    must(pthread_create(&thread, NULL, take_snapshot, &w) == 0);
    struct batch b = {0};
    for (int i = 0; i < 500; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        batch_put(&b, STR("one"), str_from(value));
        batch_put(&b, STR("two"), str_from(value));
        scratch_commit(s, &b);
    }
    batch_fini(&b);
    must(pthread_join(thread, NULL) == 0);
    assert_ok(w.result);
    struct store *c = scratch_open_rocks(copy);
    struct buf one = {0}, two = {0};
    bool found_one, found_two;
    assert_ok(store_get(c, STR("one"), &found_one, &one));
    assert_ok(store_get(c, STR("two"), &found_two, &two));
    assert_int_equal(found_one, found_two);
    assert_true(str_eq(buf_view(&one), buf_view(&two)));
    buf_fini(&one);
    buf_fini(&two);
    store_close(c);
    assert_ok(folder_remove(copy));
    store_close(s);
}

static void a_snapshot_where_there_is_something_fails_and_the_store_goes_on(void **state)
{
    char copy[256];
    scratch_name_in(copy, sizeof copy, *state, "snapshot");
    struct store *s = scratch_open_rocks(*state);
    must(mkdir(copy, 0700) == 0);
    assert_code(store_snapshot(s, copy), ERR_IO);
    must(rmdir(copy) == 0);
    scratch_put(s, "a", "1");
    assert_ok(store_snapshot(s, copy));
    assert_ok(folder_remove(copy));
    store_close(s);
}

static void a_reader_sees_all_and_changes_nothing(void **state)
{
    struct store *s = scratch_open_rocks(*state), *reader;
    scratch_put(s, "a", "1");
    store_close(s);
    assert_ok(rocks_open_reader(*state, 8 << 20, &reader));
    scratch_expect(reader, "a", "1");
    scratch_expect(reader, "b", NULL);
    store_close(reader);
    s = scratch_open_rocks(*state);
    scratch_expect(s, "a", "1");
    store_close(s);
}

/* --- locks of tools --- */

static void a_lock_keeps_servers_out_and_is_kept_out_by_them(void **state)
{
    int fd;
    assert_ok(rocks_lock(*state, &fd));
    must(fd >= 0);
    pid_t pid = start_again("open", *state, -1);
    assert_int_equal(exit_status(pid), 1);
    rocks_unlock(fd);
    assert_int_equal(exit_status(start_again("open", *state, -1)), 0);
}

/* --- the log and the tables --- */

/* Each of these commits takes a block of the log, and hardly any memory. */
static void small_commits_come_to_tables_before_the_log_is_long(void **state)
{
    struct rocks_settings settings = {
        .dir = *state, .cache_bytes = 8 << 20, .log_bytes = 1 << 20, .notify = scratch_no_notice};
    struct inventory *inv = ALLOC(struct inventory);
    struct store *s;
    bool found;
    assert_ok(rocks_open(&settings, &s));
    for (unsigned n = 0; n < 100000 && inv->is.tables < 1000; n++) {
        struct batch b = {0};
        batch_put(&b, STR("k"), STR("v"));
        assert_ok(scratch_try_commit(s, &b, false));
        batch_fini(&b);
        if (n % 100 == 0)
            assert_ok(inventory_read(*state, &found, inv));
    }
    assert_true(inv->is.tables >= 1000);
    free(inv);
    store_close(s);
}

static struct err count_batch(void *ctx, uint64_t number, const struct batch_op *op)
{
    uint64_t *last = ctx;
    assert_int_equal(number, *last + 1);
    assert_str(op->key, "k");
    *last = number;
    return err_none();
}

static void commit_small(struct store *s, unsigned count)
{
    struct batch b = {0};
    for (unsigned n = 0; n < count; n++) {
        batch_put(&b, STR("k"), STR("v"));
        assert_ok(scratch_try_commit(s, &b, false));
    }
    batch_fini(&b);
}

/* Tables have them, several segments have come and gone. */
static void what_is_held_stays_in_the_log_over_starts(void **state)
{
    struct rocks_settings settings = {
        .dir = *state, .cache_bytes = 8 << 20, .log_bytes = 1 << 20, .notify = scratch_no_notice};
    struct store *s;
    assert_ok(rocks_open(&settings, &s));
    commit_small(s, 300);
    store_hold(s, 300);
    commit_small(s, 4700);
    for (int i = 0; i < 2; i++) {
        store_close(s);
        assert_ok(rocks_open(&settings, &s));
        uint64_t last = 300;
        assert_int_equal(store_number(s), 5000 + i);
        assert_ok(store_replay(s, 301, count_batch, &last));
        assert_int_equal(last, 5000 + i);
        commit_small(s, 1);
    }
    store_hold(s, STORE_HOLD_NONE);
    commit_small(s, 2000);
    store_close(s);
    assert_ok(rocks_open(&settings, &s));
    uint64_t last = 300;
    assert_code(store_replay(s, 301, count_batch, &last), ERR_NOT_FOUND);
    store_close(s);
}

static int run_own_tests(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_closed_store_opens_with_all_it_had),
        T(opening_again_and_again_leaves_nothing_behind),
        T(a_second_process_is_told_that_the_store_is_locked),
        T(a_second_store_in_one_process_is_locked_out),
        T(a_folder_that_cannot_be_made_is_an_io_error),
        T(a_damaged_store_is_corrupt),
        T(what_was_durable_survives_kill_9),
        T(after_a_failed_commit_reads_go_on_and_a_reopen_heals),
        T(a_store_that_cannot_be_written_on_reopen_is_still_read),
        T(a_store_that_is_damaged_on_reopen_says_so_on_every_read),
        T(a_full_disk_loses_nothing_and_service_resumes),
        T(a_notice_comes_for_every_batch),
        T(a_snapshot_has_what_was_durable_and_opens_as_a_store),
        T(a_snapshot_made_while_batches_are_committed_splits_none),
        T(a_snapshot_where_there_is_something_fails_and_the_store_goes_on),
        T(a_reader_sees_all_and_changes_nothing),
        T(a_lock_keeps_servers_out_and_is_kept_out_by_them),
        T(small_commits_come_to_tables_before_the_log_is_long),
        T(what_is_held_stays_in_the_log_over_starts),
    };
#undef T
    return cmocka_run_group_tests_name("rocks", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return child_open(argv[2]);
    if (argc == 3 && strcmp(argv[1], "commit") == 0)
        return child_commit(argv[2]);
    if (argc == 3 && strcmp(argv[1], "disk_full") == 0)
        return child_disk_full(argv[2]);
    int failures = contract_run("store_rocks", scratch_open_rocks);
    failures += run_own_tests();
    scratch_set_no_ring(true);
    failures += contract_run("store_rocks_by_thread", scratch_open_rocks);
    return failures + run_own_tests();
}
