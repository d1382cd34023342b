/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "worker/azure_messages.h"

#define TASK "fN1SbArXTPSVFUUvaOlinQ"
/* {"taskId":"fN1SbArXTPSVFUUvaOlinQ","runId":3} */
#define TEXT "eyJ0YXNrSWQiOiJmTjFTYkFyWFRQU1ZGVVV2YU9saW5RIiwicnVuSWQiOjN9"

static struct azure_message messages[AZURE_MESSAGES_MAX];
static size_t count;

static struct err read_xml(const char *xml, struct arena *a)
{
    return azure_messages_read(str_from(xml), a, messages, &count);
}

static void a_message_names_a_run(void **state)
{
    (void)state;
    struct arena a = {0};
    struct err e = read_xml("\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
                            "<QueueMessagesList>\n <QueueMessage>\n"
                            "  <MessageId> a&amp;b </MessageId><InsertionTime>x</InsertionTime>\n"
                            "  <New><PopReceipt>no</PopReceipt></New>\n"
                            "  <PopReceipt>++//=&#x26;</PopReceipt>\n"
                            "  <DequeueCount>12</DequeueCount><MessageText>" TEXT
                            "</MessageText>\n </QueueMessage>\n</QueueMessagesList>\n",
                            &a);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(count, 1);
    assert_true(str_eq(messages[0].id, STR("a&b")));
    assert_true(str_eq(messages[0].receipt, STR("++//=&")));
    assert_true(str_eq(messages[0].task_id, STR(TASK)));
    assert_int_equal(messages[0].run, 3);
    assert_int_equal(messages[0].dequeues, 12);
    assert_false(messages[0].bad);
    arena_fini(&a);
}

static void an_empty_list_has_none(void **state)
{
    (void)state;
    struct arena a = {0};
    assert_int_equal(read_xml("<QueueMessagesList/>", &a).code, ERR_OK);
    assert_int_equal(count, 0);
    arena_fini(&a);
}

#define MESSAGE(text)                                                                              \
    "<QueueMessage><MessageId>i</MessageId><PopReceipt>r</PopReceipt><MessageText>" text           \
    "</MessageText></QueueMessage>"

static void a_message_that_names_no_run_is_marked(void **state)
{
    (void)state;
    static const char *const texts[] = {
        MESSAGE(""),
        MESSAGE("*"),
        MESSAGE("e30="),                                     /* {} */
        MESSAGE("eyJ0YXNrSWQiOiIuLi8uLi94IiwicnVuSWQiOjB9"), /* {"taskId":"../../x","runId":0} */
        MESSAGE("eyJ0YXNrSWQiOiJmTjFTYkFyWFRQU1ZGVVV2YU9saW5RIiwicnVuSWQiOi0xfQ=="), /* runId -1 */
        MESSAGE("WzFd"),                                                             /* [1] */
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct arena a = {0};
        struct buf b = {0};
        buf_print(&b, "<QueueMessagesList>%s%s</QueueMessagesList>", texts[i], MESSAGE(TEXT));
        assert_int_equal(azure_messages_read(buf_view(&b), &a, messages, &count).code, ERR_OK);
        assert_int_equal(count, 2);
        assert_true(messages[0].bad);
        assert_false(messages[1].bad);
        buf_fini(&b);
        arena_fini(&a);
    }
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "no",
        "<a/>",
        "<QueueMessagesList>",
        "<QueueMessagesList></x>",
        "<QueueMessagesList><QueueMessage></QueueMessage></QueueMessagesList>",
        ("<QueueMessagesList><QueueMessage><MessageId>i</MessageId></QueueMessage>"
         "</QueueMessagesList>"),
        "<QueueMessagesList>&bad;</QueueMessagesList>",
        "<QueueMessagesList>\xff</QueueMessagesList>",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct arena a = {0};
        struct err e = read_xml(texts[i], &a);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        assert_true(strlen(e.msg) > 30);
        arena_fini(&a);
    }
}

/* A comment makes two pieces of it. */
static void a_text_of_more_than_64_kib_is_refused_however_it_comes(void **state)
{
    (void)state;
    static const char *const between[] = {"", "<!-- -->"};
    static const int lens[] = {32 << 10, (32 << 10) + 1};
    for (size_t i = 0; i < COUNT(between); i++)
        for (size_t k = 0; k < COUNT(lens); k++) {
            struct arena a = {0};
            struct buf b = {0};
            buf_print(&b,
                      "<QueueMessagesList><QueueMessage><MessageId>i</MessageId><PopReceipt>r"
                      "</PopReceipt><MessageText>%0*d%s%0*d</MessageText></QueueMessage>"
                      "</QueueMessagesList>",
                      lens[k], 0, between[i], lens[k], 0);
            struct err e = azure_messages_read(buf_view(&b), &a, messages, &count);
            assert_int_equal(e.code, k ? ERR_BAD_VALUE : ERR_OK);
            buf_fini(&b);
            arena_fini(&a);
        }
}

static void more_than_32_are_not_read(void **state)
{
    (void)state;
    struct arena a = {0};
    struct buf b = {0};
    buf_lit(&b, "<QueueMessagesList>");
    for (int i = 0; i < 40; i++)
        buf_lit(&b, MESSAGE(TEXT));
    buf_lit(&b, "</QueueMessagesList>");
    assert_int_equal(azure_messages_read(buf_view(&b), &a, messages, &count).code, ERR_OK);
    assert_int_equal(count, 32);
    buf_fini(&b);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_names_a_run),
        cmocka_unit_test(an_empty_list_has_none),
        cmocka_unit_test(a_message_that_names_no_run_is_marked),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_text_of_more_than_64_kib_is_refused_however_it_comes),
        cmocka_unit_test(more_than_32_are_not_read),
    };
    return cmocka_run_group_tests_name("worker/azure_messages", tests, NULL, NULL);
}
