/* SPDX-License-Identifier: Apache-2.0 */
#include "client/whose.h"

#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "client/view.h"

#define WHOSE_JOB    "id queue type status"
#define WHOSE_CANARY "id canaries"
#define WHOSE_GROUP  "name unended"
#define WHOSE_QUEUE  "name paused jobs"
#define WHOSE_TC_RUN "/api/queue/v1/task/*/runs/*"

/* How requests are answered when they are done. A * stands for one segment of a path; of several
 * rows that fit, the first counts. Members are those that are never null: all of these, and of a|b
 * one. */
struct whose_rule {
    const char *method, *path;
    int status, or_status;
    const char *members; /* "": any JSON, or nothing */
};

static const struct whose_rule successes[] = {
    {"POST", "/jobs", 201, 200, WHOSE_JOB},
    {"GET", "/jobs", 200, 0, "jobs"},
    {"DELETE", "/jobs", 200, 0, "deleted|count"},
    {"PATCH", "/jobs", 200, 0, "patched|count"},
    {"POST", "/jobs/cancel", 200, 0, "canceled|count"},
    {"POST", "/jobs/retry", 200, 202, "retried|count"},
    {"POST", "/jobs/bulk", 201, 200, "jobs"},
    {"POST", "/jobs/claim", 200, 0, "jobs"},
    {"DELETE", "/jobs/claim", 200, 0, "withdrawn"},
    {"DELETE", "/*/*", 204, 0, ""}, /* one of anything */
    {"DELETE", "/*/*/*/*", 204, 0, ""},
    {"POST", "/jobs/success", 204, 0, ""},
    {"POST", "/jobs/renew", 200, 0, "jobs"},
    {"POST", "/jobs/reports", 200, 0, "reports"},
    {"GET", "/jobs/count", 200, 0, "count"},
    {"GET", "/jobs/take", 200, 0, ""},
    {"POST", "/jobs/*/claim", 200, 0, WHOSE_JOB " token"},
    {"POST", "/jobs/*/success", 204, 0, ""},
    {"POST", "/jobs/*/release", 204, 0, ""},
    {"POST", "/jobs/*/progress", 204, 0, ""},
    {"POST", "/jobs/*/renew", 200, 0, "lease_expires_at"},
    {"POST", "/jobs/*/*", 200, 0, WHOSE_JOB}, /* failure, terminated, cancel, retry */
    {"GET", "/jobs/*", 200, 0, WHOSE_JOB},
    {"PATCH", "/jobs/*", 200, 0, WHOSE_JOB},
    {"GET", "/jobs/*/runs", 200, 0, "runs"},
    {"GET", "/jobs/*/errors", 200, 0, "errors"},
    {"GET", "/jobs/*/errors/*", 200, 0, "attempt run"},
    {"GET", "/jobs/*/explain", 200, 0, "id summary"},
    {"GET", "/explain", 200, 0, "queues"},
    {"GET", "/events", 200, 0, ""},
    {"GET", "/canary-retries", 200, 0, "canary_retries"},
    {"GET", "/canary-retries/*", 200, 0, WHOSE_CANARY},
    {"POST", "/canary-retries/*/*", 200, 0, WHOSE_CANARY},
    {"GET", "/failure-groups", 200, 0, "failure_groups"},
    {"GET", "/failure-groups/*", 200, 0, "group message"},
    {"GET", "/operations", 200, 0, "operations"},
    {"GET", "/operations/*", 200, 0, "id kind state"},
    {"POST", "/operations/*/*", 200, 0, "id kind state"},
    {"GET", "/workers", 200, 0, "workers"},
    {"GET", "/workers/*", 200, 0, "name in_flight"},
    {"PUT", "/workers/*/notice", 204, 0, ""},
    {"POST", "/workers/*/quiet", 200, 0, "name in_flight"},
    {"POST", "/workers/*/resume", 204, 0, ""},
    {"POST", "/workers/*/stop", 200, 0, "returned"},
    {"GET", "/groups/*", 200, 0, WHOSE_GROUP},
    {"POST", "/groups/*/seal", 200, 0, WHOSE_GROUP},
    {"GET", "/queues", 200, 0, "queues"},
    {"POST", "/queues", 201, 0, WHOSE_QUEUE},
    {"GET", "/queues/*", 200, 0, WHOSE_QUEUE},
    {"PUT", "/queues/*", 200, 0, WHOSE_QUEUE},
    {"PATCH", "/queues/*", 200, 0, WHOSE_QUEUE},
    {"GET", "/queues/*/next", 200, 0, "jobs"},
    {"GET", "/budgets", 200, 0, "budgets"},
    {"POST", "/budgets/*", 201, 0, "key allocation"},
    {"*", "/budgets/*", 200, 0, "key allocation"},
    {"GET", "/crons", 200, 0, "crons"},
    {"DELETE", "/crons", 200, 0, "deleted"},
    {"POST", "/crons/*/entries", 201, 0, "name expression"},
    {"*", "/crons/*/entries/*", 200, 0, "name expression"},
    {"*", "/crons/*", 200, 0, "name entries"},
    {"POST", "/retry-policies/simulate", 200, 0, "jobs summary"},
    {"GET", "/retry-policies", 200, 0, "items"},
    {"GET", "/failure-categories", 200, 0, "items"},
    {"POST", "/retry-policies", 201, 0, "kind metadata"},
    {"POST", "/failure-categories", 201, 0, "kind metadata"},
    {"*", "/retry-policies/*", 200, 0, "kind metadata"},
    {"*", "/failure-categories/*", 200, 0, "kind metadata"},
    {"*", "/settings/retry", 200, 0, "globalMaxRetries"},
    {"GET", "/servers", 200, 0, "epoch servers"},
    {"POST", "/servers/step-down", 202, 0, "epoch"},
    {"POST", "/reset", 204, 200, "count"},
    {"GET", "/", 200, 0, "name version"},
    {"GET", "/health", 200, 0, "status"},
    {"POST", "/clock/reset", 200, 0, "from to corrected"},
    {"GET", "/version", 200, 0, "version"},
    {"GET", "/rights", 200, 0, "kind roles rights"},
    {"POST", "/tokens", 201, 0, "id token"},
    {"GET", "/tokens", 200, 0, "tokens"},
    {"GET", "/audit", 200, 0, "entries"},
    {"POST", "/backup", 200, 0, ""},
    {"POST", "/compact", 204, 0, ""},

    {"POST", "/api/queue/v1/claim-work/*", 200, 0, "tasks"},
    {"GET", "/api/queue/v1/poll-task-url/*", 200, 0, "queues"},
    {"POST", "/api/queue/v1/poll-task-url/*", 200, 0, "queues"},
    {"POST", WHOSE_TC_RUN "/reclaim", 200, 0, "status"},
    {"POST", WHOSE_TC_RUN "/claim", 200, 0, "status"},
    {"POST", WHOSE_TC_RUN "/completed", 200, 0, "status"},
    {"POST", WHOSE_TC_RUN "/failed", 200, 0, "status"},
    {"POST", WHOSE_TC_RUN "/exception", 200, 0, "status"},
    {"POST", WHOSE_TC_RUN "/artifacts/*", 200, 0, "storageType"},
};

