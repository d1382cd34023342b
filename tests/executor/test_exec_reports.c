/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"

static void turn(struct exec_rig *e, mono now)
{
    e->next = (mono){0};
    exec_reports_turn(&e->x, now, &e->next);
}

static void turn_until_served(struct exec_rig *e, mono now, int served)
{
    turn(e, now);
    RIG_AWAIT(e->rig, e->rig->served >= served && remote_count(e->x.server) == 0);
}

static void decide(struct exec_rig *e, struct exec_run *r, enum plan_result result, bool held_back)
{
    struct plan_step s = {.action = PLAN_DECIDE, .result = result, .held_back = held_back};
    exec_reports_decide(&e->x, r, &s);
}

static void await_kept(struct exec_rig *e, const struct exec_run *r)
{
    RIG_AWAIT(e->rig, r->plan.kept);
}

static size_t records(const struct exec_rig *e)
{
    size_t n = 0;
    LIST_EACH (node, journal_records(e->x.journal))
        n++;
    return n;
}

static void assert_posts(struct exec_rig *e, int n, int job, const char *verb)
{
    char words[100];
    snprintf(words, sizeof words, "POST /jobs/%s/%s", exec_rig_text(job), verb);
    exec_rig_assert_request(e, n, words);
}

/* Ends the process and begins another one, with the same journal. */
static void restart(struct exec_rig *e)
{
    exec_rig_forget(e);
    exec_rig_close_journal(e);
    exec_rig_open_journal(e);
    exec_reports_load(&e->x);
}

static void a_decision_is_delivered_only_once_it_is_on_the_disk(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    decide(e, r, PLAN_SUCCESS, false);
    assert_int_equal(r->plan.lease, PLAN_DECIDED);
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
    assert_false(exec_reports_idle(&e->x));
    await_kept(e, r);
    turn_until_served(e, when_mono(), 1);
    assert_posts(e, 0, 1, "success");
    assert_string_equal(exec_rig_request(e, 0)->body.at,
                        "{\"run\":0,\"token\":\"0000000000000002\"}");
    assert_true(r->plan.delivered);
    assert_null(r->report);
    assert_int_equal(records(e), 0);
    assert_true(exec_reports_idle(&e->x));
}

static void decisions_about_a_job_go_out_in_their_order(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *first = exec_rig_run(e, 1, 0), *second = exec_rig_run(e, 1, 1);
    struct exec_run *other = exec_rig_run(e, 2, 0);
    decide(e, first, PLAN_VANISHED, false);
    decide(e, second, PLAN_SUCCESS, false);
    decide(e, other, PLAN_SUCCESS, false);
    await_kept(e, other);
    e->status = 503;
    mono now = when_mono();
    turn_until_served(e, now, 2);
    assert_posts(e, 0, 1, "failure");
    assert_posts(e, 1, 2, "success");
    assert_false(first->plan.delivered || second->plan.delivered || other->plan.delivered);
    /* Both were refused, and wait for their time. */
    turn(e, now);
    assert_int_equal(remote_count(e->x.server), 0);
    assert_true(e->next.ns > now.ns);
    e->status = 200;
    now = when_after(when_mono(), (span){20000});
    turn_until_served(e, now, 4);
    assert_true(first->plan.delivered);
    turn_until_served(e, now, 5);
    assert_posts(e, 4, 1, "success");
    assert_true(second->plan.delivered);
}

static void decisions_outlive_the_process_in_their_order(void **state)
{
    struct exec_rig *e = *state;
    for (int n = 0; n < 3; n++)
        decide(e, exec_rig_run(e, n, n), n == 1 ? PLAN_VANISHED : PLAN_SUCCESS, false);
    await_kept(e, exec_runs_find(&e->x, exec_rig_id(2), 2));
    restart(e);
    assert_int_equal(e->x.run_count, 3);
    const struct exec_run *r = exec_runs_find(&e->x, exec_rig_id(1), 1);
    assert_int_equal(r->plan.lease, PLAN_DECIDED);
    assert_true(r->plan.kept);
    turn_until_served(e, when_mono(), 3);
    for (int n = 0; n < 3; n++)
        assert_posts(e, n, n, n == 1 ? "failure" : "success");
    assert_true(exec_rig_body_has(e, 1, "\"error_type\":\"PodDeleted\""));
    assert_true(exec_rig_body_has(e, 1, "\"token\":\"0000000000000002\""));
    restart(e);
    assert_int_equal(e->x.run_count, 0); /* what the server has is forgotten */
}

static void a_pod_that_was_created_is_known_after_a_restart(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 2);
    r->name = strdup("tenax-x-0-2");
    r->namespace = strdup("jobs");
    strcpy(r->uid, "u-1");
    exec_reports_pod(&e->x, r);
    exec_reports_pod(&e->x, r);
    assert_int_equal(records(e), 1);
    RIG_AWAIT(e->rig, r->pod_record->kept);
    mono kept = when_after(when_mono(), (span){1}); /* a record is in milliseconds */
    restart(e);
    r = exec_runs_find(&e->x, exec_rig_id(1), 2);
    assert_non_null(r);
    assert_true(r->adopted);
    /* Its time to find a node did not begin anew. */
    assert_true(r->plan.created.ns > 0 && r->plan.created.ns <= kept.ns);
    assert_int_equal(r->plan.lease, PLAN_HELD);
    assert_string_equal(r->name, "tenax-x-0-2");
    assert_string_equal(r->uid, "u-1");
}

