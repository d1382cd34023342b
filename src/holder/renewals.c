/* SPDX-License-Identifier: Apache-2.0 */
#include "holder/renewals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/list.h"

struct renewals {
    struct remote *server;
    span timeout;
    struct list waiting; /* not sent yet */
    struct list alone;   /* under way, by requests of their own */
    size_t alone_count;
    struct list batches;
    bool unknown; /* the server does not know the request for many */
};

struct renewal {
    struct renewals *of;
    struct list node; /* in waiting, alone or those of a batch */
    char job[ID_TEXT_LEN + 1];
    char *token;
    int64_t run;
    span lease;
    bool by_itself; /* never in a batch */
    bool batched;
    remote_answered *done; /* NULL: dropped, but its place in the batch counts */
    void *ctx;
    struct remote_call *call;
};

struct batch {
    struct renewals *of;
    struct list node, renewals;
    size_t count;
    struct remote_call *call;
};

struct renewals *renewals_new(struct remote *server, span timeout)
{
    struct renewals *r = ALLOC(struct renewals);
    *r = (struct renewals){.server = server, .timeout = timeout};
    list_init(&r->waiting);
    list_init(&r->alone);
    list_init(&r->batches);
    return r;
}

static void free_one(struct renewal *one)
{
    list_unlink(&one->node);
    free(one->token);
    free(one);
}

static void free_all(struct list *l)
{
    while (!list_is_empty(l)) {
        struct renewal *one = LIST_OF(l->next, struct renewal, node);
        remote_abort(one->call);
        free_one(one);
    }
}

static void free_batch(struct batch *b)
{
    remote_abort(b->call);
    free_all(&b->renewals);
    list_unlink(&b->node);
    free(b);
}

void renewals_free(struct renewals *r)
{
    free_all(&r->waiting);
    free_all(&r->alone);
    while (!list_is_empty(&r->batches))
        free_batch(LIST_OF(r->batches.next, struct batch, node));
    free(r);
}

struct renewal *renewals_add(struct renewals *r, const struct lease_text *l, remote_answered *done,
                             void *ctx)
{
    struct renewal *one = ALLOC(struct renewal);
    *one = (struct renewal){.of = r,
                            .token = alloc_text(l->token.at, l->token.len),
                            .run = l->run,
                            .lease = l->lease,
                            .by_itself = !l->token.len,
                            .done = done,
                            .ctx = ctx};
    snprintf(one->job, sizeof one->job, "%.*s", STR_ARG(l->job));
    list_append(&r->waiting, &one->node);
    return one;
}

void renewals_drop(struct renewal *one)
{
    if (one && one->batched) {
        one->done = NULL;
    } else if (one) {
        one->of->alone_count -= one->call != NULL;
        remote_abort(one->call);
        free_one(one);
    }
}

static struct lease_text text_of(const struct renewal *one)
{
    return (struct lease_text){str_from(one->job), str_from(one->token), one->run, one->lease};
}

/* It is over: nobody knows it any more when the answer is given. */
static void answer(struct renewal *one, const struct remote_answer *a)
{
    remote_answered *done = one->done;
    void *ctx = one->ctx;
    free_one(one);
    if (done)
        done(ctx, a);
}

/* --- by themselves --- */

static void on_alone(void *ctx, const struct remote_answer *a)
{
    struct renewal *one = ctx;
    struct renewals *r = one->of;
    one->call = NULL;
    r->alone_count--;
    answer(one, a);
    renewals_send(r);
}

static void send_alone(struct renewal *one)
{
    struct renewals *r = one->of;
    char path[64];
    struct buf body = {0};
    struct lease_text l = text_of(one);
    if (r->alone_count == RENEWALS_ALONE_MAX)
        return;
    snprintf(path, sizeof path, "/jobs/%s/renew", one->job);
    lease_text_one(&body, &l);
    buf_byte(&body, '}');
    list_unlink(&one->node);
    list_append(&r->alone, &one->node);
    r->alone_count++;
    one->call = remote_ask(r->server, "POST", path, buf_view(&body), r->timeout, on_alone, one);
    buf_fini(&body);
}

/* --- together --- */

/* They wait again, each for a request of its own. */
static void take_apart(struct batch *b)
{
    while (!list_is_empty(&b->renewals)) {
        struct renewal *one = LIST_OF(b->renewals.next, struct renewal, node);
        one->by_itself = true;
        one->batched = false;
        list_unlink(&one->node);
        list_append(&b->of->waiting, &one->node);
        if (!one->done)
            free_one(one);
    }
}

static void answer_each(struct batch *b, const struct remote_answer *a)
{
    struct arena arena = {0};
    struct view_list l = lease_text_list(a->body);
    while (!list_is_empty(&b->renewals)) {
        struct lease_answer of;
        lease_text_next(&l, &arena, &of);
        struct remote_answer one = {.result = of.result,
                                    .status = of.status,
                                    .body = of.body,
                                    .code = of.code,
                                    .why = of.why,
                                    .sent = a->sent};
        answer(LIST_OF(b->renewals.next, struct renewal, node), &one);
        arena_reset(&arena);
    }
    arena_fini(&arena);
}

static void on_batch(void *ctx, const struct remote_answer *a)
{
    struct batch *b = ctx;
    struct renewals *r = b->of;
    enum lease_outcome outcome = lease_text_outcome(a->result, a->status);
    b->call = NULL;
    r->unknown |= outcome == LEASE_UNKNOWN;
    if (outcome == LEASE_UNKNOWN || outcome == LEASE_FAULTY)
        take_apart(b);
    else if (outcome == LEASE_EACH)
        answer_each(b, a);
    while (!list_is_empty(&b->renewals))
        answer(LIST_OF(b->renewals.next, struct renewal, node), a);
    free_batch(b);
    renewals_send(r);
}

static struct batch *batch_new(struct renewals *r)
{
    struct batch *b = ALLOC(struct batch);
    b->of = r;
    list_init(&b->renewals);
    list_append(&r->batches, &b->node);
    return b;
}

static void put_into(struct batch *b, struct renewal *one)
{
    list_unlink(&one->node);
    list_append(&b->renewals, &one->node);
    one->batched = true;
    b->count++;
}

static void send_batch(struct batch *b)
{
    struct renewals *r = b->of;
    struct buf body = {0};
    if (b->count < 2) {
        take_apart(b);
        free_batch(b);
        return;
    }
    LIST_EACH (n, &b->renewals) {
        struct lease_text l = text_of(LIST_OF(n, struct renewal, node));
        lease_text_add(&body, &l);
    }
    lease_text_end(&body);
    b->call =
        remote_ask(r->server, "POST", "/jobs/renew", buf_view(&body), r->timeout, on_batch, b);
    buf_fini(&body);
}

void renewals_send(struct renewals *r)
{
    struct batch *b = NULL;
    for (struct list *n = r->waiting.next, *next; !r->unknown && n != &r->waiting; n = next) {
        struct renewal *one = LIST_OF(n, struct renewal, node);
        next = n->next;
        if (one->by_itself)
            continue;
        if (!b)
            b = batch_new(r);
        put_into(b, one);
        if (b->count == LEASE_TEXT_MAX) {
            send_batch(b);
            b = NULL;
        }
    }
    if (b)
        send_batch(b);
    for (struct list *n = r->waiting.next, *next; n != &r->waiting; n = next) {
        next = n->next;
        send_alone(LIST_OF(n, struct renewal, node));
    }
}
