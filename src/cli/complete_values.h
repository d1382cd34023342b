/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMPLETE_VALUES_H
#define CLI_COMPLETE_VALUES_H

/* `tenax complete-values KIND TYPED WORDS...`, which the completion of shells runs and no person:
 * prints what may stand where TYPED is, a word a line. WORDS are the command line so far, of which
 * it heeds the options that say which server to ask. It waits for that a second at most, and is
 * silent about every fault: the user is typing. */

#include "client/subcommand.h"

/* STATUS, QUEUE, ID or POLICY: what an option of the command names; or NULL. */
const char *complete_values_kind(const struct subcommand *c, const struct option_def *d);
/* Whether the word is one of these. */
bool complete_values_knows(const char *kind);

int complete_values_main(int argc, char **argv);

#endif
