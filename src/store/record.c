/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include "base/must.h"
#include "core/job_fields.h"
#include "store/record_parts.h"

/* The bytes of version 1; the parts are those of store/writer.h.
 *
 *   JOB      byte version, text queue, text type, opt retry_limit,
 *            byte shape of the backoff; if it is POWER: zigzag base ms, double exponent,
 *            zigzag jitter ms,
 *            opt completed retention ms, opt dead retention ms, byte unique scope, and if
 *            it is not 0 text unique key, byte 0 or, of a batched job, 1 if it is open and
 *            2 if not, then text batch key, text when, text fold, FIELDS of job_options,
 *            STATE without its version,
 *            byte 0 and text payload, or byte 1 if the payload is apart
 *   PAYLOAD  byte version, text payload
 *   STATE    byte version, byte status, byte resolution, varint priority, opt ready_at,
 *            opt dequeued_at, opt failed_at, opt completed_at, opt purge_at (all in ms),
 *            varint attempts, varint forgiven, varint runs, varint losses, text reason,
 *            varint token, opt lease_end, text worker, FIELDS of job_extras
 *   FIELDS   of each field of core/job_fields.def that is set, in the order of their numbers:
 *            varint number, then text, varint, opt ms or double; ended by byte 0
 *   RUN      byte version, varint index, text worker, from version 2: opt ready_at; opt taken_at,
 *            opt lease_end,
 *            opt ended_at, byte outcome, varint attempt, opt retry_at, varint end of the
 *            grace period in ms or 0, text reason,
 *            text message, text error type, text backtrace, zigzag exit code,
 *            zigzag signal, opt run time ms, byte condition, text node, text termination
 *            message, text category, text subcategory, text hint, text pod error, varint count
 *            of pod events, then for each a text; varint count of containers, then for
 *            each: text name, byte 1 if it is an init container, zigzag exit code, text
 *            reason, text message, from version 3: zigzag signal, text log; from version 4: byte
 *            culprit, text evidence against it
 *   NOTE     byte version, varint run, opt at, double value, text text
 *   TAKES    byte version, opt at, varint count, then for each: id as 16 bytes
 *            big-endian, varint run
 *   LEASES   byte version, from 2 on, which tells them from TAKES, opt at, varint count, then for
 * each: id as 16 bytes big-endian, varint run, varint token, zigzag ms from taken_at to at, zigzag
 * ms from at to the lease's end, byte of bits: 1 worker and node are not those of the lease before
 * it (of the first: empty), from version 3: 2 it is confirmed, 4 it was not granted for as long as
 * from at to its end, from version 4: 8 its claim can be repeated, from version 5: 16 its run may
 * take only so long; if 4: zigzag ms; if 8: varint key of the claim; if 16: varint ms that it may
 * take, zigzag ms from at to the end of that, byte whose limit it is (enum run_limit); if 1: text
 * worker, text node ENDED    byte version, id as 16 bytes big-endian, byte how it ended PAUSE byte
 * 0 or 1: paused, opt paused_at, opt resumed_at CRON GROUP  byte version, text name, PAUSE; from
 * version 2: text zone CRON ENTRY  byte version, id of the group as 16 bytes big-endian, varint
 * position, text name, text expression, text zone, text queue, text type, varint priority, opt
 * retry_limit, backoff as in JOB, opt completed retention ms, opt dead retention ms, unique scope
 * and key as in JOB, text payload, FIELDS of job_options; from version 2: text batch key and, if it
 * is not empty, text when, text fold CRON CLOCK  byte version, opt next_at, opt last_at, PAUSE
 * QUEUE    byte version, byte 1 if it is paused, varint concurrency, varint concurrency per key,
 * varint count of the rate and, if that is not 0, varint burst, varint ms, varint level of its
 * bucket, opt time of that; opt retry_limit, backoff as in JOB, opt completed retention ms, opt
 * dead retention ms version 2, too: byte what becomes of failures that no policy is in effect for
 * (enum retry_fallback); version 3, too: varint ms that a run may take, or 0 GROUP    byte version,
 * text owner, opt time when it was sealed, opt until when it is retained BUDGET   byte version,
 * varint allocation, byte strategy (enum budget_strategy), varint duration ms or 0, varint burst or
 * 0, opt created_at, opt updated_at RESOURCE byte version, varint resource version, text body
 * HISTORY byte version, byte 1 if the job succeeded, its id as 16 bytes big-endian, text queue,
 * text type, varint failures so far, opt at; of a failure also: opt retry_limit, backoff as in JOB,
 * text retry policies, varint memory, from version 2: varint when_no_policy; varint index of the
 * run, byte outcome, text reason, and from text message on as in RUN
 *
 * There is one encoding of a value and nothing follows it: a reader refuses all else. */

