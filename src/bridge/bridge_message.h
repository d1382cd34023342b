/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_MESSAGE_H
#define BRIDGE_BRIDGE_MESSAGE_H

/* Messages of RabbitMQ as jobs, and jobs as messages. Pure.
 *
 * With BRIDGE_BODY the payload of the job is the body of the message, which must be JSON; the other
 * way round the body is the payload. With BRIDGE_MESSAGE the payload is the whole message:
 *
 *   {"body": JSON | "text": "…" | "base64": "…", "headers": {…}, "content_type": "…", …,
 *    "exchange": "…", "routing_key": "…"}
 *
 * A higher priority of AMQP is a lower one of Tenax: 32768 minus it. */

#include <amqp.h>
/* Needs the types of amqp.h. */
#include <amqp_framing.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/units.h"

enum bridge_payload { BRIDGE_BODY, BRIDGE_MESSAGE };

/* What tells a message from others, also when it is delivered again. */
enum bridge_key {
    BRIDGE_KEY_ID,     /* its message_id */
    BRIDGE_KEY_HEADER, /* a header */
    BRIDGE_KEY_BODY,   /* its body: equal messages are the same one */
    BRIDGE_KEY_NONE,
};

/* How messages become jobs. */
struct bridge_intake {
    const char *queue; /* of Tenax */
    const char *type;  /* NULL: that of the message, or else "message" */
    enum bridge_payload payload;
    enum bridge_key key;
    const char *key_header;
    span keep;         /* how long a job is kept after its end, with its key; 0: the server's */
    const char *vhost; /* with source, of its keys */
    const char *source;
};

struct bridge_delivery {
    struct str body, exchange, routing_key;
    const amqp_basic_properties_t *properties;
    uint64_t number; /* which no other delivery to this process has */
};

/* Adds the job as `POST /jobs/bulk` takes it. *keyed: the message itself has a key, so that it is
 * known again when it is delivered again; otherwise the job's key is of `process` and of the
 * delivery's number, and only a repeated request is. An error means that the message cannot be a
 * job; the buffer is then as it was. */
NODISCARD struct err bridge_message_job(struct buf *b, const struct bridge_intake *in,
                                        const struct bridge_delivery *d, const char *process,
                                        bool *keyed);

/* How jobs become messages. */
struct bridge_outlet {
    const char *exchange;
    const char *routing_key; /* NULL: that of the payload's message, else the type of the job */
    enum bridge_payload payload;
};

struct bridge_message {
    struct str exchange, routing_key, body;
    amqp_basic_properties_t properties;
};

/* Reads a job as a claim has it. Texts live in the arena, in the job or in the outlet. An error
 * means that there is no message that RabbitMQ would take. */
NODISCARD struct err bridge_message_read(const struct bridge_outlet *out, struct str job,
                                         struct arena *a, struct bridge_message *m);

/* Whether this is a name that a job's queue or type may have. */
bool bridge_message_is_name(struct str name);

#endif
