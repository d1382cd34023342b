/* SPDX-License-Identifier: Apache-2.0 */

/* Claims. At first, if they adopt, the server is asked which jobs are in flight with this worker:
 * an earlier process of its name may have left them. Each is claimed again, which gives the same
 * claim. After that a claim is sent at a time, again and again until it is answered. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "client/client.h"
#include "client/view.h"
#include "holder/holder_internal.h"

#define CLAIM_EXTRA ((span){15000}) /* how long an answer may take in addition to its wait */

struct holder_claims {
    struct list node; /* in holder.claims */
    struct holder *of;
    void *mine;
    char *queue; /* whose jobs are adopted; NULL: of all */
    bool adopted, stopped;
    mono not_before;
    uint32_t tries;
    /* The list of jobs in flight with this worker. */
    struct remote_call *list;
    struct buf page;       /* the path of the next one; empty: the first */
    struct list adoptions; /* requests for the jobs of this page */
    bool list_again;       /* one of them found no answer */
    /* The claim. */
    struct remote_call *call, *withdrawal;
    uint64_t number; /* of its claim_id */
    struct buf queues;
    size_t count;
    span wait;
    bool unsure; /* it was sent, and is not answered */
    bool last;   /* it is not sent again */
};

struct adoption {
    struct list node;
    struct holder_claims *claims;
    struct remote_call *call;
};

struct holder_claims *holder_claims_new(struct holder *h, const struct holder_scope *scope,
                                        void *mine)
{
    struct holder_claims *c = ALLOC(struct holder_claims);
    *c = (struct holder_claims){.of = h, .mine = mine, .adopted = !scope->adopts};
    if (scope->queue)
        c->queue = alloc_text(scope->queue, strlen(scope->queue));
    list_init(&c->adoptions);
    list_append(&h->claims, &c->node);
    return c;
}

static void wake(const struct holder_claims *c)
{
    c->of->user.wake(c->of->ctx);
}

static void heard(const struct holder_claims *c, const struct remote_answer *a)
{
    c->of->user.heard(c->of->ctx, a);
}

static void give(struct holder_claims *c, struct str json, mono since, bool again)
{
    struct arena arena = {0};
    struct holder_job job = {
        .token = view_get(json, "token"), .json = json, .since = since, .again = again};
    if (id_parse(view_text(&arena, json, "id"), &job.id).code == ERR_OK && job.token.len &&
        view_int(json, "run", &job.run))
        c->of->user.job(c->mine, &job);
    else
        log_error("the server sent a job without an id, a token or a run; passed over");
    arena_fini(&arena);
}

/* --- jobs of an earlier process --- */

/* A page has been worked off; if one of its jobs could not be asked for, all comes again. */
static void end_page(struct holder_claims *c)
{
    if (c->list || !list_is_empty(&c->adoptions))
        return;
    if (c->list_again) {
        c->list_again = false;
        c->page.len = 0;
        c->not_before = holder_again(c->of, &c->tries);
    } else if (!c->page.len) {
        c->adopted = true;
        c->tries = 0;
    }
    wake(c);
}

static void on_adopted(void *ctx, const struct remote_answer *a)
{
    struct adoption *ad = ctx;
    struct holder_claims *c = ad->claims;
    list_unlink(&ad->node);
    free(ad);
    heard(c, a);
    /* Any other answer: it is not ours any more. */
    if (a->result == CALL_DONE)
        give(c, a->body, a->sent, true);
    else if (holder_is_unanswered(a) || holder_is_unwelcome(a))
        c->list_again = true;
    end_page(c);
}

static void adopt(struct holder_claims *c, struct str id)
{
    const struct holder_settings *s = &c->of->settings;
    struct adoption *ad = ALLOC(struct adoption);
    char path[64];
    struct buf body = {0};
    ad->claims = c;
    list_append(&c->adoptions, &ad->node);
    snprintf(path, sizeof path, "/jobs/%.*s/claim", STR_ARG(id));
    buf_lit(&body, "{\"worker\":");
    json_write_string(&body, str_from(s->worker));
    buf_print(&body, ",\"lease_ms\":%" PRId64 "}", s->lease.ms);
    ad->call = remote_ask(s->server, "POST", path, buf_view(&body), s->timeout, on_adopted, ad);
    buf_fini(&body);
}

static void adopt_page(struct holder_claims *c, struct str body)
{
    struct arena arena = {0};
    struct str job, next = view_text(&arena, view_get(body, "pages"), "next");
    for (struct view_list l = view_list(view_get(body, "jobs")); view_next(&l, &job);) {
        struct id id;
        struct str text = view_text(&arena, job, "id");
        bool known = c->of->user.knows && c->of->user.knows(c->mine, job);
        if (!known && id_parse(text, &id).code == ERR_OK)
            adopt(c, text);
    }
    c->page.len = 0;
    buf_str(&c->page, next);
    arena_fini(&arena);
}

static void on_listed(void *ctx, const struct remote_answer *a)
{
    struct holder_claims *c = ctx;
    c->list = NULL;
    heard(c, a);
    if (!holder_is_unanswered(a))
        c->of->user.answered(c->mine, a);
    if (a->result == CALL_DONE)
        adopt_page(c, a->body);
    else
        c->list_again = true;
    end_page(c);
}

