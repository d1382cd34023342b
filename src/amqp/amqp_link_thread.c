/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a link: connects, delivers, publishes, settles, and notices when it is deaf. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "amqp/amqp_link_internal.h"
#include "base/alloc.h"
#include "base/decimal.h"
#include "base/must.h"

#define NS_PER_MS         UINT64_C(1000000)
#define BACKOFF_DOUBLINGS 16
#define SHORT_TEXT_MAX    256 /* bytes of a name */

static bool stopping(struct amqp_link *l)
{
    uv_mutex_lock(&l->lock);
    bool stop = l->stop;
    uv_mutex_unlock(&l->lock);
    return stop;
}

static bool is_quiet(struct amqp_link *l)
{
    uv_mutex_lock(&l->lock);
    bool quiet = l->quiet;
    uv_mutex_unlock(&l->lock);
    return quiet;
}

/* --- notices --- */

static void tell_state(struct amqp_link *l, bool up, const struct err *why)
{
    struct amqp_notice *n = ALLOC(struct amqp_notice);
    n->kind = up ? NOTICE_UP : NOTICE_DOWN;
    if (why)
        snprintf(n->why, sizeof n->why, "%s", why->msg);
    uv_mutex_lock(&l->lock);
    l->stats.connected = up;
    l->stats.connections += up;
    l->stats.blocked = false;
    uv_mutex_unlock(&l->lock);
    amqp_link_tell(l, n);
}

static void tell_blocked(struct amqp_link *l, bool blocked)
{
    uv_mutex_lock(&l->lock);
    l->stats.blocked = blocked;
    uv_mutex_unlock(&l->lock);
}

static void tell_published(struct amqp_link *l, const struct amqp_order *o)
{
    struct amqp_notice *n = ALLOC(struct amqp_notice);
    n->kind = NOTICE_PUBLISHED;
    n->id = o->id;
    n->result = o->unroutable ? AMQP_UNROUTABLE : o->refused ? AMQP_REFUSED : AMQP_CONFIRMED;
    amqp_link_tell(l, n);
}

/* --- publishing --- */

static struct err broken(const struct amqp_link *l, int status)
{
    return err_make(ERR_BROKER, "the connection to %s broke: %s", l->session.peer,
                    amqp_error_string2(status));
}

static struct err publish(struct amqp_link *l, struct amqp_order *o)
{
    o->sequence = ++l->sequence;
    int status = amqp_basic_publish(l->session.state, AMQP_CHANNEL, amqp_session_bytes(o->exchange),
                                    amqp_session_bytes(o->routing_key), !o->optional, 0,
                                    &o->properties, amqp_session_bytes(o->body));
    return status == AMQP_STATUS_OK ? err_none() : broken(l, status);
}

/* Everything that the last connection did not confirm, again and in the same order. */
static struct err publish_again(struct amqp_link *l)
{
    for (struct amqp_order *o = l->unconfirmed.first; o; o = o->next) {
        o->unroutable = false;
        TRY(publish(l, o));
    }
    return err_none();
}

/* Confirms may come in any order, but are few and nearly in order. */
static void confirmed(struct amqp_link *l, uint64_t sequence, bool multiple, bool refused)
{
    for (struct amqp_order *o = l->unconfirmed.first; o && o->sequence <= sequence; o = o->next)
        if (multiple || o->sequence == sequence) {
            o->refused = o->refused || (refused && !o->done);
            o->done = true;
        }
    while (l->unconfirmed.first && l->unconfirmed.first->done) {
        struct amqp_order *o = amqp_orders_shift(&l->unconfirmed);
        tell_published(l, o);
        amqp_order_free(o);
    }
}

static bool is_returned(const struct amqp_order *o, struct str exchange, struct str key,
                        struct str message_id)
{
    return !o->optional && !o->unroutable && str_eq(o->exchange, exchange) &&
           str_eq(o->routing_key, key) &&
           str_eq(amqp_session_str(o->properties.message_id), message_id);
}

/* The broker returns an unroutable message before it confirms it. Of equal messages it returns the
 * first one first. */
static struct err returned(struct amqp_link *l, const amqp_basic_return_t *method)
{
    amqp_message_t message;
    char exchange[SHORT_TEXT_MAX], key[SHORT_TEXT_MAX];
    /* Their memory is reused by what is read next. */
    struct str at = {exchange, method->exchange.len}, by = {key, method->routing_key.len};
    must(at.len <= sizeof exchange && by.len <= sizeof key);
    if (at.len)
        memcpy(exchange, method->exchange.bytes, at.len);
    if (by.len)
        memcpy(key, method->routing_key.bytes, by.len);
    amqp_rpc_reply_t reply = amqp_read_message(l->session.state, AMQP_CHANNEL, &message, 0);
    TRY(amqp_session_check(&l->session, reply, "a returned message cannot be read"));
    struct str id = amqp_session_str(message.properties.message_id);
    struct amqp_order *o = l->unconfirmed.first;
    while (o && !is_returned(o, at, by, id))
        o = o->next;
    if (o)
        o->unroutable = true;
    amqp_destroy_message(&message);
    return err_none();
}

