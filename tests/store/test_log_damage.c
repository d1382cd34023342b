/* SPDX-License-Identifier: Apache-2.0 */

/* The log in files on a disk that changes bytes, loses files, or stops in the middle of a write:
 * what was durable is there afterwards, or the log is refused. */

#include "store/log_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "store/cm.h"
#include "store/log_contract.h"
#include "store/log_frame.h"
#include "store/scratch.h"

/* Some take a sector, some two blocks. */
#define LEN       ((size_t)6000)
#define OTHER_LEN ((size_t)900)
#define SEGMENT   (6 * LOG_BLOCK)
#define FILES_MAX 16

static struct log_file_settings settings(const char *dir, uint64_t from)
{
    /* What is under way together is not at rest meanwhile. */
    return (struct log_file_settings){.dir = dir,
                                      .from = from,
                                      .segment_bytes = SEGMENT,
                                      .segment_bytes_max = SEGMENT,
                                      .no_rest = true};
}

static struct log *open_ok(const char *dir, uint64_t from)
{
    struct log *l = NULL;
    struct log_file_settings s = settings(dir, from);
    assert_ok(log_file_open(&s, &l));
    return l;
}

/* --- images of a folder --- */

struct file {
    char name[64];
    unsigned char *bytes;
    size_t len;
};

struct image {
    struct file files[FILES_MAX];
    size_t count;
};

static void image_take(struct image *im, const char *dir)
{
    DIR *d = opendir(dir);
    must(d);
    im->count = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        /* A spare that is being made is none yet. */
        if (e->d_name[0] == '.' || strchr(e->d_name, '.'))
            continue;
        must(im->count < FILES_MAX);
        struct file *f = &im->files[im->count++];
        snprintf(f->name, sizeof f->name, "%s", e->d_name);
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        struct stat st;
        must(fd >= 0 && fstat(fd, &st) == 0);
        f->len = (size_t)st.st_size;
        f->bytes = alloc_get(f->len + 1);
        must(pread(fd, f->bytes, f->len, 0) == st.st_size && close(fd) == 0);
    }
    closedir(d);
}

static void write_whole(const char *dir, const char *name, const unsigned char *bytes, size_t len)
{
    char path[256];
    scratch_name_in(path, sizeof path, dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
}

static void image_put(const struct image *im, const char *dir)
{
    DIR *d = opendir(dir);
    must(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    for (size_t i = 0; i < im->count; i++)
        write_whole(dir, im->files[i].name, im->files[i].bytes, im->files[i].len);
}

static void image_drop(struct image *im)
{
    for (size_t i = 0; i < im->count; i++)
        free(im->files[i].bytes);
    im->count = 0;
}

static const struct file *find_file(const struct image *im, const char *name)
{
    for (size_t i = 0; i < im->count; i++)
        if (strcmp(im->files[i].name, name) == 0)
            return &im->files[i];
    return NULL;
}

/* --- damage --- */

#define BATCHES 8

/* Several segments, and openings between the batches. */
static void make_log(const char *dir)
{
    for (uint64_t n = 2; n <= BATCHES; n += 3) {
        struct log *l = open_ok(dir, 1);
        log_batch_fill(l, n, LEN);
        log_close(l);
    }
}

/* Whether it is refused; otherwise all of it must be there. */
static bool is_refused(const char *dir)
{
    struct log_file_settings s = settings(dir, 1);
    struct log *l;
    struct err e = log_file_open_reader(&s, &l);
    if (e.code != ERR_OK) {
        assert_int_equal(e.code, ERR_CORRUPT);
        return true;
    }
    assert_int_equal(log_durable(l), BATCHES);
    log_batch_expect(l, 1, LEN);
    log_close(l);
    return false;
}

static void write_byte(const char *path, size_t at, unsigned char byte)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1 && close(fd) == 0);
}

