/* SPDX-License-Identifier: Apache-2.0 */

/* Rules that give a retry more memory. */

#include <string.h>

#include "base/array.h"
#include "base/quantity.h"
#include "rig.h"

#define R  struct rig *r = *state
#define GI ((uint64_t)1 << 30)
#define ON(c)                                                                                      \
    {                                                                                              \
        .conditions = MATCHER_CONDITION(CONDITION_##c)                                             \
    }

/* Rule 1 increases the memory, rule 2 does not. */
static const struct policy_rule rules[] = {
    {.action = POLICY_RETRY,
     .match = ON(OOM_KILLED),
     .retry_limit = POLICY_NO_LIMIT,
     .growth[POLICY_MEMORY] = {.factor = 1.5, .max = 12 * GI},
     .key = 5},
    {.action = POLICY_RETRY, .match = ON(PREEMPTED), .retry_limit = POLICY_NO_LIMIT, .key = 6},
};

static const struct policy policy = {
    .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = rules, .rule_count = 2};

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 100};
    rig_restart(r);
    return 0;
}

#define GROW_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

static struct id add(struct rig *r, uint64_t memory)
{
    struct enqueue spec = rig_spec("q");
    spec.options.memory = memory;
    return rig_add_spec(r, &spec);
}

/* Ends the job's next run with that condition; returns its memory afterwards. */
static uint64_t end_run(struct rig *r, struct id id, enum condition c)
{
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, id);
    const struct failure f = {.message = STR("m"), .run_time = {-1}, .condition = c};
    struct job job = rig_fail_with(r, id, &f);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_turn(r);
    return job.state.extras.memory;
}

static void assert_said(struct rig *r, struct id id, const char *words)
{
    struct str reason = rig_read(r, id)->state.reason;
    if (!memmem(reason.at, reason.len, words, strlen(words)))
        fail_msg("%.*s", (int)reason.len, reason.at);
    struct str of_run = rig_run(r, id, rig_read(r, id)->state.runs - 1)->reason;
    assert_true(str_eq(of_run, reason));
}

static void memory_grows_by_the_factor_up_to_the_most(void **state)
{
    R;
    struct id id = add(r, 4 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 6 * GI);
    assert_said(r, id, ", at once, memory from 4Gi to 6Gi");
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 9 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 12 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 12 * GI);
    assert_said(r, id, ", memory stays 12Gi, the most");
    assert_int_equal(rig_read(r, id)->options.memory, 4 * GI);
}

static void what_was_grown_is_kept_when_another_rule_retries(void **state)
{
    R;
    struct id id = add(r, 4 * GI);
    end_run(r, id, CONDITION_OOM_KILLED);
    assert_int_equal(end_run(r, id, CONDITION_PREEMPTED), 6 * GI);
    rig_restart(r);
    assert_int_equal(end_run(r, id, CONDITION_PREEMPTED), 6 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 9 * GI);
}

static void unless_the_rule_says_that_it_is_not_sticky(void **state)
{
    R;
    struct policy_rule own[] = {rules[0], rules[1]};
    own[0].growth[POLICY_MEMORY] =
        (struct policy_growth){.add = GI, .max = 12 * GI, .fleeting = true};
    struct policy p = policy;
    p.rules = own;
    r->policy = &p;
    struct id id = add(r, 4 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 5 * GI);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 6 * GI);
    assert_int_equal(end_run(r, id, CONDITION_PREEMPTED), 0);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 5 * GI);
}

static void a_job_that_states_no_memory_is_retried_as_it_was(void **state)
{
    R;
    struct id id = add(r, 0);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 0);
    assert_said(r, id, ", memory as it was: the job states none");
}

static void a_lost_or_returned_run_keeps_it(void **state)
{
    R;
    struct id id = add(r, 4 * GI);
    end_run(r, id, CONDITION_OOM_KILLED);
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_int_equal(rig_read(r, id)->state.extras.memory, 6 * GI);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r);
    rig_release(r, id);
    assert_int_equal(rig_read(r, id)->state.extras.memory, 6 * GI);
}

static void a_job_brought_back_has_what_it_asked_for(void **state)
{
    R;
    r->policy_settings.global_max_retries = 1;
    struct id id = add(r, 4 * GI);
    end_run(r, id, CONDITION_OOM_KILLED);
    end_run(r, id, CONDITION_OOM_KILLED);
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
    assert_int_equal(rig_read(r, id)->state.extras.memory, 6 * GI);
    struct job job;
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->strings, &job));
    assert_int_equal(job.state.extras.memory, 0);
}

