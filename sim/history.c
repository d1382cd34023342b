/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the failure history with the event log: after any crashes it holds exactly the newest
 * failures, and successes after failures, that events report, in their order. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "sim.h"
#include "store/record.h"
#include "trace.h"

void history_expect(struct history_audit *a, const struct job_event *ev)
{
    bool failed = ev->event == EVENT_RETRY || ev->event == EVENT_RETRY_NOW ||
                  ev->event == EVENT_EXHAUST || ev->event == EVENT_POISON;
    bool succeeded = ev->event == EVENT_SUCCEED && ev->attempt > 1;
    if (ev->from != STATUS_IN_FLIGHT || (!failed && !succeeded))
        return;
    ALLOC_GROW(a->at, a->count, a->cap, 64);
    /* A job that lost too many workers is dead by an expired lease, which is a failure, or by a
     * broken stream, which is not. */
    a->at[a->count++] = (struct history_expected){ev->id, (uint32_t)ev->run, ev->attempt, succeeded,
                                                  ev->event == EVENT_POISON};
}

/* Pages through it, newest first. */
struct walk {
    struct history_audit *audit;
    size_t left; /* of those expected */
    uint64_t seen, kept, next;
};

static bool is_it(const struct history_expected *want, const struct history_entry *h)
{
    return id_eq(want->id, h->job.id) && want->succeeded == h->succeeded &&
           want->attempt == h->job.state.attempts + h->succeeded &&
           (h->succeeded || want->run == h->run.index);
}

static void see_entry(struct walk *w, const struct history_entry *h)
{
    const struct history_expected *at = w->audit->at;
    while (w->left && at[w->left - 1].maybe && !is_it(&at[w->left - 1], h))
        w->left--;
    PROMISE(w->left && is_it(&at[w->left - 1], h), "HISTORY",
            "entry %lu from the newest is not what events report", w->seen);
    w->left--;
}

static void see_page(struct ticket *t, const struct reply *r)
{
    struct walk *w = t->ctx;
    must(r->err.code == ERR_OK);
    const struct history_page *p = r->history;
    for (size_t i = 0; i < p->count; i++, w->seen++)
        if (w->audit->all)
            see_entry(w, &p->entries[i]);
    w->kept = p->kept;
    w->next = p->next;
}

void history_close(struct sim *s, struct history_audit *a)
{
    struct walk w = {.audit = a, .left = a->count};
    uint64_t most = s->settings.failure_history;
    do {
        struct ticket *t = ticket_new(s, CMD_HISTORY_READ, 0);
        struct command c = {.history = {.below = w.next, .limit = 1 + (uint32_t)(s->seed % 9)}};
        t->then = see_page;
        t->ctx = &w;
        ticket_submit(t, &c);
        sim_pump(s);
    } while (w.next);
    PROMISE(w.seen == w.kept && w.seen <= most, "HISTORY", "%lu entries of %lu, at most %lu",
            w.seen, w.kept, most);
    for (; a->all && w.seen < most && w.left; w.left--)
        PROMISE(a->at[w.left - 1].maybe, "HISTORY", "an entry is missing although there is room");
    free(a->at);
}
