/* SPDX-License-Identifier: Apache-2.0 */

/* From RabbitMQ to Tenax. Deliveries wait in the order of their coming, and go to the server many
 * at a time, one request after the other, so that jobs have the order of their messages; each is
 * acknowledged once the server has answered.
 *
 * The server takes all jobs of a request or none. When it refuses one, half as many are sent,
 * until the message that it does not want is alone.
 *
 * Each job has a unique key, so that neither a request that is repeated nor a message that is
 * delivered again makes a second one. A message without a key of its own is known only as long as
 * its delivery: see bridge_message.h. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "bridge/bridge_internal.h"
#include "client/view.h"

#define BATCH_MAX   ((size_t)500)
#define BATCH_BYTES ((size_t)1 << 20) /* a request ends with the message that exceeds it */

struct item {
    struct list node;
    struct amqp_delivery *d;
    uint64_t number;
    uint64_t connection; /* that it came by */
    bool keyed;
};

struct bridge_in {
    struct bridge *b;
    struct bridge_link link;
    struct list waiting, sent, held;
    size_t waiting_count, sent_count, held_count;
    size_t batch_max; /* of the next request */
    uint64_t next_number, connection;
    struct remote_call *call;
    uv_timer_t retry;
    uint32_t tries;
    bool stopping;
};

static void send_more(struct bridge_in *in);

/* --- items --- */

static void move(struct item *i, struct list *to)
{
    list_unlink(&i->node);
    list_append(to, &i->node);
}

static void drop(struct item *i)
{
    list_unlink(&i->node);
    amqp_delivery_free(i->d);
    free(i);
}

static void drop_all(struct list *l)
{
    while (!list_is_empty(l))
        drop(LIST_OF(l->next, struct item, node));
}

static void settle(struct bridge_in *in, struct item *i, enum amqp_settlement how)
{
    amqp_settle(in->link.amqp, i->d, how);
    list_unlink(&i->node);
    free(i);
}

static void refuse(struct bridge_in *in, struct item *i, const char *why)
{
    bool reject = in->b->settings->dead_letter;
    const amqp_basic_properties_t *p = i->d->properties;
    struct str id = {0};
    if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)
        id = amqp_session_str(p->message_id);
    in->b->counters.in_refused++;
    log_warn("a message of '%s' (message_id '%.*s', %zu bytes) cannot be a job: %s; it is %s",
             in->link.queue, (int)(id.len < 64 ? id.len : 64), id.len ? id.at : "", i->d->body.len,
             why, reject ? "rejected" : "held");
    if (reject) {
        settle(in, i, AMQP_REJECT);
        return;
    }
    move(i, &in->held);
    if (++in->held_count == (size_t)in->b->settings->prefetch)
        log_error("%zu messages are held, as many as --prefetch allows: nothing more comes from "
                  "'%s'",
                  in->held_count, in->link.queue);
}

/* Back to the head of those that wait; those of a connection that is gone come again. */
static void put_back(struct bridge_in *in)
{
    while (!list_is_empty(&in->sent)) {
        struct item *i = LIST_OF(in->sent.prev, struct item, node);
        if (i->connection != in->connection) {
            drop(i);
            continue;
        }
        list_unlink(&i->node);
        list_append(in->waiting.next, &i->node); /* before the first */
        in->waiting_count++;
    }
    in->sent_count = 0;
}

/* --- requests --- */

static void on_retry(uv_timer_t *t)
{
    send_more(t->data);
}

static void try_later(struct bridge_in *in)
{
    put_back(in);
    uv_update_time(in->b->loop);
    uv_timer_start(&in->retry, on_retry, (uint64_t)bridge_backoff(in->b, in->tries++).ms, 0);
}

static void count(struct bridge_in *in, struct str answer)
{
    struct bridge_counters *c = &in->b->counters;
    struct str job;
    for (struct view_list l = view_list(view_get(answer, "jobs")); view_next(&l, &job);)
        c->in_duplicates += str_eq(view_get(job, "duplicate"), STR("true"));
    c->in_messages += in->sent_count;
}

static void accepted(struct bridge_in *in, struct str answer)
{
    count(in, answer);
    while (!list_is_empty(&in->sent)) {
        struct item *i = LIST_OF(in->sent.next, struct item, node);
        in->b->counters.in_unkeyed += !i->keyed;
        settle(in, i, AMQP_ACK);
    }
    in->sent_count = in->tries = 0;
    in->batch_max = in->batch_max * 2 < BATCH_MAX ? in->batch_max * 2 : BATCH_MAX;
}

/* The server does not want one of these jobs; which is not about them is not for them. */
static bool is_about_jobs(const struct remote_answer *a)
{
    return a->status == 400 || a->status == 413 || a->status == 422;
}

