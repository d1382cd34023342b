/* SPDX-License-Identifier: Apache-2.0 */

/* GET /rights: who the sender is and what it may do, so that a program can offer that and nothing
 * else. It says of each operation what asking for it would say. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"

struct sender {
    const struct api *api;
    const struct api_request *request;
    struct actor actor;
    unsigned roles;
    struct glob_list queues;
};

static const char *kind_word(int kind)
{
    return actor_word((enum actor_kind)kind);
}

static const struct shape_words kind_words = {.count = ACTOR_KINDS, .word = kind_word};

static void separate(struct buf *b)
{
    if (b->at[b->len - 1] != '[')
        buf_byte(b, ',');
}

static void add_word(struct buf *b, const char *word)
{
    separate(b);
    json_write_string(b, str_from(word));
}

static void write_roles(struct buf *b, const void *sender)
{
    const struct sender *s = sender;
    buf_byte(b, '[');
    for (int r = 0; r < ROLE_COUNT; r++)
        if (s->roles & 1u << r)
            add_word(b, rights_role_word((enum role)r));
    buf_byte(b, ']');
}

static void write_rights(struct buf *b, const void *sender)
{
    const struct sender *s = sender;
    buf_byte(b, '[');
    for (int r = RIGHT_NONE + 1; r < RIGHT_COUNT; r++)
        if (rights_have(s->request->rights, (enum right)r))
            add_word(b, rights_word((enum right)r));
    buf_byte(b, ']');
}

static struct err ask(const struct sender *s, const struct endpoint *e)
{
    if (e->route.admin && !s->request->params->admin)
        return err_make(ERR_NOT_FOUND, "this is on the admin listener only");
    return api_check_right(s->api, e, s->request);
}

static void write_allowed(struct buf *b, const void *sender)
{
    buf_byte(b, '[');
    for (size_t i = 0; i < api_endpoint_count; i++)
        if (ask(sender, &api_endpoints[i]).code == ERR_OK)
            add_word(b, api_endpoints[i].id);
    buf_byte(b, ']');
}

struct refusal {
    struct str operation, why;
};

static const struct shape_member refusal_members[] = {
    {MEMBER(struct refusal, operation, "operation", ALWAYS, NULL)},
    {MEMBER(struct refusal, why, "why", ALWAYS, "the sentence that the server refuses it with")},
};
const struct shape api_refusal_shape = {.name = "RefusedOperation", SHAPE_MEMBERS(refusal_members)};

static void write_refused(struct buf *b, const void *sender)
{
    buf_byte(b, '[');
    for (size_t i = 0; i < api_endpoint_count; i++) {
        struct err err = ask(sender, &api_endpoints[i]);
        if (err.code == ERR_OK)
            continue;
        const struct refusal refusal = {str_from(api_endpoints[i].id), str_from(err.msg)};
        separate(b);
        shape_write(b, &api_refusal_shape, &refusal, SHAPE_AS_IT_IS);
    }
    buf_byte(b, ']');
}

static const struct shape_member rights_members[] = {
    {MEMBER_WORD(struct sender, actor.kind, "kind", ALWAYS, &kind_words,
                 "how the sender is known; anonymous: nobody needs credentials here")},
    {MEMBER(struct sender, actor.id, "id", IF_SET,
            "of a token its id, of a certificate or a JSON Web Token its subject")},
    {MEMBER(struct sender, actor.name, "name", IF_SET, "what it is called")},
    {MEMBER_MADE("roles", ALWAYS, "string[]", write_roles, NULL)},
    {MEMBER_LIST(struct sender, queues.at, queues.count, "queues", ALWAYS,
                 "patterns of the queues that it is limited to; none: all queues")},
    {MEMBER_MADE("rights", ALWAYS, "string[]", write_rights, NULL)},
    {MEMBER_MADE("allowed", ALWAYS, "string[]", write_allowed,
                 "operations that it may ask for, about its queues")},
    {MEMBER_MADE("refused", ALWAYS, "RefusedOperation[]", write_refused, "all others")},
};
const struct shape api_rights_shape = {.name = "Rights", SHAPE_MEMBERS(rights_members)};

void api_rights(struct api *a, const struct api_request *r)
{
    struct sender sender = {.api = a, .request = r, .queues = r->rights->queues};
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    if (r->token) {
        sender.actor = token_actor(r->token);
        sender.roles = r->token->roles;
    }
    a->scratch.len = 0;
    shape_write(&a->scratch, &api_rights_shape, &sender, SHAPE_AS_IT_IS);
    api_reply_json(r->x, 200, &a->scratch);
}
