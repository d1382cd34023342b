/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "amqp/amqp_headers.h"
#include "amqp/amqp_session.h"
#include "bridge/bridge_field.h"

static struct arena arena;
static struct buf out;
static bool keyed;

static void equal(struct str is, const char *should)
{
    if (!str_eq(is, str_from(should)))
        fail_msg("'%.*s' is not '%s'", STR_ARG(is), should);
}

static const struct bridge_intake intake = {
    .queue = "q", .vhost = "/", .source = "from", .keep = {600000}};

static enum err_code job_of(struct bridge_intake in, struct str body,
                            const amqp_basic_properties_t *p)
{
    const struct bridge_delivery d = {
        .body = body, .exchange = STR("ex"), .routing_key = STR("k"), .properties = p, .number = 7};
    out.len = 0;
    return bridge_message_job(&out, &in, &d, "me", &keyed).code;
}

static void a_message_without_anything_is_a_job_with_a_key_of_its_delivery(void **state)
{
    (void)state;
    const amqp_basic_properties_t p = {0};
    assert_int_equal(job_of(intake, STR(" [1.0] "), &p), ERR_OK);
    assert_false(keyed);
    equal(buf_view(&out),
          "{\"queue\":\"q\",\"type\":\"message\",\"unique_key\":\"rabbitmq:me:7\","
          "\"unique_while\":\"exists\",\"retention\":{\"completed_ms\":600000},\"payload\":[1.0]}");
}

static void its_id_is_its_key_and_a_long_one_is_digested(void **state)
{
    (void)state;
    char id[500];
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG |
                                           AMQP_BASIC_PRIORITY_FLAG,
                                 .message_id = amqp_cstring_bytes("a\"b"),
                                 .type = amqp_cstring_bytes("t"),
                                 .priority = 255};
    struct bridge_intake in = intake;
    in.keep.ms = 0;
    assert_int_equal(job_of(in, STR("1"), &p), ERR_OK);
    assert_true(keyed);
    equal(buf_view(&out), "{\"queue\":\"q\",\"type\":\"t\",\"priority\":32513,"
                          "\"unique_key\":\"rabbitmq:/:from:a\\\"b\",\"unique_while\":\"exists\","
                          "\"payload\":1}");
    memset(id, 'x', sizeof id);
    p.message_id = (amqp_bytes_t){sizeof id, id};
    assert_int_equal(job_of(in, STR("1"), &p), ERR_OK);
    assert_true(keyed);
    assert_true(out.len < 200);
    p.message_id = amqp_cstring_bytes("\xff");
    assert_int_equal(job_of(in, STR("1"), &p), ERR_OK); /* digested, too */
}

static void a_body_that_is_not_json_is_no_payload(void **state)
{
    (void)state;
    const amqp_basic_properties_t p = {0};
    assert_int_not_equal(job_of(intake, STR("text"), &p), ERR_OK);
    assert_int_equal(out.len, 0);
    assert_int_not_equal(job_of(intake, STR(""), &p), ERR_OK);
}

/* --- values of headers --- */

static amqp_field_value_t value(uint8_t kind)
{
    return (amqp_field_value_t){.kind = kind};
}

