/* SPDX-License-Identifier: Apache-2.0 */

/* Damage in the log of a store on RocksDB: what counts as its end, and what as a gap. */

#include "store/rocks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/cm.h"
#include "store/log_frame.h"
#include "store/scratch.h"
#include "store/tables.h"

/* Three batches, each in a block of the log: where they are. */
static void make_log(const char *dir, char log[256], off_t batches[3])
{
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "first-value");
    scratch_put(s, "b", "other-value");
    scratch_put(s, "c", "third-value");
    store_close(s);
    scratch_name_in(log, 256, dir, "segment-000001");
    int fd = open(log, O_RDONLY);
    must(fd >= 0);
    unsigned char head[8];
    size_t n = 0;
    for (off_t at = 0; n < 3; at += (off_t)LOG_BLOCK) {
        must(pread(fd, head, sizeof head, at) == sizeof head);
        if (head[4] == LOG_BATCH)
            batches[n++] = at;
    }
    close(fd);
}

static void damage(const char *log, off_t at)
{
    int fd = open(log, O_RDWR);
    must(fd >= 0 && pwrite(fd, "X", 1, at) == 1 && close(fd) == 0);
}

/* The sector did not come to the disk: it is as before. */
static void leave_out(const char *log, off_t at)
{
    static const char zeros[LOG_SECTOR];
    int fd = open(log, O_RDWR);
    must(fd >= 0 && pwrite(fd, zeros, sizeof zeros, at) == sizeof zeros && close(fd) == 0);
}

static struct err try_open_lossy(const char *dir, struct store **s)
{
    struct rocks_settings settings = {
        .dir = dir, .cache_bytes = 8 << 20, .lossy = true, .notify = scratch_no_notice};
    return rocks_open(&settings, s);
}

/* As it is while the newest batches are not in the inventory yet. */
static void forget_inventory(const char *dir)
{
    char path[256];
    scratch_name_in(path, sizeof path, dir, "INVENTORY");
    must(unlink(path) == 0);
}

static void a_reader_finds_damage_in_the_middle_of_the_log(void **state)
{
    struct store *reader;
    char log[256];
    off_t at[3];
    make_log(*state, log, at);
    damage(log, at[0] + 40);
    assert_code(rocks_open_reader(*state, 8 << 20, &reader), ERR_CORRUPT);
}

static void damage_that_a_whole_batch_follows_is_no_end_of_the_log(void **state)
{
    struct store *s;
    char log[256];
    off_t at[3];
    make_log(*state, log, at);
    damage(log, at[1] + 40);
    assert_code(scratch_try_open(*state, &s), ERR_CORRUPT);
    assert_code(scratch_try_open(*state, &s), ERR_CORRUPT); /* nor the second time */
}

static void damage_that_an_opening_follows_is_no_end_of_the_log(void **state)
{
    char log[256];
    off_t at[3];
    make_log(*state, log, at);
    struct store *s = scratch_open_rocks(*state);
    store_close(s);
    forget_inventory(*state);
    damage(log, at[2] + 40);
    assert_code(scratch_try_open(*state, &s), ERR_CORRUPT);
    must(truncate(log, at[2]) == 0);
    assert_code(scratch_try_open(*state, &s), ERR_CORRUPT);
}

static void what_was_being_written_when_the_power_went_is_the_end_of_the_log(void **state)
{
    char log[256];
    off_t at[3];
    struct store *s;
    make_log(*state, log, at);
    forget_inventory(*state);
    leave_out(log, at[2]);
    assert_code(scratch_try_open(*state, &s),
                ERR_CORRUPT); /* the last note says that it was there */
    leave_out(log, at[2] + (off_t)LOG_BLOCK);
    for (int i = 0; i < 2; i++) {
        s = scratch_open_rocks(*state);
        scratch_expect(s, "b", "other-value");
        scratch_expect(s, "c", NULL);
        scratch_put(s, "d", i ? "2" : "1");
        store_close(s);
    }
}

