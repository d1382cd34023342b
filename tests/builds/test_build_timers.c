/* SPDX-License-Identifier: Apache-2.0 */
#include "build_rig.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "builds/build_timers.h"
#include "client/when.h"

#define HOUR   3600000
#define MANY   20000
#define CONFIG "{ \"buildId\": 1, \"token\": \"" RIG_SECRET "\", \"n\": \"\\u00e9 \xc3\xa9 \\\"\" }"

/* What has fired. */
struct fired {
    int count;
    char build[32], last_config[300];
    int64_t at, length, started;
    struct build_timers *timers;
    bool clears; /* clears each that fires */
};

static struct fired fired;

static void on_fired(void *ctx, const struct build_timer *t)
{
    (void)ctx;
    fired.count++;
    snprintf(fired.build, sizeof fired.build, "%.*s", STR_ARG(t->build));
    snprintf(fired.last_config, sizeof fired.last_config, "%.*s", STR_ARG(t->config));
    fired.at = t->at.ms;
    fired.length = t->length.ms;
    fired.started = t->started.ms;
    if (fired.clears)
        build_timers_clear(fired.timers, t->build);
}

static void close_it(void *open)
{
    build_timers_close(open);
}

static struct build_timers *open_it(struct rig *r)
{
    fired = (struct fired){0};
    struct err e = build_timers_new(&r->loop, r->state, rig_clock, on_fired, NULL, &fired.timers);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    r->close = close_it;
    r->open = fired.timers;
    return fired.timers;
}

static void set(struct rig *r, struct build_timers *t, const char *build, int64_t in)
{
    const struct build_timer timer = {.build = str_from(build),
                                      .at = {rig_now.ms + in},
                                      .length = {in},
                                      .started = {rig_now.ms - 7},
                                      .config = STR(CONFIG)};
    build_timers_set(t, &timer, rig_kept, r);
}

static void a_timer_fires_with_what_was_set(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "12", 5);
    assert_int_equal(r->kept, 0);
    RIG_AWAIT(r, fired.count == 1 && r->kept == 1);
    assert_string_equal(fired.build, "12");
    assert_string_equal(fired.last_config, CONFIG);
    assert_int_equal(fired.at, rig_now.ms + 5);
    assert_int_equal(fired.length, 5);
    assert_int_equal(fired.started, rig_now.ms - 7);
    assert_int_equal(build_timers_count(t), 1);
    rig_close(r);
}

static void a_timer_fires_again_until_it_is_cleared(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", 1);
    RIG_AWAIT(r, fired.count == 2);
    build_timers_clear(t, STR("1"));
    assert_int_equal(build_timers_count(t), 0);
    rig_close(r);
    open_it(r);
    rig_settle(r);
    assert_int_equal(fired.count, 0);
    rig_close(r);
}

static void a_cleared_one_does_not_fire_and_unknown_ones_are_fine(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", 3);
    build_timers_clear(t, STR("1"));
    build_timers_clear(t, STR("2"));
    set(r, t, "3", 6);
    /* kept is called for the cleared one all the same. */
    RIG_AWAIT(r, fired.count == 1 && r->kept == 2);
    assert_string_equal(fired.build, "3");
    rig_close(r);
}

static void a_build_has_one_timer_the_last_one(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", 5);
    set(r, t, "1", HOUR);
    set(r, t, "2", 10);
    RIG_AWAIT(r, fired.count == 1 && r->kept == 3);
    assert_string_equal(fired.build, "2");
    assert_int_equal(build_timers_count(t), 2);
    rig_close(r);
    t = open_it(r);
    assert_int_equal(build_timers_count(t), 2);
    build_timers_clear(t, STR("1"));
    build_timers_clear(t, STR("2"));
    assert_int_equal(build_timers_count(t), 0);
    rig_close(r);
}

static void timers_survive_a_restart(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", HOUR);
    RIG_AWAIT(r, r->kept == 1);
    rig_close(r);
    rig_now.ms += HOUR - 4;
    open_it(r);
    RIG_AWAIT(r, fired.count == 1);
    rig_close(r);
    /* It was not cleared: it fires soon after the next start. */
    rig_now.ms += 4;
    open_it(r);
    RIG_AWAIT(r, fired.count == 1);
    assert_string_equal(fired.last_config, CONFIG);
    rig_close(r);
}

static void die(void *ctx)
{
    (void)ctx;
    raise(SIGKILL);
}