#define RUN_VERSION 4

enum { BATCH_NONE, BATCH_OPEN, BATCH_CLOSED };

/* These numbers are on disk. */
_Static_assert(STATUS_BLOCKED == 0 && STATUS_SCHEDULED == 1 && STATUS_READY == 2 &&
                   STATUS_IN_FLIGHT == 3 && STATUS_COMPLETED == 4 && STATUS_DEAD == 5,
               "stored statuses keep their numbers");
_Static_assert(RESOLUTION_NONE == 0 && RESOLUTION_FAILED == 1 && RESOLUTION_CLAIM_EXPIRED == 2 &&
                   RESOLUTION_CANCELED == 3 && RESOLUTION_POISON == 4 &&
                   RESOLUTION_DEPENDENCY == 5 && RESOLUTION_DEADLINE == 6 &&
                   RESOLUTION_WORKER_SHUTDOWN == 7 && RESOLUTION_INTERMITTENT_TASK == 8 &&
                   RESOLUTION_MALFORMED_PAYLOAD == 9 && RESOLUTION_RESOURCE_UNAVAILABLE == 10 &&
                   RESOLUTION_INTERNAL_ERROR == 11 && RESOLUTION_SUPERSEDED == 12 &&
                   RESOLUTION_WAIT == 13 && RESOLUTION_GANG == 14,
               "stored resolutions keep their numbers");
_Static_assert(OUTCOME_RUNNING == 0 && OUTCOME_COMPLETED == 1 && OUTCOME_FAILED == 2 &&
                   OUTCOME_EXPIRED == 3 && OUTCOME_LOST == 4 && OUTCOME_RETURNED == 5 &&
                   OUTCOME_CANCELED == 6 && OUTCOME_GANG == 7 && OUTCOME_DEADLINE == 8 &&
                   OUTCOME_WORKER_SHUTDOWN == 9 && OUTCOME_INTERMITTENT_TASK == 10 &&
                   OUTCOME_MALFORMED_PAYLOAD == 11 && OUTCOME_RESOURCE_UNAVAILABLE == 12 &&
                   OUTCOME_INTERNAL_ERROR == 13 && OUTCOME_SUPERSEDED == 14,
               "stored outcomes keep their numbers");
_Static_assert(UNIQUE_NONE == 0 && UNIQUE_QUEUED == 1 && UNIQUE_ACTIVE == 2 && UNIQUE_EXISTS == 3,
               "stored scopes keep their numbers");
_Static_assert(CONDITION_NONE == 0 && CONDITION_OOM_KILLED == 1 && CONDITION_EVICTED == 2 &&
                   CONDITION_PREEMPTED == 3 && CONDITION_DEADLINE_EXCEEDED == 4 &&
                   CONDITION_UNSCHEDULABLE == 5 && CONDITION_LEASE_EXPIRED == 6,
               "stored conditions keep their numbers");
_Static_assert(NOTE_PROGRESS == 0 && NOTE_CHECKPOINT == 1 && NOTE_RESULT == 2,
               "stored notes keep their numbers");
_Static_assert(DEPEND_COMPLETED == 0 && DEPEND_DEAD == 1 && DEPEND_REMOVED == 2 &&
                   DEPEND_GONE == 3 && DEPEND_ALL_COMPLETED == 0 && DEPEND_ALL_ENDED == 1 &&
                   DEPEND_BLOCK == 0 && DEPEND_RUN == 1 && DEPEND_DIE == 2,
               "what is stored of dependencies keeps its numbers");
