/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H

/* All environment variables of tenax: those of options, from the tables of the commands, and the
 * few that have no option, from a table of their own. `tenax help variables`, docs/variables.md and
 * the warning about a name that nobody knows come from here. */

#include "base/buf.h"

/* The list for people, wrapped to 80 columns, or as a document. */
void variables_help(struct buf *b);
void variables_markdown(struct buf *b);

/* Warns on standard error of each variable that begins with TENAX_ and is none of these, with the
 * nearest that is. Those that a Kubernetes cluster sets for a Service are passed over, and empty
 * ones. */
void variables_warn(void);

#endif
