/* SPDX-License-Identifier: Apache-2.0 */

/* Who may report of a run: access/holders.h, applied to the endpoints of the Jobs API. */

#include "access/holders.h"
#include "api/api_access.h"

static const struct holding *find(const struct api *a, struct id job)
{
    return a->settings.holders ? holders_find(a->settings.holders, job) : NULL;
}

void api_held_note(struct api *a, const struct token *holder, const struct handout *h)
{
    bool leased = instant_is_set(h->lease_end);
    if (a->settings.holders)
        holders_note(a->settings.holders, h->job.id, holder, h->run, leased ? 0 : h->token);
}

/* Who may change jobs anyway, or is nobody in particular, need not hold what is reported. */
static bool must_hold(const struct api_request *r)
{
    return r->token && !rights_have(r->rights, RIGHT_OPERATE);
}

struct err api_may_report(const struct api *a, const struct api_request *r, struct run_ref *ref)
{
    if (ref->token)
        return err_none();
    ref->worker = r->http->worker_id;
    TRY(api_own_worker(r, &ref->worker));
    if (!must_hold(r))
        return err_none();
    const struct holding *one = find(a, ref->id);
    if (!one || !holding_is_of(one, r->token))
        return err_make(ERR_NO_RIGHT, "a worker reports only runs that it holds: the report needs "
                                      "the token of its run, which it was handed out with");
    ref->token = one->run_token;
    return err_none();
}

bool api_holds(const struct api *a, const struct api_request *r, struct id job)
{
    if (!must_hold(r) && !r->rights->queues.count)
        return true;
    const struct holding *one = find(a, job);
    return one && r->token && holding_is_of(one, r->token);
}

bool api_held_by_other(const struct api *a, const struct token *who, struct id job)
{
    const struct holding *one = find(a, job);
    return one && !holding_is_of(one, who);
}
