/* SPDX-License-Identifier: Apache-2.0 */

/* The file INDEX under a backend: whatever was done to it, a start gives the same indexes as one
 * without it. Syncs, renames and writes are those of this program, which fail or stop at any of
 * them; what a power cut would leave of the folder is kept beside. */

#include "yard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "core/engine_snapshot.h"
#include "base/folder.h"
#include "store/index_file.h"

#define Y        struct yard *y = *state
#define FILE_MAX ((size_t)64 << 10)
#define LARGE    ((size_t)2 << 20)

static char dir[32];

/* --- the disk --- */

struct bytes {
    bool there;
    size_t len;
    char at[FILE_MAX];
};

/* What a power cut leaves of the file INDEX: a name counts as of the last sync of the folder, and
 * what the file has in it as of its own. */
static struct {
    bool armed;
    int calls, stop_at, failure; /* the call that fails; from it on all do if power is cut */
    bool power_is_cut;
    struct bytes synced, left;
} disk;

static void name_of(char path[64], const char *name)
{
    snprintf(path, 64, "%s/%s", dir, name);
}

static void read_bytes(int fd, struct bytes *b)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, b->at, sizeof b->at, 0);
    b->there = n >= 0;
    b->len = n < 0 ? 0 : (size_t)n;
    assert_true(b->len < sizeof b->at);
}

static void read_index(struct bytes *b)
{
    char path[64];
    name_of(path, INDEX_FILE_NAME);
    int fd = open(path, O_RDONLY);
    read_bytes(fd, b);
    if (fd >= 0)
        close(fd);
}

static void write_index(const struct bytes *b)
{
    char path[64];
    name_of(path, INDEX_FILE_NAME);
    unlink(path);
    if (!b->there)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_write, fd, b->at, b->len), b->len);
    close(fd);
}

static bool is_there(void)
{
    char path[64];
    name_of(path, INDEX_FILE_NAME);
    return access(path, F_OK) == 0;
}

static bool fails(void)
{
    if (!disk.armed)
        return false;
    disk.calls++;
    bool fail = disk.calls == disk.stop_at || (disk.power_is_cut && disk.calls > disk.stop_at);
    if (disk.stop_at == 0 || !fail)
        return false;
    errno = disk.power_is_cut ? EIO : disk.failure;
    return true;
}

/* Of the file that is being written: its name is another one still. */
int fdatasync(int fd)
{
    (void)fd;
    return fails() ? -1 : 0;
}

int fsync(int fd)
{
    struct stat st;
    if (fails())
        return -1;
    if (disk.armed && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        disk.left = disk.synced;
    return 0;
}

int rename(const char *from, const char *to)
{
    if (fails())
        return -1;
    int fd = open(from, O_RDONLY);
    read_bytes(fd, &disk.synced);
    close(fd);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

ssize_t write(int fd, const void *at, size_t len)
{
    struct stat st;
    bool ours = disk.armed && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (ours && fails())
        return -1;
    return syscall(SYS_write, fd, at, len);
}

/* --- the yard --- */

/* The store's, which goes on to hold what it has held first. */
static bool held;
static void (*hold)(struct store *s, uint64_t number);

static void keep(struct store *s, uint64_t number)
{
    if (!held && number != STORE_HOLD_NONE) {
        held = true;
        hold(s, number);
    }
}

static int set_up(void **state)
{
    memset(&disk, 0, sizeof disk);
    strcpy(dir, "/tmp/tenax-snap-XXXXXX");
    if (!mkdtemp(dir) || yard_setup(state) != 0)
        return -1;
    Y;
    y->settings.index_dir = dir;
    y->settings.index_inline = true;
    y->settings.index_jobs_min = 3;
    y->settings.index_slice = 40;
    held = false;
    hold = y->below->hold;
    yard_restart(y);
    return 0;
}

static int tear_down(void **state)
{
    disk.armed = false;
    yard_teardown(state);
    return folder_remove(dir).code == ERR_OK ? 0 : -1;
}

#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void on_meter(void *ctx, const struct reply *r)
{
    *(struct backend_meter *)ctx = *r->meter;
}

static struct backend_meter meter(struct yard *y)
{
    struct backend_meter m = {0};
    struct command c = {.kind = CMD_METER, .done = on_meter, .ctx = &m};
    backend_submit(y->b, &c);
    yard_settle(y);
    return m;
}

/* Until none is under way. */
static void turns(struct yard *y)
{
    for (int i = 0; i < 40; i++)
        yard_turn(y);
}

static void complete(struct yard *y, const char *queue)
{
    struct answer claim = {0}, a;
    yard_claim(y, queue, 1, (span){0}, &claim);
    yard_settle(y);
    assert_int_equal(claim.count, 1);
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {claim.ids[0], claim.tokens[0]}}, &a);
    assert_ok(a.err);
}

