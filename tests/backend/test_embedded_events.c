/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

/* Pages of the log of events. */

#define Y struct yard *y = *state

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

static struct event_read *ask(struct yard *y, struct page *p, uint64_t since, uint32_t limit,
                              bool wait)
{
    struct event_read *read;
    struct event_read_spec spec = {
        .since = since, .limit = limit, .wait = wait, .done = on_page, .ctx = p};
    *p = (struct page){0};
    assert_ok(backend_events(y->b, &spec, &read));
    assert_int_equal(p->calls, 0);
    return read;
}

static void a_page_has_what_comes_after_a_number(void **state)
{
    Y;
    struct page p;
    for (int i = 0; i < 5; i++)
        yard_add(y, "q");
    ask(y, &p, 2, 10, false);
    yard_settle(y);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.first, 3);
    assert_int_equal(p.count, 3);
    assert_false(p.more);
    ask(y, &p, 0, 2, true);
    yard_settle(y);
    assert_int_equal(p.first, 1);
    assert_int_equal(p.last, 2);
    assert_true(p.more);
}

static void a_page_goes_over_several_records_and_begins_inside_of_one(void **state)
{
    Y;
    struct enqueue specs[200];
    for (int i = 0; i < 200; i++)
        specs[i] = yard_spec("q");
    struct answer a;
    for (int i = 0; i < 3; i++)
        yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 200}}, &a);
    struct page p;
    ask(y, &p, 150, 300, true);
    yard_settle(y);
    assert_int_equal(p.first, 151);
    assert_int_equal(p.count, 300);
    assert_int_equal(p.last, 450);
}

static void who_waits_is_answered_once_something_is_durable(void **state)
{
    Y;
    struct page p;
    ask(y, &p, 0, 10, true);
    yard_settle(y);
    assert_int_equal(p.calls, 0);
    yard_add(y, "q");
    yard_settle(y);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.first, 1);
}

static void who_does_not_wait_may_get_nothing(void **state)
{
    Y;
    struct page p;
    ask(y, &p, 0, 10, false);
    yard_settle(y);
    assert_int_equal(p.calls, 1);
    assert_int_equal(p.count, 0);
    assert_int_equal(p.last, 0);
}

static void nobody_begins_after_what_has_not_been(void **state)
{
    Y;
    yard_add(y, "q");
    yard_settle(y);
    uint64_t newest = EVENTS_NEWEST, beyond = 2;
    assert_ok(backend_events_place(y->b, &newest));
    assert_int_equal(newest, 1);
    assert_code(backend_events_place(y->b, &beyond), ERR_BAD_VALUE);
}

static void one_can_take_back_the_question_of_another(void **state)
{
    Y;
    struct page first, second;
    ask(y, &first, 0, 10, false);
    first.cancels = ask(y, &second, 0, 10, false);
    first.backend = y->b;
    yard_settle(y);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 0);
}

static void the_end_of_the_server_answers_all(void **state)
{
    Y;
    struct page p;
    ask(y, &p, 0, 10, true);
    backend_stop(y->b);
    yard_settle(y);
    assert_int_equal(p.calls, 1);
    assert_code(p.err, ERR_STOPPING);
    uint64_t since = 0;
    assert_code(backend_events_place(y->b, &since), ERR_STOPPING);
}

static void what_was_purged_is_said_to_be_missing(void **state)
{
    Y;
    struct page p;
    for (int i = 0; i < 4; i++) {
        yard_add(y, "q");
        yard_settle(y);
    }
    y->now.ms += 25 * 3600 * 1000;
    yard_settle(y);
    ask(y, &p, 1, 10, true);
    yard_settle(y);
    assert_int_equal(p.missed_to, 3);
    assert_int_equal(p.first, 4); /* the newest record stays, for its number */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_has_what_comes_after_a_number),
        TEST(a_page_goes_over_several_records_and_begins_inside_of_one),
        TEST(who_waits_is_answered_once_something_is_durable),
        TEST(who_does_not_wait_may_get_nothing),
        TEST(nobody_begins_after_what_has_not_been),
        TEST(one_can_take_back_the_question_of_another),
        TEST(the_end_of_the_server_answers_all),
        TEST(what_was_purged_is_said_to_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
