/* SPDX-License-Identifier: Apache-2.0 */
#include "store/inventory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/checksum.h"
#include "store/cm.h"
#include "store/log_frame.h"
#include "store/rocks.h"
#include "store/scratch.h"
#include "store/tables.h"
#include "store/writer.h"

static void no_notice(void *ctx)
{
    (void)ctx;
}

static struct err try_open(const char *dir, struct store **s)
{
    struct rocks_settings settings = {.dir = dir, .cache_bytes = 8 << 20, .notify = no_notice};
    return rocks_open(&settings, s);
}

static struct store *open_rocks(const char *dir)
{
    struct store *s = NULL;
    assert_ok(try_open(dir, &s));
    return s;
}

static int set_up(void **state)
{
    *state = scratch_make();
    return 0;
}

static int tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

static void path_in(char out[256], const char *dir, const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
}

/* --- the contents of a root directory --- */

/* The bytes of a file, and their number. */
static char *read_file(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    must(fd >= 0 && fstat(fd, &st) == 0);
    *len = (size_t)st.st_size;
    char *bytes = alloc_get(*len + 1);
    must(read(fd, bytes, *len) == st.st_size);
    close(fd);
    return bytes;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
}

/* A sum over all names and contents, independent of their order. */
static uint64_t sum_up(const char *dir)
{
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    must(d);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_type != DT_REG)
            continue;
        char path[256];
        size_t len;
        path_in(path, dir, e->d_name);
        char *bytes = read_file(path, &len);
        sum += checksum_add(checksum_add(0, e->d_name, strlen(e->d_name)), bytes, len);
        free(bytes);
    }
    closedir(d);
    return sum;
}

static void find_manifest(char path[256], const char *dir)
{
    char current[256];
    size_t len;
    path_in(current, dir, "CURRENT");
    char *name = read_file(current, &len);
    name[len - 1] = '\0';
    path_in(path, dir, name);
    free(name);
}

/* A server and a check refuse it, with this message, and change nothing. */
static void assert_refused(const char *dir, const char *words)
{
    uint64_t before = sum_up(dir);
    struct store *s;
    struct err e = try_open(dir, &s);
    assert_int_equal(e.code, ERR_CORRUPT);
    if (!strstr(e.msg, words))
        fail_msg("'%s' does not say '%s'", e.msg, words);
    e = rocks_open_reader(dir, 8 << 20, &s);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_true(sum_up(dir) == before);
}

/* Three starts, with a batch each. */
static void make_log(const char *dir)
{
    const char *keys[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        struct store *s = open_rocks(dir);
        scratch_put(s, keys[i], "1");
        store_close(s);
    }
}

static void find_segment(char path[256], const char *dir)
{
    path_in(path, dir, "segment-000001");
}

/* Enough for tables, which are written while it goes on. */
static void make_tables(const char *dir)
{
    struct store *s = open_rocks(dir);
    struct batch b = {0};
    for (int i = 0; i < 150; i++) {
        char key[16];
        snprintf(key, sizeof key, "%08d", i);
        memset(batch_put_room(&b, str_from(key), 1 << 20), 'v', 1 << 20);
        assert_ok(scratch_try_commit(s, &b, false));
    }
    batch_fini(&b);
    store_close(s);
}

/* --- the file --- */

static void a_place_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct inventory *in = ALLOC(struct inventory), *out = ALLOC(struct inventory);
    *in = (struct inventory){
        .generation = 7,
        .manifest = 12,
        .manifest_size = 345,
        .manifest_checksum = 0xfedcba98u,
        .has_log = true,
        .is = {.damaged = true, .tables = 99, .reached = UINT64_MAX, .held = 98}};
    char *place = alloc_get(INVENTORY_PLACE);
    inventory_encode(in, place);
    assert_ok(inventory_decode((struct str){place, INVENTORY_PLACE}, out));
    assert_memory_equal(in, out, sizeof *in);
    place[12] ^= 4;
    assert_code(inventory_decode((struct str){place, INVENTORY_PLACE}, out), ERR_CORRUPT);
    assert_code(inventory_decode((struct str){place, 3}, out), ERR_CORRUPT);
    free(place);
    free(in);
    free(out);
}