static void add_kinds(struct yard *y)
{
    struct answer a, claim = {0};
    struct enqueue later = yard_spec("later");
    later.ready_at = instant_add(y->now, (span){3600000});
    later.type = STR("a type");
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&later, 1}}, &a);
    assert_ok(a.err);
    struct enqueue unique = yard_spec("u");
    unique.unique_key = STR("key");
    unique.unique_while = UNIQUE_QUEUED;
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&unique, 1}}, &a);
    assert_ok(a.err);
    yard_add(y, "held");
    yard_claim(y, "held", 1, (span){0}, &claim);
    yard_settle(y);
    assert_int_equal(claim.count, 1);
}

/* Some jobs before a snapshot and some after it. */
static void fill(struct yard *y)
{
    add_kinds(y);
    for (int i = 0; i < 12; i++)
        yard_add(y, i % 2 ? "a" : "b");
    turns(y);
    assert_true(is_there());
    yard_add(y, "a");
    yard_add(y, "c");
    complete(y, "b");
    turns(y);
}

static void dump(struct yard *y, struct buf *out)
{
    out->len = 0;
    engine_dump(embedded_engine(y->b), out);
}

/* What a start without the file gives; it is as it was afterwards, and so is what the store
 * holds. */
static void dump_without(struct yard *y, struct buf *out)
{
    struct bytes *was = test_malloc(sizeof *was);
    held = true;
    y->vt.hold = keep;
    read_index(was);
    y->settings.index_off = true;
    yard_restart(y);
    assert_false(is_there());
    dump(y, out);
    y->settings.index_off = false;
    write_index(was);
    test_free(was);
}

/* Starts, and compares. */
static void assert_same(struct yard *y, const struct buf *want, enum index_start start)
{
    struct buf got = {0};
    yard_restart(y);
    dump(y, &got);
    assert_true(str_eq(buf_view(&got), buf_view(want)));
    assert_int_equal(is_there(), start == INDEX_START_USED);
    buf_fini(&got);
}

/* --- damage --- */

static void every_damage_costs_nothing_but_time(void **state)
{
    Y;
    struct buf want = {0};
    struct bytes *good = test_malloc(sizeof *good), *bad = test_malloc(sizeof *bad);
    fill(y);
    read_index(good);
    dump_without(y, &want);
    assert_same(y, &want, INDEX_START_USED);
    for (size_t i = 0; i < good->len; i++) {
        *bad = *good;
        bad->at[i] = (char)(bad->at[i] ^ 1 << i % 8);
        write_index(bad);
        assert_same(y, &want, INDEX_START_REFUSED);
        *bad = *good;
        bad->len = i;
        write_index(bad);
        assert_same(y, &want, INDEX_START_REFUSED);
    }
    *bad = *good;
    bad->at[bad->len++] = 0;
    write_index(bad);
    assert_same(y, &want, INDEX_START_REFUSED);
    write_index(good);
    assert_same(y, &want, INDEX_START_USED);
    assert_int_equal(meter(y).index_start, INDEX_START_USED);
    test_free(good);
    test_free(bad);
    buf_fini(&want);
}

/* --- files that belong elsewhere --- */

static void the_file_of_another_time_is_refused(void **state)
{
    Y;
    struct buf want = {0};
    struct bytes *old = test_malloc(sizeof *old);
    y->vt.hold = keep;
    fill(y);
    read_index(old);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 12; i++)
            yard_add(y, "a");
        yard_turn_after(y, 100000);
        turns(y);
    }
    assert_true(meter(y).index_written >= 3);
    dump_without(y, &want);
    assert_same(y, &want, INDEX_START_USED);
    write_index(old);
    assert_same(y, &want, INDEX_START_REFUSED);
    assert_int_equal(meter(y).index_start, INDEX_START_REFUSED);
    test_free(old);
    buf_fini(&want);
}

