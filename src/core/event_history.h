/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EVENT_HISTORY_H
#define CORE_EVENT_HISTORY_H

/* Which history the numbers of events belong to. After a restore, or when lost commits were
 * accepted, numbers are given again: a place in the events is a cursor, a number with the id of its
 * history. A history knows those that it goes on from, each up to a number, so a cursor of one of
 * them is good up to there. Pure. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/event_cursor.h"
#include "base/err.h"
#include "base/str.h"

#define EVENT_HISTORY_BEFORE_MAX 16

struct event_history {
    uint64_t id; /* not 0 */
    uint32_t count;
    struct event_cursor
        before[EVENT_HISTORY_BEFORE_MAX]; /* oldest first; up to these it is theirs */
};

/* Begins a new history where the old one is; nothing if it has this id, or had it before. */
void event_history_turn(struct event_history *h, uint64_t id, uint64_t newest);
/* Where a reader goes on who is at the cursor, while the oldest and the newest event are these
 * (oldest 0: there is none). *gap: events after the cursor are not of this history. */
uint64_t event_history_place(const struct event_history *h, struct event_cursor c, uint64_t oldest,
                             uint64_t newest, bool *gap);

/* As it is stored. ERR_CORRUPT, ERR_VERSION. */
void event_history_write(struct buf *b, const struct event_history *h);
NODISCARD struct err event_history_read(struct str text, struct event_history *h);

#endif
