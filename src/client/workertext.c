/* SPDX-License-Identifier: Apache-2.0 */
#include "client/workertext.h"

#include "client/view.h"

struct str workertext_state(struct str worker)
{
    return str_eq(view_get(worker, "quiet"), STR("true")) ? STR("quiet") : STR("works");
}

void workertext_queues(struct buf *b, struct str worker)
{
    size_t begin = b->len;
    struct view_list l = view_list(view_get(worker, "queues"));
    for (struct str each; view_next(&l, &each);) {
        if (each.len < 2 || each.at[0] != '"')
            continue;
        if (b->len > begin)
            buf_byte(b, ',');
        buf_add(b, each.at + 1, each.len - 2);
    }
    if (b->len == begin)
        buf_lit(b, "all");
}
