/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens over HTTP, and on the disk: each is an entry of the backend, with a hash instead of what
 * is secret. */

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "base/must.h"

/* Its entries outlive POST /reset. */
#define SPACE STR("~tokens")

#define KEPT_PER_BEAT 64
#define USED_STEP_MS  60000 /* the last use is written at most once in that time */
#define FORGOTTEN_MS  (INT64_C(30) * 24 * 3600 * 1000) /* after its end a token is deleted */

/* --- answers --- */

static void write_roles(struct buf *b, const void *token)
{
    const struct token *t = token;
    buf_byte(b, '[');
    for (int r = 0, n = 0; r < ROLE_COUNT; r++)
        if (t->roles & 1u << r)
            buf_print(b, "%s\"%s\"", n++ ? "," : "", rights_role_word((enum role)r));
    buf_byte(b, ']');
}

static void write_id(struct buf *b, const void *token)
{
    json_write_string(b, token_id(token));
}

static bool was_used(const void *token)
{
    return ((const struct token *)token)->used != 0;
}

static void write_used(struct buf *b, const void *token)
{
    buf_int(b, ((const struct token *)token)->used);
}

static const struct shape_member quota_members[] = {
    {MEMBER(struct token_quota, waiting, "waiting", IF_SET,
            "jobs that it has enqueued and that have not begun")},
    {MEMBER(struct token_quota, budgets, "budgets", IF_SET,
            "that tokens with the same queues make by enqueueing")},
    {MEMBER(struct token_quota, keys, "keys", IF_SET,
            "unique keys and aliases that its jobs hold")},
};
const struct shape api_quota_shape = {.name = "TokenQuota", SHAPE_MEMBERS(quota_members)};

static bool is_limited(const void *token)
{
    return token_has_quota(&((const struct token *)token)->quota);
}

static const struct shape_member token_members[] = {
    {MEMBER_MADE("id", ALWAYS, "string", write_id, "by which it is deleted")},
    {MEMBER(struct token, name, "name", IF_SET, "for people")},
    {MEMBER_MADE("roles", ALWAYS, "string[]", write_roles, NULL)},
    {MEMBER_LIST(struct token, rights.queues.at, rights.queues.count, "queues", ALWAYS,
                 "patterns of the queues that it is limited to; none: all queues")},
    {MEMBER_OBJECT(struct token, quota, "quota", IF_SET, &api_quota_shape,
                   "what it may have at most"),
     .is_set = is_limited},
    {MEMBER(struct token, payloads, "payloads", ALWAYS, "a viewer with it sees payloads")},
    {MEMBER(struct token, created, "created_at", ALWAYS, NULL)},
    {MEMBER(struct token, expires, "expires_at", OR_NULL, "null: never")},
    {MEMBER_MADE("used_at", OR_NULL, "integer", write_used, "when it was last sent",
                 .is_set = was_used)},
};
const struct shape api_token_shape = {.name = "Token", SHAPE_MEMBERS(token_members)};

struct made {
    const struct token *token;
    struct str text;
};

static const struct shape_member made_members[] = {
    {MEMBERS_AT(struct made, token, &api_token_shape)},
    {MEMBER(struct made, text, "token", ALWAYS,
            "what is sent as Authorization: Bearer; it is "
            "shown here and never again")},
};
const struct shape api_token_made_shape = {.name = "CreatedToken", SHAPE_MEMBERS(made_members)};

/* --- the body --- */

struct token_fields {
    struct token_spec spec;
    struct name_list queues;
};

static struct err read_role(struct json_cursor *c, struct arena *a, unsigned *roles)
{
    struct str word;
    enum role role;
    TRY(field_text(c, a, &word));
    if (!rights_role_parse(word, &role))
        return err_make(ERR_BAD_VALUE, "viewer, producer, worker, operator or admin, not '%.*s'",
                        (int)(word.len < 32 ? word.len : 32), word.at);
    *roles |= 1u << role;
    return err_none();
}

static struct err read_roles(struct json_cursor *c, struct arena *a, void *roles)
{
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(read_role(c, a, roles));
    }
}

