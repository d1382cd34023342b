/* SPDX-License-Identifier: Apache-2.0 */

/* From Tenax to RabbitMQ. Jobs are claimed, published, and reported: a success once RabbitMQ has
 * confirmed the message, a failure if it cannot be routed, is refused, or is none that RabbitMQ
 * would take; the server decides what becomes of that. The holder keeps the leases, since a confirm
 * may be long in coming, and takes over the jobs of an earlier process of this name. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "bridge/bridge_internal.h"
#include "client/view.h"
#include "client/when.h"
#include "holder/holder.h"

#define CLAIM_WAIT ((span){20000})
#define CLAIM_MAX  ((size_t)500)
#define BYTES_MAX  ((size_t)32 << 20) /* of messages on their way; then nothing is claimed */
#define TURN_MS    1
#define FAR_MS     10000
#define REASON_MAX 600

struct out_job {
    struct list node;
    struct bridge_out *out;
    char id[ID_TEXT_LEN + 1];
    int64_t index;          /* of its run */
    struct holder_run *run; /* NULL: it is over */
    bool unconfirmed;       /* the link has its message */
    size_t bytes;
};

struct bridge_out {
    struct bridge *b;
    struct bridge_link link;
    struct list jobs;
    struct strmap by_id; /* the newest run of each job */
    size_t count, bytes;
    struct holder *holder;
    struct holder_claims *claims;
    uv_timer_t turn, due;
};

static void turn(struct bridge_out *o);

static void on_turn(uv_timer_t *t)
{
    turn(t->data);
}

static void wake(struct bridge_out *o)
{
    if (!uv_is_active((uv_handle_t *)&o->turn))
        uv_timer_start(&o->turn, on_turn, TURN_MS, 0);
}

static void on_due(uv_timer_t *t)
{
    wake(t->data);
}

/* --- jobs --- */

/* Frees it once nobody speaks of it any more. */
static void release(struct out_job *j)
{
    struct bridge_out *o = j->out;
    if (j->unconfirmed || j->run)
        return;
    if (strmap_get(&o->by_id, str_from(j->id)) == j)
        strmap_remove(&o->by_id, str_from(j->id));
    list_unlink(&j->node);
    o->count--;
    o->bytes -= j->bytes;
    free(j);
    wake(o);
}

static void fail(struct out_job *j, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct out_job *j, const char *type, const char *fmt, ...)
{
    char text[REASON_MAX];
    struct buf members = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_lit(&members, ",\"message\":");
    json_write_string(&members, str_from(text));
    if (strcmp(type, "malformed-payload") == 0)
        buf_lit(&members, ",\"exception\":\"malformed-payload\"");
    else
        buf_print(&members, ",\"error_type\":\"%s\"", type);
    j->out->b->counters.out_failed++;
    holder_runs_report(j->run, HOLDER_FAILURE, buf_view(&members));
    buf_fini(&members);
}

static void succeed(struct out_job *j)
{
    j->out->b->counters.out_published++;
    holder_runs_report(j->run, HOLDER_SUCCESS, (struct str){0});
}

static void publish(struct out_job *j, struct str job)
{
    struct bridge_out *o = j->out;
    struct arena a = {0};
    struct bridge_message m;
    struct err e = bridge_message_read(&o->b->settings->outlet, job, &a, &m);
    if (e.code == ERR_OK) {
        j->bytes = m.body.len;
        j->unconfirmed = true;
        o->bytes += j->bytes;
        amqp_publish(o->link.amqp, &(struct amqp_message){.exchange = m.exchange,
                                                          .routing_key = m.routing_key,
                                                          .body = m.body,
                                                          .properties = &m.properties,
                                                          .id = (uint64_t)(uintptr_t)j});
    } else {
        fail(j, "malformed-payload", "%s", e.msg);
    }
    arena_fini(&a);
}

static void add(struct bridge_out *o, const struct holder_job *job)
{
    struct out_job *j = ALLOC(struct out_job);
    *j = (struct out_job){.out = o, .index = job->run};
    id_format(job->id, j->id);
    list_append(&o->jobs, &j->node);
    strmap_put(&o->by_id, str_from(j->id), j);
    o->count++;
    j->run = holder_runs_hold(o->holder, job, j);
    publish(j, job->json);
}

static void published(void *ctx, uint64_t id, enum amqp_published result)
{
    struct bridge_out *o = ctx;
    struct out_job *j = (struct out_job *)(uintptr_t)id;
    const struct bridge_outlet *to = &o->b->settings->outlet;
    j->unconfirmed = false;
    if (!j->run)
        release(j);
    else if (result == AMQP_CONFIRMED)
        succeed(j);
    else if (result == AMQP_REFUSED)
        fail(j, "refused", "RabbitMQ has refused the message, as it does when a queue is full");
    else if (o->b->settings->to_rabbitmq)
        fail(j, "unroutable", "RabbitMQ has no queue '%s'", to->routing_key);
    else
        fail(j, "unroutable", "no queue is bound to the exchange '%s' for the routing key%s%s%s",
             to->exchange, to->routing_key ? " '" : " of this job",
             to->routing_key ? to->routing_key : "", to->routing_key ? "'" : "");
    wake(o);
}

/* --- what the holder says --- */

static void on_wake(void *ctx)
{
    wake(ctx);
}

static void on_heard(void *ctx, const struct remote_answer *a)
{
    bridge_note_server(((struct bridge_out *)ctx)->b, BRIDGE_OUT, a);
}

