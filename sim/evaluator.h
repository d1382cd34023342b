/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EVALUATOR_H
#define SIM_EVALUATOR_H

/* The evaluator of a simulation. It answers late, out of order, with errors, or never: a crash
 * drops its questions. Its expressions are words (see evaluator.c) instead of jq; what it makes of
 * two payloads keeps every item of both. */

#include <stdbool.h>

#include "base/evaluator.h"
#include "base/list.h"

struct sim;

struct fake_evaluator {
    struct evaluator base;
    struct sim *sim;
    struct list waiting;
    uint64_t count; /* of waiting questions */
};

/* Whether the items of an existing payload leave room for more, by that expression. */
#define EVALUATOR_WHENS 3
extern const struct str evaluator_whens[EVALUATOR_WHENS];
extern const struct str evaluator_fold, evaluator_bad, evaluator_even;

void evaluator_init(struct fake_evaluator *e, struct sim *s);
/* Answers one question, chosen at random. */
void evaluator_step(struct fake_evaluator *e);
bool evaluator_is_idle(const struct fake_evaluator *e);
/* The process is gone. */
void evaluator_drop_all(struct fake_evaluator *e);
/* Whether the filter evaluator_even accepts the payload. */
bool evaluator_is_even(struct str payload);

#endif
