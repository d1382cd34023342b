/* SPDX-License-Identifier: Apache-2.0 */

/* Whose fault a failure is: by each kind of sign, and which of several signs counts. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/culprit.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static void assert_judged(struct failure f, enum outcome outcome, enum culprit culprit,
                          const char *evidence)
{
    culprit_judge(&f, outcome, false, &memory);
    assert_string_equal(culprit_name(f.culprit), culprit_name(culprit));
    assert_int_equal(f.culprit_evidence.len, strlen(evidence));
    assert_memory_equal(f.culprit_evidence.at, evidence, strlen(evidence));
}

#define ASSERT_FAILED(culprit, evidence, ...)                                                      \
    assert_judged((struct failure){__VA_ARGS__}, OUTCOME_FAILED, culprit, evidence)

static void every_culprit_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    assert_null(culprit_name(CULPRIT_NONE));
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++) {
        enum culprit c = CULPRIT_NONE;
        assert_true(culprit_parse(str_from(culprit_name((enum culprit)i)), &c));
        assert_int_equal(c, i);
        const char *sentence = culprit_sentence(c);
        assert_int_equal(sentence[strlen(sentence) - 1], '.');
    }
    enum culprit c;
    assert_false(culprit_parse(STR("nobody"), &c));
    assert_false(culprit_parse((struct str){0}, &c));
}

static struct err read_bounds(const char *text, struct culprit_bounds *b)
{
    *b = culprit_bounds_default();
    return culprit_bounds_read(str_from(text), b);
}

static void bounds_of_free_retries_are_set_by_name(void **state)
{
    (void)state;
    struct culprit_bounds b;
    assert_int_equal(read_bounds("", &b).code, ERR_OK);
    assert_int_equal(b.free[CULPRIT_DISRUPTION], 20);
    assert_int_equal(b.free[CULPRIT_JOB] + b.free[CULPRIT_INPUT] + b.free[CULPRIT_UNKNOWN], 0);
    assert_int_equal(read_bounds("worker=3,disruption=0", &b).code, ERR_OK);
    assert_int_equal(b.free[CULPRIT_WORKER], 3);
    assert_int_equal(b.free[CULPRIT_DISRUPTION], 0);
    assert_int_equal(b.free[CULPRIT_NODE], 10);
    static const char *const wrong[][2] = {
        {"nod=1", "unknown culprit 'nod'; did you mean 'node'?"},
        {"boss=1", "unknown culprit 'boss'"},
        {"node", "'node' is not of the form CULPRIT=COUNT"},
        {"node=1,", NULL},
        {"node=-1", "'-1' is not a whole number from 0 to 1000000"},
        {"node=", "'' is not a whole number from 0 to 1000000"},
        {"job=1", "a job is always charged for its own failures"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err err = read_bounds(wrong[i][0], &b);
        if (!wrong[i][1])
            assert_int_equal(err.code, ERR_OK); /* as other lists with a comma at the end */
        else
            assert_string_equal(err.msg, wrong[i][1]);
    }
}

/* They are on disk. */
static void culprits_keep_their_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"job",     "input",  "worker",     "node",
                                        "cluster", "access", "dependency", "disruption",
                                        "gang",    "server", "deadline",   "unknown"};
    assert_int_equal(CULPRIT_COUNT, sizeof names / sizeof *names + 1);
    for (int i = 1; i < CULPRIT_COUNT; i++)
        assert_string_equal(culprit_name((enum culprit)i), names[i - 1]);
}

static void what_a_reporter_names_stands(void **state)
{
    (void)state;
    ASSERT_FAILED(CULPRIT_DEPENDENCY, "503 from payments", .culprit = CULPRIT_DEPENDENCY,
                  .culprit_evidence = STR("503 from payments"), .exit_code = 139);
    ASSERT_FAILED(CULPRIT_ACCESS, "its worker says so", .culprit = CULPRIT_ACCESS,
                  .condition = CONDITION_EVICTED);
}

static void exceptions_conditions_and_categories_tell(void **state)
{
    (void)state;
    struct failure none = {0};
    assert_judged(none, OUTCOME_MALFORMED_PAYLOAD, CULPRIT_INPUT,
                  "its worker cannot read the payload");
    assert_judged(none, OUTCOME_WORKER_SHUTDOWN, CULPRIT_DISRUPTION, "its worker was shut down");
    assert_judged(none, OUTCOME_INTERMITTENT_TASK, CULPRIT_UNKNOWN,
                  "the job asked for another try without saying why");
    for (int o = OUTCOME_WORKER_SHUTDOWN; o <= OUTCOME_SUPERSEDED; o++) {
        struct failure f = {.exit_code = 1};
        culprit_judge(&f, (enum outcome)o, false, &memory);
        assert_int_not_equal(f.culprit, CULPRIT_JOB);
    }
    ASSERT_FAILED(CULPRIT_DISRUPTION, "condition Preempted: it had to make way for others",
                  .condition = CONDITION_PREEMPTED, .exit_code = 1);
    ASSERT_FAILED(CULPRIT_CLUSTER, "condition Unschedulable: no node has room for it",
                  .condition = CONDITION_UNSCHEDULABLE);
    ASSERT_FAILED(CULPRIT_NODE, "its failure category is node", .category = STR("node"),
                  .exit_code = 1);
    ASSERT_FAILED(CULPRIT_DISRUPTION, "condition Evicted: its node put the pod out",
                  .category = STR("job"), .condition = CONDITION_EVICTED);
    ASSERT_FAILED(CULPRIT_JOB, "it ended with exit code 1", .category = STR("nodes"),
                  .exit_code = 1);
}

