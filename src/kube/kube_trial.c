/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"

#define NAME KUBE_TRIAL_NAME
/* How long a watch may take to open; one that is slow to say so was not refused. */
#define WATCH_WITHIN ((span){5000})

struct attempt {
    struct kube_trial *trial;
    struct kube_client_call *call;
    enum kube_counters_verb verb;
    size_t index;
};

struct kube_trial {
    char *namespace;
    struct attempt attempts[KUBE_REVIEW_MAX];
    struct kube_review_result results[KUBE_REVIEW_MAX];
    size_t count, left;
    struct arena arena;
    void (*done)(void *ctx, const struct kube_review_result *results, size_t count);
    void *ctx;
};

/* --- the answer --- */

static void end_of(struct attempt *at)
{
    struct kube_trial *t = at->trial;
    if (--t->left)
        return;
    t->done(t->ctx, t->results, t->count);
    arena_fini(&t->arena);
    free(t->namespace);
    free(t);
}

/* Whether the request came as far as to be allowed or refused. A list that is not found shows that
 * nobody there knows of such things; of an object that is not there it was to be expected. */
static bool is_verdict(const struct kube_answer *a, enum kube_counters_verb verb)
{
    if (verb == KUBE_LIST)
        return a->reason == KUBE_ANSWER_OK || a->reason == KUBE_ANSWER_FORBIDDEN;
    return (verb == KUBE_WATCH && a->reason == KUBE_ANSWER_TIMED_OUT) ||
           !kube_answer_is_not_of_request(a->reason);
}

static void on_answer(void *ctx, const struct kube_answer *answer)
{
    struct attempt *at = ctx;
    struct kube_review_result *to = &at->trial->results[at->index];
    to->reason = answer->reason;
    to->answered = is_verdict(answer, at->verb);
    to->allowed = to->answered && answer->reason != KUBE_ANSWER_FORBIDDEN;
    to->why = arena_copy(&at->trial->arena, answer->message);
    end_of(at);
}

/* It was not refused: no more is wanted of it. */
static void on_opened(void *ctx)
{
    struct attempt *at = ctx;
    struct kube_review_result *to = &at->trial->results[at->index];
    to->reason = KUBE_ANSWER_OK;
    to->answered = to->allowed = true;
    kube_client_cancel(at->call);
    end_of(at);
}

static void on_bytes(void *ctx, struct str bytes)
{
    (void)ctx;
    (void)bytes;
}

/* --- the attempts --- */

static const struct {
    const char *word;
    enum kube_counters_verb verb;
    bool named;
    const char *query, *body;
} verbs[] = {
    {"create", KUBE_CREATE, false, KUBE_TRIAL_QUERY, KUBE_TRIAL_POD},
    {"get", KUBE_GET, true, "", ""},
    {"list", KUBE_LIST, false, "?limit=1", ""},
    {"watch", KUBE_WATCH, false, "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D" NAME,
     ""},
    {"delete", KUBE_DELETE, true, "?dryRun=All",
     "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"dryRun\":[\"All\"],\"preconditions\":"
     "{\"uid\":\"00000000-0000-0000-0000-000000000000\"}}"},
};

static size_t find_verb(const char *word)
{
    size_t i = 0;
    while (i < COUNT(verbs) && strcmp(verbs[i].word, word) != 0)
        i++;
    must(i < COUNT(verbs));
    return i;
}

static void write_path(struct buf *b, const struct kube_trial *t,
                       const struct kube_review_access *x, size_t verb)
{
    if (*x->group)
        buf_print(b, "/apis/%s/v1/namespaces", x->group);
    else
        buf_lit(b, "/api/v1/namespaces");
    kube_client_segment(b, str_from(t->namespace));
    buf_print(b, "/%s", x->resource);
    if (verbs[verb].named)
        buf_print(b, "/%s", NAME);
    if (x->subresource)
        buf_print(b, "/%s", x->subresource);
    buf_print(b, "%s", verbs[verb].query);
    buf_byte(b, '\0');
}

static void attempt(struct kube_client *client, struct attempt *at)
{
    const struct kube_review_access *x = at->trial->results[at->index].access;
    size_t i = find_verb(x->verb);
    bool watch = verbs[i].verb == KUBE_WATCH;
    struct buf path = {0};
    write_path(&path, at->trial, x, i);
    const struct kube_client_spec spec = {.verb = verbs[i].verb,
                                          .path = path.at,
                                          .body = str_from(verbs[i].body),
                                          .accept = x->subresource ? "*/*" : NULL,
                                          .retry = KUBE_CLIENT_ANY, /* it changes nothing */
                                          .tries_max = 3,
                                          .data = watch ? on_bytes : NULL,
                                          .opened = watch ? on_opened : NULL,
                                          .stream_timeout = WATCH_WITHIN,
                                          .done = on_answer,
                                          .ctx = at};
    at->verb = verbs[i].verb;
    at->call = kube_client_call(client, &spec);
    buf_fini(&path);
}

struct kube_trial *
kube_trial_start(struct kube_client *client, const char *namespace,
                 const struct kube_review_access *accesses, size_t count,
                 void (*done)(void *ctx, const struct kube_review_result *results, size_t count),
                 void *ctx)
{
    must(count > 0 && count <= KUBE_REVIEW_MAX);
    struct kube_trial *t = ALLOC(struct kube_trial);
    t->namespace = alloc_text(namespace, strlen(namespace));
    t->count = t->left = count;
    t->done = done;
    t->ctx = ctx;
    for (size_t i = 0; i < count; i++) {
        t->results[i] =
            (struct kube_review_result){.access = &accesses[i], .namespace = t->namespace};
        t->attempts[i] = (struct attempt){.trial = t, .index = i};
        attempt(client, &t->attempts[i]);
    }
    return t;
}
