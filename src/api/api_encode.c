/* SPDX-License-Identifier: Apache-2.0 */

/* From replies to JSON. */

#include "api/api_internal.h"
#include "base/quantity.h"
#include "core/tally.h"
#include "core/verdict.h"

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

void api_encode_backoff(struct buf *b, const struct curve *c)
{
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

void api_encode_batch(struct buf *b, const struct job_batch *batch)
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

void api_encode_names(struct buf *b, struct str names)
{
    struct str name;
    buf_byte(b, '[');
    for (bool first = true; query_item(&names, &name); first = false) {
        if (!first)
            buf_byte(b, ',');
        json_write_string(b, name);
    }
    buf_byte(b, ']');
}

/* The rule by its key: 16 digits that stay the same while its matchers do. */
static void encode_counts(struct buf *b, struct str counts)
{
    struct tally t;
    KEY(b, "retry_counts");
    buf_byte(b, '[');
    for (bool first = true; tally_next(&counts, &t); first = false) {
        buf_str(b, first ? STR("{\"policy\":") : STR(",{\"policy\":"));
        json_write_string(b, t.policy);
        KEY(b, "rule");
        if (t.rule == POLICY_DEFAULT_SLOT)
            buf_lit(b, "\"default\"");
        else
            api_encode_token(b, t.rule);
        INT_MEMBER(b, "count", t.count);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void encode_avoid(struct buf *b, const struct job_extras *x)
{
    KEY(b, "avoid_nodes");
    buf_byte(b, '[');
    json_write_string(b, x->avoid_node);
    buf_byte(b, ']');
    INT_MEMBER(b, "avoid_until", x->avoid_until.ms);
}

static void encode_grace(struct buf *b, const struct job_state *s)
{
    KEY(b, "grace");
    buf_lit(b, "{\"run\":");
    buf_int(b, (int64_t)s->runs - 1);
    INT_MEMBER(b, "until", s->extras.grace_end.ms);
    INT_MEMBER(b, "backoff_until", s->extras.backoff_end.ms);
    if (s->extras.terminated_at.ms)
        INT_MEMBER(b, "terminated_at", s->extras.terminated_at.ms);
    buf_byte(b, '}');
}

static uint64_t memory_of(const struct job *job)
{
    return job->state.extras.memory ? job->state.extras.memory : job->options.memory;
}

static void encode_memory(struct buf *b, const char *name, uint64_t bytes)
{
    buf_print(b, ",\"%s\":{\"memory\":\"", name);
    quantity_write(b, bytes);
    buf_lit(b, "\"}");
}

static void encode_gang(struct buf *b, const struct job *job)
{
    KEY(b, "gang");
    buf_lit(b, "{\"id\":");
    json_write_string(b, job->options.gang);
    INT_MEMBER(b, "cardinality", job->options.gang_size);
    INT_MEMBER(b, "generation", job->state.extras.gang_generation);
    if (job->gang_members) {
        INT_MEMBER(b, "members", job->gang_members);
        INT_MEMBER(b, "active", job->gang_active);
    }
    if (job->state.extras.gang_alone)
        buf_lit(b, ",\"alone\":true");
    buf_byte(b, '}');
}

void api_encode_options(struct buf *b, const struct job *job)
{
    api_encode_depends(b, &job->options);
    if (job->options.retry_policies.len) {
        KEY(b, "retry_policies");
        api_encode_names(b, job->options.retry_policies);
    }
    if (job->options.memory)
        encode_memory(b, "resources", memory_of(job));
    if (job->retry_limit != RETRY_LIMIT_DEFAULT)
        INT_MEMBER(b, "retry_limit", job->retry_limit);
    if (job->backoff.shape != CURVE_NONE) {
        KEY(b, "backoff");
        api_encode_backoff(b, &job->backoff);
    }
    if (job->completed_retention.ms >= 0 || job->dead_retention.ms >= 0)
        encode_retention(b, job);
    TEXT_MEMBER(b, "concurrency_key", job->options.concurrency_key);
    TEXT_MEMBER(b, "alias", job->options.alias);
    if (job->options.deadline.ms)
        INT_MEMBER(b, "deadline", job->options.deadline.ms);
    if (job->options.retain_until.ms)
        INT_MEMBER(b, "retain_until", job->options.retain_until.ms);
    if (job->options.when_no_policy)
        TEXT_MEMBER(b, "when_no_policy",
                    job->options.when_no_policy == RETRY_FALLBACK_FAIL ? STR("fail")
                                                                       : STR("default"));
    if (job->unique_while) {
        TEXT_MEMBER(b, "unique_key", job->unique_key);
        TEXT_MEMBER(b, "unique_while", str_from(job_unique_name(job->unique_while)));
    }
}

static void encode_error(struct buf *b, const struct job *job)
{
    if (!job->error.len && !job->error_type.len)
        return;
    KEY(b, "error");
    buf_lit(b, "{\"message\":");
    json_write_string(b, job->error);
    TEXT_MEMBER(b, "error_type", job->error_type);
    buf_byte(b, '}');
}

/* Where the job is, and since when. */
static void encode_state(struct buf *b, const struct job_state *s)
{
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
}

/* What its retries, its dependencies and its node have left in its state. */
static void encode_extras(struct buf *b, const struct job_state *s)
{
    if (s->losses)
        INT_MEMBER(b, "losses", s->losses);
    if (s->extras.retry_counts.len)
        encode_counts(b, s->extras.retry_counts);
    if (s->extras.grace_token)
        encode_grace(b, s);
    if (s->status == STATUS_BLOCKED) {
        KEY(b, "waits_for");
        api_encode_ids(b, s->extras.waits_for);
    }
    if (s->extras.avoid_node.len)
        encode_avoid(b, &s->extras);
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
    encode_state(b, s);
    encode_error(b, job);
    TEXT_MEMBER(b, "worker", job->worker);
    if (job->has_progress)
        api_encode_progress(b, &job->progress);
    encode_extras(b, s);
    api_encode_options(b, job);
    if (job->options.gang.len)
        encode_gang(b, job);
    if (s->extras.memory)
        encode_memory(b, "grown_from", job->options.memory);
    if (job->batch.key.len)
        api_encode_batch(b, &job->batch);
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

void api_encode_read(struct buf *b, const struct reply *r)
{
    encode_open_job(b, &r->jobs[0], ENCODE_PAYLOAD);
    api_encode_notes(b, r->notes);
    if (r->runs) {
        KEY(b, "runs");
        buf_byte(b, '[');
        for (size_t i = 0; i < r->run_count; i++) {
            if (i)
                buf_byte(b, ',');
            api_encode_run(b, &r->runs[i]);
        }
        buf_byte(b, ']');
    }
    buf_byte(b, '}');
}

void api_encode_enqueued(struct buf *b, const struct enqueued *e)
{
    encode_open_job(b, &e->job, 0);
    buf_str(b, e->duplicate ? STR(",\"duplicate\":true") : STR(",\"duplicate\":false"));
    buf_str(b, e->folded ? STR(",\"folded\":true}") : STR(",\"folded\":false}"));
}

void api_encode_handout(struct buf *b, const struct handout *h, unsigned how)
{
    encode_open_job(b, &h->job, how);
    INT_MEMBER(b, "run", h->run);
    KEY(b, "token");
    api_encode_token(b, h->token);
    INSTANT_MEMBER(b, "lease_expires_at", h->lease_end);
    if (h->checkpoint.text.len)
        api_encode_checkpoint(b, &h->checkpoint, how);
    buf_byte(b, '}');
}

static void encode_container(struct buf *b, const struct container_result *c)
{
    buf_lit(b, "{\"name\":");
    json_write_string(b, c->name);
    KEY(b, "init");
    buf_str(b, c->init ? STR("true") : STR("false"));
    INT_MEMBER(b, "exit_code", c->exit_code);
    TEXT_MEMBER(b, "reason", c->reason);
    TEXT_MEMBER(b, "message", c->message);
    buf_byte(b, '}');
}

static void encode_events(struct buf *b, const struct failure *f)
{
    if (f->pod_event_count == 0)
        return;
    KEY(b, "pod_events");
    for (size_t i = 0; i < f->pod_event_count; i++) {
        buf_byte(b, i ? ',' : '[');
        json_write_string(b, f->pod_events[i]);
    }
    buf_byte(b, ']');
}

/* What went wrong, beyond what the worker says of it. */
static void encode_what(struct buf *b, const struct failure *f)
{
    if (f->exit_code)
        INT_MEMBER(b, "exit_code", f->exit_code);
    if (f->signal)
        INT_MEMBER(b, "signal", f->signal);
    if (f->run_time.ms >= 0)
        INT_MEMBER(b, "run_ms", f->run_time.ms);
    if (f->condition)
        TEXT_MEMBER(b, "condition", str_from(job_condition_name(f->condition)));
    TEXT_MEMBER(b, "node", f->node);
    TEXT_MEMBER(b, "termination_message", f->termination_message);
    TEXT_MEMBER(b, "category", f->category);
    TEXT_MEMBER(b, "subcategory", f->subcategory);
    TEXT_MEMBER(b, "hint", f->hint);
    TEXT_MEMBER(b, "pod_error", f->pod_error);
    encode_events(b, f);
    if (f->container_count == 0)
        return;
    KEY(b, "containers");
    for (size_t i = 0; i < f->container_count; i++) {
        buf_byte(b, i ? ',' : '[');
        encode_container(b, &f->containers[i]);
    }
    buf_byte(b, ']');
}

void api_encode_run(struct buf *b, const struct run *run)
{
    const struct failure *f = &run->failure;
    buf_lit(b, "{\"run\":");
    buf_int(b, run->index);
    TEXT_OR_NULL(b, "worker", run->worker);
    INSTANT_OR_NULL(b, "ready_at", run->ready_at);
    INSTANT_OR_NULL(b, "taken_at", run->taken_at);
    INSTANT_OR_NULL(b, "lease_expires_at", run->lease_end);
    INSTANT_OR_NULL(b, "ended_at", run->ended_at);
    TEXT_OR_NULL(b, "outcome", str_from(job_outcome_name(run->outcome)));
    TEXT_OR_NULL(b, "reason", run->reason);
    if (run->attempt)
        INT_MEMBER(b, "attempt", run->attempt);
    INSTANT_MEMBER(b, "retry_at", run->retry_at);
    if (run->grace_end.ms)
        INT_MEMBER(b, "grace_ends_at", run->grace_end.ms);
    TEXT_MEMBER(b, "message", f->message);
    TEXT_MEMBER(b, "error_type", f->error_type);
    encode_what(b, f);
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
    encode_what(b, f);
    buf_byte(b, '}');
}

static void encode_ruling(struct buf *b, const struct ruling *r)
{
    if (r->by != DECIDER_NONE)
        TEXT_MEMBER(b, "decided_by", str_from(verdict_decider_name(r->by)));
    if (r->limit < 0)
        return;
    TEXT_MEMBER(b, "policy", r->policy);
    if (r->policy.len && r->rule >= 0)
        INT_MEMBER(b, "rule", r->rule + 1); /* as the words of a reason count them */
    INT_MEMBER(b, "count", r->count);
    INT_MEMBER(b, "limit", r->limit);
}

static void encode_status(struct buf *b, enum status s)
{
    if (s == STATUS_GONE)
        buf_lit(b, "null");
    else
        json_write_string(b, str_from(lifecycle_status_name(s)));
}

void api_encode_event(struct buf *b, const struct job_event *ev)
{
    bool again = ev->event == EVENT_RETRY || ev->event == EVENT_RETRY_NOW;
    buf_lit(b, "{\"event\":");
    json_write_string(b, str_from(lifecycle_event_kind(ev->event)));
    INT_MEMBER(b, "number", ev->number);
    INT_MEMBER(b, "at", ev->at.ms);
    KEY(b, "id");
    api_encode_id(b, ev->id);
    TEXT_OR_NULL(b, "queue", ev->queue);
    TEXT_OR_NULL(b, "type", ev->type);
    KEY(b, "cause");
    json_write_string(b, str_from(lifecycle_event_name(ev->event)));
    KEY(b, "from");
    encode_status(b, ev->from);
    KEY(b, "to");
    encode_status(b, ev->to);
    if (ev->removed)
        buf_lit(b, ",\"removed\":true");
    if (ev->run >= 0) {
        INT_MEMBER(b, "run", ev->run);
        INT_MEMBER(b, "attempt", ev->attempt);
    }
    TEXT_MEMBER(b, "worker", ev->worker);
    TEXT_MEMBER(b, "reason", ev->reason);
    if (again) {
        INSTANT_MEMBER(b, "retry_at", ev->ready_at);
        INT_MEMBER(b, "delay_ms", ev->ready_at.ms - ev->at.ms);
    } else {
        INSTANT_MEMBER(b, "ready_at", ev->ready_at);
    }
    encode_ruling(b, &ev->ruling);
    buf_byte(b, '}');
}
