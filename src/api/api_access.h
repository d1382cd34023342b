/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_ACCESS_H
#define API_API_ACCESS_H

/* Who sends a request, and what of it is allowed: the rights of access/rights.h, applied to the
 * endpoints of the Jobs API. Every handler asks here about the queues that a request names; what is
 * known to the backend alone it decides by the `reach` that commands carry. */

#include "access/identities.h"
#include "api/api_internal.h"

struct endpoint;

/* Says in r who sends the request. ERR_UNIDENTIFIED, ERR_BAD_CREDENTIALS, ERR_NO_RIGHT: it is
 * refused, whatever it is about. */
NODISCARD struct err api_identify(const struct api *a, const struct endpoint *e,
                                  struct api_request *r);
/* Whether the sender that api_identify found may ask for that endpoint at all; if it is about
 * queues, api_may_queue decides about each of them. */
NODISCARD struct err api_check_right(const struct api *a, const struct endpoint *e,
                                     const struct api_request *r);
/* ERR_BAD_MEDIA if a request that would change what only operators may has no body and the type of
 * a form: any page could have a browser send that. */
NODISCARD struct err api_check_form(const struct api *a, const struct endpoint *e,
                                    const struct http_request *req);
/* Answers a request that was refused for want of credentials or rights. */
void api_reply_refused(struct api *a, const struct api_request *r, const struct err *err);

/* --- who changes what (api_audit.c) --- */

/* Logs who asks for a change, unless that is a job's normal life, and sets r->trail. */
void api_note_change(const struct api *a, const struct endpoint *e, struct api_request *r);
/* The same for a change that comes over a connection that is no longer a request's; returns the
 * trail, which lies in the arena. */
struct api_doer {
    const struct token *token; /* or NULL */
    struct str address;
};
struct str api_note_apart(const struct api_doer *doer, const char *operation, struct str path,
                          struct arena *a);
/* The trail of a request that makes what has that path. */
struct str api_trail_at(const struct api_request *r, const char *operation, struct str path);
/* The handler of GET. */
void api_audit(struct api *a, const struct api_request *r);

/* ERR_NO_RIGHT unless the sender's rights reach to the queue. */
NODISCARD struct err api_may_queue(const struct api_request *r, struct str queue);
/* Whether the sender may enqueue such a job. */
NODISCARD struct err api_may_enqueue(const struct api_request *r, const struct enqueue *spec);
/* The same of a list of queues from which jobs are to come; an empty one becomes the sender's
 * queues, if these are names and not patterns, and is refused otherwise. */
NODISCARD struct err api_may_queues(const struct api_request *r, const struct str **queues,
                                    size_t *count);
/* The same of a filter; one that names no queue becomes limited to the sender's. */
NODISCARD struct err api_may_filter(const struct api_request *r, struct job_filter *f);

/* --- names that senders share (api_shared.c) --- */

/* The names in these jobs, of a worker, an alias or a group become the sender's own, if it is to
 * have its own (access/shared_names.h). ERR_BAD_VALUE: it is too long for that. */
NODISCARD struct err api_own_names(const struct api_request *r, struct enqueue *specs,
                                   size_t count);
NODISCARD struct err api_own_worker(const struct api_request *r, struct str *name);
NODISCARD struct err api_own_group(const struct api_request *r, struct str *group);
void api_own_alias(const struct api_request *r, struct str *alias);
/* Words without the ids of jobs but this one; in the buffer, if any was left out. */
struct str api_own_words(struct str text, struct id own, struct buf *words);
/* What the sender of an enqueue may have at most. */
struct enqueue_quota api_quota(const struct api_request *r);
/* Whether their own names are the same. */
bool api_is_same_tenant(const struct rights *a, const struct rights *b);

/* Whether the sender may see payloads, results and checkpoints. */
bool api_may_see(const struct api_request *r);
/* Leaves out the payloads of a reply unless the call's sender may see them. */
void api_hide_payloads(const struct call *c, const struct reply *r);
/* The same of what containers wrote, logs and termination messages, in runs. */
void api_hide_logs(const struct call *c, const struct reply *r);
void api_hide_log(struct run *run); /* of a run that is the caller's own */

/* --- runs and who holds them (api_held.c) --- */

/* It was handed to the owner of the token; NULL: to somebody unknown. */
void api_held_note(struct api *a, const struct token *holder, const struct handout *h);
/* Whether this sender may report about the run: a worker only about those that it holds. A report
 * of a stream's run that does not name it by its token gets the one that the sender was sent. */
NODISCARD struct err api_may_report(const struct api *a, const struct api_request *r,
                                    struct run_ref *ref);
bool api_holds(const struct api *a, const struct api_request *r, struct id job);
/* Whether somebody else than this one is known to hold the job's run. */
bool api_held_by_other(const struct api *a, const struct token *who, struct id job);

/* The handler of GET /rights (api_rights.c). */
void api_rights(struct api *a, const struct api_request *r);

/* --- tokens (api_tokens.c) --- */

/* The handlers of GET, POST and DELETE. */
void api_tokens(struct api *a, const struct api_request *r);
void api_token_create(struct api *a, const struct api_request *r);
void api_token_remove(struct api *a, const struct api_request *r);
/* Writes when tokens were last used, a bounded number at a time. */
void api_tokens_heartbeat(struct api *a);
/* Ends streams and waiting claims of a token that counts no more; NULL: of every such token. */
void api_end_streams(struct api *a, const struct token *of);
void api_events_end(struct api_events *h, const struct token *of);
/* Whether streams of this token are to end. */
bool api_is_over(const struct api *a, const struct token *t, const struct token *of);

#endif
