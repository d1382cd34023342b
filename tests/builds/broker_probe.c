/* SPDX-License-Identifier: Apache-2.0 */
/* A program around build_broker.h, for tests with a real broker: the settings are those of the
 * build worker, from the environment; it reads orders from standard input, one a line, and prints
 * what happens, one line each.
 *
 * Orders: "ack N", "retry N WHY", "then N LOOKS STARTED AFTER CONFIG" (the Nth delivery, from 1;
 * STARTED is -1 for none, AFTER in milliseconds), "publish ID LOOKS STARTED AFTER CONFIG", "state",
 * "quiet", "close". PROBE_AUTO=1: every delivery of the main queue is followed by an order (5 ms),
 * every one of the ready queue acknowledged. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_rabbitmq.h"
#include "builds/build_tenax.h"
#include "client/when.h"
#include "probe_input.h"

#define DELIVERIES_MAX 200000

static struct build_broker *broker;
static struct build_delivery *deliveries[DELIVERIES_MAX];
static size_t delivery_count;
static bool automatic;
static char *ids[DELIVERIES_MAX]; /* of orders; they may end unconfirmed */
static size_t id_count;

/* The newest one, since memory is used again; 0: none. */
static size_t number_of(const struct build_delivery *d)
{
    size_t i = delivery_count;
    while (i > 0 && deliveries[i - 1] != d)
        i--;
    return i;
}

static void delivered(void *ctx, struct build_delivery *d)
{
    (void)ctx;
    must(delivery_count < DELIVERIES_MAX);
    deliveries[delivery_count++] = d;
    printf("delivered %zu %s %u %u %" PRId64 " %" PRId64 " %.*s\n", delivery_count,
           d->channel == BUILD_CHANNEL_MAIN ? "main" : "ready", d->failures, d->looks,
           d->started.ms, when_now().ms, STR_ARG(d->body));
    if (!automatic)
        return;
    deliveries[delivery_count - 1] = NULL;
    if (d->channel == BUILD_CHANNEL_MAIN)
        broker->ops->then(broker, d, &(struct build_order){STR("{}"), when_now(), 0, {5}});
    else
        broker->ops->ack(broker, d);
}

static void exhausted(void *ctx, struct build_delivery *d, const char *why)
{
    (void)ctx;
    if (!number_of(d))
        deliveries[delivery_count++] = d;
    printf("exhausted %zu %s\n", number_of(d), why);
}

static void refused(void *ctx, const char *why)
{
    (void)ctx;
    printf("refused %s\n", why);
}

static void published(void *id)
{
    printf("published %s\n", (char *)id);
}

static struct build_delivery *of(const char *n, bool keep)
{
    size_t i = strtoul(n, NULL, 10) - 1;
    must(i < delivery_count && deliveries[i]);
    struct build_delivery *d = deliveries[i];
    if (!keep)
        deliveries[i] = NULL;
    return d;
}

static struct build_order order_of(char *words)
{
    struct build_order o = {.looks = (uint32_t)strtoul(strsep(&words, " "), NULL, 10)};
    o.started = (instant){atoll(strsep(&words, " "))};
    o.after = (span){atoll(strsep(&words, " "))};
    o.config = str_from(words);
    return o;
}

static char *keep(const char *id)
{
    must(id_count < DELIVERIES_MAX);
    return ids[id_count++] = alloc_text(id, strlen(id));
}

static void order(const char *verb, char *words)
{
    char *first = strsep(&words, " ");
    struct build_order o = order_of(words);
    if (strcmp(verb, "then") == 0)
        broker->ops->then(broker, of(first, false), &o);
    else
        broker->ops->publish(broker, &o, published, keep(first));
}

static void retry(char *words)
{
    /* It may come back as exhausted, by the same pointer. */
    struct build_delivery *d = of(strsep(&words, " "), true);
    broker->ops->retry(broker, d, words);
}

static void print_state(void)
{
    struct build_broker_state s = broker->ops->state(broker);
    printf("state consuming=%d blocked=%d unsettled=%" PRIu64 " unconfirmed=%" PRIu64
           " connections=%" PRIu64 "\n",
           s.consuming, s.blocked, s.unsettled, s.unconfirmed, s.connections);
}

static bool obey(char *words)
{
    char *verb = strsep(&words, " ");
    if (strcmp(verb, "ack") == 0)
        broker->ops->ack(broker, of(words, false));
    else if (strcmp(verb, "retry") == 0)
        retry(words);
    else if (strcmp(verb, "then") == 0 || strcmp(verb, "publish") == 0)
        order(verb, words);
    else if (strcmp(verb, "state") == 0)
        print_state();
    else if (strcmp(verb, "quiet") == 0)
        broker->ops->quiet(broker);
    else
        return false;
    return true;
}

static void ended(void)
{
    broker->ops->close(broker);
}

int main(void)
{
    static const struct build_broker_user user = {delivered, exhausted, refused};
    struct build_settings settings = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_set(LOG_INFO, LOG_TEXT);
    automatic = getenv("PROBE_AUTO");
    struct err e = build_settings_read(&settings, NULL, getenv);
    if (e.code == ERR_OK)
        e = strcmp(build_text(&settings, BUILD_BROKER), "tenax") == 0
                ? build_tenax_new(uv_default_loop(), &settings, &user, NULL, &broker)
                : build_rabbitmq_new(uv_default_loop(), &settings, &user, NULL, &broker);
    if (e.code != ERR_OK) {
        fprintf(stderr, "%s\n", e.msg);
        build_settings_free(&settings);
        return 2;
    }
    probe_input_start(obey, ended);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    build_settings_free(&settings);
    while (id_count > 0)
        free(ids[--id_count]);
    return uv_loop_close(uv_default_loop());
}
