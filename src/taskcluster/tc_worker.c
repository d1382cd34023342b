/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_worker.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_claim.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_status.h"
#include "wire/field.h"

#define DAY_MS ((int64_t)24 * 3600 * 1000)
/* How long a worker and a queue are known after they were used, as the reference has it. */
#define WORKER_LIFE_MS DAY_MS
#define QUEUE_LIFE_MS  (5 * DAY_MS)

/* --- entries --- */

/* "provisioner/worker-type group/id": all workers of a queue have a prefix of their own. */
static void write_key(struct buf *b, struct str queue, struct str group, struct str id)
{
    buf_print(b, "%.*s %.*s/%.*s", STR_ARG(queue), STR_ARG(group), STR_ARG(id));
}

static struct err read_details(struct json_cursor *c, struct arena *a, void *out)
{
    struct str raw;
    TRY(field_any(c, a, &raw));
    *(struct str *)out = (struct str){raw.at + 1, raw.len - 2}; /* without the brackets */
    return err_none();
}

static struct err read_recent_one(struct json_cursor *c, struct arena *a, struct tc_recent *r)
{
    int64_t run;
    bool more;
    TRY(json_enter_array(c));
    TRY(json_next_element(c, &more));
    TRY(field_text(c, a, &r->task_id));
    TRY(json_next_element(c, &more));
    TRY(json_read_int(c, 0, UINT32_MAX, &run));
    r->run = (uint32_t)run;
    TRY(json_next_element(c, &more));
    return more ? err_make(ERR_BAD_VALUE, "a recent task has an id and a run") : err_none();
}

static struct err read_recent(struct json_cursor *c, struct arena *a, void *out)
{
    struct tc_worker *w = (struct tc_worker *)((char *)out - offsetof(struct tc_worker, recent));
    bool more;
    TRY(json_enter_array(c));
    for (w->recent_count = 0;; w->recent_count++) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (w->recent_count == TC_RECENT_MAX)
            return err_make(ERR_TOO_MANY, "too many recent tasks");
        TRY(read_recent_one(c, a, &w->recent[w->recent_count]));
    }
}

#define WORKER(json, reader, member)                                                               \
    {                                                                                              \
        .name = (json), .read = (reader), .offset = offsetof(struct tc_worker, member)             \
    }
static const struct field worker_fields[] = {
    WORKER("first_claim", field_instant, first_claim),
    WORKER("last_active", field_instant, last_active),
    WORKER("expires", field_instant, expires),
    WORKER("quarantine_until", field_instant, quarantine_until),
    WORKER("details", read_details, details),
    WORKER("recent", read_recent, recent),
};

/* What lies there was written by the server itself; if it cannot be read, the worker is new. */
static void read_entry(const struct kv_entry *e, struct arena *a, struct tc_worker *w)
{
    struct json_cursor c = json_open(e->value);
    const struct tc_worker fresh = *w;
    struct err err = field_read_object(false, &c, a, worker_fields, COUNT(worker_fields), w);
    if (err.code != ERR_OK)
        *w = fresh;
    w->version = e->version;
}

void tc_worker_of(const struct kv_entry *e, struct arena *a, struct tc_worker *w)
{
    const char *space = memchr(e->key.at, ' ', e->key.len);
    *w = (struct tc_worker){.quarantine_until = INSTANT_NONE};
    must(space); /* it was written so */
    w->queue = (struct str){e->key.at, (size_t)(space - e->key.at)};
    tc_worker_split((struct str){space + 1, e->key.len - w->queue.len - 1}, &w->group, &w->id);
    read_entry(&(struct kv_entry){.value = arena_copy(a, e->value), .version = e->version}, a, w);
}

static void write_entry(struct buf *b, const struct tc_worker *w)
{
    buf_print(b, "{\"first_claim\":%lld,\"last_active\":%lld,\"expires\":%lld",
              (long long)w->first_claim.ms, (long long)w->last_active.ms, (long long)w->expires.ms);
    INSTANT_MEMBER(b, "quarantine_until", w->quarantine_until);
    buf_print(b, ",\"details\":[%.*s],\"recent\":[", STR_ARG(w->details));
    for (size_t i = 0; i < w->recent_count; i++) {
        buf_str(b, i ? STR(",[") : STR("["));
        json_write_string(b, w->recent[i].task_id);
        buf_print(b, ",%u]", w->recent[i].run);
    }
    buf_lit(b, "]}");
}

