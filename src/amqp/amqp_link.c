/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_link_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"

static void wake_thread(struct amqp_link *l)
{
    uint64_t one = 1;
    must(write(l->wake_thread, &one, sizeof one) == sizeof one);
}

static void notice_deliver(struct amqp_link *l, struct amqp_notice *n)
{
    switch (n->kind) {
    case NOTICE_UP:
        if (l->user->connected)
            l->user->connected(l->ctx);
        return;
    case NOTICE_DOWN:
        if (l->user->disconnected)
            l->user->disconnected(l->ctx, n->why);
        return;
    case NOTICE_DELIVERED:
        l->user->delivered(l->ctx, n->delivery);
        return;
    case NOTICE_PUBLISHED:
        l->user->published(l->ctx, n->id, n->result);
    }
}

static void take_notices(uv_async_t *handle)
{
    struct amqp_link *l = handle->data;
    uv_mutex_lock(&l->lock);
    struct amqp_notice *n = l->notices;
    l->notices = NULL;
    l->notices_last = &l->notices;
    uv_mutex_unlock(&l->lock);
    while (n) {
        struct amqp_notice *next = n->next;
        /* A callback may have closed the link: what is left has nobody to go to. */
        if (!l->closing)
            notice_deliver(l, n);
        else if (n->kind == NOTICE_DELIVERED)
            amqp_delivery_free(n->delivery);
        free(n);
        n = next;
    }
}

struct amqp_link *amqp_link_new(uv_loop_t *loop, const struct amqp_link_settings *settings,
                                const struct amqp_link_user *user, void *ctx)
{
    struct amqp_link *l = ALLOC(struct amqp_link);
    l->settings = settings;
    l->user = user;
    l->ctx = ctx;
    amqp_orders_init(&l->orders);
    amqp_orders_init(&l->unconfirmed);
    l->notices_last = &l->notices;
    l->consumers = alloc_zero((settings->queue_count + 1) * sizeof *l->consumers);
    l->socket = -1;
    l->rng = rng_from_seed(settings->seed);
    l->wake_thread = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(l->wake_thread >= 0);
    must(uv_mutex_init(&l->lock) == 0);
    must(uv_async_init(loop, &l->wake_loop, take_notices) == 0);
    l->wake_loop.data = l;
    must(uv_thread_create(&l->thread, amqp_link_thread, l) == 0);
    return l;
}

static void orders_free(struct amqp_orders *list)
{
    while (list->first)
        amqp_order_free(amqp_orders_shift(list));
}

static void link_free(uv_handle_t *handle)
{
    struct amqp_link *l = handle->data;
    orders_free(&l->orders);
    orders_free(&l->unconfirmed);
    uv_mutex_destroy(&l->lock);
    close(l->wake_thread);
    free(l->consumers);
    free(l);
}

void amqp_link_close(struct amqp_link *l)
{
    l->closing = true;
    uv_mutex_lock(&l->lock);
    l->stop = true;
    /* Writing to a broker that reads nothing would not end. */
    if (l->stats.blocked && l->socket >= 0)
        shutdown(l->socket, SHUT_RDWR);
    uv_mutex_unlock(&l->lock);
    wake_thread(l);
    uv_thread_join(&l->thread);
    take_notices(&l->wake_loop);
    uv_close((uv_handle_t *)&l->wake_loop, link_free);
}

void amqp_link_tell(struct amqp_link *l, struct amqp_notice *n)
{
    uv_mutex_lock(&l->lock);
    n->next = NULL;
    *l->notices_last = n;
    l->notices_last = &n->next;
    uv_mutex_unlock(&l->lock);
    uv_async_send(&l->wake_loop);
}

static void order(struct amqp_link *l, struct amqp_order *o)
{
    uv_mutex_lock(&l->lock);
    bool first = !l->orders.first;
    amqp_orders_append(&l->orders, o);
    uv_mutex_unlock(&l->lock);
    if (first)
        wake_thread(l);
}

void amqp_delivery_free(struct amqp_delivery *d)
{
    amqp_destroy_envelope(&d->envelope);
    free(d);
}

void amqp_settle(struct amqp_link *l, struct amqp_delivery *d, enum amqp_settlement how)
{
    struct amqp_order *o = ALLOC(struct amqp_order);
    o->kind = ORDER_SETTLE;
    o->queue = d->queue;
    o->tag = d->envelope.delivery_tag;
    o->epoch = d->epoch;
    o->how = how;
    order(l, o);
    amqp_delivery_free(d);
}

void amqp_link_do(struct amqp_link *l, amqp_task *task, void *ctx)
{
    struct amqp_order *o = ALLOC(struct amqp_order);
    o->kind = ORDER_DO;
    o->task = task;
    o->ctx = ctx;
    order(l, o);
}

