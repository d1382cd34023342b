/* SPDX-License-Identifier: Apache-2.0 */

/* Root directories of the time when the log was RocksDB's: the first start has all that was
 * acknowledged, or is refused. */

#include "store/rocks.h"

#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "store/checksum.h"
#include "store/cm.h"
#include "store/inventory.h"
#include "store/scratch.h"
#include "store/wal.h"
#include "store/writer.h"

#define STARTS 3
#define PUTS   4 /* of each start */

static void name_key(char key[16], int n)
{
    snprintf(key, 16, "key-%02d", n);
}

static rocksdb_t *open_old(const char *dir)
{
    char *text = NULL;
    rocksdb_options_t *o = rocksdb_options_create(), *full = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_get_options_from_string(
        o, "avoid_flush_during_recovery=true;avoid_flush_during_shutdown=true", full, &text);
    must(text == NULL);
    rocksdb_t *db = rocksdb_open(full, dir, &text);
    must(text == NULL);
    rocksdb_options_destroy(o);
    rocksdb_options_destroy(full);
    return db;
}

/* Each start leaves a log. */
static void make_old(const char *dir)
{
    rocksdb_writeoptions_t *sync = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(sync, 1);
    for (int n = 0; n < STARTS * PUTS; n += PUTS) {
        rocksdb_t *db = open_old(dir);
        for (int i = n; i < n + PUTS; i++) {
            char key[16], *text = NULL;
            name_key(key, i);
            rocksdb_put(db, sync, key, strlen(key), "value", 5, &text);
            must(text == NULL);
        }
        rocksdb_close(db);
    }
    rocksdb_writeoptions_destroy(sync);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
}

/* What such a tenax wrote at an orderly end: how far its log had come, and in which files. */
static void note_end(const char *dir)
{
    char path[256], *file = alloc_zero(2 * INVENTORY_PLACE);
    struct writer w = writer_into(file + 8, INVENTORY_PLACE - 8);
    struct wal_file *logs;
    size_t count;
    assert_ok(wal_list(dir, &logs, &count));
    writer_byte(&w, 1);
    writer_varint(&w, 1); /* generation */
    for (int i = 0; i < 3; i++)
        writer_varint(&w, 0); /* MANIFEST, its size and checksum */
    writer_varint(&w, STARTS * PUTS);
    writer_byte(&w, 0); /* damaged */
    writer_varint(&w, count);
    for (size_t i = 0; i < count; i++) {
        writer_varint(&w, logs[i].number);
        writer_varint(&w, logs[i].size);
    }
    file[4] = (char)w.len;
    uint32_t sum = checksum_add(0, file + 4, w.len + 4);
    for (int i = 0; i < 4; i++)
        file[i] = (char)(sum >> (8 * i));
    scratch_name_in(path, sizeof path, dir, INVENTORY_FILE);
    write_file(path, file, 2 * INVENTORY_PLACE);
    free(logs);
    free(file);
}

static size_t count_logs(const char *dir)
{
    struct wal_file *files;
    size_t count, full = 0;
    assert_ok(wal_list(dir, &files, &count));
    for (size_t i = 0; i < count; i++)
        full += files[i].size > 0;
    free(files);
    return full;
}

/* How many of the keys are there, which are the first ones. */
static int count_keys(struct store *s)
{
    struct buf value = {0};
    int there = 0;
    for (int n = 0; n < STARTS * PUTS; n++) {
        char key[16];
        bool found;
        name_key(key, n);
        assert_ok(store_get(s, str_from(key), &found, &value));
        assert_true(!found || there == n);
        there += found;
    }
    buf_fini(&value);
    return there;
}

static void nth_log(char path[256], const char *dir, size_t nth, size_t *size)
{
    struct wal_file *files;
    size_t count;
    assert_ok(wal_list(dir, &files, &count));
    for (size_t i = 0; i < count; i++) {
        if (files[i].size == 0 || nth-- > 0)
            continue;
        char name[32];
        snprintf(name, sizeof name, "%06llu.log", (unsigned long long)files[i].number);
        scratch_name_in(path, 256, dir, name);
        *size = (size_t)files[i].size;
        free(files);
        return;
    }
    fail_msg("there is no such log");
}

