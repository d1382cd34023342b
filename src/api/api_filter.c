/* SPDX-License-Identifier: Apache-2.0 */

/* Which jobs a request is about: parameters that filter, page and change. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_canary.h"
#include "api/api_routes.h"
#include "base/array.h"
#include "base/duration.h"
#include "base/must.h"
#include "core/fingerprint.h"

#define LOOK_MAX       1000000
#define RETRY_RATE_MAX 1000000 /* jobs a second */

/* --- parameters --- */

static bool is_digits(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return text.len > 0;
}

/* Digits only: what else JSON calls a whole number ("1e2", " 1") is more likely a mistake here. */
struct err api_read_number(struct str text, const char *name, int64_t lo, int64_t hi, int64_t *v)
{
    struct json_cursor c = json_open(text);
    if (is_digits(text) && json_read_int(&c, lo, hi, v).code == ERR_OK &&
        json_close(&c).code == ERR_OK)
        return err_none();
    return err_make(ERR_BAD_VALUE, "%s is a number from %lld to %lld, not '%.*s'", name,
                    (long long)lo, (long long)hi, (int)(text.len < 32 ? text.len : 32), text.at);
}

struct err api_read_order(struct str text, bool *backwards)
{
    *backwards = str_eq(text, STR("desc"));
    if (*backwards || str_eq(text, STR("asc")))
        return err_none();
    return err_make(ERR_BAD_VALUE, "order is asc or desc, not '%.*s'",
                    (int)(text.len < 32 ? text.len : 32), text.at);
}

static struct err read_statuses(struct str list, unsigned *statuses)
{
    struct str item;
    while (query_item(&list, &item)) {
        enum status s;
        if (!lifecycle_status_parse(item, &s))
            return err_make(ERR_BAD_VALUE,
                            "there is no status '%.*s'; there are blocked, scheduled, ready, "
                            "in_flight, completed and dead",
                            (int)(item.len < 32 ? item.len : 32), item.at);
        *statuses |= 1u << s;
    }
    return err_none();
}

static struct err read_resolutions(struct str list, unsigned *resolutions)
{
    struct str item;
    while (query_item(&list, &item)) {
        enum resolution r;
        if (!job_resolution_parse(item, &r))
            return err_make(ERR_BAD_VALUE,
                            "there is no resolution '%.*s'; there are failed, claim-expired, "
                            "canceled, poison, dependency-dead, deadline-exceeded, wait-exceeded, "
                            "gang-dead and the exceptions that workers report",
                            (int)(item.len < 32 ? item.len : 32), item.at);
        *resolutions |= 1u << r;
    }
    return err_none();
}

/* A name of a worker is any text without commas. */
static struct err read_workers(struct str list, struct arena *arena, struct job_filter *f)
{
    struct str item;
    struct str *names = arena_get(arena, (list.len + 1) * sizeof *names);
    f->workers = names;
    while (query_item(&list, &item)) {
        if (f->worker_count == API_NAMES_MAX)
            return err_make(ERR_TOO_MANY, "worker: more than %d names", API_NAMES_MAX);
        names[f->worker_count++] = item;
    }
    return err_none();
}

static bool is_lettered(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyz", text.at[i]) || !text.at[i])
            return false;
    return true;
}

/* 25 digits can say more than 128 bits hold. Such a text has the form of an id, and is the id of
 * no job: it stands for the last one, which is never given out. */
static struct err read_id(struct str text, struct id *id)
{
    struct err err = id_parse(text, id);
    if (err.code == ERR_OK || text.len != ID_TEXT_LEN || !is_lettered(text))
        return err;
    *id = (struct id){UINT64_MAX, UINT64_MAX};
    return err_none();
}

struct err api_param_ids(struct str list, struct arena *arena, const struct id **out, size_t *count)
{
    struct id *ids = arena_get(arena, (list.len / ID_TEXT_LEN + 1) * sizeof *ids);
    struct str item;
    *count = 0;
    while (query_item(&list, &item))
        TRY(read_id(item, &ids[(*count)++]));
    *out = *count ? ids : NULL;
    return err_none();
}

