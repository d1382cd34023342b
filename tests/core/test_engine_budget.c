/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets: who is handed out, who waits for tokens, and what people may change. */

#include "rig.h"

#include <stdio.h>

#include "base/array.h"
#include "core/engine_budget.h"
#include "core/explain.h"

#define R struct rig *r = *state

static const struct budget_policy two = {.allocation = 2};

static struct budget_policy flying(uint32_t allocation)
{
    return (struct budget_policy){.allocation = allocation};
}

/* So many in each second. */
static struct budget_policy timed(uint32_t allocation, uint32_t burst)
{
    return (struct budget_policy){allocation, BUDGET_TIME_BASED, {1000}, burst};
}

static struct err try_put(struct rig *r, const char *key, struct budget_policy p)
{
    struct budget_view v;
    return engine_budget_put(r->e, r->now, str_from(key), &p, false, &v);
}

static void put(struct rig *r, const char *key, struct budget_policy p)
{
    assert_ok(try_put(r, key, p));
}

static struct budget_view view(struct rig *r, const char *key)
{
    struct budget_view v;
    assert_ok(engine_budget_read(r->e, r->now, str_from(key), &v));
    return v;
}

static struct enqueue spec(const char *queue, const char *bindings)
{
    struct enqueue s = rig_spec(queue);
    s.options.budgets = str_from(bindings);
    return s;
}

static struct id add(struct rig *r, const char *queue, const char *bindings)
{
    struct enqueue s = spec(queue, bindings);
    assert_ok(engine_budget_check(r->e, &s, 1, "jobs"));
    return rig_add_spec(r, &s);
}

/* --- tokens while in flight --- */

static void jobs_in_flight_cost_no_more_than_the_allocation(void **state)
{
    R;
    put(r, "b", two);
    struct id a = add(r, "q", "1:b"), b = add(r, "p", "1:b"), c = add(r, "q", "1:b");
    struct id other = rig_add(r, "q"), d = add(r, "p", "1:b");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, a, b, other);
    assert_int_equal(rig_status(r, c), STATUS_READY);
    assert_int_equal(view(r, "b").available, 0);
    assert_int_equal(view(r, "b").jobs, 4);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, other, c);
    rig_fail(r, a); /* it waits for its retry: the token is back */
    rig_turn(r);
    rig_assert_got(r, a, b, other, c, d);
    assert_int_equal(view(r, "b").jobs, 3);
}

static void a_released_and_a_lost_run_give_their_tokens_back(void **state)
{
    R;
    put(r, "b", flying(1));
    struct id a = add(r, "q", "1:b"), b = add(r, "q", "1:b");
    struct taker *w = rig_stream(r, "w", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a);
    engine_taker_close(r->e, r->now, w, TAKER_STOPPED);
    rig_stream(r, "v", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, a);
    assert_ok(engine_cancel(r->e, r->now, a, &r->strings, &(struct job){0}));
    rig_turn(r);
    rig_assert_got(r, a, a, b);
}

static void a_costly_job_is_not_passed_by_cheap_ones_of_its_budget(void **state)
{
    R;
    put(r, "b", flying(3));
    struct id a = add(r, "q", "1:b"), costly = add(r, "q", "3:b"), late = add(r, "p", "1:b");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, a); /* two tokens are left, and kept for the costly one */
    struct enqueue urgent = spec("q", "1:b");
    urgent.priority = 1;
    struct id first = rig_add_spec(r, &urgent);
    rig_turn(r);
    rig_assert_got(r, a, first);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, first);
    rig_succeed(r, first);
    rig_turn(r);
    rig_assert_got(r, a, first, costly);
    rig_succeed(r, costly);
    rig_turn(r);
    rig_assert_got(r, a, first, costly, late);
}

static void a_job_that_is_removed_holds_up_nobody(void **state)
{
    R;
    put(r, "b", flying(3));
    struct id a = add(r, "q", "1:b"), costly = add(r, "q", "3:b"), late = add(r, "p", "1:b");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, a);
    assert_ok(engine_remove(r->e, r->now, costly));
    rig_turn(r);
    rig_assert_got(r, a, late);
}

