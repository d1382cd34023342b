/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "store/cm.h"
#include "store/log_contract.h"
#include "store/log_ring.h"
#include "store/log_segment.h"
#include "store/scratch.h"

#define SMALL ((size_t)2000)

/* Small segments, so that much happens with them. */
static struct log_file_settings settings = {.segment_bytes = 64 << 10,
                                            .segment_bytes_max = 256 << 10};

/* The ring serves one log at a time. */
static void use_ring(bool on)
{
    log_ring_free(settings.ring);
    settings.ring = on ? log_ring_new(LOG_UNDER_WAY_MAX) : NULL;
}

static void *make(void)
{
    return scratch_make();
}

static struct err open_it(void *state, uint64_t from, struct log **out)
{
    struct log_file_settings s = settings;
    s.dir = state;
    s.from = from;
    return log_file_open(&s, out);
}

static void unmake(void *state)
{
    scratch_remove(state);
    free(state);
}

static struct log *open_ok(const char *dir, uint64_t from)
{
    struct log *l = NULL;
    assert_ok(open_it((void *)(uintptr_t)dir, from, &l));
    return l;
}

/* --- segments --- */

static size_t count_segments(const char *dir, uint64_t *bytes)
{
    struct log_segment **list;
    size_t count;
    *bytes = 0;
    assert_ok(log_segment_list(dir, true, false, &list, &count));
    for (size_t i = 0; i < count; i++) {
        *bytes += list[i]->file_size;
        log_segment_free(list[i]);
    }
    free(list);
    return count;
}

static void segments_are_used_again(void **state)
{
    struct log *l = open_ok(*state, 1);
    uint64_t bytes;
    for (uint64_t n = 50; n <= 1500; n += 50) {
        log_batch_fill(l, n, SMALL);
        log_release(l, n);
        assert_in_range(count_segments(*state, &bytes), 1, 5);
    }
    log_close(l);
    l = open_ok(*state, 1501);
    assert_int_equal(log_durable(l), 1500);
    log_close(l);
}

static void segments_grow_up_to_their_limit(void **state)
{
    struct log *l = open_ok(*state, 1);
    uint64_t bytes;
    log_batch_fill(l, 1, SMALL);
    assert_int_equal(count_segments(*state, &bytes), 1);
    assert_int_equal(bytes, 64 << 10);
    log_batch_fill(l, 1000, SMALL);
    size_t count = count_segments(*state, &bytes);
    assert_in_range(bytes, 4000 << 10, count * (256 << 10));
    log_close(l);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void a_segment_of_unusual_size_is_not_kept(void **state)
{
    int descriptors = count_descriptors();
    struct log *l = open_ok(*state, 1);
    struct buf b = {0};
    uint64_t number, bytes;
    memset(buf_room(&b, 8 << 20), 'x', 8 << 20);
    b.len = 8 << 20;
    assert_ok(log_begin(l, buf_view(&b), true, &number));
    assert_ok(log_begin(l, STR("y"), true, &number));
    assert_ok(log_begin(l, buf_view(&b), true, &number));
    assert_ok(log_begin(l, STR("z"), true, &number));
    assert_ok(log_wait(l, number));
    count_segments(*state, &bytes);
    assert_in_range(bytes, 16 << 20, 20 << 20);
    log_release(l, number);
    count_segments(*state, &bytes);
    assert_in_range(bytes, 1, 9 << 20);
    buf_fini(&b);
    log_close(l);
    assert_int_equal(count_descriptors(), descriptors); /* also of what was left to be freed */
}

static void opening_again_and_again_takes_no_more_room(void **state)
{
    uint64_t first, bytes;
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 3, SMALL);
    log_close(l);
    count_segments(*state, &first);
    for (int i = 0; i < 200; i++)
        log_close(open_ok(*state, 4));
    count_segments(*state, &bytes);
    assert_in_range(bytes, first, 3 * (256 << 10));
    l = open_ok(*state, 4);
    assert_int_equal(log_durable(l), 3);
    log_close(l);
}

