/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_CONTRACT_EXAMPLES_H
#define TESTS_BACKEND_CONTRACT_EXAMPLES_H

/* An example of each kind of command, and what its reply must say. */

#include "contract_fixture.h"
#include "core/policy.h"
#include "policy/simulate.h"

/* A command and what it points to. */
struct parts {
    struct command c;
    struct enqueue spec;
    struct cron_spec cron;
    struct patch patch;
    struct policy_change change;
    struct news news;
    struct id ids[2];
    struct run_ref runs[2];
    struct renewal renewals[2];
    struct job job;
    struct run run;
    struct simulate_job simulate;
    struct kv_change change_of_entry;
    struct str alias;
};

struct example {
    void (*make)(struct fixture *f, struct parts *p); /* sets all of the command but its kind */
    bool (*holds)(const struct reply *r); /* NULL: the reply has nothing but reply.err */
};

extern const struct example contract_examples[COMMAND_COUNT];

/* Of CMD_WINDOW. */
static inline void contract_window(struct fixture *f, struct parts *p)
{
    (void)fixture_add(f, "q");
    p->c.window = (struct window_command){.status = STATUS_READY, .limit = 10};
}

static inline bool contract_is_window(const struct reply *r)
{
    return r->count == 1 && !r->jobs[0].payload.at && r->window.total == 1 && !r->window.found;
}

#endif
