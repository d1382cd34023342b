/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "answer.h"
#include "base/array.h"

/* Reads all answers of a text whose bytes arrive in two parts, split at `cut`, into "status:body;"
 * each. */
static void read_cut(struct str text, size_t cut, struct buf *seen)
{
    struct answer a = {0};
    struct buf in = {0};
    seen->len = 0;
    for (int part = 0; part < 2; part++) {
        buf_add(&in, part ? text.at + cut : text.at, part ? text.len - cut : cut);
        size_t used = 0;
        enum answer_step step;
        do {
            used += answer_feed(&a, (struct str){in.at + used, in.len - used}, &step);
            assert_int_not_equal(step, ANSWER_BROKEN);
            if (step == ANSWER_COMPLETE)
                buf_print(seen, "%d:%.*s;", a.status, STR_ARG(a.view));
        } while (step == ANSWER_COMPLETE && used < in.len);
        buf_drop(&in, used);
    }
    buf_fini(&in);
    answer_fini(&a);
}

static void pipelined_answers_read_the_same_wherever_they_are_cut(void **state)
{
    (void)state;
    const struct str text = STR("HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello"
                                "HTTP/1.1 204 No Content\r\n\r\n"
                                "HTTP/1.1 200 OK\r\ncontent-length:0\r\nx: y\r\n\r\n"
                                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nt: v\r\n\r\n"
                                "HTTP/1.1 422 Unprocessable\r\ncontent-length: 2\r\n\r\n{}");
    const struct str wanted = STR("201:hello;204:;200:;200:abc0123456789;422:{};");
    struct buf seen = {0};
    for (size_t cut = 0; cut <= text.len; cut++) {
        read_cut(text, cut, &seen);
        assert_true(str_eq(buf_view(&seen), wanted));
    }
    buf_fini(&seen);
}

static void an_endless_body_is_readable_before_its_end(void **state)
{
    (void)state;
    struct answer a = {0};
    enum answer_step step;
    const struct str text =
        STR("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n");
    assert_int_equal(answer_feed(&a, text, &step), text.len);
    assert_int_equal(step, ANSWER_MORE);
    assert_int_equal(a.status, 200);
    assert_true(str_eq(buf_view(&a.body), STR("{}\n")));
    answer_fini(&a);
}

static void what_is_not_http_is_broken(void **state)
{
    (void)state;
    const struct str texts[] = {
        STR("SSH-2.0-OpenSSH\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\nx: no length and not chunked\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"),
        STR("HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        STR("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n"),
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct answer a = {0};
        enum answer_step step;
        answer_feed(&a, texts[i], &step);
        assert_int_equal(step, ANSWER_BROKEN);
        answer_fini(&a);
    }
}

static void ids_are_found_one_after_the_other(void **state)
{
    (void)state;
    struct str rest =
        STR("{\"jobs\":[{\"id\":\"one\",\"token\":\"t\"},{\"x\":2,\"id\": \"two\"}]}");
    struct str id, token;
    assert_int_equal(answer_count_ids(rest), 2);
    assert_true(answer_next_id(&rest, &id) && str_eq(id, STR("one")));
    assert_true(answer_next_token(&rest, &token) && str_eq(token, STR("t")));
    assert_true(answer_next_id(&rest, &id) && str_eq(id, STR("two")));
    assert_false(answer_next_id(&rest, &id));
    assert_false(answer_next_token(&rest, &token));
}

/* The count works in blocks; no id may be lost or doubled where two of them meet. */
static void ids_are_counted_at_every_place(void **state)
{
    (void)state;
    char text[600];
    for (size_t at = 0; at + 4 <= sizeof text; at++) {
        memset(text, '"', sizeof text);
        memcpy(text + at, "\"id\"", 4);
        assert_int_equal(answer_count_ids((struct str){text, sizeof text}), 1);
        assert_int_equal(answer_count_ids((struct str){text, at + 3}), 0);
    }
    assert_int_equal(answer_count_ids(STR("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelined_answers_read_the_same_wherever_they_are_cut),
        cmocka_unit_test(an_endless_body_is_readable_before_its_end),
        cmocka_unit_test(what_is_not_http_is_broken),
        cmocka_unit_test(ids_are_found_one_after_the_other),
        cmocka_unit_test(ids_are_counted_at_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
