/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/taskqueue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "client/when.h"

#define ANSWER_MAX ((size_t)512 << 20) /* 32 tasks with definitions of 10 MiB, and more */
/* Clocks that are as close as this are the same: an answer's date has whole seconds only. */
#define SKEW_MIN_MS 5000

struct taskqueue {
    const struct taskqueue_args *args;
    CURLM *multi;
    struct taskqueue_request *first; /* those in progress */
    struct curl_waitfd *fds;
    span skew; /* how far the server's clock is ahead of ours */
};

struct taskqueue *taskqueue_new(const struct taskqueue_args *args)
{
    struct taskqueue *q = ALLOC(struct taskqueue);
    *q = (struct taskqueue){.args = args, .multi = curl_multi_init()};
    must(q->multi);
    return q;
}

void taskqueue_free(struct taskqueue *q)
{
    must(!q->first);
    curl_multi_cleanup(q->multi);
    free(q->fds);
    free(q);
}

instant taskqueue_now(const struct taskqueue *q)
{
    return instant_add(when_now(), q->skew);
}

span taskqueue_pause(unsigned tries)
{
    int64_t full = (int64_t)1000 << (tries < 5 ? tries : 5);
    uint64_t random = 0;
    ssize_t got = getrandom(&random, sizeof random, 0);
    must(got == sizeof random);
    full = full < 30000 ? full : 30000;
    return (span){full / 2 + (int64_t)(random % (uint64_t)(full / 2 + 1))};
}

/* --- paths --- */

void taskqueue_encode(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '.' || c == '~';
        if (plain)
            buf_byte(b, (char)c);
        else
            buf_print(b, "%%%02X", c);
    }
}

const char *taskqueue_run_path(struct buf *b, struct str task_id, int64_t run, const char *more)
{
    b->len = 0;
    buf_print(b, "/api/queue/v1/task/%.*s/runs/%" PRId64 "%s", STR_ARG(task_id), run, more);
    buf_byte(b, '\0');
    return b->at;
}

/* --- one request --- */

static void close_call(struct taskqueue_request *r)
{
    if (r->open)
        call_fini(&r->call);
    r->open = false;
    free(r->server);
    r->server = NULL;
    for (size_t i = 0; i < COUNT(r->header_text); i++) {
        free(r->header_text[i]);
        r->header_text[i] = NULL;
    }
}

/* The server's part of the URL: what messages show, because the rest may be a secret. */
static size_t origin_of(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static void set_headers(struct taskqueue_request *r)
{
    struct buf line = {0};
    if (r->header_text[0])
        call_clear_headers(&r->call);
    for (size_t i = 0; i < COUNT(r->header_text) && r->header_text[i]; i++)
        call_header(&r->call, r->header_text[i]);
    if (r->ask.by &&
        hawk_client_header(&line, r->ask.by, r->ask.method, r->url.at, taskqueue_now(r->owner))) {
        buf_byte(&line, '\0');
        call_header(&r->call, line.at);
    }
    buf_fini(&line);
}

static void send_now(struct taskqueue_request *r)
{
    r->sent = true;
    set_headers(r);
    call_start(&r->call, r->owner->multi, r->ask.method, r->url.at + r->origin, r->ask.timeout);
}

void taskqueue_start(struct taskqueue *q, struct taskqueue_request *r,
                     const struct taskqueue_ask *ask)
{
    must(!r->owner);
    r->url.len = 0;
    buf_print(&r->url, "%s%s", ask->path[0] == '/' ? q->args->root_url : "", ask->path);
    buf_byte(&r->url, '\0');
    close_call(r);
    r->origin = origin_of(r->url.at);
    r->server = alloc_text(r->url.at, r->origin);
    call_init(&r->call, r->server, &q->args->tls);
    r->open = true;
    buf_str(&r->call.body, ask->body);
    r->call.any_answer = ask->any_answer;
    r->call.answer_max = ANSWER_MAX;
    r->call.has_file = ask->has_file;
    r->call.file = ask->file;
    r->call.file_size = ask->file_size;
    for (size_t i = 0; i < COUNT(ask->headers) && ask->headers[i]; i++)
        r->header_text[i] = alloc_text(ask->headers[i], strlen(ask->headers[i]));
    r->ask = *ask;
    r->ask.path = NULL; /* it is in the URL; the headers are copied, too */
    memset(r->ask.headers, 0, sizeof r->ask.headers);
    r->owner = q;
    r->next = q->first;
    q->first = r;
    r->sent = false;
    r->send_at = when_after(when_mono(), ask->delay);
    if (ask->delay.ms <= 0)
        send_now(r);
}

static void unlink_request(struct taskqueue_request *r)
{
    struct taskqueue_request **at = &r->owner->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->owner = NULL;
}

void taskqueue_abort(struct taskqueue_request *r)
{
    if (r->owner) {
        call_abort(&r->call, r->owner->multi);
        unlink_request(r);
    }
    close_call(r);
    buf_fini(&r->url);
    r->url = (struct buf){0};
}

/* --- all of them --- */

/* Only the services of the root URL tell the time: others may be caches. */
static void learn_time(struct taskqueue *q, const struct taskqueue_request *r)
{
    const char *root = q->args->root_url;
    if (!instant_is_set(r->call.date) || strncmp(r->url.at, root, strlen(root)) != 0)
        return;
    int64_t ahead = r->call.date.ms - when_now().ms;
    q->skew.ms = ahead > -SKEW_MIN_MS && ahead < SKEW_MIN_MS ? 0 : ahead;
}

static void finish(struct taskqueue *q, struct taskqueue_request *r, CURLcode code)
{
    enum call_result result = call_finish(&r->call, q->multi, code);
    learn_time(q, r);
    unlink_request(r);
    r->ask.done(r->ask.ctx, result, &r->call);
}

static struct taskqueue_request *request_of(struct taskqueue *q, const CURL *curl)
{
    struct taskqueue_request *r = q->first;
    while (r && r->call.curl != curl)
        r = r->next;
    return r;
}

static void send_due(struct taskqueue *q)
{
    mono now = when_mono();
    for (struct taskqueue_request *r = q->first; r; r = r->next)
        if (!r->sent && r->send_at.ns <= now.ns)
            send_now(r);
}

bool taskqueue_poll(struct taskqueue *q)
{
    int left, running;
    bool any = false;
    send_due(q);
    curl_multi_perform(q->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(q->multi, &left));) {
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        struct taskqueue_request *r = request_of(q, m->easy_handle);
        must(r);
        finish(q, r, code);
        any = true;
    }
    return any;
}

void taskqueue_wait(struct taskqueue *q, const struct pollfd *fds, size_t count, int ms)
{
    mono now = when_mono();
    for (const struct taskqueue_request *r = q->first; r; r = r->next) {
        int64_t left = (r->send_at.ns - now.ns + 999999) / 1000000;
        if (!r->sent && left < ms)
            ms = left < 0 ? 0 : (int)left;
    }
    q->fds = alloc_resize(q->fds, (count + 1) * sizeof *q->fds);
    for (size_t i = 0; i < count; i++)
        q->fds[i] = (struct curl_waitfd){.fd = fds[i].fd,
                                         .events = fds[i].events == POLLOUT ? CURL_WAIT_POLLOUT
                                                                            : CURL_WAIT_POLLIN};
    curl_multi_poll(q->multi, q->fds, (unsigned)count, ms, NULL);
}
