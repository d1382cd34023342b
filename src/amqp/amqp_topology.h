/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMQP_TOPOLOGY_H
#define AMQP_TOPOLOGY_H

/* Exchanges, queues and bindings as they should be, compared with what a broker has. Nothing is
 * ever deleted, and what exists is never changed: AMQP cannot change it.
 *
 * AMQP does not show the arguments of a queue. But a broker that is asked to declare a queue which
 * it has with other arguments refuses, and names the first difference and its own value (RabbitMQ:
 * "inequivalent arg 'x-message-ttl' for queue 'sd' …"). So each difference is found by asking again
 * with what was learnt, until it agrees. A binding cannot be looked at: it can only be made.
 *
 * Blocks. */

#include "amqp/amqp_session.h"
#include "base/buf.h"

/* The arguments of queues that are compared. */
enum amqp_arg_type { AMQP_ARG_INT, AMQP_ARG_TEXT };
struct amqp_arg {
    const char *name; /* "x-message-ttl" */
    enum amqp_arg_type type;
    int64_t number;
    const char *text;
};

#define AMQP_ARGS_MAX 12
/* Durable and not auto-deleted, as all of them are. */
struct amqp_queue {
    const char *name;
    struct amqp_arg args[AMQP_ARGS_MAX];
    size_t arg_count;
    const char *routing_key; /* that binds it to the exchange */
    const char *purpose;     /* for people */
    bool on_demand;          /* made when it is needed: it may be missing */
};

struct amqp_topology {
    const char *exchange;
    const char *exchange_type;
    const struct amqp_queue *queues;
    size_t queue_count;
};

/* What is wrong with one exchange or queue; `argument` is NULL if it does not exist. */
struct amqp_difference {
    const char *name; /* of the queue or exchange; borrowed from the topology */
    char argument[64], wanted[128], found[128];
    bool missing;
};

struct amqp_differences {
    struct amqp_difference *at;
    size_t count, cap;
};

/* Everything in which the broker differs, as far as the user may compare, which needs the
 * permission to configure; of the rest only what is missing. *limited: there is such a rest. An
 * error only if the broker could not be asked. */
NODISCARD struct err amqp_topology_check_allowed(struct amqp_session *s,
                                                 const struct amqp_topology *t,
                                                 struct amqp_differences *out, bool *limited);
/* Makes what is missing, and all bindings; reports what exists and differs. */
NODISCARD struct err amqp_topology_declare(struct amqp_session *s, const struct amqp_topology *t,
                                           struct amqp_differences *out);
/* The same for one queue, which need not be among those of the topology. */
NODISCARD struct err amqp_topology_declare_queue(struct amqp_session *s,
                                                 const struct amqp_topology *t,
                                                 const struct amqp_queue *q,
                                                 struct amqp_differences *out);
/* Adds the differences of one queue only. ERR_FORBIDDEN if the user may not be told: comparing
 * needs the permission to configure the queue. */
NODISCARD struct err amqp_topology_check_queue(struct amqp_session *s, const struct amqp_queue *q,
                                               struct amqp_differences *out);
/* Whether there is an exchange of that name; needs no permission to configure it. */
NODISCARD struct err amqp_topology_has_exchange(struct amqp_session *s, const char *name,
                                                bool *exists);
/* How many messages wait in a queue, and how many consumers it has; false if there is no such
 * queue. */
NODISCARD struct err amqp_topology_count(struct amqp_session *s, const char *queue, bool *exists,
                                         uint32_t *messages, uint32_t *consumers);
void amqp_differences_fini(struct amqp_differences *d);

/* For the refusal's text, which is only RabbitMQ's: the argument, the value that was sent and the
 * broker's own. False if the text is of another form. */
bool amqp_topology_parse(struct str text, struct amqp_difference *out);

#endif
