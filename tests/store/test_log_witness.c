/* SPDX-License-Identifier: Apache-2.0 */

/* A log in files whose last batches a disk has lost: what was acknowledged is told from what was
 * under way by what lies behind it. */

#include "store/log_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "store/checksum.h"
#include "store/cm.h"
#include "store/log_contract.h"
#include "store/log_frame.h"
#include "store/log_survey.h"
#include "store/scratch.h"

#define LEN     ((size_t)6000)
#define SEGMENT (64 * LOG_BLOCK)
#define BATCHES 12

static struct log_file_settings settings(const char *dir)
{
    return (struct log_file_settings){.dir = dir,
                                      .from = 1,
                                      .segment_bytes = SEGMENT,
                                      .segment_bytes_max = SEGMENT,
                                      .no_maker = true,
                                      .no_rest = true};
}

static struct log *open_ok(const char *dir)
{
    struct log *l = NULL;
    struct log_file_settings s = settings(dir);
    assert_ok(log_file_open(&s, &l));
    return l;
}

/* Whether it is refused; otherwise it ends there, and is right so far. */
static bool is_refused(const struct log_file_settings *s, uint64_t last)
{
    struct log *l;
    struct err e = log_file_open_reader(s, &l);
    if (e.code != ERR_OK) {
        assert_int_equal(e.code, ERR_CORRUPT);
        return true;
    }
    assert_int_equal(log_durable(l), last);
    log_batch_expect(l, 1, LEN);
    log_close(l);
    return false;
}

/* --- the only segment, as bytes --- */

static unsigned char bytes[SEGMENT], kept[SEGMENT];

static void load(const char *dir, unsigned char *to)
{
    char path[256];
    scratch_name_in(path, sizeof path, dir, "segment-000001");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && pread(fd, to, SEGMENT, 0) == (ssize_t)SEGMENT && close(fd) == 0);
}

static void save(const char *dir, const unsigned char *from)
{
    char path[256];
    scratch_name_in(path, sizeof path, dir, "segment-000001");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, from, SEGMENT, 0) == (ssize_t)SEGMENT && close(fd) == 0);
}

static uint64_t number_at(size_t at, size_t len)
{
    uint64_t v = 0;
    for (size_t i = len; i-- > 0;)
        v = v << 8 | bytes[at + i];
    return v;
}

/* The first sector of the frame of that kind and number, and how many it has. */
static size_t find_frame(enum log_frame_kind kind, uint64_t number, size_t *sectors)
{
    for (size_t at = 0; at < SEGMENT; at += LOG_BLOCK) {
        if (bytes[at + 4] != kind || number_at(at + 16, 8) != number || number_at(at + 24, 4) != 0)
            continue;
        size_t len = number_at(at + 28, 4);
        *sectors = len ? (len + LOG_SECTOR_ROOM - 1) / LOG_SECTOR_ROOM : 1;
        return at;
    }
    fail_msg("no frame of kind %d with number %d", (int)kind, (int)number);
    return 0;
}

static void lose_batch(uint64_t number)
{
    size_t count, at = find_frame(LOG_BATCH, number, &count);
    memset(bytes + at, 0, count * LOG_SECTOR);
}

static void fix_checksum(size_t at)
{
    unsigned char place[8], *s = bytes + at;
    for (int i = 0; i < 8; i++)
        place[i] = (unsigned char)(at >> (8 * i));
    uint32_t sum = checksum_add(checksum_add(0, place, 8), s + 4, LOG_SECTOR - 4);
    for (int i = 0; i < 4; i++)
        s[i] = (unsigned char)(sum >> (8 * i));
}

/* As it was written before frames said anything of those before them. */
static void make_older(void)
{
    for (size_t at = 0; at < SEGMENT; at += LOG_SECTOR) {
        if (bytes[at + 4] == 0)
            continue;
        bytes[at + 5] = 1;
        bytes[at + 6] = bytes[at + 7] = 0;
        fix_checksum(at);
    }
}

