/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"

#define JOB(token)                                                                                 \
    "{\"id\":\"%s\",\"queue\":\"q\",\"type\":\"t\",\"status\":\"in_flight\",\"run\":1,\"token\":"  \
    "\"" token "\"}"
#define SECOND ((span){1000})

/* The text of an answer to a claim with one job. */
static const char *one_job(int n)
{
    static char text[200];
    snprintf(text, sizeof text, "{\"jobs\":[" JOB("abcd") "]}", holder_rig_id(n));
    return text;
}

static void claim(struct holder_rig *t)
{
    mono late = when_after(when_mono(), (span){LEASE_MAX});
    assert_true(holder_claims_may_ask(t->claims, late, &t->next));
    holder_claims_ask(t->claims, STR("\"a\",\"b\""), 5, SECOND);
}

static const char *claim_id(struct holder_rig *t, int n)
{
    const char *at = strstr(t->rig->requests[n].body.at, "\"claim_id\"");
    assert_non_null(at);
    return at;
}

/* They are the same up to the worker's name. */
static bool same_claim(struct holder_rig *t, int n, int m)
{
    return strcmp(claim_id(t, n), claim_id(t, m)) == 0;
}

static void start(struct holder_rig *t)
{
    holder_rig_start(t, &(struct holder_scope){.adopts = false});
}

static void a_claim_gives_its_jobs(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, 200, one_job(1)}, {0}};
    claim(t);
    assert_false(holder_claims_may_ask(t->claims, when_mono(), &t->next));
    holder_rig_turn(t, 0);
    holder_rig_assert(t, 0, "POST /jobs/claim");
    assert_true(holder_rig_has(t, 0,
                               "\"queues\":[\"a\",\"b\"],\"count\":5,\"lease_ms\":30000,"
                               "\"wait_ms\":1000"));
    assert_int_equal(t->kept_count, 1);
    assert_false(t->kept[0].again);
    assert_int_equal(t->kept[0].index, 1);
    assert_int_equal(t->refused, 0);
    claim(t);
    holder_rig_turn(t, 0);
    assert_false(same_claim(t, 0, 1));
}

static void a_claim_without_an_answer_is_repeated_until_there_is_one(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, LOST, ""},
                                          {NULL, 503, "{\"code\":\"x\",\"error\":\"y\"}"},
                                          {NULL, 200, one_job(1)},
                                          {0}};
    claim(t);
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 1);
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 1); /* after a pause */
    assert_true(t->next.ns > 0);
    assert_false(holder_claims_may_ask(t->claims, when_after(when_mono(), SECOND), &t->next));
    assert_false(holder_claims_are_idle(t->claims));
    holder_rig_turn(t, LEASE_MAX);
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->rig->served, 3);
    assert_true(same_claim(t, 0, 1) && same_claim(t, 0, 2));
    assert_true(holder_rig_has(t, 1, "\"wait_ms\":0"));
    assert_int_equal(t->answered, 1);
    assert_int_equal(t->kept_count, 1);
    assert_true(t->kept[0].again);
    assert_true(holder_claims_are_idle(t->claims));
}

static void a_refused_claim_is_over(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, 422, "{\"code\":\"x\",\"error\":\"y\"}"}, {0}};
    claim(t);
    holder_rig_turn(t, 0);
    assert_int_equal(t->refused, 1);
    t->next = (mono){0};
    assert_false(holder_claims_may_ask(t->claims, when_mono(), &t->next));
    assert_true(t->next.ns > 0);
    assert_true(
        holder_claims_may_ask(t->claims, when_after(when_mono(), (span){LEASE_MAX}), &t->next));
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->rig->served, 1);
}

/* Whether its first request got jobs is still not known. */
static void a_sender_who_is_refused_later_repeats_the_same_claim(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, LOST, ""},
                                          {NULL, 401, "{\"code\":\"x\",\"error\":\"y\"}"},
                                          {NULL, 200, one_job(1)},
                                          {0}};
    claim(t);
    holder_rig_turn(t, 0);
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->refused, 1);
    holder_rig_turn(t, LEASE_MAX);
    assert_true(same_claim(t, 0, 2));
    assert_int_equal(t->kept_count, 1);
}

