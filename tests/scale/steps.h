/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SCALE_STEPS_H
#define TESTS_SCALE_STEPS_H

/* How much work a command does, counted without a clock, so that it is the same on every machine.
 * The compiler marks every basic block of base, core, policy and the backend (-fsanitize-coverage
 * in meson.build), so that a loop over very many things in memory shows as well as one over
 * records.
 *
 * A scene is played twice, with few things of a kind and with very many. The n-th measurement of
 * one play is compared with the n-th of the other. */

#include "yard.h"

#define STEPS_FEW 10

struct steps {
    uint64_t blocks, reads; /* reads: records got from the store, and steps of cursors */
    unsigned turns;
};

typedef void (*steps_scene)(struct yard *y, size_t things);

/* For tests that play no scene: a yard on which steps are counted. */
int steps_setup(void **state);
#define STEPS_TEST(name) cmocka_unit_test_setup_teardown(name, steps_setup, yard_teardown)

/* With `many` things each measurement may have a few more blocks than with STEPS_FEW, because trees
 * are deeper: at most four times as many. */
void steps_compare(steps_scene scene, size_t many);
/* From now on, in this scene, so many blocks more are nothing, where a limit is what bounds them.
 */
#define STEPS_SLACK 1000
void steps_allow(uint64_t more);
/* Measures a command until its answer, which must not be an error. */
struct steps steps_of(struct yard *y, const char *what, struct command c, struct answer *a);
/* Measures a number of turns of the loop. what NULL: not compared with another play. */
struct steps steps_of_turns(struct yard *y, const char *what, unsigned turns);
/* Few reads and few turns, in either play. */
void steps_assert_few(struct steps s);

/* n jobs that vary() makes different; the last of them is returned. */
typedef void (*steps_vary)(struct enqueue *spec, char *text, size_t i);
#define STEPS_TEXT 32 /* bytes of text for each job */
struct id steps_add_jobs(struct yard *y, size_t n, steps_vary vary);

#endif