/* Batches one after the other, as a process leaves them that is killed. */
static void make_log(const char *dir, uint64_t count, bool rests)
{
    struct log *l = open_ok(dir);
    for (uint64_t n = 1; n <= count; n++)
        log_batch_fill(l, n, LEN);
    if (rests)
        log_file_rest(l);
    log_close(l);
    load(dir, kept);
    memcpy(bytes, kept, SEGMENT);
}

/* --- tests --- */

static void a_sector_of_any_acknowledged_batch_that_is_lost_is_noticed(void **state)
{
    struct log_file_settings s = settings(*state);
    make_log(*state, BATCHES, true);
    assert_false(is_refused(&s, BATCHES));
    for (uint64_t n = 1; n <= BATCHES; n++) {
        size_t count, at = find_frame(LOG_BATCH, n, &count);
        for (size_t i = 0; i < count; i++) {
            memcpy(bytes, kept, SEGMENT);
            memset(bytes + at + i * LOG_SECTOR, 0, LOG_SECTOR);
            save(*state, bytes);
            assert_true(is_refused(&s, 0));
        }
        memcpy(bytes, kept, SEGMENT);
    }
}

static void several_batches_that_are_lost_are_noticed(void **state)
{
    struct log_file_settings s = settings(*state);
    make_log(*state, BATCHES, true);
    for (uint64_t first = 1; first <= BATCHES; first++)
        for (uint64_t last = first; last <= BATCHES; last++) {
            memcpy(bytes, kept, SEGMENT);
            for (uint64_t n = first; n <= last; n++)
                lose_batch(n);
            save(*state, bytes);
            assert_true(is_refused(&s, 0));
        }
}

/* Nobody was told of it, or only a moment ago. */
static void only_the_last_batch_of_a_busy_log_has_no_witness(void **state)
{
    struct log_file_settings s = settings(*state);
    make_log(*state, BATCHES, false);
    for (uint64_t n = 1; n <= BATCHES; n++) {
        memcpy(bytes, kept, SEGMENT);
        lose_batch(n);
        save(*state, bytes);
        assert_int_equal(is_refused(&s, BATCHES - 1), n < BATCHES);
    }
}

static void what_was_under_way_together_may_be_missing(void **state)
{
    struct log_file_settings s = settings(*state);
    struct log *l = open_ok(*state);
    struct buf b = {0};
    uint64_t number;
    /* None of them is written before somebody waits. */
    for (uint64_t n = 1; n <= LOG_UNDER_WAY_MAX; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), true, &number));
    }
    assert_ok(log_wait(l, number));
    buf_fini(&b);
    log_close(l);
    load(*state, bytes);
    lose_batch(3);
    save(*state, bytes);
    assert_false(is_refused(&s, 2));
}

/* Each is written when it must be, so that the next one has a place: as many as may be are under
 * way. */
static void one_more_than_may_be_under_way_waits_for_the_first(void **state)
{
    enum { LAST = 2 * LOG_UNDER_WAY_MAX + 1 };
    struct log_file_settings s = settings(*state);
    struct log *l = open_ok(*state);
    struct buf b = {0};
    uint64_t number;
    for (uint64_t n = 1; n <= LAST; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), true, &number));
        assert_int_equal(log_durable(l), n > LOG_UNDER_WAY_MAX ? n - LOG_UNDER_WAY_MAX : 0);
    }
    assert_ok(log_wait(l, number));
    buf_fini(&b);
    log_close(l);
    load(*state, kept);
    for (uint64_t n = 1; n <= LAST; n++) {
        memcpy(bytes, kept, SEGMENT);
        lose_batch(n);
        save(*state, bytes);
        assert_int_equal(is_refused(&s, n - 1), n <= LAST - LOG_UNDER_WAY_MAX);
    }
}

