/* SPDX-License-Identifier: Apache-2.0 */

/* The index service: tasks under names such as "project.branch.latest.linux". What clients insert
 * is there until it expires, and so is a completed task that has a route "index.NAME"
 * (reportCompleted). An entry's key is "namespace name", so that those directly below a namespace
 * lie together: a path has no space.
 *
 * Source: the reference of the index service of taskcluster/taskcluster. */

#include <float.h>

#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_artifact.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define INDEX       "taskcluster/index"
#define DATA_MAX    ((size_t)32 * 1024)
#define INDEXES_MAX 1000
#define PAGE_MAX    1000

/* What a path leads to. Strings live in the arena of the call. */
struct indexed {
    struct str path, task_id;
    double rank;
    struct str data; /* a JSON object, as given */
    instant expires;
};

/* --- entries --- */

static struct err read_rank(struct json_cursor *c, struct arena *a, void *rank)
{
    (void)a;
    return json_read_double(c, -DBL_MAX, DBL_MAX, rank);
}

static struct err read_time(struct json_cursor *c, struct arena *a, void *time)
{
    struct str text;
    TRY(field_text(c, a, &text));
    if (!rfc3339_parse(text, time))
        return err_make(ERR_BAD_VALUE, "'%.*s' is no time", NAME_ARG(text));
    return err_none();
}

static const struct field stored_fields[] = {
    {.name = "taskId", .read = field_text, .offset = offsetof(struct indexed, task_id)},
    {.name = "rank", .read = read_rank, .offset = offsetof(struct indexed, rank)},
    {.name = "data", .read = field_any, .offset = offsetof(struct indexed, data)},
};

static struct str key_of(struct str path, struct arena *a)
{
    char *at = arena_get(a, path.len + 1);
    const char *dot = memrchr(path.at, '.', path.len);
    size_t parent = dot ? (size_t)(dot - path.at) : 0, skip = dot ? parent + 1 : 0;
    memcpy(at, path.at, parent);
    at[parent] = ' ';
    memcpy(at + parent + 1, path.at + skip, path.len - skip);
    return (struct str){at, parent + 1 + path.len - skip};
}

static struct str path_of(struct str key, struct arena *a)
{
    struct str path = arena_copy(a, key);
    char *space = memchr(path.at, ' ', path.len);
    must(space);
    if (space == path.at)
        return (struct str){path.at + 1, path.len - 1};
    *space = '.';
    return path;
}

static struct err read_entry(const struct kv_entry *e, struct arena *a, struct indexed *i)
{
    struct str value = arena_copy(a, e->value);
    struct json_cursor j = json_open(value);
    *i = (struct indexed){.expires = e->expires};
    TRY(field_read_object(false, &j, a, stored_fields, COUNT(stored_fields), i));
    i->path = path_of(e->key, a);
    return err_none();
}

static void write_entry(struct buf *b, const struct indexed *i)
{
    buf_lit(b, "{\"taskId\":");
    json_write_string(b, i->task_id);
    KEY(b, "rank");
    json_write_double(b, i->rank);
    KEY(b, "data");
    buf_str(b, i->data);
    buf_byte(b, '}');
}

static void answer(struct buf *b, const struct indexed *i)
{
    buf_lit(b, "{\"namespace\":");
    json_write_string(b, i->path);
    KEY(b, "taskId");
    json_write_string(b, i->task_id);
    KEY(b, "rank");
    json_write_double(b, i->rank);
    KEY(b, "data");
    buf_str(b, i->data);
    tc_write_time(b, "expires", i->expires);
    buf_byte(b, '}');
}

static void read_key(struct tc_call *c, struct str key, reply_fn done, void *ctx)
{
    struct command cmd = {
        .kind = CMD_KV_READ, .kv = {.space = STR(INDEX), .key = key}, .done = done, .ctx = ctx};
    backend_submit(c->tc->backend, &cmd);
}

/* --- insertions --- */

/* A task is put under its path unless one of a higher rank is there. Lives in the arena. */
struct insertion {
    struct tc_call *call;
    struct indexed task;
    /* With what is there now; or with an error. */
    void (*done)(struct insertion *i, const struct err *err, const struct indexed *now);
    void *ctx;
};

static void insert(struct insertion *i);

static void on_put(void *ctx, const struct reply *r)
{
    struct insertion *i = ctx;
    if (r->err.code == ERR_CONFLICT)
        insert(i); /* another task came meanwhile, whose rank counts */
    else
        i->done(i, &r->err, &i->task);
}