_Static_assert(RETRY_FALLBACK_UNSET == 0 && RETRY_FALLBACK_DEFAULT == 1 && RETRY_FALLBACK_FAIL == 2,
               "what is stored of queues without policies keeps its numbers");
_Static_assert(BUDGET_WHILE_IN_FLIGHT == 0 && BUDGET_TIME_BASED == 1,
               "stored strategies keep their numbers");
_Static_assert(CURVE_NONE == 0 && CURVE_POWER == 1, "stored shapes keep their numbers");

struct err record_check_format(struct str value)
{
    if (str_eq(value, STR(RECORD_FORMAT)))
        return err_none();
    return err_make(ERR_VERSION,
                    "the root directory has format %.*s and was written by a newer tenax; this "
                    "one, tenax " TENAX_VERSION ", knows format " RECORD_FORMAT
                    ": use the newer one",
                    (int)(value.len < 16 ? value.len : 16), value.at ? value.at : "");
}

/* --- writing --- */

static void write_field(struct writer *w, const struct job_field *f, const void *at)
{
    writer_varint(w, f->number);
    switch (f->kind) {
    case JOB_FIELD_TEXT:
        writer_text(w, *(const struct str *)at);
        break;
    case JOB_FIELD_NUMBER:
        writer_varint(w, *(const uint64_t *)at);
        break;
    case JOB_FIELD_INSTANT:
        writer_opt(w, ((const instant *)at)->ms);
        break;
    case JOB_FIELD_REAL:
        writer_double(w, *(const double *)at);
        break;
    }
}

void record_write_fields(struct writer *w, const struct job_fields *fields, const void *from)
{
    for (uint64_t left = fields->set(from); left; left &= left - 1) {
        const struct job_field *f = &fields->at[__builtin_ctzll(left)];
        write_field(w, f, (const char *)from + f->offset);
    }
    writer_byte(w, 0);
}

static void write_state(struct writer *w, const struct job_state *s)
{
    must(s->status < STATUS_COUNT && s->resolution < RESOLUTION_COUNT);
    writer_byte(w, s->status);
    writer_byte(w, s->resolution);
    writer_varint(w, s->priority);
    writer_opt(w, s->ready_at.ms);
    writer_opt(w, s->dequeued_at.ms);
    writer_opt(w, s->failed_at.ms);
    writer_opt(w, s->completed_at.ms);
    writer_opt(w, s->purge_at.ms);
    writer_varint(w, s->attempts);
    writer_varint(w, s->forgiven);
    writer_varint(w, s->runs);
    writer_varint(w, s->losses);
    writer_text(w, s->reason);
    writer_varint(w, s->token);
    writer_opt(w, s->lease_end.ms);
    writer_text(w, s->worker);
    record_write_fields(w, &job_extra_fields, &s->extras);
}

void record_write_terms(struct writer *w, int64_t retry_limit, const struct curve *backoff,
                        span completed, span dead)
{
    writer_opt(w, retry_limit);
    record_write_curve(w, backoff);
    writer_opt(w, completed.ms);
    writer_opt(w, dead.ms);
}

void record_write_curve(struct writer *w, const struct curve *c)
{
    writer_byte(w, c->shape);
    if (c->shape == CURVE_NONE)
        return;
    must(c->shape == CURVE_POWER);
    writer_zigzag(w, c->base.ms);
    writer_double(w, c->exponent);
    writer_zigzag(w, c->jitter.ms);
}

static bool goes_apart(const struct job *job)
{
    return job->payload.len > RECORD_APART_MIN;
}

static void write_batch(struct writer *w, const struct job_batch *b)
{
    must(b->key.len || !b->open);
    writer_byte(w, b->key.len == 0 ? BATCH_NONE : b->open ? BATCH_OPEN : BATCH_CLOSED);
    if (!b->key.len)
        return;
    writer_text(w, b->key);
    writer_text(w, b->when);
    writer_text(w, b->fold);
}

