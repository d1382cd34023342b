/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/newjob.h"

#include <math.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "client/view.h"
#include "client/when.h"

static const char *const keys[NEWJOB_FIELDS] = {
    "queue",
    "type",
    "priority",
    "ready_at",
    "retry_limit",
    "backoff",
    "retention",
    "unique_key",
    "unique_while",
    "concurrency_key",
    "budgets",
    "alias",
    "deadline",
    "batch",
    "depends_on",
    "when",
    "on_dependency_death",
    "resources",
    "gang",
    "retry_policies",
    "group",
    "group_owner",
    "max_run_ms",
    "retry_for_ms",
};

static struct err set_name(struct buf *b, const char *key, const char *name)
{
    struct str s = str_from(name);
    if (!name)
        return err_none();
    if (utf8_check(s) < s.len)
        return err_make(ERR_USAGE, "option '--%s': the name is not valid UTF-8", key);
    buf_print(b, "\"%s\":", key);
    json_write_string(b, s);
    return err_none();
}

static struct err set_ready_at(struct buf *b, const struct enqueue_args *args,
                               const struct options *o, instant now)
{
    instant t;
    if (OPTION_GIVEN(o, struct enqueue_args, delay))
        t = instant_add(now, args->delay);
    else if (!args->at)
        return err_none();
    else if (!when_parse(str_from(args->at), &t))
        return err_make(ERR_USAGE,
                        "option '--at': '%.40s' is not a time; write 2030-01-31T09:00:00Z, "
                        "2030-01-31T09:00:00+01:00 or milliseconds since 1970",
                        args->at);
    buf_print(b, "\"ready_at\":%lld", (long long)t.ms);
    return err_none();
}

static struct err set_deadline(struct buf *b, const char *text, instant now)
{
    instant t;
    span d;
    if (!text)
        return err_none();
    if (duration_parse(str_from(text), &d).code == ERR_OK)
        t = instant_add(now, d);
    else if (!when_parse(str_from(text), &t))
        return err_make(ERR_USAGE,
                        "option '--deadline': '%.40s' is neither a duration, as 2h, nor a time, as "
                        "2030-01-31T09:00:00Z",
                        text);
    buf_print(b, "\"deadline\":%lld", (long long)t.ms);
    return err_none();
}

struct err newjob_curve(const char *text, struct curve *c)
{
    const char *first = strchr(text, ','), *second = first ? strchr(first + 1, ',') : NULL;
    char *end = NULL;
    *c = (struct curve){.shape = CURVE_POWER};
    c->exponent = first ? strtod(first + 1, &end) : -1;
    if (!second || end == first + 1 || end != second || !isfinite(c->exponent) || c->exponent < 0 ||
        duration_parse((struct str){text, (size_t)(first - text)}, &c->base).code != ERR_OK ||
        duration_parse(str_from(second + 1), &c->jitter).code != ERR_OK)
        return err_make(ERR_USAGE,
                        "option '--backoff': '%.60s' is not BASE,EXPONENT,JITTER, as in 15s,4,30s",
                        text);
    return err_none();
}

static struct err set_backoff(struct buf *b, const char *text)
{
    struct curve c;
    if (!text)
        return err_none();
    TRY(newjob_curve(text, &c));
    buf_print(b, "\"backoff\":{\"base_ms\":%lld,\"exponent\":", (long long)c.base.ms);
    json_write_double(b, c.exponent);
    buf_print(b, ",\"jitter_ms\":%lld}", (long long)c.jitter.ms);
    return err_none();
}

static struct err set_resources(struct buf *b, const char *memory, const char *cpu)
{
    uint64_t amount = 0, thousandths;
    if (!memory && !cpu)
        return err_none();
    if (memory && !quantity_parse_option(str_from(memory), &amount))
        return err_make(ERR_USAGE, "option '--memory': '%.40s' is not " QUANTITY_EXPECTED, memory);
    if (cpu && !quantity_parse_cpu(str_from(cpu), &thousandths))
        return err_make(ERR_USAGE, "option '--cpu': '%.40s' is not " QUANTITY_CPU_EXPECTED, cpu);
    buf_lit(b, "\"resources\":{");
    if (memory) {
        buf_lit(b, "\"memory\":\"");
        quantity_write(b, amount);
        buf_print(b, "\"%s", cpu ? "," : "");
    }
    if (cpu)
        buf_print(b, "\"cpu\":\"%s\"", cpu);
    buf_lit(b, "}");
    return err_none();
}

