/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EVENTS_H
#define BACKEND_EMBEDDED_EVENTS_H

/* The log of events, of the backend within the server's process: what is kept of it in memory.
 * Loop thread only. */

#include "backend/backend.h"
#include "base/arena.h"
#include "base/list.h"
#include "core/event_history.h"
#include "core/port.h"
#include "store/eventlog.h"

struct embedded;
struct turn;

struct events {
    struct eventlog_writer writer; /* of the turn that is being built */
    uint64_t oldest;               /* first number of the oldest record; 0: there is none */
    uint64_t newest;               /* first number of the newest record, durable or not */
    uint64_t oldest_before;        /* bytes of all records before that one */
    instant oldest_at;
    uint64_t durable;             /* number of the newest durable event */
    uint64_t lost;                /* the newest ones up to this number were lost; 0: none were */
    uint64_t counts[EVENT_COUNT]; /* durable since the start */
    struct list reads;            /* struct event_read.node, oldest first */
    struct arena page;
    struct event_history history;
    bool history_kept; /* it is in the store, or in a batch */
};

/* Has the engine put its events here. */
void embedded_events_port(struct port *port);
/* What is stored: the newest number, the oldest record, the history. ERR_CORRUPT, ERR_VERSION. */
struct err embedded_events_recover(struct embedded *b);
/* Puts the events of the turn into its batch. */
void embedded_events_seal(struct embedded *b, struct turn *t);
void embedded_events_durable(struct embedded *b, const struct turn *t);
/* Deletes some of what has been kept for long enough; *more if some is left. */
struct err embedded_events_purge(struct embedded *b, bool *more);
/* When there will be something to purge; false: that is not known yet. */
bool embedded_events_due(const struct embedded *b, instant *at);

#endif
