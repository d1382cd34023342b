/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_BRAIN_H
#define TESTS_BACKEND_BRAIN_H

/* An evaluator in the hands of a test: questions wait until the test has them answered.
 * Its language is a few words:
 *   filter   a payload matches if it contains the text of the expression
 *   when     "yes" or "no"
 *   fold     "join": "[1]" and "[2]" become "[1,2]"; anything else is the result itself
 * and any expression with "wrong" in it is ERR_UNPROCESSABLE. */

#include "base/evaluator.h"
#include "yard.h"

#define BRAIN_MAX      64
#define BRAIN_TEXT_MAX 5000

struct question {
    struct eval_request request;
    char texts[2 + 64][BRAIN_TEXT_MAX]; /* its expressions and inputs */
    struct str inputs[64];
};

struct brain {
    struct evaluator evaluator; /* must be first */
    struct question *questions[BRAIN_MAX];
    size_t count;      /* that wait */
    size_t asked;      /* ever */
    bool busy;         /* refuse */
    span takes;        /* that every answer says it took */
    enum err_code ill; /* answer everything with this error, if not ERR_OK */
};

/* The yard's backend gets this evaluator. */
void brain_install(struct brain *brain, struct yard *y);
/* Forgets what was not answered. */
void brain_fini(struct brain *brain);
/* Answers the oldest question. */
void brain_answer(struct brain *brain);
/* Answers the newest one, before those that are older. */
void brain_answer_newest(struct brain *brain);
/* Turns and answers until nothing is left to do. */
void brain_settle(struct brain *brain, struct yard *y);

#endif