static void checksums_are_castagnolis(void **state)
{
    (void)state;
    assert_int_equal(checksum_add(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(checksum_add(checksum_add(0, "1234567890", 10), "12345", 5),
                     checksum_add(0, "123456789012345", 15));
    /* The processor's instruction and the tables agree, wherever it begins and however long it is.
     */
    unsigned char bytes[600];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i + 7 * i);
    for (size_t from = 0; from < 9; from++)
        for (size_t len = 0; from + len <= sizeof bytes; len++)
            assert_int_equal(checksum_add((uint32_t)len, bytes + from, len),
                             checksum_add_by_tables((uint32_t)len, bytes + from, len));
}

static void a_place_that_was_being_written_leaves_the_other(void **state)
{
    make_log(*state);
    char path[256];
    size_t len;
    struct inventory *inv = ALLOC(struct inventory);
    bool found;
    assert_ok(inventory_read(*state, &found, inv));
    assert_true(found);
    uint64_t newest = inv->generation;
    path_in(path, *state, INVENTORY_FILE);
    char *bytes = read_file(path, &len);
    bytes[newest % 2 * INVENTORY_PLACE + 9] ^= 1;
    write_file(path, bytes, len);
    assert_ok(inventory_read(*state, &found, inv));
    assert_int_equal(inv->generation, newest - 1);
    store_close(open_rocks(*state));
    bytes[(newest - 1) % 2 * INVENTORY_PLACE + 9] ^= 1;
    write_file(path, bytes, len);
    assert_refused(*state, "INVENTORY");
    free(bytes);
    free(inv);
}

/* --- missing files --- */

static void a_log_that_is_missing_is_refused(void **state)
{
    make_log(*state);
    char path[256], away[280];
    find_segment(path, *state);
    snprintf(away, sizeof away, "%s.away", path);
    must(rename(path, away) == 0);
    assert_refused(*state, "there is none");
    must(rename(away, path) == 0);
    store_close(open_rocks(*state));
}

static void a_log_that_is_empty_or_shorter_is_refused(void **state)
{
    make_log(*state);
    char path[256];
    size_t len;
    find_segment(path, *state);
    char *bytes = read_file(path, &len);
    for (size_t n = 0; n < len; n = n * 2 + 4096) {
        write_file(path, bytes, n);
        assert_refused(*state, "is damaged");
    }
    write_file(path, bytes, len);
    free(bytes);
    struct store *s = open_rocks(*state);
    scratch_expect(s, "a", "1");
    scratch_expect(s, "b", "1");
    scratch_expect(s, "c", "1");
    store_close(s);
}

/* It looks like one that was being written, except that the inventory knows of it. */
static void damage_in_the_last_batch_that_was_written_down_is_refused(void **state)
{
    make_log(*state);
    char path[256];
    size_t len, last = 0;
    find_segment(path, *state);
    char *bytes = read_file(path, &len);
    for (size_t at = 0; at < len; at += LOG_BLOCK)
        if (bytes[at + 4] == LOG_BATCH)
            last = at;
    assert_true(last > 0);
    bytes[last + 40] ^= 1;
    write_file(path, bytes, len);
    assert_refused(*state, "is damaged");
    free(bytes);
}

static void a_root_without_an_inventory_starts_and_gets_one(void **state)
{
    make_log(*state);
    char path[256];
    path_in(path, *state, INVENTORY_FILE);
    must(unlink(path) == 0);
    struct store *s = open_rocks(*state);
    scratch_expect(s, "a", "1");
    must(access(path, F_OK) == 0);
    store_close(s);
}

static void a_missing_current_is_no_new_store(void **state)
{
    make_log(*state);
    char path[256];
    path_in(path, *state, "CURRENT");
    must(unlink(path) == 0);
    assert_refused(*state, "CURRENT");
}

static void every_flipped_bit_of_the_manifest_is_refused(void **state)
{
    struct inventory *inv = ALLOC(struct inventory);
    make_tables(*state);
    char path[256];
    size_t len;
    find_manifest(path, *state);
    char *bytes = read_file(path, &len);
    for (size_t bit = 0; bit < 8 * len; bit += 11) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        write_file(path, bytes, len);
        assert_code(inventory_check(*state, inv), ERR_CORRUPT);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    bytes[len - 20] ^= 1;
    write_file(path, bytes, len);
    assert_refused(*state, "is damaged");
    bytes[len - 20] ^= 1;
    write_file(path, bytes, len);
    free(bytes);
    free(inv);
    struct store *s = open_rocks(*state);
    struct buf value = {0};
    bool found;
    assert_ok(store_get(s, STR("00000000"), &found, &value));
    assert_true(found);
    buf_fini(&value);
    store_close(s);
}

static void every_shorter_manifest_is_refused(void **state)
{
    struct inventory *inv = ALLOC(struct inventory);
    make_tables(*state);
    char path[256];
    size_t len;
    find_manifest(path, *state);
    char *bytes = read_file(path, &len);
    for (size_t n = 0; n < len; n++) {
        must(truncate(path, (off_t)n) == 0);
        assert_code(inventory_check(*state, inv), ERR_CORRUPT);
        write_file(path, bytes, len);
    }
    must(truncate(path, (off_t)len / 2) == 0);
    assert_refused(*state, "bytes and has");
    free(bytes);
    free(inv);
}

static void a_folder_with_things_of_others_becomes_no_root(void **state)
{
    char path[256];
    path_in(path, *state, "thesis.txt");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && close(fd) == 0);
    uint64_t before = sum_up(*state);
    struct store *s;
    struct err e = try_open(*state, &s);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.msg, "thesis.txt"));
    assert_true(sum_up(*state) == before);
    must(unlink(path) == 0);
    make_log(*state);
}

