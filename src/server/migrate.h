/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MIGRATE_H
#define SERVER_MIGRATE_H

/* Settings of Zizq's server that have no effect here: reported in the log at the start, so that
 * nothing that a user asked for is ignored silently. */

#include "client/options.h"

/* Whether this option is accepted without effect. */
bool migrate_has_no_effect(const char *flag);
/* Reports the flags, variables and lines of the file that have no effect, and unknown variables
 * ZIZQ_…. */
void migrate_tell(const struct option_def *defs, const struct options *o);

#endif
