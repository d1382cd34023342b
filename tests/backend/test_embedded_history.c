/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "base/array.h"

#include "base/must.h"
#include "core/history.h"

/* The failure history: what is kept of failures after their jobs are gone. */

#define Y struct yard *y = *state

struct look {
    struct id ids[ANSWER_LIST_MAX];
    bool succeeded[ANSWER_LIST_MAX];
    uint32_t attempts[ANSWER_LIST_MAX];
    char last[ANSWER_TEXT_MAX]; /* message of the oldest in it */
    size_t count;
    uint64_t kept, next;
    unsigned came;
};

static void on_history(void *ctx, const struct reply *r)
{
    struct look *l = ctx;
    assert_ok(r->err);
    const struct history_page *p = r->history;
    l->came++;
    l->count = p->count;
    l->kept = p->kept;
    l->next = p->next;
    assert_true(p->count <= ANSWER_LIST_MAX);
    for (size_t i = 0; i < p->count; i++) {
        const struct history_entry *h = &p->entries[i];
        l->ids[i] = h->job.id;
        l->succeeded[i] = h->succeeded;
        l->attempts[i] = h->job.state.attempts;
        snprintf(l->last, sizeof l->last, "%.*s", STR_ARG(h->run.failure.message));
    }
}

static void look(struct yard *y, uint64_t below, uint32_t limit, struct look *l)
{
    struct command c = {.kind = CMD_HISTORY_READ,
                        .history = {.below = below, .limit = limit},
                        .done = on_history,
                        .ctx = l};
    *l = (struct look){0};
    backend_submit(y->b, &c);
    yard_settle(y);
    assert_int_equal(l->came, 1);
}

static int set_up(void **state)
{
    int code = yard_setup(state);
    Y;
    y->settings.failure_history = 4;
    yard_restart(y);
    return code;
}

#define HISTORY(name) cmocka_unit_test_setup_teardown(name, set_up, yard_teardown)

static struct id claim(struct yard *y)
{
    struct answer a = {0};
    yard_claim(y, "q", 1, (span){0}, &a);
    yard_settle(y);
    assert_int_equal(a.count, 1);
    return a.ids[0];
}

static void fail_it(struct yard *y, const char *message)
{
    struct answer a;
    struct failure_report r = {.ref = {.id = claim(y), .vouched = true},
                               .failure = {.message = str_from(message), .run_time = {-1}},
                               .retry_at = {0}};
    yard_ask(y, (struct command){.kind = CMD_FAIL, .fail = r}, &a);
    assert_ok(a.err);
}

static void succeed(struct yard *y)
{
    struct answer a;
    struct run_ref run = {.id = claim(y), .vouched = true};
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = run}, &a);
    assert_ok(a.err);
}

static void a_job_that_failed_and_succeeded_is_told_of_when_it_is_gone(void **state)
{
    Y;
    struct look l;
    struct id id = yard_add(y, "q");
    fail_it(y, "first");
    fail_it(y, "second");
    succeed(y);
    assert_int_equal(yard_status(y, id), STATUS_GONE);
    for (int i = 0; i < 2; i++) {
        look(y, 0, 10, &l);
        assert_int_equal(l.count, 3);
        assert_int_equal(l.kept, 3);
        assert_int_equal(l.next, 0);
        assert_true(l.succeeded[0] && !l.succeeded[1] && !l.succeeded[2]);
        assert_id(l.ids[0], id);
        assert_id(l.ids[2], id);
        assert_int_equal(l.attempts[0], 2);
        assert_int_equal(l.attempts[1], 2);
        assert_int_equal(l.attempts[2], 1);
        assert_string_equal(l.last, "first");
        yard_crash(y);
    }
}

static void a_success_without_failures_is_no_part_of_it(void **state)
{
    Y;
    struct look l;
    yard_add(y, "q");
    succeed(y);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 0);
}

static void the_oldest_go_as_new_ones_come(void **state)
{
    Y;
    struct look l;
    struct id id = yard_add(y, "q");
    for (int i = 0; i < 7; i++)
        fail_it(y, i == 3 ? "fourth" : "m");
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 4);
    assert_int_equal(l.count, 4);
    assert_string_equal(l.last, "fourth");
    assert_id(l.ids[0], id);
    assert_int_equal(l.attempts[0], 7);
    assert_int_equal(l.attempts[3], 4);
}

