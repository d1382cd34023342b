/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "taskcluster/tc_exchange.h"

#define ID    "fN1SbArXTPSVFNUvaOlinQ"
#define GROUP "BFNRGjmhRKOcRrLVJwgbXA"

static const struct tc_routing full = {.task_id = {ID, 22},
                                       .run = 3,
                                       .worker_group = {"wg", 2},
                                       .worker_id = {"w-1", 3},
                                       .provisioner_id = {"prov", 4},
                                       .worker_type = {"type", 4},
                                       .scheduler_id = {"sched", 5},
                                       .task_group_id = {GROUP, 22}};

static void assert_key(enum tc_exchange e, const struct tc_routing *r, const char *expected)
{
    struct buf b = {0};
    tc_exchange_routing_key(&b, e, r);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void a_key_has_the_words_of_its_task_and_run(void **state)
{
    (void)state;
    assert_key(TC_TASK_RUNNING, &full, "primary." ID ".3.wg.w-1.prov.type.sched." GROUP "._");
}

static void what_there_is_not_is_a_gap(void **state)
{
    (void)state;
    struct tc_routing r = full;
    r.worker_group = r.worker_id = (struct str){0};
    assert_key(TC_TASK_PENDING, &r, "primary." ID ".3._._.prov.type.sched." GROUP "._");
    r.run = 0;
    assert_key(TC_TASK_PENDING, &r, "primary." ID ".0._._.prov.type.sched." GROUP "._");
    r.run = -1;
    assert_key(TC_TASK_DEFINED, &r, "primary." ID "._._._.prov.type.sched." GROUP "._");
}

static void that_of_a_group_has_only_its_words(void **state)
{
    (void)state;
    const enum tc_exchange groups[] = {TC_TASK_GROUP_RESOLVED, TC_TASK_GROUP_SEALED,
                                       TC_TASK_GROUP_PRIORITY_CHANGED};
    for (size_t i = 0; i < 3; i++)
        assert_key(groups[i], &full, "primary." GROUP ".sched._");
}

/* A dot in a word would make two of it, and a long one a key of more than 255 bytes. */
static void a_worker_is_one_word_whatever_it_is_called(void **state)
{
    (void)state;
    struct tc_routing r = full;
    r.worker_group = STR("a.b c#*");
    r.worker_id = STR("h\xc3\xa9:0123456789012345678901234567890123456789");
    assert_key(TC_TASK_RUNNING, &r,
               "primary." ID
               ".3.a-b-c--.h---0123456789012345678901234567890123.prov.type.sched." GROUP "._");
    struct buf b = {0};
    tc_exchange_worker(&b, (struct str){0});
    assert_int_equal(b.len, 1);
    assert_int_equal(b.at[0], '-');
    buf_fini(&b);
}

static void the_reference_is_json_and_names_every_exchange(void **state)
{
    (void)state;
    struct buf b = {0};
    tc_exchange_reference(&b);
    struct json_cursor c = json_open(buf_view(&b));
    assert_int_equal(json_skip(&c, NULL).code, ERR_OK);
    assert_int_equal(json_close(&c).code, ERR_OK);
    buf_byte(&b, '\0');
    for (int e = 0; e < TC_EXCHANGES; e++) {
        char text[64];
        snprintf(text, sizeof text, "\"exchange\":\"%s\"", tc_exchange_name((enum tc_exchange)e));
        assert_non_null(strstr(b.at, text));
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_the_words_of_its_task_and_run),
        cmocka_unit_test(what_there_is_not_is_a_gap),
        cmocka_unit_test(that_of_a_group_has_only_its_words),
        cmocka_unit_test(a_worker_is_one_word_whatever_it_is_called),
        cmocka_unit_test(the_reference_is_json_and_names_every_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
