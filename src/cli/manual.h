/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

/* Manual pages, in man(7), from the same tables as the help. */

#include "client/subcommand.h"

/* tenax-NAME(1). */
void manual_page(struct buf *b, const struct subcommand *c);
/* tenax(1), the overview. exit_codes as `tenax help exit-codes` prints them. */
void manual_overview(struct buf *b, const char *about, const char *examples,
                     const char *exit_codes);

#endif