static void a_log_of_an_earlier_version_is_read(void **state)
{
    struct log_file_settings s = settings(*state);
    make_log(*state, LOG_UNDER_WAY_MAX + 2, false);
    make_older();
    save(*state, bytes);
    assert_false(is_refused(&s, LOG_UNDER_WAY_MAX + 2));
    /* So many may have been under way behind the one that is missing, and not one more. */
    memcpy(kept, bytes, SEGMENT);
    lose_batch(3);
    save(*state, bytes);
    assert_false(is_refused(&s, 2));
    for (uint64_t n = 1; n <= 2; n++) {
        memcpy(bytes, kept, SEGMENT);
        lose_batch(n);
        save(*state, bytes);
        assert_true(is_refused(&s, 0));
    }
    /* It is gone on with. */
    save(*state, kept);
    struct log *l = open_ok(*state);
    log_batch_expect(l, 1, LEN);
    log_batch_fill(l, LOG_UNDER_WAY_MAX + 4, LEN);
    log_close(l);
    assert_false(is_refused(&s, LOG_UNDER_WAY_MAX + 4));
}

static void what_the_disk_has_put_elsewhere_is_not_taken_for_something_else(void **state)
{
    struct log_file_settings s = settings(*state);
    size_t count, first, at;
    make_log(*state, 3, false);
    /* All of the last batch, as if it had been under way. */
    at = find_frame(LOG_BATCH, 3, &count);
    memcpy(bytes + SEGMENT - 4 * LOG_BLOCK, bytes + at, count * LOG_SECTOR);
    lose_batch(3);
    save(*state, bytes);
    assert_true(is_refused(&s, 0));
    /* Sectors that have changed places. */
    memcpy(bytes, kept, SEGMENT);
    first = find_frame(LOG_BATCH, 1, &count);
    size_t end = find_frame(LOG_BATCH, 3, &count) + count * LOG_SECTOR;
    for (size_t a = first; a < end; a += LOG_SECTOR)
        for (size_t b = a + LOG_SECTOR; b < end; b += LOG_SECTOR) {
            if (kept[a + 4] == 0 || kept[b + 4] == 0)
                continue;
            memcpy(bytes, kept, SEGMENT);
            memcpy(bytes + a, kept + b, LOG_SECTOR);
            memcpy(bytes + b, kept + a, LOG_SECTOR);
            save(*state, bytes);
            assert_true(is_refused(&s, 0));
        }
}

static void a_segment_in_the_place_of_another_is_refused(void **state)
{
    char from[256], to[256];
    struct log_file_settings s = settings(*state);
    make_log(*state, 3, true);
    scratch_name_in(from, sizeof from, *state, "segment-000001");
    scratch_name_in(to, sizeof to, *state, "segment-000002");
    must(rename(from, to) == 0);
    assert_true(is_refused(&s, 0));
}

static void a_log_that_was_there_and_is_gone_is_refused(void **state)
{
    struct log_file_settings s = settings(*state);
    assert_false(is_refused(&s, 0));
    s.found = true;
    assert_true(is_refused(&s, 0));
}

/* --- what can be read --- */

static struct err count_read(void *ctx, uint64_t number, struct str batch)
{
    struct buf expected = {0};
    log_batch(number, LEN, &expected);
    assert_true(str_eq(batch, buf_view(&expected)));
    buf_fini(&expected);
    ++*(uint64_t *)ctx;
    return err_none();
}

