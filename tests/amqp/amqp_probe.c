/* SPDX-License-Identifier: Apache-2.0 */
/* A program around the room amqp/, for tests that have a real broker: it reads orders from standard
 * input, one a line, and prints what happens, one line each.
 *
 *   amqp_probe HOST:PORT[,HOST:PORT] PREFETCH STALL_MS QUEUE...
 *
 * Orders: "publish ID EXCHANGE KEY EXPIRATION_MS BODY", "ack N", "reject N", "requeue N" (the Nth
 * delivery, from 1), "quiet", "stats", "close"; and "post ID EXCHANGE KEY EXPIRATION_MS HEADERS
 * BODY" with HEADERS as "x-a:l=5,x-b:s=five,x-c:d=5.5" (an integer, a text, a double) or "-".
 * Deliveries are printed with their headers, in the same form, if PROBE_HEADERS is set. TLS by the
 * environment: PROBE_TLS=1, PROBE_CA, PROBE_CERT, PROBE_KEY, PROBE_UNVERIFIED; PROBE_VHOST,
 * PROBE_USER, PROBE_PASSWORD. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp/amqp_headers.h"
#include "amqp/amqp_link.h"
#include "base/alloc.h"
#include "base/must.h"
#include "probe_input.h"

#define DELIVERIES_MAX 100000
#define ADDRESSES_MAX  8

static struct amqp_link *amqp;
static struct amqp_delivery *deliveries[DELIVERIES_MAX];
static size_t delivery_count;

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

static void print_headers(const struct amqp_delivery *d)
{
    printf("headers %zu", delivery_count);
    for (int i = 0; i < d->headers.num_entries; i++) {
        const amqp_table_entry_t *e = &d->headers.entries[i];
        int64_t n;
        if (amqp_headers_int(&d->headers, (struct str){e->key.bytes, e->key.len}, &n))
            printf(" %.*s:%c=%" PRId64, (int)e->key.len, (char *)e->key.bytes, e->value.kind, n);
    }
    const amqp_basic_properties_t *p = &d->envelope.message.properties;
    printf(" mode=%d type=%.*s", p->delivery_mode, (int)p->content_type.len,
           (char *)p->content_type.bytes);
    if (p->_flags & AMQP_BASIC_EXPIRATION_FLAG)
        printf(" expires=%.*s", (int)p->expiration.len, (char *)p->expiration.bytes);
    puts("");
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
    if (getenv("PROBE_HEADERS"))
        print_headers(d);
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

#define HEADERS_MAX 8

static amqp_field_value_t value_of(char type, const char *text)
{
    amqp_field_value_t v = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(text)};
    if (type == 'l')
        v = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = atoll(text)};
    if (type == 'd')
        v = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_F64, .value.f64 = atof(text)};
    return v;
}

static void post(char *words)
{
    char *id = strsep(&words, " "), *exchange = strsep(&words, " "), *key = strsep(&words, " ");
    char *expiration = strsep(&words, " "), *headers = strsep(&words, " ");
    amqp_table_entry_t entries[HEADERS_MAX];
    amqp_table_t table = {.entries = entries};
    must(words);
    for (char *one; strcmp(headers, "-") != 0 && (one = strsep(&headers, ","));) {
        char *name = strsep(&one, ":");
        must(one && one[0] && one[1] == '=' && table.num_entries < HEADERS_MAX);
        entries[table.num_entries++] =
            (amqp_table_entry_t){.key = amqp_cstring_bytes(name), value_of(one[0], one + 2)};
        if (!headers)
            break;
    }
    amqp_publish(amqp, &(struct amqp_message){
                           .id = strtoull(id, NULL, 10),
                           .exchange = str_from(exchange),
                           .routing_key = str_from(key),
                           .body = str_from(words),
                           .content_type = STR("application/json"),
                           .headers = &table,
                           .expiration = {strtoll(expiration, NULL, 10)},
                       });
}

static bool obey(char *words)
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
    } else if (strcmp(verb, "post") == 0)
        post(words);
    else if (strcmp(verb, "quiet") == 0)
        amqp_link_quiet(amqp);
    else
        return false;
    return true;
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
                       .connect_timeout = {atoll(env_or("PROBE_CONNECT_TIMEOUT", "30000"))},
                       .heartbeat = {atoll(env_or("PROBE_HEARTBEAT", "30000"))},
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
    probe_input_start(obey, stop);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return uv_loop_close(uv_default_loop());
}
