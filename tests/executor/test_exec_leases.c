/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"

static void turn(struct exec_rig *e, mono now)
{
    e->next = (mono){0};
    exec_leases_turn(&e->x, now, &e->next);
}

/* A turn whose requests are answered. */
static void turn_until_served(struct exec_rig *e, mono now, int served)
{
    turn(e, now);
    RIG_AWAIT(e->rig, e->rig->served >= served && remote_count(e->x.server) == 0);
}

/* The server's list of jobs in flight is known to be empty. */
static void adopt_none(struct exec_rig *e)
{
    holder_claims_stop(e->x.claims.of);
    e->x.claims.of = holder_claims_new(e->x.holder, &(struct holder_scope){.adopts = false}, &e->x);
    e->namespace.synced = true;
}

static const char *job(int n, int run, int64_t taken_at, const char *more)
{
    static char texts[4][500];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(
        text, sizeof texts[0],
        "{\"id\":\"%s\",\"queue\":\"a\",\"type\":\"t\",\"status\":\"in_flight\",\"dequeued_at\":"
        "%lld,\"run\":%d,\"token\":\"00000000000000%02x\",\"payload\":{}%s}",
        exec_rig_text(n), (long long)taken_at, run, n, more);
    return text;
}

/* --- what the server is told --- */

static void notice_turn(struct exec_rig *e, mono now, int served)
{
    e->next = (mono){0};
    exec_notice_turn(&e->x, now, &e->next);
    RIG_AWAIT(e->rig, e->rig->served >= served && remote_count(e->x.server) == 0);
}

static void why_it_takes_nothing_is_told_once_a_minute(void **state)
{
    struct exec_rig *e = *state;
    mono now = when_mono();
    adopt_none(e);
    notice_turn(e, now, 0);
    assert_int_equal(e->rig->served, 0);
    char why[] = "no right to create pods";
    e->x.access.state = EXEC_ACCESS_DENIED;
    e->x.access.why = why;
    e->status = 204;
    e->body = "";
    notice_turn(e, now, 1);
    exec_rig_assert_request(e, 0, "PUT /workers/" NAME "/notice");
    assert_true(exec_rig_body_has(e, 0, "\"notice\":\"no right to create pods\""));
    assert_true(exec_rig_body_has(e, 0, "\"queues\":[\"a\",\"b\"]"));
    notice_turn(e, when_after(now, (span){50000}), 1);
    assert_int_equal(e->rig->served, 1);
    notice_turn(e, when_after(now, (span){70000}), 2);
    /* Another reason is told at once. */
    why[0] = 'N';
    notice_turn(e, when_after(now, (span){71000}), 3);
    assert_true(exec_rig_body_has(e, 2, "No right"));
    e->x.access.state = EXEC_ACCESS_GRANTED;
    e->x.access.why = NULL;
    notice_turn(e, when_after(now, (span){200000}), 3);
    assert_int_equal(e->rig->served, 3);
}

static void a_cluster_that_is_not_watched_is_told_after_a_while(void **state)
{
    struct exec_rig *e = *state;
    mono now = when_mono();
    char why[] = "pods is forbidden";
    adopt_none(e);
    e->status = 204;
    e->body = "";
    e->namespace.failures = 2;
    e->namespace.why = why;
    notice_turn(e, now, 0);
    assert_int_equal(e->rig->served, 0);
    assert_true(e->next.ns > now.ns);
    notice_turn(e, e->next, 1);
    assert_true(exec_rig_body_has(e, 0, "cannot watch the pods of namespace"));
    assert_true(exec_rig_body_has(e, 0, "pods is forbidden"));
    e->namespace.why = NULL;
}

/* --- adoption --- */

/* Two pages with a job each; claiming them gives run 1. */
static bool serve_pages(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    char body[900];
    (void)e;
    if (strcmp(q->path, "/jobs") == 0) {
        bool second = strstr(q->query, "page=2");
        snprintf(body, sizeof body, "{\"jobs\":[%s],\"pages\":{\"next\":%s}}",
                 job(second ? 2 : 1, 1, 100, ""), second ? "null" : "\"/jobs?page=2\"");
        rig_json(x, 200, body);
        return true;
    }
    if (strstr(q->path, "/claim") && strcmp(q->path, "/jobs/claim") != 0) {
        rig_json(x, 200, job(strstr(q->path, exec_rig_text(2)) ? 2 : 1, 1, 100, ""));
        return true;
    }
    return false;
}

