/* SPDX-License-Identifier: Apache-2.0 */

/* What tenants ask for. In a text, a letter behind @ stands for
 *
 *   q  a queue of its own         j  a job of its own         h, t  a run that it holds: job, token
 *   k  a name that both use       w  a worker, likewise       n, m  0 to 9, 1 to 3
 *   o  options of a job           s  a status                 z     how long to wait */

#include "tenants.h"

#include "base/array.h"
#include "base/buf.h"

#define NO_JOB "03fl8hxs0jv9y5nfa2wfgk9zz"
#define QUEUE  "\"queue\":\"@q\",\"type\":\"t\",\"payload\":[@n]"
#define BUDGET "{\"allocation\":@m,\"strategy\":{\"type\":\"while_in_flight\"}}"

static const char *const options[] = {
    "",
    ",\"priority\":@n",
    ",\"unique_key\":\"@k\",\"unique_while\":\"exists\"",
    ",\"unique_key\":\"@k\",\"unique_while\":\"active\"",
    ",\"alias\":\"@k\"",
    ",\"group\":\"@k\"",
    ",\"group\":\"@k\",\"group_owner\":\"o@m\"",
    ",\"gang\":{\"id\":\"@k\",\"cardinality\":@m}",
    ",\"concurrency_key\":\"@k\"",
    (",\"budgets\":[{\"key\":\"@k\",\"cost\":@m,\"create_with\":" BUDGET "}]"),
    ",\"budgets\":[{\"key\":\"@k\",\"cost\":@m}]",
    ",\"depends_on\":[\"@j\"]",
    ",\"depends_on\":[\"@j\"],\"on_dependency_death\":\"die\"",
    ",\"retry_limit\":@m",
    ",\"retry_limit\":0",
    ",\"ready_at\":1700000100000",
    ",\"retention\":{\"completed_ms\":60000}",
    ",\"deadline_ms\":20000",
};

static const struct kind {
    enum http_method method;
    const char *target, *body;
    bool key, waits;
    unsigned weight;
    bool stream;
} kinds[] = {
    {HTTP_POST, "/jobs", "{" QUEUE "@o@o}", false, false, 24},
    {HTTP_POST, "/jobs", "{" QUEUE "@o}", true, false, 4},
    {HTTP_POST, "/jobs/bulk", "{\"jobs\":[{" QUEUE "@o},{" QUEUE "@o},{" QUEUE "}]}", false, false,
     4},
    {HTTP_POST, "/jobs/claim",
     "{\"queues\":[\"@q\"],\"worker\":\"@w\",\"node\":\"n@m\",\"count\":@m,\"wait_ms\":0}", false,
     false, 14},
    {HTTP_POST, "/jobs/claim",
     "{\"queues\":[\"@q\",\"@q\"],\"worker\":\"@w\",\"count\":@m,\"lease_ms\":20000,\"wait_ms\":@"
     "z}",
     false, true, 8},
    {HTTP_GET, "/jobs/take?queue=@q&prefetch=@m", "", false, true, 3, true},
    {HTTP_GET, "/jobs/take?queue=@q,@q&prefetch=@m&node=n@m", "", false, true, 2, true},
    {HTTP_POST, "/jobs/@h/success", "{\"token\":\"@t\"}", false, false, 10},
    {HTTP_POST, "/jobs/success", "{\"ids\":[\"@h\",\"@j\"]}", false, false, 2},
    {HTTP_POST, "/jobs/@h/failure", "{\"token\":\"@t\",\"message\":\"no @m\"}", false, false, 6},
    {HTTP_POST, "/jobs/@h/failure", "{\"token\":\"@t\",\"message\":\"no\",\"kill\":true}", false,
     false, 4},
    {HTTP_POST, "/jobs/@h/renew", "{\"token\":\"@t\"}", false, false, 2},
    {HTTP_POST, "/jobs/@h/release", "{\"token\":\"@t\"}", false, false, 2},
    {HTTP_POST, "/jobs/@h/progress", "{\"token\":\"@t\",\"progress\":{\"value\":0.@n}}", false,
     false, 2},
    {HTTP_DELETE, "/jobs/claim?worker=@w", "", false, false, 2},
    {HTTP_PATCH, "/jobs/@j", "{\"priority\":@n}", false, false, 2},
    {HTTP_PATCH, "/jobs/@j", "{\"queue\":\"@q\"}", false, false, 2},
    {HTTP_PATCH, "/jobs/alias:@k", "{\"priority\":@n}", false, false, 2},
    {HTTP_POST, "/jobs/@j/cancel", "", false, false, 2},
    {HTTP_POST, "/jobs/@j/retry", "", false, false, 2},
    {HTTP_DELETE, "/jobs/@j", "", false, false, 2},
    {HTTP_POST, "/jobs/cancel?group=@k", "", false, false, 1},
    {HTTP_POST, "/jobs/retry?status=dead", "", false, false, 1},
    {HTTP_DELETE, "/jobs?status=@s", "", false, false, 1},
    {HTTP_PUT, "/queues/@q", "{\"concurrency\":@m}", false, false, 1},
    {HTTP_PUT, "/queues/@q", "{\"concurrency_per_key\":@m}", false, false, 2},
    {HTTP_PUT, "/queues/@q", "{\"paused\":true}", false, false, 1},
    {HTTP_PUT, "/queues/@q", "{\"paused\":false}", false, false, 2},
    {HTTP_POST, "/workers/@w/quiet", "", false, false, 1},
};

