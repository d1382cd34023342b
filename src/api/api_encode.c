/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs in answers. */

#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/quantity.h"
#include "core/culprit_ledger.h"
#include "core/depend.h"
#include "core/tally.h"

/* --- values --- */

void api_encode_token(struct buf *b, uint64_t token)
{
    static const char digits[] = "0123456789abcdef";
    char text[18];
    text[0] = text[17] = '"';
    for (int i = 0; i < 16; i++)
        text[1 + i] = digits[token >> (60 - 4 * i) & 15];
    buf_add(b, text, sizeof text);
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

/* --- what only some jobs have --- */

#define JOB_IS(name, condition)                                                                    \
    static inline bool name(const void *owner)                                                     \
    {                                                                                              \
        const struct job *job = owner;                                                             \
        return condition;                                                                          \
    }
JOB_IS(has_error, job->error.len || job->error_type.len)
JOB_IS(has_progress, job->has_progress)
JOB_IS(has_counts, job->state.extras.retry_counts.len != 0)
JOB_IS(has_free, job->state.extras.culprit_counts.len != 0)
JOB_IS(has_grace, job->state.extras.grace_token != 0)
JOB_IS(has_ended_grace, job->state.extras.terminated_at.ms != 0)
JOB_IS(is_blocked, job->state.status == STATUS_BLOCKED)
JOB_IS(has_avoided, job->state.extras.avoid_node.len != 0)
JOB_IS(has_dependencies, job->options.depends_on.len != 0)
JOB_IS(has_policies, job->options.retry_policies.len != 0)
JOB_IS(has_budgets, job->options.budgets.len != 0)
JOB_IS(has_resources, (job->options.memory | job->options.cpu) != 0)
JOB_IS(has_grown, (job->state.extras.memory | job->state.extras.cpu) != 0)
JOB_IS(has_retry_limit, job->retry_limit != RETRY_LIMIT_DEFAULT)
JOB_IS(has_backoff, job->backoff.shape != CURVE_NONE)
JOB_IS(has_retention, job->completed_retention.ms >= 0 || job->dead_retention.ms >= 0)
JOB_IS(has_deadline, job->options.deadline.ms != 0)
JOB_IS(has_retained, job->options.retain_until.ms != 0)
JOB_IS(is_fail_fast, job->options.fail_fast != 0)
JOB_IS(is_held, job->state.extras.held != 0)
JOB_IS(has_pending_runs, job->options.pending_runs != 0)
JOB_IS(is_unique, job->unique_while != UNIQUE_NONE)
JOB_IS(has_gang, job->options.gang.len != 0)
JOB_IS(is_counted, job->gang_members != 0)
JOB_IS(is_alone, job->state.extras.gang_alone != 0)
JOB_IS(has_batch, job->batch.key.len != 0)

static const struct shape_member error_members[] = {
    {MEMBER(struct job, error, "message", ALWAYS, NULL)},
    {MEMBER(struct job, error_type, "error_type", IF_SET, NULL)},
};
static const struct shape error_shape = {SHAPE_MEMBERS(error_members)};

static void write_rule(struct buf *b, const void *field)
{
    uint64_t rule = *(const uint64_t *)field;
    if (rule == POLICY_DEFAULT_SLOT)
        buf_lit(b, "\"default\"");
    else
        api_encode_token(b, rule);
}

static const struct shape_member count_members[] = {
    {MEMBER(struct tally, policy, "policy", ALWAYS, NULL)},
    {MEMBER_OTHER(struct tally, rule, "rule", ALWAYS, "string", write_rule,
                  "default, or 16 digits that stay the same while its matchers do")},
    {MEMBER(struct tally, count, "count", ALWAYS, NULL)},
};
const struct shape api_retry_count_shape = {.name = "RetryCount", SHAPE_MEMBERS(count_members)};

static void write_counts(struct buf *b, const void *job)
{
    struct str counts = ((const struct job *)job)->state.extras.retry_counts;
    struct tally t;
    buf_byte(b, '[');
    for (bool first = true; tally_next(&counts, &t); first = false) {
        if (!first)
            buf_byte(b, ',');
        shape_write(b, &api_retry_count_shape, &t, SHAPE_AS_IT_IS);
    }
    buf_byte(b, ']');
}

static void write_free(struct buf *b, const void *job)
{
    struct culprit_ledger l =
        culprit_ledger_read(((const struct job *)job)->state.extras.culprit_counts);
    buf_int(b, culprit_ledger_free(&l));
}

static void write_newest_run(struct buf *b, const void *job)
{
    buf_int(b, (int64_t)((const struct job *)job)->state.runs - 1);
}

static const struct shape_member grace_members[] = {
    {MEMBER_MADE("run", ALWAYS, "integer 0..", write_newest_run, "its index")},
    {MEMBER(struct job, state.extras.grace_end, "until", ALWAYS, "end of the grace period")},
    {MEMBER(struct job, state.extras.backoff_end, "backoff_until", ALWAYS, "end of the backoff")},
    {MEMBER(struct job, state.extras.terminated_at, "terminated_at", IF_SET,
            "when the old run was said to have ended", .is_set = has_ended_grace)},
};
static const struct shape grace_shape = {SHAPE_MEMBERS(grace_members)};

static void write_waits_for(struct buf *b, const void *job)
{
    api_encode_ids(b, ((const struct job *)job)->state.extras.waits_for);
}

static void write_avoided(struct buf *b, const void *field)
{
    buf_byte(b, '[');
    json_write_string(b, *(const struct str *)field);
    buf_byte(b, ']');
}

static const struct shape_member avoided_members[] = {
    {MEMBER_OTHER(struct job, state.extras.avoid_node, "avoid_nodes", ALWAYS, "string[]",
                  write_avoided, "nodes that its next run is to stay off")},
    {MEMBER(struct job, state.extras.avoid_until, "avoid_until", ALWAYS,
            "until then that is required")},
};
static const struct shape avoided_shape = {SHAPE_MEMBERS(avoided_members)};

static void write_depends_on(struct buf *b, const void *field)
{
    api_encode_ids(b, *(const struct str *)field);
}

static const struct shape_member dependency_members[] = {
    {MEMBER_OTHER(struct job, options.depends_on, "depends_on", ALWAYS, "JobId[]", write_depends_on,
                  "jobs that it was to wait for")},
    {MEMBER_WORD(struct job, options.depend_when, "when", ALWAYS, &api_when_words, NULL)},
    {MEMBER_WORD(struct job, options.depend_death, "on_dependency_death", ALWAYS, &api_death_words,
                 NULL)},
};
static const struct shape dependency_shape = {SHAPE_MEMBERS(dependency_members)};

static void write_policies(struct buf *b, const void *job)
{
    api_encode_names(b, ((const struct job *)job)->options.retry_policies);
}

static void write_budgets(struct buf *b, const void *job)
{
    api_encode_budgets(b, ((const struct job *)job)->options.budgets);
}

struct resources {
    uint64_t memory, cpu;
};

static void write_quantity(struct buf *b, const void *field)
{
    buf_byte(b, '"');
    quantity_write(b, *(const uint64_t *)field);
    buf_byte(b, '"');
}

static void write_cpu(struct buf *b, const void *field)
{
    buf_byte(b, '"');
    quantity_write_cpu(b, *(const uint64_t *)field);
    buf_byte(b, '"');
}

static const struct shape_member resources_members[] = {
    {MEMBER_OTHER(struct resources, memory, "memory", IF_SET, "string", write_quantity,
                  "a quantity: \"2Gi\"")},
    {MEMBER_OTHER(struct resources, cpu, "cpu", IF_SET, "string", write_cpu,
                  "processors: \"1500m\"")},
};
const struct shape api_resources_shape = {
    .name = "Resources", SHAPE_MEMBERS(resources_members), .doc = "what a run needs"};

static void write_resources(struct buf *b, const void *owner)
{
    const struct job *job = owner;
    const struct job_extras *x = &job->state.extras;
    struct resources r = {x->memory ? x->memory : job->options.memory,
                          x->cpu ? x->cpu : job->options.cpu};
    shape_write(b, &api_resources_shape, &r, SHAPE_AS_IT_IS);
}

static void write_grown_from(struct buf *b, const void *owner)
{
    const struct job *job = owner;
    struct resources r = {job->state.extras.memory ? job->options.memory : 0,
                          job->state.extras.cpu ? job->options.cpu : 0};
    shape_write(b, &api_resources_shape, &r, SHAPE_AS_IT_IS);
}

static const struct shape_member backoff_members[] = {
    {MEMBER(struct curve, base, "base_ms", ALWAYS, NULL, .type = "integer -1000..")},
    {MEMBER(struct curve, exponent, "exponent", ALWAYS, NULL)},
    {MEMBER(struct curve, jitter, "jitter_ms", ALWAYS, NULL)},
};
const struct shape api_backoff_shape = {.name = "Backoff", SHAPE_MEMBERS(backoff_members)};

static const struct shape_member retention_members[] = {
    {MEMBER(struct job, completed_retention, "completed_ms", IF_SET, NULL)},
    {MEMBER(struct job, dead_retention, "dead_ms", IF_SET, NULL)},
};
static const struct shape retention_shape = {
    .name = "Retention", SHAPE_MEMBERS(retention_members), .doc = "how long an ended job is kept"};

static const struct shape_member unique_members[] = {
    {MEMBER(struct job, unique_key, "unique_key", ALWAYS, NULL)},
    {MEMBER_WORD(struct job, unique_while, "unique_while", ALWAYS, &api_unique_words, NULL)},
};
static const struct shape unique_shape = {SHAPE_MEMBERS(unique_members)};

static void write_true(struct buf *b, const void *job)
{
    (void)job;
    buf_lit(b, "true");
}

static const struct shape_member gang_members[] = {
    {MEMBER(struct job, options.gang, "id", ALWAYS, NULL)},
    {MEMBER(struct job, options.gang_size, "cardinality", ALWAYS, NULL, .type = "integer 1..")},
    {MEMBER(struct job, state.extras.gang_generation, "generation", ALWAYS, NULL)},
    {MEMBER(struct job, gang_members, "members", IF_SET, "that there are")},
    {MEMBER(struct job, gang_active, "active", IF_SET, "of them, those that have not ended",
            .is_set = is_counted)},
    {MEMBER_MADE("alone", IF_SET, "boolean", write_true,
                 "it has lost its gang and is handed out by itself", .is_set = is_alone)},
};
static const struct shape gang_shape = {.name = "Gang", SHAPE_MEMBERS(gang_members)};

static const struct shape_member batch_members[] = {
    {MEMBER(struct job_batch, key, "key", ALWAYS, NULL)},
    {MEMBER(struct job_batch, when, "when", ALWAYS, "jq: whether to fold")},
    {MEMBER(struct job_batch, fold, "fold", ALWAYS, "jq: into what")},
};
static const struct shape batch_shape = {.name = "Batch", SHAPE_MEMBERS(batch_members)};

static const struct shape_member job_batch_members[] = {
    {MEMBER_OBJECT(struct job, batch, "batch", IF_SET, &batch_shape, NULL), .is_set = has_batch},
};
const struct shape api_job_batch_shape = {SHAPE_MEMBERS(job_batch_members)};

/* --- the rows as tables --- */

#define OWNER struct job
#include "api/api_rows_table.h"
static const struct shape_member option_members[] = {
#define OPTIONS
#include "api/api_job.def"
#undef OPTIONS
};

static const struct shape_member head_members[] = {
#define HEAD
#include "api/api_job.def"
#undef HEAD
    {MEMBERS_INNER(&api_job_options_shape)},
#define TAIL
#include "api/api_job.def"
#undef TAIL
};

static const struct shape_member listed_members[] = {
#define LISTED
#include "api/api_job.def"
#undef LISTED
};

/* --- the rows as code --- */

#include "api/api_rows_code.h"

static void write_options(struct buf *b, const void *owner)
{
    const struct job *o = owner;
#define OPTIONS
#include "api/api_job.def"
#undef OPTIONS
}

static void write_head(struct buf *b, const void *owner)
{
    const struct job *o = owner;
#define HEAD
#include "api/api_job.def"
#undef HEAD
    write_options(b, owner);
#define TAIL
#include "api/api_job.def"
#undef TAIL
}

static void write_listed(struct buf *b, const void *owner)
{
    const struct job *o = owner;
#define LISTED
#include "api/api_job.def"
#undef LISTED
}

const struct shape api_job_options_shape = {SHAPE_MEMBERS(option_members), .write = write_options};
const struct shape api_job_head_shape = {SHAPE_MEMBERS(head_members), .write = write_head};
const struct shape api_job_listed_shape = {SHAPE_MEMBERS(listed_members), .write = write_listed};

/* --- jobs --- */

static const struct shape_member payload_members[] = {
    {MEMBER_JSON(struct job, payload, "payload", ALWAYS, "any JSON, byte for byte as it came")},
};
const struct shape api_payload_shape = {SHAPE_MEMBERS(payload_members)};

static const struct shape_member job_members[] = {
    {MEMBERS_INNER(&api_job_head_shape)},
    {MEMBERS_INNER(&api_job_listed_shape)},
    {MEMBER_JSON(struct job, payload, "payload", IF_SET, "any JSON, byte for byte as it came")},
};
const struct shape api_job_shape = {.name = "Job", SHAPE_MEMBERS(job_members)};

static const struct shape_member enqueued_members[] = {
    {MEMBERS_OF(struct enqueued, job, &api_job_head_shape)},
    {MEMBER(struct enqueued, duplicate, "duplicate", ALWAYS,
            "this job, which was there, holds the unique key or the alias")},
    {MEMBER(struct enqueued, folded, "folded", ALWAYS, "the payload went into this job")},
    {MEMBER(struct enqueued, as_requested, "as_requested", IF_SET,
            "the request is repeated, and of its first answer the id is kept: the rest is what the "
            "request says")},
};
const struct shape api_enqueued_shape = {.name = "Enqueued", SHAPE_MEMBERS(enqueued_members)};

static void write_token(struct buf *b, const void *field)
{
    api_encode_token(b, *(const uint64_t *)field);
}

static bool has_checkpoint(const void *handout)
{
    return ((const struct handout *)handout)->checkpoint.text.len != 0;
}

static const struct shape_member handout_members[] = {
    {MEMBERS_OF(struct handout, job, &api_job_head_shape)},
    {MEMBERS_OF(struct handout, job, &api_payload_shape)},
    {MEMBER(struct handout, run, "run", ALWAYS, "its index")},
    {MEMBER_OTHER(struct handout, token, "token", ALWAYS, "string /^[0-9a-f]{16}$/", write_token,
                  "fences off older runs")},
    {MEMBER(struct handout, lease_end, "lease_expires_at", IF_SET,
            "end of the lease; not there on a stream")},
    {MEMBERS_OF(struct handout, checkpoint, &api_checkpoint_shape), .is_set = has_checkpoint},
};
const struct shape api_handout_shape = {.name = "Handout", SHAPE_MEMBERS(handout_members)};
