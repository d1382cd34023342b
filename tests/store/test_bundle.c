/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/must.h"
#include "store/cm.h"
#include "base/folder.h"
#include "store/scratch.h"
#include "store/snapshot.h"
#include "store/memory.h"

/* --- making and reading --- */

static struct err gather(void *ctx, struct str bytes)
{
    buf_str(ctx, bytes);
    return err_none();
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    must(f);
    must(fputs(text, f) >= 0);
    must(fclose(f) == 0);
}

static void expect_file(const char *dir, const char *name, const char *text)
{
    char path[256], got[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(got, text);
}

static struct buf make_bundle(void)
{
    char *dir = scratch_make();
    put_file(dir, "CURRENT", "MANIFEST-000005\n");
    put_file(dir, "000004.log", "a log");
    put_file(dir, "empty.sst", "");
    struct buf out = {0};
    struct sink sink = {gather, &out};
    assert_ok(bundle_write(dir, (instant){1234}, &sink));
    scratch_remove(dir);
    free(dir);
    return out;
}

static int file_with(struct str bytes)
{
    FILE *f = tmpfile();
    must(f);
    must(fwrite(bytes.at, 1, bytes.len, f) == bytes.len);
    must(fflush(f) == 0);
    int fd = dup(fileno(f));
    fclose(f);
    must(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static struct err read_bytes(struct str bytes, const char *into, struct bundle_facts *facts)
{
    int fd = file_with(bytes);
    struct err e = bundle_read(fd, into, facts);
    close(fd);
    return e;
}

static enum err_code code_of(struct str bytes)
{
    struct bundle_facts facts;
    char *dir = scratch_make();
    struct err e = read_bytes(bytes, dir, &facts);
    struct err checked = read_bytes(bytes, NULL, &facts);
    if (e.code != checked.code)
        fail_msg("%s, but when it is only checked: %s", e.msg, checked.msg);
    assert_ok(folder_remove(dir));
    free(dir);
    return e.code;
}

static void what_was_put_in_comes_out(void **state)
{
    (void)state;
    struct buf b = make_bundle();
    char *dir = scratch_make();
    struct bundle_facts facts;
    assert_ok(read_bytes(buf_view(&b), dir, &facts));
    expect_file(dir, "CURRENT", "MANIFEST-000005\n");
    expect_file(dir, "000004.log", "a log");
    expect_file(dir, "empty.sst", "");
    assert_int_equal(facts.files, 3);
    assert_int_equal(facts.bytes, 21);
    assert_int_equal(facts.made.ms, 1234);
    assert_string_equal(facts.version, TENAX_VERSION);
    scratch_remove(dir);
    free(dir);
    buf_fini(&b);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct buf b = make_bundle();
    struct bundle_facts facts;
    for (size_t n = 0; n < b.len; n++)
        assert_code(read_bytes((struct str){b.at, n}, NULL, &facts), ERR_CORRUPT);
    buf_fini(&b);
}

/* Independently of zstd's own checksum: a flipped bit must never give other files. Bits that mean
 * nothing may be flipped. */
static void no_flipped_bit_changes_what_comes_out(void **state)
{
    (void)state;
    struct buf b = make_bundle();
    size_t refused = 0;
    for (size_t i = 0; i < b.len; i++) {
        struct bundle_facts checked;
        b.at[i] ^= 1;
        if (read_bytes(buf_view(&b), NULL, &checked).code != ERR_OK) {
            refused++;
            b.at[i] ^= 1;
            continue;
        }
        char *dir = scratch_make();
        assert_ok(read_bytes(buf_view(&b), dir, &checked));
        expect_file(dir, "CURRENT", "MANIFEST-000005\n");
        expect_file(dir, "000004.log", "a log");
        scratch_remove(dir);
        free(dir);
        b.at[i] ^= 1;
    }
    assert_true(refused > b.len / 2);
    buf_fini(&b);
}

static struct err refuse(void *ctx, struct str bytes)
{
    (void)ctx;
    (void)bytes;
    return err_make(ERR_STOPPING, "no more");
}

static void what_the_sink_says_is_what_bundle_write_says(void **state)
{
    (void)state;
    char *dir = scratch_make();
    put_file(dir, "CURRENT", "x");
    struct sink sink = {refuse, NULL};
    assert_code(bundle_write(dir, (instant){0}, &sink), ERR_STOPPING);
    scratch_remove(dir);
    free(dir);
}

/* --- forged bundles --- */

struct entry {
    const char *path, *text;
    unsigned type; /* 0: a plain file */
    const char *link;
};

static la_ssize_t to_buf(struct archive *a, void *ctx, const void *at, size_t n)
{
    (void)a;
    buf_add(ctx, at, n);
    return (la_ssize_t)n;
}

static struct buf forge(const struct entry *entries, size_t count)
{
    struct buf out = {0};
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    archive_write_add_filter_zstd(a);
    archive_write_set_bytes_in_last_block(a, 1);
    must(archive_write_open(a, &out, NULL, to_buf, NULL) == ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        const struct entry *e = &entries[i];
        struct archive_entry *h = archive_entry_new();
        archive_entry_set_pathname(h, e->path);
        archive_entry_set_filetype(h, e->type ? e->type : (unsigned)AE_IFREG);
        archive_entry_set_perm(h, 0600);
        archive_entry_set_size(h, (int64_t)strlen(e->text));
        if (e->link && e->type == AE_IFLNK)
            archive_entry_set_symlink(h, e->link);
        else if (e->link)
            archive_entry_set_hardlink(h, e->link);
        must(archive_write_header(a, h) == ARCHIVE_OK);
        archive_write_data(a, e->text, strlen(e->text));
        archive_entry_free(h);
    }
    must(archive_write_close(a) == ARCHIVE_OK);
    archive_write_free(a);
    return out;
}

#define SHA_OF_X "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
#define LINE_X   "{\"name\":\"X\",\"size\":1,\"sha256\":\"" SHA_OF_X "\"}"
#define MANIFEST(format, lines)                                                                    \
    {                                                                                              \
        "manifest.json",                                                                           \
            "{\"format\":" format ",\"tenax\":\"0.1.0\",\"created_at\":1,\"files\":[" lines "]}"   \
    }
#define GOOD_X                                                                                     \
    {                                                                                              \
        "tenax-root/X", "x"                                                                        \
    }

#define expect_forged(expected, ...)                                                               \
    do {                                                                                           \
        const struct entry entries_[] = {__VA_ARGS__};                                             \
        struct buf b_ = forge(entries_, COUNT(entries_));                                          \
        assert_int_equal(code_of(buf_view(&b_)), expected);                                        \
        buf_fini(&b_);                                                                             \
    } while (0)

static void a_forged_bundle_that_is_right_is_read(void **state)
{
    (void)state;
    expect_forged(ERR_OK, GOOD_X, MANIFEST("1", LINE_X));
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "tenax-root/../X", "/tenax-root/X",   "../X",        "X",
        "tenax-root/a/X",  "tenax-root/.X",   "tenax-root/", "/etc/passwd",
        "tenax-root/a b",  "tenax-root/a\\b",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        expect_forged(ERR_CORRUPT, {names[i], "x"}, MANIFEST("1", LINE_X));
}

static void what_is_no_plain_file_is_refused(void **state)
{
    (void)state;
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "", AE_IFLNK, "/etc/passwd"},
                  MANIFEST("1", LINE_X));
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "", 0, "/etc/passwd"}, MANIFEST("1", LINE_X));
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "", AE_IFDIR}, MANIFEST("1", LINE_X));
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "", AE_IFIFO}, MANIFEST("1", LINE_X));
}

