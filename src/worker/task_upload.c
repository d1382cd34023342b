/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/task_upload.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "client/view.h"
#include "client/when.h"
#include "worker/report.h"

#define CALL_TIMEOUT ((span){30000})
/* How long a server that answers may say "later" to one artifact. */
#define PATIENCE    ((span){5 * 60 * 1000})
#define PUT_TIMEOUT ((span){60000})
#define PUT_SLOWEST                                                                                \
    64 /* bytes a millisecond that an upload must come to, beyond the time above                   \
        */
/* URLs expire: how often others are asked for. */
#define PUT_TRIES 3

static void begin_item(struct task_upload *u);

static void close_file(struct task_upload *u)
{
    if (u->has_file)
        close(u->file);
    u->has_file = false;
}

static const struct task_item *item_of(const struct task_upload *u)
{
    return &u->items[u->index];
}

static void complain(struct task_upload *u, struct str why)
{
    const struct task_item *t = item_of(u);
    if (!u->failed++)
        snprintf(u->trouble, sizeof u->trouble, "artifact %.100s: %.*s", t->name,
                 why.len < 160 ? (int)why.len : 160, why.at);
    if (u->log)
        task_log_error(u->log, "artifact %s: %.*s", t->name, STR_ARG(why));
    else
        report_line(TABLE_BAD, "file", "%.*s: %s: %.*s", STR_ARG(u->task_id), t->name,
                    STR_ARG(why));
}

static void next_item(struct task_upload *u)
{
    close_file(u);
    arena_reset(&u->arena);
    u->index++;
    u->tries = 0;
    begin_item(u);
}

/* --- requests --- */

static void on_answer(void *ctx, enum call_result r, struct call *answer);

static void ask(struct task_upload *u, struct taskqueue_ask what)
{
    what.timeout = what.timeout.ms ? what.timeout : CALL_TIMEOUT;
    what.done = on_answer;
    what.ctx = u;
    taskqueue_start(u->queue, &u->request, &what);
}

static void ask_queue(struct task_upload *u, const char *method, struct str body, span delay)
{
    struct buf path = {0}, more = {0};
    buf_lit(&more, "/artifacts/");
    taskqueue_encode(&more, str_from(item_of(u)->name));
    buf_byte(&more, '\0');
    ask(u, (struct taskqueue_ask){.method = method,
                                  .path = taskqueue_run_path(&path, u->task_id, u->run, more.at),
                                  .body = body,
                                  .by = u->by,
                                  .delay = delay});
    buf_fini(&path);
    buf_fini(&more);
}

static void member(struct buf *b, const char *name, struct str text)
{
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, text);
}

static void create(struct task_upload *u, span delay)
{
    static const char *const storages[] = {"s3", "object"};
    const struct task_item *t = item_of(u);
    struct buf b = {0}, words = {0};
    bool error = u->fault != TASK_FILE_FINE;
    u->step = UPLOAD_CREATE;
    buf_print(&b, "{\"storageType\":\"%s\",\"expires\":\"", error ? "error" : storages[u->storage]);
    rfc3339_write(&b, t->expires);
    buf_byte(&b, '"');
    if (error) {
        buf_print(&words, "%s in the task's directory: %s", t->path, task_file_words(u->fault));
        member(&b, "reason", str_from(task_file_reason(u->fault)));
        report_text(&b, "message", report_cut(buf_view(&words), 4000));
    } else {
        member(&b, "contentType", str_from(t->content_type));
        buf_print(&b, ",\"contentLength\":%" PRId64, u->size);
    }
    buf_byte(&b, '}');
    ask_queue(u, "POST", buf_view(&b), delay);
    buf_fini(&words);
    buf_fini(&b);
}

static void ask_objects(struct task_upload *u, const char *method, const char *what,
                        struct str body)
{
    struct buf path = {0};
    buf_print(&path, "/api/object/v1/%s/", what);
    taskqueue_encode(&path, u->object);
    buf_byte(&path, '\0');
    ask(u, (struct taskqueue_ask){
               .method = method, .path = path.at, .body = body, .by = &u->object_by});
    buf_fini(&path);
}