static void ask_for_page(struct holder_claims *c)
{
    const struct holder_settings *s = &c->of->settings;
    struct buf path = {0};
    if (c->page.len) {
        buf_str(&path, buf_view(&c->page));
    } else {
        buf_lit(&path, "/jobs");
        client_query(&path, "worker", s->worker);
        client_query(&path, "queue", c->queue);
        client_query(&path, "status", "in_flight");
        client_query(&path, "limit", "50");
    }
    c->list =
        remote_ask(s->server, "GET", client_path(&path), (struct str){0}, s->timeout, on_listed, c);
    buf_fini(&path);
}

/* --- claims --- */

static void on_claimed(void *ctx, const struct remote_answer *a)
{
    struct holder_claims *c = ctx;
    mono now = when_mono(); /* the lease began when the server answered, which waited */
    struct str job;
    bool again = c->unsure;
    c->call = NULL;
    heard(c, a);
    /* A refusal of the sender does not say what became of a request before this one. */
    c->unsure = holder_is_unanswered(a) || (again && holder_is_unwelcome(a));
    c->unsure = c->unsure && !c->last;
    if (!holder_is_unanswered(a))
        c->of->user.answered(c->mine, a);
    if (a->result == CALL_DONE) {
        c->tries = 0;
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);)
            give(c, job, now, again);
    } else {
        c->not_before = holder_again(c->of, &c->tries);
    }
    wake(c);
}

/* One that is repeated does not wait: its answer also says that the server is there again. */
static void send_claim(struct holder_claims *c)
{
    struct holder *h = c->of;
    struct buf b = {0};
    span wait = {c->unsure ? 0 : c->wait.ms};
    buf_print(&b, "{\"queues\":[%.*s],\"count\":%zu,\"lease_ms\":%" PRId64 ",\"wait_ms\":%" PRId64,
              STR_ARG(buf_view(&c->queues)), c->count, h->settings.lease.ms, wait.ms);
    buf_print(&b, ",\"claim_id\":\"%016" PRIx64 "-%" PRIu64 "\",\"worker\":", h->claim_seed,
              c->number);
    json_write_string(&b, str_from(h->settings.worker));
    buf_byte(&b, '}');
    c->last = c->stopped;
    c->call = remote_ask(h->settings.server, "POST", "/jobs/claim", buf_view(&b),
                         (span){wait.ms + CLAIM_EXTRA.ms}, on_claimed, c);
    buf_fini(&b);
}

static bool is_busy(const struct holder_claims *c)
{
    return c->call || c->list || !list_is_empty(&c->adoptions);
}

bool holder_claims_may_ask(const struct holder_claims *c, mono now, mono *next)
{
    if (is_busy(c) || c->unsure || c->stopped || !c->adopted)
        return false;
    if (c->not_before.ns > now.ns)
        holder_sooner(next, c->not_before);
    return c->not_before.ns <= now.ns;
}

void holder_claims_ask(struct holder_claims *c, struct str queues, size_t count, span wait)
{
    must(!is_busy(c) && !c->unsure && !c->stopped && c->adopted);
    c->queues.len = 0;
    buf_str(&c->queues, queues);
    c->count = count;
    c->wait = wait;
    c->number = c->of->claim_count++;
    send_claim(c);
}

bool holder_claims_have_adopted(const struct holder_claims *c)
{
    return c->adopted;
}

bool holder_claims_are_asking(const struct holder_claims *c)
{
    return c->call || c->unsure;
}

static void on_withdrawn(void *ctx, const struct remote_answer *a)
{
    struct holder_claims *c = ctx;
    c->withdrawal = NULL;
    heard(c, a);
    wake(c);
}

void holder_claims_withdraw(struct holder_claims *c)
{
    const struct holder_settings *s = &c->of->settings;
    struct buf path = {0};
    if (!c->call || c->withdrawal)
        return;
    buf_lit(&path, "/jobs/claim");
    client_query(&path, "worker", s->worker);
    c->withdrawal = remote_ask(s->server, "DELETE", client_path(&path), (struct str){0}, s->timeout,
                               on_withdrawn, c);
    buf_fini(&path);
}

void holder_claims_stop(struct holder_claims *c)
{
    if (c->stopped)
        return;
    c->stopped = true;
    holder_claims_withdraw(c);
    c->not_before = (mono){0};
    wake(c);
}

bool holder_claims_are_idle(const struct holder_claims *c)
{
    return !is_busy(c) && !c->withdrawal && !c->unsure;
}

/* --- turns and the end --- */

static void turn(struct holder_claims *c, mono now, mono *next)
{
    bool listing = !c->adopted && !c->stopped;
    if (is_busy(c) || (!c->unsure && !listing))
        return;
    if (c->not_before.ns > now.ns)
        holder_sooner(next, c->not_before);
    else if (c->unsure)
        send_claim(c);
    else
        ask_for_page(c);
}

void holder_claims_turn_all(struct holder *h, mono now, mono *next)
{
    LIST_EACH (n, &h->claims)
        turn(LIST_OF(n, struct holder_claims, node), now, next);
}

static void free_claims(struct holder_claims *c)
{
    while (!list_is_empty(&c->adoptions)) {
        struct adoption *ad = LIST_OF(c->adoptions.next, struct adoption, node);
        list_unlink(&ad->node);
        remote_abort(ad->call);
        free(ad);
    }
    list_unlink(&c->node);
    remote_abort(c->call);
    remote_abort(c->list);
    remote_abort(c->withdrawal);
    buf_fini(&c->page);
    buf_fini(&c->queues);
    free(c->queue);
    free(c);
}

void holder_claims_free_all(struct holder *h)
{
    while (!list_is_empty(&h->claims))
        free_claims(LIST_OF(h->claims.next, struct holder_claims, node));
}