void record_write_job(struct writer *w, const struct job *job)
{
    writer_byte(w, RECORD_VERSION);
    writer_text(w, job->queue);
    writer_text(w, job->type);
    record_write_terms(w, job->retry_limit, &job->backoff, job->completed_retention,
                       job->dead_retention);
    writer_byte(w, job->unique_while);
    if (job->unique_while)
        writer_text(w, job->unique_key);
    write_batch(w, &job->batch);
    record_write_fields(w, &job_option_fields, &job->options);
    write_state(w, &job->state);
    writer_byte(w, goes_apart(job));
    if (!goes_apart(job))
        writer_text(w, job->payload);
}

static void write_payload(struct writer *w, struct str payload)
{
    writer_byte(w, RECORD_VERSION);
    writer_text(w, payload);
}

static void write_state_record(struct writer *w, const struct job_state *s)
{
    writer_byte(w, RECORD_VERSION);
    write_state(w, s);
}

static void write_container(struct writer *w, const struct container_result *c)
{
    writer_text(w, c->name);
    writer_byte(w, c->init);
    writer_zigzag(w, c->exit_code);
    writer_text(w, c->reason);
    writer_text(w, c->message);
    writer_zigzag(w, c->signal);
    writer_text(w, c->log);
}

void record_write_failure(struct writer *w, const struct failure *f)
{
    must(f->condition < CONDITION_COUNT && f->culprit < CULPRIT_COUNT);
    writer_text(w, f->message);
    writer_text(w, f->error_type);
    writer_text(w, f->backtrace);
    writer_zigzag(w, f->exit_code);
    writer_zigzag(w, f->signal);
    writer_opt(w, f->run_time.ms < 0 ? -1 : f->run_time.ms);
    writer_byte(w, f->condition);
    writer_text(w, f->node);
    writer_text(w, f->termination_message);
    writer_text(w, f->category);
    writer_text(w, f->subcategory);
    writer_text(w, f->hint);
    writer_text(w, f->pod_error);
    writer_varint(w, f->pod_event_count);
    for (size_t i = 0; i < f->pod_event_count; i++)
        writer_text(w, f->pod_events[i]);
    writer_varint(w, f->container_count);
    for (size_t i = 0; i < f->container_count; i++)
        write_container(w, &f->containers[i]);
    writer_byte(w, f->culprit);
    writer_text(w, f->culprit_evidence);
}

static void write_run(struct writer *w, const struct run *r)
{
    must(r->outcome < OUTCOME_COUNT);
    writer_byte(w, RUN_VERSION);
    writer_varint(w, r->index);
    writer_text(w, r->worker);
    writer_opt(w, r->ready_at.ms);
    writer_opt(w, r->taken_at.ms);
    writer_opt(w, r->lease_end.ms);
    writer_opt(w, r->ended_at.ms);
    writer_byte(w, r->outcome);
    writer_varint(w, r->attempt);
    writer_opt(w, r->retry_at.ms);
    writer_varint(w, (uint64_t)r->grace_end.ms);
    writer_text(w, r->reason);
    record_write_failure(w, &r->failure);
}

bool record_put_job(struct batch *b, const struct job *job)
{
    must(job->payload.at != NULL);
    RECORD_PUT(b, record_job_key(job->id), record_write_job(w, job));
    if (!goes_apart(job))
        return false;
    RECORD_PUT(b, record_payload_key(job->id), write_payload(w, job->payload));
    return true;
}

void record_put_state(struct batch *b, struct id id, const struct job_state *state)
{
    RECORD_PUT(b, record_state_key(id), write_state_record(w, state));
}

void record_put_run(struct batch *b, struct id id, const struct run *run)
{
    RECORD_PUT(b, record_run_key(id, run->index), write_run(w, run));
}

/* --- reading --- */

static void read_field(struct reader *r, const struct job_field *f, void *at)
{
    switch (f->kind) {
    case JOB_FIELD_TEXT:
        *(struct str *)at = reader_text(r, f->words);
        break;
    case JOB_FIELD_NUMBER:
        *(uint64_t *)at = reader_varint(r, f->words, UINT64_MAX);
        break;
    case JOB_FIELD_INSTANT:
        *(instant *)at = reader_instant(r, f->words);
        break;
    case JOB_FIELD_REAL:
        *(double *)at = reader_double(r, f->words);
        break;
    }
}

