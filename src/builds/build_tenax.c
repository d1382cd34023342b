/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_tenax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_tenax_internal.h"
#include "client/view.h"
#include "client/when.h"

#define GOODBYE_MS      2000 /* for giving back what is held */
#define GOODBYE_STEP_MS 10
#define TRIES_MANY      10 /* the pause is as long as it gets */

static struct tenax *tenax_of(const struct build_broker *b)
{
    return (struct tenax *)(uintptr_t)b;
}

static struct tenax_delivery *delivery_of(struct build_delivery *d)
{
    return (struct tenax_delivery *)(void *)d;
}

/* --- the server --- */

mono tenax_again(struct tenax *t, uint32_t tries)
{
    return when_after(when_mono(), holder_pause(t->holder, tries));
}

bool tenax_note(struct tenax *t, const struct remote_answer *a)
{
    bool away = a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
    if (away && !t->down_told)
        log_warn("%.*s; tried again", STR_ARG(a->why));
    t->down_told = away;
    if (a->result == CALL_REFUSED)
        return false;
    /* Other requests may be answered while claims are refused. */
    bool refused = t->claims[0].why[0] || t->claims[1].why[0];
    if (!away && !refused && !t->up) {
        log_info("consuming '%s'%s%s of %s", t->claims[0].queue, t->verified ? " and " : "",
                 t->verified ? t->claims[1].queue : "", t->url);
        t->connections++;
        t->scan_due = when_mono();
        tenax_wake(t, t->scan_due);
    }
    t->up = !away && !refused;
    return away;
}

static void wake_now(void *ctx)
{
    tenax_wake(ctx, when_mono());
}

static void heard(void *ctx, const struct remote_answer *a)
{
    tenax_note(ctx, a);
}

/* --- the timer --- */

static void turn(uv_timer_t *timer)
{
    struct tenax *t = timer->data;
    mono now = when_mono(), next = {0};
    tenax_jobs_turn(t, now, &next);
    if (!t->closed)
        tenax_orders_turn(t, now, &next);
    if (t->closed)
        return;
    tenax_dead_turn(t, now, &next);
    tenax_claims_turn(t, now, &next);
    holder_turn(t->holder, now, &next);
    if (next.ns)
        tenax_wake(t, next);
}

void tenax_wake(struct tenax *t, mono when)
{
    if (t->closed)
        return;
    int64_t ms = (when.ns - when_mono().ns + 999999) / 1000000;
    uint64_t in = ms > 0 ? (uint64_t)ms : 0;
    if (!uv_is_active((uv_handle_t *)&t->timer) || uv_timer_get_due_in(&t->timer) > in)
        uv_timer_start(&t->timer, turn, in, 0);
}

/* --- the broker --- */

static void ack(struct build_broker *b, struct build_delivery *shown)
{
    struct tenax_delivery *d = delivery_of(shown);
    if (d->step == TENAX_DEAD)
        tenax_jobs_delete(d);
    else if (d->run)
        tenax_jobs_succeed(d);
    else
        tenax_jobs_free(d);
    tenax_wake(tenax_of(b), when_mono()); /* there may be room for another job */
}

static void retry(struct build_broker *b, struct build_delivery *shown, const char *why)
{
    struct tenax_delivery *d = delivery_of(shown);
    mono due = when_mono();
    if (d->step == TENAX_DEAD) {
        free(d->why);
        d->why = alloc_text(why, strlen(why));
        d->untold = true; /* there is nothing after it */
        d->due = due = tenax_again(tenax_of(b), TRIES_MANY);
    } else if (d->run) {
        tenax_jobs_fail(d, why);
    } else {
        tenax_jobs_free(d);
    }
    tenax_wake(tenax_of(b), due);
}

static void then(struct build_broker *b, struct build_delivery *shown,
                 const struct build_order *order)
{
    struct tenax_delivery *d = delivery_of(shown);
    must(d->step == TENAX_HELD);
    if (!d->run)
        tenax_jobs_free(d);
    else
        tenax_order_place(tenax_order_new(tenax_of(b), order, d));
}

static void publish(struct build_broker *b, const struct build_order *order,
                    build_broker_published *done, void *ctx)
{
    struct tenax_order *o = tenax_order_new(tenax_of(b), order, NULL);
    o->done = done;
    o->ctx = ctx;
    tenax_order_place(o);
}

static struct build_broker_state state(const struct build_broker *b)
{
    const struct tenax *t = tenax_of(b);
    return (struct build_broker_state){
        .consuming = t->up && !t->quiet && t->troubled == 0,
        .unsettled = t->claims[0].held + t->claims[1].held,
        .unconfirmed = t->order_count,
        .connections = t->connections,
    };
}

static void quiet(struct build_broker *b)
{
    struct tenax *t = tenax_of(b);
    t->quiet = true;
    for (size_t i = 0; i < 2; i++)
        holder_claims_stop(t->claims[i].claims);
}

