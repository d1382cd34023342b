/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/filter.h"

#include <stdio.h>

#include "base/duration.h"
#include "client/when.h"

/* "2h", or a time in the format of --at. */
static bool read_since(const char *text, instant now, instant *t)
{
    span ago;
    if (when_parse(str_from(text), t))
        return true;
    if (duration_parse(str_from(text), &ago).code != ERR_OK)
        return false;
    t->ms = ago.ms < now.ms ? now.ms - ago.ms : 0;
    return true;
}

struct err filter_check(const struct filter_args *f)
{
    instant t;
    if (!f->since || read_since(f->since, (instant){INSTANT_MAX_MS}, &t))
        return err_none();
    return err_make(ERR_USAGE,
                    "option '--since': '%.60s' is neither how long ago, like 2h or 30m, nor a time "
                    "like 2026-11-21T09:00:00Z",
                    f->since);
}

void filter_query(struct buf *path, const struct filter_args *f, instant now)
{
    instant since;
    char text[24];

    client_query(path, "status", f->status);
    client_query(path, "queue", f->queue);
    client_query(path, "type", f->type);
    client_query(path, "priority", f->priority);
    client_query(path, "ready_at", f->ready_at);
    client_query(path, "attempts", f->attempts);
    client_query(path, "resolution", f->resolution);
    if (f->since && read_since(f->since, now, &since)) {
        snprintf(text, sizeof text, "%lld", (long long)since.ms);
        client_query(path, "since", text);
    }
    client_query(path, "error", f->error);
    client_query(path, "error_type", f->error_type);
    client_query(path, "failure_group", f->failure_group);
    client_query(path, "failed_at", f->failed_at);
    client_query(path, "enqueued_at", f->enqueued_at);
    client_query(path, "worker", f->worker);
    client_query(path, "group", f->group);
    client_query(path, "budgets.key", f->budgets);
    client_query(path, "filter", f->filter);
}

bool filter_is_given(const struct filter_args *f)
{
    return f->status || f->queue || f->type || f->priority || f->ready_at || f->attempts ||
           f->resolution || f->since || f->error || f->worker || f->group || f->budgets ||
           f->error_type || f->failure_group || f->failed_at || f->enqueued_at || f->filter;
}