/* --- orders --- */

static struct err settle(struct amqp_link *l, const struct amqp_order *o)
{
    if (o->epoch != l->epoch)
        return err_none();
    must(l->consumers[o->queue].unsettled > 0);
    l->consumers[o->queue].unsettled--;
    int status = o->how == AMQP_ACK ? amqp_basic_ack(l->session.state, AMQP_CHANNEL, o->tag, 0)
                                    : amqp_basic_reject(l->session.state, AMQP_CHANNEL, o->tag,
                                                        o->how == AMQP_REQUEUE);
    return status == AMQP_STATUS_OK ? err_none() : broken(l, status);
}

static void tag_of(size_t queue, char tag[24])
{
    snprintf(tag, 24, "%zu", queue);
}

static struct err cancel_consumers(struct amqp_link *l)
{
    amqp_connection_state_t state = l->session.state;
    for (size_t i = 0; i < l->settings->queue_count; i++) {
        char tag[24];
        tag_of(i, tag);
        if (l->consumers[i].live)
            amqp_basic_cancel(state, AMQP_CHANNEL, amqp_cstring_bytes(tag));
        if (l->consumers[i].live)
            TRY(amqp_session_check(&l->session, amqp_get_rpc_reply(state), "cannot cancel"));
        l->consumers[i].live = false;
    }
    return err_none();
}

static struct err do_task(struct amqp_link *l, const struct amqp_order *o)
{
    TRY(o->task(o->ctx, &l->session));
    return amqp_session_control(&l->session); /* it may have been closed by a refusal */
}

/* A publish that fails stays unconfirmed, and is repeated on the next connection. */
static struct err obey(struct amqp_link *l, struct amqp_order *o)
{
    if (o->kind == ORDER_PUBLISH) {
        amqp_orders_append(&l->unconfirmed, o);
        return publish(l, o);
    }
    struct err e = o->kind == ORDER_SETTLE ? settle(l, o)
                   : o->kind == ORDER_DO   ? do_task(l, o)
                                           : cancel_consumers(l);
    amqp_order_free(o);
    return e;
}

static struct err obey_all(struct amqp_link *l)
{
    struct err e = err_none();
    uv_mutex_lock(&l->lock);
    struct amqp_orders orders = l->orders;
    if (!orders.first)
        orders.last = &orders.first;
    amqp_orders_init(&l->orders);
    uv_mutex_unlock(&l->lock);
    while (orders.first && e.code == ERR_OK)
        e = obey(l, amqp_orders_shift(&orders));
    /* The connection broke: what is left of the settling is moot, the publishing is not. */
    while (orders.first) {
        struct amqp_order *o = amqp_orders_shift(&orders);
        if (o->kind == ORDER_PUBLISH)
            amqp_orders_append(&l->unconfirmed, o);
        else
            amqp_order_free(o);
    }
    return e;
}

/* --- what the broker sends --- */

/* Consumer tags are the indexes of their queues. */
static struct err queue_of(const struct amqp_link *l, amqp_bytes_t tag, size_t *queue)
{
    int64_t i;
    if (!decimal_digits(amqp_session_str(tag), 18, &i) || (size_t)i >= l->settings->queue_count)
        return err_make(ERR_BROKER, "%s named a consumer that there is not", l->session.peer);
    *queue = (size_t)i;
    return err_none();
}

static void deliver(struct amqp_link *l, const amqp_envelope_t *envelope, size_t queue)
{
    struct amqp_delivery *d = ALLOC(struct amqp_delivery);
    struct amqp_notice *n = ALLOC(struct amqp_notice);
    d->envelope = *envelope;
    d->epoch = l->epoch;
    d->queue = queue;
    d->body = amqp_session_str(envelope->message.body);
    d->redelivered = envelope->redelivered;
    d->exchange = amqp_session_str(envelope->exchange);
    d->routing_key = amqp_session_str(envelope->routing_key);
    d->properties = &d->envelope.message.properties;
    const amqp_basic_properties_t *p = &d->envelope.message.properties;
    if (p->_flags & AMQP_BASIC_HEADERS_FLAG)
        d->headers = p->headers;
    if (p->_flags & AMQP_BASIC_PRIORITY_FLAG)
        d->priority = p->priority;
    l->consumers[d->queue].unsettled++;
    l->consumers[d->queue].heard = true;
    n->kind = NOTICE_DELIVERED;
    n->delivery = d;
    amqp_link_tell(l, n);
}

