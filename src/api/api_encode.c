/* SPDX-License-Identifier: Apache-2.0 */

/* From replies to JSON. */

#include "api/api_internal.h"

void api_encode_id(struct buf *b, struct id id)
{
    char text[ID_TEXT_LEN + 2];
    text[0] = '"';
    id_format(id, text + 1);
    text[ID_TEXT_LEN + 1] = '"';
    buf_add(b, text, sizeof text);
}

void api_encode_token(struct buf *b, uint64_t token)
{
    static const char digits[] = "0123456789abcdef";
    char text[18];
    text[0] = text[17] = '"';
    for (int i = 0; i < 16; i++)
        text[1 + i] = digits[token >> (60 - 4 * i) & 15];
    buf_add(b, text, sizeof text);
}

#define KEY(b, name) buf_lit(b, ",\"" name "\":")

#define INT_MEMBER(b, name, v)                                                                     \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        buf_int(b, (int64_t)(v));                                                                  \
    } while (0)

#define INSTANT_MEMBER(b, name, t)                                                                 \
    do {                                                                                           \
        if (instant_is_set(t))                                                                     \
            INT_MEMBER(b, name, (t).ms);                                                           \
    } while (0)

#define TEXT_MEMBER(b, name, s)                                                                    \
    do {                                                                                           \
        if ((s).len) {                                                                             \
            KEY(b, name);                                                                          \
            json_write_string(b, s);                                                               \
        }                                                                                          \
    } while (0)

/* Present with the value null where an optional member is part of the shape. */
#define INSTANT_OR_NULL(b, name, t)                                                                \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        if (instant_is_set(t))                                                                     \
            buf_int(b, (t).ms);                                                                    \
        else                                                                                       \
            buf_lit(b, "null");                                                                    \
    } while (0)

#define TEXT_OR_NULL(b, name, s)                                                                   \
    do {                                                                                           \
        KEY(b, name);                                                                              \
        if ((s).len)                                                                               \
            json_write_string(b, s);                                                               \
        else                                                                                       \
            buf_lit(b, "null");                                                                    \
    } while (0)

static void encode_backoff(struct buf *b, const struct curve *c)
{
    KEY(b, "backoff");
    buf_lit(b, "{\"base_ms\":");
    buf_int(b, c->base.ms);
    KEY(b, "exponent");
    json_write_double(b, c->exponent);
    INT_MEMBER(b, "jitter_ms", c->jitter.ms);
    buf_byte(b, '}');
}

static void encode_retention(struct buf *b, const struct job *job)
{
    bool both = job->completed_retention.ms >= 0 && job->dead_retention.ms >= 0;
    KEY(b, "retention");
    buf_byte(b, '{');
    if (job->completed_retention.ms >= 0) {
        buf_lit(b, "\"completed_ms\":");
        buf_int(b, job->completed_retention.ms);
    }
    if (both)
        buf_byte(b, ',');
    if (job->dead_retention.ms >= 0) {
        buf_lit(b, "\"dead_ms\":");
        buf_int(b, job->dead_retention.ms);
    }
    buf_byte(b, '}');
}

static void encode_batch(struct buf *b, const struct job_batch *batch)
{
    KEY(b, "batch");
    buf_lit(b, "{\"key\":");
    json_write_string(b, batch->key);
    KEY(b, "when");
    json_write_string(b, batch->when);
    KEY(b, "fold");
    json_write_string(b, batch->fold);
    buf_byte(b, '}');
}

void api_encode_options(struct buf *b, const struct job *job)
{
    if (job->retry_limit != RETRY_LIMIT_DEFAULT)
        INT_MEMBER(b, "retry_limit", job->retry_limit);
    if (job->backoff.shape != CURVE_NONE)
        encode_backoff(b, &job->backoff);
    if (job->completed_retention.ms >= 0 || job->dead_retention.ms >= 0)
        encode_retention(b, job);
    if (job->unique_while) {
        TEXT_MEMBER(b, "unique_key", job->unique_key);
        TEXT_MEMBER(b, "unique_while", str_from(job_unique_name(job->unique_while)));
    }
}