static void put(struct insertion *i, uint64_t version)
{
    struct arena *a = i->call->arena;
    struct buf value = {0};
    write_entry(&value, &i->task);
    const struct kv_change change = {.entry = {STR(INDEX), key_of(i->task.path, a),
                                               arena_copy(a, buf_view(&value)), i->task.expires,
                                               version},
                                     .when = version ? KV_VERSION : KV_ABSENT};
    struct command cmd = {.kind = CMD_KV_PUT, .kv_put = {&change, 1}, .done = on_put, .ctx = i};
    buf_fini(&value);
    backend_submit(i->call->tc->backend, &cmd);
}

static void on_looked(void *ctx, const struct reply *r)
{
    struct insertion *i = ctx;
    struct indexed there = {.rank = i->task.rank};
    struct err err = r->err;
    if (err.code == ERR_OK)
        err = read_entry(&r->kv[0], i->call->arena, &there);
    if (err.code == ERR_NOT_FOUND)
        put(i, 0);
    else if (err.code != ERR_OK)
        i->done(i, &err, NULL);
    else if (there.rank > i->task.rank)
        i->done(i, &err, &there);
    else
        put(i, r->kv[0].version);
}

static void insert(struct insertion *i)
{
    read_key(i->call, key_of(i->task.path, i->call->arena), on_looked, i);
}

/* --- insertTask --- */

static const struct field insert_fields[] = {
    {.name = "taskId", .read = field_text, .offset = offsetof(struct indexed, task_id)},
    {.name = "rank", .read = read_rank, .offset = offsetof(struct indexed, rank)},
    {.name = "data", .read = field_any, .offset = offsetof(struct indexed, data)},
    {.name = "expires", .read = read_time, .offset = offsetof(struct indexed, expires)},
};

static void reply_inserted(struct insertion *i, const struct err *err, const struct indexed *now)
{
    struct tc_call *c = i->call;
    struct buf *b = tc_body(c);
    if (err->code != ERR_OK) {
        tc_fail_err(c, err);
        return;
    }
    answer(b, now);
    tc_reply(c, b);
}

static void insert_task(struct tc_call *c)
{
    struct insertion *i = ARENA_NEW(c->arena, struct insertion);
    struct json_cursor j = json_open(c->body);
    i->call = c;
    i->done = reply_inserted;
    struct err err =
        field_read_object(true, &j, c->arena, insert_fields, COUNT(insert_fields), &i->task);
    must(err.code == ERR_OK); /* by the schema */
    i->task.path = tc_param(c, "namespace");
    if (i->task.data.len > DATA_MAX)
        tc_fail(c, TC_INPUT_ERROR, "The data of an indexed task have at most %zu bytes", DATA_MAX);
    else
        insert(i);
}

/* --- findTask --- */

struct finding {
    struct tc_call *call;
    void (*then)(struct tc_call *c, const struct indexed *i);
};

static void on_found(void *ctx, const struct reply *r)
{
    const struct finding *f = ctx;
    struct tc_call *c = f->call;
    struct indexed i;
    struct err err = r->err;
    if (err.code == ERR_OK)
        err = read_entry(&r->kv[0], c->arena, &i);
    if (err.code == ERR_NOT_FOUND)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Indexed task not found");
    else if (err.code != ERR_OK)
        tc_fail_err(c, &err);
    else
        f->then(c, &i);
}

static void find(struct tc_call *c, void (*then)(struct tc_call *c, const struct indexed *i))
{
    struct finding *f = ARENA_NEW(c->arena, struct finding);
    *f = (struct finding){c, then};
    read_key(c, key_of(tc_param(c, "indexPath"), c->arena), on_found, f);
}

static void reply_found(struct tc_call *c, const struct indexed *i)
{
    struct buf *b = tc_body(c);
    answer(b, i);
    tc_reply(c, b);
}

static void find_task(struct tc_call *c)
{
    find(c, reply_found);
}

/* --- findArtifactFromTask --- */

static void redirect(struct tc_call *c, const struct indexed *i)
{
    tc_artifact_redirect(c, i->task_id, tc_param(c, "name"));
}

static void find_artifact(struct tc_call *c)
{
    const struct str name = tc_param(c, "name");
    const struct scope_param params[] = {{.name = "names", .list = &name, .count = 1}};
    if (tc_authorize(c, params, COUNT(params)))
        find(c, redirect);
}

/* --- findTasksAtIndex --- */

struct many {
    struct tc_call *call;
    struct tc_texts indexes;
    size_t next;
    struct buf answer;
    bool any;
};

static void finish(struct many *m, const struct err *err)
{
    struct tc_call *c = m->call;
    struct buf text = m->answer; /* m goes with its exchange */
    buf_byte(&text, '}');
    if (err->code != ERR_OK)
        tc_fail_err(c, err);
    else
        tc_reply(c, &text);
    buf_fini(&text);
}

static struct err add(struct many *m, const struct kv_entry *e)
{
    struct indexed i;
    TRY(read_entry(e, m->call->arena, &i));
    if (m->any)
        buf_byte(&m->answer, ',');
    m->any = true;
    answer(&m->answer, &i);
    return err_none();
}

