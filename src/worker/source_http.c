/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/source_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/must.h"
#include "client/client.h"
#include "client/lease_text.h"
#include "client/view.h"

#define CLAIM_EXTRA  ((span){15000}) /* how long a claim may take in addition to its wait */
#define CALL_TIMEOUT ((span){10000})

/* Renewals that come without news, which is most, are sent together. */
struct renewal {
    const struct source_job *job; /* as long as the seat's request is in progress */
    span lease;
    bool waits;    /* to be sent */
    bool together; /* by the request for many, under way */
};

struct source_http {
    struct source source;
    const struct source_http_args *args;
    CURLM *multi;
    struct call claim, withdraw;
    struct call together;     /* renews many */
    bool renewing;            /* it is under way */
    bool unknown;             /* the server is older than such a request */
    struct renewal *renewals; /* by seat */
    size_t waiting;           /* renewals that wait */
    size_t *asked;            /* the seats that are renewed together, in order */
    size_t asked_count;
    span lease;                        /* requested by the claim */
    uint64_t claim_seed, claim_number; /* its id: POST /jobs/claim in docs/api.md */
    struct view_list jobs;
    struct call *seats;
    struct curl_waitfd *fds;
};

static struct source_http *http_of(struct source *s)
{
    return (struct source_http *)s;
}

/* "a,b" as "a","b" */
static void write_queues(struct buf *b, const char *list)
{
    const char *between = "";
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n) {
            buf_str(b, str_from(between));
            json_write_string(b, (struct str){list, n});
            between = ",";
        }
        list += n + (list[n] == ',');
    }
}

static void claim(struct source *s, const struct source_claim *c)
{
    struct source_http *h = http_of(s);
    const struct source_http_args *a = h->args;
    struct buf *b = &h->claim.body;
    must(!s->claiming);
    b->len = 0;
    buf_lit(b, "{\"queues\":[");
    write_queues(b, a->queues);
    buf_print(b, "],\"count\":%zu,\"lease_ms\":%" PRId64 ",\"worker\":", c->count, c->lease.ms);
    json_write_string(b, str_from(a->worker));
    if (a->node && *a->node) {
        buf_lit(b, ",\"node\":");
        json_write_string(b, str_from(a->node));
    }
    if (a->max_run.ms)
        buf_print(b, ",\"max_run_ms\":%" PRId64, a->max_run.ms);
    buf_print(b, ",\"claim_id\":\"%016" PRIx64 "-%" PRIu64 "\",\"wait_ms\":%" PRId64 "}",
              h->claim_seed, h->claim_number, c->wait.ms);
    s->claiming = true;
    h->lease = c->lease;
    call_start(&h->claim, h->multi, "POST", "/jobs/claim", (span){c->wait.ms + CLAIM_EXTRA.ms});
}

/* The granted lease: the server may have shortened it. Both times are from its clock, because ours
 * may be wrong. */
static span granted(span asked, struct str job)
{
    instant end = view_time(job, "lease_expires_at"), start = view_time(job, "dequeued_at");
    if (!instant_is_set(end) || !instant_is_set(start))
        return asked;
    span d = instant_diff(end, start);
    return d.ms > 0 && d.ms < asked.ms ? d : asked;
}

static enum source_next next(struct source *s, struct arena *a, struct source_job *j)
{
    struct source_http *h = http_of(s);
    struct str job;
    struct id id;
    if (!view_next(&h->jobs, &job))
        return SOURCE_NONE;
    job = arena_copy(a, job);
    *j = (struct source_job){.id = view_text(a, job, "id"),
                             .queue = view_text(a, job, "queue"),
                             .type = view_text(a, job, "type"),
                             .token = view_get(job, "token"),
                             .payload = view_get(job, "payload"),
                             .checkpoint = view_get(job, "checkpoint"),
                             .traceparent = view_text(a, job, "traceparent"),
                             .tracestate = view_text(a, job, "tracestate"),
                             .lease = granted(h->lease, job)};
    if (!j->payload.len)
        j->payload = STR("null");
    view_int(job, "max_run_ms", &j->max_run.ms);
    view_int(job, "attempts", &j->attempts);
    view_int(job, "run", &j->run);
    view_int(job, "priority", &j->priority);
    return id_parse(j->id, &id).code == ERR_OK && j->token.len ? SOURCE_JOB : SOURCE_BAD;
}

