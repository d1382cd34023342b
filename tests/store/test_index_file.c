/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "scratch.h"
#include "store/index_file.h"

static const struct index_head head = {3, 5, {6, UINT64_MAX}, {7, 8, 9, 10}};

static void add(struct index_writer *w, const char *text)
{
    struct buf b = {0};
    buf_str(&b, str_from(text));
    while (!index_writer_has_room(w)) /* the thread has something to do, and no lock of ours */
        usleep(100);
    index_writer_add(w, &b);
    assert_null(b.at);
}

static struct err wait_for(struct index_writer *w)
{
    struct err result;
    while (!index_writer_has_ended(w, &result))
        usleep(100);
    return result;
}

static struct err write_file(const char *dir, bool thread, unsigned chunks)
{
    struct index_writer *w = index_writer_new(dir, thread);
    for (unsigned i = 0; i < chunks; i++)
        add(w, i % 2 ? "a chunk" : "another one, which is longer");
    index_writer_finish(w, &head);
    struct err result = wait_for(w);
    if (result.code == ERR_OK)
        assert_true(index_writer_bytes(w) > chunks * 20);
    index_writer_free(w);
    return result;
}

static void assert_no_tmp(const char *dir)
{
    char path[200];
    scratch_name_in(path, sizeof path, dir, INDEX_FILE_TMP);
    assert_int_equal(access(path, F_OK), -1);
}

static void what_was_written_is_read(void **state)
{
    const char *dir = *state;
    struct index_image image;
    assert_int_equal(index_image_open(dir, &image).code, ERR_NOT_FOUND);
    for (unsigned chunks = 0; chunks < 2000; chunks = chunks * 3 + 1) {
        assert_int_equal(write_file(dir, chunks % 2, chunks).code, ERR_OK);
        assert_int_equal(index_image_open(dir, &image).code, ERR_OK);
        assert_memory_equal(&image.head, &head, sizeof head);
        assert_int_equal(image.count, chunks);
        for (unsigned i = 0; i < chunks; i++)
            assert_true(str_eq(image.chunks[i],
                               i % 2 ? STR("a chunk") : STR("another one, which is longer")));
        index_image_close(&image);
        assert_no_tmp(dir);
    }
}

static void one_that_is_given_up_leaves_the_one_before(void **state)
{
    const char *dir = *state;
    assert_int_equal(write_file(dir, true, 2).code, ERR_OK);
    for (int thread = 0; thread < 2; thread++) {
        struct index_writer *w = index_writer_new(dir, thread);
        for (int i = 0; i < 100; i++)
            add(w, "something else");
        index_writer_free(w);
        assert_no_tmp(dir);
        struct index_image image;
        assert_int_equal(index_image_open(dir, &image).code, ERR_OK);
        assert_int_equal(image.count, 2);
        index_image_close(&image);
    }
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(write_file("not/there", true, 3).code, ERR_IO);
    assert_int_equal(write_file("not/there", false, 3).code, ERR_IO);
}

static char *file_of(const char *dir, size_t *len)
{
    char path[200];
    struct stat st;
    scratch_name_in(path, sizeof path, dir, INDEX_FILE_NAME);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    *len = (size_t)st.st_size;
    char *bytes = alloc_get(*len);
    assert_int_equal(read(fd, bytes, *len), *len);
    close(fd);
    return bytes;
}

static enum err_code read_copy(const char *bytes, size_t len)
{
    char *copy = alloc_get(len ? len : 1);
    struct index_image image;
    memcpy(copy, bytes, len);
    struct err err = index_image_read((struct str){copy, len}, &image);
    index_image_close(&image);
    free(copy);
    return err.code;
}

static void every_damage_and_every_cut_is_noticed(void **state)
{
    size_t len;
    assert_int_equal(write_file(*state, false, 5).code, ERR_OK);
    char *bytes = file_of(*state, &len);
    assert_int_equal(read_copy(bytes, len), ERR_OK);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(read_copy(bytes, i), ERR_CORRUPT);
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            enum err_code code = read_copy(bytes, len);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            assert_true(code == ERR_CORRUPT || (code == ERR_VERSION && i >= 8 && i < 12));
        }
    }
    bytes = alloc_resize(bytes, len * 2);
    memcpy(bytes + len, bytes, len);
    assert_int_equal(read_copy(bytes, len + 1), ERR_CORRUPT);
    assert_int_equal(read_copy(bytes, len * 2), ERR_CORRUPT);
    free(bytes);
}

static void cut_file(const char *dir, size_t len)
{
    char path[200];
    scratch_name_in(path, sizeof path, dir, INDEX_FILE_NAME);
    assert_int_equal(truncate(path, (off_t)len), 0);
}

static void flip(const char *dir, size_t at)
{
    char path[200], byte;
    scratch_name_in(path, sizeof path, dir, INDEX_FILE_NAME);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte = (char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Longer than what is read at a time. */
static void damage_anywhere_in_a_long_file_is_noticed(void **state)
{
    const char *dir = *state;
    struct index_image image;
    size_t len;
    assert_int_equal(write_file(dir, false, 60000).code, ERR_OK);
    char *bytes = file_of(dir, &len);
    free(bytes);
    assert_true(len > 2 << 20);
    for (size_t at = 0; at < len; at += 100003) {
        flip(dir, at);
        assert_int_equal(index_image_open(dir, &image).code, ERR_CORRUPT);
        flip(dir, at);
    }
    assert_int_equal(index_image_open(dir, &image).code, ERR_OK);
    assert_int_equal(image.count, 60000);
    index_image_close(&image);
    while (len > 0) {
        len -= len < 300007 ? len : 300007;
        cut_file(dir, len);
        assert_int_equal(index_image_open(dir, &image).code, ERR_CORRUPT);
    }
}

static void a_file_that_is_removed_is_not_there(void **state)
{
    const char *dir = *state;
    struct index_image image;
    index_file_remove(dir);
    assert_int_equal(write_file(dir, false, 1).code, ERR_OK);
    index_file_sweep(dir);
    assert_int_equal(index_image_open(dir, &image).code, ERR_OK);
    index_image_close(&image);
    index_file_remove(dir);
    assert_int_equal(index_image_open(dir, &image).code, ERR_NOT_FOUND);
}

#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DISK(what_was_written_is_read),
        ON_DISK(one_that_is_given_up_leaves_the_one_before),
        ON_DISK(a_folder_that_is_not_there_is_an_error),
        ON_DISK(every_damage_and_every_cut_is_noticed),
        ON_DISK(damage_anywhere_in_a_long_file_is_noticed),
        ON_DISK(a_file_that_is_removed_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
