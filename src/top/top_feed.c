/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to the server and its stream of events, all on one multi handle. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "top/top.h"
#include "client/view.h"
#include "client/when.h"

#define TURN_MS        250
#define REST_MS        200   /* between an answer and the next request of its kind */
#define POLL_MS        2000  /* without events */
#define RESYNC_MS      10000 /* with events: for what no event reports, such as ages */
#define AGAIN_MS       1000  /* after the server did not answer */
#define SILENT_SECONDS 20L   /* of a stream that has heartbeats */
#define LINE_MAX_BYTES ((size_t)1 << 20)

static mono later(mono from, int64_t ms)
{
    return when_after(from, (span){ms});
}

static bool is_due(mono at, mono now)
{
    return when_ms_between(now, at) >= 0;
}

/* --- requests --- */

void top_feed_want(struct top *t, unsigned stale)
{
    t->ask[TOP_ASK_COUNTS].wanted |= (stale & TOP_STALE_COUNTS) != 0;
    t->ask[TOP_ASK_PAGE].wanted |= (stale & TOP_STALE_PAGE) != 0;
    bool detail = (stale & TOP_STALE_DETAIL) && *t->model.detail;
    t->ask[TOP_ASK_JOB].wanted |= detail;
    t->ask[TOP_ASK_RUNS].wanted |= detail;
}

static bool write_target(const struct top *t, enum top_ask ask, struct buf *path)
{
    const struct top_model *m = &t->model;
    switch (ask) {
    case TOP_ASK_RIGHTS:
        buf_lit(path, "/rights");
        return true;
    case TOP_ASK_COUNTS:
        /* The owner has the jobs, and can count them; of some queues the counts are summed. */
        buf_str(path, top_rights_limited(t) ? STR("/queues?details=true&limit=2000")
                                            : STR("/health?from=owner"));
        return t->has_rights;
    case TOP_ASK_PAGE:
        buf_str(path, str_from(m->path));
        break;
    case TOP_ASK_JOB:
        buf_print(path, "/jobs/%s", m->detail);
        break;
    case TOP_ASK_RUNS:
        buf_print(path, "/jobs/%s/runs?order=desc&limit=50", m->detail);
        break;
    default:
        return false;
    }
    return ask == TOP_ASK_PAGE || *m->detail;
}

static void start(struct top *t, enum top_ask ask, const char *method, const char *target)
{
    struct top_request *r = &t->ask[ask];
    r->wanted = r->old = false;
    r->started = when_mono();
    call_start(&r->call, t->multi, method, target, t->client.args.timeout);
}

static void start_wanted(struct top *t, mono now)
{
    for (enum top_ask ask = 0; ask < TOP_ASK_ACTION; ask++) {
        struct top_request *r = &t->ask[ask];
        struct buf path = {0};
        if (!r->wanted || r->call.busy || !is_due(r->not_before, now))
            continue;
        if (write_target(t, ask, &path))
            start(t, ask, "GET", client_path(&path));
        r->wanted = false;
        buf_fini(&path);
    }
}

void top_feed_act(struct top *t)
{
    struct top_request *r = &t->ask[TOP_ASK_ACTION];
    if (r->call.busy)
        return;
    r->call.body.len = 0;
    buf_str(&r->call.body, str_from(t->body));
    start(t, TOP_ASK_ACTION, t->method, t->target);
    snprintf(t->message, sizeof t->message, "asking the server ...");
    t->bad = false;
}

span top_feed_waiting(const struct top *t)
{
    mono now = when_mono();
    int64_t most = 0;
    for (enum top_ask ask = 0; ask < TOP_ASKS; ask++) {
        const struct top_request *r = &t->ask[ask];
        if (r->call.busy && when_ms_between(now, r->started) > most)
            most = when_ms_between(now, r->started);
    }
    return (span){most};
}

/* --- answers --- */