static struct tc_worker *new_worker(struct arena *a, struct str queue, struct str group,
                                    struct str id, instant now)
{
    struct tc_worker *w = ARENA_NEW(a, struct tc_worker);
    w->queue = queue;
    w->group = group;
    w->id = id;
    w->first_claim = w->last_active = now;
    w->expires = (instant){now.ms + WORKER_LIFE_MS};
    w->quarantine_until = INSTANT_NONE;
    return w;
}

static struct str key_of(const struct tc_worker *w, struct arena *a)
{
    struct buf b = {0};
    write_key(&b, w->queue, w->group, w->id);
    struct str key = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return key;
}

/* A quarantined worker is known as long as it is that. */
static instant entry_expires(const struct tc_worker *w)
{
    return w->quarantine_until.ms > w->expires.ms ? w->quarantine_until : w->expires;
}

static void queue_change(const struct tc_worker *w, struct buf *value, struct kv_change *c)
{
    int64_t until = w->last_active.ms + QUEUE_LIFE_MS;
    instant expires = {until > w->expires.ms ? until : w->expires.ms};
    buf_print(value, "{\"last_active\":%lld,\"expires\":%lld}", (long long)w->last_active.ms,
              (long long)expires.ms);
    *c = (struct kv_change){.entry = {STR(TC_QUEUES), w->queue, buf_view(value), expires, 0},
                            .when = KV_ANY};
}

static void put(struct backend *b, struct arena *a, const struct tc_worker *w, struct str trail,
                reply_fn done, void *ctx)
{
    struct buf worker = {0}, queue = {0};
    struct kv_change changes[2];
    write_entry(&worker, w);
    changes[0] = (struct kv_change){
        .entry = {STR(TC_WORKERS), key_of(w, a), buf_view(&worker), entry_expires(w), w->version},
        .when = w->version ? KV_VERSION : KV_ABSENT};
    queue_change(w, &queue, &changes[1]);
    struct command cmd = {
        .kind = CMD_KV_PUT, .kv_put = {changes, COUNT(changes)}, .done = done, .ctx = ctx};
    cmd.trail = trail;
    backend_submit(b, &cmd);
    buf_fini(&worker);
    buf_fini(&queue);
}

/* --- loading and saving --- */

struct loading {
    struct tc_call *call;
    struct tc_worker *worker;
    void (*then)(struct tc_call *c, struct tc_worker *w);
};

static void on_loaded(void *ctx, const struct reply *r)
{
    struct loading *l = ctx;
    struct tc_call *c = l->call;
    if (r->err.code != ERR_OK && r->err.code != ERR_NOT_FOUND) {
        tc_fail_err(c, &r->err);
        return;
    }
    if (r->err.code == ERR_OK) {
        struct kv_entry e = r->kv[0];
        e.value = arena_copy(c->arena, e.value);
        read_entry(&e, c->arena, l->worker);
    }
    l->then(c, l->worker);
}

static void submit_load(struct backend *b, struct str key, reply_fn done, void *ctx)
{
    struct command cmd = {.kind = CMD_KV_READ,
                          .kv = {.space = STR(TC_WORKERS), .key = key},
                          .done = done,
                          .ctx = ctx};
    backend_submit(b, &cmd);
}

void tc_worker_load(struct tc_call *c, struct str queue, struct str group, struct str id,
                    void (*then)(struct tc_call *c, struct tc_worker *w))
{
    struct loading *l = ARENA_NEW(c->arena, struct loading);
    l->call = c;
    l->then = then;
    l->worker = new_worker(c->arena, queue, group, id, c->now);
    submit_load(c->tc->backend, key_of(l->worker, c->arena), on_loaded, l);
}

void tc_worker_save(struct tc_call *c, const struct tc_worker *w, reply_fn done, void *ctx)
{
    put(c->tc->backend, c->arena, w, c->trail, done, ctx);
}

static void see(struct tc_worker *w, instant now)
{
    w->last_active = now;
    if (w->expires.ms < now.ms + WORKER_LIFE_MS)
        w->expires.ms = now.ms + WORKER_LIFE_MS;
}

/* If it was changed meanwhile, it was seen all the same. */
void tc_worker_seen(struct tc_call *c, struct tc_worker *w)
{
    see(w, c->now);
    put(c->tc->backend, c->arena, w, (struct str){0}, tc_ignore, NULL);
}

/* --- what it has claimed --- */

#define TRIES 4 /* against others that change the same worker */

struct remembering {
    struct taskcluster *tc;
    struct arena arena;
    struct str queue, group, id;
    struct tc_recent tasks[TC_RECENT_MAX];
    size_t count;
    int tries;
};

static void forget(struct remembering *m)
{
    arena_fini(&m->arena);
    free(m);
}

