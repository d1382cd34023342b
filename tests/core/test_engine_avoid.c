/* SPDX-License-Identifier: Apache-2.0 */

/* Which taker gets a job that must avoid a node, and until when. */

#include <stdio.h>

#include "rig.h"

#define R        struct rig *r = *state
#define MINUTE   60000
#define REQUIRED ((span){5 * MINUTE})

static const struct policy_rule away = {
    .action = POLICY_RETRY,
    .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
    .retry_limit = POLICY_NO_LIMIT,
    .affinity = {POLICY_AFFINITY_NODE},
    .key = 5};

static const struct policy policy = {
    .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &away, .rule_count = 1};

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->settings.avoid_required = REQUIRED;
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 100};
    rig_restart(r);
    return 0;
}

#define AVOID_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

/* Lets the job in flight be evicted from that node. */
static struct job evict(struct rig *r, struct id id, const char *node)
{
    const struct failure f = {.message = STR("evicted"),
                              .run_time = {-1},
                              .condition = CONDITION_EVICTED,
                              .node = str_from(node)};
    return rig_fail_with(r, id, &f);
}

/* A ready job of that queue that must avoid the node. */
static struct id evicted(struct rig *r, const char *queue, const char *node)
{
    struct id id = rig_add(r, queue);
    struct taker *t = rig_stream_on(r, node, queue, 1);
    rig_turn(r);
    evict(r, id, node);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
    rig_clear(r);
    return id;
}

static void a_job_is_not_handed_to_the_node_that_it_must_avoid(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    assert_int_equal(rig_read(r, id)->state.extras.avoid_until.ms, r->now.ms + REQUIRED.ms);
    assert_true(str_eq(rig_read(r, id)->state.reason,
                       STR("retry 1 of 100 by rule 1 of policy p (Evicted), at once, not on the "
                           "same node")));
    rig_stream_on(r, "a", "q", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 1);
    rig_stream_on(r, "b", "q", 10);
    rig_turn(r);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].taker, "b");
}

static void once_the_time_is_over_the_node_may_have_it(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    rig_stream_on(r, "a", "q", 10);
    rig_turn_after(r, REQUIRED.ms - 1);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
}

static void whoever_does_not_say_where_it_is_may_have_it(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, id);
}

static void the_node_gets_the_jobs_behind_it_meanwhile(void **state)
{
    R;
    struct id shy = evicted(r, "q", "a");
    struct id b = rig_add(r, "q"), c = rig_add(r, "q");
    rig_stream_on(r, "a", "q", 10);
    rig_turn(r);
    rig_assert_got(r, b, c);
    rig_clear(r);
    struct id d = rig_add(r, "q");
    rig_stream_on(r, "b", "q", 10);
    rig_turn(r);
    /* Its place is that of its first enqueue; whoever has waited longest gets the first. */
    assert_int_equal(r->got_count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_id(r->got[i].id, *(const char *)r->got[i].taker == 'a' ? d : shy);
}

static void a_taker_of_all_queues_passes_over_a_queue_with_nothing_for_its_node(void **state)
{
    R;
    struct id shy = evicted(r, "q", "a"), other = evicted(r, "p", "b");
    rig_stream_on(r, "a", NULL, 1);
    rig_turn(r);
    rig_assert_got(r, other);
    rig_clear(r);
    rig_stream_on(r, "b", NULL, 1);
    rig_turn(r);
    rig_assert_got(r, shy);
}

static void jobs_of_many_nodes_keep_their_order(void **state)
{
    R;
    static const char *const nodes[] = {"a", "b", "c"};
    struct id ids[9];
    struct taker *t = rig_stream(r, "w", "q", 9);
    for (int i = 0; i < 9; i++)
        ids[i] = rig_add(r, "q");
    rig_turn(r);
    for (int i = 8; i >= 0; i--)
        evict(r, ids[i], nodes[i % 3]);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_clear(r);
    rig_stream_on(r, "b", "q", 6);
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[2], ids[3], ids[5], ids[6], ids[8]);
    rig_clear(r);
    rig_stream_on(r, "c", "q", 10);
    rig_turn(r);
    rig_assert_got(r, ids[1], ids[4], ids[7]);
}

