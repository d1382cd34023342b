/* SPDX-License-Identifier: Apache-2.0 */

/* From Tenax to RabbitMQ. Jobs are claimed, published, and reported: a success once RabbitMQ has
 * confirmed the message, a failure if it cannot be routed, is refused, or is none that RabbitMQ
 * would take; the server decides what becomes of that.
 *
 * A confirm may be long in coming, so leases are renewed. After a claim whose answer may have been
 * lost, and after a start, the server is asked which jobs in flight are ours, and they are claimed
 * again, which gives the same claims. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "bridge/bridge_internal.h"
#include "client/client.h"
#include "holder/renewals.h"
#include "client/view.h"
#include "client/when.h"

#define CLAIM_WAIT    ((span){20000})
#define CLAIM_EXTRA   ((span){15000}) /* how long an answer may take in addition to its wait */
#define CLAIM_MAX     ((size_t)500)
#define BYTES_MAX     ((size_t)32 << 20) /* of messages on their way; then nothing is claimed */
#define SUCCESSES_MAX ((size_t)1000)     /* in one request */
#define CALLS_MAX     ((size_t)32)       /* about single jobs */
#define LEASE_MARGIN  ((span){2000})
#define TURN_MS       1
#define FAR_MS        10000
#define TOKEN_LEN     64
#define REASON_MAX    600

enum out_state { OUT_PUBLISHING, OUT_SUCCEEDED, OUT_FAILED, OUT_OVER };

struct out_job {
    struct list node;
    struct bridge_out *out;
    char id[ID_TEXT_LEN + 1], token[TOKEN_LEN + 1];
    int64_t run;
    enum out_state state;
    bool unconfirmed; /* the link has its message */
    bool in_batch;    /* of the successes that are being reported */
    uint32_t calls;   /* about it, under way */
    uint32_t tries;
    size_t bytes;
    mono renew_at, lease_end, not_before;
    char *reason; /* of a failure */
    const char *error_type;
};

struct bridge_out {
    struct bridge *b;
    struct bridge_link link;
    struct list jobs;
    struct strmap by_id;
    size_t count, bytes, calls;
    struct remote_call *claim, *withdrawal, *successes, *list;
    struct renewals *renewals;
    size_t adopting;
    bool adopted, adopt_again; /* whether it is known which jobs are ours; one could not be asked */
    struct buf adopt_path;     /* the next page of those; empty: the first */
    mono claim_at, successes_at;
    uint32_t claim_tries, success_tries;
    uv_timer_t turn, due;
    bool stopping;
};

static void turn(struct bridge_out *o);

static void on_turn(uv_timer_t *t)
{
    turn(t->data);
}

static void wake(struct bridge_out *o)
{
    if (!uv_is_active((uv_handle_t *)&o->turn))
        uv_timer_start(&o->turn, on_turn, TURN_MS, 0);
}

static void on_due(uv_timer_t *t)
{
    wake(t->data);
}

static void sooner(mono *next, mono t)
{
    if (t.ns < next->ns)
        *next = t;
}

static bool may_have_been_done(const struct remote_answer *a)
{
    return a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
}

/* Not about a job, but about who asks. */
static bool is_unwelcome(const struct remote_answer *a)
{
    return a->status == 401 || a->status == 403;
}

/* --- jobs --- */

static span renew_every(const struct bridge_out *o)
{
    return (span){o->b->settings->lease.ms / 3};
}

static void leased(struct out_job *j, mono since)
{
    const struct bridge_out *o = j->out;
    j->renew_at = when_gather(when_after(since, renew_every(o)), (span){renew_every(o).ms / 4});
    j->lease_end = when_after(since, (span){o->b->settings->lease.ms - LEASE_MARGIN.ms});
}

/* Frees it once nobody speaks of it any more. */
static void release(struct out_job *j)
{
    struct bridge_out *o = j->out;
    if (j->state != OUT_OVER || j->unconfirmed || j->calls || j->in_batch)
        return;
    if (strmap_get(&o->by_id, str_from(j->id)) == j)
        strmap_remove(&o->by_id, str_from(j->id));
    list_unlink(&j->node);
    o->count--;
    o->bytes -= j->bytes;
    free(j->reason);
    free(j);
    wake(o);
}

static void end(struct out_job *j)
{
    j->state = OUT_OVER;
    release(j);
}

