/* SPDX-License-Identifier: Apache-2.0 */

/* Task queues, worker types, provisioners and lists of workers: what workers have used, and how
 * much waits for them. A queue is known for some days after a worker asked it for work. */

#include "base/array.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "taskcluster/tc_worker.h"
#include "wire/field.h"

#define PAGE_MAX 1000

/* --- queues by their entries --- */

struct queue_entry {
    instant last_active, expires;
};

static const struct field entry_fields[] = {
    {"last_active", true, field_instant, offsetof(struct queue_entry, last_active), false, NULL},
    {"expires", true, field_instant, offsetof(struct queue_entry, expires), false, NULL},
};

static struct queue_entry read_entry(const struct kv_entry *e, struct arena *a)
{
    struct queue_entry q;
    struct json_cursor c = json_open(e->value);
    struct err err = field_read_object(false, &c, a, entry_fields, COUNT(entry_fields), &q);
    return err.code == ERR_OK ? q : (struct queue_entry){0};
}

/* What this API says of queues that nobody has described. */
static void write_use(struct buf *b, const struct queue_entry *q)
{
    buf_lit(b, ",\"description\":\"\",\"stability\":\"experimental\"");
    tc_write_time(b, "expires", q->expires);
    tc_write_time(b, "lastDateActive", q->last_active);
}

static void write_parts(struct buf *b, struct str queue)
{
    struct str provisioner, type;
    tc_queue_split(queue, &provisioner, &type);
    buf_print(b, "\"provisionerId\":\"%.*s\",\"workerType\":\"%.*s\",\"taskQueueId\":\"%.*s\"",
              STR_ARG(provisioner), STR_ARG(type), STR_ARG(queue));
}

static void write_queue(struct buf *b, struct tc_call *c, const struct kv_entry *e)
{
    const struct queue_entry q = read_entry(e, c->arena);
    buf_print(b, "{\"taskQueueId\":\"%.*s\"", STR_ARG(e->key));
    write_use(b, &q);
    buf_byte(b, '}');
}

static void write_type(struct buf *b, struct tc_call *c, const struct kv_entry *e)
{
    const struct queue_entry q = read_entry(e, c->arena);
    buf_byte(b, '{');
    write_parts(b, e->key);
    write_use(b, &q);
    buf_byte(b, '}');
}

static void ask(struct tc_call *c, enum command_kind kind, const struct kv_query *query,
                reply_fn done)
{
    struct command cmd = {.kind = kind, .kv = *query, .done = done, .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}

static void on_queue(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    struct buf *b = tc_body(c);
    if (r->err.code == ERR_NOT_FOUND) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Task queue `%.*s` not found.",
                STR_ARG(*(struct str *)c->state));
    } else if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
    } else {
        (strcmp(c->method->name, "getTaskQueue") == 0 ? write_queue : write_type)(b, c, &r->kv[0]);
        tc_reply(c, b);
    }
}

static void get_queue(struct tc_call *c, struct str id)
{
    struct str *queue = ARENA_NEW(c->arena, struct str);
    *queue = id;
    c->state = queue;
    ask(c, CMD_KV_READ, &(struct kv_query){.space = STR(TC_QUEUES), .key = id}, on_queue);
}

void tc_get_task_queue(struct tc_call *c)
{
    get_queue(c, tc_param(c, "taskQueueId"));
}

void tc_get_worker_type(struct tc_call *c)
{
    get_queue(c, tc_queue_of_path(c));
}

/* --- lists --- */

struct listing {
    const char *member;
    void (*write)(struct buf *b, struct tc_call *c, const struct kv_entry *e);
    bool (*wanted)(struct tc_call *c, const struct kv_entry *e); /* NULL: all are */
};

