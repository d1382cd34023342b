/* SPDX-License-Identifier: Apache-2.0 */

/* What a new connection looks for before it consumes anything: that messages will come, that
 * verify messages will have a place, and that the ready queue leaves them their time. On the link's
 * thread; nothing here changes but what is atomic. */

#include <string.h>

#include "base/log.h"
#include "builds/build_rabbitmq_internal.h"

static struct err must_exist(struct amqp_session *s, const char *queue)
{
    bool exists;
    uint32_t messages, consumers;
    TRY(amqp_topology_count(s, queue, &exists, &messages, &consumers));
    return exists ? err_none()
                  : err_make(ERR_BROKER,
                             "there is no queue '%.80s' at %s; `tenax build-worker topology "
                             "declare` makes it",
                             queue, s->peer);
}

static struct err must_have_exchange(const struct rabbitmq *r, struct amqp_session *s)
{
    bool exists;
    TRY(amqp_topology_has_exchange(s, r->topology.topology.exchange, &exists));
    return exists ? err_none()
                  : err_make(ERR_BROKER,
                             "there is no exchange '%.80s' at %s; `tenax build-worker topology "
                             "declare` makes it",
                             r->topology.topology.exchange, s->peer);
}

/* Looks for one argument of the queue in which the broker differs; *out is NULL if it agrees, or if
 * the user may not compare, which takes the permission to configure the queue. */
static struct err differs(struct amqp_session *s, const struct amqp_queue *q, const char *argument,
                          struct amqp_differences *all, const struct amqp_difference **out)
{
    struct err e = amqp_topology_check_queue(s, q, all);
    *out = NULL;
    if (e.code == ERR_FORBIDDEN) {
        log_info("%s: it is not known whether its %s is as it should be", e.msg, argument);
        return err_none();
    }
    for (size_t i = 0; i < all->count; i++)
        if (!all->at[i].missing && strcmp(all->at[i].argument, argument) == 0)
            *out = &all->at[i];
    return e;
}

/* Rejected messages must go somewhere. A policy of the broker may see to that, so it is no error.
 */
static struct err check_main(const struct rabbitmq *r, struct amqp_session *s)
{
    struct amqp_differences all = {0};
    const struct amqp_difference *d;
    const char *name = r->queues[BUILD_CHANNEL_MAIN];
    struct err e =
        differs(s, &r->topology.queues[BUILD_QUEUE_MAIN], "x-dead-letter-exchange", &all, &d);
    if (e.code == ERR_OK && d && strcmp(d->found, "none") == 0)
        log_warn("queue '%s' at %s has no dead-letter exchange: unless a policy gives it one, what "
                 "has failed is lost instead of being tried again",
                 name, s->peer);
    amqp_differences_fini(&all);
    return e;
}

static struct err check_ready(struct rabbitmq *r, struct amqp_session *s)
{
    struct amqp_differences all = {0};
    const struct amqp_difference *d;
    struct err e = differs(s, &r->topology.queues[BUILD_QUEUE_READY], "x-message-ttl", &all, &d);
    if (e.code == ERR_OK && d && !build_bool(r->settings, BUILD_READY_TTL_ALLOWED)) {
        atomic_store(&r->unfit, true);
        e = err_make(ERR_BROKER,
                     "queue '%.60s' has a time to live (%.20s ms), which cuts verification short: "
                     "make it anew without, or set RABBITMQ_READY_TTL_ALLOWED",
                     r->queues[BUILD_CHANNEL_READY], d->found);
    }
    amqp_differences_fini(&all);
    return e;
}

struct err rabbitmq_check(void *rabbitmq, struct amqp_session *s)
{
    struct rabbitmq *r = rabbitmq;
    atomic_store(&r->unfit, false);
    TRY(must_exist(s, r->queues[BUILD_CHANNEL_MAIN]));
    TRY(check_main(r, s));
    if (!r->verified)
        return err_none();
    TRY(must_have_exchange(r, s));
    TRY(must_exist(s, r->queues[BUILD_CHANNEL_READY]));
    if (!r->timers && !build_bool(r->settings, BUILD_WAIT_QUEUES))
        TRY(must_exist(s, r->topology.queues[BUILD_QUEUE_WAIT].name));
    return check_ready(r, s);
}
