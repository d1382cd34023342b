/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/child.h"
#include "worker/report.h"
#include "client/view.h"

static int child_ended; /* a signalfd of SIGCHLD */

/* Pumps until it has ended; only waits for events. */
static void run_to_end(struct child *c, bool sweep)
{
    while (!child_reap(c, sweep)) {
        struct pollfd fds[] = {{.fd = child_ended, .events = POLLIN},
                               {.fd = c->in, .events = POLLOUT},
                               {.fd = c->err, .events = POLLIN}};
        assert_true(poll(fds, 3, 20000) > 0);
        struct signalfd_siginfo info;
        while (read(child_ended, &info, sizeof info) == sizeof info)
            continue;
        child_pump(c);
    }
}

static struct err start(struct child *c, const char *script, struct str payload)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    return child_start(c, argv, environ, payload);
}

#define RUN(c, script, payload)                                                                    \
    do {                                                                                           \
        struct err e_ = start((c), (script), (payload));                                           \
        assert_int_equal(e_.code, ERR_OK);                                                         \
        run_to_end((c), false);                                                                    \
    } while (0)

static void a_command_gets_the_payload_and_its_errors_are_kept(void **state)
{
    (void)state;
    struct child c = {0};
    RUN(&c, "cat >&2; exit 3", STR("{\"a\":1}"));
    assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 3);
    assert_true(str_eq(buf_view(&c.tail), STR("{\"a\":1}")));
    child_fini(&c);
}

static void a_payload_larger_than_a_pipe_arrives(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *big = malloc(n);
    memset(big, 'x', n);
    struct child c = {0};
    RUN(&c, "wc -c >&2", ((struct str){big, n}));
    assert_int_equal(atoi(c.tail.at), 1 << 20);
    child_fini(&c);
    free(big);
}

static void a_command_may_ignore_its_input(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *big = malloc(n);
    memset(big, 'x', n);
    struct child c = {0};
    RUN(&c, "exit 0", ((struct str){big, n}));
    assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 0);
    child_fini(&c);
    free(big);
}

static void only_the_end_of_long_errors_is_kept(void **state)
{
    (void)state;
    struct child c = {0};
    RUN(&c, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done >&2; echo last >&2",
        STR(""));
    assert_true(c.cut);
    assert_int_equal(c.tail.len, CHILD_TAIL_MAX);
    assert_memory_equal(c.tail.at + c.tail.len - 5, "last\n", 5);
    child_fini(&c);
}

static void a_grandchild_that_keeps_the_pipe_does_not_hold_things_up(void **state)
{
    (void)state;
    struct child c = {0};
    RUN(&c, "sleep 300 & echo $! >&2", STR(""));
    pid_t left = atoi(c.tail.at);
    assert_true(left > 1);
    assert_int_equal(kill(left, SIGKILL), 0);
    child_fini(&c);
}

static void a_sweep_kills_what_the_command_left_behind(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes),
                     0); /* inherited: closed when the last process of the group ends */
    struct child c = {0};
    assert_int_equal(start(&c, "sleep 300 & exit 0", STR("")).code, ERR_OK);
    close(pipes[1]);
    run_to_end(&c, true);
    struct pollfd end = {.fd = pipes[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 20000), 1);
    char byte;
    assert_int_equal(read(pipes[0], &byte, 1), 0);
    close(pipes[0]);
    child_fini(&c);
}

static void a_command_that_does_not_exist_is_an_error(void **state)
{
    (void)state;
    struct child c = {0};
    char *argv[] = {"/no/such/command", NULL};
    struct err e = child_start(&c, argv, environ, STR(""));
    assert_int_equal(e.code, ERR_IO);
    assert_string_equal(e.msg, "cannot start /no/such/command: No such file or directory");
    assert_int_equal(c.pid, 0);
    assert_false(child_can_run("/no/such/command"));
    assert_true(child_can_run("sh"));
    child_fini(&c);
}