static void other_files_are_left_alone(void **state)
{
    char path[256], left[256];
    struct stat st;
    scratch_name_in(path, sizeof path, *state, "segment-notes.txt");
    scratch_name_in(left, sizeof left, *state, "segment-000007.new");
    for (int i = 0; i < 2; i++) {
        int fd = open(i ? left : path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        must(fd >= 0 && close(fd) == 0);
    }
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 10, SMALL);
    log_close(l);
    assert_int_equal(stat(path, &st), 0);
    assert_int_not_equal(stat(left, &st), 0); /* of someone who was killed */
}

static void a_reader_changes_nothing_and_sees_all(void **state)
{
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 500, SMALL);
    struct log_file_settings s = settings;
    s.dir = *state;
    s.from = 1;
    struct log *reader;
    for (int i = 0; i < 2; i++) {
        assert_ok(log_file_open_reader(&s, &reader));
        assert_int_equal(log_durable(reader), 500);
        log_batch_expect(reader, 1, SMALL);
        log_batch_expect(reader, 77, SMALL);
        log_close(reader);
    }
    log_batch_fill(l, 600, SMALL);
    log_close(l);
    l = open_ok(*state, 1);
    log_batch_expect(l, 1, SMALL);
    log_close(l);
}

/* After a power cut tables may hold what the log was never synced with. */
static void only_a_log_that_is_not_synced_may_end_before_the_tables(void **state)
{
    struct log_file_settings s = settings;
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 10, SMALL);
    log_close(l);
    s.dir = *state;
    s.from = 15;
    assert_code(log_file_open(&s, &l), ERR_CORRUPT);
    s.unsynced = true;
    s.reached = 15;
    assert_code(log_file_open(&s, &l), ERR_CORRUPT);
    s.reached = 14;
    assert_ok(log_file_open(&s, &l));
    assert_int_equal(log_durable(l), 14);
    log_close(l);
}

static void a_log_that_must_reach_further_is_refused(void **state)
{
    struct log_file_settings s = settings;
    struct log *l;
    s.dir = *state;
    s.from = 1;
    s.reached = 1;
    assert_code(log_file_open(&s, &l), ERR_CORRUPT); /* there is none */
    l = open_ok(*state, 1);
    log_batch_fill(l, 10, SMALL);
    log_close(l);
    s.reached = 10;
    assert_ok(log_file_open(&s, &l));
    log_close(l);
    s.reached = 11;
    assert_code(log_file_open(&s, &l), ERR_CORRUPT);
    s.lossy = true;
    assert_ok(log_file_open(&s, &l));
    log_close(l);
}

/* After losses tables may be ahead of what is left. */
static void a_lossy_log_begins_anew_behind_the_tables(void **state)
{
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 300, SMALL);
    log_close(l);
    struct log_file_settings s = settings;
    s.dir = *state;
    s.from = 1000;
    s.lossy = true;
    assert_ok(log_file_open(&s, &l));
    assert_int_equal(log_durable(l), 999);
    log_batch_fill(l, 1200, SMALL);
    log_close(l);
    l = open_ok(*state, 1000);
    assert_int_equal(log_durable(l), 1200);
    log_batch_expect(l, 1000, SMALL);
    log_close(l);
}

static void batches_that_tables_hold_can_be_kept_and_may_be_missing(void **state)
{
    struct log_file_settings s = settings;
    char path[256];
    struct log *l = open_ok(*state, 1);
    log_batch_fill(l, 100, SMALL);
    log_close(l);
    s.dir = *state;
    s.from = 101;
    s.keep = 5;
    assert_ok(log_file_open_reader(&s, &l));
    assert_int_equal(log_first(l), 1); /* where its segment begins */
    log_batch_expect(l, 5, SMALL);
    log_close(l);
    scratch_name_in(path, sizeof path, *state, "segment-000001");
    must(unlink(path) == 0);
    assert_ok(log_file_open(&s, &l));
    assert_int_equal(log_durable(l), 100);
    assert_in_range(log_first(l), 6, 101);
    log_batch_fill(l, 120, SMALL);
    log_close(l);
    s.keep = 100;
    assert_ok(log_file_open(&s, &l));
    log_batch_expect(l, 101, SMALL);
    log_close(l);
}

