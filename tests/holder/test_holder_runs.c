/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"
#include "holder/renewals.h"

#define STALE "{\"code\":\"stale_token\",\"error\":\"the run is over\"}"

static struct holder_rig *begin(void **state)
{
    struct holder_rig *t = *state;
    holder_rig_start(t, &(struct holder_scope){.adopts = false});
    return t;
}

static void success(struct kept *k)
{
    holder_runs_report(k->run, HOLDER_SUCCESS, (struct str){0});
}

/* --- renewals --- */

static void leases_that_are_due_are_renewed_together(void **state)
{
    struct holder_rig *t = begin(state);
    for (int n = 1; n <= 3; n++)
        holder_rig_hold(t, n);
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 0);
    assert_true(t->next.ns <= when_after(when_mono(), (span){LEASE_MS / 3}).ns);
    t->answers = (struct holder_answer[]){
        {"/renew", 422, "{\"jobs\":[{\"lease_expires_at\":1}," STALE ",{\"lease_expires_at\":1}]}"},
        {0}};
    holder_rig_turn(t, LEASE_MS / 3);
    holder_rig_assert(t, 0, "POST /jobs/renew");
    assert_true(holder_rig_has(t, 0, "\"token\":\"0000000000000002\""));
    assert_int_equal(t->kept[1].lost, 1);
    assert_true(t->kept[0].run && t->kept[2].run);
    assert_int_equal(holder_runs_count(t->holder), 2);
}

static void a_renewal_without_an_answer_comes_again_after_a_pause(void **state)
{
    struct holder_rig *t = begin(state);
    holder_rig_hold(t, 1);
    t->answers = (struct holder_answer[]){{"/renew", LOST, ""}, {0}};
    holder_rig_turn(t, LEASE_MS / 3);
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 1);
    assert_true(t->next.ns <= when_after(when_mono(), (span){200}).ns);
    holder_rig_turn(t, 400);
    assert_int_equal(t->rig->served, 2);
    assert_int_equal(t->kept[0].lost, 0);
}

/* Those that are under way when the run is reported or dropped have nobody to be answered. */
static void a_renewal_of_a_run_that_is_over_leaves_the_others_their_answers(void **state)
{
    struct holder_rig *t = begin(state);
    for (int n = 1; n <= 3; n++)
        holder_rig_hold(t, n);
    t->answers = (struct holder_answer[]){{"/renew", HOLD, ""}, {0}};
    t->next = (mono){0};
    holder_turn(t->holder, when_after(when_mono(), (span){LEASE_MS / 3}), &t->next);
    RIG_AWAIT(t->rig, t->rig->held_count == 1);
    holder_rig_assert(t, 0, "POST /jobs/renew");
    holder_runs_drop(t->kept[0].run);
    rig_json(t->rig->held[0], 422,
             "{\"jobs\":[{\"lease_expires_at\":1},{\"lease_expires_at\":1}," STALE "]}");
    t->rig->held_count = 0;
    RIG_AWAIT(t->rig, remote_count(t->server) == 0);
    assert_int_equal(t->kept[1].lost, 0);
    assert_int_equal(t->kept[2].lost, 1);
}

static void renewals_that_were_dropped_leave_room_for_others(void **state)
{
    struct holder_rig *t = begin(state);
    for (size_t i = 0; i <= RENEWALS_ALONE_MAX; i++) {
        struct kept *k = holder_rig_hold(t, 1);
        t->next = (mono){0};
        holder_turn(t->holder, when_after(when_mono(), (span){LEASE_MS / 3}), &t->next);
        assert_int_equal(remote_count(t->server), 1);
        holder_runs_drop(k->run);
        t->kept_count = 0;
        RIG_AWAIT(t->rig, remote_count(t->server) == 0);
    }
}

/* --- reports --- */

static void a_report_is_repeated_until_it_is_answered(void **state)
{
    struct holder_rig *t = begin(state);
    struct kept *k = holder_rig_hold(t, 1);
    char words[100];
    t->answers = (struct holder_answer[]){{"/failure", LOST, ""},
                                          {"/failure", 401, "{\"code\":\"x\",\"error\":\"y\"}"},
                                          {"/failure", 507, "{\"code\":\"x\",\"error\":\"y\"}"},
                                          {0}};
    holder_runs_report(k->run, HOLDER_FAILURE, STR(",\"message\":\"no\""));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(k->reported, 0);
        holder_rig_turn(t, i ? 3000 : 0);
    }
    assert_int_equal(t->rig->served, 4);
    snprintf(words, sizeof words, "POST /jobs/%s/failure", holder_rig_id(1));
    for (int n = 0; n < 4; n++) {
        holder_rig_assert(t, n, words);
        assert_true(
            holder_rig_has(t, n, "{\"run\":3,\"token\":\"0000000000000001\",\"message\":\"no\"}"));
    }
    assert_int_equal(k->reported, 1);
    assert_int_equal(k->status, 200);
    assert_int_equal(holder_runs_count(t->holder), 0);
}

/* The server may be away for longer than the lease, and give it time when it is back. */
static void the_lease_is_renewed_while_the_report_finds_no_answer(void **state)
{
    struct holder_rig *t = begin(state);
    struct kept *k = holder_rig_hold(t, 1);
    t->answers = (struct holder_answer[]){{"/success", LOST, ""}, {"/success", LOST, ""}, {0}};
    success(k);
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 1);
    t->answers = (struct holder_answer[]){
        {"/success", LOST, ""}, {"/renew", 409, STALE}, {"/success", 204, ""}, {0}};
    holder_rig_turn(t, LEASE_MS / 3);
    assert_int_equal(t->rig->served, 3);
    /* Its end may be what the report has done: the answer to that counts. */
    assert_int_equal(k->lost, 0);
    holder_rig_turn(t, LEASE_MS);
    assert_int_equal(t->rig->served, 4);
    assert_int_equal(k->reported, 1);
}

