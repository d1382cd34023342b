/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/filter.h"

void filter_query(struct buf *path, const struct filter_args *f)
{
    client_query(path, "status", f->status);
    client_query(path, "queue", f->queue);
    client_query(path, "type", f->type);
    client_query(path, "priority", f->priority);
    client_query(path, "ready_at", f->ready_at);
    client_query(path, "attempts", f->attempts);
    client_query(path, "filter", f->filter);
}

bool filter_is_given(const struct filter_args *f)
{
    return f->status || f->queue || f->type || f->priority || f->ready_at || f->attempts ||
           f->filter;
}
