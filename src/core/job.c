/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job.h"

#include "base/err.h"
#include "base/must.h"
#include "base/utf8.h"

enum condition job_condition_of_container(struct str reason)
{
    enum condition c;
    return job_condition_parse(reason, &c) && c == CONDITION_OOM_KILLED ? c : CONDITION_NONE;
}

const char *job_outcome_name(enum outcome o)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_RUNNING] = "running",
        [OUTCOME_COMPLETED] = "completed",
        [OUTCOME_FAILED] = "failed",
        [OUTCOME_EXPIRED] = "claim-expired",
        [OUTCOME_LOST] = "worker-lost",
        [OUTCOME_RETURNED] = "returned",
        [OUTCOME_CANCELED] = "canceled",
        [OUTCOME_GANG] = "gang-retried",
        [OUTCOME_DEADLINE] = "deadline-exceeded",
        [OUTCOME_WORKER_SHUTDOWN] = "worker-shutdown",
        [OUTCOME_INTERMITTENT_TASK] = "intermittent-task",
        [OUTCOME_MALFORMED_PAYLOAD] = "malformed-payload",
        [OUTCOME_RESOURCE_UNAVAILABLE] = "resource-unavailable",
        [OUTCOME_INTERNAL_ERROR] = "internal-error",
        [OUTCOME_SUPERSEDED] = "superseded",
    };
    must(o < OUTCOME_COUNT);
    return names[o];
}

bool job_resolution_parse(struct str name, enum resolution *r)
{
    for (int i = RESOLUTION_NONE + 1; i < RESOLUTION_COUNT; i++) {
        *r = (enum resolution)i;
        if (str_eq(name, str_from(job_resolution_name(*r))))
            return true;
    }
    return false;
}

bool job_outcome_is_exception(enum outcome o)
{
    return o >= OUTCOME_WORKER_SHUTDOWN && o <= OUTCOME_SUPERSEDED;
}

bool job_exception_parse(struct str name, enum outcome *o)
{
    for (int i = OUTCOME_WORKER_SHUTDOWN; i <= OUTCOME_SUPERSEDED; i++) {
        if (str_eq(name, str_from(job_outcome_name((enum outcome)i)))) {
            *o = (enum outcome)i;
            return true;
        }
    }
    return false;
}

enum resolution job_outcome_resolution(enum outcome o)
{
    if (job_outcome_is_exception(o))
        return (enum resolution)(RESOLUTION_WORKER_SHUTDOWN + (o - OUTCOME_WORKER_SHUTDOWN));
    return o == OUTCOME_EXPIRED ? RESOLUTION_CLAIM_EXPIRED : RESOLUTION_FAILED;
}

const char *job_resolution_name(enum resolution r)
{
    switch (r) {
    case RESOLUTION_WORKER_SHUTDOWN:
    case RESOLUTION_INTERMITTENT_TASK:
    case RESOLUTION_MALFORMED_PAYLOAD:
    case RESOLUTION_RESOURCE_UNAVAILABLE:
    case RESOLUTION_INTERNAL_ERROR:
    case RESOLUTION_SUPERSEDED:
        return job_outcome_name(
            (enum outcome)(OUTCOME_WORKER_SHUTDOWN + (r - RESOLUTION_WORKER_SHUTDOWN)));
    case RESOLUTION_NONE:
        return NULL;
    case RESOLUTION_FAILED:
        return "failed";
    case RESOLUTION_CLAIM_EXPIRED:
        return "claim-expired";
    case RESOLUTION_CANCELED:
        return "canceled";
    case RESOLUTION_DEPENDENCY:
        return "dependency-dead";
    case RESOLUTION_DEADLINE:
        return "deadline-exceeded";
    case RESOLUTION_POISON:
        return "poison";
    case RESOLUTION_WAIT:
        return "wait-exceeded";
    case RESOLUTION_GANG:
        return "gang-dead";
    case RESOLUTION_COUNT:
        break;
    }
    must(false);
    return NULL;
}

static const char *const condition_names[CONDITION_COUNT] = {
    [CONDITION_OOM_KILLED] = "OOMKilled",        [CONDITION_EVICTED] = "Evicted",
    [CONDITION_PREEMPTED] = "Preempted",         [CONDITION_DEADLINE_EXCEEDED] = "DeadlineExceeded",
    [CONDITION_UNSCHEDULABLE] = "Unschedulable", [CONDITION_LEASE_EXPIRED] = "LeaseExpired",
};

const char *job_condition_name(enum condition c)
{
    must(c < CONDITION_COUNT);
    return condition_names[c];
}

bool job_condition_parse(struct str name, enum condition *c)
{
    for (int i = CONDITION_NONE + 1; i < CONDITION_COUNT; i++) {
        if (str_eq(name, str_from(condition_names[i]))) {
            *c = (enum condition)i;
            return true;
        }
    }
    return false;
}

bool job_condition_parse_reported(struct str name, enum condition *c)
{
    return job_condition_parse(name, c) && *c != CONDITION_LEASE_EXPIRED;
}

static const char *const unique_names[UNIQUE_COUNT] = {
    [UNIQUE_QUEUED] = "queued", [UNIQUE_ACTIVE] = "active", [UNIQUE_EXISTS] = "exists"};

enum job_kind job_kind(const struct job *job)
{
    const struct job_options *o = &job->options;
    bool plain = o->gang.len == 0 && o->concurrency_key.len == 0;
    return plain && o->alias.len && str_eq(job->type, STR(JOB_TYPE_TASK)) ? KIND_TASK : KIND_JOB;
}

const char *job_unique_name(enum unique u)
{
    must(u < UNIQUE_COUNT);
    return unique_names[u];
}

bool job_unique_parse(struct str name, enum unique *u)
{
    for (int i = UNIQUE_QUEUED; i < UNIQUE_COUNT; i++) {
        if (str_eq(name, str_from(unique_names[i]))) {
            *u = (enum unique)i;
            return true;
        }
    }
    return false;
}

static bool is_reserved(unsigned char c)
{
    return c < 0x20 || c == 0x7f || (c != '\0' && strchr(",*?[]{}\\", c));
}

/* What needs no second look in a name. */
static const bool is_plain[256] = {
    [' ' ... ')'] = true, ['+'] = true, ['-' ... '>'] = true, ['@' ... 'Z'] = true,
    ['^' ... 'z'] = true, ['|'] = true, ['~'] = true,
};

static bool is_plain_name(struct str name)
{
    bool plain = name.len > 0 && name.len <= JOB_NAME_MAX;
    for (size_t i = 0; plain && i < name.len; i++)
        plain = is_plain[(unsigned char)name.at[i]];
    return plain;
}

struct err job_check_name(struct str name, const char *what)
{
    if (is_plain_name(name))
        return err_none();
    if (name.len == 0)
        return err_make(ERR_BAD_NAME, "%s must not be empty", what);
    if (name.len > JOB_NAME_MAX)
        return err_make(ERR_BAD_NAME, "%s is %zu bytes long; at most %d are allowed", what,
                        name.len, JOB_NAME_MAX);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c < 0x20 || c == 0x7f)
            return err_make(ERR_BAD_NAME, "%s has a control character (0x%02x) at byte %zu", what,
                            c, i);
        if (is_reserved(c))
            return err_make(ERR_BAD_NAME,
                            "%s has the reserved character '%c' at byte %zu; "
                            "none of , * ? [ ] { } \\ is allowed",
                            what, c, i);
    }
    if (utf8_check(name) != name.len)
        return err_make(ERR_BAD_UTF8, "%s is not valid UTF-8", what);
    return err_none();
}