static void withdraw(struct source *s, span patience)
{
    struct source_http *h = http_of(s);
    struct buf path = {0};
    buf_lit(&path, "/jobs/claim");
    client_query(&path, "worker", h->args->worker);
    call_start(&h->withdraw, h->multi, "DELETE", client_path(&path), patience);
    buf_fini(&path);
}

static void claim_abort(struct source *s)
{
    struct source_http *h = http_of(s);
    call_abort(&h->claim, h->multi);
    s->claiming = false;
}

static void post(struct source_http *h, size_t seat, const struct source_job *job, const char *verb)
{
    char path[64];
    snprintf(path, sizeof path, "/jobs/%.*s/%s", STR_ARG(job->id), verb);
    call_start(&h->seats[seat], h->multi, "POST", path, CALL_TIMEOUT);
}

static struct lease_text text_of(const struct renewal *r)
{
    return (struct lease_text){r->job->id, r->job->token, -1, r->lease};
}

static void renew_alone(struct source_http *h, size_t seat, const struct source_job *job,
                        struct lease_text l, struct str news)
{
    struct buf *b = &h->seats[seat].body;
    b->len = 0;
    lease_text_one(b, &l);
    buf_str(b, news);
    buf_byte(b, '}');
    post(h, seat, job, "renew");
}

static void renew(struct source *s, size_t seat, const struct source_job *job, span lease,
                  struct str news)
{
    struct source_http *h = http_of(s);
    struct renewal r = {.job = job, .lease = lease, .waits = true};
    if (news.len || h->unknown) {
        renew_alone(h, seat, job, text_of(&r), news);
    } else {
        h->renewals[seat] = r;
        h->waiting++;
    }
}

static void stop_waiting(struct source_http *h, size_t seat)
{
    h->waiting -= h->renewals[seat].waits;
    h->renewals[seat].waits = false;
}

/* One by itself, or while another request for many is under way, is a request of its own. */
static void send_waiting(struct source_http *h)
{
    bool alone = h->waiting == 1 || h->unknown || h->renewing;
    struct buf *b = &h->together.body;
    if (!h->waiting)
        return;
    if (!alone)
        b->len = h->asked_count = 0;
    for (size_t seat = 0; seat < h->args->seats && h->waiting; seat++) {
        struct renewal *r = &h->renewals[seat];
        struct lease_text l;
        if (!r->waits || (!alone && h->asked_count == LEASE_TEXT_MAX))
            continue;
        l = text_of(r);
        stop_waiting(h, seat);
        if (alone) {
            renew_alone(h, seat, r->job, l, (struct str){0});
        } else {
            lease_text_add(b, &l);
            r->together = true;
            h->asked[h->asked_count++] = seat;
        }
    }
    if (alone)
        return;
    lease_text_end(b);
    h->renewing = true;
    call_start(&h->together, h->multi, "POST", "/jobs/renew", CALL_TIMEOUT);
}

static void report(struct source *s, size_t seat, const struct source_job *job,
                   enum source_report what, struct str members)
{
    static const char *const verbs[] = {"success", "failure", "release"};
    struct source_http *h = http_of(s);
    struct buf *b = &h->seats[seat].body;
    b->len = 0;
    buf_print(b, "{\"token\":%.*s", STR_ARG(job->token));
    buf_str(b, members);
    buf_byte(b, '}');
    post(h, seat, job, verbs[what]);
}

static void abort_seat(struct source *s, size_t seat)
{
    struct source_http *h = http_of(s);
    call_abort(&h->seats[seat], h->multi);
    stop_waiting(h, seat);
    h->renewals[seat].together = false;
}

/* What the request for many says of each seat that still waits for it. */
static void answer_renewals(struct source_http *h, const struct source_answer *a, long status)
{
    struct source *s = &h->source;
    enum lease_outcome outcome = lease_text_outcome(a->result, status);
    struct view_list l = lease_text_list(a->body);
    struct arena arena = {0};
    h->renewing = false;
    h->unknown |= outcome == LEASE_UNKNOWN;
    for (size_t i = 0; i < h->asked_count; i++) {
        struct renewal *r = &h->renewals[h->asked[i]];
        struct lease_answer of = {.result = a->result, .body = a->body, .why = a->why};
        if (outcome == LEASE_EACH)
            lease_text_next(&l, &arena, &of);
        if (!r->together)
            continue;
        r->together = false;
        if (outcome == LEASE_EACH || outcome == LEASE_ALL)
            s->user->answered(s->ctx, h->asked[i],
                              &(struct source_answer){of.result, a->sent, {0}, of.body, of.why});
        else
            renew_alone(h, h->asked[i], r->job, text_of(r), (struct str){0});
    }
    arena_fini(&arena);
}

