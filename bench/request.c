/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <stdlib.h>

#include "base/alloc.h"

/* splitmix64: the same load on every run. */
static uint64_t draw(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void add_noise(struct buf *out, size_t n, uint64_t *seed)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 10 == 0)
            bits = draw(seed);
        buf_byte(out, letters[bits & 63]);
        bits >>= 6;
    }
}

void request_payload(struct buf *out, const struct load_options *o, struct str first,
                     uint64_t *seed)
{
    const size_t frame = sizeof "{\"data\":\"\"}" - 1;
    size_t fixed = frame + first.len;
    buf_print(out, "{%.*s\"data\":\"", STR_ARG(first));
    add_noise(out, o->payload > fixed ? o->payload - fixed : 0, seed);
    buf_lit(out, "\"}");
}

void request_job(struct buf *out, const struct load_options *o, struct str fields, struct str first,
                 uint64_t *seed)
{
    buf_print(out, "{\"queue\":\"%s", o->queue);
    if (o->queues > 1)
        buf_print(out, "-%06llu", (unsigned long long)(draw(seed) % o->queues));
    buf_print(out, "\",\"type\":\"t\",%.*s\"payload\":", STR_ARG(fields));
    request_payload(out, o, first, seed);
    buf_byte(out, '}');
}

void request_write(struct buf *out, const struct load_options *o, const char *method,
                   const char *path, struct str body)
{
    buf_print(out,
              "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
              "Content-Length: %zu\r\n\r\n",
              method, path, o->to.host, body.len);
    buf_str(out, body);
}

static void write_bulk(struct buf *body, const struct load_options *o, size_t batch, uint64_t *seed)
{
    buf_lit(body, "{\"jobs\":[");
    for (size_t i = 0; i < batch; i++) {
        if (i)
            buf_byte(body, ',');
        request_job(body, o, STR(""), STR(""), seed);
    }
    buf_lit(body, "]}");
}

struct request_pool request_pool_new(const struct load_options *o, size_t count, size_t batch)
{
    struct request_pool p = {.items = alloc_zero(count * sizeof(struct buf)), .count = count};
    struct buf body = {0};
    uint64_t seed = 1;
    for (size_t i = 0; i < count; i++) {
        body.len = 0;
        if (batch == 0)
            request_job(&body, o, STR(""), STR(""), &seed);
        else
            write_bulk(&body, o, batch, &seed);
        request_write(&p.items[i], o, "POST", batch ? "/jobs/bulk" : "/jobs", buf_view(&body));
    }
    buf_fini(&body);
    return p;
}

void request_pool_free(struct request_pool *p)
{
    for (size_t i = 0; i < p->count; i++)
        buf_fini(&p->items[i]);
    free(p->items);
}

struct str request_pick(struct request_pool *p)
{
    struct str s = buf_view(&p->items[p->next]);
    p->next = p->next + 1 == p->count ? 0 : p->next + 1;
    return s;
}