static struct err bad_range(struct str text, const char *name, int64_t most)
{
    return err_make(ERR_BAD_VALUE,
                    "%s is a number N up to %lld or a range A..B, A.., ..B or .., not '%.*s'", name,
                    (long long)most, (int)(text.len < 48 ? text.len : 48), text.at);
}

/* Both ends are inclusive; a missing end is open. */
static struct err read_range(struct str text, const char *name, int64_t most, struct range *r)
{
    const char *dots = memmem(text.at, text.len, "..", 2);
    *r = (struct range){.set = true, .lo = INT64_MIN, .hi = INT64_MAX};
    struct str lo = {text.at, dots ? (size_t)(dots - text.at) : text.len};
    struct str hi = lo;
    if (dots)
        hi = (struct str){dots + 2, text.len - lo.len - 2};
    if (lo.len && api_read_number(lo, name, 0, most, &r->lo).code != ERR_OK)
        return bad_range(text, name, most);
    if (hi.len && api_read_number(hi, name, 0, most, &r->hi).code != ERR_OK)
        return bad_range(text, name, most);
    if (r->lo > r->hi)
        return err_make(ERR_UNPROCESSABLE, "%s begins after its end: '%.*s'", name,
                        (int)(text.len < 48 ? text.len : 48), text.at);
    return err_none();
}

/* Of how the newest run failed; *known is false for any other parameter. */
static struct err read_failure_filter(struct str name, struct str value, struct job_filter *f,
                                      bool *known)
{
    *known = true;
    if (str_eq(name, STR("failed_at")))
        return read_range(value, "failed_at", INSTANT_MAX_MS, &f->failed_at);
    if (str_eq(name, STR("error")))
        f->error = value;
    else if (str_eq(name, STR("error_type")))
        f->error_type = value;
    else if (!str_eq(name, STR("failure_group")))
        *known = false;
    else if (!fingerprint_parse(value, &f->failure_group))
        return err_make(ERR_BAD_VALUE,
                        "failure_group is 16 hexadecimal digits, as GET /failure-groups shows "
                        "them, not '%.*s'",
                        (int)(value.len < 32 ? value.len : 32), value.at);
    return err_none();
}

static struct err read_filter(struct str name, struct str value, struct arena *arena,
                              struct job_filter *f, bool *known)
{
    *known = true;
    if (str_eq(name, STR("id")))
        return api_param_ids(value, arena, &f->ids, &f->id_count);
    if (str_eq(name, STR("queue")))
        return api_decode_names(value, "queue", arena, &f->queues, &f->queue_count);
    if (str_eq(name, STR("type")))
        return api_decode_names(value, "type", arena, &f->types, &f->type_count);
    if (str_eq(name, STR("status")))
        return read_statuses(value, &f->statuses);
    if (str_eq(name, STR("priority")))
        return read_range(value, "priority", UINT16_MAX, &f->priority);
    if (str_eq(name, STR("ready_at")))
        return read_range(value, "ready_at", INSTANT_MAX_MS, &f->ready_at);
    if (str_eq(name, STR("attempts")))
        return read_range(value, "attempts", UINT32_MAX, &f->attempts);
    if (str_eq(name, STR("resolution")))
        return read_resolutions(value, &f->resolutions);
    if (str_eq(name, STR("since")))
        return api_read_number(value, "since", 0, INSTANT_MAX_MS, &f->since.ms);
    if (str_eq(name, STR("budgets.key")))
        return api_decode_names(value, "budgets.key", arena, &f->budgets, &f->budget_count);
    if (str_eq(name, STR("worker")))
        return read_workers(value, arena, f);
    if (str_eq(name, STR("enqueued_at")))
        return read_range(value, "enqueued_at", INSTANT_MAX_MS, &f->enqueued_at);
    if (str_eq(name, STR("depends_on"))) {
        f->depends_on.set = true;
        return read_id(value, &f->depends_on.id);
    }
    if (str_eq(name, STR("group"))) {
        f->group = value;
        return err_none();
    }
    if (str_eq(name, STR("filter"))) {
        f->expression = value; /* its errors come from the backend */
        return err_none();
    }
    return read_failure_filter(name, value, f, known);
}

