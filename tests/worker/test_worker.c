/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/must.h"
#include "client/subcommand.h"
#include "client/view.h"
#include "worker/executor_process.h"
#include "worker/notes.h"
#include "worker/source_http.h"
#include "worker/worker.h"
#include "fake_server.h"

#define ID "03fr82s077azjmurys29qjch4"

/* What the fake server does, and which requests it got. */
struct story {
    struct fake_server *server;
    int jobs;           /* how many claims get a job */
    int claim_trouble;  /* what the first claims get instead: a status, a FAKE_… */
    int claim_troubles; /* how many */
    int renew;          /* status of a renewal; 0: 200 */
    bool stop_on_claim; /* stop the worker while it waits for the first claim */
    int stop_on_renew;  /* stop the worker at this renewal, from 1 */
    int wake;           /* then a line is written here, unless it is 0 */
    int report_trouble, report_troubles;
    const char *checkpoint; /* a member of the job; NULL: none */

    int claims, renewals, news, successes, failures, releases;
    struct buf claim, report; /* the last body of each */
    struct buf renewal;       /* the last one that had news */
};

static void keep(struct buf *b, const char *body)
{
    b->len = 0;
    buf_str(b, str_from(body));
}

static int on_claim(struct story *t, const char *body, struct buf *answer)
{
    keep(&t->claim, body);
    if (t->stop_on_claim && t->claims == 0)
        kill(getpid(), SIGTERM);
    if (t->claims++ < t->claim_troubles) {
        buf_lit(answer, "{\"error\":\"not now\",\"code\":\"busy\"}");
        return t->claim_trouble;
    }
    buf_lit(answer, "{\"jobs\":[");
    if (t->jobs-- > 0)
        buf_print(answer,
                  "{\"id\":\"" ID "\",\"queue\":\"q\",\"type\":\"t\",\"priority\":5,"
                  "\"attempts\":2,\"run\":4,\"token\":\"tok\",%s%s\"payload\":{\"n\": 1e400}}",
                  t->checkpoint ? t->checkpoint : "", t->checkpoint ? "," : "");
    buf_lit(answer, "]}");
    return 200;
}

static int on_report(struct story *t, int *count, const char *body, struct buf *answer)
{
    keep(&t->report, body);
    if (t->report_troubles-- > 0) {
        buf_lit(answer, "{\"error\":\"not now\",\"code\":\"busy\"}");
        return t->report_trouble;
    }
    ++*count;
    if (count != &t->failures)
        return 204;
    buf_lit(answer, "{\"id\":\"" ID "\",\"queue\":\"q\",\"type\":\"t\",\"status\":\"scheduled\","
                    "\"reason\":\"retry 1 of 3\"}");
    return 200;
}

static int answer_request(void *context, const char *path, const char *body, struct buf *answer)
{
    struct story *t = context;
    if (strcmp(path, "/jobs/claim") == 0)
        return on_claim(t, body, answer);
    if (strcmp(path, "/jobs/" ID "/success") == 0)
        return on_report(t, &t->successes, body, answer);
    if (strcmp(path, "/jobs/" ID "/failure") == 0)
        return on_report(t, &t->failures, body, answer);
    if (strcmp(path, "/jobs/" ID "/release") == 0)
        return on_report(t, &t->releases, body, answer);
    if (strcmp(path, "/jobs/" ID "/renew") != 0)
        return 404;
    if (strstr(body, "progress") && ++t->news)
        keep(&t->renewal, body);
    if (++t->renewals == t->stop_on_renew) {
        kill(getpid(), SIGTERM);
        ssize_t n = t->wake ? write(t->wake, "\n", 1) : 1;
        must(n == 1);
    }
    if (!t->renew)
        buf_lit(answer, "{\"lease_expires_at\":1}");
    return t->renew ? t->renew : 200;
}

/* Assembled as in `tenax work`, but with the fake server. */
struct setup {
    struct worker_args worker;
    int64_t kill_exit;
};