/* The members without the closing brace. */
static void encode_open_job(struct buf *b, const struct job *job, unsigned how)
{
    const struct job_state *s = &job->state;
    buf_lit(b, "{\"id\":");
    api_encode_id(b, job->id);
    KEY(b, "queue");
    json_write_string(b, job->queue);
    KEY(b, "type");
    json_write_string(b, job->type);
    INT_MEMBER(b, "priority", s->priority);
    KEY(b, "status");
    json_write_string(b, str_from(lifecycle_status_name(s->status)));
    INT_MEMBER(b, "ready_at", s->ready_at.ms);
    INT_MEMBER(b, "attempts", s->attempts);
    INSTANT_MEMBER(b, "dequeued_at", s->dequeued_at);
    INSTANT_MEMBER(b, "failed_at", s->failed_at);
    INSTANT_MEMBER(b, "completed_at", s->completed_at);
    INSTANT_MEMBER(b, "purge_at", s->purge_at);
    const char *resolution = job_resolution_name(s->resolution);
    if (resolution)
        TEXT_MEMBER(b, "resolution", str_from(resolution));
    TEXT_MEMBER(b, "reason", s->reason);
    api_encode_options(b, job);
    if (job->batch.key.len)
        encode_batch(b, &job->batch);
    if (!(how & ENCODE_PAYLOAD))
        return;
    KEY(b, "payload");
    if (how & ENCODE_ONE_LINE)
        json_write_one_line(b, job->payload);
    else
        buf_str(b, job->payload);
}

void api_encode_job(struct buf *b, const struct job *job, unsigned how)
{
    encode_open_job(b, job, how);
    buf_byte(b, '}');
}

void api_encode_enqueued(struct buf *b, const struct enqueued *e)
{
    encode_open_job(b, &e->job, 0);
    if (e->job.unique_while) {
        KEY(b, "duplicate");
        buf_str(b, e->duplicate ? STR("true") : STR("false"));
    }
    if (e->job.batch.key.len) {
        KEY(b, "folded");
        buf_str(b, e->folded ? STR("true") : STR("false"));
    }
    buf_byte(b, '}');
}

void api_encode_handout(struct buf *b, const struct handout *h, unsigned how)
{
    encode_open_job(b, &h->job, how);
    INT_MEMBER(b, "run", h->run);
    KEY(b, "token");
    api_encode_token(b, h->token);
    INSTANT_MEMBER(b, "lease_expires_at", h->lease_end);
    buf_byte(b, '}');
}

void api_encode_run(struct buf *b, const struct run *run)
{
    const struct failure *f = &run->failure;
    buf_lit(b, "{\"run\":");
    buf_int(b, run->index);
    TEXT_OR_NULL(b, "worker", run->worker);
    INSTANT_OR_NULL(b, "taken_at", run->taken_at);
    INSTANT_OR_NULL(b, "lease_expires_at", run->lease_end);
    INSTANT_OR_NULL(b, "ended_at", run->ended_at);
    TEXT_OR_NULL(b, "outcome", str_from(job_outcome_name(run->outcome)));
    TEXT_OR_NULL(b, "reason", run->reason);
    if (run->attempt)
        INT_MEMBER(b, "attempt", run->attempt);
    INSTANT_MEMBER(b, "retry_at", run->retry_at);
    TEXT_MEMBER(b, "message", f->message);
    TEXT_MEMBER(b, "error_type", f->error_type);
    if (f->exit_code)
        INT_MEMBER(b, "exit_code", f->exit_code);
    if (f->signal)
        INT_MEMBER(b, "signal", f->signal);
    if (f->run_time.ms >= 0)
        INT_MEMBER(b, "run_ms", f->run_time.ms);
    buf_byte(b, '}');
}

void api_encode_error(struct buf *b, const struct run *run)
{
    const struct failure *f = &run->failure;
    buf_lit(b, "{\"attempt\":");
    buf_int(b, run->attempt);
    KEY(b, "message");
    json_write_string(b, f->message);
    TEXT_MEMBER(b, "error_type", f->error_type);
    TEXT_MEMBER(b, "backtrace", f->backtrace);
    INT_MEMBER(b, "dequeued_at", run->taken_at.ms);
    INT_MEMBER(b, "failed_at", run->ended_at.ms);
    INT_MEMBER(b, "run", run->index);
    TEXT_MEMBER(b, "reason", run->reason);
    if (f->exit_code)
        INT_MEMBER(b, "exit_code", f->exit_code);
    if (f->signal)
        INT_MEMBER(b, "signal", f->signal);
    if (f->run_time.ms >= 0)
        INT_MEMBER(b, "run_ms", f->run_time.ms);
    buf_byte(b, '}');
}