static void files_and_manifest_must_agree(void **state)
{
    (void)state;
    expect_forged(ERR_CORRUPT, GOOD_X);                                   /* no manifest */
    expect_forged(ERR_CORRUPT, GOOD_X, MANIFEST("1", ""));                /* unlisted */
    expect_forged(ERR_CORRUPT, MANIFEST("1", LINE_X));                    /* missing */
    expect_forged(ERR_CORRUPT, GOOD_X, MANIFEST("1", LINE_X "," LINE_X)); /* listed twice */
    expect_forged(ERR_CORRUPT, GOOD_X, GOOD_X, MANIFEST("1", LINE_X));    /* there twice */
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "y"}, MANIFEST("1", LINE_X));
    expect_forged(ERR_CORRUPT, {"tenax-root/X", "xx"}, MANIFEST("1", LINE_X));
    expect_forged(ERR_CORRUPT, MANIFEST("1", LINE_X), GOOD_X); /* after the manifest */
}

static void a_broken_manifest_is_refused(void **state)
{
    (void)state;
    expect_forged(ERR_CORRUPT, GOOD_X, {"manifest.json", "{"});
    expect_forged(ERR_CORRUPT, GOOD_X, {"manifest.json", ""});
    expect_forged(ERR_CORRUPT, GOOD_X, {"manifest.json", "{\"format\":1}"});
    expect_forged(ERR_CORRUPT, GOOD_X, {"manifest.json", "{\"format\":\"1\",\"files\":[]}"});
}

static void a_newer_format_is_said_to_be_newer(void **state)
{
    (void)state;
    expect_forged(ERR_VERSION, GOOD_X, MANIFEST("2", LINE_X));
}

static void what_is_no_archive_is_refused(void **state)
{
    (void)state;
    assert_int_equal(code_of(STR("")), ERR_CORRUPT);
    assert_int_equal(code_of(STR("hello, this is a letter")), ERR_CORRUPT);
}

/* --- snapshots --- */

static void a_store_that_cannot_be_copied_says_so(void **state)
{
    (void)state;
    struct store *s = memory_new();
    char *dir = scratch_make();
    struct buf out = {0};
    struct sink sink = {gather, &out};
    assert_code(snapshot_write(s, dir, (instant){0}, &sink), ERR_NOT_SUPPORTED);
    assert_int_equal(out.len, 0);
    scratch_remove(dir);
    free(dir);
    store_close(s);
}

static void sweeping_removes_what_was_left_and_nothing_else(void **state)
{
    (void)state;
    char *dir = scratch_make();
    char path[256];
    static const char *const left[] = {"snapshot", "snapshot.tmp"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, left[i]);
        must(mkdir(path, 0700) == 0);
        put_file(path, "000004.log", "x");
    }
    put_file(dir, "CURRENT", "x");
    assert_ok(snapshot_sweep(dir));
    assert_ok(snapshot_sweep(dir));
    expect_file(dir, "CURRENT", "x");
    scratch_remove(dir); /* fails if a folder is left */
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_in_comes_out),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(no_flipped_bit_changes_what_comes_out),
        cmocka_unit_test(what_the_sink_says_is_what_bundle_write_says),
        cmocka_unit_test(a_forged_bundle_that_is_right_is_read),
        cmocka_unit_test(names_that_lead_elsewhere_are_refused),
        cmocka_unit_test(what_is_no_plain_file_is_refused),
        cmocka_unit_test(files_and_manifest_must_agree),
        cmocka_unit_test(a_broken_manifest_is_refused),
        cmocka_unit_test(a_newer_format_is_said_to_be_newer),
        cmocka_unit_test(what_is_no_archive_is_refused),
        cmocka_unit_test(a_store_that_cannot_be_copied_says_so),
        cmocka_unit_test(sweeping_removes_what_was_left_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
