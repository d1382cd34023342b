/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "core/failure_groups.h"
#include "core/fingerprint.h"

/* Groups of failures: what is counted outlives restarts and crashes, and filters find the jobs. */

#define Y   struct yard *y = *state
#define DAY ((span){24 * 3600000})

struct look {
    uint64_t fingerprints[ANSWER_LIST_MAX], counts[ANSWER_LIST_MAX];
    char message[ANSWER_TEXT_MAX]; /* of the first */
    size_t count;
    uint64_t total;
    unsigned came;
};

static void on_failures(void *ctx, const struct reply *r)
{
    struct look *l = ctx;
    assert_ok(r->err);
    l->came++;
    l->count = r->failures->count;
    l->total = r->failures->total;
    assert_true(l->count <= ANSWER_LIST_MAX);
    for (size_t i = 0; i < l->count; i++) {
        const struct failure_group *g = &r->failures->groups[i].group;
        l->fingerprints[i] = g->fingerprint;
        l->counts[i] = g->count;
        if (i == 0)
            snprintf(l->message, sizeof l->message, "%.*s", STR_ARG(g->message));
    }
}

static struct look look(struct yard *y, struct failures_query q, struct glob_list reach)
{
    struct look l = {0};
    q.limit = ANSWER_LIST_MAX;
    struct command c = {
        .kind = CMD_FAILURES, .failures = &q, .reach = reach, .done = on_failures, .ctx = &l};
    backend_submit(y->b, &c);
    yard_settle(y);
    assert_int_equal(l.came, 1);
    return l;
}

static struct look look_at_all(struct yard *y)
{
    return look(y, (struct failures_query){0}, (struct glob_list){0});
}

static int set_up(void **state)
{
    int code = yard_setup(state);
    Y;
    y->settings.failure_groups_max = 3;
    y->settings.failure_group_retention = DAY;
    yard_restart(y);
    return code;
}

#define FAILURES(name) cmocka_unit_test_setup_teardown(name, set_up, yard_teardown)

/* A job of the queue that has failed so, for good. */
static struct id fail_one(struct yard *y, const char *queue, const char *message)
{
    struct answer a = {0}, b;
    struct id id = yard_add(y, queue);
    yard_claim(y, queue, 1, (span){0}, &a);
    yard_settle(y);
    assert_id(a.ids[0], id);
    struct failure_report r = {
        .ref = {id, a.tokens[0]},
        .failure = {.message = str_from(message), .error_type = STR("E"), .run_time = {-1}},
        .kill = true,
        .retry_at = INSTANT_NONE};
    yard_ask(y, (struct command){.kind = CMD_FAIL, .fail = r}, &b);
    assert_ok(b.err);
    return id;
}

static void failures_are_counted_by_what_they_have_in_common(void **state)
{
    Y;
    fail_one(y, "q", "no answer in 3 s");
    fail_one(y, "q", "no answer in 4 s");
    y->now.ms++;
    fail_one(y, "r", "no answer in 5 s");
    struct look l = look_at_all(y);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.counts[0], 1); /* seen last */
    assert_int_equal(l.counts[1], 2);
    assert_string_equal(l.message, "no answer in <n> s");
}

static void they_outlive_a_restart_and_their_jobs(void **state)
{
    Y;
    struct answer a;
    struct id id = fail_one(y, "q", "boom");
    fail_one(y, "q", "boom");
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = id}, &a);
    yard_restart(y);
    struct look l = look_at_all(y);
    assert_int_equal(l.count, 1);
    assert_int_equal(l.counts[0], 2);
    fail_one(y, "q", "boom");
    assert_int_equal(look_at_all(y).counts[0], 3);
}

static void a_crash_loses_no_count_that_was_durable(void **state)
{
    Y;
    fail_one(y, "q", "boom");
    struct answer a = {0}, lost;
    struct id id = yard_add(y, "q");
    yard_claim(y, "q", 1, (span){0}, &a);
    yard_settle(y);
    yard_faults(y, (struct memory_faults){.hold = true});
    struct failure_report r = {
        .ref = {id, a.tokens[0]},
        .failure = {.message = STR("boom"), .error_type = STR("E"), .run_time = {-1}},
        .retry_at = INSTANT_NONE};
    lost = (struct answer){0};
    yard_send(y, (struct command){.kind = CMD_FAIL, .fail = r}, &lost);
    yard_turn(y);
    yard_crash(y);
    assert_int_equal(look_at_all(y).counts[0], 1);
}

