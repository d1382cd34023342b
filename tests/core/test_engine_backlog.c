/* SPDX-License-Identifier: Apache-2.0 */

/* What the waiting jobs of queues wait for, counted. */

#include <stdio.h>

#include "core/backlog.h"
#include "core/engine_budget.h"
#include "rig.h"

#define R struct rig *r = *state

static struct backlog of(struct rig *r, const char *queue)
{
    struct backlog b;
    assert_ok(engine_backlog(r->e, r->now, str_from(queue), &r->strings, &b));
    return b;
}

static struct id add_key(struct rig *r, const char *key)
{
    struct enqueue spec = rig_spec("q");
    spec.options.concurrency_key = str_from(key);
    return rig_add_spec(r, &spec);
}

static void assert_reason(const struct backlog *b, size_t i, enum obstacle_kind kind,
                          const char *text)
{
    assert_true(i < b->reason_count);
    assert_int_equal(b->reasons[i].kind, kind);
    assert_memory_equal(b->reasons[i].text.at, text, b->reasons[i].text.len);
    assert_int_equal(b->reasons[i].text.len, strlen(text));
}

static void a_queue_that_is_not_there_has_no_reasons(void **state)
{
    R;
    struct backlog b = of(r, "nowhere");
    assert_true(str_eq(b.queue, STR("nowhere")));
    assert_int_equal(b.reason_count, 0);
    assert_int_equal(b.ready + b.blocked + b.scheduled, 0);
}

static void waiting_jobs_are_counted_by_what_keeps_them_back(void **state)
{
    R;
    rig_set(r, "q", .paused = true);
    for (int i = 0; i < 3; i++)
        rig_add(r, "q");
    rig_add_later(r, "q", (span){1000});
    struct backlog b = of(r, "q");
    assert_int_equal(b.ready, 3);
    assert_int_equal(b.scheduled, 1);
    assert_int_equal(b.reason_count, 3);
    assert_reason(&b, 0, OBSTACLE_PAUSE, "3 wait because the queue is paused");
    assert_reason(&b, 1, OBSTACLE_NO_WORKER,
                  "3 wait for a worker: no stream is open for its queue and no claim waits for "
                  "it");
    assert_reason(&b, 2, OBSTACLE_TIME, "1 waits for its time");
}

static void workers_that_are_full_are_told_from_none(void **state)
{
    R;
    for (int i = 0; i < 3; i++)
        rig_add(r, "q");
    rig_stream(r, "w", "q", 1);
    rig_turn(r);
    struct backlog b = of(r, "q");
    assert_int_equal(b.workers, 1);
    assert_int_equal(b.with_room, 0);
    assert_int_equal(b.reason_count, 1);
    assert_reason(&b, 0, OBSTACLE_BUSY,
                  "2 wait for a worker with room: worker 'w' is busy with 1 job of its queue, "
                  "since 0 ms ago; no run of the queue has ended since the server started, so "
                  "when a slot comes free is not known");
}

static void a_limit_holds_back_all_ready_jobs(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 1, .rate = {.count = 1, .burst = 1, .per = {60000}});
    for (int i = 0; i < 3; i++)
        rig_add(r, "q");
    rig_stream(r, "w", "q", 9);
    rig_turn(r);
    struct backlog b = of(r, "q");
    assert_int_equal(b.reason_count, 2);
    assert_reason(&b, 0, OBSTACLE_CONCURRENCY, "2 wait for the concurrency limit of the queue");
    assert_reason(&b, 1, OBSTACLE_RATE, "2 wait for the rate of the queue");
    assert_int_equal(b.reasons[1].until.ms, r->now.ms + 60000);
}

static void the_keys_with_most_jobs_are_named(void **state)
{
    R;
    char key[8];
    rig_set(r, "q", .concurrency_per_key = 1);
    for (int i = 0; i < 4; i++)
        add_key(r, "acme");
    for (int i = 0; i < 2 * (BACKLOG_NAMES_MAX + 1); i++) {
        snprintf(key, sizeof key, "k%02d", i / 2);
        add_key(r, key);
    }
    rig_stream(r, "w", "q", 60);
    rig_turn(r);
    struct backlog b = of(r, "q");
    assert_int_equal(b.ready, 3 + BACKLOG_NAMES_MAX + 1);
    assert_int_equal(b.reason_count, BACKLOG_NAMES_MAX + 1);
    assert_reason(&b, 0, OBSTACLE_KEY, "3 wait for concurrency_key=acme");
    assert_reason(&b, 1, OBSTACLE_KEY, "2 wait for other concurrency keys");
    assert_reason(&b, 2, OBSTACLE_KEY, "1 waits for concurrency_key=k00");
    assert_true(str_eq(b.reasons[0].name, STR("acme")));
    assert_int_equal(b.reasons[1].name.len, 0);
}

