/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EVENT_CURSOR_H
#define BASE_EVENT_CURSOR_H

/* A place in the events: a number, with the id of the history that it is of, for after a restore
 * numbers are given again. Pure. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define EVENT_CURSOR_MAX 48 /* bytes as text, with a NUL */

/* The history of a cursor that is written with zeros: no server has it. */
#define EVENT_CURSOR_NOBODYS UINT64_MAX

struct event_cursor {
    uint64_t history; /* 0: a plain number, of whatever history */
    uint64_t number;
};

/* "9f3c2a417bde0815-41", or "41". */
void event_cursor_write(struct buf *b, struct event_cursor c);
/* False, with *c unchanged, if it is neither. */
bool event_cursor_read(struct str text, struct event_cursor *c);

#endif
