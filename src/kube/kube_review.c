/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_review.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/must.h"
#include "wire/field.h"

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

struct question {
    struct kube_review *review;
    struct kube_client_call *call;
    size_t index;
};

struct kube_review {
    char *namespace;
    struct question questions[KUBE_REVIEW_MAX];
    struct kube_review_result results[KUBE_REVIEW_MAX];
    size_t count, left;
    struct arena arena;
    void (*done)(void *ctx, const struct kube_review_result *results, size_t count);
    void *ctx;
};

static void release(struct kube_review *r)
{
    arena_fini(&r->arena);
    free(r->namespace);
    free(r);
}

/* --- the answer --- */

struct verdict {
    bool allowed;
    struct str reason;
};

static const struct field verdict_fields[] = {
    {"allowed", true, field_bool, offsetof(struct verdict, allowed)},
    {"reason", false, field_text, offsetof(struct verdict, reason), .nullable = true},
};

static struct err read_verdict(struct str json, struct arena *a, struct verdict *out)
{
    const struct field fields[] = {{"status", true, field_part, 0}};
    struct field_part status = {0};
    struct json_cursor c = json_open(json);
    TRY(field_read_object(false, &c, a, fields, COUNT(fields), &status));
    TRY(json_close(&c));
    return field_read_part(false, &status, a, verdict_fields, COUNT(verdict_fields), "status", out);
}

static void on_verdict(void *ctx, const struct kube_answer *answer)
{
    struct question *q = ctx;
    struct kube_review *r = q->review;
    struct kube_review_result *to = &r->results[q->index];
    q->call = NULL;
    to->reason = answer->reason;
    if (answer->reason == KUBE_ANSWER_OK) {
        struct verdict v = {0};
        struct err err = read_verdict(arena_copy(&r->arena, answer->object), &r->arena, &v);
        to->answered = err.code == ERR_OK;
        to->allowed = v.allowed && to->answered;
        to->why = to->answered ? v.reason : arena_copy(&r->arena, str_from(err.msg));
        if (!to->answered)
            to->reason = KUBE_ANSWER_MALFORMED;
    } else {
        to->why = arena_copy(&r->arena, answer->message);
    }
    if (--r->left)
        return;
    r->done(r->ctx, r->results, r->count);
    release(r);
}

/* --- the questions --- */

static void ask(struct kube_client *client, struct question *q)
{
    const struct kube_review_access *x = q->review->results[q->index].access;
    struct buf b = {0};
    buf_lit(&b, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
                "\"spec\":{\"resourceAttributes\":{\"namespace\":");
    json_write_string(&b, str_from(q->review->namespace));
    buf_lit(&b, ",\"verb\":");
    json_write_string(&b, str_from(x->verb));
    buf_lit(&b, ",\"group\":");
    json_write_string(&b, str_from(x->group));
    buf_lit(&b, ",\"resource\":");
    json_write_string(&b, str_from(x->resource));
    if (x->subresource) {
        buf_lit(&b, ",\"subresource\":");
        json_write_string(&b, str_from(x->subresource));
    }
    buf_lit(&b, "}}}");
    const struct kube_client_spec spec = {.verb = KUBE_CREATE,
                                          .path = REVIEWS,
                                          .body = buf_view(&b),
                                          .retry = KUBE_CLIENT_ANY, /* it changes nothing */
                                          .tries_max = 3,
                                          .done = on_verdict,
                                          .ctx = q};
    q->call = kube_client_call(client, &spec);
    buf_fini(&b);
}

struct kube_review *
kube_review_start(struct kube_client *client, const char *namespace,
                  const struct kube_review_access *accesses, size_t count,
                  void (*done)(void *ctx, const struct kube_review_result *results, size_t count),
                  void *ctx)
{
    must(count > 0 && count <= KUBE_REVIEW_MAX);
    struct kube_review *r = ALLOC(struct kube_review);
    r->namespace = alloc_text(namespace, strlen(namespace));
    r->count = r->left = count;
    r->done = done;
    r->ctx = ctx;
    for (size_t i = 0; i < count; i++) {
        r->results[i] =
            (struct kube_review_result){.access = &accesses[i], .namespace = r->namespace};
        r->questions[i] = (struct question){.review = r, .index = i};
        ask(client, &r->questions[i]);
    }
    return r;
}

void kube_review_cancel(struct kube_review *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->questions[i].call)
            kube_client_cancel(r->questions[i].call);
    release(r);
}

/* --- what is missing --- */

static void write_resource(struct buf *b, const struct kube_review_access *x)
{
    buf_print(b, "%s%s%s", x->resource, x->subresource ? "/" : "",
              x->subresource ? x->subresource : "");
}

void kube_review_name(struct buf *b, const struct kube_review_access *access)
{
    buf_print(b, "%s ", access->verb);
    write_resource(b, access);
}

static bool same_resource(const struct kube_review_access *x, const struct kube_review_access *y)
{
    const char *a = x->subresource ? x->subresource : "", *b = y->subresource ? y->subresource : "";
    return strcmp(x->group, y->group) == 0 && strcmp(x->resource, y->resource) == 0 &&
           strcmp(a, b) == 0;
}

/* A rule for the resource of the i-th, with every verb that is missing of it. */
static void write_rule(struct buf *b, const struct kube_review_result *results, size_t count,
                       size_t i)
{
    const struct kube_review_access *x = results[i].access;
    buf_print(b, "- apiGroups: [\"%s\"]\n  resources: [\"", x->group);
    write_resource(b, x);
    buf_lit(b, "\"]\n  verbs: [");
    for (size_t k = i, n = 0; k < count; k++)
        if (!results[k].allowed && same_resource(results[k].access, x))
            buf_print(b, "%s\"%s\"", n++ ? ", " : "", results[k].access->verb);
    buf_lit(b, "]\n");
}

void kube_review_write_role(struct buf *b, const char *name,
                            const struct kube_review_result *results, size_t count)
{
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        bool first = !results[i].allowed;
        for (size_t k = 0; k < i && first; k++)
            first = results[k].allowed || !same_resource(results[k].access, results[i].access);
        if (!first)
            continue;
        if (!begun)
            buf_print(b,
                      "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n"
                      "  name: %s\n  namespace: %s\nrules:\n",
                      name, results[i].namespace);
        begun = true;
        write_rule(b, results, count, i);
    }
}
