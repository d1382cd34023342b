/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "bridge/bridge_internal.h"
#include "taskcluster/tc_exchange.h"

#define BACKOFF_MIN ((span){200})
#define BACKOFF_MAX ((span){15000})
#define STALL       ((span){30000})
#define NOT_FOUND   404

void bridge_link_open(struct bridge_link *l, struct bridge *b, const char *what, const char *queue,
                      const struct amqp_link_user *user, void *ctx)
{
    const struct bridge_settings *s = b->settings;
    l->b = b;
    l->what = what;
    l->queue = queue;
    l->settings = (struct amqp_link_settings){.connection = s->amqp,
                                              .queues = &l->queue,
                                              .queue_count = queue != NULL,
                                              .prefetch = (uint16_t)s->prefetch,
                                              .backoff_min = BACKOFF_MIN,
                                              .backoff_max = BACKOFF_MAX,
                                              .stall = STALL,
                                              .seed = rng_next(&b->rng)};
    if (s->declare) {
        l->settings.prepare = bridge_declare;
        l->settings.prepare_ctx = (void *)(uintptr_t)s;
    }
    l->amqp = amqp_link_new(b->loop, &l->settings, user, ctx);
}

void bridge_link_is_up(struct bridge_link *l)
{
    l->up = true;
    l->why[0] = '\0';
    log_info("%s: connected", l->what);
}

/* The same again is no news. */
void bridge_link_is_down(struct bridge_link *l, const char *why)
{
    if (strcmp(l->why, why) == 0)
        log_debug("%s: %s", l->what, why);
    else
        log_warn("%s: %s; it is tried again until it works", l->what, why);
    l->up = false;
    snprintf(l->why, sizeof l->why, "%s", why);
}

bool bridge_link_takes(const struct bridge_link *l)
{
    return l->up && !amqp_link_stats(l->amqp).blocked;
}

void bridge_link_close(struct bridge_link *l)
{
    if (l->amqp)
        amqp_link_close(l->amqp);
    l->amqp = NULL;
}

/* --- declarations, on the link's thread --- */

/* An answer on AMQP_CONTROL: *missing if the broker has no such thing; it has then closed the
 * channel, which is opened again. */
static struct err look(struct amqp_session *s, const char *name, bool *missing)
{
    struct str text;
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(s->state);
    *missing = amqp_session_refusal(reply, &text) == NOT_FOUND;
    if (!*missing)
        return amqp_session_check(s, reply, name);
    amqp_session_control_closed(s);
    return amqp_session_control(s);
}

/* What exists stays as it is, whatever its arguments are. */
static struct err declare_exchange(struct amqp_session *s, const char *name)
{
    bool missing;
    amqp_bytes_t bytes = amqp_cstring_bytes(name), type = amqp_cstring_bytes("topic");
    if (!*name || strncmp(name, "amq.", 4) == 0)
        return err_none(); /* RabbitMQ's own */
    amqp_exchange_declare(s->state, AMQP_CONTROL, bytes, type, 1, 1, 0, 0, amqp_empty_table);
    TRY(look(s, name, &missing));
    if (!missing)
        return err_none();
    amqp_exchange_declare(s->state, AMQP_CONTROL, bytes, type, 0, 1, 0, 0, amqp_empty_table);
    return amqp_session_check(s, amqp_get_rpc_reply(s->state), name);
}

static struct err declare_queue(struct amqp_session *s, const char *name)
{
    bool missing;
    amqp_bytes_t bytes = amqp_cstring_bytes(name);
    amqp_queue_declare(s->state, AMQP_CONTROL, bytes, 1, 1, 0, 0, amqp_empty_table);
    TRY(look(s, name, &missing));
    if (!missing)
        return err_none();
    amqp_queue_declare(s->state, AMQP_CONTROL, bytes, 0, 1, 0, 0, amqp_empty_table);
    return amqp_session_check(s, amqp_get_rpc_reply(s->state), name);
}

struct err bridge_declare(void *bridge_settings, struct amqp_session *s)
{
    const struct bridge_settings *b = bridge_settings;
    if (b->from_rabbitmq)
        TRY(declare_queue(s, b->from_rabbitmq));
    if (b->to_rabbitmq)
        TRY(declare_queue(s, b->to_rabbitmq));
    else if (b->from)
        TRY(declare_exchange(s, b->outlet.exchange));
    if (b->events && b->events_exchange)
        TRY(declare_exchange(s, b->events_exchange));
    for (int e = 0; b->events && b->taskcluster && e < TC_EXCHANGES; e++) {
        char name[80];
        snprintf(name, sizeof name, TC_EXCHANGE_PREFIX "%s", tc_exchange_name((enum tc_exchange)e));
        TRY(declare_exchange(s, name));
    }
    return err_none();
}