static void refused(struct bridge_in *in, const struct remote_answer *a)
{
    char why[300];
    if (in->sent_count > 1) {
        in->batch_max = in->sent_count / 2;
        put_back(in);
        return;
    }
    snprintf(why, sizeof why, "%.*s", (int)(a->why.len < 250 ? a->why.len : 250), a->why.at);
    in->sent_count = in->tries = 0;
    refuse(in, LIST_OF(in->sent.next, struct item, node), why);
}

static void on_answer(void *ctx, const struct remote_answer *a)
{
    struct bridge_in *in = ctx;
    in->call = NULL;
    bridge_note_server(in->b, BRIDGE_IN, a);
    if (a->result == CALL_DONE)
        accepted(in, a->body);
    else if (is_about_jobs(a))
        refused(in, a);
    else
        try_later(in);
    send_more(in);
}

/* Adds the job of the first that waits, or refuses it. */
static void add(struct bridge_in *in, struct buf *body)
{
    struct item *i = LIST_OF(in->waiting.next, struct item, node);
    const struct bridge_delivery d = {.body = i->d->body,
                                      .exchange = i->d->exchange,
                                      .routing_key = i->d->routing_key,
                                      .properties = i->d->properties,
                                      .number = i->number};
    size_t before = body->len;
    if (in->sent_count)
        buf_byte(body, ',');
    struct err e =
        bridge_message_job(body, &in->b->settings->intake, &d, in->b->process, &i->keyed);
    in->waiting_count--;
    if (e.code != ERR_OK) {
        body->len = before;
        refuse(in, i, e.msg);
        return;
    }
    move(i, &in->sent);
    in->sent_count++;
}

static void send_more(struct bridge_in *in)
{
    struct buf body = {0};
    if (in->call || in->stopping || uv_is_active((uv_handle_t *)&in->retry)) {
        bridge_idle(in->b);
        return;
    }
    buf_lit(&body, "{\"jobs\":[");
    while (in->waiting_count && in->sent_count < in->batch_max && body.len < BATCH_BYTES)
        add(in, &body);
    buf_lit(&body, "]}");
    if (in->sent_count)
        in->call = remote_ask(in->b->remote, "POST", "/jobs/bulk", buf_view(&body),
                              BRIDGE_CALL_TIMEOUT, on_answer, in);
    buf_fini(&body);
}

/* --- the link --- */

static void delivered(void *ctx, struct amqp_delivery *d)
{
    struct bridge_in *in = ctx;
    struct item *i = ALLOC(struct item);
    *i = (struct item){.d = d, .number = in->next_number++, .connection = in->connection};
    list_init(&i->node);
    list_append(&in->waiting, &i->node);
    in->waiting_count++;
    send_more(in);
}

static void connected(void *ctx)
{
    bridge_link_is_up(&((struct bridge_in *)ctx)->link);
}

/* What was not sent to the server yet comes again by the next connection. */
static void disconnected(void *ctx, const char *why)
{
    struct bridge_in *in = ctx;
    bridge_link_is_down(&in->link, why);
    in->connection++;
    drop_all(&in->waiting);
    drop_all(&in->held);
    in->waiting_count = in->held_count = 0;
}

void bridge_in_start(struct bridge *b)
{
    static const struct amqp_link_user user = {connected, disconnected, delivered, NULL};
    struct bridge_in *in = b->in = ALLOC(struct bridge_in);
    in->b = b;
    in->batch_max = BATCH_MAX;
    list_init(&in->waiting);
    list_init(&in->sent);
    list_init(&in->held);
    must(uv_timer_init(b->loop, &in->retry) == 0);
    in->retry.data = in;
    bridge_link_open(&in->link, b, "from RabbitMQ", b->settings->from_rabbitmq, &user, in);
}

void bridge_in_stop(struct bridge_in *in)
{
    in->stopping = true;
    amqp_link_quiet(in->link.amqp);
    uv_timer_stop(&in->retry);
}

bool bridge_in_is_idle(const struct bridge_in *in)
{
    return in->call == NULL;
}

bool bridge_in_is_well(const struct bridge_in *in)
{
    return in->link.up && in->held_count < (size_t)in->b->settings->prefetch;
}

size_t bridge_in_held(const struct bridge_in *in)
{
    return in->held_count;
}

static void free_in(uv_handle_t *h)
{
    free(h->data);
}

void bridge_in_free(struct bridge_in *in)
{
    drop_all(&in->waiting);
    drop_all(&in->sent);
    drop_all(&in->held);
    bridge_link_close(&in->link);
    uv_close((uv_handle_t *)&in->retry, free_in);
}
