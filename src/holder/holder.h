/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLDER_HOLDER_H
#define HOLDER_HOLDER_H

/* Jobs of a Tenax server that this process holds: they are claimed, their leases renewed, and what
 * became of each run is reported until the server has answered.
 *
 *  - No answer (none came, the server cannot answer now, or something else answered in its place)
 *    never ends anything: the request is repeated after a growing pause. A claim is repeated with
 *    its claim_id, so that what it got is handed out again, and costs the job nothing. 401 and 403
 *    are about the sender, not about the run: reports are repeated after them, too.
 *  - Renewals that are due together are one request, and so are successes; the latter wait for one
 *    that is under way, and for nothing else.
 *  - 404 and 409 to a renewal mean that the run is no longer held: it is lost. While a report finds
 *    no answer, its lease is renewed.
 *  - 404, 409 and 422 are final answers to a report: the run is over.
 *  - When claims are stopped, the server answers the one that waits there; one without an answer is
 *    sent once more, without waiting.
 *
 * Loop thread only. Nothing happens by itself but the answers: they call wake, and the user calls
 * holder_turn by then, at the latest when that said. All callbacks may call these functions, except
 * holder_free. */

#include "base/id.h"
#include "client/remote.h"

struct holder;
struct holder_claims;
struct holder_run;
struct holder_settings {
    struct remote *server;
    const char *worker; /* its name */
    span lease;
    span timeout; /* of a request; a claim has its wait and 15 s */
};

/* A job that was handed out, valid during the call. */
struct holder_job {
    struct id id;
    int64_t run;
    struct str token; /* as JSON */
    struct str json;  /* all of it */
    mono since;       /* when its lease began, at the latest */
    bool again;       /* it may have been handed to this worker before */
};

/* ctx is that of holder_new, mine that of the claims or of the run. */
struct holder_user {
    /* holder_turn has something to do. */
    void (*wake)(void *ctx);
    /* Any answer, or that there was none; before what is made of it. */
    void (*heard)(void *ctx, const struct remote_answer *a);
    /* Keep it with holder_runs_hold, or else give it back. */
    void (*job)(void *mine, const struct holder_job *job);
    /* A job of the list of those that are in flight with this worker, which need not be claimed
     * again; NULL: all are. */
    bool (*knows)(void *mine, struct str job);
    /* The server's answer to a claim or for the list, before its jobs. If it is a refusal, the same
     * may be asked for after a pause. */
    void (*answered)(void *mine, const struct remote_answer *a);
    /* The run is another's, or over. It must not be used afterwards. */
    void (*lost)(void *mine, const struct remote_answer *a);
    /* The final answer to its report. It must not be used afterwards. */
    void (*reported)(void *mine, const struct remote_answer *a);
};

/* The settings' texts and the server must outlive it; the user is copied. */
struct holder *holder_new(const struct holder_settings *s, const struct holder_user *user,
                          void *ctx);
/* Abandons what is under way, with its claims and runs. The leases last until they end. */
void holder_free(struct holder *h);
/* Sends what is due; *next, 0 for never, becomes when more is, if that is sooner. */
void holder_turn(struct holder *h, mono now, mono *next);
static inline void holder_sooner(mono *next, mono t)
{
    if (!next->ns || t.ns < next->ns)
        *next = t;
}
/* How long to wait after so many failed tries: 0.2 s to 15 s, half of it random. */
span holder_pause(struct holder *h, uint32_t tries);

/* --- claims: one at a time each --- */
struct holder_scope {
    bool adopts;       /* jobs in flight with the worker's name are claimed again first */
    const char *queue; /* of these; NULL: of all queues */
};
struct holder_claims *holder_claims_new(struct holder *h, const struct holder_scope *scope,
                                        void *mine);
/* Whether jobs may be asked for now; if only a pause is in the way, *next as above. */
bool holder_claims_may_ask(const struct holder_claims *c, mono now, mono *next);
/* What was in flight with this worker at the start has been claimed again. */
bool holder_claims_have_adopted(const struct holder_claims *c);
/* Asks for jobs, which may be. queues: their names as JSON, "a","b". */
void holder_claims_ask(struct holder_claims *c, struct str queues, size_t count, span wait);
/* A claim is not answered yet. */
bool holder_claims_are_asking(const struct holder_claims *c);
/* The server answers now the claims of this worker that wait there. */
void holder_claims_withdraw(struct holder_claims *c);
/* Asks for nothing more. What was asked for may still come. */
void holder_claims_stop(struct holder_claims *c);
/* Nothing is under way, and nothing can come any more of what was asked for. */
bool holder_claims_are_idle(const struct holder_claims *c);

/* --- runs --- */

enum holder_verb { HOLDER_SUCCESS, HOLDER_FAILURE, HOLDER_RELEASE };

/* Renews the lease from now on. */
struct holder_run *holder_runs_hold(struct holder *h, const struct holder_job *job, void *mine);
/* Reports it, once. members: of the body beside run and token, each preceded by a comma. */
void holder_runs_report(struct holder_run *r, enum holder_verb verb, struct str members);
/* Its user is gone: a report is still repeated until it is answered, without a report the lease
 * ends. NULL is fine. */
void holder_runs_drop(struct holder_run *r);
/* Releases a job that is not wanted. */
void holder_runs_return(struct holder *h, const struct holder_job *job);
/* Runs that are held, or whose report is not answered. */
size_t holder_runs_count(const struct holder *h);

#endif
