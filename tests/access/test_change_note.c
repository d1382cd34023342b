/* SPDX-License-Identifier: Apache-2.0 */
#include "access/change_note.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

static void write_and_read(const struct change_note *from, struct arena *a, struct change_note *to)
{
    struct buf b = {0};
    change_note_write(from, &b);
    assert_true(b.len <= CHANGE_NOTE_MAX);
    assert_int_equal(utf8_check(buf_view(&b)), b.len);
    assert_int_equal(change_note_read(arena_copy(a, buf_view(&b)), a, to).code, ERR_OK);
    buf_fini(&b);
}

static void assert_text(struct str is, const char *expected)
{
    assert_int_equal(is.len, strlen(expected));
    assert_memory_equal(is.at, expected, is.len);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct arena a = {0};
    struct change_note n;
    const struct change_note note = {.actor = {ACTOR_JWT, STR("a \"b\""), STR("n\n")},
                                     .address = STR("::1"),
                                     .operation = STR("putQueue"),
                                     .path = STR("/queues/a"),
                                     .query = STR("x=1"),
                                     .body = STR("{\"a\":\"\\u0000\"}")};
    write_and_read(&note, &a, &n);
    assert_int_equal(n.actor.kind, ACTOR_JWT);
    assert_text(n.actor.id, "a \"b\"");
    assert_text(n.actor.name, "n\n");
    assert_text(n.address, "::1");
    assert_text(n.operation, "putQueue");
    assert_text(n.path, "/queues/a");
    assert_text(n.query, "x=1");
    assert_text(n.body, "{\"a\":\"\\u0000\"}");
    arena_fini(&a);
}

/* Whatever the bytes are, and wherever the cut falls. */
static void it_is_bounded_and_valid_whatever_it_is_given(void **state)
{
    (void)state;
    static char bytes[10000];
    static const char *const units[] = {"\x01", "\xff", "\xc3\xa4", "\xf0\x9f\x98\x80", "\"\\"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (size_t shift = 0; shift < 5; shift++) {
            size_t len = strlen(units[u]);
            memset(bytes, 'x', sizeof bytes);
            for (size_t i = shift; i + len <= sizeof bytes; i += len)
                memcpy(bytes + i, units[u], len);
            const struct str all = {bytes, sizeof bytes};
            const struct change_note note = {{ACTOR_TOKEN, all, all}, all, all, all, all, all};
            struct arena a = {0};
            struct change_note n;
            write_and_read(&note, &a, &n);
            assert_true(n.body.len <= 3072 && n.body.len > 3060);
            assert_true(n.actor.id.len <= 256 && n.path.len <= 512);
            assert_memory_equal(n.body.at + n.body.len - 3, "\xe2\x80\xa6", 3);
            arena_fini(&a);
        }
}

static void what_is_no_note_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "1",
                                        "{",
                                        "{\"kind\":\"king\"}",
                                        "{\"path\":1}",
                                        "{\"kind\":\"jwt\"} x",
                                        "{\"id\":\"\\ud800\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct arena a = {0};
        struct change_note n;
        assert_int_equal(change_note_read(str_from(texts[i]), &a, &n).code, ERR_CORRUPT);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(it_is_bounded_and_valid_whatever_it_is_given),
        cmocka_unit_test(what_is_no_note_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