static void headers_of_every_type_are_json(void **state)
{
    (void)state;
    amqp_table_entry_t e[16];
    int n = 0;
#define ADD(k, kind, member, v)                                                                    \
    e[n] = (amqp_table_entry_t){amqp_cstring_bytes(k), value(kind)}, e[n++].value.value.member = (v)
    ADD("t", AMQP_FIELD_KIND_BOOLEAN, boolean, 1);
    ADD("b", AMQP_FIELD_KIND_I8, i8, -1);
    ADD("B", AMQP_FIELD_KIND_U8, u8, 255);
    ADD("s", AMQP_FIELD_KIND_I16, i16, -2);
    ADD("u", AMQP_FIELD_KIND_U16, u16, 65535);
    ADD("I", AMQP_FIELD_KIND_I32, i32, -3);
    ADD("i", AMQP_FIELD_KIND_U32, u32, UINT32_MAX);
    ADD("l", AMQP_FIELD_KIND_I64, i64, INT64_MIN);
    ADD("L", AMQP_FIELD_KIND_U64, u64, UINT64_MAX);
    ADD("d", AMQP_FIELD_KIND_F64, f64, 0.5);
    ADD("n", AMQP_FIELD_KIND_F64, f64, (double)NAN);
    ADD("D", AMQP_FIELD_KIND_DECIMAL, decimal, ((amqp_decimal_t){2, 150}));
    ADD("T", AMQP_FIELD_KIND_TIMESTAMP, u64, 9);
    ADD("x", AMQP_FIELD_KIND_BYTES, bytes, amqp_cstring_bytes("ab"));
    ADD("S", AMQP_FIELD_KIND_UTF8, bytes, amqp_cstring_bytes("\xff"));
    e[n++] = (amqp_table_entry_t){amqp_cstring_bytes("V"), value(AMQP_FIELD_KIND_VOID)};
    out.len = 0;
    assert_int_equal(bridge_field_write(&out, &(amqp_table_t){n, e}).code, ERR_OK);
    equal(buf_view(&out),
          "{\"t\":true,\"b\":-1,\"B\":255,\"s\":-2,\"u\":65535,\"I\":-3,\"i\":4294967295,"
          "\"l\":-9223372036854775808,\"L\":18446744073709551615,\"d\":0.5,\"n\":null,\"D\":1.5,"
          "\"T\":{\"$timestamp\":9},\"x\":{\"$bytes\":\"YWI=\"},\"S\":{\"$bytes\":\"/w==\"},"
          "\"V\":null}");
}

static enum err_code read_field(const char *json, size_t max, amqp_table_t *t, size_t *size)
{
    struct json_cursor c = json_open(str_from(json));
    arena_reset(&arena);
    *size = 0;
    return bridge_field_read(&c, &arena, max, size, t).code;
}

static void headers_of_json_are_read_back(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":-5,\"b\":4294967296,\"c\":1.5,\"d\":[true,null,\"x\"],"
                               "\"e\":{\"f\":{}},\"T\":{\"$timestamp\":9},"
                               "\"x\":{\"$bytes\":\"YWI=\"}}";
    amqp_table_t t;
    size_t size;
    assert_int_equal(read_field(json, 1000, &t, &size), ERR_OK);
    assert_int_equal(t.entries[0].value.kind, AMQP_FIELD_KIND_I32);
    assert_int_equal(t.entries[1].value.kind, AMQP_FIELD_KIND_I64);
    assert_int_equal(t.entries[2].value.kind, AMQP_FIELD_KIND_F64);
    assert_int_equal(t.entries[5].value.kind, AMQP_FIELD_KIND_TIMESTAMP);
    assert_int_equal(t.entries[6].value.kind, AMQP_FIELD_KIND_BYTES);
    char wire[1000];
    size_t offset = 0;
    assert_int_equal(amqp_encode_table((amqp_bytes_t){sizeof wire, wire}, &t, &offset),
                     AMQP_STATUS_OK);
    assert_true(offset <= size); /* what is charged is never too little */
    out.len = 0;
    assert_int_equal(bridge_field_write(&out, &t).code, ERR_OK);
    equal(buf_view(&out), json);
    assert_int_not_equal(read_field(json, size - 1, &t, &size), ERR_OK);
}

/* --- jobs as messages --- */

static struct bridge_message m;

static enum err_code message_of(const char *key, enum bridge_payload payload, const char *job)
{
    const struct bridge_outlet to = {.exchange = "ex", .routing_key = key, .payload = payload};
    arena_reset(&arena);
    return bridge_message_read(&to, str_from(job), &arena, &m).code;
}