/* "train-7,4" */
static struct err set_gang(struct buf *b, const char *text)
{
    char *end;
    if (!text)
        return err_none();
    const char *comma = strrchr(text, ',');
    long size = comma ? strtol(comma + 1, &end, 10) : 0;
    struct str id = {text, comma ? (size_t)(comma - text) : 0};
    if (!id.len || utf8_check(id) < id.len || comma[1] < '0' || comma[1] > '9' || *end || size < 1)
        return err_make(ERR_USAGE,
                        "option '--gang': '%.60s' is not the name of a gang and the number of its "
                        "jobs, like train-7,4",
                        text);
    buf_lit(b, "\"gang\":{\"id\":");
    json_write_string(b, id);
    buf_print(b, ",\"cardinality\":%ld}", size);
    return err_none();
}

/* "mail=2": what follows the last '=' is the cost. */
static struct err add_budget(struct buf *b, const char *text)
{
    const char *equals = strrchr(text, '=');
    struct str key = {text, equals ? (size_t)(equals - text) : strlen(text)};
    size_t digits = equals ? strspn(equals + 1, "0123456789") : 1;
    if (!key.len || utf8_check(key) < key.len || digits == 0 || digits > 10 ||
        (equals && (equals[1] == '0' || equals[1 + digits])))
        return err_make(ERR_USAGE,
                        "option '--budget': '%.60s' is not the key of a budget, with its cost if "
                        "it is not 1, like images or images=3",
                        text);
    buf_str(b, b->len ? STR(",{\"key\":") : STR("\"budgets\":[{\"key\":"));
    json_write_string(b, key);
    if (equals)
        buf_print(b, ",\"cost\":%s", equals + 1);
    buf_byte(b, '}');
    return err_none();
}

static struct err set_budgets(struct buf *b, const struct option_list *budgets)
{
    for (size_t i = 0; i < budgets->count; i++)
        TRY(add_budget(b, budgets->at[i]));
    if (b->len)
        buf_byte(b, ']');
    return err_none();
}

/* "a,b" as "retry_policies":["a","b"]. */
static struct err set_policies(struct buf *b, const char *text)
{
    if (!text)
        return err_none();
    if (utf8_check(str_from(text)) < strlen(text))
        return err_make(ERR_USAGE, "option '--retry-policies': this is not valid UTF-8");
    buf_lit(b, "\"retry_policies\":[");
    for (const char *at = text, *comma;; at = comma + 1) {
        comma = strchr(at, ',');
        json_write_string(b, (struct str){at, comma ? (size_t)(comma - at) : strlen(at)});
        if (!comma)
            break;
        buf_byte(b, ',');
    }
    buf_byte(b, ']');
    return err_none();
}

static void set_retention(struct buf *b, const struct enqueue_args *args, const struct options *o)
{
    bool completed = OPTION_GIVEN(o, struct enqueue_args, retain_completed);
    bool dead = OPTION_GIVEN(o, struct enqueue_args, retain_dead);
    if (!completed && !dead)
        return;
    buf_lit(b, "\"retention\":{");
    if (completed)
        buf_print(b, "\"completed_ms\":%lld", (long long)args->retain_completed.ms);
    if (dead)
        buf_print(b, "%s\"dead_ms\":%lld", completed ? "," : "", (long long)args->retain_dead.ms);
    buf_lit(b, "}");
}

/* All three of them, or none. */
static struct err set_batch(struct buf *b, const struct enqueue_args *args)
{
    static const char *const names[] = {"key", "when", "fold"};
    const char *const values[] = {args->batch_key, args->batch_when, args->batch_fold};
    if (!values[0] && !values[1] && !values[2])
        return err_none();
    if (!values[0] || !values[1] || !values[2])
        return err_make(ERR_USAGE,
                        "--batch-key, --batch-when and --batch-fold must be given together");
    if (args->unique_key)
        return err_make(ERR_USAGE, "--batch-key and --unique-key exclude each other");
    buf_lit(b, "\"batch\":");
    for (int i = 0; i < 3; i++) {
        struct str s = str_from(values[i]);
        if (utf8_check(s) < s.len)
            return err_make(ERR_USAGE, "option '--batch-%s': this is not valid UTF-8", names[i]);
        buf_print(b, "%c\"%s\":", i ? ',' : '{', names[i]);
        json_write_string(b, s);
    }
    buf_byte(b, '}');
    return err_none();
}