static void every_condition_has_a_culprit(void **state)
{
    (void)state;
    for (int c = CONDITION_NONE + 1; c < CONDITION_COUNT; c++) {
        struct failure f = {.condition = (enum condition)c};
        culprit_judge(&f, OUTCOME_FAILED, false, &memory);
        assert_int_not_equal(f.culprit, CULPRIT_NONE);
        assert_true(f.culprit_evidence.len > strlen("condition "));
    }
}

static void signals_and_exit_codes_tell(void **state)
{
    (void)state;
    ASSERT_FAILED(CULPRIT_DISRUPTION, "SIGTERM: somebody told it to end", .signal = 15);
    ASSERT_FAILED(CULPRIT_DISRUPTION, "exit code 143, SIGTERM: somebody told it to end",
                  .exit_code = 143);
    ASSERT_FAILED(CULPRIT_UNKNOWN,
                  "exit code 137, SIGKILL: somebody killed it, perhaps for want of memory",
                  .exit_code = 137);
    ASSERT_FAILED(CULPRIT_JOB, "SIGSEGV: it crashed", .signal = 11, .exit_code = 139);
    ASSERT_FAILED(CULPRIT_JOB, "signal 12 ended it", .signal = 12);
    ASSERT_FAILED(CULPRIT_DEPENDENCY, "exit code 75, EX_TEMPFAIL: try again later",
                  .exit_code = 75);
    ASSERT_FAILED(CULPRIT_JOB, "it ended with exit code 255", .exit_code = 255);
    ASSERT_FAILED(CULPRIT_JOB, "it ended with exit code 128", .exit_code = 128);
    ASSERT_FAILED(CULPRIT_JOB, "it ended with exit code -1073741819", .exit_code = -1073741819);
    ASSERT_FAILED(CULPRIT_JOB, "it failed by itself, and nothing points to anybody else",
                  .error_type = STR("TypeError"));
}

static void of_containers_the_first_that_failed_counts(void **state)
{
    (void)state;
    const struct container_result list[] = {
        {.name = STR("proxy"), .reason = STR("Completed")},
        {.name = STR("main"), .exit_code = 65},
        {.name = STR("log"), .exit_code = 143},
    };
    ASSERT_FAILED(CULPRIT_INPUT, "exit code 65, EX_DATAERR: its input is wrong", .containers = list,
                  .container_count = 3);
    const struct container_result killed[] = {
        {.name = STR("main"), .exit_code = 137, .condition = CONDITION_OOM_KILLED}};
    ASSERT_FAILED(CULPRIT_JOB, "condition OOMKilled: it used more memory than it may have",
                  .containers = killed, .container_count = 1);
    const struct container_result evicted_later[] = {
        {.name = STR("main"), .exit_code = 1},
        {.name = STR("log"), .exit_code = 137, .condition = CONDITION_EVICTED}};
    ASSERT_FAILED(CULPRIT_JOB, "it ended with exit code 1", .containers = evicted_later,
                  .container_count = 2);
}

static void a_lease_that_ran_out_is_its_workers_fault_unless_the_server_was_away(void **state)
{
    (void)state;
    struct failure f = {.condition = CONDITION_LEASE_EXPIRED}, g = f;
    culprit_judge(&f, OUTCOME_EXPIRED, false, &memory);
    assert_int_equal(f.culprit, CULPRIT_WORKER);
    culprit_judge(&g, OUTCOME_EXPIRED, true, &memory);
    assert_int_equal(g.culprit, CULPRIT_SERVER);
    assert_true(g.culprit_evidence.len > 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_teardown(test, tear_down)
    const struct CMUnitTest tests[] = {
        T(every_culprit_has_a_name_and_a_sentence),
        T(bounds_of_free_retries_are_set_by_name),
        T(culprits_keep_their_numbers),
        T(what_a_reporter_names_stands),
        T(exceptions_conditions_and_categories_tell),
        T(every_condition_has_a_culprit),
        T(signals_and_exit_codes_tell),
        T(of_containers_the_first_that_failed_counts),
        T(a_lease_that_ran_out_is_its_workers_fault_unless_the_server_was_away),
    };
    return cmocka_run_group_tests_name("culprit", tests, NULL, NULL);
}