/* Reads into a zeroed struct. A field that is present must have a value, or the same struct would
 * have two encodings. */
void record_read_fields(struct reader *r, const struct job_fields *fields, void *to)
{
    uint64_t number = reader_varint(r, "fields", UINT32_MAX);
    for (size_t i = 0; number && i < fields->count; i++) {
        const struct job_field *f = &fields->at[i];
        if (f->number != number)
            continue;
        read_field(r, f, (char *)to + f->offset);
        if (!job_field_is_set(f, to))
            reader_fault(r, f->words);
        number = reader_varint(r, "fields", UINT32_MAX);
    }
    if (number)
        reader_fault(r, "fields");
}

static void read_state(struct reader *r, struct job_state *s)
{
    s->status = (enum status)reader_byte(r, "status", STATUS_COUNT - 1);
    s->resolution = (enum resolution)reader_byte(r, "resolution", RESOLUTION_COUNT - 1);
    s->priority = (uint16_t)reader_varint(r, "priority", UINT16_MAX);
    s->ready_at = reader_instant(r, "ready_at");
    s->dequeued_at = reader_instant(r, "dequeued_at");
    s->failed_at = reader_instant(r, "failed_at");
    s->completed_at = reader_instant(r, "completed_at");
    s->purge_at = reader_instant(r, "purge_at");
    s->attempts = (uint32_t)reader_varint(r, "attempts", UINT32_MAX);
    s->forgiven = (uint32_t)reader_varint(r, "forgiven attempts", s->attempts);
    s->runs = (uint32_t)reader_varint(r, "runs", UINT32_MAX);
    s->losses = (uint32_t)reader_varint(r, "losses", UINT32_MAX);
    s->reason = reader_text(r, "reason");
    s->token = reader_varint(r, "token", UINT64_MAX);
    s->lease_end = reader_instant(r, "lease_end");
    s->worker = reader_text(r, "worker");
    s->extras = (struct job_extras){0};
    record_read_fields(r, &job_extra_fields, &s->extras);
}

void record_read_terms(struct reader *r, int64_t *retry_limit, struct curve *backoff,
                       span *completed, span *dead)
{
    *retry_limit = reader_opt(r, "retry limit", JOB_RETRY_LIMIT_MAX);
    record_read_curve(r, backoff);
    *completed = reader_span(r, "completed retention");
    *dead = reader_span(r, "dead retention");
}

void record_read_curve(struct reader *r, struct curve *c)
{
    *c = (struct curve){.shape = (enum curve_shape)reader_byte(r, "backoff", CURVE_POWER)};
    if (c->shape == CURVE_NONE)
        return;
    c->base.ms = reader_zigzag(r, "backoff base");
    c->exponent = reader_double(r, "backoff exponent");
    c->jitter.ms = reader_zigzag(r, "backoff jitter");
}

static void read_batch(struct reader *r, struct job_batch *b)
{
    unsigned kind = reader_byte(r, "batch", BATCH_CLOSED);
    *b = (struct job_batch){.open = kind == BATCH_OPEN};
    if (kind == BATCH_NONE)
        return;
    b->key = reader_text(r, "batch key");
    if (b->key.len == 0)
        reader_fault(r, "batch key");
    b->when = reader_text(r, "batch when");
    b->fold = reader_text(r, "batch fold");
}

struct err record_read_job(struct str value, struct id id, struct job *job, bool *payload_apart)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "job"));
    *job = (struct job){.id = id}; /* also sets what no record has */
    job->queue = reader_text(&r, "queue");
    job->type = reader_text(&r, "type");
    record_read_terms(&r, &job->retry_limit, &job->backoff, &job->completed_retention,
                      &job->dead_retention);
    job->unique_while = (enum unique)reader_byte(&r, "unique scope", UNIQUE_COUNT - 1);
    job->unique_key = job->unique_while ? reader_text(&r, "unique key") : (struct str){0};
    read_batch(&r, &job->batch);
    record_read_fields(&r, &job_option_fields, &job->options);
    read_state(&r, &job->state);
    *payload_apart = reader_byte(&r, "payload", 1);
    job->payload = *payload_apart ? (struct str){NULL, 0} : reader_text(&r, "payload");
    return record_finish(&r, "job");
}

