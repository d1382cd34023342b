/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_rabbitmq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "amqp/amqp_headers.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_message.h"
#include "builds/build_rabbitmq_internal.h"
#include "client/when.h"

#define BACKOFF_MIN_MS 500
#define STALL_MS       15000

static struct rabbitmq *rabbitmq_of(const struct build_broker *b)
{
    return (struct rabbitmq *)(uintptr_t)b;
}

static struct rabbitmq_delivery *delivery_of(struct build_delivery *d)
{
    return (struct rabbitmq_delivery *)(void *)d;
}

/* --- deliveries --- */

static uint32_t count_of(const struct amqp_delivery *from, struct str header)
{
    int64_t n;
    if (!amqp_headers_int(&from->headers, header, &n) || n < 0)
        return 0;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static uint32_t failures_of(const struct rabbitmq *r, const struct amqp_delivery *from)
{
    struct str queue = str_from(r->queues[from->queue]);
    int64_t rejections = amqp_headers_deaths(&from->headers, queue, STR("rejected"));
    uint32_t errors = count_of(from, STR("x-error-count"));
    if (rejections <= (int64_t)errors)
        return errors;
    return rejections < UINT32_MAX ? (uint32_t)rejections : UINT32_MAX;
}

static instant start_of(const struct amqp_delivery *from)
{
    int64_t ms;
    bool known = amqp_headers_int(&from->headers, STR("x-build-start-time"), &ms);
    return known && ms > 0 && ms <= INSTANT_MAX_MS ? (instant){ms} : INSTANT_NONE;
}

static void on_delivered(void *ctx, struct amqp_delivery *from)
{
    struct rabbitmq *r = ctx;
    if (r->quiet) {
        amqp_settle(r->in, from, AMQP_REQUEUE);
        return;
    }
    struct rabbitmq_delivery *d = ALLOC(struct rabbitmq_delivery);
    *d = (struct rabbitmq_delivery){
        .shown = {.channel = (enum build_channel)from->queue,
                  .body = from->body,
                  .failures = failures_of(r, from),
                  .redelivered = from->redelivered,
                  .looks = count_of(from, STR("x-retry-count")),
                  .started = start_of(from)},
        .from = from,
    };
    list_init(&d->spent_node);
    list_append(&r->deliveries, &d->node);
    r->unsettled++;
    r->broker.user.delivered(r->broker.ctx, &d->shown);
}

static void delivery_free(struct rabbitmq *r, struct rabbitmq_delivery *d)
{
    r->unsettled--;
    list_unlink(&d->node);
    list_unlink(&d->spent_node);
    free(d->why);
    free(d);
}

void rabbitmq_settle(struct rabbitmq *r, struct rabbitmq_delivery *d, enum amqp_settlement how)
{
    amqp_settle(r->in, d->from, how);
    delivery_free(r, d);
}

/* --- the links --- */

/* Each reason once, however often it comes, and for both connections. */
static void say(struct rabbitmq *r, const struct amqp_link *link, const char *why)
{
    char *said = r->said[link == r->in];
    if (strcmp(r->said[0], why) != 0 && strcmp(r->said[1], why) != 0)
        log_warn("%s; tried again", why);
    snprintf(said, sizeof r->said[0], "%s", why);
}

static void on_in_connected(void *ctx)
{
    struct rabbitmq *r = ctx;
    r->consuming = true;
    r->said[true][0] = '\0';
    log_info("consuming '%s'%s%s", r->queues[0], r->verified ? " and " : "",
             r->verified ? r->queues[1] : "");
}

static void on_in_disconnected(void *ctx, const char *why)
{
    struct rabbitmq *r = ctx;
    r->consuming = false;
    say(r, r->in, why);
    LIST_EACH (n, &r->deliveries)
        LIST_OF(n, struct rabbitmq_delivery, node)->stale = true;
    rabbitmq_orders_drop_stale(r);
    if (!atomic_load(&r->unfit) || r->refusal_told)
        return;
    r->refusal_told = true;
    if (r->broker.user.refused)
        r->broker.user.refused(r->broker.ctx, why);
}

static void on_out_connected(void *ctx)
{
    struct rabbitmq *r = ctx;
    r->publishing = true;
    r->said[false][0] = '\0';
}

static void on_out_disconnected(void *ctx, const char *why)
{
    struct rabbitmq *r = ctx;
    r->publishing = false;
    say(r, r->out, why);
}

static void on_published(void *ctx, uint64_t id, enum amqp_published result)
{
    rabbitmq_order_answered(ctx, id, result);
}

/* --- the timer --- */

static void tell_spent(struct rabbitmq *r)
{
    struct list now;
    /* What is added meanwhile comes with the next turn; what a callback frees unlinks itself. */
    list_init(&now);
    while (!list_is_empty(&r->spent)) {
        struct list *n = r->spent.next;
        list_unlink(n);
        list_append(&now, n);
    }
    while (!list_is_empty(&now)) {
        struct rabbitmq_delivery *d = LIST_OF(now.next, struct rabbitmq_delivery, spent_node);
        char *why = d->why;
        list_unlink(&d->spent_node);
        d->why = NULL;
        if (d->stale)
            rabbitmq_settle(r, d, AMQP_ACK);
        else
            r->broker.user.exhausted(r->broker.ctx, &d->shown, why);
        free(why);
    }
}

static void turn(uv_timer_t *timer)
{
    struct rabbitmq *r = timer->data;
    mono now = when_mono();
    tell_spent(r);
    if (uv_is_closing((uv_handle_t *)timer))
        return;
    rabbitmq_orders_turn(r, now);
    if (!uv_is_closing((uv_handle_t *)timer))
        rabbitmq_waits_turn(r, now);
}

void rabbitmq_wake(struct rabbitmq *r, mono when)
{
    int64_t ms = when_ms_between(when, when_mono()) + 1;
    uint64_t in = ms > 0 ? (uint64_t)ms : 0;
    if (!uv_is_active((uv_handle_t *)&r->timer) || uv_timer_get_due_in(&r->timer) > in)
        uv_timer_start(&r->timer, turn, in, 0);
}

/* --- the broker --- */

static void ack(struct build_broker *b, struct build_delivery *d)
{
    rabbitmq_settle(rabbitmq_of(b), delivery_of(d), AMQP_ACK);
}

static void exhaust(struct rabbitmq *r, struct rabbitmq_delivery *d, const char *why)
{
    d->why = alloc_text(why, strlen(why));
    list_append(&r->spent, &d->spent_node);
    rabbitmq_wake(r, when_mono());
}

static void publish_again(struct rabbitmq *r, struct rabbitmq_delivery *d)
{
    struct rabbitmq_order *o = rabbitmq_order_new(d->shown.body);
    o->started = d->shown.started;
    o->looks = d->shown.looks;
    o->errors = d->shown.failures + 1;
    o->priority = d->from->priority;
    o->after = build_span(r->settings, BUILD_VERIFY_DELAY);
    o->delivery = d;
    rabbitmq_order_place(r, o);
}

static void retry(struct build_broker *b, struct build_delivery *shown, const char *why)
{
    struct rabbitmq *r = rabbitmq_of(b);
    struct rabbitmq_delivery *d = delivery_of(shown);
    if (!d->stale && (int64_t)shown->failures >= build_int(r->settings, BUILD_REPROCESS_LIMIT))
        exhaust(r, d, why);
    else if (d->stale || shown->channel == BUILD_CHANNEL_MAIN)
        rabbitmq_settle(r, d, AMQP_REJECT);
    else
        publish_again(r, d);
}

static struct rabbitmq_order *order_of(const struct build_order *from)
{
    struct buf body = {0};
    build_message_verify(&body, from->config);
    struct rabbitmq_order *o = rabbitmq_order_new(buf_view(&body));
    buf_fini(&body);
    o->started = from->started;
    o->looks = from->looks;
    o->after = from->after;
    return o;
}

static void then(struct build_broker *b, struct build_delivery *shown,
                 const struct build_order *order)
{
    struct rabbitmq *r = rabbitmq_of(b);
    struct rabbitmq_delivery *d = delivery_of(shown);
    /* The message comes again, and so does this: one of them is enough. */
    if (d->stale) {
        rabbitmq_settle(r, d, AMQP_ACK);
        return;
    }
    struct rabbitmq_order *o = order_of(order);
    o->delivery = d;
    rabbitmq_order_place(r, o);
}

static void publish(struct build_broker *b, const struct build_order *order,
                    build_broker_published *done, void *ctx)
{
    struct rabbitmq_order *o = order_of(order);
    o->done = done;
    o->ctx = ctx;
    rabbitmq_order_place(rabbitmq_of(b), o);
}

static struct build_broker_state state(const struct build_broker *b)
{
    const struct rabbitmq *r = rabbitmq_of(b);
    struct amqp_link_stats in = amqp_link_stats(r->in), out = amqp_link_stats(r->out);
    return (struct build_broker_state){
        .consuming = r->consuming && r->publishing && !r->quiet && r->troubled == 0,
        .blocked = out.blocked,
        .unsettled = r->unsettled,
        .unconfirmed = r->unconfirmed,
        .connections = in.connections,
    };
}

static void quiet(struct build_broker *b)
{
    struct rabbitmq *r = rabbitmq_of(b);
    r->quiet = true;
    amqp_link_quiet(r->in);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_broker(struct build_broker *b)
{
    struct rabbitmq *r = rabbitmq_of(b);
    amqp_link_close(r->in);
    amqp_link_close(r->out);
    rabbitmq_orders_free(r);
    while (!list_is_empty(&r->deliveries)) {
        struct rabbitmq_delivery *d = LIST_OF(r->deliveries.next, struct rabbitmq_delivery, node);
        amqp_delivery_free(d->from);
        delivery_free(r, d);
    }
    rabbitmq_waits_free(r);
    uv_close((uv_handle_t *)&r->timer, timer_closed);
}

static const struct build_broker_ops ops = {ack, retry, then, publish, state, quiet, close_broker};

/* --- the start --- */

static void init_links(struct rabbitmq *r)
{
    span max = r->connect.reconnect;
    r->in_settings = (struct amqp_link_settings){
        .connection = r->connect.settings,
        .queues = r->queues,
        .queue_count = r->verified ? 2 : 1,
        .prefetch = (uint16_t)build_int(r->settings, BUILD_PREFETCH),
        .backoff_min = {max.ms < BACKOFF_MIN_MS ? max.ms : BACKOFF_MIN_MS},
        .backoff_max = max,
        .stall = {STALL_MS},
        .seed = rng_next(&r->rng),
        .prepare = rabbitmq_check,
        .prepare_ctx = r,
    };
    r->out_settings = r->in_settings;
    r->out_settings.queue_count = 0;
    r->out_settings.seed = rng_next(&r->rng);
    r->out_settings.prepare = rabbitmq_waits_make;
}

static void init_lists(struct rabbitmq *r)
{
    list_init(&r->deliveries);
    list_init(&r->spent);
    list_init(&r->sent);
    list_init(&r->waiting);
    list_init(&r->due);
}

static struct err read_settings(struct rabbitmq *r)
{
    int64_t prefetch = build_int(r->settings, BUILD_PREFETCH);
    if (prefetch < 1 || prefetch > UINT16_MAX)
        return err_make(ERR_USAGE, "rabbitmq.prefetchCount must be 1 to %d", UINT16_MAX);
    TRY(build_connect_make(&r->connect, r->settings));
    build_topology_make(&r->topology, r->settings);
    r->queues[BUILD_CHANNEL_MAIN] = build_text(r->settings, BUILD_QUEUE);
    r->queues[BUILD_CHANNEL_READY] = build_text(r->settings, BUILD_RETRY_QUEUE);
    r->verified = build_bool(r->settings, BUILD_RETRY_QUEUE_ENABLED);
    r->timers = strcmp(build_text(r->settings, BUILD_VERIFICATION), "timer") == 0;
    return err_none();
}

struct err build_rabbitmq_new(uv_loop_t *loop, struct build_settings *settings,
                              const struct build_broker_user *user, void *ctx,
                              struct build_broker **out)
{
    static const struct amqp_link_user in = {.connected = on_in_connected,
                                             .disconnected = on_in_disconnected,
                                             .delivered = on_delivered};
    static const struct amqp_link_user published = {.connected = on_out_connected,
                                                    .disconnected = on_out_disconnected,
                                                    .published = on_published};
    struct rabbitmq *r = ALLOC(struct rabbitmq);
    uint64_t seed;
    *r = (struct rabbitmq){
        .broker = {.ops = &ops, .user = *user, .ctx = ctx}, .settings = settings, .loop = loop};
    struct err e = read_settings(r);
    if (e.code != ERR_OK) {
        free(r);
        return e;
    }
    must(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    r->rng = rng_from_seed(seed);
    init_lists(r);
    init_links(r);
    must(uv_timer_init(loop, &r->timer) == 0);
    r->timer.data = r;
    r->in = amqp_link_new(loop, &r->in_settings, &in, r);
    r->out = amqp_link_new(loop, &r->out_settings, &published, r);
    *out = &r->broker;
    return err_none();
}
