/* SPDX-License-Identifier: Apache-2.0 */

/* Answers, and errors in Taskcluster's form:
 *
 *     {"code": "ResourceNotFound", "message": "…\n\n---\n\n* method: …",
 *      "requestInfo": {"method": "task", "params": {…}, "payload": {…}, "time": "…"}} */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "base/utf8.h"
#include "taskcluster/tc_azure.h"
#include "taskcluster/tc_internal.h"

/* A larger body is not repeated in the answer to it. */
#define ECHO_MAX ((size_t)16 << 10)

static const struct {
    const char *name;
    int status;
} codes[TC_CODES] = {
    [TC_MALFORMED_PAYLOAD] = {"MalformedPayload", 400},
    [TC_INVALID_REQUEST_ARGUMENTS] = {"InvalidRequestArguments", 400},
    [TC_INPUT_VALIDATION_ERROR] = {"InputValidationError", 400},
    [TC_INPUT_ERROR] = {"InputError", 400},
    [TC_AUTHENTICATION_FAILED] = {"AuthenticationFailed", 401},
    [TC_INSUFFICIENT_SCOPES] = {"InsufficientScopes", 403},
    [TC_BAD_SIGNATURE] = {"AuthenticationFailed", 403},
    [TC_RESOURCE_NOT_FOUND] = {"ResourceNotFound", 404},
    [TC_METHOD_NOT_ALLOWED] = {"MethodNotAllowed", 405},
    [TC_NO_MATCHING_METHOD] = {"NoMatchingMethod", 406},
    [TC_REQUEST_TIMEOUT] = {"RequestTimeout", 408},
    [TC_REQUEST_CONFLICT] = {"RequestConflict", 409},
    [TC_RESOURCE_EXPIRED] = {"ResourceExpired", 410},
    [TC_INPUT_TOO_LARGE] = {"InputTooLarge", 413},
    [TC_RANGE_NOT_SATISFIABLE] = {"RangeNotSatisfiable", 416},
    [TC_DEPENDENCY] = {"ArtifactError", 424},
    [TC_INTERNAL_SERVER_ERROR] = {"InternalServerError", 500},
    [TC_TOO_MANY_REQUESTS] = {"TooManyRequests", 429},
    [TC_NOT_IMPLEMENTED] = {"NotImplemented", 501},
    [TC_BUSY] = {"ServiceUnavailable", 503},
    [TC_OUT_OF_SPACE] = {"InsufficientStorage", 507},
};

struct buf *tc_body(struct tc_call *c)
{
    c->tc->scratch.len = 0;
    return &c->tc->scratch;
}

void tc_ignore(void *ctx, const struct reply *r)
{
    (void)ctx;
    (void)r;
}

void tc_reply(struct tc_call *c, const struct buf *body)
{
    http_reply(c->x, 200, STR("application/json; charset=utf-8"), buf_view(body), NULL);
}

void tc_reply_empty(struct tc_call *c)
{
    http_reply(c->x, 200, STR("application/json; charset=utf-8"), STR("{}"), NULL);
}

/* --- later --- */

struct later {
    uv_timer_t timer; /* first: its handle is what is closed */
    struct list node; /* in taskcluster.later */
    struct http_exchange *x;
    struct str body;
};

static void on_closed(uv_handle_t *h)
{
    free(h);
}

static void reply_now(struct later *l)
{
    list_unlink(&l->node);
    http_on_gone(l->x, NULL, NULL);
    http_reply(l->x, 200, STR("application/json; charset=utf-8"), l->body, NULL);
    uv_close((uv_handle_t *)&l->timer, on_closed);
}

static void on_time(uv_timer_t *t)
{
    reply_now((struct later *)t);
}

static void on_gone(void *ctx)
{
    reply_now(ctx);
}

void tc_reply_later(struct tc_call *c, struct str body, span after)
{
    struct later *l = ALLOC(struct later);
    l->x = c->x;
    l->body = arena_copy(c->arena, body);
    must(uv_timer_init(c->tc->settings.loop, &l->timer) == 0);
    must(uv_timer_start(&l->timer, on_time, (uint64_t)after.ms, 0) == 0);
    list_append(&c->tc->later, &l->node);
    http_on_gone(c->x, on_gone, l);
}

void taskcluster_drain(struct taskcluster *t)
{
    while (!list_is_empty(&t->later))
        reply_now(LIST_OF(t->later.next, struct later, node));
}

/* --- errors --- */

/* Text of a request may be cut in the middle of a character, or be none. */
static void write_safe(struct buf *b, struct str text)
{
    json_write_string(b, (struct str){text.at, utf8_check(text)});
}

static void write_params(struct buf *b, const struct tc_call *c)
{
    const char *at = c->method->route.pattern;
    struct str name;
    buf_lit(b, "\"params\":{");
    for (int i = 0; at && tc_next_param(&at, &name); i++) {
        if (i)
            buf_byte(b, ',');
        json_write_string(b, name);
        buf_byte(b, ':');
        write_safe(b, c->params[i]);
    }
    buf_byte(b, '}');
}

