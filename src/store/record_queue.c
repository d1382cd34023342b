/* SPDX-License-Identifier: Apache-2.0 */

/* Records of queues, budgets and resources. Their bytes are described in record.c. */

#include "store/record.h"

#include "base/must.h"
#include "store/record_parts.h"

#define QUEUE_VERSION 3

static void write_budget(struct writer *w, const struct budget *b)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, b->policy.allocation);
    writer_byte(w, b->policy.strategy);
    writer_varint(w, (uint64_t)b->policy.duration.ms);
    writer_varint(w, b->policy.burst);
    writer_opt(w, b->created_at.ms);
    writer_opt(w, b->updated_at.ms);
}

void record_put_budget(struct batch *b, const struct budget *budget)
{
    char room[RECORD_BUDGET_KEY_MAX];
    struct writer count = {0};
    write_budget(&count, budget);
    struct writer fill =
        writer_into(batch_put_room(b, record_budget_key(budget->key, room), count.len), count.len);
    write_budget(&fill, budget);
    must(fill.len == count.len);
}

static void write_resource(struct writer *w, uint64_t version, struct str body)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, version);
    writer_text(w, body);
}

static void write_rate(struct writer *w, const struct rate *r, const struct bucket *b)
{
    writer_varint(w, r->count);
    if (!rate_is_set(r))
        return;
    must(b->level >= 0);
    writer_varint(w, r->burst);
    writer_varint(w, (uint64_t)r->per.ms);
    writer_varint(w, (uint64_t)b->level);
    writer_opt(w, b->at.ms);
}

static void write_queue(struct writer *w, const struct queue_record *q)
{
    const struct queue_settings *s = &q->settings;
    writer_byte(w, QUEUE_VERSION);
    writer_byte(w, s->paused);
    writer_varint(w, s->concurrency);
    writer_varint(w, s->concurrency_per_key);
    write_rate(w, &s->rate, &q->bucket);
    record_write_terms(w, s->retry_limit, &s->backoff, s->completed_retention, s->dead_retention);
    writer_byte(w, s->when_no_policy);
    writer_varint(w, (uint64_t)s->max_run.ms);
}

void record_put_queue(struct batch *b, struct str name, const struct queue_record *queue)
{
    char room[RECORD_QUEUE_KEY_MAX];
    struct writer count = {0};
    write_queue(&count, queue);
    struct writer fill =
        writer_into(batch_put_room(b, record_queue_key(name, room), count.len), count.len);
    write_queue(&fill, queue);
    must(fill.len == count.len);
}

void record_put_resource(struct batch *b, char kind, struct str name, uint64_t version,
                         struct str body)
{
    char room[RECORD_RESOURCE_KEY_MAX];
    struct str key = record_resource_key(kind, name, room);
    struct writer count = {0};
    write_resource(&count, version, body);
    struct writer fill = writer_into(batch_put_room(b, key, count.len), count.len);
    write_resource(&fill, version, body);
    must(fill.len == count.len);
}

static void read_rate(struct reader *r, struct rate *rate, struct bucket *b)
{
    *rate = (struct rate){.count = (uint32_t)reader_varint(r, "rate", RATE_COUNT_MAX)};
    *b = (struct bucket){0};
    if (!rate_is_set(rate))
        return;
    rate->burst = (uint32_t)reader_varint(r, "burst", RATE_COUNT_MAX);
    rate->per.ms = (int64_t)reader_varint(r, "span of the rate", (uint64_t)RATE_PER_MAX.ms);
    b->level = (int64_t)reader_varint(r, "level", INT64_MAX);
    b->at = reader_instant(r, "time of the level");
    if (rate->burst == 0 || rate->per.ms == 0 || !instant_is_set(b->at))
        reader_fault(r, "rate");
}

struct err record_read_queue(struct str value, struct queue_record *queue)
{
    struct reader r = record_begin(value);
    struct queue_settings *s = &queue->settings;
    unsigned version;
    TRY(record_read_version(&r, "queue", QUEUE_VERSION, &version));
    s->paused = reader_byte(&r, "pause", 1);
    s->concurrency = (uint32_t)reader_varint(&r, "concurrency", QUEUE_CONCURRENCY_MAX);
    s->concurrency_per_key =
        (uint32_t)reader_varint(&r, "concurrency per key", QUEUE_CONCURRENCY_MAX);
    read_rate(&r, &s->rate, &queue->bucket);
    record_read_terms(&r, &s->retry_limit, &s->backoff, &s->completed_retention,
                      &s->dead_retention);
    s->when_no_policy = RETRY_FALLBACK_UNSET;
    if (version >= 2)
        s->when_no_policy =
            (enum retry_fallback)reader_byte(&r, "when_no_policy", RETRY_FALLBACK_FAIL);
    s->max_run.ms = version >= 3 ? (int64_t)reader_varint(&r, "max_run", SPAN_MAX_MS) : 0;
    return record_finish(&r, "queue");
}

struct err record_read_budget(struct str value, struct str key, struct budget *budget)
{
    struct reader r = record_begin(value);
    struct budget_policy *p = &budget->policy;
    TRY(record_check_version(&r, "budget"));
    budget->key = key;
    p->allocation = (uint32_t)reader_varint(&r, "allocation", BUDGET_TOKENS_MAX);
    p->strategy = (enum budget_strategy)reader_byte(&r, "strategy", BUDGET_STRATEGIES - 1);
    p->duration.ms = (int64_t)reader_varint(&r, "duration", (uint64_t)BUDGET_DURATION_MAX.ms);
    p->burst = (uint32_t)reader_varint(&r, "burst", BUDGET_TOKENS_MAX);
    budget->created_at = reader_instant(&r, "time of creation");
    budget->updated_at = reader_instant(&r, "time of the last change");
    if (p->allocation == 0 || (p->strategy == BUDGET_TIME_BASED) != (p->duration.ms > 0) ||
        (p->burst && p->strategy != BUDGET_TIME_BASED))
        reader_fault(&r, "policy");
    return record_finish(&r, "budget");
}

struct err record_read_resource(struct str value, uint64_t *version, struct str *body)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "resource"));
    *version = reader_varint(&r, "resource version", INT64_MAX);
    *body = reader_text(&r, "body");
    return record_finish(&r, "resource");
}