static void what_is_in_flight_with_us_is_claimed_again_page_by_page(void **state)
{
    struct exec_rig *e = *state;
    e->serve = serve_pages;
    turn_until_served(e, when_mono(), 2);
    exec_rig_assert_request(e, 0, "GET /jobs?worker=" NAME "&status=in_flight&limit=50");
    char words[100];
    snprintf(words, sizeof words, "POST /jobs/%s/claim", exec_rig_text(1));
    exec_rig_assert_request(e, 1, words);
    assert_true(exec_rig_body_has(e, 1, "\"worker\":\"" NAME "\",\"lease_ms\":30000"));
    assert_false(holder_claims_have_adopted(e->x.claims.of));
    turn_until_served(e, when_mono(), 4);
    exec_rig_assert_request(e, 2, "GET /jobs?page=2");
    assert_true(holder_claims_have_adopted(e->x.claims.of));
    for (int n = 1; n <= 2; n++) {
        const struct exec_run *r = exec_runs_find(&e->x, exec_rig_id(n), 1);
        assert_non_null(r);
        assert_false(r->adopted);
        assert_int_equal(r->token[15], '0' + n);
    }
}

static void a_job_is_claimed_again_of_which_only_an_earlier_run_is_known(void **state)
{
    struct exec_rig *e = *state;
    e->serve = serve_pages;
    struct exec_run *earlier = exec_rig_run(e, 1, 0), *same = exec_rig_run(e, 2, 1);
    earlier->plan.lease = PLAN_DECIDED; /* as the journal had it, and not delivered */
    earlier->plan.kept = true;
    same->taken_at = 100;
    same->renew_at = when_after(when_mono(), (span){20000});
    turn_until_served(e, when_mono(), 2);
    turn_until_served(e, when_mono(), 3);
    assert_int_equal(e->rig->served, 3); /* two pages, and a claim of the one that is not known */
    assert_non_null(exec_runs_find(&e->x, exec_rig_id(1), 1));
    assert_ptr_equal(exec_runs_find(&e->x, exec_rig_id(1), 1)->next, earlier);
}

static void nothing_is_asked_for_before_it_is_known_what_is_in_flight(void **state)
{
    struct exec_rig *e = *state;
    e->status = 503;
    mono now = when_mono();
    turn_until_served(e, now, 1);
    assert_false(holder_claims_have_adopted(e->x.claims.of));
    assert_true(e->x.server_down);
    turn(e, now);
    assert_int_equal(remote_count(e->x.server), 0);
    assert_true(e->next.ns > now.ns);
}

/* --- claims --- */

static void a_claim_asks_for_as_many_as_there_is_room_for(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->queues[1].limit = 1;
    for (int n = 0; n < 3; n++)
        exec_rig_run(e, n, 0)->renew_at = when_after(when_mono(), (span){20000});
    exec_runs_find(&e->x, exec_rig_id(0), 0)->queue = &e->queues[1];
    turn_until_served(e, when_mono(), 1);
    exec_rig_assert_request(e, 0, "POST /jobs/claim");
    assert_true(exec_rig_body_has(e, 0, "{\"queues\":[\"a\"],\"count\":7,\"lease_ms\":30000,"));
    assert_true(e->x.claims.left_out);
}

static void a_claim_asks_for_what_is_left_of_the_limit_of_a_queue(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->queues[0].limit = 3;
    exec_rig_run(e, 0, 0)->renew_at = when_after(when_mono(), (span){20000});
    exec_runs_find(&e->x, exec_rig_id(0), 0)->queue = &e->queues[0];
    turn_until_served(e, when_mono(), 1);
    assert_true(exec_rig_body_has(e, 0, "\"count\":2,"));
}

static void a_claim_asks_for_what_fits_beside_what_all_pods_have(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    for (int n = 0; n < 3; n++) {
        struct exec_run *r = exec_rig_run(e, n, 0);
        r->renew_at = when_after(when_mono(), (span){600000});
        r->memory = n == 1 ? 10 : 20;
        r->cpu = 10;
    }
    e->settings.memory_max = 100; /* 50 are left, for pods of 20 */
    turn_until_served(e, when_mono(), 1);
    assert_true(exec_rig_body_has(e, 0, "\"count\":2,"));
    e->settings.cpu_max = 45; /* 15 are left */
    turn_until_served(e, when_after(when_mono(), (span){20000}), 2);
    assert_true(exec_rig_body_has(e, 1, "\"count\":1,"));
    e->settings.memory_max = 0;
    e->settings.cpu_max = 95;
    turn_until_served(e, when_after(when_mono(), (span){40000}), 3);
    assert_true(exec_rig_body_has(e, 2, "\"count\":6,"));
    e->settings.cpu_max = 0;
}