static void went_down(struct top *t, const struct call *c)
{
    struct buf why = {0};
    call_explain(c, &why);
    snprintf(t->why, sizeof t->why, "%.*s", STR_ARG(buf_view(&why)));
    buf_fini(&why);
    t->down = t->dirty = true;
}

/* Everything may have changed meanwhile. */
static void came_back(struct top *t)
{
    if (!t->down)
        return;
    t->down = false;
    t->stream_at = when_mono();
    snprintf(t->message, sizeof t->message, "connected again");
    t->bad = false;
    t->ask[TOP_ASK_RIGHTS].wanted = true;
    top_feed_want(t, TOP_STALE_ALL);
}

static void explain(struct top *t, const struct call *c)
{
    struct buf why = {0};
    call_explain(c, &why);
    snprintf(t->message, sizeof t->message, "%.*s", STR_ARG(buf_view(&why)));
    t->bad = true;
    buf_fini(&why);
}

static void take_action(struct top *t, enum call_result r)
{
    if (r == CALL_DONE)
        snprintf(t->message, sizeof t->message, "%s", t->done);
    else
        explain(t, &t->ask[TOP_ASK_ACTION].call);
    t->bad = r != CALL_DONE;
    top_feed_want(t, TOP_STALE_ALL);
}

static void take_detail(struct top *t, enum top_ask ask, enum call_result r, struct str answer)
{
    struct buf *to = ask == TOP_ASK_JOB ? &t->model.job : &t->model.runs;
    to->len = 0;
    if (r == CALL_DONE)
        buf_str(to, answer);
    else if (ask == TOP_ASK_JOB)
        buf_print(to, "{\"status\":\"gone\"}");
}

static void take_page(struct top *t, enum call_result r, struct str answer)
{
    if (r == CALL_DONE) {
        top_model_page(&t->model, answer);
        top_model_move(&t->model, 0, t->shown);
    } else {
        explain(t, &t->ask[TOP_ASK_PAGE].call);
        t->model.loaded = true; /* there is nothing to wait for */
        t->model.page.count = 0;
    }
}

static void take_answer(struct top *t, enum top_ask ask, CURLcode code)
{
    struct top_request *q = &t->ask[ask];
    enum call_result r = call_finish(&q->call, t->multi, code);
    mono now = when_mono();
    int64_t took = when_ms_between(now, q->started);
    struct str answer = buf_view(&q->call.answer);
    t->dirty = true;
    if (r == CALL_UNREACHABLE) {
        went_down(t, &q->call);
        q->not_before = later(now, AGAIN_MS);
        q->wanted = ask != TOP_ASK_ACTION;
        if (ask == TOP_ASK_ACTION)
            explain(t, &q->call);
        return;
    }
    /* A slow connection is used less often. */
    q->not_before = later(now, took > REST_MS ? took : REST_MS);
    came_back(t);
    if (q->old)
        q->wanted = true;
    else if (ask == TOP_ASK_RIGHTS)
        top_rights_take(t, r, answer);
    else if (ask == TOP_ASK_ACTION)
        take_action(t, r);
    else if (ask == TOP_ASK_PAGE)
        take_page(t, r, answer);
    else if (ask == TOP_ASK_COUNTS && r == CALL_DONE)
        top_model_counts(&t->model, answer);
    else if (ask != TOP_ASK_COUNTS)
        take_detail(t, ask, r, answer);
}

/* --- the events --- */

static void take_event(struct top *t, struct str line)
{
    unsigned stale = top_model_event(&t->model, line, top_second());
    if (stale & TOP_GAP) {
        snprintf(t->message, sizeof t->message,
                 "some events were missed; reading everything again");
        t->bad = false;
        t->dirty = true;
    }
    top_feed_want(t, stale);
}