/* --- failures --- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void without_room_for_a_segment_an_append_is_refused_and_nothing_is_lost(void **state)
{
    struct log *l = open_ok(*state, 1);
    struct err e = err_none();
    struct buf b = {0};
    uint64_t number = 0, last = 0;
    log_batch_fill(l, 5, SMALL);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(64 << 10); /* what is there can be written, and nothing larger be made */
    for (last = 5; e.code == ERR_OK && last < 1000; last += e.code == ERR_OK) {
        log_batch(last + 1, SMALL, &b);
        e = log_begin(l, buf_view(&b), true, &number);
    }
    assert_code(e, ERR_DISK_FULL);
    assert_ok(log_wait(l, last));
    assert_code(log_begin(l, buf_view(&b), true, &number), ERR_DISK_FULL);
    limit_files(RLIM_INFINITY);
    log_batch_fill(l, last + 100, SMALL);
    log_close(l);
    l = open_ok(*state, 1);
    assert_int_equal(log_durable(l), last + 100);
    log_batch_expect(l, 1, SMALL);
    log_close(l);
    buf_fini(&b);
}

/* How many bytes of the disk the log may still take. */
static struct err take_from(void *ctx, uint64_t bytes)
{
    _Atomic uint64_t *left = ctx;
    if (bytes > *left)
        return err_make(ERR_DISK_FULL, "as instructed");
    *left -= bytes;
    return err_none();
}

static void what_is_released_makes_room_where_the_log_may_not_grow(void **state)
{
    struct log_file_settings s = settings;
    _Atomic uint64_t left = 64 << 10; /* for the first segment */
    struct log *l;
    struct buf b = {0};
    uint64_t number = 0;
    s.dir = *state;
    s.from = 1;
    s.may_grow = take_from;
    s.ctx = &left;
    s.segment_bytes_max = 64 << 10;
    assert_ok(log_file_open(&s, &l));
    left = 64 << 10;
    struct err e = err_none();
    while (e.code == ERR_OK) {
        log_batch(number + 1, SMALL, &b);
        e = log_begin(l, buf_view(&b), true, &number);
        assert_in_range(number, 0, 32);
    }
    assert_code(e, ERR_DISK_FULL);
    assert_ok(log_wait(l, number));
    for (int i = 0; i < 100; i++) {
        log_release(l, number);
        log_batch_fill(l, number + 5, SMALL);
        number += 5;
    }
    log_close(l);
    buf_fini(&b);
}

static int count_removed(void)
{
    struct stat st;
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
    return n;
}

static void what_is_removed_is_freed_where_the_log_may_not_grow(void **state)
{
    struct log_file_settings s = {.dir = *state, .from = 1, .may_grow = take_from};
    _Atomic uint64_t left = 12 << 20;
    struct log *l;
    struct buf b = {0};
    uint64_t number = 0;
    int before = count_removed();
    s.ctx = &left;
    s.segment_bytes = s.segment_bytes_max = 2 << 20; /* more than is freed at once */
    assert_ok(log_file_open(&s, &l));
    struct err e = err_none();
    while (e.code == ERR_OK) {
        log_batch(number + 1, 200000, &b);
        e = log_begin(l, buf_view(&b), true, &number);
    }
    assert_code(e, ERR_DISK_FULL);
    assert_ok(log_wait(l, number));
    log_release(l, number);
    for (int i = 0; count_removed() > before; i++) {
        assert_true(i < 6000);
        usleep(5000);
    }
    log_close(l);
    buf_fini(&b);
}

static void where_little_room_is_left_segments_are_small(void **state)
{
    struct log_file_settings s = {.dir = *state, .from = 1, .may_grow = take_from};
    _Atomic uint64_t left = 6 << 20;
    struct log *l;
    uint64_t bytes;
    s.ctx = &left;
    assert_ok(log_file_open(&s, &l)); /* 1 MiB, and then there would be 4, 16, … */
    log_batch_fill(l, 1400, SMALL);
    assert_int_equal(count_segments(*state, &bytes), 3);
    assert_int_equal(bytes, 6 << 20);
    log_close(l);
}

