/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/poll_urls.h"

#include <inttypes.h>

#include "client/view.h"
#include "client/whose.h"
#include "client/when.h"
#include "worker/report.h"

#define CALL_TIMEOUT ((span){15000})
#define PAUSE        ((span){1000})  /* between two rounds over all queues */
#define URLS_MARGIN  ((span){60000}) /* URLs that end that soon are not used */
#define DELETE_TRIES 3
/* Handed out more often than that, somebody should look at it (seed 002). */
#define DEQUEUES_WARN 10

static void get_messages(struct poll_urls *p, span delay);
static void go_on(struct poll_urls *p);
static void on_answer(void *ctx, enum call_result r, struct call *answer);

void poll_urls_init(struct poll_urls *p, const struct poll_urls_args *args, struct taskqueue *queue)
{
    *p = (struct poll_urls){.args = args, .queue = queue};
}

static void end(struct poll_urls *p, enum call_result r);

void poll_urls_abort(struct poll_urls *p)
{
    taskqueue_abort(&p->request);
    if (p->step != POLL_IDLE && p->claimed.len)
        end(p, CALL_DONE);
    p->step = POLL_IDLE;
}

void poll_urls_fini(struct poll_urls *p)
{
    taskqueue_abort(&p->request);
    arena_fini(&p->url_arena);
    arena_fini(&p->arena);
    buf_fini(&p->claimed);
    buf_fini(&p->why);
}

static void end(struct poll_urls *p, enum call_result r)
{
    p->step = POLL_IDLE;
    /* What was claimed is worked on, whatever happened then. */
    if (p->claimed.len)
        r = CALL_DONE;
    p->done(p->ctx, r, buf_view(&p->claimed), buf_view(&p->why));
}

static void end_because(struct poll_urls *p, enum call_result r, const struct call *answer)
{
    p->why.len = 0;
    call_explain(answer, &p->why);
    end(p, r == CALL_GONE ? CALL_REFUSED : r);
}

static void ask(struct poll_urls *p, enum poll_step step, struct taskqueue_ask what)
{
    p->step = step;
    what.timeout = CALL_TIMEOUT;
    what.done = on_answer;
    what.ctx = p;
    taskqueue_start(p->queue, &p->request, &what);
}

/* --- the URLs --- */

static void ask_urls(struct poll_urls *p)
{
    struct buf path = {0};
    buf_print(&path, "/api/queue/v1/poll-task-url/%s", p->args->task_queue);
    buf_byte(&path, '\0');
    ask(p, POLL_URLS, (struct taskqueue_ask){.method = "GET", .path = path.at, .by = p->args->own});
    buf_fini(&path);
}

static bool is_url(struct str s)
{
    return (s.len > 7 && memcmp(s.at, "http://", 7) == 0) ||
           (s.len > 8 && memcmp(s.at, "https://", 8) == 0);
}

static void on_urls(struct poll_urls *p, struct str answer)
{
    arena_reset(&p->url_arena);
    p->url_count = p->at = 0;
    answer = arena_copy(&p->url_arena, answer);
    struct view_list l = view_list(view_get(answer, "queues"));
    for (struct str one; p->url_count < POLL_URLS_MAX && view_next(&l, &one);) {
        struct poll_url u = {view_text(&p->url_arena, one, "signedPollUrl"),
                             view_text(&p->url_arena, one, "signedDeleteUrl")};
        if (is_url(u.poll) && is_url(u.remove))
            p->urls[p->url_count++] = u;
    }
    p->urls_end = view_time(answer, "expires");
    p->fresh = true;
    if (p->url_count) {
        get_messages(p, (span){0});
        return;
    }
    p->why.len = 0;
    buf_lit(&p->why, "pollTaskUrls answered without any URL");
    end(p, CALL_REFUSED);
}

/* --- messages --- */

