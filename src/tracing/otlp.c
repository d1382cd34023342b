/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing/otlp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "net/fetch.h"
#include "tracing/otlp_headers.h"
#include "tracing/span.h"

#define SPANS_MAX       2048 /* of a request */
#define BODY_MAX        ((size_t)1 << 20)
#define GATHER_MS       1000 /* how long spans wait for others */
#define CONNECT_MS      5000
#define ANSWER_MS       10000
#define ANSWER_MAX      ((size_t)64 << 10)
#define PAUSE_FIRST_MS  1000
#define PAUSE_MAX_MS    30000
#define PAUSE_ASKED_MAX 300000 /* by Retry-After */
#define TRIES_MS        300000

/* Lines of spans, in the order in which they became durable. */
struct portion {
    struct list node; /* in otlp.queue */
    size_t at, len;   /* what is left of it begins there */
    char bytes[];
};

struct otlp {
    struct tracer tracer;
    uv_loop_t *loop;
    uv_timer_t timer; /* the next request, or, if it is being flushed, the end of it */
    struct fetcher *fetcher;
    struct fetch *fetch; /* NULL: no request is under way */
    struct arena memory; /* of the settings */
    const char *url, *ca_file, *headers_file;
    struct otlp_headers headers;
    size_t memory_max;
    struct list queue;
    size_t queued;       /* bytes, with what portions take themselves */
    uint64_t spans;      /* in the queue */
    struct buf body;     /* of the request that is under way or to be tried again; empty: none */
    uint64_t body_spans; /* in it */
    size_t head;         /* its bytes before the first span */
    unsigned tries;
    uint64_t tried_from; /* by the loop's clock */
    struct rng rng;
    uint64_t instance; /* the id of this process */
    struct otlp_counts counts;
    bool failing;               /* the log has said so */
    bool dropping;              /* likewise */
    void (*flushed)(void *ctx); /* NULL: it is not being flushed */
    void *flushed_ctx;
};

/* --- the queue --- */

static uint64_t count_lines(struct str text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.at[i] == '\n';
    return n;
}

/* The beginning of the text, whole lines, that has room. */
static struct str fitting(struct str text, size_t room)
{
    if (text.len <= room)
        return text;
    const char *end = room ? memrchr(text.at, '\n', room) : NULL;
    return (struct str){text.at, end ? (size_t)(end - text.at) + 1 : 0};
}

static void note_dropped(struct otlp *o, uint64_t spans)
{
    o->counts.dropped += spans;
    if (!o->dropping && spans)
        log_warn("tracing: spans are dropped: the collector does not take them fast enough");
    o->dropping |= spans > 0;
}

static void on_timer(uv_timer_t *t);

static void plan(struct otlp *o, uint64_t ms)
{
    uv_timer_start(&o->timer, on_timer, ms, 0);
}

static bool has_much(const struct otlp *o)
{
    return o->spans >= SPANS_MAX || o->queued >= BODY_MAX;
}

/* Within a turn of the backend, which a request would hold up: the timer begins it. */
static void plan_next(struct otlp *o)
{
    if (o->fetch || o->body.len || o->flushed || !o->spans)
        return;
    if (has_much(o))
        plan(o, 0);
    else if (!uv_is_active((uv_handle_t *)&o->timer))
        plan(o, GATHER_MS);
}

static void on_durable(void *ctx, struct str written)
{
    struct otlp *o = ctx;
    size_t used = o->queued + sizeof(struct portion);
    struct str kept = fitting(written, used < o->memory_max ? o->memory_max - used : 0);
    struct str rest = {written.at + kept.len, written.len - kept.len};
    note_dropped(o, count_lines(rest));
    if (!kept.len)
        return;
    struct portion *p = alloc_get(sizeof *p + kept.len);
    p->at = 0;
    p->len = kept.len;
    memcpy(p->bytes, kept.at, kept.len);
    list_append(&o->queue, &p->node);
    o->queued += sizeof *p + kept.len;
    o->spans += count_lines(kept);
    plan_next(o);
}

static void on_write(void *ctx, const struct job_event *ev, struct buf *out)
{
    (void)ctx;
    span_write(out, ev);
}