static void after_a_failed_write_nothing_becomes_durable_until_an_opening(void **state)
{
    struct log *l = open_ok(*state, 1);
    struct buf b = {0};
    uint64_t number;
    log_batch_fill(l, 5, SMALL);
    log_batch(6, SMALL, &b);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(4096); /* and not even what is there */
    assert_ok(log_begin(l, buf_view(&b), true, &number));
    struct err e = log_wait(l, number);
    limit_files(RLIM_INFINITY);
    assert_int_not_equal(e.code, ERR_OK);
    assert_code(log_begin(l, buf_view(&b), true, &number), ERR_IO);
    assert_int_equal(log_durable(l), 5);
    log_close(l);
    l = open_ok(*state, 1);
    assert_in_range(log_durable(l), 5, 6);
    log_batch_expect(l, 1, SMALL);
    log_batch_fill(l, 20, SMALL);
    log_close(l);
    buf_fini(&b);
}

/* --- kill -9 --- */

/* Appends until it is killed; tells of each batch that is durable. */
static int child_append(const char *dir)
{
    struct buf b = {0};
    struct log *l = open_ok(dir, 1);
    uint64_t told = 0, number = log_durable(l);
    for (;;) {
        log_batch(number + 1, SMALL, &b);
        struct err e = log_begin(l, buf_view(&b), number % 5 != 0, &number);
        must(e.code == ERR_OK);
        if (number % 3 == 0) {
            e = log_wait(l, number - 1);
            must(e.code == ERR_OK);
        }
        uint64_t durable = log_durable(l);
        if (durable > told && write(STDOUT_FILENO, &durable, sizeof durable) != sizeof durable)
            return 1;
        told = durable;
    }
}

