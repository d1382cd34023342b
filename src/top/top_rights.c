/* SPDX-License-Identifier: Apache-2.0 */

/* What the user may do, as GET /rights says it: other keys are not offered, and say why they do
 * nothing. */

#include <stdio.h>

#include "client/view.h"
#include "top/top.h"

void top_rights_take(struct top *t, enum call_result result, struct str answer)
{
    t->rights.len = 0;
    if (result == CALL_DONE)
        buf_str(&t->rights, answer);
    t->has_rights = true; /* of an older server it is not known: it refuses by itself */
    top_feed_want(t, TOP_STALE_COUNTS);
}

bool top_rights_limited(const struct top *t)
{
    struct str pattern;
    struct view_list l = view_list(view_get(buf_view(&t->rights), "queues"));
    return view_next(&l, &pattern);
}

/* The sentence by which the server refuses the operation, in the arena; empty: it does not. */
static struct str refusal(const struct top *t, const char *operation, struct arena *a)
{
    struct str item;
    for (struct view_list l = view_list(view_get(buf_view(&t->rights), "refused"));
         view_next(&l, &item);)
        if (str_eq(view_text(a, item, "operation"), str_from(operation)))
            return view_text(a, item, "why");
    return (struct str){0};
}

bool top_rights_may(const struct top *t, const char *operation)
{
    struct arena a = {0};
    bool may = refusal(t, operation, &a).len == 0;
    arena_fini(&a);
    return may;
}

bool top_rights_ask(struct top *t, const char *operation)
{
    struct arena a = {0};
    struct str why = refusal(t, operation, &a);
    if (why.len) {
        snprintf(t->message, sizeof t->message, "%.*s", (int)why.len, why.at);
        t->bad = true;
    }
    arena_fini(&a);
    return why.len == 0;
}
