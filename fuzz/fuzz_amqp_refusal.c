/* SPDX-License-Identifier: Apache-2.0 */

/* A broker's refusal of a queue: whatever it says, what is read of it is three short texts, and
 * values without quotes are read as they were written. */

#include <stdio.h>

#include "amqp/amqp_topology.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_plain(const char *text)
{
    return *text && !strchr(text, '\'') && !strstr(text, " but current is ") &&
           !strstr(text, "received ") && strlen(text) < 100;
}

static void check_again(const struct amqp_difference *d)
{
    char text[600];
    struct amqp_difference again = {0};
    if (!is_plain(d->argument) || !is_plain(d->wanted) || !is_plain(d->found) ||
        strcmp(d->found, "none") == 0 || strlen(d->argument) >= sizeof d->argument - 1)
        return;
    snprintf(text, sizeof text,
             "PRECONDITION_FAILED - inequivalent arg '%s' for queue 'q' in vhost '/': received "
             "the value '%s' of type 'longstr' but current is the value '%s' of type 'longstr'",
             d->argument, d->wanted, d->found);
    must(amqp_topology_parse(str_from(text), &again));
    must(strcmp(again.argument, d->argument) == 0 && strcmp(again.wanted, d->wanted) == 0 &&
         strcmp(again.found, d->found) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct amqp_difference d = {0};
    if (!amqp_topology_parse((struct str){(const char *)data, size}, &d))
        return 0;
    must(strnlen(d.argument, sizeof d.argument) < sizeof d.argument);
    must(strnlen(d.wanted, sizeof d.wanted) < sizeof d.wanted);
    must(strnlen(d.found, sizeof d.found) < sizeof d.found);
    check_again(&d);
    return 0;
}