static void a_queue_that_nobody_takes_does_not_keep_the_tokens(void **state)
{
    R;
    put(r, "b", flying(1));
    struct id a = add(r, "q", "1:b"), idle = add(r, "idle", "1:b"), b = add(r, "q", "1:b");
    struct taker *all = rig_stream(r, "w", NULL, 1);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_succeed(r, a);
    engine_taker_close(r->e, r->now, all, TAKER_STOPPED);
    rig_stream(r, "v", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(rig_status(r, idle), STATUS_READY);
}

static void a_paused_queue_does_not_keep_the_tokens(void **state)
{
    R;
    put(r, "b", flying(1));
    struct id a = add(r, "q", "1:b"), still = add(r, "still", "1:b"), b = add(r, "q", "1:b");
    rig_stream(r, "w", NULL, 5);
    rig_turn(r);
    rig_set(r, "still", .paused = true);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_set(r, "still", .paused = false);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, still);
}

/* --- several budgets --- */

static void all_budgets_of_a_job_must_pay(void **state)
{
    R;
    put(r, "a", flying(1));
    put(r, "b", flying(1));
    struct id a = add(r, "q", "1:a"), both = add(r, "q", "1:a,1:b"), b = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, b); /* whoever waits for one budget does not hold up the other */
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b, both);
    assert_int_equal(view(r, "a").in_flight, 1);
    assert_int_equal(view(r, "b").in_flight, 1);
}

/* The tokens of one budget are back whenever those of the other are drawn. */
static void a_job_of_two_busy_budgets_is_handed_out_in_the_end(void **state)
{
    R;
    put(r, "a", flying(1));
    put(r, "b", flying(1));
    rig_stream(r, "w", "q", 10);
    struct id on_a = add(r, "q", "1:a"), on_b = add(r, "q", "1:b");
    struct id both = add(r, "q", "1:a,1:b");
    rig_turn(r);
    int rounds = 0;
    while (rig_status(r, both) == STATUS_READY) {
        assert_in_range(++rounds, 1, 40);
        struct id *done = rounds % 2 ? &on_a : &on_b;
        struct id next = add(r, "q", rounds % 2 ? "1:a" : "1:b");
        if (rig_status(r, *done) == STATUS_IN_FLIGHT)
            rig_succeed(r, *done);
        *done = next;
        rig_turn(r);
        rig_clear(r);
    }
    assert_int_equal(rig_status(r, both), STATUS_IN_FLIGHT);
    assert_true(rounds > 4);
}

static void two_jobs_that_need_each_others_budgets_are_both_handed_out(void **state)
{
    R;
    put(r, "a", flying(2));
    put(r, "b", flying(2));
    struct id x = add(r, "q", "2:a,1:b"), y = add(r, "q", "2:b,1:a");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, x);
    rig_succeed(r, x);
    rig_turn(r);
    rig_assert_got(r, x, y);
}

/* --- tokens by time --- */

static void a_time_based_budget_begins_full_and_drips(void **state)
{
    R;
    put(r, "t", timed(10, 2));
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = add(r, i % 2 ? "p" : "q", "1:t");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, ids[0], ids[1]);
    rig_succeed(r, ids[0]); /* that brings nothing back */
    rig_turn_after(r, 99);
    rig_assert_got(r, ids[0], ids[1]);
    instant due;
    assert_true(engine_next_due(r->e, &due));
    assert_int_equal(due.ms, r->now.ms + 1);
    rig_turn_after(r, 1);
    rig_assert_got(r, ids[0], ids[1], ids[2]);
    rig_turn_after(r, 250);
    rig_assert_got(r, ids[0], ids[1], ids[2], ids[3], ids[4]);
}

static void a_cost_collects_its_tokens(void **state)
{
    R;
    put(r, "t", timed(10, 10));
    struct id a = add(r, "q", "8:t"), b = add(r, "q", "5:t"), c = add(r, "q", "1:t");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_turn_after(r, 299);
    rig_assert_got(r, a);
    rig_turn_after(r, 1);
    rig_assert_got(r, a, b);
    rig_turn_after(r, 100);
    rig_assert_got(r, a, b, c);
}

static void a_faster_rate_wakes_who_waits(void **state)
{
    R;
    put(r, "t", timed(1, 1));
    struct id a = add(r, "q", "1:t"), b = add(r, "q", "1:t");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_turn_after(r, 500); /* half a token */
    put(r, "t", timed(10, 1));
    rig_turn_after(r, 49);
    rig_assert_got(r, a);
    rig_turn_after(r, 1);
    rig_assert_got(r, a, b);
}

