/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_UNKNOWN_H
#define CLI_UNKNOWN_H

/* Names that the server has not heard of: perhaps typing errors, which nothing else would tell. */

#include "client/client.h"

/* No job is in a queue of that name, and it has no settings; false also if the server does not say.
 * The client's answer is lost, and its body must be empty. */
bool unknown_queue(struct client *c, const char *name);
/* Says so on stderr, with the name that was probably meant: "tenax jobs: there is no queue 'mial';
 * did you mean 'mail'?" If a change has made it: "there was no queue 'mial' until now". */
void unknown_queue_warn(struct client *c, const char *command, const char *name, bool made);
/* Both for each of these names, separated by commas; NULL: none. */
void unknown_queues_warn(struct client *c, const char *command, const char *names);
/* The server knows no worker of that name, as for a queue. */
bool unknown_worker(struct client *c, const char *name);
void unknown_worker_warn(struct client *c, const char *name);
/* On stderr if a budget that was made now has nearly the name of another. */
void unknown_budget_warn(struct client *c, const char *key);

#endif
