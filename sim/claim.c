/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of virtual clients. */

#include "sim.h"
#include "trace.h"

void client_claim(struct sim *s, unsigned slot, unsigned queues, uint32_t count, span lease,
                  span wait)
{
    struct ticket *t = ticket_new(s, CMD_STATUS, 0);
    t->is_claim = true;
    t->limit = count;
    t->lease = lease;
    t->queues = queues;
    t->until = instant_add(s->now, wait);
    s->claims[slot].ticket = t;
    s->ledger.claims++;
    struct queue_set set = sim_queue_set(queues);
    struct claim_spec spec = {.queues = set.names,
                              .queue_count = set.count,
                              .count = count,
                              .worker = STR("claimer"),
                              .lease = lease,
                              .wait = wait,
                              .done = ticket_answer,
                              .ctx = t};
    trace_line("claim #%lu of %u, queues %x, lease %ld, wait %ld", t->serial, count, queues,
               lease.ms, wait.ms);
    s->arrived = true;
    s->calling = true;
    s->claims[slot].handle = backend_claim(s->backend, &spec);
    s->calling = false;
}

void client_claim_over(struct sim *s, const struct ticket *t)
{
    for (unsigned i = 0; i < CLAIMS; i++)
        if (s->claims[i].ticket == t)
            s->claims[i] = (struct mclaim){0};
    s->ledger.claims--;
}

void client_cancel_claim(struct sim *s, unsigned slot)
{
    struct mclaim *c = &s->claims[slot];
    trace_line("cancel #%lu", c->ticket->serial);
    c->ticket->canceled = true;
    s->arrived = true;
    s->calling = true;
    backend_claim_cancel(s->backend, c->handle);
    s->calling = false;
}

void client_touch_claim(struct sim *s)
{
    unsigned slot = (unsigned)sim_draw(s, CLAIMS);
    if (s->claims[slot].ticket) {
        if (sim_chance(s, 30))
            client_cancel_claim(s, slot);
        return;
    }
    span lease = {1 + (int64_t)sim_draw(s, sim_chance(s, 50) ? 500 : 60000)};
    span wait = {sim_chance(s, 40) ? 0 : (int64_t)sim_draw(s, 20000)};
    client_claim(s, slot, sim_some_queues(s), 1 + (uint32_t)sim_draw(s, 5), lease, wait);
}
