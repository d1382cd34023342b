/* SPDX-License-Identifier: Apache-2.0 */

/* The pool with real processes: this program itself, started again as a helper. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "jq/helper.h"
#include "jq/pool.h"
#include "jq/program.h"

#define PIDS_MAX 16

struct fixture {
    uv_loop_t loop;
    struct pool *pool;
};

/* The result of a request. */
struct result {
    bool done;
    struct err err;
    size_t count;
    span spent;
    bool truths[200];
    char payload[200];
};

static void on_done(void *ctx, const struct err *err, const struct eval_answer *answers,
                    size_t count, span spent)
{
    struct result *r = ctx;
    r->spent = spent;
    assert_false(r->done);
    r->done = true;
    r->err = *err;
    r->count = count;
    for (size_t i = 0; i < count; i++)
        r->truths[i] = answers[i].truth;
    if (count == 1 && answers[0].payload.at)
        snprintf(r->payload, sizeof r->payload, "%.*s", STR_ARG(answers[0].payload));
}

static struct pool_settings settings(void)
{
    struct pool_settings s = pool_defaults();
    s.time_limit = (span){20000};
    s.wall_limit = (span){300000};
    return s;
}

static void open_with(struct fixture *f, struct pool_settings s)
{
    uv_loop_init(&f->loop);
    f->pool = pool_new(&f->loop, &s);
}

