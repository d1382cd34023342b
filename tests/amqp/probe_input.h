/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PROBE_INPUT_H
#define TESTS_PROBE_INPUT_H

/* Orders of a test to a probe: lines of standard input, on libuv's default loop. */

#include <stdbool.h>

/* Calls obey for each line, which it may change, until it returns false or the input ends: then
 * ended is called, once. */
void probe_input_start(bool (*obey)(char *line), void (*ended)(void));

#endif