static void a_stop_has_the_claim_answered_and_asks_once_more_for_one_without_an_answer(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, HOLD, ""}, {0}};
    t->returns = true;
    claim(t);
    RIG_AWAIT(t->rig, t->rig->held_count == 1);
    holder_claims_stop(t->claims);
    RIG_AWAIT(t->rig, t->rig->served == 2);
    holder_rig_assert(t, 1, "DELETE /jobs/claim?worker=" NAME);
    RIG_AWAIT(t->rig, remote_count(t->server) == 1);
    assert_false(holder_claims_are_idle(t->claims));
    t->answers = (struct holder_answer[]){{NULL, 200, one_job(1)}, {0}};
    rig_json(t->rig->held[0], 502, "<html>");
    t->rig->held_count = 0;
    RIG_AWAIT(t->rig, remote_count(t->server) == 0);
    assert_false(holder_claims_are_idle(t->claims));
    holder_rig_turn(t, LEASE_MAX);
    holder_rig_turn(t, 0);
    assert_true(same_claim(t, 0, 2));
    /* What it gets is given back, although nobody keeps it. */
    char words[100];
    snprintf(words, sizeof words, "POST /jobs/%s/release", holder_rig_id(1));
    holder_rig_assert(t, 3, words);
    assert_true(holder_rig_has(t, 3, "\"token\":\"abcd\""));
    assert_int_equal(holder_runs_count(t->holder), 0);
    assert_true(holder_claims_are_idle(t->claims));
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->rig->served, 4);
}

static void a_claim_that_is_sent_once_more_is_given_up_without_an_answer(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, LOST, ""}, {NULL, LOST, ""}, {0}};
    claim(t);
    holder_rig_turn(t, 0);
    holder_claims_stop(t->claims);
    assert_false(holder_claims_are_idle(t->claims));
    holder_rig_turn(t, 0); /* at once */
    assert_int_equal(t->rig->served, 2);
    assert_true(holder_claims_are_idle(t->claims));
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->rig->served, 2);
}

/* --- adoption --- */

static void jobs_of_an_earlier_process_are_claimed_again_page_by_page(void **state)
{
    struct holder_rig *t = *state;
    char pages[2][200], jobs[2][200], words[100];
    for (int n = 0; n < 2; n++) {
        snprintf(jobs[n], sizeof jobs[n], JOB("abcd"), holder_rig_id(n + 1));
        snprintf(pages[n], sizeof pages[n], "{\"jobs\":[{\"id\":\"%s\"}],\"pages\":{\"next\":%s}}",
                 holder_rig_id(n + 1), n ? "null" : "\"/jobs?page=2\"");
    }
    t->answers = (struct holder_answer[]){{NULL, 200, pages[0]},
                                          {NULL, 200, jobs[0]},
                                          {NULL, 200, pages[1]},
                                          {NULL, 200, jobs[1]},
                                          {0}};
    holder_rig_start(t, &(struct holder_scope){.adopts = true, .queue = "q"});
    assert_false(holder_claims_may_ask(t->claims, when_mono(), &t->next));
    holder_rig_turn(t, 0);
    holder_rig_assert(t, 0, "GET /jobs?worker=" NAME "&queue=q&status=in_flight&limit=50");
    snprintf(words, sizeof words, "POST /jobs/%s/claim", holder_rig_id(1));
    holder_rig_assert(t, 1, words);
    assert_true(holder_rig_has(t, 1, "{\"worker\":\"" NAME "\",\"lease_ms\":30000}"));
    holder_rig_turn(t, 0);
    assert_int_equal(t->kept_count, 2);
    assert_true(t->kept[0].again && t->kept[1].again);
    claim(t);
}

/* Its lease may be almost over. */
static void an_adopted_job_is_renewed_at_once(void **state)
{
    struct holder_rig *t = *state;
    char page[200], job[200], words[100];
    snprintf(job, sizeof job, JOB("abcd"), holder_rig_id(1));
    snprintf(page, sizeof page, "{\"jobs\":[{\"id\":\"%s\"}]}", holder_rig_id(1));
    t->answers = (struct holder_answer[]){{NULL, 200, page}, {NULL, 200, job}, {0}};
    holder_rig_start(t, &(struct holder_scope){.adopts = true});
    holder_rig_turn(t, 0);
    holder_rig_turn(t, 0);
    snprintf(words, sizeof words, "POST /jobs/%s/renew", holder_rig_id(1));
    holder_rig_assert(t, 2, words);
    assert_true(holder_rig_has(t, 2, "\"token\":\"abcd\""));
}

