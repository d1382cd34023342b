/* SPDX-License-Identifier: Apache-2.0 */
#include "access/clients.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "base/strmap.h"

struct clients {
    struct arena memory;
    struct strmap by_id;
    struct strmap workers; /* struct static_worker */
    struct roles roles;
    size_t roles_cap;
    struct str text; /* what was read: parts of the clients are views into it */
};

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool consists_of(struct str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_alnum(s.at[i]) && (s.at[i] == '\0' || !strchr(others, s.at[i])))
            return false;
    return true;
}

bool client_id_valid(struct str id)
{
    return id.len > 0 && id.len <= CLIENT_ID_MAX && consists_of(id, "!@/:.+|_-");
}

static bool token_valid(struct str token)
{
    return token.len >= CLIENT_TOKEN_MIN && token.len <= CLIENT_TOKEN_MAX &&
           consists_of(token, "_-");
}

/* --- reading --- */

enum member {
    CLIENT_ID,
    ACCESS_TOKEN,
    SCOPES,
    EXPIRES,
    ROLE_ID,
    POOL_ID,
    GROUP,
    WORKER_ID,
    SECRET,
    PROVIDER_ID,
    CONFIG,
    UNKNOWN
};

/* A client; if it has a roleId, a role; if it has a workerPoolId, a worker. */
enum kind { IS_CLIENT, IS_ROLE, IS_WORKER };
struct entry {
    enum kind kind;
    struct access_client client;
    struct role role;
    struct static_worker worker;
};

#define BIT(m) (1u << (m))
static const struct {
    const char *name, *members; /* those that it may have, for people */
    unsigned needs, may;
} kinds[] = {
    [IS_CLIENT] = {"client", "clientId, accessToken, scopes and expires",
                   BIT(CLIENT_ID) | BIT(ACCESS_TOKEN) | BIT(SCOPES), BIT(EXPIRES)},
    [IS_ROLE] = {"role", "roleId and scopes", BIT(ROLE_ID) | BIT(SCOPES), 0},
    [IS_WORKER] = {"worker",
                   "workerPoolId, workerGroup, workerId, staticSecret, providerId and workerConfig",
                   BIT(POOL_ID) | BIT(GROUP) | BIT(WORKER_ID) | BIT(SECRET),
                   BIT(PROVIDER_ID) | BIT(CONFIG)},
};

static const char *const member_names[UNKNOWN] = {
    [CLIENT_ID] = "clientId",  [ACCESS_TOKEN] = "accessToken", [SCOPES] = "scopes",
    [EXPIRES] = "expires",     [ROLE_ID] = "roleId",           [POOL_ID] = "workerPoolId",
    [GROUP] = "workerGroup",   [WORKER_ID] = "workerId",       [SECRET] = "staticSecret",
    [CONFIG] = "workerConfig", [PROVIDER_ID] = "providerId",
};

static enum member find_member(struct str key)
{
    for (int m = 0; m < UNKNOWN; m++)
        if (str_eq(key, str_from(member_names[m])))
            return (enum member)m;
    return UNKNOWN;
}

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text,
                            int64_t *offset)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    *offset = (int64_t)s.offset;
    return json_text(s, a, text);
}

static struct err read_id(struct json_cursor *c, struct arena *a, struct entry *e)
{
    struct access_client *client = &e->client;
    int64_t offset;
    TRY(read_text(c, a, &client->id, &offset));
    if (!client_id_valid(client->id))
        return err_at(ERR_BAD_NAME, offset,
                      "clientId consists of A-Z a-z 0-9 ! @ / : . + | _ -, "
                      "1 to %d characters",
                      CLIENT_ID_MAX);
    return err_none();
}

static struct err read_token(struct json_cursor *c, struct arena *a, struct entry *e)
{
    struct access_client *client = &e->client;
    int64_t offset;
    TRY(read_text(c, a, &client->token, &offset));
    if (!token_valid(client->token))
        return err_at(ERR_BAD_VALUE, offset,
                      "accessToken consists of A-Z a-z 0-9 _ -, %d to %d characters",
                      CLIENT_TOKEN_MIN, CLIENT_TOKEN_MAX);
    return err_none();
}

static struct err read_scopes(struct json_cursor *c, struct arena *a, struct entry *e)
{
    TRY(scopes_read(c, a, &e->role.scopes, &e->role.count));
    return scope_set_make(e->role.scopes, e->role.count, a, &e->client.scopes, NULL);
}

static struct err read_role_id(struct json_cursor *c, struct arena *a, struct entry *e)
{
    int64_t offset;
    return read_text(c, a, &e->role.id, &offset);
}

