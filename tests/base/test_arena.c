/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdalign.h>

#include "base/arena.h"

static void memory_is_aligned_for_any_type(void **state)
{
    (void)state;
    struct arena a = {0};
    for (size_t n = 0; n < 300; n++)
        assert_int_equal((uintptr_t)arena_get(&a, n) % alignof(max_align_t), 0);
    arena_fini(&a);
}

static void pieces_do_not_overlap_and_stay_while_the_arena_grows(void **state)
{
    (void)state;
    struct arena a = {0};
    enum { PIECES = 400 };
    unsigned char *piece[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        piece[i] = arena_get(&a, 1 + i * 7);
        memset(piece[i], (int)(i % 256), 1 + i * 7);
    }
    assert_true(a.total > 64 * 1024);
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < 1 + i * 7; k++)
            assert_int_equal(piece[i][k], i % 256);
    arena_fini(&a);
    assert_null(a.head);
    assert_int_equal(a.total, 0);
}

static void a_piece_larger_than_a_block_gets_its_own(void **state)
{
    (void)state;
    struct arena a = {0};
    const size_t large = (size_t)1 << 20;
    char *small = arena_get(&a, 10);
    memset(small, 's', 10);
    memset(arena_get(&a, large), 'l', large);
    memset(arena_get(&a, 10), 't', 10);
    assert_memory_equal(small, "ssssssssss", 10);
    assert_true(a.total >= large);
    arena_fini(&a);
}

static void zeroed_memory_is_zero_also_when_used_before(void **state)
{
    (void)state;
    struct arena a = {0};
    void *before = arena_get(&a, 512);
    memset(before, 0xff, 512);
    arena_reset(&a);
    unsigned char *p = arena_zero(&a, 512);
    assert_ptr_equal(p, before);
    for (int i = 0; i < 512; i++)
        assert_int_equal(p[i], 0);
    arena_fini(&a);
}

static void a_reset_keeps_one_block_for_a_steady_load(void **state)
{
    (void)state;
    struct arena a = {0};
    for (int i = 0; i < 100; i++)
        arena_get(&a, 4000);
    arena_get(&a, 1 << 20);
    arena_reset(&a);
    size_t kept = a.total;
    assert_int_equal(kept, 64 * 1024);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 10; i++)
            memset(arena_get(&a, 4000), round, 4000);
        assert_int_equal(a.total, kept);
        arena_reset(&a);
    }
    arena_fini(&a);
}

static void resetting_an_empty_arena_leaves_it_empty(void **state)
{
    (void)state;
    struct arena a = {0};
    arena_reset(&a);
    assert_null(a.head);
    assert_int_equal(a.total, 0);
    arena_fini(&a);
}

static void a_copy_does_not_follow_its_original(void **state)
{
    (void)state;
    struct arena a = {0};
    char text[] = "mail";
    struct str copy = arena_copy(&a, str_from(text));
    text[0] = 'n';
    assert_true(str_eq(copy, STR("mail")));
    struct str none = arena_copy(&a, (struct str){NULL, 0});
    assert_int_equal(none.len, 0);
    assert_non_null(none.at);
    arena_fini(&a);
}

struct trail {
    char names[8];
    const char *text; /* in the arena */
};

struct step {
    struct trail *trail;
    char name;
};

static void note(void *what)
{
    struct step *s = what;
    assert_string_equal(s->trail->text, "mail");
    s->trail->names[strlen(s->trail->names)] = s->name;
}

static void what_is_deferred_is_done_once_before_the_memory_goes(void **state)
{
    (void)state;
    struct arena a = {0};
    struct trail t = {"", arena_copy(&a, (struct str){"mail", 5}).at};
    struct step steps[] = {{&t, '1'}, {&t, '2'}, {&t, '3'}};
    arena_defer(&a, note, &steps[0]);
    arena_defer(&a, note, &steps[1]);
    assert_string_equal(t.names, "");
    arena_reset(&a);
    assert_string_equal(t.names, "21"); /* the last first */
    t.text = arena_copy(&a, (struct str){"mail", 5}).at;
    arena_defer(&a, note, &steps[2]);
    arena_fini(&a);
    assert_string_equal(t.names, "213");
    arena_fini(&a);
    assert_string_equal(t.names, "213");
}

static void a_small_first_block_is_kept_unless_there_is_a_full_one(void **state)
{
    (void)state;
    struct arena a = {.first = 1000};
    assert_int_equal(a.total, 0);
    char *first = arena_get(&a, 900);
    assert_int_equal(a.total, 1000);
    arena_reset(&a);
    assert_ptr_equal(arena_get(&a, 900), first);
    memset(first, 'f', 900);
    memset(arena_get(&a, 2000), 's', 2000);
    assert_int_equal(a.total, 1000 + 64 * 1024);
    arena_reset(&a);
    assert_int_equal(a.total, 64 * 1024);
    memset(arena_get(&a, 60000), 't', 60000);
    assert_int_equal(a.total, 64 * 1024);
    arena_fini(&a);
    memset(arena_get(&a, 5000), 'l', 5000); /* larger than the first block would be */
    assert_int_equal(a.total, 5008);
    arena_reset(&a); /* of no size that would be looked for again */
    assert_int_equal(a.total, 0);
    memset(arena_get(&a, 10), 'u', 10);
    assert_int_equal(a.total, 1000);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_for_any_type),
        cmocka_unit_test(pieces_do_not_overlap_and_stay_while_the_arena_grows),
        cmocka_unit_test(a_piece_larger_than_a_block_gets_its_own),
        cmocka_unit_test(zeroed_memory_is_zero_also_when_used_before),
        cmocka_unit_test(a_reset_keeps_one_block_for_a_steady_load),
        cmocka_unit_test(a_small_first_block_is_kept_unless_there_is_a_full_one),
        cmocka_unit_test(resetting_an_empty_arena_leaves_it_empty),
        cmocka_unit_test(a_copy_does_not_follow_its_original),
        cmocka_unit_test(what_is_deferred_is_done_once_before_the_memory_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