static void set_and_die(const char *dir)
{
    uv_loop_t loop;
    struct build_timers *t;
    const struct build_timer timer = {.build = STR("1"),
                                      .at = {rig_now.ms + HOUR},
                                      .length = {HOUR},
                                      .started = rig_now,
                                      .config = STR(CONFIG)};
    uv_loop_init(&loop);
    if (build_timers_new(&loop, dir, rig_clock, on_fired, NULL, &t).code == ERR_OK)
        build_timers_set(t, &timer, die, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void timers_survive_a_kill(void **state)
{
    struct rig *r = *state;
    rig_in_doomed_process(set_and_die, r->state);
    rig_now.ms += HOUR;
    open_it(r);
    RIG_AWAIT(r, fired.count == 1);
    rig_close(r);
}

static void a_clock_that_was_set_back_delays_it_by_its_length_at_most(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", 20);
    RIG_AWAIT(r, r->kept == 1);
    rig_close(r);
    rig_now.ms -= 1000 * (int64_t)HOUR;
    t = open_it(r);
    RIG_AWAIT(r, fired.count == 1);
    /* And in a process that runs, its own clock counts. */
    build_timers_clear(t, STR("1"));
    set(r, t, "2", 5);
    rig_now.ms -= HOUR;
    RIG_AWAIT(r, fired.count == 2);
    rig_close(r);
}

static void many_timers_of_the_past_fire_in_slices(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    char build[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(build, sizeof build, "%d", i);
        set(r, t, build, HOUR + (i * 7919) % MANY);
    }
    RIG_AWAIT(r, r->kept == MANY);
    rig_close(r);
    mono began = when_mono();
    /* All of them are of the past: they fire as they come, and leave room for the rest of the loop.
     */
    rig_now.ms += 2 * HOUR;
    t = open_it(r);
    fired.clears = true;
    rig_step(r);
    assert_true(fired.count < MANY / 10);
    RIG_AWAIT(r, fired.count == MANY);
    assert_int_equal(build_timers_count(t), 0);
    print_message("%d timers: read and fired in %lld ms\n", MANY,
                  (long long)when_ms_between(when_mono(), began));
    rig_close(r);
}

static void set_with(struct rig *r, struct build_timers *t, int i, struct str config)
{
    char build[32];
    snprintf(build, sizeof build, "build-%d", i);
    const struct build_timer timer = {.build = str_from(build),
                                      .at = {rig_now.ms + HOUR},
                                      .length = {HOUR},
                                      .started = rig_now,
                                      .config = config};
    build_timers_set(t, &timer, rig_kept, r);
}

/* At most 1 KiB a build, though most of a message is its token. */
static void a_timer_takes_little_memory_whatever_its_message(void **state)
{
    struct rig *r = *state;
    enum { COUNT_OF = 5000, AT_MOST = 1024 };
    static char config[4000];
    memset(config, 'x', sizeof config);
    struct build_timers *t = open_it(r);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < COUNT_OF; i++)
        set_with(r, t, i, (struct str){config, sizeof config});
    RIG_AWAIT(r, r->kept == COUNT_OF);
    assert_true(mallinfo2().uordblks - before < (size_t)COUNT_OF * AT_MOST);
    rig_close(r);
    before = mallinfo2().uordblks;
    t = open_it(r);
    assert_int_equal(build_timers_count(t), COUNT_OF);
    assert_true(mallinfo2().uordblks - before < (size_t)COUNT_OF * AT_MOST);
    rig_close(r);
}

static void files_are_for_their_owner_alone_and_one_process(void **state)
{
    struct rig *r = *state;
    struct stat st;
    struct build_timers *t = open_it(r), *other;
    set(r, t, "1", HOUR);
    RIG_AWAIT(r, r->kept == 1);
    assert_int_equal(stat(r->state, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(rig_path(r, "a/state/journal"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(build_timers_new(&r->loop, r->state, rig_clock, on_fired, NULL, &other).code,
                     ERR_LOCKED);
    rig_close(r);
}

static void after_closing_nothing_is_called_any_more(void **state)
{
    struct rig *r = *state;
    struct build_timers *t = open_it(r);
    set(r, t, "1", HOUR);
    set(r, t, "2", HOUR);
    RIG_AWAIT(r, r->kept > 0);
    int kept = r->kept;
    rig_close(r);
    rig_settle(r);
    assert_int_equal(r->kept, kept);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_timer_fires_with_what_was_set),
        T(a_timer_fires_again_until_it_is_cleared),
        T(a_cleared_one_does_not_fire_and_unknown_ones_are_fine),
        T(a_build_has_one_timer_the_last_one),
        T(timers_survive_a_restart),
        T(timers_survive_a_kill),
        T(a_clock_that_was_set_back_delays_it_by_its_length_at_most),
        T(many_timers_of_the_past_fire_in_slices),
        T(a_timer_takes_little_memory_whatever_its_message),
        T(files_are_for_their_owner_alone_and_one_process),
        T(after_closing_nothing_is_called_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
