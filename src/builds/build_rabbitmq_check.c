/* SPDX-License-Identifier: Apache-2.0 */

/* What a new connection looks for before it consumes anything: that messages will come, that
 * verify messages will have a place, and that the ready queue leaves them their time. On the link's
 * thread; nothing here changes but what is atomic. */

#include <stdlib.h>
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

/* Messages are in the ready queue until a worker has a place for them. A time to live that is long
 * against a verification, as Screwdriver's guide has it (8 h), ends none. */
static struct err check_ready(struct rabbitmq *r, struct amqp_session *s)
{
    struct amqp_differences all = {0};
    const struct amqp_difference *d;
    struct err e = differs(s, &r->topology.queues[BUILD_QUEUE_READY], "x-message-ttl", &all, &d);
    bool allowed = build_bool(r->settings, BUILD_READY_TTL_ALLOWED);
    int64_t needed = build_topology_ready_ms(r->settings);
    if (e.code == ERR_OK && d && !allowed && strtoll(d->found, NULL, 10) < needed) {
        atomic_store(&r->unfit, true);
        e = err_make(ERR_BROKER,
                     "queue '%.60s' has a time to live (%.20s ms), which cuts verification short, "
                     "as that may take %lld ms: make it anew with more or without, or set "
                     "RABBITMQ_READY_TTL_ALLOWED",
                     r->queues[BUILD_CHANNEL_READY], d->found, (long long)needed);
    }
    amqp_differences_fini(&all);
    return e;
}

static struct err exists(struct amqp_session *s, const char *queue, bool *out)
{
    uint32_t messages, consumers;
    return amqp_topology_count(s, queue, out, &messages, &consumers);
}

/* Whether what expires in RETRYdlr comes to the ready queue; true also if the user may not be
 * told. */
static struct err leads_back(struct rabbitmq *r, struct amqp_session *s, bool *out)
{
    struct amqp_differences all = {0};
    const struct amqp_difference *d;
    struct err e = differs(s, &r->topology.retry_dlr, "x-dead-letter-routing-key", &all, &d);
    *out = e.code == ERR_OK && !d;
    amqp_differences_fini(&all);
    return e;
}

/* Finds where looks wait that are not due. */
static struct err find_wait(struct rabbitmq *r, struct amqp_session *s)
{
    const char *wait = r->topology.queues[BUILD_QUEUE_WAIT].name;
    bool own, dlr = false;
    TRY(exists(s, wait, &own));
    if (!own)
        TRY(exists(s, r->topology.retry_dlr.name, &dlr));
    if (dlr)
        TRY(leads_back(r, s, &dlr));
    if (dlr && !atomic_load(&r->use_dlr))
        log_info("there is no queue '%s': builds wait in '%s' until they are verified, at most for "
                 "as long as that keeps messages",
                 wait, r->topology.retry_dlr.name);
    atomic_store(&r->use_dlr, dlr);
    return own || dlr ? err_none() : must_exist(s, wait);
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
        TRY(find_wait(r, s));
    return check_ready(r, s);
}
