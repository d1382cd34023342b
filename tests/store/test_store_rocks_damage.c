/* SPDX-License-Identifier: Apache-2.0 */

/* Damage in the log of a store on RocksDB: what counts as its end, and what as a gap. */

#include "store/rocks.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/must.h"
#include "store/cm.h"
#include "store/log_frame.h"
#include "store/scratch.h"

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
    make_log(*state, log, at);
    forget_inventory(*state);
    leave_out(log, at[2]);
    for (int i = 0; i < 2; i++) {
        struct store *s = scratch_open_rocks(*state);
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

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_reader_finds_damage_in_the_middle_of_the_log),
        T(damage_that_a_whole_batch_follows_is_no_end_of_the_log),
        T(damage_that_an_opening_follows_is_no_end_of_the_log),
        T(what_was_being_written_when_the_power_went_is_the_end_of_the_log),
        T(where_commits_were_not_synced_a_hole_is_given_up_for_good),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