static void there_are_never_more_than_the_limit(void **state)
{
    Y;
    static const char *const messages[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) {
        y->now.ms++;
        fail_one(y, "q", messages[i]);
    }
    struct look before = look_at_all(y);
    assert_int_equal(before.count, 3);
    assert_string_equal(before.message, "e");
    yard_restart(y);
    struct look after = look_at_all(y);
    assert_int_equal(after.count, 3);
    assert_memory_equal(after.fingerprints, before.fingerprints, sizeof after.fingerprints);
    y->settings.failure_groups_max = 1;
    backend_configure(y->b, &y->settings);
    yard_settle(y);
    assert_int_equal(look_at_all(y).count, 1);
    yard_restart(y);
    assert_int_equal(look_at_all(y).count, 1);
}

static void they_go_when_their_time_is_over(void **state)
{
    Y;
    fail_one(y, "q", "boom");
    yard_turn_after(y, DAY.ms);
    assert_int_equal(look_at_all(y).count, 1);
    y->now.ms++;
    assert_int_equal(look_at_all(y).count, 0);
    yard_restart(y);
    yard_settle(y);
    assert_int_equal(look_at_all(y).count, 0);
}

static void without_a_limit_there_are_none(void **state)
{
    Y;
    y->settings.failure_groups_max = 0;
    yard_restart(y);
    fail_one(y, "q", "boom");
    assert_int_equal(look_at_all(y).count, 0);
}

static void they_are_cleared_with_the_history(void **state)
{
    Y;
    struct answer a;
    fail_one(y, "q", "boom");
    yard_ask(y, (struct command){.kind = CMD_HISTORY_CLEAR}, &a);
    assert_ok(a.err);
    assert_int_equal(look_at_all(y).count, 0);
    yard_restart(y);
    assert_int_equal(look_at_all(y).count, 0);
}

static void a_query_chooses_among_them(void **state)
{
    Y;
    static const struct str q = {"q", 1};
    fail_one(y, "q", "a");
    y->now.ms++;
    fail_one(y, "r", "b");
    fail_one(y, "r", "b");
    struct look all = look_at_all(y);
    assert_int_equal(
        look(y, (struct failures_query){.queues = &q, .queue_count = 1}, (struct glob_list){0})
            .total,
        1);
    assert_int_equal(look(y, (struct failures_query){0}, (struct glob_list){&q, 1}).total, 1);
    assert_int_equal(look(y, (struct failures_query){.since = y->now}, (struct glob_list){0}).total,
                     1);
    assert_int_equal(
        look(y, (struct failures_query){.error_type = STR("F")}, (struct glob_list){0}).total, 0);
    assert_int_equal(
        look(y, (struct failures_query){.fingerprint = all.fingerprints[1]}, (struct glob_list){0})
            .counts[0],
        1);
    assert_int_equal(
        look(y, (struct failures_query){.order = FAILURES_BY_COUNT}, (struct glob_list){0})
            .counts[0],
        2);
}

static uint64_t count(struct yard *y, struct job_filter f)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_COUNT, .list.filter = f}, &a);
    assert_ok(a.err);
    return a.count;
}

static void filters_find_the_jobs_of_a_group(void **state)
{
    Y;
    instant before = y->now;
    fail_one(y, "q", "no answer in 3 s");
    y->now.ms += 10;
    fail_one(y, "q", "no answer in 4 s");
    fail_one(y, "q", "other");
    yard_add(y, "q");
    struct look l =
        look(y, (struct failures_query){.order = FAILURES_BY_COUNT}, (struct glob_list){0});
    assert_int_equal(count(y, (struct job_filter){.failure_group = l.fingerprints[0]}), 2);
    assert_int_equal(count(y, (struct job_filter){.failure_group = l.fingerprints[1]}), 1);
    assert_int_equal(count(y, (struct job_filter){.failure_group = 1}), 0);
    assert_int_equal(count(y, (struct job_filter){.error_type = STR("E")}), 3);
    assert_int_equal(count(y, (struct job_filter){.error_type = STR("e")}), 0);
    const struct range early = {true, INT64_MIN, before.ms + 9};
    assert_int_equal(count(y, (struct job_filter){.failed_at = early}), 1);
    assert_int_equal(count(y, (struct job_filter){.enqueued_at = early}), 1);
    const struct range late = {true, before.ms + 10, INT64_MAX};
    assert_int_equal(count(y, (struct job_filter){.failed_at = late}), 2);
    assert_int_equal(count(y, (struct job_filter){.enqueued_at = late}), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAILURES(failures_are_counted_by_what_they_have_in_common),
        FAILURES(they_outlive_a_restart_and_their_jobs),
        FAILURES(a_crash_loses_no_count_that_was_durable),
        FAILURES(there_are_never_more_than_the_limit),
        FAILURES(they_go_when_their_time_is_over),
        FAILURES(without_a_limit_there_are_none),
        FAILURES(they_are_cleared_with_the_history),
        FAILURES(a_query_chooses_among_them),
        FAILURES(filters_find_the_jobs_of_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