static void a_restart_fills_what_time_refills_and_counts_what_is_in_flight(void **state)
{
    R;
    put(r, "t", timed(1, 1));
    put(r, "f", flying(2));
    struct id a = add(r, "q", "1:t,1:f"), b = add(r, "q", "1:t,1:f");
    rig_claim(r, "w", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a);
    rig_restart(r);
    assert_int_equal(view(r, "t").available, 1);
    assert_int_equal(view(r, "f").in_flight, 1); /* by a lease */
    assert_int_equal(view(r, "f").jobs, 2);
    rig_claim(r, "v", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(view(r, "f").available, 0);
}

/* --- changes --- */

static void a_lower_allocation_is_over_committed_until_runs_end(void **state)
{
    R;
    put(r, "b", flying(3));
    struct id a = add(r, "q", "1:b"), b = add(r, "q", "1:b"), c = add(r, "q", "1:b");
    struct id d = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    put(r, "b", flying(1));
    assert_int_equal(view(r, "b").available, -2);
    rig_succeed(r, a);
    rig_succeed(r, b);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    rig_succeed(r, c);
    rig_turn(r);
    rig_assert_got(r, a, b, c, d);
}

static void a_higher_allocation_counts_at_once(void **state)
{
    R;
    put(r, "b", flying(1));
    struct id a = add(r, "q", "1:b"), b = add(r, "p", "1:b"), c = add(r, "q", "1:b");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, a);
    put(r, "b", flying(5));
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

static void nothing_is_allowed_below_a_cost_that_is_bound(void **state)
{
    R;
    put(r, "b", flying(5));
    struct id a = add(r, "q", "4:b");
    assert_code(try_put(r, "b", flying(3)), ERR_UNPROCESSABLE);
    assert_code(try_put(r, "b", timed(10, 3)), ERR_UNPROCESSABLE);
    put(r, "b", flying(4));
    assert_code(engine_budget_remove(r->e, STR("b")), ERR_CONFLICT);
    assert_ok(engine_cancel(r->e, r->now, a, &r->strings, &(struct job){0}));
    put(r, "b", flying(1)); /* the job is dead: it draws nothing any more */
    assert_code(
        engine_rerun(r->e, r->now, a, (struct rerun){.at = r->now}, &r->strings, &(struct job){0}),
        ERR_UNPROCESSABLE);
    assert_ok(engine_budget_remove(r->e, STR("b")));
    assert_code(
        engine_rerun(r->e, r->now, a, (struct rerun){.at = r->now}, &r->strings, &(struct job){0}),
        ERR_UNPROCESSABLE);
    put(r, "b", flying(4));
    assert_ok(
        engine_rerun(r->e, r->now, a, (struct rerun){.at = r->now}, &r->strings, &(struct job){0}));
    assert_int_equal(view(r, "b").jobs, 1);
}

static void a_burst_decides_what_a_job_may_cost(void **state)
{
    R;
    put(r, "t", timed(2, 6));
    struct enqueue s = spec("q", "6:t");
    assert_ok(engine_budget_check(r->e, &s, 1, "jobs"));
    s.options.budgets = STR("7:t");
    assert_code(engine_budget_check(r->e, &s, 1, "jobs"), ERR_UNPROCESSABLE);
    s.options.budgets = STR("1:nowhere");
    assert_code(engine_budget_check(r->e, &s, 1, "jobs"), ERR_UNPROCESSABLE);
}

static void an_enqueue_creates_what_is_not_there(void **state)
{
    R;
    const struct budget_create creates[] = {{STR("new"), two}, {STR("old"), two}};
    put(r, "old", flying(9));
    struct enqueue s[2] = {spec("q", "1:new,3:old"), spec("q", "2:new")};
    s[0].budget_creates = creates;
    s[0].budget_create_count = 2;
    assert_ok(engine_budget_check(r->e, s, 2, "jobs"));
    struct enqueued out[2];
    assert_ok(engine_enqueue(r->e, r->now, s, 2, &r->strings, out));
    assert_int_equal(view(r, "new").budget.policy.allocation, 2);
    assert_int_equal(view(r, "old").budget.policy.allocation, 9);
    rig_restart(r);
    assert_int_equal(view(r, "new").jobs, 2);
}

static void there_are_only_so_many_budgets(void **state)
{
    R;
    r->settings.budgets_max = 2;
    engine_configure(r->e, &r->settings);
    put(r, "a", two);
    put(r, "b", two);
    assert_code(try_put(r, "c", two), ERR_TOO_MANY);
    put(r, "b", flying(3));
    const struct budget_create create = {STR("c"), two};
    struct enqueue s = spec("q", "1:c");
    s.budget_creates = &create;
    s.budget_create_count = 1;
    assert_code(engine_budget_check(r->e, &s, 1, "jobs"), ERR_TOO_MANY);
    assert_ok(engine_budget_remove(r->e, STR("a")));
    assert_ok(engine_budget_check(r->e, &s, 1, "jobs"));
}

static void a_budget_whose_record_is_lost_comes_back_as_narrow_as_its_jobs_allow(void **state)
{
    R;
    put(r, "b", flying(100));
    struct id a = add(r, "q", "2:b"), b = add(r, "q", "3:b");
    memset(r->budgets, 0, sizeof r->budgets);
    rig_restart(r);
    assert_int_equal(view(r, "b").budget.policy.allocation, 3);
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* --- together with what else keeps jobs back --- */

static void a_full_key_takes_no_tokens(void **state)
{
    R;
    put(r, "b", two);
    rig_set(r, "q", .concurrency_per_key = 1);
    struct enqueue s = spec("q", "1:b");
    s.options.concurrency_key = STR("k");
    struct id a = rig_add_spec(r, &s), same = rig_add_spec(r, &s);
    struct id other = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a, other);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, other, same);
}