static void a_restart_does_not_forget_the_node(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    rig_restart(r);
    rig_stream_on(r, "a", "q", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, REQUIRED.ms);
    rig_assert_got(r, id);
}

static void a_claim_of_that_job_from_the_node_is_refused(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    struct job_claim claim = {.id = id, .any_run = true, .node = STR("a"), .lease = RIG_LEASE};
    struct handout h;
    bool repeated;
    struct err err = engine_claim_job(r->e, r->now, &claim, &r->strings, &h, &repeated);
    assert_code(err, ERR_UNPROCESSABLE);
    assert_non_null(strstr(err.msg, "must stay off node 'a'"));
    claim.node = STR("b");
    assert_ok(engine_claim_job(r->e, r->now, &claim, &r->strings, &h, &repeated));
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
}

static void a_backoff_comes_before_the_time_of_avoiding(void **state)
{
    R;
    r->policy_settings.default_backoff =
        (struct curve){CURVE_EXPONENTIAL, {10 * MINUTE}, 1, {0}, {10 * MINUTE}};
    struct id id = evicted(r, "q", "a");
    assert_int_equal(rig_status(r, id), STATUS_SCHEDULED);
    rig_stream_on(r, "a", "q", 10);
    rig_turn_after(r, 10 * MINUTE);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, REQUIRED.ms);
    rig_assert_got(r, id);
}

/* Only the node of the most recent failed run, and only if the rule of that retry says so. */
static void what_an_earlier_retry_was_to_avoid_is_forgotten(void **state)
{
    R;
    const struct policy_rule rules[] = {
        away,
        {.action = POLICY_RETRY,
         .match.conditions = MATCHER_CONDITION(CONDITION_OOM_KILLED),
         .retry_limit = POLICY_NO_LIMIT,
         .key = 6}};
    struct policy p = policy;
    p.rules = rules;
    p.rule_count = 2;
    r->policy = &p;
    struct id id = evicted(r, "q", "a");
    struct taker *t = rig_stream_on(r, "b", "q", 1);
    rig_turn(r);
    evict(r, id, "b");
    assert_true(str_eq(rig_read(r, id)->state.extras.avoid_node, STR("b")));
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_clear(r);
    rig_stream_on(r, "a", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
    const struct failure oom = {
        .run_time = {-1}, .condition = CONDITION_OOM_KILLED, .node = STR("a")};
    rig_fail_with(r, id, &oom);
    assert_int_equal(rig_read(r, id)->state.extras.avoid_node.len, 0);
    assert_int_equal(rig_read(r, id)->state.extras.avoid_until.ms, 0);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, id); /* at its old place */
    r->policy = NULL;
}

static struct id preempted(struct rig *r, int64_t grace_ms, struct run_ref *ref)
{
    struct id id = rig_add(r, "q");
    struct taker *t = rig_stream_on(r, "a", "q", 1);
    rig_turn(r);
    *ref = (struct run_ref){id, r->got[r->got_count - 1].token};
    const struct failure_report report = {
        .ref = *ref,
        .failure = {.condition = CONDITION_EVICTED, .run_time = {-1}, .node = STR("a")},
        .retry_at = INSTANT_NONE,
        .grace = {grace_ms}};
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
    rig_clear(r);
    return id;
}

static void the_time_begins_when_the_preempted_run_has_made_way(void **state)
{
    R;
    struct run_ref ref;
    struct job job;
    struct id id = preempted(r, MINUTE, &ref);
    assert_int_equal(rig_read(r, id)->state.extras.avoid_until.ms,
                     r->now.ms + MINUTE + REQUIRED.ms);
    rig_turn_after(r, 1000);
    assert_ok(engine_terminated(r->e, r->now, ref, 0, &r->strings, &job));
    assert_int_equal(rig_read(r, id)->state.extras.avoid_until.ms, r->now.ms + REQUIRED.ms);
    rig_stream_on(r, "a", "q", 1);
    rig_turn_after(r, REQUIRED.ms - 1);
    assert_int_equal(r->got_count, 0);
    rig_restart(r);
    rig_stream_on(r, "a", "q", 1);
    rig_turn_after(r, 1);
    rig_assert_got(r, id);
}

