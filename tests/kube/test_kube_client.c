/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_calls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

static uint64_t counted(struct rig *r, enum kube_counters_verb verb, const char *code)
{
    const struct kube_counters *c = kube_client_counters(r->client);
    for (size_t i = 0; kube_counters_code_name(i); i++)
        if (strcmp(kube_counters_code_name(i), code) == 0)
            return c->calls[verb][i];
    return 0;
}

/* --- answers --- */

static void a_call_is_answered(void **state)
{
    struct rig *r = *state;
    r->serve = serve_object;
    r->config.token = "t0ken";
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(g.status, 200);
    assert_int_equal(g.tries, 1);
    assert_string_equal(g.object, "{\"kind\":\"Pod\"}");
    assert_string_equal(r->requests[0].path, "/api/v1/pods/x");
    assert_string_equal(r->requests[0].authorization, "Bearer t0ken");
    ask(r, &g, &create);
    assert_int_equal(r->requests[1].method, HTTP_POST);
    assert_string_equal(r->requests[1].body.at, "{\"a\":1}");
    assert_int_equal(counted(r, KUBE_GET, "200"), 1);
    assert_int_equal(counted(r, KUBE_CREATE, "200"), 1);
}

static void basic_credentials_are_shown(void **state)
{
    struct rig *r = *state;
    r->serve = serve_object;
    r->config.user = "u";
    r->config.password = "p:w";
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_string_equal(r->requests[0].authorization, "Basic dTpwOnc=");
}

static void nothing_is_shown_where_there_is_nothing(void **state)
{
    struct rig *r = *state;
    r->serve = serve_object;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_string_equal(r->requests[0].authorization, "");
}

static void serve_refusals(struct rig *r, struct http_exchange *x, const struct http_request *req,
                           int n)
{
    (void)r;
    (void)req;
    static const struct {
        int status;
        const char *body;
    } rows[] = {
        {404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"no x\"}"},
        {200, "hello"},
        {200, ""},
        {302, "elsewhere"},
    };
    rig_json(x, rows[n].status, rows[n].body);
}

static void what_is_no_answer_of_an_api_server(void **state)
{
    struct rig *r = *state;
    r->serve = serve_refusals;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_NOT_FOUND);
    assert_string_equal(g.message, "no x");
    for (int i = 0; i < 2; i++) {
        ask(r, &g, &get);
        assert_int_equal(g.reason, KUBE_ANSWER_MALFORMED);
        assert_non_null(strstr(g.message, "HTTP 200 without a JSON object"));
    }
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OTHER);
    assert_int_equal(r->served, 4);
}

static void serve_text(struct rig *r, struct http_exchange *x, const struct http_request *req,
                       int n)
{
    (void)r;
    (void)n;
    assert_true(str_eq(req->accept, STR("*/*")));
    http_reply(x, 200, STR("text/plain"), STR("a log line\n"), NULL);
}

static void a_log_is_text(void **state)
{
    struct rig *r = *state;
    r->serve = serve_text;
    rig_start(r);
    struct got g;
    ask(r, &g, &(struct kube_client_spec){.verb = KUBE_GET, .accept = "*/*"});
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_string_equal(g.object, "a log line\n");
}

/* --- repeated tries --- */

/* The first two requests are refused with r->mine's status. */
static void serve_third(struct rig *r, struct http_exchange *x, const struct http_request *req,
                        int n)
{
    if (n >= 2)
        serve_object(r, x, req, n);
    else
        rig_json(x, *(int *)r->mine, "{}");
}