static int run_with(struct story *t, struct setup set, const char *script)
{
    char *command[] = {"sh", "-c", (char *)script, NULL};
    struct executor *executor;
    t->server = fake_server_start(answer_request, t);
    struct worker_args *args = &set.worker;
    args->queues = "q,r";
    args->name = "w";
    args->concurrency = args->concurrency ? args->concurrency : 1;
    args->lease = args->lease.ms ? args->lease : (span){30000};
    struct source_http_args from = {.url = fake_server_url(t->server),
                                    .queues = args->queues,
                                    .worker = args->name,
                                    .seats = (size_t)args->concurrency};
    struct executor_process_args by = {
        .command = command, .worker = args->name, .url = from.url, .kill_exit = set.kill_exit};
    assert_int_equal(executor_process_new(&by, &executor).code, ERR_OK);
    struct source *source = source_http_new(&from);
    int code = worker_run(args, source, executor);
    source_free(source);
    executor_free(executor);
    fake_server_stop(t->server);
    return code;
}

#define RUN(t, script, ...) run_with((t), (struct setup){.worker = {__VA_ARGS__}}, (script))

static struct str member(struct arena *a, const struct story *t, const char *key)
{
    return view_text(a, buf_view(&t->report), key);
}

static void end_story(struct story *t, struct arena *a)
{
    buf_fini(&t->claim);
    buf_fini(&t->renewal);
    buf_fini(&t->report);
    arena_fini(a);
}

static void a_claim_says_what_is_wanted(void **state)
{
    (void)state;
    struct story t = {0};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .drain = true, .concurrency = 3), CLI_OK);
    assert_int_equal(t.claims, 1);
    const struct str begins = STR("{\"queues\":[\"q\",\"r\"],\"count\":3,\"lease_ms\":30000,"
                                  "\"worker\":\"w\",\"claim_id\":\"");
    const struct str ends = STR("-0\",\"wait_ms\":0}");
    assert_int_equal(t.claim.len, begins.len + 16 + ends.len);
    assert_memory_equal(t.claim.at, begins.at, begins.len);
    assert_memory_equal(t.claim.at + begins.len + 16, ends.at, ends.len);
    end_story(&t, &a);
}

static void success_is_reported_with_the_token(void **state)
{
    (void)state;
    struct story t = {.jobs = 9};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "exit 0", .once = true), CLI_OK);
    assert_int_equal(t.successes, 1);
    assert_int_equal(t.claims, 1);
    assert_true(str_eq(buf_view(&t.report), STR("{\"token\":\"tok\"}")));
    end_story(&t, &a);
}

static void a_command_gets_payload_and_facts(void **state)
{
    (void)state;
    struct story t = {.jobs = 1};
    struct arena a = {0};
    assert_int_equal(RUN(&t,
                         "echo \"$TENAX_JOB_ID $TENAX_JOB_QUEUE $TENAX_JOB_TYPE "
                         "$TENAX_JOB_ATTEMPT $TENAX_JOB_RUN $TENAX_JOB_PRIORITY $TENAX_WORKER\""
                         " >&2; cat >&2; exit 4",
                         .once = true),
                     CLI_REFUSED);
    assert_int_equal(t.failures, 1);
    assert_true(str_eq(member(&a, &t, "backtrace"), STR(ID " q t 3 4 5 w\n{\"n\": 1e400}")));
    assert_true(str_eq(member(&a, &t, "message"), STR("exit status 4: {\"n\": 1e400}")));
    assert_true(str_eq(member(&a, &t, "exit_code"), STR("4")));
    end_story(&t, &a);
}

static void the_kill_exit_code_kills_the_job(void **state)
{
    (void)state;
    struct story t = {.jobs = 1};
    struct arena a = {0};
    assert_int_equal(run_with(&t, (struct setup){.worker.once = true, .kill_exit = 9}, "exit 9"),
                     CLI_REFUSED);
    assert_true(str_eq(member(&a, &t, "kill"), STR("true")));
    end_story(&t, &a);
}

static void a_command_over_its_time_is_ended_and_failed(void **state)
{
    (void)state;
    struct story t = {.jobs = 1};
    struct arena a = {0};
    /* It ignores SIGTERM, so SIGKILL has to end it. */
    assert_int_equal(RUN(&t, "trap '' TERM; sleep 300 & wait; wait", .once = true, .timeout = {50},
                         .grace = {1}),
                     CLI_REFUSED);
    assert_int_equal(t.failures, 1);
    assert_true(str_eq(member(&a, &t, "error_type"), STR("Timeout")));
    assert_true(str_eq(member(&a, &t, "message"), STR("timed out after 50 ms")));
    end_story(&t, &a);
}