static struct err read_place(struct str value, struct id_place *at)
{
    at->set = true;
    return read_id(value, &at->id);
}

static struct err read_paging(struct str name, struct str value, struct list_command *l,
                              bool *known)
{
    int64_t number;
    *known = true;
    if (str_eq(name, STR("from")))
        return read_place(value, &l->from);
    if (str_eq(name, STR("order")))
        return api_read_order(value, &l->backwards);
    if (str_eq(name, STR("look_max"))) {
        TRY(api_read_number(value, "look_max", 1, LOOK_MAX, &number));
        l->look_max = (uint32_t)number;
        return err_none();
    }
    *known = str_eq(name, STR("limit"));
    if (!*known)
        return err_none();
    TRY(api_read_number(value, "limit", 1, BACKEND_PAGE_MAX, &number));
    l->limit = (uint32_t)number;
    return err_none();
}

static void add_echo(struct buf *echo, struct str name, struct str value)
{
    buf_byte(echo, '&');
    buf_str(echo, name);
    buf_byte(echo, '=');
    query_write(echo, value);
}

static struct err read_undo(struct str value, struct list_command *l)
{
    struct err err = duration_parse(value, &l->undo);
    if (err.code == ERR_OK && l->undo.ms <= 0)
        err = err_make(ERR_BAD_VALUE, "more than 0");
    return err.code == ERR_OK ? err : err_make(ERR_BAD_VALUE, "undo is a time as 1h: %s", err.msg);
}

static struct err read_change(struct str name, struct str value, enum params kind,
                              struct list_command *l, bool *known)
{
    int64_t rate;
    *known = true;
    if (str_eq(name, STR("dry_run"))) {
        l->dry_run = str_eq(value, STR("true"));
        if (l->dry_run || str_eq(value, STR("false")))
            return err_none();
        return err_make(ERR_BAD_VALUE, "dry_run is true or false");
    }
    *known = kind != PARAMS_RESET && str_eq(name, STR("undo"));
    if (*known)
        return read_undo(value, l);
    *known = kind == PARAMS_RETRY && str_eq(name, STR("rate"));
    if (!*known)
        return err_none();
    TRY(api_read_number(value, "rate", 1, RETRY_RATE_MAX, &rate));
    l->per_second = (uint32_t)rate;
    return err_none();
}

#define ONE_OR_LIST ": one, or a list a,b"
#define RANGE       "range 0..$: N, A..B, A.., ..B or .."
#define FILTER_PARAMS                                                                              \
    {"id", "ids" ONE_OR_LIST}, {"queue", "names" ONE_OR_LIST}, {"type", "names" ONE_OR_LIST},      \
        {"status", "words (blocked|scheduled|ready|in_flight|completed|dead)" ONE_OR_LIST},        \
        {"priority", RANGE, .most = UINT16_MAX}, {"ready_at", RANGE, .most = INSTANT_MAX_MS},      \
        {"attempts", RANGE, .most = UINT32_MAX},                                                   \
        {"resolution", "words (failed|claim-expired|canceled|poison|dependency-dead|"              \
                       "wait-exceeded|gang-dead): how dead jobs ended, separated by commas"},      \
        {"since",                                                                                  \
         "integer 0..$: only jobs that were enqueued, taken, failed or completed since "           \
         "then, milliseconds since 1970 (UTC)",                                                    \
         .most = INSTANT_MAX_MS},                                                                  \
        {"error",                                                                                  \
         "string 1..: only jobs whose newest run that has ended failed with this text in "         \
         "its message or error type"},                                                             \
        {"error_type",                                                                             \
         "string 1..: only jobs whose newest run that has ended failed with this very "            \
         "error type"},                                                                            \
        {"failure_group", "string /^[0-9a-f]{16}$/: only jobs whose newest run that has ended "    \
                          "failed as this group of failures says"},                                \
        {"failed_at", RANGE, .most = INSTANT_MAX_MS},                                              \
        {"enqueued_at", RANGE, .most = INSTANT_MAX_MS},                                            \
        {"worker", "texts: only jobs whose newest run is or was by one of these workers, "         \
                   "separated by commas"},                                                         \
        {"depends_on", "JobId: only jobs that were enqueued to wait for this one"},                \
        {"group", "string 1..: only the jobs of this group"},                                      \
        {"budgets.key", "names: only jobs that draw on one of these budgets: a,b"},                \
    {                                                                                              \
        "filter", "string 1.. @jq: a jq expression about the payload"                              \
    }
