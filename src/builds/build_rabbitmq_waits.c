/* SPDX-License-Identifier: Apache-2.0 */

/* Wait queues of one delay each (--wait-queues). RabbitMQ lets messages expire only at the head of
 * a queue, so in a common wait queue a short delay is held up by a longer one before it; where all
 * have the same delay, the first to come is the first to expire.
 *
 * A queue vanishes when it has not been declared for a while, with the messages in it. It is
 * therefore declared before an order goes there, unless that was done in the last minute, and again
 * each minute while it may have messages: over the connection that consumes, since the broker may
 * have stopped reading from the other one. The time until it vanishes is long against all of these:
 * an hour more than twice the delay. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "builds/build_rabbitmq_internal.h"
#include "client/when.h"

#define MADE_FOR_MS INT64_C(60000)

static struct rabbitmq_wait *find(struct rabbitmq *r, int64_t delay_ms)
{
    for (size_t i = 0; i < atomic_load(&r->wait_count); i++)
        if (r->waits[i]->delay_ms == delay_ms)
            return r->waits[i];
    return NULL;
}

static struct rabbitmq_wait *add(struct rabbitmq *r, int64_t delay_ms)
{
    size_t count = atomic_load(&r->wait_count);
    if (count == RABBITMQ_WAITS_MAX || delay_ms > BUILD_WAIT_MAX_MS)
        return NULL;
    struct rabbitmq_wait *w = ALLOC(struct rabbitmq_wait);
    *w = (struct rabbitmq_wait){.broker = r, .delay_ms = delay_ms};
    build_topology_wait(r->settings, delay_ms, &w->queue);
    r->waits[count] = w;
    atomic_store(&r->wait_count, count + 1);
    return w;
}

/* On a link's thread. What differs would send messages elsewhere, or at another time. */
static struct err make(void *wait, struct amqp_session *s)
{
    const struct rabbitmq_wait *w = wait;
    struct amqp_differences all = {0};
    struct err e = amqp_topology_declare_queue(s, &w->broker->topology.topology, &w->queue, &all);
    if (e.code == ERR_OK && all.count)
        e = err_make(ERR_BROKER, "queue '%.80s' has %.30s %.40s instead of %.40s", w->queue.name,
                     all.at[0].argument, all.at[0].found, all.at[0].wanted);
    amqp_differences_fini(&all);
    return e;
}

const char *rabbitmq_wait_name(struct rabbitmq *r, span delay)
{
    mono now = when_mono();
    struct rabbitmq_wait *w = find(r, delay.ms);
    if (!w)
        w = add(r, delay.ms);
    if (!w)
        return NULL;
    w->used = now;
    if (w->made.ns == 0 || when_ms_between(now, w->made) >= MADE_FOR_MS) {
        amqp_link_do(r->out, make, w);
        w->made = now;
        rabbitmq_wake(r, when_after(now, (span){MADE_FOR_MS}));
    }
    return w->queue.name;
}

void rabbitmq_wait_forget(struct rabbitmq *r, span delay)
{
    struct rabbitmq_wait *w = find(r, delay.ms);
    if (w)
        w->made = (mono){0};
}

void rabbitmq_waits_turn(struct rabbitmq *r, mono now)
{
    for (size_t i = 0; i < atomic_load(&r->wait_count); i++) {
        struct rabbitmq_wait *w = r->waits[i];
        bool in_use =
            r->unconfirmed || when_ms_between(now, w->used) <= BUILD_WAIT_EXPIRES_MS(w->delay_ms);
        if (w->made.ns == 0 || !in_use)
            continue;
        if (when_ms_between(now, w->made) >= MADE_FOR_MS) {
            amqp_link_do(r->in, make, w);
            w->made = now;
        }
        rabbitmq_wake(r, when_after(w->made, (span){MADE_FOR_MS}));
    }
}

struct err rabbitmq_waits_make(void *rabbitmq, struct amqp_session *s)
{
    struct rabbitmq *r = rabbitmq;
    for (size_t i = 0; i < atomic_load(&r->wait_count); i++)
        TRY(make(r->waits[i], s));
    return err_none();
}

void rabbitmq_waits_free(struct rabbitmq *r)
{
    for (size_t i = 0; i < atomic_load(&r->wait_count); i++)
        free(r->waits[i]);
}
