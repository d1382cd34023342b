/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TRAIL_H
#define CORE_TRAIL_H

/* The audit: what was changed by somebody, and by whom. Each change is an entry of its own in the
 * space TRAIL_SPACE (core/kv.h), written with the change itself (struct command, trail). What it
 * says of the sender is a front end's; the number and the time are the backend's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define TRAIL_SPACE    STR("~audit")
#define TRAIL_KEY_LEN  8
#define TRAIL_NOTE_MAX 32768 /* bytes */

struct trail_entry {
    uint64_t number; /* from 1 on, without gaps */
    instant at;
    bool open;       /* it is about many jobs, and not finished, or never will be */
    bool counted;    /* count is known */
    uint64_t count;  /* of the jobs that were changed */
    struct str note; /* a JSON value */
};

/* The key of an entry; the newest come first. */
void trail_key(uint64_t number, char room[TRAIL_KEY_LEN]);
/* Adds the value of the entry, all but its number. */
void trail_write(const struct trail_entry *e, struct buf *b);
/* ERR_CORRUPT unless both are what the above wrote. The note is a part of the value. */
NODISCARD struct err trail_read(struct str key, struct str value, struct trail_entry *e);

#endif