static void a_payload_is_a_body(void **state)
{
    (void)state;
    assert_int_equal(message_of(NULL, BRIDGE_BODY,
                                "{\"id\":\"j\",\"run\":3,\"type\":\"t.u\",\"priority\":32760,"
                                "\"payload\":null,\"token\":\"x\"}"),
                     ERR_OK);
    equal(m.exchange, "ex");
    equal(m.routing_key, "t.u");
    equal(m.body, "null");
    equal(amqp_session_str(m.properties.message_id), "j");
    assert_int_equal(m.properties.priority, 8);
    assert_int_equal(m.properties.delivery_mode, 2);
    int64_t run;
    assert_true(amqp_headers_int(&m.properties.headers, STR("x-tenax-run"), &run));
    assert_int_equal(run, 3);
}

static void a_message_in_the_payload_says_the_rest(void **state)
{
    (void)state;
    assert_int_equal(
        message_of(NULL, BRIDGE_MESSAGE,
                   "{\"id\":\"j\",\"run\":0,\"type\":\"t\",\"priority\":1,\"payload\":"
                   "{\"text\":\"a\\nb\",\"routing_key\":\"k\",\"message_id\":\"m\",\"priority\":2,"
                   "\"delivery_mode\":1,\"user_id\":\"root\",\"exchange\":\"other\",\"reply_to\":"
                   "null,\"headers\":{\"x-tenax-run\":9,\"h\":1}}}"),
        ERR_OK);
    equal(m.exchange, "ex");
    equal(m.routing_key, "k");
    equal(m.body, "a\nb");
    equal(amqp_session_str(m.properties.message_id), "m");
    assert_int_equal(m.properties.priority, 2);
    assert_int_equal(m.properties.delivery_mode, 1);
    assert_false(m.properties._flags & AMQP_BASIC_USER_ID_FLAG);
    assert_false(m.properties._flags & AMQP_BASIC_REPLY_TO_FLAG);
    assert_int_equal(m.properties.headers.num_entries, 3); /* h, and the own two */
    assert_int_equal(
        message_of("fixed", BRIDGE_MESSAGE, "{\"id\":\"j\",\"payload\":{\"routing_key\":\"k\"}}"),
        ERR_OK);
    equal(m.routing_key, "fixed");
}

static void what_would_close_the_channel_is_an_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "1",
        "null",
        "{\"headers\":[]}",
        "{\"headers\":{\"CC\":\"x\"}}",
        "{\"headers\":{\"BCC\":{}}}",
        "{\"expiration\":\"-1\"}",
        "{\"expiration\":\"4294967296\"}",
        "{\"expiration\":5}",
        "{\"priority\":-1}",
        "{\"delivery_mode\":3}",
        "{\"timestamp\":-1}",
        "{\"base64\":\"!\"}",
        "{\"text\":1}",
        "{\"type\":\"\\ud800\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct buf job = {0};
        buf_print(&job, "{\"id\":\"j\",\"payload\":%s}", wrong[i]);
        buf_byte(&job, '\0');
        if (message_of("k", BRIDGE_MESSAGE, job.at) == ERR_OK)
            fail_msg("'%s' is accepted", wrong[i]);
        buf_fini(&job);
    }
}

static void names_are_those_of_jobs(void **state)
{
    (void)state;
    assert_true(bridge_message_is_name(STR("a b.\xc3\xa9")));
    assert_false(bridge_message_is_name(STR("")));
    assert_false(bridge_message_is_name(STR("a,b")));
    assert_false(bridge_message_is_name(STR("a\nb")));
    assert_false(bridge_message_is_name(STR("\xff")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_anything_is_a_job_with_a_key_of_its_delivery),
        cmocka_unit_test(its_id_is_its_key_and_a_long_one_is_digested),
        cmocka_unit_test(a_body_that_is_not_json_is_no_payload),
        cmocka_unit_test(headers_of_every_type_are_json),
        cmocka_unit_test(headers_of_json_are_read_back),
        cmocka_unit_test(a_payload_is_a_body),
        cmocka_unit_test(a_message_in_the_payload_says_the_rest),
        cmocka_unit_test(what_would_close_the_channel_is_an_error),
        cmocka_unit_test(names_are_those_of_jobs),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_fini(&out);
    arena_fini(&arena);
    return failed;
}