static void get_messages(struct poll_urls *p, span delay)
{
    struct buf url = {0};
    struct str u = p->urls[p->at].poll;
    buf_print(&url, "%.*s%snumofmessages=%zu", STR_ARG(u), memchr(u.at, '?', u.len) ? "&" : "?",
              p->wanted < AZURE_MESSAGES_MAX ? p->wanted : (size_t)AZURE_MESSAGES_MAX);
    buf_byte(&url, '\0');
    ask(p, POLL_GET,
        (struct taskqueue_ask){
            .method = "GET", .path = url.at, .any_answer = true, .delay = delay});
    buf_fini(&url);
}

static bool urls_are_good(const struct poll_urls *p)
{
    return p->url_count && (!instant_is_set(p->urls_end) ||
                            p->urls_end.ms - URLS_MARGIN.ms > taskqueue_now(p->queue).ms);
}

/* Nothing in this queue: the next one, and after the last one a pause. */
static void next_queue(struct poll_urls *p)
{
    bool round = ++p->at == p->url_count;
    if (round)
        p->at = 0;
    if (p->withdrawn || (round && when_after(when_mono(), PAUSE).ns > p->until.ns))
        end(p, CALL_DONE);
    else if (round && !urls_are_good(p))
        ask_urls(p);
    else
        get_messages(p, round ? PAUSE : (span){0});
}

static void on_messages(struct poll_urls *p, struct str xml)
{
    arena_reset(&p->arena);
    struct err e = azure_messages_read(xml, &p->arena, p->messages, &p->message_count);
    p->fresh = false;
    p->message = 0;
    p->tries = 0;
    if (e.code != ERR_OK) {
        p->why.len = 0;
        buf_print(&p->why, "a poll URL answered what cannot be used: %s", e.msg);
        end(p, CALL_TRY_LATER);
    } else if (p->message_count) {
        go_on(p);
    } else {
        next_queue(p);
    }
}

/* URLs that were good and are not any more: their signature ended early. */
static void on_no_messages(struct poll_urls *p, enum call_result r, const struct call *answer)
{
    if (r == CALL_REFUSED && (answer->status == 401 || answer->status == 403) && !p->fresh)
        ask_urls(p);
    else
        end_because(p, r, answer);
}

/* --- one message --- */

static const struct azure_message *message_of(const struct poll_urls *p)
{
    return &p->messages[p->message];
}

static void claim(struct poll_urls *p)
{
    const struct azure_message *m = message_of(p);
    struct buf path = {0}, body = {0};
    buf_print(&body, "{\"workerGroup\":\"%s\",\"workerId\":\"%s\"}", p->args->group, p->args->id);
    ask(p, POLL_CLAIM,
        (struct taskqueue_ask){.method = "POST",
                               .path = taskqueue_run_path(&path, m->task_id, m->run, "/claim"),
                               .body = buf_view(&body),
                               .by = p->args->own});
    buf_fini(&path);
    buf_fini(&body);
}

/* The URL with what its placeholders stand for. The receipt is Base64: unencoded, every few of them
 * would be another one on the way. */
static void write_delete_url(struct buf *b, struct str url, const struct azure_message *m)
{
    static const struct str id = {"{{messageId}}", 13}, receipt = {"{{popReceipt}}", 14};
    while (url.len) {
        if (url.len >= id.len && memcmp(url.at, id.at, id.len) == 0) {
            taskqueue_encode(b, m->id);
            url = (struct str){url.at + id.len, url.len - id.len};
        } else if (url.len >= receipt.len && memcmp(url.at, receipt.at, receipt.len) == 0) {
            taskqueue_encode(b, m->receipt);
            url = (struct str){url.at + receipt.len, url.len - receipt.len};
        } else {
            buf_byte(b, *url.at);
            url = (struct str){url.at + 1, url.len - 1};
        }
    }
    buf_byte(b, '\0');
}

static void delete_message(struct poll_urls *p, span delay)
{
    struct buf url = {0};
    write_delete_url(&url, p->urls[p->at].remove, message_of(p));
    ask(p, POLL_DELETE,
        (struct taskqueue_ask){
            .method = "DELETE", .path = url.at, .any_answer = true, .delay = delay});
    buf_fini(&url);
}

