/* SPDX-License-Identifier: Apache-2.0 */
/* A program around the room amqp/, for tests that have a real broker: it reads orders from standard
 * input, one a line, and prints what happens, one line each.
 *
 *   amqp_probe HOST:PORT[,HOST:PORT] PREFETCH STALL_MS QUEUE...
 *
 * Orders: "publish ID EXCHANGE KEY EXPIRATION_MS BODY", "ack N", "reject N", "requeue N" (the Nth
 * delivery, from 1), "stats", "close". TLS by the environment: PROBE_TLS=1, PROBE_CA, PROBE_CERT,
 * PROBE_KEY, PROBE_UNVERIFIED; PROBE_VHOST, PROBE_USER, PROBE_PASSWORD. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp/amqp_headers.h"
#include "amqp/amqp_link.h"
#include "base/alloc.h"
#include "base/must.h"

#define DELIVERIES_MAX 100000
#define ADDRESSES_MAX  8

static struct amqp_link *amqp;
static struct amqp_delivery *deliveries[DELIVERIES_MAX];
static size_t delivery_count;
static uv_pipe_t input;
static char line[65536];
static size_t line_len;

static void up(void *ctx)
{
    (void)ctx;
    puts("up");
}

static void down(void *ctx, const char *why)
{
    (void)ctx;
    printf("down %s\n", why);
}

static void delivered(void *ctx, struct amqp_delivery *d)
{
    (void)ctx;
    int64_t count = -1;
    must(delivery_count < DELIVERIES_MAX);
    amqp_headers_int(&d->headers, STR("x-retry-count"), &count);
    deliveries[delivery_count++] = d;
    printf("delivered %zu %zu %d %" PRId64 " %" PRId64 " %.*s\n", delivery_count, d->queue,
           d->redelivered, count, amqp_headers_deaths(&d->headers, STR(""), STR("")),
           STR_ARG(d->body));
}

static void published(void *ctx, uint64_t id, enum amqp_published result)
{
    static const char *const names[] = {"confirmed", "refused", "unroutable"};
    (void)ctx;
    printf("published %" PRIu64 " %s\n", id, names[result]);
}

static void stop(void)
{
    amqp_link_close(amqp);
    for (size_t i = 0; i < delivery_count; i++)
        if (deliveries[i])
            amqp_delivery_free(deliveries[i]);
    uv_close((uv_handle_t *)&input, NULL);
}

static void settle(const char *n, enum amqp_settlement how)
{
    size_t i = strtoul(n, NULL, 10) - 1;
    must(i < delivery_count && deliveries[i]);
    amqp_settle(amqp, deliveries[i], how);
    deliveries[i] = NULL;
}

static void publish(char *words)
{
    char *id = strsep(&words, " "), *exchange = strsep(&words, " "), *key = strsep(&words, " ");
    char *expiration = strsep(&words, " ");
    amqp_table_entry_t entry = {
        .key = amqp_cstring_bytes("x-retry-count"),
        .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = 7},
    };
    must(words);
    amqp_publish(amqp, &(struct amqp_message){
                           .id = strtoull(id, NULL, 10),
                           .exchange = str_from(exchange),
                           .routing_key = str_from(key),
                           .body = str_from(words),
                           .content_type = STR("application/json"),
                           .headers = &(amqp_table_t){.num_entries = 1, .entries = &entry},
                           .expiration = {strtoll(expiration, NULL, 10)},
                       });
}

static void obey(char *words)
{
    char *verb = strsep(&words, " ");
    if (strcmp(verb, "publish") == 0)
        publish(words);
    else if (strcmp(verb, "ack") == 0)
        settle(words, AMQP_ACK);
    else if (strcmp(verb, "reject") == 0)
        settle(words, AMQP_REJECT);
    else if (strcmp(verb, "requeue") == 0)
        settle(words, AMQP_REQUEUE);
    else if (strcmp(verb, "stats") == 0) {
        struct amqp_link_stats s = amqp_link_stats(amqp);
        printf("stats %" PRIu64 " %" PRIu64 " %d %d\n", s.connections, s.stalls, s.connected,
               s.blocked);
    } else
        stop();
}

static void room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle, (void)suggested;
    *buf = uv_buf_init(line + line_len, (unsigned)(sizeof line - line_len));
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)stream, (void)buf;
    if (n < 0) {
        stop();
        return;
    }
    line_len += (size_t)n;
    char *end;
    while ((end = memchr(line, '\n', line_len))) {
        char *order = alloc_text(line, (size_t)(end - line));
        line_len -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_len);
        bool last = strcmp(order, "close") == 0;
        obey(order);
        free(order);
        if (last)
            return;
    }
}

static size_t addresses_of(char *list, struct amqp_address *out)
{
    size_t n = 0;
    for (char *one; (one = strsep(&list, ","));) {
        char *host = strsep(&one, ":");
        must(n < ADDRESSES_MAX && one);
        out[n++] = (struct amqp_address){host, atoi(one)};
    }
    return n;
}

static const char *env_or(const char *name, const char *otherwise)
{
    const char *v = getenv(name);
    return v ? v : otherwise;
}

int main(int argc, char **argv)
{
    static const struct amqp_link_user user = {up, down, delivered, published};
    struct amqp_address addresses[ADDRESSES_MAX];
    struct amqp_tls tls = {getenv("PROBE_CA"), getenv("PROBE_CERT"), getenv("PROBE_KEY"),
                           getenv("PROBE_UNVERIFIED") != NULL};
    must(argc >= 4);
    struct amqp_link_settings settings = {
        .connection = {.addresses = addresses,
                       .address_count = addresses_of(argv[1], addresses),
                       .vhost = env_or("PROBE_VHOST", "/"),
                       .user = env_or("PROBE_USER", "guest"),
                       .password = env_or("PROBE_PASSWORD", "guest"),
                       .tls = getenv("PROBE_TLS") ? &tls : NULL,
                       .connect_timeout = {5000},
                       .heartbeat = {2000},
                       .name = "probe"},
        .queues = (const char *const *)argv + 4,
        .queue_count = (size_t)argc - 4,
        .prefetch = (uint16_t)atoi(argv[2]),
        .backoff_min = {50},
        .backoff_max = {500},
        .stall = {atoll(argv[3])},
        .seed = 1,
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    amqp = amqp_link_new(uv_default_loop(), &settings, &user, NULL);
    must(uv_pipe_init(uv_default_loop(), &input, 0) == 0);
    must(uv_pipe_open(&input, 0) == 0);
    must(uv_read_start((uv_stream_t *)&input, room, heard) == 0);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return uv_loop_close(uv_default_loop());
}
