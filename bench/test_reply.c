/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "reply.h"

typedef size_t read_fn(struct str, struct reply *);

static const struct {
    read_fn *read;
    struct str in;
    enum reply_kind kind;
    uint64_t number;
    struct str text; /* of REPLY_JOB and REPLY_DATA */
} cases[] = {
    {reply_beanstalkd, {"INSERTED 17\r\n", 13}, REPLY_STORED, 17, {NULL, 0}},
    {reply_beanstalkd, {"RESERVED 9 5\r\na\r\nbc\r\n", 21}, REPLY_JOB, 9, {"a\r\nbc", 5}},
    {reply_beanstalkd, {"RESERVED 9 0\r\n\r\n", 16}, REPLY_JOB, 9, {"", 0}},
    {reply_beanstalkd, {"DELETED\r\n", 9}, REPLY_DELETED, 0, {NULL, 0}},
    {reply_beanstalkd, {"USING bench\r\n", 13}, REPLY_OK, 0, {NULL, 0}},
    {reply_beanstalkd, {"WATCHING 2\r\n", 12}, REPLY_OK, 0, {NULL, 0}},
    {reply_beanstalkd, {"OK 4\r\n---\n\r\n", 12}, REPLY_DATA, 0, {"---\n", 4}},
    {reply_beanstalkd, {"BURIED 4\r\n", 10}, REPLY_REFUSED, 0, {NULL, 0}},
    {reply_beanstalkd, {"NOT_FOUND\r\n", 11}, REPLY_REFUSED, 0, {NULL, 0}},
    {reply_redis, {"+OK\r\n", 5}, REPLY_OK, 0, {NULL, 0}},
    {reply_redis, {":1000\r\n", 7}, REPLY_NUMBER, 1000, {NULL, 0}},
    {reply_redis, {"$5\r\na\r\nbc\r\n", 11}, REPLY_DATA, 5, {"a\r\nbc", 5}},
    {reply_redis, {"$0\r\n\r\n", 6}, REPLY_DATA, 0, {"", 0}},
    {reply_redis, {"$-1\r\n", 5}, REPLY_NONE, 0, {NULL, 0}},
    {reply_redis, {"*-1\r\n", 5}, REPLY_NONE, 0, {NULL, 0}},
    {reply_redis, {"-ERR no such thing\r\n", 20}, REPLY_REFUSED, 0, {NULL, 0}},
};

static void each_reply_is_read_and_what_follows_it_is_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char in[64];
        struct reply r;
        memcpy(in, cases[i].in.at, cases[i].in.len);
        memcpy(in + cases[i].in.len, "rest", 4);
        assert_int_equal(cases[i].read((struct str){in, cases[i].in.len + 4}, &r), cases[i].in.len);
        assert_int_equal(r.kind, cases[i].kind);
        if (r.kind == REPLY_JOB || r.kind == REPLY_DATA)
            assert_true(str_eq(r.text, cases[i].text));
        if (r.kind != REPLY_REFUSED)
            assert_int_equal(r.number, cases[i].number);
    }
}

/* In memory of exactly that length, so that AddressSanitizer sees a read beyond it. */
static void a_reply_that_is_cut_anywhere_waits_for_the_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t len = 0; len < cases[i].in.len; len++) {
            struct reply r;
            char *in = malloc(len ? len : 1);
            assert_non_null(in);
            memcpy(in, cases[i].in.at, len);
            assert_int_equal(cases[i].read((struct str){in, len}, &r), 0);
            assert_int_equal(r.kind, REPLY_MORE);
            free(in);
        }
}

static void what_is_not_the_protocol_is_broken(void **state)
{
    (void)state;
    static const struct {
        read_fn *read;
        const char *in;
    } broken[] = {
        {reply_beanstalkd, "\n"},
        {reply_beanstalkd, "DELETED\n"},
        {reply_beanstalkd, "INSERTED\r\n"},
        {reply_beanstalkd, "INSERTED x\r\n"},
        {reply_beanstalkd, "RESERVED 1\r\n"},
        {reply_beanstalkd, "RESERVED 1 3\r\nabcde"},
        {reply_beanstalkd, "OK 99999999999999999999\r\n"},
        {reply_redis, "\r\n"},
        {reply_redis, "HTTP/1.1 400 Bad Request\r\n"},
        {reply_redis, ":\r\n"},
        {reply_redis, "$x\r\n"},
        {reply_redis, "$3\r\nabcde"},
        {reply_redis, "$9999999999\r\n"},
        {reply_redis, "*2\r\n"},
    };
    for (size_t i = 0; i < COUNT(broken); i++) {
        struct reply r;
        assert_int_equal(broken[i].read(str_from(broken[i].in), &r), 0);
        assert_int_equal(r.kind, REPLY_BROKEN);
    }
}

static void a_line_without_an_end_is_broken_at_last(void **state)
{
    (void)state;
    const size_t len = (size_t)5 << 10;
    char *in = malloc(len);
    struct reply r;
    assert_non_null(in);
    memset(in, 'a', len);
    assert_int_equal(reply_beanstalkd((struct str){in, len}, &r), 0);
    assert_int_equal(r.kind, REPLY_BROKEN);
    assert_int_equal(reply_redis((struct str){in, len}, &r), 0);
    assert_int_equal(r.kind, REPLY_BROKEN);
    free(in);
}

static void a_statistic_is_found_by_its_whole_name(void **state)
{
    (void)state;
    struct str text = STR("---\nname: bench\ncurrent-jobs-ready: 12\njobs: 3\nlast: 4");
    assert_int_equal(reply_stat(text, STR("current-jobs-ready")), 12);
    assert_int_equal(reply_stat(text, STR("jobs")), 3);
    assert_int_equal(reply_stat(text, STR("last")), 4);
    assert_true(reply_stat(text, STR("name")) == UINT64_MAX);
    assert_true(reply_stat(text, STR("current")) == UINT64_MAX);
    assert_true(reply_stat(STR(""), STR("jobs")) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reply_is_read_and_what_follows_it_is_left),
        cmocka_unit_test(a_reply_that_is_cut_anywhere_waits_for_the_rest),
        cmocka_unit_test(what_is_not_the_protocol_is_broken),
        cmocka_unit_test(a_line_without_an_end_is_broken_at_last),
        cmocka_unit_test(a_statistic_is_found_by_its_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