static void a_file_that_is_newer_than_the_store_is_refused(void **state)
{
    Y;
    struct buf want = {0};
    struct bytes *lost = test_malloc(sizeof *lost);
    y->vt.hold = keep;
    y->settings.sync = false;
    yard_restart(y);
    fill(y);
    read_index(lost);
    memory_crash(y->store, false, true);
    yard_crash(y);
    assert_int_equal(meter(y).index_start, INDEX_START_REFUSED);
    /* The same numbers, with other contents. */
    for (int i = 0; i < 40; i++)
        yard_add(y, "z");
    turns(y);
    dump_without(y, &want);
    write_index(lost);
    assert_same(y, &want, INDEX_START_REFUSED);
    test_free(lost);
    buf_fini(&want);
}

static void the_file_of_another_root_directory_is_refused(void **state)
{
    assert_int_equal(set_up(state), 0);
    Y;
    struct bytes *theirs = test_malloc(sizeof *theirs);
    struct buf want = {0};
    fill(y);
    read_index(theirs);
    tear_down(state);
    assert_int_equal(set_up(state), 0);
    y = *state;
    y->vt.hold = keep;
    y->seed = 1000;
    yard_restart(y);
    fill(y);
    dump_without(y, &want);
    write_index(theirs);
    assert_same(y, &want, INDEX_START_REFUSED);
    test_free(theirs);
    buf_fini(&want);
    tear_down(state);
}

static void one_that_is_switched_off_is_removed(void **state)
{
    Y;
    fill(y);
    y->settings.index_off = true;
    yard_restart(y);
    assert_false(is_there());
    assert_int_equal(meter(y).index_start, INDEX_START_OFF);
    for (int i = 0; i < 40; i++)
        yard_add(y, "a");
    turns(y);
    assert_false(is_there());
}

/* --- writing --- */

/* Until so much has changed that one is written. */
static void outdate(struct yard *y)
{
    uint64_t written = meter(y).index_written;
    for (int i = 0; meter(y).index_written == written; i++) {
        assert_true(i < 100);
        yard_add(y, "a");
        turns(y);
    }
}

static void a_stop_writes_one(void **state)
{
    Y;
    struct buf want = {0};
    fill(y);
    outdate(y);
    uint64_t written = meter(y).index_written;
    for (int i = 0; i < 4; i++)
        yard_add(y, "d");
    assert_int_equal(meter(y).index_written, written);
    yard_settle(y);
    assert_true(backend_is_idle(y->b));
    backend_stop(y->b);
    assert_false(backend_is_idle(y->b));
    yard_settle(y);
    assert_true(backend_is_idle(y->b));
    dump_without(y, &want);
    assert_same(y, &want, INDEX_START_USED);
    assert_true(meter(y).index_jobs_read < 5); /* those that need more than an entry */
    buf_fini(&want);
}

static void less_is_written_some_time_later(void **state)
{
    Y;
    fill(y);
    outdate(y);
    uint64_t written = meter(y).index_written;
    for (int i = 0; i < 2; i++)
        yard_add(y, "d");
    turns(y);
    assert_int_equal(meter(y).index_written, written);
    instant at;
    assert_true(backend_next_due(y->b, &at));
    assert_true(at.ms <= y->now.ms + 60000);
    yard_turn_after(y, 60000);
    turns(y);
    assert_int_equal(meter(y).index_written, written + 1);
}

static void without_room_it_is_tried_later(void **state)
{
    Y;
    y->free_space = 1010;
    yard_turn_after(y, 1000);
    for (int i = 0; i < 20; i++)
        yard_add(y, "a");
    turns(y);
    assert_false(is_there());
    assert_int_equal(meter(y).index_failed, 1);
    y->free_space = INT64_MAX;
    yard_turn_after(y, 59000);
    turns(y);
    assert_false(is_there());
    yard_turn_after(y, 1000);
    turns(y);
    assert_true(is_there());
    assert_int_equal(meter(y).index_failed, 1);
}

static uint64_t last_held;