static void create_object(struct task_upload *u)
{
    struct buf b = {0};
    u->step = UPLOAD_CREATE_OBJECT;
    buf_lit(&b, "{\"projectId\":");
    json_write_string(&b, u->project);
    member(&b, "uploadId", u->upload_id);
    member(&b, "expires", u->object_expires);
    buf_lit(&b, ",\"proposedUploadMethods\":{\"putUrl\":{\"contentType\":");
    json_write_string(&b, str_from(item_of(u)->content_type));
    buf_print(&b, ",\"contentLength\":%" PRId64 "}}}", u->size);
    ask_objects(u, "PUT", "upload", buf_view(&b));
    buf_fini(&b);
}

static void finish_object(struct task_upload *u)
{
    struct buf b = {0};
    u->step = UPLOAD_FINISH_OBJECT;
    buf_lit(&b, "{\"projectId\":");
    json_write_string(&b, u->project);
    member(&b, "uploadId", u->upload_id);
    buf_byte(&b, '}');
    ask_objects(u, "POST", "finish-upload", buf_view(&b));
    buf_fini(&b);
}

static void finish_artifact(struct task_upload *u)
{
    struct buf b = {0};
    u->step = UPLOAD_FINISH;
    buf_lit(&b, "{\"uploadId\":");
    json_write_string(&b, u->upload_id);
    buf_byte(&b, '}');
    ask_queue(u, "PUT", buf_view(&b), (span){0});
    buf_fini(&b);
}

/* A header, unless its name or value has characters that could begin another. */
static const char *header_line(struct task_upload *u, struct str name, struct str value)
{
    struct buf b = {0};
    buf_print(&b, "%.*s: %.*s", STR_ARG(name), STR_ARG(value));
    for (size_t i = 0; i < b.len; i++)
        if ((unsigned char)b.at[i] < 0x20)
            b.len = 0;
    buf_byte(&b, '\0');
    const char *line = arena_copy(&u->arena, buf_view(&b)).at;
    buf_fini(&b);
    return line;
}

/* The next member of the object as a header; *line is NULL behind the last one. */
static struct err next_header(struct task_upload *u, struct json_cursor *c, const char **line)
{
    struct json_string key = {0}, value = {0};
    struct str text = {0};
    bool more = false;
    *line = NULL;
    TRY(json_next_member(c, &more, &key));
    if (!more)
        return err_none();
    TRY(json_read_string(c, &value));
    TRY(json_text(value, &u->arena, &text));
    *line = header_line(u, key.raw, text);
    return err_none();
}

static void add_headers(struct task_upload *u, struct taskqueue_ask *what)
{
    struct json_cursor c = json_open(u->upload_headers);
    const char *line = "Accept: */*";
    size_t n = 0;
    if (!u->upload_headers.len) {
        what->headers[0] = header_line(u, STR("Content-Type"), str_from(item_of(u)->content_type));
        return;
    }
    struct err e = json_enter_object(&c);
    while (e.code == ERR_OK && line && n < COUNT(what->headers)) {
        what->headers[n++] = line;
        e = next_header(u, &c, &line);
    }
}

static void put(struct task_upload *u)
{
    struct buf url = {0};
    u->step = UPLOAD_PUT;
    buf_str(&url, u->put_url);
    buf_byte(&url, '\0');
    struct taskqueue_ask what = {.method = "PUT",
                                 .path = url.at,
                                 .any_answer = true,
                                 .has_file = true,
                                 .file = u->file,
                                 .file_size = u->size,
                                 .timeout = {PUT_TIMEOUT.ms + u->size / PUT_SLOWEST}};
    add_headers(u, &what);
    ask(u, what);
    buf_fini(&url);
}

/* --- answers --- */

static void refused(struct task_upload *u, const struct call *answer)
{
    struct buf why = {0};
    call_explain(answer, &why);
    complain(u, buf_view(&why));
    buf_fini(&why);
    next_item(u);
}

static void malformed(struct task_upload *u)
{
    complain(u, STR("the answer of the server does not say where to put it"));
    next_item(u);
}

/* Only http and https: the URL comes from elsewhere. */
static bool is_url(struct str url)
{
    return (url.len > 7 && memcmp(url.at, "http://", 7) == 0) ||
           (url.len > 8 && memcmp(url.at, "https://", 8) == 0);
}