static void a_run_that_is_over_is_the_answer_to_its_report(void **state)
{
    struct holder_rig *t = begin(state);
    struct kept *k = holder_rig_hold(t, 1);
    t->answers = (struct holder_answer[]){{NULL, 409, STALE}, {0}};
    success(k);
    holder_rig_turn(t, 0);
    assert_int_equal(k->reported, 1);
    assert_int_equal(k->status, 409);
}

static void successes_are_reported_together_and_refused_ones_each(void **state)
{
    struct holder_rig *t = begin(state);
    char body[300], words[100];
    for (int n = 1; n <= 3; n++)
        success(holder_rig_hold(t, n));
    snprintf(body, sizeof body,
             "{\"code\":\"unprocessable\",\"error\":\"e\",\"not_found\":[\"%s\"]}",
             holder_rig_id(2));
    t->answers = (struct holder_answer[]){{NULL, 422, body}, {NULL, 409, STALE}, {0}};
    holder_rig_turn(t, 0);
    holder_rig_assert(t, 0, "POST /jobs/success");
    for (int n = 1; n <= 3; n++)
        assert_true(holder_rig_has(t, 0, holder_rig_id(n)));
    assert_true(holder_rig_has(t, 0, "\"token\":\"0000000000000003\""));
    assert_int_equal(t->kept[0].status, 204);
    assert_int_equal(t->kept[2].status, 204);
    assert_int_equal(t->kept[1].reported, 0);
    holder_rig_turn(t, 0);
    snprintf(words, sizeof words, "POST /jobs/%s/success", holder_rig_id(2));
    holder_rig_assert(t, 1, words);
    assert_int_equal(t->kept[1].status, 409);
}

static void successes_without_an_answer_are_repeated_together(void **state)
{
    struct holder_rig *t = begin(state);
    for (int n = 1; n <= 3; n++)
        success(holder_rig_hold(t, n));
    t->answers = (struct holder_answer[]){{NULL, LOST, ""}, {0}};
    holder_rig_turn(t, 0);
    holder_rig_turn(t, 400);
    assert_int_equal(t->rig->served, 2);
    holder_rig_assert(t, 1, "POST /jobs/success");
    for (int i = 0; i < 3; i++)
        assert_int_equal(t->kept[i].reported, 1);
}

static void what_comes_up_meanwhile_waits_for_the_successes_under_way(void **state)
{
    struct holder_rig *t = begin(state);
    t->answers = (struct holder_answer[]){{NULL, HOLD, ""}, {0}};
    for (int n = 1; n <= 2; n++)
        success(holder_rig_hold(t, n));
    t->next = (mono){0};
    holder_turn(t->holder, when_mono(), &t->next);
    RIG_AWAIT(t->rig, t->rig->held_count == 1);
    for (int n = 3; n <= 4; n++)
        success(holder_rig_hold(t, n));
    holder_runs_report(holder_rig_hold(t, 5)->run, HOLDER_RELEASE, (struct str){0});
    holder_rig_turn(t, 0); /* the release does not wait */
    assert_int_equal(t->rig->served, 2);
    assert_int_equal(t->kept[4].reported, 1);
    rig_json(t->rig->held[0], 204, "");
    t->rig->held_count = 0;
    RIG_AWAIT(t->rig, t->kept[1].reported == 1);
    holder_rig_turn(t, 0);
    holder_rig_assert(t, 2, "POST /jobs/success");
    assert_true(holder_rig_has(t, 2, holder_rig_id(3)) && holder_rig_has(t, 2, holder_rig_id(4)));
    assert_int_equal(t->kept[3].reported, 1);
}

static void the_report_of_a_run_that_is_dropped_is_delivered(void **state)
{
    struct holder_rig *t = begin(state);
    struct kept *k = holder_rig_hold(t, 1), *l = holder_rig_hold(t, 2);
    success(k);
    holder_runs_drop(k->run);
    holder_runs_drop(l->run); /* there is nothing to say of it */
    assert_int_equal(holder_runs_count(t->holder), 1);
    t->answers = (struct holder_answer[]){{NULL, LOST, ""}, {0}};
    holder_rig_turn(t, 0);
    holder_rig_turn(t, 400);
    assert_int_equal(t->rig->served, 2);
    assert_int_equal(k->reported, 0);
    assert_int_equal(holder_runs_count(t->holder), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, holder_rig_setup, holder_rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(leases_that_are_due_are_renewed_together),
        TEST(a_renewal_without_an_answer_comes_again_after_a_pause),
        TEST(a_renewal_of_a_run_that_is_over_leaves_the_others_their_answers),
        TEST(renewals_that_were_dropped_leave_room_for_others),
        TEST(a_report_is_repeated_until_it_is_answered),
        TEST(the_lease_is_renewed_while_the_report_finds_no_answer),
        TEST(a_run_that_is_over_is_the_answer_to_its_report),
        TEST(successes_are_reported_together_and_refused_ones_each),
        TEST(successes_without_an_answer_are_repeated_together),
        TEST(what_comes_up_meanwhile_waits_for_the_successes_under_way),
        TEST(the_report_of_a_run_that_is_dropped_is_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
