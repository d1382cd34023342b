/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/must.h"

#define PRIORITIES 3

static const char *join(struct build_settings *s, const char *name, const char *tail)
{
    size_t n = strlen(name) + strlen(tail) + 1;
    char *out = arena_get(&s->memory, n);
    snprintf(out, n, "%s%s", name, tail);
    return out;
}

static void number(struct amqp_queue *q, const char *name, int64_t v)
{
    must(q->arg_count < AMQP_ARGS_MAX);
    q->args[q->arg_count++] = (struct amqp_arg){.name = name, .type = AMQP_ARG_INT, .number = v};
}

static void text(struct amqp_queue *q, const char *name, const char *v)
{
    must(q->arg_count < AMQP_ARGS_MAX);
    q->args[q->arg_count++] = (struct amqp_arg){.name = name, .type = AMQP_ARG_TEXT, .text = v};
}

static struct amqp_queue *begin(struct build_topology *t, enum build_queue which, const char *name,
                                const char *purpose)
{
    t->queues[which] = (struct amqp_queue){.name = name, .routing_key = name, .purpose = purpose};
    return &t->queues[which];
}

static void dead_letters(struct amqp_queue *q, const char *exchange, const char *key)
{
    text(q, "x-dead-letter-exchange", exchange);
    text(q, "x-dead-letter-routing-key", key);
}

void build_topology_wait(struct build_settings *s, int64_t delay_ms, struct amqp_queue *out)
{
    char tail[40];
    snprintf(tail, sizeof tail, "-wait-%" PRId64, delay_ms);
    const char *ready = build_text(s, BUILD_RETRY_QUEUE), *name = join(s, ready, tail);
    *out = (struct amqp_queue){.name = name,
                               .routing_key = name,
                               .purpose = "builds to be verified after one and the same delay",
                               .on_demand = true};
    dead_letters(out, build_text(s, BUILD_EXCHANGE), ready);
    number(out, "x-expires", BUILD_WAIT_EXPIRES_MS(delay_ms));
    number(out, "x-message-ttl", delay_ms);
    text(out, "x-queue-type", "classic");
}

/* The delays of verification; more looks than there is room for have queues all the same, when they
 * are needed. */
static void add_waits(struct build_topology *t, struct build_settings *s)
{
    int64_t delay = build_span(s, BUILD_VERIFY_DELAY).ms,
            step = build_span(s, BUILD_VERIFY_STEP).ms;
    int64_t looks = step > 0 ? build_int(s, BUILD_VERIFY_LIMIT) : 1;
    for (int64_t i = 0; i < looks && i < BUILD_WAITS_MAX; i++)
        if (delay + i * step > 0 && delay + i * step <= BUILD_WAIT_MAX_MS)
            build_topology_wait(s, delay + i * step, &t->queues[t->topology.queue_count++]);
}

void build_topology_make(struct build_topology *t, struct build_settings *s)
{
    const char *exchange = build_text(s, BUILD_EXCHANGE);
    const char *name = build_text(s, BUILD_QUEUE), *dlr = join(s, name, "dlr");
    const char *ready = build_text(s, BUILD_RETRY_QUEUE), *wait = join(s, ready, "-wait");

    struct amqp_queue *q = begin(t, BUILD_QUEUE_MAIN, name, "start, stop and clear");
    dead_letters(q, exchange, dlr);
    number(q, "x-max-priority", PRIORITIES);
    number(q, "x-message-ttl", build_span(s, BUILD_MAIN_TTL).ms);

    q = begin(t, BUILD_QUEUE_DLR, dlr, "rejected messages, until they are tried again");
    dead_letters(q, exchange, name);
    number(q, "x-max-priority", PRIORITIES);
    number(q, "x-message-ttl", build_span(s, BUILD_DLR_TTL).ms);
    text(q, "x-queue-mode", "lazy");

    /* Without a time to live: it would cut short the one of each message. */
    q = begin(t, BUILD_QUEUE_READY, ready, "builds to be verified now");
    number(q, "x-max-priority", PRIORITIES);
    text(q, "x-queue-type", "classic");

    q = begin(t, BUILD_QUEUE_WAIT, wait, "builds to be verified later");
    dead_letters(q, exchange, ready);
    number(q, "x-max-priority", PRIORITIES);
    text(q, "x-queue-type", "classic");

    t->retry_dlr = (struct amqp_queue){.name = join(s, ready, "dlr")};
    dead_letters(&t->retry_dlr, exchange, ready);

    begin(t, BUILD_QUEUE_DEFAULT, build_text(s, BUILD_DEFAULT_QUEUE), "the catch-all");
    t->topology = (struct amqp_topology){
        .exchange = exchange,
        .exchange_type = "topic",
        .queues = t->queues,
        .queue_count = BUILD_QUEUE_COUNT,
    };
    if (build_bool(s, BUILD_WAIT_QUEUES))
        add_waits(t, s);
}