static void a_job_that_lacks_tokens_does_not_use_up_its_key(void **state)
{
    R;
    put(r, "b", flying(1));
    rig_set(r, "q", .concurrency_per_key = 1);
    struct enqueue s = rig_spec("q");
    s.options.concurrency_key = STR("k");
    struct id first = rig_add_spec(r, &s);
    struct id holder = add(r, "q", "1:b");
    s.options.budgets = STR("1:b");
    rig_add_spec(r, &s);
    s.options.budgets = (struct str){0};
    struct id free = rig_add_spec(r, &s);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, first, holder);
    rig_succeed(r, first);
    rig_turn(r);
    rig_assert_got(r, first, holder, free);
}

static void a_claim_of_a_given_job_needs_the_tokens_but_not_its_turn(void **state)
{
    R;
    put(r, "b", flying(3));
    struct id a = add(r, "q", "2:b"), waits = add(r, "q", "2:b"), c = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    rig_assert_got(r, a);
    struct handout h;
    bool repeated;
    struct job_claim claim = {.id = waits, .any_run = true, .lease = RIG_LEASE};
    struct err err = engine_claim_job(r->e, r->now, &claim, &r->strings, &h, &repeated);
    assert_code(err, ERR_UNPROCESSABLE);
    assert_non_null(strstr(err.msg, "draws 2 on budget 'b', which has 1 tokens left"));
    claim.id = c;
    assert_ok(engine_claim_job(r->e, r->now, &claim, &r->strings, &h, &repeated));
    assert_int_equal(view(r, "b").available, 0);
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, waits);
}

static struct id add_member(struct rig *r, const char *bindings)
{
    struct enqueue s = spec("q", bindings);
    s.options.gang = STR("g");
    s.options.gang_size = 2;
    return rig_add_spec(r, &s);
}

static void a_gang_is_paid_for_as_a_whole(void **state)
{
    R;
    put(r, "b", flying(5));
    struct id a = add(r, "q", "2:b"), x = add_member(r, "2:b"), y = add_member(r, "2:b");
    struct id late = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, a); /* three are left, and kept for the gang */
    rig_succeed(r, a);
    rig_turn(r);
    rig_assert_got(r, a, late, x, y);
    assert_int_equal(view(r, "b").available, 0);
}

static void a_gang_that_no_budget_could_pay_holds_up_nobody(void **state)
{
    R;
    put(r, "b", flying(3));
    struct id x = add_member(r, "2:b"), y = add_member(r, "2:b"), late = add(r, "q", "1:b");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_assert_got(r, late);
    put(r, "b", flying(5));
    rig_turn(r);
    rig_assert_got(r, late, x, y);
}

/* --- what it costs --- */

static void parked_jobs_cost_nothing_when_tokens_come_back(void **state)
{
    R;
    put(r, "b", flying(1));
    struct id first = add(r, "q", "1:b");
    for (int i = 0; i < 2000; i++)
        add(r, i % 2 ? "q" : "p", "1:b");
    rig_stream(r, "w", NULL, 10);
    rig_turn(r);
    rig_assert_got(r, first);
    unsigned reads = r->reads;
    for (int i = 0; i < 20; i++) {
        rig_succeed(r, r->got[r->got_count - 1].id);
        rig_clear(r);
        rig_turn(r);
        assert_int_equal(r->got_count, 1);
    }
    assert_in_range(r->reads - reads, 20, 100);
}

