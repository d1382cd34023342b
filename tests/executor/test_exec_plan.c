/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/array.h"
#include "executor/exec_plan.h"

#define NOW      ((mono){1000000000000L})
#define AGO(s)   ((mono){1000000000000L - (s)*1000000000L})
#define AHEAD(s) AGO(-(s))

static const struct plan_limits limits = {.scheduling = {180000},
                                          .initializing = {0},
                                          .keep_succeeded = {60000},
                                          .keep_failed = {600000}};

/* A row may say otherwise than its macro does. */
#pragma GCC diagnostic ignored "-Woverride-init"

/* What a run of that lease and pod looks like if nothing is said. */
#define HELD(...)                                                                                  \
    {                                                                                              \
        .lease = PLAN_HELD, .synced = true, __VA_ARGS__                                            \
    }
#define LOST(...)                                                                                  \
    {                                                                                              \
        .lease = PLAN_LOST, .synced = true, __VA_ARGS__                                            \
    }
#define DECIDED(...)                                                                               \
    {                                                                                              \
        .lease = PLAN_DECIDED, .synced = true, .kept = true, __VA_ARGS__                           \
    }
#define POD(state) .pod = PLAN_POD_##state

struct row {
    const char *fact;
    struct plan_run run;
    enum plan_action action;
    enum plan_result result;
    bool held_back;
    mono until;
};