static const char *const reads[] = {
    "/jobs",
    "/jobs/@j",
    "/jobs/@j/explain",
    "/jobs/@j/runs",
    "/jobs/@j/errors",
    "/jobs/@h",
    "/jobs/@h/explain",
    "/jobs/alias:@k",
    "/jobs/alias:@k/explain",
    "/jobs?queue=@q&look_max=2",
    "/jobs?group=@k",
    "/jobs?worker=@w",
    "/jobs?status=@s&order=desc",
    "/jobs/count",
    "/jobs/count?group=@k",
    "/jobs?depends_on=@j",
    "/jobs?type=t&queue=*-@n",
    "/queues",
    "/queues?details=true",
    "/queues/@q",
    "/queues/@q/next",
    "/explain",
    "/explain?queue=@q",
    "/workers",
    "/workers/@w",
    "/failure-groups",
    "/events?since=0&follow=false",
    "/settings/retry",
    "/retry-policies",
};

static uint64_t draw(struct tenant *t, uint64_t n)
{
    return rng_below(&t->rng, n);
}

static struct str some_job(struct tenant *t)
{
    const struct tenant *of = t->tries && draw(t, 4) == 0 ? t->tries : t;
    size_t recent = of->job_count < 12 ? of->job_count : 12;
    return recent ? of->jobs[of->job_count - 1 - draw(t, recent)] : STR(NO_JOB);
}

static void expand(struct tenant *t, const char *text, const struct tenant_run *run, struct buf *b);

static bool has(const struct buf *b, const char *word)
{
    return memmem(b->at, b->len, word, strlen(word)) != NULL;
}

/* Whether a gang that draws on budgets comes before or after single jobs that are handed out in the
 * same moment depends on whether others wait for tokens. */
static bool goes_with(const struct buf *b, const char *option)
{
    return !(has(b, "\"gang\"") && strstr(option, "budgets")) &&
           !(has(b, "\"budgets\"") && strstr(option, "gang"));
}

static void expand_one(struct tenant *t, char what, const struct tenant_run *run, struct buf *b)
{
    static const char *const statuses[] = {"ready", "scheduled", "in_flight", "dead", "completed"};
    const char *option;
    switch (what) {
    case 'q':
        buf_print(b, "%c-%llu", t->tries && draw(t, 10) == 0 ? t->tries->letter : t->letter,
                  (unsigned long long)draw(t, TENANT_QUEUES));
        break;
    case 'j':
        buf_str(b, some_job(t));
        break;
    case 'h':
        buf_str(b, run->job);
        break;
    case 't':
        buf_str(b, run->token);
        break;
    case 'k':
    case 'w':
        buf_print(b, "%c%llu", what, (unsigned long long)draw(t, 2));
        break;
    case 'n':
        buf_int(b, (int64_t)draw(t, 10));
        break;
    case 'm':
        buf_int(b, 1 + (int64_t)draw(t, 3));
        break;
    case 's':
        buf_str(b, str_from(statuses[draw(t, COUNT(statuses))]));
        break;
    case 'z':
        buf_int(b, 500 + (int64_t)draw(t, 20000));
        break;
    default:
        option = options[draw(t, COUNT(options))];
        if (goes_with(b, option))
            expand(t, option, run, b);
    }
}

static void expand(struct tenant *t, const char *text, const struct tenant_run *run, struct buf *b)
{
    for (; *text; text++) {
        if (*text == '@')
            expand_one(t, *++text, run, b);
        else
            buf_byte(b, *text);
    }
}

/* Mostly one that it holds; it is forgotten if the request ends it. */
static struct tenant_run some_run(struct tenant *t, bool ends)
{
    if (!t->run_count || draw(t, 10) == 0)
        return (struct tenant_run){some_job(t), STR("0123456789abcdef")};
    size_t i = draw(t, t->run_count);
    struct tenant_run run = t->runs[i];
    if (ends && draw(t, 10))
        t->runs[i] = t->runs[--t->run_count];
    return run;
}

static struct str text_of(struct tenant *t, const char *text, const struct tenant_run *run)
{
    struct buf b = {0};
    expand(t, text, run, &b);
    struct str s = arena_copy(&t->arena, buf_view(&b));
    buf_fini(&b);
    return s;
}

static struct tenant_request read_of(struct tenant *t, const char *target)
{
    struct tenant_run run = some_run(t, false);
    return (struct tenant_request){.method = HTTP_GET, .target = text_of(t, target, &run)};
}

struct tenant_request tenants_some_request(struct tenant *t)
{
    unsigned sum = 0;
    if (draw(t, t->tries ? 12 : 4) == 0)
        return read_of(t, reads[draw(t, COUNT(reads))]);
    for (size_t i = 0; i < COUNT(kinds); i++)
        sum += kinds[i].weight;
    uint64_t at = draw(t, sum);
    const struct kind *k = kinds;
    while (at >= k->weight)
        at -= k++->weight;
    struct tenant_run run = some_run(t, strstr(k->target, "@h") && !strstr(k->target, "re"));
    struct tenant_request r = {.method = k->method, .waits = k->waits, .stream = k->stream};
    r.target = text_of(t, k->target, &run);
    r.body = text_of(t, k->body, &run);
    if (k->key)
        r.key = text_of(t, "key-@k", &run);
    return r;
}

bool tenants_next_read(struct tenant *t, size_t n, struct tenant_request *out)
{
    if (n >= COUNT(reads))
        return false;
    *out = read_of(t, reads[n]);
    return true;
}
