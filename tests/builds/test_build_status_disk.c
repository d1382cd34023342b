/* SPDX-License-Identifier: Apache-2.0 */

/* Updates of builds on disk: restarts, kills, damage, a full disk, many of them. */

#include "status_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/when.h"

#define MANY 50000

static void an_update_is_kept_on_disk_for_its_owner_alone(void **state)
{
    struct rig *r = *state;
    struct stat st;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    assert_int_equal(r->kept, 0);
    RIG_AWAIT(r, r->kept == 1);
    assert_int_equal(stat(r->state, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(rig_path(r, "a/state/journal"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct build_status *other;
    const struct build_status_settings set = settings(r);
    assert_int_equal(build_status_new(&r->loop, &set, &other).code, ERR_LOCKED);
    rig_close(r);
}

static void what_was_not_told_is_told_after_a_restart(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "first");
    put(r, s, "1", "second");
    put(r, s, "2", "third");
    RIG_AWAIT(r, r->kept == 3 && r->held_count == 2);
    rig_close(r);
    r->serve = take;
    s = open_it(r);
    assert_int_equal(of(s).waiting, 3);
    RIG_AWAIT(r, of(s).told == 3);
    assert_true(asked(r, 2, "/v4/builds/1", "first"));
    assert_string_equal(r->requests[2].authorization, "Bearer " TOKEN);
    assert_true(asked(r, 3, "/v4/builds/2", "third") || asked(r, 4, "/v4/builds/2", "third"));
    rig_close(r);
    s = open_it(r);
    assert_int_equal(of(s).waiting, 0);
    rig_settle(r);
    assert_int_equal(r->served, 5);
    rig_close(r);
}

static int kept_by_doomed;

static void count_kept(void *ctx)
{
    (void)ctx;
    if (++kept_by_doomed == 2)
        raise(SIGKILL);
}

static char doomed_api[64];

/* Killed as soon as both are kept; nobody listens. */
static void put_two_and_die(const char *dir)
{
    uv_loop_t loop;
    struct build_status *s;
    struct build_status_settings set = {.dir = dir,
                                        .timeout = {1000},
                                        .delay = {1},
                                        .delay_max = {1},
                                        .age_max = {3600000},
                                        .now = rig_clock};
    struct build_update u = {.api = str_from(doomed_api),
                             .build = STR("9"),
                             .token = STR(TOKEN),
                             .message = STR("one"),
                             .image_pull_start = INSTANT_NONE};
    uv_loop_init(&loop);
    if (build_status_new(&loop, &set, &s).code != ERR_OK)
        return;
    s->ops->put(s, &u, count_kept, NULL);
    u.message = STR("two");
    s->ops->put(s, &u, count_kept, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void a_killed_process_has_told_or_kept_what_it_said(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    strcpy(doomed_api, r->url);
    rig_cut(r);
    rig_in_doomed_process(put_two_and_die, r->state);
    rig_listen(r);
    struct build_status *s = open_it(r);
    assert_int_equal(of(s).waiting, 2);
    RIG_AWAIT(r, of(s).told == 2);
    assert_true(asked(r, 0, "/v4/builds/9", "one"));
    assert_true(asked(r, 1, "/v4/builds/9", "two"));
    rig_close(r);
}

static void old_updates_get_a_try_after_a_restart(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, r->kept == 1 && r->held_count == 1);
    rig_close(r);
    r->serve = take;
    rig_now.ms += 100 * 3600000; /* or the clock was wrong */
    s = open_it(r);
    RIG_AWAIT(r, of(s).told == 1);
    rig_close(r);
}

static void a_full_disk_holds_up_nothing_that_can_be_told(void **state)
{
    struct rig *r = *state;
    struct rlimit old, small = {64, RLIM_INFINITY};
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    put(r, s, "1", "x");
    put(r, s, "2", "y");
    RIG_AWAIT(r, r->held_count == 2 && rig_logged(r, "journal: "));
    assert_int_equal(r->kept, 0);
    /* Told: it need not be kept. */
    rig_answer(r->held[0], 200, NULL);
    r->held[0] = r->held[1];
    r->held_count = 1;
    RIG_AWAIT(r, r->kept == 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    RIG_AWAIT(r, r->kept == 2);
    rig_close(r);
    r->serve = take;
    s = open_it(r);
    assert_int_equal(of(s).waiting, 1);
    RIG_AWAIT(r, of(s).told == 1);
    rig_close(r);
}

static void a_damaged_record_is_passed_over(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    put(r, s, "2", "x");
    RIG_AWAIT(r, r->kept == 2 && r->held_count == 2);
    rig_close(r);
    int fd = open(rig_path(r, "a/state/journal"), O_WRONLY);
    assert_int_equal(pwrite(fd, "#", 1, 60), 1);
    close(fd);
    r->serve = take;
    s = open_it(r);
    assert_int_equal(of(s).waiting, 1);
    RIG_AWAIT(r, of(s).told == 1);
    assert_true(asked(r, 2, "/v4/builds/2", "x"));
    rig_close(r);
}

static void put_many(struct rig *r, struct build_status *s)
{
    char build[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(build, sizeof build, "%d", i);
        put(r, s, build, "many");
    }
}

static void many_updates_wait_on_disk_over_a_restart_and_are_told(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    rig_cut(r);
    mono began = when_mono();
    struct build_status *s = open_it(r);
    put_many(r, s);
    RIG_AWAIT(r, r->kept == MANY);
    int64_t kept = when_ms_between(when_mono(), began);
    rig_close(r);
    began = when_mono();
    s = open_it(r);
    int64_t opened = when_ms_between(when_mono(), began);
    assert_int_equal(of(s).waiting, MANY);
    rig_listen(r);
    began = when_mono();
    RIG_AWAIT(r, of(s).told == MANY);
    print_message("%d updates: kept in %lld ms, read in %lld ms, told in %lld ms\n", MANY,
                  (long long)kept, (long long)opened,
                  (long long)when_ms_between(when_mono(), began));
    assert_int_equal(r->served, MANY);
    rig_close(r);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_update_is_kept_on_disk_for_its_owner_alone),
        T(what_was_not_told_is_told_after_a_restart),
        T(a_killed_process_has_told_or_kept_what_it_said),
        T(old_updates_get_a_try_after_a_restart),
        T(a_full_disk_holds_up_nothing_that_can_be_told),
        T(a_damaged_record_is_passed_over),
        T(many_updates_wait_on_disk_over_a_restart_and_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