/* A claim waits until it is withdrawn. */
static bool serve_waiting(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    if (q->method == HTTP_POST) {
        rig_hold(e->rig, x);
        return true;
    }
    rig_json(e->rig->held[0], 200, "{\"jobs\":[]}");
    e->rig->held_count = 0;
    return false;
}

static void wait_at_the_server(struct exec_rig *e)
{
    e->serve = serve_waiting;
    turn(e, when_mono());
    RIG_AWAIT(e->rig, e->rig->held_count == 1);
    exec_rig_assert_request(e, 0, "POST /jobs/claim");
}

static void no_job_is_asked_for_while_the_cluster_is_away(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->namespace.synced = false; /* its pods have never been listed */
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
    e->namespace.synced = true;
    e->namespace.failures = 2;
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
    e->namespace.failures = 1; /* a watch that broke off */
    wait_at_the_server(e);
    e->namespace.failures = 2;
    turn_until_served(e, when_mono(), 2);
    exec_rig_assert_request(e, 1, "DELETE /jobs/claim?worker=" NAME);
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
}

static void a_claim_is_withdrawn_when_there_is_room_for_what_it_leaves_out(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    wait_at_the_server(e);
    e->x.claims.asked = 5;
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 1); /* room for 10 is no more than twice that */
    e->x.claims.left_out = true;
    turn_until_served(e, when_mono(), 2);
    exec_rig_assert_request(e, 1, "DELETE /jobs/claim?worker=" NAME);
}

static const char *claim_id(struct exec_rig *e, int n)
{
    const char *at = strstr(exec_rig_request(e, n)->body.at, "\"claim_id\"");
    assert_non_null(at);
    return at;
}

static void a_claim_whose_answer_is_lost_is_repeated(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->status = 200;
    e->body = "{\"jobs\":[{\"id\""; /* it breaks off */
    turn_until_served(e, when_mono(), 1);
    exec_rig_assert_request(e, 0, "POST /jobs/claim");
    assert_true(e->x.server_down);
    char body[600];
    snprintf(body, sizeof body, "{\"jobs\":[%s]}", job(1, 0, 100, ""));
    e->body = body;
    turn_until_served(e, when_after(when_mono(), (span){20000}), 2);
    exec_rig_assert_request(e, 1, "POST /jobs/claim");
    assert_string_equal(claim_id(e, 0), claim_id(e, 1));
    assert_non_null(exec_runs_find(&e->x, exec_rig_id(1), 0));
    assert_false(e->x.server_down);
}

static void an_executor_that_ends_asks_for_nothing(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
}

/* --- renewals --- */

static void a_lease_is_renewed_after_a_third_of_it_counted_from_the_request(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true; /* no claims */
    struct exec_run *r = exec_rig_run(e, 1, 3);
    mono now = when_mono();
    r->renew_at = when_after(now, (span){5000});
    turn(e, now);
    assert_int_equal(remote_count(e->x.server), 0);
    assert_int_equal(e->next.ns, r->renew_at.ns);
    mono before = when_mono();
    turn_until_served(e, when_after(now, (span){5000}), 1);
    char words[100];
    snprintf(words, sizeof words, "POST /jobs/%s/renew", exec_rig_text(1));
    exec_rig_assert_request(e, 0, words);
    assert_string_equal(exec_rig_request(e, 0)->body.at,
                        "{\"run\":3,\"lease_ms\":30000,\"token\":\"0000000000000002\"}");
    /* 10 s after it left, or a quarter of that sooner, with others: it left after `before`, and
     * before now. */
    assert_true(r->renew_at.ns >= when_after(before, (span){7500}).ns);
    assert_true(r->renew_at.ns <= when_after(when_mono(), (span){10000}).ns);
    assert_int_equal(r->renew_at.ns % INT64_C(2500000000), 0);
}

static void a_long_lease_is_renewed_every_20_s(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->settings.lease = (span){3600000};
    struct exec_run *r = exec_rig_run(e, 1, 0);
    turn_until_served(e, when_mono(), 1);
    assert_true(r->renew_at.ns <= when_after(when_mono(), (span){20000}).ns);
}

/* The answer to POST /jobs/renew: the first lease is over, of the second it is not known, and the
 * third is renewed; those after it are missing. */