/* It is given back, as the server may wait for its end alone. */
static void a_run_that_is_over_is_ended_and_only_that_is_said(void **state)
{
    (void)state;
    static const int over[] = {404, 409};
    for (size_t i = 0; i < 2; i++) {
        struct story t = {.jobs = 1, .renew = over[i]};
        struct arena a = {0};
        assert_int_equal(RUN(&t, "sleep 300", .once = true, .lease = {300}, .grace = {60000}),
                         CLI_REFUSED);
        assert_int_equal(t.renewals, 1);
        assert_int_equal(t.successes + t.failures, 0);
        assert_int_equal(t.releases, 1);
        end_story(&t, &a);
    }
}

static void a_lease_that_cannot_be_renewed_ends_the_command(void **state)
{
    (void)state;
    struct story t = {.jobs = 1, .renew = FAKE_HANG};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "sleep 300", .once = true, .lease = {300}, .grace = {60000}),
                     CLI_REFUSED);
    assert_int_equal(t.renewals, 1);
    assert_int_equal(t.successes + t.failures + t.releases, 0);
    end_story(&t, &a);
}

static void stopping_returns_what_does_not_end_in_time(void **state)
{
    (void)state;
    struct story t = {.jobs = 1, .stop_on_renew = 1};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "sleep 300", .lease = {3000}, .grace = {1}), CLI_OK);
    assert_int_equal(t.releases, 1);
    assert_int_equal(t.successes + t.failures, 0);
    assert_true(str_eq(buf_view(&t.report), STR("{\"token\":\"tok\"}")));
    end_story(&t, &a);
}

static void stopping_waits_for_what_ends_in_time(void **state)
{
    (void)state;
    int pipes[2]; /* inherited by the command, which waits for a line */
    char script[32];
    assert_int_equal(pipe(pipes), 0);
    snprintf(script, sizeof script, "read line <&%d", pipes[0]);
    struct story t = {.jobs = 1, .stop_on_renew = 1, .wake = pipes[1]};
    struct arena a = {0};
    assert_int_equal(RUN(&t, script, .lease = {3000}, .grace = {60000}), CLI_OK);
    assert_int_equal(t.successes, 1);
    assert_int_equal(t.releases, 0);
    assert_int_equal(t.claims, 1);
    close(pipes[0]);
    close(pipes[1]);
    end_story(&t, &a);
}

/* If the worker is so slow that it sees the answer first, the job is completed instead. */
static void stopping_returns_a_job_that_is_on_its_way(void **state)
{
    (void)state;
    struct story t = {.jobs = 1, .stop_on_claim = true};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .grace = {60000}), CLI_OK);
    assert_int_equal(t.claims, 1);
    assert_int_equal(t.releases + t.successes, 1);
    assert_int_equal(t.failures, 0);
    end_story(&t, &a);
}

static void a_report_is_repeated_until_it_is_taken(void **state)
{
    (void)state;
    static const int troubles[] = {503, 507, FAKE_DROP};
    for (size_t i = 0; i < 3; i++) {
        struct story t = {.jobs = 1, .report_trouble = troubles[i], .report_troubles = 2};
        struct arena a = {0};
        assert_int_equal(RUN(&t, "true", .once = true), CLI_OK);
        assert_int_equal(t.successes, 1);
        end_story(&t, &a);
    }
}

static void a_report_of_a_run_that_is_over_is_not_repeated(void **state)
{
    (void)state;
    struct story t = {.jobs = 1, .report_trouble = 409, .report_troubles = 1};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .once = true), CLI_REFUSED);
    assert_int_equal(t.successes, 0);
    end_story(&t, &a);
}

static void a_report_is_given_up_when_the_lease_ends(void **state)
{
    (void)state;
    struct story t = {.jobs = 1, .report_trouble = FAKE_DROP, .report_troubles = 1000};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .once = true, .lease = {300}), CLI_REFUSED);
    assert_int_equal(t.successes, 0);
    end_story(&t, &a);
}