/* "a,b" as "depends_on":["a","b"]. */
static struct err set_depends(struct newjob_defaults *d, const struct enqueue_args *args,
                              const struct options *o)
{
    static const char *const whens[] = {"all_completed", "all_ended"};
    static const char *const deaths[] = {"block", "run", "die"};
    struct buf *b = &d->member[NEWJOB_DEPENDS_ON];
    bool when = OPTION_GIVEN(o, struct enqueue_args, depends_when);
    bool death = OPTION_GIVEN(o, struct enqueue_args, on_dependency_death);
    if (when)
        buf_print(&d->member[NEWJOB_WHEN], "\"when\":\"%s\"", whens[args->depends_when]);
    if (death)
        buf_print(&d->member[NEWJOB_ON_DEATH], "\"on_dependency_death\":\"%s\"",
                  deaths[args->on_dependency_death]);
    if (!args->depends_on)
        return (when || death) && !args->bulk
                   ? err_make(ERR_USAGE, "--depends-when and --on-dependency-death need "
                                         "--depends-on")
                   : err_none();
    buf_lit(b, "\"depends_on\":[");
    for (const char *at = args->depends_on, *comma;; at = comma + 1) {
        comma = strchr(at, ',');
        struct str text = {at, comma ? (size_t)(comma - at) : strlen(at)};
        struct id id;
        if (id_parse(text, &id).code != ERR_OK)
            return err_make(ERR_USAGE,
                            "option '--depends-on': '%.*s' is not a job id, which has 25 letters "
                            "and digits",
                            (int)(text.len < 40 ? text.len : 40), text.at);
        json_write_string(b, text);
        if (!comma)
            break;
        buf_byte(b, ',');
    }
    buf_byte(b, ']');
    return err_none();
}

struct err newjob_init(struct newjob_defaults *d, const struct enqueue_args *args,
                       const struct options *o, instant now)
{
    *d = (struct newjob_defaults){0};
    if (OPTION_GIVEN(o, struct enqueue_args, delay) && args->at)
        return err_make(ERR_USAGE, "--delay and --at exclude each other");
    TRY(set_name(&d->member[NEWJOB_QUEUE], "queue", args->queue));
    TRY(set_name(&d->member[NEWJOB_TYPE], "type", args->type));
    if (OPTION_GIVEN(o, struct enqueue_args, priority))
        buf_print(&d->member[NEWJOB_PRIORITY], "\"priority\":%lld", (long long)args->priority);
    TRY(set_ready_at(&d->member[NEWJOB_READY_AT], args, o, now));
    if (OPTION_GIVEN(o, struct enqueue_args, retry_limit))
        buf_print(&d->member[NEWJOB_RETRY_LIMIT], "\"retry_limit\":%lld",
                  (long long)args->retry_limit);
    TRY(set_backoff(&d->member[NEWJOB_BACKOFF], args->backoff));
    set_retention(&d->member[NEWJOB_RETENTION], args, o);
    static const char *const scopes[] = {"queued", "active", "exists"};
    TRY(set_name(&d->member[NEWJOB_UNIQUE_KEY], "unique_key", args->unique_key));
    if (!args->unique_key && OPTION_GIVEN(o, struct enqueue_args, unique_while))
        return err_make(ERR_USAGE, "--unique-while needs --unique-key");
    if (args->unique_key)
        TRY(set_name(&d->member[NEWJOB_UNIQUE_WHILE], "unique_while", scopes[args->unique_while]));
    TRY(set_name(&d->member[NEWJOB_CONCURRENCY_KEY], "concurrency_key", args->concurrency_key));
    TRY(set_budgets(&d->member[NEWJOB_BUDGETS], &args->budgets));
    TRY(set_name(&d->member[NEWJOB_ALIAS], "alias", args->alias));
    TRY(set_deadline(&d->member[NEWJOB_DEADLINE], args->deadline, now));
    TRY(set_resources(&d->member[NEWJOB_RESOURCES], args->memory, args->cpu));
    TRY(set_gang(&d->member[NEWJOB_GANG], args->gang));
    TRY(set_name(&d->member[NEWJOB_GROUP], "group", args->group));
    TRY(set_name(&d->member[NEWJOB_GROUP_OWNER], "group_owner", args->group_owner));
    if (OPTION_GIVEN(o, struct enqueue_args, max_run))
        buf_print(&d->member[NEWJOB_MAX_RUN], "\"max_run_ms\":%lld", (long long)args->max_run.ms);
    if (OPTION_GIVEN(o, struct enqueue_args, retry_for))
        buf_print(&d->member[NEWJOB_RETRY_FOR], "\"retry_for_ms\":%lld",
                  (long long)args->retry_for.ms);
    TRY(set_policies(&d->member[NEWJOB_RETRY_POLICIES], args->retry_policies));
    TRY(set_depends(d, args, o));
    return set_batch(&d->member[NEWJOB_BATCH], args);
}