static bool path_fits(const char *pattern, const char *path, size_t len)
{
    const char *end = path + len;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (path == end || *path++ != *pattern)
                return false;
            continue;
        }
        const char *from = path;
        while (path < end && *path != '/')
            path++;
        if (path == from)
            return false;
    }
    return path == end;
}

const struct whose_rule *whose_expects(const char *method, const char *path)
{
    const char *api = strstr(path, "/api/"); /* of Taskcluster, perhaps below a path of its own */
    size_t len = strcspn(path, "?#");
    if (api && api < path + len) {
        len -= (size_t)(api - path);
        path = api;
    }
    for (size_t i = 0; i < COUNT(successes); i++) {
        const struct whose_rule *s = &successes[i];
        bool same = *s->method == '*' || strcmp(s->method, method) == 0;
        if (same && path_fits(s->path, path, len))
            return s;
    }
    return NULL;
}

/* members: names separated by spaces, of which a|b are alternatives. */
static bool has_members(struct str object, const char *members)
{
    bool any = false;
    char name[32];
    while (*members) {
        size_t len = strcspn(members, " |");
        must(len < sizeof name);
        memcpy(name, members, len);
        name[len] = '\0';
        any |= view_get(object, name).len > 0;
        members += len;
        if (*members == '|') {
            members++;
            continue;
        }
        if (!any)
            return false;
        any = false;
        members += *members != '\0';
    }
    return true;
}

bool whose_success(const struct whose_rule *expected, long status, struct str body)
{
    struct str object;
    if (expected && status != expected->status && status != expected->or_status)
        return false;
    if (expected && status == 204)
        return !body.len;
    if (!body.len)
        return !expected || !*expected->members;
    if (view_check(body, &object).code != ERR_OK)
        return false;
    return !expected || has_members(object, expected->members);
}

static bool has_text(struct str object, const char *key)
{
    struct str value = view_get(object, key);
    return value.len > 2 && *value.at == '"';
}

static bool has_list(struct str object, const char *key)
{
    struct str value = view_get(object, key);
    return value.len && *value.at == '[';
}

/* In lower case with underscores, as base/errors.def has them. */
static bool has_code(struct str object)
{
    struct str code = view_get(object, "code");
    for (size_t i = 1; i + 1 < code.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", code.at[i]))
            return false;
    return true;
}

bool whose_refusal(struct str body)
{
    struct str object;
    if (!body.len || view_check(body, &object).code != ERR_OK)
        return false;
    /* What became of each of many: renewals, successes. */
    if (has_list(object, "jobs") || has_list(object, "reports") || has_list(object, "not_found"))
        return true;
    /* A health: of a server that cannot write, or of a standby that hears of no owner. */
    if (has_text(object, "status") && (has_text(object, "role") || view_get(object, "jobs").len))
        return true;
    bool ours = has_text(object, "error") && has_code(object);
    return has_text(object, "code") && (ours || has_text(object, "message"));
}

bool whose_azure_refusal(struct str body)
{
    static const struct str mark = {"<Code>", 6};
    return body.len && memmem(body.at, body.len, mark.at, mark.len);
}
