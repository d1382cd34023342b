/* SPDX-License-Identifier: Apache-2.0 */

/* Orders: verify messages on their way to the broker. Each is published until it is confirmed. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_rabbitmq_internal.h"
#include "client/when.h"

#define AGAIN_FIRST_MS      1000
#define AGAIN_DOUBLINGS_MAX 10
#define HEADERS_MAX         3

struct rabbitmq_order *rabbitmq_order_new(struct str body)
{
    struct rabbitmq_order *o = ALLOC(struct rabbitmq_order);
    o->body = alloc_text(body.at, body.len);
    o->body_len = body.len;
    o->started = INSTANT_NONE;
    return o;
}

static void order_free(struct rabbitmq *r, struct rabbitmq_order *o)
{
    if (o->tries)
        r->troubled--;
    r->unconfirmed--;
    list_unlink(&o->node);
    free(o->body);
    free(o);
}

static void put(amqp_table_t *t, const char *name, amqp_field_value_t value)
{
    must(t->num_entries < HEADERS_MAX);
    t->entries[t->num_entries++] =
        (amqp_table_entry_t){.key = amqp_cstring_bytes(name), .value = value};
}

static amqp_field_value_t small(uint32_t v)
{
    return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I32,
                                .value.i32 = v < INT32_MAX ? (int32_t)v : INT32_MAX};
}

static void write_headers(const struct rabbitmq_order *o, amqp_table_t *t)
{
    if (instant_is_set(o->started))
        put(t, "x-build-start-time",
            (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = o->started.ms});
    put(t, "x-retry-count", small(o->looks));
    if (o->errors)
        put(t, "x-error-count", small(o->errors));
}

static const char *key_of(struct rabbitmq *r, const struct rabbitmq_order *o)
{
    if (o->after.ms <= 0)
        return r->queues[BUILD_CHANNEL_READY];
    const char *own =
        build_bool(r->settings, BUILD_WAIT_QUEUES) ? rabbitmq_wait_name(r, o->after) : NULL;
    if (own)
        return own;
    return atomic_load(&r->use_dlr) ? r->topology.retry_dlr.name
                                    : r->topology.queues[BUILD_QUEUE_WAIT].name;
}

static void publish(struct rabbitmq *r, struct rabbitmq_order *o)
{
    amqp_table_entry_t entries[HEADERS_MAX];
    amqp_table_t headers = {.entries = entries};
    write_headers(o, &headers);
    o->id = ++r->order_id;
    list_unlink(&o->node);
    list_append(&r->sent, &o->node);
    amqp_publish(r->out, &(struct amqp_message){
                             .exchange = str_from(r->topology.topology.exchange),
                             .routing_key = str_from(key_of(r, o)),
                             .body = {o->body, o->body_len},
                             .content_type = STR("application/json"),
                             .headers = &headers,
                             .expiration = {o->after.ms > 0 ? o->after.ms : -1},
                             .priority = o->priority,
                             .id = o->id,
                         });
}

static void wait_until(struct rabbitmq *r, struct rabbitmq_order *o, mono due)
{
    o->due = due;
    list_unlink(&o->node);
    list_append(&r->waiting, &o->node);
    rabbitmq_wake(r, due);
}

void rabbitmq_order_place(struct rabbitmq *r, struct rabbitmq_order *o)
{
    list_init(&o->node);
    r->unconfirmed++;
    if (!r->verified) {
        o->nowhere = true;
        wait_until(r, o, when_mono());
    } else if (r->timers && o->after.ms > 0) {
        span after = o->after;
        o->after = (span){0};
        wait_until(r, o, when_after(when_mono(), after));
    } else {
        publish(r, o);
    }
}

static void finish(struct rabbitmq *r, struct rabbitmq_order *o)
{
    build_broker_published *done = o->done;
    void *ctx = o->ctx;
    if (o->delivery)
        rabbitmq_settle(r, o->delivery, AMQP_ACK);
    if (o->tries && r->troubled == 1)
        log_info("verify messages are taken again");
    order_free(r, o);
    if (done)
        done(ctx);
}

/* Half of the delay is random, so that workers do not come back in step. */
static span again_after(struct rabbitmq *r, unsigned tries)
{
    int64_t ms = AGAIN_FIRST_MS << (tries < AGAIN_DOUBLINGS_MAX ? tries : AGAIN_DOUBLINGS_MAX);
    if (ms > r->connect.reconnect.ms)
        ms = r->connect.reconnect.ms;
    return (span){ms / 2 + (int64_t)rng_below(&r->rng, (uint64_t)ms / 2 + 1)};
}

static void again(struct rabbitmq *r, struct rabbitmq_order *o, enum amqp_published result)
{
    if (r->troubled == 0)
        log_error("verify messages cannot be published, and builds not be started: %s; tried again",
                  result == AMQP_UNROUTABLE
                      ? "the exchange has no queue for them (`tenax build-worker topology declare`)"
                      : "the broker could not store one");
    if (o->after.ms > 0)
        rabbitmq_wait_forget(r, o->after);
    span after = again_after(r, o->tries);
    if (o->tries++ == 0)
        r->troubled++;
    wait_until(r, o, when_after(when_mono(), after));
}

void rabbitmq_order_answered(struct rabbitmq *r, uint64_t id, enum amqp_published result)
{
    struct rabbitmq_order *o = NULL;
    LIST_EACH (n, &r->sent) {
        o = LIST_OF(n, struct rabbitmq_order, node);
        if (o->id == id)
            break;
        o = NULL;
    }
    if (!o) /* of a stale delivery, and dropped */
        return;
    if (result == AMQP_CONFIRMED)
        finish(r, o);
    else
        again(r, o, result);
}

void rabbitmq_orders_turn(struct rabbitmq *r, mono now)
{
    for (struct list *n = r->waiting.next, *next; n != &r->waiting; n = next) {
        struct rabbitmq_order *o = LIST_OF(n, struct rabbitmq_order, node);
        next = n->next;
        if (o->due.ns > now.ns) {
            rabbitmq_wake(r, o->due);
            continue;
        }
        list_unlink(n);
        list_append(&r->due, n);
    }
    /* A callback may close the broker, which frees all orders. */
    while (!list_is_empty(&r->due)) {
        struct rabbitmq_order *o = LIST_OF(r->due.next, struct rabbitmq_order, node);
        if (o->nowhere)
            finish(r, o);
        else
            publish(r, o);
    }
}

void rabbitmq_orders_drop_stale(struct rabbitmq *r)
{
    for (struct list *n = r->waiting.next, *next; n != &r->waiting; n = next) {
        struct rabbitmq_order *o = LIST_OF(n, struct rabbitmq_order, node);
        next = n->next;
        if (!o->delivery || !o->delivery->stale)
            continue;
        rabbitmq_settle(r, o->delivery, AMQP_ACK);
        order_free(r, o);
    }
}

static void free_all(struct rabbitmq *r, struct list *list)
{
    while (!list_is_empty(list))
        order_free(r, LIST_OF(list->next, struct rabbitmq_order, node));
}

void rabbitmq_orders_free(struct rabbitmq *r)
{
    free_all(r, &r->sent);
    free_all(r, &r->waiting);
    free_all(r, &r->due);
}