static void where_commits_were_not_synced_a_hole_is_given_up_for_good(void **state)
{
    struct store *s;
    char log[256];
    off_t at[3];
    make_log(*state, log, at);
    damage(log, at[1] + 40);
    assert_ok(try_open_lossy(*state, &s));
    scratch_expect(s, "a", "first-value");
    scratch_expect(s, "b", NULL);
    scratch_expect(s, "c", NULL);
    store_close(s);
    s = scratch_open_rocks(*state);
    scratch_expect(s, "a", "first-value");
    store_close(s);
}

/* --- every byte, every length --- */

static size_t read_log(const char *log, char **bytes)
{
    FILE *f = fopen(log, "rb");
    must(f && fseek(f, 0, SEEK_END) == 0);
    long len = ftell(f);
    *bytes = alloc_get((size_t)len);
    must(len > 0 && fseek(f, 0, SEEK_SET) == 0);
    must(fread(*bytes, 1, (size_t)len, f) == (size_t)len);
    fclose(f);
    return (size_t)len;
}

static void write_at(const char *log, size_t at, const char *bytes, size_t len)
{
    int fd = open(log, O_WRONLY);
    must(fd >= 0 && pwrite(fd, bytes, len, (off_t)at) == (ssize_t)len && close(fd) == 0);
}

/* How many of the three batches a store opened for reading has, -1 if it is refused: never one
 * without those before it, nor other bytes. */
static int count_batches(const char *dir)
{
    const struct str keys[] = {STR("a"), STR("b"), STR("c")},
                     values[] = {STR("first-value"), STR("other-value"), STR("third-value")};
    struct store *s;
    struct err e = rocks_open_reader(dir, 1 << 20, &s);
    if (e.code != ERR_OK) {
        /* ERR_IO if a file is missing. */
        assert_true(e.code == ERR_CORRUPT || e.code == ERR_VERSION || e.code == ERR_IO);
        return -1;
    }
    struct buf value = {0};
    int there = 0;
    for (int i = 0; i < 3 && e.code == ERR_OK; i++) {
        bool found;
        e = store_get(s, keys[i], &found, &value);
        assert_true(e.code == ERR_OK || e.code == ERR_CORRUPT);
        found = found && e.code == ERR_OK;
        assert_true(!found || (there == i && str_eq(buf_view(&value), values[i])));
        there += found;
    }
    buf_fini(&value);
    store_close(s);
    return e.code == ERR_OK ? there : -1;
}

/* All bytes of the sectors that are in use, and one of each other sector. */
static void a_changed_byte_anywhere_is_refused_or_costs_nothing(void **state)
{
    char log[256], *bytes;
    off_t at[3];
    make_log(*state, log, at);
    size_t len = read_log(log, &bytes), refused = 0;
    size_t end = (size_t)at[2] + 2 * LOG_BLOCK;
    for (size_t i = 0; i < end && i < len; i += i % LOG_BLOCK < LOG_SECTOR ? 1 : LOG_SECTOR) {
        char changed = (char)(bytes[i] ^ 0x10);
        write_at(log, i, &changed, 1);
        int there = count_batches(*state);
        assert_true(there == -1 || there == 3);
        refused += there == -1;
        write_at(log, i, &bytes[i], 1);
    }
    assert_int_equal(count_batches(*state), 3);
    assert_true(refused >= 3 * LOG_SECTOR);
    free(bytes);
}

static void assert_refused_or_all(const char *dir, size_t *refused)
{
    int there = count_batches(dir);
    assert_true(there == -1 || there == 3);
    *refused += there == -1;
}

/* The inventory says how many there were. Without it the end may be missing, as if the power had
 * failed, but nothing else. Every length up to the end of the batches, and some beyond. */
