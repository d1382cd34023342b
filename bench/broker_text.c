/* SPDX-License-Identifier: Apache-2.0 */
/* beanstalkd and Redis. A job of Redis is an element of a list; a consumer moves it to a second
 * list and removes it there, so that it would survive the consumer, as a reserved job of beanstalkd
 * and a taken one of Tenax do. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "broker.h"
#include "reply.h"

typedef size_t read_fn(struct str in, struct reply *r);

/* Reads one reply if there is one. */
static bool next_reply(struct broker_link *l, size_t *used, read_fn *read, struct reply *r)
{
    size_t n = read((struct str){l->in.at + *used, l->in.len - *used}, r);
    if (r->kind == REPLY_BROKEN || r->kind == REPLY_REFUSED)
        crew_fail("%s: %.*s", l->kind->name, (int)(l->in.len - *used), l->in.at + *used);
    *used += n;
    return n > 0;
}

/* Sends what is in l->out and waits for the reply to it, which must be of this kind. The text of
 * the reply is valid until the next. */
static struct reply ask(struct broker_link *l, read_fn *read, enum reply_kind wanted)
{
    struct reply r;
    size_t used = 0;
    l->in.len = 0;
    broker_flush(l);
    while (!next_reply(l, &used, read, &r))
        broker_read(l);
    if (r.kind != wanted)
        crew_fail("%s: an unexpected reply: %.*s", l->kind->name, (int)used, l->in.at);
    must(used == l->in.len);
    l->in.len = 0;
    return r;
}

static void open_socket(struct broker_link *l)
{
    l->fd = broker_socket(l->broker->o);
}

static void close_socket(struct broker_link *l)
{
    close(l->fd);
}

static void beanstalkd_open(struct broker_link *l)
{
    open_socket(l);
    buf_print(&l->out, "use %s\r\n", l->broker->o->queue);
    ask(l, reply_beanstalkd, REPLY_OK);
}

static void beanstalkd_put(struct broker_link *l, struct str payload)
{
    buf_print(&l->out, "put 0 0 3600 %zu\r\n", payload.len);
    buf_str(&l->out, payload);
    buf_lit(&l->out, "\r\n");
}

static void beanstalkd_consume(struct broker_link *l)
{
    buf_print(&l->out, "watch %s\r\n", l->broker->o->queue);
    ask(l, reply_beanstalkd, REPLY_OK);
    buf_lit(&l->out, "reserve\r\n");
    broker_flush(l);
}

static void beanstalkd_receive(struct broker_link *l)
{
    struct reply r;
    size_t used = 0;
    broker_read(l);
    while (next_reply(l, &used, reply_beanstalkd, &r)) {
        if (r.kind == REPLY_STORED) {
            broker_stored(l, l->oldest);
        } else if (r.kind == REPLY_DELETED) {
            l->broker->deleted++;
        } else {
            must(r.kind == REPLY_JOB);
            buf_print(&l->out, "delete %" PRIu64 "\r\nreserve\r\n", r.number);
            broker_job(l, r.text);
        }
    }
    buf_drop(&l->in, used);
}

static uint64_t beanstalkd_count(struct broker_link *l)
{
    buf_print(&l->out, "stats-tube %s\r\n", l->broker->o->queue);
    struct reply r = ask(l, reply_beanstalkd, REPLY_DATA);
    return reply_stat(r.text, STR("current-jobs-ready"));
}

const struct broker_kind broker_beanstalkd = {
    "beanstalkd",       beanstalkd_open,    close_socket,     beanstalkd_put,
    beanstalkd_consume, beanstalkd_receive, beanstalkd_count,
};

/* ---- Redis ---- */

static void add_word(struct buf *out, struct str word)
{
    buf_print(out, "$%zu\r\n", word.len);
    buf_str(out, word);
    buf_lit(out, "\r\n");
}

static void add_queue(struct broker_link *l, struct str suffix)
{
    struct str queue = str_from(l->broker->o->queue);
    buf_print(&l->out, "$%zu\r\n%.*s%.*s\r\n", queue.len + suffix.len, STR_ARG(queue),
              STR_ARG(suffix));
}

static void redis_put(struct broker_link *l, struct str payload)
{
    buf_lit(&l->out, "*3\r\n$5\r\nLPUSH\r\n");
    add_queue(l, STR(""));
    add_word(&l->out, payload);
}

static void add_move(struct broker_link *l)
{
    buf_lit(&l->out, "*6\r\n$6\r\nBLMOVE\r\n");
    add_queue(l, STR(""));
    add_queue(l, STR("-taken"));
    buf_lit(&l->out, "$5\r\nRIGHT\r\n$4\r\nLEFT\r\n$1\r\n0\r\n");
}

static void redis_consume(struct broker_link *l)
{
    add_move(l);
    broker_flush(l);
}

/* A consumer sees elements and how many it has removed; a producer sees lengths of the list. */
static void redis_receive(struct broker_link *l)
{
    struct reply r;
    size_t used = 0;
    broker_read(l);
    while (next_reply(l, &used, reply_redis, &r)) {
        if (r.kind == REPLY_NUMBER && l->puts) {
            broker_stored(l, l->oldest);
        } else if (r.kind == REPLY_NUMBER) {
            if (r.number != 1)
                crew_fail("redis: %" PRIu64 " elements were removed, not one", r.number);
            l->broker->deleted++;
        } else {
            must(r.kind == REPLY_DATA);
            buf_lit(&l->out, "*4\r\n$4\r\nLREM\r\n");
            add_queue(l, STR("-taken"));
            buf_lit(&l->out, "$1\r\n1\r\n");
            add_word(&l->out, r.text);
            add_move(l);
            broker_job(l, r.text);
        }
    }
    buf_drop(&l->in, used);
}

static uint64_t redis_count(struct broker_link *l)
{
    buf_lit(&l->out, "*2\r\n$4\r\nLLEN\r\n");
    add_queue(l, STR(""));
    return ask(l, reply_redis, REPLY_NUMBER).number;
}

const struct broker_kind broker_redis = {
    "redis", open_socket, close_socket, redis_put, redis_consume, redis_receive, redis_count,
};