/* --- the end --- */

static void timer_closed(uv_handle_t *handle)
{
    struct tenax *t = handle->data;
    free(t->url);
    free(t->name);
    free(t);
}

static void say_goodbye(uv_timer_t *timer)
{
    struct tenax *t = timer->data;
    mono next = {0};
    holder_turn(t->holder, when_mono(), &next);
    bool over = holder_runs_count(t->holder) == 0 && remote_count(t->remote) == 0;
    if (!over && --t->goodbyes > 0)
        return;
    holder_free(t->holder);
    remote_free(t->remote);
    uv_close((uv_handle_t *)timer, timer_closed);
}

static void close_broker(struct build_broker *b)
{
    struct tenax *t = tenax_of(b);
    quiet(b);
    t->closed = true;
    tenax_orders_free(t);
    remote_abort(t->scan);
    tenax_jobs_close(t);
    /* What claims get meanwhile is given back, too. */
    t->goodbyes = t->up ? GOODBYE_MS / GOODBYE_STEP_MS : 0;
    uv_timer_start(&t->timer, say_goodbye, 0, GOODBYE_STEP_MS);
}

static const struct build_broker_ops ops = {ack, retry, then, publish, state, quiet, close_broker};

/* --- the start --- */

static struct err read_settings(struct tenax *t)
{
    const char *url = build_text(t->settings, BUILD_SERVER), *wrong = call_bad_url(url);
    int64_t prefetch = build_int(t->settings, BUILD_PREFETCH);
    if (wrong)
        return err_make(ERR_USAGE, "tenax.server: %s", wrong);
    if (strchr(url, '@'))
        return err_make(ERR_USAGE, "tenax.server must have no user or password in it");
    if (prefetch < 1 || prefetch > 10000)
        return err_make(ERR_USAGE, "rabbitmq.prefetchCount must be 1 to 10000");
    t->url = call_url(url);
    t->verified = build_bool(t->settings, BUILD_RETRY_QUEUE_ENABLED);
    t->claims[BUILD_CHANNEL_MAIN] =
        (struct tenax_claim){.broker = t, .queue = build_text(t->settings, BUILD_QUEUE)};
    t->claims[BUILD_CHANNEL_READY] =
        (struct tenax_claim){.broker = t, .queue = build_text(t->settings, BUILD_RETRY_QUEUE)};
    return err_none();
}

static const char *text_or_null(const struct build_settings *s, enum build_setting which)
{
    const char *text = build_text(s, which);
    return *text ? text : NULL;
}

/* No other process has it, even if it has the same process id on a machine of the same name. */
static char *make_name(struct tenax *t)
{
    char host[65] = "";
    struct buf b = {0};
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *c))
            *c = '-';
    buf_print(&b, "build-worker-%s-%016" PRIx64, host, rng_next(&t->rng));
    buf_byte(&b, '\0');
    return b.at;
}

static void hold(struct tenax *t)
{
    static const struct holder_user user = {.wake = wake_now,
                                            .heard = heard,
                                            .job = tenax_claims_job,
                                            .answered = tenax_claims_answered,
                                            .lost = tenax_jobs_lost,
                                            .reported = tenax_jobs_reported};
    t->holder = holder_new(&(struct holder_settings){.server = t->remote,
                                                     .worker = t->name,
                                                     .lease = TENAX_LEASE,
                                                     .timeout = TENAX_CALL_TIMEOUT},
                           &user, t);
    for (size_t i = 0; i < 2; i++)
        t->claims[i].claims =
            holder_claims_new(t->holder, &(struct holder_scope){.adopts = false}, &t->claims[i]);
}

struct err build_tenax_new(uv_loop_t *loop, struct build_settings *settings,
                           const struct build_broker_user *user, void *ctx,
                           struct build_broker **out)
{
    struct tenax *t = ALLOC(struct tenax);
    uint64_t seed;
    *t = (struct tenax){.broker = {.ops = &ops, .user = *user, .ctx = ctx}, .settings = settings};
    struct err e = read_settings(t);
    if (e.code != ERR_OK) {
        free(t);
        return e;
    }
    must(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    t->rng = rng_from_seed(seed);
    t->name = make_name(t);
    list_init(&t->deliveries);
    list_init(&t->orders);
    const struct call_tls tls = {
        .ca_cert = text_or_null(settings, BUILD_SERVER_CA),
        .client_cert = text_or_null(settings, BUILD_SERVER_CERT),
        .client_key = text_or_null(settings, BUILD_SERVER_KEY),
        .token_file = text_or_null(settings, BUILD_SERVER_TOKEN),
    };
    t->remote = remote_new(loop, t->url, &tls, t->name);
    hold(t);
    must(uv_timer_init(loop, &t->timer) == 0);
    t->timer.data = t;
    tenax_wake(t, when_mono());
    *out = &t->broker;
    return err_none();
}
