/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "amqp/amqp_session.h"
#include "base/buf.h"

static struct arena arena;
static struct bridge_notes notes;

static enum err_code read_event(struct str text, const char *exchange, bool taskcluster)
{
    const struct bridge_topics to = {exchange, taskcluster};
    const struct event_cursor at = {UINT64_C(0x9f3c2a417bde0815), 41};
    arena_reset(&arena);
    notes = (struct bridge_notes){0};
    return bridge_event_read(text, at, &to, &arena, &notes).code;
}

static void equal(struct str is, const char *should)
{
    if (!str_eq(is, str_from(should)))
        fail_msg("'%.*s' is not '%s'", STR_ARG(is), should);
}

#define EVENT                                                                                      \
    "{\"event\":\"job_taken\",\"queue\":\"a.b\",\"messages\":[{\"exchange\":\"x/y\","              \
    "\"routingKey\":\"primary.t\",\"cc\":[\"route.a\",\"route.\\u00e9\"],"                         \
    "\"payload\":{\"p\": 1}}],\"run\":0}"

static void an_event_goes_to_its_exchange_without_its_messages(void **state)
{
    (void)state;
    assert_int_equal(read_event(STR(EVENT), "events", false), ERR_OK);
    assert_int_equal(notes.count, 1);
    equal(notes.at[0].exchange, "events");
    equal(notes.at[0].routing_key, "a.b.job_taken");
    equal(notes.at[0].message_id, "9f3c2a417bde0815-41");
    equal(notes.at[0].type, "job_taken");
    equal(notes.at[0].body, "{\"event\":\"job_taken\",\"queue\":\"a.b\",\"run\":0}");
}

static void its_messages_go_to_theirs_with_routes(void **state)
{
    (void)state;
    assert_int_equal(read_event(STR(EVENT), NULL, true), ERR_OK);
    assert_int_equal(notes.count, 1);
    equal(notes.at[0].exchange, "x/y");
    equal(notes.at[0].routing_key, "primary.t");
    equal(notes.at[0].message_id, "9f3c2a417bde0815-41.1");
    equal(notes.at[0].body, "{\"p\": 1}");
    assert_int_equal(notes.at[0].cc.num_entries, 2);
    equal(amqp_session_str(notes.at[0].cc.entries[1].value.bytes), "route.\xc3\xa9");
    assert_int_equal(read_event(STR(EVENT), "events", true), ERR_OK);
    assert_int_equal(notes.count, 2);
}

static void an_event_without_a_queue_has_a_gap_in_its_key(void **state)
{
    (void)state;
    assert_int_equal(read_event(STR("{\"event\":\"gap\",\"from\":1,\"to\":41}"), "e", true),
                     ERR_OK);
    equal(notes.at[0].routing_key, "_.gap");
}

static void a_long_name_of_a_queue_is_cut_between_characters(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "{\"event\":\"job_taken\",\"queue\":\"");
    for (int i = 0; i < 127; i++)
        buf_lit(&b, "\xc3\xa9");
    buf_lit(&b, "\"}");
    assert_int_equal(read_event(buf_view(&b), "e", false), ERR_OK);
    assert_int_equal(notes.at[0].routing_key.len, 244 + strlen(".job_taken"));
    buf_fini(&b);
}

static void what_rabbitmq_would_not_take_is_an_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "{}",
        "{\"event\":\"x\"",
        "{\"event\":\"x\",\"messages\":[{}]}",
        "{\"event\":\"x\",\"messages\":[{\"exchange\":\"e\",\"routingKey\":\"k\"}]}",
        "{\"event\":\"x\",\"messages\":[{\"exchange\":\"e\",\"payload\":1,\"cc\":[1]}]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (read_event(str_from(wrong[i]), "e", true) == ERR_OK)
            fail_msg("'%s' is accepted", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_goes_to_its_exchange_without_its_messages),
        cmocka_unit_test(its_messages_go_to_theirs_with_routes),
        cmocka_unit_test(an_event_without_a_queue_has_a_gap_in_its_key),
        cmocka_unit_test(a_long_name_of_a_queue_is_cut_between_characters),
        cmocka_unit_test(what_rabbitmq_would_not_take_is_an_error),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&arena);
    return failed;
}
