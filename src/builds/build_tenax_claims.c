/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of jobs, one at a time for each queue. A claim waits at the server until there is a job.
 */

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "builds/build_tenax_internal.h"
#include "client/view.h"
#include "client/when.h"

#define CLAIM_WAIT    ((span){10000})
#define CLAIM_AT_MOST 1000

static void learn_time(struct tenax *t, struct str job)
{
    instant taken = view_time(job, "dequeued_at");
    if (instant_is_set(taken))
        t->ahead_ms = taken.ms - when_now().ms;
}

void tenax_claims_job(void *claim, const struct holder_job *job)
{
    struct tenax_claim *c = claim;
    struct tenax *t = c->broker;
    if (!job->again)
        learn_time(t, job->json);
    if (t->quiet || t->closed)
        holder_runs_return(t->holder, job);
    else
        tenax_jobs_take(t, (enum build_channel)(c - t->claims), job);
}

/* Says so once, and again for another reason. */
static void refused(struct tenax_claim *c, struct str why)
{
    struct tenax *t = c->broker;
    char text[sizeof c->why];
    snprintf(text, sizeof text, "%.*s", STR_ARG(why));
    t->up = false;
    if (strcmp(text, c->why) == 0)
        return;
    memcpy(c->why, text, sizeof text);
    log_error("%s refuses claims of queue '%s': %s", t->url, c->queue, text);
}

void tenax_claims_answered(void *claim, const struct remote_answer *a)
{
    struct tenax_claim *c = claim;
    if (a->result != CALL_DONE) {
        refused(c, a->why);
        return;
    }
    c->why[0] = '\0';
    tenax_note(c->broker, a);
}

/* As long as it is not known that the server is there, an answer is wanted at once. */
static void claim(struct tenax_claim *c, uint64_t count)
{
    struct buf queue = {0};
    json_write_string(&queue, str_from(c->queue));
    holder_claims_ask(c->claims, buf_view(&queue), count < CLAIM_AT_MOST ? count : CLAIM_AT_MOST,
                      (span){c->broker->up ? CLAIM_WAIT.ms : 0});
    buf_fini(&queue);
}

void tenax_claims_turn(struct tenax *t, mono now, mono *next)
{
    uint64_t most = (uint64_t)build_int(t->settings, BUILD_PREFETCH);
    for (size_t i = 0; i < (t->verified ? 2 : 1); i++) {
        struct tenax_claim *c = &t->claims[i];
        if (c->held < most && holder_claims_may_ask(c->claims, now, next))
            claim(c, most - c->held);
    }
}
