/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_JOBTEXT_H
#define CLIENT_JOBTEXT_H

/* A job, as the server's JSON has it, put into words. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

/* The moment that matters in the job's status: "in 3 s" for a scheduled one,
 * "taken 2 s ago", "done 5 min ago", "failed 2 min ago". */
void jobtext_when(struct buf *b, struct arena *a, struct str job, instant now);
/* The newest decision in words, and of a dead job in a list the error that it died of. */
void jobtext_why(struct buf *b, struct arena *a, struct str job);
/* A line of what is shown of one job: a name and its text; nothing for an empty one. */
void jobtext_fact(struct buf *out, const char *name, struct str text);
/* The same with a time, as a date and from now; nothing for one that is not set. */
void jobtext_fact_time(struct buf *out, const char *name, instant t, instant now);
/* Whether a job id could look like this: 25 letters and digits. Anything else
 * must not get into a path. */
bool jobtext_is_id(const char *text);

#endif