static void budgets_are_named(void **state)
{
    R;
    struct budget_view v;
    struct budget_policy one = {.allocation = 1};
    assert_ok(engine_budget_put(r->e, r->now, STR("db"), &one, false, &v));
    for (int i = 0; i < 4; i++) {
        struct enqueue spec = rig_spec("q");
        spec.options.budgets = STR("1:db");
        assert_ok(engine_budget_check(r->e, &spec, 1, "jobs"));
        rig_add_spec(r, &spec);
    }
    rig_stream(r, "w", "q", 9);
    rig_turn(r);
    struct backlog b = of(r, "q");
    assert_int_equal(b.reason_count, 1);
    assert_reason(&b, 0, OBSTACLE_BUDGET, "3 wait for budget=db");
}

static void members_of_incomplete_gangs_are_counted(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.gang = STR("g");
    spec.options.gang_size = 3;
    rig_add_spec(r, &spec);
    rig_add_spec(r, &spec);
    rig_stream(r, "w", "q", 9);
    rig_turn(r);
    struct backlog b = of(r, "q");
    assert_int_equal(b.reason_count, 1);
    assert_reason(&b, 0, OBSTACLE_GANG,
                  "2 wait for the rest of their gangs, or for room for all of them");
}

static struct backlog_page page(struct rig *r, const char *from, size_t limit,
                                struct glob_list reach)
{
    struct backlog_page p;
    struct backlog_ask ask = {str_from(from), limit, reach};
    assert_ok(engine_backlog_page(r->e, r->now, &ask, &r->strings, &p));
    return p;
}

static void a_page_has_queues_in_which_jobs_wait(void **state)
{
    R;
    rig_set(r, "empty", .paused = true);
    rig_add(r, "b");
    rig_add(r, "a");
    rig_add(r, "c");
    struct backlog_page p = page(r, "", 2, (struct glob_list){0});
    assert_int_equal(p.count, 2);
    assert_true(str_eq(p.at[0].queue, STR("a")) && str_eq(p.at[1].queue, STR("b")));
    assert_true(p.more && str_eq(p.next, STR("b")));
    p = page(r, "b", 2, (struct glob_list){0});
    assert_int_equal(p.count, 1);
    assert_false(p.more);
    const struct str own = STR("b*");
    p = page(r, "", 9, (struct glob_list){&own, 1});
    assert_int_equal(p.count, 1);
    assert_true(str_eq(p.at[0].queue, STR("b")));
}

/* Names of keys cost reads: a page ends after some of them, and the next goes on. */
static void a_page_does_only_so_much_work(void **state)
{
    R;
    enum { QUEUES = 22, KEYS = 10 };
    char queue[8], key[8];
    for (int q = 0; q < QUEUES; q++) {
        struct queue_settings set = QUEUE_SETTINGS_DEFAULT;
        set.concurrency_per_key = 1;
        snprintf(queue, sizeof queue, "q%02d", q);
        assert_ok(engine_queue_put(r->e, r->now, str_from(queue), &set));
        for (int i = 0; i < 2 * KEYS; i++) {
            snprintf(key, sizeof key, "k%d", i / 2);
            struct enqueue spec = rig_spec(queue);
            spec.options.concurrency_key = str_from(key);
            rig_add_spec(r, &spec);
        }
    }
    for (int i = 0; i < 10; i++) { /* the last ones find every key full */
        rig_stream(r, "w", NULL, 30);
        rig_turn(r);
        rig_clear(r);
    }
    unsigned reads = r->reads;
    struct backlog_page p = page(r, "", 1000, (struct glob_list){0});
    assert_in_range(r->reads - reads, 100, 210);
    assert_true(p.more);
    size_t seen = p.count;
    while (p.more) {
        struct str next = p.next;
        struct backlog_ask ask = {next, 1000, {0}};
        assert_ok(engine_backlog_page(r->e, r->now, &ask, &r->strings, &p));
        seen += p.count;
    }
    assert_int_equal(seen, QUEUES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_queue_that_is_not_there_has_no_reasons),
        TEST(waiting_jobs_are_counted_by_what_keeps_them_back),
        TEST(workers_that_are_full_are_told_from_none),
        TEST(a_limit_holds_back_all_ready_jobs),
        TEST(the_keys_with_most_jobs_are_named),
        TEST(budgets_are_named),
        TEST(members_of_incomplete_gangs_are_counted),
        TEST(a_page_has_queues_in_which_jobs_wait),
        TEST(a_page_does_only_so_much_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