static void fail(struct out_job *j, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct out_job *j, const char *type, const char *fmt, ...)
{
    char text[REASON_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    j->state = OUT_FAILED;
    j->error_type = type;
    j->reason = alloc_text(text, strlen(text));
    j->out->b->counters.out_failed++;
    wake(j->out);
}

static void succeed(struct out_job *j)
{
    j->state = OUT_SUCCEEDED;
    j->out->b->counters.out_published++;
}

static void publish(struct out_job *j, struct str job)
{
    struct bridge_out *o = j->out;
    struct arena a = {0};
    struct bridge_message m;
    struct err e = bridge_message_read(&o->b->settings->outlet, job, &a, &m);
    if (e.code == ERR_OK) {
        j->bytes = m.body.len;
        j->unconfirmed = true;
        o->bytes += j->bytes;
        amqp_publish(o->link.amqp, &(struct amqp_message){.exchange = m.exchange,
                                                          .routing_key = m.routing_key,
                                                          .body = m.body,
                                                          .properties = &m.properties,
                                                          .id = (uint64_t)(uintptr_t)j});
    } else {
        fail(j, "malformed-payload", "%s", e.msg);
    }
    arena_fini(&a);
}

static void take_job(struct bridge_out *o, struct str job, mono sent)
{
    struct arena a = {0};
    struct str id = view_text(&a, job, "id"), token = view_text(&a, job, "token");
    struct out_job *known = strmap_get(&o->by_id, id);
    int64_t run;
    if (id.len != ID_TEXT_LEN || !token.len || token.len > TOKEN_LEN ||
        !view_int(job, "run", &run)) {
        log_error("%s sent a job without an id, a token or a run; passed over",
                  o->b->settings->server);
    } else if (known && known->run == run) {
        leased(known, sent); /* the same claim again */
    } else {
        struct out_job *j = ALLOC(struct out_job);
        *j = (struct out_job){.out = o, .run = run};
        memcpy(j->id, id.at, id.len);
        memcpy(j->token, token.at, token.len);
        leased(j, sent);
        list_init(&j->node);
        list_append(&o->jobs, &j->node);
        if (known)
            end(known); /* its run is over, or this one could not have begun */
        strmap_put(&o->by_id, str_from(j->id), j);
        o->count++;
        publish(j, job);
    }
    arena_fini(&a);
}

static void published(void *ctx, uint64_t id, enum amqp_published result)
{
    struct bridge_out *o = ctx;
    struct out_job *j = (struct out_job *)(uintptr_t)id;
    const struct bridge_outlet *to = &o->b->settings->outlet;
    j->unconfirmed = false;
    if (j->state != OUT_PUBLISHING)
        release(j);
    else if (result == AMQP_CONFIRMED)
        succeed(j);
    else if (result == AMQP_REFUSED)
        fail(j, "refused", "RabbitMQ has refused the message, as it does when a queue is full");
    else if (o->b->settings->to_rabbitmq)
        fail(j, "unroutable", "RabbitMQ has no queue '%s'", to->routing_key);
    else
        fail(j, "unroutable", "no queue is bound to the exchange '%s' for the routing key%s%s%s",
             to->exchange, to->routing_key ? " '" : " of this job",
             to->routing_key ? to->routing_key : "", to->routing_key ? "'" : "");
    wake(o);
}

/* --- reports of many successes --- */

static void on_successes(void *ctx, const struct remote_answer *a)
{
    struct bridge_out *o = ctx;
    /* 422 and 404: some of them were not in flight any more. */
    bool done = !may_have_been_done(a) && !is_unwelcome(a);
    o->successes = NULL;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    for (struct list *n = o->jobs.next, *next; n != &o->jobs; n = next) {
        struct out_job *j = LIST_OF(n, struct out_job, node);
        next = n->next;
        if (!j->in_batch)
            continue;
        j->in_batch = false;
        if (done)
            end(j);
    }
    if (!done)
        o->successes_at = when_after(when_mono(), bridge_backoff(o->b, o->success_tries++));
    else
        o->success_tries = 0;
    wake(o);
}

/* A job whose lease may be over is another's by now: its report has to name its run. */
static bool is_ours(const struct out_job *j, mono now)
{
    return now.ns < j->lease_end.ns;
}

static void report_successes(struct bridge_out *o, mono now, mono *next)
{
    struct buf body = {0};
    size_t n = 0;
    if (o->successes)
        return;
    if (now.ns < o->successes_at.ns) {
        sooner(next, o->successes_at);
        return;
    }
    LIST_EACH (node, &o->jobs) {
        struct out_job *j = LIST_OF(node, struct out_job, node);
        if (j->state != OUT_SUCCEEDED || !is_ours(j, now) || n == SUCCESSES_MAX)
            continue;
        buf_print(&body, "%s{\"id\":\"%s\",\"token\":\"%s\"}", n++ ? "," : "{\"jobs\":[", j->id,
                  j->token);
        j->in_batch = true;
    }
    buf_lit(&body, "]}");
    if (n)
        o->successes = remote_ask(o->b->remote, "POST", "/jobs/success", buf_view(&body),
                                  BRIDGE_CALL_TIMEOUT, on_successes, o);
    buf_fini(&body);
}

/* --- reports of single jobs, and renewals --- */

static void on_reported(void *ctx, const struct remote_answer *a)
{
    struct out_job *j = ctx;
    struct bridge_out *o = j->out;
    j->calls--;
    o->calls--;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    if (may_have_been_done(a) || is_unwelcome(a)) {
        j->not_before = when_after(when_mono(), bridge_backoff(o->b, j->tries++));
        release(j);
        wake(o);
        return;
    }
    if (a->result == CALL_REFUSED)
        log_error("the report about job %s is refused: %.*s", j->id, STR_ARG(a->why));
    o->b->counters.out_lost += a->result != CALL_DONE;
    end(j);
}

static void ask_about(struct out_job *j, const char *verb, struct str body, remote_answered *done)
{
    char path[64];
    snprintf(path, sizeof path, "/jobs/%s/%s", j->id, verb);
    j->calls++;
    j->out->calls++;
    remote_ask(j->out->b->remote, "POST", path, body, BRIDGE_CALL_TIMEOUT, done, j);
}

static void begin_body(const struct out_job *j, struct buf *b)
{
    buf_print(b, "{\"run\":%" PRId64, j->run);
    if (*j->token)
        buf_print(b, ",\"token\":\"%s\"", j->token);
}

static void report(struct out_job *j)
{
    struct buf b = {0};
    bool failed = j->state == OUT_FAILED;
    begin_body(j, &b);
    if (failed) {
        buf_lit(&b, ",\"message\":");
        json_write_string(&b, str_from(j->reason));
        if (strcmp(j->error_type, "malformed-payload") == 0)
            buf_lit(&b, ",\"exception\":\"malformed-payload\"");
        else
            buf_print(&b, ",\"error_type\":\"%s\"", j->error_type);
    }
    buf_byte(&b, '}');
    ask_about(j, failed ? "failure" : "success", buf_view(&b), on_reported);
    buf_fini(&b);
}

static void on_renewed(void *ctx, const struct remote_answer *a)
{
    struct out_job *j = ctx;
    struct bridge_out *o = j->out;
    j->calls--;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    if (a->result == CALL_DONE) {
        leased(j, a->sent);
    } else if (a->result == CALL_GONE && j->state == OUT_PUBLISHING) {
        log_warn("job %s is no longer this bridge's; its message may be published twice", j->id);
        o->b->counters.out_lost++;
        j->state = OUT_OVER;
    } else {
        j->renew_at = when_after(when_mono(), bridge_backoff(o->b, 3));
    }
    release(j);
    wake(o);
}

static void renew(struct out_job *j)
{
    char token[TOKEN_LEN + 3];
    int len = snprintf(token, sizeof token, "\"%s\"", j->token);
    j->calls++;
    renewals_add(j->out->renewals,
                 &(struct lease_text){.job = str_from(j->id),
                                      .token = {token, *j->token ? (size_t)len : 0},
                                      .run = j->run,
                                      .lease = j->out->b->settings->lease},
                 on_renewed, j);
}

static void attend(struct out_job *j, mono now, mono *next)
{
    if (j->state == OUT_OVER || j->calls || j->in_batch)
        return;
    bool reports = j->state == OUT_FAILED || (j->state == OUT_SUCCEEDED && !is_ours(j, now));
    mono when = reports ? j->not_before : j->renew_at;
    if (when.ns > now.ns)
        sooner(next, when);
    else if (!reports)
        renew(j);
    else if (j->out->calls < CALLS_MAX)
        report(j);
}

/* --- which jobs are ours --- */

static void page_is_done(struct bridge_out *o)
{
    if (o->list || o->adopting)
        return;
    if (o->adopt_again) {
        o->adopt_again = false;
        o->adopt_path.len = 0;
        o->claim_at = when_after(when_mono(), bridge_backoff(o->b, o->claim_tries++));
    } else if (!o->adopt_path.len) {
        o->adopted = true;
        o->claim_tries = 0;
    }
    wake(o);
}

static void on_adopted(void *ctx, const struct remote_answer *a)
{
    struct bridge_out *o = ctx;
    o->adopting--;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    if (a->result == CALL_DONE)
        take_job(o, a->body, a->sent);
    else if (may_have_been_done(a) || is_unwelcome(a))
        o->adopt_again = true;
    page_is_done(o);
}

static void adopt(struct bridge_out *o, struct str id)
{
    char path[64];
    struct buf body = {0};
    snprintf(path, sizeof path, "/jobs/%.*s/claim", STR_ARG(id));
    buf_lit(&body, "{\"worker\":");
    json_write_string(&body, str_from(o->b->settings->name));
    buf_print(&body, ",\"lease_ms\":%" PRId64 "}", o->b->settings->lease.ms);
    o->adopting++;
    remote_ask(o->b->remote, "POST", path, buf_view(&body), BRIDGE_CALL_TIMEOUT, on_adopted, o);
    buf_fini(&body);
}

static void on_listed(void *ctx, const struct remote_answer *a)
{
    struct bridge_out *o = ctx;
    o->list = NULL;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    if (a->result == CALL_DONE) {
        struct arena arena = {0};
        struct str job, next = view_text(&arena, view_get(a->body, "pages"), "next");
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);) {
            struct str id = view_text(&arena, job, "id");
            if (id.len == ID_TEXT_LEN && !strmap_get(&o->by_id, id))
                adopt(o, id);
        }
        o->adopt_path.len = 0;
        buf_str(&o->adopt_path, next);
        arena_fini(&arena);
    } else if (a->result == CALL_REFUSED && !is_unwelcome(a)) {
        bridge_give_up(o->b, "%.*s", STR_ARG(a->why));
    } else {
        o->adopt_again = true;
    }
    page_is_done(o);
}