static bool serve_renewals(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    char body[500];
    (void)e;
    if (strcmp(q->path, "/jobs/renew") != 0)
        return false;
    snprintf(body, sizeof body,
             "{\"error\":\"2 were not renewed\",\"code\":\"unprocessable\",\"jobs\":["
             "{\"id\":\"%s\",\"code\":\"stale_token\",\"error\":\"it is over\"},"
             "{\"id\":\"%s\",\"code\":\"busy\",\"error\":\"later\"},"
             "{\"id\":\"%s\",\"lease_expires_at\":1}]}",
             exec_rig_text(0), exec_rig_text(1), exec_rig_text(2));
    rig_json(x, 422, body);
    return true;
}

static void leases_that_are_due_together_are_one_request_with_an_answer_for_each(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->serve = serve_renewals;
    struct exec_run *runs[4];
    for (int n = 0; n < 4; n++)
        runs[n] = exec_rig_run(e, n, 0);
    mono now = when_mono();
    turn_until_served(e, now, 1);
    assert_int_equal(e->rig->served, 1);
    exec_rig_assert_request(e, 0, "POST /jobs/renew");
    assert_true(exec_rig_body_has(e, 0, "{\"jobs\":[{\"id\":\""));
    assert_true(exec_rig_body_has(e, 0, "\"run\":0,\"lease_ms\":30000,\"token\":\"00"));
    assert_int_equal(runs[0]->plan.lease, PLAN_LOST);
    for (int n = 1; n < 4; n++) {
        assert_int_equal(runs[n]->plan.lease, PLAN_HELD);
        assert_int_equal(runs[n]->renew_tries, n == 2 ? 0 : 1);
        assert_false(runs[n]->renewing);
    }
    assert_true(runs[2]->renew_at.ns >= when_after(now, (span){7500}).ns);
}

static void one_request_renews_a_thousand_leases_at_most(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->serve = serve_renewals;
    for (int n = 0; n < 2500; n++)
        exec_rig_run(e, n, 0);
    turn_until_served(e, when_mono(), 3);
    assert_int_equal(e->rig->served, 3);
}

static bool serve_as_of_old(struct exec_rig *e, struct http_exchange *x,
                            const struct rig_request *q)
{
    (void)e;
    if (strcmp(q->path, "/jobs/renew") != 0)
        return false;
    rig_json(x, 405, "{\"error\":\"no\",\"code\":\"method_not_allowed\"}");
    return true;
}

static void an_older_server_is_asked_for_each_lease_64_at_a_time(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->serve = serve_as_of_old;
    for (int n = 0; n < 150; n++)
        exec_rig_run(e, n, 0);
    turn(e, when_mono());
    RIG_AWAIT(e->rig, e->rig->served == 1 && remote_count(e->x.server) > 1);
    assert_int_equal(remote_count(e->x.server), 64);
    RIG_AWAIT(e->rig, e->x.renewing == 0);
    assert_int_equal(e->rig->served, 151);
    /* It is known by then. */
    turn(e, when_after(when_mono(), (span){20000}));
    RIG_AWAIT(e->rig, e->x.renewing == 0);
    assert_int_equal(e->rig->served, 301);
}

static bool serve_none_of_all(struct exec_rig *e, struct http_exchange *x,
                              const struct rig_request *q)
{
    (void)e;
    if (strcmp(q->path, "/jobs/renew") != 0)
        return false;
    rig_json(x, 400, "{\"error\":\"jobs[1]: no\",\"code\":\"bad_value\"}");
    return true;
}

static void leases_that_are_refused_for_one_of_them_are_renewed_each(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->serve = serve_none_of_all;
    for (int n = 0; n < 3; n++)
        exec_rig_run(e, n, 0);
    turn_until_served(e, when_mono(), 4);
    assert_int_equal(e->rig->served, 4);
    assert_int_equal(e->x.renewing, 0);
    assert_int_equal(exec_runs_find(&e->x, exec_rig_id(1), 0)->plan.lease, PLAN_HELD);
}

static void what_waits_for_renewals_may_end(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    for (int n = 0; n < 3; n++)
        exec_rig_run(e, n, 0)->token[0] = n ? 'a' : 0;
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 2); /* one has no token: by itself */
    exec_leases_free(&e->x);
    assert_int_equal(remote_count(e->x.server), 0);
}

static void a_lease_that_the_server_does_not_know_is_lost(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->status = 409;
    e->body = "{\"error\":\"stale\",\"code\":\"stale_run\"}";
    struct exec_run *r = exec_rig_run(e, 1, 0);
    turn_until_served(e, when_mono(), 1);
    assert_int_equal(r->plan.lease, PLAN_LOST);
    assert_int_equal(e->x.counters.lost, 1);
    turn(e, when_after(when_mono(), (span){60000}));
    assert_int_equal(remote_count(e->x.server), 0); /* nothing to renew any more */
}