static bool is_as_before(const struct image *im, const char *dir, size_t file, size_t at)
{
    struct image now;
    image_take(&now, dir);
    bool same = now.count == im->count;
    for (size_t i = 0; i < now.count && same; i++) {
        const struct file *f = find_file(im, now.files[i].name);
        same = f && f->len == now.files[i].len;
        if (same && f == &im->files[file])
            now.files[i].bytes[at] = f->bytes[at];
        same = same && memcmp(f->bytes, now.files[i].bytes, f->len) == 0;
    }
    image_drop(&now);
    return same;
}

/* Whoever opens it to write sees what a reader sees: what he refuses he leaves as it is, and
 * otherwise goes on with all of it. The damage may lie where nothing was written yet, and be met
 * when the log has come there. */
static void open_to_write(const struct image *im, const char *dir, size_t file, size_t at,
                          bool refused)
{
    struct log_file_settings s = settings(dir, 1);
    struct log *l;
    if (refused) {
        assert_code(log_file_open(&s, &l), ERR_CORRUPT);
        assert_true(is_as_before(im, dir, file, at));
        return;
    }
    for (uint64_t n = 1; n <= 2; n++) {
        struct err e = log_file_open(&s, &l);
        if (n > 1 && e.code == ERR_CORRUPT)
            break;
        assert_ok(e);
        log_batch_expect(l, 1, LEN);
        log_batch_fill(l, BATCHES + n, LEN);
        log_close(l);
    }
    image_put(im, dir);
}

/* So many bytes are also met by who opens it to write: a prime. */
#define WRITERS_EVERY 13

static void no_byte_can_change_unnoticed(void **state)
{
    struct image im;
    size_t refused = 0;
    make_log(*state);
    image_take(&im, *state);
    assert_in_range(im.count, 3, FILES_MAX);
    for (size_t i = 0; i < im.count; i++) {
        char path[256];
        scratch_name_in(path, sizeof path, *state, im.files[i].name);
        for (size_t at = 0; at < im.files[i].len; at++) {
            write_byte(path, at, (unsigned char)(im.files[i].bytes[at] ^ 1u << at % 8));
            bool is = is_refused(*state);
            refused += is;
            if (at % WRITERS_EVERY == 0)
                open_to_write(&im, *state, i, at, is);
            write_byte(path, at, im.files[i].bytes[at]);
        }
    }
    assert_false(is_refused(*state));
    /* Every byte of what was appended: the contents of the batches alone are that many. */
    struct buf b = {0};
    size_t least = 0;
    for (uint64_t n = 1; n <= BATCHES; n++) {
        log_batch(n, LEN, &b);
        least += b.len;
    }
    buf_fini(&b);
    assert_true(refused > least);
    image_drop(&im);
}

static void no_length_is_cut_unnoticed(void **state)
{
    struct image im;
    make_log(*state);
    image_take(&im, *state);
    for (size_t i = 0; i < im.count; i++) {
        char path[256];
        bool is_spare = im.files[i].bytes[0] == 0 && im.files[i].bytes[4] == 0;
        scratch_name_in(path, sizeof path, *state, im.files[i].name);
        for (size_t len = im.files[i].len; len-- > 0;) {
            must(truncate(path, (off_t)len) == 0);
            assert_true(is_refused(*state) || is_spare);
        }
        write_whole(*state, im.files[i].name, im.files[i].bytes, im.files[i].len);
    }
    assert_false(is_refused(*state));
    image_drop(&im);
}