static void ask_for_ours(struct bridge_out *o)
{
    struct buf path = {0};
    if (o->list || o->adopting)
        return;
    if (o->adopt_path.len) {
        buf_str(&path, buf_view(&o->adopt_path));
    } else {
        buf_lit(&path, "/jobs");
        client_query(&path, "worker", o->b->settings->name);
        client_query(&path, "queue", o->b->settings->from);
        client_query(&path, "status", "in_flight");
        client_query(&path, "limit", "50");
    }
    o->list = remote_ask(o->b->remote, "GET", client_path(&path), (struct str){0},
                         BRIDGE_CALL_TIMEOUT, on_listed, o);
    buf_fini(&path);
}

/* --- claims --- */

static void on_claimed(void *ctx, const struct remote_answer *a)
{
    struct bridge_out *o = ctx;
    struct str job;
    /* The lease began when the server answered, which waited. */
    mono now = when_mono();
    o->claim = NULL;
    bridge_note_server(o->b, BRIDGE_OUT, a);
    if (a->result == CALL_DONE) {
        o->claim_tries = 0;
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);)
            take_job(o, job, now);
    } else if (may_have_been_done(a) || is_unwelcome(a)) {
        o->adopted = is_unwelcome(a); /* a claim that was refused has given nothing */
        o->claim_at = when_after(when_mono(), bridge_backoff(o->b, o->claim_tries++));
    } else {
        bridge_give_up(o->b, "%.*s", STR_ARG(a->why));
    }
    wake(o);
}