static void a_log_of_any_length_is_refused_or_has_all(void **state)
{
    char log[256], *bytes;
    off_t at[3];
    make_log(*state, log, at);
    size_t len = read_log(log, &bytes), used = (size_t)at[2] + LOG_BLOCK;
    for (size_t cut = len; cut > 0; cut -= cut <= used          ? 1
                                           : cut - used < 65536 ? cut - used
                                                                : 65536) {
        must(truncate(log, (off_t)cut - 1) == 0);
        assert_int_equal(count_batches(*state), -1);
    }
    write_at(log, 0, bytes, len);
    forget_inventory(*state);
    for (size_t cut = len; cut > 4099; cut -= 4099) {
        must(truncate(log, (off_t)cut - 1) == 0);
        assert_int_equal(count_batches(*state), -1);
    }
    must(truncate(log, 0) == 0);
    assert_true(count_batches(*state) < 1);
    write_at(log, 0, bytes, len);
    assert_int_equal(count_batches(*state), 3);
    free(bytes);
}

/* --- every file of a root directory --- */

/* One of the batches has come to a table. */
static void make_root(const char *dir)
{
    struct store *s = scratch_open_rocks(dir);
    scratch_put(s, "a", "first-value");
    store_close(s);
    tables_make(dir, false);
    s = scratch_open_rocks(dir);
    scratch_put(s, "b", "other-value");
    scratch_put(s, "c", "third-value");
    store_close(s);
}

/* All bytes and lengths of the small ones; of the others so many more or less. */
#define SAMPLES ((size_t)1500)

static void damage_file(const char *dir, const char *path, size_t *refused)
{
    char *bytes;
    size_t len = read_log(path, &bytes), step = len / SAMPLES + 1;
    for (size_t i = 0; i < len; i += step) {
        char changed = (char)~bytes[i];
        write_at(path, i, &changed, 1);
        assert_refused_or_all(dir, refused);
        write_at(path, i, &bytes[i], 1);
    }
    for (size_t cut = len; cut > 0; cut -= cut < step ? cut : step) {
        must(truncate(path, (off_t)cut - 1) == 0);
        assert_refused_or_all(dir, refused);
    }
    must(unlink(path) == 0);
    assert_refused_or_all(dir, refused);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && close(fd) == 0);
    write_at(path, 0, bytes, len);
    free(bytes);
}

/* With those of RocksDB but its tables (test_rocks_mend.c). An empty file cannot be damaged. */
static void whatever_file_is_damaged_or_missing_it_is_refused_or_costs_nothing(void **state)
{
    make_root(*state);
    assert_int_equal(count_batches(*state), 3);
    DIR *d = opendir(*state);
    must(d);
    size_t kinds = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        char path[256];
        must(fstatat(dirfd(d), e->d_name, &st, 0) == 0);
        if (!S_ISREG(st.st_mode) || st.st_size == 0 || strstr(e->d_name, ".sst"))
            continue;
        size_t refused = 0;
        scratch_name_in(path, sizeof path, *state, e->d_name);
        damage_file(*state, path, &refused);
        assert_int_equal(count_batches(*state), 3);
        /* Of these any damage is refused. */
        kinds += refused > 0 &&
                 (strncmp(e->d_name, "segment-", 8) == 0 || strncmp(e->d_name, "MANIFEST", 8) == 0);
    }
    closedir(d);
    assert_int_equal(kinds, 2);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_reader_finds_damage_in_the_middle_of_the_log),
        T(damage_that_a_whole_batch_follows_is_no_end_of_the_log),
        T(damage_that_an_opening_follows_is_no_end_of_the_log),
        T(what_was_being_written_when_the_power_went_is_the_end_of_the_log),
        T(where_commits_were_not_synced_a_hole_is_given_up_for_good),
        T(a_changed_byte_anywhere_is_refused_or_costs_nothing),
        T(a_log_of_any_length_is_refused_or_has_all),
        T(whatever_file_is_damaged_or_missing_it_is_refused_or_costs_nothing),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