/* The ranges that are missing, each as its two ends, up to a 0. */
static void expect_survey(const char *dir, uint64_t from, const uint64_t *ranges, uint64_t readable)
{
    struct log_survey s;
    const struct log_survey_batch *before;
    uint64_t first, last, next = 0, read = 0, missing = 0;
    assert_ok(log_survey_make(dir, from, 0, &s));
    for (; *ranges; ranges += 2, next = last + 1) {
        assert_true(log_survey_missing(&s, next, &first, &last, &before));
        assert_int_equal(first, ranges[0]);
        assert_int_equal(last, ranges[1]);
        assert_int_equal(before ? before->number : from - 1, first - 1);
        missing += last - first + 1;
    }
    assert_false(log_survey_missing(&s, next, &first, &last, &before));
    assert_int_equal(s.missing, missing);
    assert_ok(log_survey_read(&s, dir, count_read, &read));
    assert_int_equal(read, readable);
    log_survey_fini(&s);
}

static void a_survey_names_what_is_lost_and_reads_the_rest(void **state)
{
    make_log(*state, BATCHES, true);
    expect_survey(*state, 1, (const uint64_t[]){0}, BATCHES);
    expect_survey(*state, 5, (const uint64_t[]){0}, BATCHES - 4);
    expect_survey(*state, BATCHES + 1, (const uint64_t[]){0}, 0);
    lose_batch(3);
    lose_batch(6);
    lose_batch(7);
    save(*state, bytes);
    expect_survey(*state, 1, (const uint64_t[]){3, 3, 6, 7, 0}, BATCHES - 3);
    expect_survey(*state, 4, (const uint64_t[]){6, 7, 0}, BATCHES - 5);
    lose_batch(1);
    lose_batch(BATCHES);
    save(*state, bytes);
    expect_survey(*state, 1, (const uint64_t[]){1, 1, 3, 3, 6, 7, BATCHES, BATCHES, 0},
                  BATCHES - 5);
}

/* The first sector of the segment says which it is; the others know it themselves. */
static void a_survey_does_without_the_head_of_a_segment(void **state)
{
    make_log(*state, BATCHES, true);
    memset(bytes, 0, LOG_SECTOR);
    save(*state, bytes);
    expect_survey(*state, 1, (const uint64_t[]){0}, BATCHES);
}

/* What was under way when a process was killed, and was given up by the next one. */
static void a_survey_leaves_out_what_was_given_up(void **state)
{
    struct log *l = open_ok(*state);
    struct buf b = {0};
    uint64_t number;
    for (uint64_t n = 1; n <= 6; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), true, &number));
    }
    assert_ok(log_wait(l, number));
    buf_fini(&b);
    log_close(l);
    load(*state, bytes);
    lose_batch(3);
    save(*state, bytes);
    expect_survey(*state, 1, (const uint64_t[]){0}, 2);
    log_close(open_ok(*state));
    expect_survey(*state, 1, (const uint64_t[]){0}, 2);
}

/* --- not synced --- */

/* Two that are synced, then four that are not, of which the second is lost. */
static void make_unsynced(const char *dir)
{
    struct log *l = open_ok(dir);
    struct buf b = {0};
    uint64_t number = 0;
    for (uint64_t n = 1; n <= 6; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), n <= 2, &number));
        assert_ok(log_wait(l, number));
    }
    buf_fini(&b);
    log_close(l);
    load(dir, kept);
    memcpy(bytes, kept, SEGMENT);
    lose_batch(4);
    save(dir, bytes);
}

static void what_was_never_synced_may_be_given_up_where_that_was_allowed(void **state)
{
    struct log_file_settings s = settings(*state);
    make_unsynced(*state);
    log_set(LOG_ERROR, LOG_TEXT);
    assert_true(is_refused(&s, 0));
    s.unsynced = true;
    assert_false(is_refused(&s, 3));
    s.unsynced = false;
    s.lossy = true;
    assert_false(is_refused(&s, 3));
}

static void what_was_synced_is_not_given_up_with_it(void **state)
{
    struct log_file_settings s = settings(*state);
    make_unsynced(*state);
    log_set(LOG_ERROR, LOG_TEXT);
    memcpy(bytes, kept, SEGMENT);
    lose_batch(2);
    save(*state, bytes);
    s.unsynced = true;
    assert_true(is_refused(&s, 0));
    s.lossy = true;
    assert_false(is_refused(&s, 1));
}

