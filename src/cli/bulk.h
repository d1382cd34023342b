/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BULK_H
#define CLI_BULK_H

#include <stdio.h>

#include "cli/newjob.h"

/* Enqueues every line of a file, in batches, each of which is stored completely or not at all.
 * Reports progress and a summary on standard error and returns the exit code. */
int bulk_run(struct client *c, const struct enqueue_args *args, const struct newjob_defaults *d,
             FILE *in);

#endif
