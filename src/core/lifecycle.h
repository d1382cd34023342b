/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LIFECYCLE_H
#define CORE_LIFECYCLE_H

/* Statuses, events and legal moves, from lifecycle.def. */

#include <stdbool.h>

#include "base/str.h"

enum status {
#define STATUS(name, wire, meaning) STATUS_##name,
#include "core/lifecycle.def"
#undef STATUS
    STATUS_COUNT,
    STATUS_GONE = STATUS_COUNT, /* the job no longer exists */
};

enum event {
#define EVENT(name, wire, kind, meaning) EVENT_##name,
#include "core/lifecycle.def"
#undef EVENT
    EVENT_COUNT
};

/* The status that event leads to; false if the table does not have that move. From
 * STATUS_GONE lead the events that make a job. */
bool lifecycle_next(enum status from, enum event event, enum status *to);
/* The same for a move that the caller knows to be legal. */
enum status lifecycle_move(enum status from, enum event event);
/* Terminal statuses never change but by an explicit command (promise I4). */
bool lifecycle_is_terminal(enum status s);

/* Names and meanings as in lifecycle.def. */
const char *lifecycle_status_name(enum status s);
const char *lifecycle_status_meaning(enum status s);
const char *lifecycle_event_name(enum event e);
const char *lifecycle_event_meaning(enum event e);
/* What consumers of events call it: "job_requeued" …; several events may share a name. */
const char *lifecycle_event_kind(enum event e);
bool lifecycle_event_kind_is_known(struct str name);
bool lifecycle_status_parse(struct str name, enum status *s);

#endif