static void an_environment_replaces_names_and_keeps_others(void **state)
{
    (void)state;
    setenv("TENAX_T_A", "old", 1);
    setenv("TENAX_T_AB", "kept", 1);
    char *extra[] = {"TENAX_T_A=new"};
    char **env = child_environment(extra, 1);
    int a = 0, ab = 0;
    for (size_t i = 0; env[i]; i++) {
        if (strncmp(env[i], "TENAX_T_A=", 10) == 0) {
            a++;
            assert_string_equal(env[i], "TENAX_T_A=new");
        }
        ab += strcmp(env[i], "TENAX_T_AB=kept") == 0;
    }
    assert_int_equal(a, 1);
    assert_int_equal(ab, 1);
    free(env);
}

static struct str report(struct buf *b, struct arena *a, const struct child *c, span timeout,
                         bool kill_job, const char *key)
{
    b->len = 0;
    buf_lit(b, "{\"token\":\"t\"");
    report_failure(b, c, timeout, kill_job);
    buf_byte(b, '}');
    assert_int_equal(view_check(buf_view(b), NULL).code, ERR_OK);
    return view_text(a, buf_view(b), key);
}

static void a_failure_says_how_it_ended(void **state)
{
    (void)state;
    struct buf b = {0};
    struct arena a = {0};
    struct child c = {0};
    RUN(&c, "echo first >&2; echo 'the end' >&2; echo >&2; exit 7", STR(""));
    span none = {0};
    assert_true(str_eq(report(&b, &a, &c, none, false, "message"), STR("exit status 7: the end")));
    assert_true(str_eq(report(&b, &a, &c, none, false, "error_type"), STR("ExitStatus")));
    assert_true(str_eq(report(&b, &a, &c, none, false, "exit_code"), STR("7")));
    assert_true(str_eq(report(&b, &a, &c, none, false, "backtrace"), STR("first\nthe end\n\n")));
    assert_int_equal(report(&b, &a, &c, none, false, "kill").len, 0);
    assert_true(str_eq(report(&b, &a, &c, none, true, "kill"), STR("true")));
    assert_true(str_eq(report(&b, &a, &c, (span){5000}, false, "message"),
                       STR("timed out after 5 s: the end")));
    child_fini(&c);
    RUN(&c, "kill -9 $$", STR(""));
    assert_true(str_eq(report(&b, &a, &c, none, false, "message"), STR("signal 9 (Killed)")));
    assert_true(str_eq(report(&b, &a, &c, none, false, "signal"), STR("9")));
    assert_true(str_eq(report(&b, &a, &c, none, false, "error_type"), STR("Signal")));
    child_fini(&c);
    arena_fini(&a);
    buf_fini(&b);
}

static void errors_that_are_not_utf8_still_make_valid_json(void **state)
{
    (void)state;
    struct buf b = {0};
    struct arena a = {0};
    struct child c = {0};
    RUN(&c, "printf 'a\\377b\\000\\033\\n' >&2; exit 1", STR(""));
    assert_true(str_eq(report(&b, &a, &c, (span){0}, false, "backtrace"), STR("a\xef\xbf\xbd"
                                                                              "b\0\x1b\n")));
    child_fini(&c);
    arena_fini(&a);
    buf_fini(&b);
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    child_ended = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_gets_the_payload_and_its_errors_are_kept),
        cmocka_unit_test(a_payload_larger_than_a_pipe_arrives),
        cmocka_unit_test(a_command_may_ignore_its_input),
        cmocka_unit_test(only_the_end_of_long_errors_is_kept),
        cmocka_unit_test(a_grandchild_that_keeps_the_pipe_does_not_hold_things_up),
        cmocka_unit_test(a_sweep_kills_what_the_command_left_behind),
        cmocka_unit_test(a_command_that_does_not_exist_is_an_error),
        cmocka_unit_test(an_environment_replaces_names_and_keeps_others),
        cmocka_unit_test(a_failure_says_how_it_ended),
        cmocka_unit_test(errors_that_are_not_utf8_still_make_valid_json),
    };
    return cmocka_run_group_tests_name("cli/child", tests, NULL, NULL);
}
