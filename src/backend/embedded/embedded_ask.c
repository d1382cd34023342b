/* SPDX-License-Identifier: Apache-2.0 */

/* Questions to the evaluator. An answer may come after its owner was freed. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"

struct ask {
    struct list node; /* in embedded->asks */
    void *owner;      /* NULL: nobody waits for the answer any more */
    answer_fn done;
};

static void on_answer(void *ctx, const struct err *err, const struct eval_answer *answers,
                      size_t count, span spent)
{
    struct ask *ask = ctx;
    list_unlink(&ask->node);
    if (ask->owner)
        ask->done(ask->owner, err, answers, count, spent);
    free(ask);
}

struct err embedded_ask(struct embedded *b, struct eval_request *r, span spent, void *owner,
                        answer_fn done, struct ask **out)
{
    span limit = b->settings.jq_request_limit;
    if (!b->env.evaluator)
        return err_make(ERR_NOT_SUPPORTED, "this server cannot evaluate jq expressions");
    if (limit.ms > 0 && spent.ms >= limit.ms)
        return err_make(ERR_UNPROCESSABLE,
                        "the expressions of this request ran for %lld ms, all in all; at most "
                        "%lld ms are allowed (--jq-request-limit)",
                        (long long)spent.ms, (long long)limit.ms);
    r->left.ms = limit.ms > 0 ? limit.ms - spent.ms : 0;
    struct ask *ask = ALLOC(struct ask);
    ask->owner = owner;
    ask->done = done;
    r->done = on_answer;
    r->ctx = ask;
    struct err err = evaluator_submit(b->env.evaluator, r);
    if (err.code != ERR_OK) {
        free(ask);
        return err;
    }
    list_append(&b->asks, &ask->node);
    *out = ask;
    return err;
}

void embedded_ask_cancel(struct ask *ask)
{
    if (ask)
        ask->owner = NULL;
}

void embedded_ask_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->asks)) {
        struct ask *ask = LIST_OF(b->asks.next, struct ask, node);
        list_unlink(&ask->node);
        free(ask);
    }
}
