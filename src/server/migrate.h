/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MIGRATE_H
#define SERVER_MIGRATE_H

/* What a person who comes from Zizq's server has set and what of it means nothing here: said in the
 * log at the start, so that nothing that was asked for is ignored in silence. */

#include "client/options.h"

/* Whether this option is one that is understood and has no effect. */
bool migrate_has_no_effect(const char *flag);
/* The flags, variables and lines of the file that have no effect, and variables ZIZQ_… that nobody
 * knows. */
void migrate_tell(const struct option_def *defs, const struct options *o);

#endif