static struct err read_patterns(struct json_cursor *c, struct arena *a, void *out)
{
    struct token_spec *spec = out;
    struct str *list = arena_get(a, RIGHTS_PATTERNS_MAX * sizeof *list);
    bool more;
    spec->queues = list;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more && spec->queue_count == 0)
            return err_make(ERR_BAD_VALUE, "an empty list would be no queue; leave it out for all");
        if (!more)
            return err_none();
        if (spec->queue_count == RIGHTS_PATTERNS_MAX)
            return err_make(ERR_TOO_MANY, "at most %d", RIGHTS_PATTERNS_MAX);
        TRY(field_text(c, a, &list[spec->queue_count++]));
    }
}

static struct err read_limit(struct json_cursor *c, struct arena *a, void *out)
{
    int64_t n;
    (void)a;
    TRY(json_read_int(c, 1, TOKEN_QUOTA_MAX, &n));
    *(uint64_t *)out = (uint64_t)n;
    return err_none();
}

#define QUOTA(member) #member, false, read_limit, offsetof(struct token_quota, member), true
static const struct field quota_table[] = {
    {QUOTA(waiting), "integer 1..$: jobs that it has enqueued and that have not begun",
     TOKEN_QUOTA_MAX},
    {QUOTA(budgets),
     "integer 1..$: that tokens with the same queues make by enqueueing; only with queues",
     TOKEN_QUOTA_MAX},
    {QUOTA(keys), "integer 1..$: unique keys and aliases that its jobs hold", TOKEN_QUOTA_MAX},
};
const struct api_body api_quota_body = {.name = "TokenQuotaInput",
                                        API_FIELDS(quota_table),
                                        .closed = true,
                                        .doc = "object: what a token may have at most"};

/* A limit that is not known must not be passed over. */
static struct err read_quota(struct json_cursor *c, struct arena *a, void *quota)
{
    return field_read_object(true, c, a, quota_table, COUNT(quota_table), quota);
}

#define SPEC(member) offsetof(struct token_spec, member)

static const struct field token_table[] = {
    {"roles", true, read_roles, SPEC(roles),
     .doc = "string[]: one or more of viewer, producer, worker, operator and admin"},
    {"queues", false, read_patterns, 0, true,
     "string[..$]: patterns of queues, in which * stands for any text; without them all queues",
     RIGHTS_PATTERNS_MAX},
    {"quota", false, read_quota, SPEC(quota), true, "TokenQuotaInput"},
    {"payloads", false, field_bool, SPEC(payloads), true, "boolean: a viewer is to see payloads"},
    {"name", false, field_text, SPEC(name), true, "string 0..$: for people", TOKEN_NAME_MAX},
    {"expires_at", false, field_instant, SPEC(expires), true,
     "integer 0..: milliseconds since 1970 (UTC); without it the token does not expire"},
};
const struct api_body api_token_body = {API_FIELDS(token_table)};

/* --- keeping --- */

struct keeping {
    struct api *api;
    struct token *token;
    void (*done)(void *ctx, struct token *token, const struct err *err);
    void *ctx;
};

static struct str value_of(const struct token *t, struct arena *a)
{
    struct buf b = {0};
    token_write(t, &b);
    struct str value = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return value;
}

/* With --commit-mode buffered, too: no power cut may bring back a token that was deleted, or take
 * the one whose file is gone. */
static void submit_put(struct api *a, const struct kv_change *changes, size_t count,
                       struct str trail, reply_fn done, void *ctx)
{
    struct command c = {.kind = CMD_KV_PUT, .trail = trail, .done = done, .ctx = ctx};
    c.kv_put = (struct kv_put){.changes = changes, .count = count, .sync = true};
    backend_submit(a->backend, &c);
}

static struct kv_change change_of(const struct token *t, struct arena *a, bool remove)
{
    struct kv_change c = {.remove = remove};
    c.entry = (struct kv_entry){.space = SPACE, .key = token_id(t), .expires = INSTANT_NONE};
    if (!remove)
        c.entry.value = value_of(t, a);
    return c;
}

static void on_kept(void *ctx, const struct reply *r)
{
    struct keeping *k = ctx;
    struct tokens *tokens = k->api->settings.tokens;
    bool added = r->err.code == ERR_OK && !tokens_find(tokens, token_id(k->token));
    if (added)
        tokens_add(tokens, k->token);
    k->done(k->ctx, k->token, &r->err);
    if (!added)
        token_free(k->token);
    free(k);
}

