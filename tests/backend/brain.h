/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_BRAIN_H
#define TESTS_BACKEND_BRAIN_H

/* An evaluator controlled by a test: questions wait until the test has them answered. Its language
 * has few words:
 *   filter   a payload matches if it contains the text of the expression
 *   when     "yes" or "no"
 *   fold     "join": "[1]" and "[2]" become "[1,2]"; anything else is the result itself
 * Any expression with "wrong" in it is ERR_UNPROCESSABLE. */

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
    size_t count;      /* waiting questions */
    size_t asked;      /* in total */
    bool busy;         /* refuse */
    span takes;        /* the time that every answer claims to have taken */
    enum err_code ill; /* answer everything with this error, if not ERR_OK */
};

/* Makes it the evaluator of the yard's backend. */
void brain_install(struct brain *brain, struct yard *y);
/* Drops unanswered questions. */
void brain_fini(struct brain *brain);
/* Answers the oldest question. */
void brain_answer(struct brain *brain);
/* Answers the newest question, before older ones. */
void brain_answer_newest(struct brain *brain);
/* Turns and answers until nothing is left to do. */
void brain_settle(struct brain *brain, struct yard *y);

#endif