static void remember(struct remembering *m);

static void on_remembered(void *ctx, const struct reply *r)
{
    struct remembering *m = ctx;
    if (r->err.code == ERR_CONFLICT && --m->tries > 0)
        remember(m);
    else
        forget(m);
}

static void add_recent(struct tc_worker *w, const struct tc_recent *t)
{
    for (size_t i = 0; i < w->recent_count; i++)
        if (w->recent[i].run == t->run && str_eq(w->recent[i].task_id, t->task_id))
            return; /* a claim that was repeated */
    if (w->recent_count == TC_RECENT_MAX)
        memmove(w->recent, w->recent + 1, --w->recent_count * sizeof *w->recent);
    w->recent[w->recent_count++] = *t;
}

static void on_recalled(void *ctx, const struct reply *r)
{
    struct remembering *m = ctx;
    instant now = tc_now(m->tc);
    struct tc_worker *w = new_worker(&m->arena, m->queue, m->group, m->id, now);
    if (r->err.code == ERR_OK)
        read_entry(&r->kv[0], &m->arena, w);
    see(w, now);
    for (size_t i = 0; i < m->count; i++)
        add_recent(w, &m->tasks[i]);
    put(m->tc->backend, &m->arena, w, (struct str){0}, on_remembered, m);
}

static void remember(struct remembering *m)
{
    struct buf key = {0};
    write_key(&key, m->queue, m->group, m->id);
    submit_load(m->tc->backend, buf_view(&key), on_recalled, m);
    buf_fini(&key);
}

void tc_worker_claimed(struct taskcluster *t, struct str queue, struct str group, struct str id,
                       const struct tc_recent *tasks, size_t count)
{
    struct remembering *m = ALLOC(struct remembering);
    size_t first = count > TC_RECENT_MAX ? count - TC_RECENT_MAX : 0;
    m->tc = t;
    m->tries = TRIES;
    m->queue = arena_copy(&m->arena, queue);
    m->group = arena_copy(&m->arena, group);
    m->id = arena_copy(&m->arena, id);
    for (m->count = 0; m->count < count - first; m->count++) {
        m->tasks[m->count] = tasks[first + m->count];
        m->tasks[m->count].task_id = arena_copy(&m->arena, tasks[first + m->count].task_id);
    }
    remember(m);
}

/* --- answers --- */

static void write_run(struct buf *b, const struct tc_recent *t)
{
    buf_print(b, "{\"taskId\":\"%.*s\",\"runId\":%u}", STR_ARG(t->task_id), t->run);
}

static void write_worker(struct buf *b, const struct tc_worker *w)
{
    struct str provisioner, type;
    tc_queue_split(w->queue, &provisioner, &type);
    buf_print(b,
              "{\"provisionerId\":\"%.*s\",\"workerType\":\"%.*s\",\"taskQueueId\":\"%.*s\","
              "\"workerGroup\":\"%.*s\",\"workerId\":\"%.*s\",\"recentTasks\":[",
              STR_ARG(provisioner), STR_ARG(type), STR_ARG(w->queue), STR_ARG(w->group),
              STR_ARG(w->id));
    for (size_t i = 0; i < w->recent_count; i++) {
        if (i)
            buf_byte(b, ',');
        write_run(b, &w->recent[i]);
    }
    buf_byte(b, ']');
    tc_write_time(b, "expires", w->expires);
    tc_write_time(b, "firstClaim", w->first_claim);
    tc_write_time(b, "lastDateActive", w->last_active);
    if (instant_is_set(w->quarantine_until))
        tc_write_time(b, "quarantineUntil", w->quarantine_until);
    if (w->details.len)
        buf_print(b, ",\"quarantineDetails\":[%.*s]", STR_ARG(w->details));
    buf_byte(b, '}');
}

static void reply_worker(struct tc_call *c, struct tc_worker *w)
{
    struct buf *b = tc_body(c);
    if (!w->version) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND,
                "Worker with workerId `%.*s`, workerGroup `%.*s` of the "
                "task queue `%.*s` not found.",
                STR_ARG(w->id), STR_ARG(w->group), STR_ARG(w->queue));
        return;
    }
    write_worker(b, w);
    tc_reply(c, b);
}

/* The worker that the path names. */
static void load_named(struct tc_call *c, void (*then)(struct tc_call *c, struct tc_worker *w))
{
    tc_worker_load(c, tc_queue_of_path(c), tc_param(c, "workerGroup"), tc_param(c, "workerId"),
                   then);
}

