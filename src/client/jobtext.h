/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_JOBTEXT_H
#define CLIENT_JOBTEXT_H

/* A job, given as the server's JSON, in words. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

/* The time that matters in the job's status: "in 3 s" for a scheduled one, "taken 2 s ago", "done 5
 * min ago", "failed 2 min ago". */
void jobtext_when(struct buf *b, struct arena *a, struct str job, instant now);
/* The newest decision in words, and for a dead job also its error. */
void jobtext_why(struct buf *b, struct arena *a, struct str job);
/* A line about a job: a name and its text; nothing if the text is empty. */
void jobtext_fact(struct buf *out, const char *name, struct str text);
/* The same with a time, as a date and relative to now; nothing if the time is not set. */
void jobtext_fact_time(struct buf *out, const char *name, instant t, instant now);
/* Whether this could be a job id: 25 letters and digits. Anything else must not get into a path. */
bool jobtext_is_id(const char *text);

#endif