static void passing_refusals_are_repeated(void **state)
{
    struct rig *r = *state;
    r->serve = serve_third;
    rig_start(r);
    const struct {
        int status;
        const struct kube_client_spec *spec;
        bool repeated;
    } rows[] = {
        {429, &get, true},     {500, &get, true},    {503, &get, true},
        {504, &get, true},     {429, &create, true}, {503, &create, false},
        {500, &create, false}, {404, &get, false},   {409, &create, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int status = rows[i].status;
        struct got g;
        r->mine = &status;
        r->served = 0;
        ask(r, &g, rows[i].spec);
        assert_int_equal(r->served, rows[i].repeated ? 3 : 1);
        assert_int_equal(g.tries, r->served);
        assert_int_equal(g.status, rows[i].repeated ? 200 : status);
    }
    assert_int_equal(kube_client_counters(r->client)->retries, 10);
}

static void a_caller_chooses_what_is_repeated(void **state)
{
    struct rig *r = *state;
    int status = 503;
    r->serve = serve_third;
    r->mine = &status;
    rig_start(r);
    struct got g;
    struct kube_client_spec spec = create;
    spec.retry = KUBE_CLIENT_ANY;
    ask(r, &g, &spec);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    r->served = 0;
    spec = get;
    spec.retry = KUBE_CLIENT_ONCE;
    ask(r, &g, &spec);
    assert_int_equal(g.reason, KUBE_ANSWER_UNAVAILABLE);
    r->served = 0;
    spec = get;
    spec.tries_max = 2;
    ask(r, &g, &spec);
    assert_int_equal(g.reason, KUBE_ANSWER_UNAVAILABLE);
    assert_int_equal(g.tries, 2);
}

static void serve_retry_after(struct rig *r, struct http_exchange *x,
                              const struct http_request *req, int n)
{
    if (n)
        serve_object(r, x, req, n);
    else
        rig_json_extra(x, 429, "{}", r->mine);
}

static void retry_after_is_honoured(void **state)
{
    struct rig *r = *state;
    r->serve = serve_retry_after;
    r->settings.backoff_max = (span){1000};
    rig_start(r);
    char date[64] = "Retry-After: 1\r\n";
    for (int i = 0; i < 2; i++) {
        struct got g;
        r->mine = date;
        r->served = 0;
        uint64_t from = uv_hrtime();
        ask(r, &g, &get);
        assert_int_equal(g.reason, KUBE_ANSWER_OK);
        assert_true(uv_hrtime() - from >= 999000000);
        /* As a date: seconds from the Date that the server says, which has whole ones. */
        time_t then = time(NULL) + 4;
        struct tm tm;
        strftime(date, sizeof date, "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n",
                 gmtime_r(&then, &tm));
    }
}

static void backoff_grows_to_a_limit(void **state)
{
    struct rig *r = *state;
    r->settings.backoff_first = (span){100};
    r->settings.backoff_max = (span){1000};
    r->serve = serve_object;
    rig_start(r);
    const int64_t base[] = {100, 200, 400, 800, 1000, 1000};
    for (int n = 1; n <= (int)COUNT(base); n++) {
        bool differs = false;
        int64_t first = kube_client_backoff(r->client, n, NULL).ms;
        for (int i = 0; i < 100; i++) {
            int64_t ms = kube_client_backoff(r->client, n, NULL).ms;
            assert_in_range(ms, base[n - 1], base[n - 1] * 3 / 2);
            differs |= ms != first;
        }
        assert_true(differs);
    }
    assert_in_range(kube_client_backoff(r->client, 1000000, NULL).ms, 1000, 1500);
    struct kube_answer a = {.retry_after = {7000}};
    assert_in_range(kube_client_backoff(r->client, 1, &a).ms, 7000, 7050);
    a.retry_after.ms = 86400000;
    assert_in_range(kube_client_backoff(r->client, 1, &a).ms, 10000, 10050);
}

static void serve_break(struct rig *r, struct http_exchange *x, const struct http_request *req,
                        int n)
{
    if (n >= 2) {
        serve_object(r, x, req, n);
        return;
    }
    rig_stream(r, x);
    rig_send(r, "{\"half\":");
    http_stream_abort(x);
}

static void a_lost_answer_is_asked_for_again_if_that_does_no_harm(void **state)
{
    struct rig *r = *state;
    r->serve = serve_break;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(g.tries, 3);
    r->served = 0;
    ask(r, &g, &create);
    assert_int_equal(g.reason, KUBE_ANSWER_LOST);
    assert_int_equal(g.tries, 1);
    assert_int_equal(counted(r, KUBE_CREATE, "none"), 1);
}

static void a_server_that_is_away_is_asked_again(void **state)
{
    struct rig *r = *state;
    r->serve = serve_object;
    rig_start(r);
    rig_cut(r);
    struct got g;
    ask(r, &g, &create);
    assert_int_equal(g.reason, KUBE_ANSWER_UNREACHABLE);
    assert_int_equal(g.tries, 5);
    assert_non_null(strstr(g.message, "cannot reach http://127.0.0.1:"));
    struct kube_client_spec spec = create;
    spec.tries_max = 1000000;
    start(r, &g, &spec);
    RIG_AWAIT(r, counted(r, KUBE_CREATE, "none") >= 8);
    rig_listen(r);
    RIG_AWAIT(r, g.done);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
}

static void an_answer_that_does_not_come_times_out(void **state)
{
    struct rig *r = *state;
    r->serve = serve_held;
    rig_start(r);
    struct got g;
    struct kube_client_spec spec = create;
    spec.timeout = (span){30};
    ask(r, &g, &spec);
    assert_int_equal(g.reason, KUBE_ANSWER_TIMED_OUT);
    assert_int_equal(g.tries, 1);
}

static void an_answer_over_the_limit_is_refused(void **state)
{
    struct rig *r = *state;
    r->serve = serve_object;
    r->settings.answer_max = 5;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_MALFORMED);
    assert_non_null(strstr(g.message, "the answer is larger than 5 bytes"));
}

