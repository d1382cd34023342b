/* SPDX-License-Identifier: Apache-2.0 */

/* Orders: jobs to be enqueued, each asked for until the server has it. */

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "builds/build_tenax_internal.h"
#include "client/when.h"

#define TRIES_REFUSED 4 /* doublings of the delay at once: nothing changes by itself */

/* Clocks may differ; less than a second is how long an answer took. */
static int64_t ready_at(const struct tenax *t, span after)
{
    int64_t ahead = t->ahead_ms >= 1000 || t->ahead_ms <= -1000 ? t->ahead_ms : 0;
    return when_now().ms + ahead + after.ms;
}

/* The wait before retry a is base + a^exponent seconds: with exponent 0 that is one second, always,
 * of the delay. */
static void write_retries(struct buf *b, const struct tenax *t)
{
    int64_t delay = build_span(t->settings, BUILD_VERIFY_DELAY).ms;
    buf_print(b,
              ",\"retry_limit\":%" PRId64 ",\"backoff\":{\"base_ms\":%" PRId64
              ",\"exponent\":0,\"jitter_ms\":0}",
              build_int(t->settings, BUILD_REPROCESS_LIMIT), delay > 1000 ? delay - 1000 : 0);
}

static void write_key(struct buf *b, struct tenax *t, const struct tenax_delivery *d)
{
    char text[ID_TEXT_LEN];
    if (d)
        id_format(d->id, text);
    buf_lit(b, ",\"unique_while\":\"exists\",\"unique_key\":\"build-worker:");
    if (d)
        buf_print(b, "after:%.25s\"", text);
    else
        buf_print(b, "%016" PRIx64 "%016" PRIx64 "\"", rng_next(&t->rng), rng_next(&t->rng));
}

struct tenax_order *tenax_order_new(struct tenax *t, const struct build_order *from,
                                    struct tenax_delivery *d)
{
    struct tenax_order *o = ALLOC(struct tenax_order);
    struct buf *b = &o->body;
    o->broker = t;
    o->delivery = d;
    if (d)
        d->ordered = true;
    buf_lit(b, "{\"queue\":");
    json_write_string(b, str_from(t->claims[BUILD_CHANNEL_READY].queue));
    buf_lit(b, ",\"type\":\"verify\"");
    if (from->after.ms > 0)
        buf_print(b, ",\"ready_at\":%" PRId64, ready_at(t, from->after));
    write_retries(b, t);
    write_key(b, t, d);
    buf_print(b, ",\"payload\":{\"job\":\"verify\",\"looks\":%" PRIu32, from->looks);
    if (instant_is_set(from->started))
        buf_print(b, ",\"started\":%" PRId64, from->started.ms);
    buf_lit(b, ",\"buildConfig\":");
    buf_str(b, from->config);
    buf_lit(b, "}}");
    list_append(&t->orders, &o->node);
    t->order_count++;
    return o;
}

static void order_free(struct tenax_order *o)
{
    remote_abort(o->call);
    o->broker->order_count--;
    o->broker->troubled -= o->refused;
    list_unlink(&o->node);
    buf_fini(&o->body);
    free(o);
}

static void finish(struct tenax_order *o)
{
    build_broker_published *done = o->done;
    void *ctx = o->ctx;
    if (o->refused && o->broker->troubled == 1)
        log_info("verify jobs are taken again");
    if (o->delivery)
        tenax_jobs_succeed(o->delivery);
    order_free(o);
    if (done)
        done(ctx);
}

static void on_enqueued(void *ctx, const struct remote_answer *a)
{
    struct tenax_order *o = ctx;
    struct tenax *t = o->broker;
    o->call = NULL;
    bool unanswered = tenax_note(t, a);
    if (a->result == CALL_DONE) {
        finish(o);
        return;
    }
    if (!unanswered && !o->refused) {
        if (t->troubled++ == 0)
            log_error("%s takes no verify jobs, and builds cannot be started: %.*s; tried again",
                      t->url, STR_ARG(a->why));
        o->refused = true;
        o->tries = TRIES_REFUSED;
    }
    o->due = tenax_again(t, o->tries++);
    tenax_wake(t, o->due);
}

static void ask(struct tenax_order *o)
{
    o->call = remote_ask(o->broker->remote, "POST", "/jobs", buf_view(&o->body), TENAX_CALL_TIMEOUT,
                         on_enqueued, o);
}

void tenax_order_place(struct tenax_order *o)
{
    if (o->broker->verified) {
        ask(o);
        return;
    }
    o->nowhere = true;
    o->due = when_mono();
    tenax_wake(o->broker, o->due);
}

void tenax_orders_turn(struct tenax *t, mono now, mono *next)
{
    for (struct list *n = t->orders.next; n != &t->orders && !t->closed;) {
        struct tenax_order *o = LIST_OF(n, struct tenax_order, node);
        n = n->next;
        if (o->call)
            continue;
        if (o->due.ns > now.ns) {
            holder_sooner(next, o->due);
        } else if (o->nowhere) {
            finish(o);
            n = t->orders.next; /* its callback may have changed the list */
        } else {
            ask(o);
        }
    }
}

void tenax_orders_drop(struct tenax *t, const struct tenax_delivery *d)
{
    for (struct list *n = t->orders.next, *next; n != &t->orders; n = next) {
        struct tenax_order *o = LIST_OF(n, struct tenax_order, node);
        next = n->next;
        if (o->delivery == d)
            order_free(o);
    }
}

void tenax_orders_free(struct tenax *t)
{
    while (!list_is_empty(&t->orders))
        order_free(LIST_OF(t->orders.next, struct tenax_order, node));
}