static void answer(struct source_http *h, struct call *c, enum call_result r)
{
    struct source *s = &h->source;
    struct buf why = {0};
    if (r != CALL_DONE)
        call_explain(c, &why);
    struct source_answer a = {
        .result = r, .sent = c->sent, .body = buf_view(&c->answer), .why = buf_view(&why)};
    if (c == &h->claim) {
        s->claiming = false;
        if (r == CALL_DONE && !view_get(a.body, "jobs").len) {
            a.result = CALL_TRY_LATER;
            a.why = STR("what answers a claim has no jobs: is a proxy in between?");
        }
        h->jobs = view_list(view_get(a.body, "jobs"));
        s->unsure = a.result == CALL_UNREACHABLE || a.result == CALL_TRY_LATER;
        h->claim_number += !s->unsure;
        s->user->claimed(s->ctx, &a);
    } else if (c == &h->together) {
        answer_renewals(h, &a, c->status);
    } else if (c != &h->withdraw) {
        s->user->answered(s->ctx, (size_t)(c - h->seats), &a);
    }
    buf_fini(&why);
}

static bool poll_answers(struct source *s)
{
    struct source_http *h = http_of(s);
    int left, running;
    bool any = false;
    send_waiting(h);
    curl_multi_perform(h->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
        struct call *c;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        answer(h, c, call_finish(c, h->multi, code));
        any = true;
    }
    return any;
}

static void wait_for(struct source *s, const struct pollfd *fds, size_t count, int ms)
{
    struct source_http *h = http_of(s);
    send_waiting(h);
    h->fds = alloc_resize(h->fds, (count + 1) * sizeof *h->fds);
    for (size_t i = 0; i < count; i++)
        h->fds[i] = (struct curl_waitfd){.fd = fds[i].fd,
                                         .events = fds[i].events == POLLOUT ? CURL_WAIT_POLLOUT
                                                                            : CURL_WAIT_POLLIN};
    curl_multi_poll(h->multi, h->fds, (unsigned)count, ms, NULL);
}

static void http_free(struct source *s)
{
    struct source_http *h = http_of(s);
    for (size_t i = 0; i < h->args->seats; i++) {
        call_abort(&h->seats[i], h->multi);
        call_fini(&h->seats[i]);
    }
    call_abort(&h->claim, h->multi);
    call_abort(&h->withdraw, h->multi);
    call_abort(&h->together, h->multi);
    call_fini(&h->together);
    call_fini(&h->claim);
    call_fini(&h->withdraw);
    curl_multi_cleanup(h->multi);
    free(h->seats);
    free(h->renewals);
    free(h->asked);
    free(h->fds);
    free(h);
}

struct source *source_http_new(const struct source_http_args *args)
{
    static const struct source_vt vt = {.claim = claim,
                                        .next = next,
                                        .withdraw = withdraw,
                                        .claim_abort = claim_abort,
                                        .renew = renew,
                                        .report = report,
                                        .abort = abort_seat,
                                        .poll = poll_answers,
                                        .wait = wait_for,
                                        .free = http_free};
    struct source_http *h = alloc_zero(sizeof *h);
    *h = (struct source_http){.source = {.vt = &vt, .name = args->url},
                              .args = args,
                              .multi = curl_multi_init(),
                              .seats = alloc_zero(args->seats * sizeof *h->seats),
                              .renewals = alloc_zero(args->seats * sizeof *h->renewals),
                              .asked = alloc_zero(args->seats * sizeof *h->asked)};
    must(h->multi);
    ssize_t got = getrandom(&h->claim_seed, sizeof h->claim_seed, 0);
    must(got == sizeof h->claim_seed);
    call_init(&h->claim, args->url, &args->tls);
    call_init(&h->withdraw, args->url, &args->tls);
    call_init(&h->together, args->url, &args->tls);
    for (size_t i = 0; i < args->seats; i++)
        call_init(&h->seats[i], args->url, &args->tls);
    return &h->source;
}