static void look_up_next(struct many *m);

static void on_one(void *ctx, const struct reply *r)
{
    struct many *m = ctx;
    struct err err = r->err.code == ERR_NOT_FOUND ? err_none() : r->err;
    if (r->err.code == ERR_OK)
        err = add(m, &r->kv[0]);
    if (err.code == ERR_OK)
        look_up_next(m);
    else
        finish(m, &err);
}

static void look_up_next(struct many *m)
{
    struct err none = err_none();
    struct tc_call *c = m->call;
    const char *must_be;
    while (m->next < m->indexes.count &&
           !tc_check_param(STR("indexPath"), m->indexes.at[m->next], &must_be))
        m->next++; /* nothing can be there */
    if (m->next < m->indexes.count) {
        read_key(c, key_of(m->indexes.at[m->next++], c->arena), on_one, m);
        return;
    }
    buf_byte(&m->answer, ']');
    finish(m, &none);
}

static void find_tasks(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "indexes", .read = tc_field_texts, .offset = offsetof(struct many, indexes)},
    };
    struct many *m = ARENA_NEW(c->arena, struct many);
    struct json_cursor j = json_open(c->body);
    m->call = c;
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), m);
    must(err.code == ERR_OK); /* by the schema */
    const struct scope_param params[] = {
        {.name = "indexes", .list = m->indexes.at, .count = m->indexes.count}};
    if (m->indexes.count > INDEXES_MAX) {
        tc_fail(c, TC_INPUT_ERROR, "At most %d indexes can be looked up at once", INDEXES_MAX);
    } else if (tc_authorize(c, params, COUNT(params))) {
        buf_lit(&m->answer, "{\"tasks\":[");
        look_up_next(m);
    }
}

/* --- listTasks --- */

static void on_listed(void *ctx, const struct reply *r)
{
    struct many *m = ctx;
    struct err err = r->err;
    for (size_t i = 0; err.code == ERR_OK && i < r->count; i++)
        err = add(m, &r->kv[i]);
    buf_byte(&m->answer, ']');
    if (err.code == ERR_OK && r->more)
        tc_write_continuation(&m->answer, r->kv_after);
    finish(m, &err);
}

static void list_tasks(struct tc_call *c)
{
    struct many *m = ARENA_NEW(c->arena, struct many);
    struct command cmd = {.kind = CMD_KV_LIST,
                          .kv = {.space = STR(INDEX), .prefix = true},
                          .done = on_listed,
                          .ctx = m};
    struct buf prefix = {0};
    m->call = c;
    if (!tc_page(c, PAGE_MAX, &cmd.kv.limit, &cmd.kv.after))
        return;
    buf_str(&prefix, tc_param(c, "namespace"));
    buf_byte(&prefix, ' ');
    cmd.kv.key = arena_copy(c->arena, buf_view(&prefix));
    buf_fini(&prefix);
    buf_lit(&m->answer, "{\"tasks\":[");
    backend_submit(c->tc->backend, &cmd);
}

/* --- a completed task --- */

static const struct str route_prefix = {"index.", 6};

static bool is_index_route(struct str route)
{
    return route.len > route_prefix.len && memcmp(route.at, route_prefix.at, route_prefix.len) == 0;
}

struct completed {
    struct insertion insertion;
    struct tc_texts routes;
    size_t next;
};

static void insert_next(struct completed *k);

static void on_indexed(struct insertion *i, const struct err *err, const struct indexed *now)
{
    (void)now;
    if (err->code == ERR_OK)
        insert_next(i->ctx);
    else
        tc_fail_err(i->call, err); /* the worker reports again, and then it is indexed */
}

static void insert_next(struct completed *k)
{
    struct tc_call *c = k->insertion.call;
    const char *must_be = "";
    while (k->next < k->routes.count) {
        struct str route = k->routes.at[k->next++];
        if (!is_index_route(route))
            continue;
        struct str path = {route.at + route_prefix.len, route.len - route_prefix.len};
        if (tc_check_param(STR("indexPath"), path, &must_be)) {
            k->insertion.task.path = path;
            insert(&k->insertion);
            return;
        }
        log_warn("taskcluster: task %.*s is not indexed by its route %.*s: a path must be %s",
                 STR_ARG(k->insertion.task.task_id), NAME_ARG(route), must_be);
    }
    tc_task_read(c, tc_param(c, "taskId"), tc_task_reply);
}