static size_t take_stream(char *at, size_t size, size_t n, void *to)
{
    struct top *t = to;
    long status = 0;
    curl_easy_getinfo(t->stream.curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return size * n;
    buf_add(&t->line, at, size * n);
    size_t begin = 0;
    for (;;) {
        const char *end = memchr(t->line.at + begin, '\n', t->line.len - begin);
        if (!end)
            break;
        size_t len = (size_t)(end - t->line.at) - begin;
        take_event(t, (struct str){t->line.at + begin, len});
        begin += len + 1;
    }
    memmove(t->line.at, t->line.at + begin, t->line.len - begin);
    t->line.len -= begin;
    return t->line.len > LINE_MAX_BYTES ? 0 : size * n;
}

static void open_stream(struct top *t)
{
    struct buf path = {0};
    buf_lit(&path, "/events");
    client_query(&path, "since", *t->model.since ? t->model.since : NULL);
    t->line.len = 0;
    CURL *curl = t->stream.curl;
    call_start(&t->stream, t->multi, "GET", client_path(&path), (span){0});
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_stream);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENT_SECONDS);
    buf_fini(&path);
}

static void end_stream(struct top *t, CURLcode code)
{
    (void)call_finish(&t->stream, t->multi, code);
    long status = t->stream.status;
    mono now = when_mono();
    t->stream_at = later(now, AGAIN_MS);
    t->model.live = false;
    t->dirty = true;
    if (status == 404 || status == 405)
        t->polls = true;
    else if (status >= 400) /* the events from which it was to continue are gone */
        t->model.since[0] = '\0';
    top_feed_want(t, TOP_STALE_ALL);
}

/* --- the turn --- */

/* The head of the stream's answer has arrived. */
static void see_stream(struct top *t)
{
    long status = 0;
    if (!t->stream.busy || t->model.live)
        return;
    curl_easy_getinfo(t->stream.curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return;
    t->model.live = t->dirty = true;
    top_feed_want(t, TOP_STALE_ALL);
}

static void poll_now_and_then(struct top *t, mono now)
{
    /* No event reports that a worker comes, goes, or becomes quiet. */
    bool told = t->model.live && t->model.tab != TOP_WORKERS;
    if (!is_due(later(t->polled, told ? RESYNC_MS : POLL_MS), now))
        return;
    t->polled = now;
    top_feed_want(t, TOP_STALE_ALL);
}

static void reap(struct top *t)
{
    int left;
    for (CURLMsg *msg; (msg = curl_multi_info_read(t->multi, &left));) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result;
        CURL *done = msg->easy_handle;
        if (done == t->stream.curl)
            end_stream(t, code);
        for (enum top_ask ask = 0; ask < TOP_ASKS; ask++)
            if (t->ask[ask].call.curl == done)
                take_answer(t, ask, code);
    }
}

void top_feed_turn(struct top *t)
{
    mono now = when_mono();
    int running;
    poll_now_and_then(t, now);
    start_wanted(t, now);
    if (!t->stream.busy && !t->polls && is_due(t->stream_at, now))
        open_stream(t);
    curl_multi_perform(t->multi, &running);
    reap(t);
    see_stream(t);
    struct curl_waitfd input = {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN};
    curl_multi_poll(t->multi, &input, 1, TURN_MS, NULL);
    curl_multi_perform(t->multi, &running);
    reap(t);
}

void top_feed_init(struct top *t)
{
    t->multi = curl_multi_init();
    must(t->multi);
    for (enum top_ask ask = 0; ask < TOP_ASKS; ask++)
        call_init(&t->ask[ask].call, t->client.url, &t->client.args.tls);
    call_init(&t->stream, t->client.url, &t->client.args.tls);
    t->ask[TOP_ASK_RIGHTS].wanted = true;
    t->polled = when_mono(); /* everything is asked for at the start anyway */
}

void top_feed_fini(struct top *t)
{
    for (enum top_ask ask = 0; ask < TOP_ASKS; ask++) {
        call_abort(&t->ask[ask].call, t->multi);
        call_fini(&t->ask[ask].call);
    }
    call_abort(&t->stream, t->multi);
    call_fini(&t->stream);
    curl_multi_cleanup(t->multi);
    buf_fini(&t->line);
    buf_fini(&t->rights);
}