static void a_server_in_trouble_loses_no_lease(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    e->status = 500;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    mono now = when_mono();
    turn_until_served(e, now, 1);
    assert_int_equal(r->plan.lease, PLAN_HELD);
    assert_true(r->renew_at.ns > now.ns && r->renew_at.ns <= when_after(now, (span){15000}).ns);
    assert_int_equal(r->renew_tries, 1);
}

static void all_leases_are_renewed_when_events_are_missing(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    for (int n = 0; n < 3; n++)
        exec_rig_run(e, n, 0)->renew_at = when_after(when_mono(), (span){20000});
    exec_runs_find(&e->x, exec_rig_id(2), 0)->plan.lease = PLAN_LOST;
    exec_leases_renew_all(&e->x);
    turn_until_served(e, when_mono(), 1);
    assert_int_equal(e->rig->served, 1);
    assert_true(exec_rig_body_has(e, 0, exec_rig_text(0)));
    assert_true(exec_rig_body_has(e, 0, exec_rig_text(1)));
    assert_false(exec_rig_body_has(e, 0, exec_rig_text(2)));
}

static void a_decision_that_cannot_be_delivered_yet_keeps_its_lease(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.stopping = true;
    for (int n = 0; n < 3; n++) {
        struct exec_run *r = exec_rig_run(e, n, 0);
        r->plan.lease = PLAN_DECIDED;
        r->plan.kept = n != 0;      /* the disk is full */
        r->plan.held_back = n == 1; /* its pod is still there */
    }
    turn_until_served(e, when_mono(), 1);
    assert_int_equal(e->rig->served, 1);
    assert_true(exec_rig_body_has(e, 0, exec_rig_text(0)));
    assert_true(exec_rig_body_has(e, 0, exec_rig_text(1)));
    assert_false(exec_rig_body_has(e, 0, exec_rig_text(2)));
}

static void a_full_cluster_is_tried_with_a_few_jobs_at_a_time(void **state)
{
    struct exec_rig *e = *state;
    adopt_none(e);
    e->x.no_room_streak = 16;
    mono now = when_mono();
    turn_until_served(e, now, 1);
    assert_true(exec_rig_body_has(e, 0, "\"count\":4,"));
    turn(e, now);
    assert_int_equal(remote_count(e->x.server), 0);
    assert_int_equal(e->next.ns, when_after(now, (span){2000}).ns);
    turn_until_served(e, e->next, 2);
    assert_true(exec_rig_body_has(e, 1, "\"count\":4,"));
    e->x.no_room_streak = 0; /* it had room for one */
    turn_until_served(e, now, 3);
    assert_true(exec_rig_body_has(e, 2, "\"count\":10,"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_rig_setup, exec_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(why_it_takes_nothing_is_told_once_a_minute),
        TEST(a_cluster_that_is_not_watched_is_told_after_a_while),
        TEST(what_is_in_flight_with_us_is_claimed_again_page_by_page),
        TEST(a_job_is_claimed_again_of_which_only_an_earlier_run_is_known),
        TEST(nothing_is_asked_for_before_it_is_known_what_is_in_flight),
        TEST(a_claim_asks_for_as_many_as_there_is_room_for),
        TEST(a_claim_asks_for_what_is_left_of_the_limit_of_a_queue),
        TEST(a_claim_asks_for_what_fits_beside_what_all_pods_have),
        TEST(no_job_is_asked_for_while_the_cluster_is_away),
        TEST(a_claim_is_withdrawn_when_there_is_room_for_what_it_leaves_out),
        TEST(a_claim_whose_answer_is_lost_is_repeated),
        TEST(an_executor_that_ends_asks_for_nothing),
        TEST(a_lease_is_renewed_after_a_third_of_it_counted_from_the_request),
        TEST(a_long_lease_is_renewed_every_20_s),
        TEST(leases_that_are_due_together_are_one_request_with_an_answer_for_each),
        TEST(one_request_renews_a_thousand_leases_at_most),
        TEST(an_older_server_is_asked_for_each_lease_64_at_a_time),
        TEST(leases_that_are_refused_for_one_of_them_are_renewed_each),
        TEST(what_waits_for_renewals_may_end),
        TEST(a_lease_that_the_server_does_not_know_is_lost),
        TEST(a_server_in_trouble_loses_no_lease),
        TEST(all_leases_are_renewed_when_events_are_missing),
        TEST(a_decision_that_cannot_be_delivered_yet_keeps_its_lease),
        TEST(a_full_cluster_is_tried_with_a_few_jobs_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
