/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define REFUSED(arg, received, current)                                                            \
    "PRECONDITION_FAILED - inequivalent arg '" arg                                                 \
    "' for queue 'sd' in vhost '/': received " received " but current is " current

static void expect(const char *text, const char *argument, const char *wanted, const char *found)
{
    struct amqp_difference d = {0};
    assert_true(amqp_topology_parse(str_from(text), &d));
    assert_string_equal(d.argument, argument);
    assert_string_equal(d.wanted, wanted);
    assert_string_equal(d.found, found);
}

/* As RabbitMQ 3.10 writes them. */
static void refusals_are_read_in_each_of_their_forms(void **state)
{
    (void)state;
    expect(REFUSED("x-message-ttl", "the value '5000' of type 'signedint'", "none"),
           "x-message-ttl", "5000", "none");
    expect(REFUSED("x-message-ttl", "none", "the value '60000' of type 'long'"), "x-message-ttl",
           "none", "60000");
    expect(REFUSED("x-dead-letter-exchange", "the value 'build' of type 'longstr'",
                   "the value 'other' of type 'longstr'"),
           "x-dead-letter-exchange", "build", "other");
    expect(REFUSED("durable", "'true'", "'false'"), "durable", "true", "false");
    expect("PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'build' in vhost "
           "'/': received 'topic' but current is 'direct'",
           "type", "topic", "direct");
}

static void values_may_contain_quotes(void **state)
{
    (void)state;
    expect(REFUSED("x-dead-letter-routing-key", "the value 'it's' of type 'longstr'", "none"),
           "x-dead-letter-routing-key", "it's", "none");
}

static void other_texts_are_not_read(void **state)
{
    static const char *const texts[] = {
        "",
        "NOT_FOUND - no queue 'sd' in vhost '/'",
        "inequivalent arg '",
        "inequivalent arg 'x",
        "inequivalent arg 'x' received 5",
        "inequivalent arg 'x' but current is none, received 5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct amqp_difference d = {0};
        assert_false(amqp_topology_parse(str_from(texts[i]), &d));
    }
}

static void what_is_too_long_is_cut(void **state)
{
    char text[2000], name[600];
    struct amqp_difference d = {0};
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(text, sizeof text, "inequivalent arg '%s' received '%s' but current is %s", name, name,
             name);
    assert_true(amqp_topology_parse(str_from(text), &d));
    assert_int_equal(strlen(d.argument), sizeof d.argument - 1);
    assert_true(strlen(d.wanted) < sizeof d.wanted);
    assert_int_equal(strlen(d.found), sizeof d.found - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_are_read_in_each_of_their_forms),
        cmocka_unit_test(values_may_contain_quotes),
        cmocka_unit_test(other_texts_are_not_read),
        cmocka_unit_test(what_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