static void logs_without_a_current_are_no_new_root(void **state)
{
    make_log(*state);
    char path[256];
    path_in(path, *state, "CURRENT");
    must(unlink(path) == 0);
    path_in(path, *state, INVENTORY_FILE);
    must(unlink(path) == 0);
    struct store *s;
    struct err e = try_open(*state, &s);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "CURRENT is missing"));
}

static void the_numbers_of_log_and_tables_are_written_down(void **state)
{
    make_tables(*state);
    struct inventory *inv = ALLOC(struct inventory);
    bool found;
    struct store *s = open_rocks(*state);
    assert_ok(tables_flush(s, *state)); /* what is on its way there need not have come */
    store_close(s);
    store_close(open_rocks(*state));
    assert_ok(inventory_read(*state, &found, inv));
    assert_true(found && inv->has_log);
    assert_int_equal(inv->is.reached, 150);
    assert_in_range(inv->is.tables, 1, 150);
    free(inv);
}

/* --- an older tenax --- */

/* One place as it was when the log was RocksDB's. */
static void write_old(const char *dir, uint64_t generation)
{
    char path[256], *file = alloc_zero(2 * INVENTORY_PLACE);
    struct writer w = writer_into(file + 8, INVENTORY_PLACE - 8);
    writer_byte(&w, 1);
    for (int i = 0; i < 5; i++) /* MANIFEST, its size and checksum; sequence; damaged */
        writer_varint(&w, i == 0 ? generation : 0);
    writer_byte(&w, 0);
    writer_varint(&w, 0); /* logs */
    file[4] = (char)w.len;
    uint32_t sum = checksum_add(0, file + 4, w.len + 4);
    for (int i = 0; i < 4; i++)
        file[i] = (char)(sum >> (8 * i));
    path_in(path, dir, INVENTORY_FILE);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, file, 2 * INVENTORY_PLACE) == (ssize_t)(2 * INVENTORY_PLACE));
    close(fd);
    free(file);
}

/* Either place would be enough for it. */
static void after_an_upgrade_an_older_tenax_finds_no_inventory_that_it_knows(void **state)
{
    make_log(*state);
    for (uint64_t generation = 7; generation < 9; generation++) {
        struct inventory *inv = ALLOC(struct inventory);
        char path[256];
        bool found;
        size_t len;
        write_old(*state, generation);
        assert_ok(inventory_read(*state, &found, inv));
        assert_true(found && !inv->has_log);
        assert_int_equal(inv->generation, generation);
        store_close(open_rocks(*state));
        path_in(path, *state, INVENTORY_FILE);
        char *bytes = read_file(path, &len);
        for (size_t i = 0; i < 2; i++) {
            assert_ok(
                inventory_decode((struct str){bytes + i * INVENTORY_PLACE, INVENTORY_PLACE}, inv));
            assert_true(inv->has_log);
        }
        free(bytes);
        free(inv);
    }
}

/* Version 2 is of a log that did not say what was durable, and is gone on with. */
static void the_version_before_is_read_and_the_next_is_refused(void **state)
{
    static char place[INVENTORY_PLACE];
    struct inventory *inv = ALLOC(struct inventory), *read = ALLOC(struct inventory);
    (void)state;
    inv->generation = 7;
    inv->has_log = true;
    inv->is = (struct inventory_state){.tables = 5, .reached = 9, .held = 4};
    inventory_encode(inv, place);
    size_t len = (unsigned char)place[4];
    for (char version = 2; version <= place[8]; version++) {
        char bytes[64];
        must(8 + len <= sizeof bytes);
        memcpy(bytes, place, 8 + len);
        bytes[8] = version;
        uint32_t sum = checksum_add(0, bytes + 4, len + 4);
        for (int i = 0; i < 4; i++)
            bytes[i] = (char)(sum >> (8 * i));
        assert_ok(inventory_decode((struct str){bytes, 8 + len}, read));
        assert_true(read->has_log);
        assert_int_equal(read->is.reached, 9);
        bytes[8] = (char)(place[8] + 1);
        sum = checksum_add(0, bytes + 4, len + 4);
        for (int i = 0; i < 4; i++)
            bytes[i] = (char)(sum >> (8 * i));
        assert_code(inventory_decode((struct str){bytes, 8 + len}, read), ERR_VERSION);
    }
    free(inv);
    free(read);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_before_is_read_and_the_next_is_refused),
        T(a_place_is_read_as_it_was_written),
        T(checksums_are_castagnolis),
        T(a_place_that_was_being_written_leaves_the_other),
        T(a_log_that_is_missing_is_refused),
        T(a_log_that_is_empty_or_shorter_is_refused),
        T(damage_in_the_last_batch_that_was_written_down_is_refused),
        T(a_root_without_an_inventory_starts_and_gets_one),
        T(a_missing_current_is_no_new_store),
        T(every_flipped_bit_of_the_manifest_is_refused),
        T(every_shorter_manifest_is_refused),
        T(a_folder_with_things_of_others_becomes_no_root),
        T(logs_without_a_current_are_no_new_root),
        T(the_numbers_of_log_and_tables_are_written_down),
        T(after_an_upgrade_an_older_tenax_finds_no_inventory_that_it_knows),
    };
#undef T
    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