static struct err read_expires(struct json_cursor *c, struct arena *a, struct entry *e)
{
    struct access_client *client = &e->client;
    bool absent;
    TRY(json_take_null(c, &absent));
    if (absent)
        return err_none();
    struct str text;
    int64_t offset;
    TRY(read_text(c, a, &text, &offset));
    if (!rfc3339_parse(text, &client->expires))
        return err_at(ERR_BAD_VALUE, offset,
                      "expires is a time like 2027-01-01T00:00:00Z, from 1970 on");
    return err_none();
}

#define READ_WORKER(part)                                                                          \
    static struct err read_worker_##part(struct json_cursor *c, struct arena *a, struct entry *e)  \
    {                                                                                              \
        return static_worker_read_##part(c, a, &e->worker);                                        \
    }
READ_WORKER(pool)
READ_WORKER(group)
READ_WORKER(id)
READ_WORKER(provider)
READ_WORKER(secret)
READ_WORKER(config)

static struct err (*const member_readers[UNKNOWN])(struct json_cursor *, struct arena *,
                                                   struct entry *) = {
    [CLIENT_ID] = read_id,         [ACCESS_TOKEN] = read_token,
    [SCOPES] = read_scopes,        [EXPIRES] = read_expires,
    [ROLE_ID] = read_role_id,      [POOL_ID] = read_worker_pool,
    [GROUP] = read_worker_group,   [WORKER_ID] = read_worker_id,
    [SECRET] = read_worker_secret, [PROVIDER_ID] = read_worker_provider,
    [CONFIG] = read_worker_config,
};

/* Whether it has what an entry of its kind has, and nothing else. */
static struct err check_members(struct entry *e, const bool seen[UNKNOWN], int64_t begin)
{
    e->kind = seen[ROLE_ID] ? IS_ROLE : seen[POOL_ID] ? IS_WORKER : IS_CLIENT;
    const char *name = kinds[e->kind].name;
    for (int m = 0; m < UNKNOWN; m++) {
        bool needed = kinds[e->kind].needs & BIT(m);
        if (seen[m] && !needed && !(kinds[e->kind].may & BIT(m)))
            return err_at(ERR_UNKNOWN_FIELD, begin, "a %s has %s only", name,
                          kinds[e->kind].members);
        if (!seen[m] && needed)
            return err_at(ERR_MISSING_FIELD, begin, "the %s has no %s", name, member_names[m]);
    }
    struct err err = e->kind == IS_ROLE ? role_check(&e->role) : err_none();
    err.offset = begin;
    return err;
}

static struct err read_entry(struct json_cursor *c, struct arena *a, struct entry *e)
{
    int64_t begin = (int64_t)c->pos;
    bool seen[UNKNOWN] = {false};
    TRY(json_enter_object(c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            break;
        enum member m = find_member(key.raw);
        if (m == UNKNOWN)
            return err_at(ERR_UNKNOWN_FIELD, (int64_t)key.offset,
                          "a client has %s only, a role %s, a worker %s", kinds[IS_CLIENT].members,
                          kinds[IS_ROLE].members, kinds[IS_WORKER].members);
        if (seen[m])
            return err_at(ERR_DUPLICATE_FIELD, (int64_t)key.offset, "%s is given twice",
                          member_names[m]);
        seen[m] = true;
        TRY(member_readers[m](c, a, e));
    }
    return check_members(e, seen, begin);
}

static struct err add(struct clients *all, struct access_client *client, int64_t begin)
{
    if (strmap_get(&all->by_id, client->id))
        return err_at(ERR_CONFLICT, begin, "a second client '%.*s'", STR_ARG(client->id));
    if (all->by_id.count >= CLIENTS_MAX)
        return err_at(ERR_TOO_MANY, begin, "at most %d clients", CLIENTS_MAX);
    strmap_put(&all->by_id, client->id, client);
    return err_none();
}

static struct err add_role(struct clients *all, const struct role *role, int64_t begin)
{
    struct roles *r = &all->roles;
    if (r->count >= CLIENTS_MAX)
        return err_at(ERR_TOO_MANY, begin, "at most %d roles", CLIENTS_MAX);
    ARENA_GROW(&all->memory, r->at, r->count, all->roles_cap, 16);
    r->at[r->count++] = *role;
    return err_none();
}

static struct err add_worker(struct clients *all, struct static_worker *w, int64_t begin)
{
    if (all->workers.count >= CLIENTS_MAX)
        return err_at(ERR_TOO_MANY, begin, "at most %d workers", CLIENTS_MAX);
    if (!static_worker_add(&all->workers, w, &all->memory))
        return err_at(ERR_CONFLICT, begin, "a second worker '%.*s/%.*s' of that pool",
                      STR_ARG(w->group), STR_ARG(w->id));
    return err_none();
}

static struct err add_entry(struct clients *all, struct entry *e, int64_t begin)
{
    switch (e->kind) {
    case IS_ROLE:
        return add_role(all, &e->role, begin);
    case IS_WORKER:
        return add_worker(all, &e->worker, begin);
    case IS_CLIENT:
        break;
    }
    return add(all, &e->client, begin);
}

static struct err read_list(struct json_cursor *c, struct clients *all)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        enum json_type type;
        TRY(json_next_element(c, &more));
        if (!more)
            return json_close(c);
        TRY(json_peek(c, &type)); /* skips white space */
        int64_t begin = (int64_t)c->pos;
        struct entry *e = ARENA_NEW(&all->memory, struct entry);
        e->client.expires = INSTANT_NONE;
        TRY(read_entry(c, &all->memory, e));
        TRY(add_entry(all, e, begin));
    }
}