/* --- many at once --- */

static void only_so_many_are_under_way(void **state)
{
    struct rig *r = *state;
    r->serve = serve_held;
    r->settings.calls_max = 2;
    rig_start(r);
    struct got g[5];
    for (size_t i = 0; i < COUNT(g); i++)
        start(r, &g[i], &get);
    RIG_AWAIT(r, r->held_count == 2);
    rig_settle(r);
    assert_int_equal(r->held_count, 2);
    kube_client_cancel(g[2].call); /* in the queue */
    kube_client_cancel(g[0].call); /* under way: another takes its place */
    RIG_AWAIT(r, r->held_count == 3);
    for (int i = 0; i < 4; i++) {
        RIG_AWAIT(r, r->held_count > i);
        rig_json(r->held[i], 200, "{}");
    }
    r->held_count = 0;
    RIG_AWAIT(r, g[1].done && g[3].done && g[4].done);
    assert_int_equal(g[0].done + g[2].done, 0);
}

static void freeing_the_client_cancels_all(void **state)
{
    struct rig *r = *state;
    int status = 503;
    r->serve = serve_held;
    r->settings.calls_max = 2;
    r->settings.backoff_first = (span){60000};
    r->settings.backoff_max = (span){60000};
    rig_start(r);
    struct got g[6];
    start(r, &g[0], &get);
    RIG_AWAIT(r, r->held_count == 1);
    rig_json(r->held[0], status, "{}");
    r->held_count = 0;
    RIG_AWAIT(r, kube_client_counters(r->client)->retries == 1); /* it waits for its next try */
    for (size_t i = 1; i < COUNT(g); i++)
        start(r, &g[i], &get);
    RIG_AWAIT(r, r->held_count == 2);
    kube_client_free(r->client);
    r->client = NULL;
    rig_settle(r);
    for (size_t i = 0; i < COUNT(g); i++)
        assert_int_equal(g[i].done, 0);
}

/* --- streams --- */

static void on_data(void *ctx, struct str bytes)
{
    struct got *g = ctx;
    buf_str(&g->data, bytes);
}

static void on_opened(void *ctx)
{
    struct got *g = ctx;
    g->opened++;
}

static void serve_stream(struct rig *r, struct http_exchange *x, const struct http_request *req,
                         int n)
{
    (void)req;
    (void)n;
    rig_stream(r, x);
}

static void streams_do_not_take_the_place_of_calls(void **state)
{
    struct rig *r = *state;
    r->serve = serve_stream;
    r->settings.calls_max = 1;
    rig_start(r);
    struct got s, g;
    start(r, &s,
          &(struct kube_client_spec){.verb = KUBE_WATCH, .data = on_data, .opened = on_opened});
    RIG_AWAIT(r, s.opened);
    r->serve = serve_object;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    rig_send(r, "abc");
    RIG_AWAIT(r, s.data.len == 3);
    http_stream_end(r->stream);
    RIG_AWAIT(r, s.done);
    assert_int_equal(s.reason, KUBE_ANSWER_OK);
    buf_fini(&s.data);
}

/* --- paths --- */

static void paths_are_encoded(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "/api");
    kube_client_segment(&b, STR("a/b c"));
    kube_client_query(&b, "labelSelector", STR("x in (a,b)"));
    kube_client_query(&b, "limit", STR("5"));
    assert_true(
        str_eq(buf_view(&b), STR("/api/a%2Fb%20c?labelSelector=x%20in%20%28a%2Cb%29&limit=5")));
    buf_fini(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_call_is_answered),
        T(basic_credentials_are_shown),
        T(nothing_is_shown_where_there_is_nothing),
        T(what_is_no_answer_of_an_api_server),
        T(a_log_is_text),
        T(passing_refusals_are_repeated),
        T(a_caller_chooses_what_is_repeated),
        T(retry_after_is_honoured),
        T(backoff_grows_to_a_limit),
        T(a_lost_answer_is_asked_for_again_if_that_does_no_harm),
        T(a_server_that_is_away_is_asked_again),
        T(an_answer_that_does_not_come_times_out),
        T(an_answer_over_the_limit_is_refused),
        T(only_so_many_are_under_way),
        T(freeing_the_client_cancels_all),
        T(streams_do_not_take_the_place_of_calls),
        cmocka_unit_test(paths_are_encoded),
    };
    return cmocka_run_group_tests_name("kube/kube_client", tests, NULL, NULL);
}