/* What the definition's extra.index says; else rank 0, no data, as long as the task. */
static void read_extra(const struct tc_definition *d, struct arena *a, struct indexed *i)
{
    static const struct field fields[] = {
        {.name = "rank", .read = read_rank, .offset = offsetof(struct indexed, rank)},
        {.name = "data", .read = field_any, .offset = offsetof(struct indexed, data)},
        {.name = "expires", .read = read_time, .offset = offsetof(struct indexed, expires)},
    };
    struct indexed said = {.expires = INSTANT_NONE};
    struct str raw;
    if (json_member(d->extra, STR("index"), &raw).code == ERR_OK && raw.len) {
        struct json_cursor j = json_open(raw);
        struct err err = field_read_object(false, &j, a, fields, COUNT(fields), &said);
        if (err.code != ERR_OK) {
            log_warn("taskcluster: extra.index of task %.*s is not used: %s", STR_ARG(i->task_id),
                     err.msg);
            said = (struct indexed){.expires = INSTANT_NONE};
        }
    }
    bool data = said.data.len && *said.data.at == '{' && said.data.len <= DATA_MAX;
    i->rank = said.rank;
    i->data = data ? said.data : STR("{}");
    i->expires = said.expires;
    if (!instant_is_set(i->expires) && !rfc3339_parse(d->expires, &i->expires))
        i->expires = INSTANT_NONE;
}

bool tc_index_completed(struct tc_call *c, const struct tc_task *t)
{
    struct tc_definition d;
    struct str payload = arena_copy(c->arena, t->job.payload);
    size_t i = 0;
    if (tc_definition_read(payload, c->arena, &d).code != ERR_OK)
        return false;
    while (i < d.routes.count && !is_index_route(d.routes.at[i]))
        i++;
    if (i == d.routes.count)
        return false;
    struct completed *k = ARENA_NEW(c->arena, struct completed);
    k->insertion = (struct insertion){.call = c, .done = on_indexed, .ctx = k};
    k->insertion.task.task_id = arena_copy(c->arena, t->job.options.alias);
    k->routes = d.routes;
    read_extra(&d, c->arena, &k->insertion.task);
    insert_next(k);
    return true;
}

/* --- methods --- */

static const struct scope_expr find_scope = SCOPE("index:find-task:<indexPath>");
static const struct scope_expr list_scope = SCOPE("index:list-tasks:<namespace>");
static const struct scope_expr insert_scope = SCOPE("index:insert-task:<namespace>");
static const struct scope_expr many_scope =
    SCOPE_ALL_OF(SCOPE_EACH("indexPath", "indexes", "index:find-task:<indexPath>"));
static const struct scope_expr artifact_scope =
    SCOPE_ALL_OF(SCOPE_EACH("name", "names", "queue:get-artifact:<name>"));

const struct tc_method tc_index_methods[] = {
    {{HTTP_GET, "/ping"},
     tc_ping,
     "ping",
     .category = "Monitoring",
     .title = "Ping server",
     .stability = "stable"},
    {{HTTP_GET, "/__lbheartbeat__"},
     tc_heartbeat,
     "lbheartbeat",
     .category = "Monitoring",
     .title = "Load balancer heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__heartbeat__"},
     tc_heartbeat,
     "heartbeat",
     .category = "Monitoring",
     .title = "Heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__version__"},
     tc_version,
     "version",
     .category = "Monitoring",
     .title = "Version",
     .stability = "stable"},
    {{HTTP_GET, "/task/{indexPath}"},
     find_task,
     "findTask",
     &find_scope,
     .early = true,
     .output = "index/v1/indexed-task-response.json",
     .category = "Index Service",
     .title = "Find the task under a path",
     .stability = "stable"},
    {{HTTP_POST, "/tasks/indexes"},
     find_tasks,
     "findTasksAtIndex",
     &many_scope,
     .input = "index/v1/list-tasks-at-index.json",
     .output = "index/v1/list-tasks-response.json",
     .category = "Index Service",
     .title = "Find the tasks under several paths",
     .stability = "experimental"},
    {{HTTP_GET, "/tasks/{namespace}"},
     list_tasks,
     "listTasks",
     &list_scope,
     .early = true,
     .output = "index/v1/list-tasks-response.json",
     .query = tc_pages,
     .category = "Index Service",
     .title = "List the tasks directly below a namespace",
     .stability = "stable"},
    {{HTTP_PUT, "/task/{namespace}"},
     insert_task,
     "insertTask",
     &insert_scope,
     .early = true,
     .input = "index/v1/insert-task-request.json",
     .output = "index/v1/indexed-task-response.json",
     .category = "Index Service",
     .title = "Put a task under a path, unless one of a higher rank is there",
     .stability = "stable"},
    {{HTTP_GET, "/task/{indexPath}/artifacts/{name*}"},
     find_artifact,
     "findArtifactFromTask",
     &artifact_scope,
     .category = "Index Service",
     .title = "Get an artifact of the task under a path",
     .stability = "stable"},
};
const size_t tc_index_method_count = COUNT(tc_index_methods);
