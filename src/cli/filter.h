/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

/* The options that say which jobs a command is about, the same for listing and
 * for changing them. */

#include "client/client.h"

struct filter_args {
    const char *status, *queue, *type, *priority, *ready_at, *attempts, *filter;
};

/* Rows of the option table of a command whose struct has a member
 * `struct filter_args filter`. */
#define FILTER_ROW(holder, flag_, value_, field, help_)                                            \
    {                                                                                              \
        flag_, value_, OPTION_TEXT, offsetof(holder, filter.field), .help = help_                  \
    }
#define FILTER_OPTIONS(holder)                                                                     \
    FILTER_ROW(holder, "status", "STATUS", status,                                                 \
               "only these: blocked, scheduled, ready, in_flight, completed, dead; separate "      \
               "several by commas"),                                                               \
        FILTER_ROW(holder, "queue", "QUEUE", queue, "only of these queues"),                       \
        FILTER_ROW(holder, "type", "TYPE", type, "only of these types"),                           \
        FILTER_ROW(holder, "priority", "RANGE", priority,                                          \
                   "only of this priority: N, A.., ..B, A..B"),                                    \
        FILTER_ROW(holder, "ready-at", "RANGE", ready_at,                                          \
                   "only those ready at these times, in milliseconds since 1970"),                 \
        FILTER_ROW(holder, "attempts", "RANGE", attempts, "only those that failed so often"),      \
        FILTER_ROW(holder, "filter", "JQ", filter,                                                 \
                   "only those whose payload this jq expression is true for")

/* Adds them to the path. */
void filter_query(struct buf *path, const struct filter_args *f);
/* Whether any was given. */
bool filter_is_given(const struct filter_args *f);

#endif
