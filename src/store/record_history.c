/* SPDX-License-Identifier: Apache-2.0 */

/* Records of the failure history. Their bytes are described in record.c. */

#include "store/record.h"

#include "store/record_parts.h"

#define HISTORY_VERSION 4

static void write_history(struct writer *w, const struct history_entry *h)
{
    const struct job *job = &h->job;
    must(job->state.attempts > 0);
    writer_byte(w, HISTORY_VERSION);
    writer_byte(w, h->succeeded);
    writer_id(w, job->id);
    writer_text(w, job->queue);
    writer_text(w, job->type);
    writer_varint(w, job->state.attempts);
    writer_opt(w, h->run.ended_at.ms);
    if (h->succeeded)
        return;
    writer_opt(w, job->retry_limit);
    record_write_curve(w, &job->backoff);
    writer_text(w, job->options.retry_policies);
    writer_varint(w, job->options.memory);
    writer_varint(w, job->options.when_no_policy);
    writer_varint(w, job->options.cpu);
    writer_varint(w, h->run.index);
    writer_byte(w, h->run.outcome);
    writer_text(w, h->run.reason);
    record_write_failure(w, &h->run.failure);
}

void record_put_history(struct batch *b, uint64_t number, const struct history_entry *entry)
{
    RECORD_PUT(b, record_history_key(number), write_history(w, entry));
}

static void read_failed(struct reader *r, unsigned version, struct arena *a,
                        struct history_entry *h)
{
    h->job.retry_limit = reader_opt(r, "retry limit", JOB_RETRY_LIMIT_MAX);
    record_read_curve(r, &h->job.backoff);
    h->job.options.retry_policies = reader_text(r, "retry policies");
    h->job.options.memory = reader_varint(r, "memory", UINT64_MAX);
    if (version >= 2)
        h->job.options.when_no_policy = reader_varint(r, "when_no_policy", RETRY_FALLBACK_FAIL);
    if (version >= 3)
        h->job.options.cpu = reader_varint(r, "processors", UINT64_MAX);
    h->run.index = (uint32_t)reader_varint(r, "index", UINT32_MAX);
    h->run.outcome = (enum outcome)reader_byte(r, "outcome", OUTCOME_COUNT - 1);
    h->run.reason = reader_text(r, "reason");
    h->run.attempt = h->job.state.attempts;
    record_read_failure(r, version, a, &h->run.failure);
}

struct err record_read_history(struct str value, struct arena *a, struct history_entry *h)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "history", HISTORY_VERSION, &version));
    *h = (struct history_entry){.run = {.lease_end = INSTANT_NONE, .retry_at = INSTANT_NONE}};
    h->succeeded = reader_byte(&r, "kind", 1);
    h->job.id = reader_id(&r);
    h->job.queue = reader_text(&r, "queue");
    h->job.type = reader_text(&r, "type");
    h->job.state.attempts = (uint32_t)reader_varint(&r, "failures", UINT32_MAX);
    if (h->job.state.attempts == 0)
        reader_fault(&r, "failures");
    h->run.ended_at = reader_instant(&r, "at");
    if (!h->succeeded)
        read_failed(&r, version, a, h);
    return record_finish(&r, "history");
}
