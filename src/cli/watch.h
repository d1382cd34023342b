/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

/* The option --watch of commands that list and show. */

#include "cli/listing.h"

/* Fetches and prints until SIGINT or SIGTERM ends it, which is CLI_OK. On a terminal each look
 * takes the place of the one before; elsewhere it is printed if something has changed. While the
 * server is away it is asked again, and that is said once; what it refuses ends the command. */
int watch_run(struct client *c, const struct listing_kind *kind, listing_fetch *fetch, void *ctx);

#endif