static void write_error(struct buf *b, const struct tc_call *c, enum tc_code code,
                        struct str message)
{
    struct buf text = {0}, time = {0};
    rfc3339_write(&time, c->now);
    buf_add(&text, message.at, utf8_check(message));
    buf_print(&text,
              "\n\n---\n\n* method:     %s\n* errorCode:  %s\n* statusCode: %d\n* time:       %.*s",
              c->method->name, codes[code].name, codes[code].status, STR_ARG(buf_view(&time)));
    buf_print(b, "{\"code\":\"%s\",\"message\":", codes[code].name);
    json_write_string(b, buf_view(&text));
    buf_print(b, ",\"requestInfo\":{\"method\":\"%s\",", c->method->name);
    write_params(b, c);
    buf_lit(b, ",\"payload\":");
    if (c->method->input && c->body.len > 0 && c->body.len <= ECHO_MAX)
        buf_str(b, c->body);
    else
        buf_lit(b, "{}");
    buf_print(b, ",\"time\":\"%.*s\"}}", STR_ARG(buf_view(&time)));
    buf_fini(&text);
    buf_fini(&time);
}

static void fail(struct tc_call *c, enum tc_code code, struct str message, const char *extra)
{
    struct buf *b = tc_body(c);
    if (c->method->azure) {
        tc_azure_fail(c, codes[code].status, tc_azure_code(codes[code].status),
                      (struct str){message.at, utf8_check(message)});
        return;
    }
    write_error(b, c, code, message);
    http_reply(c->x, codes[code].status, STR("application/json; charset=utf-8"), buf_view(b),
               extra);
}

void tc_fail(struct tc_call *c, enum tc_code code, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    fail(c, code, n < 0 ? STR("out of memory") : (struct str){text, (size_t)n}, NULL);
    free(n < 0 ? NULL : text);
}

void tc_fail_access(struct tc_call *c, const struct err *err, const char *challenge)
{
    char extra[ACCESS_CHALLENGE_MAX + 32] = "";
    if (challenge[0])
        snprintf(extra, sizeof extra, "WWW-Authenticate: %s\r\n", challenge);
    fail(c, err->code == ERR_BUSY ? TC_BUSY : TC_AUTHENTICATION_FAILED, str_from(err->msg),
         extra[0] ? extra : NULL);
}

void tc_fail_extra(struct tc_call *c, enum tc_code code, const struct err *err, const char *extra)
{
    fail(c, code, str_from(err->msg), extra);
}

/* The length of an internal id, which means nothing to clients of this API. */
#define JOB_ID_LEN 25

static bool is_part_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static size_t word_len(const char *at)
{
    size_t n = 0;
    while (is_part_of_word(at[n]))
        n++;
    return n;
}

static size_t copy(struct buf *b, const char *at, size_t n)
{
    buf_add(b, at, n);
    return n;
}

/* A word of the engine's in this API's vocabulary; returns how much of the text it has read. */
static size_t write_word(struct buf *b, const char *at, size_t n)
{
    static const char alias[] = "with the alias ";
    if (strncmp(at, alias, sizeof alias - 1) == 0)
        return sizeof alias - 1;
    if (n == 4 && memcmp(at, "jobs", 4) == 0) {
        buf_lit(b, "tasks");
        return n;
    }
    if (n != 3 || memcmp(at, "job", 3) != 0)
        return copy(b, at, n);
    bool named = at[n] == ' ' && word_len(at + n + 1) == JOB_ID_LEN;
    buf_str(b, named ? STR("the task") : STR("task"));
    return named ? n + 1 + JOB_ID_LEN : n;
}

const char *tc_task_words(struct tc_call *c, const struct err *err)
{
    struct buf b = {0};
    for (const char *at = err->msg; *at;) {
        size_t n = word_len(at);
        const char *quoted = *at == '\'' ? strchr(at + 1, '\'') : NULL;
        if (quoted && (at == err->msg || at[-1] == ' '))
            at += copy(&b, at, (size_t)(quoted - at) + 1);
        else
            at += n ? write_word(&b, at, n) : copy(&b, at, 1);
    }
    buf_byte(&b, '\0');
    const char *text = arena_copy(c->arena, buf_view(&b)).at;
    buf_fini(&b);
    return text;
}

void tc_fail_err(struct tc_call *c, const struct err *err)
{
    enum tc_code code = TC_INTERNAL_SERVER_ERROR;
    switch (err_status(err->code)) {
    case 400:
    case 422:
        code = TC_INPUT_ERROR;
        break;
    case 404:
        code = TC_RESOURCE_NOT_FOUND;
        break;
    case 409:
        code = TC_REQUEST_CONFLICT;
        break;
    case 413:
        code = TC_INPUT_TOO_LARGE;
        break;
    case 503:
    case 507:
        code = TC_BUSY;
        break;
    default:
        break;
    }
    tc_fail(c, code, "%s", tc_task_words(c, err));
}

void tc_fail_no_task(struct tc_call *c, struct str task_id)
{
    tc_fail(c, TC_RESOURCE_NOT_FOUND,
            "`%.*s` does not correspond to a task that exists.\nAre you sure this task has already "
            "been submitted?",
            STR_ARG(task_id));
}