static void on_page(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    const struct listing *l = c->state;
    struct buf *b = tc_body(c);
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    buf_print(b, "{\"%s\":[", l->member);
    bool first = true;
    for (size_t i = 0; i < r->count; i++) {
        if (l->wanted && !l->wanted(c, &r->kv[i]))
            continue;
        if (!first)
            buf_byte(b, ',');
        first = false;
        l->write(b, c, &r->kv[i]);
    }
    buf_byte(b, ']');
    if (r->more)
        tc_write_continuation(b, r->kv_after);
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void list(struct tc_call *c, const struct listing *l, struct str space, struct str prefix)
{
    struct kv_query q = {.space = space, .key = prefix, .prefix = true};
    struct listing *own = ARENA_NEW(c->arena, struct listing);
    *own = *l;
    c->state = own;
    if (tc_page(c, PAGE_MAX, &q.limit, &q.after))
        ask(c, CMD_KV_LIST, &q, on_page);
}

void tc_list_task_queues(struct tc_call *c)
{
    static const struct listing queues = {"taskQueues", write_queue, NULL};
    list(c, &queues, STR(TC_QUEUES), (struct str){0});
}

static struct str with_end(struct str text, char end, struct arena *a)
{
    char *at = arena_get(a, text.len + 1);
    memcpy(at, text.at, text.len);
    at[text.len] = end;
    return (struct str){at, text.len + 1};
}

void tc_list_worker_types(struct tc_call *c)
{
    static const struct listing types = {"workerTypes", write_type, NULL};
    list(c, &types, STR(TC_QUEUES), with_end(tc_param(c, "provisionerId"), '/', c->arena));
}

static bool is_wanted(struct tc_call *c, const struct kv_entry *e)
{
    struct tc_worker w;
    struct str quarantined;
    if (!tc_query_value(c, "quarantined", &quarantined))
        return true;
    tc_worker_of(e, c->arena, &w);
    return tc_worker_is_quarantined(&w, c->now) == str_eq(quarantined, STR("true"));
}

static void write_worker(struct buf *b, struct tc_call *c, const struct kv_entry *e)
{
    struct tc_worker w;
    tc_worker_of(e, c->arena, &w);
    buf_print(b, "{\"workerGroup\":\"%.*s\",\"workerId\":\"%.*s\"", STR_ARG(w.group),
              STR_ARG(w.id));
    tc_write_time(b, "firstClaim", w.first_claim);
    tc_write_time(b, "lastDateActive", w.last_active);
    if (w.recent_count) {
        const struct tc_recent *t = &w.recent[w.recent_count - 1];
        buf_print(b, ",\"latestTask\":{\"taskId\":\"%.*s\",\"runId\":%u}", STR_ARG(t->task_id),
                  t->run);
    }
    if (tc_worker_is_quarantined(&w, c->now))
        tc_write_time(b, "quarantineUntil", w.quarantine_until);
    buf_byte(b, '}');
}

void tc_list_workers(struct tc_call *c)
{
    static const struct listing workers = {"workers", write_worker, is_wanted};
    list(c, &workers, STR(TC_WORKERS), with_end(tc_queue_of_path(c), ' ', c->arena));
}

/* --- provisioners: the first parts of the names of queues --- */

struct provisioners {
    struct tc_call *call;
    struct str only;  /* the one that is asked for, or empty: all */
    struct str after; /* where the page begins */
    uint32_t limit, count;
    struct str name; /* the one that is being gathered, or empty */
    struct queue_entry use;
    struct buf out;
};

static void write_provisioner(struct provisioners *p)
{
    if (p->name.len == 0)
        return;
    if (p->count++)
        buf_byte(&p->out, ',');
    buf_print(&p->out, "{\"provisionerId\":\"%.*s\"", STR_ARG(p->name));
    write_use(&p->out, &p->use);
    buf_byte(&p->out, '}');
    p->after = with_end(p->name, '0', p->call->arena); /* '0' comes after '/' */
    p->name = (struct str){0};
}

static void finish_provisioners(struct provisioners *p, bool more)
{
    struct tc_call *c = p->call;
    struct buf *b = tc_body(c), out = p->out; /* p goes with its exchange */
    if (p->only.len && p->count == 0) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Provisioner `%.*s` not found.", STR_ARG(p->only));
    } else if (p->only.len) {
        tc_reply(c, &out);
    } else {
        buf_print(b, "{\"provisioners\":[%.*s]", STR_ARG(buf_view(&out)));
        if (more)
            tc_write_continuation(b, p->after);
        buf_byte(b, '}');
        tc_reply(c, b);
    }
    buf_fini(&out);
}

static void gather(struct provisioners *p, const struct kv_entry *e)
{
    struct str name, type;
    const struct queue_entry q = read_entry(e, p->call->arena);
    tc_queue_split(e->key, &name, &type);
    if (!str_eq(name, p->name)) {
        write_provisioner(p);
        p->name = arena_copy(p->call->arena, name);
        p->use = q;
    }
    if (q.last_active.ms > p->use.last_active.ms)
        p->use.last_active = q.last_active;
    if (q.expires.ms > p->use.expires.ms)
        p->use.expires = q.expires;
}

static void on_queues(void *ctx, const struct reply *r);

static void more_queues(struct provisioners *p, struct str after)
{
    struct kv_query q = {
        .space = STR(TC_QUEUES), .prefix = true, .limit = PAGE_MAX, .after = after};
    if (p->only.len)
        q.key = with_end(p->only, '/', p->call->arena);
    struct command cmd = {.kind = CMD_KV_LIST, .kv = q, .done = on_queues, .ctx = p};
    backend_submit(p->call->tc->backend, &cmd);
}

static void on_queues(void *ctx, const struct reply *r)
{
    struct provisioners *p = ctx;
    if (r->err.code != ERR_OK) {
        buf_fini(&p->out);
        tc_fail_err(p->call, &r->err);
        return;
    }
    for (size_t i = 0; i < r->count && p->count < p->limit; i++)
        gather(p, &r->kv[i]);
    if (p->count < p->limit && r->more) {
        more_queues(p, arena_copy(p->call->arena, r->kv_after));
        return;
    }
    bool full = p->count == p->limit;
    if (!full)
        write_provisioner(p);
    finish_provisioners(p, full);
}

static void gather_provisioners(struct tc_call *c, struct str only)
{
    struct provisioners *p = ARENA_NEW(c->arena, struct provisioners);
    p->call = c;
    p->only = only;
    if (tc_page(c, PAGE_MAX, &p->limit, &p->after))
        more_queues(p, p->after);
}

void tc_list_provisioners(struct tc_call *c)
{
    gather_provisioners(c, (struct str){0});
}

void tc_get_provisioner(struct tc_call *c)
{
    gather_provisioners(c, tc_param(c, "provisionerId"));
}