/* clang-format off: a table */
static const struct row rows[] = {
    /* A pod begins. */
    {"a_held_run_gets_a_pod", HELD(), PLAN_CREATE},
    {"not_before_the_pods_are_listed", HELD(.synced = false), PLAN_WAIT},
    {"not_twice_at_once", HELD(.creating = true), PLAN_WAIT},
    {"it_goes_back_when_the_executor_ends", HELD(.stopping = true), PLAN_DECIDE, PLAN_RELEASE},
    {"but_not_if_there_may_be_a_pod", HELD(.stopping = true, .tried = true), PLAN_WAIT},
    {"not_before_the_wait_after_a_failed_request_is_over", HELD(.not_before = AHEAD(2)), PLAN_WAIT,
     .until = AHEAD(2)},
    {"again_when_it_is_over", HELD(.not_before = NOW), PLAN_CREATE},
    {"another_pod_of_the_job_goes_first", HELD(.blocked = true), PLAN_CLEAR},
    {"and_is_waited_for", HELD(.blocked = true, .clearing = true), PLAN_WAIT},
    {"members_of_a_gang_wait_for_each_other", HELD(.gang_waits = true), PLAN_WAIT},
    {"a_pod_that_is_refused_is_a_failure", HELD(.refusal = PLAN_REFUSED), PLAN_DECIDE,
     PLAN_NOT_CREATED},
    {"a_pod_without_room_is_not", HELD(.refusal = PLAN_NO_ROOM), PLAN_DECIDE, PLAN_RELEASE},
    {"nor_one_that_the_executor_may_not_make", HELD(.refusal = PLAN_DENIED), PLAN_DECIDE,
     PLAN_RELEASE},
    {"a_suspended_executor_gives_back_what_has_no_pod", HELD(.suspended = true), PLAN_DECIDE,
     PLAN_RELEASE},
    {"but_goes_on_where_there_may_be_one", HELD(.suspended = true, .tried = true), PLAN_CREATE},
    {"what_was_refused_is_reported_also_while_the_executor_ends",
     HELD(.refusal = PLAN_REFUSED, .stopping = true), PLAN_DECIDE, PLAN_NOT_CREATED},

    /* It starts. */
    {"a_pod_may_wait_for_a_node", HELD(POD(WAITING), .created = AGO(179)), PLAN_WAIT,
     .until = AHEAD(1)},
    {"not_for_ever", HELD(POD(WAITING), .created = AGO(180), .logs = PLAN_LOGS_READ), PLAN_DECIDE,
     PLAN_UNSCHEDULABLE, true},
    {"one_whose_creation_is_not_known_yet_waits", HELD(POD(WAITING)), PLAN_WAIT},
    {"one_that_no_node_fits_makes_way_for_a_less_demanding_one",
     HELD(POD(WAITING), .created = AGO(9), .misfit = true), PLAN_REPLACE},
    {"once_it_is_being_deleted_it_is_waited_for",
     HELD(POD(WAITING), .created = AGO(9), .misfit = true, .deleting = true), PLAN_WAIT},
    {"behind_a_scheduling_gate_it_waits_without_a_limit",
     HELD(POD(WAITING), .created = AGO(990), .gated = true), PLAN_WAIT},
    {"images_are_pulled_without_a_limit",
     HELD(POD(INITIALIZING), .created = AGO(990), .initialized = AGO(980)), PLAN_WAIT},
    {"a_running_pod_runs", HELD(POD(RUNNING), .created = AGO(990)), PLAN_WAIT},
    {"logs_of_a_doomed_pod_are_read_first", HELD(POD(DOOMED)), PLAN_READ_LOGS},
    {"and_waited_for", HELD(POD(DOOMED), .logs = PLAN_LOGS_READING), PLAN_WAIT},
    {"a_doomed_pod_has_to_go_before_its_failure_is_told", HELD(POD(DOOMED), .logs = PLAN_LOGS_READ),
     PLAN_DECIDE, PLAN_FAILURE, true},

    /* It ends. */
    {"success", HELD(POD(SUCCEEDED), .logs = PLAN_LOGS_READ), PLAN_DECIDE, PLAN_SUCCESS},
    {"logs_come_before_a_failure", HELD(POD(FAILED)), PLAN_READ_LOGS},
    {"later_if_they_could_not_be_read", HELD(POD(FAILED), .not_before = AHEAD(1)), PLAN_WAIT,
     .until = AHEAD(1)},
    {"failure", HELD(POD(FAILED), .logs = PLAN_LOGS_READ), PLAN_DECIDE, PLAN_FAILURE},
    {"a_pod_that_ended_while_it_is_deleted_tells_how",
     HELD(POD(FAILED), .logs = PLAN_LOGS_READ, .deleting = true), PLAN_DECIDE, PLAN_FAILURE},
    {"nothing_is_read_from_a_lost_node", HELD(POD(NODE_LOST)), PLAN_DECIDE, PLAN_FAILURE},
    {"somebody_deletes_it", HELD(POD(RUNNING), .deleting = true), PLAN_WAIT},
    {"and_it_is_gone", HELD(POD(GONE)), PLAN_DECIDE, PLAN_VANISHED},
    {"a_deadline_does_not_matter_while_somebody_deletes_it",
     HELD(POD(WAITING), .created = AGO(999), .deleting = true), PLAN_WAIT},
    {"a_preempted_pod_is_told_of_at_once", HELD(POD(RUNNING), .deleting = true, .preempted = true),
     PLAN_DECIDE, PLAN_PREEMPTED},
    {"one_that_has_ended_is_a_failure_like_others",
     HELD(POD(FAILED), .preempted = true, .logs = PLAN_LOGS_READ), PLAN_DECIDE, PLAN_FAILURE},

    /* A decision. */
    {"nothing_is_deleted_before_the_decision_is_on_disk",
     DECIDED(POD(DOOMED), .kept = false, .held_back = true), PLAN_WAIT},
    {"a_doomed_pod_is_deleted", DECIDED(POD(DOOMED), .held_back = true), PLAN_DELETE},
    {"once", DECIDED(POD(DOOMED), .held_back = true, .deleting = true), PLAN_WAIT},
    {"again_after_a_wait_if_that_failed",
     DECIDED(POD(DOOMED), .held_back = true, .not_before = AHEAD(3)), PLAN_WAIT, .until = AHEAD(3)},
    {"then_its_failure_is_delivered", DECIDED(POD(GONE), .held_back = true), PLAN_DELIVER},
    {"also_if_it_ended_by_itself", DECIDED(POD(FAILED), .held_back = true), PLAN_DELIVER},
    {"also_if_its_node_is_lost", DECIDED(POD(NODE_LOST), .held_back = true), PLAN_DELIVER},
    {"also_if_it_was_never_created", DECIDED(POD(NONE), .held_back = true), PLAN_DELIVER},
    {"a_preempted_pod_ends_by_itself", DECIDED(POD(RUNNING), .was_preempted = true), PLAN_WAIT},
    {"its_end_is_told", DECIDED(POD(GONE), .was_preempted = true), PLAN_TELL_END},
    {"also_if_it_is_still_listed", DECIDED(POD(FAILED), .was_preempted = true), PLAN_TELL_END},
    {"once_only", DECIDED(POD(GONE), .was_preempted = true, .told_end = true, .delivered = true),
     PLAN_FORGET},
    {"a_succeeded_pod_is_kept_a_while", DECIDED(POD(SUCCEEDED), .ended = AGO(59)), PLAN_WAIT,
     .until = AHEAD(1)},
    {"then_deleted", DECIDED(POD(SUCCEEDED), .ended = AGO(60)), PLAN_DELETE},
    {"a_failed_one_longer", DECIDED(POD(FAILED), .ended = AGO(60)), PLAN_WAIT, .until = AHEAD(540)},
    {"not_for_ever_either", DECIDED(POD(FAILED), .ended = AGO(600)), PLAN_DELETE},
    {"a_pod_of_a_lost_node_too", DECIDED(POD(NODE_LOST), .ended = AGO(600)), PLAN_DELETE},
    {"an_undelivered_decision_is_not_forgotten", DECIDED(POD(GONE)), PLAN_WAIT},
    {"a_delivered_one_is", DECIDED(POD(GONE), .delivered = true), PLAN_FORGET},
    {"a_pod_that_comes_to_light_after_the_decision_is_deleted",
     DECIDED(POD(RUNNING), .delivered = true), PLAN_DELETE},
    {"a_request_for_it_is_waited_for", DECIDED(.creating = true, .delivered = true), PLAN_WAIT},

    /* A lost lease. */
    {"its_pod_is_deleted", LOST(POD(RUNNING)), PLAN_DELETE},
    {"also_one_that_waits", LOST(POD(WAITING)), PLAN_DELETE},
    {"and_waited_for", LOST(POD(RUNNING), .deleting = true), PLAN_WAIT},
    {"until_it_is_gone", LOST(POD(GONE)), PLAN_FORGET},
    {"without_a_pod_nothing_is_left", LOST(), PLAN_FORGET},
    {"unless_pods_are_not_known", LOST(.synced = false), PLAN_WAIT},
    {"or_one_may_be_coming", LOST(.creating = true), PLAN_WAIT},
    {"a_pod_that_had_ended_is_kept_as_others_are", LOST(POD(FAILED), .ended = AGO(1)), PLAN_WAIT,
     .until = AHEAD(599)},
};
/* clang-format on */

