/* SPDX-License-Identifier: Apache-2.0 */

/* The power fails while a process appends to a log in files: at each write or sync that it asks
 * for, with nothing of that on the disk or some sectors of it. A library that is preloaded
 * (tests/crash/powercut.c), whose path is the argument, keeps an image of what the disk has. */

#include "store/log_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "store/cm.h"
#include "base/folder.h"
#include "store/log_contract.h"
#include "store/log_ring.h"
#include "store/scratch.h"

#define LEN       ((size_t)6000)
#define OTHER_LEN ((size_t)900)
#define SEGMENT   ((uint64_t)10 * 4096)
#define CUTS_MAX  2000

static const char *shim;
static bool no_direct;
static struct log_ring *ring; /* NULL: who waits writes */

/* unsynced: of what was never synced some may be missing. */
static struct err open_log(const char *dir, uint64_t from, bool unsynced, struct log **l)
{
    struct log_file_settings s = {.dir = dir,
                                  .from = from,
                                  .unsynced = unsynced,
                                  .no_direct = no_direct,
                                  .ring = ring,
                                  .no_rest = true,
                                  .segment_bytes = SEGMENT,
                                  .segment_bytes_max = SEGMENT};
    return log_file_open(&s, l);
}

/* --- the process that loses its power --- */

#define GROUP 3

enum way {
    ALL_SYNCED,
    LAST_SYNCED, /* and takes the others along */
    MIXED,       /* one or none; each ends before the next begins */
    WAYS
};

struct told {
    uint64_t synced, ended, from;
    enum way way;
};

static void tell(const struct told *t)
{
    must(write(STDOUT_FILENO, t, sizeof *t) == sizeof *t);
}

static void append(struct log *l, struct told *t, bool sync, struct buf *b, uint64_t *number)
{
    log_batch(*number + 1, LEN, b);
    assert_ok(log_begin(l, buf_view(b), sync, number));
    if (t->way != MIXED)
        return;
    assert_ok(log_wait(l, *number));
    t->ended = *number;
    t->synced = sync ? *number : t->synced;
    tell(t);
}

static void append_group(struct log *l, struct told *t, int i, struct buf *b)
{
    uint64_t number = t->ended;
    for (int n = 0; n < GROUP; n++) {
        bool sync = t->way == MIXED ? n == i % (GROUP + 1) : n == GROUP - 1;
        append(l, t, sync || t->way == ALL_SYNCED, b, &number);
    }
    assert_ok(log_wait(l, number));
    t->ended = number;
    t->synced = t->way == MIXED ? t->synced : number;
    tell(t);
}

/* Segments are let go of and used again, and openings come between. */
static int child_append(const char *dir)
{
    struct told t = {.from = 1};
    for (t.way = 0; t.way < WAYS; t.way++) {
        struct log *l = NULL;
        struct buf b = {0};
        assert_ok(open_log(dir, t.from, false, &l));
        t.synced = t.ended = log_durable(l);
        tell(&t);
        for (int i = 0; i < 8; i++) {
            append_group(l, &t, i, &b);
            if (i % 4 == 1)
                log_file_rest(l);
            if (i % 3 == 2) {
                t.from = t.synced - 1;
                tell(&t);
                log_release(l, t.from - 1);
            }
        }
        buf_fini(&b);
        log_close(l);
    }
    return 0;
}

