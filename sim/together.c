/* SPDX-License-Identifier: Apache-2.0 */

/* Reports that workers send many of in one request. Each is sent twice there: the second is a
 * repetition. */

#include "base/alloc.h"
#include "sim.h"
#include "trace.h"

/* What a request refers to until it is answered. */
struct sent {
    struct run_report twice[2];
    struct failure_report failure;
};

static void answered(void *ctx, const struct reply *r)
{
    struct ticket *t = ctx;
    struct reply one = *r;
    if (r->err.code == ERR_OK) {
        const struct reported *first = &r->reported[0], *second = &r->reported[1];
        PROMISE(r->count == 2 && first->code == second->code && first->job == second->job &&
                    first->lease_end.ms == second->lease_end.ms && id_eq(first->id, t->jobs[0]->id),
                "REPLY", "#%lu: a report was not repeated with the same answer", t->serial);
        one.err.code = first->code;
        one.lease_end = first->lease_end;
        one.jobs = (struct job *)first->job;
        one.count = first->job != NULL;
    }
    ticket_answer(t, &one);
}

static struct run_report report_of(const struct command *c, struct sent *sent)
{
    struct run_report r = {.kind = c->kind, .run = c->run};
    if (c->kind == CMD_FAIL) {
        sent->failure = c->fail;
        r.run = c->fail.ref;
        r.failure = &sent->failure;
    } else if (c->kind == CMD_RENEW) {
        r.run = c->renew.run;
        r.lease = c->renew.lease;
    }
    return r;
}

bool together_submit(struct ticket *t, const struct command *c)
{
    bool is_report = c->kind == CMD_SUCCEED || c->kind == CMD_FAIL || c->kind == CMD_RELEASE ||
                     c->kind == CMD_RENEW;
    if (!is_report || c->alias.len || t->then || t->serial % 3)
        return false;
    struct sent *sent = ALLOC(struct sent);
    t->sent = sent;
    sent->twice[0] = sent->twice[1] = report_of(c, sent);
    sent->twice[1].same_as = c->kind == CMD_RENEW ? 0 : 1;
    trace_line("  among many");
    t->together = true;
    const struct command many = {
        .kind = CMD_REPORT_MANY, .report_many = {sent->twice, 2}, .done = answered, .ctx = t};
    backend_submit(t->sim->backend, &many);
    return true;
}