/* Begins with the message at hand. */
static void go_on(struct poll_urls *p)
{
    const struct azure_message *m = message_of(p);
    if (p->message == p->message_count || p->withdrawn) {
        end(p, CALL_DONE);
        return;
    }
    if (m->dequeues > DEQUEUES_WARN)
        report_line(TABLE_WAIT, "poll",
                    "the message of task %.*s was handed out %" PRId64 " times: workers claim "
                    "without deleting, or cannot delete",
                    STR_ARG(m->task_id), m->dequeues);
    if (m->bad) {
        report_line(TABLE_BAD, "poll", "a message that names no run is deleted: %.*s",
                    STR_ARG(m->id));
        delete_message(p, (span){0});
    } else {
        claim(p);
    }
}

static void next_message(struct poll_urls *p)
{
    p->message++;
    p->tries = 0;
    if (p->claim_over != CALL_DONE)
        end(p, p->claim_over);
    else
        go_on(p);
}

/* After any 4xx the message is deleted: that run cannot be claimed, or not any more. */
static void on_claim(struct poll_urls *p, enum call_result r, const struct call *answer)
{
    if (r == CALL_DONE && view_get(buf_view(&answer->answer), "status").len) {
        buf_str(&p->claimed, buf_view(&answer->answer));
        buf_byte(&p->claimed, ',');
    } else if (r == CALL_REFUSED) {
        p->why.len = 0;
        call_explain(answer, &p->why);
        p->claim_over = r;
    }
    if (r == CALL_UNREACHABLE || r == CALL_TRY_LATER)
        end_because(p, r, answer); /* it appears again */
    else if (r == CALL_DONE && !view_get(buf_view(&answer->answer), "status").len)
        next_message(p); /* the worker is in quarantine: the message is for others */
    else
        delete_message(p, (span){0});
}

static void on_delete(struct poll_urls *p, enum call_result r, const struct call *answer)
{
    struct buf why = {0};
    bool again = r == CALL_UNREACHABLE || r == CALL_TRY_LATER;
    if (again && ++p->tries < DELETE_TRIES && !p->withdrawn) {
        delete_message(p, PAUSE);
        return;
    }
    if (r != CALL_DONE) {
        call_explain(answer, &why);
        report_line(TABLE_BAD, "poll", "the message of task %.*s could not be deleted: %.*s",
                    STR_ARG(message_of(p)->task_id), STR_ARG(buf_view(&why)));
    }
    buf_fini(&why);
    next_message(p);
}

/* A refusal without a code comes from something in between: it says nothing of the message. */
static enum call_result result_of(enum call_result r, const struct call *answer)
{
    struct str body = buf_view(&answer->answer);
    bool refusal = r == CALL_REFUSED || r == CALL_GONE;
    return refusal && !whose_azure_refusal(body) && !whose_refusal(body) ? CALL_TRY_LATER : r;
}

static void on_answer(void *ctx, enum call_result r, struct call *answer)
{
    struct poll_urls *p = ctx;
    r = result_of(r, answer);
    switch (p->step) {
    case POLL_URLS:
        if (r == CALL_DONE)
            on_urls(p, buf_view(&answer->answer));
        else
            end_because(p, r, answer);
        break;
    case POLL_GET:
        if (r == CALL_DONE)
            on_messages(p, buf_view(&answer->answer));
        else
            on_no_messages(p, r, answer);
        break;
    case POLL_CLAIM:
        on_claim(p, r, answer);
        break;
    case POLL_DELETE:
        on_delete(p, r, answer);
        break;
    case POLL_IDLE:
        break;
    }
}

void poll_urls_begin(struct poll_urls *p, size_t wanted, span wait)
{
    p->wanted = wanted;
    p->until = when_after(when_mono(), wait);
    p->withdrawn = false;
    p->claim_over = CALL_DONE;
    p->claimed.len = p->why.len = 0;
    p->at = 0;
    if (urls_are_good(p))
        get_messages(p, (span){0});
    else
        ask_urls(p);
}

void poll_urls_withdraw(struct poll_urls *p)
{
    p->withdrawn = true;
    if (p->step == POLL_GET || p->step == POLL_URLS) {
        taskqueue_abort(&p->request); /* a message on its way appears again */
        end(p, CALL_DONE);
    }
}