/* Lets it run to its n-th sync. False if it came to its end before. */
static bool lose_power(const char *dir, const char *image, int at, bool tear, struct told *last)
{
    int ends[2], status;
    must(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        char n[16], root[PATH_MAX], to[PATH_MAX];
        snprintf(n, sizeof n, "%d", at);
        dup2(ends[1], STDOUT_FILENO);
        setenv("POWERCUT_ROOT", realpath(dir, root), 1);
        setenv("POWERCUT_IMAGE", realpath(image, to), 1);
        setenv("POWERCUT_KILL_AT", n, 1);
        if (tear)
            setenv("POWERCUT_TEAR", "1", 1);
        setenv("LD_PRELOAD", shim, 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
        execl("/proc/self/exe", "test_log_powercut", no_direct ? "synced" : "direct",
              ring ? "ring" : "", dir, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *last = (struct told){.from = 1};
    for (struct told t; read(ends[0], &t, sizeof t) == sizeof t;)
        *last = t;
    close(ends[0]);
    must(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    else
        assert_int_equal(WTERMSIG(status), SIGKILL);
    return WIFSIGNALED(status);
}

/* --- what is left --- */

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    must(out);
    size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    must(n < sizeof bytes && fwrite(bytes, 1, n, out) == n && fclose(out) == 0);
    if (in)
        fclose(in);
}

/* Fills the empty folder with the files whose names were on the disk. */
static void restore(const char *image, const char *dir)
{
    char path[PATH_MAX], name[256], to[PATH_MAX];
    unsigned long inode;
    snprintf(path, sizeof path, "%s/entries", image);
    FILE *entries = fopen(path, "r");
    while (entries && fscanf(entries, "%lu %255s", &inode, name) == 2) {
        snprintf(path, sizeof path, "%s/content-%lu", image, inode);
        snprintf(to, sizeof to, "%s/%s", dir, name);
        copy(path, to);
    }
    if (entries)
        fclose(entries);
}

static void check(const char *dir, const struct told *told)
{
    struct log *l = NULL;
    assert_ok(open_log(dir, told->from, told->way == MIXED, &l));
    uint64_t last = log_durable(l);
    assert_in_range(last, told->synced, told->ended + GROUP);
    log_batch_expect(l, told->from, LEN);
    log_close(l);
    assert_ok(open_log(dir, told->from, false, &l));
    log_batch_fill(l, last + 5, OTHER_LEN);
    log_close(l);
    assert_ok(open_log(dir, last + 1, false, &l));
    log_batch_expect(l, last + 1, OTHER_LEN);
    log_close(l);
}

static void cut_at_every_write(bool tear)
{
    bool dies = true;
    int at = 0;
    while (dies && at < CUTS_MAX) {
        char *dir = scratch_make(), *image = scratch_make(), *left = scratch_make();
        struct told told;
        dies = lose_power(dir, image, ++at, tear, &told);
        restore(image, left);
        check(left, &told);
        assert_ok(folder_remove(dir));
        assert_ok(folder_remove(image));
        assert_ok(folder_remove(left));
        free(dir);
        free(image);
        free(left);
    }
    print_message("%d cuts\n", at - 1);
    assert_in_range(at, 50, CUTS_MAX - 1);
}

static void the_power_may_fail_before_any_write(void **state)
{
    (void)state;
    cut_at_every_write(false);
}

static void the_power_may_fail_in_the_middle_of_any_write(void **state)
{
    (void)state;
    cut_at_every_write(true);
}

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_power_may_fail_before_any_write),
        cmocka_unit_test(the_power_may_fail_in_the_middle_of_any_write),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

static void use_ring(void)
{
    ring = log_ring_new(LOG_UNDER_WAY_MAX);
}

int main(int argc, char **argv)
{
    must(argc >= 2);
    no_direct = strcmp(argv[1], "synced") == 0;
    if (argc == 4) {
        if (*argv[2])
            use_ring();
        int code = child_append(argv[3]);
        log_ring_free(ring);
        return code;
    }
    log_set(LOG_ERROR, LOG_TEXT); /* of what is lost in a cut there is a warning */
    shim = argv[1];
    /* What the disk has is kept by the library: the files may be in memory. */
    char folder[] = "/dev/shm/tenax-power-XXXXXX";
    bool in_memory = mkdtemp(folder) && chdir(folder) == 0;
    int failures = run("log_powercut_direct");
    no_direct = true;
    failures += run("log_powercut_synced");
    use_ring();
    if (ring) {
        failures += run("log_powercut_ring_synced");
        no_direct = false;
        failures += run("log_powercut_ring_direct");
    } else {
        print_message("the kernel has no io_uring for us: not tested with it\n");
    }
    log_ring_free(ring);
    if (in_memory)
        rmdir(folder);
    return failures;
}