struct str tc_queue_of_path(struct tc_call *c)
{
    struct str provisioner = tc_param(c, "provisionerId"), type = tc_param(c, "workerType");
    char *at = arena_get(c->arena, provisioner.len + type.len + 1);
    memcpy(at, provisioner.at, provisioner.len);
    at[provisioner.len] = '/';
    memcpy(at + provisioner.len + 1, type.at, type.len);
    return (struct str){at, provisioner.len + type.len + 1};
}

void tc_get_worker(struct tc_call *c)
{
    load_named(c, reply_worker);
}

/* --- declareWorker, quarantineWorker --- */

struct change {
    struct tc_call *call;
    struct tc_worker *worker;
    void (*again)(struct tc_call *c, struct tc_worker *w);
};

static void on_saved(void *ctx, const struct reply *r)
{
    struct change *n = ctx;
    if (r->err.code == ERR_CONFLICT) {
        load_named(n->call, n->again); /* somebody else was faster: from what is there now */
    } else if (r->err.code != ERR_OK) {
        tc_fail_err(n->call, &r->err);
    } else {
        struct tc_worker *w = n->worker;
        w->version = r->kv[0].version;
        if (tc_worker_is_quarantined(w, n->call->now))
            tc_claim_end_waiting(n->call->tc, w->queue, w->group, w->id);
        reply_worker(n->call, n->worker);
    }
}

static void save(struct tc_call *c, struct tc_worker *w,
                 void (*again)(struct tc_call *c, struct tc_worker *w))
{
    struct change *n = ARENA_NEW(c->arena, struct change);
    *n = (struct change){c, w, again};
    tc_worker_save(c, w, on_saved, n);
}

struct worker_body {
    struct str until, expires, info;
};

static const struct field body_fields[] = {
    {"quarantineUntil", false, field_text, offsetof(struct worker_body, until), false, NULL},
    {"quarantineInfo", false, field_text, offsetof(struct worker_body, info), false, NULL},
    {"expires", false, field_text, offsetof(struct worker_body, expires), false, NULL},
};

static void read_body(struct tc_call *c, struct worker_body *body)
{
    struct json_cursor j = json_open(c->body);
    *body = (struct worker_body){0};
    struct err err = field_read_object(true, &j, c->arena, body_fields, COUNT(body_fields), body);
    must(err.code == ERR_OK); /* by the schema */
}

static void declare(struct tc_call *c, struct tc_worker *w)
{
    struct worker_body body;
    read_body(c, &body);
    bool ok = rfc3339_parse(body.expires, &w->expires);
    must(ok); /* by the schema */
    w->last_active = c->now;
    save(c, w, declare);
}

void tc_declare_worker(struct tc_call *c)
{
    static const struct str properties[] = {{"expires", 7}}; /* the only one there is */
    const struct scope_param params[] = {
        {.name = "provisionerId", .value = tc_param(c, "provisionerId")},
        {.name = "workerType", .value = tc_param(c, "workerType")},
        {.name = "workerGroup", .value = tc_param(c, "workerGroup")},
        {.name = "workerId", .value = tc_param(c, "workerId")},
        {.name = "properties", .list = properties, .count = COUNT(properties)},
    };
    if (tc_authorize(c, params, COUNT(params)))
        load_named(c, declare);
}

/* What is remembered of quarantines; the oldest go when there is no more room. */
#define DETAILS_MAX ((size_t)32 << 10)

static void add_detail(struct tc_call *c, struct tc_worker *w, const struct worker_body *body)
{
    struct buf b = {0};
    if (w->details.len && w->details.len < DETAILS_MAX)
        buf_print(&b, "%.*s,", STR_ARG(w->details));
    buf_lit(&b, "{\"clientId\":");
    json_write_string(&b, c->who.client_id.len ? c->who.client_id : STR("anonymous"));
    tc_write_time(&b, "updatedAt", c->now);
    tc_write_time(&b, "quarantineUntil", w->quarantine_until);
    KEY(&b, "quarantineInfo");
    json_write_string(&b, body->info.len ? body->info : STR("[unspecified]"));
    buf_byte(&b, '}');
    w->details = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
}

static void quarantine(struct tc_call *c, struct tc_worker *w)
{
    struct worker_body body;
    if (!w->version) {
        reply_worker(c, w);
        return;
    }
    read_body(c, &body);
    bool ok = rfc3339_parse(body.until, &w->quarantine_until);
    must(ok); /* by the schema */
    add_detail(c, w, &body);
    save(c, w, quarantine);
}

void tc_quarantine_worker(struct tc_call *c)
{
    load_named(c, quarantine);
}