static void a_decision_that_comes_too_late_is_forgotten(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    decide(e, r, PLAN_SUCCESS, false);
    await_kept(e, r);
    e->status = 409;
    e->body = "{\"error\":\"it is in run 1\",\"code\":\"stale_run\"}";
    turn_until_served(e, when_mono(), 1);
    assert_true(r->plan.delivered);
    assert_int_equal(records(e), 0);
    assert_int_equal(e->x.counters.reports, 0);
}

static bool refuse_long_ones(struct exec_rig *e, struct http_exchange *x,
                             const struct rig_request *q)
{
    (void)e;
    if (!strstr(q->body.at, "PodDeleted"))
        return false;
    rig_json(x, 422, "{\"error\":\"no\",\"code\":\"unprocessable\"}");
    return true;
}

static void a_failure_that_the_server_refuses_becomes_a_plain_one(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    e->serve = refuse_long_ones;
    decide(e, r, PLAN_VANISHED, false);
    await_kept(e, r);
    turn_until_served(e, when_mono(), 1);
    assert_false(r->plan.delivered);
    turn_until_served(e, when_mono(), 2);
    assert_posts(e, 1, 1, "failure");
    assert_true(exec_rig_body_has(e, 1, "refused by the server"));
    assert_true(r->plan.delivered);
}

static void what_is_held_back_waits_until_its_pod_is_gone(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    decide(e, r, PLAN_VANISHED, true);
    await_kept(e, r);
    turn(e, when_mono());
    assert_int_equal(remote_count(e->x.server), 0);
    assert_true(exec_reports_idle(&e->x)); /* an executor that ends does not wait for it */
    restart(e);
    r = exec_runs_find(&e->x, exec_rig_id(1), 0);
    assert_true(r->plan.held_back);
    exec_reports_deliver(&e->x, r);
    turn_until_served(e, when_mono(), 1);
    assert_posts(e, 0, 1, "failure");
}

static void a_job_without_room_goes_back_after_its_time_is_set(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    r->plan.refusal = PLAN_NO_ROOM;
    decide(e, r, PLAN_RELEASE, false);
    await_kept(e, r);
    turn_until_served(e, when_mono(), 1);
    char words[100];
    snprintf(words, sizeof words, "PATCH /jobs/%s", exec_rig_text(1));
    exec_rig_assert_request(e, 0, words);
    assert_true(exec_rig_body_has(e, 0, "{\"ready_at\":"));
    assert_false(r->plan.delivered);
    turn_until_served(e, when_mono(), 2);
    assert_posts(e, 1, 1, "release");
    assert_true(r->plan.delivered);
    assert_int_equal(e->x.counters.released, 1);
}

static void the_end_of_a_preempted_run_is_told_after_its_failure(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    decide(e, r, PLAN_PREEMPTED, false);
    await_kept(e, r);
    turn_until_served(e, when_mono(), 1);
    assert_posts(e, 0, 1, "failure");
    assert_true(r->plan.delivered);
    assert_non_null(r->report);
    assert_int_equal(records(e), 1);
    exec_reports_ended(&e->x, r);
    turn_until_served(e, when_mono(), 2);
    assert_posts(e, 1, 1, "terminated");
    assert_true(exec_rig_body_has(e, 1, "\"token\":\"0000000000000002\""));
    assert_null(r->report);
    assert_int_equal(records(e), 0);
}

static void many_decisions_go_out_32_at_a_time(void **state)
{
    struct exec_rig *e = *state;
    for (int n = 0; n < 100; n++)
        decide(e, exec_rig_run(e, n, 0), PLAN_SUCCESS, false);
    await_kept(e, exec_runs_find(&e->x, exec_rig_id(99), 0));
    mono now = when_mono();
    turn(e, now);
    turn(e, now);
    assert_int_equal(e->x.sending, 32);
    while (e->x.sending) {
        RIG_AWAIT(e->rig, e->x.sending == 0);
        turn(e, now);
    }
    assert_int_equal(e->rig->served, 100);
    assert_int_equal(e->x.counters.reports, 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_rig_setup, exec_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_decision_is_delivered_only_once_it_is_on_the_disk),
        TEST(decisions_about_a_job_go_out_in_their_order),
        TEST(decisions_outlive_the_process_in_their_order),
        TEST(a_pod_that_was_created_is_known_after_a_restart),
        TEST(a_decision_that_comes_too_late_is_forgotten),
        TEST(a_failure_that_the_server_refuses_becomes_a_plain_one),
        TEST(what_is_held_back_waits_until_its_pod_is_gone),
        TEST(a_job_without_room_goes_back_after_its_time_is_set),
        TEST(the_end_of_a_preempted_run_is_told_after_its_failure),
        TEST(many_decisions_go_out_32_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