static void it_is_read_in_pages_while_it_moves_on(void **state)
{
    Y;
    struct look l;
    yard_add(y, "q");
    for (int i = 0; i < 4; i++)
        fail_it(y, "m");
    look(y, 0, 2, &l);
    assert_int_equal(l.attempts[0], 4);
    assert_int_equal(l.count, 2);
    fail_it(y, "m"); /* replaces the first */
    look(y, l.next, 2, &l);
    assert_int_equal(l.count, 1);
    assert_int_equal(l.attempts[0], 2);
    assert_int_equal(l.next, 0);
}

static void a_lower_limit_takes_effect_while_it_runs_and_at_a_start(void **state)
{
    Y;
    struct look l;
    yard_add(y, "q");
    for (int i = 0; i < 4; i++)
        fail_it(y, "m");
    y->settings.failure_history = 3;
    backend_configure(y->b, &y->settings);
    instant at;
    assert_true(backend_next_due(y->b, &at) && at.ms <= y->now.ms);
    yard_settle(y);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 3);
    assert_int_equal(l.attempts[2], 2);
    y->settings.failure_history = 1;
    yard_restart(y);
    assert_true(backend_next_due(y->b, &at) && at.ms <= y->now.ms);
    yard_settle(y);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 1);
    y->settings.failure_history = 0;
    backend_configure(y->b, &y->settings);
    fail_it(y, "m");
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 0);
}

struct held {
    struct id ids[500];
    size_t count;
};

static void note_held(void *ctx, struct id id, struct str queue, struct str worker)
{
    struct held *h = ctx;
    (void)queue;
    (void)worker;
    assert_true(h->count < COUNT(h->ids));
    h->ids[h->count++] = id;
}

/* A lease that was never renewed expires without a failure. */
static void renew_all(struct yard *y)
{
    struct held held = {.count = 0};
    engine_each_live(embedded_engine(y->b), note_held, &held);
    for (size_t i = 0; i < held.count; i++) {
        struct answer a = {0};
        struct run run;
        struct command c = {.kind = CMD_RENEW};
        c.renew.run.id = held.ids[i];
        assert_true(engine_live_run(embedded_engine(y->b), held.ids[i], &run, &c.renew.run.token));
        c.renew.lease = ANSWERS_LEASE;
        yard_ask(y, c, &a);
        assert_ok(a.err);
    }
}

static void much_that_is_over_the_limit_goes_in_steps(void **state)
{
    Y;
    struct look l;
    struct answer a;
    y->settings.failure_history = 100000;
    backend_configure(y->b, &y->settings);
    struct enqueue spec = yard_spec("q");
    struct enqueue specs[500];
    for (int i = 0; i < 500; i++)
        specs[i] = spec;
    /* Each of 500 leases expires six times. */
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 500}}, &a);
    for (int i = 0; i < 6; i++) {
        struct answer claimed = {0};
        yard_claim(y, "q", 500, (span){0}, &claimed);
        yard_settle(y);
        assert_int_equal(claimed.count, 500);
        renew_all(y);
        yard_turn_after(y, ANSWERS_LEASE.ms);
        yard_settle(y);
        y->now.ms += 3600 * 1000;
        yard_settle(y);
    }
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 3000);
    yard_ask(y, (struct command){.kind = CMD_HISTORY_CLEAR}, &a);
    assert_true(a.more);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 1000);
    yard_ask(y, (struct command){.kind = CMD_HISTORY_CLEAR}, &a);
    assert_false(a.more);
    yard_crash(y);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 0);
}

static void what_did_not_become_durable_is_no_part_of_it(void **state)
{
    Y;
    struct look l;
    struct answer a = {0};
    yard_add(y, "q");
    fail_it(y, "kept");
    struct failure_report r = {.ref = {.id = claim(y), .vouched = true},
                               .failure = {.message = STR("lost"), .run_time = {-1}},
                               .retry_at = {0}};
    yard_faults(y, (struct memory_faults){.hold = true});
    yard_send(y, (struct command){.kind = CMD_FAIL, .fail = r}, &a);
    yard_turn(y);
    yard_crash(y);
    look(y, 0, 10, &l);
    assert_int_equal(l.kept, 1);
    assert_string_equal(l.last, "kept");
    assert_int_equal(l.attempts[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY(a_job_that_failed_and_succeeded_is_told_of_when_it_is_gone),
        HISTORY(a_success_without_failures_is_no_part_of_it),
        HISTORY(the_oldest_go_as_new_ones_come),
        HISTORY(it_is_read_in_pages_while_it_moves_on),
        HISTORY(a_lower_limit_takes_effect_while_it_runs_and_at_a_start),
        HISTORY(much_that_is_over_the_limit_goes_in_steps),
        HISTORY(what_did_not_become_durable_is_no_part_of_it),
    };
    return cmocka_run_group_tests_name("embedded_history", tests, NULL, NULL);
}