static void created(struct task_upload *u, struct str answer)
{
    struct arena *a = &u->arena;
    if (u->fault != TASK_FILE_FINE) {
        next_item(u);
        return;
    }
    answer = arena_copy(a, answer);
    if (u->storage == TASK_STORAGE_S3) {
        u->put_url = view_text(a, answer, "putUrl");
        u->upload_headers = (struct str){0};
        if (is_url(u->put_url))
            put(u);
        else
            malformed(u);
        return;
    }
    struct str by = view_get(answer, "credentials");
    u->object = view_text(a, answer, "name");
    u->project = view_text(a, answer, "projectId");
    u->upload_id = view_text(a, answer, "uploadId");
    u->object_expires = view_text(a, answer, "expires");
    u->object_by = (struct hawk_credentials){.client_id = view_text(a, by, "clientId"),
                                             .access_token = view_text(a, by, "accessToken"),
                                             .certificate = view_text(a, by, "certificate")};
    if (u->object.len && u->upload_id.len && !hawk_client_bad(&u->object_by))
        create_object(u);
    else
        malformed(u);
}

static void object_created(struct task_upload *u, struct str answer)
{
    struct str how = view_get(view_get(answer, "uploadMethod"), "putUrl");
    how = arena_copy(&u->arena, how);
    u->put_url = view_text(&u->arena, how, "url");
    u->upload_headers = view_get(how, "headers");
    if (is_url(u->put_url))
        put(u);
    else
        malformed(u);
}

static void done(struct task_upload *u, struct call *answer)
{
    switch (u->step) {
    case UPLOAD_CREATE:
        created(u, buf_view(&answer->answer));
        break;
    case UPLOAD_CREATE_OBJECT:
        object_created(u, buf_view(&answer->answer));
        break;
    case UPLOAD_PUT:
        if (u->storage == TASK_STORAGE_OBJECT)
            finish_object(u);
        else
            next_item(u);
        break;
    case UPLOAD_FINISH_OBJECT:
        finish_artifact(u);
        break;
    case UPLOAD_FINISH:
        next_item(u);
    }
}

/* A server that is away is waited for as long as the run is held; one that says "later", for a
 * while. */
static bool may_try_again(const struct task_upload *u, enum call_result r, const struct call *c)
{
    if (r == CALL_UNREACHABLE)
        return true;
    if (c->status == 507) /* its space is used up, and is not soon free again */
        return false;
    if (r == CALL_TRY_LATER)
        return when_ms_between(when_mono(), u->begun) < PATIENCE.ms;
    return u->step == UPLOAD_PUT && c->status == 403 && u->tries < PUT_TRIES;
}

static void on_answer(void *ctx, enum call_result r, struct call *answer)
{
    struct task_upload *u = ctx;
    if (r == CALL_DONE)
        done(u, answer);
    else if (may_try_again(u, r, answer))
        create(u, taskqueue_pause(u->tries++));
    else
        refused(u, answer);
}

/* --- from the outside --- */

static void open_item(struct task_upload *u)
{
    const struct task_item *t = item_of(u);
    u->fault = t->fault;
    if (u->fault == TASK_FILE_FINE)
        u->fault = task_file_open(t->dir, t->path, &u->file, &u->size);
    u->has_file = u->fault == TASK_FILE_FINE;
}

static void begin_item(struct task_upload *u)
{
    for (; u->index < u->count; u->index++) {
        open_item(u);
        if (u->fault != TASK_FILE_MISSING || !item_of(u)->optional)
            break;
        if (u->log)
            task_log_line(u->log, "artifact %s: %s; it is optional", item_of(u)->name,
                          task_file_words(u->fault));
    }
    if (u->index == u->count) {
        u->done = true;
        return;
    }
    u->begun = when_mono();
    if (u->fault != TASK_FILE_FINE)
        complain(u, str_from(task_file_words(u->fault)));
    create(u, (span){0});
}

void task_upload_begin(struct task_upload *u, const struct task_item *items, size_t count)
{
    u->items = items;
    u->count = count;
    u->index = 0;
    u->tries = 0;
    u->failed = 0;
    u->done = false;
    begin_item(u);
}

void task_upload_abort(struct task_upload *u)
{
    taskqueue_abort(&u->request);
    close_file(u);
    u->done = true;
}

void task_upload_fini(struct task_upload *u)
{
    task_upload_abort(u);
    arena_fini(&u->arena);
}
