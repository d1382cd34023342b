/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_access.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/glob.h"
#include "base/must.h"
#include "wire/wire_msgpack.h"

const struct operation **api_operations_new(void)
{
    const struct operation **all = alloc_get(api_endpoint_count * sizeof *all);
    for (size_t i = 0; i < api_endpoint_count; i++) {
        all[i] = rights_find(RIGHTS_JOBS, api_endpoints[i].id);
        must(all[i]); /* access/rights.def has every endpoint; so do tests/api/test_api_access.c */
    }
    return all;
}

instant api_now(const struct api *a)
{
    return instant_min(a->settings.now(a->settings.now_ctx), backend_time(a->backend));
}

/* Until an admin has a token everybody may do everything, as far as the listeners reach; but tokens
 * are made, shown and deleted by this machine's own alone. */
static struct err check_anonymous(const struct api *a, const struct endpoint *e,
                                  const struct api_request *r)
{
    if (!e->tokens || (r->params->admin && a->settings.admin_loopback))
        return err_none();
    return err_make(ERR_NO_RIGHT, "while there is no token of an admin, tokens are managed over an "
                                  "admin listener on the loopback interface");
}

struct err api_check_right(const struct api *a, const struct endpoint *e,
                           const struct api_request *r)
{
    const struct operation *op = a->operations[e - api_endpoints];
    struct identities *identities = a->settings.identities;
    if (!identities || op->right == RIGHT_NONE)
        return err_none();
    if (r->token)
        return rights_check(&r->token->rights, op);
    if (identities_guard(identities))
        return rights_check(NULL, op);
    return check_anonymous(a, e, r);
}

struct err api_identify(const struct api *a, const struct endpoint *e, struct api_request *r)
{
    const struct operation *op = a->operations[e - api_endpoints];
    struct identities *identities = a->settings.identities;
    r->rights = op->right == RIGHT_NONE ? &rights_none : &rights_all;
    if (!identities || op->right == RIGHT_NONE)
        return err_none();
    TRY(tokens_unread(a->settings.tokens));
    const struct http_peer *peer = http_peer(r->x);
    struct identity_request asks = {.authorization = r->http->authorization,
                                    .address = peer->address,
                                    .subject = peer->subject,
                                    .names = peer->names};
    /* What others sign counts by the wall clock, as theirs do. */
    instant now = a->settings.now(a->settings.now_ctx);
    asks.held = instant_diff(now, api_now(a));
    struct err err = identities_check(identities, &asks, now, &r->token);
    r->wait = asks.wait;
    TRY(err);
    if (r->token)
        r->rights = &r->token->rights;
    return api_check_right(a, e, r);
}

struct err api_check_form(const struct api *a, const struct endpoint *e,
                          const struct http_request *req)
{
    static const char *const forms[] = {"text/plain", "application/x-www-form-urlencoded",
                                        "multipart/form-data"};
    struct str type = req->content_type;
    if (req->method != HTTP_POST || req->body.len || !type.len ||
        a->operations[e - api_endpoints]->right < RIGHT_OPERATE)
        return err_none();
    for (size_t i = 0; i < COUNT(forms); i++) {
        size_t len = strlen(forms[i]);
        if (type.len >= len && strncasecmp(type.at, forms[i], len) == 0)
            return err_make(ERR_BAD_MEDIA, "the content type is '%s'; without a body send none",
                            forms[i]);
    }
    return err_none();
}

void api_reply_refused(struct api *a, const struct api_request *r, const struct err *err)
{
    struct http_request bare = *r->http, json;
    bare.body = (struct str){0};
    /* Decides whether the answer is JSON or MessagePack. */
    if (wire_msgpack_mentioned(bare.content_type, bare.accept)) {
        struct err ok = api_unpack(a, r->x, &bare, &json);
        must(ok.code == ERR_OK);
    }
    char extra[80] = "";
    if (err->code == ERR_TOO_MANY_TRIES)
        snprintf(extra, sizeof extra, "Retry-After: %u\r\n", r->wait);
    else if (err_status(err->code) == 401)
        snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer realm=\"tenax\"%s\r\n",
                 err->code == ERR_BAD_CREDENTIALS ? ", error=\"invalid_token\"" : "");
    api_reply_error(r->x, err, extra[0] ? extra : NULL);
}

/* --- queues --- */

struct err api_may_queue(const struct api_request *r, struct str queue)
{
    return rights_queue(r->rights, queue);
}

struct err api_may_enqueue(const struct api_request *r, const struct enqueue *spec)
{
    TRY(api_may_queue(r, spec->queue));
    return rights_type(r->rights, spec->type);
}

static bool is_name(struct str pattern)
{
    return !memchr(pattern.at, '*', pattern.len);
}

struct err api_may_queues(const struct api_request *r, const struct str **queues, size_t *count)
{
    struct glob_list own = r->rights->queues;
    for (size_t i = 0; i < *count; i++)
        TRY(api_may_queue(r, (*queues)[i]));
    if (*count || !own.count)
        return err_none();
    for (size_t i = 0; i < own.count; i++)
        if (!is_name(own.at[i]))
            return err_make(ERR_NO_RIGHT, "these credentials are limited to queues by a pattern: "
                                          "the request must name some");
    *queues = own.at;
    *count = own.count;
    return err_none();
}

struct err api_may_filter(const struct api_request *r, struct job_filter *f)
{
    /* Whether a payload matches an expression says what is in it. */
    if (f->expression.len && !api_may_see(r))
        return err_make(ERR_NO_RIGHT, "filter: these credentials lack the right '%s', to %s",
                        rights_word(RIGHT_PAYLOADS), rights_meaning(RIGHT_PAYLOADS));
    for (size_t i = 0; i < f->queue_count; i++)
        TRY(api_may_queue(r, f->queues[i]));
    TRY(api_own_group(r, &f->group));
    if (!f->queue_count)
        f->reach = r->rights->queues;
    return err_none();
}

/* --- payloads --- */

bool api_may_see(const struct api_request *r)
{
    return rights_have(r->rights, RIGHT_PAYLOADS);
}

void api_hide_payloads(const struct call *c, const struct reply *r)
{
    for (size_t i = 0; c->blind && r->err.code == ERR_OK && i < r->count; i++)
        r->jobs[i].payload = (struct str){0};
}

/* What a container wrote may quote a payload: its log, and its termination message as well. The
 * memory of a reply is its own. */
void api_hide_log(struct run *run)
{
    struct failure *f = &run->failure;
    struct container_result *containers = (struct container_result *)f->containers;
    f->termination_message = (struct str){0};
    for (size_t i = 0; i < f->container_count; i++) {
        containers[i].log = (struct str){0};
        containers[i].message = (struct str){0};
    }
}

void api_hide_logs(const struct call *c, const struct reply *r)
{
    if (!c->blind || r->err.code != ERR_OK)
        return;
    size_t count = r->run_count ? r->run_count : r->count;
    for (size_t i = 0; r->runs && i < count; i++)
        api_hide_log(&r->runs[i]);
    if (r->explanation && r->explanation->has_run)
        api_hide_log(&r->explanation->run);
}

/* --- streams --- */

bool api_is_over(const struct api *a, const struct token *t, const struct token *of)
{
    return t && (of ? t == of : !token_is_live(t, api_now(a)));
}
