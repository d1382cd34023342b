/* SPDX-License-Identifier: Apache-2.0 */
#include "status_rig.h"

/* --- requests --- */

static void a_request_is_as_the_api_has_it(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "123", "it \"failed\"\n");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->requests[0].method, HTTP_PUT);
    assert_string_equal(r->requests[0].path, "/v4/builds/123");
    assert_string_equal(r->requests[0].authorization, "Bearer " TOKEN);
    assert_string_equal(r->requests[0].type, "application/json");
    assert_string_equal(r->requests[0].body,
                        "{\"status\":\"FAILURE\",\"statusMessage\":\"it \\\"failed\\\"\\n\"}");

    char api[128];
    snprintf(api, sizeof api, "%s/sd/", r->url);
    const struct build_update u = {.api = str_from(api),
                                   .build = STR("a/b?c#\n"),
                                   .hostname = STR("node-1"),
                                   .image_pull_start = {1784800000123}};
    s->ops->put(s, &u, NULL, NULL);
    RIG_AWAIT(r, of(s).told == 2);
    assert_string_equal(r->requests[1].path, "/sd/v4/builds/a%2Fb%3Fc%23%0A");
    assert_string_equal(r->requests[1].authorization, "");
    assert_string_equal(r->requests[1].body,
                        "{\"stats\":{\"hostname\":\"node-1\",\"imagePullStartTime\":"
                        "\"2026-07-23T09:46:40.123Z\"}}");
    assert_int_equal(of(s).waiting, 0);
    rig_close(r);
}

static void texts_are_mended_and_cut(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "half of an \xe2\x82 and \xff");
    RIG_AWAIT(r, of(s).told == 1);
    assert_non_null(strstr(r->requests[0].body, "\"half of an ?? and ?\""));
    char text[6001];
    for (size_t i = 0; i < 6000; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3); /* 4096 is no multiple of 3 */
    text[6000] = '\0';
    put(r, s, "2", text);
    RIG_AWAIT(r, of(s).told == 2);
    assert_int_equal(strlen(r->requests[1].body),
                     strlen("{\"status\":\"FAILURE\",\"statusMessage\":\"\"}") + 4095);
    rig_close(r);
}

static void what_cannot_be_told_is_given_up(void **state)
{
    struct rig *r = *state;
    struct build_status *s = open_it(r);
    struct build_update u = update(r, "1", "x");
    int n = 1;
    u.token = STR(TOKEN "\r\nX-Evil: 1");
    u.api = STR("http://127.0.0.1:1");
    s->ops->put(s, &u, rig_kept, r);
    assert_int_equal(r->kept, 0);
    RIG_AWAIT(r, r->kept == 1);
    static const char *const apis[] = {"",           "nowhere",   "ftp://a", "http://u:sesame@a",
                                       "http://a?x", "http://a b"};
    u.token = STR(TOKEN);
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++, n++) {
        u.api = str_from(apis[i]);
        s->ops->put(s, &u, rig_kept, r);
    }
    u.api = STR("http://127.0.0.1:1");
    u.build = STR("..");
    s->ops->put(s, &u, rig_kept, r);
    RIG_AWAIT(r, r->kept == n + 1);
    assert_int_equal(of(s).refused, n + 1);
    assert_int_equal(of(s).waiting, 0);
    assert_true(rig_logged(r, "build 1: an update cannot be told: its token is none; given up"));
    rig_close(r);
}

static void certificates_are_verified(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_use_tls(r);
    rig_listen(r);
    struct build_status_settings set = settings(r);
    char ca[128];
    snprintf(ca, sizeof ca, "%s/other.pem", r->dir);
    set.ca_file = ca;
    struct build_status *s = open_with(r, &set);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).failures > 1);
    assert_int_equal(r->served, 0);
    assert_true(rig_logged(r, "certificate"));
    rig_close(r);
    snprintf(ca, sizeof ca, "%s/ca.pem", r->dir);
    s = open_with(r, &set);
    RIG_AWAIT(r, of(s).told == 1);
    rig_close(r);
}

/* --- what answers mean --- */

static void a_build_that_is_over_or_unknown_is_left_as_it_is(void **state)
{
    struct rig *r = *state;
    r->serve = by_list;
    r->mine = (int[]){403, 404, 0};
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).ended == 1);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).ended == 2);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 3);
    assert_int_equal(of(s).failures, 0);
    rig_close(r);
}

static void another_refusal_is_final_and_logged_without_secrets(void **state)
{
    struct rig *r = *state;
    r->serve = by_list;
    r->mine = (int[]){400, 401, 422, 0};
    rig_listen(r);
    struct build_status *s = open_it(r);
    for (uint64_t i = 1; i <= 3; i++) {
        put(r, s, "7", "x");
        RIG_AWAIT(r, of(s).refused == i);
    }
    assert_int_equal(r->served, 3);
    assert_int_equal(of(s).waiting, 0);
    assert_true(rig_logged(r, "build 7: Screwdriver's API refuses an update with status 401"));
    rig_close(r);
}

