/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "executor/exec_internal.h"

struct exec_run *exec_runs_find(const struct executor *x, struct id job, int64_t run)
{
    struct exec_run *r = idmap_get(&x->by_job, job);
    while (r && r->run != run)
        r = r->next;
    return r;
}

struct exec_run *exec_runs_add(struct executor *x, struct id job, int64_t run)
{
    must(!exec_runs_find(x, job, run));
    struct exec_run *r = ALLOC(struct exec_run);
    *r = (struct exec_run){.job = job, .run = run};
    struct exec_run *newest = idmap_get(&x->by_job, job);
    if (!newest || newest->run < run) {
        r->next = newest;
        idmap_put(&x->by_job, job, r);
    } else {
        while (newest->next && newest->next->run > run)
            newest = newest->next;
        r->next = newest->next;
        newest->next = r;
    }
    list_init(&r->node);
    list_append(&x->runs, &r->node);
    x->run_count++;
    exec_wake(x);
    return r;
}

static void unlink_of_job(struct executor *x, struct exec_run *r)
{
    struct exec_run *newest = idmap_get(&x->by_job, r->job);
    if (newest != r) {
        while (newest->next != r)
            newest = newest->next;
        newest->next = r->next;
    } else if (r->next) {
        idmap_put(&x->by_job, r->job, r->next);
    } else {
        must(idmap_remove(&x->by_job, r->job) == r);
    }
}

void exec_runs_remove(struct executor *x, struct exec_run *r)
{
    must(!r->renewing && !r->telling && !r->plan.creating && r->ready != EXEC_READY_ASKING);
    unlink_of_job(x, r);
    list_unlink(&r->node);
    x->run_count--;
    if (r->report)
        r->report->run_of = NULL;
    if (r->pod_record)
        journal_remove(x->journal, r->pod_record);
    exec_finish_free(r);
    free(r->job_text);
    free(r->name);
    free(r->namespace);
    free(r->pod_text);
    free(r->refusal);
    free(r->fault);
    free(r->note);
    free(r);
    exec_wake(x);
}

void exec_runs_lose(struct executor *x, struct exec_run *r, const char *why)
{
    char job[ID_TEXT_LEN];
    if (r->plan.lease != PLAN_HELD)
        return;
    id_format(r->job, job);
    r->plan.lease = PLAN_LOST;
    r->lost_why = why;
    x->counters.lost++;
    log_info("job %.25s: run %lld is over for the server: %s%s", job, (long long)r->run, why,
             exec_plan_alive(r->plan.pod) ? "; deleting its pod" : "");
    exec_wake(x);
}

struct exec_load exec_runs_load(const struct executor *x, const struct exec_queue *queue)
{
    struct exec_load load = {0};
    LIST_EACH (n, &x->runs) {
        const struct exec_run *r = LIST_OF(n, struct exec_run, node);
        /* A lost or doomed pod takes its room until it is gone. */
        bool counts = r->plan.lease == PLAN_HELD || exec_plan_alive(r->plan.pod);
        if (!counts || (queue && r->queue != queue))
            continue;
        load.runs++;
        load.memory += r->memory;
        load.cpu += r->cpu;
    }
    return load;
}

/* Another run's pod that may still act, or that has the name this one needs. */
static bool is_in_the_way(const struct exec_run *r, const struct exec_run *other)
{
    if (exec_plan_alive(other->plan.pod) || other->plan.creating)
        return true;
    return exec_plan_there(other->plan.pod) && r->name && other->name &&
           strcmp(r->name, other->name) == 0;
}

/* A gang's pods start together: one of it that has to wait makes the others wait. */
static bool gang_waits(const struct executor *x, const struct exec_run *r)
{
    LIST_EACH (n, &x->runs) {
        const struct exec_run *o = LIST_OF(n, struct exec_run, node);
        if (o != r && o->gang == r->gang && o->plan.lease == PLAN_HELD &&
            o->plan.pod == PLAN_POD_NONE && !o->plan.creating &&
            (o->ready != EXEC_READY_ASKED || o->plan.blocked))
            return true;
    }
    return false;
}

void exec_runs_relate(struct executor *x, struct exec_run *r)
{
    bool was_blocked = r->plan.blocked;
    r->plan.blocked = r->ready_busy;
    r->plan.clearing = false;
    for (struct exec_run *o = idmap_get(&x->by_job, r->job); o; o = o->next)
        if (o != r && is_in_the_way(r, o)) {
            r->plan.blocked = true;
            r->plan.clearing |= o->plan.deleting || o->cleared;
        }
    if (was_blocked && !r->plan.blocked)
        r->plan.not_before = (mono){0}; /* it waited for nothing else */
    r->plan.gang_waits = r->gang && r->ready == EXEC_READY_ASKED && gang_waits(x, r);
}