static void close_fixture(struct fixture *f)
{
    pool_close(f->pool);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

static struct err ask(struct fixture *f, enum eval_kind kind, const char *first, const char *second,
                      const struct str *inputs, size_t count, struct result *r)
{
    *r = (struct result){0};
    struct eval_request req = {.kind = kind,
                               .exprs = {str_from(first), str_from(second)},
                               .inputs = inputs,
                               .count = count,
                               .done = on_done,
                               .ctx = r};
    return evaluator_submit(pool_evaluator(f->pool), &req);
}

static void wait_for(struct fixture *f, const struct result *r)
{
    while (!r->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static struct result filter(struct fixture *f, const char *expr, const char *payload)
{
    struct result r;
    struct str input = str_from(payload);
    assert_int_equal(ask(f, EVAL_FILTER, expr, "", &input, payload ? 1 : 0, &r).code, ERR_OK);
    wait_for(f, &r);
    return r;
}

static struct result fold(struct fixture *f, const char *when, const char *how,
                          const char *existing, const char *incoming)
{
    struct result r;
    struct str inputs[] = {str_from(existing), str_from(incoming)};
    assert_int_equal(ask(f, EVAL_FOLD, when, how, inputs, 2, &r).code, ERR_OK);
    wait_for(f, &r);
    return r;
}

static struct result check(struct fixture *f, const char *when, const char *how,
                           const char *payload)
{
    struct result r;
    struct str input = str_from(payload);
    assert_int_equal(ask(f, EVAL_CHECK, when, how, &input, 1, &r).code, ERR_OK);
    wait_for(f, &r);
    return r;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    open_with(f, settings());
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    close_fixture(*state);
    free(*state);
    return 0;
}

static void assert_refused(const struct result *r, const char *words)
{
    assert_int_equal(r->err.code, ERR_UNPROCESSABLE);
    if (!strstr(r->err.msg, words))
        fail_msg("'%s' is not in '%s'", words, r->err.msg);
}

/* --- filters --- */

static void a_filter_answers_each_payload_in_order(void **state)
{
    struct result r;
    struct str inputs[] = {STR("{\"n\":1}"), STR("{\"n\":5}"), STR("[]"), STR("{\"n\":9}")};
    assert_int_equal(ask(*state, EVAL_FILTER, ".n > 3", "", inputs, 4, &r).code, ERR_OK);
    assert_false(r.done);
    wait_for(*state, &r);
    assert_int_equal(r.err.code, ERR_OK);
    assert_int_equal(r.count, 4);
    assert_false(r.truths[0]);
    assert_true(r.truths[1]);
    assert_false(r.truths[2]); /* an array has no .n: an error, so no match */
    assert_true(r.truths[3]);
}

static void any_true_output_of_a_filter_matches(void **state)
{
    assert_true(filter(*state, ".t[] == \"x\"", "{\"t\":[\"a\",\"x\",\"b\"]}").truths[0]);
    assert_false(filter(*state, ".t[] == \"x\"", "{\"t\":[\"a\"]}").truths[0]);
    assert_false(filter(*state, "empty", "1").truths[0]);
    assert_false(filter(*state, "null", "1").truths[0]);
    assert_true(filter(*state, "0", "1").truths[0]);
    assert_true(filter(*state, "repeat(true)", "1").truths[0]);
}

static void a_filter_without_payloads_is_only_compiled(void **state)
{
    assert_int_equal(filter(*state, ".a", NULL).err.code, ERR_OK);
    struct result r = filter(*state, ".a |", NULL);
    assert_refused(&r, "syntax error");
}

static void syntax_errors_are_told_in_jqs_words(void **state)
{
    static const struct {
        const char *expr, *words;
    } cases[] = {
        {"foo", "foo/0 is not defined"},
        {"$existing", "$existing is not defined"},
        {"", "syntax error"},
        {"1 +", "syntax error"},
        {"(1", "syntax error"},
        {"1) | (2", "brackets do not match"},
        {"\"\\(1) )\" ) | (\"", "brackets do not match"},
        {"import \"a\" as a; .", "syntax error"},
        {"include \"a\"; .", "syntax error"},
        {"def f: 1;", "syntax error"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct result r = filter(*state, cases[i].expr, "1");
        assert_refused(&r, cases[i].words);
    }
}

static void brackets_in_strings_and_comments_do_not_count(void **state)
{
    static const char *const good[] = {"\")\" | length == 1", "true # )",
                                       "\"a\\\")\" == \"a\\\")\"",
                                       "\"\\(\")\" + \"(\")\" == \")(\"", "(def f: 1; f) == 1"};
    for (size_t i = 0; i < COUNT(good); i++) {
        struct result r = filter(*state, good[i], "1");
        assert_int_equal(r.err.code, ERR_OK);
        assert_true(r.truths[0]);
    }
}

/* --- batches --- */

static void a_fold_merges_what_when_lets_through(void **state)
{
    struct result r = fold(*state, "($existing.ids + $new.ids) | length <= 3",
                           "$existing | .ids += $new.ids", "{\"ids\":[1]}", "{\"ids\":[2,3]}");
    assert_int_equal(r.err.code, ERR_OK);
    assert_int_equal(r.count, 1);
    assert_true(r.truths[0]);
    assert_string_equal(r.payload, "{\"ids\":[1,2,3]}");
    r = fold(*state, "($existing.ids + $new.ids) | length <= 3", "$existing | .ids += $new.ids",
             "{\"ids\":[1,2]}", "{\"ids\":[3,4]}");
    assert_int_equal(r.err.code, ERR_OK);
    assert_false(r.truths[0]);
    assert_string_equal(r.payload, "");
}

static void a_check_runs_both_expressions(void **state)
{
    assert_int_equal(check(*state, "true", "$existing + $new", "[1]").err.code, ERR_OK);
    assert_int_equal(check(*state, "false", "$new", "[1]").err.code, ERR_OK);
    static const struct {
        const char *when, *how, *words;
    } bad[] = {
        {"$nothing", "1", "batch.when: $nothing is not defined"},
        {"true", "$nothing", "batch.fold: $nothing is not defined"},
        {"true", "$existing.a", "batch.fold: Cannot index array"},
        {"true, false", "1", "batch.when: it gives several outputs"},
        {"empty", "1", "batch.when: it gives no output"},
        {"false", "1, 2", "batch.fold: it gives several outputs"},
        {"true", "empty", "batch.fold: it gives no output"},
        {"1, error(\"x\")", "1", "batch.when: x"},
        {"true", "error({a: 1})", "batch.fold: {\"a\":1}"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct result r = check(*state, bad[i].when, bad[i].how, "[1]");
        assert_refused(&r, bad[i].words);
    }
}

/* --- confinement --- */

static void an_expression_sees_nothing_of_the_world(void **state)
{
    setenv("TENAX_TEST_SECRET", "secret", 1);
    static const char *const nothing[] = {
        "$ENV == {}",
        "env == {}",
        "input_filename == null",
        "input_line_number == null",
        "get_search_list == []",
        "(try input catch .) == \"there is no input\"",
        "[try inputs catch \"none\"] | length == 1",
        "(1 | debug) == 1",
        "(1 | stderr) == 1",
        "(try (\"a\" | modulemeta) catch .) == \"there are no modules\"",
        "(try halt catch .) == \"halted\"",
        "(try (\"x\" | halt_error) catch .) == \"x\""};
    for (size_t i = 0; i < COUNT(nothing); i++) {
        struct result r = filter(*state, nothing[i], "null");
        if (r.err.code != ERR_OK || !r.truths[0])
            fail_msg("%s: %s", nothing[i], r.err.code == ERR_OK ? "false" : r.err.msg);
    }
}

static void an_endless_loop_is_stopped_and_others_go_on(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.time_limit = (span){400};
    s.processes = 1;
    open_with(&f, s);
    /* Compiling alone may take that long on a busy machine. */
    while (filter(&f, "def f: f; f", NULL).err.code != ERR_OK)
        ;
    struct result r = filter(&f, "def f: f; f", "1");
    assert_refused(&r, "ran longer than 400 ms");
    do
        r = filter(&f, ". == 1", "1");
    while (r.err.code != ERR_OK);
    assert_true(r.truths[0]);
    close_fixture(&f);
}

static void on_time(uv_timer_t *t)
{
    *(bool *)t->data = true;
}

static void turn_for(struct fixture *f, uint64_t ms)
{
    bool over = false;
    uv_timer_t t = {.data = &over};
    uv_timer_init(&f->loop, &t);
    uv_timer_start(&t, on_time, ms, 0);
    while (!over)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&t, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void signal_all(struct fixture *f, int sig)
{
    int pids[PIDS_MAX];
    int n = pool_pids(f->pool, pids, PIDS_MAX);
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(kill(pids[i], sig), 0);
}

/* As on a machine that is busy with something else. */
static void time_in_which_a_helper_does_not_run_does_not_count(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.time_limit = (span){500};
    s.processes = 1;
    open_with(&f, s);
    while (filter(&f, ". == 1", NULL).err.code != ERR_OK)
        ;
    signal_all(&f, SIGSTOP);
    struct result r;
    struct str input = STR("1");
    assert_int_equal(ask(&f, EVAL_FILTER, ". == 1", "", &input, 1, &r).code, ERR_OK);
    turn_for(&f, 1500);
    assert_false(r.done);
    signal_all(&f, SIGCONT);
    wait_for(&f, &r);
    assert_int_equal(r.err.code, ERR_OK);
    assert_true(r.truths[0]);
    assert_true(r.spent.ms < 500);
    close_fixture(&f);
}

static void a_helper_that_never_runs_is_replaced(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.time_limit = (span){400};
    s.wall_limit = (span){800};
    s.processes = 1;
    open_with(&f, s);
    struct result r = filter(&f, ". == 1", NULL);
    while (r.err.code != ERR_OK)
        r = filter(&f, ". == 1", NULL);
    signal_all(&f, SIGSTOP);
    r = filter(&f, ". == 1", "1");
    assert_int_equal(r.err.code, ERR_BUSY);
    assert_non_null(strstr(r.err.msg, "no progress"));
    while (r.err.code != ERR_OK)
        r = filter(&f, ". == 1", "1");
    assert_true(r.truths[0]);
    close_fixture(&f);
}

/* It has run for a moment, and its limit of processor time is far away. */
static void an_expression_is_stopped_by_the_clock_as_well(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.time_limit = (span){3600000};
    s.wall_limit = (span){3000};
    s.processes = 1;
    open_with(&f, s);
    while (filter(&f, "def f: f; f", NULL).err.code != ERR_OK)
        ;
    struct result r;
    struct str input = STR("1");
    assert_int_equal(ask(&f, EVAL_FILTER, "def f: f; f", "", &input, 1, &r).code, ERR_OK);
    turn_for(&f, 500);
    signal_all(&f, SIGSTOP);
    wait_for(&f, &r);
    assert_int_equal(r.err.code, ERR_UNPROCESSABLE);
    assert_non_null(strstr(r.err.msg, "longer than 3000 ms by the clock"));
    assert_true(r.spent.ms >= s.time_limit.ms);
    close_fixture(&f);
}

/* Each payload is quick enough by the clock, all of them together are not. */
static void what_is_left_for_the_request_counts_the_clock_as_well(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.time_limit = (span){3600000};
    s.wall_limit = (span){3600000};
    s.processes = 1;
    open_with(&f, s);
    while (filter(&f, "def f: f; f", NULL).err.code != ERR_OK)
        ;
    struct result r;
    struct str input = STR("1");
    struct eval_request req = {.kind = EVAL_FILTER,
                               .left = {1000},
                               .exprs = {STR("def f: f; f"), STR("")},
                               .inputs = &input,
                               .count = 1,
                               .done = on_done,
                               .ctx = &r};
    r = (struct result){0};
    assert_int_equal(evaluator_submit(pool_evaluator(f.pool), &req).code, ERR_OK);
    turn_for(&f, 200);
    signal_all(&f, SIGSTOP);
    wait_for(&f, &r);
    assert_int_equal(r.err.code, ERR_UNPROCESSABLE);
    assert_non_null(strstr(r.err.msg, "in total"));
    close_fixture(&f);
}

static void too_much_memory_is_refused(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    /* The sanitizer's allocator ends the process in its own way. */
    skip();
#endif
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.memory_limit = 32u << 20;
    open_with(&f, s);
    struct result r = filter(&f, "[range(1e9)] | length == 1", "1");
    assert_refused(&r, "more than 32 MiB");
    assert_true(filter(&f, ". == 1", "1").truths[0]);
    close_fixture(&f);
}

static void nesting_that_breaks_jq_is_an_error(void **state)
{
    struct result r = fold(*state, "true", "reduce range(300000) as $i (0; [.])", "1", "2");
    assert_true(r.err.code == ERR_UNPROCESSABLE || r.err.code == ERR_INTERNAL);
    assert_true(filter(*state, ". == 1", "1").truths[0]);
}

static void a_payload_that_is_too_large_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.answer_max = 1000;
    open_with(&f, s);
    struct result r = fold(&f, "true", "[range(1000)]", "1", "2");
    assert_refused(&r, "more than 1000 bytes");
    r = fold(&f, "true", "[range(3)]", "1", "2");
    assert_string_equal(r.payload, "[0,1,2]");
    close_fixture(&f);
}

/* --- processes --- */

static void a_killed_helper_answers_with_an_error_and_is_replaced(void **state)
{
    struct fixture *f = *state;
    int pids[PIDS_MAX];
    struct result loop, next;
    assert_int_equal(pool_pids(f->pool, pids, PIDS_MAX), 0);
    assert_true(filter(f, "true", "1").truths[0]);
    struct str input = STR("1");
    assert_int_equal(ask(f, EVAL_FILTER, "def f: f; f", "", &input, 1, &loop).code, ERR_OK);
    int n = pool_pids(f->pool, pids, PIDS_MAX);
    for (int i = 0; i < n; i++)
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    wait_for(f, &loop);
    assert_int_equal(loop.err.code, ERR_INTERNAL);
    next = filter(f, "true", "1");
    assert_int_equal(next.err.code, ERR_OK);
    assert_true(next.truths[0]);
    int fresh[PIDS_MAX];
    assert_true(pool_pids(f->pool, fresh, PIDS_MAX) > 0);
    for (int i = 0; i < n; i++)
        assert_int_not_equal(fresh[0], pids[i]);
}

static void many_requests_share_the_helpers(void **state)
{
    struct result r[50];
    struct str input = STR("7");
    for (int i = 0; i < 50; i++)
        assert_int_equal(
            ask(*state, EVAL_FILTER, i % 2 ? ". == 7" : ". == 8", "", &input, 1, &r[i]).code,
            ERR_OK);
    for (int i = 0; i < 50; i++) {
        wait_for(*state, &r[i]);
        assert_int_equal(r[i].err.code, ERR_OK);
        assert_int_equal(r[i].truths[0], i % 2);
    }
    int pids[PIDS_MAX];
    assert_int_equal(pool_pids(((struct fixture *)*state)->pool, pids, PIDS_MAX), 2);
}

static void a_full_queue_is_busy(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.processes = 1;
    s.queue_max = 3;
    open_with(&f, s);
    struct result r[5];
    struct str input = STR("1");
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(&f, EVAL_FILTER, ".", "", &input, 1, &r[i]).code, ERR_OK);
    assert_int_equal(ask(&f, EVAL_FILTER, ".", "", &input, 1, &r[4]).code, ERR_BUSY);
    for (int i = 0; i < 4; i++)
        wait_for(&f, &r[i]);
    assert_false(r[4].done);
    assert_int_equal(ask(&f, EVAL_FILTER, ".", "", &input, 1, &r[4]).code, ERR_OK);
    wait_for(&f, &r[4]);
    assert_true(r[4].truths[0]);
    close_fixture(&f);
}

static void a_program_that_cannot_start_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.program = "/nonexistent/tenax";
    open_with(&f, s);
    struct result r = filter(&f, ".", "1");
    assert_int_equal(r.err.code, ERR_INTERNAL);
    close_fixture(&f);
}

static void a_pool_closes_in_the_middle_of_work(void **state)
{
    (void)state;
    struct fixture f;
    struct result r[4];
    struct str input = STR("1");
    open_with(&f, settings());
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(&f, EVAL_FILTER, "def f: f; f", "", &input, 1, &r[i]).code, ERR_OK);
    close_fixture(&f);
    for (int i = 0; i < 4; i++)
        assert_false(r[i].done);
}

/* --- compiled programs --- */

static void an_expression_is_compiled_once(void **state)
{
    (void)state;
    jq_state *first, *second, *other;
    assert_int_equal(program_get(PROGRAM_FILTER, STR(".a"), &first).code, ERR_OK);
    assert_int_equal(program_get(PROGRAM_FILTER, STR(".a"), &second).code, ERR_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(program_get(PROGRAM_FOLD, STR(".a"), &other).code, ERR_OK);
    assert_ptr_not_equal(first, other);
    program_forget();
}

static void many_expressions_stay_within_the_limit_of_memory(void **state)
{
    (void)state;
    struct fixture f;
    struct pool_settings s = settings();
    s.memory_limit = 12u << 20;
    open_with(&f, s);
    char expr[40];
    int pids[PIDS_MAX], later[PIDS_MAX];
    assert_true(filter(&f, ". == 3000", "3000").truths[0]);
    int n = pool_pids(f.pool, pids, PIDS_MAX);
    for (int i = 0; i < 150; i++) {
        snprintf(expr, sizeof expr, ". == %d", i);
        char payload[12];
        snprintf(payload, sizeof payload, "%d", i % 2 ? i : i + 1);
        struct result r = filter(&f, expr, payload);
        assert_int_equal(r.err.code, ERR_OK);
        assert_int_equal(r.truths[0], i % 2);
    }
    /* The processes survived it. */
    assert_true(pool_pids(f.pool, later, PIDS_MAX) >= n);
    assert_true(later[0] == pids[0] || later[1] == pids[0]);
    close_fixture(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#define ENDLESS "def f: f; f"

static struct err ask_within(struct fixture *f, span left, const struct str *inputs, size_t count,
                             struct result *r)
{
    *r = (struct result){0};
    struct eval_request req = {.kind = EVAL_FILTER,
                               .left = left,
                               .exprs = {STR("[limit(20000; repeat(1))] | length > 0")},
                               .inputs = inputs,
                               .count = count,
                               .done = on_done,
                               .ctx = r};
    return evaluator_submit(pool_evaluator(f->pool), &req);
}

static void slow_filters_leave_a_process_and_room_in_the_queue_to_folds(void **state)
{
    (void)state;
    for (int processes = 1; processes <= 2; processes++) {
        struct fixture f;
        struct pool_settings s = settings();
        s.processes = processes;
        s.queue_max = 3;
        open_with(&f, s);
        struct result slow[5], more;
        struct str input = STR("1");
        for (int i = 0; i < processes + 3; i++)
            assert_int_equal(ask(&f, EVAL_FILTER, ENDLESS, "", &input, 1, &slow[i]).code, ERR_OK);
        assert_int_equal(ask(&f, EVAL_FILTER, ".", "", &input, 1, &more).code, ERR_BUSY);
        struct result r = fold(&f, "true", "$existing + $new", "[1]", "[2]");
        assert_int_equal(r.err.code, ERR_OK);
        assert_string_equal(r.payload, "[1,2]");
        for (int i = 0; i < processes + 3; i++)
            assert_false(slow[i].done);
        close_fixture(&f);
    }
}

/* Each payload stays far below its own limit. */
static void what_is_left_for_the_request_is_a_limit_for_all_payloads(void **state)
{
    struct fixture *f = *state;
    static struct str inputs[2000];
    for (size_t i = 0; i < 2000; i++)
        inputs[i] = STR("1");
    struct result r;
    assert_int_equal(ask_within(f, (span){100}, inputs, 2000, &r).code, ERR_OK);
    wait_for(f, &r);
    assert_refused(&r, "too long in total");
    assert_true(r.spent.ms >= 100 && r.spent.ms < 60000);
    assert_int_equal(ask_within(f, (span){0}, inputs, 20, &r).code, ERR_OK);
    wait_for(f, &r);
    assert_int_equal(r.err.code, ERR_OK);
    assert_int_equal(r.count, 20);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "jq-helper") == 0)
        return helper_main(argc - 1, argv + 1);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(a_filter_answers_each_payload_in_order),
        TEST(any_true_output_of_a_filter_matches),
        TEST(a_filter_without_payloads_is_only_compiled),
        TEST(syntax_errors_are_told_in_jqs_words),
        TEST(brackets_in_strings_and_comments_do_not_count),
        TEST(a_fold_merges_what_when_lets_through),
        TEST(a_check_runs_both_expressions),
        TEST(an_expression_sees_nothing_of_the_world),
        cmocka_unit_test(an_endless_loop_is_stopped_and_others_go_on),
        cmocka_unit_test(time_in_which_a_helper_does_not_run_does_not_count),
        cmocka_unit_test(a_helper_that_never_runs_is_replaced),
        cmocka_unit_test(an_expression_is_stopped_by_the_clock_as_well),
        cmocka_unit_test(what_is_left_for_the_request_counts_the_clock_as_well),
        cmocka_unit_test(too_much_memory_is_refused),
        TEST(nesting_that_breaks_jq_is_an_error),
        cmocka_unit_test(a_payload_that_is_too_large_is_refused),
        TEST(a_killed_helper_answers_with_an_error_and_is_replaced),
        TEST(many_requests_share_the_helpers),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(a_program_that_cannot_start_is_an_error),
        cmocka_unit_test(a_pool_closes_in_the_middle_of_work),
        cmocka_unit_test(an_expression_is_compiled_once),
        cmocka_unit_test(many_expressions_stay_within_the_limit_of_memory),
        TEST(slow_filters_leave_a_process_and_room_in_the_queue_to_folds),
        TEST(what_is_left_for_the_request_is_a_limit_for_all_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