static void passing_failures_are_tried_again(void **state)
{
    struct rig *r = *state;
    r->serve = by_list;
    r->mine = (int[]){500, 503, 502, 408, 425, 429, 504, 599, 0};
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 9);
    assert_int_equal(of(s).failures, 8);
    assert_true(rig_logged(r, "answers with status 500; 1 updates of builds wait"));
    assert_true(rig_logged(r, "answers again, after 8 failures"));
    for (int i = 1; i < 9; i++)
        assert_string_equal(r->requests[i].body, r->requests[0].body);
    rig_close(r);
}

static void break_once(struct rig *r, struct http_exchange *x, int n)
{
    if (n == 0)
        rig_break(r, x);
    else
        rig_answer(x, 204, NULL);
}

static void an_answer_that_breaks_off_is_none(void **state)
{
    struct rig *r = *state;
    r->serve = break_once;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 2);
    rig_close(r);
}

static void large(struct rig *r, struct http_exchange *x, int n)
{
    static char body[100000];
    (void)r;
    (void)n;
    memset(body, ' ', sizeof body);
    http_reply(x, 200, STR("text/plain"), (struct str){body, sizeof body}, NULL);
}

static void a_large_answer_counts_by_its_status(void **state)
{
    struct rig *r = *state;
    r->serve = large;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 1);
    rig_close(r);
}

static void redirect_once(struct rig *r, struct http_exchange *x, int n)
{
    char extra[128];
    snprintf(extra, sizeof extra, "Location: %s/elsewhere\r\n", r->url);
    rig_answer(x, n == 0 ? 307 : 200, n == 0 ? extra : NULL);
}

static void a_redirect_is_not_followed(void **state)
{
    struct rig *r = *state;
    r->serve = redirect_once;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 2);
    assert_string_equal(r->requests[1].path, "/v4/builds/1");
    assert_int_equal(of(s).failures, 1);
    rig_close(r);
}

static void later_for_build_1(struct rig *r, struct http_exchange *x, int n)
{
    bool late = strcmp(r->requests[n].path, "/v4/builds/1") == 0;
    rig_answer(x, late ? 429 : 200, late ? "Retry-After: 900\r\n" : NULL);
}

static void retry_after_is_obeyed_and_holds_up_no_other_build(void **state)
{
    struct rig *r = *state;
    r->serve = later_for_build_1;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).failures == 1);
    /* The longest delay of its own is over many times. */
    for (uint64_t i = 1; i <= 40; i++) {
        put(r, s, "2", "x");
        RIG_AWAIT(r, of(s).told == i);
    }
    assert_int_equal(of(s).failures, 1);
    assert_int_equal(r->served, 41);
    rig_close(r);
}

static void a_peer_that_never_answers_is_given_up_and_asked_again(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status_settings set = settings(r);
    set.timeout = (span){30};
    struct build_status *s = open_with(r, &set);
    put(r, s, "1", "x");
    RIG_AWAIT(r, of(s).failures >= 2);
    r->serve = take;
    RIG_AWAIT(r, of(s).told == 1);
    rig_close(r);
}

static void an_api_that_is_away_is_waited_for(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    rig_cut(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "x");
    put(r, s, "2", "x");
    RIG_AWAIT(r, of(s).failures >= 10);
    assert_int_equal(of(s).waiting, 2);
    rig_listen(r);
    RIG_AWAIT(r, of(s).told == 2);
    rig_close(r);
}

static void what_is_too_old_is_given_up_with_a_warning(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    rig_cut(r);
    struct build_status_settings set = settings(r);
    set.age_max = (span){20};
    struct build_status *s = open_with(r, &set);
    put(r, s, "1", "x");
    put(r, s, "1", "y");
    put(r, s, "2", "z");
    RIG_AWAIT(r, of(s).expired == 3);
    assert_int_equal(of(s).waiting, 0);
    assert_true(rig_logged(r, "build 2: an update could not be told for too long; given up"));
    rig_close(r);
    s = open_it(r);
    assert_int_equal(of(s).waiting, 0);
    rig_close(r);
}

/* --- order --- */

static void updates_of_a_build_keep_their_order_and_others_pass(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put(r, s, "1", "first");
    put(r, s, "1", "second");
    put(r, s, "2", "other");
    RIG_AWAIT(r, r->held_count == 2);
    rig_settle(r);
    assert_int_equal(r->served, 2);
    assert_true(asked(r, 0, "/v4/builds/1", "first"));
    assert_true(asked(r, 1, "/v4/builds/2", "other"));
    rig_answer(r->held[1], 200, NULL);
    r->held_count = 1;
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 2);
    /* The first one fails: it goes before the second all the same. */
    rig_release(r, 500);
    RIG_AWAIT(r, r->served == 3);
    assert_true(asked(r, 2, "/v4/builds/1", "first"));
    rig_release(r, 200);
    RIG_AWAIT(r, r->served == 4);
    assert_true(asked(r, 3, "/v4/builds/1", "second"));
    rig_release(r, 200);
    RIG_AWAIT(r, of(s).told == 3);
    rig_close(r);
}

