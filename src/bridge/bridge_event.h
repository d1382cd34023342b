/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_EVENT_H
#define BRIDGE_BRIDGE_EVENT_H

/* Which messages tell of an event. Pure.
 *
 * The event itself goes to one exchange, as `QUEUE.EVENT`; and what Taskcluster's queue publishes
 * about it (GET /events?messages=taskcluster) to the exchanges that it names, with its routes in
 * the header CC, by which RabbitMQ routes it further. */

#include <amqp.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/event_cursor.h"
#include "base/str.h"

struct bridge_topics {
    const char *exchange; /* NULL: events themselves go nowhere */
    bool taskcluster;
};

struct bridge_note {
    struct str exchange, routing_key, body;
    struct str message_id; /* the cursor; of Taskcluster's messages with ".1", ".2", … after it */
    struct str type;       /* the event's name, or empty */
    amqp_array_t cc;       /* of texts */
};

struct bridge_notes {
    struct bridge_note *at;
    size_t count, cap;
};

/* Everything lives in the arena, or in the event. An error if the event is none, or names what
 * RabbitMQ would not take; what came before is there. */
NODISCARD struct err bridge_event_read(struct str event, struct event_cursor at,
                                       const struct bridge_topics *to, struct arena *a,
                                       struct bridge_notes *out);

#endif