static void the_policy_says_how_long_if_it_does(void **state)
{
    R;
    struct policy_rule rule = away;
    rule.affinity = (struct policy_affinity){POLICY_AFFINITY_NODE, true, {1000}};
    struct policy p = policy;
    p.rules = &rule;
    r->policy = &p;
    struct id id = evicted(r, "q", "a");
    assert_int_equal(rig_read(r, id)->state.extras.avoid_until.ms, r->now.ms + 1000);
    rule.affinity.required_for.ms = 0;
    struct id wish = evicted(r, "p", "a");
    assert_int_equal(rig_read(r, wish)->state.extras.avoid_until.ms, r->now.ms);
    rig_stream_on(r, "a", "p", 1);
    rig_turn(r);
    rig_assert_got(r, wish);
}

static void the_node_of_the_taker_counts_if_the_report_names_none(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    rig_stream_on(r, "a", "q", 1);
    rig_turn(r);
    evict(r, id, "");
    assert_true(str_eq(rig_run(r, id, 0)->failure.node, STR("a")));
    rig_clear(r);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_stream_on(r, "b", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
}

static void what_becomes_of_it_while_it_waits_leaves_no_trace(void **state)
{
    R;
    struct arena a = {0};
    struct job job;
    struct id canceled = evicted(r, "q", "a"), removed = evicted(r, "q", "a");
    struct id moved = evicted(r, "q", "a");
    assert_ok(engine_cancel(r->e, r->now, canceled, &a, &job));
    assert_ok(engine_remove(r->e, r->now, removed));
    struct patch p = {.set = PATCH_QUEUE | PATCH_PRIORITY, .queue = STR("p"), .priority = 7};
    assert_ok(engine_patch(r->e, r->now, moved, &p, &a, &job));
    assert_int_equal(rig_count(r, "q", STATUS_READY), 0);
    rig_stream_on(r, "a", NULL, 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, REQUIRED.ms);
    rig_assert_got(r, moved);
    arena_fini(&a);
}

static void a_lost_run_elsewhere_does_not_end_the_avoiding(void **state)
{
    R;
    struct id id = evicted(r, "q", "a");
    struct taker *t = rig_stream_on(r, "b", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_clear(r);
    rig_stream_on(r, "a", "q", 1);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, REQUIRED.ms);
    rig_assert_got(r, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AVOID_TEST(a_job_is_not_handed_to_the_node_that_it_must_avoid),
        AVOID_TEST(once_the_time_is_over_the_node_may_have_it),
        AVOID_TEST(whoever_does_not_say_where_it_is_may_have_it),
        AVOID_TEST(the_node_gets_the_jobs_behind_it_meanwhile),
        AVOID_TEST(a_taker_of_all_queues_passes_over_a_queue_with_nothing_for_its_node),
        AVOID_TEST(jobs_of_many_nodes_keep_their_order),
        AVOID_TEST(a_restart_does_not_forget_the_node),
        AVOID_TEST(a_claim_of_that_job_from_the_node_is_refused),
        AVOID_TEST(a_backoff_comes_before_the_time_of_avoiding),
        AVOID_TEST(what_an_earlier_retry_was_to_avoid_is_forgotten),
        AVOID_TEST(the_time_begins_when_the_preempted_run_has_made_way),
        AVOID_TEST(the_policy_says_how_long_if_it_does),
        AVOID_TEST(the_node_of_the_taker_counts_if_the_report_names_none),
        AVOID_TEST(what_becomes_of_it_while_it_waits_leaves_no_trace),
        AVOID_TEST(a_lost_run_elsewhere_does_not_end_the_avoiding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
