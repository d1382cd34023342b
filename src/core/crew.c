/* SPDX-License-Identifier: Apache-2.0 */
#include "core/crew.h"

#include "base/duration.h"
#include "base/mark.h"

#define NAME_SHOWN_MAX 64

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void write_name(struct buf *b, struct str name)
{
    name = mark_bare(name);
    int len = (int)(name.len < NAME_SHOWN_MAX ? name.len : NAME_SHOWN_MAX);
    buf_print(b, "worker '%.*s'", len, name.at);
}

static void write_who(struct buf *b, const struct crew *c)
{
    if (c->worker.len)
        write_name(b, c->worker);
    else if (c->busy == 1)
        buf_lit(b, "a worker without a name");
    else
        buf_print(b, "%s%u workers", c->cut ? "at least " : "", c->busy);
}

static void write_slot(struct buf *b, const struct crew *c)
{
    if (c->usual.ms < 0) {
        buf_lit(b, "; no run of the queue has ended since the server started, so when a slot comes "
                   "free is not "
                   "known");
        return;
    }
    buf_lit(b, "; a run takes about ");
    duration_write(b, c->usual);
    if (c->left.ms < 0) {
        buf_lit(b, ", and all of them have taken longer");
        return;
    }
    buf_lit(b, ", so a slot should come free in about ");
    duration_write(b, c->left);
}

void crew_write_busy(struct buf *b, const struct crew *c, instant now)
{
    if (c->runs) {
        write_who(b, c);
        buf_print(b, " %s busy with %llu job%s of its queue, %ssince ", c->busy == 1 ? "is" : "are",
                  (unsigned long long)c->runs, plural(c->runs), c->runs == 1 ? "" : "the longest ");
        duration_write(b, instant_diff(instant_max(now, c->oldest), c->oldest));
        buf_lit(b, " ago");
        write_slot(b, c);
    }
    if (c->elsewhere)
        buf_print(b, "%s%u %sworker%s of its queue %s busy with %llu job%s of other queues",
                  c->runs ? "; " : "", c->elsewhere, c->runs ? "other " : "", plural(c->elsewhere),
                  c->elsewhere == 1 ? "is" : "are", (unsigned long long)c->elsewhere_runs,
                  plural(c->elsewhere_runs));
}

void crew_write_absent(struct buf *b, const struct crew *c, instant now)
{
    buf_lit(b, "no stream is open for its queue and no claim waits for it");
    if (c->excused.len) {
        buf_lit(b, "; ");
        write_name(b, c->excused);
        buf_print(b, " takes none now: %.*s", STR_ARG(c->excuse));
        return;
    }
    if (!c->asker.len)
        return;
    buf_lit(b, "; ");
    write_name(b, c->asker);
    buf_lit(b, " asked last, ");
    duration_write(b, instant_diff(instant_max(now, c->asked_at), c->asked_at));
    buf_lit(b, " ago");
}
