/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"

#define QUERY "queue=a,b&event=job_dead,job_requeued,job_returned,job_completed,job_deleted"

static bool serve_stream(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    if (strcmp(q->path, "/events") != 0)
        return false;
    if (e->status != 200)
        return false;
    rig_stream(e->rig, x);
    return true;
}

static void begin(struct exec_rig *e)
{
    mono next = {0};
    e->serve = serve_stream;
    exec_follow_turn(&e->x, when_after(when_mono(), (span){60000}), &next);
    int served = e->rig->served;
    RIG_AWAIT(e->rig, e->rig->served > served && (e->rig->stream || e->status != 200));
}

static void end(struct exec_rig *e)
{
    http_stream_end(e->rig->stream);
    RIG_AWAIT(e->rig, remote_count(e->x.server) == 0);
    e->rig->stream = NULL;
}

static void tell(struct exec_rig *e, int number, const char *event, int job, int run)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"event\":\"%s\",\"cursor\":\"%d\",\"id\":\"%s\",\"run\":%d,\"from\":\"in_flight\","
             "\"to\":"
             "\"dead\",\"cause\":\"cancel\"}\n\n",
             event, number, exec_rig_text(job), run);
    rig_send(e->rig, line);
}

static void only_the_run_that_an_event_names_is_lost(void **state)
{
    struct exec_rig *e = *state;
    const struct exec_run *old = exec_rig_run(e, 1, 0), *other = exec_rig_run(e, 2, 1);
    const struct exec_run *newer = exec_rig_run(e, 1, 1);
    begin(e);
    exec_rig_assert_request(e, 0, "GET /events?" QUERY);
    tell(e, 7, "job_dead", 1, 0);
    RIG_AWAIT(e->rig, old->plan.lease == PLAN_LOST);
    assert_int_equal(newer->plan.lease, PLAN_HELD);
    assert_int_equal(other->plan.lease, PLAN_HELD);
}

static void a_stream_that_ended_goes_on_after_its_last_event(void **state)
{
    struct exec_rig *e = *state;
    const struct exec_run *r = exec_rig_run(e, 1, 0);
    begin(e);
    tell(e, 41, "job_dead", 1, 0);
    RIG_AWAIT(e->rig, r->plan.lease == PLAN_LOST);
    end(e);
    begin(e);
    exec_rig_assert_request(e, 1, "GET /events?" QUERY "&since=41");
}

static void leases_are_renewed_where_events_may_be_missing(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    mono later = when_after(when_mono(), (span){20000});
    r->renew_at = later;
    begin(e);
    assert_int_equal(r->renew_at.ns, later.ns); /* nothing has been missed */
    end(e);
    begin(e);
    assert_int_equal(r->renew_at.ns, 0); /* no event has come: where to go on is not known */
    r->renew_at = later;
    rig_send(e->rig, "{\"event\":\"gap\",\"from\":3,\"to\":9}\n");
    RIG_AWAIT(e->rig, r->renew_at.ns == 0);
}

static void a_server_that_does_not_know_the_number_is_asked_without_it(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *r = exec_rig_run(e, 1, 0);
    begin(e);
    tell(e, 41, "job_dead", 1, 0);
    RIG_AWAIT(e->rig, r->plan.lease == PLAN_LOST);
    end(e);
    e->status = 422;
    e->body = "{\"error\":\"no such event\",\"code\":\"unprocessable\"}";
    begin(e);
    RIG_AWAIT(e->rig, remote_count(e->x.server) == 0);
    e->status = 200;
    begin(e);
    exec_rig_assert_request(e, 2, "GET /events?" QUERY);
}

/* An event of more than 1 MiB, which no piece of is. */
static void an_event_that_is_too_long_is_passed_over(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *first = exec_rig_run(e, 1, 0), *second = exec_rig_run(e, 2, 0);
    char piece[8001];
    memset(piece, 'x', sizeof piece - 1);
    piece[sizeof piece - 1] = '\0';
    begin(e);
    rig_send(e->rig, "{\"more\":\"");
    for (int i = 0; i < 140; i++)
        rig_send(e->rig, piece);
    rig_send(e->rig, "\",");
    char line[300];
    snprintf(line, sizeof line,
             "\"event\":\"job_dead\",\"cursor\":\"1\",\"id\":\"%s\",\"run\":0,"
             "\"from\":\"in_flight\",\"to\":\"dead\",\"cause\":\"cancel\"}\n",
             exec_rig_text(1));
    rig_send(e->rig, line);
    tell(e, 2, "job_dead", 2, 0);
    RIG_AWAIT(e->rig, second->plan.lease == PLAN_LOST);
    assert_int_equal(first->plan.lease, PLAN_HELD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_rig_setup, exec_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_the_run_that_an_event_names_is_lost),
        TEST(a_stream_that_ended_goes_on_after_its_last_event),
        TEST(leases_are_renewed_where_events_may_be_missing),
        TEST(a_server_that_does_not_know_the_number_is_asked_without_it),
        TEST(an_event_that_is_too_long_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