static void note_hold(struct store *s, uint64_t number)
{
    last_held = number;
    hold(s, number);
}

static void on_a_disk_that_is_nearly_full_little_is_held_for_it(void **state)
{
    Y;
    fill(y);
    y->vt.hold = note_hold;
    y->settings.index_jobs_min = 30; /* for another there are too few */
    yard_restart(y);
    assert_int_not_equal(last_held, STORE_HOLD_NONE);
    char *text = test_malloc(LARGE);
    memset(text, '1', LARGE);
    for (int i = 0; i < 10; i++) {
        struct answer a;
        struct enqueue spec = yard_spec("large");
        spec.payload = (struct str){text, LARGE};
        yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
        assert_ok(a.err);
        if (i == 0)
            y->free_space = 900;
        yard_turn_after(y, 1000);
        y->free_space = INT64_MAX;
        yard_turn_after(y, 1000);
        assert_int_not_equal(last_held, STORE_HOLD_NONE);
    }
    test_free(text);
    y->free_space = 900;
    yard_turn_after(y, 1000);
    assert_int_equal(last_held, STORE_HOLD_NONE);
    assert_false(is_there());
}

/* Every write, sync and rename of one snapshot fails in turn. */
static void a_failure_leaves_the_one_before_and_it_is_tried_later(void **state)
{
    Y;
    struct buf want = {0};
    fill(y);
    for (disk.stop_at = 1;; disk.stop_at++) {
        uint64_t failed = meter(y).index_failed, written = meter(y).index_written;
        disk.armed = true;
        disk.calls = 0;
        disk.failure = disk.stop_at % 2 ? ENOSPC : EIO;
        yard_turn_after(y, 60000);
        for (int i = 0; i < 30; i++)
            yard_add(y, "d");
        turns(y);
        disk.armed = false;
        if (meter(y).index_failed == failed)
            break;
        assert_int_equal(meter(y).index_written, written);
        yard_turn_after(y, 60000);
        turns(y);
        assert_int_equal(meter(y).index_written, written + 1);
    }
    assert_true(disk.stop_at > 6); /* writes of frames, two syncs, the rename */
    dump_without(y, &want);
    assert_same(y, &want, INDEX_START_USED);
    buf_fini(&want);
}

/* The power is cut before a write, a sync or the rename; false: there were fewer. */
static bool cut_at(void **state, int call)
{
    struct buf want = {0};
    assert_int_equal(set_up(state), 0);
    Y;
    disk.armed = true;
    for (int i = 0; i < 70; i++) {
        if (i == 35) {
            disk.stop_at = disk.calls + call;
            disk.power_is_cut = true;
        }
        bool cut = disk.stop_at && disk.calls >= disk.stop_at;
        if (cut)
            break;
        yard_add(y, i % 3 ? "a" : "b");
    }
    bool cut = disk.calls >= disk.stop_at;
    disk.armed = false;
    write_index(&disk.left);
    assert_true(disk.left.there);
    yard_crash(y);
    struct buf got = {0};
    dump(y, &got);
    dump_without(y, &want);
    assert_true(str_eq(buf_view(&got), buf_view(&want)));
    buf_fini(&got);
    buf_fini(&want);
    tear_down(state);
    return cut;
}

static void a_power_cut_at_any_moment_loses_nothing(void **state)
{
    int call = 1;
    while (cut_at(state, call))
        call++;
    assert_true(call > 12); /* of two snapshots, at least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DISK(every_damage_costs_nothing_but_time),
        ON_DISK(the_file_of_another_time_is_refused),
        ON_DISK(a_file_that_is_newer_than_the_store_is_refused),
        cmocka_unit_test(the_file_of_another_root_directory_is_refused),
        ON_DISK(one_that_is_switched_off_is_removed),
        ON_DISK(a_stop_writes_one),
        ON_DISK(less_is_written_some_time_later),
        ON_DISK(without_room_it_is_tried_later),
        ON_DISK(on_a_disk_that_is_nearly_full_little_is_held_for_it),
        ON_DISK(a_failure_leaves_the_one_before_and_it_is_tried_later),
        cmocka_unit_test(a_power_cut_at_any_moment_loses_nothing),
    };
    log_set(LOG_NONE, LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