void api_token_keep(struct api *a, struct token *token, struct str trail,
                    void (*done)(void *ctx, struct token *token, const struct err *err), void *ctx)
{
    struct arena scratch = {0};
    struct keeping *k = ALLOC(struct keeping);
    *k = (struct keeping){a, token, done, ctx};
    const struct kv_change change = change_of(token, &scratch, false);
    submit_put(a, &change, 1, trail, on_kept, k);
    arena_fini(&scratch);
}

/* --- POST /tokens --- */

struct create_call {
    struct call call; /* must be first */
    char text[TOKEN_TEXT_LEN];
};

static void on_created(void *ctx, struct token *token, const struct err *err)
{
    struct create_call *c = ctx;
    struct buf *b = &c->call.api->scratch;
    const struct made made = {token, {c->text, sizeof c->text}};
    if (err->code == ERR_OK) {
        b->len = 0;
        shape_write(b, &api_token_made_shape, &made, SHAPE_AS_IT_IS);
        api_reply_json(c->call.x, 201, b);
        OPENSSL_cleanse(b->at, b->len);
        b->len = 0;
        log_info("access: token %.*s was made", TOKEN_ID_LEN, token->id);
    } else {
        api_reply_error(c->call.x, err, NULL);
    }
}

static struct err decode(struct api *a, const struct api_request *r, struct token_spec *spec)
{
    *spec = (struct token_spec){.expires = INSTANT_NONE};
    spec->created = api_now(a);
    TRY(api_decode_body(a, r->http, token_table, COUNT(token_table), false, spec));
    if (instant_is_set(spec->expires) && spec->expires.ms <= spec->created.ms)
        return err_make(ERR_BAD_VALUE, "expires_at: that time is over");
    return tokens_check_room(a->settings.tokens);
}

/* Which token was made is known by its id. */
static struct str trail_of(const struct api_request *r, const struct token *t)
{
    char path[32];
    int n = snprintf(path, sizeof path, "/tokens/%.*s", TOKEN_ID_LEN, t->id);
    return api_trail_at(r, "createToken", (struct str){path, (size_t)n});
}

void api_token_create(struct api *a, const struct api_request *r)
{
    struct create_call *call = ARENA_NEW(r->http->arena, struct create_call);
    struct token_spec spec;
    struct token *token;
    call->call = (struct call){.api = a, .x = r->x};
    struct err err = decode(a, r, &spec);
    if (err.code == ERR_OK)
        err = token_new(&spec, &token, call->text);
    if (err.code == ERR_OK)
        api_token_keep(a, token, trail_of(r, token), on_created, call);
    else
        api_reply_error(r->x, &err, NULL);
}

/* --- GET /tokens --- */

static void write_all(struct buf *b, const void *tokens)
{
    size_t at = 0;
    buf_byte(b, '[');
    for (const struct token *t; (t = tokens_next(tokens, &at));) {
        if (b->at[b->len - 1] != '[')
            buf_byte(b, ',');
        shape_write(b, &api_token_shape, t, SHAPE_AS_IT_IS);
    }
    buf_byte(b, ']');
}

static const struct shape_member tokens_members[] = {
    {MEMBER_MADE("tokens", ALWAYS, "Token[]", write_all, "in the order in which they were made")},
};
const struct shape api_tokens_shape = {.name = "Tokens", SHAPE_MEMBERS(tokens_members)};

void api_tokens(struct api *a, const struct api_request *r)
{
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    a->scratch.len = 0;
    shape_write(&a->scratch, &api_tokens_shape, a->settings.tokens, SHAPE_AS_IT_IS);
    api_reply_json(r->x, 200, &a->scratch);
}

/* --- DELETE /tokens/{id} --- */

static struct err check_removal(const struct api *a, const struct api_request *r,
                                struct token **token)
{
    struct str id = r->params->at[0];
    TRY(api_check_media(r->http));
    *token = tokens_find_kept(a->settings.tokens, id);
    if (!*token)
        return err_make(ERR_NOT_FOUND, "there is no token '%.*s'", (int)(id.len < 32 ? id.len : 32),
                        id.at);
    if (!(*token)->revoked && (*token)->roles & 1u << ROLE_ADMIN &&
        tokens_admins(a->settings.tokens) == 1)
        return err_make(ERR_CONFLICT, "it is the only token of an admin: nobody could make tokens "
                                      "any more; make another one first");
    return err_none();
}

