/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_EVENTLOG_H
#define STORE_EVENTLOG_H

/* The event log as records. The events of a batch are written in the same batch, so they are
 * durable exactly if the changes are. A record holds many events; each is encoded as its difference
 * from the one before it, which for a bulk of similar jobs is about a dozen bytes.
 *
 *   'V' number   consecutive events from that number on
 *
 * The newest record is never deleted, because the next number follows from it. */

#include "base/buf.h"
#include "core/event.h"
#include "store/batch.h"
#include "store/record.h"

#define EVENTLOG_RECORD_MAX (64 * 1024) /* bytes, plus one event; more go into further records */

/* The key of the record that begins with that number; and back, false for other keys. */
struct record_key eventlog_key(uint64_t first);
bool eventlog_key_is(struct str key, uint64_t *first);

/* --- writing --- */

/* Events to be added to a batch. Zero-initialised, but for `before`, is empty. */
struct eventlog_writer {
    struct buf bytes; /* of the events so far */
    uint64_t first;   /* number of the first of them */
    uint32_t count;
    uint64_t before; /* bytes of all records ever written */
    instant began, at;
    struct id last;
    struct {
        size_t at, len; /* in bytes */
    } texts[4], trace;  /* the latest of each */
    int32_t priority;   /* likewise */
};

void eventlog_writer_fini(struct eventlog_writer *w);
/* Drops the events that were not flushed. */
void eventlog_reset(struct eventlog_writer *w);
void eventlog_add(struct eventlog_writer *w, const struct job_event *ev);
static inline bool eventlog_is_full(const struct eventlog_writer *w)
{
    return w->bytes.len >= EVENTLOG_RECORD_MAX;
}
/* Puts the added events, if any, as one record into the batch. */
void eventlog_flush(struct eventlog_writer *w, const struct event_mark *mark, struct batch *b);

/* --- reading --- */

struct eventlog_head {
    instant at;      /* of the first event */
    uint32_t count;  /* of events; at least 1 */
    uint64_t before; /* bytes of all records before this one, key and value */
    struct event_mark mark;
};

struct eventlog_reader {
    struct str value;
    size_t pos;
    unsigned version;
    uint32_t left, count;
    struct job_event last;
    int32_t priority; /* of the latest event that told it */
};

/* ERR_CORRUPT, ERR_VERSION. */
NODISCARD struct err eventlog_open(struct str value, uint64_t first, struct eventlog_head *head,
                                   struct eventlog_reader *r);
/* The next event; *more is false after the last one. Its strings are views into the value. */
NODISCARD struct err eventlog_next(struct eventlog_reader *r, bool *more, struct job_event *ev);

#endif