static unsigned char *read_log(const char *path, size_t size)
{
    unsigned char *bytes = alloc_get(size);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && read(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
    return bytes;
}

/* A reader refuses what a server refuses. Otherwise all is there but, at most, what the last so
 * many have written. */
static bool is_refused(const char *dir, int missing)
{
    struct store *s;
    struct err e = rocks_open_reader(dir, 1 << 20, &s);
    if (e.code != ERR_OK) {
        assert_int_equal(e.code, ERR_CORRUPT);
        return true;
    }
    assert_in_range(count_keys(s), STARTS * PUTS - missing, STARTS * PUTS);
    store_close(s);
    return false;
}

static void the_first_start_has_all_and_leaves_the_old_log_empty(void **state)
{
    make_old(*state);
    note_end(*state);
    assert_int_equal(count_logs(*state), STARTS);
    assert_false(is_refused(*state, 0));
    for (int i = 0; i < 2; i++) {
        struct store *s = scratch_open_rocks(*state);
        assert_int_equal(count_keys(s), STARTS * PUTS);
        assert_int_equal(count_logs(*state), 0);
        assert_int_equal(store_number(s), (uint64_t)i);
        scratch_put(s, "later", "1");
        store_close(s);
    }
}

/* Flips a bit of each byte; returns how many of these were refused. */
static size_t flip_all(const char *dir, size_t nth, int missing, size_t *flips)
{
    char path[256];
    size_t refused = 0;
    nth_log(path, dir, nth, flips);
    unsigned char *bytes = read_log(path, *flips);
    for (size_t at = 0; at < *flips; at++) {
        bytes[at] ^= (unsigned char)(1u << at % 8);
        write_file(path, bytes, *flips);
        refused += is_refused(dir, missing);
        bytes[at] ^= (unsigned char)(1u << at % 8);
    }
    write_file(path, bytes, *flips);
    free(bytes);
    return refused;
}

static size_t cut_all(const char *dir, size_t nth, int missing, size_t *cuts)
{
    char path[256];
    size_t refused = 0;
    nth_log(path, dir, nth, cuts);
    unsigned char *bytes = read_log(path, *cuts);
    for (size_t len = *cuts; len-- > 0;) {
        write_file(path, bytes, len);
        refused += is_refused(dir, missing);
    }
    write_file(path, bytes, *cuts);
    free(bytes);
    return refused;
}

static void after_an_orderly_end_no_byte_or_length_of_the_log_changes_unnoticed(void **state)
{
    make_old(*state);
    note_end(*state);
    assert_false(is_refused(*state, 0));
    for (size_t n = 0; n < STARTS; n++) {
        size_t count;
        size_t refused = flip_all(*state, n, 0, &count);
        assert_int_equal(refused, count);
        refused = cut_all(*state, n, 0, &count);
        assert_int_equal(refused, count);
    }
    assert_false(is_refused(*state, 0));
}

/* Nobody knows how far it had come; but what another file follows had been acknowledged. In the
 * last one a length that is wrong looks like an incomplete end. */
static void after_a_crash_what_another_file_follows_does_not_change_unnoticed(void **state)
{
    make_old(*state);
    for (size_t n = 0; n < STARTS; n++) {
        size_t count;
        int missing = n + 1 < STARTS ? 0 : PUTS;
        size_t refused = flip_all(*state, n, missing, &count);
        assert_true(missing ? refused > count - count / 10 : refused == count);
        refused = cut_all(*state, n, missing, &count);
        assert_true(missing || refused == count);
    }
    assert_false(is_refused(*state, 0));
}

/* Zeros are as a disk that never wrote it; RocksDB alone reads on after them. */
static void a_hole_in_the_old_log_is_noticed(void **state)
{
    char path[256];
    size_t size;
    make_old(*state);
    nth_log(path, *state, 1, &size);
    unsigned char *bytes = read_log(path, size);
    memset(bytes, 0, size);
    write_file(path, bytes, size);
    free(bytes);
    assert_true(is_refused(*state, 0));
    struct store *s;
    assert_code(scratch_try_open(*state, &s), ERR_CORRUPT);
}

static void where_commits_were_not_synced_damage_is_given_up_once(void **state)
{
    char path[256];
    size_t size;
    make_old(*state);
    nth_log(path, *state, 1, &size);
    unsigned char *bytes = read_log(path, size);
    bytes[size / 2] ^= 1;
    write_file(path, bytes, size);
    free(bytes);
    struct rocks_settings settings = {
        .dir = *state, .cache_bytes = 8 << 20, .lossy = true, .notify = scratch_no_notice};
    struct store *s;
    log_set(LOG_ERROR, LOG_TEXT);
    assert_ok(rocks_open(&settings, &s));
    int left = count_keys(s);
    assert_in_range(left, PUTS, 2 * PUTS - 1);
    store_close(s);
    s = scratch_open_rocks(*state); /* without being told again */
    assert_int_equal(count_keys(s), left);
    store_close(s);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(the_first_start_has_all_and_leaves_the_old_log_empty),
        T(after_an_orderly_end_no_byte_or_length_of_the_log_changes_unnoticed),
        T(after_a_crash_what_another_file_follows_does_not_change_unnoticed),
        T(a_hole_in_the_old_log_is_noticed),
        T(where_commits_were_not_synced_damage_is_given_up_once),
    };
#undef T
    return cmocka_run_group_tests_name("rocks_upgrade", tests, NULL, NULL);
}