struct removal {
    struct call call; /* must be first */
    struct token *token;
};

static void on_removed(void *ctx, const struct reply *r)
{
    struct removal *removal = ctx;
    removal->token->removed = r->err.code == ERR_OK;
    api_reply_empty(&removal->call, r);
}

/* It is void before that is durable: a crash in between would be as if it had come before. If the
 * disk is full it stays void until the next start, and may be deleted again. */
void api_token_remove(struct api *a, const struct api_request *r)
{
    struct token *token = NULL;
    struct err err = check_removal(a, r, &token);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    tokens_revoke(a->settings.tokens, token);
    log_info("access: token %.*s was deleted", TOKEN_ID_LEN, token->id);
    const struct kv_change change = change_of(token, NULL, true);
    struct removal *removal = ARENA_NEW(r->http->arena, struct removal);
    *removal = (struct removal){{a, r->x}, token};
    submit_put(a, &change, 1, r->trail, on_removed, removal);
    api_end_streams(a, token);
}

/* --- the last use --- */

static void ignore(void *ctx, const struct reply *r)
{
    (void)ctx;
    (void)r;
}

/* Nobody can use it any more, and nobody has deleted it for long. Tokens of admins stay: that there
 * are some is why others need one. */
static bool is_forgotten(const struct token *t, instant now)
{
    return instant_is_set(t->expires) && t->expires.ms + FORGOTTEN_MS <= now.ms &&
           !(t->roles & 1u << ROLE_ADMIN);
}

void api_tokens_heartbeat(struct api *a)
{
    struct kv_change changes[KEPT_PER_BEAT];
    struct arena scratch = {0};
    size_t at = 0, count = 0;
    if (!a->settings.tokens)
        return;
    instant now = api_now(a);
    for (struct token *t; count < KEPT_PER_BEAT && (t = tokens_next(a->settings.tokens, &at));) {
        bool forgotten = is_forgotten(t, now);
        if (!forgotten && t->used - t->used_kept < USED_STEP_MS)
            continue;
        if (forgotten)
            tokens_revoke(a->settings.tokens, t);
        t->used_kept = t->used;
        changes[count++] = change_of(t, &scratch, forgotten);
    }
    if (count)
        submit_put(a, changes, count, (struct str){0}, ignore, NULL);
    arena_fini(&scratch);
    api_end_streams(a, NULL);
}

void api_end_void_streams(struct api *a)
{
    api_end_streams(a, NULL);
}

/* --- at the start --- */

struct loading {
    struct api *api;
    bool *busy;
    struct err *err;
    char after[TOKEN_ID_LEN];
};

static void load_page(struct loading *l, struct str after);

static struct err add_page(struct tokens *tokens, const struct reply *r)
{
    TRY(r->err);
    for (size_t i = 0; i < r->count; i++) {
        struct token *t;
        TRY(token_read(r->kv[i].value, &t));
        if (tokens_check_room(tokens).code == ERR_OK && !tokens_find(tokens, token_id(t)))
            tokens_add(tokens, t);
        else
            token_free(t);
    }
    return err_none();
}

static void on_page(void *ctx, const struct reply *r)
{
    struct loading *l = ctx;
    *l->err = add_page(l->api->settings.tokens, r);
    if (l->err->code == ERR_OK && r->more) {
        load_page(l, r->kv_after);
        return;
    }
    *l->busy = false;
    free(l);
}

static void load_page(struct loading *l, struct str after)
{
    struct command c = {.kind = CMD_KV_LIST, .done = on_page, .ctx = l};
    c.kv = (struct kv_query){.space = SPACE, .after = after, .limit = KV_PAGE_MAX};
    backend_submit(l->api->backend, &c);
}

void api_load_tokens(struct api *a, bool *busy, struct err *err)
{
    struct loading *l = ALLOC(struct loading);
    *busy = true;
    *l = (struct loading){.api = a, .busy = busy, .err = err};
    load_page(l, (struct str){0});
}