/* --- what matters --- */

int64_t build_topology_ready_ms(const struct build_settings *s)
{
    int64_t looks = build_span(s, BUILD_VERIFY_DELAY).ms +
                    build_int(s, BUILD_VERIFY_LIMIT) * build_span(s, BUILD_VERIFY_STEP).ms;
    int64_t scheduling = build_span(s, BUILD_SCHEDULING_TIMEOUT).ms;
    return looks > scheduling ? looks : scheduling;
}

static bool is_of(const struct build_topology *t, enum build_queue which,
                  const struct amqp_difference *d)
{
    return strcmp(t->queues[which].name, d->name) == 0;
}

static bool is_missed(const struct build_topology *t, const struct build_settings *s,
                      const struct amqp_difference *d, bool has_dlr)
{
    bool verified = build_bool(s, BUILD_RETRY_QUEUE_ENABLED);
    if (is_of(t, BUILD_QUEUE_DEFAULT, d))
        return false;
    if (is_of(t, BUILD_QUEUE_WAIT, d))
        return verified && !has_dlr && !build_bool(s, BUILD_WAIT_QUEUES) &&
               strcmp(build_text(s, BUILD_VERIFICATION), "timer") != 0;
    return verified || !is_of(t, BUILD_QUEUE_READY, d);
}

bool build_topology_matters(const struct build_topology *t, const struct build_settings *s,
                            const struct amqp_difference *d, bool has_dlr)
{
    bool ttl = strcmp(d->argument, "x-message-ttl") == 0;
    if (d->missing)
        return is_missed(t, s, d, has_dlr);
    if (strcmp(d->argument, "durable") == 0 || strcmp(t->topology.exchange, d->name) == 0)
        return true;
    if (is_of(t, BUILD_QUEUE_READY, d))
        return ttl && strtoll(d->found, NULL, 10) < build_topology_ready_ms(s);
    if (is_of(t, BUILD_QUEUE_WAIT, d) && ttl)
        return true;
    return strncmp(d->argument, "x-dead-letter-", strlen("x-dead-letter-")) == 0;
}

/* --- for people and RabbitMQ's tools --- */

static void member(struct buf *b, const char *name, const char *v)
{
    json_write_string(b, str_from(name));
    buf_lit(b, ": ");
    json_write_string(b, str_from(v));
}

static void write_queue(const struct amqp_queue *q, const char *vhost, struct buf *b)
{
    buf_lit(b, "    {");
    member(b, "name", q->name);
    buf_lit(b, ", ");
    member(b, "vhost", vhost);
    buf_lit(b, ", \"durable\": true, \"auto_delete\": false, \"arguments\": {");
    for (size_t i = 0; i < q->arg_count; i++) {
        const struct amqp_arg *a = &q->args[i];
        if (i)
            buf_lit(b, ", ");
        if (a->type == AMQP_ARG_INT)
            buf_print(b, "\"%s\": %" PRId64, a->name, a->number);
        else
            member(b, a->name, a->text);
    }
    buf_lit(b, "}}");
}

static void write_binding(const struct amqp_topology *t, const struct amqp_queue *q,
                          const char *vhost, struct buf *b)
{
    buf_lit(b, "    {");
    member(b, "source", t->exchange);
    buf_lit(b, ", ");
    member(b, "vhost", vhost);
    buf_lit(b, ", ");
    member(b, "destination", q->name);
    buf_lit(b, ", \"destination_type\": \"queue\", ");
    member(b, "routing_key", q->routing_key);
    buf_lit(b, ", \"arguments\": {}}");
}

void build_topology_write(const struct build_topology *t, const char *vhost, struct buf *b)
{
    const struct amqp_topology *top = &t->topology;
    buf_lit(b, "{\n  \"exchanges\": [\n    {");
    member(b, "name", top->exchange);
    buf_lit(b, ", ");
    member(b, "vhost", vhost);
    buf_lit(b, ", ");
    member(b, "type", top->exchange_type);
    buf_lit(b, ", \"durable\": true, \"auto_delete\": false, \"internal\": false, "
               "\"arguments\": {}}\n  ],\n  \"queues\": [\n");
    for (size_t i = 0; i < top->queue_count; i++) {
        write_queue(&top->queues[i], vhost, b);
        buf_str(b, i + 1 < top->queue_count ? STR(",\n") : STR("\n"));
    }
    buf_lit(b, "  ],\n  \"bindings\": [\n");
    for (size_t i = 0; i < top->queue_count; i++) {
        write_binding(top, &top->queues[i], vhost, b);
        buf_str(b, i + 1 < top->queue_count ? STR(",\n") : STR("\n"));
    }
    buf_lit(b, "  ]\n}\n");
}