struct err record_read_payload(struct str value, struct str *payload)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "payload"));
    *payload = reader_text(&r, "payload");
    return record_finish(&r, "payload");
}

struct err record_read_state(struct str value, struct job_state *state)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "state"));
    read_state(&r, state);
    return record_finish(&r, "state");
}

static void read_container(struct reader *r, bool logs, struct container_result *c)
{
    c->name = reader_text(r, "container's name");
    c->init = reader_byte(r, "container's kind", 1);
    c->exit_code = reader_zigzag32(r, "container's exit code");
    c->reason = reader_text(r, "container's reason");
    c->message = reader_text(r, "container's message");
    c->condition = job_condition_of_container(c->reason);
    if (!logs)
        return;
    c->signal = reader_zigzag32(r, "container's signal");
    c->log = reader_text(r, "container's log");
}

static void read_events(struct reader *r, struct arena *a, struct failure *f)
{
    /* An event takes at least a byte. */
    f->pod_event_count = reader_varint(r, "count of pod events", reader_left(r));
    if (f->pod_event_count == 0)
        return;
    struct str *events = arena_zero(a, f->pod_event_count * sizeof *events);
    f->pod_events = events;
    for (size_t i = 0; i < f->pod_event_count && !r->bad; i++)
        events[i] = reader_text(r, "pod event");
}

static void read_containers(struct reader *r, bool logs, struct arena *a, struct failure *f)
{
    /* A container takes at least 5 bytes: the rest of the record limits their number. */
    f->container_count = reader_varint(r, "count of containers", reader_left(r) / 5);
    if (f->container_count == 0)
        return;
    struct container_result *c = arena_zero(a, f->container_count * sizeof *c);
    f->containers = c;
    for (size_t i = 0; i < f->container_count && !r->bad; i++)
        read_container(r, logs, &c[i]);
}

void record_read_failure(struct reader *r, unsigned version, struct arena *a, struct failure *f)
{
    f->message = reader_text(r, "message");
    f->error_type = reader_text(r, "error type");
    f->backtrace = reader_text(r, "backtrace");
    f->exit_code = reader_zigzag32(r, "exit code");
    f->signal = reader_zigzag32(r, "signal");
    f->run_time = reader_span(r, "run time");
    f->condition = (enum condition)reader_byte(r, "condition", CONDITION_COUNT - 1);
    f->node = reader_text(r, "node");
    f->termination_message = reader_text(r, "termination message");
    f->category = reader_text(r, "category");
    f->subcategory = reader_text(r, "subcategory");
    f->hint = reader_text(r, "hint");
    f->pod_error = reader_text(r, "pod error");
    read_events(r, a, f);
    read_containers(r, version >= 3, a, f);
    if (version < 4)
        return;
    f->culprit = (enum culprit)reader_byte(r, "culprit", CULPRIT_COUNT - 1);
    f->culprit_evidence = reader_text(r, "evidence");
}

struct err record_read_run(struct str value, struct arena *a, struct run *run)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "run", RUN_VERSION, &version));
    run->index = (uint32_t)reader_varint(&r, "index", UINT32_MAX);
    run->worker = reader_text(&r, "worker");
    run->ready_at = version >= 2 ? reader_instant(&r, "ready_at") : INSTANT_NONE;
    run->taken_at = reader_instant(&r, "taken_at");
    run->lease_end = reader_instant(&r, "lease_end");
    run->ended_at = reader_instant(&r, "ended_at");
    run->outcome = (enum outcome)reader_byte(&r, "outcome", OUTCOME_COUNT - 1);
    run->attempt = (uint32_t)reader_varint(&r, "attempt", UINT32_MAX);
    run->retry_at = reader_instant(&r, "retry_at");
    run->grace_end.ms = (int64_t)reader_varint(&r, "grace_end", INT64_MAX);
    run->reason = reader_text(&r, "reason");
    run->failure = (struct failure){0};
    record_read_failure(&r, version, a, &run->failure);
    return record_finish(&r, "run");
}
