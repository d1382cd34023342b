/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "net/body_memory.h"

#define MIB   ((uint64_t)1024 * 1024)
#define MOST  (64 * MIB)
#define LARGE (48 * MIB) /* three quarters */
#define TICK  500
#define WAIT  30000

static int woken;
static struct body_memory_share *woken_last;

static void on_wake(struct body_memory_share *share)
{
    woken++;
    woken_last = share;
}

struct fixture {
    struct body_memory *memory;
    struct body_memory_account a;
    struct body_memory_share shares[8];
};

static void open_fixture(struct fixture *f)
{
    *f = (struct fixture){.memory = body_memory_new(MOST)};
    body_memory_open(&f->a, f->memory, on_wake);
    woken = 0;
    woken_last = NULL;
}

static void close_fixture(struct fixture *f)
{
    for (size_t i = 0; i < COUNT(f->shares); i++)
        body_memory_forget(&f->a, &f->shares[i]);
    assert_int_equal(body_memory_held(f->memory), 0);
    assert_false(body_memory_is_short(f->memory));
    body_memory_close(&f->a);
    body_memory_free(f->memory);
}

/* Half-sent. */
static void hold(struct fixture *f, int i, uint64_t bytes)
{
    body_memory_count(&f->a, &f->shares[i], bytes, 0);
}

static bool may_read(struct fixture *f, int i)
{
    return body_memory_may_read(&f->a, &f->shares[i]);
}

static void a_small_request_is_read_whatever_others_hold(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    hold(&f, 0, 2 * MOST);
    hold(&f, 1, BODY_MEMORY_TINY);
    assert_true(may_read(&f, 1));
    hold(&f, 1, 0);
    assert_true(may_read(&f, 1));
    assert_false(body_memory_is_short(f.memory));
    close_fixture(&f);
}

static void large_requests_wait_beyond_three_quarters_and_small_ones_beyond_all(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    body_memory_add(&f.a, LARGE); /* of requests under way: they end without help */
    hold(&f, 0, MIB);
    hold(&f, 1, BODY_MEMORY_SMALL);
    assert_false(may_read(&f, 0));
    assert_true(may_read(&f, 1));
    assert_true(body_memory_is_short(f.memory));
    body_memory_add(&f.a, MOST - LARGE);
    assert_false(may_read(&f, 1));
    body_memory_release(&f.a, MOST);
    assert_int_equal(woken, 2);
    assert_true(may_read(&f, 0));
    assert_true(may_read(&f, 1));
    close_fixture(&f);
}

static void half_sent_requests_that_hold_everything_go_on_one_by_one(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    for (int i = 0; i < 4; i++)
        hold(&f, i, MOST / 4);
    assert_true(may_read(&f, 0)); /* it asks first */
    assert_true(may_read(&f, 0));
    for (int i = 1; i < 4; i++)
        assert_false(may_read(&f, i));
    hold(&f, 0, MOST / 2); /* as large as it likes */
    assert_true(may_read(&f, 0));
    assert_int_equal(woken, 0);
    hold(&f, 0, 0); /* whole; three quarters are still held */
    assert_int_equal(woken, 1);
    assert_ptr_equal(woken_last, &f.shares[1]);
    assert_true(may_read(&f, 1));
    assert_false(may_read(&f, 2));
    body_memory_forget(&f.a, &f.shares[1]); /* its client has gone */
    assert_true(woken >= 2);
    assert_true(may_read(&f, 2));
    close_fixture(&f);
}

/* Or each that is read to its end would be added to what waits. */
static void nobody_is_preferred_while_requests_under_way_hold_the_memory(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    hold(&f, 0, MIB);
    body_memory_add(&f.a, MOST);
    assert_false(may_read(&f, 0));
    hold(&f, 1, 2 * MIB);
    body_memory_count(&f.a, &f.shares[1], 2 * MIB, 2 * MIB);
    assert_false(may_read(&f, 0));
    body_memory_release(&f.a, MOST);
    assert_int_equal(woken, 1);
    assert_true(may_read(&f, 0));
    close_fixture(&f);
}

static void who_waits_for_growth_is_woken_though_it_is_read(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    body_memory_add(&f.a, LARGE);
    hold(&f, 0, BODY_MEMORY_SMALL);
    assert_false(body_memory_may_grow(&f.a, &f.shares[0]));
    assert_true(may_read(&f, 0));
    body_memory_release(&f.a, LARGE);
    assert_ptr_equal(woken_last, &f.shares[0]);
    assert_true(body_memory_may_grow(&f.a, &f.shares[0]));
    close_fixture(&f);
}

