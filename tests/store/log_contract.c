/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_contract.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "store/cm.h"

#define SMALL ((size_t)2000)

/* --- batches --- */

void log_batch(uint64_t n, size_t most_len, struct buf *out)
{
    struct rng rng = rng_from_seed(n);
    out->len = 0;
    size_t len = (size_t)rng_below(&rng, most_len + 1);
    char *at = buf_room(out, len + 8);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = rng_next(&rng);
        memcpy(at + i, &word, 8);
    }
    out->len = len;
}

void log_batch_fill(struct log *l, uint64_t last, size_t most_len)
{
    struct buf b = {0};
    uint64_t number = log_durable(l);
    while (number < last) {
        log_batch(number + 1, most_len, &b);
        uint64_t expected = number + 1;
        assert_ok(log_begin(l, buf_view(&b), true, &number));
        assert_int_equal(number, expected);
    }
    assert_ok(log_wait(l, last));
    assert_int_equal(log_durable(l), last);
    buf_fini(&b);
}

struct replayed {
    uint64_t next;
    size_t most_len;
    struct buf expected;
};

static struct err compare(void *ctx, uint64_t number, struct str batch)
{
    struct replayed *r = ctx;
    assert_int_equal(number, r->next);
    log_batch(number, r->most_len, &r->expected);
    assert_int_equal(batch.len, r->expected.len);
    if (batch.len)
        assert_memory_equal(batch.at, r->expected.at, batch.len);
    r->next++;
    return err_none();
}

void log_batch_expect(struct log *l, uint64_t from, size_t most_len)
{
    struct replayed r = {.next = from, .most_len = most_len};
    assert_ok(log_replay(l, from, compare, &r));
    assert_int_equal(r.next, log_durable(l) + 1);
    buf_fini(&r.expected);
}

/* --- the tests --- */

struct fixture {
    void *state;
    struct log *l;
};

static const struct log_kind *kind;

static void reopen(struct fixture *f, uint64_t from)
{
    log_close(f->l);
    f->l = NULL;
    assert_ok(kind->open(f->state, from, &f->l));
}

static int set_up(void **state)
{
    struct fixture *f = ALLOC(struct fixture);
    f->state = kind->make();
    *state = f;
    return kind->open(f->state, 1, &f->l).code == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->l)
        log_close(f->l);
    kind->unmake(f->state);
    free(f);
    return 0;
}

static void a_new_log_is_empty(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(log_durable(f->l), 0);
    log_batch_expect(f->l, 1, SMALL);
    reopen(f, 1);
    assert_int_equal(log_durable(f->l), 0);
}

static void what_was_appended_is_replayed_after_an_opening(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 100, SMALL);
    reopen(f, 1);
    assert_int_equal(log_durable(f->l), 100);
    log_batch_expect(f->l, 1, SMALL);
    log_batch_expect(f->l, 50, SMALL);
    log_batch_expect(f->l, 100, SMALL);
    log_batch_expect(f->l, 101, SMALL);
}

static void numbers_go_on_over_openings(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 1; i <= 20; i++) {
        log_batch_fill(f->l, 3 * i, SMALL);
        reopen(f, 1);
    }
    log_batch_expect(f->l, 1, SMALL);
}

static void a_log_may_begin_at_any_number(void **state)
{
    struct fixture *f = *state;
    log_close(f->l);
    kind->unmake(f->state);
    f->state = kind->make();
    assert_ok(kind->open(f->state, 1000, &f->l));
    assert_int_equal(log_durable(f->l), 999);
    log_batch_fill(f->l, 1010, SMALL);
    reopen(f, 1000);
    log_batch_expect(f->l, 1000, SMALL);
}

static void several_may_be_under_way(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    uint64_t number = 0, before = 0;
    for (uint64_t n = 1; n <= 200; n++) {
        log_batch(n, SMALL, &b);
        assert_ok(log_begin(f->l, buf_view(&b), true, &number));
        assert_int_equal(number, n);
        uint64_t durable = log_durable(f->l);
        assert_in_range(durable, before, n);
        before = durable;
        if (n % 13 == 0) {
            struct err e;
            assert_ok(log_wait(f->l, n - 3));
            assert_true(log_ended(f->l, n - 3, &e));
            assert_ok(e);
        }
    }
    buf_fini(&b);
    reopen(f, 1); /* waits for what is under way */
    assert_int_equal(log_durable(f->l), 200);
    log_batch_expect(f->l, 1, SMALL);
}