/* The one that is synced says of those before it that they are. */
static void what_a_sync_takes_along_is_not_given_up_either(void **state)
{
    enum { LAST = 5 };
    struct log_file_settings s = settings(*state);
    struct log *l = open_ok(*state);
    struct buf b = {0};
    uint64_t number = 0;
    for (uint64_t n = 1; n <= LAST; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), n == LAST, &number));
        assert_ok(log_wait(l, number));
    }
    buf_fini(&b);
    log_close(l);
    load(*state, kept);
    log_set(LOG_ERROR, LOG_TEXT);
    s.unsynced = true;
    for (uint64_t n = 1; n <= LAST; n++) {
        memcpy(bytes, kept, SEGMENT);
        lose_batch(n);
        save(*state, bytes);
        assert_int_equal(is_refused(&s, LAST - 1), n < LAST);
    }
}

/* --- idleness --- */

static void an_idle_log_says_so_once_and_the_next_batch_takes_the_place(void **state)
{
    size_t count;
    make_log(*state, 2, true);
    size_t at = find_frame(LOG_REST, 2, &count);
    struct log *l = open_ok(*state);
    log_file_rest(l); /* as nothing has come since */
    load(*state, bytes);
    assert_int_equal(bytes[at + 4], LOG_MARK);
    assert_int_equal(bytes[at + LOG_BLOCK + 4], 0);
    log_batch_fill(l, 3, LEN);
    for (int i = 0; i < 3; i++)
        log_file_rest(l);
    load(*state, bytes);
    at = find_frame(LOG_REST, 3, &count);
    log_batch_fill(l, 4, LEN);
    load(*state, bytes);
    assert_int_equal(find_frame(LOG_BATCH, 4, &count), at);
    log_close(l);
}

/* The thread comes to it; how soon is not asked. */
static void a_log_that_is_left_alone_says_so_by_itself(void **state)
{
    struct log_file_settings s = settings(*state);
    struct log *l;
    bool said = false;
    s.no_rest = false;
    assert_ok(log_file_open(&s, &l));
    log_batch_fill(l, 1, LEN);
    while (!said) {
        load(*state, bytes);
        for (size_t at = 0; at < SEGMENT; at += LOG_BLOCK)
            said |= bytes[at + 4] == LOG_REST;
    }
    log_batch_fill(l, 2, LEN);
    log_close(l); /* says so, too */
    size_t count;
    load(*state, bytes);
    find_frame(LOG_REST, 2, &count);
}

static int set_up(void **state)
{
    *state = scratch_make();
    return 0;
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_sector_of_any_acknowledged_batch_that_is_lost_is_noticed),
        T(several_batches_that_are_lost_are_noticed),
        T(only_the_last_batch_of_a_busy_log_has_no_witness),
        T(what_was_under_way_together_may_be_missing),
        T(one_more_than_may_be_under_way_waits_for_the_first),
        T(a_log_of_an_earlier_version_is_read),
        T(what_the_disk_has_put_elsewhere_is_not_taken_for_something_else),
        T(a_segment_in_the_place_of_another_is_refused),
        T(a_log_that_was_there_and_is_gone_is_refused),
        T(a_survey_names_what_is_lost_and_reads_the_rest),
        T(a_survey_does_without_the_head_of_a_segment),
        T(a_survey_leaves_out_what_was_given_up),
        T(what_was_never_synced_may_be_given_up_where_that_was_allowed),
        T(what_was_synced_is_not_given_up_with_it),
        T(what_a_sync_takes_along_is_not_given_up_either),
        T(an_idle_log_says_so_once_and_the_next_batch_takes_the_place),
        T(a_log_that_is_left_alone_says_so_by_itself),
    };
#undef T
    return cmocka_run_group_tests_name("log_witness", tests, NULL, NULL);
}