static void a_claim_is_repeated_until_the_server_answers(void **state)
{
    (void)state;
    static const int troubles[] = {503, FAKE_DROP};
    for (size_t i = 0; i < 2; i++) {
        struct story t = {.jobs = 1, .claim_trouble = troubles[i], .claim_troubles = 2};
        struct arena a = {0};
        assert_int_equal(RUN(&t, "true", .once = true), CLI_OK);
        assert_int_equal(t.successes, 1);
        assert_true(t.claims >= 3);
        end_story(&t, &a);
    }
}

static void a_claim_that_is_refused_ends_the_worker(void **state)
{
    (void)state;
    struct story t = {.claim_trouble = 400, .claim_troubles = 1};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .concurrency = 2), CLI_REFUSED);
    assert_int_equal(t.claims, 1);
    end_story(&t, &a);
}

static void draining_ends_when_nothing_is_left(void **state)
{
    (void)state;
    struct story t = {.jobs = 3};
    struct arena a = {0};
    assert_int_equal(RUN(&t, "true", .drain = true), CLI_OK);
    assert_int_equal(t.successes, 3);
    assert_int_equal(t.claims, 4);
    end_story(&t, &a);
}

static void a_result_goes_with_the_success(void **state)
{
    (void)state;
    static const struct {
        const char *script, *report;
    } cases[] = {
        {"printf '{\"n\": 7}' > $TENAX_RESULT", "{\"token\":\"tok\",\"result\":{\"n\": 7}}"},
        {"printf 'a \"b\"\n' > $TENAX_RESULT", "{\"token\":\"tok\",\"result\":\"a \\\"b\\\"\\n\"}"},
        {": > $TENAX_RESULT", "{\"token\":\"tok\"}"},
        {"printf '\\377' > $TENAX_RESULT", "{\"token\":\"tok\"}"},
        {"head -c 65537 /dev/zero | tr '\\0' 1 > $TENAX_RESULT", "{\"token\":\"tok\"}"},
        {"echo 1 > $TENAX_CHECKPOINT_OUT", "{\"token\":\"tok\"}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct story t = {.jobs = 1};
        struct arena a = {0};
        assert_int_equal(RUN(&t, cases[i].script, .once = true), CLI_OK);
        keep(&t.claim, cases[i].report);
        assert_true(str_eq(buf_view(&t.report), buf_view(&t.claim)));
        end_story(&t, &a);
    }
}

static void a_termination_message_goes_with_the_failure(void **state)
{
    (void)state;
    static char long_one[NOTES_MESSAGE_MAX + 1];
    memset(long_one, 'a', NOTES_MESSAGE_MAX);
    const char *cases[][2] = {
        {"echo 'disk: TRANSIENT' > $TENAX_TERMINATION_MESSAGE; exit 3", "disk: TRANSIENT\n"},
        {"printf 'a\\377b' > $TENAX_TERMINATION_MESSAGE; exit 3", "a\xef\xbf\xbd"
                                                                  "b"},
        {"head -c 5000 /dev/zero | tr '\\0' a > $TENAX_TERMINATION_MESSAGE; exit 3", long_one},
        {": > $TENAX_TERMINATION_MESSAGE; exit 3", ""},
        {"exit 3", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct story t = {.jobs = 1};
        struct arena a = {0};
        assert_int_equal(RUN(&t, cases[i][0], .once = true), CLI_REFUSED);
        assert_true(str_eq(member(&a, &t, "termination_message"), str_from(cases[i][1])));
        end_story(&t, &a);
    }
    struct story fine = {.jobs = 1};
    struct arena a = {0};
    assert_int_equal(RUN(&fine, "echo x > $TENAX_TERMINATION_MESSAGE", .once = true), CLI_OK);
    assert_true(str_eq(buf_view(&fine.report), STR("{\"token\":\"tok\"}")));
    end_story(&fine, &a);
}

static void a_checkpoint_comes_back_as_it_was_written(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"checkpoint\":\"page \\\"7\\\"\\n\"", "page \"7\"\n"},
        {"\"checkpoint\":{\"at\": 1e400}", "{\"at\": 1e400}"},
        {NULL, ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct story t = {.jobs = 1, .checkpoint = cases[i][0]};
        struct arena a = {0};
        assert_int_equal(RUN(&t,
                             "cat $TENAX_CHECKPOINT_IN >&2;"
                             "cat $TENAX_CHECKPOINT_IN > $TENAX_CHECKPOINT_OUT; exit 1",
                             .once = true),
                         CLI_REFUSED);
        assert_true(str_eq(member(&a, &t, "backtrace"), str_from(cases[i][1])));
        assert_true(str_eq(member(&a, &t, "checkpoint"),
                           i == 1 ? STR("{\"at\": 1e400}") : str_from(cases[i][1])));
        end_story(&t, &a);
    }
}

static void progress_and_checkpoint_go_with_a_renewal_once(void **state)
{
    (void)state;
    int pipes[2];
    char script[200];
    assert_int_equal(pipe(pipes), 0);
    snprintf(script, sizeof script,
             "echo '0.4 page 4' > $TENAX_PROGRESS; echo '[4]' > $TENAX_CHECKPOINT_OUT; "
             "read line <&%d; exit 1",
             pipes[0]);
    struct story t = {.jobs = 1, .stop_on_renew = 2, .wake = pipes[1]};
    struct arena a = {0};
    assert_int_equal(RUN(&t, script, .lease = {1500}, .grace = {60000}), CLI_OK);
    assert_int_equal(t.news, 1);
    assert_true(str_eq(buf_view(&t.renewal),
                       STR("{\"lease_ms\":1500,\"token\":\"tok\",\"progress\":{\"value\":0.4,"
                           "\"note\":\"page 4\"},\"checkpoint\":[4]\n}")));
    assert_int_equal(t.failures, 1);
    assert_true(!member(&a, &t, "checkpoint").len && !member(&a, &t, "progress").len);
    close(pipes[0]);
    close(pipes[1]);
    end_story(&t, &a);
}

static void progress_that_is_none_is_not_sent(void **state)
{
    (void)state;
    static const char *const cases[] = {"1.1", "1e9", "half", "40%%", "0.4x note", "0.4 \\377"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct story t = {.jobs = 1};
        struct arena a = {0};
        char script[100];
        snprintf(script, sizeof script, "printf '%s' > $TENAX_PROGRESS; exit 1", cases[i]);
        assert_int_equal(RUN(&t, script, .once = true), CLI_REFUSED);
        assert_int_equal(t.failures, 1);
        assert_int_equal(member(&a, &t, "progress").len, 0);
        end_story(&t, &a);
    }
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_says_what_is_wanted),
        cmocka_unit_test(success_is_reported_with_the_token),
        cmocka_unit_test(a_command_gets_payload_and_facts),
        cmocka_unit_test(the_kill_exit_code_kills_the_job),
        cmocka_unit_test(a_command_over_its_time_is_ended_and_failed),
        cmocka_unit_test(a_run_that_is_over_is_ended_and_only_that_is_said),
        cmocka_unit_test(a_lease_that_cannot_be_renewed_ends_the_command),
        cmocka_unit_test(stopping_returns_what_does_not_end_in_time),
        cmocka_unit_test(stopping_waits_for_what_ends_in_time),
        cmocka_unit_test(stopping_returns_a_job_that_is_on_its_way),
        cmocka_unit_test(a_report_is_repeated_until_it_is_taken),
        cmocka_unit_test(a_report_of_a_run_that_is_over_is_not_repeated),
        cmocka_unit_test(a_report_is_given_up_when_the_lease_ends),
        cmocka_unit_test(a_claim_is_repeated_until_the_server_answers),
        cmocka_unit_test(a_claim_that_is_refused_ends_the_worker),
        cmocka_unit_test(draining_ends_when_nothing_is_left),
        cmocka_unit_test(a_result_goes_with_the_success),
        cmocka_unit_test(a_termination_message_goes_with_the_failure),
        cmocka_unit_test(a_checkpoint_comes_back_as_it_was_written),
        cmocka_unit_test(progress_and_checkpoint_go_with_a_renewal_once),
        cmocka_unit_test(progress_that_is_none_is_not_sent),
    };
    int failed = cmocka_run_group_tests_name("cli/worker", tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