static void an_empty_batch_has_a_number(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 10, 0);
    reopen(f, 1);
    assert_int_equal(log_durable(f->l), 10);
    log_batch_expect(f->l, 1, 0);
}

static void a_batch_of_20_mib_comes_back(void **state)
{
    struct fixture *f = *state;
    size_t len = (size_t)20 << 20;
    log_batch_fill(f->l, 2, len);
    log_batch_fill(f->l, 4, len);
    reopen(f, 1);
    log_batch_expect(f->l, 1, len);
    log_release(f->l, 3);
    reopen(f, 4);
    log_batch_expect(f->l, 4, len);
}

static void what_was_not_synced_outlives_the_process(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    uint64_t number;
    for (uint64_t n = 1; n <= 100; n++) {
        log_batch(n, SMALL, &b);
        assert_ok(log_begin(f->l, buf_view(&b), n % 3 == 0, &number));
    }
    buf_fini(&b);
    assert_ok(log_wait(f->l, 100));
    reopen(f, 1);
    assert_int_equal(log_durable(f->l), 100);
    log_batch_expect(f->l, 1, SMALL);
}

static struct err stop(void *ctx, uint64_t number, struct str batch)
{
    (void)batch;
    *(uint64_t *)ctx = number;
    return number == 5 ? err_make(ERR_STOPPING, "enough") : err_none();
}

static void an_error_ends_a_replay(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;
    log_batch_fill(f->l, 10, SMALL);
    reopen(f, 1);
    assert_code(log_replay(f->l, 3, stop, &last), ERR_STOPPING);
    assert_int_equal(last, 5);
}

static void what_the_log_let_go_of_it_does_not_pretend_to_have(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 800, SMALL);
    log_release(f->l, 790);
    reopen(f, 791);
    assert_int_equal(log_durable(f->l), 800);
    log_batch_expect(f->l, 791, SMALL);
    uint64_t last;
    assert_code(log_replay(f->l, 1, stop, &last), ERR_CORRUPT);
    log_close(f->l);
    f->l = NULL;
    assert_code(kind->open(f->state, 1, &f->l), ERR_CORRUPT);
    f->l = NULL;
    assert_ok(kind->open(f->state, 791, &f->l));
}

static void tables_ahead_of_the_log_are_damage(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 10, SMALL);
    log_close(f->l);
    f->l = NULL;
    assert_code(kind->open(f->state, 12, &f->l), ERR_CORRUPT);
    f->l = NULL;
    assert_ok(kind->open(f->state, 11, &f->l));
    log_batch_fill(f->l, 20, SMALL);
}

static void random_use_agrees_with_a_model(void **state)
{
    struct fixture *f = *state;
    struct rng rng = rng_from_seed(7);
    uint64_t released = 0;
    for (int turn = 0; turn < 100; turn++) {
        uint64_t last = log_durable(f->l);
        log_batch_fill(f->l, last + rng_below(&rng, 60), SMALL);
        last = log_durable(f->l);
        if (rng_below(&rng, 4) == 0 && last > released) {
            released += 1 + rng_below(&rng, last - released);
            log_release(f->l, released);
        }
        if (rng_below(&rng, 3) == 0) {
            uint64_t from = released + 1;
            reopen(f, from);
            assert_int_equal(log_durable(f->l), last);
            log_batch_expect(f->l, from, SMALL);
        }
    }
}

int log_contract_run(const struct log_kind *k)
{
    kind = k;
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_new_log_is_empty),
        T(what_was_appended_is_replayed_after_an_opening),
        T(numbers_go_on_over_openings),
        T(a_log_may_begin_at_any_number),
        T(several_may_be_under_way),
        T(an_empty_batch_has_a_number),
        T(a_batch_of_20_mib_comes_back),
        T(what_was_not_synced_outlives_the_process),
        T(an_error_ends_a_replay),
        T(what_the_log_let_go_of_it_does_not_pretend_to_have),
        T(tables_ahead_of_the_log_are_damage),
        T(random_use_agrees_with_a_model),
    };
#undef T
    return cmocka_run_group_tests_name(k->name, tests, NULL, NULL);
}