static void growth_is_never_a_loss_nor_beyond_the_most(void **state)
{
    (void)state;
    static const struct {
        struct policy_growth by;
        uint64_t before, after;
    } rows[] = {
        {{.factor = 2, .max = 8 * GI}, 10 * GI, 10 * GI}, /* it asked for more than the maximum */
        {{.add = GI, .max = 8 * GI}, 8 * GI - 1, 8 * GI},
        {{.factor = 1.1, .max = 8 * GI}, 1, 2},
        {{.factor = 1.3, .max = 8 * GI}, GI, 1332 << 20}, /* whole mebibytes */
        {{.factor = 100, .max = QUANTITY_MAX}, QUANTITY_MAX - 1, QUANTITY_MAX},
        {{.add = QUANTITY_MAX, .max = QUANTITY_MAX}, 1, QUANTITY_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(policy_grow(&rows[i].by, POLICY_MEMORY, rows[i].before), rows[i].after);
}

static void processors_grow_beside_memory_and_by_themselves(void **state)
{
    R;
    struct policy_rule own[] = {rules[0], rules[1]};
    own[0].growth[POLICY_CPU] = (struct policy_growth){.factor = 1.5, .max = 2000};
    own[1].growth[POLICY_CPU] = (struct policy_growth){.add = 100, .max = 4000, .fleeting = true};
    struct policy p = policy;
    p.rules = own;
    r->policy = &p;
    struct enqueue spec = rig_spec("q");
    spec.options.memory = 4 * GI;
    spec.options.cpu = 500;
    struct id id = rig_add_spec(r, &spec);
    end_run(r, id, CONDITION_OOM_KILLED);
    assert_said(r, id, ", memory from 4Gi to 6Gi, cpu from 500m to 750m");
    end_run(r, id, CONDITION_PREEMPTED);
    assert_said(r, id, ", cpu from 750m to 850m");
    assert_int_equal(rig_read(r, id)->state.extras.memory, 6 * GI);
    rig_restart(r);
    assert_int_equal(rig_read(r, id)->state.extras.cpu, 850);
    end_run(r, id, CONDITION_OOM_KILLED);
    assert_said(r, id, ", memory from 6Gi to 9Gi, cpu from 850m to 1275m");
    assert_int_equal(rig_read(r, id)->options.cpu, 500);
    id = add(r, 4 * GI);
    end_run(r, id, CONDITION_OOM_KILLED);
    assert_said(r, id, ", memory from 4Gi to 6Gi, cpu as it was: the job states none");
}

static void a_rule_that_grows_nothing_undoes_what_is_not_sticky(void **state)
{
    R;
    struct policy_rule own[] = {rules[0], rules[1]};
    own[0].growth[POLICY_CPU] = (struct policy_growth){.add = 100, .max = 4000, .fleeting = true};
    struct policy p = policy;
    p.rules = own;
    r->policy = &p;
    struct enqueue spec = rig_spec("q");
    spec.options.memory = 4 * GI;
    spec.options.cpu = 500;
    struct id id = rig_add_spec(r, &spec);
    assert_int_equal(end_run(r, id, CONDITION_OOM_KILLED), 6 * GI);
    assert_int_equal(rig_read(r, id)->state.extras.cpu, 600);
    assert_int_equal(end_run(r, id, CONDITION_PREEMPTED), 6 * GI); /* that one is */
    assert_int_equal(rig_read(r, id)->state.extras.cpu, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GROW_TEST(memory_grows_by_the_factor_up_to_the_most),
        GROW_TEST(what_was_grown_is_kept_when_another_rule_retries),
        GROW_TEST(unless_the_rule_says_that_it_is_not_sticky),
        GROW_TEST(a_job_that_states_no_memory_is_retried_as_it_was),
        GROW_TEST(a_lost_or_returned_run_keeps_it),
        GROW_TEST(processors_grow_beside_memory_and_by_themselves),
        GROW_TEST(a_rule_that_grows_nothing_undoes_what_is_not_sticky),
        GROW_TEST(a_job_brought_back_has_what_it_asked_for),
        cmocka_unit_test(growth_is_never_a_loss_nor_beyond_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