/* A token may be read again meanwhile. */
static void an_adoption_whose_sender_is_refused_begins_again(void **state)
{
    struct holder_rig *t = *state;
    char page[200], job[200];
    snprintf(job, sizeof job, JOB("abcd"), holder_rig_id(1));
    snprintf(page, sizeof page, "{\"jobs\":[{\"id\":\"%s\"}]}", holder_rig_id(1));
    t->answers = (struct holder_answer[]){{NULL, 200, page},
                                          {NULL, 403, "{\"code\":\"x\",\"error\":\"y\"}"},
                                          {NULL, 200, page},
                                          {NULL, 200, job},
                                          {0}};
    holder_rig_start(t, &(struct holder_scope){.adopts = true});
    holder_rig_turn(t, 0);
    assert_false(holder_claims_have_adopted(t->claims));
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->kept_count, 1);
    assert_true(holder_claims_have_adopted(t->claims));
}

static void an_adoption_without_an_answer_begins_again_with_the_list(void **state)
{
    struct holder_rig *t = *state;
    char page[200], job[200];
    snprintf(job, sizeof job, JOB("abcd"), holder_rig_id(1));
    snprintf(page, sizeof page, "{\"jobs\":[{\"id\":\"%s\"},{\"id\":\"no\"}]}", holder_rig_id(1));
    t->answers = (struct holder_answer[]){{NULL, LOST, ""},  {NULL, 200, page}, {NULL, LOST, ""},
                                          {NULL, 200, page}, {NULL, 409, "{}"}, {0}};
    holder_rig_start(t, &(struct holder_scope){.adopts = true});
    for (int i = 0; i < 3; i++)
        holder_rig_turn(t, i ? LEASE_MAX : 0);
    assert_int_equal(t->rig->served, 5);
    assert_int_equal(t->kept_count, 0);
    assert_false(holder_claims_may_ask(t->claims, when_mono(), &t->next)); /* 409 without a code */
    t->answers = (struct holder_answer[]){
        {NULL, 200, page}, {NULL, 409, "{\"code\":\"c\",\"error\":\"e\"}"}, {0}};
    holder_rig_turn(t, LEASE_MAX);
    assert_int_equal(t->kept_count, 0); /* it is another's by now */
    claim(t);
}

static void what_is_known_is_not_claimed_again(void **state)
{
    struct holder_rig *t = *state;
    char page[200];
    snprintf(page, sizeof page, "{\"jobs\":[{\"id\":\"%s\"}]}", holder_rig_id(1));
    t->answers = (struct holder_answer[]){{NULL, 200, page}, {0}};
    t->knows = true;
    holder_rig_start(t, &(struct holder_scope){.adopts = true});
    holder_rig_turn(t, 0);
    assert_int_equal(t->rig->served, 1);
    claim(t);
}

static void what_is_under_way_may_be_abandoned(void **state)
{
    struct holder_rig *t = *state;
    start(t);
    t->answers = (struct holder_answer[]){{NULL, HOLD, ""}, {NULL, HOLD, ""}, {0}};
    holder_rig_hold(t, 1);
    holder_runs_report(t->kept[0].run, HOLDER_FAILURE, (struct str){0});
    claim(t);
    t->next = (mono){0};
    holder_turn(t->holder, when_mono(), &t->next);
    assert_int_equal(remote_count(t->server), 2);
    /* The teardown frees the holder, and finds that nothing is left. */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, holder_rig_setup, holder_rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_claim_gives_its_jobs),
        TEST(a_claim_without_an_answer_is_repeated_until_there_is_one),
        TEST(a_refused_claim_is_over),
        TEST(a_sender_who_is_refused_later_repeats_the_same_claim),
        TEST(a_stop_has_the_claim_answered_and_asks_once_more_for_one_without_an_answer),
        TEST(a_claim_that_is_sent_once_more_is_given_up_without_an_answer),
        TEST(jobs_of_an_earlier_process_are_claimed_again_page_by_page),
        TEST(an_adopted_job_is_renewed_at_once),
        TEST(an_adoption_whose_sender_is_refused_begins_again),
        TEST(an_adoption_without_an_answer_begins_again_with_the_list),
        TEST(what_is_known_is_not_claimed_again),
        TEST(what_is_under_way_may_be_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