/* Many at a time where there are many, unless RabbitMQ takes none. */
static void claim(struct bridge_out *o)
{
    size_t max = (size_t)o->b->settings->prefetch;
    size_t room = o->count < max ? max - o->count : 0;
    if (o->claim || room * 2 < max || o->bytes >= BYTES_MAX || !bridge_link_takes(&o->link))
        return;
    struct buf body = {0};
    buf_lit(&body, "{\"queues\":[");
    json_write_string(&body, str_from(o->b->settings->from));
    buf_print(&body, "],\"count\":%zu,\"lease_ms\":%" PRId64 ",\"wait_ms\":%" PRId64 ",\"worker\":",
              room < CLAIM_MAX ? room : CLAIM_MAX, o->b->settings->lease.ms, CLAIM_WAIT.ms);
    json_write_string(&body, str_from(o->b->settings->name));
    buf_byte(&body, '}');
    o->claim = remote_ask_once(o->b->remote, "POST", "/jobs/claim", buf_view(&body),
                               (span){CLAIM_WAIT.ms + CLAIM_EXTRA.ms}, on_claimed, o);
    buf_fini(&body);
}

static void take_more(struct bridge_out *o, mono now, mono *next)
{
    if (o->stopping)
        return;
    if (now.ns < o->claim_at.ns)
        sooner(next, o->claim_at);
    else if (!o->adopted)
        ask_for_ours(o);
    else
        claim(o);
}