static struct err closed_by_broker(const struct amqp_link *l, int code, amqp_bytes_t text)
{
    return err_make(ERR_BROKER, "%s closed the connection: %d %.*s", l->session.peer, code,
                    STR_ARG(amqp_session_str(text)));
}

static struct err handle_method(struct amqp_link *l, const amqp_method_t *m)
{
    switch (m->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = m->decoded;
        confirmed(l, ack->delivery_tag, ack->multiple, false);
        return err_none();
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = m->decoded;
        confirmed(l, nack->delivery_tag, nack->multiple, true);
        return err_none();
    }
    case AMQP_BASIC_RETURN_METHOD:
        return returned(l, m->decoded);
    case AMQP_CONNECTION_BLOCKED_METHOD:
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        tell_blocked(l, m->id == AMQP_CONNECTION_BLOCKED_METHOD);
        return err_none();
    case AMQP_BASIC_CANCEL_METHOD: {
        const amqp_basic_cancel_t *cancel = m->decoded;
        size_t queue;
        TRY(queue_of(l, cancel->consumer_tag, &queue));
        return err_make(ERR_BROKER, "%s canceled the consumer of queue '%s'", l->session.peer,
                        l->settings->queues[queue]);
    }
    case AMQP_CHANNEL_CLOSE_METHOD: {
        const amqp_channel_close_t *c = m->decoded;
        return closed_by_broker(l, c->reply_code, c->reply_text);
    }
    case AMQP_CONNECTION_CLOSE_METHOD: {
        const amqp_connection_close_t *c = m->decoded;
        return closed_by_broker(l, c->reply_code, c->reply_text);
    }
    default:
        return err_make(ERR_BROKER, "%s sent a method that was not expected: 0x%08x",
                        l->session.peer, m->id);
    }
}

static struct err receive_other(struct amqp_link *l)
{
    amqp_frame_t frame;
    int status = amqp_simple_wait_frame_noblock(l->session.state, &frame, &(struct timeval){0});
    if (status != AMQP_STATUS_OK)
        return broken(l, status);
    return frame.frame_type == AMQP_FRAME_METHOD ? handle_method(l, &frame.payload.method)
                                                 : err_none();
}

/* Takes one thing that has arrived; *got is false if there is none. */
static struct err receive(struct amqp_link *l, bool *got)
{
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(l->session.state);
    amqp_rpc_reply_t reply =
        amqp_consume_message(l->session.state, &envelope, &(struct timeval){0}, 0);
    *got = true;
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
        size_t queue;
        struct err e = queue_of(l, envelope.consumer_tag, &queue);
        if (e.code == ERR_OK)
            deliver(l, &envelope, queue);
        else
            amqp_destroy_envelope(&envelope);
        return e;
    }
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        if (reply.library_error == AMQP_STATUS_UNEXPECTED_STATE)
            return receive_other(l);
        *got = false;
        if (reply.library_error == AMQP_STATUS_TIMEOUT)
            return err_none();
    }
    return amqp_session_check(&l->session, reply, "cannot receive");
}

/* --- a consumer that is deaf --- */

static struct err check_consumer(struct amqp_link *l, size_t queue)
{
    struct amqp_consumer *c = &l->consumers[queue];
    const char *name = l->settings->queues[queue];
    bool heard = c->heard;
    c->heard = false;
    if (heard || c->unsettled >= l->settings->prefetch) {
        c->suspect = false;
        return err_none();
    }
    amqp_queue_declare_ok_t *found = amqp_queue_declare(
        l->session.state, AMQP_CONTROL, amqp_cstring_bytes(name), 1, 0, 0, 0, amqp_empty_table);
    if (!found)
        return amqp_session_check(&l->session, amqp_get_rpc_reply(l->session.state),
                                  "a queue cannot be looked at");
    if (found->consumer_count > 0 && !(found->message_count > 0 && c->suspect)) {
        c->suspect = found->message_count > 0;
        return err_none();
    }
    uv_mutex_lock(&l->lock);
    l->stats.stalls++;
    uv_mutex_unlock(&l->lock);
    return err_make(ERR_BROKER, "%s delivers nothing of queue '%s', where %u messages wait",
                    l->session.peer, name, found->message_count);
}

static struct err check_stall(struct amqp_link *l)
{
    uint64_t now = uv_hrtime();
    if (now - l->stall_check < (uint64_t)l->settings->stall.ms * NS_PER_MS)
        return err_none();
    l->stall_check = now;
    for (size_t i = 0; i < l->settings->queue_count; i++)
        if (l->consumers[i].live)
            TRY(check_consumer(l, i));
    return err_none();
}

/* --- the life of a connection --- */