static enum body_memory_verdict judge(struct fixture *f, int i, uint64_t received, int times)
{
    enum body_memory_verdict v = BODY_MEMORY_FINE;
    while (times-- && v == BODY_MEMORY_FINE)
        v = body_memory_judge(&f->a, &f->shares[i], received, true, TICK, WAIT);
    return v;
}

static void who_waits_for_too_long_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    body_memory_add(&f.a, MOST);
    hold(&f, 0, MIB);
    assert_int_equal(judge(&f, 0, MIB, 1000), BODY_MEMORY_FINE);
    assert_false(may_read(&f, 0));
    assert_int_equal(judge(&f, 0, MIB, WAIT / TICK - 1), BODY_MEMORY_FINE);
    uint64_t more = MIB + BODY_MEMORY_ADVANCE;
    assert_int_equal(judge(&f, 0, more, WAIT / TICK - 1), BODY_MEMORY_FINE);
    body_memory_release(&f.a, MOST); /* a moment of room changes nothing */
    assert_true(may_read(&f, 0));
    body_memory_add(&f.a, MOST);
    assert_false(may_read(&f, 0));
    assert_int_equal(judge(&f, 0, more, 1), BODY_MEMORY_WAITED);
    hold(&f, 0, 0); /* refused: it is read, and waits no more */
    assert_false(body_memory_is_short(f.memory));
    body_memory_release(&f.a, MOST);
    close_fixture(&f);
}

static void who_sends_next_to_nothing_is_refused_iff_others_wait(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    hold(&f, 0, MOST);
    assert_int_equal(judge(&f, 0, 1, 1000), BODY_MEMORY_FINE);
    assert_true(may_read(&f, 0)); /* it is preferred */
    hold(&f, 1, MIB);
    assert_false(may_read(&f, 1));
    int patience = BODY_MEMORY_PATIENCE_MS / TICK;
    assert_int_equal(judge(&f, 0, 1, patience - 1), BODY_MEMORY_FINE);
    assert_int_equal(judge(&f, 0, 1 + BODY_MEMORY_PROGRESS, patience), BODY_MEMORY_FINE);
    assert_int_equal(judge(&f, 0, 1 + BODY_MEMORY_PROGRESS, 1), BODY_MEMORY_SLOW);
    close_fixture(&f);
}

/* Each thread counts in an account of its own; what it holds at last is nothing. */
#define ROUNDS 20000

static void *count_on_a_thread(void *memory)
{
    struct body_memory_account a;
    struct body_memory_share shares[4] = {0};
    body_memory_open(&a, memory, on_wake);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct body_memory_share *s = &shares[i % COUNT(shares)];
        body_memory_count(&a, s, (i * 7919) % (8 * MIB), 0);
        (void)body_memory_may_read(&a, s);
        body_memory_add(&a, i);
        (void)body_memory_judge(&a, s, i, true, TICK, WAIT);
        body_memory_release(&a, i);
        if (i % 16 == 15)
            body_memory_forget(&a, s);
    }
    for (size_t i = 0; i < COUNT(shares); i++)
        body_memory_forget(&a, &shares[i]);
    body_memory_close(&a);
    return NULL;
}

static void threads_count_in_one_sum(void **state)
{
    (void)state;
    struct body_memory *m = body_memory_new(16 * MIB);
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_on_a_thread, m), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(body_memory_held(m), 0);
    assert_false(body_memory_is_short(m));
    body_memory_free(m);
}

static void what_another_thread_holds_makes_this_one_wait(void **state)
{
    (void)state;
    struct fixture f;
    struct body_memory_account other;
    open_fixture(&f);
    body_memory_open(&other, f.memory, on_wake);
    body_memory_add(&other, MOST);
    hold(&f, 0, MIB);
    assert_false(may_read(&f, 0));
    body_memory_release(&other, MOST);
    assert_int_equal(woken, 0); /* it is the other thread's to wake */
    body_memory_retry(&f.a);
    assert_int_equal(woken, 1);
    assert_true(may_read(&f, 0));
    body_memory_close(&other);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_request_is_read_whatever_others_hold),
        cmocka_unit_test(large_requests_wait_beyond_three_quarters_and_small_ones_beyond_all),
        cmocka_unit_test(half_sent_requests_that_hold_everything_go_on_one_by_one),
        cmocka_unit_test(nobody_is_preferred_while_requests_under_way_hold_the_memory),
        cmocka_unit_test(who_waits_for_growth_is_woken_though_it_is_read),
        cmocka_unit_test(who_waits_for_too_long_is_refused),
        cmocka_unit_test(who_sends_next_to_nothing_is_refused_iff_others_wait),
        cmocka_unit_test(threads_count_in_one_sum),
        cmocka_unit_test(what_another_thread_holds_makes_this_one_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