static void no_segment_is_missing_unnoticed(void **state)
{
    struct image im;
    make_log(*state);
    image_take(&im, *state);
    size_t used = 0;
    for (size_t i = 0; i < im.count; i++) {
        char path[256];
        struct log *l;
        struct log_file_settings s = settings(*state, 1);
        if (im.files[i].bytes[4] == 0)
            continue; /* a spare */
        used++;
        scratch_name_in(path, sizeof path, *state, im.files[i].name);
        must(unlink(path) == 0);
        assert_true(is_refused(*state));
        assert_code(log_file_open(&s, &l), ERR_CORRUPT);
        /* Nor if it has another one's contents. */
        const struct file *other = &im.files[(i + 1) % im.count];
        write_whole(*state, im.files[i].name, other->bytes, other->len);
        assert_true(is_refused(*state));
        write_whole(*state, im.files[i].name, im.files[i].bytes, im.files[i].len);
    }
    assert_true(used >= 3);
    /* With none of them it is for its owner to know that there was a log. */
    struct image none = {.count = 0};
    struct log_file_settings s = settings(*state, 1);
    struct log *l;
    image_put(&none, *state);
    s.reached = 1;
    assert_code(log_file_open(&s, &l), ERR_CORRUPT);
    image_drop(&im);
}

/* Zeros are as a disk that never wrote it: the batches after it tell. */
static void a_write_that_never_came_is_noticed_by_what_follows(void **state)
{
    char path[256];
    unsigned char zeros[512] = {0};
    struct log *l;
    struct log_file_settings s = settings(*state, 1);
    s.segment_bytes = s.segment_bytes_max = 1 << 20;
    assert_ok(log_file_open(&s, &l));
    log_batch_fill(l, 30, OTHER_LEN);
    log_close(l);
    scratch_name_in(path, sizeof path, *state, "segment-000001");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, zeros, sizeof zeros, 3 * LOG_BLOCK) == sizeof zeros);
    close(fd);
    assert_code(log_file_open(&s, &l), ERR_CORRUPT);
    s.lossy = true;
    log_set(LOG_ERROR, LOG_TEXT);
    assert_ok(log_file_open(&s, &l));
    assert_int_equal(log_durable(l), 2);
    log_batch_expect(l, 1, OTHER_LEN);
    log_batch_fill(l, 6, OTHER_LEN);
    log_close(l);
    s.lossy = false; /* it is given up for good */
    assert_ok(log_file_open(&s, &l));
    assert_int_equal(log_durable(l), 6);
    log_batch_expect(l, 1, OTHER_LEN);
    log_close(l);
}

/* Wherever it is given up, it goes on as a log. */
static void damage_that_is_given_up_leaves_a_log(void **state)
{
    struct image im;
    struct rng rng = rng_from_seed(3);
    make_log(*state);
    image_take(&im, *state);
    log_set(LOG_ERROR, LOG_TEXT);
    for (int round = 0; round < 100; round++) {
        image_put(&im, *state);
        struct file *f = &im.files[rng_below(&rng, im.count)];
        size_t at = rng_below(&rng, f->len);
        f->bytes[at] ^= 0x20;
        write_whole(*state, f->name, f->bytes, f->len);
        f->bytes[at] ^= 0x20;
        struct log_file_settings s = settings(*state, 1);
        struct log *l;
        s.lossy = true;
        assert_ok(log_file_open(&s, &l));
        uint64_t left = log_durable(l);
        assert_in_range(left, 0, BATCHES);
        log_batch_expect(l, 1, LEN);
        log_close(l);
        l = open_ok(*state, 1);
        assert_int_equal(log_durable(l), left);
        log_batch_fill(l, left + 9, LEN);
        log_close(l);
        l = open_ok(*state, 1);
        log_batch_expect(l, 1, LEN);
        log_close(l);
    }
    image_drop(&im);
}

/* --- power cuts --- */

/* What was acknowledged; then some were under way, of which each sector came to the disk or not. */
struct outage {
    const char *dir;
    struct image before, after;
    uint64_t acknowledged, under_way, from;
};

static void mix_file(const struct file *a, const struct file *b, struct rng *rng, unsigned share,
                     const char *dir)
{
    unsigned char *bytes = alloc_get(b->len);
    must(a->len == b->len);
    for (size_t at = 0; at < b->len; at += LOG_SECTOR)
        memcpy(bytes + at, (rng_below(rng, 100) < share ? b : a)->bytes + at, LOG_SECTOR);
    write_whole(dir, b->name, bytes, b->len);
    free(bytes);
}