void amqp_link_quiet(struct amqp_link *l)
{
    struct amqp_order *o = ALLOC(struct amqp_order);
    uv_mutex_lock(&l->lock);
    l->quiet = true;
    uv_mutex_unlock(&l->lock);
    o->kind = ORDER_QUIET;
    order(l, o);
}

static struct str keep(amqp_pool_t *pool, struct str s)
{
    char *at = amqp_pool_alloc(pool, s.len + 1);
    must(at);
    if (s.len)
        memcpy(at, s.at, s.len);
    at[s.len] = '\0';
    return (struct str){at, s.len};
}

static void keep_headers(struct amqp_order *o, const amqp_table_t *headers)
{
    amqp_basic_properties_t *p = &o->properties;
    p->headers = (amqp_table_t){0};
    p->_flags &= ~(amqp_flags_t)AMQP_BASIC_HEADERS_FLAG;
    if (headers->num_entries > 0) {
        must(amqp_table_clone(headers, &p->headers, &o->pool) == AMQP_STATUS_OK);
        p->_flags |= AMQP_BASIC_HEADERS_FLAG;
    }
}

/* Copies properties, whose texts the caller keeps no longer. */
static void keep_properties(struct amqp_order *o, const amqp_basic_properties_t *from)
{
    amqp_basic_properties_t *p = &o->properties;
    *p = *from;
    amqp_bytes_t *const texts[] = {
        &p->content_type, &p->content_encoding, &p->correlation_id, &p->reply_to,
        &p->expiration,   &p->message_id,       &p->type,           &p->user_id,
        &p->app_id,       &p->cluster_id,
    };
    static const amqp_flags_t flags[] = {
        AMQP_BASIC_CONTENT_TYPE_FLAG,   AMQP_BASIC_CONTENT_ENCODING_FLAG,
        AMQP_BASIC_CORRELATION_ID_FLAG, AMQP_BASIC_REPLY_TO_FLAG,
        AMQP_BASIC_EXPIRATION_FLAG,     AMQP_BASIC_MESSAGE_ID_FLAG,
        AMQP_BASIC_TYPE_FLAG,           AMQP_BASIC_USER_ID_FLAG,
        AMQP_BASIC_APP_ID_FLAG,         AMQP_BASIC_CLUSTER_ID_FLAG,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (p->_flags & flags[i])
            *texts[i] = amqp_session_bytes(keep(&o->pool, amqp_session_str(*texts[i])));
    if (p->_flags & AMQP_BASIC_HEADERS_FLAG)
        keep_headers(o, &from->headers);
}

static void describe(struct amqp_order *o, const struct amqp_message *m)
{
    amqp_basic_properties_t *p = &o->properties;
    char text[40];
    if (m->properties) {
        keep_properties(o, m->properties);
        return;
    }
    p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG |
                AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_PRIORITY_FLAG;
    p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
    p->priority = m->priority;
    p->content_type = amqp_session_bytes(keep(&o->pool, m->content_type));
    snprintf(text, sizeof text, "tenax-%" PRIu64, m->id);
    p->message_id = amqp_session_bytes(keep(&o->pool, str_from(text)));
    if (m->expiration.ms >= 0) {
        snprintf(text, sizeof text, "%" PRId64, m->expiration.ms);
        p->expiration = amqp_session_bytes(keep(&o->pool, str_from(text)));
        p->_flags |= AMQP_BASIC_EXPIRATION_FLAG;
    }
    if (m->headers)
        keep_headers(o, m->headers);
}

void amqp_publish(struct amqp_link *l, const struct amqp_message *m)
{
    struct amqp_order *o = ALLOC(struct amqp_order);
    o->kind = ORDER_PUBLISH;
    init_amqp_pool(&o->pool, 1024);
    o->exchange = keep(&o->pool, m->exchange);
    o->routing_key = keep(&o->pool, m->routing_key);
    o->body = keep(&o->pool, m->body);
    o->id = m->id;
    o->optional = m->optional;
    describe(o, m);
    order(l, o);
}

void amqp_order_free(struct amqp_order *o)
{
    if (o->kind == ORDER_PUBLISH)
        empty_amqp_pool(&o->pool);
    free(o);
}

struct amqp_link_stats amqp_link_stats(const struct amqp_link *l)
{
    struct amqp_link *shared = (struct amqp_link *)(uintptr_t)l;
    uv_mutex_lock(&shared->lock);
    struct amqp_link_stats s = l->stats;
    uv_mutex_unlock(&shared->lock);
    return s;
}
