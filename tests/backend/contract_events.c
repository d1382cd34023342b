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
    struct job_event newest;    /* its texts are not valid any more */
    char text[64];              /* its group or file */
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
    if (p->count) {
        got->newest = p->events[p->count - 1];
        snprintf(got->text, sizeof got->text, "%.*s%.*s", STR_ARG(got->newest.group),
                 STR_ARG(got->newest.artifact));
    }
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

static struct page newest(struct fixture *f)
{
    struct page p;
    ask(f, &p, 0, 1000, false);
    fixture_settle(f);
    assert_int_equal(p.calls, 1);
    return p;
}

static void a_file_is_told_with_its_entry_or_not_at_all(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct answer claimed = {0}, a;
    struct kv_artifact file = {id, 0, STR("public/log")};
    const struct kv_change change = {.entry = {STR("s"), STR("k"), STR("v"), INSTANT_NONE, 0},
                                     .when = KV_ABSENT};
    const struct command put = {.kind = CMD_KV_PUT, .kv_put = {&change, 1, &file}};
    const struct command read = {.kind = CMD_KV_READ, .kv = {.space = STR("s"), .key = STR("k")}};
    fixture_ask(f, put, &a);
    assert_code(a.err, ERR_NOT_FOUND); /* it has no run so far */
    fixture_ask(f, read, &a);
    assert_code(a.err, ERR_NOT_FOUND);
    fixture_claim(f, "q", 1, (span){0}, &claimed);
    fixture_settle(f);
    uint64_t before = newest(f).last;
    for (int i = 0; i < 2; i++) {
        fixture_ask(f, put, &a);
        assert_code(a.err, i ? ERR_CONFLICT : ERR_OK);
        fixture_crash(f);
        struct page p = newest(f);
        assert_int_equal(p.last, before + 1);
        assert_int_equal(p.newest.event, EVENT_ARTIFACT);
        assert_int_equal(p.newest.from, STATUS_IN_FLIGHT);
        assert_int_equal(p.newest.run, 0);
        assert_int_equal(p.newest.runs, 1);
        assert_string_equal(p.text, "public/log");
    }
    fixture_ask(f, read, &a);
    assert_ok(a.err);
}

static void another_priority_of_a_group_is_told_once_for_all_its_jobs(void **state)
{
    F;
    struct enqueue specs[3];
    struct answer a;
    const struct patch patch = {.set = PATCH_PRIORITY, .priority = 9};
    for (int i = 0; i < 3; i++)
        specs[i] = answers_spec("q");
    specs[0].options.group = specs[1].options.group = STR("g");
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 3}}, &a);
    struct list_command list = {.filter.group = STR("g"), .patch = &patch};
    fixture_ask(f, (struct command){.kind = CMD_PATCH_WHERE, .list = list}, &a);
    assert_ok(a.err);
    struct page p = newest(f);
    assert_int_equal(p.newest.event, EVENT_GROUP_REPRIORITIZE);
    assert_int_equal(p.newest.priority, 9);
    assert_int_equal(p.newest.jobs, 2);
    assert_string_equal(p.text, "g");
    list.filter.group = STR("none");
    fixture_ask(f, (struct command){.kind = CMD_PATCH_WHERE, .list = list}, &a);
    list.filter.group = (struct str){0};
    fixture_ask(f, (struct command){.kind = CMD_PATCH_WHERE, .list = list}, &a);
    assert_int_equal(newest(f).newest.event, EVENT_REPRIORITIZE);
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

static void a_place_beyond_the_newest_is_a_gap_that_begins_with_the_oldest(void **state)
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
    assert_false(a.events_gap);
    ask_place(f, 2, &a);
    assert_ok(a.err);
    assert_true(a.events_gap);
    assert_int_equal(a.events_since, 0);
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
        FIXTURE_TEST(a_file_is_told_with_its_entry_or_not_at_all),
        FIXTURE_TEST(another_priority_of_a_group_is_told_once_for_all_its_jobs),
        FIXTURE_TEST(a_page_has_what_comes_after_a_number),
        FIXTURE_TEST(a_page_goes_over_several_records_and_begins_inside_of_one),
        FIXTURE_TEST(who_waits_is_answered_once_something_is_durable),
        FIXTURE_TEST(who_does_not_wait_may_get_nothing),
        FIXTURE_TEST(a_place_beyond_the_newest_is_a_gap_that_begins_with_the_oldest),
        FIXTURE_TEST(one_can_take_back_the_question_of_another),
        FIXTURE_TEST(the_end_of_the_server_answers_all),
        FIXTURE_TEST(what_was_purged_is_said_to_be_missing),
    };
    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
