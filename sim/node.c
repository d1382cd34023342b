/* SPDX-License-Identifier: Apache-2.0 */

/* Nodes, on which some workers run. NODE: a job that must avoid the node of its newest failure is
 * not given to a worker there, until it may be. */

#include "sim.h"
#include "trace.h"

/* "": the worker does not say where it runs. */
static const struct str names[NODES + 1] = {{"", 0}, {"n1", 2}, {"n2", 2}};

struct str node_name(unsigned node)
{
    return names[node];
}

unsigned node_some(struct sim *s)
{
    return s->profile.policies ? (unsigned)sim_draw(s, NODES + 1) : 0;
}

void node_handed(struct sim *s, const struct handout *h, unsigned node)
{
    const struct job_extras *x = &h->job.state.extras;
    struct mjob *m = ledger_find(&s->ledger, h->job.id);
    m->runs[m->run_count - 1].node = node;
    bool avoids = x->avoid_node.len && h->job.state.dequeued_at.ms < x->avoid_until.ms;
    PROMISE(!avoids || !node || !str_eq(x->avoid_node, names[node]), "NODE",
            "job %lu was handed out on node n%u, which it must avoid", m->serial, node);
}
