/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "taskcluster/tc_mailbox.h"

#define T0 INT64_C(1700000000000)

static struct tc_message message(const char *id, uint32_t run, int64_t expires)
{
    struct tc_message m = {
        .inserted = {T0}, .visible_at = {T0}, .expires = {expires}, .receipt = 1};
    memset(m.id, '0', sizeof m.id);
    memcpy(m.id, id, strlen(id));
    tc_message_name(&m, STR("fN1SbArXTPSVFUUvaOlinQ"), run);
    return m;
}

static void a_message_is_invisible_until_its_time_is_over(void **state)
{
    (void)state;
    struct tc_mailbox b = {0};
    const struct tc_message m = message("a", 0, T0 + 1000000);
    struct tc_message *own = tc_mailbox_add(&b, &m);
    assert_ptr_equal(tc_mailbox_visible(&b, (instant){T0}), own);
    tc_mailbox_hand_out(&b, own, (instant){T0 + 1000}, 7);
    assert_int_equal(own->count, 1);
    assert_int_equal(own->receipt, 7);
    assert_null(tc_mailbox_visible(&b, (instant){T0 + 999}));
    assert_ptr_equal(tc_mailbox_visible(&b, (instant){T0 + 1000}), own);
    tc_mailbox_hand_out(&b, own, (instant){T0 + 2000}, 8);
    assert_int_equal(own->count, 2);
    tc_mailbox_fini(&b);
}

static void the_one_that_is_visible_for_the_longest_comes_first(void **state)
{
    (void)state;
    struct tc_mailbox b = {0};
    struct tc_message m = message("a", 0, T0 + 1000000);
    struct tc_message *first = tc_mailbox_add(&b, &m);
    m = message("b", 1, T0 + 1000000);
    struct tc_message *second = tc_mailbox_add(&b, &m);
    assert_ptr_equal(tc_mailbox_visible(&b, (instant){T0}), first);
    tc_mailbox_hand_out(&b, first, (instant){T0 + 10}, 1);
    assert_ptr_equal(tc_mailbox_visible(&b, (instant){T0 + 10}), second);
    tc_mailbox_fini(&b);
}

static void a_look_changes_nothing(void **state)
{
    (void)state;
    struct tc_mailbox b = {0};
    struct tc_message m = message("a", 0, T0 + 1000000), seen[3];
    struct tc_message *first = tc_mailbox_add(&b, &m);
    m = message("b", 1, T0 + 5);
    tc_mailbox_add(&b, &m);
    m = message("c", 2, T0 + 1000000);
    tc_mailbox_add(&b, &m);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0}, seen, 2), 2);
    assert_true(seen[0].run == 0 && seen[1].run == 1 && seen[0].count == 0);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0}, seen, 3), 3);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0 + 5}, seen, 3), 2); /* b's task is over */
    assert_int_equal(seen[1].run, 2);
    tc_mailbox_hand_out(&b, first, (instant){T0 + 100}, 1);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0 + 99}, seen, 3), 1);
    assert_int_equal(seen[0].run, 2);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0 + 100}, seen, 3), 2);
    tc_mailbox_fini(&b);
    assert_int_equal(tc_mailbox_peek(&b, (instant){T0}, seen, 3), 0);
}

static void a_run_whose_message_is_buried_gets_no_other(void **state)
{
    (void)state;
    struct tc_mailbox b = {0};
    const struct tc_message m = message("a", 0, T0 + 10);
    tc_mailbox_bury(&b, tc_mailbox_add(&b, &m));
    assert_null(tc_mailbox_visible(&b, (instant){T0 + 5}));
    assert_null(tc_mailbox_find(&b, tc_message_id(&m)));
    assert_true(tc_mailbox_has(&b, STR("fN1SbArXTPSVFUUvaOlinQ"), 0));
    assert_false(tc_mailbox_has(&b, STR("fN1SbArXTPSVFUUvaOlinQ"), 1));
    tc_mailbox_expire(&b, (instant){T0 + 10}, 1);
    assert_false(tc_mailbox_has(&b, STR("fN1SbArXTPSVFUUvaOlinQ"), 0));
    tc_mailbox_fini(&b);
}

static void messages_end_with_their_tasks(void **state)
{
    (void)state;
    struct tc_mailbox b = {0};
    struct tc_message m = message("a", 0, T0 + 10);
    tc_mailbox_add(&b, &m);
    m = message("b", 1, T0 + 20);
    tc_mailbox_add(&b, &m);
    tc_mailbox_expire(&b, (instant){T0 + 9}, 100);
    assert_int_equal(tc_mailbox_count(&b), 2);
    tc_mailbox_expire(&b, (instant){T0 + 10}, 100);
    assert_int_equal(tc_mailbox_count(&b), 1);
    assert_false(tc_mailbox_has(&b, STR("fN1SbArXTPSVFUUvaOlinQ"), 0));
    assert_true(tc_mailbox_has(&b, STR("fN1SbArXTPSVFUUvaOlinQ"), 1));
    tc_mailbox_fini(&b);
}

static uint64_t draw(struct rng *r, uint64_t n)
{
    return rng_below(r, n);
}

/* Against a plain list: whatever is handed out was visible, and nothing is lost. */
static void any_use_agrees_with_a_list(void **state)
{
    (void)state;
    enum { N = 40 };
    struct rng r = rng_from_seed(1);
    struct tc_mailbox b = {0};
    struct {
        bool there;
        int64_t visible;
        uint32_t count;
    } list[N] = {0};
    for (int64_t now = T0; now < T0 + 4000; now++) {
        uint32_t i = (uint32_t)draw(&r, N);
        char id[8];
        snprintf(id, sizeof id, "%03u", i);
        struct tc_message m = message(id, i, T0 + 1000000), *own;
        switch (draw(&r, 3)) {
        case 0:
            if (list[i].there)
                break;
            m.visible_at.ms = now;
            tc_mailbox_add(&b, &m);
            list[i].there = true;
            list[i].visible = now;
            list[i].count = 0;
            break;
        case 1:
            own = tc_mailbox_visible(&b, (instant){now});
            for (int j = 0; !own && j < N; j++)
                assert_false(list[j].there && list[j].visible <= now);
            if (!own)
                break;
            assert_true(list[own->run].there && list[own->run].visible <= now);
            list[own->run].visible = now + (int64_t)draw(&r, 50);
            tc_mailbox_hand_out(&b, own, (instant){list[own->run].visible}, 1);
            assert_int_equal(own->count, ++list[own->run].count);
            break;
        default:
            own = tc_mailbox_find(&b, tc_message_id(&m));
            assert_int_equal(own != NULL, list[i].there);
            if (own)
                tc_mailbox_remove(&b, own);
            list[i].there = false;
        }
    }
    tc_mailbox_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_invisible_until_its_time_is_over),
        cmocka_unit_test(the_one_that_is_visible_for_the_longest_comes_first),
        cmocka_unit_test(a_look_changes_nothing),
        cmocka_unit_test(a_run_whose_message_is_buried_gets_no_other),
        cmocka_unit_test(messages_end_with_their_tasks),
        cmocka_unit_test(any_use_agrees_with_a_list),
    };
    return cmocka_run_group_tests_name("taskcluster/tc_mailbox", tests, NULL, NULL);
}