static uint64_t kill_in_mid_appends(const char *dir, int reports)
{
    int ends[2], status;
    must(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_log_file", settings.no_direct ? "synced" : "direct", dir,
              settings.threads ? "2" : "0", settings.ring ? "ring" : "", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    uint64_t last = 0, number;
    for (int n = 0; read(ends[0], &number, sizeof number) == sizeof number; n++) {
        last = number;
        if (n == reports)
            kill(pid, SIGKILL);
    }
    close(ends[0]);
    must(waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return last;
}

static void what_was_durable_survives_kill_9(void **state)
{
    for (int round = 0; round < 10; round++) {
        uint64_t told = kill_in_mid_appends(*state, 5 + round * 17);
        struct log *l = open_ok(*state, 1);
        assert_in_range(log_durable(l), told, told + LOG_UNDER_WAY_MAX);
        log_batch_expect(l, 1, SMALL);
        log_close(l);
    }
}

/* --- all of it, over each way to write --- */

static int run_all(const char *way)
{
    char name[64], own[64];
    snprintf(name, sizeof name, "log_file_contract_%s", way);
    snprintf(own, sizeof own, "log_file_%s", way);
    const struct log_kind kind = {name, make, open_it, unmake};
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(segments_are_used_again),
        T(segments_grow_up_to_their_limit),
        T(a_segment_of_unusual_size_is_not_kept),
        T(opening_again_and_again_takes_no_more_room),
        T(other_files_are_left_alone),
        T(a_reader_changes_nothing_and_sees_all),
        T(only_a_log_that_is_not_synced_may_end_before_the_tables),
        T(a_log_that_must_reach_further_is_refused),
        T(a_lossy_log_begins_anew_behind_the_tables),
        T(batches_that_tables_hold_can_be_kept_and_may_be_missing),
        T(without_room_for_a_segment_an_append_is_refused_and_nothing_is_lost),
        T(what_is_released_makes_room_where_the_log_may_not_grow),
        T(what_is_removed_is_freed_where_the_log_may_not_grow),
        T(where_little_room_is_left_segments_are_small),
        T(after_a_failed_write_nothing_becomes_durable_until_an_opening),
        T(what_was_durable_survives_kill_9),
    };
#undef T
    int failures = log_contract_run(&kind);
    return failures + cmocka_run_group_tests_name(own, tests, NULL, NULL);
}

/* --- the ring --- */

static void what_the_ring_has_ended_is_told_by_its_descriptor(void **state)
{
    struct log *l = open_ok(*state, 1);
    struct buf b = {0};
    uint64_t number;
    log_batch(1, SMALL, &b);
    for (uint64_t n = 1; n <= 300; n++) {
        struct pollfd told = {.fd = log_ring_fd(settings.ring), .events = POLLIN};
        assert_int_equal(poll(&told, 1, 0), 0);
        assert_ok(log_begin(l, buf_view(&b), true, &number));
        while (log_durable(l) < n)
            assert_int_equal(poll(&told, 1, -1), 1);
    }
    log_close(l);
    buf_fini(&b);
}

static void an_append_is_ready_until_a_segment_is_full(void **state)
{
    struct log *l = open_ok(*state, 1);
    struct buf b = {0};
    uint64_t number = 0;
    log_batch_fill(l, 1, SMALL);
    log_batch(2, SMALL, &b);
    size_t ready = 0;
    for (; log_is_ready(l, b.len, true); ready++) {
        assert_ok(log_begin(l, buf_view(&b), true, &number));
        assert_ok(log_wait(l, number));
    }
    assert_in_range(ready, 5, 16);
    assert_false(log_is_ready(l, 1 << 20, true));
    assert_ok(log_begin(l, buf_view(&b), true, &number)); /* begins the next segment */
    assert_ok(log_wait(l, number));
    assert_true(log_is_ready(l, b.len, true));
    assert_ok(log_begin(l, buf_view(&b), false, &number));
    assert_true(log_is_ready(l, b.len, false));
    assert_false(log_is_ready(l, b.len, true)); /* what was not synced must be, before */
    log_close(l);
    buf_fini(&b);
}

static void as_many_as_may_be_are_ready_at_once(void **state)
{
    struct log *l = open_ok(*state, 1);
    struct buf b = {0};
    uint64_t number;
    size_t n = 0;
    log_batch_fill(l, 100, SMALL); /* to a segment with room */
    buf_add(&b, "x", 1);
    for (; n < LOG_UNDER_WAY_MAX; n++) {
        assert_true(log_is_ready(l, b.len, true));
        assert_ok(log_begin(l, buf_view(&b), true, &number));
    }
    assert_ok(log_begin(l, buf_view(&b), true, &number)); /* waits for one */
    assert_ok(log_wait(l, number));
    assert_int_equal(log_durable(l), number);
    log_close(l);
    buf_fini(&b);
}

static void there_is_no_ring(void **state)
{
    (void)state;
    skip(); /* many containers forbid io_uring: there the threads serve */
}

static int run_over_ring(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(what_the_ring_has_ended_is_told_by_its_descriptor),
        T(an_append_is_ready_until_a_segment_is_full),
        T(as_many_as_may_be_are_ready_at_once),
    };
#undef T
    int failures = 0;
    use_ring(true);
    const struct CMUnitTest none[] = {cmocka_unit_test(there_is_no_ring)};
    if (!settings.ring)
        return cmocka_run_group_tests_name("log_file_ring", none, NULL, NULL);
    for (int synced = 1; synced >= 0; synced--) {
        settings.no_direct = synced;
        failures += run_all(synced ? "ring_synced" : "ring_direct");
    }
    failures += cmocka_run_group_tests_name("log_file_ring", tests, NULL, NULL);
    use_ring(false);
    return failures;
}

int main(int argc, char **argv)
{
    if (argc == 5) {
        use_ring(*argv[4] != '\0');
        settings.no_direct = strcmp(argv[1], "synced") == 0;
        settings.threads = (unsigned)atoi(argv[3]);
        return child_append(argv[2]);
    }
    int failures = run_all("direct"); /* on a real disk; the rest in memory, where there is room */
    char folder[] = "/dev/shm/tenax-log-XXXXXX";
    bool in_memory = mkdtemp(folder) && chdir(folder) == 0;
    settings.threads = 2;
    failures += run_all("threads");
    settings.no_direct = true;
    settings.threads = 0;
    failures += run_all("synced");
    failures += run_over_ring();
    if (in_memory)
        rmdir(folder);
    return failures;
}