/* --- the body --- */

static void begin_body(struct otlp *o)
{
    buf_lit(&o->body, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                      "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"tenax\"}},"
                      "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"" TENAX_VERSION
                      "\"}},{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"");
    buf_print(&o->body, "%016" PRIx64, o->instance);
    buf_lit(&o->body, "\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"tenax\",\"version\":"
                      "\"" TENAX_VERSION "\"},\"spans\":[");
    o->head = o->body.len;
}

/* Moves a line to the body. */
static void take_line(struct otlp *o)
{
    struct portion *p = LIST_OF(o->queue.next, struct portion, node);
    const char *line = p->bytes + p->at, *end = memchr(line, '\n', p->len - p->at);
    must(end);
    if (o->body.len > o->head)
        buf_byte(&o->body, ',');
    buf_add(&o->body, line, (size_t)(end - line));
    o->body_spans++;
    o->spans--;
    p->at += (size_t)(end - line) + 1;
    if (p->at < p->len)
        return;
    list_unlink(&p->node);
    o->queued -= sizeof *p + p->len;
    free(p);
}

static void make_body(struct otlp *o)
{
    begin_body(o);
    while (o->spans && o->body_spans < SPANS_MAX && o->body.len < BODY_MAX)
        take_line(o);
    buf_lit(&o->body, "]}]}]}");
    o->tries = 0;
    o->tried_from = uv_now(o->loop);
}

static void drop_body(struct otlp *o)
{
    buf_fini(&o->body);
    o->body_spans = 0;
}

/* --- the end of a request --- */

/* The loop may free the otlp in there. */
static void end_flush(struct otlp *o)
{
    void (*done)(void *ctx) = o->flushed;
    uint64_t left = o->spans + o->body_spans;
    o->counts.failed += left;
    if (left)
        log_warn("tracing: %" PRIu64 " spans were not taken by the collector before the stop",
                 left);
    o->flushed = NULL;
    uv_timer_stop(&o->timer);
    done(o->flushed_ctx);
}

/* What to do once nothing is under way. */
static void go_on(struct otlp *o);

static void note_failing(struct otlp *o, const struct err *why)
{
    if (why->code != ERR_OK && !o->failing)
        log_warn("tracing: the collector does not take spans: %s", why->msg);
    else if (why->code == ERR_OK && o->failing)
        log_info("tracing: the collector takes spans again");
    o->failing = why->code != ERR_OK;
}

/* A date of HTTP in seconds since 1970, or -1. */
static int64_t date_of(struct str text)
{
    char copy[64];
    struct tm tm = {0};
    if (text.len == 0 || text.len >= sizeof copy)
        return -1;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    const char *end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    return end && *end == '\0' ? (int64_t)timegm(&tm) : -1;
}

/* How long the answer asks to wait, in ms, or -1. A date counts from the server's own. */
static int64_t asked_pause(struct fetch *r)
{
    struct str text = fetch_header(r, "Retry-After");
    int64_t seconds = text.len ? 0 : -1, at = date_of(text), now = date_of(fetch_header(r, "Date"));
    if (at >= 0 && now >= 0)
        seconds = at > now ? at - now : 0;
    else
        for (size_t i = 0; i < text.len; i++) {
            if (text.at[i] < '0' || text.at[i] > '9' || seconds > PAUSE_ASKED_MAX)
                return -1;
            seconds = seconds * 10 + (text.at[i] - '0');
        }
    return seconds * 1000 < PAUSE_ASKED_MAX ? seconds * 1000 : PAUSE_ASKED_MAX;
}

/* Doubled with each try, and somewhere in its upper half, so that servers do not come together. */
static uint64_t own_pause(struct otlp *o)
{
    uint64_t most = PAUSE_FIRST_MS;
    for (unsigned i = 1; i < o->tries && most < PAUSE_MAX_MS; i++)
        most *= 2;
    most = most < PAUSE_MAX_MS ? most : PAUSE_MAX_MS;
    return most / 2 + rng_below(&o->rng, most / 2 + 1);
}

static void fail(struct otlp *o, const struct err *why)
{
    note_failing(o, why);
    o->counts.failed += o->body_spans;
    drop_body(o);
}

static void try_later(struct otlp *o, const struct err *why, int64_t asked)
{
    uint64_t pause = asked >= 0 ? (uint64_t)asked : own_pause(o);
    if (o->flushed || uv_now(o->loop) + pause - o->tried_from > TRIES_MS) {
        fail(o, why);
        return;
    }
    note_failing(o, why);
    plan(o, pause);
}

/* "partialSuccess":{"rejectedSpans":"3","errorMessage":"…"}; the number may be a string. */
static uint64_t rejected_of(struct str body)
{
    struct str partial = {0}, raw = {0};
    uint64_t n = 0;
    if (!body.len || json_member(body, STR("partialSuccess"), &partial).code != ERR_OK ||
        !partial.len || json_member(partial, STR("rejectedSpans"), &raw).code != ERR_OK)
        return 0;
    for (size_t i = 0; i < raw.len; i++)
        if (raw.at[i] >= '0' && raw.at[i] <= '9' && n < UINT32_MAX)
            n = n * 10 + (uint64_t)(raw.at[i] - '0');
    return n;
}

static void take(struct otlp *o, struct str body)
{
    struct err fine = err_none();
    uint64_t rejected = rejected_of(body);
    if (rejected > o->body_spans)
        rejected = o->body_spans;
    if (rejected && !o->counts.rejected)
        log_warn("tracing: the collector has rejected %" PRIu64 " of %" PRIu64 " spans", rejected,
                 o->body_spans);
    note_failing(o, &fine);
    o->dropping &= o->queued > o->memory_max / 2;
    o->counts.rejected += rejected;
    o->counts.exported += o->body_spans - rejected;
    drop_body(o);
}

static bool is_repeatable(const struct fetch_answer *answer)
{
    long s = answer->status;
    return answer->fault == FETCH_ANSWERED ? s == 429 || s == 502 || s == 503 || s == 504
                                           : answer->fault != FETCH_TOO_LARGE;
}

static void on_answer(void *ctx, const struct fetch_answer *answer)
{
    struct otlp *o = ctx;
    struct fetch *r = o->fetch;
    struct err why = answer->fault == FETCH_ANSWERED
                         ? err_make(ERR_IO, "it answers with status %ld", answer->status)
                         : err_make(ERR_IO, "%.160s", answer->why);
    o->fetch = NULL;
    if (answer->fault == FETCH_ANSWERED && answer->status >= 200 && answer->status < 300)
        take(o, answer->body);
    else if (is_repeatable(answer))
        try_later(o, &why, asked_pause(r));
    else
        fail(o, &why);
    go_on(o);
}

/* --- a request --- */

static void send_body(struct otlp *o)
{
    struct arena a = {0};
    struct otlp_headers h = o->headers;
    struct err err = err_none();
    if (o->headers_file)
        err = otlp_headers_of_file(o->headers_file, &a, &h);
    const char *headers[OTLP_HEADERS_MAX + 2] = {"Content-Type: application/json"};
    memcpy(headers + 1, h.list, h.count * sizeof *headers);
    const struct fetch_tls tls = {.ca_file = o->ca_file};
    const struct fetch_spec spec = {.method = "POST",
                                    .url = o->url,
                                    .headers = headers,
                                    .body = buf_view(&o->body),
                                    .has_body = true,
                                    .tls = &tls,
                                    .connect_timeout = {CONNECT_MS},
                                    .timeout = {ANSWER_MS},
                                    .answer_max = ANSWER_MAX,
                                    .done = on_answer,
                                    .ctx = o};
    o->tries++;
    if (err.code == ERR_OK)
        o->fetch = fetch_start(o->fetcher, &spec);
    else
        try_later(o, &err, -1);
    arena_fini(&a);
}

static void send_next(struct otlp *o)
{
    if (!o->body.len && o->spans)
        make_body(o);
    if (o->body.len)
        send_body(o);
}

static void go_on(struct otlp *o)
{
    if (!o->flushed) {
        plan_next(o);
        return;
    }
    while (!o->fetch && (o->spans || o->body.len))
        send_next(o);
    if (!o->fetch)
        end_flush(o);
}

/* A flush is over its time, or begins with this. */
static void on_flush_timer(struct otlp *o)
{
    if (o->fetch)
        fetch_abort(o->fetch);
    o->fetch = NULL;
    end_flush(o);
}

static void on_timer(uv_timer_t *t)
{
    struct otlp *o = t->data;
    if (o->flushed)
        on_flush_timer(o);
    else if (!o->fetch)
        send_next(o);
}

/* --- the life of it --- */

/* The rest follows from the ends of requests, or from the timer, if nothing can be sent. */
void otlp_flush(struct otlp *o, span limit, void (*done)(void *ctx), void *ctx)
{
    o->flushed = done;
    o->flushed_ctx = ctx;
    uv_timer_stop(&o->timer);
    if (!o->fetch && (o->spans || o->body.len))
        send_next(o);
    plan(o, o->fetch ? (uint64_t)limit.ms : 0);
}

const struct tracer *otlp_tracer(const struct otlp *o)
{
    return &o->tracer;
}

void otlp_read(const struct otlp *o, struct otlp_counts *out)
{
    *out = o->counts;
    out->waiting = o->queued + o->body.len;
}

static const char *make_url(struct arena *a, const char *endpoint)
{
    static const char path[] = "/v1/traces";
    size_t len = strlen(endpoint);
    while (len && endpoint[len - 1] == '/')
        len--;
    char *url = arena_get(a, len + sizeof path);
    memcpy(url, endpoint, len);
    memcpy(url + len, path, sizeof path);
    return url;
}

static const char *keep(struct arena *a, const char *text)
{
    return text ? memcpy(arena_get(a, strlen(text) + 1), text, strlen(text) + 1) : NULL;
}

static struct err read_settings(struct otlp *o, const struct otlp_settings *s)
{
    const char *bad = fetch_bad_url(s->endpoint);
    struct otlp_headers unused = {.count = 0};
    struct err err = err_none();
    if (bad)
        return err_make(ERR_USAGE, "--otlp-endpoint: %s", bad);
    o->url = make_url(&o->memory, s->endpoint);
    o->ca_file = keep(&o->memory, s->ca_file);
    o->headers_file = keep(&o->memory, s->headers_file);
    if (s->headers)
        err = otlp_headers_of_list(str_from(s->headers), &o->memory, &o->headers);
    if (err.code != ERR_OK)
        return err_make(ERR_USAGE, "--otlp-headers: %s", err.msg);
    if (s->headers_file) {
        struct arena a = {0};
        unused = o->headers;
        err = otlp_headers_of_file(s->headers_file, &a, &unused);
        arena_fini(&a);
    }
    return err.code == ERR_OK ? err : err_make(ERR_USAGE, "--otlp-headers-file: %s", err.msg);
}

struct err otlp_new(uv_loop_t *loop, const struct otlp_settings *settings, struct otlp **out)
{
    struct otlp *o = ALLOC(struct otlp);
    *o = (struct otlp){.tracer = {on_write, on_durable, o},
                       .loop = loop,
                       .memory_max = settings->memory,
                       .rng = rng_from_seed(settings->seed)};
    o->instance = rng_next(&o->rng);
    list_init(&o->queue);
    struct err err = read_settings(o, settings);
    if (err.code != ERR_OK) {
        otlp_free(o);
        return err;
    }
    o->fetcher = fetcher_new(loop);
    uv_timer_init(loop, &o->timer);
    o->timer.data = o;
    *out = o;
    return err;
}

void otlp_close(struct otlp *o)
{
    if (!o)
        return;
    fetcher_free(o->fetcher);
    o->fetch = NULL;
    uv_close((uv_handle_t *)&o->timer, NULL);
}

void otlp_free(struct otlp *o)
{
    if (!o)
        return;
    while (!list_is_empty(&o->queue)) {
        struct portion *p = LIST_OF(o->queue.next, struct portion, node);
        list_unlink(&p->node);
        free(p);
    }
    buf_fini(&o->body);
    arena_fini(&o->memory);
    free(o);
}
