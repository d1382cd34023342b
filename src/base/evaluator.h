/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EVALUATOR_H
#define BASE_EVALUATOR_H

/* The contract between those who need jq expressions evaluated (the backend) and
 * whoever evaluates them: processes of their own in the server (jq/pool.h), a fake in tests
 * and in the simulator. One thread: all calls and all answers happen on the loop's. */

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

enum eval_kind {
    /* exprs[0] is a predicate, each input a payload (its `.`); an answer for each input. It
     * is true if any output is neither false nor null; a payload on which the expression
     * fails does not match. No inputs: only compiled. */
    EVAL_FILTER,
    /* exprs are `when` and `fold`, inputs[0] a payload: both are run once with it as $existing
     * and as $new, and must give exactly one output. No answers. */
    EVAL_CHECK,
    /* exprs are `when` and `fold`, inputs are $existing and $new. One answer: what `when`
     * says and, if that is true, what `fold` makes. */
    EVAL_FOLD,
};

struct eval_answer {
    bool truth;
    struct str payload; /* JSON on one line; valid only during done */
};

struct eval_request {
    enum eval_kind kind;
    /* What is left of the time that expressions may take for the client's request that this is a
     * part of; 0: any. */
    span left;
    struct str exprs[2];
    const struct str *inputs; /* valid JSON */
    size_t count;
    /* spent: processor time that the expressions took, or more if they took long by the clock.
     * ERR_UNPROCESSABLE: the expression is wrong, failed, or went over a limit; ERR_BUSY: the
     * machine did not get round to it; ERR_INTERNAL: the evaluator broke down. */
    void (*done)(void *ctx, const struct err *err, const struct eval_answer *answers, size_t count,
                 span spent);
    void *ctx;
};

struct evaluator {
    /* Questions of different clients' requests take turns; a client's request has one at a time.
     * Filters never keep the others waiting: for those there is always room and a process.
     * Borrows the request for the call. done is called exactly once, never from inside the
     * call; or not at all if an error is returned: ERR_BUSY, ERR_INTERNAL. */
    struct err (*submit)(struct evaluator *e, const struct eval_request *r);
};

NODISCARD static inline struct err evaluator_submit(struct evaluator *e,
                                                    const struct eval_request *r)
{
    return e->submit(e, r);
}

#endif