static void requests_under_way_are_bounded(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    for (int i = 0; i < 200; i++) {
        char build[16];
        snprintf(build, sizeof build, "%d", i);
        put(r, s, build, "x");
    }
    RIG_AWAIT(r, r->held_count == 32);
    RIG_AWAIT(r, r->kept == 200);
    rig_settle(r);
    assert_int_equal(r->served, 32);
    r->serve = take;
    rig_release(r, 200);
    RIG_AWAIT(r, of(s).told == 200);
    rig_close(r);
}

static void a_failing_api_does_not_hold_up_another_one(void **state)
{
    struct rig *r = *state;
    r->serve = take;
    rig_listen(r);
    struct build_status *s = open_it(r);
    struct build_update u = update(r, "x", "lost");
    u.api = STR("http://127.0.0.1:1");
    for (int i = 0; i < 100; i++) {
        char build[16];
        snprintf(build, sizeof build, "x%d", i);
        u.build = str_from(build);
        s->ops->put(s, &u, NULL, NULL);
    }
    RIG_AWAIT(r, of(s).failures > 20);
    for (uint64_t i = 1; i <= 20; i++) {
        put(r, s, "1", "fine");
        RIG_AWAIT(r, of(s).told == i);
    }
    assert_int_equal(of(s).waiting, 100);
    rig_close(r);
}

/* --- hints --- */

static void a_hint_is_told_but_not_kept_on_disk(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put_hint(r, s, "1", "soon");
    RIG_AWAIT(r, r->held_count == 1);
    rig_release(r, 200);
    RIG_AWAIT(r, of(s).told == 1 && r->kept == 1);
    put_hint(r, s, "1", "soon");
    RIG_AWAIT(r, r->held_count == 1);
    rig_close(r);
    s = open_it(r);
    assert_int_equal(of(s).waiting, 0);
    rig_close(r);
}

static void a_hint_is_never_told_after_a_later_update(void **state)
{
    struct rig *r = *state;
    r->serve = hold;
    rig_listen(r);
    struct build_status *s = open_it(r);
    put_hint(r, s, "1", "hint one");
    RIG_AWAIT(r, r->held_count == 1);
    put_hint(r, s, "1", "hint two");
    put(r, s, "1", "the end");
    put_hint(r, s, "2", "hint three");
    put(r, s, "2", "the end");
    /* Of build 2 nothing was under way: the hint is gone before it was sent. */
    RIG_AWAIT(r, r->held_count == 2);
    assert_true(asked(r, 1, "/v4/builds/2", "the end"));
    rig_release(r, 200);
    RIG_AWAIT(r, r->served == 3);
    assert_true(asked(r, 2, "/v4/builds/1", "the end"));
    rig_release(r, 200);
    RIG_AWAIT(r, of(s).told == 3 && r->kept == 5);
    assert_int_equal(of(s).waiting, 0);
    assert_int_equal(r->served, 3);
    rig_close(r);
}

static void a_hint_that_fails_is_dropped(void **state)
{
    struct rig *r = *state;
    r->serve = by_list;
    r->mine = (int[]){500, 200, 500, 0};
    rig_listen(r);
    struct build_status *s = open_it(r);
    put_hint(r, s, "1", "hint");
    RIG_AWAIT(r, of(s).failures == 1 && r->kept == 1);
    assert_int_equal(of(s).waiting, 0);
    put(r, s, "1", "the end");
    RIG_AWAIT(r, of(s).told == 1);
    assert_int_equal(r->served, 2);
    /* A hint behind an update that fails does not wait for it. */
    put(r, s, "1", "again");
    put_hint(r, s, "1", "hint");
    RIG_AWAIT(r, of(s).told == 2);
    RIG_AWAIT(r, r->kept == 4);
    assert_int_equal(r->served, 4);
    assert_true(asked(r, 3, "/v4/builds/1", "again"));
    rig_close(r);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_request_is_as_the_api_has_it),
        T(texts_are_mended_and_cut),
        T(what_cannot_be_told_is_given_up),
        T(certificates_are_verified),
        T(a_build_that_is_over_or_unknown_is_left_as_it_is),
        T(another_refusal_is_final_and_logged_without_secrets),
        T(passing_failures_are_tried_again),
        T(an_answer_that_breaks_off_is_none),
        T(a_large_answer_counts_by_its_status),
        T(a_redirect_is_not_followed),
        T(retry_after_is_obeyed_and_holds_up_no_other_build),
        T(a_peer_that_never_answers_is_given_up_and_asked_again),
        T(an_api_that_is_away_is_waited_for),
        T(what_is_too_old_is_given_up_with_a_warning),
        T(updates_of_a_build_keep_their_order_and_others_pass),
        T(requests_under_way_are_bounded),
        T(a_failing_api_does_not_hold_up_another_one),
        T(a_hint_is_told_but_not_kept_on_disk),
        T(a_hint_is_never_told_after_a_later_update),
        T(a_hint_that_fails_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
