/* SPDX-License-Identifier: Apache-2.0 */

/* Retries by culprit, as bytes that a job's state keeps. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/culprit_ledger.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static void counts_survive_being_written(void **state)
{
    (void)state;
    struct culprit_ledger l = {0};
    assert_int_equal(culprit_ledger_write(&l, &memory).len, 0);
    l.of[CULPRIT_NODE] = (struct culprit_counts){.own = 300, .expired = 2, .granted = 3, .free = 4};
    l.preempted = (struct culprit_counts){.own = 7, .granted = 8};
    l.evicted = (struct culprit_counts){.own = 9};
    l.of[CULPRIT_SERVER] = (struct culprit_counts){.expired = 70000, .free = 70000};
    struct str bytes = culprit_ledger_write(&l, &memory);
    struct culprit_ledger read = culprit_ledger_read(bytes);
    assert_memory_equal(&read, &l, sizeof l);
    assert_int_equal(culprit_ledger_free(&read), 70004);
}

/* They are on disk. */
static void the_layout_stays(void **state)
{
    (void)state;
    struct culprit_ledger l = {.of[CULPRIT_NODE] = {1, 2, 3, 0x01020304}};
    static const char bytes[] = "\4\1\0\0\0\2\0\0\0\3\0\0\0\4\3\2\1";
    struct str written = culprit_ledger_write(&l, &memory);
    assert_int_equal(written.len, sizeof bytes - 1);
    assert_memory_equal(written.at, bytes, written.len);
    l = (struct culprit_ledger){.preempted = {1, 0, 0, 0}, .evicted = {2, 0, 0, 0}};
    written = culprit_ledger_write(&l, &memory);
    assert_int_equal(written.len, 34);
    assert_int_equal((unsigned char)written.at[0], 128);
    assert_int_equal((unsigned char)written.at[17], 129);
}

static void damage_and_unknown_culprits_are_skipped(void **state)
{
    (void)state;
    char bytes[40] = {(char)200, 9};
    bytes[17] = CULPRIT_NODE;
    bytes[18] = 5;
    struct culprit_ledger l = culprit_ledger_read((struct str){bytes, sizeof bytes});
    assert_int_equal(l.of[CULPRIT_NODE].own, 5);
    assert_int_equal(culprit_ledger_free(&l), 0);
    for (int i = 0; i < CULPRIT_COUNT; i++)
        l.of[i].free = UINT32_MAX;
    assert_int_equal(culprit_ledger_free(&l), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(counts_survive_being_written, tear_down),
        cmocka_unit_test_teardown(the_layout_stays, tear_down),
        cmocka_unit_test_teardown(damage_and_unknown_culprits_are_skipped, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
