/* SPDX-License-Identifier: Apache-2.0 */

/* How far a pod is, as the progress of its job: "waiting: 0/3 nodes are available". */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define CALL_TIMEOUT ((span){15000})
#define TELLING_MAX  ((size_t)32)

struct telling {
    struct executor *x;
    struct id job;
    int64_t run;
};

static void on_told(void *ctx, const struct remote_answer *a)
{
    struct telling *t = ctx;
    struct executor *x = t->x;
    struct exec_run *r = exec_runs_find(x, t->job, t->run);
    free(t);
    x->telling--;
    exec_wake(x);
    if (!r)
        return;
    r->telling = false;
    if (a->result == CALL_GONE)
        exec_runs_lose(x, r, "its lease is lost");
    /* Otherwise it is told with the next change: progress is not worth more. */
}

static void tell(struct executor *x, struct exec_run *r)
{
    struct telling *t = ALLOC(struct telling);
    char path[64], job[ID_TEXT_LEN];
    struct buf note = {0}, body = {0};
    *t = (struct telling){x, r->job, r->run};
    id_format(r->job, job);
    snprintf(path, sizeof path, "/jobs/%.25s/progress", job);
    buf_print(&note, "%s%s%s", exec_plan_pod_name(r->plan.pod), r->note ? ": " : "",
              r->note ? r->note : "");
    buf_print(&body, "{\"run\":%" PRId64 ",\"progress\":{\"value\":0,\"note\":", r->run);
    json_write_string(&body, buf_view(&note));
    buf_lit(&body, "}}");
    r->telling = true;
    r->progress_due = false;
    x->telling++;
    remote_ask(x->server, "POST", path, buf_view(&body), CALL_TIMEOUT, on_told, t);
    buf_fini(&note);
    buf_fini(&body);
}

void exec_progress_turn(struct executor *x)
{
    if (x->server_down || x->stopping)
        return;
    LIST_EACH (n, &x->runs) {
        struct exec_run *r = LIST_OF(n, struct exec_run, node);
        if (x->telling >= TELLING_MAX)
            return;
        if (r->progress_due && !r->telling && r->plan.lease == PLAN_HELD)
            tell(x, r);
    }
}