static void each_token_goes_to_one_of_very_many_queues(void **state)
{
    R;
    char names[200][8];
    put(r, "b", flying(1));
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(names[i], sizeof names[i], "q%zu", i);
        add(r, names[i], "1:b");
    }
    rig_stream(r, "w", NULL, 5);
    for (size_t i = 0; i < COUNT(names); i++) {
        rig_turn(r);
        assert_int_equal(r->got_count, 1);
        assert_string_equal(r->got[0].payload, "{\"n\":1}");
        rig_succeed(r, r->got[0].id);
        rig_clear(r);
    }
    assert_int_equal(engine_budget_remove_all(r->e), 1);
}

/* --- what people see --- */

static void an_explanation_names_the_budget_that_lacks_tokens(void **state)
{
    R;
    struct explanation x;
    struct job_extent extent;
    put(r, "b", timed(10, 2));
    add(r, "q", "2:b");
    struct id b = add(r, "q", "2:b");
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    assert_ok(engine_explain(r->e, r->now, b, &r->strings, &x, &extent));
    assert_int_equal(x.obstacle_count, 1);
    assert_int_equal(x.obstacles[0].kind, OBSTACLE_BUDGET);
    assert_int_equal(x.obstacles[0].until.ms, r->now.ms + 200);
    assert_non_null(strstr(x.obstacles[0].text.at, "it draws 2 on budget 'b', which has 0"));
}

static void budgets_are_listed_by_key(void **state)
{
    R;
    struct budget_view *views;
    put(r, "b", two);
    put(r, "a", flying(1));
    put(r, "c", timed(7, 0));
    assert_int_equal(engine_budget_list(r->e, r->now, &r->strings, &views), 3);
    assert_true(str_eq(views[0].budget.key, STR("a")));
    assert_true(str_eq(views[2].budget.key, STR("c")));
    assert_int_equal(views[2].available, 7);
    struct budget_view v;
    assert_code(engine_budget_read(r->e, r->now, STR("d"), &v), ERR_NOT_FOUND);
    assert_code(engine_budget_put(r->e, r->now, STR("a"), &two, true, &v), ERR_CONFLICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_in_flight_cost_no_more_than_the_allocation),
        TEST(a_released_and_a_lost_run_give_their_tokens_back),
        TEST(a_costly_job_is_not_passed_by_cheap_ones_of_its_budget),
        TEST(a_job_that_is_removed_holds_up_nobody),
        TEST(a_queue_that_nobody_takes_does_not_keep_the_tokens),
        TEST(a_paused_queue_does_not_keep_the_tokens),
        TEST(all_budgets_of_a_job_must_pay),
        TEST(a_job_of_two_busy_budgets_is_handed_out_in_the_end),
        TEST(two_jobs_that_need_each_others_budgets_are_both_handed_out),
        TEST(a_time_based_budget_begins_full_and_drips),
        TEST(a_cost_collects_its_tokens),
        TEST(a_faster_rate_wakes_who_waits),
        TEST(a_restart_fills_what_time_refills_and_counts_what_is_in_flight),
        TEST(a_lower_allocation_is_over_committed_until_runs_end),
        TEST(a_higher_allocation_counts_at_once),
        TEST(nothing_is_allowed_below_a_cost_that_is_bound),
        TEST(a_burst_decides_what_a_job_may_cost),
        TEST(an_enqueue_creates_what_is_not_there),
        TEST(there_are_only_so_many_budgets),
        TEST(a_budget_whose_record_is_lost_comes_back_as_narrow_as_its_jobs_allow),
        TEST(a_full_key_takes_no_tokens),
        TEST(a_job_that_lacks_tokens_does_not_use_up_its_key),
        TEST(a_claim_of_a_given_job_needs_the_tokens_but_not_its_turn),
        TEST(a_gang_is_paid_for_as_a_whole),
        TEST(a_gang_that_no_budget_could_pay_holds_up_nobody),
        TEST(parked_jobs_cost_nothing_when_tokens_come_back),
        TEST(each_token_goes_to_one_of_very_many_queues),
        TEST(an_explanation_names_the_budget_that_lacks_tokens),
        TEST(budgets_are_listed_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