static void check(const struct row *r, const struct plan_step *s)
{
    if (s->action == r->action && s->result == r->result && s->held_back == r->held_back &&
        s->until.ns == r->until.ns)
        return;
    fail_msg("%s: action %d, not %d; result %d, not %d; held back %d, not %d; until %lld, not %lld",
             r->fact, s->action, r->action, s->result, r->result, s->held_back, r->held_back,
             (long long)s->until.ns, (long long)r->until.ns);
}

static void the_table_of_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct plan_step s = exec_plan(&rows[i].run, &limits, NOW);
        check(&rows[i], &s);
    }
}

static void a_limit_for_the_start_counts_from_the_node_on(void **state)
{
    (void)state;
    struct plan_limits l = limits;
    l.initializing = (span){120000};
    struct plan_run r = HELD(POD(INITIALIZING), .created = AGO(500), .initialized = AGO(119),
                             .logs = PLAN_LOGS_READ);
    struct plan_step s = exec_plan(&r, &l, NOW);
    assert_int_equal(s.action, PLAN_WAIT);
    assert_int_equal(s.until.ns, AHEAD(1).ns);
    r.initialized = AGO(120);
    s = exec_plan(&r, &l, NOW);
    assert_int_equal(s.action, PLAN_DECIDE);
    assert_int_equal(s.result, PLAN_NOT_INITIALIZED);
    assert_true(s.held_back);
}

/* Every combination of what matters to the promises at the head of exec_plan.h. */
static struct plan_run combination(unsigned n)
{
    struct plan_run r = {.created = AGO(10), .ended = AGO(5)};
    r.lease = n % 3, n /= 3;
    r.pod = n % 9, n /= 9;
    r.refusal = n % 3, n /= 3;
    r.logs = n % 3, n /= 3;
    bool *const flags[] = {&r.synced,    &r.creating,      &r.deleting, &r.preempted,
                           &r.blocked,   &r.gang_waits,    &r.kept,     &r.held_back,
                           &r.delivered, &r.was_preempted, &r.stopping, &r.tried};
    for (size_t i = 0; i < COUNT(flags); i++)
        *flags[i] = n & (1u << i);
    return r;
}

static void no_state_breaks_a_promise(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 3 * 9 * 3 * 3 * 4096u; n++) {
        struct plan_run r = combination(n);
        struct plan_step s = exec_plan(&r, &limits, NOW);
        if (s.action == PLAN_CREATE)
            assert_true(r.lease == PLAN_HELD && r.synced && !r.blocked && !r.creating &&
                        r.pod == PLAN_POD_NONE && !r.stopping && r.refusal == PLAN_ACCEPTED);
        if (s.action == PLAN_DELETE)
            assert_true(r.lease == PLAN_LOST || (r.lease == PLAN_DECIDED && r.kept));
        if (s.action == PLAN_DELIVER)
            assert_true(r.held_back && !exec_plan_alive(r.pod));
        if (s.action == PLAN_DECIDE && exec_plan_alive(r.pod))
            assert_true(s.held_back || s.result == PLAN_PREEMPTED);
        if (s.action == PLAN_FORGET)
            assert_true(!exec_plan_there(r.pod) && (r.lease == PLAN_LOST || r.delivered));
        if (s.action == PLAN_DECIDE)
            assert_true(s.result != PLAN_NO_RESULT && r.lease == PLAN_HELD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_steps),
        cmocka_unit_test(a_limit_for_the_start_counts_from_the_node_on),
        cmocka_unit_test(no_state_breaks_a_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