static void on_job(void *ctx, const struct holder_job *job)
{
    struct bridge_out *o = ctx;
    char id[ID_TEXT_LEN];
    id_format(job->id, id);
    struct out_job *known = strmap_get(&o->by_id, (struct str){id, ID_TEXT_LEN});
    if (known && known->index == job->run)
        return; /* the same claim again */
    add(o, job);
    if (known) { /* its run is over, or this one could not have begun */
        holder_runs_drop(known->run);
        known->run = NULL;
        release(known);
    }
}

static bool on_knows(void *ctx, struct str job)
{
    struct bridge_out *o = ctx;
    struct arena a = {0};
    bool known = strmap_get(&o->by_id, view_text(&a, job, "id")) != NULL;
    arena_fini(&a);
    return known;
}

/* A refusal of the sender may end: tokens are renewed. */
static void on_answered(void *ctx, const struct remote_answer *a)
{
    if (a->result != CALL_DONE && a->status != 401 && a->status != 403)
        bridge_give_up(((struct bridge_out *)ctx)->b, "%.*s", STR_ARG(a->why));
}

static void on_lost(void *mine, const struct remote_answer *a)
{
    struct out_job *j = mine;
    (void)a;
    log_warn("job %s is no longer this bridge's; its message may be published twice", j->id);
    j->out->b->counters.out_lost++;
    j->run = NULL;
    release(j);
}

static void on_reported(void *mine, const struct remote_answer *a)
{
    struct out_job *j = mine;
    if (a->result == CALL_REFUSED)
        log_error("the report about job %s is refused: %.*s", j->id, STR_ARG(a->why));
    j->out->b->counters.out_lost += a->result != CALL_DONE;
    j->run = NULL;
    release(j);
}

/* --- claims --- */

/* Many at a time where there are many, unless RabbitMQ takes none. */
static void claim(struct bridge_out *o, mono now, mono *next)
{
    size_t max = (size_t)o->b->settings->prefetch;
    size_t room = o->count < max ? max - o->count : 0;
    struct buf queue = {0};
    if (room * 2 < max || o->bytes >= BYTES_MAX || !bridge_link_takes(&o->link) ||
        !holder_claims_may_ask(o->claims, now, next))
        return;
    json_write_string(&queue, str_from(o->b->settings->from));
    holder_claims_ask(o->claims, buf_view(&queue), room < CLAIM_MAX ? room : CLAIM_MAX, CLAIM_WAIT);
    buf_fini(&queue);
}

static void turn(struct bridge_out *o)
{
    mono now = when_mono(), next = when_after(now, (span){FAR_MS});
    claim(o, now, &next);
    holder_turn(o->holder, now, &next);
    if (!bridge_link_takes(&o->link))
        holder_sooner(&next, when_after(now, (span){500})); /* it does not say when it does again */
    int64_t ms = (next.ns - now.ns) / 1000000 + 1;
    uv_update_time(o->b->loop);
    uv_timer_start(&o->due, on_due, (uint64_t)ms, 0);
    bridge_idle(o->b);
}

/* --- beginning and end --- */

static void connected(void *ctx)
{
    struct bridge_out *o = ctx;
    bridge_link_is_up(&o->link);
    wake(o);
}

static void disconnected(void *ctx, const char *why)
{
    bridge_link_is_down(&((struct bridge_out *)ctx)->link, why);
}

static void hold(struct bridge_out *o)
{
    static const struct holder_user user = {.wake = on_wake,
                                            .heard = on_heard,
                                            .job = on_job,
                                            .knows = on_knows,
                                            .answered = on_answered,
                                            .lost = on_lost,
                                            .reported = on_reported};
    const struct bridge_settings *s = o->b->settings;
    o->holder = holder_new(&(struct holder_settings){.server = o->b->remote,
                                                     .worker = s->name,
                                                     .lease = s->lease,
                                                     .timeout = BRIDGE_CALL_TIMEOUT},
                           &user, o);
    o->claims =
        holder_claims_new(o->holder, &(struct holder_scope){.adopts = true, .queue = s->from}, o);
}

void bridge_out_start(struct bridge *b)
{
    static const struct amqp_link_user user = {connected, disconnected, NULL, published};
    struct bridge_out *o = b->out = ALLOC(struct bridge_out);
    o->b = b;
    o->by_id.seed = rng_next(&b->rng);
    list_init(&o->jobs);
    hold(o);
    must(uv_timer_init(b->loop, &o->turn) == 0);
    must(uv_timer_init(b->loop, &o->due) == 0);
    o->turn.data = o->due.data = o;
    bridge_link_open(&o->link, b, "to RabbitMQ", NULL, &user, o);
    wake(o);
}

/* What the claim that waits at the server gives is still published. */
void bridge_out_stop(struct bridge_out *o)
{
    holder_claims_stop(o->claims);
}

bool bridge_out_is_idle(const struct bridge_out *o)
{
    return !o->count && holder_claims_are_idle(o->claims);
}

bool bridge_out_is_well(const struct bridge_out *o)
{
    return bridge_link_takes(&o->link);
}

static void free_out(uv_handle_t *h)
{
    free(h->data);
}

static void close_due(uv_handle_t *h)
{
    struct bridge_out *o = h->data;
    uv_close((uv_handle_t *)&o->due, free_out);
}

/* Jobs that are not reported stay leased: the next start takes them over. */
void bridge_out_free(struct bridge_out *o)
{
    bridge_link_close(&o->link);
    holder_free(o->holder);
    while (!list_is_empty(&o->jobs)) {
        struct out_job *j = LIST_OF(o->jobs.next, struct out_job, node);
        list_unlink(&j->node);
        free(j);
    }
    strmap_fini(&o->by_id);
    uv_timer_stop(&o->due);
    uv_close((uv_handle_t *)&o->turn, close_due);
}
