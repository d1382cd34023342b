/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

/* The options that select jobs, the same for listing and for changing them. */

#include "client/client.h"

struct filter_args {
    const char *status, *queue, *type, *priority, *ready_at, *attempts, *filter;
    const char *resolution, *since, *error, *worker, *group, *budgets;
    const char *error_type, *failure_group, *failed_at, *enqueued_at;
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
                   "only with this priority: N, A.., ..B, A..B"),                                  \
        FILTER_ROW(holder, "ready-at", "RANGE", ready_at,                                          \
                   "only with a ready_at in this range, in milliseconds since 1970"),              \
        FILTER_ROW(holder, "attempts", "RANGE", attempts,                                          \
                   "only with this number of failed attempts"),                                    \
        FILTER_ROW(holder, "resolution", "RESOLUTION", resolution,                                 \
                   "only dead with this resolution: failed, claim-expired, canceled, poison, "     \
                   "dependency-dead, wait-exceeded, gang-dead, deadline-exceeded, or an "          \
                   "exception, like malformed-payload"),                                           \
        FILTER_ROW(holder, "since", "WHEN", since,                                                 \
                   "only enqueued, taken, failed or completed since then: 2h is "                  \
                   "two hours ago; or a time, like 2026-11-21T09:00:00Z"),                         \
        FILTER_ROW(holder, "error", "TEXT", error,                                                 \
                   "only those whose newest run failed with this in its message or error type"),   \
        FILTER_ROW(holder, "error-type", "NAME", error_type,                                       \
                   "only those whose newest run failed with this very error type"),                \
        FILTER_ROW(holder, "failure-group", "GROUP", failure_group,                                \
                   "only those whose newest run failed as this group says; see `tenax failures`"), \
        FILTER_ROW(holder, "failed-at", "RANGE", failed_at,                                        \
                   "only those whose newest failure was in this range, in milliseconds since "     \
                   "1970"),                                                                        \
        FILTER_ROW(holder, "enqueued-at", "RANGE", enqueued_at,                                    \
                   "only those that were enqueued in this range, likewise"),                       \
        FILTER_ROW(holder, "worker", "NAME", worker,                                               \
                   "only those whose newest run was by one of these workers"),                     \
        FILTER_ROW(holder, "group", "NAME", group, "only those of this group"),                    \
        FILTER_ROW(holder, "budget", "KEY", budgets,                                               \
                   "only those that draw on one of these budgets"),                                \
        FILTER_ROW(holder, "filter", "JQ", filter,                                                 \
                   "only those for whose payload this jq expression is true")

/* ERR_USAGE if the value of one of them is impossible. */
NODISCARD struct err filter_check(const struct filter_args *f);
/* Adds the checked filters to the path. now is the time from which --since counts back. */
void filter_query(struct buf *path, const struct filter_args *f, instant now);
/* Whether any was given. */
bool filter_is_given(const struct filter_args *f);

#endif