static struct err consume(struct amqp_link *l)
{
    amqp_connection_state_t state = l->session.state;
    for (size_t i = 0; i < l->settings->queue_count; i++) {
        char tag[24];
        tag_of(i, tag);
        amqp_basic_consume(state, AMQP_CHANNEL, amqp_cstring_bytes(l->settings->queues[i]),
                           amqp_cstring_bytes(tag), 0, 0, 0, amqp_empty_table);
        TRY(amqp_session_check(&l->session, amqp_get_rpc_reply(state), "cannot consume"));
        l->consumers[i].live = true;
    }
    return err_none();
}

static struct err set_up(struct amqp_link *l)
{
    amqp_connection_state_t state = l->session.state;
    amqp_confirm_select(state, AMQP_CHANNEL);
    TRY(amqp_session_check(&l->session, amqp_get_rpc_reply(state), "no publisher confirms"));
    amqp_basic_qos(state, AMQP_CHANNEL, 0, l->settings->prefetch, 0);
    TRY(amqp_session_check(&l->session, amqp_get_rpc_reply(state), "no prefetch"));
    TRY(amqp_session_control(&l->session));
    if (l->settings->prepare)
        TRY(l->settings->prepare(l->settings->prepare_ctx, &l->session));
    TRY(amqp_session_control(&l->session)); /* it may have been closed by a refusal */
    TRY(publish_again(l));
    return is_quiet(l) ? err_none() : consume(l);
}

static void share_socket(struct amqp_link *l, int socket)
{
    uv_mutex_lock(&l->lock);
    l->socket = socket;
    uv_mutex_unlock(&l->lock);
}

static struct err connect_link(struct amqp_link *l)
{
    const struct amqp_settings *c = &l->settings->connection;
    TRY(amqp_session_open(&l->session, c, l->address));
    l->epoch++;
    l->sequence = 0;
    l->stall_check = uv_hrtime();
    for (size_t i = 0; i < l->settings->queue_count; i++)
        l->consumers[i] = (struct amqp_consumer){0};
    share_socket(l, amqp_get_sockfd(l->session.state));
    return set_up(l);
}

static void wait_for(struct amqp_link *l, int64_t ms)
{
    struct pollfd fds[2] = {{.fd = l->wake_thread, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (l->session.state)
        fds[1].fd = amqp_get_sockfd(l->session.state);
    if (poll(fds, 2, (int)ms) < 0)
        must(errno == EINTR);
    uint64_t count;
    if (fds[0].revents & POLLIN)
        must(read(l->wake_thread, &count, sizeof count) == sizeof count);
}

/* Heartbeats are sent by librabbitmq when it is asked for frames. */
static int64_t patience(const struct amqp_link *l)
{
    int64_t ms = l->settings->connection.heartbeat.ms / 2;
    if (ms <= 0 || ms > 1000)
        ms = 1000;
    return l->settings->queue_count && l->settings->stall.ms < ms ? l->settings->stall.ms : ms;
}

static struct err serve(struct amqp_link *l)
{
    for (;;) {
        bool got = true;
        while (got)
            TRY(receive(l, &got));
        bool last = stopping(l); /* asked before: what was ordered until then is still done */
        TRY(obey_all(l));
        if (last)
            return err_none();
        TRY(check_stall(l));
        if (!amqp_frames_enqueued(l->session.state) && !amqp_data_in_buffer(l->session.state))
            wait_for(l, patience(l));
    }
}

/* Half of it is random, so that workers do not come back in step. */
static void back_off(struct amqp_link *l)
{
    int64_t ms = l->settings->backoff_min.ms;
    for (unsigned i = 1; i < l->failures && i < BACKOFF_DOUBLINGS; i++)
        ms *= 2;
    if (ms > l->settings->backoff_max.ms)
        ms = l->settings->backoff_max.ms;
    uint64_t now = uv_hrtime();
    uint64_t end = now + (uint64_t)(ms / 2) * NS_PER_MS +
                   rng_below(&l->rng, (uint64_t)(ms / 2 + 1) * NS_PER_MS);
    for (; now < end && !stopping(l); now = uv_hrtime())
        wait_for(l, (int64_t)((end - now) / NS_PER_MS) + 1);
}

void amqp_link_thread(void *link)
{
    struct amqp_link *l = link;
    while (!stopping(l)) {
        struct err e = connect_link(l);
        if (e.code == ERR_OK) {
            l->failures = 0;
            tell_state(l, true, NULL);
            e = serve(l);
        }
        share_socket(l, -1);
        amqp_session_close(&l->session, e.code == ERR_OK);
        if (stopping(l))
            return;
        l->failures++;
        l->address = (l->address + 1) % l->settings->connection.address_count;
        tell_state(l, false, &e);
        back_off(l);
    }
}