void newjob_fini(struct newjob_defaults *d)
{
    for (size_t i = 0; i < NEWJOB_FIELDS; i++)
        buf_fini(&d->member[i]);
}

void newjob_single(struct buf *b, const struct newjob_defaults *d, struct str payload)
{
    buf_lit(b, "{");
    for (size_t i = 0; i < NEWJOB_FIELDS; i++) {
        if (!d->member[i].len)
            continue;
        buf_str(b, buf_view(&d->member[i]));
        buf_lit(b, ",");
    }
    buf_lit(b, "\"payload\":");
    buf_str(b, payload);
    buf_lit(b, "}");
}

/* A number would name a job by its position in a request, but the author of the lines cannot know
 * which of them share a request. */
static struct err check_depends(struct json_cursor c)
{
    enum json_type type;
    bool more;
    if (json_enter_array(&c).code != ERR_OK)
        return err_none(); /* the server reports what is wrong with it */
    for (;;) {
        TRY(json_next_element(&c, &more));
        if (!more)
            return err_none();
        TRY(json_peek(&c, &type));
        if (type == JSON_NUMBER)
            return err_at(ERR_BAD_VALUE, (int64_t)c.pos,
                          "depends_on: lines can name jobs only by their ids");
        TRY(json_skip(&c, NULL));
    }
}

/* Marks which fields a line has, and whether it has a payload. */
static struct err scan_line(struct str line, bool has[NEWJOB_FIELDS], bool *payload)
{
    struct json_cursor c = json_open(line);
    TRY(json_enter_object(&c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        for (size_t i = 0; i < NEWJOB_FIELDS; i++)
            has[i] |= str_eq(key.raw, str_from(keys[i]));
        *payload |= str_eq(key.raw, STR("payload"));
        if (str_eq(key.raw, STR("depends_on")))
            TRY(check_depends(c));
        TRY(json_skip(&c, NULL));
    }
}

struct err newjob_from_line(struct buf *b, const struct newjob_defaults *d, struct str line)
{
    bool has[NEWJOB_FIELDS] = {0}, payload = false;
    TRY(scan_line(line, has, &payload));
    if (!payload)
        return err_make(ERR_MISSING_FIELD, "the job has no \"payload\"");
    for (size_t i = NEWJOB_QUEUE; i <= NEWJOB_TYPE; i++)
        if (!has[i] && !d->member[i].len)
            return err_make(ERR_MISSING_FIELD, "the job has no \"%s\", and there is no --%s",
                            keys[i], keys[i]);
    buf_lit(b, "{");
    for (size_t i = 0; i < NEWJOB_FIELDS; i++) {
        if (has[i] || !d->member[i].len)
            continue;
        buf_str(b, buf_view(&d->member[i]));
        buf_lit(b, ",");
    }
    /* The rest of the line after its '{'; it has a member, so a comma fits. */
    const char *brace = memchr(line.at, '{', line.len);
    buf_add(b, brace + 1, line.len - (size_t)(brace + 1 - line.at));
    return err_none();
}