static void turn(struct bridge_out *o)
{
    mono now = when_mono(), next = when_after(now, (span){FAR_MS});
    report_successes(o, now, &next);
    LIST_EACH (n, &o->jobs)
        attend(LIST_OF(n, struct out_job, node), now, &next);
    renewals_send(o->renewals);
    take_more(o, now, &next);
    if (!bridge_link_takes(&o->link))
        sooner(&next, when_after(now, (span){500})); /* it does not say when it does again */
    int64_t ms = (next.ns - now.ns) / 1000000 + 1;
    uv_update_time(o->b->loop);
    uv_timer_start(&o->due, on_due, (uint64_t)ms, 0);
    bridge_idle(o->b);
}

/* --- beginning and end --- */

static void connected(void *ctx)
{
    struct bridge_out *o = ctx;
    bridge_link_is_up(&o->link);
    wake(o);
}

static void disconnected(void *ctx, const char *why)
{
    bridge_link_is_down(&((struct bridge_out *)ctx)->link, why);
}

void bridge_out_start(struct bridge *b)
{
    static const struct amqp_link_user user = {connected, disconnected, NULL, published};
    struct bridge_out *o = b->out = ALLOC(struct bridge_out);
    o->b = b;
    o->by_id.seed = rng_next(&b->rng);
    list_init(&o->jobs);
    o->renewals = renewals_new(b->remote, BRIDGE_CALL_TIMEOUT);
    must(uv_timer_init(b->loop, &o->turn) == 0);
    must(uv_timer_init(b->loop, &o->due) == 0);
    o->turn.data = o->due.data = o;
    bridge_link_open(&o->link, b, "to RabbitMQ", NULL, &user, o);
    wake(o);
}

static void on_withdrawn(void *ctx, const struct remote_answer *a)
{
    (void)a;
    struct bridge_out *o = ctx;
    o->withdrawal = NULL;
    wake(o);
}

/* The claim that waits at the server is answered now; what it gives is still published. */
void bridge_out_stop(struct bridge_out *o)
{
    struct buf path = {0};
    o->stopping = true;
    wake(o);
    if (!o->claim)
        return;
    buf_lit(&path, "/jobs/claim");
    client_query(&path, "worker", o->b->settings->name);
    o->withdrawal = remote_ask(o->b->remote, "DELETE", client_path(&path), (struct str){0},
                               BRIDGE_CALL_TIMEOUT, on_withdrawn, o);
    buf_fini(&path);
}

bool bridge_out_is_idle(const struct bridge_out *o)
{
    return !o->count && !o->claim && !o->withdrawal && !o->list && !o->adopting;
}

bool bridge_out_is_well(const struct bridge_out *o)
{
    return bridge_link_takes(&o->link);
}

static void free_out(uv_handle_t *h)
{
    free(h->data);
}

static void close_due(uv_handle_t *h)
{
    struct bridge_out *o = h->data;
    uv_close((uv_handle_t *)&o->due, free_out);
}

/* Jobs that are not reported stay leased: the next start takes them over. */
void bridge_out_free(struct bridge_out *o)
{
    bridge_link_close(&o->link);
    renewals_free(o->renewals);
    while (!list_is_empty(&o->jobs)) {
        struct out_job *j = LIST_OF(o->jobs.next, struct out_job, node);
        list_unlink(&j->node);
        free(j->reason);
        free(j);
    }
    strmap_fini(&o->by_id);
    buf_fini(&o->adopt_path);
    uv_timer_stop(&o->due);
    uv_close((uv_handle_t *)&o->turn, close_due);
}