static void check_outage(const struct outage *o, struct rng *rng)
{
    unsigned share = (unsigned)rng_below(rng, 101);
    image_put(&o->before, o->dir);
    for (size_t i = 0; i < o->after.count; i++) {
        const struct file *was = find_file(&o->before, o->after.files[i].name);
        must(was);
        mix_file(was, &o->after.files[i], rng, share, o->dir);
    }
    struct log *l = open_ok(o->dir, o->from);
    uint64_t last = log_durable(l);
    assert_in_range(last, o->acknowledged, o->acknowledged + o->under_way);
    log_batch_expect(l, o->from, LEN);
    log_close(l);
    /* What comes now is not mixed up with what was under way. */
    l = open_ok(o->dir, o->from);
    log_batch_fill(l, last + 1 + rng_below(rng, 12), OTHER_LEN);
    log_close(l);
    l = open_ok(o->dir, last + 1);
    log_batch_expect(l, last + 1, OTHER_LEN);
    log_close(l);
}

/* Appends without waiting, and without coming to the end of the segment: at a seal nothing else is
 * under way. */
static void append_some(struct log *l, uint64_t first, uint64_t count)
{
    struct buf b = {0};
    uint64_t number;
    for (uint64_t n = first; n < first + count; n++) {
        log_batch(n, LEN, &b);
        assert_ok(log_append(l, buf_view(&b), true, &number));
    }
    assert_ok(log_wait(l, number));
    buf_fini(&b);
}

static bool changed_only_one(const struct outage *o)
{
    size_t changed = 0;
    if (o->before.count != o->after.count)
        return false;
    for (size_t i = 0; i < o->after.count; i++) {
        const struct file *a = find_file(&o->before, o->after.files[i].name);
        if (!a || a->len != o->after.files[i].len)
            return false;
        changed += memcmp(a->bytes, o->after.files[i].bytes, a->len) != 0;
    }
    return changed == 1;
}

static void what_a_power_cut_leaves_of_a_write_is_no_damage(void **state)
{
    struct rng rng = rng_from_seed(11);
    size_t outages = 0;
    while (outages < 40) {
        struct outage o = {.dir = *state, .from = 1};
        struct log *l = open_ok(o.dir, 1);
        /* Segments have been used before. */
        o.acknowledged = 1 + rng_below(&rng, 40);
        for (uint64_t n = 1; n <= o.acknowledged; n++) {
            log_batch_fill(l, n, LEN);
            if (rng_below(&rng, 3) == 0)
                log_release(l, (o.from = n - rng_below(&rng, n < 3 ? n : 3)));
        }
        o.from = o.acknowledged; /* the last one at least is not let go of */
        if (rng_below(&rng, 2) == 0 && o.acknowledged > 1)
            log_release(l, o.acknowledged - 1);
        o.under_way = 1 + rng_below(&rng, 3);
        image_take(&o.before, o.dir);
        append_some(l, o.acknowledged + 1, o.under_way);
        image_take(&o.after, o.dir);
        log_close(l);
        if (changed_only_one(&o)) {
            for (int i = 0; i < 25; i++)
                check_outage(&o, &rng);
            outages++;
        }
        image_drop(&o.before);
        image_drop(&o.after);
        image_put(&o.before, o.dir);
    }
}

/* Folders are written anew thousands of times: in memory, where there is such a file system. */
static int set_up(void **state)
{
    char name[] = "/dev/shm/tenax-log-XXXXXX";
    *state = mkdtemp(name) ? alloc_text(name, strlen(name)) : scratch_make();
    return 0;
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        T(no_byte_can_change_unnoticed),
        T(no_length_is_cut_unnoticed),
        T(no_segment_is_missing_unnoticed),
        T(a_write_that_never_came_is_noticed_by_what_follows),
        T(damage_that_is_given_up_leaves_a_log),
        T(what_a_power_cut_leaves_of_a_write_is_no_damage),
    };
#undef T
    return cmocka_run_group_tests_name("log_damage", tests, NULL, NULL);
}
