/* SPDX-License-Identifier: Apache-2.0 */

/* The event log, as every backend provides it. */

#include "contract_fixture.h"

#define F struct fixture *f = *state

struct page {
    unsigned calls;
    struct err err;
    uint64_t first, last, missed_to;
    size_t count;
    bool more;
    struct event_read *cancels; /* when it is called */
    struct backend *backend;
};

static void on_page(void *ctx, const struct event_page *p)
{
    struct page *got = ctx;
    got->calls++;
    got->err = p->err;
    got->count = p->count;
    got->first = p->count ? p->events[0].number : 0;
    got->last = p->last;
    got->missed_to = p->missed_to;
    got->more = p->more;
    for (size_t i = 0; i < p->count; i++)
        assert_int_equal(p->events[i].number, got->first + i);
    if (got->cancels)
        backend_events_cancel(got->backend, got->cancels);
}

static struct event_read *ask(struct fixture *f, struct page *p, uint64_t since, uint32_t limit,
                              bool wait)
{
    struct event_read_spec spec = {
        .since = since, .limit = limit, .wait = wait, .done = on_page, .ctx = p};
    *p = (struct page){0};
    struct event_read *read = backend_events(f->b, &spec);
    assert_int_equal(p->calls, 0);
    return read;
}

static void ask_place(struct fixture *f, uint64_t since, struct answer *a)
{
    fixture_ask(f, (struct command){.kind = CMD_EVENTS_PLACE, .events_since = since}, a);
}

static void a_page_has_what_comes_after_a_number(void **state)
{
    F;
    struct page p;
    for (int i = 0; i < 5; i++)
        fixture_add(f, "q");
    ask(f, &p, 2, 10, false);
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.first, 3);
    assert_int_equal(p.count, 3);
    assert_false(p.more);
    ask(f, &p, 0, 2, true);
    fixture_settle(f);
    assert_int_equal(p.first, 1);
    assert_int_equal(p.last, 2);
    assert_true(p.more);
}

static void a_page_goes_over_several_records_and_begins_inside_of_one(void **state)
{
    F;
    struct enqueue specs[200];
    for (int i = 0; i < 200; i++)
        specs[i] = answers_spec("q");
    struct answer a;
    for (int i = 0; i < 3; i++)
        fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 200}}, &a);
    struct page p;
    ask(f, &p, 150, 300, true);
    fixture_settle(f);
    assert_int_equal(p.first, 151);
    assert_int_equal(p.count, 300);
    assert_int_equal(p.last, 450);
}

static void who_waits_is_answered_once_something_is_durable(void **state)
{
    F;
    struct page p;
    ask(f, &p, 0, 10, true);
    fixture_settle(f);
    assert_int_equal(p.calls, 0);
    fixture_add(f, "q");
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.first, 1);
}

static void who_does_not_wait_may_get_nothing(void **state)
{
    F;
    struct page p;
    ask(f, &p, 0, 10, false);
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.count, 0);
    assert_int_equal(p.last, 0);
}

static void nobody_begins_after_what_has_not_been(void **state)
{
    F;
    fixture_add(f, "q");
    fixture_settle(f);
    struct answer a;
    ask_place(f, EVENTS_NEWEST, &a);
    assert_ok(a.err);
    assert_int_equal(a.events_since, 1);
    ask_place(f, 0, &a);
    assert_ok(a.err);
    assert_int_equal(a.events_since, 0);
    ask_place(f, 2, &a);
    assert_code(a.err, ERR_BAD_VALUE);
}

static void one_can_take_back_the_question_of_another(void **state)
{
    F;
    struct page first, second;
    ask(f, &first, 0, 10, false);
    first.cancels = ask(f, &second, 0, 10, false);
    first.backend = f->b;
    fixture_settle(f);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 0);
}

static void the_end_of_the_server_answers_all(void **state)
{
    F;
    struct page p;
    ask(f, &p, 0, 10, true);
    backend_stop(f->b);
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    assert_code(p.err, ERR_STOPPING);
    ask(f, &p, 0, 10, true);
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    assert_code(p.err, ERR_STOPPING);
    struct answer a;
    ask_place(f, 0, &a);
    assert_code(a.err, ERR_STOPPING);
}

static void what_was_purged_is_said_to_be_missing(void **state)
{
    F;
    struct page p;
    for (int i = 0; i < 4; i++) {
        fixture_add(f, "q");
        fixture_settle(f);
    }
    fixture_pass(f, (span){25 * 3600 * 1000});
    fixture_settle(f);
    fixture_add(f, "q");
    ask(f, &p, 1, 10, true);
    fixture_settle(f);
    assert_in_range(p.missed_to, 2, 4); /* 1 was not requested, and 5 is new */
    assert_int_equal(p.first, p.missed_to + 1);
}

int contract_events(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_page_has_what_comes_after_a_number),
        FIXTURE_TEST(a_page_goes_over_several_records_and_begins_inside_of_one),
        FIXTURE_TEST(who_waits_is_answered_once_something_is_durable),
        FIXTURE_TEST(who_does_not_wait_may_get_nothing),
        FIXTURE_TEST(nobody_begins_after_what_has_not_been),
        FIXTURE_TEST(one_can_take_back_the_question_of_another),
        FIXTURE_TEST(the_end_of_the_server_answers_all),
        FIXTURE_TEST(what_was_purged_is_said_to_be_missing),
    };
    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