/* Prefixes the position. The scanner's findings are left out, because they may quote a token. */
static struct err placed(struct str text, const char *name, struct err err)
{
    int line = 1, column = 1;
    for (int64_t i = 0; i < err.offset && i < (int64_t)text.len; i++) {
        column = text.at[i] == '\n' ? 1 : column + 1;
        line += text.at[i] == '\n';
    }
    char *found = strstr(err.msg, ", found '");
    if (found)
        *found = '\0';
    return err_at(err.code, err.offset, "%s: line %d, column %d: %s", name, line, column, err.msg);
}

struct err clients_read(struct str text, const char *name, struct clients **out)
{
    *out = NULL;
    if (text.len > CLIENTS_FILE_MAX)
        return err_make(ERR_LENGTH, "%s: more than %zu bytes", name, CLIENTS_FILE_MAX);
    struct clients *all = ALLOC(struct clients);
    all->text = (struct str){alloc_text(text.at ? text.at : "", text.len), text.len};
    struct json_cursor c = json_open(all->text);
    struct err err = read_list(&c, all);
    if (err.code == ERR_OK && !roles_sort(&all->roles))
        err = err_at(ERR_CONFLICT, 0, "two roles have the same roleId");
    if (err.code != ERR_OK) {
        clients_free(all);
        return placed(text, name, err);
    }
    *out = all;
    return err;
}

/* Tokens must not stay behind in freed memory. */
static void free_secret(char *at, size_t len)
{
    if (at)
        OPENSSL_cleanse(at, len);
    free(at);
}

static struct err read_file(const char *path, char **text, size_t *len)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return err_make(ERR_IO, "%s: %s", path, strerror(errno));
    *text = alloc_get(CLIENTS_FILE_MAX + 1);
    *len = fread(*text, 1, CLIENTS_FILE_MAX + 1, in);
    bool failed = ferror(in);
    int why = errno;
    fclose(in);
    return failed ? err_make(ERR_IO, "%s: %s", path, strerror(why)) : err_none();
}

struct err clients_load(const char *path, struct clients **clients)
{
    char *text = NULL;
    size_t len = 0;
    struct clients *fresh = NULL;
    struct err err = read_file(path, &text, &len);
    if (err.code == ERR_OK)
        err = clients_read((struct str){text, len}, path, &fresh);
    if (err.code == ERR_OK) {
        clients_free(*clients);
        *clients = fresh;
    }
    free_secret(text, len);
    return err;
}

void clients_free(struct clients *c)
{
    if (!c)
        return;
    strmap_fini(&c->by_id);
    strmap_fini(&c->workers);
    arena_fini(&c->memory);
    free_secret((char *)c->text.at, c->text.len);
    free(c);
}

/* --- looking up --- */

size_t clients_count(const struct clients *c)
{
    return c->by_id.count;
}

struct err clients_expand(struct clients *all, const struct access_client *client,
                          struct scope_set *out)
{
    struct access_client *own = strmap_get(&all->by_id, client->id);
    must(own == client);
    if (own->expanded.count == 0) /* everybody has a role at least */
        TRY(roles_expand(&all->roles, &own->scopes, &all->memory, &own->expanded));
    *out = own->expanded;
    return err_none();
}

struct err clients_expand_scopes(const struct clients *all, const struct scope_set *scopes,
                                 struct arena *a, struct scope_set *out)
{
    static const struct roles none;
    return roles_expand(all ? &all->roles : &none, scopes, a, out);
}

const struct access_client *clients_find(const struct clients *c, struct str id)
{
    return c ? strmap_get(&c->by_id, id) : NULL;
}

const struct static_worker *clients_worker(const struct clients *c, struct str pool,
                                           struct str group, struct str id)
{
    return c ? static_worker_find(&c->workers, pool, group, id) : NULL;
}