#define PAGE_PARAMS                                                                                \
    {"order", "string (asc|desc): by id"},                                                         \
        {"limit", "integer 1..$: of a page", .most = BACKEND_PAGE_MAX},                            \
        {"look_max",                                                                               \
         "integer 1..$: how many jobs are looked at for a page, which may then have "              \
         "fewer, or none, and yet a next one",                                                     \
         .most = LOOK_MAX},                                                                        \
    {                                                                                              \
        "from", "JobId: exclusive"                                                                 \
    }
#define DRY_RUN "boolean: change nothing, answer with count and sample of the jobs"
#define UNDO    "string 1.. @time-span: for how long the change can be undone: 90s, 15m, 1h"

const struct api_param api_filter_params[] = {FILTER_PARAMS, {NULL, NULL}};
const struct api_param api_page_params[] = {FILTER_PARAMS, PAGE_PARAMS, {NULL, NULL}};
const struct api_param api_change_params[] = {
    FILTER_PARAMS, {"dry_run", DRY_RUN}, {"undo", UNDO}, {NULL, NULL}};
const struct api_param api_retry_params[] = {
    FILTER_PARAMS,
    {"dry_run", DRY_RUN},
    {"undo", UNDO},
    {"rate", "integer 1..$: how many a second become ready", .most = RETRY_RATE_MAX},
    {"canary",
     "integer 1..$: so many of them first; the rest only if the next run of each of these succeeds",
     .most = CANARY_JOBS_MAX},
    {NULL, NULL}};
const struct api_param api_reset_params[] = {{"dry_run", DRY_RUN}, {NULL, NULL}};

static const struct api_param *const params_of[] = {
    [PARAMS_FILTER] = api_filter_params, [PARAMS_PAGE] = api_page_params,
    [PARAMS_CHANGE] = api_change_params, [PARAMS_RETRY] = api_retry_params,
    [PARAMS_RESET] = api_reset_params,
};

/* A list without an item: ",". Texts may be commas. */
static bool names_nothing(struct str name, struct str value)
{
    static const char *const lists[] = {"id",         "queue",  "type",       "status",
                                        "resolution", "worker", "budgets.key"};
    struct str item;
    for (size_t i = 0; i < COUNT(lists); i++)
        if (str_eq(name, str_from(lists[i])))
            return !query_item(&value, &item);
    return false;
}

/* A filter that names nothing ("status=") would mean everything: it is refused, where api.c has not
 * taken it away. */
struct err api_read_params(const struct http_request *req, enum params kind, struct list_params *p)
{
    struct query_cursor c = query_open(req->query, req->arena);
    struct str name, value;
    bool more, known;
    unsigned seen = 0;
    *p = (struct list_params){.list.limit = API_PAGE_DEFAULT};
    TRY(api_check_media(req));
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            return err_none();
        /* Of two values one would win silently: DELETE would delete the wrong jobs. */
        TRY(api_param_once(name, params_of[kind], &seen));
        known = false; /* a reset concerns everything: it has no filters */
        if (kind != PARAMS_RESET)
            TRY(read_filter(name, value, req->arena, &p->list.filter, &known));
        if (known && (value.len == 0 || (kind >= PARAMS_CHANGE && names_nothing(name, value))))
            return err_make(ERR_BAD_VALUE, "%.*s is given without a value", STR_ARG(name));
        if (known) {
            add_echo(&p->echo, name, value);
            continue;
        }
        if (kind == PARAMS_PAGE)
            TRY(read_paging(name, value, &p->list, &known));
        if (kind == PARAMS_RETRY)
            TRY(api_canary_param(name, value, p, &known));
        if (!known && kind >= PARAMS_CHANGE)
            TRY(read_change(name, value, kind, &p->list, &known));
        if (!known)
            return api_unknown_param(name);
    }
}
